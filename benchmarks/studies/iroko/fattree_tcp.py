# SPDX-License-Identifier: Apache-2.0
"""A figure that is not in Iroko's thesis: the fat-tree of figure 5.5 with TCP also under the agent."""

from __future__ import annotations

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.iroko import common
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

TITLE = "Fat-tree, hotspot, TCP: reward, goodput and queues (not in the thesis)"


def run(options: StudyOptions, progress: Progress) -> Findings:
    return common.run(common.FATTREE_TCP, options, progress, TITLE, (), (*common.PANELS, common.RTT_PANEL))
