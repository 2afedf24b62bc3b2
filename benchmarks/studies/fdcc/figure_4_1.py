# SPDX-License-Identifier: Apache-2.0
"""Figure 4.1 of FDCC (K. Zhang, MSc thesis 2023): 64 flows to one within 1 us, with and without a window of one BDP.

The thesis shows that without the window the buffer fills, since flows begin at line rate and no signal comes back in time. It
does not give algorithm, buffer and delays. Here the algorithm is DCQCN; delay and buffer are taken from tables 6.1 and 6.2
(common.py). Flows have 20 MB as in these tables, of which a run carries the first part.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dc_gym.benchmarks.studies.fdcc import common
from dc_gym.benchmarks.studies.fdcc.common import DCQCN, DROPPED, LINE_BPS, MB, PAUSED, PAUSES, SIZE_BYTES
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Floats, Measure, Study, Track, Variant, drawing, less_than, more_than

TITLE = "64 flows to one within 1 us: the buffer with and without a window"
SOURCE = "FDCC, figure 4.1 (text only)"
FLOWS, PORT = 64, "s1-eth65"
WITHOUT, WITH = "without a window", "with a window of one BDP"
FULL_BYTES = 6.5 * MB
"""Ours: the buffer counts as full above it. All 64 ports pause at a sixteenth of the free room, which is at 6.8 MB in all."""
PART = 0.25  # ours: with the window the longest queue is below that part of a full buffer
LONGEST = Measure("longest_bytes", "longest queue (kB)", 1e-3)
MEAN = Measure("queue_bytes", "mean queue (kB)", 1e-3)
CARRIED = Measure("goodput", "goodput (of the line)", digits=3)
QUEUE = Measure("queue", "shared link's queue (MB)", 1e-6)
HELD = Measure("held_share", "senders paused (%)", 100)


def _backlog(result: Result) -> Floats:
    names = [port["name"] for port in result.ports]
    return np.asarray(result.records("queues")["backlog_bytes"].reshape(-1, len(names))[:, names.index(PORT)], float)


def measure(result: Result) -> dict[str, float]:
    """Returns the queue of the shared link, its throughput, and the pauses."""
    backlog = _backlog(result)
    return {
        LONGEST.name: float(backlog.max()),
        MEAN.name: float(backlog.mean()),
        CARRIED.name: number(result.summary["goodput_bps"]) / LINE_BPS,
        **common.told(result, PAUSED, PAUSES, DROPPED),
    }


def track(result: Result) -> Track:
    """Returns the queue at each sweep, and the mean share of time in which senders' ports were held since the one before."""
    queues, classes, names = result.records("queues"), result.records("class_queues"), [port["name"] for port in result.ports]
    t_s = queues["t_ns"].reshape(-1, len(names))[:, 0] / 1e9
    senders = [names.index(f"h{host}-eth0") for host in range(1, FLOWS + 1)]
    held_s = classes["paused_ns"].reshape(-1, len(names))[:, senders].mean(axis=1) / 1e9
    return Track(t_s, {QUEUE.name: _backlog(result), HELD.name: np.array([0.0, *np.diff(held_s) / np.diff(t_s)])})


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={
        **common.DUMBBELL,
        **common.RIVALS[DCQCN],
        "nic.trace": "off",
        "workload.kind": "many_to_one",
        "workload.senders": FLOWS,
        "workload.size": f"{SIZE_BYTES}B",
        "workload.jitter": "1us",
        "time.duration": "1ms",
        "time.warmup": "0s",
        "monitor.interval": "10us",
        "monitor.tcp_interval": "100us",
    },
    variants=[Variant(WITHOUT, {}, "#CC6677", tracks=1), Variant(WITH, {"nic.inflight": "1bdp"}, "#332288", tracks=1)],
    measures=(LONGEST, MEAN, CARRIED, PAUSED, PAUSES, DROPPED),
    measure=measure,
    track=track,
    claims=(
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
    ),
    draw=partial(drawing.figure, panels=(QUEUE, HELD), title=TITLE),
    facts=(
        ("Network", f"a dumbbell of 64 pairs; {common.LINKS_OF_ALL}"),
        ("Traffic", "64 senders to one receiver, 20 MB each; starts are spread over 1 us. The first millisecond"),
        ("Controller", "DCQCN with its own paper's parameters, marking secn2: our choice"),
    ),
    notes=(
        "Delay and buffer are not given. Ours follow from numbers of the thesis' table 6.2.",
        "64 flows of one BDP each leave at most 63 BDPs in the switch: the window bounds the queue, whatever the algorithm.",
    ),
)
