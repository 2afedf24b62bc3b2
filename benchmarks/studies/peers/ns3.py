# SPDX-License-Identifier: Apache-2.0
"""The lab beside ns-3: DCTCP. TCP's code differs, so that only its throughput is judged.

The permutation is shown alone: an ACK for each segment, which ns-3 needs, takes 2 % more of links that carry data both ways.
"""

from __future__ import annotations

from dc_gym.benchmarks.studies.peers import common

STUDY = common.study("ns3", within={"dctcp": 0.01}, judged=(common.SHARE,), unjudged=("dctcp, permutation",))
