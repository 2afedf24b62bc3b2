# SPDX-License-Identifier: Apache-2.0
"""Figure 8 of RL-CC: losses and goodput over time, all-to-all, 8192 flows on its cluster, one sample per second.

Here it is 480 flows on a quarter of the cluster, two from each host to each other, over milliseconds. `--length full` has 8064
flows on 64 hosts. The paper draws a color for each host; here all hosts are drawn together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import ALL, ALL_TO_ALL, COLORS, WHO, network_of, on
from dc_gym.benchmarks.studies.rl_cc.common import FIRMWARE, NO_PATIENCE, SHARED, WINDOW
from dc_gym.results.figures import timeline
from dc_gym.results.figures.axes import log_ticks
from dc_gym.results.results import Result
from dc_gym.study import Claim, Evidence, Measure, Track, Variant, less_than, more_than
from dc_gym.study.scaled import JITTER_NS, LINE_BPS, MS, RunLength

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


def _variant(contestant: str) -> Variant:
    controller, setup = ALL[contestant], cluster.SETUP_OF[contestant]
    workload = {"kind": "all_to_all", "flows": 2, "jitter": JITTER_NS}
    length = cluster.length_of(ALL_TO_ALL, setup) if setup == FIRMWARE else LENGTH
    keys, network = common.keys_of(controller, setup), network_of(common.SMALL_FABRIC, contestant)
    return common.variant(contestant, controller, network, workload, keys, 0, length=length, color=COLORS[contestant])


def _claims(setup: str) -> Iterator[Claim]:
    for contestant in ("RL-CC", "Swift"):
        lossless = (less_than(on(contestant, setup), common.LATE_DROPS, NONE),)
        yield Claim(f"{contestant} loses packets only while flows come up", SOURCE, lossless)
    yield Claim("DCQCN loses packets all the time", SOURCE, (more_than(on("DCQCN", setup), common.LATE_DROPS, 0),))


def track(result: Result, lines: int) -> Track:
    """Returns the curves over time in ms, at 100 Gbit/s; goodput is divided by this many receivers' lines, 0: all hosts'."""
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


def _panels(evidence: Evidence, rows: common.Rows) -> None:
    for (ax,), panel in zip(rows, PANELS, strict=True):
        common.over_time(ax, evidence, panel, {name: (name, cluster.look(name)[1]) for name in evidence.variants})
    (lost,), (arrived,) = rows
    lost.set_yscale("symlog", linthresh=LEAST_LOST)
    lost.set_ylim(0, max(lost.get_ylim()[1], 2 * LEAST_LOST))
    log_ticks(lost, "y", LEAST_LOST)
    arrived.set_xlabel("Time (ms, at 100 Gbit/s)")


STUDY = common.study(
    TITLE,
    SOURCE,
    [_variant(who) for who in cluster.contestants(ALL_TO_ALL, SETUPS)],
    (common.GOODPUT, common.LATENCY, *cluster.LOSSES),
    _claims,
    common.drawing(TITLE, (7.4, 5.0), _panels, len(WHO), nrows=len(PANELS), sharex=True),
    networks=(common.SMALL_FABRIC,),
    setups=SETUPS,
    track=track,
    runs="losses-over-time",
)
