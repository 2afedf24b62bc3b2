# SPDX-License-Identifier: Apache-2.0
"""A policy's closed loop on a fluid bottleneck: flows share a link, and the sum of their rates less the link's fills its queue.

Times are in base RTTs, rates in fractions of the line. A flow's probe sees the queue at the time it leaves. It comes back one
round trip later. The decision that it triggers takes effect `latency` later; then the next probe leaves. With `parts` 1 all flows
decide together, once per base RTT, on the queue of that moment. In that model RL-CC's eq. 2 is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import UsageError
from dc_gym.nets.decision import LEAST_RATE, Floats, Scaling


@runtime_checkable
class Remembering(Protocol):
    """A policy that stores something for each flow between its decisions."""

    @property
    def memory(self) -> int:
        """How many numbers the policy stores per flow; a new flow has zeros."""

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns actions for inputs [flows, 4], and the memory [flows, memory] after them."""


Policy = Callable[[Floats], Floats] | Remembering
"""A policy returns actions for inputs [flows, 4], in the order of decision.INPUTS."""
SETTLED = 100
"""Number of decisions on one error after which the answer of a policy with memory no longer changes."""
Flows = npt.NDArray[np.intp]
"""Numbers of flows."""


def ask(policy: Policy, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
    """Returns actions for inputs [flows, 4], and the memory [flows, ...] after them.

    A policy without memory leaves it unchanged.
    """
    return policy.step(inputs, memory) if isinstance(policy, Remembering) else (policy(inputs), memory)


def kept_by(policy: Policy) -> int:
    """Returns how many numbers a policy stores per flow."""
    return policy.memory if isinstance(policy, Remembering) else 0


def used_to(policy: Policy, inputs: Floats) -> Floats:
    """Returns the memory of flows that have seen these inputs [flows, 4] for long."""
    memory: Floats = np.zeros((len(inputs), kept_by(policy)))
    for _ in range(SETTLED if memory.size else 0):
        _, memory = ask(policy, inputs, memory)
    return memory


def older_seen(policy: Policy, inputs: Floats) -> Floats:
    """Returns the memory of flows that were on target for long, kept their rate, and then saw the older pair of inputs [flows,
    4].

    The memory of a new flow, all zeros, would be a different start: in training each flow begins at line rate and cuts first.
    """
    rested = np.repeat(used_to(policy, np.array([[1.0, 0.0, 1.0, 0.0]])), len(inputs), axis=0)
    return ask(policy, inputs[:, [0, 1, 0, 1]], rested)[1]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The bottleneck that the flows share, and how they begin."""

    flows: int = 8
    parts: int = 1
    """Steps per base RTT."""
    buffer: float = float("inf")
    """Size of the queue's buffer, in units of what the line sends in a base RTT. Anything beyond it is lost."""
    latency: float = 0.0
    """Time until a decision takes effect."""
    start: float = 0.0
    """First rate of each flow; 0 draws it from half to one and a half of the flow's share."""
    noise: float = 0.0
    """Upper end of the uniform noise added to each inflation; it stands for packets that happen to meet."""
    seed: int = 1

    def __post_init__(self) -> None:
        if (
            self.flows < 1
            or self.parts < 1
            or not self.buffer > 0
            or self.latency < 0
            or not 0 <= self.start <= 1
            or self.noise < 0
        ):
            raise UsageError(
                f"{self} is no bottleneck: at least one flow and one step a base RTT, a first rate of 0 to 1, no minus"
            )


@dataclass(slots=True)
class Fluid:
    """The model's state; `step` advances it by one part of a base RTT."""

    bottleneck: Bottleneck
    scaling: Scaling = field(default_factory=Scaling)
    queue: float = 0.0
    lost: float = 0.0
    rate: Floats = field(init=False)
    inputs: Floats = field(init=False)
    """Inputs [flows, 4] of the latest decisions."""
    actions: Floats = field(init=False)
    memory: Floats = field(init=False)
    """[flows, ...]: the policy's memory of each flow."""
    decided: int = 0
    _seen: Floats = field(init=False)
    _due: Floats = field(init=False)
    _now: int = 0
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        shape = self.bottleneck
        self._random = np.random.default_rng(shape.seed)
        share = (0.5 + self._random.random(shape.flows)) / shape.flows
        self.rate = np.full(shape.flows, shape.start) if shape.start else np.clip(share, LEAST_RATE, 1.0)
        self.inputs = np.tile([1.0, 0.0, 1.0, 0.0], (shape.flows, 1))
        self.actions = np.ones(shape.flows)
        self.memory = np.zeros((shape.flows, 0))
        self._seen = np.ones(shape.flows)
        self._due = self._random.random(shape.flows) * shape.parts if shape.parts > 1 else np.zeros(shape.flows)

    def step(self, policy: Policy) -> Flows:
        """Makes the decisions that are due, then updates the queue. Returns the numbers of the flows that decided."""
        who = np.flatnonzero(self._due <= self._now)
        if len(who):
            self.decide(policy, who)
        self._flow()
        self._now += 1
        return who

    def decide(self, policy: Policy, who: Flows) -> None:
        """Makes one decision for each of these flows and sends their next probes."""
        if self.bottleneck.parts == 1:
            self._seen[who] = self._probe(len(who))
        old = self.inputs[who]
        errors = self.scaling.error(self._seen[who], self.rate[who])
        self.inputs[who] = np.stack([old[:, 2], old[:, 3], self.actions[who], errors], axis=1)
        if self.memory.shape[1] != kept_by(policy):
            self.memory = np.zeros((self.bottleneck.flows, kept_by(policy)))
        self.actions[who], self.memory[who] = ask(policy, self.inputs[who], self.memory[who])
        self.rate[who] = np.clip(self.rate[who] * self.actions[who], LEAST_RATE, 1.0)
        self.decided += len(who)
        if self.bottleneck.parts > 1:
            self._seen[who] = self._probe(len(who))
            self._due[who] = self._now + self.bottleneck.parts * (self._seen[who] + self.bottleneck.latency)

    def begin(self, who: Flows) -> None:
        """Replaces these flows by new ones as a NIC starts them: at line rate, with a first probe at once.

        It needs parts above 1.
        """
        self.rate[who], self.actions[who], self.inputs[who], self.memory[who] = 1.0, 1.0, [1.0, 0.0, 1.0, 0.0], 0.0
        self._seen[who] = self._probe(len(who))
        self._due[who] = self._now + self.bottleneck.parts * (self._seen[who] + self.bottleneck.latency)

    def end(self, who: Flows) -> None:
        """Stops these flows until they begin again."""
        self.rate[who], self._due[who] = 0.0, np.inf

    def _probe(self, count: int) -> Floats:
        met = self._random.random(count) * self.bottleneck.noise if self.bottleneck.noise else np.zeros(count)
        return np.asarray(1.0 + self.queue + met)

    def _flow(self) -> None:
        after = max(self.queue + (float(self.rate.sum()) - 1.0) / self.bottleneck.parts, 0.0)
        self.queue = min(after, self.bottleneck.buffer)
        self.lost += after - self.queue


@dataclass(frozen=True, slots=True)
class Outcome:
    """The state at which flows settle, measured over the second half of a run."""

    flows: int
    inflation: float
    """Mean RTT over base RTT."""
    spread: float
    """Standard deviation of the inflation over time."""
    rates: float
    """Sum of all rates."""
    least: float
    """Mean rate of the slowest flow over that of the fastest."""
    jain: float
    lost: float
    """Volume that overflowed, in units of what the line sends in a base RTT."""


def settle(policy: Policy, bottleneck: Bottleneck, scaling: Scaling | None = None, round_trips: int = 2000) -> Outcome:
    """Runs a policy for `round_trips` base RTTs."""
    fluid = Fluid(bottleneck, scaling or Scaling())
    steps = round_trips * bottleneck.parts
    queues, rates, lost = np.zeros(steps), np.zeros(bottleneck.flows), 0.0
    for number in range(steps):
        fluid.step(policy)
        queues[number] = fluid.queue
        if number == steps // 2:
            lost = fluid.lost
        if number >= steps // 2:
            rates += fluid.rate
    late, mean = queues[steps // 2 :], rates / (steps - steps // 2)
    jain = float(mean.sum() ** 2 / (len(mean) * (mean * mean).sum()))
    least = float(mean.min() / mean.max())
    return Outcome(
        bottleneck.flows, 1.0 + float(late.mean()), float(late.std()), float(mean.sum()), least, jain, fluid.lost - lost
    )


def outcomes(policy: Policy, flows: Iterable[int], scaling: Scaling | None = None, round_trips: int = 2000) -> list[Outcome]:
    """Runs `settle` for several numbers of flows, with one part per base RTT."""
    return [settle(policy, Bottleneck(count), scaling, round_trips) for count in flows]


def rest(policy: Policy, scaling: Scaling | None = None) -> float:
    """Returns eq. 2's offset: the smallest error, in scaled targets, at which a policy that sees it again and again does not
    raise."""
    unit = (scaling or Scaling()).unit
    errors = np.linspace(-1.0, 10.0, 1101 if kept_by(policy) else 11001)
    ones = np.ones_like(errors)
    inputs = np.stack([ones, errors * unit, ones, errors * unit], axis=1)
    acted, _ = ask(policy, inputs, used_to(policy, inputs))
    return float(errors[int(np.argmax(acted <= 1.0))])


def offset(policy: Policy, scaling: Scaling | None = None, flows: int = 64) -> float:
    """Returns the closed loop's offset: where `flows` flows settle, expressed as eq. 2's offset.

    Trees are step functions and keep a rate within a band of errors. Flows come to rest inside the band, above its lower end.
    """
    scaling = scaling or Scaling()
    found = settle(policy, Bottleneck(flows), scaling)
    return (found.inflation - scaling.beta) / (float(scaling.inflation(flows)) - scaling.beta) - 1.0
