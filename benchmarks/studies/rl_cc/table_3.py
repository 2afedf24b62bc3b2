# SPDX-License-Identifier: Apache-2.0
"""Table III of RL-CC: the network and its trees in simulation, many-to-one, both with a decision time of 2 us.

Flows begin at their share, since everything is measured at rest.

The queue is not still at rest: with many flows it swings with a period of about four decisions of a flow. The swing is measured,
and the inflation computed at which the policy, in an open loop of this swing, keeps the rate on average.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import pairwise, product

import numpy as np

from dc_gym.base.units import parse_time_ns
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.benchmarks.studies.rl_cc.common import name
from dc_gym.methods.rlcc.offline.scenario import open_loop_actions
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import TablePolicy
from dc_gym.results.results import Result
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, above, alike, below, bounded, series
from dc_gym.study.scaled import LINE_BPS, MS, RunLength
from dc_gym.study.theory import crossing

TITLE = "The network and its trees, a decision taking 2 us: goodput and latency"
SOURCE = "RL-CC, Table III"
LATENCY_NS = 2_000
LENGTHS = {64: RunLength(10 * MS, 5 * MS), 512: RunLength(25 * MS, 15 * MS), 2048: RunLength(40 * MS, 25 * MS)}
FLOWS = tuple(LENGTHS)
WHO = {"MLP": ("rlcc-mlp", "#117733"), "tree": ("rlcc-tree", "#332288")}
PAPER = {
    "MLP": ((0.92, 12.19e-6), (0.90, 17.82e-6), (0.90, 27.62e-6)),
    "tree": ((0.92, 12.03e-6), (0.90, 17.98e-6), (0.90, 27.35e-6)),
}
DRAWN = (common.GOODPUT, common.LATENCY)
ALIKE, NEAR = 0.02, 0.05
"""The tolerated difference between trees and network (goodput, latency). In the paper it is 0 and at most 1.3 %."""
SWING = Measure("swing", "queue's swing (base RTTs)", digits=3)
"""The standard deviation of the queue over time."""
AT_SWING = Measure("inflation_at_swing", "inflation at that swing", digits=4)
PERIOD, PERIODS = 4.05, 20
"""The swing's period in decisions of a flow, as measured with 2048 flows (seed 11). So many periods are a whole number of
decisions, 81, which see as many phases."""
AGREES = 0.03
"""The tolerated difference between the inflation that was measured and the one computed for the swing."""

VARIANTS = [
    common.many_to_one(
        name(who, flows),
        controller,
        common.FOUR,
        flows,
        keys={"nic.latency": LATENCY_NS, **common.at_share(flows)},
        length=LENGTHS[flows],
        full=common.SIMULATION,
        paper=common.printed(DRAWN, paper),
        color=color,
    )
    for who, (controller, color) in WHO.items()
    for flows, paper in zip(FLOWS, PAPER[who], strict=True)
]


def swing(result: Result) -> dict[str, float]:
    """Returns how much the queue before the receiver swings, and the inflation that follows from it."""
    spec, queues = result.manifest["spec"], result.records("queues")
    *_, port = (number for number, row in enumerate(result.ports) if row["side"] == "switch")
    at_ns, backlog = (queues[name].reshape(-1, len(result.ports))[:, port] for name in ("t_ns", "backlog_bytes"))
    inside = at_ns >= parse_time_ns(spec["time"]["warmup"])
    base_rtts = backlog[inside].astype(np.float64) * 8e9 / LINE_BPS / common.BASE_RTT_NS
    swing_rtts, flows = round(float(base_rtts.std()), 4), int(spec["workload"]["flows"])
    return {SWING.name: swing_rtts, AT_SWING.name: inflation_at(spec["controller"]["name"], flows, swing_rtts)}


@lru_cache(maxsize=256)
def inflation_at(algorithm: str, flows: int, swing: float) -> float:
    """Returns the mean inflation at which flows keep their rate on average, while the inflation swings as a sine does.

    `swing`: its standard deviation in base RTTs. Flows have equal rates.
    """
    file, counted = nic_policy.load(algorithm), round(PERIOD * PERIODS)
    policy, scaling = TablePolicy(file.table()), file.scaling
    sine = np.sqrt(2.0) * np.sin(2.0 * np.pi * np.arange(2 * counted) / PERIOD)

    def raises(mean: float) -> bool:
        errors = scaling.error(mean + swing * sine, 1.0 / flows) / scaling.unit
        acted = open_loop_actions(policy, errors.tolist(), scaling.unit)
        return bool(np.log(acted[counted:]).sum() > 0)

    return crossing(1.0, 4.0 * float(scaling.inflation(flows)), raises, 1e-4)


def _claims(_: str) -> Iterator[Claim]:
    for flows, (word, measure, within) in product(FLOWS, (("goodput", common.GOODPUT, ALIKE), ("latency", common.LATENCY, NEAR))):
        criteria = alike(name("tree", flows), name("MLP", flows), measure, within)
        yield Claim(f"With {flows} flows the trees have the network's {word}", f"{SOURCE}; within {within:.0%}", criteria)
    grows = [
        below(name(contestant, few), name(contestant, many), common.LATENCY)
        for contestant in WHO
        for few, many in pairwise(FLOWS)
    ]
    hardly_falls = [above(name(contestant, 2048), name(contestant, 64), common.GOODPUT, 0.95) for contestant in WHO]
    yield Claim("Latency grows with the flows as eq. 2 says, goodput hardly falls", SOURCE, (*grows, *hardly_falls))


def _rests_by_swing(title: str) -> Criterion:
    def judge(evidence: Evidence) -> Outcome:
        measured, computed = (evidence.values(title, column.name) for column in (common.INFLATION, AT_SWING))
        off = {seed: measured[seed] / computed[seed] - 1 for seed in measured.keys() & computed.keys()}
        if not off:
            return bounded(None, f"{title}: nothing measured")
        means = [float(np.mean(list(by_seed.values()))) for by_seed in (measured, computed)]
        return bounded(max(map(abs, off.values())) <= AGREES, "{}: measured {:.3f}, computed {:.3f}".format(title, *means))

    return Criterion(f"within {AGREES:.0%} with every seed", (title,), judge, (common.INFLATION.name, AT_SWING.name))


AT_REST = "Inflation is that at which a policy keeps its rate on average while the queue swings as measured"
LINES = common.lines_over(FLOWS, {who: (color,) for who, (_, color) in WHO.items()})
STUDY = common.study(
    TITLE,
    SOURCE,
    VARIANTS,
    (
        *(common.GOODPUT, common.LATENCY, common.INFLATION, SWING, AT_SWING),
        *(common.FAIRNESS, common.PROBES, common.DROPS, common.LATE_DROPS),
    ),
    _claims,
    partial(series.figure, series=LINES, columns=DRAWN, xlabel="flows", title=TITLE),
    networks=(common.FOUR,),
    also=[common.ours(AT_REST, (_rests_by_swing(variant.name) for variant in VARIANTS))],
    more=swing,
)
