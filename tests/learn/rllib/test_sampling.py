# SPDX-License-Identifier: Apache-2.0
"""The reference for RLlib's sampling: RLlib accepts the environment that costs nothing, and its episodes end."""

from __future__ import annotations

import numpy as np
import pytest
import toy_task
from test_train import spec

from dc_gym.learn.rllib.settings import TrainingSettings

pytestmark = pytest.mark.usefixtures("ray")


def test_what_costs_nothing_has_the_spaces_and_ends() -> None:
    from dc_gym.learn.rllib import sampling

    task = toy_task.register(spec(), TrainingSettings())
    nothing = sampling.InstantVectorEnv(3, task, horizon=2)
    observations, _ = nothing.reset(seed=1)
    assert nothing.observation_space.contains(observations)
    ends = [nothing.step(np.zeros((3, 2)))[3].tolist() for _ in range(6)]
    assert ends == [[False] * 3, [True] * 3, [False] * 3] * 2  # the third resets


def test_a_single_one_is_an_environment() -> None:
    from gymnasium.utils.env_checker import check_env

    from dc_gym.learn.rllib import sampling

    nothing = sampling.InstantEnv(toy_task.register(spec(), TrainingSettings()), horizon=2)
    check_env(nothing)
    nothing.reset()
    assert [nothing.step(np.zeros(2))[3] for _ in range(2)] == [False, True]


def test_rates() -> None:
    from dc_gym.learn.rllib import sampling

    task = toy_task.register(spec(), TrainingSettings())
    for together in (True, False):
        assert sampling.steps_per_s(sampling.instant_task(task), envs=4, steps=200, together=together) > 0
    assert sampling.steps_per_s(task, envs=4, steps=200) > 0
