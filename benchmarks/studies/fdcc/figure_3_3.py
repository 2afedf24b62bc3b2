# SPDX-License-Identifier: Apache-2.0
"""Figure 3.3 of FDCC (K. Zhang, MSc thesis 2023): HPCC's four equal flows through a dumbbell finish at different times.

The thesis' table 6.2 has the numbers of the same case: a mean slowdown of 3.3, where four flows that share evenly have 4, and an
unfair ratio of 0.299; DCQCN has 0.00002. It gives no delays and no start rates, and its network is lossless (PFC). Here links
have 1 us, ports 20 MB, and nothing is paused. HPCC is its own paper's form; the simulator's is beside it. DCQCN has no window, as
in its own paper, and in another variant the window of one BDP that the thesis gives all algorithms.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dc_gym.benchmarks.studies.fdcc import over_time
from dc_gym.benchmarks.studies.fdcc.common import DCQCN, DROPPED, HPCC, LINE_BPS, SIZE_BYTES
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, Variant, above, more_than

TITLE = "Four equal flows through a dumbbell: when each ends"
SOURCE = "FDCC, figure 3.3 and table 6.2 (text only)"
FLOWS = 4
SIMULATOR, WINDOW = "HPCC, ns-3's form", "window of one BDP"
BOUNDED = f"DCQCN, {WINDOW}"
SPREAD = Measure("spread", "last less first to end, over the mean completion time (%)", 100, 3)
UNFAIR = Measure("unfair", "unfair ratio", digits=3)
SLOWDOWN = Measure("slowdown", "mean slowdown", digits=3)
QUEUE = Measure("queue_bytes", "mean queue while all send (kB)", 1e-3, 3)
APART = 0.05  # ours: flows end apart if the times between the first and the last are more than this part of a completion time
DCQCN_KEYS = {"controller.name": "dcqcn", "topology.marking": "secn2"}
PAPER = {HPCC: {UNFAIR.name: 0.299, SLOWDOWN.name: 3.3}, DCQCN: {UNFAIR.name: 0.00002, SLOWDOWN.name: 4.0}}


def measure(result: Result) -> dict[str, float]:
    """Returns the figure's quantities; flows that did not end leave all but the drops undefined."""
    flows, queues = result.records("flows"), result.records("queues")
    dropped = float(queues["drops"][-len(result.ports) :].sum())
    ended = flows[flows["end_ns"] >= 0]
    if len(ended) < FLOWS:
        return {DROPPED.name: dropped}
    took_s = (ended["end_ns"] - ended["start_ns"]) / 1e9
    rates = SIZE_BYTES / took_s
    together = (queues["t_ns"] > ended["start_ns"].max()) & (queues["t_ns"] < ended["end_ns"].min())
    longest = queues["backlog_bytes"][together].reshape(-1, len(result.ports)).mean(axis=0).max() if together.any() else np.nan
    return {
        SPREAD.name: float((ended["end_ns"].max() - ended["end_ns"].min()) / 1e9 / took_s.mean()),
        UNFAIR.name: float((rates.max() - rates.mean()) / rates.mean()),
        SLOWDOWN.name: float(took_s.mean() * LINE_BPS / 8 / SIZE_BYTES),
        QUEUE.name: float(longest),
        DROPPED.name: dropped,
    }


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={
        "topology.kind": "dumbbell",
        "topology.pairs": FLOWS,
        "topology.rate": "100Gbit/s",
        "topology.delay": "1us",
        "topology.buffer": "20MB",
        "workload.kind": "many_to_one",
        "workload.senders": FLOWS,
        "workload.size": f"{SIZE_BYTES}B",
        "workload.jitter": "1ms",
        "workload.jitter_distribution": "gaussian",
        "time.duration": "12ms",
        "time.warmup": "0s",
        "monitor.interval": "10us",
        "monitor.tcp_interval": "100us",
    },
    variants=[
        Variant(HPCC, {"controller.name": "hpcc"}, "#332288", paper=PAPER[HPCC], tracks=1),
        Variant(SIMULATOR, {"controller.name": "hpcc", "nic.preset": "ns3"}, "#88CCEE", tracks=1),
        Variant(DCQCN, DCQCN_KEYS, "#CC6677", paper=PAPER[DCQCN], tracks=1),
        Variant(BOUNDED, {**DCQCN_KEYS, "nic.inflight": "1bdp"}, "#999933", paper=PAPER[DCQCN], tracks=1),
    ],
    measures=(SPREAD, UNFAIR, SLOWDOWN, QUEUE, DROPPED),
    measure=measure,
    track=partial(over_time.track, most_bps=LINE_BPS),
    claims=(
        Claim(f"HPCC's four flows end apart (ours: {APART:.0%} of a completion time)", SOURCE, (more_than(HPCC, SPREAD, APART),)),
        Claim("HPCC is less fair than DCQCN", SOURCE, (above(HPCC, DCQCN, UNFAIR),)),
        Claim("HPCC is less fair than DCQCN", SOURCE, (above(HPCC, BOUNDED, UNFAIR),), setup=WINDOW),
    ),
    draw=partial(over_time.figure, title=TITLE, of="the line"),
    facts=(
        ("Network", "a dumbbell of four pairs, 100 Gbit/s, 1 us a link, 20 MB a port; lossy"),
        ("Traffic", "four senders to one receiver, 20 MB each, Gaussian starts within 1 ms"),
        ("Measured", "unfair ratio: (largest - mean) / mean of flows' sizes over completion times; slowdown: over line rate"),
    ),
    notes=(
        "The thesis' dumbbell has 64 pairs; the others have no flows here. Its delays and start rates are not given.",
        "Slowdown is over the time that the line needs for the payload, so the 42 bytes of telemetry count against HPCC.",
    ),
)
