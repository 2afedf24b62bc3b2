# SPDX-License-Identifier: Apache-2.0
"""RL-CC's cluster at its own size, at rest: 64 hosts, many-to-one and all-to-all, and 7 on one switch, long-short.

The paper's tests (section VI) last 60 and 30 s, nearly all of which flows are at rest. Ours last milliseconds. So the flows of
many-to-one and all-to-all begin at their share, and the second half counts; starts are in figures 6 and 7. In all-to-all each
host sends to each other one by two flows, 8064 together; figure 8 has 8192. The long flows' goodput is counted from 20 ms after
short flows joined.

DCQCN has its NICs' parameters, with the byte counter of stored configurations (preset firmware_bytes).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import ALL_TO_ALL, LONG_SHORT, MANY_TO_ONE, WHO
from dc_gym.results.results import Result
from dc_gym.study import Variant, series
from dc_gym.study.scaled import JITTER_NS, MS, RunLength

TITLE = "RL-CC's cluster at rest: goodput, latency and losses"
SOURCE = "RL-CC, section VI"
COUNTS = {MANY_TO_ONE: cluster.FLOWS, LONG_SHORT: cluster.SHORT, ALL_TO_ALL: (2,)}
LENGTHS = {
    MANY_TO_ONE: RunLength(40 * MS, 20 * MS),
    ALL_TO_ALL: RunLength(4 * MS, 2 * MS),
    LONG_SHORT: RunLength(60 * MS, 40 * MS),
}
JOIN_NS = 20 * MS
SHARERS = 96
"""Flows that share a host's line in all-to-all: 63, of which 48 leave the rack, where they have two thirds of it."""
SEEDS = 3


def name(contestant: str, scenario: str, count: int) -> str:
    """Returns the name of a variant; in all-to-all a count is of flows to each other host."""
    return f"{contestant}, {scenario}, {count} a pair" if scenario == ALL_TO_ALL else cluster.name(contestant, scenario, count)


def _variant(who: str, scenario: str, count: int) -> Variant:
    short = {"long": cluster.LONG, "short": count, "size": cluster.SHORT_SIZE, "short_start": JOIN_NS}
    cases: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
        MANY_TO_ONE: ({"kind": "many_to_one", "flows": count}, common.at_share(count)),
        ALL_TO_ALL: ({"kind": "all_to_all", "flows": count}, common.at_share(SHARERS * count)),
        LONG_SHORT: ({"kind": "long_short", **short}, {}),
    }
    workload, keys = cases[scenario]
    return common.variant(
        name(who, scenario, count),
        WHO[who],
        common.SEVEN if scenario == LONG_SHORT else common.FABRIC,
        {**workload, "jitter": JITTER_NS},
        {**common.keys_of(WHO[who], common.FIRMWARE if who == "DCQCN" else common.OWN), **keys},
        0 if scenario == ALL_TO_ALL else 1,
        length=LENGTHS[scenario],
        color=cluster.COLORS[who],
    )


def measured(result: Result) -> dict[str, float]:
    """Returns the measures of long and short flows, where there are any."""
    return cluster.long_short(result) if result.manifest["spec"]["workload"]["kind"] == "long_short" else {}


DRAWN = (common.GOODPUT, common.LATENCY, common.LATE_DROPS)
LINES = common.lines_over(
    cluster.FLOWS, {who: (cluster.COLORS[who],) for who in WHO}, lambda who, count: name(who, MANY_TO_ONE, count)
)
STUDY = common.study(
    TITLE,
    SOURCE,
    [_variant(who, scenario, count) for scenario, counts in COUNTS.items() for who in WHO for count in counts],
    (*cluster.MEASURES, cluster.LONG_SHARE, cluster.SLOWDOWN, cluster.UNFINISHED, cluster.RECOVERY),
    lambda _: (),
    partial(series.figure, series=LINES, columns=DRAWN, xlabel="flows to one", title=TITLE),
    networks=(common.FABRIC, common.SEVEN),
    more=measured,
    seeds=SEEDS,
)
