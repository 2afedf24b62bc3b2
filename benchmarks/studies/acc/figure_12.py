# SPDX-License-Identifier: Apache-2.0
"""Figure 12 of ACC (Yan et al., SIGCOMM 2021): WebSearch at a load of 90 % on 288 servers, with ACC and static markings.

Servers send to uniformly drawn others for 10 ms (preset acc288), with sizes that are not cut. A leaf has 24 servers and six
uplinks, more than twice as much as in preset acc24a, and as much more of a buffer: 6 MB.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dc_gym.benchmarks.studies.acc import common, completion
from dc_gym.benchmarks.studies.acc.common import RIVALS, TRAINED
from dc_gym.benchmarks.studies.acc.completion import ELEPHANTS, MEAN, MICE, MICE_TAIL
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, below, drawing

TITLE = "WebSearch at 90 % on 288 servers, with ACC and static markings"
SOURCE = "ACC, figure 12"
LAST_START_MS, DURATION_MS = 10, 90
TRAFFIC = completion.traffic("websearch", 0.9, DURATION_MS, LAST_START_MS)
LARGE_BYTES = 10_000_000
LARGE = Measure("large_s", "mean FCT from 10 MB on (ms)", 1e3, 3)
SHORTER = {
    **{("SECN1", MEAN): 5.8, ("SECN2", MEAN): 16.6, ("SECN2", LARGE): 4.4},
    **{("SECN1", MICE): 5.7, ("SECN1", MICE_TAIL): 15.8, ("SECN2", MICE): 17.3, ("SECN2", MICE_TAIL): 47.5},
}
"""By how many percent completion times are shorter with ACC."""


def measure(result: Result) -> dict[str, float]:
    """Returns completion times, those of the paper's elephants as well."""
    flows = result.records("flows")
    large = flows[(flows["end_ns"] >= 0) & (flows["size_bytes"] >= LARGE_BYTES)]
    took_s = (large["end_ns"] - large["start_ns"]) / 1e9
    return {**completion.measure_agents(result), LARGE.name: float(np.mean(took_s))}


CLAIMS = [
    Claim(
        f"The {of.title.partition(' (')[0]} is shorter than with {rival}, by {percent:g} %", SOURCE, (below(TRAINED, rival, of),)
    )
    for (rival, of), percent in SHORTER.items()
]
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={
        **common.FABRICS[common.PFC],
        "topology.preset": "acc288",
        "topology.shared_buffer": "6MB",
        **{key: value for key, value in TRAFFIC.items() if key != "workload.truncate"},
    },
    variants=common.variants((*RIVALS, TRAINED)),
    measures=(MEAN, LARGE, MICE, MICE_TAIL, *(of for of in completion.OF_AGENTS if of not in (MEAN, MICE, MICE_TAIL, ELEPHANTS))),
    measure=measure,
    claims=CLAIMS,
    draw=partial(drawing.dot_panels, columns=(MEAN, LARGE, MICE, MICE_TAIL), title=TITLE),
    seeds=3,
    facts=common.FACTS,
    runs="large-scale",
)
