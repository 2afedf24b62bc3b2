# SPDX-License-Identifier: Apache-2.0
"""Figure 8 of RL-CC: losses and goodput over time, all-to-all, 8192 flows on its cluster, one sample per second.

Here it is 480 flows on a quarter of the cluster, two from each host to each other, over milliseconds. `--length full` has 8064
flows on 64 hosts. The paper draws a color for each host; here all hosts are drawn together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.stats import band
from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import ALL, ALL_TO_ALL, COLORS, WHO, network_of, on
from dc_gym.benchmarks.studies.rl_cc.common import FIRMWARE, NO_PATIENCE, OWN, SHARED, WINDOW
from dc_gym.figures import kit, timeline
from dc_gym.figures.axes import log_ticks
from dc_gym.records.results import Result
from dc_gym.study import Claim, Evidence, Measure, Track, Variant, less_than, more_than
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, MS, RunLength

if TYPE_CHECKING:
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
SETUPS = (SHARED, WINDOW, NO_PATIENCE, FIRMWARE)


def _variant(who: str) -> Variant:
    controller, setup = ALL[who], cluster.SETUP_OF.get(who, OWN)
    return common.variant(
        who,
        controller,
        network_of(common.SMALL_FABRIC, who),
        {"kind": "all_to_all", "flows": 2, "jitter": JITTER_NS},
        length=cluster.length_of(ALL_TO_ALL, setup) if setup == FIRMWARE else LENGTH,
        keys=common.keys_of(controller, setup),
        color=COLORS[who],
        lines=0,
        full_network=network_of(common.FABRIC, who),
    )


def _claims(setup: str) -> Iterator[Claim]:
    for who in ("RL-CC", "Swift"):
        criterion = less_than(on(who, setup), common.LATE_DROPS, NONE)
        yield Claim(f"{who} loses packets only while flows come up", SOURCE, (criterion,))
    yield Claim("DCQCN loses packets all the time", SOURCE, (more_than(on("DCQCN", setup), common.LATE_DROPS, 0),))


def track(result: Result, lines: int) -> Track:
    """Returns the curves over time in ms, at 100 Gbit/s; the goodput over so many receivers' lines, 0: those of all hosts."""
    drawn = timeline.load_series(result, BINS)
    scale = int(result.manifest["spec"]["topology"].get("scale") or 1)
    width_s = 2 * drawn.t_s[0]
    queues, ports = result.records("queues"), len(result.ports)
    drops = queues["drops"].reshape(-1, ports).sum(axis=1).astype(np.float64)
    at_s = queues["t_ns"].reshape(-1, ports)[:, 0] / 1e9
    edges = np.interp(np.arange(len(drawn.t_s) + 1) * width_s, at_s, drops)
    lost_bps = np.diff(edges) * FRAME_BYTES * 8 / width_s * scale
    hosts = lines or sum(port["side"] == "host" for port in result.ports)
    arrived = drawn.total_bps * scale / LINE_BPS / hosts
    return Track(drawn.t_s * 1e3 / scale, {LOST.name: lost_bps / LINE_BPS, ARRIVED.name: arrived})


def _figure(evidence: Evidence) -> Figure:
    with kit.style():
        canvas = kit.new_figure(7.4, 5.0)
        axes = canvas.subplots(len(PANELS), 1, sharex=True)
        for ax, panel in zip(axes, PANELS, strict=True):
            for each in evidence.variants.values():
                tracks = list(each.over_time.values())
                mean, half = band(np.stack([one.values[panel.name] for one in tracks]))
                ax.plot(tracks[0].x, mean, cluster.look(each.name)[1], color=each.color, label=each.label)
                kit.shade(ax, tracks[0].x, np.maximum(mean - half, 0), mean + half, each.color)
            ax.set_ylim(bottom=0)
            ax.set_title(panel.title, loc="left")
        axes[0].set_yscale("symlog", linthresh=LEAST_LOST)
        axes[0].set_ylim(0, max(axes[0].get_ylim()[1], 2 * LEAST_LOST))
        log_ticks(axes[0], "y", LEAST_LOST)
        axes[-1].set_xlabel("Time (ms, at 100 Gbit/s)")
        kit.legend_below(canvas, axes[0], len(WHO))
        kit.title(canvas, TITLE)
    return canvas


STUDY = common.study(
    TITLE,
    SOURCE,
    common.apart(map(_variant, cluster.contestants(ALL_TO_ALL, SETUPS))),
    (common.GOODPUT, common.LATENCY, *cluster.LOSSES),
    common.with_setups(SETUPS, _claims),
    _figure,
    networks=(common.SMALL_FABRIC,),
    full_networks=(common.FABRIC,),
    setups=SETUPS,
    track=track,
    runs="losses-over-time",
)
