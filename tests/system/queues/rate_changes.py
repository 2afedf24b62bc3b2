# SPDX-License-Identifier: Apache-2.0
"""A tbf whose rate changes all the time, as under a central agent, with and without the lab's flag.

The flag is that of kernel/patches/0006. The cable is offered more than the rate. A change with the flag must leave the bucket as
a bucket by definition has it: tokens grow at the current rate up to the depth, and a frame leaves when the transmitter is free
and its bytes are there. Stock tbf is measured beside it.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dc_gym.base.units import FRAME_BYTES, format_rate
from dc_gym.benchmarks.checks.lab_job import play_jobs

MS = 10**6
FRAME_BITS = 8 * FRAME_BYTES
TOLERANCE = 1e-4
"""Tolerance relative to the bytes sent so far: tbf counts a frame's time in whole ns, and 1514 bytes at 1 Gbit/s take 12,112."""
FLOOR_BPS = 10_000
RAISE_NS = 100 * MS


@dataclass(frozen=True, slots=True)
class RateChangeCase:
    name: str
    line_bps: int
    keep: bool
    """True: tbf has the flag of patch 0006, which keeps its tokens at a change of rate."""
    end_ns: int
    changes: tuple[tuple[int, int, int], ...]
    """(time, rate, peak rate or 0), the first at 0."""
    sends: tuple[tuple[int, int], ...]
    """(time, number of frames)."""
    burst_bytes: int = FRAME_BYTES
    peak_burst_bytes: int = FRAME_BYTES


class Bucket:
    """A token bucket that is full at time 0. `rates` are (start in ns, bit/s)."""

    def __init__(self, depth_bytes: int, rates: Sequence[tuple[int, int]]) -> None:
        self._depth, self._rates = 8 * depth_bytes, [rate_bps for _, rate_bps in rates]
        self._ends = [*(since_ns for since_ns, _ in rates[1:]), float("inf")]
        self._bits, self._at = float(self._depth), 0.0

    def ready(self, t_ns: float) -> float:
        """Returns when there are tokens for a frame, not before `t_ns`, and adds what is earned until then."""
        self._earn(t_ns)
        while self._bits < FRAME_BITS - 1e-6:
            rate_bps, until_ns = self._stretch()
            self._earn(min(self._at + (FRAME_BITS - self._bits) * 1e9 / rate_bps, until_ns))
        return self._at

    def spend(self, t_ns: float) -> None:
        self._earn(t_ns)
        self._bits -= FRAME_BITS

    def _earn(self, t_ns: float) -> None:
        while self._at < t_ns:
            rate_bps, until_ns = self._stretch()
            then = min(until_ns, t_ns)
            self._bits = min(self._depth, self._bits + rate_bps * (then - self._at) / 1e9)
            self._at = then

    def _stretch(self) -> tuple[int, float]:
        """Returns the current rate, and when the next one begins."""
        now = bisect_right(self._ends, self._at)
        return self._rates[now], self._ends[now]


def departures(case: RateChangeCase) -> list[float]:
    """Returns when each frame of a case leaves by definition, until its end."""
    buckets = [Bucket(case.burst_bytes, [(t_ns, rate) for t_ns, rate, _ in case.changes])]
    if case.changes[0][2]:
        buckets.append(Bucket(case.peak_burst_bytes, [(t_ns, peak) for t_ns, _, peak in case.changes]))
    leave_times_ns, free_ns = [], 0.0
    for came_ns in (t_ns for t_ns, frames in case.sends for _ in range(frames)):
        leaves_ns = max(came_ns, free_ns)
        for bucket in buckets:
            leaves_ns = bucket.ready(leaves_ns)
        for bucket in buckets:
            bucket.spend(leaves_ns)
        free_ns = leaves_ns + FRAME_BITS * 1e9 / case.line_bps
        if free_ns > case.end_ns:  # the frame has not arrived
            break
        leave_times_ns.append(leaves_ns)
    return leave_times_ns


def mean_bps(left: Sequence[float]) -> float:
    """Returns the mean rate of what left after the first frame, which a full bucket lets through."""
    return (len(left) - 1) * FRAME_BITS * 1e9 / (left[-1] - left[0])


def alternating(line_bps: int, low_bps: int, interval_ns: int, keep: bool) -> RateChangeCase:
    """Returns a case with a rate and twice that rate in turn."""
    count = _end_ns(line_bps) // interval_ns
    changes = tuple((k * interval_ns, low_bps << k % 2, 0) for k in range(count))
    name = f"{format_rate(line_bps)}: {format_rate(low_bps)} or twice that, each {interval_ns // MS} ms"
    return _saturated(name, line_bps, keep, changes)


def drawn(line_bps: int, keep: bool = True) -> RateChangeCase:
    """Returns a case with a random agent: each millisecond any rate from a thousandth of the line up."""
    draw = random.Random(line_bps)
    changes = tuple((t_ns, int(line_bps * draw.uniform(0.001, 1)) // 8 * 8, 0) for t_ns in range(0, _end_ns(line_bps), MS))
    return _saturated(f"{format_rate(line_bps)}: a random rate each 1 ms", line_bps, keep, changes)


def peaked(line_bps: int) -> RateChangeCase:
    """Returns a case with a deep bucket and a peak rate that both change.

    The peak's bucket limits until the deep one is empty.
    """
    changes = tuple(
        (t_ns, line_bps // 10 << k % 2, line_bps // 5 * 2 << k % 2) for k, t_ns in enumerate(range(0, _end_ns(line_bps), MS))
    )
    return _saturated(f"{format_rate(line_bps)}: another rate and peak rate each 1 ms", line_bps, True, changes, 60_000)


def raised(line_bps: int, keep: bool) -> RateChangeCase:
    """Returns a case with a host at its floor with three frames, which then gets the line rate."""
    changes = ((0, FLOOR_BPS, 0), (RAISE_NS, line_bps, 0))
    return RateChangeCase(f"raised from {format_rate(FLOOR_BPS)}", line_bps, keep, 3000 * MS, changes, ((0, 3),))


def _saturated(
    name: str, line_bps: int, keep: bool, changes: tuple[tuple[int, int, int], ...], burst_bytes: int = FRAME_BYTES
) -> RateChangeCase:
    """Returns a case that is offered the line rate, and 20 frames at first.

    Each new frame makes the kernel look at the bucket.
    """
    batch = max(1, line_bps // 10**8)
    gap_ns = batch * FRAME_BITS * 10**9 // line_bps
    end_ns = _end_ns(line_bps)
    sends = ((0, 20), *((t_ns, batch) for t_ns in range(gap_ns, end_ns, gap_ns)))
    return RateChangeCase(name, line_bps, keep, end_ns, changes, sends, burst_bytes)


def _end_ns(line_bps: int) -> int:
    return 1000 * MS if line_bps < 10**9 else 200 * MS


def play(kernel: Path, cases: Sequence[RateChangeCase]) -> list[list[int]]:
    """Returns when each frame left in the lab, in ns after the first one."""
    return play_jobs(kernel, "rate_changes_guest", map(asdict, cases), [Path(__file__).resolve().parent])


def worst_share(case: RateChangeCase, left: Sequence[float]) -> float:
    """Returns the largest deviation from a due time: the bytes that the buckets earn in that time, over all bytes sent before."""
    due = departures(case)
    count = min(len(due), len(left))
    if abs(len(due) - len(left)) > 1:  # the last frame may fall on either side of the end
        return float("inf")
    errors = [np.abs(curve(case, column, left[:count]) - curve(case, column, due[:count])) for column in (1, 2)]
    return float(np.max(np.maximum(*errors)[1:] / (FRAME_BITS * np.arange(1, count))))


def curve(case: RateChangeCase, column: int, at_ns: Sequence[float]) -> NDArray[np.float64]:
    """Returns the bits earned since 0 at the rates (column 1) or peak rates (2) of a case."""
    times = np.array([*(change[0] for change in case.changes), 2 * case.end_ns])
    rates = np.array([change[column] for change in case.changes])
    bits = np.concatenate([[0.0], np.cumsum(rates * np.diff(times) / 1e9)])
    return np.asarray(np.interp(at_ns, times, bits))
