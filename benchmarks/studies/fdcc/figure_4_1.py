# SPDX-License-Identifier: Apache-2.0
"""Figure 4.1 of FDCC (K. Zhang, MSc thesis 2023): 64 flows to one within 1 us, with and without a window of one BDP.

The thesis shows that without the window the buffer fills, since flows begin at line rate and no signal comes back in time. It
does not say which algorithm, what buffer and which delays. Here it is DCQCN; delay and buffer are those of tables 6.1 and 6.2
(n_to_one.py). Flows have 20 MB as in these tables, of which a run carries the first part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.fdcc.n_to_one import (
    DCQCN,
    DROPPED,
    DUMBBELL,
    LINE_BPS,
    MB,
    PAUSED,
    PAUSES,
    RIVALS,
    SIZE_BYTES,
)
from dc_gym.study.collect import Variant
from dc_gym.figures import kit
from dc_gym.records.results import Result, number
from dc_gym.study.claims import Claim, less_than, more_than
from dc_gym.study.evidence import Evidence, Measure, Track
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "64 flows to one within 1 us: the buffer with and without a window"
SOURCE = "FDCC, figure 4.1 (text only)"
NAME = "burst"
FLOWS, PORT = 64, "s1-eth65"
WITHOUT, WITH = "without a window", "with a window of one BDP"
COLORS = {WITHOUT: "#CC6677", WITH: "#332288"}
FULL_BYTES = 6.5 * MB
"""Ours: the buffer counts as full above it. All 64 ports pause at a sixteenth of the free room, which is at 6.8 MB in all."""
PART = 0.25
"""Ours: with the window the longest queue is below that part of a full buffer."""
LONGEST = Measure("longest_bytes", "longest queue (kB)", 1e-3)
MEAN = Measure("queue_bytes", "mean queue (kB)", 1e-3)
CARRIED = Measure("goodput", "goodput (of the line)", digits=3)
QUEUE = Measure("queue", "queue (MB)", 1e-6)
HELD = Measure("held_share", "senders' ports held (%)", 100)
COLUMNS = (LONGEST, MEAN, CARRIED, PAUSED, PAUSES, DROPPED)
COMMON = {
    **DUMBBELL,
    **RIVALS[DCQCN],
    "nic.trace": "off",
    "workload.kind": "many_to_one",
    "workload.senders": FLOWS,
    "workload.size": f"{SIZE_BYTES}B",
    "workload.jitter": "1us",
    "time.duration": "1ms",
    "time.warmup": "0s",
    "monitor.interval": "10us",
    "monitor.tcp_interval": "100us",
}
ROWS = [
    Variant(WITHOUT, COMMON, COLORS[WITHOUT]),
    Variant(WITH, {**COMMON, "nic.inflight": "1bdp"}, COLORS[WITH]),
]
CLAIMS = (
    Claim(
        f"Without the window the buffer fills (ours: above {FULL_BYTES / MB:g} MB), and senders are paused",
        SOURCE,
        (more_than(WITHOUT, LONGEST, FULL_BYTES), more_than(WITHOUT, PAUSES, 0)),
    ),
    Claim(
        f"With it the buffer does not fill (ours: below {PART:.0%} of that), and nobody is paused",
        SOURCE,
        (less_than(WITH, LONGEST, PART * FULL_BYTES), less_than(WITH, PAUSES, 1)),
    ),
)
FACTS = (
    ("Network", "a dumbbell of 64 pairs, 100 Gbit/s, 160 ns a link, 9 MB a switch; PFC with FDCC's rule"),
    ("Traffic", "64 senders to one receiver, 20 MB each; starts are spread over 1 us. The first millisecond"),
    ("Controller", "DCQCN with its own paper's parameters, marking secn2: our choice"),
)
NOTES = (
    "Delay and buffer are not given. Ours follow from numbers of the thesis' table 6.2.",
    "64 flows of one BDP each leave at most 63 BDPs in the switch: the window bounds the queue, whatever the algorithm.",
)


def measure(result: Result) -> dict[str, float]:
    queues, summary = result.records("queues"), result.summary
    names = [port["name"] for port in result.ports]
    backlog = queues["backlog_bytes"].reshape(-1, len(names))[:, names.index(PORT)]
    return {
        LONGEST.name: float(backlog.max()),
        MEAN.name: float(backlog.mean()),
        CARRIED.name: number(summary["goodput_bps"]) / LINE_BPS,
        PAUSED.name: number(summary["paused_share"]),
        PAUSES.name: number(summary["pauses"]),
        DROPPED.name: number(summary["drops"]),
    }


def track(result: Result) -> Track:
    """Returns the queue at each sweep, and the mean share of time in which senders' ports were held since the one before."""
    queues, classes, names = result.records("queues"), result.records("class_queues"), [port["name"] for port in result.ports]
    t_us = queues["t_ns"].reshape(-1, len(names))[:, 0] / 1e3
    backlog = queues["backlog_bytes"].reshape(-1, len(names))[:, names.index(PORT)].astype(float)
    senders = [names.index(f"h{host}-eth0") for host in range(1, FLOWS + 1)]
    held_us = classes["paused_ns"].reshape(-1, len(names))[:, senders].mean(axis=1) / 1e3
    shares = [0.0, *(held_us[1:] - held_us[:-1]) / (t_us[1:] - t_us[:-1])]
    return Track(t_us, {QUEUE.name: backlog, HELD.name: np.array(shares)})


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, track)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    """Draws the queue above, and below it the share of time in which the senders were held (seed 1)."""
    with kit.style():
        canvas = kit.new_figure(7.4, 5.0)
        queue, held = canvas.subplots(2, 1, sharex=True)
        for row in ROWS:
            one = next(iter(evidence.variants[row.name].over_time.values()))
            queue.plot(one.x, one.values[QUEUE.name] * QUEUE.factor, color=row.color, label=row.name)
            held.plot(one.x, one.values[HELD.name] * HELD.factor, color=row.color)
        queue.set_ylabel("MB")
        queue.set_title("Queue of the shared link (seed 1)", loc="left")
        queue.legend(loc="upper right")
        held.set_ylabel("%")
        held.set_title("Time in which senders were paused, mean of 64", loc="left")
        held.set_xlabel("Time (us)")
        for ax in (queue, held):
            ax.set_ylim(bottom=0)
        kit.title(canvas, TITLE)
    return canvas
