# SPDX-License-Identifier: Apache-2.0
"""RL-CC's policy gradient (Fuhrer et al. 2023, eq. 3) in the fluid model: trains a network in seconds or minutes.

    gradient ~ mean over decisions of delta x gradient of the policy's action

Training is on-policy, without a critic and without noise in the actions. All flows share one network. Eq. 3 does not say *which*
delta belongs to a decision. A probe leaves together with the rate that was just decided, so its answer, the next delta, does not
reflect that rate. Later deltas do: a decision is credited with the delta `later` decisions on. Nothing else in this training
matters as much (docs/rlcc.md).

A network with memory is trained on stretches of consecutive decisions of a flow. Its gradient goes back to the start of the
stretch (truncated BPTT).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import UsageError
from dc_gym.nets import lstm, mlp
from dc_gym.nets.adam import Adam
from dc_gym.nets.decision import LEAST_RATE, Floats, Scaling
from dc_gym.nets.lstm import Lstm
from dc_gym.nets.mlp import Mlp

MOST_LATER = 4
STARTS: dict[str, Callable[[np.random.Generator], Mlp | Lstm]] = {"mlp": mlp.start, "lstm": lstm.start}
LEAST_START = 0.02
"""The lowest starting rate. Three in ten flows begin at line rate, the others at a rate drawn log-uniformly from here to it."""


def check_net(name: str) -> None:
    """Raises UsageError if there is no such network."""
    if name not in STARTS:
        raise UsageError(f"a network {name!r}: give one of {', '.join(STARTS)}")


@dataclass(frozen=True, slots=True)
class Training:
    """The settings of a training. The default traffic is PCC-RL's: two, four and eight flows to one."""

    net: str = "mlp"
    """The kind of network: a key of STARTS."""
    seed: int = 1
    updates: int = 1200
    batch: int = 4096
    """Number of decisions per update."""
    rate: float = 0.01
    """Initial learning rate of Adam; decays linearly to 0."""
    later: int = 3
    """A decision is credited with the delta of the flow's decision that comes this many decisions later."""
    most_error: float = 2.0
    """Errors are clipped at this many targets. Otherwise a full queue would outweigh everything else."""
    bottlenecks: tuple[tuple[int, int], ...] = ((2, 80), (4, 60), (8, 40))
    """Pairs of (number of flows, number of bottlenecks with so many flows)."""
    parts: int = 4
    """Steps of the model per base RTT."""
    buffer: float = 20.0
    """Size of the buffer, in units of what the line sends in a base RTT."""
    renewal: float = 0.002
    """Probability at each decision that the flow ends and another begins."""
    noise: float = 0.0
    """Upper end of the uniform noise added to each inflation."""
    stretch: int = 1
    """Number of consecutive decisions that the gradient goes back over."""

    def __post_init__(self) -> None:
        check_net(self.net)
        if (
            not 1 <= self.later <= MOST_LATER
            or min(self.updates, self.batch, self.parts, self.stretch) < 1
            or not 0 <= self.noise < float("inf")
            or self.seed < 0
        ):
            counts = f"updates {self.updates}, batch {self.batch}, parts {self.parts}, stretch {self.stretch}, seed {self.seed}"
            raise UsageError(
                f"{counts}, noise {self.noise:g}, later {self.later}: is no training; updates, batch, parts and stretch from 1,"
                f" seed and noise from 0, later 1 to {MOST_LATER}"
            )


USUAL = {"mlp": Training(), "lstm": Training(net="lstm", updates=300, rate=0.003, stretch=16)}
"""The usual settings for each kind of network."""


class Network(Protocol):
    """A network that can be trained: Mlp or Lstm."""

    def __init__(self, weights: tuple[Any, ...]) -> None: ...

    @property
    def weights(self) -> tuple[Floats, ...]: ...

    @property
    def memory(self) -> int:
        """How many numbers the network stores per flow."""

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns actions for inputs [flows, 4], and the memory [flows, memory] after them."""

    def ascent(self, inputs: Floats, memory: Floats, factors: Floats) -> list[Floats]:
        """Returns the gradient, by the weights, of the mean of factors * actions over decisions [time, flows]."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Stretches of consecutive decisions.

    The fields hold the inputs [time, flows, 4], the memory before the first decision [flows, ...], and for each decision the
    error `later` decisions on.
    """

    inputs: Floats
    memory: Floats
    errors: Floats


class Bottlenecks:
    """Many bottlenecks at once; each is like fluid.Fluid with parts. Flows are numbered over all of them."""

    def __init__(self, training: Training, scaling: Scaling, memory: int = 0) -> None:
        counts = [flows for flows, number in training.bottlenecks for _ in range(number)]
        self._training, self._scaling = training, scaling
        self._random = np.random.default_rng(training.seed)
        self.link = np.repeat(np.arange(len(counts)), counts)
        """The bottleneck of each flow."""
        self.queue, self._now = np.zeros(len(counts)), 0
        total = len(self.link)
        self.rate, self._acted, self._seen = np.ones(total), np.ones(total), np.ones(total)
        self._due = self._random.random(total) * training.parts
        self._age = np.zeros(total, np.int64)
        self.ends = np.zeros(total, bool)
        """Which flows end with their latest decision; another flow begins in the place of each."""
        self.inputs, self.memory = np.empty((total, 4)), np.empty((total, memory))
        """The inputs of the latest decisions, and the network's memory of each flow; `step` updates the memory."""
        self._kept = training.stretch + training.later
        self._past = np.empty((self._kept, total, 4)), np.empty((self._kept, total, memory))
        """Ring buffers of past inputs and of the memory before them. A decision's place is the flow's age modulo `_kept`."""
        self._begin(np.arange(total))

    def _begin(self, who: npt.NDArray[np.intp]) -> None:
        """Replaces these flows by new ones."""
        drawn, line = self._random.random(len(who)), self._random.random(len(who)) < 0.3
        self.rate[who] = np.where(line, 1.0, LEAST_START ** (1.0 - drawn))
        self.inputs[who], self.memory[who] = [1.0, 0.0, 1.0, 0.0], 0.0
        self._acted[who], self._age[who] = 1.0, 0

    def step(self, net: Network) -> Stretches:
        """Advances by one step. Returns the stretches whose last error is now known."""
        who, ended = self.look()
        actions, self.memory[who] = net.step(self.inputs[who], self.memory[who])
        self.act(who, actions)
        return ended

    def look(self) -> tuple[npt.NDArray[np.intp], Stretches]:
        """Updates `inputs` and `ends` of the flows whose probes are back.

        Returns these flows, and the stretches that `step` returns.
        """
        who = np.flatnonzero(self._due <= self._now)
        errors = self._scaling.error(self._seen[who], self.rate[who])
        last, place = self.inputs[who], self._age[who] % self._kept
        self.inputs[who] = np.stack([last[:, 2], last[:, 3], self._acted[who], errors], axis=1)
        self._past[0][place, who], self._past[1][place, who] = self.inputs[who], self.memory[who]
        self.ends[who] = self._random.random(len(who)) < self._training.renewal
        return who, self._ended(who)

    def _ended(self, who: npt.NDArray[np.intp]) -> Stretches:
        """Returns the stretches whose last decision's error has just been seen."""
        stretch, later = self._training.stretch, self._training.later
        done = self._age[who] - later + 1
        who = who[(done > 0) & (done % stretch == 0)]
        ages = self._age[who] - later - stretch + 1 + np.arange(stretch)[:, None]
        inputs, memory = self._past
        places, afterwards = ages % self._kept, (ages + later) % self._kept
        return Stretches(inputs[places, who], memory[places[0], who], inputs[afterwards, who, 3])

    def act(self, who: npt.NDArray[np.intp], actions: Floats) -> None:
        """Applies the decisions of these flows, then advances time by one step."""
        self._acted[who] = np.round(actions * 2.0**30) / 2.0**30  # tanh differs between machines
        self.rate[who] = np.clip(self.rate[who] * self._acted[who], LEAST_RATE, 1.0)
        self._age[who] += 1
        self._begin(who[self.ends[who]])
        self._seen[who] = 1.0 + self.queue[self.link[who]] + self._training.noise * self._random.random(len(who))
        self._due[who] = self._now + self._training.parts * self._seen[who]
        sums = np.bincount(self.link, self.rate, len(self.queue))
        self.queue = np.clip(self.queue + (sums - 1.0) / self._training.parts, 0.0, self._training.buffer)
        self._now += 1


def train(training: Training, scaling: Scaling | None = None) -> Mlp | Lstm:
    """Returns a trained network. One seed gives one network on every machine."""
    scaling, random = scaling or Scaling(), np.random.default_rng(training.seed)
    net = STARTS[training.net](random)
    model, adam = Bottlenecks(training, scaling, net.memory), Adam(net.weights)
    for update in range(training.updates):
        found = _collect(model, net, training.batch)
        slopes = _against(net, found, scaling, training)
        net = type(net)(adam.step(net.weights, slopes, training.rate * (1.0 - update / training.updates)))
    return net


def _collect(model: Bottlenecks, net: Network, count: int) -> Stretches:
    """Collects at least `count` decisions."""
    found: list[Stretches] = []
    while sum(each.errors.size for each in found) < count:
        found.append(model.step(net))
    inputs, errors = (np.concatenate([getattr(each, name) for each in found], axis=1) for name in ("inputs", "errors"))
    return Stretches(inputs, np.concatenate([each.memory for each in found]), errors)


def _against(net: Network, found: Stretches, scaling: Scaling, training: Training) -> list[Floats]:
    """Returns the slopes for Adam: the mean of error (-delta, in targets) times the action's gradient by the weights."""
    return net.ascent(found.inputs, found.memory, pulls(found.errors, scaling, training.most_error))


def pulls(errors: Floats, scaling: Scaling, most: float) -> Floats:
    """Returns errors in targets, clipped at `most`."""
    return np.asarray(np.clip(errors / scaling.unit, -1.0, most))
