# SPDX-License-Identifier: Apache-2.0
"""Figure 6.1 of FDCC (K. Zhang, MSc thesis 2023): a long flow, and a short one beside it from 1 ms to 1.5 ms.

The thesis shows that FDCC uses the link better than HPCC. It does not give delays; they are those of tables 6.1 and 6.2.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.fdcc import over_time
from dc_gym.benchmarks.studies.fdcc.n_to_one import DROPPED, FDCC, HPCC, PAUSES
from dc_gym.records.results import Result, number
from dc_gym.study.claims import Claim, above, less_than, more_than
from dc_gym.study.evidence import Floats, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "A long flow, and a short one from 1 ms to 1.5 ms"
SOURCE = "FDCC, figure 6.1 (text only)"
NAME, FILE = "long-short", "long-short.csv"
START_MS, STOP_MS, DURATION_MS, INTERVAL_US = 1.0, 1.5, 2.5, 20
FILES = {FILE: over_time.matrix(2, ((0, 0), (START_MS, STOP_MS)))}
ALONE = Measure("alone", "link use, the long flow alone (0.5 to 1 ms)", digits=3)
SHARED = Measure("shared", "link use, both flows (1.1 to 1.5 ms)", digits=3)
AFTER = Measure("after", "link use after the short flow (1.5 to 2 ms)", digits=3)
USED = Measure("used", "link use from 1 ms to the end", digits=3)
SHORT = Measure("short", "the short flow's part of it (1.25 to 1.5 ms)", digits=3)
SPANS_MS = {ALONE: (0.5, START_MS), SHARED: (1.1, STOP_MS), AFTER: (STOP_MS, 2.0), USED: (START_MS, DURATION_MS)}
SHORT_MS = (1.25, STOP_MS)
COLUMNS = (ALONE, SHARED, AFTER, USED, SHORT, PAUSES, DROPPED)
BY_HAND, CROWDS = "FDCC, policy by hand", "FDCC, never trained alone"
OTHER_POLICIES = {BY_HAND: "fdcc-scripted", CROWDS: "fdcc-crowds"}
ROWS = over_time.rows(2, over_time.keys(FILE, DURATION_MS, INTERVAL_US), {})
(OF_FDCC,) = (row for row in ROWS if row.name == FDCC)
ROWS += [replace(OF_FDCC, name=who, values={**OF_FDCC.values, "nic.policy": each}) for who, each in OTHER_POLICIES.items()]
CLAIMS = (
    *(
        Claim(
            "FDCC uses the link better than HPCC: the long flow alone, both flows, and from 1 ms to the end",
            SOURCE,
            tuple(above(who, HPCC, column) for column in (ALONE, SHARED, USED)),
            variant=who.removeprefix(FDCC).removeprefix(", "),
        )
        for who in (FDCC, *OTHER_POLICIES)
    ),
    Claim(
        "Both flows: FDCC uses the link better than HPCC, and the short flow has its share within 5 %",
        SOURCE,
        (above(FDCC, HPCC, SHARED), more_than(FDCC, SHORT, 0.475), less_than(FDCC, SHORT, 0.525)),
        ours=True,
    ),
    Claim("Nothing is dropped (PFC)", SOURCE, tuple(less_than(row.name, DROPPED, 1) for row in ROWS)),
)
FACTS = (
    ("Network", "a dumbbell of 2 pairs, 100 Gbit/s, 160 ns a link, 9 MB a switch; PFC with FDCC's rule"),
    ("Traffic", "a flow for 2.5 ms, and one from 1 to 1.5 ms, to one receiver; starts are moved by up to 10 us by seed"),
    ("Contestants", "those of tables 6.1 and 6.2, each with a window of one BDP"),
)
NOTES = (
    "Link use is goodput of what frames without telemetry can carry, so the telemetry counts against HPCC and FDCC.",
    "RL-CC is rlcc-mlp, FDCC the policy that comes with dc-gym: the thesis publishes neither network.",
)


def measure(result: Result) -> dict[str, float]:
    t_ms, shares = over_time.rates(result, INTERVAL_US)

    def mean(span_ms: tuple[float, float]) -> Floats:
        return np.asarray(shares[:, (t_ms > span_ms[0]) & (t_ms < span_ms[1])].mean(axis=1))

    short = mean(SHORT_MS)
    return {
        **{column.name: float(mean(span_ms).sum()) for column, span_ms in SPANS_MS.items()},
        SHORT.name: float(short[1] / short.sum()),
        PAUSES.name: number(result.summary["pauses"]),
        DROPPED.name: number(result.summary["drops"]),
    }


def run(options: StudyOptions, progress: Progress) -> Findings:
    track = partial(over_time.track, interval_us=INTERVAL_US)
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, track, FILES)
    figure = over_time.figure(evidence, TITLE, ("long", "short"))
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, figure, NOTES)
