# SPDX-License-Identifier: Apache-2.0
"""Figure 17 of ACC (Yan et al., SIGCOMM 2021): the dependence of a reward on the threshold, with D(L) linear or as steps.

ACC: with D linear in L / 10 MB (design 1 of its appendix) the rewards of different actions are alike; only the step function
(design 2) separates them. It does not give the traffic. Here 15 senders with 8 flows each, which have no end, send to one, and
each row holds one of the ten thresholds E(n) as a step, for 60 ms, of which the last 40 count. Both rewards are of the same run:
r = 0.7 txRate / BW + 0.3 D(L), with the mean queue L of each slot of 500 us.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import LINE_BPS, QUEUE, THROUGHPUT_WEIGHT, USE, port_reward
from dc_gym.methods.acc.template import LEVEL_BYTES, linear_worth, step_worth
from dc_gym.results.results import Result
from dc_gym.study import Claim, Evidence, Floats, Measure, Study, Variant, VariantLine, above, less_than, series
from dc_gym.study.evidence import of_seeds, with_variants

TITLE = "Reward by threshold: linear and step D(L)"
SOURCE = "ACC, figure 17"
HOSTS = 16
SLOT_S, SAMPLES = 500e-6, 25
"""A slot, and the samples of the queue in it."""
WARMUP_SLOTS = 40
"""Slots at first that do not count: flows begin at line rate."""
STEP, LINEAR = "step", "linear"
COLORS = {STEP: "#332288", LINEAR: "#CC6677"}
THRESHOLDS_KB = tuple(level // 1000 for level in LEVEL_BYTES)
LOW_KB, HIGH_KB = 20, 640
"""The thresholds over which rewards are compared. From 1 MB on the queue is a large part of 10 MB, so a linear D changes, too."""
COMPARED_KB = [threshold_kb for threshold_kb in THRESHOLDS_KB if threshold_kb <= HIGH_KB]
REWARDS = {design: Measure(f"{design}_reward", f"reward, {design} D", digits=4) for design in COLORS}
RANGE = Measure("range", f"range of D's part, K {LOW_KB} to {HIGH_KB} kB", digits=3)
ALIKE = 0.015
"""Thresholds are alike if D's part differs by less: a twentieth of its weight. Ours."""


def name(threshold_kb: int) -> str:
    return f"K {threshold_kb} kB"


CLAIMS = (
    Claim(f"With a linear D thresholds of {LOW_KB} to {HIGH_KB} kB are alike", SOURCE, (less_than(LINEAR, RANGE, ALIKE),)),
    Claim(
        "A step D separates them",
        SOURCE,
        (above(STEP, LINEAR, RANGE, 5.0), above(name(LOW_KB), name(HIGH_KB), REWARDS[STEP])),
    ),
)


def measure(result: Result) -> dict[str, float]:
    """Returns both rewards of the receiver's port."""
    queue = common.queue_of(result, f"s1-eth{HOSTS}")
    slots = (len(queue) - 1) // SAMPLES
    queue_bytes = queue["backlog_bytes"][1 : 1 + slots * SAMPLES].reshape(slots, SAMPLES).mean(axis=1)[WARMUP_SLOTS:]
    sent_bytes: Floats = np.diff(queue["tx_bytes"][: 1 + slots * SAMPLES : SAMPLES].astype(np.float64))[WARMUP_SLOTS:]
    rate = sent_bytes * 8 / SLOT_S / LINE_BPS
    return {
        QUEUE.name: float(queue_bytes.mean()),
        USE.name: float(rate.mean()),
        REWARDS[STEP].name: port_reward(rate, queue_bytes, step_worth),
        REWARDS[LINEAR].name: port_reward(rate, queue_bytes, linear_worth),
        **common.pauses(result),
    }


def with_ranges(evidence: Evidence) -> Evidence:
    """Adds both designs as variants, with the range of D's part over the thresholds for each seed."""
    variants = []
    for design, reward in REWARDS.items():
        rows = [(evidence.values(name(k_kb), reward.name), evidence.values(name(k_kb), USE.name)) for k_kb in COMPARED_KB]
        parts = [of_seeds(lambda whole, use: whole - THROUGHPUT_WEIGHT * use, *row) for row in rows]
        ranges = of_seeds(lambda *values: max(values) - min(values), *parts)
        variants.append(Variant(design, color=COLORS[design]).evidence({RANGE.name: ranges}))
    return with_variants(evidence, variants)


LINES = [
    VariantLine(
        "both rewards of the same runs", COLORS[STEP], {float(threshold_kb): name(threshold_kb) for threshold_kb in THRESHOLDS_KB}
    )
]
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={
        **common.rack(HOSTS),
        "topology.shared_buffer": "12MB",  # above the largest threshold
        "topology.marking": "step",
        "workload.kind": "many_to_one",
        "workload.senders": HOSTS - 1,
        "workload.flows": 120,
        "workload.jitter": "100us",
        **common.sampled(60, 20, 5, 20),
    },
    variants=[Variant(name(threshold_kb), {"topology.k_bytes": threshold_kb * 1000}) for threshold_kb in THRESHOLDS_KB],
    measures=(QUEUE, USE, *REWARDS.values(), RANGE, common.PAUSES),
    measure=measure,
    derive=with_ranges,
    claims=CLAIMS,
    draw=partial(series.figure, series=LINES, columns=tuple(REWARDS.values()), xlabel="K (kB)", title=TITLE),
    facts=common.FACTS,
    runs="reward-design",
)
