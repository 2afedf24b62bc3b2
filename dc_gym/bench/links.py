# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench links`: links, queues and marks of the lab against the FIFO oracle, packet by packet.

A case is a network, what its ports are, and a schedule of frames. The oracle says from these alone when each
frame leaves and arrives, which are dropped and marked, and how much waits at any time; a lab is then asked the
same. Times may differ by 2 ns, everything else not at all. One lab serves all cases (links_guest.py).
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dc_gym.bench import report
from dc_gym.bench.links_guest import NETS, Counters
from dc_gym.bench.oracle import Frame, Port, PortRun, arrivals, run_port
from dc_gym.bench.report import Bar
from dc_gym.errors import LabError
from dc_gym.kernel.lab import Lab, LabConfig

PROGRAMS = Path(__file__).parents[1] / "bin"
TOLERANCE_NS = 2
RATES = (10**7, 10**8, 10**9, 10**10, 25 * 10**9, 40 * 10**9, 10**11)
DELAYS_NS = (100, 1_000, 10_000, 10**6, 50 * 10**6)
SIZES = {"60": (60,), "590": (590,), "1514": (1514,), "mixed": tuple(range(60, 1515))}
PATTERNS = ("spaced", "burst", "overflow", "marks")
HOPS = (1, 2, 4)
AMPLE_BYTES = 1 << 26
FULL_FRAME = 1514
SAMPLES = 8
CE = 3
ECT0 = 2


@dataclass(frozen=True)
class Case:
    """Frames are (sender, Frame), in order of time."""

    name: str
    net: str
    ports: tuple[Port, ...]
    frames: tuple[tuple[int, Frame], ...]
    stop_ns: int | None = None
    """Count what is where at this moment, in the middle of it all, and again when all is over."""
    cut: bool = False
    """With stop_ns: the receiver's device goes down at that moment."""
    samples: int = SAMPLES

    @cached_property
    def runs(self) -> list[PortRun]:
        """The oracle's word on each port."""
        senders = NETS[self.net].senders
        frames = [[frame for sender, frame in self.frames if sender == index] for index in range(senders)]
        runs = [run_port(port, mine) for port, mine in zip(self.ports, frames, strict=False)]
        arrived = arrivals(runs)
        for port in self.ports[senders:]:
            runs.append(run_port(port, arrived))
            arrived = arrivals(runs[-1:])
        return runs

    @property
    def end_ns(self) -> int:
        last = max(each.arrive_ns for run in self.runs for each in run.passages)
        return max(last, self.frames[-1][1].t_ns) + 1_000

    @cached_property
    def sample_times(self) -> list[int]:
        """Some at random, some exactly when frames leave or arrive."""
        chance = random.Random(self.name)
        events = [t for run in self.runs for each in run.passages if not each.dropped for t in (each.frame.t_ns, each.depart_ns)]
        horizon = max(events) + 1
        half = self.samples // 2
        times = [chance.randrange(horizon) for _ in range(self.samples - half)] + [chance.choice(events) for _ in range(half)]
        return sorted([*times, self.end_ns]) if self.stop_ns is None else []

    def job(self) -> dict[str, Any]:
        rows = [(frame.t_ns, 0, f"{frame.t_ns},{sender},{frame.length},{int(frame.ect)},{frame.seq}") for sender, frame in self.frames]
        rows += [(t_ns, 1, f"{t_ns},0,0,0,0") for t_ns in self.sample_times]
        if self.stop_ns is not None:
            rows = [row for row in rows if row[0] <= self.stop_ns] + [(self.stop_ns, 1, f"{self.stop_ns},0,0,0,0")]
        schedule = "".join(f"{text}\n" for _, _, text in sorted(rows, key=lambda row: row[:2]))
        ports = [
            {"rate_bps": p.rate_bps, "delay_ns": p.delay_ns, "limit_bytes": p.limit_bytes, "mark_bytes": p.mark_bytes} for p in self.ports
        ]
        job: dict[str, Any] = {"net": self.net, "ports": ports, "schedule": schedule}
        if self.stop_ns is not None:
            job |= {"drain_ns": self.end_ns, "cut": self.cut}
        return job


@dataclass
class Verdict:
    """What was compared in one case, and the first thing that was not as it should be."""

    frames: int = 0
    drops: int = 0
    marks: int = 0
    samples: int = 0
    worst_ns: int = 0
    faults: list[str] = field(default_factory=list)

    def expect(self, what: str, asked: object, measured: object) -> None:
        if asked != measured:
            self.faults.append(f"{what}: asked {asked}, measured {measured}")

    def expect_time(self, what: str, asked_ns: int, measured_ns: int) -> None:
        self.worst_ns = max(self.worst_ns, abs(measured_ns - asked_ns))
        if abs(measured_ns - asked_ns) > TOLERANCE_NS:
            self.faults.append(f"{what}: asked {asked_ns} ns, measured {measured_ns} ns")


@dataclass(frozen=True)
class Answer:
    """linkprobe's words, parsed."""

    departures: dict[int, int]
    arrivals: dict[int, tuple[int, int, int]]
    """By seq: time, ECN bits, length."""
    backlogs: list[tuple[int, ...]]
    """Time, then bytes of each port."""


def parse(text: str) -> Answer:
    answer = Answer({}, {}, [])
    for line in text.splitlines():
        kind, *rest = line.split(",")
        values = [int(word) for word in rest]
        if kind == "d":
            answer.departures[values[0]] = values[1]
        elif kind == "a":
            answer.arrivals[values[0]] = (values[1], values[2], values[3])
        elif kind == "b":
            answer.backlogs.append(tuple(values))
    return answer


def compare(case: Case, reply: dict[str, Any]) -> Verdict:
    """The lab's answer to a case against the oracle's."""
    verdict = Verdict(frames=len(case.frames), drops=sum(run.drops for run in case.runs), marks=sum(run.marks for run in case.runs))
    counters = [Counters(**each) for each in reply["counters"]]
    if case.stop_ns is not None:
        _check_counts(case, counters, verdict, case.stop_ns)
        _check_drained(case, [Counters(**each) for each in reply["drained"]], verdict)
        return verdict
    answer = parse(reply["probe"])
    _check_departures(case, answer, verdict)
    _check_arrivals(case, answer, verdict)
    verdict.samples = len(answer.backlogs) * len(case.ports)
    asked = [(t_ns, *(run.backlog(t_ns) for run in case.runs)) for t_ns in case.sample_times]
    for mine, theirs in zip(asked, answer.backlogs, strict=True):
        verdict.expect("time and backlogs", mine, theirs)
    _check_counts(case, counters, verdict, case.end_ns)
    for port, (run, now) in enumerate(zip(case.runs, counters, strict=True)):
        verdict.expect(f"port {port}, drops", run.drops, now.drops)
        verdict.expect(f"port {port}, marks", run.marks, now.marks)
    return verdict


def _check_departures(case: Case, answer: Answer, verdict: Verdict) -> None:
    passed = {p.frame.seq: p for run in case.runs[: NETS[case.net].senders] for p in run.passages if not p.dropped}
    verdict.expect("frames that left the senders", sorted(passed), sorted(answer.departures))
    for seq in passed.keys() & answer.departures.keys():
        verdict.expect_time(f"departure of frame {seq}", passed[seq].depart_ns, answer.departures[seq])


def _check_arrivals(case: Case, answer: Answer, verdict: Verdict) -> None:
    passed = {p.frame.seq: p for p in case.runs[-1].passages if not p.dropped}
    marked = {p.frame.seq for run in case.runs for p in run.passages if p.marked}
    verdict.expect("frames that arrived", sorted(passed), sorted(answer.arrivals))
    for seq in passed.keys() & answer.arrivals.keys():
        frame, (t_ns, ecn, length) = passed[seq].frame, answer.arrivals[seq]
        verdict.expect_time(f"arrival of frame {seq}", passed[seq].arrive_ns, t_ns)
        verdict.expect(f"ECN of frame {seq}", CE if seq in marked else ECT0 if frame.ect else 0, ecn)
        verdict.expect(f"length of frame {seq}", frame.length, length)


def _check_counts(case: Case, counters: Sequence[Counters], verdict: Verdict, now_ns: int) -> None:
    """Nothing appears or vanishes: what came to a port was sent, dropped or waits; what was sent arrived, was lost or is under way."""
    senders = NETS[case.net].senders
    for index, (run, now) in enumerate(zip(case.runs, counters, strict=True)):
        came = [each for each in run.passages if each.frame.t_ns <= now_ns]
        dropped = [each.frame.length for each in came if each.dropped]
        if index < senders:
            offered = (len(came), sum(each.frame.length for each in came))
        else:
            before = counters[:senders] if index == senders else counters[index - 1 : index]
            offered = (sum(each.rx_packets for each in before), sum(each.rx_bytes for each in before))
        where = f"port {index}"
        verdict.expect(f"{where}, frames offered = sent + dropped + queued", offered[0], now.tx_packets + now.drops + now.backlog_packets)
        verdict.expect(f"{where}, bytes offered", offered[1], now.tx_bytes + sum(dropped) + now.backlog_bytes)
        verdict.expect(f"{where}, frames dropped", len(dropped), now.drops)
        arrived = now.rx_packets + now.lost_packets + now.flight_packets
        verdict.expect(f"{where}, frames sent = arrived + lost + under way", now.tx_packets, arrived)
        verdict.expect(f"{where}, bytes sent", now.tx_bytes, now.rx_bytes + now.lost_bytes + now.flight_bytes)
        verdict.expect(f"{where}, drops elsewhere", 0, now.other_drops)


def _check_drained(case: Case, counters: Sequence[Counters], verdict: Verdict) -> None:
    assert case.stop_ns is not None
    _check_counts(case, counters, verdict, case.stop_ns)
    for index, now in enumerate(counters):
        verdict.expect(f"port {index}, left over", (0, 0), (now.backlog_packets, now.flight_packets))
    last = counters[-1]
    under_way = [p.frame.length for p in case.runs[-1].passages if p.depart_ns <= case.stop_ns < p.arrive_ns]
    lost = (len(under_way), sum(under_way)) if case.cut else (0, 0)
    verdict.expect("frames and bytes lost", lost, (last.lost_packets, last.lost_bytes))


# -- cases ------------------------------------------------------------------------------------------------------------


def grid(
    rates: Iterable[int] = RATES,
    delays: Iterable[int] = DELAYS_NS,
    sizes: Iterable[str] = tuple(SIZES),
    patterns: Iterable[str] = PATTERNS,
    hops: Iterable[int] = HOPS,
) -> Iterator[Case]:
    for hop in hops:
        for rate in rates:
            for delay in delays:
                for size in sizes:
                    for pattern in patterns:
                        yield grid_case(rate, delay, size, pattern, hop)


def grid_case(rate: int, delay: int, size: str, pattern: str, hops: int) -> Case:
    name = f"{hops} hops, {rate / 1e6:g} Mbit/s, {delay} ns, {size} B, {pattern}"
    chance = random.Random(name)
    lengths = SIZES[size]
    limit = max(FULL_FRAME, 6 * max(lengths)) if pattern in ("overflow", "marks") else AMPLE_BYTES
    mark = limit // 2 if pattern == "marks" else None
    frames = _frames(pattern, chance, lengths, limit, rate, hops)
    return Case(name, f"chain{hops}", _ports(rate, delay, limit, mark, hops), tuple((0, frame) for frame in frames))


def _ports(rate: int, delay: int, limit: int, mark: int | None, hops: int) -> tuple[Port, ...]:
    """One hop: the host's queue. Two: a switch's, behind a link twice as fast. Four: then an equal and a slower one."""
    if hops == 1:
        return (Port(rate, delay, limit, mark),)
    rates = {2: (rate,), 4: (rate, rate, rate // 2)}[hops]
    return (Port(2 * rate, delay, AMPLE_BYTES), *(Port(each, delay, limit, mark, forwards=True) for each in rates))


def _frames(pattern: str, chance: random.Random, lengths: Sequence[int], limit: int, rate: int, hops: int) -> list[Frame]:
    def ect() -> bool:
        return pattern == "marks" and chance.random() < 0.75

    if pattern == "burst":
        return [Frame(0, chance.choice(lengths), ect(), seq) for seq in range(40)]
    frames: list[Frame] = []
    t_ns = 0
    if pattern == "spaced":
        for seq in range(20):
            frames.append(Frame(t_ns, chance.choice(lengths), ect(), seq))
            t_ns += 3 * _serialization_ns(FULL_FRAME, rate) + chance.randrange(100)
        return frames
    mean = sum(lengths) // len(lengths)
    largest = (2 if hops == 1 else 4) * limit // mean
    for _ in range(4):
        burst = chance.randint(1, largest)
        frames += [Frame(t_ns, chance.choice(lengths), ect(), len(frames) + n) for n in range(burst)]
        t_ns += chance.randrange(1 + 2 * burst * _serialization_ns(mean, rate) // 2)
    return frames


def _serialization_ns(length: int, rate: int) -> int:
    return length * 8 * 10**9 // rate


def incast() -> Iterator[Case]:
    """Four senders into one port. All times are multiples of 8 ns plus the sender's number: no two frames arrive at once."""
    for rate, sizes in ((10**9, (60, 590, 1514)), (10**10, (60, 590, 1510)), (10**11, (100, 600, 1500))):
        for delay in (1_000, 10**6):
            for pattern in ("overflow", "marks"):
                yield _incast_case(rate, delay, sizes, pattern)


def _incast_case(rate: int, delay: int, sizes: Sequence[int], pattern: str) -> Case:
    name = f"incast of 4, {rate / 1e6:g} Mbit/s, {delay} ns, {pattern}"
    chance = random.Random(name)
    limit = 20_000
    rows: list[tuple[int, int, int, bool]] = []
    for sender in range(4):
        t_ns = 0
        for _ in range(30):
            rows.append((8 * (t_ns // 8) + sender, sender, chance.choice(sizes), pattern == "marks" and chance.random() < 0.75))
            t_ns += chance.randrange(1 + 3 * _serialization_ns(750, rate))
    frames = tuple((sender, Frame(t, length, ect, seq)) for seq, (t, sender, length, ect) in enumerate(sorted(rows)))
    host = Port(rate, delay, AMPLE_BYTES)
    mark = limit // 3 if pattern == "marks" else None
    return Case(name, "incast4", (host, host, host, host, Port(rate, delay, limit, mark, forwards=True)), frames)


def drift() -> Iterator[Case]:
    """10,000 frames of 60 bytes back to back, at rates whose serialization times are fractions of a ns, or no fraction of a ps."""
    for rate in (10**11, 40 * 10**9, 7 * 10**9, 30 * 10**6):
        frames = tuple((0, Frame(0, 60, False, seq)) for seq in range(10_000))
        yield Case(f"10,000 frames, {rate / 1e6:g} Mbit/s", "chain1", (Port(rate, 100, AMPLE_BYTES),), frames)


def conservation() -> Iterator[Case]:
    """Counted in the middle, with frames queued, dropped and under way, and again at the end; then with a receiver that goes down."""
    for hops in HOPS:
        for rate in (10**7, 10**8, 10**9):
            for pattern in ("overflow", "marks"):
                case = grid_case(rate, 10**6, "mixed", pattern, hops)
                stop_ns = case.runs[-1].passages[len(case.runs[-1].passages) // 2].frame.t_ns
                sent = tuple((sender, frame) for sender, frame in case.frames if frame.t_ns <= stop_ns)
                yield Case(f"counted midway: {case.name}", case.net, case.ports, sent, stop_ns=stop_ns)
    frames = tuple((0, Frame(0, length, False, seq)) for seq, length in enumerate((60, 590, 1514) * 5))
    yield Case("the receiver goes down", "cut1", (Port(10**9, 10**6, AMPLE_BYTES),), frames, stop_ns=500_000, cut=True)


# -- one CUBIC flow ---------------------------------------------------------------------------------------------------

FLOW_RATE = 10**7
FLOW_NS = 25 * 10**9
FLOW_SAMPLE_NS = 10**6
SWITCH_LIMIT = 300_000


@dataclass(frozen=True)
class FlowCase:
    name: str
    net: str
    ports: tuple[Port, ...]

    def job(self) -> dict[str, Any]:
        schedule = "".join(f"{t_ns},0,0,0,0\n" for t_ns in range(FLOW_SAMPLE_NS, FLOW_NS, FLOW_SAMPLE_NS))
        return Case(self.name, self.net, self.ports, ((0, Frame(0, 60, False, 0)),), samples=0).job() | {"schedule": schedule, "tcp": "cubic"}


SWITCH_FLOW = FlowCase("CUBIC into a switch", "chain2", (Port(10**9, 10_000, AMPLE_BYTES), Port(FLOW_RATE, 10_000, SWITCH_LIMIT)))
HOST_FLOW = FlowCase("CUBIC out of a host", "chain1", (Port(FLOW_RATE, 10_000, SWITCH_LIMIT),))


def switch_bar(reply: dict[str, Any]) -> Bar:
    """A switch knows no socket: nothing but its limit bounds what a lone flow queues there."""
    longest = max(backlogs[2] for backlogs in parse(reply["probe"]).backlogs)
    ok = SWITCH_LIMIT - FULL_FRAME < longest <= SWITCH_LIMIT
    asked = f"{SWITCH_LIMIT - FULL_FRAME + 1} .. {SWITCH_LIMIT} bytes, the buffer less one frame and the buffer"
    return Bar("one CUBIC flow, longest queue in a switch", asked, f"{longest} bytes, {reply['drops'][1]} drops", ok)


def host_bar(reply: dict[str, Any]) -> Bar:
    raise NotImplementedError


# -- the bench --------------------------------------------------------------------------------------------------------
