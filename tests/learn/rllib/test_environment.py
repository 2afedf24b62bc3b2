# SPDX-License-Identifier: Apache-2.0
"""No two labs of a training share episodes; a spec's files travel with it, and are removed when its environment is closed."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import toy_task
from gymnasium.vector import VectorEnv
from test_train import EXAMPLE, spec

from dc_gym.learn.rllib.settings import HELD_OUT, TrainingSettings
from dc_gym.spec import load


class Recorder(VectorEnv):
    """An environment that records the seeds of its resets."""

    def __init__(self, num_envs: int) -> None:
        self.num_envs, self.given = num_envs, []
        self.single_observation_space = self.single_action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.given.append(seed)
        return np.zeros(self.num_envs), {}


def seeds(seed: int, iteration: int, worker: int, labs: int = 8) -> list[int]:
    """Returns the seeds of a runner's labs when RLlib seeds the runner."""
    from dc_gym.learn.rllib.environment import STREAM, wrapped

    recorder = Recorder(labs)
    env = wrapped(recorder, {"num_envs": labs, STREAM: (seed, iteration)})
    env.reset(seed=seed + iteration + worker)
    return recorder.given[0]


def test_no_two_labs_have_the_same_episodes() -> None:
    places = product((1, 2, 3, HELD_OUT - 2, HELD_OUT - 1), (0, 1, 7), (0, 1, 2, 8))
    drawn = [seed for stream in places for seed in seeds(*stream)]
    assert len(set(drawn)) == len(drawn) == 5 * 3 * 4 * 8
    assert min(drawn) > 2 * HELD_OUT and max(drawn) < 2**63
    assert seeds(1, 0, 1) == seeds(1, 0, 1)


def test_the_same_seed_again_goes_on() -> None:
    from dc_gym.learn.rllib.seeds import TrainingSeeds

    recorder = Recorder(2)
    env = TrainingSeeds(recorder, (1, 0))
    for seed in (5, 5, None, 6):
        env.reset(seed=seed)
    assert [passed_seed is None for passed_seed in recorder.given] == [False, True, True, False]


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("algorithm", ["REINFORCE"])
def test_rounds_of_whole_episodes_are_new_ones(algorithm: str) -> None:
    from dc_gym.learn.rllib import algorithms, settings, train

    choice, task = algorithms.resolve(algorithm), toy_task.register(spec(), TrainingSettings())
    configuration = settings.read(None, choice.name, {"labs": 2})
    built = train.configure(choice, configuration, task).build_algo()
    try:
        rounds = [built.env_runner.sample(num_episodes=2) for _ in range(3)]
    finally:
        built.stop()
    begun = {tuple(np.asarray(episode.get_observations(0)).tolist()) for episodes in rounds for episode in episodes}
    assert len(begun) == 6


@pytest.mark.usefixtures("ray")
def test_a_policy_file_says_what_its_actions_and_steps_meant() -> None:
    from dc_gym.learn.rllib import environment
    from dc_gym.learn.session import external

    loaded = load(EXAMPLE, ["agent.floor=20kbit/s", "agent.latency=2ms"])
    settings = environment.register(external(loaded), TrainingSettings()).settings
    expected = {"floor": "20kbit/s", "latency": "2ms", "interval": "1ms", "tbf": "exact", "control": "direct", "hosts": "all"}
    assert settings.items() >= (expected | {"observe": "default", "history": 1, "action": "log"}).items()


def test_files_of_a_spec_travel_with_it_and_go_with_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dc_gym.learn.rllib import environment
    from dc_gym.learn.session import external

    (tmp_path / "mine.py").write_text("NAME = 'mine'\n")
    (tmp_path / "mine.toml").write_text('plugins = ["mine.py"]\n' + EXAMPLE.read_text())
    parcel = environment.SpecBundle.of(external(load(tmp_path / "mine.toml")))
    there = tmp_path / "there"
    there.mkdir()
    monkeypatch.setattr(environment.tempfile, "gettempdir", lambda: str(there))
    for config in ({}, {"num_envs": 2}):
        env = environment._make(parcel, config)
        assert [path.read_text() for path in there.rglob("mine.py")] == ["NAME = 'mine'\n"]
        env.close()
        assert not list(there.iterdir())
