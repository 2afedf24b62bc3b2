# SPDX-License-Identifier: Apache-2.0
"""A policy's closed loop on a fluid bottleneck: flows share a link, and the sum of their rates less the link's fills its queue.

Times are in base RTTs, rates in fractions of the line. A flow's probe sees the queue at the time it leaves. It comes back one
round trip later. The decision that it triggers takes effect `latency_rtts` later; then the next probe leaves. With one step per
RTT all flows decide together, once per base RTT, on the queue of that moment. In that model RL-CC's eq. 2 is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import UsageError
from dc_gym.methods.rlcc.decision import MIN_RATE, Scaling
from dc_gym.nets.fixed_point import Floats


@runtime_checkable
class Recurrent(Protocol):
    """A policy that stores something for each flow between its decisions."""

    @property
    def memory(self) -> int:
        """The count of numbers that the policy stores for each flow; a new flow has zeros."""

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns actions for inputs [flows, 4], and the memory [flows, memory] after them."""


Policy = Callable[[Floats], Floats] | Recurrent
"""A policy returns actions for inputs [flows, 4], in the order of decision.INPUTS."""
SETTLING_DECISIONS = 100
"""Number of decisions on one error after which the answer of a policy with memory no longer changes."""
Flows = npt.NDArray[np.intp]
"""Numbers of flows."""


def evaluate(policy: Policy, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
    """Returns actions for inputs [flows, 4], and the memory [flows, ...] after them.

    A policy without memory leaves it unchanged.
    """
    return policy.step(inputs, memory) if isinstance(policy, Recurrent) else (policy(inputs), memory)


def memory_size(policy: Policy) -> int:
    """Returns how many numbers a policy stores per flow."""
    return policy.memory if isinstance(policy, Recurrent) else 0


def settled_memory(policy: Policy, inputs: Floats) -> Floats:
    """Returns the memory of flows that have seen these inputs [flows, 4] for long."""
    memory: Floats = np.zeros((len(inputs), memory_size(policy)))
    for _ in range(SETTLING_DECISIONS if memory.size else 0):
        _, memory = evaluate(policy, inputs, memory)
    return memory


def memory_after_older(policy: Policy, inputs: Floats) -> Floats:
    """Returns the memory of flows that were on target for long, kept their rate, and then saw the older pair of inputs [flows,
    4].

    The memory of a new flow, all zeros, would be a different start: in training each flow begins at line rate and cuts first.
    """
    rested = np.repeat(settled_memory(policy, np.array([[1.0, 0.0, 1.0, 0.0]])), len(inputs), axis=0)
    return evaluate(policy, inputs[:, [0, 1, 0, 1]], rested)[1]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The bottleneck that the flows share, and how they begin."""

    flows: int = 8
    steps_per_rtt: int = 1
    """Steps per base RTT."""
    buffer_bdp: float = float("inf")
    """Size of the queue's buffer, in units of the bytes that the line sends in a base RTT. Anything beyond it is lost."""
    latency_rtts: float = 0.0
    """Time until a decision takes effect."""
    start_rate: float = 0.0
    """First rate of each flow; 0 draws it from half to one and a half of the flow's share."""
    noise: float = 0.0
    """Upper end of the uniform noise added to each inflation; it stands for packets that happen to meet."""
    seed: int = 1

    def __post_init__(self) -> None:
        if (
            self.flows < 1
            or self.steps_per_rtt < 1
            or not self.buffer_bdp > 0
            or self.latency_rtts < 0
            or not 0 <= self.start_rate <= 1
            or self.noise < 0
        ):
            raise UsageError(
                f"{self} is no bottleneck: at least one flow and one step a base RTT, a first rate of 0 to 1, no minus"
            )


@dataclass(slots=True)
class Fluid:
    """The model's state; `step` advances it by a part of a base RTT."""

    bottleneck: Bottleneck
    scaling: Scaling = field(default_factory=Scaling)
    queue: float = 0.0
    lost_bdp: float = 0.0
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
        self.rate = np.full(shape.flows, shape.start_rate) if shape.start_rate else np.clip(share, MIN_RATE, 1.0)
        self.inputs = np.tile([1.0, 0.0, 1.0, 0.0], (shape.flows, 1))
        self.actions = np.ones(shape.flows)
        self.memory = np.zeros((shape.flows, 0))
        self._seen = np.ones(shape.flows)
        self._due = self._random.random(shape.flows) * shape.steps_per_rtt if shape.steps_per_rtt > 1 else np.zeros(shape.flows)

    def step(self, policy: Policy) -> Flows:
        """Makes the decisions that are due, then updates the queue. Returns the numbers of the flows that decided."""
        flows = np.flatnonzero(self._due <= self._now)
        if len(flows):
            self.decide(policy, flows)
        self._flow()
        self._now += 1
        return flows

    def decide(self, policy: Policy, flows: Flows) -> None:
        """Makes one decision for each of these flows and sends their next probes."""
        if self.bottleneck.steps_per_rtt == 1:
            self._seen[flows] = self._probe(len(flows))
        old = self.inputs[flows]
        errors = self.scaling.error(self._seen[flows], self.rate[flows])
        self.inputs[flows] = np.stack([old[:, 2], old[:, 3], self.actions[flows], errors], axis=1)
        if self.memory.shape[1] != memory_size(policy):
            self.memory = np.zeros((self.bottleneck.flows, memory_size(policy)))
        self.actions[flows], self.memory[flows] = evaluate(policy, self.inputs[flows], self.memory[flows])
        self.rate[flows] = np.clip(self.rate[flows] * self.actions[flows], MIN_RATE, 1.0)
        self.decided += len(flows)
        if self.bottleneck.steps_per_rtt > 1:
            self._seen[flows] = self._probe(len(flows))
            self._due[flows] = self._now + self.bottleneck.steps_per_rtt * (self._seen[flows] + self.bottleneck.latency_rtts)

    def start_flows(self, flows: Flows) -> None:
        """Replaces these flows by new ones as a NIC starts them: at line rate, with a first probe at once.

        It needs steps_per_rtt above 1.
        """
        self.rate[flows], self.actions[flows], self.inputs[flows], self.memory[flows] = 1.0, 1.0, [1.0, 0.0, 1.0, 0.0], 0.0
        self._seen[flows] = self._probe(len(flows))
        self._due[flows] = self._now + self.bottleneck.steps_per_rtt * (self._seen[flows] + self.bottleneck.latency_rtts)

    def stop_flows(self, flows: Flows) -> None:
        """Stops these flows until they begin again."""
        self.rate[flows], self._due[flows] = 0.0, np.inf

    def _probe(self, count: int) -> Floats:
        met = self._random.random(count) * self.bottleneck.noise if self.bottleneck.noise else np.zeros(count)
        return np.asarray(1.0 + self.queue + met)

    def _flow(self) -> None:
        after = max(self.queue + (float(self.rate.sum()) - 1.0) / self.bottleneck.steps_per_rtt, 0.0)
        self.queue = min(after, self.bottleneck.buffer_bdp)
        self.lost_bdp += after - self.queue


@dataclass(frozen=True, slots=True)
class SettledState:
    """The state at which flows settle, measured over the second half of a run."""

    flows: int
    inflation: float
    """Mean RTT over base RTT."""
    inflation_std: float
    """Standard deviation of the inflation over time."""
    sum_of_rates: float
    """Sum of all rates."""
    slowest_over_fastest: float
    """Mean rate of the slowest flow over the mean rate of the fastest."""
    jain: float
    lost_bdp: float
    """Volume that overflowed, in units of the bytes that the line sends in a base RTT."""


def settle(policy: Policy, bottleneck: Bottleneck, scaling: Scaling | None = None, round_trips: int = 2000) -> SettledState:
    """Runs a policy for `round_trips` base RTTs."""
    fluid = Fluid(bottleneck, scaling or Scaling())
    steps = round_trips * bottleneck.steps_per_rtt
    queues, rates, lost = np.zeros(steps), np.zeros(bottleneck.flows), 0.0
    for number in range(steps):
        fluid.step(policy)
        queues[number] = fluid.queue
        if number == steps // 2:
            lost = fluid.lost_bdp
        if number >= steps // 2:
            rates += fluid.rate
    late, mean = queues[steps // 2 :], rates / (steps - steps // 2)
    return SettledState(
        flows=bottleneck.flows,
        inflation=1.0 + float(late.mean()),
        inflation_std=float(late.std()),
        sum_of_rates=float(mean.sum()),
        slowest_over_fastest=float(mean.min() / mean.max()),
        jain=float(mean.sum() ** 2 / (len(mean) * (mean * mean).sum())),
        lost_bdp=fluid.lost_bdp - lost,
    )


def outcomes(policy: Policy, flows: Iterable[int], scaling: Scaling | None = None, round_trips: int = 2000) -> list[SettledState]:
    """Runs `settle` for several numbers of flows, with one step per base RTT."""
    return [settle(policy, Bottleneck(count), scaling, round_trips) for count in flows]


def resting_error(policy: Policy, scaling: Scaling | None = None) -> float:
    """Returns eq. 2's offset: the smallest error, in scaled targets, at which a policy that sees it again and again does not
    raise."""
    unit = (scaling or Scaling()).unit
    errors = np.linspace(-1.0, 10.0, 1101 if memory_size(policy) else 11001)
    ones = np.ones_like(errors)
    inputs = np.stack([ones, errors * unit, ones, errors * unit], axis=1)
    acted, _ = evaluate(policy, inputs, settled_memory(policy, inputs))
    return float(errors[int(np.argmax(acted <= 1.0))])


def offset(policy: Policy, scaling: Scaling | None = None, flows: int = 64) -> float:
    """Returns the closed loop's offset: where `flows` flows settle, expressed as eq. 2's offset.

    Trees are step functions and keep a rate within a band of errors. Flows come to rest inside the band, above its lower end.
    """
    scaling = scaling or Scaling()
    equilibrium = settle(policy, Bottleneck(flows), scaling)
    return (equilibrium.inflation - scaling.beta) / (float(scaling.inflation(flows)) - scaling.beta) - 1.0
