# SPDX-License-Identifier: Apache-2.0
"""The fidelity check: whether this machine kept up with the traffic in real time. If it did not, the run is unfit.

The check follows Mininet-HiFi (Handigol et al., CoNEXT 2012): do not trust the plot, check invariants in every run. It covers
exactly the time of the traffic. It measures how busy the CPUs were, and how much of that was softirqs, where packets are
forwarded; whether softirqs ran out of their budget (/proc/net/softnet_stat); and how late timers were in this process and in the
monitor.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from dc_gym.base.errors import FabricError
from dc_gym.base.readable import quantity
from dc_gym.run.grounds.host.calibration import percentile_90
from dc_gym.topologies.graph import Graph

PERIOD_NS = 10_000_000
TIMER_PRIORITY = 15  # SCHED_FIFO: above tgen, which this process checks
BUSIEST = 0.95
SOFTIRQ = 0.8
STOLEN = 0.02
LATE_NS = 2_000_000
LATE_SHARE = 0.1
"""Limit of a timer's lateness, as a share of the time that the queue below a marking threshold lasts. A queue that ends while a
timer is late leaves the link idle."""
SQUEEZES_A_SECOND = 10


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The findings. Shares are shares of the traffic's time, on the CPU where they were largest."""

    busiest_cpu: float
    softirq: float
    stolen: float
    """Share of CPU time that went to other VMs on the same physical machine."""
    squeezes_per_s: float
    timer_late_ns_p90: int
    timer_late_ns_worst: int
    late_sweeps: int
    """Number of the monitor's sweeps that began after the next was due."""
    timer_late_ns_limit: int = LATE_NS

    def faults(self) -> list[str]:
        """Returns the reasons why the run is unfit, in words."""
        late, limit = (quantity(ns, "ns") for ns in (self.timer_late_ns_p90, self.timer_late_ns_limit))
        checks = (
            (self.busiest_cpu > BUSIEST, f"a CPU was {self.busiest_cpu:.0%} busy (limit {BUSIEST:.0%}): take lower rates"),
            (self.softirq > SOFTIRQ, f"a CPU spent {self.softirq:.0%} in softirqs (limit {SOFTIRQ:.0%}): take lower rates"),
            (
                self.stolen > STOLEN,
                f"the hypervisor took {self.stolen:.1%} of a CPU (limit {STOLEN:.0%}): take a quieter machine",
            ),
            (
                self.squeezes_per_s > SQUEEZES_A_SECOND,
                f"softirqs ran out of budget {self.squeezes_per_s:.0f} times a second (limit {SQUEEZES_A_SECOND})",
            ),
            (
                self.timer_late_ns_p90 > self.timer_late_ns_limit,
                f"one timer in ten was {late} late or more (limit {limit}): take lower rates, or a quieter machine",
            ),
            (
                self.late_sweeps > 0,
                f"{self.late_sweeps} sweeps of the queues began after the next was due: raise monitor.interval",
            ),
        )
        return [words for bad, words in checks if bad]

    def to_dict(self) -> dict[str, float | int]:
        return {name: round(value, 4) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class Counts:
    """The kernel's counters at one time."""

    at_ns: int
    cpus: dict[str, list[int]]
    squeezes: int

    @classmethod
    def now(cls) -> Counts:
        return cls(time.monotonic_ns(), cpu_ticks(), _squeezes())


def late_limit_ns(graph: Graph) -> int:
    """Returns by how much one timer in ten may be late: LATE_NS, or LATE_SHARE of the time of the shortest queue that marks."""
    marks = ((port.queue.marking, graph.cable_of(port).rate_bps) for port in graph.switch_ports())
    lasts_ns = ((marking.k_bytes or marking.min_bytes) * 8 * 10**9 // rate for marking, rate in marks if marking.kind != "none")
    return min([LATE_NS, *(int(LATE_SHARE * ns) for ns in lasts_ns)])


class FidelityWatch:
    """Watches the machine from one time to another, in ns of CLOCK_MONOTONIC.

    The first count is one period early: reading takes a while, and nothing may delay the first flows. A tick has the same length.
    """

    def __init__(self, from_ns: int, to_ns: int, late_ns: int = LATE_NS) -> None:
        """`late_ns` is the limit of a timer's lateness."""
        self._from_ns, self._to_ns, self._late_ns = from_ns, to_ns, late_ns
        self._lateness: list[int] = []
        self._counts: list[Counts] = []
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def result(self, late_sweeps: int) -> Fidelity:
        """Waits for the end of the time and returns the findings."""
        self._thread.join()
        if len(self._counts) != 2:
            raise FabricError("the fidelity check could not be a real-time process: give CAP_SYS_NICE")
        before, after = self._counts
        shares = [share(before.cpus[name], ticks) for name, ticks in after.cpus.items() if name in before.cpus]
        return Fidelity(
            busiest_cpu=max(busy for busy, _, _ in shares),
            softirq=max(softirq for _, softirq, _ in shares),
            stolen=max(stolen for _, _, stolen in shares),
            squeezes_per_s=(after.squeezes - before.squeezes) * 1e9 / max(after.at_ns - before.at_ns, 1),
            timer_late_ns_p90=percentile_90(self._lateness),
            timer_late_ns_worst=max(self._lateness, default=0),
            late_sweeps=late_sweeps,
            timer_late_ns_limit=self._late_ns,
        )

    def _look_on(self) -> None:
        """Runs a timer every PERIOD_NS, with the priority of the measuring programs."""
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(TIMER_PRIORITY))
        except PermissionError:
            return
        _sleep_until(self._from_ns - PERIOD_NS)
        self._counts.append(Counts.now())
        due = self._from_ns
        while due < self._to_ns:
            now = _sleep_until(due)
            self._lateness.append(now - due)
            due = max(due + PERIOD_NS, now)
        _sleep_until(self._to_ns)
        self._counts.append(Counts.now())


def _sleep_until(due_ns: int) -> int:
    """Returns the time after sleeping."""
    time.sleep(max(0, due_ns - time.monotonic_ns()) / 1e9)
    return time.monotonic_ns()


def cpu_ticks(text: str | None = None) -> dict[str, list[int]]:
    """Returns by CPU the ticks in user, nice, system, idle, iowait, irq, softirq, steal (proc(5), /proc/stat)."""
    lines = (Path("/proc/stat").read_text() if text is None else text).splitlines()
    rows = [line.split() for line in lines if line.startswith("cpu") and not line.startswith("cpu ")]
    return {row[0]: [int(ticks) for ticks in row[1:9]] for row in rows}


def share(before: list[int], after: list[int]) -> tuple[float, float, float]:
    """Returns the shares of ticks between the two that were busy, in softirqs, and stolen."""
    passed = [late - early for early, late in zip(before, after, strict=True)]
    total = max(sum(passed), 1)
    return 1 - (passed[3] + passed[4]) / total, passed[6] / total, passed[7] / total


def _squeezes() -> int:
    """Returns how often softirqs of any CPU stopped with packets left, since boot."""
    return sum(int(line.split()[2], 16) for line in Path("/proc/net/softnet_stat").read_text().splitlines())
