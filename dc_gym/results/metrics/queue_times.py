# SPDX-License-Identifier: Apache-2.0
"""Percentiles of a queue from its port's own histogram: for how long it was how long (struct tc_port_histogram of lab.h).

Bucket b begins at (16 + b % 16) << (b // 16 + 2) bytes, and the first holds all shorter queues, too. So a percentile is off by at
most a sixteenth of it, whatever the monitor's interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BUCKETS_LOG, OCTAVE_MIN = 4, 6
"""TC_PORT_BUCKETS_LOG and TC_PORT_OCTAVE_MIN of lab.h."""
BUCKETS = (32 - OCTAVE_MIN) << BUCKETS_LOG


def begin_bytes(bucket: int) -> int:
    """Returns the shortest queue of a bucket, from the second on."""
    octave, step = divmod(bucket, 1 << BUCKETS_LOG)
    return ((1 << BUCKETS_LOG) + step) << (octave + OCTAVE_MIN - BUCKETS_LOG)


@dataclass(frozen=True, slots=True)
class QueueTimes:
    """The time within a window in which frames waited at a port, by bucket."""

    first: int
    """Bucket of the first time."""
    times_ns: Sequence[int]
    window_ns: int

    def percentile(self, percent: float) -> float:
        """Returns the queue in bytes that is not exceeded for `percent` of the time. Within a bucket it grows evenly."""
        left_ns = self.window_ns * percent / 100 - (self.window_ns - sum(self.times_ns))
        if left_ns <= 0:
            return 0.0
        for bucket, time_ns in enumerate(self.times_ns, self.first):
            if left_ns <= time_ns:
                low, high = begin_bytes(bucket) if bucket else 1, begin_bytes(bucket + 1)
                return low + (high - low) * left_ns / time_ns
            left_ns -= time_ns
        return float(begin_bytes(self.first + len(self.times_ns)))


def by_port(times_by_port: Mapping[str, Sequence[object]], window_ns: int) -> dict[str, QueueTimes]:
    """Returns the times of ports by name, from `queue_times` of a ground's ground.json."""
    return {port: QueueTimes(first, times, window_ns) for port, (first, times) in times_by_port.items()}  # type: ignore[arg-type]
