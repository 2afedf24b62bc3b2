# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench links`: compares links, queues and marks of the lab with the FIFO oracle, packet by packet.

From a case alone the oracle computes when each frame leaves and arrives, which frames are dropped and marked, and how much waits
at any time. A lab then runs the same case. Times may differ by 2 ns, everything else must be equal. One lab serves all cases
(links_guest.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from dc_gym.base.checks import Check
from dc_gym.base.units import format_rate
from dc_gym.benchmarks.checks import links_guest
from dc_gym.benchmarks.checks.lab_job import play_jobs
from dc_gym.benchmarks.checks.link_cases import HOPS, RATES, LinkCase, conservation, grid, incast
from dc_gym.benchmarks.checks.links_guest import NETS, Counters, telemetry_of
from dc_gym.benchmarks.checks.oracle import OraclePort, Passage
from dc_gym.kernel import build
from dc_gym.topologies.telemetry import MOST_HOPS, RateUnits

TOLERANCE_NS = 2
CE, ECT0 = 3, 2


@dataclass
class LinkVerdict:
    """The counts of compared items in one case, the largest error in time, and the differences that were found."""

    frames: int = 0
    drops: int = 0
    marks: int = 0
    samples: int = 0
    records: int = 0
    worst_ns: int = 0
    faults: list[str] = field(default_factory=list)

    def expect(self, quantity: str, expected: object, measured: object) -> None:
        if expected != measured:
            self.faults.append(f"{quantity}: asked {expected}, measured {measured}")

    def expect_time(self, quantity: str, asked_ns: int, measured_ns: int) -> None:
        self.worst_ns = max(self.worst_ns, abs(measured_ns - asked_ns))
        if abs(measured_ns - asked_ns) > TOLERANCE_NS:
            self.faults.append(f"{quantity}: asked {asked_ns} ns, measured {measured_ns} ns")


@dataclass(frozen=True)
class ProbeOutput:
    """The parsed output of linkprobe."""

    departures: dict[int, int]
    arrivals: dict[int, tuple[int, int, int]]
    """By sequence number: time, ECN bits, length."""
    backlogs: list[tuple[int, ...]]
    """Time, then bytes of each port."""
    statistics: list[PortStatistics]
    """The statistics of all ports at each sample, port by port."""
    records: dict[int, list[int]]
    """The records of telemetry that a frame came with, by its sequence number."""
    start_ns: int = 0
    """CLOCK_MONOTONIC of time 0."""


class PortStatistics(NamedTuple):
    """The statistics of one port at one time."""

    t_ns: int
    port: int
    marks: int
    ce_bytes: int
    queue_byte_ns: int
    busy_ns: int
    longest_bytes: int


def parse(text: str) -> ProbeOutput:
    answer = ProbeOutput({}, {}, [], [], {})
    for line in text.splitlines():
        kind, *rest = line.split(",")
        if kind == "i":
            answer.records[int(rest[0])] = [int(word, 16) for word in rest[1:]]
            continue
        values = [int(word) for word in rest]
        if kind == "d":
            answer.departures[values[0]] = values[1]
        elif kind == "a":
            answer.arrivals[values[0]] = (values[1], values[2], values[3])
        elif kind == "b":
            answer.backlogs.append(tuple(values))
        elif kind == "s":
            answer.statistics.append(PortStatistics(*values))
        elif kind == "start":
            answer = replace(answer, start_ns=values[0])
    return answer


def compare(case: LinkCase, reply: dict[str, Any]) -> LinkVerdict:
    """Compares the lab's answer to a case with the oracle's."""
    verdict = LinkVerdict(
        frames=len(case.frames), drops=sum(run.drops for run in case.runs), marks=sum(run.marks for run in case.runs)
    )
    counters = [Counters(**row) for row in reply["counters"]]
    if case.stop_ns is not None:
        _check_counts(case, counters, verdict, case.stop_ns)
        _check_drained(case, [Counters(**row) for row in reply["drained"]], verdict)
        return verdict
    answer = parse(reply["probe"])
    _check_departures(case, answer, verdict)
    _check_arrivals(case, answer, verdict)
    verdict.samples = len(answer.backlogs) * len(case.ports)
    samples = [(t_ns, *(run.backlog(t_ns) for run in case.runs)) for t_ns in case.sample_times]
    for expected, measured in zip(samples, answer.backlogs, strict=True):
        verdict.expect("time and backlogs", expected, measured)
    if not case.stock:
        _check_statistics(case, answer, verdict)
        _check_records(case, answer, verdict)
    _check_counts(case, counters, verdict, case.end_ns)
    for port, (run, now) in enumerate(zip(case.runs, counters, strict=True)):
        verdict.expect(f"port {port}, drops", run.drops, now.drops)
        verdict.expect(f"port {port}, marks", run.marks, now.marks)
    return verdict


def _check_departures(case: LinkCase, answer: ProbeOutput, verdict: LinkVerdict) -> None:
    passed = {p.frame.seq: p for run in case.runs[: NETS[case.net].senders] for p in run.passages if not p.dropped}
    verdict.expect("frames that left the senders", sorted(passed), sorted(answer.departures))
    for seq in passed.keys() & answer.departures.keys():
        verdict.expect_time(f"departure of frame {seq}", passed[seq].depart_ns, answer.departures[seq])


def _check_arrivals(case: LinkCase, answer: ProbeOutput, verdict: LinkVerdict) -> None:
    passed = {p.frame.seq: p for p in case.runs[-1].passages if not p.dropped}
    marked = {p.frame.seq for run in case.runs for p in run.passages if p.marked}
    verdict.expect("frames that arrived", sorted(passed), sorted(answer.arrivals))
    for seq in passed.keys() & answer.arrivals.keys():
        frame, (t_ns, ecn, length) = passed[seq].frame, answer.arrivals[seq]
        verdict.expect_time(f"arrival of frame {seq}", passed[seq].arrive_ns, t_ns)
        verdict.expect(f"ECN of frame {seq}", CE if seq in marked else ECT0 if frame.ect else 0, ecn)
        verdict.expect(f"length of frame {seq}", frame.length, length)


def _check_statistics(case: LinkCase, answer: ProbeOutput, verdict: LinkVerdict) -> None:
    before_ns, last_ns = -1, -1
    samples = iter(answer.statistics)
    for t_ns in case.sample_times:
        again = t_ns == last_ns  # a second look at one time goes back as far as the first, and sees the frames that wait now
        if not again:
            before_ns, last_ns = last_ns, t_ns
        for number, run in enumerate(case.runs):
            longest = run.longest(before_ns, t_ns)
            longest = max(longest, run.backlog(t_ns)) if again else longest
            totals = (run.marks_until(t_ns), run.ce_bytes(t_ns), run.queue_byte_ns(t_ns), run.busy_ns(t_ns))
            verdict.expect("statistics", PortStatistics(t_ns, number, *totals, longest), next(samples))


def _check_records(case: LinkCase, answer: ProbeOutput, verdict: LinkVerdict) -> None:
    by_seq: dict[int, list[int]] = {p.frame.seq: [] for p in case.runs[-1].passages if p.frame.asks and not p.dropped}
    for run in case.runs:
        for passage in run.passages:
            records = by_seq.get(passage.frame.seq)
            if records is not None and run.port.int_rate is not None and len(records) < MOST_HOPS:
                records.append(record_of(run.port, passage, answer.start_ns))
    verdict.records += sum(map(len, by_seq.values()))
    for seq, expected in by_seq.items():
        verdict.expect(f"telemetry of frame {seq}", [*map(hex, expected)], [*map(hex, answer.records.get(seq, []))])


def record_of(port: OraclePort, passage: Passage, start_ns: int) -> int:
    """Returns the record that a port writes into a frame (kernel/drivers/lab_int.h)."""
    assert port.int_rate is not None
    units = telemetry_of(port.int_rate, port.rate_bps)
    rate = RateUnits(port.rate_bps, units.time_ns, units.sent_bytes, units.queue_bytes)
    return rate.record(port.int_rate, start_ns + passage.depart_ns, passage.sent_bytes, passage.left_bytes)


def _check_counts(case: LinkCase, counters: Sequence[Counters], verdict: LinkVerdict, now_ns: int) -> None:
    """Checks the counters: offered frames were sent, dropped or wait; sent frames arrived, were lost or are under way."""
    senders = NETS[case.net].senders
    for index, (run, now) in enumerate(zip(case.runs, counters, strict=True)):
        came = [passage for passage in run.passages if passage.frame.t_ns <= now_ns]
        dropped = [passage.frame.length for passage in came if passage.dropped]
        if index < senders:
            offered = (len(came), sum(passage.frame.length for passage in came))
        else:
            before = counters[:senders] if index == senders else counters[index - 1 : index]
            offered = (sum(upstream.rx_packets for upstream in before), sum(upstream.rx_bytes for upstream in before))
        where = f"port {index}"
        verdict.expect(
            f"{where}, frames offered = sent + dropped + queued", offered[0], now.tx_packets + now.drops + now.backlog_packets
        )
        verdict.expect(f"{where}, bytes offered", offered[1], now.tx_bytes + sum(dropped) + now.backlog_bytes)
        verdict.expect(f"{where}, frames dropped", len(dropped), now.drops)
        arrived = now.rx_packets + now.lost_packets + now.flight_packets
        verdict.expect(f"{where}, frames sent = arrived + lost + under way", now.tx_packets, arrived)
        verdict.expect(f"{where}, bytes sent", now.tx_bytes, now.rx_bytes + now.lost_bytes + now.flight_bytes)
        verdict.expect(f"{where}, drops elsewhere", 0, now.other_drops)


def _check_drained(case: LinkCase, counters: Sequence[Counters], verdict: LinkVerdict) -> None:
    assert case.stop_ns is not None
    _check_counts(case, counters, verdict, case.end_ns)
    for index, now in enumerate(counters):
        verdict.expect(f"port {index}, left over", (0, 0), (now.backlog_packets, now.flight_packets))
    last = counters[-1]
    under_way = [p.frame.length for p in case.runs[-1].passages if p.depart_ns <= case.stop_ns < p.arrive_ns]
    lost = (len(under_way), sum(under_way)) if case.cut else (0, 0)
    verdict.expect("frames and bytes lost", lost, (last.lost_packets, last.lost_bytes))


def play(kernel: Path, jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the lab's answers to all jobs."""
    return play_jobs(kernel, links_guest.__name__, jobs)


def groups() -> dict[str, list[LinkCase]]:
    """Returns all cases by the name of their check."""
    return {
        **{f"{hops} hops, {format_rate(rate)}": list(grid(rate, hops)) for hops in HOPS for rate in RATES},
        "incast of 4 senders, 1 to 100 Gbit/s": list(incast()),
        "bytes sent = received + dropped + queued + lost": list(conservation()),
    }


def case_check(name: str, cases: Sequence[LinkCase], replies: Iterable[dict[str, Any]]) -> Check:
    verdicts = [compare(case, reply) for case, reply in zip(cases, replies, strict=True)]
    bad = [f"{case.name}: {verdict.faults[0]}" for case, verdict in zip(cases, verdicts, strict=True) if verdict.faults]
    frames, drops, marks, samples = (sum(getattr(v, kind) for v in verdicts) for kind in ("frames", "drops", "marks", "samples"))
    required = (
        f"{len(cases)} cases, {frames} frames: times within {TOLERANCE_NS} ns; {drops} drops, {marks} marks, {samples} backlogs"
    )
    measured = f"times within {max(verdict.worst_ns for verdict in verdicts)} ns; all equal"
    if bad:
        measured = f"{len(bad)} cases differ; the first: {bad[0]}"
    return Check(name, required, measured, not bad)


def checks(kernel: Path | None = None) -> list[Check]:
    """Runs all cases in one lab. `kernel`: None builds it or takes it from the cache."""
    cases = groups()
    jobs = [case.job() for group in cases.values() for case in group]
    replies = iter(play(kernel or build.ensure().path, jobs))
    return [case_check(name, group, [next(replies) for _ in group]) for name, group in cases.items()]
