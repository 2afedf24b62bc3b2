# SPDX-License-Identifier: Apache-2.0
"""Figure 8 of ACC (Yan et al., SIGCOMM 2021): TCP beside RDMA at one port, whose scheduler gives RDMA 70 % and TCP 30 %.

ACC: 8 servers on one switch at 100 Gbit/s, 2 and 7 senders to one, 1 to 32 queue pairs at random. Static marking lets TCP take
10 to 20 % more than its share. ACC gives neither the TCP, nor how many flows it has, nor how often queue pairs are drawn.

Here TCP is CUBIC without ECN, two flows from each sender, and each sender's queue pairs are drawn anew every 3 ms. Beside that
stand the same senders with a number of queue pairs that does not change: the scheduler then keeps the shares. The scheduler
leaves no time unused, so TCP gets what RDMA does not ask for.
"""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING, Any

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers import own_rate
from dc_gym.benchmarks.papers.acc.common import PAUSES
from dc_gym.benchmarks.papers.own_rate import OwnRateRow
from dc_gym.records.results import Result, number
from dc_gym.reproduce import drawing
from dc_gym.reproduce.claims import Claim, Explanation, above, less_than, more_than
from dc_gym.reproduce.evidence import Quantity
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "TCP beside RDMA under 70:30: what TCP takes beyond its share"
SOURCE = "ACC, figure 8 (text only)"
NAME = "rdma-beside-tcp"
TCP_PERCENT, RDMA_PERCENT = 30, 70
SENDERS = (2, 7)
MARKINGS = {"SECN0": "secn0", "SECN1": "secn1", "SECN2": "secn2"}
COLORS = {"SECN0": "#332288", "SECN1": "#CC6677", "SECN2": "#999933"}
REDRAWN, STEADY = "redrawn", "steady"
MOST_PAIRS, PHASE_MS, PHASES = 32, 3, 10
"""Queue pairs of a sender at most, the time for which a draw holds, and the draws of a run."""
STEADY_PAIRS = 16
TCP_FLOWS = 2
"""TCP flows of a sender."""
TCP_DSCP, RDMA_DSCP = 10, 26
BEYOND = Quantity("beyond", "TCP beyond its share (points)", 100, 3)
RDMA = Quantity("rdma_bps", "RDMA (Gbit/s)", 1e-9, 3)
TCP = Quantity("tcp_bps", "TCP (Gbit/s)", 1e-9, 3)
COLUMNS = (BEYOND, RDMA, TCP, PAUSES)
NEAR = 0.02


def name(senders: int, pairs: str, marking: str) -> str:
    return f"{senders}:1, {pairs}, {marking}"


def file_of(senders: int, pairs: str) -> str:
    return f"{pairs}-{senders}.csv"


def flows(senders: int, pairs: str) -> str:
    """Returns the queue pairs of each sender in each phase, as a list of flows. They do not depend on the seed of a run."""
    chance = random.Random(senders)
    rows = ["source,destination,port,start,stop,size"]
    for phase in range(PHASES):
        for sender in range(1, senders + 1):
            count = chance.randint(1, MOST_PAIRS) if pairs == REDRAWN else STEADY_PAIRS
            ends_ms = PHASE_MS * (phase + 1 if pairs == REDRAWN else PHASES)
            if pairs == REDRAWN or not phase:
                rows += [
                    f"h{sender},h8,{5000 + len(rows) + pair},{PHASE_MS * phase / 1e3:g},{ends_ms / 1e3:g},0"
                    for pair in range(count)
                ]
    return "\n".join(rows) + "\n"


def _values(senders: int, pairs: str, marking: str) -> dict[str, Any]:
    return {
        "topology.kind": "single",
        "topology.hosts": 8,
        "topology.rate": "100Gbit/s",
        "topology.delay": "550ns",
        "topology.shared_buffer": "12MB",
        "topology.pfc": "classes",
        "topology.xoff": "acc",
        "topology.classes": [
            {"name": "tcp", "dscp": [TCP_DSCP], "weight": TCP_PERCENT, "marking": "none"},
            {"name": "rdma", "dscp": [RDMA_DSCP], "weight": RDMA_PERCENT, "lossless": True, "marking": MARKINGS[marking]},
        ],
        "controller.name": "dcqcn",
        "controller.tcp": "cubic",
        "nic.preset": "paper",
        "nic.trace": "off",
        "workload.kind": "matrix",
        "workload.file": file_of(senders, pairs),
        "workload.transport": "rdma",
        "workload.dscp": RDMA_DSCP,
        "workload.jitter": "20us",
        "workload.beside": [
            {
                "kind": "many_to_one",
                "transport": "tcp",
                "dscp": TCP_DSCP,
                "senders": senders,
                "flows": TCP_FLOWS * senders,
            }
        ],
        "time.duration": f"{PHASES * PHASE_MS}ms",
        "time.warmup": f"{PHASE_MS}ms",
        "monitor.interval": "100us",
        "monitor.tcp_interval": "1ms",
    }


ROWS = [
    OwnRateRow(name(senders, pairs, marking), _values(senders, pairs, marking), COLORS[marking])
    for senders, pairs, marking in product(SENDERS, (REDRAWN, STEADY), MARKINGS)
]
REDRAWING = Explanation(
    hypothesis="new queue pairs begin at line rate, are cut and recover slowly: RDMA's class runs empty, and TCP gets its time",
    experiment="the rows `steady` of dcgym reproduce acc figure-8",
    page="docs/reproduce-acc.md#figure-8-half-of-it-holds",
    showed=f"with {STEADY_PAIRS} queue pairs that stay, TCP is within 2 points of its share with every marking",
    of_success=True,
)
CLAIMS = (
    *(
        Claim(
            f"{senders}:1, {marking}: TCP takes more than its share by 10 to 20 points",
            SOURCE,
            (
                more_than(name(senders, REDRAWN, marking), BEYOND, 0.1),
                less_than(name(senders, REDRAWN, marking), BEYOND, 0.2),
            ),
            why="ACC does not give the TCP, its flows, how often queue pairs are drawn, and SECN1's and SECN2's Pmax",
            explanation=REDRAWING,
        )
        for senders, marking in product(SENDERS, MARKINGS)
    ),
    *(
        Claim(
            f"{senders}:1: it is the redrawing: with {STEADY_PAIRS} queue pairs that stay, TCP is within {NEAR:.0%} of its share "
            "(ours)",
            SOURCE,
            tuple(less_than(name(senders, STEADY, marking), BEYOND, NEAR) for marking in MARKINGS)
            + tuple(
                above(name(senders, REDRAWN, marking), name(senders, STEADY, marking), BEYOND) for marking in ("SECN0", "SECN1")
            ),
            ours=True,
        )
        for senders in SENDERS
    ),
)
FACTS = (
    ("Network", "8 servers on one switch, 100 Gbit/s; 12 MB shared, pauses of RDMA's class by ACC's rule (11.11 %)"),
    ("Scheduler", f"deficit round robin, RDMA {RDMA_PERCENT} %, TCP {TCP_PERCENT} %"),
    ("RDMA", f"DCQCN with its paper's parameters; 1 to {MOST_PAIRS} queue pairs a sender, drawn anew each {PHASE_MS} ms"),
    ("TCP", f"CUBIC without ECN, {TCP_FLOWS} flows a sender"),
    ("Measured", "TCP's part of the goodput of both, less 30 %"),
)
NOTES = (
    f"ACC does not say how often queue pairs are drawn; {PHASE_MS} ms is ours. Longer phases give their starts less weight.",
    "The buffer, the TCP and its flows are ours: ACC gives none.",
)


def measure(result: Result) -> dict[str, float]:
    """Returns what each transport got in the window."""
    got = {str(each["transport"]): number(each["goodput_bps"]) for each in result.summary["classes"]}
    return {
        BEYOND.name: got["tcp"] / (got["tcp"] + got["rdma"]) - TCP_PERCENT / 100,
        RDMA.name: got["rdma"],
        TCP.name: got["tcp"],
        PAUSES.name: number(result.summary.get("pauses")),
    }


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    files = {file_of(senders, pairs): flows(senders, pairs) for senders, pairs in product(SENDERS, (REDRAWN, STEADY))}
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, files=files)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Any) -> Figure:
    return drawing.dots(evidence, BEYOND, TITLE)
