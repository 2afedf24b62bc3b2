# SPDX-License-Identifier: Apache-2.0
"""Table VI and its two orders, for any policy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dc_gym.cli.main import main
from dc_gym.methods.rlcc.offline import explain, response
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import NicPolicy

PAPER = np.array(response.PAPER)


def misses(nine: np.ndarray) -> list[str]:  # type: ignore[type-arg]
    return [statement.says for statement in explain.check_table(nine) if not statement.holds]


def test_the_paper_s_table_has_both_orders() -> None:
    assert misses(PAPER) == []


@pytest.mark.parametrize(
    ("at", "value", "missing"),
    [
        ((1, 1), 1.11, ["raise > keep > cut", "twice keeps"]),
        ((0, 2), 0.93, ["raise > keep > cut"]),
        ((2, 2), 0.895, ["a first cut is stronger"]),
        ((0, 0), 1.12, ["a first raise is stronger"]),
        ((0, 1), 1.01, ["from under-utilized to target"]),
        ((2, 1), 0.99, ["from congested to target"]),
        ((2, 2), 1.01, ["congested cuts"]),
    ],
)
def test_each_statement_can_be_missed(at: tuple[int, int], value: float, missing: list[str]) -> None:
    nine = PAPER.copy()
    nine[at] = value
    if at == (0, 2):
        nine[0, 1] = 0.92
    missed = misses(nine)
    assert len(missed) == len(missing) and all(any(part in sentence for sentence in missed) for part in missing)


def test_a_row_that_misses_is_named() -> None:
    nine = PAPER.copy()
    nine[1] = nine[1][::-1]
    (first, *_) = explain.check_table(nine)
    assert not first.holds and first.found == "not after on target"


@pytest.mark.parametrize("name", ["rlcc-mlp", "rlcc-tree"])
def test_the_shipped_policies_have_them_too(name: str) -> None:
    assert all(statement.holds for statement in explain.check_policy(nic_policy.load(name)))


def test_the_command_prints_the_nine_beside_the_paper_s_and_what_is_missed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explain, "FLOWS", (2,))
    still = Trees(np.full((1, 4), 3), np.zeros((1, 4)), np.zeros((1, 16)), 1.0)
    NicPolicy(still).write(tmp_path / "still.npz")
    assert main(["method", "rlcc", "explain", str(tmp_path / "still.npz")]) == 0
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith("congested") and "on target" in line)
    assert "1.07" in row and "1.0000" in row and "-0.0700" in row
    assert sum(line.endswith("MISSES") for line in lines) == 7
    assert main(["method", "rlcc", "explain", "rlcc-tree", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["table_vi"]) == 9 and all(order["holds"] for order in report["orders"]) and report["fluid"][0]["flows"] == 2
