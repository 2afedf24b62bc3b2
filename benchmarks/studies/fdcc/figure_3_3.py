# SPDX-License-Identifier: Apache-2.0
"""Figure 3.3 of FDCC (K. Zhang, MSc thesis 2023): HPCC's four equal flows through a dumbbell finish at different times.

The thesis' table 6.2 has the numbers of the same case: a mean slowdown of 3.3, where four flows that share evenly have 4, and an
unfair ratio of 0.299; DCQCN has 0.00002. It gives no delays and no start rates, and its network is lossless (PFC). Here links
have 1 us, ports 20 MB, and nothing is paused. HPCC is its own paper's form; the simulator's is beside it. DCQCN has no window, as
in its own paper, and in another row the window of one BDP that the thesis gives all algorithms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.study.collect import Variant
from dc_gym.figures import kit
from dc_gym.metrics import Window, series
from dc_gym.records.results import Result
from dc_gym.study.claims import Claim, Explanation, above, more_than
from dc_gym.study.evidence import Evidence, Measure, Track
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Four equal flows through a dumbbell: when each ends"
SOURCE = "FDCC, figure 3.3 and table 6.2 (text only)"
NAME = "equal-flows"
FLOWS, SIZE_BYTES, LINE_BPS = 4, 20_000_000, 100 * 10**9
DURATION_MS, BINS = 12, 120
HPCC, SIMULATOR, DCQCN = "HPCC", "HPCC, ns-3's form", "DCQCN"
WINDOW = "window of one BDP"
BOUNDED = f"DCQCN, {WINDOW}"
COLORS = {HPCC: "#332288", SIMULATOR: "#88CCEE", DCQCN: "#CC6677", BOUNDED: "#999933"}
SPREAD = Measure("spread", "last less first to end, over the mean completion time (%)", 100, 3)
UNFAIR = Measure("unfair", "unfair ratio", digits=3)
SLOWDOWN = Measure("slowdown", "mean slowdown", digits=3)
QUEUE = Measure("queue_bytes", "mean queue while all send (kB)", 1e-3, 3)
DROPPED = Measure("drops", "frames dropped")
COLUMNS = (SPREAD, UNFAIR, SLOWDOWN, QUEUE, DROPPED)
APART = 0.05
"""Ours: flows end apart if the times between the first and the last are more than this part of a completion time."""
COMMON = {
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
    "time.duration": f"{DURATION_MS}ms",
    "time.warmup": "0s",
    "monitor.interval": "10us",
    "monitor.tcp_interval": "100us",
}
ROWS = [
    Variant(HPCC, {**COMMON, "controller.name": "hpcc"}, COLORS[HPCC], paper={UNFAIR.name: 0.299, SLOWDOWN.name: 3.3}),
    Variant(SIMULATOR, {**COMMON, "controller.name": "hpcc", "nic.preset": "ns3"}, COLORS[SIMULATOR]),
    Variant(
        DCQCN,
        {**COMMON, "controller.name": "dcqcn", "topology.marking": "secn2"},
        COLORS[DCQCN],
        paper={UNFAIR.name: 0.00002, SLOWDOWN.name: 4.0},
    ),
    Variant(
        BOUNDED,
        {**COMMON, "controller.name": "dcqcn", "topology.marking": "secn2", "nic.inflight": "1bdp"},
        COLORS[BOUNDED],
        paper={UNFAIR.name: 0.00002, SLOWDOWN.name: 4.0},
    ),
]
UNBOUNDED = Explanation(
    hypothesis="without a window DCQCN's flows begin at line rate and are cut at different times; with the thesis' they share",
    experiment=f"the row `{BOUNDED}` of dcgym reproduce fdcc figure-3.3",
    page="docs/reproduce-fdcc.md#figure-33-hpccs-equal-flows-end-apart",
    showed="with it the unfair ratio is 0.005 to 0.063 over five seeds, where HPCC has 0.36 to 0.46",
)
CLAIMS = (
    Claim(f"HPCC's four flows end apart (ours: {APART:.0%} of a completion time)", SOURCE, (more_than(HPCC, SPREAD, APART),)),
    Claim(
        "HPCC is less fair than DCQCN",
        SOURCE,
        (above(HPCC, DCQCN, UNFAIR),),
        why="the thesis' network is lossless, and it does not say which parameters its DCQCN has",
        explanation=UNBOUNDED,
    ),
    Claim("HPCC is less fair than DCQCN", SOURCE, (above(HPCC, BOUNDED, UNFAIR),), variant=WINDOW),
)
FACTS = (
    ("Network", "a dumbbell of four pairs, 100 Gbit/s, 1 us a link, 20 MB a port; lossy"),
    ("Traffic", "four senders to one receiver, 20 MB each, Gaussian starts within 1 ms"),
    (
        "Measured",
        "unfair ratio: (largest - mean) / mean of the flows' rates, size over completion time; slowdown: over line rate",
    ),
)
NOTES = (
    "The thesis' dumbbell has 64 pairs; the others have no flows here. Its delays and start rates are not given.",
    "Slowdown is over the time that the line needs for the payload, so the 42 bytes of telemetry count against HPCC.",
)


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


def track(result: Result) -> Track:
    """Returns each flow's rate over time in ms, as a share of the line."""
    duration_ns = DURATION_MS * 10**6
    drawn = series(result.stored, duration_ns, Window(0, duration_ns), BINS)
    shares = np.nan_to_num(drawn.goodput_bps[:FLOWS]) / LINE_BPS
    return Track(drawn.t_s * 1e3, {str(number): share for number, share in enumerate(shares)})


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, track)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    """Draws the rates of the four flows of seed 1, a panel for each controller."""
    with kit.style():
        canvas = kit.new_figure(7.4, 6.0)
        panels = canvas.subplots(len(ROWS), 1, sharex=True, sharey=True)
        for ax, row in zip(panels, ROWS, strict=True):
            tracks = evidence.variants[row.name].over_time
            for values in next(iter(tracks.values())).values.values() if tracks else ():
                ax.plot(next(iter(tracks.values())).x, values, color=row.color, linewidth=0.9)
            ax.set_title(f"{row.name}: each flow's goodput, of the line (seed 1)", loc="left")
            ax.set_ylim(bottom=0)
        panels[-1].set_xlabel("Time (ms)")
        kit.title(canvas, TITLE)
    return canvas
