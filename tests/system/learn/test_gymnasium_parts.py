# SPDX-License-Identifier: Apache-2.0
"""The parts that Gymnasium expects of environments: copies and pickles, the length of an episode, autoreset, pictures."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from dc_gym.base.errors import AgentError
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.registration import SPECS
from dc_gym.learn.vector import LabVectorEnv

pytestmark = pytest.mark.lab
ID = "dcgym/Dumbbell10m-v0"
SPEC = SPECS[ID] | {"agent": {"interval": "1ms"}, "time": {"duration": "3ms"}, "workload": {"kind": "pairs", "jitter": "1ms"}}
CALM = f"plugins=['{Path(__file__).parents[3] / 'examples' / 'calm.py'}']"
WAYS = {"deepcopy": copy.deepcopy, "copy": copy.copy, "pickle": lambda env: pickle.loads(pickle.dumps(env))}


@pytest.fixture
def closed() -> Iterator[Callable[[Any], Any]]:
    """A function that has an environment closed afterwards."""
    with ExitStack() as stack:

        def close_later(env: Any) -> Any:
            stack.callback(env.close)
            return env

        yield close_later


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(AgentError) as excinfo:
        call()
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


@pytest.mark.parametrize("way", WAYS)
def test_a_copy_is_the_same_environment_with_a_lab_of_its_own(way: str, closed: Any, tmp_path: Path) -> None:
    env = closed(gymnasium.make(ID, overrides=["time.duration=50ms"], folder=tmp_path, render_mode="rgb_array"))
    env.action_space.seed(5)
    twin = closed(WAYS[way](env.unwrapped if way == "copy" else env))
    assert twin.spec == (env.unwrapped if way == "copy" else env).spec and twin.unwrapped.session is not env.unwrapped.session
    assert np.array_equal(env.reset(seed=1)[0], twin.reset(seed=1)[0])
    for _ in range(5):
        action = env.action_space.sample()
        assert way == "copy" or np.array_equal(action, twin.action_space.sample()), "it has the space's randomness"
        one, other = env.step(action), twin.step(action)
        assert np.array_equal(one[0], other[0]) and one[1:4] == other[1:4]
    assert env.unwrapped.session.pid != twin.unwrapped.session.pid
    assert np.array_equal(env.render(), twin.render())


@pytest.mark.parametrize("make", ["single", "vector", "many"])
def test_an_environment_with_a_lab_is_not_copied(make: str, closed: Any, tmp_path: Path) -> None:
    if make == "many":
        parallel = pytest.importorskip("dc_gym.learn.parallel", exc_type=Exception)
        env = closed(parallel.DataCenterParallelEnv(SPEC, agents="hosts", folder=tmp_path))
    else:
        env = closed(DataCenterEnv(SPEC, folder=tmp_path) if make == "single" else LabVectorEnv(2, SPEC, folder=tmp_path))
    twin = closed(copy.deepcopy(env))
    observations = [environment.reset(seed=1)[0] for environment in (env, twin)]
    assert repr(observations[0]) == repr(observations[1])
    for way in WAYS.values():
        if make == "many" and way is copy.copy:
            continue  # shares its lab, as any shallow copy shares what it holds
        refusal = refused(partial(way, env))
        assert "has a lab (process " in refusal and "copy it before its first reset, or make another" in refusal
    env.close()
    closed(copy.deepcopy(env)).reset(seed=1)


def test_a_pickle_brings_its_plug_ins_to_another_process(closed: Any, tmp_path: Path, registries: None) -> None:
    env = closed(DataCenterEnv(SPEC, [CALM, "agent.observe=default,switch:standing", "agent.reward=goodput - 5*unrest"]))
    (tmp_path / "env.pickle").write_bytes(pickle.dumps(env))
    code = "import pickle, sys; print(len(pickle.load(open(sys.argv[1], 'rb')).observation_names))"
    argv = [sys.executable, "-c", code, str(tmp_path / "env.pickle")]
    assert int(subprocess.run(argv, capture_output=True, text=True, check=True).stdout) == len(env.observation_names)


def test_the_spec_has_the_length_of_an_episode(closed: Any) -> None:
    env = closed(gymnasium.make(ID))
    assert env.spec.max_episode_steps == 500 and env.unwrapped.spec.max_episode_steps == 500
    env = closed(gymnasium.make(ID, overrides=["time.duration=30ms"]))
    assert env.spec.max_episode_steps == 3
    env.reset(seed=1)
    assert [env.step(np.ones(4, np.float32))[3] for _ in range(3)] == [False, False, True]
    again = closed(env.spec.make())
    assert again.spec.max_episode_steps == 3
    assert closed(gymnasium.make(ID, max_episode_steps=2)).spec.max_episode_steps == 2
    assert gymnasium.spec(ID).max_episode_steps is None, "keys of the spec may change it"


def test_the_spec_of_a_vector_has_it_too(closed: Any) -> None:
    make = partial(gymnasium.make_vec, num_envs=2, vectorization_mode="vector_entry_point")
    labs = closed(make(ID, overrides=[["time.duration=30ms"], ["time.duration=50ms"]]))
    assert labs.spec.max_episode_steps == 5
    assert closed(gymnasium.make_vec(labs.spec)).spec.max_episode_steps == 5
    labs = closed(make(ID, max_episode_steps=2))
    labs.reset(seed=1)
    assert [labs.step(np.ones((2, 4), np.float32))[3].tolist() for _ in range(2)] == [[False] * 2, [True] * 2]
    assert labs.episodes[0].totals.result()["steps"] == 2
    assert "give 1 or more" in refused(lambda: make(ID, max_episode_steps=0))


def test_gymnasiums_own_check(closed: Any, recwarn: pytest.WarningsRecorder) -> None:
    """It makes, resets and draws an environment of each render mode, too."""
    env = closed(gymnasium.make(ID, overrides=["time.duration=100ms"], render_mode="rgb_array"))
    check_env(env.unwrapped)
    assert not [entry for entry in recwarn.list if "render" in str(entry.message) or "not deterministic" in str(entry.message)]


def same(actual: Any, expected: Any) -> None:
    """Demands the same arrays and infos."""
    if isinstance(expected, dict):
        assert set(actual) == set(expected)
        for name in expected:
            same(actual[name], expected[name])
    elif getattr(expected, "dtype", None) == np.dtype(object):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    else:
        assert np.array_equal(actual, expected), (actual, expected)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_autoreset_is_that_of_gymnasiums_own_vector(mode: AutoresetMode, closed: Any, tmp_path: Path) -> None:
    """Two labs whose episodes end at other steps: observations, rewards, ends and infos are those of SyncVectorEnv."""
    keys = [["time.duration=3ms"], ["time.duration=5ms"]]
    labs = closed(LabVectorEnv(2, SPEC, keys, folder=tmp_path, autoreset_mode=mode))
    makers = [partial(DataCenterEnv, SPEC, key, folder=tmp_path) for key in keys]
    reference = closed(SyncVectorEnv(makers, autoreset_mode=mode))
    assert labs.metadata["autoreset_mode"] is mode
    for one, other in zip(labs.reset(seed=5), reference.reset(seed=5), strict=True):
        same(one, other)
    actions = np.random.default_rng(1).uniform(-1, 1, (11, 2, 4)).astype(np.float32)
    for action in actions:
        steps = labs.step(action), reference.step(action)
        for one, other in zip(*steps, strict=True):
            same(one, other)
        ended = steps[1][2] | steps[1][3]
        if mode is AutoresetMode.DISABLED and ended.any():
            assert "reset_mask" in refused(partial(labs.step, action))
            for one, other in zip(*(env.reset(options={"reset_mask": ended.copy()}) for env in (labs, reference)), strict=True):
                same(one, other)
    assert [session.boots for session in labs.sessions] == [1, 1]


def test_a_mask_resets_some_labs_in_the_middle_of_their_episodes(closed: Any, tmp_path: Path) -> None:
    labs = closed(LabVectorEnv(3, SPEC, ["time.duration=20ms"], folder=tmp_path))
    go = np.ones((3, 4), np.float32)
    refusal = refused(lambda: labs.reset(options={"reset_mask": np.array([True, False, False])}))
    assert "leaves out lab 1, 2, which has no episode yet" in refusal and labs.sessions[0].boots == 0
    labs.reset(seed=1)
    labs.step(go)
    before, *_ = labs.step(go)
    mask = np.array([False, True, False])
    after, infos = labs.reset(seed=[None, 9, None], options={"reset_mask": mask})
    assert np.array_equal(after[~mask], before[~mask]) and not np.array_equal(after[1], before[1])
    assert infos["_seed"].tolist() == mask.tolist() and infos["seed"][1] == 9
    labs.step(go)
    assert [episode.frame and episode.frame.step for episode in labs.episodes] == [3, 1, 3]
    for wrong in (np.zeros(3, bool), np.ones(2, bool), np.ones(3, int)):
        refusal = refused(partial(labs.reset, options={"reset_mask": wrong}))
        assert "is no array of 3 truth values with a true one" in refusal


def test_a_lab_that_dies_is_replaced_in_the_same_step(closed: Any, tmp_path: Path) -> None:
    labs = closed(LabVectorEnv(2, SPEC, ["time.duration=20ms"], folder=tmp_path, autoreset_mode="same_step"))
    labs.reset(seed=1)
    go = np.ones((2, 4), np.float32)
    before, *_ = labs.step(go)
    os.kill(labs.sessions[0].pid, signal.SIGKILL)
    after, _, _, truncated, infos = labs.step(go)
    assert truncated.tolist() == [True, False] and "lab_died" in infos["final_info"]
    assert np.array_equal(infos["final_obs"][0], before[0]) and infos["_seed"].tolist() == [True, False]
    assert [session.boots for session in labs.sessions] == [2, 1] and after.shape == before.shape
    labs.step(go)
    assert [episode.frame and episode.frame.step for episode in labs.episodes] == [1, 3]


def test_an_unknown_mode_is_one_line() -> None:
    assert "autoreset_mode: 'later' is unknown; give one of NEXT_STEP, SAME_STEP, DISABLED" in refused(
        lambda: LabVectorEnv(1, SPEC, autoreset_mode="later")
    )


def test_pictures(closed: Any, tmp_path: Path) -> None:
    """A picture is of the steps that were made; that of a vector's lab is that of the single environment."""
    keys = ["agent.interval=10ms", "time.duration=2s"]
    env = closed(DataCenterEnv(SPEC, keys, folder=tmp_path, render_mode="rgb_array"))
    labs = closed(LabVectorEnv(2, SPEC, keys, folder=tmp_path, render_mode="rgb_array", step_info=False))
    assert "make with render_mode" not in refused(lambda: DataCenterEnv(SPEC, render_mode="ansi"))
    env.reset(seed=3)
    labs.reset(seed=3)
    blank = env.render()
    actions = np.random.default_rng(1).uniform(-1, 1, (60, 4)).astype(np.float32)
    pictures = []
    for action in actions:
        env.step(action)
        labs.step(np.stack([action, -action]))
        pictures.append(env.render())
    assert blank.shape == (480, 640, 3) and not np.array_equal(blank, pictures[0])
    assert not np.array_equal(pictures[-1], pictures[-2])
    first, second = labs.render()
    assert np.array_equal(first, pictures[-1]) and not np.array_equal(first, second)
    plain = closed(DataCenterEnv(SPEC, folder=tmp_path))
    assert "give render_mode='rgb_array' to make" in refused(plain.render)
