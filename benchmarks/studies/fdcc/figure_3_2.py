# SPDX-License-Identifier: Apache-2.0
"""Figure 3.2 of FDCC (K. Zhang, MSc thesis 2023): the queue of a port whose ingress is above, equal to and below its egress.

Four senders share a link of 1 Gbit/s. The thesis shows that the queue grows at the difference, stands, and drains. Here all three
follow one another in one run. No congestion control acts: flows of UDP have fixed rates, each an eighth of the link. The link,
the number of senders and the three cases are the thesis'. The rates and times are our choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.base.units import FRAME_BYTES
from dc_gym.study import collect
from dc_gym.study.collect import Variant
from dc_gym.figures import kit
from dc_gym.records.results import Result
from dc_gym.study.claims import Claim, less_than, more_than
from dc_gym.study.evidence import Evidence, Floats, Measure, Track
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The queue when the sum of ingress is above, equal to and below the egress"
SOURCE = "FDCC, figure 3.2 (text only)"
NAME, FILE = "queue-laws", "three-loads.csv"
LINK_BPS, SENDERS, PORT = 10**9, 4, "s1-eth5"
PARTS = 8
"""A flow has this part of the link."""
PHASES = {"above": (0, 10, (3, 3, 2, 2)), "equal": (10, 20, (2, 2, 2, 2)), "below": (20, 32, (2, 2, 1, 1))}
"""From and to (ms), and each sender's flows."""
PAYLOAD_BYTES = 1472
RATE_BPS = LINK_BPS // PARTS * PAYLOAD_BYTES // FRAME_BYTES
"""Payload of a flow; with headers it is its part of the link."""
DIFFERENCE_BPS = {name: (sum(flows) - PARTS) * LINK_BPS / PARTS for name, (_, _, flows) in PHASES.items()}
MARGIN_MS, EMPTY_MS = 0.5, 2.0
"""Left out at both ends of a phase, and the end of the last phase, in which nothing is queued any more."""
BIN_SWEEPS = 25
TOLERANCE = 0.01
GROWTH = {name: Measure(f"{name}_bps", f"growth, ingress {name} (Gbit/s)", 1e-9) for name in PHASES}
LONGEST = Measure("longest_bytes", "longest queue (kB)", 1e-3)
DROPPED = Measure("drops", "frames dropped")
LEFT = Measure("left_bytes", "queue in the end (kB)", 1e-3)
QUEUE = Measure("queue_bytes", "queue (kB)", 1e-3)
INGRESS, EGRESS = Measure("ingress_bps", "sum of ingress", 1e-9), Measure("egress_bps", "egress", 1e-9)
ROW = "four to one"
INK, SENT_COLOR, LAW_COLOR = "#332288", "#CC6677", "#999933"

ROWS = [
    Variant(
        ROW,
        {
            "topology.kind": "single",
            "topology.hosts": SENDERS + 1,
            "topology.rate": "1Gbit/s",
            "topology.delay": "1us",
            "topology.buffer": "4MB",
            "controller.name": "cubic",
            "workload.kind": "matrix",
            "workload.file": FILE,
            "workload.transport": "udp",
            "workload.rate": f"{RATE_BPS}bit/s",
            "workload.jitter": "90us",
            "time.duration": "32ms",
            "time.warmup": "0s",
            "monitor.interval": "20us",
            "monitor.tcp_interval": "1ms",
        },
        INK,
    )
]


def _within(name: str) -> Claim:
    """Returns the claim about a phase: the queue grows at the difference, within TOLERANCE of the egress' share of it."""
    expected, slack = DIFFERENCE_BPS[name], TOLERANCE * max(map(abs, DIFFERENCE_BPS.values()))
    does = {"above": "grows at the difference", "equal": "stands", "below": "drains at the difference"}[name]
    return Claim(
        f"Ingress {name} egress: the queue {does} ({expected / 1e9:g} Gbit/s, within {TOLERANCE:.0%})",
        SOURCE,
        (more_than(ROW, GROWTH[name], expected - slack), less_than(ROW, GROWTH[name], expected + slack)),
    )


CLAIMS = (
    *map(_within, PHASES),
    Claim(
        "The queue is empty in the end, and nothing is lost",
        SOURCE,
        (less_than(ROW, LEFT, 2 * FRAME_BYTES), less_than(ROW, DROPPED, 1)),
    ),
)
FACTS = (
    ("Network", "one switch, four senders and a receiver, 1 Gbit/s, 1 us a link, 4 MB a port"),
    ("Traffic", "UDP at fixed rates, each flow an eighth of the link: 10 flows for 10 ms, 8 for 10 ms, 6 for 12 ms"),
    ("Measured", "the queue of the receiver's port, each 20 us; growth is the slope of a line through a phase"),
)
NOTES = ("No congestion control acts here: the figure is a test of the testbed.",)


def flows() -> str:
    """Returns the list of flows."""
    rows = [
        f"h{host},h{SENDERS + 1},{5000 + number},{start / 1e3:g},{stop / 1e3:g},0"
        for start, stop, counts in PHASES.values()
        for host, count in enumerate(counts, 1)
        for number in range(count)
    ]
    return "\n".join(["source,destination,port,start,stop,size", *rows]) + "\n"


def _columns(result: Result) -> tuple[Floats, Floats, Floats, Floats]:
    """Returns the sweeps: time in ms, the queue in bytes, bytes sent by all hosts and by the port so far."""
    queues, names = result.records("queues"), [port["name"] for port in result.ports]
    shape = (-1, len(names))
    backlog, sent = queues["backlog_bytes"].reshape(shape), queues["tx_bytes"].reshape(shape).astype(float)
    senders = [names.index(f"h{host}-eth0") for host in range(1, SENDERS + 1)]
    at = names.index(PORT)
    return (
        queues["t_ns"].reshape(shape)[:, 0] / 1e6,
        backlog[:, at].astype(float),
        sent[:, senders].sum(axis=1),
        sent[:, at],
    )


def measure(result: Result) -> dict[str, float]:
    t_ms, queue, _, _ = _columns(result)
    found = {
        LONGEST.name: float(queue.max()),
        LEFT.name: float(queue[-1]),
        DROPPED.name: float(result.records("queues")["drops"][-len(result.ports) :].sum()),
    }
    for name, (start, stop, _) in PHASES.items():
        end = stop - EMPTY_MS if name == "below" else stop
        inside = (t_ms > start + MARGIN_MS) & (t_ms < end - MARGIN_MS)
        slope = np.polyfit(t_ms[inside], queue[inside], 1)[0] if inside.sum() > 1 else float("nan")
        found[GROWTH[name].name] = float(slope) * 8e3
    return found


def track(result: Result) -> Track:
    """Returns the queue at each sweep, and rates over bins of sweeps."""
    t_ms, queue, ingress, egress = _columns(result)

    def rate(sent: Floats) -> Floats:
        starts = np.maximum(np.arange(len(t_ms)) - BIN_SWEEPS, 0)
        span_s = np.maximum((t_ms - t_ms[starts]) / 1e3, 1e-9)
        return np.where(starts > 0, (sent - sent[starts]) * 8 / span_s, np.nan)

    return Track(t_ms, {QUEUE.name: queue, INGRESS.name: rate(ingress), EGRESS.name: rate(egress)})


def law(t_ms: Floats) -> Floats:
    """Returns the queue in bytes if it grows at the differences."""
    edges = [0.0, *(float(stop) for _, stop, _ in PHASES.values())]
    heights = [0.0]
    for (start, stop, _), difference_bps in zip(PHASES.values(), DIFFERENCE_BPS.values(), strict=True):
        heights.append(heights[-1] + difference_bps / 8e3 * (stop - start))
    return np.maximum(np.interp(t_ms, edges, heights), 0)


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, track, {FILE: flows()})
    columns = (*GROWTH.values(), LONGEST, LEFT, DROPPED)
    return own_rate.findings(TITLE, FACTS, options, evidence, columns, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    """Draws the rates above, and below them the queue of each seed beside the law."""
    tracks = list(evidence.variants[ROW].over_time.values())
    with kit.style():
        canvas = kit.new_figure(7.4, 5.0)
        rates, queue = canvas.subplots(2, 1, sharex=True)
        one = tracks[0]
        rates.plot(one.x, one.values[INGRESS.name] * INGRESS.factor, color=SENT_COLOR, label=INGRESS.title)
        rates.plot(one.x, one.values[EGRESS.name] * EGRESS.factor, color=INK, label=EGRESS.title)
        rates.set_ylabel("Gbit/s")
        rates.set_ylim(0, 1.5)
        rates.set_title(f"Rates, means over {BIN_SWEEPS * 20 / 1e3:g} ms (seed 1)", loc="left")
        rates.legend(loc="lower left", ncols=2)
        for number, each in enumerate(tracks):
            label = "" if number else "queue, each seed"
            queue.plot(each.x, each.values[QUEUE.name] * QUEUE.factor, color=INK, linewidth=0.9, label=label)
        queue.plot(one.x, law(one.x) * QUEUE.factor, color=LAW_COLOR, linestyle="--", label="the law: the differences added up")
        queue.set_ylabel("kB")
        queue.set_ylim(bottom=0)
        queue.set_title("Queue of the receiver's port", loc="left")
        queue.legend(loc="lower center")
        queue.set_xlabel("Time (ms)")
        for ax in (rates, queue):
            for _, stop, _ in PHASES.values():
                ax.axvline(stop, color="#BBBBBB", linewidth=0.8)
        kit.title(canvas, TITLE)
    return canvas
