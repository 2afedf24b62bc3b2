# SPDX-License-Identifier: Apache-2.0
"""RL-CC's policy gradient (Fuhrer et al. 2023, eq. 3) in numpy: the learner of both grounds, labs and the fluid model.

    gradient ~ mean over decisions of delta x gradient of the policy's action

Training is on-policy, without a critic and without noise in the actions. All flows share one network. Eq. 3 does not define
*which* delta belongs to a decision. A probe leaves together with the rate that was just decided, so its answer, the next delta,
does not reflect that rate. Later deltas do: a decision is credited with the delta `delta_lag` decisions on. Nothing else in this
training matters as much (docs/rlcc.md).

A network with memory is trained on consecutive decisions of a flow. Its gradient goes back to the first of them (truncated BPTT).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import UsageError
from dc_gym.methods.rlcc import lstm, mlp
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.lstm import Lstm
from dc_gym.methods.rlcc.mlp import Mlp
from dc_gym.nets.adam import Adam
from dc_gym.nets.fixed_point import Floats

MAX_DELTA_LAG = 4
RANDOM_NETWORKS: dict[str, Callable[[np.random.Generator], Mlp | Lstm]] = {"mlp": mlp.random_network, "lstm": lstm.random_network}
CURVE = np.dtype([("decisions", "<u4"), ("error", "<f8"), ("reward", "<f8")])
"""A row per update: the number of decisions whose consequences count, the mean size of their clipped errors in targets, and their
mean reward (Scaling.reward)."""


class TrainableNetwork(Protocol):
    """A network that can be trained: Mlp or Lstm."""

    def __init__(self, weights: tuple[Any, ...]) -> None: ...

    @property
    def weights(self) -> tuple[Floats, ...]: ...

    @property
    def memory(self) -> int:
        """The count of numbers that the network stores for each flow."""

    def step(self, inputs: Floats, memory: Floats) -> tuple[Floats, Floats]:
        """Returns actions for inputs [flows, 4], and the memory [flows, memory] after them."""

    def policy_gradient(self, inputs: Floats, memory: Floats, factors: Floats) -> list[Floats]:
        """Returns the gradient, by the weights, of the mean of factors * actions over decisions [time, flows]."""


@dataclass(frozen=True, slots=True)
class LearnerSettings:
    """The settings of a learner. Those of a training on labs and of one in the fluid model have more."""

    net: str = "mlp"
    """The kind of network: a key of RANDOM_NETWORKS."""
    seed: int = 1
    updates: int = 1200
    learning_rate: float = 0.01
    """Initial learning rate of Adam; decays linearly to 0."""
    delta_lag: int = 3
    """A decision is credited with the delta of the flow's decision that comes this many decisions later."""
    max_error: float = 2.0
    """Errors are clipped at this many targets. Otherwise a full queue would outweigh everything else."""
    unclipped: int = 0
    """Number of updates at the end whose errors are not clipped."""
    beta: float | None = None
    """Beta of the reward (eq. 2); None: the preset's."""
    target: float | None = None
    """Target of the reward (eq. 2); None: the preset's."""

    def check(self) -> None:
        """Raises UsageError if a value is out of range."""
        if self.net not in RANDOM_NETWORKS:
            raise UsageError(f"net = {self.net!r}: give one of {', '.join(RANDOM_NETWORKS)}")
        for name, least in (("seed", 0), ("updates", 1), ("delta_lag", 1), ("unclipped", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} = {getattr(self, name)}: give {least} or more")
        if self.delta_lag > MAX_DELTA_LAG:
            raise UsageError(f"delta_lag = {self.delta_lag}: give {MAX_DELTA_LAG} or less")
        if not 0 < self.learning_rate < 1:
            raise UsageError(f"learning_rate = {self.learning_rate:g}: give a number between 0 and 1")
        if not self.max_error > 0:
            raise UsageError(f"max_error = {self.max_error:g}: give a number of targets above 0")
        if self.unclipped > self.updates:
            raise UsageError(f"unclipped = {self.unclipped}: give at most the number of updates ({self.updates})")


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive decisions of many flows, and the error that each decision is credited with."""

    inputs: Floats
    """[time, flows, 4]"""
    memory: Floats
    """[flows, memory]: the network's memory before the first decision."""
    errors: Floats
    """[time, flows]: the error `delta_lag` decisions on."""
    counted: npt.NDArray[np.bool_]
    """[time, flows]: which decisions count. The others only led to ones that count, or are padding."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Joins batches of different flows. Shorter ones are padded."""
        time = max(len(part.errors) for part in parts)
        inputs, errors, counted = (
            np.concatenate([_padded(getattr(part, name), time) for part in parts], axis=1)
            for name in ("inputs", "errors", "counted")
        )
        return cls(inputs, np.concatenate([part.memory for part in parts]), errors, counted)


def _padded(values: npt.NDArray[Any], time: int) -> npt.NDArray[Any]:
    """Pads values with zeros to a length."""
    if len(values) == time:
        return values
    padded = np.zeros((time, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return padded


@dataclass(slots=True)
class Learner:
    """A network, and the optimizer that trains it."""

    settings: LearnerSettings
    scaling: Scaling
    net: Mlp | Lstm
    adam: Adam
    curve: Any
    """One row of CURVE per update."""

    @classmethod
    def new(cls, settings: LearnerSettings, scaling: Scaling) -> Learner:
        """Returns a learner with random weights."""
        net = RANDOM_NETWORKS[settings.net](np.random.default_rng(settings.seed))
        return cls(settings, scaling, net, Adam(net.weights), np.zeros(0, CURVE))

    def update(self, batch: Batch) -> None:
        """Takes one step of Adam, if any decision counts."""
        settings, counted = self.settings, batch.counted
        is_clipped = len(self.curve) < settings.updates - settings.unclipped
        clipped = np.clip(batch.errors / self.scaling.unit, -1.0, settings.max_error if is_clipped else np.inf)
        factors, count = np.where(counted, clipped, 0.0), int(counted.sum())
        error = reward = 0.0
        if count:
            slopes = self.net.policy_gradient(batch.inputs, batch.memory, factors * (factors.size / count))
            falling = 1.0 - len(self.curve) / settings.updates
            self.net = type(self.net)(self.adam.step(self.net.weights, slopes, settings.learning_rate * falling))
            error = float(np.abs(clipped[counted]).mean())
            reward = float(self.scaling.reward(batch.errors[counted]).mean())
        self.curve = np.append(self.curve, np.array([(count, error, reward)], CURVE))
