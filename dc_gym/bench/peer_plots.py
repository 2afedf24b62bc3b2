# SPDX-License-Identifier: Apache-2.0
"""Figures of the lab beside a peer: a queue over time and its distribution."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym import plots

Trace = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Times in ns, and packets that wait."""
COLORS = {"lab": plots.FLOW_COLORS[0], "ns-3": plots.FLOW_COLORS[1]}
START_NS, TEETH_NS = 2_000_000, 2_000_000


def queue_figure(queues: Mapping[str, Trace], warmup_ns: int, path: Path) -> Path:
    """The start, some teeth of the sawtooth after the warm-up, and the distribution from then on."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: Any = plots.STYLE
    with mpl.rc_context(style):
        figure = Figure(figsize=(11, 3.4), layout="constrained")
        start, teeth, share = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1))
        for who, (t_ns, packets) in queues.items():
            first = t_ns < START_NS
            start.plot(t_ns[first] / 1e6, packets[first], color=COLORS[who], label=who, linewidth=1)
            some = (t_ns >= warmup_ns) & (t_ns < warmup_ns + TEETH_NS)
            teeth.plot(t_ns[some] / 1e6, packets[some], color=COLORS[who], linewidth=1)
            settled = np.sort(packets[t_ns >= warmup_ns])
            share.plot(settled, np.linspace(0, 1, len(settled)), color=COLORS[who])
        start.set_title("Start")
        teeth.set_title("After the warm-up")
        share.set_title("Distribution after the warm-up")
        for axes in (start, teeth):
            axes.set_xlabel("time, ms")
            axes.set_ylabel("queue, packets")
        share.set_xlabel("queue, packets")
        share.set_ylabel("share of samples below")
        start.legend()
        plots.save(figure, path)
    return path
