# SPDX-License-Identifier: Apache-2.0
"""Patch 0006 in a lab: a tbf whose rate is set anew, frame by frame against a bucket as defined, and stock tbf beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import rate_changes
import rate_changes_guest
from rate_changes import (
    FLOOR_BPS,
    MS,
    RAISE_NS,
    TOLERANCE,
    Bucket,
    RateChangeCase,
    alternating,
    departures,
    drawn,
    peaked,
    raised,
)

from dc_gym.base.units import FRAME_BYTES

pytestmark = pytest.mark.lab
LINE_BPS = 10**7
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def left(lab_kernel):
    """Returns when the frames of each case left, in one lab."""
    cases = [
        *(make(LINE_BPS, keep=keep) for make in (drawn, raised) for keep in (True, False)),
        *(in_turn(keep) for keep in (True, False)),
        drawn(10**9),
        peaked(LINE_BPS),
        made(),
    ]
    return dict(zip(cases, rate_changes.play(lab_kernel, cases), strict=True))


def in_turn(keep: bool) -> RateChangeCase:
    return alternating(LINE_BPS, 4 * 10**6, MS, keep)


def made() -> RateChangeCase:
    """The change that makes the bucket has the flag: the bucket is full nevertheless."""
    return RateChangeCase(
        "made with the flag", LINE_BPS, True, 100 * MS, ((0, LINE_BPS // 10, 0),), ((0, 4),), burst_bytes=2 * FRAME_BYTES
    )


@pytest.mark.parametrize(
    "case",
    [
        drawn(LINE_BPS),
        raised(LINE_BPS, True),
        in_turn(True),
        drawn(10**9),
        peaked(LINE_BPS),
        made(),
    ],
    ids=lambda case: case.name,
)
def test_a_change_that_keeps_the_tokens_leaves_a_bucket_a_bucket(left, case):
    assert rate_changes.worst_share(case, left[case]) <= TOLERANCE
    assert rate_changes.mean_bps(left[case]) == pytest.approx(rate_changes.mean_bps(departures(case)), rel=0.01)


def test_stock_tbf_lets_a_frame_through_at_each_change(left):
    """One frame per millisecond is more than the line carries."""
    assert rate_changes.mean_bps(left[in_turn(False)]) == pytest.approx(LINE_BPS, rel=0.001)
    assert rate_changes.mean_bps(left[drawn(LINE_BPS, False)]) > 0.9 * LINE_BPS


def test_after_a_raise_stock_tbf_sleeps_on(left):
    """Its timer was set for the floor: it waits until a frame's time at the floor rate has passed since the last frame."""
    frame_ns = 8 * FRAME_BYTES * 10**9 / FLOOR_BPS
    assert left[raised(LINE_BPS, False)][1] == frame_ns
    lacking_ns = (8 * FRAME_BYTES - FLOOR_BPS * RAISE_NS / 1e9) * 1e9 / LINE_BPS
    assert left[raised(LINE_BPS, True)][1] == pytest.approx(RAISE_NS + lacking_ns, abs=10)


def test_the_flag_has_the_headers_number(tmp_path):
    source = tmp_path / "flag.c"
    source.write_text('#include <stdio.h>\n#include "lab.h"\nint main(void) { return LAB_TCA_TBF_KEEP; }\n')
    subprocess.run(["cc", "-I", str(ROOT / "kernel" / "drivers"), "-o", str(tmp_path / "flag"), str(source)], check=True)
    assert subprocess.run([str(tmp_path / "flag")]).returncode == rate_changes_guest.LAB_TCA_TBF_KEEP


def test_a_bucket_by_definition():
    bucket = Bucket(2 * FRAME_BYTES, [(0, 8_000_000), (1_000_000, 1_000_000)])
    assert [bucket.ready(0), bucket.spend(0), bucket.ready(0), bucket.spend(0)] == [0, None, 0, None]
    # 1000 bytes in the first millisecond, the other 514 at an eighth of the rate.
    assert bucket.ready(0) == pytest.approx(1_000_000 + 514 * 8000)
    bucket.spend(10**9)
    assert bucket.ready(0) == 10**9  # it was full, and has one frame left


def test_a_rate_that_is_off_is_seen():
    case = in_turn(True)
    due = departures(case)
    assert rate_changes.worst_share(case, due) == 0
    late = [*due[:100], due[100] + 20_000_000, *due[101:]]
    assert min(rate_changes.worst_share(case, left) for left in ([1.02 * t_ns for t_ns in due], late, due[:-2])) > TOLERANCE
    first, second, third = departures(raised(LINE_BPS, True))
    assert rate_changes.worst_share(raised(LINE_BPS, True), [first, second + 10**6, third + 10**6]) > TOLERANCE


@pytest.mark.long
def test_every_rate_and_interval(lab_kernel):
    pairs = ((10**7, 4 * 10**6), (10**9, 4 * 10**8), (10**9, 4 * 10**6))
    cases = [alternating(*pair, interval, True) for pair in pairs for interval in (MS, 10 * MS)]
    for case, left in zip(cases, rate_changes.play(lab_kernel, cases), strict=True):
        assert rate_changes.worst_share(case, left) <= TOLERANCE, case.name
        assert rate_changes.mean_bps(left) == pytest.approx(rate_changes.mean_bps(departures(case)), rel=0.01), case.name
