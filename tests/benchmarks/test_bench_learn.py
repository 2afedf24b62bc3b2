# SPDX-License-Identifier: Apache-2.0
"""How bench learn judges policies that ship, and trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.perf import learn
from dc_gym.cli.main import main
from dc_gym.learn.ladder import Ladder, Rung
from dc_gym.learn.tasks import TASKS


def rung(name: str, value: float) -> Rung:
    return Rung(name, [{"return": value}] * 4)


@pytest.fixture
def ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(task: Any, seeds: Any, policy: Path | None, *_: Any) -> Ladder:
        acts = None if policy is None else rung(str(policy), 17)
        return Ladder(rung("constant -1", 0), rung("constant 0", 10), rung("DCTCP", 15), rung("oracle", 20), acts)

    monkeypatch.setattr(learn.ladder, "measure", measure)


def test_a_policy_that_ships_is_measured_on_its_ladder(ladder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    monkeypatch.setattr(learn, "shipped", lambda task: Path("own.npz") if task is TASKS[0] else None)
    first, second = learn.checks(TASKS[:2])
    assert not first.ok and "70%: worst constant 0, best constant 10, DCTCP 15, policy 17, oracle 20" in first.measured
    assert second.skipped and "no policy ships" in second.measured


def test_trainings_pass_by_their_interquartile_mean_and_their_worst(ladder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    returns = dict(enumerate((15.9, 18, 18, 19, 20), 1))
    monkeypatch.setattr(learn, "_trained", lambda task, seed, *_: seed)
    monkeypatch.setattr(learn, "evaluate", lambda spec, seed, episodes: rung("", returns[seed]).totals)
    listed = [*learn.trainings(TASKS[0], [*returns], Path("results"), Quiet())]
    assert [check.ok for check in listed] == [False, True, True, True, True, True]
    assert listed[-1].measured.startswith("83% (")


def test_other_benches_train_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "links", "--train", "ChangingLink"]) == 2
    assert "--train applies only to bench learn" in capsys.readouterr().err
