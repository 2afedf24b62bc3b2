# SPDX-License-Identifier: Apache-2.0
"""The incasts of FDCC (K. Zhang, MSc thesis 2023) at the thesis' sizes, with a policy of the thesis' training.

Tables 6.1 and 6.2 with 20 MB a flow. FDCC is policy `fdcc-thesis` (thesis_training.py); rows `dc-gym's training` differ by the
policy alone.
"""

from __future__ import annotations

from dc_gym.benchmarks.studies.fdcc import common, n_to_one, table_6_1, table_6_2
from dc_gym.benchmarks.studies.fdcc.common import Change
from dc_gym.benchmarks.studies.fdcc.thesis_training import ALL, WHO, policy
from dc_gym.study import Study, Variant

TITLE = "Incasts at the thesis' sizes, with a policy of the thesis' training"
NETWORKS = {"dumbbell": (common.DUMBBELL, table_6_2.PAIRS), "fat-tree": (common.FAT_TREE, table_6_1.SENDERS)}
"""Keys and senders."""
LINKS = {"dumbbell": table_6_2.LINKS, "fat-tree": table_6_1.LINKS}
COUNTS = {"dumbbell": (16, 256, 1024), "fat-tree": (48, 192, 768)}
"""Numbers of flows by network; with 4 to 1 the thesis' text and table disagree."""
SMALL = (16, 48)
"""The numbers of flows with rows of dc-gym's training."""


def _variant(network: str, flows: int, contestant: str, *changes: Change) -> Variant:
    keys, senders = NETWORKS[network]
    return common.variant(
        n_to_one.name(contestant, flows, *changes, network=network),
        contestant,
        {**keys, **n_to_one.keys(flows, senders, 1, full=True), **policy(contestant, *changes)},
        {},
        changes,
        given={"links": LINKS[network]},
    )


VARIANTS = [
    _variant(network, flows, who, *how)
    for network, counts in COUNTS.items()
    for flows in counts
    for who, how in (ALL if flows in SMALL else WHO)
]
STUDY = Study(
    title=TITLE,
    source="FDCC, tables 6.1 and 6.2",
    variants=VARIANTS,
    measures=n_to_one.MEASURES,
    measure=n_to_one.measure,
    identities=common.nothing_dropped(VARIANTS),
    draw=n_to_one.figure(COUNTS, (n_to_one.UNFAIR, n_to_one.GOODPUT, common.PAUSED), TITLE),
    facts=common.facts("the networks of tables 6.1 and 6.2", "20 MB a flow to one receiver, Gaussian starts within 1 ms"),
    notes=n_to_one.NOTES[:2],
    seeds=3,
)
