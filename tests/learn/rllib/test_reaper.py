# SPDX-License-Identifier: Apache-2.0
"""The reaper ends the processes that hold files of a Ray whose training was killed, and no others. No Ray is needed here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dc_gym.learn.rllib import reaper

TRAINING = """
import subprocess, sys, time
from pathlib import Path
from dc_gym.learn.rllib import reaper
folder = Path(sys.argv[1])
with reaper.watching(folder) as watch:
    null = subprocess.DEVNULL
    held = subprocess.Popen(["sleep", "60"], stdout=(folder / "log").open("w"), stderr=null)
    other = subprocess.Popen(["sleep", "60"], stdout=null, stderr=null, start_new_session=True)
    watch.knows(held.pid if "raylet" in sys.argv else None)
    print(held.pid, other.pid, flush=True)
    if "shutdown" in sys.argv:
        watch.leaves_raylet()
        held.kill()
        held.wait()
        time.sleep(1)
    elif "done" not in sys.argv:
        time.sleep(60)
"""


def begin(folder: Path, *words: str) -> tuple[subprocess.Popen[str], int, int]:
    """Starts a training; returns it, its child that holds a file of its folder, and another child."""
    argv = [sys.executable, "-c", TRAINING, str(folder), *words]
    training = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert training.stdout is not None
    holder, other = map(int, training.stdout.readline().split())
    return training, holder, other


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(*pids: int) -> None:
    deadline = time.monotonic() + 60
    while any(map(lives, pids)):
        assert time.monotonic() < deadline, "it was to be killed"
        time.sleep(0.05)


def test_who_holds_files_of_a_training_that_was_killed_goes(tmp_path: Path) -> None:
    training, holder, other = begin(tmp_path)
    training.kill()
    wait_until_gone(holder)
    training.communicate()
    assert lives(other), "only who holds files of the folder"
    os.kill(other, signal.SIGKILL)


def test_a_training_without_its_raylet_ends_and_says_so(tmp_path: Path) -> None:
    training, raylet, other = begin(tmp_path, "raylet")
    os.kill(raylet, signal.SIGKILL)
    wait_until_gone(training.pid)
    assert "raylet has ended" in training.communicate()[1] and training.returncode == -signal.SIGTERM
    os.kill(other, signal.SIGKILL)


def test_after_a_shutdown_only_who_was_forgotten_goes(tmp_path: Path) -> None:
    training, holder, other = begin(tmp_path, "done")
    assert training.wait(60) == 0
    wait_until_gone(holder)
    assert lives(other) and reaper.raylet_of(training.pid) is None
    os.kill(other, signal.SIGKILL)


def test_a_raylet_that_ends_in_a_shutdown_ends_nothing_else(tmp_path: Path) -> None:
    training, _, other = begin(tmp_path, "raylet", "shutdown")
    assert training.wait(60) == 0 and training.stderr is not None and training.stderr.read() == ""
    os.kill(other, signal.SIGKILL)


@pytest.mark.parametrize("name", ["nobody", "nothing"])
def test_nobody_holds_what_is_not_there(name: str, tmp_path: Path) -> None:
    assert reaper.holders(tmp_path / name) == []
