# SPDX-License-Identifier: Apache-2.0
"""Figure 10 of RL-CC: long flows, and 50 or 100 short ones that join at one instant; 7 hosts, one switch.

The paper gives neither the number of long flows nor the size of the short ones. Here there are 2 long ones, and a short one is
one of the paper's WRITEs of 64 KB (section VI): 50 of them fit into 5 MB and 100 do not, as its Table IV has it. In rows named
"500 kB" short flows are larger.
Slowdown is completion time over base RTT, as in the paper, not over the time that the flow would take alone.

In rows named "alone" there are no long flows, and in "no control, alone" no algorithm, either. Hypothesis, from seed 11: the link
decides how long short flows of 64 kB take, so that Swift's and RL-CC's alone take the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.rl_cc import cluster as cluster
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.cluster import (
    LONG_SHARE,
    LONG_SHORT,
    RECOVERY,
    RIVALS,
    SHORT,
    SHORT_SIZE,
    SLOWDOWN,
    UNFINISHED,
    VARIANTS,
    WHO,
    row_name,
)
from dc_gym.records.results import Result
from dc_gym.study import series
from dc_gym.study.claims import Claim, Explanation, above, alike, below
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.scaled import JITTER_NS

TITLE = "Long and short flows over one switch: what the long ones keep, how long the short ones take"
SOURCE = "RL-CC, section VI, figure 10 (text only)"
ALONE = {**common.UNCONTROLLED, **WHO}
"""The contestants whose short flows have rows without long ones."""
ALIKE = 0.02
"""The tolerated difference between their times."""
COLUMNS = (LONG_SHARE, SLOWDOWN, UNFINISHED, RECOVERY, common.LATENCY, common.DROPS, common.RESENT)


def alone(who: str, short: int) -> str:
    """Returns the name of the row of short flows that have no long ones beside them."""
    return cluster.name(f"{who}, alone", LONG_SHORT, short)


ALONE_ROWS = [
    common.Row(
        alone(who, short),
        controller,
        common.SEVEN,
        {"kind": "many_to_one", "flows": short, "size": SHORT_SIZE, "jitter": JITTER_NS},
        length=cluster.LENGTHS[LONG_SHORT],
        values=common.keys_of(controller, common.OWN),
        color=cluster.COLORS.get(who, "#888888"),
    )
    for who, controller in ALONE.items()
    for short in SHORT
]
ROWS = [*cluster.ROWS[LONG_SHORT], *ALONE_ROWS]
HELD_RATE = cluster.held_rate(
    "rl-cc",
    "figure-10",
    "with it Swift's long flows keep 0.867 and 0.854 of the line beside 50 and 100 short ones, RL-CC's 0.933 and 0.917 (seeds"
    " 1 to 5; found on seed 11)",
)
LINK_DECIDES = Explanation(
    hypothesis="the link decides how long short flows of 64 kB take, not the algorithm",
    experiment="the rows named `alone` of dcgym reproduce rl-cc figure-10, which have no long flows",
    page="docs/reproduce-rl-cc.md#short-flows-of-64-kb-the-link-decides",
    showed="alone, 50 take the time of no control under each algorithm, and 100 the same time under RL-CC and Swift,"
    f" within {ALIKE:.0%}",
)


def _claims(variant: str) -> Iterator[Claim]:
    def row(who: str, short: int) -> str:
        return row_name(who, LONG_SHORT, short, variant)

    for short in SHORT:
        yield Claim(
            f"With {short} short flows RL-CC's long ones have the most",
            SOURCE,
            tuple(above(row("RL-CC", short), row(each, short), LONG_SHARE) for each in RIVALS),
            explanation=HELD_RATE,
        )
        yield Claim(
            f"{short} short flows are done first under RL-CC",
            SOURCE,
            tuple(below(row("RL-CC", short), row(each, short), SLOWDOWN) for each in RIVALS),
            explanation=LINK_DECIDES,
        )


def _alike(text: str, short: int, whose: Iterable[str], other: str) -> Claim:
    """Returns our claim that short flows alone take the same time under some algorithms as under another."""
    return Claim(
        f"Alone, {short} short flows take the same time {text} (ours: within {ALIKE:.0%})",
        "docs/reproduce-rl-cc.md",
        tuple(criterion for who in whose for criterion in alike(alone(who, short), alone(other, short), SLOWDOWN, ALIKE)),
        ours=True,
    )


CLAIMS = (
    *common.with_variants(VARIANTS[LONG_SHORT], _claims),
    _alike("under each algorithm and without any", 50, WHO, common.NO_CONTROL),
    _alike("under RL-CC and Swift", 100, ("RL-CC",), "Swift"),
)


def short_alone(result: Result) -> dict[str, float]:
    """Returns the quantities of short flows that have no long ones beside them."""
    found = cluster.long_short(result)
    return {each.name: found[each.name] for each in (SLOWDOWN, UNFINISHED)}


def run(options: StudyOptions, progress: Progress) -> Findings:
    both = cluster.run(LONG_SHORT, options, progress)
    without = common.run(LONG_SHORT, ALONE_ROWS, options, progress, short_alone)
    evidence = replace(both, variants={**both.variants, **without.variants})
    lines = cluster.series(LONG_SHORT)
    figure = series.figure(evidence, lines, (LONG_SHARE, SLOWDOWN, RECOVERY), "short flows", TITLE, base=None)
    rows = [*cluster.chosen(LONG_SHORT, options), *ALONE_ROWS]
    return common.findings(TITLE, rows, options, evidence, COLUMNS, CLAIMS, figure)
