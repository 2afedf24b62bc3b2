# SPDX-License-Identifier: Apache-2.0
"""Memory-based TD3 (Fujimoto et al. 2018; thesis, section 4.4): an LSTM actor that all flows share, and twin critics.

A batch has sequences of `history` decisions of one flow each. The actor goes through them from the memory that the flow had, as
in the NIC, and the gradient goes back to the first of them. At each decision the critics see the last `history` observations.

    y = r_1 + gamma r_2 + ... + gamma^n min(Q1', Q2')(o', pi'(o') + noise)

All flows follow one policy. So if the critics see the network (preset ours), they also see the mean action of its flows, and the
actor follows the gradient by both: a flow's own action, and the mean action. In that preset the actor also imitates a teacher
that has the count of flows (TD3 + BC, Fujimoto and Gu 2021):

    maximise value_weight Q / mean |Q| - (pi(o) - teacher)^2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from dc_gym.base.errors import AgentError
from dc_gym.methods.fdcc import net as fdcc
from dc_gym.methods.fdcc.offline import twin_critics
from dc_gym.methods.fdcc.offline.actor import Floats32, Weights, backward, forward
from dc_gym.methods.fdcc.offline.episodes import CENTRAL, Streams
from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings, preset
from dc_gym.methods.fdcc.offline.streams import StreamReplay
from dc_gym.nets.adam import Adam
from dc_gym.topologies.ecmp import draw

MOST_ERROR = 2.0
"""Beyond it an error pulls no harder (Huber's loss)."""
MOST_WEIGHT = 0.99 * fdcc.MAX_WEIGHT
NETWORKS = ("actor", "critics", "actor_target", "critics_target")


class Td3:
    """The networks, their targets, and Adam's moments."""

    def __init__(self, settings: FdccTrainingSettings, actor: Weights, critics: Weights) -> None:
        self.settings, self.updates = settings, 0
        self.actor, self.critics = tuple(actor), tuple(critics)
        self.actor_target, self.critics_target = self.actor, self.critics
        self.of_actor, self.of_critics = Adam(self.actor), Adam(self.critics)
        how = preset(settings.preset)
        self._central, self._taught = how.central, how.taught

    @classmethod
    def new(cls, settings: FdccTrainingSettings) -> Td3:
        """Returns an untrained learner."""
        random = np.random.default_rng(draw(settings.seed, "fdcc networks"))
        actor = [weight.astype(np.float32) for weight in fdcc.random_network(random).weights]
        actor[4] = actor[4] * np.float32(0.1)  # the first actions are small
        central = CENTRAL if preset(settings.preset).central else 0
        inputs = settings.history * len(fdcc.OBSERVATIONS) + central + 1
        return cls(settings, actor, twin_critics.random_critics(inputs, random))

    def update(self, replay: StreamReplay, random: np.random.Generator) -> tuple[float, float]:
        """Makes one update. Returns the mean error of the critics, and the mean value of the actions."""
        settings = self.settings
        history, steps, count = settings.history, settings.returns, settings.sequences
        rows = replay.draw(random, count, history + steps)
        batch = replay.rows(rows)
        views = np.concatenate([replay.histories(rows, history), batch.central], axis=2)
        targets = self._targets(batch.observed, batch.memory[0], batch.action, batch.reward, views, random)
        layers = twin_critics.values(self.critics, self._columns(views[:history], batch.action[:history], batch.action[:history]))
        error = layers[-1] - targets.reshape(1, 1, -1)
        pull = np.clip(error, -MOST_ERROR, MOST_ERROR) / np.float32(history * count)
        gradient, _ = twin_critics.gradient(self.critics, layers, pull)
        self.critics = self.of_critics.step(self.critics, gradient, settings.learning_rate)
        self.updates += 1
        if self.updates % settings.actor_every == 0:
            now = Streams(*(getattr(batch, column.name)[:history] for column in fields(Streams)))
            self._improve(now, views[:history])
            self.actor_target = self._nearer(self.actor_target, self.actor)
            self.critics_target = self._nearer(self.critics_target, self.critics)
        return float(np.abs(error).mean()), float(layers[-1].mean())

    def _targets(
        self,
        observed: Floats32,
        memory: Floats32,
        action: Floats32,
        reward: Floats32,
        views: Floats32,
        random: np.random.Generator,
    ) -> Floats32:
        """Returns y of the first `history` decisions, [history, sequences]."""
        settings = self.settings
        history, steps = settings.history, settings.returns
        acted = forward(self.actor_target, observed, memory).output[steps:]
        most = 2 * settings.target_noise
        noise = np.clip(settings.target_noise * random.standard_normal(acted.shape), -most, most).astype(np.float32)
        acted = np.clip(acted + noise, np.float32(-1), np.float32(1))
        after = twin_critics.values(self.critics_target, self._columns(views[steps:], action[steps:], acted))[-1]
        total: Floats32 = np.float32(settings.discount**steps) * after.min(axis=0).reshape(acted.shape)
        for ahead in range(steps):
            total = total + np.float32(settings.discount**ahead) * reward[ahead : ahead + history]
        return total

    def _columns(self, views: Floats32, taken_action: Floats32, action: Floats32) -> Floats32:
        """Returns the critics' inputs [inputs, rows] for an action instead of the recorded one.

        The mean action changes as much, since all flows follow one policy.
        """
        rows = views if self._central else views[..., :-CENTRAL]
        joined = np.concatenate([rows, action[..., None]], axis=2)
        if self._central:
            joined[..., -2] += action - taken_action
        return np.ascontiguousarray(joined.reshape(-1, joined.shape[2]).T)

    def _improve(self, batch: Streams, views: Floats32) -> None:
        """Makes one update of the actor."""
        forward_pass = forward(self.actor, batch.observed, batch.memory[0])
        valued = twin_critics.values(self.critics, self._columns(views, batch.action, forward_pass.output))
        pull = np.zeros_like(valued[-1])
        pull[0] = -1.0
        _, back = twin_critics.gradient(self.critics, valued, pull)
        slope = (back[0, -2:].sum(axis=0) if self._central else back[0, -1]).reshape(forward_pass.output.shape)
        if self._taught:
            size = np.abs(valued[-1][0]).mean() + np.float32(1e-3)
            slope = slope * np.float32(self.settings.value_weight) / size + 2.0 * (forward_pass.output - batch.taught)
        gradient = backward(self.actor, forward_pass, slope / np.float32(forward_pass.output.size))
        moved = self.of_actor.step(self.actor, gradient, self.settings.learning_rate)
        self.actor = tuple(np.clip(weight, -MOST_WEIGHT, MOST_WEIGHT) for weight in moved)

    def _nearer(self, target: Weights, network: Weights) -> tuple[Floats32, ...]:
        rate = np.float32(self.settings.target_rate)
        return tuple(old + rate * (new - old) for old, new in zip(target, network, strict=True))

    def network(self) -> fdcc.FdccNet:
        """Returns the actor's network."""
        return fdcc.FdccNet(tuple(weight.astype(np.float64) for weight in self.actor), self.settings.history)

    def arrays(self) -> dict[str, Any]:
        """Returns everything that it goes on from, as arrays by name."""
        held = {name: getattr(self, name) for name in NETWORKS}
        for name, adam in (("actor", self.of_actor), ("critics", self.of_critics)):
            held |= {f"{name}_mean": adam.mean, f"{name}_square": adam.square}
        arrays: dict[str, Any] = {
            f"{name}.{number}": array for name, weights in held.items() for number, array in enumerate(weights)
        }
        return arrays | {"left": np.array([self.of_actor.left, self.of_critics.left]), "updates": np.int64(self.updates)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any], settings: FdccTrainingSettings) -> Td3:
        """Returns a learner that goes on from `arrays`. Raises KeyError or AgentError if they do not belong to a learner."""
        learner = cls.new(settings)
        for name in NETWORKS:
            setattr(learner, name, _like(getattr(learner, name), arrays, name))
        for name, adam, left in zip(("actor", "critics"), (learner.of_actor, learner.of_critics), arrays["left"], strict=True):
            adam.mean, adam.square = (list(_like(getattr(learner, name), arrays, f"{name}_{of}")) for of in ("mean", "square"))
            adam.left = [float(share) for share in left]
        learner.updates = int(arrays["updates"])
        return learner


def _like(weights: Weights, arrays: Mapping[str, Any], name: str) -> tuple[Floats32, ...]:
    stored = tuple(np.asarray(arrays[f"{name}.{number}"]) for number in range(len(weights)))
    if [(array.shape, array.dtype) for array in stored] != [(array.shape, array.dtype) for array in weights]:
        raise AgentError(f"its {name} does not have the shapes of this training's networks")
    return stored
