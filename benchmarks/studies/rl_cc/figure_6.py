# SPDX-License-Identifier: Apache-2.0
"""Figure 6 of RL-CC: many-to-one on its cluster, goodput and latency. The paper draws bars and gives no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import FLOWS, MANY_TO_ONE, row_name
from dc_gym.study import Claim, above, below

SOURCE = "RL-CC, section VI, figure 6 (text only)"
NEAR, FAR = 0.95, 0.5
"""Our thresholds: parts of DCQCN's goodput and of its latency."""


def _claims(setup: str) -> Iterator[Claim]:
    for flows in FLOWS:
        dcqcn, rl_cc = (row_name(contestant, MANY_TO_ONE, flows, setup) for contestant in ("DCQCN", "RL-CC"))
        near, far = f"{NEAR:.0%} of it", f"{FAR:.0%} of it"
        goodput = (above(dcqcn, rl_cc, common.GOODPUT), above(rl_cc, dcqcn, common.GOODPUT, NEAR))
        yield Claim(f"With {flows} flows DCQCN has more goodput than RL-CC, which comes near it (ours: {near})", SOURCE, goodput)
        latency = (below(rl_cc, dcqcn, common.LATENCY, FAR),)
        yield Claim(f"With {flows} flows RL-CC's latency is far below DCQCN's (ours: {far})", SOURCE, latency)


STUDY = cluster.study(MANY_TO_ONE, "Many-to-one on the cluster: goodput and latency", SOURCE, _claims, "flows")
