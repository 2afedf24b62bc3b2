# SPDX-License-Identifier: Apache-2.0
"""Figure 6.2 of FDCC (K. Zhang, MSc thesis 2023): four flows to one receiver, which join one after the other.

In the thesis a flow joins each 35 ms, and FDCC swings less and is fairer. Here one joins each 5 ms, or with --full each 35 ms.
Rates are judged in the second half of each phase, when the newcomer has had half of the phase to get its share.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.fdcc import over_time
from dc_gym.benchmarks.studies.fdcc.n_to_one import DROPPED, FDCC, HPCC, PAUSES
from dc_gym.records.results import Result, number
from dc_gym.study.claims import Claim, below, less_than
from dc_gym.study.evidence import Floats, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "Four flows that join one after the other"
SOURCE = "FDCC, figure 6.2 (text only)"
NAME = "joins"
FLOWS, INTERVAL_US = 4, 100
JOIN_MS, FULL_JOIN_MS = 5, 35
"""Time between two joins: ours, and the thesis'."""
FILE, FULL_FILE = "joins.csv", "joins-full.csv"
FILES = {
    file: over_time.matrix(FLOWS, [(flow * join_ms, 0) for flow in range(FLOWS)])
    for file, join_ms in ((FILE, JOIN_MS), (FULL_FILE, FULL_JOIN_MS))
}
UNFAIR = Measure("unfair", "unfair ratio, mean of the phases with 2, 3 and 4 flows", digits=3)
LAST_UNFAIR = Measure("last_unfair", "unfair ratio with 4 flows", digits=3)
SWING = Measure("swing", "swing: standard deviation of a flow's rate, of its mean (%)", 100, 3)
USED = Measure("used", "link use", digits=3)
COLUMNS = (UNFAIR, LAST_UNFAIR, SWING, USED, PAUSES, DROPPED)
ROWS = over_time.rows(
    FLOWS,
    over_time.keys(FILE, FLOWS * JOIN_MS, INTERVAL_US),
    over_time.keys(FULL_FILE, FLOWS * FULL_JOIN_MS, INTERVAL_US),
)
CLAIMS = (
    Claim("FDCC's flows are fairer than HPCC's", SOURCE, (below(FDCC, HPCC, UNFAIR),)),
    Claim("FDCC's rates swing less than HPCC's", SOURCE, (below(FDCC, HPCC, SWING),)),
    Claim("Nothing is dropped (PFC)", SOURCE, tuple(less_than(row.name, DROPPED, 1) for row in ROWS)),
)
NOTES = (
    "The unfair ratio is (largest - mean) / mean of the flows' mean rates in the second half of a phase. The swing is measured"
    f" there, too, of means over {INTERVAL_US} us, and is the mean over flows and phases.",
    "The thesis does not say against whom FDCC swings less and is fairer; HPCC is our reading.",
    "Link use is goodput of what frames without telemetry can carry, so the telemetry counts against HPCC and FDCC.",
    "RL-CC is rlcc-mlp, FDCC the policy that comes with dc-gym: the thesis publishes neither network.",
)


def facts(full: bool) -> tuple[tuple[str, str], ...]:
    join_ms = FULL_JOIN_MS if full else JOIN_MS
    return (
        ("Network", "a dumbbell of 4 pairs, 100 Gbit/s, 160 ns a link, 9 MB a switch; PFC with FDCC's rule"),
        ("Traffic", f"a flow to one receiver joins each {join_ms} ms, moved by up to 10 us by seed; the thesis: 35 ms"),
        ("Contestants", "those of tables 6.1 and 6.2, each with a window of one BDP"),
    )


def phases(t_ms: Floats, shares: Floats) -> list[Floats]:
    """Returns the rates in the second half of each phase: [flows that have joined, intervals]."""
    join_ms = (t_ms[0] + t_ms[-1]) / FLOWS
    return [shares[: flows + 1, (t_ms > (flows + 0.5) * join_ms) & (t_ms < (flows + 1) * join_ms)] for flows in range(FLOWS)]


def measure(result: Result) -> dict[str, float]:
    t_ms, shares = over_time.rates(result, INTERVAL_US)
    means = [phase.mean(axis=1) for phase in phases(t_ms, shares)]
    unfair = [float((each.max() - each.mean()) / each.mean()) for each in means[1:]]
    swings = [float((phase.std(axis=1) / mean.mean()).mean()) for phase, mean in zip(phases(t_ms, shares), means, strict=True)]
    return {
        UNFAIR.name: float(np.mean(unfair)),
        LAST_UNFAIR.name: unfair[-1],
        SWING.name: float(np.mean(swings)),
        USED.name: float(shares.sum(axis=0).mean()),
        PAUSES.name: number(result.summary["pauses"]),
        DROPPED.name: number(result.summary["drops"]),
    }


def run(options: StudyOptions, progress: Progress) -> Findings:
    track = partial(over_time.track, interval_us=INTERVAL_US)
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, track, FILES)
    figure = over_time.figure(evidence, TITLE, [f"flow {flow}" for flow in range(1, FLOWS + 1)])
    return own_rate.findings(TITLE, facts(options.full), options, evidence, COLUMNS, CLAIMS, figure, NOTES)
