# SPDX-License-Identifier: Apache-2.0
"""RL-CC's policy gradient (Fuhrer et al. 2023, eq. 3) on the fluid model: a network from random weights in seconds or minutes.

    gradient ~ mean over decisions of delta x gradient of the policy's action

On-policy, without a critic and without noise in the actions; all flows share one network. What eq. 3 leaves open is *which*
delta belongs to a decision. A probe leaves together with the rate that was just decided, so its answer, the next delta, knows
nothing of that rate. Deltas `later` decisions on do, and nothing else about this training matters as much: docs/rlcc-policy.md.

A network that remembers is trained on stretches of flows' lives: its gradient goes back to their beginnings (truncated BPTT).
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
"""Flows begin at line rate, three in ten, or at any rate from here on, evenly by its logarithm."""


def check_net(name: str) -> None:
    """UsageError where there is no such network."""
    if name not in STARTS:
        raise UsageError(f"a network {name!r}: give one of {', '.join(STARTS)}")


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is trained. PCC-RL's cases by default: two, four and eight flows to one."""

    net: str = "mlp"
    """One of STARTS."""
    seed: int = 1
    updates: int = 1200
    batch: int = 4096
    """Decisions of an update."""
    rate: float = 0.01
    """Of learning (Adam) at first; it falls to 0 on a straight line."""
    later: int = 3
    """The delta of a decision is that of so many decisions later."""
    most_error: float = 2.0
    """Errors count up to so many targets: a full queue would drown all else."""
    bottlenecks: tuple[tuple[int, int], ...] = ((2, 80), (4, 60), (8, 40))
    """(flows, bottlenecks with so many)."""
    parts: int = 4
    """Steps of the model a base RTT."""
    buffer: float = 20.0
    """In what the line sends in a base RTT."""
    renewal: float = 0.002
    """Of a flow at each decision: it ends, and another begins."""
    noise: float = 0.0
    """Uniform, up to so much inflation more."""
    stretch: int = 1
    """Decisions in a row that the gradient goes back over."""

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
"""What a network of each kind is trained with."""


class Network(Protocol):
    """What is trained: Mlp, Lstm."""

    def __init__(self, weights: tuple[Any, ...]) -> None: ...

    @property
    def weights(self) -> tuple[Floats, ...]: ...

    @property
    def memory(self) -> int:
        """Numbers that it keeps of a flow."""

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Actions for [flows, 4], and the memory [flows, memory] after them."""

    def ascent(self, inputs: Floats, memory: Floats, factors: Floats) -> list[Floats]:
        """The gradient, by the weights, of the mean of factors * actions over decisions [time, flows]."""


@dataclass(frozen=True, slots=True)
class Stretches:
    """Decisions [time, flows, 4] in a row, the memory before them [flows, ...], and the errors that came `later` of each."""

    inputs: Floats
    memory: Floats
    errors: Floats


class Bottlenecks:
    """Many bottlenecks at once, as fluid.Fluid has one with parts; flows are numbered over all of them."""

    def __init__(self, training: Training, scaling: Scaling, memory: int = 0) -> None:
        counts = [flows for flows, number in training.bottlenecks for _ in range(number)]
        self._training, self._scaling = training, scaling
        self._random = np.random.default_rng(training.seed)
        self.link = np.repeat(np.arange(len(counts)), counts)
        """Of each flow."""
        self.queue, self._now = np.zeros(len(counts)), 0
        total = len(self.link)
        self.rate, self._acted, self._seen = np.ones(total), np.ones(total), np.ones(total)
        self._due = self._random.random(total) * training.parts
        self._age = np.zeros(total, np.int64)
        self.ends = np.zeros(total, bool)
        """Whose flow ends with its latest decision, and another begins in its place."""
        self.inputs, self.memory = np.empty((total, 4)), np.empty((total, memory))
        """Of the latest decisions; and what a network keeps of the flows, which `step` looks after."""
        self._kept = training.stretch + training.later
        self._past = np.empty((self._kept, total, 4)), np.empty((self._kept, total, memory))
        """Inputs of so many decisions and the memory before them, each in the place of the flow's age then, modulo so many."""
        self._begin(np.arange(total))

    def _begin(self, who: npt.NDArray[np.intp]) -> None:
        """New flows in the place of these."""
        drawn, line = self._random.random(len(who)), self._random.random(len(who)) < 0.3
        self.rate[who] = np.where(line, 1.0, LEAST_START ** (1.0 - drawn))
        self.inputs[who], self.memory[who] = [1.0, 0.0, 1.0, 0.0], 0.0
        self._acted[who], self._age[who] = 1.0, 0

    def step(self, net: Network) -> Stretches:
        """One step; answers the stretches whose last error has come."""
        who, ended = self.look()
        actions, self.memory[who] = net.step(self.inputs[who], self.memory[who])
        self.act(who, actions)
        return ended

    def look(self) -> tuple[npt.NDArray[np.intp], Stretches]:
        """Whose probes are back, with `inputs` and `ends` of theirs; and what `step` answers."""
        who = np.flatnonzero(self._due <= self._now)
        errors = self._scaling.error(self._seen[who], self.rate[who])
        last, place = self.inputs[who], self._age[who] % self._kept
        self.inputs[who] = np.stack([last[:, 2], last[:, 3], self._acted[who], errors], axis=1)
        self._past[0][place, who], self._past[1][place, who] = self.inputs[who], self.memory[who]
        self.ends[who] = self._random.random(len(who)) < self._training.renewal
        return who, self._ended(who)

    def _ended(self, who: npt.NDArray[np.intp]) -> Stretches:
        """Those whose last decision's error has just been seen."""
        stretch, later = self._training.stretch, self._training.later
        done = self._age[who] - later + 1
        who = who[(done > 0) & (done % stretch == 0)]
        ages = self._age[who] - later - stretch + 1 + np.arange(stretch)[:, None]
        inputs, memory = self._past
        places, afterwards = ages % self._kept, (ages + later) % self._kept
        return Stretches(inputs[places, who], memory[places[0], who], inputs[afterwards, who, 3])

    def act(self, who: npt.NDArray[np.intp], actions: Floats) -> None:
        """The decisions of those who looked; then time goes on by a step."""
        self._acted[who] = np.round(actions * 2.0**30) / 2.0**30  # no machine's tanh matters
        self.rate[who] = np.clip(self.rate[who] * self._acted[who], LEAST_RATE, 1.0)
        self._age[who] += 1
        self._begin(who[self.ends[who]])
        self._seen[who] = 1.0 + self.queue[self.link[who]] + self._training.noise * self._random.random(len(who))
        self._due[who] = self._now + self._training.parts * self._seen[who]
        sums = np.bincount(self.link, self.rate, len(self.queue))
        self.queue = np.clip(self.queue + (sums - 1.0) / self._training.parts, 0.0, self._training.buffer)
        self._now += 1


def train(training: Training, scaling: Scaling | None = None) -> Mlp | Lstm:
    """A trained network; one seed, one network, on every machine."""
    scaling, random = scaling or Scaling(), np.random.default_rng(training.seed)
    net = STARTS[training.net](random)
    model, adam = Bottlenecks(training, scaling, net.memory), Adam(net.weights)
    for update in range(training.updates):
        found = _collect(model, net, training.batch)
        slopes = _against(net, found, scaling, training)
        net = type(net)(adam.step(net.weights, slopes, training.rate * (1.0 - update / training.updates)))
    return net


def _collect(model: Bottlenecks, net: Network, count: int) -> Stretches:
    """So many decisions, or a few more."""
    found: list[Stretches] = []
    while sum(each.errors.size for each in found) < count:
        found.append(model.step(net))
    inputs, errors = (np.concatenate([getattr(each, name) for each in found], axis=1) for name in ("inputs", "errors"))
    return Stretches(inputs, np.concatenate([each.memory for each in found]), errors)


def _against(net: Network, found: Stretches, scaling: Scaling, training: Training) -> list[Floats]:
    """What Adam is to go against: the mean of error (-delta, in targets) times the action's gradient by the weights."""
    return net.ascent(found.inputs, found.memory, pulls(found.errors, scaling, training.most_error))


def pulls(errors: Floats, scaling: Scaling, most: float) -> Floats:
    """Errors in targets, as far as they count: up to `most`."""
    return np.asarray(np.clip(errors / scaling.unit, -1.0, most))
