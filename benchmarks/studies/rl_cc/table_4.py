# SPDX-License-Identifier: Apache-2.0
"""Table IV of RL-CC: packets lost per flow over the test, in the runs of figures 6, 7 and 10.

The paper's tests last 60 and 30 s, ours some milliseconds at 100 Gbit/s, so their bring-up (the start of all flows) weighs a
thousand times as much. The claims are therefore about losses after it, but for rows about bring-up (slow start,
spread starts).
"""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.rl_cc import cluster as cluster
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.cluster import (
    ALL,
    ALL_TO_ALL,
    BRING_UP,
    COLORS,
    COUNTS,
    LONG_SHORT,
    MANY_TO_ONE,
    SHORT,
    VARIANT_OF,
    WHO,
    WHOSE,
    contestants,
    look,
    lost,
    name,
    on,
    row_name,
)
from dc_gym.benchmarks.studies.rl_cc.common import OWN
from dc_gym.study import series
from dc_gym.study.claims import Claim, Explanation, below, less_than, more_than
from dc_gym.study.evidence import Evidence
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.series import VariantLine

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
    experiment="the rows named `slow start` of dcgym reproduce rl-cc table-4",
    page="docs/reproduce-rl-cc.md#how-flows-begin-decides-what-table-iv-counts",
    showed="from 1/256 of the line flows lose nothing over whole runs; from line rate 100 short ones lose 6 packets each,"
    " and those of many-to-one 900 to 1650 over whole runs",
)
ONE_BY_ONE = Explanation(
    hypothesis="the paper's flows start one after another, and DCQCN's give way to a newcomer too slowly",
    experiment="the rows named `spread starts` of dcgym reproduce rl-cc table-4",
    page="docs/reproduce-rl-cc.md#how-flows-begin-decides-what-table-iv-counts",
    showed="with starts over 100 ms DCQCN's 128 flows lose 28 to 172 packets each over whole runs, with every seed; RL-CC's lose"
    " 0, 0, 12, 0 and 2. With 32 flows neither loses any",
)
STILL_FLOODED = cluster.still_flooded(
    "table-4",
    "with 8 flows a host DCQCN's flows lose 2909 packets each from 75 to 100 ms (five seeds), and 3232 from 50 to 100 ms"
    " (seed 11); with the parameters of DCQCN's paper they lose nothing after bring-up",
)
START = Explanation(
    hypothesis="the paper's losses with one flow a host are those of the flows' start, which our criterion does not count",
    experiment="the drops of whole runs in dcgym reproduce rl-cc table-4, rows `DCQCN` and `DCQCN, firmware`",
    page="docs/reproduce-rl-cc.md#dcqcn-as-in-nics-firmware",
    showed="while flows start, DCQCN's lose 260 packets each with the firmware's parameters (35 to 510; paper: 225), and 77"
    " with those of its paper (none with two seeds of five), those of Swift and RL-CC none, and nobody loses any afterwards",
)
EXPLAINED = {(MANY_TO_ONE, 128): ONE_BY_ONE, (ALL_TO_ALL, 1): START, (ALL_TO_ALL, 8): STILL_FLOODED}
"""Experiments that show why DCQCN loses nothing after bring-up here, by case."""
SIX = 6
"""The most cases whose labels fit without being turned."""
ROOM = 0.84
"""Distance between the first and the last variant's markers of a case."""


def _claims(variant: str) -> Iterator[Claim]:
    def row(who: str, scenario: str, count: int) -> str:
        return row_name(who, scenario, count, variant)

    for who in ("Swift", "RL-CC"):
        criteria = tuple(less_than(row(who, *case), lost(*case, variant), NONE) for case in LOSSLESS)
        yield Claim(f"{who} loses nothing with few flows", SOURCE, criteria, explanation=SLOW_START)
    for scenario, count in DCQCN_LOSES:
        criteria = (more_than(row("DCQCN", scenario, count), lost(scenario, count, variant), 0),)
        text, explanation = f"DCQCN loses packets: {scenario}, {count}", EXPLAINED.get((scenario, count))
        yield Claim(text, SOURCE, criteria, explanation=explanation)
    criteria = (less_than(row("DCQCN", LONG_SHORT, SHORT[0]), lost(LONG_SHORT, SHORT[0], variant), NONE),)
    yield Claim(f"DCQCN loses nothing: long-short, {SHORT[0]}", SOURCE, criteria)
    for scenario, count in FEWER:
        ours, swift = (row(who, scenario, count) for who in ("RL-CC", "Swift"))
        criteria = (below(ours, swift, lost(scenario, count, variant)),)
        yield Claim(f"RL-CC loses less than Swift: {scenario}, {count}", SOURCE, criteria)


CLAIMS = common.with_variants(WHOSE, _claims)


def run(options: StudyOptions, progress: Progress) -> Findings:
    parts = [cluster.run(scenario, options, progress) for scenario in SCENARIOS]
    together = {name: each for part in parts for name, each in part.variants.items()}
    evidence = Evidence(together, shortfall=Evidence.shortfall_of(parts))
    rows = [row for scenario in SCENARIOS for row in cluster.chosen(scenario, options)]
    cases = [
        (scenario, count)
        for scenario in SCENARIOS
        for count in COUNTS[scenario]
        if name("RL-CC", scenario, count) in evidence.variants
    ]
    lines = [
        VariantLine(
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
    return common.findings(TITLE, rows, options, evidence, COLUMNS, CLAIMS, figure, _bring_up(evidence))


def _aside(who: str) -> float:
    """Returns the place of a contestant's markers beside the middle of their case, by its variant."""
    places = (OWN, *WHOSE)
    return ROOM * (places.index(VARIANT_OF.get(who, OWN)) / (len(places) - 1) - 1 / 2)


def _bring_up(evidence: Evidence) -> list[str]:
    """Describes how much depends on how flows begin, which the paper does not say."""
    return [_most_lost(evidence, variant) for variant in BRING_UP]


def _most_lost(evidence: Evidence, variant: str) -> str:
    most = {}
    for who in WHO:
        rows = [each for name, each in evidence.variants.items() if name.startswith(f"{on(who, variant)},")]
        means = [one.mean for each in rows if (one := each.estimate(common.DROPS.name))]
        most[who] = max(means, default=float("nan"))
    return f"Most packets lost a flow in any case, {variant}: " + ", ".join(f"{who} {value:.3g}" for who, value in most.items())
