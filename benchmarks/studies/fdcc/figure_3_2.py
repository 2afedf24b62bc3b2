# SPDX-License-Identifier: Apache-2.0
"""Figure 3.2 of FDCC (K. Zhang, MSc thesis 2023): the queue of a port whose ingress is above, equal to and below its egress.

Four senders share a link of 1 Gbit/s. The thesis shows that the queue grows at the difference, stands, and drains. Here all three
follow one another in one run. No congestion control acts: flows of UDP have fixed rates, each an eighth of the link. So the
figure is a test of the testbed. The link, the number of senders and the three cases are the thesis'; rates and times are ours.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.fdcc import over_time
from dc_gym.benchmarks.studies.fdcc.common import DROPPED
from dc_gym.benchmarks.studies.fdcc.over_time import POINTS
from dc_gym.results.results import Result
from dc_gym.study import Evidence, Floats, Measure, Study, Track, Variant, VariantEvidence, drawing
from dc_gym.study.claims import Criterion, less_than, more_than

TITLE = "The queue when the sum of ingress is above, equal to and below the egress"
FILE = "three-loads.csv"
LINK_BPS, SENDERS, PORT = 10**9, 4, "s1-eth5"
PARTS = 8  # a flow has this part of the link
PHASES = {"above": (0, 10, (3, 3, 2, 2)), "equal": (10, 20, (2, 2, 2, 2)), "below": (20, 32, (2, 2, 1, 1))}
"""From and to (ms), and each sender's flows."""
PAYLOAD_BYTES = 1472
RATE_BPS = LINK_BPS // PARTS * PAYLOAD_BYTES // FRAME_BYTES  # payload of a flow; with headers it is its part of the link
DIFFERENCE_BPS = {name: (sum(flows) - PARTS) * LINK_BPS / PARTS for name, (_, _, flows) in PHASES.items()}
MARGIN_MS, EMPTY_MS = 0.5, 2.0
"""Left out at both ends of a phase, and the end of the last phase, in which nothing is queued any more."""
BIN_SWEEPS = 25
TOLERANCE = 0.01  # of the egress' share of the difference
GROWTH = {name: Measure(f"{name}_bps", f"growth, ingress {name} (Gbit/s)", 1e-9) for name in PHASES}
LONGEST = Measure("longest_bytes", "longest queue (kB)", 1e-3)
LEFT = Measure("left_bytes", "queue in the end (kB)", 1e-3)
QUEUE = Measure("queue", "queue (kB)", 1e-3)  # an axis of bytes would be logarithmic, and a line no line
INGRESS, EGRESS = Measure("ingress_bps", "sum of ingress (Gbit/s)", 1e-9), Measure("egress_bps", "egress (Gbit/s)", 1e-9)
VARIANT, LAW = "four to one", "the law: the differences added up"


def growing(name: str) -> tuple[Criterion, Criterion]:
    """Returns the identities of a phase: the queue grows at the difference of ingress and egress, within TOLERANCE."""
    expected, slack = DIFFERENCE_BPS[name], TOLERANCE * max(map(abs, DIFFERENCE_BPS.values()))
    return more_than(VARIANT, GROWTH[name], expected - slack), less_than(VARIANT, GROWTH[name], expected + slack)


def flows() -> str:
    return over_time.matrix(
        (f"h{host}", f"h{SENDERS + 1}", 5000 + number, start, stop)
        for start, stop, counts in PHASES.values()
        for host, count in enumerate(counts, 1)
        for number in range(count)
    )


def _sweeps(result: Result) -> tuple[Floats, Floats, Floats, Floats]:
    """Returns the sweeps: time in ms, the queue in bytes, bytes sent by all hosts and by the port so far."""
    queues, names = result.records("queues"), [port["name"] for port in result.ports]
    shape = (-1, len(names))
    backlog, sent = queues["backlog_bytes"].reshape(shape), queues["tx_bytes"].reshape(shape).astype(float)
    senders, at = [names.index(f"h{host}-eth0") for host in range(1, SENDERS + 1)], names.index(PORT)
    t_ms = queues["t_ns"].reshape(shape)[:, 0] / 1e6
    return t_ms, backlog[:, at].astype(float), sent[:, senders].sum(axis=1), sent[:, at]


def measure(result: Result) -> dict[str, float]:
    """Returns the queue's growth in each phase, and its length at the end."""
    t_ms, queue, _, _ = _sweeps(result)
    values = {
        LONGEST.name: float(queue.max()),
        LEFT.name: float(queue[-1]),
        DROPPED.name: float(result.records("queues")["drops"][-len(result.ports) :].sum()),
    }
    for name, (start, stop, _) in PHASES.items():
        end = stop - EMPTY_MS if name == "below" else stop
        inside = (t_ms > start + MARGIN_MS) & (t_ms < end - MARGIN_MS)
        slope = np.polyfit(t_ms[inside], queue[inside], 1)[0] if inside.sum() > 1 else float("nan")
        values[GROWTH[name].name] = float(slope) * 8e3
    return values


def track(result: Result) -> Track:
    """Returns the queue at POINTS sweeps, and rates over the BIN_SWEEPS sweeps before each."""
    t_ms, queue, ingress, egress = _sweeps(result)
    at = np.linspace(0, len(t_ms) - 1, POINTS).astype(int)
    before = np.maximum(at - BIN_SWEEPS, 0)

    def rate(sent: Floats) -> Floats:
        span_s = np.maximum((t_ms[at] - t_ms[before]) / 1e3, 1e-9)
        return np.where(before > 0, (sent[at] - sent[before]) * 8 / span_s, np.nan)

    return Track(t_ms[at] / 1e3, {QUEUE.name: queue[at], INGRESS.name: rate(ingress), EGRESS.name: rate(egress)})


def law(t_ms: Floats) -> Floats:
    """Returns the queue in bytes if it grows at the differences."""
    edges = [0, *(stop for _, stop, _ in PHASES.values())]
    grown = [DIFFERENCE_BPS[name] / 8e3 * (stop - start) for name, (start, stop, _) in PHASES.items()]
    return np.asarray(np.maximum(np.interp(t_ms, edges, np.cumsum([0, *grown])), 0))


def with_law(evidence: Evidence) -> Evidence:
    """Returns the evidence with the law beside it."""
    t_s = next(iter(evidence.variants[VARIANT].over_time.values())).x
    growth = {GROWTH[name].name: {1: difference_bps} for name, difference_bps in DIFFERENCE_BPS.items()}
    law_variant = VariantEvidence(LAW, LAW, "#999933", growth, {1: Track(t_s, {QUEUE.name: law(t_s * 1e3)})})
    return replace(evidence, variants={**evidence.variants, LAW: law_variant})


STUDY = Study(
    title=TITLE,
    source="FDCC, figure 3.2 (text only)",
    variants=[
        Variant(
            VARIANT,
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
            "#332288",
        )
    ],
    files={FILE: flows()},
    measures=(*GROWTH.values(), LONGEST, LEFT, DROPPED),
    measure=measure,
    track=track,
    identities=(
        *(criterion for name in PHASES for criterion in growing(name)),
        less_than(VARIANT, LEFT, 2 * FRAME_BYTES),
        less_than(VARIANT, DROPPED, 1),
    ),
    derive=with_law,
    draw=partial(drawing.figure, panels=(QUEUE, INGRESS, EGRESS), title=TITLE),
    facts=(
        ("Network", "one switch, four senders and a receiver, 1 Gbit/s, 1 us a link, 4 MB a port"),
        ("Traffic", "UDP at fixed rates, each flow an eighth of the link: 10 flows for 10 ms, 8 for 10 ms, 6 for 12 ms"),
        ("Measured", "the queue of the receiver's port, each 20 us; growth is the slope of a line through a phase"),
    ),
    notes=("No congestion control acts here: the figure is a test of the testbed.",),
)
