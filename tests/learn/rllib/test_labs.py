# SPDX-License-Identifier: Apache-2.0
"""The command on real labs: the same twice, a policy that runs, and nothing left of a training that is killed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dc_gym.cli.watch import places

pytestmark = [pytest.mark.lab, pytest.mark.long]
SPEC = """
name = "short"
[topology]
preset = "dumbbell-10m"
[controller]
name = "cubic"
[workload]
kind = "pairs"
jitter = "10ms"
[time]
duration = "100ms"
"""
CONFIG = """
[run]
labs = 2
evaluate_episodes = 1
checkpoint_every = 1
[training]
train_batch_size_per_learner = 200
num_epochs = 2
"""
LABS = ["training 1", "training 2", "evaluation"]
DEADLINE_S = 120.0


def words(tmp_path: Path, out: str, steps: int) -> list[str]:
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "train.toml").write_text(CONFIG)
    argv = [
        sys.executable,
        "-m",
        "dc_gym.cli.main",
        "train",
        str(tmp_path / "spec.toml"),
        "--config",
        str(tmp_path / "train.toml"),
    ]
    return [*argv, "--steps", str(steps), "--out", str(tmp_path / out), "--quiet"]


def test_one_seed_is_one_training_and_its_policy_runs(tmp_path: Path) -> None:
    for out in ("a", "b"):
        process = subprocess.run(words(tmp_path, out, 1000), capture_output=True, text=True)
        assert (process.returncode, process.stderr) == (0, "")
        assert process.stdout.strip() == str(tmp_path / out / "policy.npz")
    first, second = ((tmp_path / out / "policy.npz").read_bytes() for out in ("a", "b"))
    assert first == second
    assert not any((tmp_path / "a").glob("dcgym-*"))
    run = ["run", str(tmp_path / "spec.toml"), "--set", f"controller={tmp_path / 'a' / 'policy.npz'}", "--quiet", "--no-plot"]
    process = subprocess.run(
        [sys.executable, "-m", "dc_gym.cli.main", *run, "--out", str(tmp_path / "run")], capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    exported = subprocess.run(
        [sys.executable, "-m", "dc_gym.cli.main", "export", str(tmp_path / "a"), "--out", str(tmp_path / "again.npz")],
        capture_output=True,
        text=True,
    )
    assert exported.returncode == 0, exported.stderr
    assert (tmp_path / "again.npz").read_bytes() == first


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_training_says_how_to_go_on_and_does(tmp_path: Path, number: signal.Signals, code: int) -> None:
    """Every process of the terminal gets Ctrl-C, the labs included; the command that is named ends the training."""
    argv = [word for word in words(tmp_path, "a", 4000) if word != "--quiet"]
    (tmp_path / "train.toml").write_text(CONFIG.replace("checkpoint_every = 1", "checkpoint_every = 1000"))
    training = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, start_new_session=True)
    progress = tmp_path / "a" / "progress.csv"
    wait_for(lambda: progress.exists() and len(progress.read_text().splitlines()) > 2, 2 * DEADLINE_S)
    assert labs_of(tmp_path / "a") == LABS
    os.killpg(training.pid, number) if number == signal.SIGINT else training.send_signal(number)
    _, stderr = training.communicate(timeout=DEADLINE_S)
    assert training.returncode == code, stderr
    wait_for(lambda: not mentioned(tmp_path), DEADLINE_S)
    (checkpoint,) = (tmp_path / "a" / "checkpoints").iterdir()
    line = next(message for message in stderr.splitlines() if f"is kept in {checkpoint}; go on with: dcgym train " in message)
    before = progress.read_text().splitlines()[1:]
    again = shlex.split(line.split("go on with: dcgym ")[1])
    process = subprocess.run([sys.executable, "-m", "dc_gym.cli.main", *again], capture_output=True, text=True)
    assert process.returncode == 0 and f"from {checkpoint}" in process.stderr, process.stderr
    after = progress.read_text().splitlines()[1:]
    iteration = int(checkpoint.name.removeprefix("iteration-"))
    assert iteration >= 2 and after[:iteration] == before[:iteration]
    assert [row.split(",")[1] for row in after] == ["1000", "2000", "3000", "4000"]


def test_nothing_is_left_of_one_that_is_killed(tmp_path: Path) -> None:
    training = subprocess.Popen([*words(tmp_path, "a", 10**7), "--runners", "1"], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: any((tmp_path / "a" / "checkpoints").glob("iteration-*")), 2 * DEADLINE_S)
        assert mentioned(tmp_path) and labs_of(tmp_path / "a") == LABS
    finally:
        os.kill(training.pid, signal.SIGKILL)
        training.wait()
    wait_for(lambda: not mentioned(tmp_path), DEADLINE_S)
    wait_for(lambda: not any((tmp_path / "a").glob("dcgym-env-*")), DEADLINE_S)


def labs_of(out: Path) -> list[str]:
    """Returns the labs under the names that `dcgym watch` gives them."""
    return [lab.name for lab in places.find(out)]


def mentioned(folder: Path) -> list[str]:
    """Returns the command lines of processes that name the folder: those of labs and their janitors."""
    commands = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = cmdline.read_bytes().decode(errors="replace")
        except OSError:
            continue  # it has ended
        if str(folder) in text:
            commands.append(text)
    return commands


def wait_for(condition, deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "not within the deadline"
        time.sleep(0.2)
