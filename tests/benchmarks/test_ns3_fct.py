# SPDX-License-Identifier: Apache-2.0
"""The flow list of bench ns3-fct and its arithmetic; and lone flows in both, where ns-3 is installed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.errors import UsageError
from dc_gym.benchmarks.checks import ns3_fct as bench
from dc_gym.benchmarks.checks.ns3 import LAB, NS3, run_pairs
from dc_gym.benchmarks.checks.ns3_fct import ACKED
from dc_gym.benchmarks.peers import files, ns3
from dc_gym.run.plan.experiment import Experiment


def test_the_flow_list_crosses_leaves_at_the_load():
    """Over 4000 flows the offered load is within four standard deviations of the sum of sizes (1.9 means each) and of gaps."""
    count = 4000
    rows = [row.split(",") for row in bench.flow_rows(count, Fraction(6, 10), 1)]
    leaf = [{(int(host[1:]) - 1) // bench.HOSTS_PER_LEAF for host in row[:2]} for row in rows]
    assert all(len(both) == 2 for both in leaf) and set.union(*leaf) == {0, 1, 2}
    starts = [float(row[3]) for row in rows]
    assert starts == sorted(starts)
    offered = sum(int(row[5]) for row in rows) * 8 / starts[-1]
    assert abs(offered / (0.6 * 6 * bench.UPLINK_BPS) - 1) < 4 * np.hypot(1.9, 1) / np.sqrt(count)


def test_equal_seeds_give_equal_lists():
    assert bench.flow_rows(50, bench.LOAD, 7) == bench.flow_rows(50, bench.LOAD, 7) != bench.flow_rows(50, bench.LOAD, 8)


@pytest.fixture
def experiment(tmp_path):
    rows = ["h1,h5,5001,0.000000000,0,1448", "h2,h9,5001,0.001000000,0,144800"]
    return Experiment.of(spec.load(bench.write_experiment(tmp_path, rows)))


def test_the_experiment_can_be_told_to_a_peer(experiment, tmp_path):
    """ns-3 takes one path per host: every switch has one route to each host."""
    files.write_experiment(tmp_path, experiment.graph, experiment.router, [])
    routes = [line.split(",") for line in (tmp_path / "routes.csv").read_text().splitlines()[1:]]
    ways = {(port.partition("-")[0], destination) for port, destination in routes}
    assert len(routes) == len(ways) == 12 * 11 + 5 * 12
    spines = {port for port, destination in routes if port.startswith("s1-") and destination in ("h5", "h6", "h7", "h8")}
    assert len(spines) == 2


def test_slowdown_is_time_over_the_closed_form(experiment):
    """One segment takes SYN (74 B), SYN-ACK, ACK (66 B) and data (1514 B) at 40, 10, 10, 40 Gbit/s, 1 us a cable."""

    def way(size):
        return 4 * 1000 + size * 8 * (2 / 40 + 2 / 10)

    best = way(74) + way(74) + 66 * 8 / 40 + way(1514)
    ends = np.array([3 * best, np.nan])
    size, slowdowns = bench.slowdowns(experiment, {LAB: ends})
    assert size.tolist() == [1448, 144_800]
    assert slowdowns[LAB][0] == pytest.approx(3) and np.isnan(slowdowns[LAB][1])


def test_bins_and_unfinished_flows(tmp_path, monkeypatch):
    monkeypatch.setattr(bench, "FIGURE", tmp_path / "fct.png")
    sizes = np.array([10_000, 10_001, 10**6, 10**7, 10**7 + 1])
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    checks = list(bench.slowdown_checks(sizes, {LAB: values, NS3: 2 * values, ACKED: values}))
    assert all(check.ok for check in checks) and "lab: 2.00 / 2.0; ns-3: 4.00 / 4.0" in checks[2].measured
    assert (tmp_path / "fct.png").stat().st_size > 10_000
    slow = {LAB: values, NS3: values, ACKED: values * [1, 1, 1.15, 1, 1]}
    assert [check.ok for check in bench.slowdown_checks(sizes, slow)] == [True, True, True, False, True, True, True]
    late = {LAB: values, NS3: np.where(values == 5, np.nan, values), ACKED: values}
    with pytest.warns(RuntimeWarning):  # a bin without a finished flow
        assert not next(iter(bench.slowdown_checks(sizes, late))).ok and list(bench.slowdown_checks(sizes, late))


@pytest.mark.lab
def test_lone_flows_take_equally_long(lab_kernel, tmp_path):
    """One flow at a time on the idle network takes as long in both, within 2 %."""
    try:
        ns3.ensure()
    except UsageError as error:
        pytest.skip(str(error))
    tmp_path.chmod(0o755)
    sizes, gap_ns = (1, 1_448, 10_000, 14_480, 30_000, 100_000, 300_000, 1_000_000, 10_000_000), 10**8
    rows = [f"h1,h5,5001,{number * gap_ns / 1e9:.9f},0,{size}" for number, size in enumerate(sizes)]
    (pair,) = run_pairs(bench.write_experiment(tmp_path, rows), tmp_path, pairs=1)
    lab, peer = (ends - np.arange(len(sizes)) * float(gap_ns) for ends in pair.ends_ns().values())
    assert lab == pytest.approx(peer, rel=0.02)
