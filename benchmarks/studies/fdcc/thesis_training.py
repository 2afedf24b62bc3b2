# SPDX-License-Identifier: Apache-2.0
"""The mixes and joins of FDCC (K. Zhang, MSc thesis 2023) at the thesis' sizes, with a policy of the thesis' training.

The thesis trains in five stages of 10,000 episodes by the reward of its algorithm 1. Policy `fdcc-thesis` is made so in the fluid
model, and stands for FDCC here. Rows `dc-gym's training` differ by the policy alone.

A flow joins each 35 ms. In mixes the sizes are whole, and flows start for 2 ms, which is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dc_gym.benchmarks.studies.fdcc import common, figure_6_1, figure_6_2, figure_6_4, over_time
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, FDCC, Change
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, Variant, above, below, series

TITLE = "Mixes and joins at the thesis' sizes, with a policy of the thesis' training"
SOURCE = "FDCC, chapter 6"
OURS = Change("dc-gym's training", {"nic.policy": "fdcc"})
TRAINED: Mapping[str, Any] = {"nic.policy": "fdcc-thesis"}
WHO: list[tuple[str, tuple[Change, ...]]] = [(contestant, ()) for contestant in CONTESTANTS]
ALL = [*WHO, (FDCC, (OURS,))]
"""The contestants, with their changes."""
LOADS = (20, 40, 60, 80)  # percent
MIX: Mapping[str, Any] = {
    **figure_6_4.BASE,
    **figure_6_4.FULL,
    "workload.truncate": None,
    "workload.last_start": "2ms",
    "time.duration": "30ms",
}
LONG_SHORT, JOINS = "long-short", "joins"
JOIN_FILE = "joins.csv"
SWING = Measure("swing", "swing in the 35 ms after a join (% of the mean rate)", 100, 3)
JOIN_UNFAIR = Measure("join_unfair", "unfair ratio in the 35 ms after a join", digits=3)
SIZES = (figure_6_4.SHORT, figure_6_4.SHORT_TAIL, figure_6_4.ALL)


def policy(contestant: str, *changes: Change) -> Mapping[str, Any]:
    return TRAINED if contestant == FDCC and not changes else {}


def _mix(workload: str, load: int, contestant: str, *changes: Change) -> Variant:
    keys = {"workload.distribution": figure_6_4.WORKLOADS[workload], "workload.load": load / 100}
    name = figure_6_4.name(workload, load, contestant, *changes)
    return common.variant(name, contestant, {**MIX, **keys, **policy(contestant, *changes)}, {}, changes)


def _over_time(name: str, pairs: int, keys: Mapping[str, Any], contestant: str, *changes: Change) -> Variant:
    values = {**over_time.NETWORK, "topology.pairs": pairs, **keys, **policy(contestant, *changes)}
    return common.variant(common.named(name, contestant, changes=changes), contestant, values, {}, changes)


JOIN_KEYS = over_time.keys(JOIN_FILE, figure_6_2.FLOWS * figure_6_2.FULL_JOIN_MS, figure_6_2.INTERVAL_US)
LONG_SHORT_KEYS = over_time.keys(figure_6_1.FILE, figure_6_1.DURATION_MS, figure_6_1.INTERVAL_US)
VARIANTS = [
    *(_mix(workload, load, who) for workload in figure_6_4.WORKLOADS for load in LOADS for who, _ in WHO),
    *(_over_time(LONG_SHORT, 2, LONG_SHORT_KEYS, who, *how) for who, how in ALL),
    *(_over_time(JOINS, figure_6_2.FLOWS, JOIN_KEYS, who, *how) for who, how in ALL),
]
LINES = common.lines(dict.fromkeys(figure_6_4.WORKLOADS, LOADS), lambda workload, who, load: figure_6_4.name(workload, load, who))


def measure(result: Result) -> dict[str, float]:
    """Returns the measures of a run, by its traffic."""
    if result.manifest["spec"]["workload"]["kind"] == "poisson":
        return figure_6_4.measure(result)
    if result.manifest["spec"]["topology"]["pairs"] != figure_6_2.FLOWS:
        return {figure_6_1.USED.name: figure_6_1.measure(result)[figure_6_1.USED.name]}
    joined = figure_6_2.measure(result, after=0.0)
    return {SWING.name: joined[figure_6_2.SWING.name], JOIN_UNFAIR.name: joined[figure_6_2.UNFAIR.name]}


def _pair(scenario: str) -> tuple[str, str]:
    return common.named(scenario, FDCC, changes=[OURS]), common.named(scenario, common.HPCC)


CLAIMS = (
    Claim(
        "Beside a short flow FDCC uses the bottleneck better than HPCC",
        "FDCC, figure 6.1",
        (above(*_pair(LONG_SHORT), figure_6_1.USED),),
        OURS.label,
    ),
    Claim(
        "When flows join FDCC's rates swing less than HPCC's and are fairer",
        "FDCC, figure 6.2",
        (below(*_pair(JOINS), SWING), below(*_pair(JOINS), JOIN_UNFAIR)),
        OURS.label,
    ),
)
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    variants=VARIANTS,
    files={
        figure_6_1.FILE: figure_6_1.STUDY.files_of(())[figure_6_1.FILE],
        JOIN_FILE: over_time.flows([(flow * figure_6_2.FULL_JOIN_MS, 0) for flow in range(figure_6_2.FLOWS)]),
    },
    measures=(*SIZES, figure_6_1.USED, SWING, JOIN_UNFAIR),
    measure=measure,
    claims=CLAIMS,
    draw=lambda evidence: series.figure(evidence, LINES, SIZES, "load (%)", TITLE, None),
    facts=common.facts("the networks of figures 6.1, 6.2 and 6.4", "as there, at the thesis' sizes"),
    notes=(common.LINK_USE,),
    seeds=3,
)
