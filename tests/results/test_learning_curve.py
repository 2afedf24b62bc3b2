# SPDX-License-Identifier: Apache-2.0
"""Learning curves: what is read of a training's tables, what `dcgym plot` draws of it, and what bad input says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from doc_pages import ROOT

from dc_gym.base.errors import ResultError, UsageError
from dc_gym.cli import main
from dc_gym.results import learning_curve
from dc_gym.results.figures import learning

PROGRESS = (
    "iteration,steps,return_mean,queue_mean,learner_policy_loss\n1,1000,,,0.5\n2,2000,10.5,3000,0.25\n3,3000,12.5,2000,0.125\n"
)
EVALUATION = (
    "iteration,steps,spec,seed,return,episode_steps\n"
    "0,0,train,1,-900,5\n0,0,train,2,-1000,5\n3,3000,train,1,11,5\n3,3000,train,2,13,5\n3,3000,other,1,8,5\n"
)
RLCC = "update,decisions,mean_error,mean_reward\n" + "".join(f"{n},40,{1 / n:.6f},{-n:.6f}\n" for n in range(1, 61))
ACC = (
    "episode,scenario,decisions,mean_reward,mean_error,share_at_random\n"
    "1,incast,0,0,0,1\n2,ring,36,0.7,0.5,0.9\n3,ring,36,0.8,0.25,0.8\n"
)
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "rl-libraries.md").read_text(), re.MULTILINE | re.DOTALL)


def trained(folder: Path, **tables: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def test_a_training_with_evaluations(tmp_path: Path) -> None:
    curve = learning_curve.read(trained(tmp_path / "ppo", progress=PROGRESS, evaluation=EVALUATION))
    assert (curve.command, curve.axis, curve.x.tolist()) == ("dcgym train", "steps", [1000, 2000, 3000])
    np.testing.assert_equal(curve.columns["return_mean"], [np.nan, 10.5, 12.5])
    trained_spec, other = curve.evaluations
    assert (trained_spec.spec, other.spec) == ("train", "other")
    x, means = trained_spec.means()
    assert x.tolist() == [0, 3000] and means.tolist() == [-950, 12]
    assert curve.rows()[0] == {"steps": 1000, "iteration": 1, "learner_policy_loss": 0.5}


def test_rows_without_decisions_have_no_reward(tmp_path: Path) -> None:
    curve = learning_curve.read(trained(tmp_path / "acc", curve=ACC))
    assert curve.command == "dcgym method acc train" and "scenario" not in curve.columns
    np.testing.assert_equal(curve.columns["mean_reward"], [np.nan, 0.7, 0.8])


def test_a_training_under_way_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    trained(tmp_path / "ppo.partial", progress=PROGRESS + "4,40")
    assert learning_curve.is_training(tmp_path / "ppo")
    assert learning_curve.read(tmp_path / "ppo").x.tolist() == [1000, 2000, 3000]


def test_what_is_drawn(tmp_path: Path) -> None:
    """The untrained policy is too far off for the axis, and the caption tells its return."""
    figure = learning.draw(learning_curve.read(trained(tmp_path / "ppo", progress=PROGRESS, evaluation=EVALUATION)))
    first, second = figure.axes
    assert first.get_title(loc="left") == "Return of an episode, with exploration" and second.get_ylabel() == "kB"
    assert first.lines[0].get_xydata().tolist() == [[2000, 10.5], [3000, 12.5]]
    assert first.lines[2].get_xydata().tolist() == [[3000, 12]]
    assert first.get_ylim()[0] > 0 and "untrained on train, -950" in figure.get_supxlabel()
    assert [text.get_text() for text in first.get_legend().get_texts()] == [
        "training", "frozen policy on train", "frozen policy on other",
    ]  # fmt: skip


def test_a_long_training_has_a_mean_over_a_window(tmp_path: Path) -> None:
    figure = learning.draw(learning_curve.read(trained(tmp_path / "rlcc", curve=RLCC)))
    thin, thick = figure.axes[0].lines
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["Reward of a decision", "Error of a decision"]
    assert thin.get_ydata().tolist() == [-n for n in range(1, 61)]
    assert thick.get_ydata()[0] == -1 and thick.get_ydata()[-1] == pytest.approx(-59)
    assert "the last 3 rows" in figure.get_supxlabel()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One training gives one picture, bit for bit; a file that is not this picture stays."""
    folder = trained(tmp_path / "rlcc", curve=RLCC)
    assert main.main(["plot", str(folder)]) == 0
    before = (folder / "learning.png").read_bytes()
    assert capsys.readouterr().out.strip() == str(folder / "learning.png") and before.startswith(b"\x89PNG")
    assert main.main(["plot", str(folder)]) == 0 and (folder / "learning.png").read_bytes() == before
    other = tmp_path / "mine.png"
    other.write_bytes(b"mine")
    assert main.main(["plot", str(folder), "--out", str(other)]) == 2 and other.read_bytes() == b"mine"
    assert main.main(["plot", str(folder), "--y", "decisions", "--out", str(tmp_path / "decisions.svg")]) == 0


@pytest.mark.parametrize(
    ("tables", "words", "message"),
    [
        ({"curve": RLCC}, ["--y", "mean_rewrad"], "did you mean mean_reward?"),
        ({"curve": "update,decisions,mean_error,mean_reward\n"}, [], "it has no row yet"),
        ({"curve": RLCC.replace("\n7,", "\nx,")}, [], "update is not a number in every row"),
        ({"progress": "iteration,steps,return_mean\n1,1000,\n"}, [], "no episode has ended yet"),
        ({"curve": "a,b\n1,2\n"}, [], "no training; give the --out of"),
    ],
)
def test_bad_input(
    tables: dict[str, str], words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["plot", str(trained(tmp_path / "t", **tables)), *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_errors_have_their_types(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no training"):
        learning_curve.read(tmp_path)
    with pytest.raises(ResultError, match="no row yet"):
        learning_curve.read(trained(tmp_path / "t", curve="update,decisions\n"))


def snippet(package: str) -> str:
    return next(text for text in SNIPPETS if f"import {package}\n" in text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where the page's training is, as the recipes expect it."""
    trained(tmp_path / "results" / "trained", curve=RLCC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Recorder(ModuleType):
    """Stands in for a tracker's package and keeps what the recipe gives it, so that the recipe is tested without the package."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.logged: list[tuple[dict[str, float], int]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((values, step))

    log_metrics = log


@pytest.mark.parametrize("package", ["wandb", "mlflow"])
def test_the_recipes_give_every_row(package: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(package)
    monkeypatch.setitem(sys.modules, package, recorder)
    exec(compile(snippet(package), package, "exec"), {})
    assert [step for _, step in recorder.logged] == list(range(1, 61))
    assert recorder.logged[1][0]["mean_reward"] == -2


def test_wandb_offline(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    exec(compile(snippet("wandb"), "wandb", "exec"), {})
    assert list(folder.glob("wandb/offline-run-*/*.wandb"))


def test_mlflow_in_a_file(folder: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    exec(compile(snippet("mlflow"), "mlflow", "exec"), {})
    mlflow_runs = mlflow.search_runs(experiment_names=["dc-gym"], output_format="list")
    assert len(mlflow_runs) == 1 and mlflow_runs[0].data.metrics["mean_reward"] == -60
