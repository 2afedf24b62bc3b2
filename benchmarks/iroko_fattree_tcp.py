# SPDX-License-Identifier: Apache-2.0
"""A figure that Iroko's thesis does not have: the fat-tree of figure 5.5 with TCP under the agent, too."""

from __future__ import annotations

from dc_gym.benchmarks import iroko
from dc_gym.progress import Progress
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.order import Order

TITLE = "Fat-tree, hotspot, TCP: reward, goodput and queues (not in the thesis)"


def run(order: Order, progress: Progress) -> Findings:
    return iroko.run(iroko.FATTREE_TCP, order, progress, TITLE, (), (*iroko.PANELS, iroko.RTT_PANEL))
