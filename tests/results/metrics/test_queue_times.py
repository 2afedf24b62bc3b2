# SPDX-License-Identifier: Apache-2.0
"""Percentiles from a port's histogram of its queue."""

import pytest

from dc_gym.results.metrics.queue_times import BUCKETS, QueueTimes, begin_bytes


def bucket_of(queued: int) -> int:
    """As port_bucket() of sch_port.c."""
    octave = max(queued, 64).bit_length() - 1
    return ((octave - 7) << 4) + (max(queued, 64) >> (octave - 4))


def test_buckets_follow_each_other_and_are_a_sixteenth_wide() -> None:
    for bucket in range(1, BUCKETS - 1):
        low, high = begin_bytes(bucket), begin_bytes(bucket + 1)
        assert bucket_of(low) == bucket_of(high - 1) == bucket and high - low <= low / 16
    assert bucket_of(1) == bucket_of(67) == 0 and bucket_of(2**32 - 1) == BUCKETS - 1


def test_time_without_a_queue_counts() -> None:
    times = QueueTimes(bucket_of(1024), (300, 0, 100), 1000)
    assert times.percentile(60) == 0
    assert times.percentile(75) == pytest.approx(1024 + 64 / 2)
    assert times.percentile(100) == begin_bytes(bucket_of(1024) + 3)
