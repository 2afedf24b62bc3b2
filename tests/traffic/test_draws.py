# SPDX-License-Identifier: Apache-2.0
"""Random numbers of workloads: their distributions, and that they never change."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from dc_gym.traffic.draws import LOG_BITS, Stream, minus_log2


def test_streams_depend_on_seed_and_labels_alone():
    assert [Stream(1, "a", 2).bits() for _ in range(2)] == [Stream(1, "a", 2).bits()] * 2
    stream = Stream(1, "a")
    words = [stream.bits() for _ in range(1000)]
    assert len(set(words)) == 1000 and all(0 <= word < 2**64 for word in words)
    assert words[0] not in {Stream(2, "a").bits(), Stream(1, "b").bits(), Stream(1).bits()}


def test_draws_are_those_of_the_first_version():
    """Results and digests depend on these numbers: they must never change."""
    stream = Stream(7, "workload", "poisson", "h1")
    assert [stream.below(10**6) for _ in range(5)] == [366126, 530625, 48038, 332167, 463288]
    assert Stream(7, "x").around(10**9, "exponential") == 845441786


def test_uniform():
    stream = Stream(3, "u")
    counts = Counter(stream.below(10) for _ in range(20_000))
    assert set(counts) == set(range(10)) and sum((count - 2000) ** 2 / 2000 for count in counts.values()) < 27.9  # 0.1 %
    assert 0.28 < sum(stream.chance(0.3) for _ in range(20_000)) / 20_000 < 0.32
    assert not stream.chance(0.0) and stream.chance(1.0)
    orders = Counter(tuple(stream.shuffled("abc")) for _ in range(6000))
    assert len(orders) == 6 and min(orders.values()) > 850


def test_gaussian():
    """The moments are those of a normal distribution that is cut off at three sigma."""
    bound, count = 10**6, 40_000
    stream = Stream(5, "g")
    draws = [stream.gaussian_below(bound) for _ in range(count)]
    sigma, inside = bound / 6, math.erf(3 / math.sqrt(2))
    cut = 1 - 2 * 3 * math.exp(-9 / 2) / math.sqrt(2 * math.pi) / inside  # variance of the cut distribution, in sigma^2
    mean = sum(draws) / count
    variance = sum((draw - mean) ** 2 for draw in draws) / count
    kurtosis = sum((draw - mean) ** 4 for draw in draws) / count / variance**2
    fourth = 3 - (3 * 3 + 27) * 2 * math.exp(-9 / 2) / math.sqrt(2 * math.pi) / inside  # E[z^4] of the cut distribution
    assert abs(mean - bound / 2) < 4 * sigma / math.sqrt(count)
    assert variance / sigma**2 == pytest.approx(cut, rel=0.03)
    assert kurtosis == pytest.approx(fourth / cut**2, rel=0.05)
    assert min(draws) >= 0 and max(draws) < bound and min(draws) < bound / 50 and max(draws) > bound * 49 / 50


def test_gaussian_of_small_bounds():
    stream = Stream(5, "g")
    assert {stream.gaussian_below(1) for _ in range(20)} == {0}
    assert {stream.gaussian_below(2) for _ in range(100)} == {0, 1}


@pytest.mark.parametrize(("pattern", "variance"), [("exact", 0), ("uniform", 1 / 3), ("exponential", 1)])
def test_around_a_mean(pattern, variance):
    stream = Stream(5, pattern)
    values = [stream.around(10**6, pattern) / 10**6 for _ in range(50_000)]
    mean = sum(values) / len(values)
    assert mean == pytest.approx(1, abs=0.02)
    assert sum((value - mean) ** 2 for value in values) / len(values) == pytest.approx(variance, abs=0.04)
    assert min(values) >= 0 and (pattern != "uniform" or max(values) <= 2)


def test_logarithm():
    for word in (0, 1, 2**32, 2**63, 2**64 - 1, 0x123456789ABCDEF0):
        assert minus_log2(word) / 2**LOG_BITS == pytest.approx(64 - math.log2(word + 0.5), abs=1e-9)
