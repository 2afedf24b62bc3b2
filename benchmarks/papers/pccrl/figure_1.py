# SPDX-License-Identifier: Apache-2.0
"""Figure 1 of PCC-RL: one or seven short flows join a long one. Shown are its bandwidth, the buffer, and its recovery.

The paper draws curves and gives no numbers. It is our choice that 2 and 8 flows are one long one and the rest short, and that the
short ones have 5 MB each, as much as the whole buffer. Since nobody drops in the paper, rows of their own have short flows of
SIZES: seven of the largest (3.5 MB) fit into the buffer. 64 kB is the size of RL-CC's WRITEs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.base.stats import band
from dc_gym.benchmarks.papers.pccrl import common as pccrl
from dc_gym.benchmarks.papers.pccrl.common import COLORS, FORMS, HPCC, LOOKS, SWIFT_PCC, WHO, swift
from dc_gym.benchmarks.papers.rlcc import common as rlcc
from dc_gym.benchmarks.papers.rlcc.cluster import LONG_SHARE, RECOVERY, SLOWDOWN, UNFINISHED, held_rate, long_short
from dc_gym.benchmarks.papers.rlcc.common import name
from dc_gym.figures import kit
from dc_gym.metrics import Window, series
from dc_gym.records.results import Result
from dc_gym.reproduce.claims import Claim, below, less_than, more_than
from dc_gym.reproduce.evidence import Evidence, Quantity, Track
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.reproduce.scaled import JITTER_NS, LINE_BPS, MS, RunLength, ScaledNetwork
from dc_gym.spec import without_code

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "A long flow that short ones join: bandwidth, buffer, recovery"
SOURCE = "PCC-RL, figure 1 (text only)"
FLOWS = (2, 8)
NETWORK = ScaledNetwork("nine", "one switch, 8 senders, 1 receiver", {**rlcc.SINGLE, "hosts": 9}, 8)
BEGIN_NS, SHORT_SIZE, BINS = 5 * MS, "5MB", 150
LENGTH = RunLength(20 * MS, 2 * MS)
BUFFER_BYTES = 5_000_000
BEFORE = Quantity("before", "long flow before (of the line)", digits=3)
BUFFER = Quantity("buffer", "longest queue (% of 5 MB)", 100, 3)
DROPPED = Quantity("drops", "frames dropped")
BANDWIDTH = Quantity("bandwidth", "long flow (of the line)")
COLUMNS = (BEFORE, LONG_SHARE, RECOVERY, BUFFER, SLOWDOWN, UNFINISHED, DROPPED)
PANELS = (BANDWIDTH, BUFFER)
FULL_BANDWIDTH, NONE = 0.9, 0.5


SIZES = {f"{size} kB each": f"{size}kB" for size in (64, 125, 250, 500)}
"""More sizes of short flows, by the names of their variants."""
SIZES_NOTE = (
    "The size of short flows is ours, since the paper gives none. In rows that name none it is 5 MB, as much as the whole buffer."
    " In rows that name one, seven of them fit into the buffer; 64 kB is the size of RL-CC's WRITEs. The figure has 5 MB alone."
)
VARIANTS = (*FORMS, *SIZES)


def on(who: str, variant: str) -> str:
    """Returns the name of a contestant in a comparison of a variant."""
    return rlcc.of_variant(who, variant) if variant in SIZES else swift(variant) if who == "Swift" else who


def _row(who: str, flows: int, variant: str) -> rlcc.Row:
    size = SIZES.get(variant, SHORT_SIZE)
    return rlcc.Row(
        name(on(who, variant), flows),
        WHO[who],
        NETWORK,
        {
            **{"kind": "long_short", "long": 1, "short": flows - 1, "size": size},
            **{"short_start": BEGIN_NS, "jitter": JITTER_NS},
        },
        length=LENGTH,
        full=RunLength(500 * MS, 2 * MS),
        values=rlcc.PRESETS.get(variant, {}),
        color=COLORS[who],
        variant=variant,
    )


ROWS = [
    *(_row(who, flows, rlcc.OWN) for who in WHO for flows in FLOWS),
    *(_row("Swift", flows, form) for form in FORMS for flows in FLOWS),
    *(_row(who, flows, size) for size in SIZES for who in WHO for flows in FLOWS),
]


HELD_RATE = held_rate(
    "pcc-rl",
    "figure-1",
    "with it Swift's long flow takes 225 to 315 us to recover from one short flow, PCC-RL's 134 to 192 (seeds 1 to 5); from seven"
    " they take as long",
)


def _claims(variant: str) -> Iterator[Claim]:
    def row(who: str, flows: int) -> str:
        return name(on(who, variant), flows)

    for flows in FLOWS:
        ours = row("PCC-RL", flows)
        yield Claim(f"Nobody drops, {flows} flows", SOURCE, tuple(less_than(row(who, flows), DROPPED, NONE) for who in WHO))
        yield Claim(
            f"PCC-RL's long flow has all of the line before the others come, {flows} flows (ours: {FULL_BANDWIDTH:.0%})",
            SOURCE,
            (more_than(ours, BEFORE, FULL_BANDWIDTH),),
        )
        yield Claim(
            f"HPCC's long flow recovers first and never has all of the line, {flows} flows (ours: {FULL_BANDWIDTH:.0%})",
            SOURCE,
            (below(row(HPCC, flows), ours, RECOVERY), less_than(row(HPCC, flows), BEFORE, FULL_BANDWIDTH)),
        )
        yield Claim(
            f"PCC-RL's long flow recovers before Swift's and DC2QCN's, {flows} flows",
            SOURCE,
            tuple(below(ours, row(who, flows), RECOVERY) for who in ("Swift", "DC2QCN")),
            explanation=HELD_RATE if flows == FLOWS[0] else None,
        )


CLAIMS = rlcc.with_variants(VARIANTS, _claims)


def more(result: Result) -> dict[str, float]:
    """Returns the figure's additional quantities, at 100 Gbit/s."""
    drawn = track(result)
    before = (drawn.x > LENGTH.warmup_ns / MS) & (drawn.x < BEGIN_NS / MS)
    queues = result.records("queues")
    return long_short(result) | {
        BEFORE.name: float(drawn.values[BANDWIDTH.name][before].mean()) if before.any() else float("nan"),
        BUFFER.name: float(queues["backlog_bytes"].max()) / BUFFER_BYTES,
        DROPPED.name: float(queues["drops"][-len(result.ports) :].sum()),
    }


def track(result: Result) -> Track:
    """Returns the curves over time in ms, at 100 Gbit/s."""
    spec = without_code(result.manifest["spec"], result.path)
    scale, duration_ns = spec.topology.scale or 1, spec.time.duration_ns
    drawn = series(result.stored, duration_ns, Window(0, duration_ns), BINS)
    long = result.records("flows")["size_bytes"] == 0
    queues, ports = result.records("queues"), len(result.ports)
    longest = queues["backlog_bytes"].reshape(-1, ports).max(axis=1) / BUFFER_BYTES
    at_s = queues["t_ns"].reshape(-1, ports)[:, 0] / 1e9
    bandwidth = np.nansum(drawn.goodput_bps[long[: len(drawn.goodput_bps)]], axis=0) * scale / LINE_BPS
    values = {BANDWIDTH.name: bandwidth, BUFFER.name: np.interp(drawn.t_s, at_s, longest)}
    return Track(drawn.t_s * 1e3 / scale, values)


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = rlcc.run("figure-1", ROWS, options, progress, more, track)
    return pccrl.completed(rlcc.findings(TITLE, ROWS, options, evidence, COLUMNS, CLAIMS, _figure(evidence)), SIZES_NOTE)


def _figure(evidence: Evidence) -> Figure:
    """Draws the figure as in the paper: 2 flows above, 8 below; bandwidth on the left, the buffer on the right."""
    with kit.style():
        canvas = kit.new_figure(9.6, 5.4)
        axes = canvas.subplots(len(FLOWS), len(PANELS), sharex=True)
        for row, flows in zip(axes, FLOWS, strict=True):
            for ax, panel in zip(row, PANELS, strict=True):
                _draw(ax, evidence, flows, panel)
                ax.set_title(f"{flows} flows: {panel.title}", loc="left")
        for ax in axes[-1]:
            ax.set_xlabel("Time (ms, at 100 Gbit/s)")
        kit.legend_below(canvas, axes[0][0], len(WHO) + 1)
        kit.title(canvas, TITLE)
    return canvas


def _draw(ax: Axes, evidence: Evidence, flows: int, panel: Quantity) -> None:
    for who in (*WHO, SWIFT_PCC):
        tracks = list(evidence.contenders[name(who, flows)].over_time.values())
        mean, half = band(np.stack([each.values[panel.name] for each in tracks]) * panel.factor)
        line = LOOKS.get(who, ("", "-"))[1]
        ax.plot(tracks[0].x, mean, line, color=COLORS[who], label=pccrl.label(who))
        kit.shade(ax, tracks[0].x, np.maximum(mean - half, 0), mean + half, COLORS[who])
    ax.set_ylim(bottom=0)
