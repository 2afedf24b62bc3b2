# SPDX-License-Identifier: Apache-2.0
"""`dcgym method fdcc train`: trainings that are killed, go on, and are refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.methods.fdcc import net as fdcc
from dc_gym.methods.fdcc.offline import checkpoint, model_incasts, train
from dc_gym.methods.fdcc.offline.actor import Actor
from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings
from dc_gym.methods.fdcc.offline.trainer import Trainer
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy

SMALL = FdccTrainingSettings(
    episodes=2, stages=(2, 4), tested=(2,), flows=8, steps=60, updates=2, history=4, sequences=8, replay=400
)
KEPT = ("policy.npz", "curve.csv", "stages.csv", "checkpoint.npz")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets tests of stages take no time, and writes a checkpoint after each episode."""
    monkeypatch.setattr(model_incasts, "MOST_SIZE_BDP", 20.0)
    monkeypatch.setattr(train, "KEPT_EVERY", 1)


def test_a_training_that_was_stopped_goes_on_and_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: None
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for out in (whole, broken):
        out.mkdir()
    policy = train.train(SMALL, whole, Quiet())
    written = checkpoint.write

    class Stopped(Exception):
        pass

    def stop(trainer: Trainer, folder: Path, depends_on: Any) -> None:
        written(trainer, folder, depends_on)
        if len(trainer.curve) == 3:
            raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write", stop)
        with pytest.raises(Stopped):
            train.train(SMALL, broken, Quiet())
    assert not (broken / "policy.npz").exists(), "of a training that is not over"
    train.train(SMALL, broken, Quiet(), resume=True)
    for name in KEPT:
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    manifest = json.loads((broken / "manifest.json").read_text())
    assert manifest["resumed_at_episode"] == 3 and manifest["policy_sha256"] == policy.sha256()
    assert isinstance(policy.policy, fdcc.FdccNet) and policy.policy.history == 4
    assert NicPolicy.read(broken / "policy.npz").sha256() == policy.sha256()
    assert len((whole / "curve.csv").read_text().splitlines()) == 5
    stages = (whole / "stages.csv").read_text().splitlines()
    assert [line.split(",")[:3] for line in stages[1:]] == [["2", "2", "2"], ["4", "4", "2"]]


def test_a_training_that_is_killed_goes_on_from_the_command_line(tmp_path: Path) -> None:
    """kill -9 after the first checkpoint; --resume gives what an undisturbed training gives."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    code = (
        "import sys; from dc_gym.methods.fdcc.offline import model_incasts, train; train.KEPT_EVERY = 1;"
        "model_incasts.MOST_SIZE_BDP = 20.0; from dc_gym.methods.fdcc.offline.presets import FdccTrainingSettings;"
        f"train.settings_of = lambda args: {replace(SMALL, episodes=6)!r};"
        "from dc_gym.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "method", "fdcc", "train", "--quiet"]
    subprocess.run([*command, "--out", str(whole)], check=True, stdout=subprocess.DEVNULL)
    running = subprocess.Popen([*command, "--out", str(broken)], stdout=subprocess.DEVNULL)
    while running.poll() is None and not (broken / "checkpoint.npz").exists():
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    subprocess.run([*command, "--out", str(broken), "--resume"], check=True, stdout=subprocess.DEVNULL)
    for name in KEPT:
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name


def test_a_training_goes_on_as_it_began(tmp_path: Path) -> None:
    trainer = Trainer.new(SMALL)
    checkpoint.write(trainer, tmp_path, {"settings": {"seed": 1}})
    assert checkpoint.FORMAT.length(tmp_path) == 0
    again = checkpoint.read(tmp_path, {"settings": {"seed": 1}}, SMALL)
    assert all((array == other).all() for array, other in zip(trainer.arrays().values(), again.arrays().values(), strict=True))
    with pytest.raises(UsageError, match=r"settings\.seed.* 1 .* 2 .*; .*goes on as it began"):
        checkpoint.read(tmp_path, {"settings": {"seed": 2}}, SMALL)
    with pytest.raises(UsageError, match=r"critics.*shapes"):
        checkpoint.read(tmp_path, {"settings": {"seed": 1}}, replace(SMALL, history=5))
    (tmp_path / "checkpoint.npz").write_text("nothing")
    with pytest.raises(UsageError, match=r"--resume.*`dcgym method fdcc train`"):
        checkpoint.read(tmp_path, {"settings": {"seed": 1}}, SMALL)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--history", "9"), "--history 9: FDCC looks back on 1 to 8 observations; give one of those"),
        (("--history", "0"), "--history 0: FDCC looks back on 1 to 8 observations"),
        (("--preset", "thesys"), "--preset: preset 'thesys' is unknown; did you mean thesis"),
        (("--episodes", "0"), "--episodes 0: give 1 or more"),
        (("--updates", "-1"), "--updates -1: give 1 or more"),
        (("--replay", "0"), "--replay 0: give 1 or more"),
        (("--discount", "1"), "--discount 1: give a number from 0 to below 1"),
        (("--learning-rate", "0"), "--learning-rate 0: give a number above 0"),
        (("--explore", "-1"), "--explore -1: give a number from 0"),
        (("--resume",), "has no checkpoint.npz"),
    ],
)
def test_wrong_options_are_one_line(words: tuple[str, ...], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["method", "fdcc", "train", "--out", str(tmp_path / "out"), *words]) == 2
    stderr = capsys.readouterr().err.strip()
    assert why in stderr and "\n" not in stderr


def test_windows_that_stay_fill_the_line_and_flood_the_queue() -> None:
    """A network of zeros keeps windows of one BDP: full, and in whole packets all but one BDP of them in the queue."""
    zeros = [np.zeros(shape, np.float32) for shape in fdcc.SHAPES]
    outcome = model_incasts.run(Actor(zeros), 8)
    assert outcome.used > 0.9 and outcome.longest_bdp == pytest.approx(8 * 11 / 11.2 - 1, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "least", "most"), [("fdcc-crowds", 0.5, 0.7), ("fdcc", 0.95, 1.0), ("fdcc-scripted", 0.95, 1.0)]
)
def test_a_lone_flow_fills_the_line_by_policies_that_know_one(name: str, least: float, most: float) -> None:
    policy = TablePolicy(NicPolicy.read(nic_policy.shipped(name)).table())
    assert least < model_incasts.run(policy, 1).used <= most
