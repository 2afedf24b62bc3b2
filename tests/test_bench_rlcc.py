# SPDX-License-Identifier: Apache-2.0
"""Tests how the bench of RL-CC's training judges a run."""

from pathlib import Path

import pytest
import synthetic

from dc_gym.base.checks import Check
from dc_gym.benchmarks.checks import rlcc_train
from dc_gym.kernel.lab import check_place
from dc_gym.records.results import Result

GOOD = {"utilization": 0.999, "jain": 0.99, "drops": 0.0}


def run(folder: Path, **other: float | None) -> Result:
    made = synthetic.result(folder / "run", synthetic.tables([synthetic.flow_row(0, transport="rdma")]))
    made.summary = GOOD | other  # type: ignore[assignment]
    return made


def test_a_network_that_keeps_eq_2_is_good(tmp_path: Path) -> None:
    found = list(rlcc_train.of_run("seed 1, 64 flows", 64, 2.012 * 1.05, run(tmp_path)))
    assert [check.ok for check in found] == [True, True]
    assert found[0].required.startswith("2.012") and "+5.0%" in found[0].measured


@pytest.mark.parametrize("off", [0.89, 1.11])
def test_a_queue_beside_eq_2_is_short(tmp_path: Path, off: float) -> None:
    found = list(rlcc_train.of_run("seed 1, 64 flows", 64, 2.012 * off, run(tmp_path)))
    assert [check.ok for check in found] == [False, True]


@pytest.mark.parametrize("other", [{"utilization": 0.9}, {"jain": 0.95}, {"jain": None}, {"drops": 1.0}])
def test_an_idle_link_unequal_shares_and_losses_are_short(tmp_path: Path, other: dict[str, float | None]) -> None:
    found = list(rlcc_train.of_run("seed 1, 64 flows", 64, 2.012, run(tmp_path, **other)))
    assert [check.ok for check in found] == [True, False]


def test_each_network_is_trained_and_tried_where_labs_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: dict[str, Path] = {}

    def of_policy(name: str, policy: Path, folder: Path) -> list[Check]:
        check_place(folder, "a run's folder", "rename it")
        tried[name] = folder
        return []

    monkeypatch.setattr(rlcc_train.train, "train_on_labs", lambda settings, out, progress: None)
    monkeypatch.setattr(rlcc_train, "of_policy", of_policy)
    assert list(rlcc_train.checks(seeds=2)) == []
    assert list(tried) == ["mlp, seed 1", "mlp, seed 2", "lstm, seed 1"] and len(set(tried.values())) == 3
