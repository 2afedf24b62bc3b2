# SPDX-License-Identifier: Apache-2.0
"""Figure 2 of ACC (Yan et al., SIGCOMM 2021): which static marking is best depends on the workload.

ACC draws completion times relative to SECN0's: under DataMining SECN2 is best, under WebSearch SECN1. It does not give the load,
the duration, and which completion time. Here flows arrive at 60 % of the servers' links, and the mean of all flows decides. The
mean slowdown, in which mice count as much as elephants, is beside it. Flows start for 20 ms, and sizes are cut at 10 MB, or a run
of milliseconds could not finish them. The network is preset acc24a.

With the room of ACC's rule no switch pauses a port here. In rows named "early pauses" a port is paused before SECN2 marks, at a
bound that DCQCN's paper computes and does not use (24,475 bytes), and flows arrive for three times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from operator import truediv
from typing import Any

from dc_gym.benchmarks.studies.acc import common, completion
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, FABRICS, LOSSY, PFC, on, setup_of
from dc_gym.benchmarks.studies.acc.completion import CNPS, LAST_START_MS, MEAN, SLOWDOWN, TIMES, traffic
from dc_gym.study import Claim, Evidence, Measure, Study, Variant, below, drawing
from dc_gym.study.evidence import of_seeds, with_variants

TITLE = "Completion times by static marking, over those of SECN0"
SOURCE = "ACC, figure 2 (text only)"
WORKLOADS = {"DataMining": "datamining", "WebSearch": "websearch"}
BEST = {"DataMining": "SECN2", "WebSearch": "SECN1"}
"""The paper's best."""
COLORS = {"SECN0": "#999933", "SECN1": "#CC6677", "SECN2": "#332288"}
BASE = "SECN0"
LOAD = 0.6
EARLY, EARLY_LAST_START_MS = "early pauses", 60
EARLY_XOFF_BYTES = 12_000_000 // (8 * 32) - 22_400
"""Where a port's class is paused: an equal share of 12 MB for 8 classes of 32 ports, less the bytes that come in after the pause
(Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 4). That paper computes it as the largest
static bound of its switches, and then takes a dynamic one, since pauses come before marks with it.
"""
SETUPS: Mapping[str, Mapping[str, Any]] = {**FABRICS, EARLY: {**FABRICS[PFC], "topology.xoff": f"{EARLY_XOFF_BYTES}B"}}
LENGTHS_MS = {**dict.fromkeys(FABRICS, (100, LAST_START_MS)), EARLY: (160, EARLY_LAST_START_MS)}
"""Duration of a run, and when its last flow may start."""
RATIOS = {
    column.name: Measure(f"{column.name}_ratio", f"{column.title.partition(' (')[0]}, over SECN0's", digits=3) for column in TIMES
}


def name(workload: str, marking: str, fabric: str = LOSSY) -> str:
    return f"{on(workload, fabric)}, {marking}"


def _claims() -> Iterator[Claim]:
    for fabric, (workload, best) in product(SETUPS, BEST.items()):
        others = (name(workload, marking, fabric) for marking in COLORS if marking != best)
        criteria = tuple(below(name(workload, best, fabric), other, MEAN) for other in others)
        yield Claim(f"{workload}: {best} is best (mean of all flows)", SOURCE, criteria, setup_of(fabric))


def with_ratios(evidence: Evidence) -> Evidence:
    """Adds completion times relative to SECN0's, seed by seed."""
    variants = []
    for workload, fabric, marking in product(WORKLOADS, SETUPS, COLORS):
        pair = [name(workload, setting, fabric) for setting in (marking, BASE)]
        if variant := evidence.variants.get(pair[0]):
            times = {of: [evidence.values(row, of) for row in pair] for of in RATIOS}
            ratios = {RATIOS[of].name: of_seeds(truediv, *values) for of, values in times.items()}
            variants.append(replace(variant, numbers={**variant.numbers, **ratios}))
    return with_variants(evidence, variants)


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    variants=[
        Variant(
            name(workload, marking, fabric),
            {**network, **CONTESTANTS[marking], **traffic(distribution, LOAD, *LENGTHS_MS[fabric])},
            color,
        )
        for fabric, network in SETUPS.items()
        for workload, distribution in WORKLOADS.items()
        for marking, color in COLORS.items()
    ],
    measures=(*TIMES, SLOWDOWN, *RATIOS.values(), common.FLOWS, common.UNFINISHED, common.PAUSES, CNPS, common.DROPPED),
    measure=completion.measure,
    derive=with_ratios,
    claims=[*_claims()],
    draw=partial(drawing.dot_panels, columns=tuple(RATIOS.values()), title=TITLE),
    facts=common.FACTS,
    runs="static-markings",
)
