# SPDX-License-Identifier: Apache-2.0
"""Figure 1 of PCC-RL: one or seven short flows join a long one. Shown are its bandwidth, the buffer, and its recovery.

The paper draws curves and gives no numbers. It is our choice that 2 and 8 flows are one long one and the rest short, and that the
short ones have 5 MB each, as much as the whole buffer. Since nobody drops in the paper, rows of their own have short flows of
SIZES: seven of the largest (3.5 MB) fit into the buffer. 64 kB is the size of RL-CC's WRITEs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.stats import band
from dc_gym.benchmarks.studies.pcc_rl import common as pccrl
from dc_gym.benchmarks.studies.pcc_rl.common import COLORS, HPCC, LOOKS, NINE, SWIFT_PCC, WHO
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.benchmarks.studies.rl_cc.cluster import LONG_SHARE, RECOVERY, SLOWDOWN, UNFINISHED, long_short
from dc_gym.benchmarks.studies.rl_cc.common import name
from dc_gym.figures import kit
from dc_gym.metrics import Window, series
from dc_gym.records.results import Result
from dc_gym.spec import without_code
from dc_gym.study import Claim, Evidence, Measure, Track, Variant, below, less_than, more_than
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, MS, RunLength

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "A long flow that short ones join: bandwidth, buffer, recovery"
SOURCE = "PCC-RL, figure 1 (text only)"
FLOWS = (2, 8)
BEGIN_NS, SHORT_SIZE = 5 * MS, "5MB"
LENGTH, FULL = RunLength(20 * MS, 2 * MS), RunLength(500 * MS, 2 * MS)
BUFFER_BYTES = 5_000_000
BINS, DRAWN_BINS = 150, 50
"""Number of intervals in which a run is measured, and drawn."""
BEFORE = Measure("before", "long flow before (of the line)", digits=3)
BUFFER = Measure("buffer", "longest queue (% of 5 MB)", 100, 3)
DROPPED = Measure("drops", "frames dropped")
BANDWIDTH = Measure("bandwidth", "long flow (of the line)")
PANELS = (BANDWIDTH, BUFFER)
FULL_BANDWIDTH, NONE = 0.9, 0.5

SIZES = {f"{size} kB each": f"{size}kB" for size in (64, 125, 250, 500)}
"""More sizes of short flows, by the names of their set-ups."""
HALF = "half step"
"""The set-up whose Swift has half the additive step."""
HALF_STEP: dict[str, Any] = {"nic.parameters": {"ai": 1 << 19}}
"""Half a packet a round trip, in Q20; isekai's and htsim's is a packet."""
NOTES = (
    "The size of short flows is ours, since the paper gives none. In rows that name none it is 5 MB, as much as the whole buffer."
    " In rows that name one, seven of them fit into the buffer; 64 kB is the size of RL-CC's WRITEs. The figure has 5 MB alone.",
    "In rows named half step Swift adds half a packet a round trip (ai), not a whole one. PCC-RL does not say what its Swift"
    " adds.",
)
BY_RATE = ("PCC-RL", "DC2QCN", "Swift")
"""HPCC's rivals. They begin slowly in rows named slow start; HPCC has a window and no such parameter."""
SETUPS = (rlcc.PCC, rlcc.HELD, HALF, rlcc.SLOW, *SIZES)
WHOSE: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((rlcc.OWN, *SIZES), tuple(WHO)),
    **dict.fromkeys((rlcc.PCC, rlcc.HELD, HALF), ("Swift",)),
    rlcc.SLOW: BY_RATE,
}
"""The contestants with rows of their own, by set-up."""
DRAWN = (*WHO, SWIFT_PCC)


def on(who: str, setup: str) -> str:
    """Returns the name of a contestant in a comparison of a set-up."""
    return rlcc.of_setup(who, setup) if who in WHOSE[setup] else who


def _variant(who: str, flows: int, setup: str) -> Variant:
    size, title = SIZES.get(setup, SHORT_SIZE), name(on(who, setup), flows)
    workload = {"kind": "long_short", "long": 1, "short": flows - 1, "size": size, "short_start": BEGIN_NS, "jitter": JITTER_NS}
    keys = HALF_STEP if setup == HALF else rlcc.PRESETS.get(setup, {})
    told = pccrl.told(title, who) | {"tracks": None if on(who, setup) in DRAWN else 0}
    return rlcc.variant(title, WHO[who], NINE, workload, length=LENGTH, full=FULL, keys=keys, **told)


VARIANTS = [_variant(who, flows, setup) for setup in (rlcc.OWN, *SETUPS) for who in WHOSE[setup] for flows in FLOWS]


def _claims(setup: str) -> Iterator[Claim]:
    for flows in FLOWS:
        rows = {who: name(on(who, setup), flows) for who in WHO}
        ours, hpcc = rows["PCC-RL"], rows[HPCC]
        yield Claim(f"Nobody drops, {flows} flows", SOURCE, tuple(less_than(each, DROPPED, NONE) for each in rows.values()))
        yield Claim(
            f"PCC-RL's long flow has all of the line before the others come, {flows} flows (ours: {FULL_BANDWIDTH:.0%})",
            SOURCE,
            (more_than(ours, BEFORE, FULL_BANDWIDTH),),
        )
        yield Claim(
            f"HPCC's long flow recovers first and never has all of the line, {flows} flows (ours: {FULL_BANDWIDTH:.0%})",
            SOURCE,
            (*(below(hpcc, rows[who], RECOVERY) for who in BY_RATE), less_than(hpcc, BEFORE, FULL_BANDWIDTH)),
        )
        yield Claim(
            f"PCC-RL's long flow recovers before Swift's and DC2QCN's, {flows} flows",
            SOURCE,
            tuple(below(ours, rows[who], RECOVERY) for who in ("Swift", "DC2QCN")),
        )


def more(result: Result) -> dict[str, float]:
    """Returns the figure's additional measures, at 100 Gbit/s."""
    curves, found = track(result, BINS), long_short(result)
    before = (curves.x > LENGTH.warmup_ns / MS) & (curves.x < BEGIN_NS / MS)
    queues, spec = result.records("queues"), without_code(result.manifest["spec"], result.path)
    rest_ns = spec.time.duration_ns - int(result.records("flows")["end_ns"].max())
    return found | {
        RECOVERY.name: recovery_s(found, rest_ns / 1e9 / (spec.topology.scale or 1)),
        BEFORE.name: float(curves.values[BANDWIDTH.name][before].mean()) if before.any() else float("nan"),
        BUFFER.name: float(queues["backlog_bytes"].max()) / BUFFER_BYTES,
        DROPPED.name: float(queues["drops"][-len(result.ports) :].sum()),
    }


def recovery_s(found: Mapping[str, float], rest_s: float) -> float:
    """Returns the time until the long flow is back, NaN if short ones have not ended.

    One that is not back within the run counts as back at its end, `rest_s` after the last short one: it takes at least so long.
    """
    never = np.isnan(found[RECOVERY.name]) and not found[UNFINISHED.name]
    return rest_s if never else found[RECOVERY.name]


def track(result: Result, bins: int = DRAWN_BINS) -> Track:
    """Returns the curves over time in ms, at 100 Gbit/s."""
    spec = without_code(result.manifest["spec"], result.path)
    scale, duration_ns = spec.topology.scale or 1, spec.time.duration_ns
    flows = series(result.stored, duration_ns, Window(0, duration_ns), bins)
    long = result.records("flows")["size_bytes"] == 0
    queues, ports = result.records("queues"), len(result.ports)
    longest = queues["backlog_bytes"].reshape(-1, ports).max(axis=1) / BUFFER_BYTES
    at_s = queues["t_ns"].reshape(-1, ports)[:, 0] / 1e9
    bandwidth = np.nansum(flows.goodput_bps[long[: len(flows.goodput_bps)]], axis=0) * scale / LINE_BPS
    values = {BANDWIDTH.name: bandwidth, BUFFER.name: np.interp(flows.t_s, at_s, longest)}
    return Track(flows.t_s * 1e3 / scale, values)


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
        kit.legend_below(canvas, axes[0][0], 3)
        kit.title(canvas, TITLE)
    return canvas


def _draw(ax: Axes, evidence: Evidence, flows: int, panel: Measure) -> None:
    for who in DRAWN:
        found = evidence.variants.get(name(who, flows))
        if tracks := list(found.over_time.values()) if found else []:
            mean, half = band(np.stack([each.values[panel.name] for each in tracks]) * panel.factor)
            line = LOOKS.get(who, ("", "-"))[1]
            ax.plot(tracks[0].x, mean, line, color=COLORS[who], label=pccrl.label(who))
            kit.shade(ax, tracks[0].x, np.maximum(mean - half, 0), mean + half, COLORS[who])
    ax.set_ylim(bottom=0)


STUDY = rlcc.study(
    TITLE,
    SOURCE,
    VARIANTS,
    (BEFORE, LONG_SHARE, RECOVERY, BUFFER, SLOWDOWN, UNFINISHED, DROPPED),
    rlcc.with_setups(SETUPS, _claims),
    _figure,
    networks=(NINE,),
    setups=SETUPS,
    more=more,
    track=track,
    notes=(*pccrl.NOTES, *NOTES),
)
