# SPDX-License-Identifier: Apache-2.0
"""What the bench of RL-CC's training says of a run."""

from pathlib import Path

import pytest
import synthetic

from dc_gym.bench import rlcc_train
from dc_gym.results import Result

GOOD = {"utilization": 0.999, "jain": 0.99, "drops": 0.0}


def run(folder: Path, **other: float) -> Result:
    made = synthetic.result(folder / "run", synthetic.tables([synthetic.flow_row(0, transport="rdma")]))
    made.summary = GOOD | other  # type: ignore[assignment]
    return made


def test_a_network_that_keeps_eq_2_is_good(tmp_path: Path) -> None:
    found = list(rlcc_train.of_run("seed 1, 64 flows", 64, 2.012 * 1.05, run(tmp_path)))
    assert [bar.ok for bar in found] == [True, True]
    assert found[0].asked.startswith("2.012") and "+5.0%" in found[0].measured


@pytest.mark.parametrize("off", [0.89, 1.11])
def test_a_queue_beside_eq_2_is_short(tmp_path: Path, off: float) -> None:
    found = list(rlcc_train.of_run("seed 1, 64 flows", 64, 2.012 * off, run(tmp_path)))
    assert [bar.ok for bar in found] == [False, True]


@pytest.mark.parametrize("other", [{"utilization": 0.9}, {"jain": 0.95}, {"drops": 1.0}])
def test_an_idle_link_unequal_shares_and_losses_are_short(tmp_path: Path, other: dict[str, float]) -> None:
    found = list(rlcc_train.of_run("seed 1, 64 flows", 64, 2.012, run(tmp_path, **other)))
    assert [bar.ok for bar in found] == [True, False]
