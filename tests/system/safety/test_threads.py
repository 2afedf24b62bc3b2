# SPDX-License-Identifier: Apache-2.0
"""Labs belong to their process: any thread may start, step and close one, one thread at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, LabError
from dc_gym.base.progress import Quiet
from dc_gym.learn.env import DataCenterEnv, as_spec
from dc_gym.learn.multi_agent import Agents
from dc_gym.learn.registration import SPECS
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.results.results import load_result
from dc_gym.run.runner import run

pytestmark = pytest.mark.lab
SPEC = SPECS["dcgym/Dumbbell10m-v0"]
WAIT_S = 60
BUSY = "another thread"
"""Part of the error that a second thread gets while a first one uses an environment."""


def in_thread(work: Callable[[], Any]) -> Any:
    """Returns the result of `work` from a thread that has ended."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(WAIT_S)


def episode(env: DataCenterEnv, seed: int, count: int = 5) -> list[Any]:
    observations = [env.reset(seed=seed)[0]]
    return observations + [env.step(env.action_space.low)[0] for _ in range(count)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The observations of an episode in the main thread."""
    env = DataCenterEnv(SPEC, folder=tmp_path_factory.mktemp("alone"))
    observations = episode(env, 1)
    env.close()
    return observations


def test_a_lab_outlives_the_thread_that_started_it(alone: list[Any], tmp_path: Path) -> None:
    env = DataCenterEnv(SPEC, folder=tmp_path)
    observations = [in_thread(lambda: env.reset(seed=1)[0])]
    time.sleep(0.2)
    observations += [in_thread(lambda: env.step(env.action_space.low)[0]), *(env.step(env.action_space.low)[0] for _ in range(4))]
    np.testing.assert_array_equal(observations, alone)
    in_thread(env.close)
    assert not any(tmp_path.iterdir())


def test_a_vector_outlives_its_thread(tmp_path: Path) -> None:
    labs = LabVectorEnv(2, SPEC, folder=tmp_path)
    in_thread(lambda: labs.reset(seed=1))
    for _ in range(3):
        infos = in_thread(lambda: labs.step(labs.action_space.sample()))[4]
        assert "lab_died" not in infos
    labs.close()
    assert not any(tmp_path.iterdir())


def test_agents_outlive_their_thread(tmp_path: Path) -> None:
    agents = Agents(SPEC, folder=tmp_path)
    in_thread(lambda: agents.begin(1))
    agents.step({name: space.low for name, space in agents.action_spaces.items()})
    in_thread(agents.close)
    assert not any(tmp_path.iterdir())


def test_a_pool_of_threads_has_environments_of_its_own(alone: list[Any], tmp_path: Path) -> None:
    def work(seed: int) -> list[Any]:
        env = DataCenterEnv(SPEC, folder=tmp_path)
        try:
            return episode(env, seed)
        finally:
            env.close()

    with ThreadPoolExecutor(3) as pool:
        trajectories = list(pool.map(work, [1, 1, 1, 1]))
    for trajectory in trajectories:
        np.testing.assert_array_equal(trajectory, alone)
    assert not any(tmp_path.iterdir())


def test_an_event_loop_gives_its_work_to_threads(alone: list[Any], tmp_path: Path) -> None:
    async def work() -> list[Any]:
        env = DataCenterEnv(SPEC, folder=tmp_path)
        observations = [(await asyncio.to_thread(env.reset, seed=1))[0]]
        for _ in range(5):
            observations.append((await asyncio.to_thread(env.step, env.action_space.low))[0])
        await asyncio.to_thread(env.close)
        return observations

    np.testing.assert_array_equal(asyncio.run(work()), alone)
    assert not any(tmp_path.iterdir())


def test_a_run_may_be_made_in_a_thread(tmp_path: Path) -> None:
    spec = as_spec(SPEC | {"controller": {"name": "cubic"}, "time": {"duration": "20ms"}})
    in_thread(lambda: run(spec, tmp_path / "run", Quiet(), plot=False))
    assert load_result(tmp_path / "run").manifest["digest"]


USES: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "one lab": (
        lambda folder: DataCenterEnv(SPEC, folder=folder),
        lambda env: env.reset(seed=1),
        lambda env: env.step(env.action_space.low),
    ),
    "a vector": (
        lambda folder: LabVectorEnv(1, SPEC, folder=folder),
        lambda env: env.reset(seed=1),
        lambda env: env.step(env.action_space.low),
    ),
    "many agents": (
        lambda folder: Agents(SPEC, folder=folder),
        lambda env: env.begin(1),
        lambda env: env.step({name: space.low for name, space in env.action_spaces.items()}),
    ),
}


@pytest.mark.parametrize("name", USES)
def test_a_second_thread_is_refused_and_disturbs_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, reset, step = USES[name]
    env = make(tmp_path)
    reset(env)
    inside, go_on = threading.Event(), threading.Event()
    first = env.episode if hasattr(env, "episode") else env._actions
    slow = first.action if hasattr(first, "action") else first
    to_values = slow.to_values

    def held(*arguments: Any) -> Any:
        inside.set()
        assert go_on.wait(WAIT_S)
        return to_values(*arguments)

    monkeypatch.setattr(type(slow), "to_values", lambda _, *arguments: held(*arguments))
    with ThreadPoolExecutor(2) as pool:
        stepping = pool.submit(step, env)
        assert inside.wait(WAIT_S)
        for use in (step, reset):
            with pytest.raises(AgentError, match=BUSY) as refusal:
                use(env)
            assert "\n" not in str(refusal.value)
        closing = pool.submit(env.close)  # waits for the step's end
        go_on.set()
        stepping.result(WAIT_S)
        closing.result(WAIT_S)
    assert not any(tmp_path.iterdir())
    reset(env)
    step(env)
    env.close()


def test_threads_that_all_step_one_environment_break_nothing(tmp_path: Path) -> None:
    env = DataCenterEnv(SPEC, folder=tmp_path)
    env.reset(seed=1)

    def work(_: int) -> list[str]:
        refusals = []
        for _ in range(40):
            try:
                env.step(env.action_space.low)
            except AgentError as error:
                refusals.append(str(error))
        return refusals

    with ThreadPoolExecutor(4) as pool:
        refusals = [refusal for some in pool.map(work, range(4)) for refusal in some]
    assert all(BUSY in refusal for refusal in refusals)
    assert env.episode.frame is not None
    env.step(env.action_space.low)
    env.close()


AT_THE_END = """
import sys, threading
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.learn.registration import SPECS
labs = LabVectorEnv(2, SPECS["dcgym/Dumbbell10m-v0"], folder=sys.argv[1])
begun = threading.Event()
def work():
    labs.reset(seed=1)
    while True:
        labs.step(labs.action_space.sample())
        begun.set()
threading.Thread(target=work, daemon=True).start()
begun.wait()
{end}
"""


@pytest.mark.parametrize("end", ["sys.exit()", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_process_may_end_while_a_daemon_thread_steps(end: str, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", AT_THE_END.format(end=end), str(tmp_path)], start_new_session=True)
    try:
        assert process.wait(WAIT_S) == (0 if "exit" in end else -signal.SIGKILL)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    deadline = time.monotonic() + 30
    while any(tmp_path.iterdir()):
        assert time.monotonic() < deadline, list(tmp_path.iterdir())
        time.sleep(0.05)


def test_a_killed_lab_is_not_said_to_lack_memory(tmp_path: Path) -> None:
    """The kernel counts what it kills for want of memory."""
    env = DataCenterEnv(SPEC, folder=tmp_path)
    env.reset(seed=1)
    assert env.session.pid is not None
    os.kill(env.session.pid, signal.SIGKILL)
    with pytest.raises(LabError, match="killed by signal 9") as death:
        env.step(env.action_space.low)
    assert "ran out of memory" not in str(death.value).splitlines()[0]
    env.close()
