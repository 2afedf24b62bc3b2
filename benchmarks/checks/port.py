# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench port`: compares the queueing discipline `port` with the FIFO oracle, frame by frame.

Random networks mark by steps and slopes as frames arrive or depart. Departures, arrivals, drops and marks must be equal, and at
random times so must backlogs, integrals, busy times, longest queues and bytes with CE. The same frames also pass stock queues,
bfifo and RED, as far as those can do it. `dcgym bench int` (int.py) does the same for telemetry. At the end the cost of each
feature is printed: `dcgym bench port-cost` (port_cost.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.benchmarks.checks import port_cases, port_cost
from dc_gym.benchmarks.checks.link_cases import LinkCase
from dc_gym.benchmarks.checks.links import LinkVerdict, compare, play
from dc_gym.kernel import build

CASES = 150
"""Random cases of each kind."""
COUNTED = ("frames", "drops", "marks", "records", "samples")


def groups(count: int = CASES) -> dict[str, list[LinkCase]]:
    """Returns all cases by the name of their check."""
    arrivals = list(port_cases.marking(count, "arrival"))
    return {
        "marks at arrival": arrivals,
        "marks at departure": list(port_cases.marking(count, "departure")),
        "steps at arrival": list(port_cases.steps(arrivals, stock=False)),
        "the same on bfifo and RED": list(port_cases.steps(arrivals, stock=True)),
    }


def case_check(name: str, cases: Sequence[LinkCase], verdicts: Sequence[LinkVerdict]) -> Check:
    counts = {each: sum(getattr(verdict, each) for verdict in verdicts) for each in COUNTED}
    counted = ", ".join(f"{count} {each}" for each, count in counts.items())
    bad = [(case, verdict.faults[0]) for case, verdict in zip(cases, verdicts, strict=True) if verdict.faults]
    measured = f"{len(bad)} cases differ; the first: {bad[0][0].name}: {bad[0][1]}" if bad else "all equal"
    worst_ns = max(verdict.worst_ns for verdict in verdicts)
    return Check(name, f"{len(cases)} cases: {counted}", f"times within {worst_ns} ns; {measured}", not bad and worst_ns == 0)


def checks(kernel: Path | None = None) -> list[Check]:
    return [*compared(groups(), kernel), *port_cost.checks(kernel)]


def compared(cases: Mapping[str, Sequence[LinkCase]], kernel: Path | None = None) -> list[Check]:
    """Runs all cases in one lab. `kernel`: None builds it or takes it from the cache."""
    replies = iter(play(kernel or build.ensure().path, [case.job() for group in cases.values() for case in group]))
    return [case_check(name, group, [compare(case, next(replies)) for case in group]) for name, group in cases.items()]
