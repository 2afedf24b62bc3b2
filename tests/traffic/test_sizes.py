# SPDX-License-Identifier: Apache-2.0
"""Flow-size distributions: the files that come along, their means, how they are sampled, and bad files."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

import pytest

from dc_gym.base.errors import WorkloadError
from dc_gym.traffic import sizes
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.sizes import Sampler, fixed, parse

MEANS = {  # as published beside the points, or computed from them elsewhere
    "websearch": 1_711_250, "datamining": 12_658_198.6, "fb_hadoop": 120_420.8, "ali_storage": 40_869.8, "google_rpc": 2_891.6,
    "solar2022": 39_423.5, "fb_memcached": 342.2, "homa_w1": 189.2, "homa_w2": 441.6, "homa_w3": 2_927.7, "homa_w4": 127_796.6,
    "homa_w5": 2_564_689.7,
}  # fmt: skip


def draws(distribution, count, seed=1):
    sampler, stream = Sampler(distribution), Stream(seed, "test")
    return [sampler.draw(stream) for _ in range(count)]


def test_all_twelve_come_along_with_their_means():
    assert set(sizes.names()) == set(MEANS)
    for name, mean in MEANS.items():
        assert float(sizes.load(name).mean_bytes()) == pytest.approx(mean, abs=0.06), name
    assert [name for name in sizes.names() if sizes.load(name).sampling == "discrete"] == [f"homa_w{n}" for n in range(1, 6)]


@pytest.mark.parametrize("name", ["websearch", "fb_hadoop", "ali_storage", "homa_w4", "homa_w1"])
def test_draws_follow_the_points(name):
    """At every point the empirical distribution is within 1.95 / sqrt(n) (Kolmogorov and Smirnov: one in a thousand is not)."""
    distribution, count = sizes.load(name), 20_000
    ordered = sorted(draws(distribution, count))
    for size, probability in distribution.points:
        if size >= 1:
            assert bisect_right(ordered, size) / count == pytest.approx(float(probability), abs=1.95 / count**0.5), size
    assert sum(ordered) / count == pytest.approx(float(distribution.mean_bytes()), rel=0.06)


def test_discrete_draws_are_points():
    points = {int(size) for size, _ in sizes.load("homa_w2").points}
    assert set(draws(sizes.load("homa_w2"), 5000)) <= points


@pytest.mark.parametrize("name", ["websearch", "datamining", "homa_w5", "solar2022"])
@pytest.mark.parametrize("most", [1500, 70_000, 1_000_000, 10**12])
def test_truncation_recomputes_the_mean(name, most):
    whole = sizes.load(name)
    cut = whole.truncated(most)
    values = draws(cut, 20_000)
    assert max(values) <= most and cut.points[-1][1] == 1
    assert values == [min(value, most) for value in draws(whole, 20_000)]  # the same draws, cut
    assert sum(values) / len(values) == pytest.approx(float(cut.mean_bytes()), rel=0.05 if most < 10**12 else 0.15)


def test_scaling():
    tenth = sizes.load("websearch").scaled(Fraction(1, 10))
    assert float(tenth.mean_bytes()) == pytest.approx(171_125)
    assert draws(tenth, 100) == [pytest.approx(value / 10, abs=0.5) for value in draws(sizes.load("websearch"), 100)]


def test_wire_bytes_are_counted_packet_by_packet():
    assert fixed(1448).mean_wire_bytes(1448) == 1514 and fixed(1449).mean_wire_bytes(1448) == 1449 + 2 * 66
    for name in ("websearch", "fb_hadoop", "homa_w3"):
        distribution = sizes.load(name)
        values = draws(distribution, 20_000)
        counted = sum(value + 66 * -(-value // 1448) for value in values) / sum(values)
        assert float(distribution.mean_wire_bytes(1448) / distribution.mean_bytes()) == pytest.approx(counted, rel=0.01), name


def test_a_file_of_ones_own(tmp_path):
    (tmp_path / "mine.txt").write_text("# mine\n# sampling: discrete\n100 50\n\n200\t100\n")
    distribution = sizes.read(tmp_path / "mine.txt")
    assert distribution.mean_bytes() == 150 and set(draws(distribution, 100)) == {100, 200}
    assert parse("0 0\n100 1\n", "x").sampling == "linear"
    assert parse("70 1\n", "x").mean_bytes() == 70


BAD = [
    ("", "x: it has no points"),
    ("0 0\n10 0.5\n", "x: it ends at probability 0.5; end it with the largest size and 1"),
    ("0 0\n10 one\n", "x:2: '10 one' is not a size and a probability"),
    ("0 0\n10\n", "x:2: '10'"),
    ("10 0.5\n5 1\n", "x:2: '5 1' is below the line before"),
    ("10 0.5\n20 0.4\n", "x:2: '20 0.4' is below"),
    ("# sampling: cubic\n1 1\n", "x:1: sampling 'cubic' is unknown; one of: linear, discrete"),
    ("-1 0\n1 1\n", "x:1: '-1 0'"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_files(text, message):
    with pytest.raises(WorkloadError) as excinfo:
        parse(text, "x")
    assert message in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_unknown_names_and_missing_files(tmp_path):
    with pytest.raises(WorkloadError, match="is unknown"):
        sizes.load("web")
    with pytest.raises(WorkloadError, match=r"workload\.distribution_file: cannot read [^ ]*: [A-Z][^/]*; give a text file"):
        sizes.read(tmp_path / "none.txt")
