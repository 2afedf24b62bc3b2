# SPDX-License-Identifier: Apache-2.0
"""A figure that is not in Iroko's thesis: the fat-tree of figure 5.5 with TCP also under the agent."""

from __future__ import annotations

from dc_gym.benchmarks.studies.iroko import common

TITLE = "Fat-tree, hotspot, TCP: reward, goodput and queues (not in the thesis)"

STUDY = common.study(common.FATTREE_TCP, TITLE, (), (*common.PANELS, common.RTT_PANEL))
