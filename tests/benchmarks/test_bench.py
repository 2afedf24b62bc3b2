# SPDX-License-Identifier: Apache-2.0
"""Tests the computations of the benches on hand-made data."""

from dataclasses import replace

import pytest

from dc_gym.base import checks
from dc_gym.base.checks import Check
from dc_gym.benchmarks.perf import meter, scale, speed
from dc_gym.benchmarks.perf.speed import Spent
from dc_gym.cli import main
from dc_gym.run.sweep import runs


def test_slope_of_a_power_is_its_exponent():
    hosts = (4, 8, 16, 32)
    assert scale.slope(hosts, [3 * count**1.25 for count in hosts]) == pytest.approx(1.25)
    assert scale.slope(hosts, [7, 7, 7, 7]) == pytest.approx(0)


def test_a_sender_off_its_rate_is_the_worst_and_fails_its_check():
    cost = meter.ProcessCost(1.0, 1.0)
    point = scale.ScalePoint(6, (9.999e6, 10.0e6, 10.005e6), 9.998e6, 9.7e6, 1.0, cost, 100 << 20)
    assert point.worst == pytest.approx(0.0005) and scale._point_check("limited", point).ok
    assert not scale._point_check("limited", replace(point, sent_bps=(9.98e6, 10.0e6, 10.0e6))).ok
    assert not scale._point_check("limited", replace(point, middle_bps=9.9e6)).ok
    assert not scale._point_check("limited", replace(point, memory_bytes=9 << 30)).ok


@pytest.mark.lab
@pytest.mark.parametrize("variant", scale.VARIANTS)
def test_a_small_point_of_figure_5_1(variant, tmp_path, lab_kernel):
    tmp_path.chmod(0o755)
    spec = runs.write_spec(tmp_path, "scale", scale.SPEC)
    point = scale.measure(tmp_path, spec, variant, 8)
    assert scale._point_check(variant, point).ok, point.words()
    assert sum(point.sent_bps) == pytest.approx(4e7, rel=1e-3) and point.received_bps == pytest.approx(9.72e6, rel=1e-2)


def test_a_packet_costs_what_the_longer_run_took_more():
    short = [Spent(1000, 5000, 5.0, 7.0), Spent(1000, 5000, 3.0, 4.0)]
    long = [Spent(3000, 9000, 3.5, 4.8), Spent(3000, 9000, 9.0, 9.0)]
    cost = speed.added(short, long)
    assert cost == pytest.approx((2000, 4000, 0.5, 0.8))
    other = Spent(2000, 4000, 0.498, 0.798)
    late, early = speed.packet_check(2, cost, other), speed.packet_check(2, other, cost)
    assert not late.ok and early.ok and "wall 1.00x: 249.0 us against 250.0; CPU 1.00x: 399.0 us against 400.0" in early.measured
    assert "a packet-hop 199.500 and 200.000 us; 2,000 and 2,000 packets" in early.measured


@pytest.mark.lab
def test_both_send_the_same_load(tmp_path):
    """The shorter run is the beginning of the longer one, and packets are counted where they are sent, hops at each port."""
    spec = runs.write_spec(tmp_path, "cost", speed.PACKETS)
    costs = {name: speed.added(*its) for name, its in speed.packets(tmp_path, spec, 2, (20, 40), 1).items()}
    line = 10**10 * 0.02 / (1514 * 8)
    assert all(0.9 * line < cost.packets <= 1.01 * line and cost.hops > 2 * cost.packets for cost in costs.values()), costs


def test_a_failed_check_fails_the_bench_and_a_skipped_one_does_not(tmp_path, capsys):
    passing, short = Check("a", "1", "1", True), Check("b", "1", "2", False)
    skipped = Check("c", "1", "-", False, skipped=True)
    assert checks.all_good([passing, skipped]) and not checks.all_good([passing, short])
    checks.show("title", [passing, short, skipped])
    stdout = capsys.readouterr().out
    assert "FAILED" in stdout and "skipped" in stdout
    checks.save(tmp_path / "checks.json", "x", [passing, short])
    assert '"ok": false' in (tmp_path / "checks.json").read_text()


def test_a_place_for_the_figures_is_looked_for_before_they_are_measured(tmp_path, capsys):
    assert main.main(["bench", "speed", "--json", str(tmp_path / "none" / "speed.json")]) == 2
    assert "no such folder; make it" in capsys.readouterr().err
