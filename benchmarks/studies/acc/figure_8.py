# SPDX-License-Identifier: Apache-2.0
"""Figure 8 of ACC (Yan et al., SIGCOMM 2021): TCP beside RDMA at one port, whose scheduler gives RDMA 70 % and TCP 30 %.

ACC: 8 servers on one switch at 100 Gbit/s, 2 and 7 senders to one, 1 to 32 queue pairs at random. Static marking lets TCP take 10
to 20 % more than its share. ACC gives neither the TCP, nor how many flows it has, nor how often queue pairs are drawn.

Here TCP is CUBIC without ECN, two flows from each sender, and each sender's queue pairs are drawn anew every 3 ms. Beside that
stand the same senders with a number of queue pairs that does not change: the scheduler then keeps the shares. The scheduler
leaves no time unused, so TCP gets the time that RDMA does not use.

Choices of ours have rows of their own, on which ACC's claims are judged once more: how often queue pairs are drawn (also each 2
ms), Pmax of SECN1 and SECN2 (also 100 %), and the number of pairs that a draw changes. In rows named "kept" a draw only begins or
ends as many queue pairs as it has more or fewer than the one before; all others stay. In rows named "thresholds of 25 Gbit/s"
SECN2's thresholds do not grow with the link's rate. Runs of rows "kept" take 60 ms instead of 30. The ports share 12 MB.

RDMA's round trips are those of WRITEs of one byte in its class, of which the first sender begins one each 100 us. They tell what
waits in the switch and, under a pause, in the sender. Rows of ACC begin with SECN1; its agents set the marking of RDMA's class.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, PAUSED, PAUSES, RIVALS, TRAINED
from dc_gym.results.results import Result, number
from dc_gym.study import OURS, Claim, Measure, Study, Variant, above, below, less_than, more_than

SOURCE = "ACC, figure 8 (text only)"
TCP_PERCENT, RDMA_PERCENT = 30, 70
SENDERS = (2, 7)
COLORS = {"SECN0": "#332288", "SECN1": "#CC6677", "SECN2": "#999933"}
AGENT = {key: value for key, value in CONTESTANTS[TRAINED].items() if key != "topology.marking"}
AGENT |= {"agent.actuators": "s1-*:rdma:marking"}
DCQCNS = "SECN1"
"""DCQCN's own setting, which is the figure's static marking."""
REDRAWN, STEADY, OFTENER, LATE, KEPT = "redrawn", "steady", "redrawn each 2 ms", "steady, from 15 ms on", "kept"
PHASES_MS = {REDRAWN: 3, OFTENER: 2, KEPT: 2}
"""The time for which a draw holds."""
PING_US = 100
MOST_PAIRS, STEADY_PAIRS = 32, 16
"""Queue pairs of a sender: at most, and where their number does not change."""
USUAL_DURATION_MS, DURATION_MS = 30, {KEPT: 60}
"""The length of a run. Two senders' draws differ much by chance, so there are more of them in the rows KEPT."""
USUAL_WARMUP_MS, WARMUP_MS = 3, {LATE: 15}
"""The beginning of a run that is not measured."""
OWN_MARKING, FULL_PMAX, OF_25G = "", "Pmax 100 %", "thresholds of 25 Gbit/s"
CHANGED_MARKING: Mapping[str, Mapping[str, Any]] = {
    OWN_MARKING: {},
    FULL_PMAX: {"pmax": "100%"},
    OF_25G: {"marking": "red-instant", "kmin": "100kB", "kmax": "400kB", "pmax": "20%"},
}
"""Keys of the marking of RDMA's class that differ from ACC's."""
TCP_FLOWS = 2
"""TCP flows of a sender."""
TCP_DSCP, RDMA_DSCP = 10, 26
BEYOND = Measure("beyond", "TCP beyond its share (points)", 100, 3)
RDMA = Measure("rdma_bps", "RDMA (Gbit/s)", 1e-9, 3)
TCP = Measure("tcp_bps", "TCP (Gbit/s)", 1e-9, 3)
OFF = Measure("off", "TCP off its share, either way (points)", 100, 3)
RTT, RTT_P99 = Measure("rtt_s", "RDMA's RTT (us)", 1e6, 3), Measure("rtt_p99_s", "its 99th percentile (us)", 1e6, 3)
NEAR = 0.02
OWN_SETUPS = {
    "": (REDRAWN, OWN_MARKING, tuple(COLORS)),
    "draws each 2 ms": (OFTENER, OWN_MARKING, tuple(COLORS)),
    "Pmax 100 %": (REDRAWN, FULL_PMAX, RIVALS),
    "draws each 2 ms, Pmax 100 %": (OFTENER, FULL_PMAX, RIVALS),
    "queue pairs kept": (KEPT, OWN_MARKING, tuple(COLORS)),
    "queue pairs kept, thresholds of 25 Gbit/s": (KEPT, OF_25G, ("SECN2",)),
}
"""Set-ups on which ACC's claims are judged, all but the first counted apart: queue pairs, marking, which of ACC's markings."""
CASES = [
    *product(SENDERS, (REDRAWN, STEADY), COLORS, [OWN_MARKING]),
    *((senders, REDRAWN, TRAINED, OWN_MARKING) for senders in SENDERS),
    *((senders, pairs, one, how) for pairs, how, of in [*OWN_SETUPS.values()][1:] for senders, one in product(SENDERS, of)),
    (max(SENDERS), LATE, "SECN0", OWN_MARKING),
]
"""Senders, queue pairs, ACC's marking and the changes to it."""


def name(senders: int, pairs: str, marking: str, changed: str = OWN_MARKING) -> str:
    return ", ".join(filter(None, (f"{senders}:1", pairs, changed, marking)))


def file_of(senders: int, pairs: str) -> str:
    return f"{pairs.replace(', ', ' ').replace(' ', '-')}-{senders}-s{{seed}}.csv"


def flows(senders: int, pairs: str, seed: int) -> str:
    """Returns the queue pairs of each sender in each phase, drawn by the seed, as a list of flows."""
    spans = [*_spans(pairs, draws(senders, pairs, seed))]
    pairs_of = ((sender, 8, port, f"{start / 1e3:g},{stop / 1e3:g},0") for port, (sender, start, stop) in enumerate(spans))
    at_us = range(USUAL_WARMUP_MS * 1000, (duration_ms(pairs) - 1) * 1000, PING_US) if pairs == REDRAWN else ()
    pings = ((1, 8, port, f"{start_us / 1e6:g},0,1") for port, start_us in enumerate(at_us, len(spans)))
    return common.flow_list((*pairs_of, *pings))


def draws(senders: int, pairs: str, seed: int) -> list[list[int]]:
    """Returns how many queue pairs each sender has in each phase."""
    chance = random.Random(f"{senders} senders, seed {seed}")
    phases = range(0, duration_ms(pairs), PHASES_MS.get(pairs, duration_ms(pairs)))
    return [[chance.randint(1, MOST_PAIRS) if pairs in PHASES_MS else STEADY_PAIRS for _ in range(senders)] for _ in phases]


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


def _variant(senders: int, pairs: str, marking: str, changed: str) -> Variant:
    marks = {"marking": DCQCNS.lower() if marking == TRAINED else marking.lower(), **CHANGED_MARKING[changed]}
    beside = {"kind": "many_to_one", "transport": "tcp", "dscp": TCP_DSCP, "senders": senders, "flows": TCP_FLOWS * senders}
    return Variant(
        name(senders, pairs, marking, changed),
        {
            **(AGENT if marking == TRAINED else {}),
            **({"topology.marks_at": "departure"} if changed == OF_25G else {}),
            "topology.classes": [
                {"name": "tcp", "dscp": [TCP_DSCP], "weight": TCP_PERCENT, "marking": "none"},
                {"name": "rdma", "dscp": [RDMA_DSCP], "weight": RDMA_PERCENT, "lossless": True, **marks},
            ],
            "workload.beside": [beside],
            **common.sampled(duration_ms(pairs), 100, 1, WARMUP_MS.get(pairs, USUAL_WARMUP_MS)),
        },
        COLORS.get(marking, common.COLORS[TRAINED]),
        by_seed={"workload.file": file_of(senders, pairs)},
    )


def _claims() -> Iterator[Claim]:
    for setup, (pairs, changed, markings) in OWN_SETUPS.items():
        for senders, marking in product(SENDERS, markings):
            row = name(senders, pairs, marking, changed)
            words = f"{senders}:1, {marking}: TCP takes more than its share by 10 to 20 points"
            source = SOURCE if marking == DCQCNS else "ours: the figure has DCQCN's own setting alone"
            yield Claim(words, source, (more_than(row, BEYOND, 0.1), less_than(row, BEYOND, 0.2)), setup)
    for senders in SENDERS:
        acc, static = (name(senders, REDRAWN, marking) for marking in (TRAINED, DCQCNS))
        yield Claim(f"{senders}:1: with ACC TCP is nearer to its share", SOURCE, (below(acc, static, OFF),))
        rtts = tuple(below(acc, static, of) for of in (RTT, RTT_P99))
        yield Claim(f"{senders}:1: with ACC RDMA's RTT is shorter, mean and 99th percentile", SOURCE, rtts)
        steady, redrawn = ({marking: name(senders, pairs, marking) for marking in COLORS} for pairs in (STEADY, REDRAWN))
        steady_text = f"with {STEADY_PAIRS} queue pairs that stay, TCP is within {NEAR:.0%} of its share"
        near = (less_than(row, BEYOND, NEAR) for row in steady.values())
        beyond = (above(redrawn[marking], steady[marking], BEYOND) for marking in ("SECN0", "SECN1"))
        yield Claim(f"{senders}:1: it is the redrawing: {steady_text} (ours)", OURS, (*near, *beyond))


def measure(result: Result) -> dict[str, float]:
    """Returns the goodput of each transport in the window, and RDMA's round trips, if there are WRITEs that tell them."""
    goodput = {str(row["transport"]): number(row["goodput_bps"]) for row in result.summary["classes"]}
    beyond = goodput["tcp"] / (goodput["tcp"] + goodput["rdma"]) - TCP_PERCENT / 100
    shares = {BEYOND.name: beyond, OFF.name: abs(beyond), RDMA.name: goodput["rdma"], TCP.name: goodput["tcp"]}
    flows = result.records("flows")
    pings = flows[(flows["size_bytes"] == 1) & (flows["end_ns"] >= 0)]
    rtts_s = (pings["end_ns"] - pings["start_ns"]) / 1e9 if len(pings) else np.array([np.nan])
    rtts = {RTT.name: float(rtts_s.mean()), RTT_P99.name: float(np.percentile(rtts_s, 99))}
    return {**shares, **rtts, **common.pauses(result)}


STUDY = Study(
    title="TCP beside RDMA under 70:30: what TCP takes beyond its share",
    source=SOURCE,
    base={
        "topology.kind": "single",
        "topology.hosts": 8,
        "topology.rate": "100Gbit/s",
        "topology.delay": "550ns",
        **PAUSED,
        "topology.shared_buffer": "12MB",
        **common.NICS_100G,
        "controller.tcp": "cubic",
        "workload.kind": "matrix",
        "workload.transport": "rdma",
        "workload.dscp": RDMA_DSCP,
        "workload.jitter": "20us",
    },
    variants=[_variant(*case) for case in CASES],
    files=partial(common.drawn, {file_of(*case[:2]): partial(flows, *case[:2]) for case in CASES}),
    measures=(BEYOND, OFF, RTT, RTT_P99, RDMA, TCP, PAUSES),
    measure=measure,
    claims=[*_claims()],
    facts=common.FACTS,
    runs="rdma-beside-tcp",
)
