# SPDX-License-Identifier: Apache-2.0
"""Tests the computations of the benches on hand-made data."""

from dataclasses import replace

import numpy as np
import pytest

from dc_gym.base import checks
from dc_gym.base.checks import Check
from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.checks import fct, incast
from dc_gym.benchmarks.checks.dctcp import closed_form, measured_amplitude, round_trip_s
from dc_gym.benchmarks.perf import meter, scale
from dc_gym.cli import main
from dc_gym.sweep import runs


def test_closed_form_of_the_paper():
    """alpha solves equation 6; for small alpha the amplitude is close to the paper's (1/2) sqrt(2 N (C RTT + K)), equation 8."""
    theory = closed_form(2, 825_000, 100e-6, 40)
    assert theory.window == pytest.approx((82.5 + 40) / 2)
    alpha, window = theory.alpha, theory.window
    assert alpha**2 * (1 - alpha / 4) == pytest.approx((2 * window + 1) / (window + 1) ** 2)
    assert theory.amplitude == pytest.approx(0.5 * np.sqrt(2 * 2 * (82.5 + 40)), rel=0.05)
    assert theory.largest == 42 and theory.mean == 42 - theory.amplitude / 2


def test_slope_of_a_power_is_its_exponent():
    hosts = (4, 8, 16, 32)
    assert scale.slope(hosts, [3 * count**1.25 for count in hosts]) == pytest.approx(1.25)
    assert scale.slope(hosts, [7, 7, 7, 7]) == pytest.approx(0)


def test_a_sender_off_its_rate_is_the_worst_and_fails_its_check():
    cost = meter.ProcessCost(1.0, 1.0)
    good = scale.ScalePoint(6, (9.999e6, 10.0e6, 10.005e6), 9.998e6, 9.7e6, 1.0, cost, 100 << 20)
    assert good.worst == pytest.approx(0.0005) and scale._point_check("limited", good).ok
    assert not scale._point_check("limited", replace(good, sent_bps=(9.98e6, 10.0e6, 10.0e6))).ok
    assert not scale._point_check("limited", replace(good, middle_bps=9.9e6)).ok
    assert not scale._point_check("limited", replace(good, memory_bytes=9 << 30)).ok


@pytest.mark.lab
@pytest.mark.parametrize("variant", scale.VARIANTS)
def test_a_small_point_of_figure_5_1(variant, tmp_path, lab_kernel):
    tmp_path.chmod(0o755)
    spec = runs.write_spec(tmp_path, "scale", scale.SPEC)
    point = scale.measure(tmp_path, spec, variant, 8)
    assert scale._point_check(variant, point).ok, point.words()
    assert sum(point.sent_bps) == pytest.approx(4e7, rel=1e-3) and point.received_bps == pytest.approx(9.72e6, rel=1e-2)


def test_round_trip_without_queueing():
    assert round_trip_s() == pytest.approx(10e-6 + 2 * (1514 + 66) * 0.8e-9)


@pytest.mark.parametrize(("height", "noise"), [(10, 0), (10, 1), (40, 2)])
def test_amplitude_of_a_drawn_sawtooth(height, noise):
    draw = np.random.default_rng(1)
    tooth = np.concatenate([np.linspace(50 - height, 50, 100), np.linspace(50, 50 - height, 5)])
    queue = np.tile(tooth, 40) + draw.integers(0, noise + 1, 40 * len(tooth))
    assert measured_amplitude(queue) == pytest.approx(height + noise, rel=0.05)


def test_a_failed_check_fails_the_bench_and_a_skipped_one_does_not(tmp_path, capsys):
    good, short = Check("a", "1", "1", True), Check("b", "1", "2", False)
    skipped = Check("c", "1", "-", False, skipped=True)
    assert checks.all_good([good, skipped]) and not checks.all_good([good, short])
    checks.show("title", [good, short, skipped])
    shown = capsys.readouterr().out
    assert "FAILED" in shown and "skipped" in shown
    checks.save(tmp_path / "checks.json", "x", [good, short])
    assert '"ok": false' in (tmp_path / "checks.json").read_text()


def test_a_place_for_the_figures_is_looked_for_before_they_are_measured(tmp_path, capsys):
    assert main.main(["bench", "speed", "--json", str(tmp_path / "none" / "speed.json")]) == 2
    assert "no such folder; make it" in capsys.readouterr().err


def test_the_offered_load_is_that_of_the_flows_that_are_made(tmp_path, monkeypatch):
    """Over 4000 flows the mean size is known to 3.7 %; the bench takes 130,000."""
    monkeypatch.setattr(fct, "LONG_RUN_FLOWS", 4000)
    spec = runs.write_spec(tmp_path, "fct", fct.SPEC)
    for network, settings in fct.NETWORKS.items():
        found = fct.long_run(spec, (f"topology.preset={network}", *settings), 0.5)
        assert abs(found.error) < 4 * 0.037 and found.flows == pytest.approx(4000, rel=0.1)
    assert not fct._offered_check("x", fct.Offered(0.5, 0.511, 1)).ok and fct._offered_check("x", fct.Offered(0.5, 0.509, 1)).ok


@pytest.mark.lab
def test_lone_flows_take_their_ideal_time(tmp_path, lab_kernel, monkeypatch):
    """There are few enough flows here that each size is measured; the bench has many."""
    monkeypatch.setattr(fct, "LONE_FLOWS", 12)
    tmp_path.chmod(0o755)
    spec = runs.write_spec(tmp_path, "fct", fct.SPEC)
    slowdown = np.array(
        fct._lone(tmp_path, spec, "fattree-k4", ("topology.preset=fattree-k4",)).derived("flow_metrics").column("slowdown")
    )
    assert len(slowdown) == 12 and np.all(np.abs(slowdown - 1) <= fct.LONE_TOLERANCE)


def test_incast_arithmetic_by_hand():
    """100 kB hold 66 frames; 125.28 us of round trip hold 10.34; 46 segments and a window of 10 make at most 28 outstanding."""
    assert incast.pipe_frames() == pytest.approx(125.28e-6 * 1e9 / (8 * 1514))
    assert incast.onset(incast.CUBIC) == 3  # 2 x 28 - 10.3 = 45.7, 3 x 28 - 10.3 = 73.7
    assert incast.onset(incast.DCTCP) == 6  # 5 x 10 + 20 - 10.3 = 59.7, 6 x 10 + 20 - 10.3 = 69.7
    assert incast.first_overflow(incast.LEAST_WINDOW) == 39  # 2 x 38 - 10.3 = 65.7, 2 x 39 - 10.3 = 67.7
    assert incast.one_timeout_bps(32) == pytest.approx(32 * 65536 * 8 / (0.2 + 32 * 65536 * 8 / 956.4e6), rel=1e-4)


@pytest.mark.lab
def test_incast_drops_begin_where_the_arithmetic_says(tmp_path, lab_kernel):
    tmp_path.chmod(0o755)
    spec = runs.write_spec(tmp_path, "incast", incast.SPEC)
    cells = [incast._cell(tmp_path, spec, incast.CUBIC, senders, 1) for senders in (2, 3)]
    found = runs.run_all(cells, progress=Quiet())
    few, more = (incast._round(found[cell.name], senders) for cell, senders in zip(cells, (2, 3), strict=True))
    assert few.drops == 0 and more.drops > 0
    assert few.goodput_bps > 0.8 * incast.FULL_BPS
