# SPDX-License-Identifier: Apache-2.0
"""RL-CC's policy gradient (gradient.py) in the fluid model: trains a network in seconds or minutes, without labs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import UsageError
from dc_gym.methods.rlcc.decision import MIN_RATE, Scaling
from dc_gym.methods.rlcc.offline.gradient import Batch, Learner, LearnerSettings, TrainableNetwork
from dc_gym.nets.fixed_point import Floats

MIN_START_RATE = 0.02
"""The lowest starting rate. Three in ten flows begin at line rate, the others at a rate drawn log-uniformly from here to it."""


@dataclass(frozen=True, slots=True)
class FluidTrainingSettings(LearnerSettings):
    """The settings of a training in the fluid model. The default traffic is PCC-RL's: two, four and eight flows to one."""

    batch_size: int = 4096
    """Number of decisions per update."""
    bottlenecks: tuple[tuple[int, int], ...] = ((2, 80), (4, 60), (8, 40))
    """Pairs of (number of flows, number of bottlenecks with so many flows)."""
    steps_per_rtt: int = 4
    """Steps of the model per base RTT."""
    buffer_bdp: float = 20.0
    """Size of the buffer, in units of the bytes that the line sends in a base RTT."""
    flow_end_probability: float = 0.002
    """Probability at each decision that the flow ends and another begins."""
    noise: float = 0.0
    """Upper end of the uniform noise added to each inflation."""
    sequence_length: int = 1
    """Number of consecutive decisions that the gradient goes back over."""

    def __post_init__(self) -> None:
        self.check()
        for name in ("batch_size", "steps_per_rtt", "sequence_length"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)}: give 1 or more")
        if not 0 <= self.noise < float("inf"):
            raise UsageError(f"noise = {self.noise:g}: give a number from 0")
        if not self.bottlenecks or min(min(pair) for pair in self.bottlenecks) < 1:
            raise UsageError(f"bottlenecks = {self.bottlenecks}: give pairs of flows and bottlenecks, both from 1")


USUAL = {
    "mlp": FluidTrainingSettings(),
    "lstm": FluidTrainingSettings(net="lstm", updates=300, learning_rate=0.003, sequence_length=16),
}
"""The usual settings for each kind of network."""


class Bottlenecks:
    """Many bottlenecks at once; each is like fluid.Fluid with steps. Flows are numbered over all of them."""

    def __init__(self, settings: FluidTrainingSettings, scaling: Scaling, memory: int = 0) -> None:
        counts = [flows for flows, number in settings.bottlenecks for _ in range(number)]
        self._settings, self._scaling = settings, scaling
        self._random = np.random.default_rng(settings.seed)
        self.link = np.repeat(np.arange(len(counts)), counts)
        """The bottleneck of each flow."""
        self.queue, self._now = np.zeros(len(counts)), 0
        total = len(self.link)
        self.rate, self._acted, self._seen = np.ones(total), np.ones(total), np.ones(total)
        self._due = self._random.random(total) * settings.steps_per_rtt
        self._age = np.zeros(total, np.int64)
        self.ends = np.zeros(total, bool)
        """Which flows end with their latest decision; another flow begins in the place of each."""
        self.inputs, self.memory = np.empty((total, 4)), np.empty((total, memory))
        """The inputs of the latest decisions, and the network's memory of each flow; `step` updates the memory."""
        self._kept = settings.sequence_length + settings.delta_lag
        self._past = np.empty((self._kept, total, 4)), np.empty((self._kept, total, memory))
        """Ring buffers of past inputs and of the memory before them. A decision's place is the flow's age modulo `_kept`."""
        self._begin(np.arange(total))

    def _begin(self, flows: npt.NDArray[np.intp]) -> None:
        """Replaces these flows by new ones."""
        drawn, line = self._random.random(len(flows)), self._random.random(len(flows)) < 0.3
        self.rate[flows] = np.where(line, 1.0, MIN_START_RATE ** (1.0 - drawn))
        self.inputs[flows], self.memory[flows] = [1.0, 0.0, 1.0, 0.0], 0.0
        self._acted[flows], self._age[flows] = 1.0, 0

    def step(self, net: TrainableNetwork) -> Batch:
        """Advances by one step. Returns the decisions whose last error is now known."""
        flows, ended = self.look()
        actions, self.memory[flows] = net.step(self.inputs[flows], self.memory[flows])
        self.act(flows, actions)
        return ended

    def look(self) -> tuple[npt.NDArray[np.intp], Batch]:
        """Updates `inputs` and `ends` of the flows whose probes are back.

        Returns these flows, and the decisions that `step` returns.
        """
        flows = np.flatnonzero(self._due <= self._now)
        errors = self._scaling.error(self._seen[flows], self.rate[flows])
        last, slot = self.inputs[flows], self._age[flows] % self._kept
        self.inputs[flows] = np.stack([last[:, 2], last[:, 3], self._acted[flows], errors], axis=1)
        self._past[0][slot, flows], self._past[1][slot, flows] = self.inputs[flows], self.memory[flows]
        self.ends[flows] = self._random.random(len(flows)) < self._settings.flow_end_probability
        return flows, self._ended(flows)

    def _ended(self, flows: npt.NDArray[np.intp]) -> Batch:
        """Returns the decisions whose last error has just been seen."""
        sequence_length, delta_lag = self._settings.sequence_length, self._settings.delta_lag
        count = self._age[flows] - delta_lag + 1
        flows = flows[(count > 0) & (count % sequence_length == 0)]
        ages = self._age[flows] - delta_lag - sequence_length + 1 + np.arange(sequence_length)[:, None]
        inputs, memory = self._past
        places, afterwards = ages % self._kept, (ages + delta_lag) % self._kept
        errors = inputs[afterwards, flows, 3]
        return Batch(inputs[places, flows], memory[places[0], flows], errors, np.ones_like(errors, bool))

    def act(self, flows: npt.NDArray[np.intp], actions: Floats) -> None:
        """Applies the decisions of these flows, then advances time by one step."""
        self._acted[flows] = np.round(actions * 2.0**30) / 2.0**30  # tanh differs between machines
        self.rate[flows] = np.clip(self.rate[flows] * self._acted[flows], MIN_RATE, 1.0)
        self._age[flows] += 1
        self._begin(flows[self.ends[flows]])
        self._seen[flows] = 1.0 + self.queue[self.link[flows]] + self._settings.noise * self._random.random(len(flows))
        self._due[flows] = self._now + self._settings.steps_per_rtt * self._seen[flows]
        sums = np.bincount(self.link, self.rate, len(self.queue))
        self.queue = np.clip(self.queue + (sums - 1.0) / self._settings.steps_per_rtt, 0.0, self._settings.buffer_bdp)
        self._now += 1


def train(
    settings: FluidTrainingSettings, scaling: Scaling | None = None, on_update: Callable[[Learner], None] = lambda learner: None
) -> Learner:
    """Trains to the end, and calls `on_update` after each update. One seed gives one network on every machine."""
    learner = Learner.new(settings, scaling or Scaling())
    model = Bottlenecks(settings, learner.scaling, learner.net.memory)
    for _ in range(settings.updates):
        learner.update(collect(model, learner.net, settings.batch_size))
        on_update(learner)
    return learner


def collect(model: Bottlenecks, net: TrainableNetwork, count: int) -> Batch:
    """Collects at least `count` decisions."""
    batches: list[Batch] = []
    while sum(batch.errors.size for batch in batches) < count:
        batches.append(model.step(net))
    return Batch.joined(batches)
