# SPDX-License-Identifier: Apache-2.0
"""Figures 12 and 13 of ACC (Yan et al., SIGCOMM 2021): WebSearch at loads of 60 to 90 %, with ACC and static markings.

ACC's figure 12 is a load of 90 % on 288 servers, figure 13 are loads of 60 to 90 % between random pairs. Completion times are
over those of a static marking. Mice have up to 100 KB, elephants 10 MB and more.

Here 24 servers send to uniformly drawn others on the network of figures 1 and 2, and sizes are cut at 10 MB, so elephants are the
flows from 1 MB on. More rows keep one action of ACC's template in all queues: the first, and at 90 % that nearest to SECN2.
They show what a short queue costs, and what ACC's reward makes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc.common import COLORS, CONTESTANTS, EAGER, FABRICS, PAUSES, PFC, TRAINED
from dc_gym.benchmarks.studies.acc.figure_2 import (
    DROPPED,
    ELEPHANTS,
    FLOWS,
    LARGEST,
    LAST_START_MS,
    MEAN,
    MICE,
    MICE_TAIL,
    TAIL,
    UNFINISHED,
    traffic,
)
from dc_gym.benchmarks.studies.acc.figure_14 import QUEUE, REWARD, measured
from dc_gym.study.collect import Variant
from dc_gym.study import series
from dc_gym.study.claims import Claim, Explanation, below
from dc_gym.study.evidence import Evidence, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.series import VariantLine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "WebSearch by load, with ACC and static markings"
NAME = "websearch"
LOADS = (60, 75, 90)
"""Percent of each server's link."""
DURATION_MS = 150
WHO, LIKE_SECN2 = ("SECN1", "SECN2", TRAINED, EAGER), "like SECN2"
KEYS = {**{who: CONTESTANTS[who] for who in WHO}, LIKE_SECN2: {**CONTESTANTS[EAGER], "controller.constant": 6}}
"""Action 6 of the template marks 20 % at 320 kB and nothing below 80 kB. It has ACC's reward, which SECN2 has not."""
MEASURED = (MEAN, TAIL, MICE, MICE_TAIL, ELEPHANTS)
MEASURES: Mapping[str, Measure] = {"all, mean": MEAN, "mice, mean": MICE, "mice, 99th percentile": MICE_TAIL}
PAPER_12 = {
    ("SECN1", "all, mean"): 5.8,
    ("SECN2", "all, mean"): 16.6,
    ("SECN1", "mice, mean"): 5.7,
    ("SECN1", "mice, 99th percentile"): 15.8,
    ("SECN2", "mice, mean"): 17.3,
    ("SECN2", "mice, 99th percentile"): 47.5,
}
"""By how many percent completion times are shorter with ACC at 90 %."""


def name(load: int, who: str) -> str:
    return f"{load} %, {who}"


ROWS = [
    Variant(
        name(load, who),
        {
            **FABRICS[PFC],
            **KEYS[who],
            **traffic("websearch", load / 100, DURATION_MS),
        },
        COLORS["SECN2" if who == LIKE_SECN2 else who],
    )
    for load, who in (*product(LOADS, WHO), (LOADS[-1], LIKE_SECN2))
]
WHY = "the network has 24 servers instead of 288; the buffer, DCQCN's parameters and SECN1's and SECN2's Pmax are not given"
PRICE = Explanation(
    hypothesis="the mean is that of elephants, which each cut makes longer; ACC's reward wants a short queue all the same",
    experiment=f"the rows `{name(90, EAGER)}` and `{name(90, LIKE_SECN2)}` of dcgym reproduce acc figure-13",
    page="docs/reproduce-acc.md#figures-12-and-13",
    showed="the mean is 3.92 and 3.32 ms, elephants take 12.7 and 10.6 ms, and ACC's reward is 0.200 and 0.190 (five seeds)",
)
NET = Explanation(
    hypothesis="the net lets a queue grow in a few states, and one such queue decides a seed's mice; no marking has to",
    experiment=f"the rows `{name(60, EAGER)}` of dcgym reproduce acc figure-13, and agent.parquet of `{name(60, TRAINED)}`",
    page="docs/reproduce-acc.md#figures-12-and-13",
    showed="11 of 9,632 settings are 640 kB or more with seed 2, its tail is 957 us; the first action's is 140 us, SECN1's 191",
)
CLAIMS = (
    *(
        Claim(
            f"90 %: completion times ({what}) are shorter than with {rival} (the paper's by {percent} %)",
            "ACC, figure 12",
            (below(name(90, TRAINED), name(90, rival), MEASURES[what]),),
            why=WHY,
            explanation=PRICE if what == "all, mean" else None,
        )
        for (rival, what), percent in PAPER_12.items()
    ),
    *(
        Claim(
            f"At every load of 60 to 90 % the completion times of {whose} are shorter than with {rival}",
            "ACC, figure 13",
            tuple(below(name(load, TRAINED), name(load, rival), column) for load in LOADS),
            why=WHY,
            explanation=PRICE if column == ELEPHANTS else NET,
        )
        for rival, (whose, column) in product(
            ("SECN1", "SECN2"), (("mice (mean)", MICE), ("mice (99th percentile)", MICE_TAIL), ("elephants", ELEPHANTS))
        )
        if (rival, column) != ("SECN2", ELEPHANTS)
    ),
)
FACTS = (
    (
        "Network",
        "24 servers at 25 Gbit/s, 2 leaves, 2 spines at 100 Gbit/s (preset acc24a); 12 MB a switch, ACC's pauses",
    ),
    ("Controller", "DCQCN in the NICs, with the parameters of its own paper"),
    ("Traffic", f"WebSearch to uniformly drawn others, flows start for {LAST_START_MS} ms and all end"),
    ("ACC", "controller.start = acc-deployed in every switch, once in 500 us, in force 10 us later"),
)
NOTES = (
    f"Scaled: 24 servers instead of 288; sizes are cut at {LARGEST}, and elephants are those from 1 MB on (ACC: 10 MB).",
    "SECN1's and SECN2's Pmax are ours (1 % as in DCQCN's paper, 20 % as in HPCC's simulator): ACC gives none.",
)


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, measured)
    columns = (*MEASURED, QUEUE, REWARD, FLOWS, UNFINISHED, PAUSES, DROPPED)
    return own_rate.findings(TITLE, FACTS, options, evidence, columns, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    lines = [VariantLine(who, COLORS[who], {float(load): name(load, who) for load in LOADS}) for who in WHO]
    return series.figure(evidence, lines, MEASURED, "load (%)", TITLE, base=None)
