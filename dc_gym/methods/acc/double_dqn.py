# SPDX-License-Identifier: Apache-2.0
"""Double DQN (van Hasselt et al. 2016), as ACC uses it (Yan et al., SIGCOMM 2021, section 3.3), in numpy alone.

    y = r + gamma Q(S', argmax_a Q(S', a; theta); theta')

theta' is a copy of theta, made anew each n updates. ACC gives neither gamma nor n, batch, learning rate and loss: the values here
are ours. There are no terminal states, because a switch never stops.

A run that learns needs no torch, and one seed gives the same bits on every machine: sums are added in order (q_network.py,
adam.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dc_gym.base.errors import AgentError
from dc_gym.methods.acc.q_network import QNetwork
from dc_gym.methods.acc.replay import Replay, Transitions
from dc_gym.methods.acc.settings import DqnSettings
from dc_gym.nets.adam import Adam

HIDDEN = (40, 40)
"""The hidden layers of ACC's net, section 6."""
MOST_ERROR = 1.0
"""Beyond it an error pulls no harder (Huber's loss)."""


class DoubleDqn:
    """A net that learns, its target copy, and Adam's moments."""

    def __init__(self, net: QNetwork, settings: DqnSettings) -> None:
        self.net, self.target, self.settings = net, net, settings
        self.adam, self.updates = Adam(net.parameters), 0

    @classmethod
    def random(cls, inputs: int, actions: int, settings: DqnSettings, random: np.random.Generator) -> DoubleDqn:
        """Returns an untrained learner."""
        return cls(QNetwork.random((inputs, *HIDDEN, actions), random), settings)

    def learn(self, replay: Replay, random: np.random.Generator) -> float:
        """Makes one update from a batch of the replay, if that has enough. Returns the batch's mean absolute error; nan without
        an update."""
        settings = self.settings
        if len(replay) < settings.batch_size:
            return float("nan")
        return self.update(replay.draw(random, settings.batch_size, settings.prefer))

    def update(self, batch: Transitions) -> float:
        """Makes one update and returns the batch's mean absolute error."""
        rows = np.arange(len(batch))
        best = self.net(batch.nexts).argmax(axis=1)
        targets = batch.rewards + self.settings.discount * self.target(batch.nexts)[rows, best]
        outputs = self.net.layers(batch.states)
        error = outputs[-1][batch.actions, rows] - targets
        pull = np.zeros_like(outputs[-1])
        pull[batch.actions, rows] = np.clip(error, -MOST_ERROR, MOST_ERROR) / len(batch)
        moved = self.adam.step(self.net.parameters, self.net.gradient(outputs, pull), self.settings.learning_rate)
        self.net = QNetwork.of_parameters(moved)
        self.updates += 1
        if self.updates % self.settings.target_every == 0:
            self.target = self.net
        return float(np.abs(error).mean())

    def arrays(self) -> dict[str, Any]:
        """Returns everything that it goes on from, as arrays by name."""
        adam = self.adam
        arrays: dict[str, Any] = self.net.arrays() | self.target.arrays("target_")
        for name, moments in (("mean", adam.mean), ("square", adam.square)):
            arrays |= {f"{name}{number}": moment for number, moment in enumerate(moments)}
        return arrays | {"left": np.array(adam.left), "updates": np.int64(self.updates)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Any], settings: DqnSettings) -> DoubleDqn:
        """Returns a learner that goes on from `arrays`. Raises KeyError or AgentError if they do not belong to a learner."""
        learner = cls(QNetwork.of_arrays(arrays), settings)
        learner.target = QNetwork.of_arrays(arrays, "target_")
        count = len(learner.net.parameters)
        learner.adam.mean = _like(learner.net.parameters, [arrays[f"mean{number}"] for number in range(count)])
        learner.adam.square = _like(learner.net.parameters, [arrays[f"square{number}"] for number in range(count)])
        learner.adam.left, learner.updates = [float(share) for share in arrays["left"]], int(arrays["updates"])
        if learner.target.sizes != learner.net.sizes:
            raise AgentError(f"its target has layers {learner.target.sizes}, and its net {learner.net.sizes}")
        return learner


def _like(parameters: Sequence[Any], moments: Sequence[Any]) -> list[Any]:
    if [parameter.shape for parameter in parameters] != [moment.shape for moment in moments]:
        raise AgentError("its moments do not have the shapes of its weights")
    return list(moments)
