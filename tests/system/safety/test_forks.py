# SPDX-License-Identifier: Apache-2.0
"""A forked child harms no lab of its parent, whatever it does and however the two end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base.processes import Process, descendants
from dc_gym.base.progress import Quiet
from dc_gym.run.execution import Clock, execute

pytestmark = pytest.mark.lab
LIMIT_S = 60
REFUSED = "a lab cannot be shared by a fork"
HOLDERS = {
    "one lab": """
from dc_gym.learn.env import DataCenterEnv
env = DataCenterEnv(spec, folder=folder)
action = env.action_space.low
""",
    "a vector of labs": """
from dc_gym.learn.vector import LabVectorEnv
env = LabVectorEnv(2, spec, folder=folder)
action = env.action_space.low
""",
    "one agent a host": """
from dc_gym.learn.multi_agent import Agents
env = Agents(spec, folder=folder)
env.reset, action = env.begin, {name: space.low for name, space in env.action_spaces.items()}
""",
}
PREAMBLE = """
import gc, hashlib, multiprocessing, os, signal, sys
from dc_gym.base.errors import AgentError
from dc_gym.learn.registration import SPECS
spec, folder = SPECS["dcgym/Dumbbell10m-v0"], sys.argv[1]
{holder}
def pace(count):
    for _ in range(count):
        seen = env.step(action)
    seen = getattr(seen, "observations", None) or seen[0]
    return hashlib.sha256(repr([*seen.items()] if isinstance(seen, dict) else seen.tolist()).encode()).hexdigest()
def refused(use):
    try:
        use()
    except AgentError as error:
        print("refused", error, flush=True)
        os._exit(0)
    os._exit(1)
"""
FORKS = """
env.reset(seed=1)
pace(3)
if os.fork() == 0:
    {act}
{wait}
print("steps", pace(5), flush=True)
env.reset(seed=3)
print("reset", pace(2), flush=True)
env.close()
print("left", os.listdir(folder), flush=True)
"""
WAIT, NO_FORK = 'print("child", os.wait()[1], flush=True)', "os.fork = lambda: 1"
ACTS = {
    "exits": "os._exit(0)",
    "exits as a program does": "sys.exit()",
    "raises": "sys.stderr.close(); raise SystemExit(0) from KeyError('a plug-in')",
    "collects": "del env; gc.collect(); os._exit(0)",
    "closes": "env.close(); os._exit(0)",
    "closes, and exits as a program does": "env.close(); sys.exit()",
    "steps": "refused(lambda: env.step(action))",
    "resets": "refused(lambda: env.reset(seed=2))",
    "resets after it closed": "env.close(); refused(lambda: env.reset(seed=2))",
}
POOL = """
import signal
def square(number):
    return number * number
env.reset(seed=1)
pace(3)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(square, range(4)) == [0, 1, 4, 9]
print("steps", pace(5), flush=True)
"""
ASYNC = """
from gymnasium.vector import AsyncVectorEnv
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.registration import SPECS
import sys

def make():
    return DataCenterEnv(SPECS["dcgym/Dumbbell10m-v0"], folder=sys.argv[1])

if __name__ == "__main__":
    mine = make()
    alone = [mine.reset(seed=seed)[0].tolist() for seed in (5, 6)]
    labs = AsyncVectorEnv([make, make], context=sys.argv[2], shared_memory=False)
    assert labs.reset(seed=5)[0].tolist() == alone
    labs.step(labs.action_space.sample())
    labs.close()
    mine.step(mine.action_space.sample())
    mine.close()
"""
OUTLIVED = """
env.reset(seed=1)
pace(3)
child = os.fork()
if child == 0:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        signal.pause()
print("child", child, flush=True)
signal.pause()
"""
FIRST_USE = """
if os.fork() == 0:
    env.reset(seed=1)
    print("steps", pace(8), flush=True)
    env.close()
    sys.exit()
print("child", os.wait()[1], flush=True)
env.reset(seed=1)
print("steps", pace(8), flush=True)
env.close()
print("left", os.listdir(folder), flush=True)
"""
PLUG_IN = """
import os, sys
import numpy as np
from dc_gym.run.agent.policies import Policy

class Forking(Policy):
    def __init__(self, context):
        self.shape = context.action.space.shape

    def act(self, observation, frame):
        if frame.step in (2, 3) and os.fork() == 0:
            if frame.step == 2:
                sys.exit()
            return np.ones(self.shape)  # it goes on as if it were the run
        if frame.step in (2, 3):
            os.wait()
        return np.zeros(self.shape)
"""


class Unwinds(Exception):
    """A child's end."""


class Forking:
    """A ground with a child that unwinds the run's stack."""

    def run(self, folder: Path, plan: object, on_line: Callable[[str], None], *_: object) -> int:
        on_line("a line")
        if os.fork() == 0:
            raise Unwinds
        os.wait()
        return 0


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def forked(holder: str, act: str, folder: Path) -> tuple[list[str], list[str]]:
    """Returns the output of a process that holds environments, and its child's. Without an `act` it has no child."""
    preamble, fork = PREAMBLE.format(holder=HOLDERS[holder]), FORKS.format(act=act or "pass", wait=WAIT if act else "")
    holding = run((preamble if act else preamble + NO_FORK) + fork, str(folder))
    assert holding.returncode == 0, holding.stderr
    assert not any(folder.iterdir())
    lines = holding.stdout.splitlines()
    return [line for line in lines if line.startswith(("steps", "reset", "left"))], [
        line for line in lines if line.startswith(("child", "refused"))
    ]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The lines of processes that do not fork, by what they hold."""
    return {holder: forked(holder, "", tmp_path_factory.mktemp("alone"))[0] for holder in HOLDERS}


@pytest.mark.parametrize("act", ACTS)
def test_what_a_child_does_harms_nothing(act: str, undisturbed: dict[str, list[str]], tmp_path: Path) -> None:
    parent, child = forked("one lab", ACTS[act], tmp_path)
    assert parent == undisturbed["one lab"] and parent[-1] == "left []"
    assert child[-1] == "child 0"
    if "refused" in ACTS[act]:
        assert REFUSED in child[0] and "belongs to process" in child[0]


@pytest.mark.parametrize("holder", ["a vector of labs", "one agent a host"])
@pytest.mark.parametrize("act", ["exits as a program does", "closes, and exits as a program does", "steps"])
def test_so_do_vectors_and_many_agents(holder: str, act: str, undisturbed: dict[str, list[str]], tmp_path: Path) -> None:
    parent, child = forked(holder, ACTS[act], tmp_path)
    assert parent == undisturbed[holder] and child[-1] == "child 0"
    assert ("refused" in ACTS[act]) == (REFUSED in child[0])


def test_a_pool_that_is_forked_beside_a_lab_ends_without_it(undisturbed: dict[str, list[str]], tmp_path: Path) -> None:
    parent = run(PREAMBLE.format(holder=HOLDERS["one lab"]) + POOL, str(tmp_path))
    assert parent.returncode == 0, parent.stderr
    assert parent.stdout.splitlines() == undisturbed["one lab"][:1]
    assert not any(tmp_path.iterdir())


def test_an_environment_without_a_lab_is_anybodys(undisturbed: dict[str, list[str]], tmp_path: Path) -> None:
    parent = run(PREAMBLE.format(holder=HOLDERS["one lab"]) + FIRST_USE, str(tmp_path))
    assert parent.returncode == 0, parent.stderr
    steps = undisturbed["one lab"][0]
    assert parent.stdout.splitlines() == [steps, "child 0", steps, "left []"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_gymnasiums_own_processes_have_labs_of_their_own(method: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(ASYNC)
    (folder := tmp_path / "labs").mkdir()
    argv = [sys.executable, str(tmp_path / "script.py"), str(folder), method]
    script = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S)
    assert script.returncode == 0, script.stderr
    assert not any(folder.iterdir())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_lab_ends_with_its_process_although_a_child_lives_on(number: signal.Signals, tmp_path: Path) -> None:
    script = PREAMBLE.format(holder=HOLDERS["a vector of labs"]) + OUTLIVED
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    child = Process.of(int(process.stdout.readline().split()[1]))
    family = [member for member in descendants(process.pid) if member != child]
    assert len(family) > 2 and any(tmp_path.iterdir())
    try:
        process.send_signal(number)
        process.wait(LIMIT_S)
        deadline = time.monotonic() + 30
        while left := [member for member in family if member.alive()] + [path.name for path in tmp_path.iterdir()]:
            assert time.monotonic() < deadline, f"left: {left}"
            time.sleep(0.05)
        assert child.alive()
    finally:
        os.kill(child.pid, signal.SIGKILL)
        process.stdout.close()


def test_a_plug_in_that_forks_does_not_end_its_run(tmp_path: Path) -> None:
    """One child unwinds all of the run's stack, the other one returns to it."""
    (tmp_path / "forking.py").write_text(PLUG_IN)
    (tmp_path / "own.py").write_text(PLUG_IN.replace("frame.step in (2, 3)", "False"))
    digests = []
    for name in ("own", "forking"):
        spec = tmp_path / f"{name}.toml"
        spec.write_text(
            'spec_version = 1\nname = "forks"\ntopology.preset = "dumbbell-10m"\n'
            'workload.kind = "pairs"\nagent.interval = "10ms"\n'
            f'controller = {{ name = "dctcp", policy = "{name}.py:Forking" }}\ntime.duration = "100ms"\n'
        )
        out = tmp_path / "results" / name
        argv = [sys.executable, "-m", "dc_gym.cli.main", "run", str(spec), "--out", str(out), "--quiet", "--no-plot"]
        child = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S)
        assert child.returncode == 0, child.stderr
        assert name == "own" or REFUSED in child.stderr
        digests.append(json.loads((out / "manifest.json").read_text())["digest"])
    assert digests[0] == digests[1]
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == ["forking", "own"]


def test_a_child_does_not_write_its_copy_of_a_log_that_is_under_way(tmp_path: Path) -> None:
    ground: Any = Forking()
    try:
        execute(ground, "lab", tmp_path, lambda: None, Clock(), Quiet())
    except Unwinds:
        os._exit(0)
    assert (tmp_path / "lab.log").read_text() == "a line\n"
