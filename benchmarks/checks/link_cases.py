# SPDX-License-Identifier: Apache-2.0
"""The cases of `dcgym bench links`: networks, their ports, and schedules of frames; seeded by their names."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any

from dc_gym.benchmarks.checks.links_guest import NETS
from dc_gym.benchmarks.checks.oracle import OracleFrame, OraclePort, PortRun, arrivals, run_chain, run_port

RATES = (10**7, 10**8, 10**9, 10**10, 25 * 10**9, 40 * 10**9, 10**11)
DELAYS_NS = (100, 1_000, 10_000, 10**6, 50 * 10**6)
SIZES = {"60": (60,), "590": (590,), "1514": (1514,), "mixed": tuple(range(60, 1515))}
PATTERNS = ("spaced", "burst", "overflow", "marks")
HOPS = (1, 2, 4)
FULL_FRAME = 1514
AMPLE_BYTES = 1 << 26
SAMPLES = 8


@dataclass(frozen=True)
class LinkCase:
    """One case. Its frames are (sender, Frame), in order of time."""

    name: str
    net: str
    ports: tuple[OraclePort, ...]
    frames: tuple[tuple[int, OracleFrame], ...]
    stop_ns: int | None = None
    """Time of an additional count in the middle of the traffic; a second count follows when all is over."""
    cut: bool = False
    """With stop_ns: whether the receiver's device goes down at that moment."""
    samples: int = SAMPLES
    stock: bool = False
    """True if queues are bfifo and RED instead of `port`."""

    @cached_property
    def runs(self) -> list[PortRun]:
        """The oracle's answer for each port."""
        senders = NETS[self.net].senders
        frames = [[frame for sender, frame in self.frames if sender == index] for index in range(senders)]
        runs = [run_port(port, port_frames) for port, port_frames in zip(self.ports, frames, strict=False)]
        return runs + run_chain(self.ports[senders:], arrivals(runs))

    @property
    def end_ns(self) -> int:
        last = max(passage.arrive_ns for run in self.runs for passage in run.passages)
        return max(last, self.frames[-1][1].t_ns) + 1_000

    @cached_property
    def sample_times(self) -> list[int]:
        """Times of samples: some are random, some are exactly when frames leave or arrive."""
        chance = random.Random(self.name)
        events = [
            t
            for run in self.runs
            for passage in run.passages
            if not passage.dropped
            for t in (passage.frame.t_ns, passage.depart_ns)
        ]
        horizon = max(events) + 1
        half = self.samples // 2
        times = [chance.randrange(horizon) for _ in range(self.samples - half)] + [chance.choice(events) for _ in range(half)]
        return sorted([*times, self.end_ns]) if self.stop_ns is None else []

    def job(self) -> dict[str, Any]:
        sent = [(frame.t_ns, sender, frame.length, frame.ect + 2 * frame.asks, frame.seq) for sender, frame in self.frames]
        looks = self.sample_times if self.stop_ns is None else [self.stop_ns]
        rows = [row for row in sent if self.stop_ns is None or row[0] <= self.stop_ns]
        rows = sorted([*rows, *[(t_ns, 0, 0, 0, 0) for t_ns in looks]], key=lambda row: (row[0], not row[2]))
        schedule = "".join(",".join(map(str, row)) + "\n" for row in rows)
        job = {"net": self.net, "ports": [asdict(port) for port in self.ports], "schedule": schedule, "stock": self.stock}
        return job if self.stop_ns is None else job | {"drain_ns": self.end_ns, "cut": self.cut}


def grid(rate: int, hops: int) -> Iterator[LinkCase]:
    return (grid_case(rate, *setting, hops) for setting in product(DELAYS_NS, SIZES, PATTERNS))


def grid_case(rate: int, delay: int, size: str, pattern: str, hops: int) -> LinkCase:
    name = f"{hops} hops, {rate / 1e6:g} Mbit/s, {delay} ns, {size} B, {pattern}"
    chance = random.Random(name)
    lengths = SIZES[size]
    limit = max(FULL_FRAME, 6 * max(lengths)) if pattern in ("overflow", "marks") else AMPLE_BYTES
    mark = limit // 2 if pattern == "marks" else None
    frames = _frames(pattern, chance, lengths, limit, rate, hops)
    return LinkCase(name, f"chain{hops}", _ports(rate, delay, limit, mark, hops), tuple((0, frame) for frame in frames))


def _ports(rate: int, delay: int, limit: int, mark: int | None, hops: int) -> tuple[OraclePort, ...]:
    """Returns the ports.

    One hop: the host's queue. Two: a switch's, behind a link twice as fast. Four: then an equal and a slower one.
    """
    if hops == 1:
        return (OraclePort(rate, delay, limit, mark),)
    rates = {2: (rate,), 4: (rate, rate, rate // 2)}[hops]
    return (OraclePort(2 * rate, delay, AMPLE_BYTES), *(OraclePort(bps, delay, limit, mark, forwards=True) for bps in rates))


def _frames(pattern: str, chance: random.Random, lengths: Sequence[int], limit: int, rate: int, hops: int) -> list[OracleFrame]:
    def ect() -> bool:
        return pattern == "marks" and chance.random() < 0.75

    if pattern == "burst":
        return [OracleFrame(0, chance.choice(lengths), ect(), seq) for seq in range(40)]
    frames: list[OracleFrame] = []
    t_ns, mean = 0, sum(lengths) // len(lengths)
    if pattern == "spaced":
        for seq in range(20):
            frames.append(OracleFrame(t_ns, chance.choice(lengths), ect(), seq))
            t_ns += 3 * _serialization_ns(FULL_FRAME, rate) + chance.randrange(100)
        return frames
    largest = (2 if hops == 1 else 4) * limit // mean
    for _ in range(4):
        burst = chance.randint(1, largest)
        frames += [OracleFrame(t_ns, chance.choice(lengths), ect(), len(frames) + n) for n in range(burst)]
        t_ns += chance.randrange(1 + 2 * burst * _serialization_ns(mean, rate) // 2)
    return frames


def _serialization_ns(length: int, rate: int) -> int:
    return length * 8 * 10**9 // rate


def incast() -> Iterator[LinkCase]:
    """Yields four senders into one port.

    All times are multiples of 8 ns plus the sender's number: no two frames arrive at once.
    """
    for rate, sizes in ((10**9, (60, 590, 1514)), (10**10, (60, 590, 1510)), (10**11, (100, 600, 1500))):
        for delay, pattern in product((1_000, 10**6), ("overflow", "marks")):
            name = f"incast of 4, {rate / 1e6:g} Mbit/s, {delay} ns, {pattern}"
            chance, rows = random.Random(name), list[tuple[int, int, int, bool]]()
            for sender in range(4):
                t_ns = 0
                for _ in range(30):
                    size, ect = chance.choice(sizes), pattern == "marks" and chance.random() < 0.75
                    rows.append((8 * (t_ns // 8) + sender, sender, size, ect))
                    t_ns += chance.randrange(1 + 3 * _serialization_ns(750, rate))
            frames = tuple(
                (sender, OracleFrame(t, length, ect, seq)) for seq, (t, sender, length, ect) in enumerate(sorted(rows))
            )
            host, mark = OraclePort(rate, delay, AMPLE_BYTES), 20_000 // 3 if pattern == "marks" else None
            yield LinkCase(name, "incast4", (*[host] * 4, OraclePort(rate, delay, 20_000, mark, forwards=True)), frames)


def conservation() -> Iterator[LinkCase]:
    """Yields cases counted midway, with frames queued, dropped and under way, and at the end.

    In the last one the receiver goes down.
    """
    for hops in HOPS:
        for rate in (10**7, 10**8, 10**9):
            for pattern in ("overflow", "marks"):
                case = grid_case(rate, 10**6, "mixed", pattern, hops)
                stop_ns = case.runs[-1].passages[len(case.runs[-1].passages) // 2].frame.t_ns
                sent = tuple((sender, frame) for sender, frame in case.frames if frame.t_ns <= stop_ns)
                yield LinkCase(f"counted midway: {case.name}", case.net, case.ports, sent, stop_ns=stop_ns)
    frames = tuple((0, OracleFrame(0, length, False, seq)) for seq, length in enumerate((60, 590, 1514) * 5))
    yield LinkCase("the receiver goes down", "cut1", (OraclePort(10**9, 10**6, AMPLE_BYTES),), frames, stop_ns=500_000, cut=True)
