# SPDX-License-Identifier: Apache-2.0
"""Figure 8 of RL-CC: losses and goodput over time, all-to-all, 8192 flows on its cluster, one sample per second.

Here it is 480 flows on a quarter of the cluster, two from each host to each other, over milliseconds. --full has 8064 flows on 64
hosts. The paper draws a color for each host; here all hosts are drawn together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.base.stats import band
from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import (
    ALL,
    ALL_TO_ALL,
    COLORS,
    FIRMWARE_LENGTHS,
    VARIANT_OF,
    WHO,
    contestants,
    look,
    network_of,
    on,
)
from dc_gym.benchmarks.studies.rl_cc.common import FIRMWARE, NO_PATIENCE, OWN, SHARED, WINDOW
from dc_gym.figures import kit, timeline
from dc_gym.figures.axes import log_ticks
from dc_gym.records.results import Result
from dc_gym.study.claims import Claim, less_than, more_than
from dc_gym.study.evidence import Evidence, Measure, Track
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, MS, RunLength

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "All-to-all with many flows: what is lost, and what arrives, over time"
SOURCE = "RL-CC, section VI, figure 8"
BINS = 40
LENGTH = RunLength(24 * MS, 12 * MS)
"""The first half is bring-up, the start of all flows."""
LOST = Measure("lost", "dropped (lines of a host)")
ARRIVED = Measure("arrived", "goodput (of all hosts' lines)")
PANELS = (LOST, ARRIVED)
NONE, LEAST_LOST = 1e-9, 1e-3
VARIANTS = (SHARED, WINDOW, NO_PATIENCE, FIRMWARE)
CONTESTANTS = {who: ALL[who] for who in contestants(ALL_TO_ALL, VARIANTS)}
ROWS = [
    common.Row(
        who,
        controller,
        network_of(common.SMALL_FABRIC, who),
        {"kind": "all_to_all", "flows": 2, "jitter": JITTER_NS},
        length=FIRMWARE_LENGTHS[ALL_TO_ALL] if VARIANT_OF.get(who) == FIRMWARE else LENGTH,
        values=common.keys_of(controller, VARIANT_OF.get(who, OWN)),
        color=COLORS[who],
        lines=0,
        full_network=network_of(common.FABRIC, who),
        variant=VARIANT_OF.get(who, OWN),
    )
    for who, controller in CONTESTANTS.items()
]
COLUMNS = (common.GOODPUT, common.LATENCY, common.DROPS, common.LATE_DROPS, common.DROPPED, common.RESENT)


PARAMETERS = cluster.still_flooded(
    "figure-8",
    "with the firmware's parameters DCQCN's flows lose 1212 to 1476 packets each from 75 to 100 ms, by seed; with those of"
    " DCQCN's paper they lose nothing after bring-up",
)


def _claims(variant: str) -> Iterator[Claim]:
    for who in ("RL-CC", "Swift"):
        criteria = (less_than(on(who, variant), common.LATE_DROPS, NONE),)
        yield Claim(f"{who} loses packets only while flows come up", SOURCE, criteria)
    criteria = (more_than(on("DCQCN", variant), common.LATE_DROPS, 0),)
    yield Claim("DCQCN loses packets all the time", SOURCE, criteria, explanation=PARAMETERS)


CLAIMS = common.with_variants(VARIANTS, _claims)


def track(result: Result) -> Track:
    """Returns the curves over time in ms, at 100 Gbit/s."""
    drawn = timeline.load_series(result, BINS)
    scale = int(result.manifest["spec"]["topology"].get("scale") or 1)
    width_s = 2 * drawn.t_s[0]
    queues, ports = result.records("queues"), len(result.ports)
    drops = queues["drops"].reshape(-1, ports).sum(axis=1).astype(np.float64)
    at_s = queues["t_ns"].reshape(-1, ports)[:, 0] / 1e9
    edges = np.interp(np.arange(len(drawn.t_s) + 1) * width_s, at_s, drops)
    lost_bps = np.diff(edges) * FRAME_BYTES * 8 / width_s * scale
    hosts = sum(port["side"] == "host" for port in result.ports)
    arrived = drawn.total_bps * scale / LINE_BPS / hosts
    return Track(drawn.t_s * 1e3 / scale, {LOST.name: lost_bps / LINE_BPS, ARRIVED.name: arrived})


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = common.run("losses-over-time", ROWS, options, progress, track=track)
    return common.findings(TITLE, ROWS, options, evidence, COLUMNS, CLAIMS, _figure(evidence))


def _figure(evidence: Evidence) -> Figure:
    with kit.style():
        canvas = kit.new_figure(7.4, 5.0)
        axes = canvas.subplots(len(PANELS), 1, sharex=True)
        for ax, panel in zip(axes, PANELS, strict=True):
            _draw(ax, evidence, panel)
        axes[0].set_yscale("symlog", linthresh=LEAST_LOST)
        axes[0].set_ylim(0, max(axes[0].get_ylim()[1], 2 * LEAST_LOST))
        log_ticks(axes[0], "y", LEAST_LOST)
        axes[-1].set_xlabel("Time (ms, at 100 Gbit/s)")
        kit.legend_below(canvas, axes[0], len(WHO))
        kit.title(canvas, TITLE)
    return canvas


def _draw(ax: Axes, evidence: Evidence, panel: Measure) -> None:
    for each in evidence.variants.values():
        tracks = list(each.over_time.values())
        mean, half = band(np.stack([one.values[panel.name] for one in tracks]))
        ax.plot(tracks[0].x, mean, look(each.name)[1], color=each.color, label=each.label)
        kit.shade(ax, tracks[0].x, np.maximum(mean - half, 0), mean + half, each.color)
    ax.set_ylim(bottom=0)
    ax.set_title(panel.title, loc="left")
