# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc boost`: GBRL's trees become those of a NIC, and act as GBRL says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.cli.main import main
from dc_gym.methods.rlcc.decision import MAX_ACTION
from dc_gym.methods.rlcc.offline import boost
from dc_gym.methods.rlcc.trees import Trees
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy

BOOST = ("method", "rlcc", "boost")


def test_trees_act_as_gbrl_says_and_cut_where_a_queue_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("gbrl")
    learner = boost._learner()
    monkeypatch.setattr(boost, "_learner", lambda: learner)
    monkeypatch.setattr(boost, "BATCH_SIZE", 1000)
    out = tmp_path / "boosted.npz"
    assert main([*BOOST, "--trees", "4", "--out", str(out)]) == 0
    assert "2 flows: inflation" in capsys.readouterr().out
    trees = NicPolicy.read(out).policy
    assert isinstance(trees, Trees) and len(trees.inputs) == 4
    inputs = np.random.default_rng(1).normal(1.0, 1.0, (500, 4)).astype(np.float32)
    for row, column, border in zip(inputs, trees.inputs.reshape(-1), trees.borders.reshape(-1), strict=False):
        row[column] = border - boost.BORDER_OFFSET  # exactly what GBRL compares with
    said: Any = learner.predict(inputs, requires_grad=False, tensor=False)
    expected = np.clip(1.0 + said.reshape(-1), 1 / MAX_ACTION, MAX_ACTION)
    assert trees(inputs) == pytest.approx(expected, abs=1e-6)
    assert TablePolicy(NicPolicy.read(out).table())(inputs) == pytest.approx(expected, abs=1e-3)
    assert trees([1, 5, 1, 5]) < 1


def test_too_many_trees_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BOOST, "--trees", "65", "--out", str(tmp_path / "a.npz")]) == 2
    assert "--trees 65: give 1 to 64" in capsys.readouterr().err
