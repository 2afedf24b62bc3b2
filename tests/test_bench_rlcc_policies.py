# SPDX-License-Identifier: Apache-2.0
"""Tests the computations of the benches of RL-CC's pipeline on hand-made data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym.benchmarks.checks import rlcc_distil
from dc_gym.benchmarks.checks.rlcc_distil import SettledFlows
from dc_gym.cli.main import main
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.nets.trees import Trees

NET = SettledFlows(2.0, 0.98, 1.0, 0)


@pytest.mark.parametrize(
    ("inflation", "goodput", "good"),
    [(2.09, 0.98, True), (2.11, 0.98, False), (1.89, 0.98, False), (2.0, 0.961, True), (2.0, 0.959, False)],
)
def test_trees_are_near_their_network_or_not(inflation: float, goodput: float, good: bool) -> None:
    assert rlcc_distil.near(SettledFlows(inflation, goodput, 1.0, 0), NET) == good


@pytest.mark.parametrize(("enough", "bars_good"), [(10, True), (20, True), (40, True), (99, False)])
def test_more_trees_are_tried_until_they_are_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, enough: int, bars_good: bool
) -> None:
    def measured(_folder: Path, _title: str, file: NicPolicy) -> dict[int, SettledFlows]:
        few = isinstance(file.policy, Trees) and len(file.policy.inputs) < enough
        return {flows: SettledFlows(3.0 if few and flows == 512 else 2.0, 0.98, 1.0, 0) for flows in rlcc_distil.FLOWS}

    def made(net: NicPolicy, how: rlcc_distil.Distillation) -> NicPolicy:
        count = how.trees
        return NicPolicy(Trees(np.zeros((count, 4), np.int64), np.zeros((count, 4)), np.zeros((count, 16)), 1.0), net.scaling)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(rlcc_distil, "measure", measured)
    monkeypatch.setattr(rlcc_distil.distil, "make", made)
    checks = list(rlcc_distil.checks("rlcc-mlp"))
    assert all(check.ok for check in checks) == bars_good
    tried = {10: 1, 20: 2, 40: 3, 99: 3}[enough]
    assert len(checks) == 3 + 3 * tried + 1
    assert f"{min(enough, 40)} trees: {41 * min(enough, 40)} bytes" in checks[-1].measured


def test_a_policy_is_of_one_bench_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "links", "--policy", "rlcc-tree"]) == 2
    assert "applies only to bench rlcc-distil" in capsys.readouterr().err
    assert main(["bench", "rlcc-distil", "--policy", "nowhere.npz"]) == 2
