# SPDX-License-Identifier: Apache-2.0
"""Test category 6 of the draft: a link to a spine fails during an AllReduce, and routing reacts 500 us later.

What goes over the link until then is lost, and is sent again after a gap or a timeout. The overhead is the slowest iteration over
the mean of the same job without a failure.
"""

from __future__ import annotations

from functools import partial

from dc_gym.benchmarks.studies.bmwg import common
from dc_gym.benchmarks.studies.bmwg.common import BALANCING, JCT
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Measure, Study, Variant, above, drawing

TITLE = "A link to a spine fails during an AllReduce"
SLOWEST = Measure("slowest_s", "JCT of the slowest iteration (ms)", 1e3)
LOST = Measure("lost", "frames lost on the link")
FAILURE = {"at": "10ms", "link": ["s1", "s5"], "state": "down", "reroute": "500us"}


def name(balancing: str, failed: bool) -> str:
    return f"{balancing}, {'a link fails' if failed else 'no failure'}"


def measure(result: Result) -> dict[str, float]:
    """Returns the mean and the slowest iteration, and the frames that the link lost."""
    summary = result.summary
    return common.job(result) | {
        SLOWEST.name: number(summary["iteration_max_s"]),
        LOST.name: number(summary["lost_on_links"]),
        common.RESENT.name: number(summary["nic_resent_share"]),
    }


STUDY = Study(
    title=TITLE,
    source=f"{common.SOURCE}, test category 6",
    base={
        **common.FABRIC,
        "nic.timeout": "1ms",
        "workload.kind": "job",
        "workload.collective": "all_reduce_ring",
        "workload.size": "2MB",
        "workload.rounds": 8,
        "workload.placement": "round_robin",
        "time.duration": "100ms",
    },
    variants=[
        Variant(name(balancing, failed), {**keys, **({"events": [FAILURE]} if failed else {})}, common.COLORS[balancing])
        for balancing, keys in BALANCING.items()
        for failed in (False, True)
    ],
    measures=(JCT, SLOWEST, LOST, common.RESENT),
    measure=measure,
    seeds=common.SEEDS,
    claims=[
        Claim(
            "An iteration in which a link fails takes longer",
            "ours",
            tuple(above(name(balancing, True), name(balancing, False), SLOWEST) for balancing in BALANCING),
        )
    ],
    draw=partial(drawing.dot_panels, columns=(SLOWEST, LOST), title=TITLE),
)
