# SPDX-License-Identifier: Apache-2.0
"""The suite in labs: each task is an environment, and its oracle pays on held-out episodes."""

from __future__ import annotations

from dataclasses import replace

import gymnasium
import pytest

from dc_gym import learn
from dc_gym.learn import ladder
from dc_gym.learn.ladder import interquartile_mean
from dc_gym.learn.tasks import TASKS, Task
from dc_gym.spec import FIRST_HELD_OUT

assert learn.__doc__
pytestmark = pytest.mark.lab
LEVELS, SEEDS = (-1, -0.6, -0.2, 0.4, 1), (101, 102, 103)


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_an_oracle_pays_and_the_environment_trains_on_other_episodes(task: Task) -> None:
    pytest.importorskip("scipy")
    measured = ladder.measure(replace(task, differ=False), SEEDS, None, (), lambda name: None, LEVELS)
    assert measured.pays(task.cost).all()
    assert interquartile_mean(measured.worst.returns) < interquartile_mean(measured.best.returns)
    env = gymnasium.make(task.id)
    observation, info = env.reset(seed=1)
    assert env.observation_space.contains(observation) and info["drawn"] and info["seed"] < FIRST_HELD_OUT
    observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
    assert env.observation_space.contains(observation) and not terminated and not truncated
    env.close()
