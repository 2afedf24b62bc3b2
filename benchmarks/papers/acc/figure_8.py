# SPDX-License-Identifier: Apache-2.0
"""Figure 8 of ACC (Yan et al., SIGCOMM 2021): TCP beside RDMA at one port, whose scheduler gives RDMA 70 % and TCP 30 %.

ACC: 8 servers on one switch at 100 Gbit/s, 2 and 7 senders to one, 1 to 32 queue pairs at random. Static marking lets TCP take
10 to 20 % more than its share. ACC gives neither the TCP, nor how many flows it has, nor how often queue pairs are drawn.

Here TCP is CUBIC without ECN, two flows from each sender, and each sender's queue pairs are drawn anew every 3 ms. Beside that
stand the same senders with a number of queue pairs that does not change: the scheduler then keeps the shares. The scheduler
leaves no time unused, so TCP gets what RDMA does not ask for.

Two choices of ours have rows of their own, on which ACC's claims are judged once more: how often queue pairs are drawn (also each
2 ms), and Pmax of SECN1 and SECN2 (also 100 %).
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
REDRAWN, STEADY, OFTENER, LATE = "redrawn", "steady", "redrawn each 2 ms", "steady, from 15 ms on"
PHASES_MS = {REDRAWN: 3, OFTENER: 2}
"""The time for which a draw holds."""
MOST_PAIRS, DURATION_MS, WARMUP_MS = 32, 30, {LATE: 15}
"""Queue pairs of a sender at most, the length of a run, and its beginning that is not measured, if it is not USUAL_WARMUP_MS."""
USUAL_WARMUP_MS = 3
OWN_PMAX, FULL_PMAX = "", "Pmax 100 %"
START_SENDERS = 7
"""The senders of the case that is measured LATE as well."""
STEADY_PAIRS = 16
TCP_FLOWS = 2
"""TCP flows of a sender."""
TCP_DSCP, RDMA_DSCP = 10, 26
BEYOND = Quantity("beyond", "TCP beyond its share (points)", 100, 3)
RDMA = Quantity("rdma_bps", "RDMA (Gbit/s)", 1e-9, 3)
TCP = Quantity("tcp_bps", "TCP (Gbit/s)", 1e-9, 3)
COLUMNS = (BEYOND, RDMA, TCP, PAUSES)
NEAR = 0.02


def name(senders: int, pairs: str, marking: str, pmax: str = OWN_PMAX) -> str:
    return ", ".join(filter(None, (f"{senders}:1", pairs, pmax, marking)))


def file_of(senders: int, pairs: str) -> str:
    """Returns the name of the file with the flows of a seed, which stands in it as `{seed}`."""
    return f"{pairs.replace(', ', ' ').replace(' ', '-')}-{senders}-s{{seed}}.csv"


def flows(senders: int, pairs: str, seed: int) -> str:
    """Returns the queue pairs of each sender in each phase, drawn by the seed, as a list of flows."""
    chance = random.Random(f"{senders} senders, seed {seed}")
    phase_ms = PHASES_MS.get(pairs, DURATION_MS)
    rows = ["source,destination,port,start,stop,size"]
    for start_ms in range(0, DURATION_MS, phase_ms):
        for sender in range(1, senders + 1):
            count = chance.randint(1, MOST_PAIRS) if pairs in PHASES_MS else STEADY_PAIRS
            rows += [
                f"h{sender},h8,{5000 + len(rows) + pair},{start_ms / 1e3:g},{(start_ms + phase_ms) / 1e3:g},0"
                for pair in range(count)
            ]
    return "\n".join(rows) + "\n"


def _values(senders: int, pairs: str, marking: str, pmax: str) -> dict[str, Any]:
    marks = {"marking": MARKINGS[marking]} | ({"pmax": "100%"} if pmax else {})
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
            {"name": "rdma", "dscp": [RDMA_DSCP], "weight": RDMA_PERCENT, "lossless": True, **marks},
        ],
        "controller.name": "dcqcn",
        "controller.tcp": "cubic",
        "nic.preset": "paper",
        "nic.trace": "off",
        "workload.kind": "matrix",
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
        "time.duration": f"{DURATION_MS}ms",
        "time.warmup": f"{WARMUP_MS.get(pairs, USUAL_WARMUP_MS)}ms",
        "monitor.interval": "100us",
        "monitor.tcp_interval": "1ms",
    }


VARIANTS = {
    "draws each 2 ms": (OFTENER, OWN_PMAX, tuple(MARKINGS)),
    "Pmax 100 %": (REDRAWN, FULL_PMAX, ("SECN1", "SECN2")),
    "draws each 2 ms, Pmax 100 %": (OFTENER, FULL_PMAX, ("SECN1", "SECN2")),
}
"""Choices of ours on which ACC's claims are judged once more: queue pairs, Pmax, and markings."""
CASES = [
    *product(SENDERS, (REDRAWN, STEADY), MARKINGS, [OWN_PMAX]),
    *((senders, *each) for pairs, pmax, of in VARIANTS.values() for senders in SENDERS for each in product([pairs], of, [pmax])),
    (START_SENDERS, LATE, "SECN0", OWN_PMAX),
]
ROWS = [OwnRateRow(name(*case), _values(*case), COLORS[case[2]], by_seed={"workload.file": file_of(*case[:2])}) for case in CASES]
PAGE = "docs/reproduce-acc.md#figure-8"
REDRAWING = Explanation(
    hypothesis="new queue pairs begin at line rate, are cut and recover slowly: RDMA's class runs empty, and TCP gets its time",
    experiment="the rows `steady` of dcgym reproduce acc figure-8",
    page=PAGE,
    showed=f"with {STEADY_PAIRS} queue pairs that stay, TCP is within 2.4 points of its share with every marking",
    of_success=True,
)
START = Explanation(
    hypothesis="the window still has the end of the flows' start, in which 112 of them are cut at once",
    experiment=f"the row `{name(START_SENDERS, LATE, 'SECN0')}` of dcgym reproduce acc figure-8",
    page=PAGE,
    showed="from 15 ms on TCP takes 1.3 points beyond its share with SECN0 and 7:1, instead of 2.3 from 3 ms on (3 seeds)",
)
OPEN = ((7, "SECN1"), (2, "SECN2"), (7, "SECN2"))
"""The claims that do not hold, and whose cause is not shown.

Draws each 2 ms, and a Pmax of 100 % as well, bring SECN1 with 7:1 and SECN2 with 2:1 above 10 points. But these values were found
by trial: 1 and 6 ms give less than 3 ms.
"""


def _takes_more(senders: int, pairs: str, marking: str, pmax: str, variant: str = "") -> Claim:
    row = name(senders, pairs, marking, pmax)
    return Claim(
        f"{senders}:1, {marking}: TCP takes more than its share by 10 to 20 points",
        SOURCE,
        (more_than(row, BEYOND, 0.1), less_than(row, BEYOND, 0.2)),
        why="ACC does not give the TCP, its flows, how often queue pairs are drawn, and SECN1's and SECN2's Pmax",
        explanation=None if variant or (senders, marking) in OPEN else REDRAWING,
        variant=variant,
    )


CLAIMS = (
    *(_takes_more(senders, REDRAWN, marking, OWN_PMAX) for senders, marking in product(SENDERS, MARKINGS)),
    *(
        _takes_more(senders, pairs, marking, pmax, variant)
        for variant, (pairs, pmax, markings) in VARIANTS.items()
        for senders, marking in product(SENDERS, markings)
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
            explanation=START if senders == START_SENDERS else None,
        )
        for senders in SENDERS
    ),
)
FACTS = (
    ("Network", "8 servers on one switch, 100 Gbit/s; 12 MB shared, pauses of RDMA's class by ACC's rule (11.11 %)"),
    ("Scheduler", f"deficit round robin, RDMA {RDMA_PERCENT} %, TCP {TCP_PERCENT} %"),
    (
        "RDMA",
        f"DCQCN with its paper's parameters; 1 to {MOST_PAIRS} queue pairs a sender, drawn anew each {PHASES_MS[REDRAWN]} ms",
    ),
    ("TCP", f"CUBIC without ECN, {TCP_FLOWS} flows a sender"),
    ("Measured", "TCP's part of the goodput of both, less 30 %"),
)
NOTES = (
    f"ACC does not say how often queue pairs are drawn; {PHASES_MS[REDRAWN]} ms is ours, and so is {PHASES_MS[OFTENER]} ms.",
    "ACC gives no Pmax for SECN1 and SECN2. Ours is 1 % (DCQCN's paper) and 20 % (HPCC's simulator); some rows have 100 %.",
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
    files = {
        file_of(senders, pairs).format(seed=seed): flows(senders, pairs, seed)
        for senders, pairs, _, _ in CASES
        for seed in own_rate.seeds_of(options)
    }
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, files=files)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Any) -> Figure:
    return drawing.dots(evidence, BEYOND, TITLE)
