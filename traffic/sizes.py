# SPDX-License-Identifier: Apache-2.0
"""Flow-size distributions: a file of points, each a size in bytes and a cumulative probability, and how it is sampled.

The line '# sampling: linear' or '# sampling: discrete' selects whether sizes between two points occur or only the points. Without
this line sampling is linear. The shipped files name their sources in the same way ('# workload: ...', '# points: ...'). Means
refer to the sampler in use.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from re import MULTILINE, fullmatch, search

from dc_gym.base import bounded
from dc_gym.base.errors import WorkloadError, with_remedy
from dc_gym.base.spelling import unknown
from dc_gym.base.units import ETHERNET_BYTES, TCP_HEADERS_BYTES
from dc_gym.traffic.draws import WORD, Stream

FOLDER = Path(__file__).parent / "flow_sizes"
HEADER_BYTES = ETHERNET_BYTES + TCP_HEADERS_BYTES  # in the frame of a full TCP segment
SUBUNITS = 2**16  # units in a byte while a size is drawn
SAMPLINGS = ("linear", "discrete")

Point = tuple[Fraction, Fraction]  # size, cumulative probability


def names() -> tuple[str, ...]:
    """Returns the names of the shipped distributions."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))


@dataclass(frozen=True, slots=True)
class Sizes:
    """A distribution of flow sizes in bytes of payload."""

    points: tuple[Point, ...]
    """Points (size, cumulative probability).

    Sizes never fall, probabilities never fall, and the last probability is 1. Equal sizes are a step.
    """
    sampling: str = "linear"

    def scaled(self, factor: Fraction) -> Sizes:
        """Returns the distribution with every size multiplied by a factor."""
        return Sizes(tuple((size * factor, probability) for size, probability in self.points), self.sampling)

    def truncated(self, most_bytes: int) -> Sizes:
        """Returns the distribution in which sizes above `most_bytes` become that size."""
        most = Fraction(most_bytes)
        points = [point for point in self.points if point[0] < most]
        below = self._probability_below(most)
        return Sizes((*points, (most, below), (most, Fraction(1))), self.sampling)

    def mean_bytes(self) -> Fraction:
        """Returns the mean of a Sampler's draws, without its rounding to whole bytes."""
        return sum((weight * (low + high) / 2 for low, high, weight in self._pieces()), Fraction(0))

    def mean_segments(self, segment_bytes: int) -> Fraction:
        """Returns the mean number of packets. All are full segments of so much payload, except that the last may be shorter."""
        return sum((weight * _mean_ceiling(low, high, segment_bytes) for low, high, weight in self._pieces()), Fraction(0))

    def mean_wire_bytes(self, segment_bytes: int) -> Fraction:
        """Returns the mean size with the headers of its frames (Ethernet, IP, TCP with timestamps), as a cable counts them."""
        return self.mean_bytes() + HEADER_BYTES * self.mean_segments(segment_bytes)

    def _pieces(self) -> Iterator[tuple[Fraction, Fraction, Fraction]]:
        """Yields the least size, largest size and probability of each piece. Within a piece, sizes are uniform."""
        before = Fraction(0)
        low = self.points[0][0]
        for size, probability in self.points:
            yield low if self.sampling == "linear" else size, size, probability - before
            low, before = size, probability

    def _probability_below(self, most: Fraction) -> Fraction:
        """Returns the probability of a size below `most`."""
        before: Point = (self.points[0][0], Fraction(0))
        for size, probability in self.points:
            if size >= most:
                inside = self.sampling == "linear" and size > before[0]
                share = (most - before[0]) / (size - before[0]) if inside and most > before[0] else Fraction(0)
                return before[1] + (probability - before[1]) * share
            before = size, probability
        return Fraction(1)


class Sampler:
    """Draws sizes by inverse transform, at least 1 byte each. It uses integers, since a run may have a million flows."""

    def __init__(self, sizes: Sizes) -> None:
        self._linear = sizes.sampling == "linear"
        self._thresholds = [int(probability * WORD) for _, probability in sizes.points]
        self._sizes = [int(size * SUBUNITS) for size, _ in sizes.points]

    def draw(self, stream: Stream) -> int:
        """Returns the next size."""
        word = stream.bits()
        above = bisect_right(self._thresholds, word)
        size = self._sizes[above]
        if self._linear and above:
            low, first = self._sizes[above - 1], self._thresholds[above - 1]
            size = low + (size - low) * (word - first) // (self._thresholds[above] - first)
        return max(1, (size + SUBUNITS // 2) // SUBUNITS)


def _mean_ceiling(low: Fraction, high: Fraction, segment_bytes: int) -> Fraction:
    """Returns the mean of ceil(x / segment_bytes) for x uniform in [low, high]."""
    if low == high:
        return Fraction(-(-low // segment_bytes))

    def integral(x: Fraction) -> Fraction:
        whole, rest = divmod(x, segment_bytes)
        return segment_bytes * Fraction(whole * (whole + 1), 2) + rest * (whole + 1)

    return (integral(high) - integral(low)) / (high - low)


def fixed(size_bytes: int) -> Sizes:
    """Returns a distribution in which all flows have this size."""
    return Sizes(((Fraction(size_bytes), Fraction(1)),), "discrete")


def load(name: str) -> Sizes:
    """Returns the distribution of that name, one of names()."""
    if name not in names():
        raise WorkloadError(unknown("workload.distribution", name, names()))
    return read(FOLDER / f"{name}.txt", "workload.distribution")


def comment(name: str, topic: str) -> str:
    """Returns the description in a shipped file, in Markdown: its `workload`, or where its `points` are from."""
    match = search(rf"^# {topic}: (.*)$", (FOLDER / f"{name}.txt").read_text(encoding="utf-8"), MULTILINE)
    assert match, f"{name}.txt has no line '# {topic}:'"
    return match[1]


def read(path: Path, key: str = "workload.distribution_file") -> Sizes:
    """Returns the distribution of a file."""
    try:
        text = bounded.read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(
            f"{key}: cannot read {path}: {with_remedy(error, 'give a text file of sizes and probabilities')}"
        ) from error
    return parse(text, str(path))


def parse(text: str, name: str) -> Sizes:
    """Returns the distribution of a text. `name` stands for the file in errors."""
    sampling, points = "linear", list[Point]()
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if match := fullmatch(r"#\s*sampling:\s*(\S+)", stripped):
            sampling = match[1]
            if sampling not in SAMPLINGS:
                raise WorkloadError(f"{name}:{number}: {unknown('sampling', sampling, SAMPLINGS)}")
        elif stripped and not stripped.startswith("#"):
            points.append(_point(stripped, f"{name}:{number}", points))
    if not points or points[-1][1] not in (1, 100):
        last = f"ends at probability {float(points[-1][1])}" if points else "has no points"
        raise WorkloadError(f"{name}: it {last}; end it with the largest size and 1 (or 100, for percent)")
    whole = points[-1][1]
    return Sizes(tuple((size, probability / whole) for size, probability in points), sampling)


def _point(line: str, where: str, before: Sequence[Point]) -> Point:
    words = line.split()
    number = r"[0-9]{1,15}(\.[0-9]{1,15})?"
    if len(words) != 2 or not all(fullmatch(number, word) for word in words):
        raise WorkloadError(f"{where}: {line!r} is not a size and a probability; write two numbers such as '10000 0.15'")
    size, probability = Fraction(words[0]), Fraction(words[1])
    if before and (size < before[-1][0] or probability < before[-1][1]):
        raise WorkloadError(f"{where}: {line!r} is below the line before; sort sizes and cumulative probabilities upwards")
    return size, probability
