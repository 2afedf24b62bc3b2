# SPDX-License-Identifier: Apache-2.0
"""Intervals over seeds, and paired differences."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dc_gym.base.stats import Estimate, band, estimate, paired, t_975
from dc_gym.results.pages.numbers import with_interval


@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.706205), (4, 2.776445), (10, 2.228139), (11, 2.200985), (20, 2.085963), (60, 2.000298), (1000, 1.962339)],
)
def test_students_t(freedom: int, t: float) -> None:
    """Values equal those of the usual tables."""
    assert t_975(freedom) == pytest.approx(t, abs=1e-5)


def test_t_falls_with_every_degree_of_freedom() -> None:
    values = [t_975(freedom) for freedom in range(1, 200)]
    assert (np.diff(values) < 0).all() and values[-1] > 1.959963


def test_an_estimate_by_hand() -> None:
    interval = estimate([1.0, 2.0, 3.0])
    assert interval is not None and interval.mean == 2 and interval.n == 3
    assert interval.half == pytest.approx(4.302653 / math.sqrt(3))
    assert estimate([7.0]) == Estimate(7.0, None, 1) and estimate([]) is None and estimate([math.nan]) is None


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    """10,000 experiments of 5 draws: 95 % of the intervals hold the true mean, within what that many can show."""
    rng = np.random.default_rng(11)
    held = sum(abs((interval := estimate(rng.normal(3, 2, 5).tolist())).mean - 3) <= interval.half for _ in range(10_000))
    assert 0.944 < held / 10_000 < 0.956


def test_pairs_cancel_what_seeds_have_in_common() -> None:
    a = {1: 100.0, 2: 200.0, 3: 300.0, 9: 5.0}
    b = {1: 101.0, 2: 202.0, 3: 300.0, 4: 7.0}
    difference = paired(a, b)
    assert difference is not None and difference.n == 3 and difference.mean == pytest.approx(1)
    assert difference.half == pytest.approx(4.302653 / math.sqrt(3))
    assert paired({1: 1.0}, {2: 1.0}) is None


def test_what_floating_point_leaves_is_no_difference() -> None:
    a = {seed: 956_404_000.0 + seed for seed in range(3)}
    difference = paired(a, {seed: value * (1 + 1e-15) for seed, value in a.items()})
    assert difference == Estimate(0.0, 0.0, 3) and not difference.differs_from_0


def test_band_is_the_same_column_by_column() -> None:
    values = np.array([[1.0, 1.0, np.nan], [2.0, np.nan, np.nan], [3.0, np.nan, np.nan]])
    mean, half = band(values)
    np.testing.assert_allclose(mean, [2, 1, np.nan])
    np.testing.assert_allclose(half, [4.302653 / np.sqrt(3), np.nan, np.nan], rtol=1e-6)
    assert np.isnan(band(np.array([[5.0, 6.0]]))[1]).all(), "one run has no interval, which is not one without width"


def test_two_values_are_shown_and_not_their_interval() -> None:
    """207 and 507: Student's t makes 357 +- 1,906 of them."""
    two = estimate([207.0, 507.0])
    assert two is not None and two.half == pytest.approx(12.706205 * 150) and two.few
    assert (with_interval(two), two.drawn_half) == ("207, 507", 150)
    assert with_interval(estimate([0.5, -0.25]), signed=True) == "+0.5, \u22120.25"  # type: ignore[arg-type]
    mean, half = band(np.array([[207.0], [507.0]]))
    assert (mean[0], half[0]) == (357, 150)


@pytest.mark.parametrize(
    ("values", "few"),
    [
        ([5.0], False),
        ([1.0, 2.0, 3.0], True),  # 2 +- 2.5: below 0, where none of them is
        ([2.0, 2.1, 2.2], False),
        ([-1.0, 2.0, 3.0], False),
        ([1.0, 2.0, 3.0, 10.0], True),
        ([1.0, 1.0, 1.0, 1.0, 30.0], False),
    ],
)
def test_few_values_are_shown_if_their_interval_makes_no_sense(values: list[float], few: bool) -> None:
    interval = estimate(values)
    assert interval is not None and interval.few == few
    assert interval.drawn_half == (max(abs(value - interval.mean) for value in values) if few else interval.half)
