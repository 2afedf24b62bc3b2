# SPDX-License-Identifier: Apache-2.0
"""Figure 17 of ACC (Yan et al., SIGCOMM 2021): what a reward tells of a threshold, with D(L) linear or as steps.

ACC: with D linear in L / 10 MB (design 1 of its appendix) the rewards of different actions are alike; only the step function
(design 2) separates them. It does not give the traffic. Here 15 senders with 8 flows each, which have no end, send to one, and
each row holds one of the ten thresholds E(n) as a step. Both rewards are of the same run: r = 0.7 txRate / BW + 0.3 D(L), with
the mean queue L of each slot of 500 us.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc.common import PAUSES, THROUGHPUT_WEIGHT, port_reward, queue_of, rack
from dc_gym.study.collect import Variant
from dc_gym.nets.acc_template import LEVEL_BYTES, linear_worth, step_worth
from dc_gym.records.results import Result, number
from dc_gym.study import series
from dc_gym.study.claims import Claim, above, less_than
from dc_gym.study.evidence import VariantEvidence, Evidence, Floats, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.series import VariantLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Reward by threshold: linear and step D(L)"
SOURCE = "ACC, figure 17"
NAME = "reward-design"
LINE_BPS, HOSTS = 25 * 10**9, 16
SLOT_S, SAMPLES = 500e-6, 25
"""A slot, and the samples of the queue in it."""
WARMUP_SLOTS = 40
"""Slots at first that do not count: flows begin at line rate."""
STEP, LINEAR = DESIGNS = ("step", "linear")
COLORS = {STEP: "#332288", LINEAR: "#CC6677"}
LOW_KB, HIGH_KB = 20, 640
"""The thresholds over which rewards are compared. From 1 MB on the queue is a large part of 10 MB, and a linear D tells, too."""
QUEUE = Measure("queue_bytes", "mean queue (kB)", 1e-3, 3)
USE = Measure("rate", "rate (of the line)", digits=4)
REWARD = Measure("reward", "reward", digits=4)
STEP_REWARD = Measure("step_reward", "reward, step D", digits=4)
LINEAR_REWARD = Measure("linear_reward", "reward, linear D", digits=4)
RANGE = Measure("range", f"range of D's part, K {LOW_KB} to {HIGH_KB} kB", digits=3)
ALIKE = 0.015
"""Thresholds are alike if D's part differs by less: a twentieth of its weight. Ours."""


def name(threshold_kb: int) -> str:
    return f"K {threshold_kb} kB"


THRESHOLDS_KB = tuple(level // 1000 for level in LEVEL_BYTES)
ROWS = [
    Variant(
        name(threshold_kb),
        {
            **rack(HOSTS),
            "topology.marking": "step",
            "topology.k_bytes": threshold_kb * 1000,
            "workload.kind": "many_to_one",
            "workload.senders": HOSTS - 1,
            "workload.flows": 120,
            "workload.jitter": "100us",
            "time.duration": "60ms",
            "time.warmup": "20ms",
            "monitor.interval": "20us",
            "monitor.tcp_interval": "5ms",
        },
    )
    for threshold_kb in THRESHOLDS_KB
]
CLAIMS = (
    Claim(f"With a linear D thresholds of {LOW_KB} to {HIGH_KB} kB are alike", SOURCE, (less_than(LINEAR, RANGE, ALIKE),)),
    Claim(
        "A step D separates them",
        SOURCE,
        (above(STEP, LINEAR, RANGE, 5.0), above(name(LOW_KB), name(HIGH_KB), STEP_REWARD)),
    ),
)
FACTS = (
    ("Network", "16 servers on one switch, 25 Gbit/s; 12 MB shared, pauses by ACC's rule (11.11 %)"),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper"),
    ("Traffic", "15 senders with 8 flows each to one, without an end"),
    (
        "Reward",
        f"{THROUGHPUT_WEIGHT:g} txRate / BW + {1 - THROUGHPUT_WEIGHT:.1f} D(L), a mean over slots of 500 us of the last 40 ms",
    ),
)
NOTES = (
    "The traffic and the buffer are ours: ACC gives none.",
    f"Alike: 0.3 D(L) differs by less than {ALIKE:g} between thresholds up to {HIGH_KB} kB (ours).",
)


def measure(result: Result) -> dict[str, float]:
    """Returns both rewards of the receiver's port."""
    queue = queue_of(result, f"s1-eth{HOSTS}")
    slots = (len(queue) - 1) // SAMPLES
    queue_bytes = queue["backlog_bytes"][1 : 1 + slots * SAMPLES].reshape(slots, SAMPLES).mean(axis=1)[WARMUP_SLOTS:]
    sent_bytes: Floats = np.diff(queue["tx_bytes"][: 1 + slots * SAMPLES : SAMPLES].astype(np.float64))[WARMUP_SLOTS:]
    rate = sent_bytes * 8 / SLOT_S / LINE_BPS
    return {
        QUEUE.name: float(queue_bytes.mean()),
        USE.name: float(rate.mean()),
        STEP_REWARD.name: port_reward(rate, queue_bytes, step_worth),
        LINEAR_REWARD.name: port_reward(rate, queue_bytes, linear_worth),
        PAUSES.name: number(result.summary.get("pauses")),
    }


def ranges(evidence: Evidence) -> list[VariantEvidence]:
    """Returns both designs as contestants, with the range of D's part over the thresholds for each seed."""
    found = []
    for design, column in ((STEP, STEP_REWARD), (LINEAR, LINEAR_REWARD)):
        parts = [
            {seed: value - THROUGHPUT_WEIGHT * evidence.values(name(each), USE.name)[seed] for seed, value in values.items()}
            for each in THRESHOLDS_KB
            if each <= HIGH_KB and (values := evidence.values(name(each), column.name))
        ]
        by_seed = {seed: max(part[seed] for part in parts) - min(part[seed] for part in parts) for seed in parts[0]}
        found.append(VariantEvidence(design, design, COLORS[design], {RANGE.name: by_seed}))
    return found


def points(evidence: Evidence) -> Evidence:
    """Returns the rewards of both designs as one quantity, for the figure."""
    made = {}
    for design, column in ((STEP, STEP_REWARD), (LINEAR, LINEAR_REWARD)):
        for each in THRESHOLDS_KB:
            own = f"{design}, {name(each)}"
            made[own] = VariantEvidence(own, own, COLORS[design], {REWARD.name: dict(evidence.values(name(each), column.name))})
    return replace(evidence, variants={**evidence.variants, **made})


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, measure)
    evidence = replace(evidence, variants={**evidence.variants, **{each.name: each for each in ranges(evidence)}})
    columns = (QUEUE, USE, STEP_REWARD, LINEAR_REWARD, RANGE, PAUSES)
    return own_rate.findings(TITLE, FACTS, options, evidence, columns, CLAIMS, _figure(points(evidence)), NOTES)


def _figure(evidence: Evidence) -> Figure:
    lines = [
        VariantLine(f"{design} D", COLORS[design], {float(each): f"{design}, {name(each)}" for each in THRESHOLDS_KB})
        for design in DESIGNS
    ]
    return series.figure(evidence, lines, (REWARD,), "K (kB)", TITLE)
