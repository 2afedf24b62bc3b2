# SPDX-License-Identifier: Apache-2.0
"""What the benches compute, by hand-made data."""

import numpy as np
import pytest

from dc_gym.bench import report
from dc_gym.bench.dctcp import closed_form, measured_amplitude, round_trip_s
from dc_gym.bench.report import Bar


def test_closed_form_of_the_paper():
    """alpha solves equation 6; for small alpha the amplitude is close to the paper's (1/2) sqrt(2 N (C RTT + K)), equation 8."""
    theory = closed_form(2, 825_000, 100e-6, 40)
    assert theory.window == pytest.approx((82.5 + 40) / 2)
    alpha, window = theory.alpha, theory.window
    assert alpha**2 * (1 - alpha / 4) == pytest.approx((2 * window + 1) / (window + 1) ** 2)
    assert theory.amplitude == pytest.approx(0.5 * np.sqrt(2 * 2 * (82.5 + 40)), rel=0.05)
    assert theory.largest == 42 and theory.mean == 42 - theory.amplitude / 2


def test_round_trip_without_queueing():
    assert round_trip_s() == pytest.approx(10e-6 + 2 * (1514 + 66) * 0.8e-9)


@pytest.mark.parametrize(("height", "noise"), [(10, 0), (10, 1), (40, 2)])
def test_amplitude_of_a_drawn_sawtooth(height, noise):
    draw = np.random.default_rng(1)
    tooth = np.concatenate([np.linspace(50 - height, 50, 100), np.linspace(50, 50 - height, 5)])
    queue = np.tile(tooth, 40) + draw.integers(0, noise + 1, 40 * len(tooth))
    assert measured_amplitude(queue) == pytest.approx(height + noise, rel=0.05)


def test_a_short_bar_fails_and_a_skipped_one_does_not(tmp_path, capsys):
    good, short = Bar("a", "1", "1", True), Bar("b", "1", "2", False)
    skipped = Bar("c", "1", "-", False, skipped=True)
    assert report.all_good([good, skipped]) and not report.all_good([good, short])
    report.show("title", [good, short, skipped])
    shown = capsys.readouterr().out
    assert "SHORT" in shown and "skipped" in shown
    report.save(tmp_path / "bars.json", "x", [good, short])
    assert '"ok": false' in (tmp_path / "bars.json").read_text()
