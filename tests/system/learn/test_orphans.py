# SPDX-License-Identifier: Apache-2.0
"""A process that holds environments leaves nothing, however it ends: no process, no folder, no shared memory.

After a kill -9 of another process of a running environment or training, nothing of what died is left five seconds later.
"""

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import killed_runs
import orphans
import pytest
from orphans import CASES, KillCase

from dc_gym.base import processes
from dc_gym.base.errors import TestbedError

pytestmark = pytest.mark.lab

HOLDERS = {
    "one lab": """
from dc_gym.learn.env import DataCenterEnv
env = DataCenterEnv(spec, folder=folder)
""",
    "a vector of labs": """
from dc_gym.learn.vector import LabVectorEnv
env = LabVectorEnv(2, spec, folder=folder)
""",
    "one agent a host": """
from dc_gym.learn.multi_agent import Agents
env = Agents(spec, folder=folder)
env.reset, env.action_space = env.begin, lambda: None
env.action_space.sample = lambda: {name: [1.0] for name in env.names}
""",
}
SCRIPT = """
import sys
from dc_gym.learn.registration import SPECS
spec, folder = SPECS["dcgym/Dumbbell10m-v0"] | {{"time": {{"duration": "3600s"}}}}, sys.argv[1]
{holder}
env.reset(seed=1)
print("holds", flush=True)
while {busy}:
    env.step(env.action_space.sample())
import time; time.sleep(1000)
"""


def killed(process):
    process.kill()


def ctrl_c(process):
    """Interrupts the whole foreground group, as a terminal does."""
    os.killpg(process.pid, signal.SIGINT)


def interrupted(process):
    """Interrupts the process alone, as a notebook does."""
    process.send_signal(signal.SIGINT)


def told_to_end(process):
    process.terminate()


def hold(folder, holder, busy):
    """Starts a process with environments, in a group of its own; returns when it has them, with their processes."""
    script = SCRIPT.format(holder=HOLDERS[holder], busy=busy)
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "holds\n", process.stderr.read()
    family = processes.descendants(process.pid)
    assert len(family) > 2 and any(folder.iterdir())
    return process, family


def expect_nothing(family, folder):
    deadline = time.monotonic() + 30
    while remains := [process for process in family if process.alive()] + [path.name for path in folder.iterdir()]:
        assert time.monotonic() < deadline, f"left: {remains}"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("holder", "busy", "end"),
    [
        ("one lab", True, killed),
        ("one lab", False, interrupted),
        ("a vector of labs", True, killed),
        ("a vector of labs", True, ctrl_c),
        pytest.param("one lab", False, killed, marks=pytest.mark.long),
        pytest.param("one lab", True, ctrl_c, marks=pytest.mark.long),
        pytest.param("one lab", True, told_to_end, marks=pytest.mark.long),
        pytest.param("one agent a host", True, killed, marks=pytest.mark.long),
    ],
)
def test_nothing_is_left(holder, busy, end, tmp_path):
    before = killed_runs.surroundings()
    process, family = hold(tmp_path, holder, busy)
    end(process)
    process.communicate(timeout=60)
    expect_nothing(family, tmp_path)
    leftovers = {path for path in killed_runs.surroundings() - before if str(process.pid) in path}
    assert not leftovers


def test_a_lab_that_is_stopped_goes_with_its_process(tmp_path):
    """A stopped lab cannot see that its channel was closed."""
    process, family = hold(tmp_path, "one lab", False)
    labs = [member for member in family if member.name == "linux"]
    assert labs
    for lab in labs:
        os.kill(lab.pid, signal.SIGSTOP)
    killed(process)
    process.communicate(timeout=60)
    expect_nothing(family, tmp_path)


RAY = [find_spec(name) is None for name in ("ray", "torch")]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.long, pytest.mark.skipif(any(RAY), reason="needs the extra rl")] * case.needs_ray)
        for case in CASES
    ],
    ids=lambda case: case.name,
)
def test_nothing_is_left_of_what_is_killed(case, lab_kernel, tmp_path):
    spec = tmp_path / "orphans.toml"
    spec.write_text(orphans.SPEC)
    report, left = orphans.play(case, spec, tmp_path)
    assert not left and "processes gone after" in report


STRAY = """
import subprocess, sys, time
shared = open("/dev/shm/dcgym-test-%d" % __import__("os").getpid(), "w")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)  # lab_channel="], start_new_session=True)
time.sleep(60)
"""


def test_what_is_left_is_found(tmp_path, monkeypatch):
    """The bench finds a child that outlives its parent, and a file in shared memory."""
    monkeypatch.setattr(orphans, "DEADLINE_S", 0.5)
    monkeypatch.setattr(orphans, "UNDER_WAY_S", 0.5)
    case = KillCase("a test: the driver", lambda spec, folder: [sys.executable, "-c", STRAY], orphans.the_driver, True)
    (tmp_path / "dcgym-env-left").mkdir()
    _, left = orphans.play(case, tmp_path / "none.toml", tmp_path)
    try:
        process, *paths = left
        assert process.startswith("process ") and len(paths) == 2
        assert Path(paths[0]).parent == Path("/dev/shm") and paths[1] == str(tmp_path / "dcgym-env-left")
    finally:
        os.kill(int(left[0].split()[1]), 9)
        Path(left[1]).unlink()


TIDY = """
import subprocess, sys, time
tidy = ["/bin/sh", "-c", 'read -r word; sleep 0.2; rmdir "$1"', "sh", sys.argv[1]]
janitor = subprocess.Popen(tidy, stdin=subprocess.PIPE, start_new_session=True)
time.sleep(60)
"""


def test_what_never_begins_is_left_to_its_janitors(tmp_path, monkeypatch):
    """Janitors descend from the driver: if they were killed with it, what they must remove would stay."""
    monkeypatch.setattr(orphans, "START_S", 1.0)
    litter = tmp_path / "dcgym-litter"
    litter.mkdir()
    case = KillCase("a test: nothing", lambda spec, folder: [sys.executable, "-c", TIDY, str(litter)], lambda family: None, True)
    with pytest.raises(TestbedError, match="never began"):
        orphans.play(case, tmp_path / "none.toml", tmp_path)
    assert not litter.exists()


SHARED = """
import subprocess, sys, time
held = open(sys.argv[1] + "/log", "w")
child = [sys.executable, "-c", "import time; time.sleep(60)"]
subprocess.Popen(child, stdout=held).wait()
time.sleep(60)
"""


def test_a_folder_of_those_who_live_on_is_not_left_by_the_dead(tmp_path, monkeypatch):
    """Surviving processes may keep a folder, such as that of their Ray. When they are killed, too, it must be removed."""
    monkeypatch.setattr(orphans, "DEADLINE_S", 0.5)
    monkeypatch.setattr(orphans, "UNDER_WAY_S", 0.5)
    monkeypatch.setattr(orphans.tempfile, "gettempdir", lambda: str(tmp_path))
    shared, own_folder = tmp_path / "dcgym-shared", tmp_path / "own"
    shared.mkdir()
    own_folder.mkdir()

    def the_child(family):
        return family[1] if len(family) > 1 else None

    case = KillCase("a test: a child", lambda spec, folder: [sys.executable, "-c", SHARED, str(shared)], the_child, False)
    report, left = orphans.play(case, tmp_path / "none.toml", own_folder)
    assert report.startswith("1 processes gone after") and left == [str(shared)]


def test_a_driver_that_ends_too_early_is_quoted(tmp_path):
    case = KillCase("a test", lambda spec, folder: [sys.executable, "-c", "print('no such thing')"], orphans.the_driver, True)
    with pytest.raises(TestbedError, match=r"never began(.|\n)*no such thing"):
        orphans.play(case, tmp_path / "none.toml", tmp_path)
