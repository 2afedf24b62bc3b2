# SPDX-License-Identifier: Apache-2.0
"""`topology.balance` as a spec has it: what is refused, and the paths that packets may take."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from rdma_lab import load

from dc_gym.base.errors import TestbedError
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.rerouting import sent
from dc_gym.topologies.balance import Balance
from dc_gym.topologies.ecmp import Packet, crossings
from dc_gym.traffic.schedule import both_ways

SPEC = """
controller.name = "cubic"
workload.kind = "pairs"
time.duration = "5ms"
[topology]
kind = "leafspine"
leaves = 2
hosts_per_leaf = 2
spines = 3
rate = "10Gbit/s"
delay = "1us"
buffer = "300kB"
k_bytes = 30000
"""


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (["topology.balance=sprinkle"], "topology.balance = "),
        (["topology.balance_gap=1us"], "topology.balance_gap = .*ecmp"),
        (["topology.balance=random", "topology.balance_gap=1us"], "topology.balance_gap = .*random"),
        (["topology.balance=flowlet"], "topology.balance = .*balance_gap"),
        (["topology.balance=adaptive", "topology.balance_samples=2"], "topology.balance_samples = "),
        (["topology.balance=drill", "topology.balance_samples=9"], "topology.balance_samples = 9"),
        (["topology.balance=drill", "topology.balance_memory=9"], "topology.balance_memory = 9"),
        (["topology.balance=random", "topology.balance_at=['agg']"], "topology.balance_at: .*agg"),
        (["topology.balance=random", "topology.balance_at=['spine']"], "topology.balance = .*equal next hops"),
        (["topology.balance=random", "topology.spines=1"], "topology.balance = .*equal next hops"),
        (["topology.balance=random", "topology.routing=single"], "topology.balance = .*single"),
        (["topology.balance=random", "ground=host"], "topology.balance: .*lab"),
        (["topology.balance_weights=rate", "ground=host"], "topology.balance_weights: .*lab"),
        (["topology.balance=random", "controller.name=hpcc"], "topology.balance = .*hpcc"),
        (["topology.balance=random", "metrics.slowdown=closed-form"], "metrics.slowdown = .*topology.balance"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, settings: list[str], key: str) -> None:
    with pytest.raises(TestbedError, match=key) as caught:
        load(tmp_path, *settings, base=SPEC)
    assert "\n" not in str(caught.value)


def test_parameters_and_their_defaults(tmp_path: Path) -> None:
    def way(*settings: str) -> Balance:
        return load(tmp_path, *settings, base=SPEC).topology.balancing

    assert way() == Balance("ecmp")
    assert way("topology.balance=drill") == Balance("drill", 2, 1)
    assert way("topology.balance=drill", "topology.balance_samples=3", "topology.balance_memory=0") == Balance("drill", 3, 0)
    assert way("topology.balance=flowlet", "topology.balance_gap=2us", "topology.scale=5") == Balance("flowlet", gap_ns=10_000)


def test_packets_may_cross_all_next_hops_of_a_switch_that_balances(tmp_path: Path) -> None:
    experiment = Experiment.of(load(tmp_path, base=SPEC))
    graph, router, flows = experiment.graph, experiment.router, experiment.schedule
    hashed = {(before, after) for before, after, _ in crossings(graph, router, sent(graph, flows))}
    assert hashed == {pair for ways in both_ways(flows.flows, graph, router) for way in ways for pair in pairwise(way)}
    balanced = Experiment.of(load(tmp_path, "topology.balance=drill", base=SPEC))
    wide = {(before, after) for before, after, _ in crossings(graph, balanced.router, sent(graph, balanced.schedule))}
    assert hashed < wide
    assert {after for before, after in wide if before == "h1-eth0"} == {"s1-eth3", "s1-eth4", "s1-eth5"}
    assert set(balanced.router.balance) == {"s1", "s2"}


def test_next_hops_count_by_their_rates(tmp_path: Path) -> None:
    """Of three uplinks one has half the rate, and one a quarter: they are there 4, 2 and 1 times, spread out."""
    slower = "".join(
        f"\n[[topology.links]]\nbetween = ['s1', '{spine}']\nrate = '{rate}Gbit/s'\n" for spine, rate in (("s4", 5), ("s5", 2.5))
    )
    router = Experiment.of(load(tmp_path, "topology.balance_weights=rate", base=SPEC, text=slower)).router
    assert router.hops["s1"]["10.0.0.3"] == (3, 4, 3, 5, 3, 4, 3)
    assert router.hops["s2"]["10.0.0.1"] == (3, 4, 5)
    taken = [router.out_port("s1", Packet("tcp", "10.0.0.1", "10.0.0.3", port, 80)) for port in range(7000)]
    assert [round(taken.count(number) / 1000) for number in (3, 4, 5)] == [4, 2, 1]
