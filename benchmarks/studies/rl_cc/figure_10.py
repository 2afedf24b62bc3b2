# SPDX-License-Identifier: Apache-2.0
"""Figure 10 of RL-CC: long flows, and 50 or 100 short ones that join at one instant; 7 hosts, one switch.

The paper gives neither the number of long flows nor the size of the short ones. Here there are 2 long ones, and a short one is
one of the paper's WRITEs of 64 KB (section VI): 50 of them fit into 5 MB and 100 do not, as its Table IV has it. Slowdown is
completion time over base RTT, as in the paper, not over the time that the flow would take alone.

In rows named "alone" there are no long flows, and in "no control, alone" no algorithm, either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import LONG_SHARE, LONG_SHORT, RECOVERY, RIVALS, SHORT, SLOWDOWN, UNFINISHED, WHO
from dc_gym.study import Claim, above, alike, below
from dc_gym.study.scaled import JITTER_NS

SOURCE = "RL-CC, section VI, figure 10 (text only)"
ALIKE = 0.02
"""The tolerated difference between times of short flows alone."""


def alone(contestant: str, short: int) -> str:
    """Returns the name of the row of short flows that have no long ones beside them."""
    return cluster.name(f"{contestant}, alone", LONG_SHORT, short)


ALONE = [
    common.variant(
        alone(who, short),
        controller,
        common.SEVEN,
        {"kind": "many_to_one", "flows": short, "size": cluster.SHORT_SIZE, "jitter": JITTER_NS},
        common.keys_of(controller, common.OWN),
        length=cluster.length_of(LONG_SHORT, common.OWN),
        color=cluster.COLORS.get(who, "#888888"),
    )
    for who, controller in {**common.UNCONTROLLED, **WHO}.items()
    for short in SHORT
]


def _claims(setup: str) -> Iterator[Claim]:
    for short in SHORT:
        rl_cc, *others = (cluster.row_name(contestant, LONG_SHORT, short, setup) for contestant in ("RL-CC", *RIVALS))
        most, first = (
            [way(rl_cc, rival, measure) for rival in others] for way, measure in ((above, LONG_SHARE), (below, SLOWDOWN))
        )
        yield Claim(f"With {short} short flows RL-CC's long ones have the most", SOURCE, tuple(most))
        yield Claim(f"{short} short flows are done first under RL-CC", SOURCE, tuple(first))


def _alike(text: str, short: int, whose: Iterable[str], other: str) -> Claim:
    """Returns our claim that short flows alone take the same time under some algorithms as under another."""
    title = f"Alone, {short} short flows take the same time {text} (ours: within {ALIKE:.0%})"
    return common.ours(
        title, chain(*(alike(alone(contestant, short), alone(other, short), SLOWDOWN, ALIKE) for contestant in whose))
    )


STUDY = cluster.study(
    LONG_SHORT,
    "Long and short flows over one switch: what the long ones keep, how long the short ones take",
    SOURCE,
    _claims,
    "short flows",
    (LONG_SHARE, SLOWDOWN, UNFINISHED, RECOVERY, common.LATENCY, *cluster.LOSSES),
    (LONG_SHARE, SLOWDOWN, RECOVERY),
    ALONE,
    also=(
        _alike("under each algorithm and without any", 50, WHO, common.NO_CONTROL),
        _alike("under RL-CC and Swift", 100, ("RL-CC",), "Swift"),
    ),
    more=cluster.long_short,
)
