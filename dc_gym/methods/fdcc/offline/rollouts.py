# SPDX-License-Identifier: Apache-2.0
"""Asks a policy of FDCC in states that it, or another policy, brings about in the fluid model.

The policy follows the flows along: it gets their observations at each of their decisions, and has a memory for each flow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dc_gym.methods.fdcc.net import OBSERVATIONS
from dc_gym.methods.fdcc.offline import incasts
from dc_gym.methods.fdcc.offline.episodes import Decisions, FlowPolicy, Flows
from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings, preset
from dc_gym.nets.fixed_point import Q16, Floats

TRAINING = FdccTrainingSettings()
STAGES = TRAINING.stages
"""Numbers of flows on a bottleneck, as in the training."""
FLOWS, STEPS = TRAINING.flows, TRAINING.steps
"""Flows of an episode over all of its networks, and its steps in the model, as in the training."""


class Follower:
    """A policy that follows flows along."""

    def __init__(self, policy: FlowPolicy, flows: int) -> None:
        self._policy, self._memory = policy, np.zeros((flows, policy.memory))
        self._inputs: list[Floats] = [np.zeros((0, len(OBSERVATIONS)))]
        self._outputs: list[Floats] = [np.zeros(0)]
        self._done: list[Floats] = [np.zeros(0)]

    def __call__(self, decided: Decisions) -> None:
        """Takes the decisions of a step in."""
        inputs = np.rint(decided.observed.astype(np.float64) * Q16) / Q16
        output, self._memory[decided.who] = self._policy.step(inputs, self._memory[decided.who])
        self._inputs.append(inputs)
        self._outputs.append(output)
        self._done.append(decided.action.astype(np.float64))

    @property
    def inputs(self) -> Floats:
        """[rows, 8], rounded to Q16 as a NIC has them."""
        return np.concatenate(self._inputs)

    @property
    def outputs(self) -> Floats:
        """[rows]: the outputs of the policy that follows."""
        return np.concatenate(self._outputs)

    @property
    def done(self) -> Floats:
        """[rows]: the outputs by which the flows moved."""
        return np.concatenate(self._done)


def episodes(
    driver: FlowPolicy, teacher: FlowPolicy, count: int, random: Callable[[int], np.random.Generator]
) -> tuple[Floats, Floats]:
    """Runs episodes with networks as the training draws them (preset ours): floods, other traffic, any shares.

    Returns the inputs [rows, 8] of flows that the driver moves, and the teacher's outputs [rows] for them. `random` returns the
    generator of an episode.
    """
    episodes = [_episode(driver, teacher, random(number)) for number in range(count)]
    return np.concatenate([episode.inputs for episode in episodes]), np.concatenate([episode.outputs for episode in episodes])


def _episode(driver: FlowPolicy, teacher: FlowPolicy, random: np.random.Generator) -> Follower:
    flows = int(random.choice(STAGES))
    networks = incasts.drawn(random, FLOWS // flows, flows, preset("ours"))
    model_flows, follower = Flows(networks, driver), Follower(teacher, networks.windows.size)
    for _ in range(STEPS):
        if decided := model_flows.step():
            follower(decided)
    return follower
