# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them: units, digits, and missing values."""

from __future__ import annotations

import math

import pytest

from dc_gym.base import readable


@pytest.mark.parametrize(
    ("value", "family", "text"),
    [
        (2.723e5, "us", "272.3 ms"),
        (7.34e10, "bps", "73.4 Gbit/s"),
        (6.4e12, "bps", "6.4 Tbit/s"),
        (999.96e3, "bytes", "1 MB"),
        (3506.4, "bytes", "3.506 kB"),
        (0.0, "us", "0 us"),
        (0.0, "s", "0 s"),
        (2.5e-4, "s", "250 us"),
        (1.2e-10, "s", "0.12 ns"),
        (3000.0, "s", "3,000 s"),
        (1, "share", "100 %"),
        (0.00123, "share", "0.123 %"),
        (-1.5e7, "bps", "-15 Mbit/s"),
        (12345.678, "", "12,346"),
        (12345678, "", "12,345,678"),
        (1234.5678, "", "1,235"),
        (None, "us", "-"),
        (math.nan, "us", "-"),
    ],
)
def test_a_quantity_has_the_unit_and_the_digits_that_it_reads_well_in(value: float | None, family: str, text: str) -> None:
    assert readable.quantity(value, family) == text


@pytest.mark.parametrize("power", range(-12, 16))
def test_no_number_has_an_exponent_or_a_unit_too_small(power: int) -> None:
    for family, units in readable.FAMILIES.items():
        text = readable.quantity(1.2345 * 10.0**power, family)
        assert "e" not in text.split(" ", maxsplit=1)[0]
        if family and power < 12 and 10.0**power >= units[-1][0] and family != "share":
            assert 1 <= float(text.split(" ")[0].replace(",", "")) < 1000 or text.endswith(f" {units[0][1]}")


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.9999, 2, "1"), (99.96, 3, "100"), (1e-7, 4, "0.0000001"), (-0.0, 4, "0"), (2e15, 4, "2,000,000,000,000,000")],
)
def test_plain_numbers(value: float, digits: int, text: str) -> None:
    assert readable.number(value, digits) == text


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("goodput_bps", "bps"),
        ("flow_goodput_bps.3", "bps"),
        ("mean_queue_bytes", "bytes"),
        ("p99_srtt_us", "us"),
        ("fct_p99_s", "s"),
        ("delay_ns", "ns"),
        ("utilization", "share"),
        ("drop_ratio", "share"),
        ("nic_probe_share", "share"),
        ("jain", ""),
        ("drops", ""),
    ],
)
def test_a_name_says_its_family(name: str, family: str) -> None:
    assert readable.family_of(name) == family


def test_values_side_by_side_share_a_unit() -> None:
    assert readable.scale_of("ns", [1e5, 1e6, 1e7]) == readable.Scale(1e6, "ms")
    assert readable.scale_of("bytes", []) == readable.Scale(1, "B")
    assert readable.axis_scale("bps", 1.9e9).unit == "Mbit/s" and readable.axis_scale("bps", 2e9).unit == "Gbit/s"


def test_a_column_has_one_unit_and_one_number_of_places() -> None:
    assert readable.column([9.5639e6, None, 1.2e6], "bps") == ("Mbit/s", ["9.564", "-", "1.200"])
    assert readable.column([0.05e-3, 400e-3, 10e-3], "s") == ("ms", ["0.050", "400.000", "10.000"])
    assert readable.column([3, 10312]) == ("", ["3", "10,312"])


@pytest.mark.parametrize(
    ("mean", "half", "text"),
    [
        (3.5, 0.62, "3.50 +- 0.62"),
        (1234.5, 78.9, "1,234 +- 79"),
        (3.5, None, "3.5"),
        (3.5, 0.0, "3.5 +- 0"),
        (-2.0, 0.31, "-2.00 +- 0.31"),
    ],
)
def test_a_mean_has_the_digits_that_its_interval_carries(mean: float, half: float | None, text: str) -> None:
    assert readable.with_interval(mean, half) == text
