# SPDX-License-Identifier: Apache-2.0
"""TCP NV's share of both dumbbells of Iroko's thesis: two pairs over 10 Mbit/s and over 1 Gbit/s, as long as its figures."""

from __future__ import annotations

from functools import partial

from dc_gym.benchmarks.studies.iroko.common import DUMBBELL_1G, DUMBBELL_10M, SWITCH
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, Variant, above, drawing, measured
from dc_gym.study.trained import BASELINES, Setup

TITLE, SOURCE = "TCP NV's share of a line of 10 Mbit/s and of 1 Gbit/s", "thesis, section 5.2.2"
SHARE = Measure("goodput_share", "goodput (% of the line)", 100, 4)
SLOW, FAST = "10 Mbit/s", "1 Gbit/s"


def measure(result: Result, line_bps: float) -> dict[str, float]:
    """Returns the goodput over the line's rate, and the mean of the longest queue of a switch."""
    numbers = measured.numbers(result)
    return {SHARE.name: numbers["goodput_bps"] / line_bps, SWITCH.name: numbers[SWITCH.name]}


def variant(name: str, setup: Setup, line_bps: float) -> Variant:
    keys = {
        "topology.preset": setup.base["topology"]["preset"],
        "controller.name": "nv",
        "workload.kind": "pairs",
        "workload.jitter": "10ms",
        "time.duration": setup.full.duration,
        "time.warmup": setup.full.warmup,
    }
    return Variant(name, keys, BASELINES["nv"].color, given={"line_bps": line_bps})


STUDY = Study(
    title=TITLE,
    source="F. Ruffy Varga's thesis",
    variants=[variant(SLOW, DUMBBELL_10M, 1e7), variant(FAST, DUMBBELL_1G, 1e9)],
    measures=(SHARE, SWITCH),
    measure=measure,
    seeds=3,
    claims=[Claim(f"TCP NV has more of the line at {FAST} than at {SLOW}", SOURCE, (above(FAST, SLOW, SHARE),))],
    draw=partial(drawing.dot_panels, columns=(SHARE, SWITCH), title=TITLE),
)
