# SPDX-License-Identifier: Apache-2.0
"""RL-CC's policy gradient (Fuhrer et al. 2023, eq. 3) on the fluid model: a 4-12-12-1 network from random weights in seconds.

    gradient ~ mean over decisions of delta x gradient of the policy's action

On-policy, without a critic and without noise in the actions; all flows share one network. What eq. 3 leaves open is *which*
delta belongs to a decision. A probe leaves together with the rate that was just decided, so its answer, the next delta, knows
nothing of that rate. Deltas `later` decisions on do, and nothing else about this training matters as much: docs/rlcc-policy.md.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.ctrl.nic.adam import Adam
from dc_gym.ctrl.nic.fit import start
from dc_gym.ctrl.nic.mlp import Mlp, gradient, layers
from dc_gym.ctrl.nic.observation import LEAST_RATE, MOST, Floats, Scaling, action
from dc_gym.ctrl.nic.policy_file import PolicyFile
from dc_gym.errors import UsageError

MOST_LATER = 4
LEAST_START = 0.02
"""Flows begin at line rate, three in ten, or at any rate from here on, evenly by its logarithm."""


@dataclass(frozen=True, slots=True)
class Training:
    """How a network is trained. PCC-RL's cases by default: two, four and eight flows to one."""

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

    def __post_init__(self) -> None:
        if not 1 <= self.later <= MOST_LATER or min(self.updates, self.batch, self.parts) < 1 or self.noise < 0 or self.seed < 0:
            raise UsageError(
                f"{self} is no training: updates, batch and parts from 1, seed and noise from 0, later 1 to {MOST_LATER}"
            )


class Bottlenecks:
    """Many bottlenecks at once, as fluid.Fluid has one with parts; flows are numbered over all of them."""

    def __init__(self, training: Training, scaling: Scaling) -> None:
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
        self._inputs = np.tile([1.0, 0.0, 1.0, 0.0], (training.later, total, 1))
        """Of the latest decisions, the newest first."""
        self._begin(np.arange(total))

    def _begin(self, who: npt.NDArray[np.intp]) -> None:
        """New flows in the place of these."""
        drawn, line = self._random.random(len(who)), self._random.random(len(who)) < 0.3
        self.rate[who] = np.where(line, 1.0, LEAST_START ** (1.0 - drawn))
        self._inputs[0][who] = [1.0, 0.0, 1.0, 0.0]
        self._acted[who], self._age[who] = 1.0, 0

    def step(self, net: Mlp) -> tuple[Floats, Floats]:
        """One step; answers inputs [rows, 4] of decisions, and the errors that came later."""
        who, rows = self.look()
        self.act(who, net(self.inputs[who]))
        return rows

    def look(self) -> tuple[npt.NDArray[np.intp], tuple[Floats, Floats]]:
        """Whose probes are back, with `inputs` and `ends` of theirs; and what `step` answers."""
        who = np.flatnonzero(self._due <= self._now)
        errors = self._scaling.error(self._seen[who], self.rate[who])
        old = self._age[who] >= self._training.later
        rows = self._inputs[-1][who[old]].copy(), errors[old]
        last = self._inputs[0][who]
        for number in range(self._training.later - 1, 0, -1):
            self._inputs[number][who] = self._inputs[number - 1][who]
        self._inputs[0][who] = np.stack([last[:, 2], last[:, 3], self._acted[who], errors], axis=1)
        self.ends[who] = self._random.random(len(who)) < self._training.renewal
        return who, rows

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

    @property
    def inputs(self) -> Floats:
        """[flows, 4] of the latest decisions."""
        return np.asarray(self._inputs[0])


def train(training: Training, scaling: Scaling | None = None) -> Mlp:
    """A trained network; one seed, one network, on every machine."""
    scaling = scaling or Scaling()
    model, net = Bottlenecks(training, scaling), Mlp(start(np.random.default_rng(training.seed)))
    adam = Adam(net.weights)
    for update in range(training.updates):
        inputs, errors = _collect(model, net, training.batch)
        falling = 1.0 - update / training.updates
        net = Mlp(adam.step(net.weights, _ascent(net, inputs, errors / scaling.unit, training), training.rate * falling))
    return net


def file(training: Training) -> PolicyFile:
    """A trained network as a policy file."""
    scaling = Scaling()
    origin = {"made": "trained on the fluid model", "by": "dcgym nic train", "training": asdict(training)}
    return PolicyFile(train(training, scaling), scaling, origin)


def _collect(model: Bottlenecks, net: Mlp, count: int) -> tuple[Floats, Floats]:
    """So many decisions, or a few more."""
    inputs: list[Floats] = []
    errors: list[Floats] = []
    found = 0
    while found < count:
        seen, later = model.step(net)
        inputs.append(seen)
        errors.append(later)
        found += len(later)
    return np.concatenate(inputs), np.concatenate(errors)


def _ascent(net: Mlp, inputs: Floats, errors: Floats, training: Training) -> list[Floats]:
    """What Adam is to go against: the mean of error (-delta, in targets) times the action's gradient by the weights."""
    columns = np.ascontiguousarray(inputs.T)
    given = layers(net.weights, columns)
    squashed = np.round(np.tanh(given[2][0]) * 2.0**30) / 2.0**30
    acted = action(squashed)
    slope = (MOST - 1.0) * (1.0 - squashed * squashed) * np.where(squashed >= 0, 1.0, acted * acted)
    return gradient(net.weights, columns, given, np.clip(errors, -1.0, training.most_error) * slope / len(errors))
