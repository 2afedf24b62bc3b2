# SPDX-License-Identifier: Apache-2.0
"""Figure 7 of RL-CC: all-to-all on its cluster, goodput and latency. The paper draws bars and gives no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import A_HOST, ALL_TO_ALL, row_name
from dc_gym.study import Claim, above, below

SOURCE = "RL-CC, section VI, figure 7 (text only)"


def _claims(setup: str) -> Iterator[Claim]:
    for flows in A_HOST:
        rl_cc, dcqcn = (row_name(contestant, ALL_TO_ALL, flows, setup) for contestant in ("RL-CC", "DCQCN"))
        text = f"With {flows} flow{'s' * (flows > 1)} a host RL-CC has more goodput and less latency than DCQCN"
        yield Claim(text, SOURCE, (above(rl_cc, dcqcn, common.GOODPUT), below(rl_cc, dcqcn, common.LATENCY)))


STUDY = cluster.study(ALL_TO_ALL, "All-to-all on the cluster: goodput and latency", SOURCE, _claims, "flows a host")
