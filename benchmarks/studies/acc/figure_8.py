# SPDX-License-Identifier: Apache-2.0
"""Figure 8 of ACC (Yan et al., SIGCOMM 2021): TCP beside RDMA at one port, whose scheduler gives RDMA 70 % and TCP 30 %.

ACC: 8 servers on one switch at 100 Gbit/s, 2 and 7 senders to one, 1 to 32 queue pairs at random. Static marking lets TCP take
10 to 20 % more than its share. ACC gives neither the TCP, nor how many flows it has, nor how often queue pairs are drawn.

Here TCP is CUBIC without ECN, two flows from each sender, and each sender's queue pairs are drawn anew every 3 ms. Beside that
stand the same senders with a number of queue pairs that does not change: the scheduler then keeps the shares. The scheduler
leaves no time unused, so TCP gets what RDMA does not ask for.

Choices of ours have rows of their own, on which ACC's claims are judged once more: how often queue pairs are drawn (also each
2 ms), Pmax of SECN1 and SECN2 (also 100 %), and what a draw changes. In rows named "kept" a draw only begins or ends as many
queue pairs as it has more or fewer than the one before; all others stay. Hypothesis, from seed 1: TCP then takes 10 to 20 points
with SECN0 and SECN1, from 2 and from 7 senders. In rows named "thresholds of 25 Gbit/s" SECN2's thresholds do not grow with the
link's rate. Hypothesis, from seed 1: then TCP takes as much with SECN2.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from dc_gym.base.progress import Progress
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc.common import NICS, PAUSED, PAUSES
from dc_gym.study.collect import Variant
from dc_gym.records.results import Result, number
from dc_gym.study import drawing
from dc_gym.study.claims import Claim, Explanation, above, less_than, more_than
from dc_gym.study.evidence import Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "TCP beside RDMA under 70:30: what TCP takes beyond its share"
SOURCE = "ACC, figure 8 (text only)"
NAME = "rdma-beside-tcp"
TCP_PERCENT, RDMA_PERCENT = 30, 70
SENDERS = (2, 7)
MARKINGS = {"SECN0": "secn0", "SECN1": "secn1", "SECN2": "secn2"}
COLORS = {"SECN0": "#332288", "SECN1": "#CC6677", "SECN2": "#999933"}
REDRAWN, STEADY, OFTENER, LATE, KEPT = "redrawn", "steady", "redrawn each 2 ms", "steady, from 15 ms on", "kept"
PHASES_MS = {REDRAWN: 3, OFTENER: 2, KEPT: 2}
"""The time for which a draw holds."""
MOST_PAIRS = 32
"""Queue pairs of a sender at most."""
USUAL_DURATION_MS, DURATION_MS = 30, {KEPT: 60}
"""The length of a run. Two senders' draws differ much by chance, so there are more of them in the rows KEPT."""
USUAL_WARMUP_MS, WARMUP_MS = 3, {LATE: 15}
"""The beginning of a run that is not measured."""
OWN_MARKING, FULL_PMAX, OF_25G = "", "Pmax 100 %", "thresholds of 25 Gbit/s"
CHANGED_MARKING: Mapping[str, Mapping[str, Any]] = {
    FULL_PMAX: {"pmax": "100%"},
    OF_25G: {"marking": "red-instant", "kmin": "100kB", "kmax": "400kB", "pmax": "20%"},
}
"""Keys of the marking of RDMA's class that differ from ACC's."""
START_SENDERS = 7
"""The senders of the case that is measured LATE as well."""
STEADY_PAIRS = 16
TCP_FLOWS = 2
"""TCP flows of a sender."""
TCP_DSCP, RDMA_DSCP = 10, 26
BEYOND = Measure("beyond", "TCP beyond its share (points)", 100, 3)
RDMA = Measure("rdma_bps", "RDMA (Gbit/s)", 1e-9, 3)
TCP = Measure("tcp_bps", "TCP (Gbit/s)", 1e-9, 3)
COLUMNS = (BEYOND, RDMA, TCP, PAUSES)
NEAR = 0.02


def name(senders: int, pairs: str, marking: str, changed: str = OWN_MARKING) -> str:
    return ", ".join(filter(None, (f"{senders}:1", pairs, changed, marking)))


def file_of(senders: int, pairs: str) -> str:
    """Returns the name of the file with the flows of a seed, which stands in it as `{seed}`."""
    return f"{pairs.replace(', ', ' ').replace(' ', '-')}-{senders}-s{{seed}}.csv"


def flows(senders: int, pairs: str, seed: int) -> str:
    """Returns the queue pairs of each sender in each phase, drawn by the seed, as a list of flows."""
    rows = ["source,destination,port,start,stop,size"]
    for sender, start_ms, stop_ms in _spans(pairs, draws(senders, pairs, seed)):
        rows.append(f"h{sender},h8,{5000 + len(rows)},{start_ms / 1e3:g},{stop_ms / 1e3:g},0")
    return "\n".join(rows) + "\n"


def draws(senders: int, pairs: str, seed: int) -> list[list[int]]:
    """Returns how many queue pairs each sender has in each phase."""
    chance = random.Random(f"{senders} senders, seed {seed}")
    drawn = pairs in PHASES_MS
    phases = range(0, duration_ms(pairs), PHASES_MS.get(pairs, duration_ms(pairs)))
    return [[chance.randint(1, MOST_PAIRS) if drawn else STEADY_PAIRS for _ in range(senders)] for _ in phases]


def duration_ms(pairs: str) -> int:
    return DURATION_MS.get(pairs, USUAL_DURATION_MS)


def _spans(pairs: str, counts: Sequence[Sequence[int]]) -> Iterator[tuple[int, int, int]]:
    """Yields sender, start and stop in ms of each queue pair."""
    end_ms = duration_ms(pairs)
    phase_ms = PHASES_MS.get(pairs, end_ms)
    under_way: dict[int, list[int]] = {}
    for phase, of_phase in enumerate(counts):
        now_ms = phase * phase_ms
        for sender, count in enumerate(of_phase, 1):
            starts = under_way.setdefault(sender, [])
            for _ in range(len(starts) - (count if pairs == KEPT else 0)):
                yield sender, starts.pop(), now_ms
            starts += [now_ms] * (count - len(starts))
    for sender, starts in under_way.items():
        yield from ((sender, start_ms, end_ms) for start_ms in starts)


def _values(senders: int, pairs: str, marking: str, changed: str) -> dict[str, Any]:
    marks = {"marking": MARKINGS[marking], **CHANGED_MARKING.get(changed, {})}
    return {
        "topology.kind": "single",
        "topology.hosts": 8,
        "topology.rate": "100Gbit/s",
        "topology.delay": "550ns",
        **PAUSED,
        **({"topology.marks_at": "departure"} if changed == OF_25G else {}),
        "topology.classes": [
            {"name": "tcp", "dscp": [TCP_DSCP], "weight": TCP_PERCENT, "marking": "none"},
            {"name": "rdma", "dscp": [RDMA_DSCP], "weight": RDMA_PERCENT, "lossless": True, **marks},
        ],
        **NICS,
        "controller.tcp": "cubic",
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
        "time.duration": f"{duration_ms(pairs)}ms",
        "time.warmup": f"{WARMUP_MS.get(pairs, USUAL_WARMUP_MS)}ms",
        "monitor.interval": "100us",
        "monitor.tcp_interval": "1ms",
    }


VARIANTS = {
    "draws each 2 ms": (OFTENER, OWN_MARKING, tuple(MARKINGS)),
    "Pmax 100 %": (REDRAWN, FULL_PMAX, ("SECN1", "SECN2")),
    "draws each 2 ms, Pmax 100 %": (OFTENER, FULL_PMAX, ("SECN1", "SECN2")),
    "queue pairs kept": (KEPT, OWN_MARKING, tuple(MARKINGS)),
    "queue pairs kept, thresholds of 25 Gbit/s": (KEPT, OF_25G, ("SECN2",)),
}
"""Choices of ours on which ACC's claims are judged once more: queue pairs, marking, and which of ACC's markings."""
CASES = [
    *product(SENDERS, (REDRAWN, STEADY), MARKINGS, [OWN_MARKING]),
    *((senders, *each) for pairs, how, of in VARIANTS.values() for senders in SENDERS for each in product([pairs], of, [how])),
    (START_SENDERS, LATE, "SECN0", OWN_MARKING),
]
ROWS = [Variant(name(*case), _values(*case), COLORS[case[2]], by_seed={"workload.file": file_of(*case[:2])}) for case in CASES]
PAGE = "docs/reproduce-acc.md#figure-8"
REDRAWING = Explanation(
    hypothesis="new queue pairs begin at line rate, are cut and recover slowly: RDMA's class runs empty, and TCP gets its time",
    experiment="the rows `steady` of dcgym reproduce acc figure-8",
    page=PAGE,
    showed=f"with {STEADY_PAIRS} queue pairs that stay, TCP is within 2.4 points of its share with every marking",
    of_success=True,
)
CHANGES = Explanation(
    hypothesis="how much TCP takes depends on how many queue pairs begin anew, and how often: here all of them, each 3 ms",
    experiment="the rows `kept` of dcgym reproduce acc figure-8, in which a draw each 2 ms only begins or ends the difference",
    page=PAGE,
    showed="TCP then takes 11 to 18 points with SECN0 and SECN1, with 2 and with 7 senders (five seeds)",
)
THRESHOLDS = Explanation(
    hypothesis="SECN2's thresholds grow with the link's rate, to 400 and 1600 kB, so that RDMA's class rarely runs empty",
    experiment=f"the rows `kept, {OF_25G}` of dcgym reproduce acc figure-8, beside `kept`",
    page=PAGE,
    showed="with 100 and 400 kB TCP takes 10.3 to 14.2 points, with 400 and 1600 kB 1.3 to 7.8 (five seeds)",
)
START = Explanation(
    hypothesis="the window still has the end of the flows' start, in which 112 of them are cut at once",
    experiment=f"the row `{name(START_SENDERS, LATE, 'SECN0')}` of dcgym reproduce acc figure-8",
    page=PAGE,
    showed="from 15 ms on TCP takes 1.3 points beyond its share with SECN0 and 7:1, instead of 2.3 from 3 ms on (3 seeds)",
)
HELD = (7, "SECN0")
"""The claim that holds as judged first."""


def _takes_more(senders: int, pairs: str, marking: str, changed: str, variant: str = "") -> Claim:
    row = name(senders, pairs, marking, changed)
    return Claim(
        f"{senders}:1, {marking}: TCP takes more than its share by 10 to 20 points",
        SOURCE,
        (more_than(row, BEYOND, 0.1), less_than(row, BEYOND, 0.2)),
        why="ACC does not give the TCP, its flows, how queue pairs change, and SECN1's and SECN2's Pmax",
        explanation=_explanation(senders, marking, variant),
        variant=variant,
    )


def _explanation(senders: int, marking: str, variant: str) -> Explanation:
    if marking == "SECN2":
        return THRESHOLDS
    return REDRAWING if (senders, marking) == HELD and not variant else CHANGES


CLAIMS = (
    *(_takes_more(senders, REDRAWN, marking, OWN_MARKING) for senders, marking in product(SENDERS, MARKINGS)),
    *(
        _takes_more(senders, pairs, marking, changed, variant)
        for variant, (pairs, changed, markings) in VARIANTS.items()
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
    f"In rows named {KEPT!r} queue pairs that two draws share stay; draws come each {PHASES_MS[KEPT]} ms, a run lasts"
    f" {DURATION_MS[KEPT]} ms.",
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


def run(options: StudyOptions, progress: Progress) -> Findings:
    files = {
        file_of(senders, pairs).format(seed=seed): flows(senders, pairs, seed)
        for senders, pairs, _, _ in CASES
        for seed in own_rate.seeds_of(options)
    }
    evidence = own_rate.run(NAME, ROWS, options, progress, measure, files=files)
    return own_rate.findings(TITLE, FACTS, options, evidence, COLUMNS, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Any) -> Figure:
    return drawing.dots(evidence, BEYOND, TITLE)
