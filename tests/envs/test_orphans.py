# SPDX-License-Identifier: Apache-2.0
"""A process that holds environments leaves nothing, however it ends: no process, no folder, no shared memory.

`dcgym bench orphans` kills other processes than the holder, and says after how long.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from dc_gym.base import processes
from dc_gym.benchmarks.checks import clean

pytestmark = pytest.mark.lab

HOLDERS = {
    "one lab": """
from dc_gym.envs.env import DataCenterEnv
env = DataCenterEnv(spec, folder=folder)
""",
    "a vector of labs": """
from dc_gym.envs.vector import LabVectorEnv
env = LabVectorEnv(2, spec, folder=folder)
""",
    "one agent a host": """
from dc_gym.envs.multi_agent import Agents
env = Agents(spec, folder=folder)
env.reset, env.action_space = env.begin, lambda: None
env.action_space.sample = lambda: {name: [1.0] for name in env.names}
""",
}
SCRIPT = """
import sys
from dc_gym.envs.registration import SPECS
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
    while found := [each for each in family if each.alive()] + [path.name for path in folder.iterdir()]:
        assert time.monotonic() < deadline, f"left: {found}"
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
    before = clean._surroundings()
    process, family = hold(tmp_path, holder, busy)
    end(process)
    process.communicate(timeout=60)
    expect_nothing(family, tmp_path)
    mine = {path for path in clean._surroundings() - before if str(process.pid) in path}
    assert not mine


def test_a_lab_that_is_stopped_goes_with_its_process(tmp_path):
    """A stopped lab cannot see that its channel was closed."""
    process, family = hold(tmp_path, "one lab", False)
    labs = [each for each in family if each.name == "linux"]
    assert labs
    for lab in labs:
        os.kill(lab.pid, signal.SIGSTOP)
    killed(process)
    process.communicate(timeout=60)
    expect_nothing(family, tmp_path)
