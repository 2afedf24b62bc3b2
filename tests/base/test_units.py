# SPDX-License-Identifier: Apache-2.0
"""Units: exact in both directions, and strict."""

from __future__ import annotations

import random

import pytest

from dc_gym.base import amount
from dc_gym.base.errors import SpecError
from dc_gym.base.units import (
    LARGEST,
    Misspelt,
    format_rate,
    format_size,
    format_time,
    parse_rate_bps,
    parse_size_bytes,
    parse_time_ns,
)

GOOD = [
    (parse_rate_bps, "10Mbit/s", 10_000_000),
    (parse_rate_bps, "2.5Gbit/s", 2_500_000_000),
    (parse_rate_bps, "1bit/s", 1),
    (parse_rate_bps, "0.001kbit/s", 1),
    (parse_rate_bps, "0bit/s", 0),
    (parse_time_ns, "2.5us", 2500),
    (parse_time_ns, "0.1s", 100_000_000),
    (parse_time_ns, "1.000000001s", 1_000_000_001),
    (parse_time_ns, "0s", 0),
    (parse_time_ns, "9007199254740993ns", 9_007_199_254_740_993),  # not a float64
    (parse_size_bytes, "400kB", 400_000),
    (parse_size_bytes, "512MiB", 536_870_912),
    (parse_size_bytes, "0.5KiB", 512),
    (parse_size_bytes, "9223372036854775807B", LARGEST),
    # What tc and people write, where it means one thing only.
    *[(parse_rate_bps, text, 10_000_000) for text in ("10 Mbit/s", "10Mbit", "10mbit", "10mbit/s", "10MBIT")],
    *[(parse_time_ns, text, 5_000_000) for text in ("5 ms", "5MS", "5msec", "5msecs")],
    *[(parse_time_ns, text, 5_000) for text in ("5\u00b5s", "5\u03bcs", "5usec")],
    *[(parse_size_bytes, text, 400_000) for text in ("400 kB", "0.4MB")],
    (parse_size_bytes, "400kiB", 409_600),
]


@pytest.mark.parametrize(("parse", "text", "value"), GOOD, ids=[text for _, text, _ in GOOD])
def test_parse(parse, text, value):
    assert parse(text) == value


BAD = [
    *[(parse_rate_bps, text) for text in ("", "10", "10Mbps", "10M", "10mb/s", "-1Mbit/s", "NaNbit/s", "infbit/s")],
    *[(parse_rate_bps, text) for text in ("1e3bit/s", "1.5bit/s", "0.0001kbit/s")],
    *[
        (parse_time_ns, text)
        for text in ("2.5ns", "0.0001us", "1  s", " 1s", "1s\n", "1\ts", "1m", "1min", "+1s", ".5s", "5.s", "1_0s")
    ],
    *[(parse_time_ns, text) for text in ("\u0661s", 5, None, True)],
    *[(parse_size_bytes, text) for text in ("1.5B", "1kb", "1KB", "1k", "1b", "1KIB", "0.3KiB", "9223372036854775808B", "1MB/s")],
]


@pytest.mark.parametrize(("parse", "text"), BAD, ids=[repr(text) for _, text in BAD])
def test_refused_with_the_field_and_the_value(parse, text):
    with pytest.raises(SpecError) as refusal:
        parse(text, "topology.key")
    message = str(refusal.value)
    assert message.startswith("topology.key: ") and repr(text) in message and "; " in message and "\n" not in message


@pytest.mark.parametrize(
    ("parse", "text", "meant"),
    [
        (parse_rate_bps, "10Mbps", ["'10Mbit/s'"]),
        (parse_rate_bps, "1gbps", ["'1Gbit/s'"]),
        (parse_rate_bps, "2.5MB/s", ["'20Mbit/s'"]),
        (parse_rate_bps, "100M", ["'100Mbit/s'"]),
        (parse_size_bytes, "400KB", ["'400kB' (400,000 bytes)", "'400KiB' (409,600 bytes)"]),
        (parse_size_bytes, "2g", ["'2GB' (2,000,000,000 bytes)", "'2GiB' (2,147,483,648 bytes)"]),
        (parse_size_bytes, "64 bytes", ["'64B'"]),
        (amount.parse, "1.5KB", ["'1.5kB' (1,500 bytes)", "'1.5KiB' (1,536 bytes)"]),
    ],
)
def test_a_unit_that_may_mean_two_things_is_refused_with_the_right_spelling(parse, text, meant):
    with pytest.raises(Misspelt) as refusal:
        parse(text)
    assert all(spelling in str(refusal.value) for spelling in meant)


@pytest.mark.parametrize(
    ("format_", "value", "text"),
    [
        (format_rate, 10_000_000, "10Mbit/s"),
        (format_rate, 1_234_567, "1234567bit/s"),
        (format_rate, 1_500_000, "1.5Mbit/s"),
        (format_time, 2500, "2.5us"),
        (format_time, 0, "0ns"),
        (format_time, 30_000_000_000, "30s"),
        (format_size, 1514, "1514B"),
        (format_size, 400_000, "400kB"),
        (format_size, 512 << 20, "512MiB"),
    ],
)
def test_format(format_, value, text):
    assert format_(value) == text


def test_format_refuses_negative():
    with pytest.raises(SpecError):
        format_time(-1)


PAIRS = [(parse_rate_bps, format_rate), (parse_time_ns, format_time), (parse_size_bytes, format_size)]


@pytest.mark.parametrize(("parse", "format_"), PAIRS)
def test_what_is_formatted_parses_back(parse, format_):
    draw = random.Random(1)
    values = [0, 1, 999, 1000, 1023, 1024, 1025, LARGEST, *[draw.getrandbits(draw.randrange(1, 63)) for _ in range(300)]]
    assert [parse(format_(value)) for value in values] == values
