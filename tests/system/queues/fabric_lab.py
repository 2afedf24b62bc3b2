# SPDX-License-Identifier: Apache-2.0
"""Compares classes, shared buffers and pauses of the lab's switches with the fabric oracle, frame by frame.

From a case alone the oracle computes when each frame leaves its host and arrives, which are dropped and marked, each pause, and
all statistics of all ports at any time. A lab then runs the same case (fabric_guest.py). Everything must be equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fabric_cases import FabricCase

from dc_gym.benchmarks.checks.lab_job import play_jobs
from dc_gym.benchmarks.checks.links import parse

HERE = Path(__file__).resolve().parent
CE, ECT0 = 3, 2
PORT_FIELDS = (
    *("marked", "ce_packets", "ce_bytes", "queue_byte_ns", "busy_ns", "longest_bytes", "int_records", "int_missed"),
    *("paused_ns", "pauses_received", "pauses_sent", "charged_bytes", "headroom_bytes", "most_headroom_bytes", "refused"),
    *("pool_used_bytes", "classes", "paused_classes"),
)
"""struct tc_port_xstats and tc_port_class_xstats of kernel/drivers/lab.h, in their order."""
CLASS_FIELDS = (
    *("backlog_bytes", "backlog_packets", "sent_bytes", "sent_packets", "drops", "marked", "ce_packets", "ce_bytes"),
    *("queue_byte_ns", "busy_ns", "longest_bytes", "paused_ns", "charged_bytes", "pauses"),
)
OF_THE_CABLE = ("paused_ns", "pauses_received", "pauses_sent")
"""Counted since the cable was made, and not since the queue was."""


def names_of(values: Sequence[int]) -> list[str]:
    """Returns the names of the values of a sample, without time and port."""
    classes = (len(values) - len(PORT_FIELDS)) // len(CLASS_FIELDS)
    return [*PORT_FIELDS, *(f"class {number} {column}" for number in range(classes) for column in CLASS_FIELDS)]


@dataclass
class FabricVerdict:
    """The counts of what was compared in one case, and the differences that were found."""

    frames: int = 0
    drops: int = 0
    marks: int = 0
    pauses: int = 0
    trims: int = 0
    values: int = 0
    faults: list[str] = field(default_factory=list)

    def expect(self, subject: str, expected: object, measured: object) -> None:
        if expected != measured:
            self.faults.append(f"{subject}: asked {expected}, measured {measured}")


def samples_of(text: str) -> list[tuple[int, ...]]:
    """Returns linkprobe's samples of all statistics, less what the cables had counted at the first sample."""
    rows = [tuple(map(int, line.split(",")[1:])) for line in text.splitlines() if line.startswith("x,")]
    ports = 1 + max(row[1] for row in rows)
    return [_since(row, rows[row[1]]) for row in rows[ports:]]


def _since(row: tuple[int, ...], first: tuple[int, ...]) -> tuple[int, ...]:
    names = names_of(row[2:])
    values = [
        value - before if name.split()[-1] in OF_THE_CABLE else value
        for name, value, before in zip(names, row[2:], first[2:], strict=True)
    ]
    return (*row[:2], *values)


def compare(case: FabricCase, reply: dict[str, Any]) -> FabricVerdict:
    """Compares the lab's answer to a case with the oracle's."""
    run, answer = case.run, parse(reply["probe"])
    last = [dict(zip(names_of(row[2:]), row[2:], strict=True)) for row in run.samples[-case.shape.ports :]]
    verdict = FabricVerdict(
        frames=len(case.frames),
        drops=case.drops,
        marks=sum(row["marked"] for row in last),
        pauses=sum(row["pauses_sent"] for row in last),
        trims=sum(packets for packets, _ in run.trims),
    )
    verdict.expect("frames that left", sorted(run.departures), sorted(answer.departures))
    verdict.expect("frames that arrived", sorted(run.arrivals), sorted(answer.arrivals))
    for frame in case.frames:
        verdict.expect(f"departure of frame {frame.seq}", run.departures.get(frame.seq), answer.departures.get(frame.seq))
        arrival = run.arrivals.get(frame.seq)
        ecn = ECT0 * frame.ect
        verdict.expect(
            f"arrival of frame {frame.seq} (time, ECN, length)",
            None if arrival is None else (arrival.t_ns, CE if arrival.ce else ecn, frame.length),
            answer.arrivals.get(frame.seq),
        )
    _check_samples(run.samples, samples_of(reply["probe"]), verdict)
    verdict.expect("frames trimmed, and bytes cut off, by port", run.trims, [(*counted,) for counted in reply["trims"]])
    if case.until_ns is None:
        _check_devices(last, reply["devices"], verdict)
    return verdict


def _check_samples(expected: Sequence[tuple[int, ...]], answers: Sequence[tuple[int, ...]], verdict: FabricVerdict) -> None:
    for row, measured in zip(expected, answers, strict=True):
        where = f"port {row[1]} at {row[0]} ns"
        verdict.expect(f"{where}, time, port and number of values", (*row[:2], len(row)), (*measured[:2], len(measured)))
        verdict.values += len(row) - 2
        for name, one, other in zip(names_of(row[2:]), row[2:], measured[2:], strict=False):
            verdict.expect(f"{where}, {name}", one, other)


def _check_devices(last: Sequence[dict[str, int]], devices: Sequence[dict[str, int]], verdict: FabricVerdict) -> None:
    """Checks that nothing is left on its way, and that no frame was lost between ports."""
    for port, device in enumerate(devices):
        for counter in ("flight_packets", "lost_packets", "pauses_in_flight"):
            verdict.expect(f"port {port}, {counter}", 0, device[counter])
        verdict.expect(f"port {port}, sent = arrived", device["tx_packets"], devices[port ^ 1]["rx_packets"])
        verdict.expect(f"port {port}, pauses sent = arrived", device["pauses_sent"], devices[port ^ 1]["pauses_received"])
    verdict.expect("bytes charged at the end", 0, sum(row["charged_bytes"] + row["pool_used_bytes"] for row in last))


def play(kernel: Path, cases: Sequence[FabricCase]) -> list[dict[str, Any]]:
    """Returns the lab's answers to all cases."""
    return play_jobs(kernel, "fabric_guest", [case.job() for case in cases], [HERE])


def arrived(reply: dict[str, Any]) -> int:
    """Returns the number of frames that arrived."""
    return len(parse(reply["probe"]).arrivals)


def rows_of(reply: dict[str, Any]) -> dict[tuple[int, int], dict[str, int]]:
    """Returns the lab's samples by time and port."""
    return {(row[0], row[1]): dict(zip(names_of(row[2:]), row[2:], strict=True)) for row in samples_of(reply["probe"])}
