# SPDX-License-Identifier: Apache-2.0
"""Table IV of RL-CC: packets lost per flow over the test, in the runs of figures 6, 7 and 10.

The paper's tests last 60 and 30 s, ours some milliseconds at 100 Gbit/s, so their bring-up (the start of all flows) weighs a
thousand times as much. The claims are therefore about losses after it, but for rows about bring-up (slow start,
spread starts).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import ALL, ALL_TO_ALL, COUNTS, LONG_SHORT, MANY_TO_ONE, SHORT, WHOSE, name, row_name
from dc_gym.study import Claim, Evidence, Measure, Study, VariantLine, below, less_than, more_than, series

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Packets lost a flow"
SOURCE = "RL-CC, Table IV"
PAPER = {
    "DCQCN": {MANY_TO_ONE: (0, 886.4, 28.5, 25.7), ALL_TO_ALL: (225.1, 50.71, 48.1, 26.7), LONG_SHORT: (0, 57.9)},
    "Swift": {MANY_TO_ONE: (0, 0, 10.1, 9.1), ALL_TO_ALL: (0, 0, 0.8, 6.5), LONG_SHORT: (0, 0)},
    "RL-CC": {MANY_TO_ONE: (0, 0, 0.8, 2.8), ALL_TO_ALL: (0, 0, 0.2, 1.2), LONG_SHORT: (0, 0)},
}
"""Packets lost per flow over the test, by case."""
LOSSLESS = ((MANY_TO_ONE, 32), (MANY_TO_ONE, 128), (ALL_TO_ALL, 1), (ALL_TO_ALL, 8), (LONG_SHORT, 50), (LONG_SHORT, 100))
"""The cases in which Swift and RL-CC lose nothing in the paper."""
DCQCN_LOSES = ((MANY_TO_ONE, 128), (ALL_TO_ALL, 1), (ALL_TO_ALL, 8), (LONG_SHORT, 100))
FEWER = ((MANY_TO_ONE, 2048), (MANY_TO_ONE, 4096), (ALL_TO_ALL, 16), (ALL_TO_ALL, 32))
"""The cases in which RL-CC loses less than Swift."""
NONE = 1e-9
SIX, ROOM = 6, 0.84
"""The most cases whose labels fit without being turned; the distance between the outermost set-ups' markers of a case."""
CASES = [(scenario, count) for scenario, counts in COUNTS.items() for count in counts]


def lost(scenario: str, count: int, setup: str) -> Measure:
    """Returns the losses that claims are about: losses after bring-up, or all losses if a set-up changes the bring-up."""
    return common.DROPS if setup in cluster.BRING_UP and cluster.has(setup, scenario, count) else common.LATE_DROPS


def _claims(setup: str) -> Iterator[Claim]:
    def of(contestant: str, case: tuple[str, int]) -> tuple[str, Measure]:
        return row_name(contestant, *case, setup), lost(*case, setup)

    for contestant in ("Swift", "RL-CC"):
        yield Claim(
            f"{contestant} loses nothing with few flows",
            SOURCE,
            tuple(less_than(*of(contestant, case), NONE) for case in LOSSLESS),
        )
    for case in DCQCN_LOSES:
        yield Claim("DCQCN loses packets: {}, {}".format(*case), SOURCE, (more_than(*of("DCQCN", case), 0),))
    fits = (LONG_SHORT, SHORT[0])
    yield Claim("DCQCN loses nothing: {}, {}".format(*fits), SOURCE, (less_than(*of("DCQCN", fits), NONE),))
    for case in FEWER:
        (rl_cc, losses), (swift, _) = of("RL-CC", case), of("Swift", case)
        yield Claim("RL-CC loses less than Swift: {}, {}".format(*case), SOURCE, (below(rl_cc, swift, losses),))


def derive(evidence: Evidence) -> Evidence:
    """Returns the cases' variants, with the values of the paper's table."""
    printed = {
        name(contestant, scenario, count): {common.DROPS.name: value}
        for contestant, scenarios in PAPER.items()
        for scenario, values in scenarios.items()
        for count, value in zip(COUNTS[scenario], values, strict=True)
    }
    cases = {name(contestant, *case) for contestant in ALL for case in CASES}
    rows = {title: row for title, row in evidence.variants.items() if title in cases}
    return replace(evidence, variants={title: replace(row, paper=printed.get(title, {})) for title, row in rows.items()})


def _figure(evidence: Evidence) -> Figure:
    cases = [case for case in CASES if name("RL-CC", *case) in evidence.variants]
    lines = [
        VariantLine(
            contestant,
            cluster.COLORS[contestant],
            {
                x + _aside(contestant): name(contestant, *case)
                for x, case in enumerate(cases)
                if contestant in cluster.contestants(case[0])
            },
            marker=cluster.look(contestant)[0],
            line="",
        )
        for contestant in ALL
    ]
    figure = series.figure(evidence, lines, (common.DROPS, common.LATE_DROPS), "case", TITLE, base=None)
    labels = ["\n".join((*scenario.split("-", 1), str(count))) for scenario, count in cases]
    for ax in figure.axes:
        ax.set_xticks(range(len(cases)), labels, fontsize=8, rotation=45 if len(cases) > SIX else 0)
        ax.set_xlabel("")
    return figure


def _aside(contestant: str) -> float:
    """Returns the place of a contestant's markers beside the middle of their case, by its set-up."""
    places = tuple(WHOSE)
    return ROOM * (places.index(cluster.SETUP_OF[contestant]) / (len(places) - 1) - 1 / 2)


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    measures=cluster.LOSSES,
    claims=common.with_setups(WHOSE, _claims),
    draw=_figure,
    derive=derive,
    facts=(("Runs", "those of figures 6, 7 and 10, whose pages say how they were made"),),
    of=("rl-cc/figure-6", "rl-cc/figure-7", "rl-cc/figure-10"),
)
