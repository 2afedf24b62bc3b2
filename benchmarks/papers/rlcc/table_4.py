# SPDX-License-Identifier: Apache-2.0
"""Table IV of RL-CC: packets lost per flow over the test, in the runs of figures 6, 7 and 10.

The paper's tests last 60 and 30 s, ours some milliseconds at 100 Gbit/s, so their bring-up (the start of all flows) weighs a
thousand times as much. The claims are therefore about losses after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers.rlcc import cluster as cluster
from dc_gym.benchmarks.papers.rlcc import common
from dc_gym.benchmarks.papers.rlcc.cluster import (
    ALL,
    ALL_TO_ALL,
    COLORS,
    COUNTS,
    GENTLE,
    LONG_SHORT,
    MANY_TO_ONE,
    VARIANT_OF,
    WHOSE,
    contestants,
    look,
    name,
    who_in,
)
from dc_gym.benchmarks.papers.rlcc.common import OWN, WRITES
from dc_gym.reproduce import series
from dc_gym.reproduce.claims import Claim, Explanation, below, less_than, more_than
from dc_gym.reproduce.evidence import Evidence
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.reproduce.series import ContestantLine

TITLE = "Packets lost a flow"
SOURCE = "RL-CC, Table IV"
SCENARIOS = (MANY_TO_ONE, ALL_TO_ALL, LONG_SHORT)
ROWS = [row for scenario in SCENARIOS for row in cluster.ROWS[scenario]]
COLUMNS = (common.DROPS, common.LATE_DROPS, common.DROPPED, common.RESENT)
LOSSLESS = ((MANY_TO_ONE, 32), (MANY_TO_ONE, 128), (ALL_TO_ALL, 1), (ALL_TO_ALL, 8), (LONG_SHORT, 50), (LONG_SHORT, 100))
"""The cases in which Swift and RL-CC lose nothing in the paper."""
DCQCN_LOSES = ((MANY_TO_ONE, 128), (ALL_TO_ALL, 1), (ALL_TO_ALL, 8), (LONG_SHORT, 100))
FEWER = ((MANY_TO_ONE, 2048), (MANY_TO_ONE, 4096), (ALL_TO_ALL, 16), (ALL_TO_ALL, 32))
"""The cases in which RL-CC loses less than Swift."""
NONE = 1e-9
SLOW_START = Explanation(
    hypothesis="the paper's zeros are those of flows that do not begin at line rate",
    experiment="the rows `RL-CC from 1/256` of dcgym reproduce rl-cc table-4",
    page="docs/reproduce-rl-cc.md#the-cluster-figures-6-to-10-table-iv",
    showed="from 1/256 of the line flows lose nothing over whole runs; from line rate they lose 35 to 1650 packets each",
)
SIX = 6
"""The most cases whose labels fit without being turned."""
ASIDE = 0.12
"""Distance between the markers of two variants."""


def _claims(variant: str) -> Iterator[Claim]:
    def row(who: str, scenario: str, count: int) -> str:
        return name(who_in(scenario, who, variant), scenario, count)

    for who in ("Swift", "RL-CC"):
        criteria = tuple(less_than(row(who, *case), common.LATE_DROPS, NONE) for case in LOSSLESS)
        explanation = SLOW_START if who == "RL-CC" else None
        yield Claim(f"{who} loses nothing with few flows", SOURCE, criteria, explanation=explanation)
    for scenario, count in DCQCN_LOSES:
        criteria = (more_than(row("DCQCN", scenario, count), common.LATE_DROPS, 0),)
        yield Claim(f"DCQCN loses packets: {scenario}, {count}", SOURCE, criteria)
    for scenario, count in FEWER:
        criteria = (below(row("RL-CC", scenario, count), row("Swift", scenario, count), common.LATE_DROPS),)
        yield Claim(f"RL-CC loses less than Swift: {scenario}, {count}", SOURCE, criteria)


CLAIMS = (
    *common.with_variants(WHOSE, _claims),
    Claim(
        "DCQCN loses nothing: long-short, 50",
        SOURCE,
        (less_than(name(who_in(LONG_SHORT, "DCQCN", WRITES), LONG_SHORT, 50), common.LATE_DROPS, NONE),),
        variant=WRITES,
    ),
)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    parts = [cluster.run(scenario, options, progress) for scenario in SCENARIOS]
    together = {name: each for part in parts for name, each in part.contenders.items()}
    evidence = Evidence(together, shortfall=Evidence.shortfall_of(parts))
    rows = [row for scenario in SCENARIOS for row in cluster.chosen(scenario, options)]
    cases = [
        (scenario, count)
        for scenario in SCENARIOS
        for count in COUNTS[scenario]
        if name("RL-CC", scenario, count) in evidence.contenders
    ]
    lines = [
        ContestantLine(
            who,
            COLORS[who],
            {x + _aside(who): name(who, *case) for x, case in enumerate(cases) if who in contestants(case[0])},
            marker=look(who)[0],
            line="",
        )
        for who in ALL
    ]
    figure = series.figure(evidence, lines, (common.DROPS, common.LATE_DROPS), "case", TITLE, base=None)
    labels = ["\n".join((*scenario.split("-", 1), str(count))) for scenario, count in cases]
    for ax in figure.axes:
        ax.set_xticks(range(len(cases)), labels, fontsize=8, rotation=45 if len(cases) > SIX else 0)
        ax.set_xlabel("")
    return common.findings(TITLE, rows, options, evidence, COLUMNS, CLAIMS, figure, [_gentle(evidence)])


def _aside(who: str) -> float:
    """Returns the place of a contestant's markers beside the middle of their case: variants to the right of the others."""
    places = (OWN, *WHOSE)
    return ASIDE * (places.index(VARIANT_OF.get(who, OWN)) - (len(places) - 1) / 2)


def _gentle(evidence: Evidence) -> str:
    """Describes how much depends on the initial rate, which the paper does not give."""
    lost = [each.estimate(common.DROPS.name) for who, each in evidence.contenders.items() if who.startswith(GENTLE)]
    most = max((one.mean for one in lost if one), default=float("nan"))
    return f"{GENTLE} of the line, bring-up included, loses at most {most:g} packets a flow in any case."
