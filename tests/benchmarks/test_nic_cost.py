# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench nic-cost` where there is no BPF: everything is still counted, in a lab, and the times say what they are."""

import pytest

from dc_gym.benchmarks.perf import nic_cost
from dc_gym.ctrl.nic import algorithms, kernels


@pytest.mark.lab
def test_without_root_the_table_is_whole_and_says_so(monkeypatch):
    monkeypatch.setattr(kernels, "reason_not_here", lambda: "not root")
    monkeypatch.setattr(nic_cost, "REPEAT", 10)
    skipped, *checks = nic_cost.checks()
    assert skipped.skipped and skipped.measured == "not root"
    assert [check.name for check in checks] == list(algorithms.names())
    assert all("userspace, not BPF" in check.measured and "bytes a flow" in check.measured for check in checks)
    (tree,) = (check for check in checks if check.name == "rlcc-tree")
    assert tree.required == "< 500 ns"


def test_a_tree_that_is_too_slow_fails(tmp_path):
    tree = algorithms.load("rlcc-tree", tmp_path)
    fast, late = (
        nic_cost._check(nic_cost.AlgorithmCost(tree, 300, 17_000, {"rtt": ns, "tx": 2.0}, "here")) for ns in (499.0, 501.0)
    )
    assert fast.ok and not late.ok
