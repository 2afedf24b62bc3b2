# SPDX-License-Identifier: Apache-2.0
"""Figure 1 of ACC (Yan et al., SIGCOMM 2021): the best marking threshold K depends on the incast.

ACC: for 8 senders with 32 flows each the best K is 500 KB, for 15 senders with 8 flows each it is 50 KB. It does not give the
meaning of "best", the sizes of flows, and the duration. Here flows have no end, and the best K is the smallest one that leaves at
least 99 % of the largest goodput over all K: a longer queue than that gains nothing. The table has goodput and queue of each K.

A run takes 60 ms, of which the last 40 count; starts are spread over 100 us. The network is preset acc24a.

Ports mark packets as they arrive. In a third set-up they mark them as they depart, as HPCC's simulator does, on which ACC's is
built. The list of K is finer there: without 60 and 80 kB both incasts would have 100 kB with some seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from typing import Any

from dc_gym.benchmarks.studies.acc import common
from dc_gym.benchmarks.studies.acc.common import DROPPED, FABRICS, LOSSY, PAUSES, PFC, QUEUE, on, setup_of
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Evidence, Measure, Study, Variant, VariantLine, above, less_than, more_than, series
from dc_gym.study.evidence import of_seeds, with_variants

TITLE = "The best marking threshold by incast"
SOURCE = "ACC, figure 1 (text only)"
KB = 1000
THRESHOLDS_KB = (20, 50, 100, 200, 500, 1000)
FINER_KB = (20, 50, 60, 80, 100, 200, 500, 1000)
DEPARTING = f"{PFC}, marks at departure"
SETUPS: Mapping[str, Mapping[str, Any]] = {**FABRICS, DEPARTING: {**FABRICS[PFC], "topology.marks_at": "departure"}}
INCASTS = {"8 x 32": (8, 32), "15 x 8": (15, 8)}
"""Senders, and flows of each."""
PAPER_KB, COLORS = {"8 x 32": 500, "15 x 8": 50}, {"8 x 32": "#332288", "15 x 8": "#CC6677"}
LOOKS = {LOSSY: ("o", "-"), PFC: ("s", "--"), DEPARTING: ("^", ":")}
"""Marker and line by set-up."""
ENOUGH = 0.99
NEAR = 1.5
"""A best K counts as the paper's within this factor."""
GOODPUT = Measure("goodput", "goodput (of the line)", digits=3)
EMPTY = Measure("empty_share", "queue empty (% of the time)", 100, 3)
BEST = Measure("best_k_bytes", "best K (kB)", 1e-3, 3)


def name(incast: str, threshold_kb: int, setup: str = LOSSY) -> str:
    return f"{on(incast, setup)}, K {threshold_kb} kB"


def thresholds_kb(setup: str) -> tuple[int, ...]:
    return FINER_KB if setup == DEPARTING else THRESHOLDS_KB


def _claims(setup: str) -> Iterator[Claim]:
    for incast, best_kb in PAPER_KB.items():
        words = f"{incast}: the best K is {best_kb} kB (ours: within a factor of {NEAR})"
        variant, near = on(incast, setup), (best_kb * KB / NEAR, best_kb * KB * NEAR)
        yield Claim(words, SOURCE, (more_than(variant, BEST, near[0]), less_than(variant, BEST, near[1])), setup_of(setup))
    higher = above(on("8 x 32", setup), on("15 x 8", setup), BEST)
    yield Claim("Fewer senders with more flows need a higher K", SOURCE, (higher,), setup_of(setup))


def measure(result: Result) -> dict[str, float]:
    """Returns goodput and queues, and the share of sweeps in the last two thirds of a run that find the longest queue empty."""
    backlog = result.records("queues")["backlog_bytes"].reshape(-1, len(result.ports))
    late = backlog[len(backlog) // 3 :, [port["side"] == "switch" for port in result.ports]]
    return {
        GOODPUT.name: number(result.summary["goodput_bps"]) / common.LINE_BPS,
        QUEUE.name: number(result.summary["mean_queue_bytes"]),
        DROPPED.name: number(result.summary["drops"]),
        **common.pauses(result),
        EMPTY.name: float((late[:, late.mean(axis=0).argmax()] == 0).mean()),
    }


def best(evidence: Evidence, incast: str, setup: str = LOSSY) -> dict[int, float]:
    """Returns the best K of an incast in bytes, for each seed that has all K."""
    all_kb = thresholds_kb(setup)

    def least(*goodputs: float) -> float:
        return float(KB * min(k_kb for k_kb, goodput in zip(all_kb, goodputs, strict=True) if goodput >= ENOUGH * max(goodputs)))

    return of_seeds(least, *(evidence.values(name(incast, k_kb, setup), GOODPUT.name) for k_kb in all_kb))


def with_best(evidence: Evidence) -> Evidence:
    """Adds the incasts themselves as variants, with their best K."""
    rows = []
    for setup, incast in product(SETUPS, INCASTS):
        row = Variant(on(incast, setup), {}, COLORS[incast], paper={BEST.name: float(PAPER_KB[incast] * KB)})
        rows.append(row.evidence({BEST.name: best(evidence, incast, setup)}))
    return with_variants(evidence, rows)


LINES = [
    VariantLine(
        f"{incast} flows, {setup} (the paper's best K: {PAPER_KB[incast]} KB)",
        COLORS[incast],
        {float(threshold_kb): name(incast, threshold_kb, setup) for threshold_kb in thresholds_kb(setup)},
        *LOOKS[setup],
    )
    for setup, incast in product(SETUPS, INCASTS)
]
STUDY = Study(
    title=TITLE,
    source=SOURCE,
    base={
        "topology.marking": "step",
        "workload.kind": "many_to_one",
        "workload.jitter": "100us",
        **common.sampled(60, 20, 1, 20),
    },
    variants=[
        Variant(
            name(incast, threshold_kb, setup),
            {
                **network,
                "topology.k_bytes": threshold_kb * KB,
                "workload.senders": senders,
                "workload.flows": senders * per_sender,
            },
            COLORS[incast],
        )
        for setup, network in SETUPS.items()
        for incast, (senders, per_sender) in INCASTS.items()
        for threshold_kb in thresholds_kb(setup)
    ],
    measures=(GOODPUT, QUEUE, EMPTY, PAUSES, DROPPED, BEST),
    measure=measure,
    derive=with_best,
    claims=[claim for setup in SETUPS for claim in _claims(setup)],
    draw=partial(series.figure, series=LINES, columns=(GOODPUT, QUEUE), xlabel="K (kB)", title=TITLE),
    facts=common.FACTS,
    runs="best-k",
)
