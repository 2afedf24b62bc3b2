# SPDX-License-Identifier: Apache-2.0
"""FDCC (K. Zhang, MSc thesis 2023) on a lossy fabric, and on a network and numbers of flows that its training never had.

The thesis has neither. Its training, as ours, has one bottleneck, at most 32 flows, and no drops. Here n flows go to one receiver

- through the dumbbell of table 6.2 without pauses, with 2 MB of buffer a port, of 16 and 256 flows;
- on the leaf-spine of ACC's figures 1 and 2, from 23 hosts at 25 Gbit/s, of 69 and 552 flows. Its round trips are several times
  the dumbbell's; pauses and the shared buffer are as in the tables.
"""

from __future__ import annotations

from functools import partial

from dc_gym.benchmarks.studies.fdcc import common, n_to_one
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, DCQCN, DROPPED, DUMBBELL, FDCC, HPCC, LOSSLESS, RIVALS
from dc_gym.benchmarks.studies.fdcc.n_to_one import GOODPUT, QUEUE, UNFAIR, name
from dc_gym.study import Claim, Study, above, below, less_than

TITLE = "FDCC on a lossy fabric, and on a network and numbers of flows that its training never had"
SOURCE = "ours"
BUFFER = "2MB"
PAUSING = ("topology.shared_buffer", "topology.reserve", "topology.pfc", "topology.xoff")
LOSSY, LEAF_SPINE = "lossy dumbbell", "leaf-spine at 25 Gbit/s"
LOSSY_KEYS = {**{key: value for key, value in DUMBBELL.items() if key not in PAUSING}, "topology.buffer": BUFFER}
LEAF_SPINE_KEYS = {**{key: LOSSLESS[key] for key in PAUSING}, "topology.preset": "acc24a"}
NETWORKS = {LOSSY: (LOSSY_KEYS, 64, {"links": 3, "scale": 1}), LEAF_SPINE: (LEAF_SPINE_KEYS, 23, {"links": 4, "scale": 4})}
"""Keys, senders, and the path of a flow."""
COUNTS = {LOSSY: (16, 256), LEAF_SPINE: (69, 552)}
_claim = partial(n_to_one.compared, SOURCE)
STUDY = Study(
    title=TITLE,
    variants=[
        n_to_one.variant(who, flows, senders, network, network_name=network_name, given=path)
        for network_name, (network, senders, path) in NETWORKS.items()
        for flows in COUNTS[network_name]
        for who in CONTESTANTS
    ],
    measures=n_to_one.MEASURES,
    measure=n_to_one.measure,
    claims=(
        *(
            Claim(f"Lossy, {flows} flows: FDCC loses nothing", SOURCE, (less_than(lossy, DROPPED, 1),))
            for flows in COUNTS[LOSSY]
            for lossy in [name(FDCC, flows, network=LOSSY)]
        ),
        _claim("Lossy, 256 flows: FDCC loses less than DCQCN", below, FDCC, [DCQCN], [DROPPED], [256], network=LOSSY),
        *(
            _claim(f"{network}: FDCC carries more than HPCC", above, FDCC, [HPCC], [GOODPUT], counts, network=network)
            for network, counts in COUNTS.items()
        ),
        *(
            _claim(f"{network}, {flows} flows: FDCC is the fairest", below, FDCC, RIVALS, [UNFAIR], [flows], network=network)
            for network, counts in COUNTS.items()
            for flows in counts
        ),
    ),
    draw=n_to_one.figure(COUNTS, (GOODPUT, UNFAIR, QUEUE), TITLE),
    facts=(
        (LOSSY, f"table 6.2's 64 pairs, 100 Gbit/s, 160 ns a link; {BUFFER} a port and no pauses"),
        (LEAF_SPINE, "24 hosts, 2 leaves, 2 spines at 100 Gbit/s (preset acc24a); 9 MB a switch; PFC with FDCC's rule"),
        ("Traffic", n_to_one.TRAFFIC),
        ("Contestants", common.WHO),
        ("Training", "of FDCC's policy: one bottleneck in a fluid model, at most 32 flows, no drops"),
    ),
    notes=n_to_one.NOTES,
)
