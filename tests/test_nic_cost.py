# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench nic-cost` where there is no BPF: everything is still counted, in a lab, and the times say what they are."""

import pytest

from dc_gym.benchmarks.perf import nic_cost, nic_packets
from dc_gym.benchmarks.perf.nic_packets import Spent
from dc_gym.ctrl.nic import algorithms, kernels
from dc_gym.sweep import runs


@pytest.mark.lab
def test_without_root_the_table_is_whole_and_says_so(monkeypatch):
    monkeypatch.setattr(kernels, "reason_not_here", lambda: "not root")
    monkeypatch.setattr(nic_cost, "REPEAT", 10)
    monkeypatch.setattr(nic_cost.nic_packets, "checks", lambda: ())
    skipped, *checks = nic_cost.checks()
    assert skipped.skipped and skipped.measured == "not root"
    assert [check.name for check in checks] == list(algorithms.names())
    assert all("userspace, not BPF" in check.measured and "bytes a flow" in check.measured for check in checks)
    (tree,) = (check for check in checks if check.name == "rlcc-tree")
    assert tree.required == "< 500 ns"


def test_a_tree_that_is_too_slow_fails(tmp_path):
    tree = algorithms.load("rlcc-tree", tmp_path)
    good, late = (
        nic_cost._check(nic_cost.AlgorithmCost(tree, 300, 17_000, {"rtt": ns, "tx": 2.0}, "here")) for ns in (499.0, 501.0)
    )
    assert good.ok and not late.ok


def test_a_packet_costs_what_the_longer_run_took_more():
    short, long = [Spent(1000, 5.0, 7.0), Spent(1000, 3.0, 4.0)], [Spent(3000, 3.5, 4.8), Spent(3000, 9.0, 9.0)]
    found = nic_packets.cost(short, long)
    assert (found.packets, round(found.wall_us), round(found.cpu_us)) == (2000, 250, 400)
    other = nic_packets.PacketCost(2000, 249.0, 399.0)
    assert not nic_packets.check(2, found, other).ok and nic_packets.check(2, other, found).ok


@pytest.mark.lab
def test_both_send_the_same_load(tmp_path):
    """The shorter run is the beginning of the longer one, and packets are counted where they are sent."""
    spec = runs.write_spec(tmp_path, "cost", nic_packets.SPEC)
    spent = nic_packets.measured(tmp_path, spec, 2, (20, 40), 1)
    packets = {name: nic_packets.cost(*its).packets for name, its in spent.items()}
    line = 10**10 * 0.02 / (1514 * 8)
    assert all(0.9 * line < sent <= 1.01 * line for sent in packets.values()), (packets, line)
