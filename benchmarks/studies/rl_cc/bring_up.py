# SPDX-License-Identifier: Apache-2.0
"""Table IV and figure 8 of RL-CC from the first packet: 64 hosts, many-to-one and all-to-all, and 7 on one switch, long-short.

Flows begin at line rate, within ten base round trips. The paper's tests last 60 and 30 s, ours milliseconds. So what a flow loses
over the paper's test is what it loses in the run, and for the rest of the test the rate of the run's window, which is after
bring-up. Which host sends to which is drawn as in figure 7. With two flows a pair each host sends to each other one, 8064 flows
together; figure 8 has 8192.

DCQCN has its NICs' parameters, with the byte counter of stored configurations (preset firmware_bytes). In many-to-one its flood
from line rate outlasts the runs: those rows count what was lost in the run alone, a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dc_gym.base.units import parse_time_ns
from dc_gym.benchmarks.studies.rl_cc import at_rest, cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import ALL_TO_ALL, LONG_SHORT, MANY_TO_ONE, WHO
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Variant, below, series
from dc_gym.study.claims import any_of
from dc_gym.study.scaled import JITTER_NS, MS, RunLength

TITLE = "RL-CC's cluster from the first packet: losses"
SOURCE = "RL-CC, Table IV and figure 8"
LOST = Measure("lost_per_flow", "drops a flow over the paper's test", digits=3)
LENGTHS = {
    MANY_TO_ONE: RunLength(16 * MS, 12 * MS),
    ALL_TO_ALL: RunLength(8 * MS, 6 * MS),
    LONG_SHORT: RunLength(40 * MS, 30 * MS),
}
FLOOD = RunLength(8 * MS, 4 * MS)
"""The length of DCQCN's runs with a flood that does not end."""
TEST_S = {"many_to_one": 60, "random": 60, "all_to_all": 60, "long_short": 30}
"""The lengths of the paper's tests, by the kind of workload."""
PAIR = 2
MEMORY = {"lab.memory": "2GiB"}
"""Queues of 64 NICs that begin at line rate fill more than a lab has by default."""
SEEDS = 3


def name(contestant: str, scenario: str, count: int) -> str:
    """Returns the name of a variant; in all-to-all a count is of flows a host."""
    return cluster.name(f"{contestant}, bring-up", scenario, count)


def _variant(who: str, scenario: str, title: str, workload: Mapping[str, Any]) -> Variant:
    floods = who == "DCQCN" and scenario == MANY_TO_ONE
    return common.variant(
        title,
        WHO[who],
        common.SEVEN if scenario == LONG_SHORT else common.FABRIC,
        {**workload, "jitter": JITTER_NS},
        MEMORY | common.keys_of(WHO[who], common.FIRMWARE if who == "DCQCN" else common.OWN),
        0 if scenario == ALL_TO_ALL else 1,
        length=FLOOD if floods else LENGTHS[scenario],
        color=cluster.COLORS[who],
    )


def _variants(who: str) -> list[Variant]:
    short = {"kind": "long_short", "long": cluster.LONG, "size": cluster.SHORT_SIZE, "short_start": at_rest.JOIN_NS}
    cases: list[tuple[str, int, Mapping[str, Any]]] = [
        *((MANY_TO_ONE, count, {"kind": "many_to_one", "flows": count}) for count in cluster.FLOWS),
        *((ALL_TO_ALL, count, {"kind": "random", "flows": count}) for count in cluster.A_HOST),
        *((LONG_SHORT, count, {**short, "short": count}) for count in cluster.SHORT),
    ]
    pairs = _variant(who, ALL_TO_ALL, at_rest.name(f"{who}, bring-up", ALL_TO_ALL, PAIR), {"kind": "all_to_all", "flows": PAIR})
    return [*(_variant(who, scenario, name(who, scenario, count), keys) for scenario, count, keys in cases), pairs]


def lost(result: Result) -> dict[str, float]:
    """Returns the drops a flow over the paper's test, at 100 Gbit/s; of a flood that does not end, those of the run."""
    values, spec = common.numbers(result), result.manifest["spec"]
    drops, late, kind = values[common.DROPS.name], values[common.LATE_DROPS.name], spec["workload"]["kind"]
    if kind == "many_to_one" and spec["controller"]["name"] == WHO["DCQCN"]:
        return {LOST.name: drops}
    duration_s, warmup_s = (parse_time_ns(spec["time"][key]) / 1e9 / spec["topology"]["scale"] for key in ("duration", "warmup"))
    return {LOST.name: drops - late + late / (duration_s - warmup_s) * (TEST_S[kind] - warmup_s)}


LINES = common.lines_over(
    cluster.FLOWS, {who: (cluster.COLORS[who],) for who in WHO}, lambda who, count: name(who, MANY_TO_ONE, count)
)
STUDY = common.study(
    TITLE,
    SOURCE,
    [variant for who in WHO for variant in _variants(who)],
    (common.GOODPUT, common.LATENCY, common.DROPS, common.LATE_DROPS, LOST),
    lambda _: (
        Claim(
            "RL-CC loses less than DCQCN in one case of each benchmark at least",
            "ours: of Table IV",
            tuple(
                any_of([[below(name("RL-CC", scenario, count), name("DCQCN", scenario, count), LOST)] for count in counts])
                for scenario, counts in cluster.COUNTS.items()
            ),
        ),
    ),
    partial(series.figure, series=LINES, columns=(common.DROPS, common.LATE_DROPS, LOST), xlabel="flows to one", title=TITLE),
    networks=(common.FABRIC, common.SEVEN),
    more=lost,
    seeds=SEEDS,
)
