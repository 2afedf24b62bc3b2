# SPDX-License-Identifier: Apache-2.0
"""Figure 9 of RL-CC: the latency of MPI_Alltoall by message size, over the best of that size (OSU benchmark, one process per
node).

Open MPI polls, which virtual time does not allow. So here its schedules are a kind of traffic (traffic/collectives.py), over
queue pairs that last. As in the OSU benchmark sizes double, a first iteration of each size warms up and does not count, and the
latency is the mean over processes of the time until each has sent and received everything. The paper does not say which MPI it
used, nor how many iterations it counted. One iteration counts here; in rows named "20 iterations" large sizes have a run each,
and 20 count.

The row "no control" has no algorithm: all flows send at line rate. Hypothesis: up to 64 KiB no algorithm slows the flows, so that
all contestants take the time of that row, and none can be faster than another.

In rows named "fresh" each message has a queue pair of its own, and switches have a shared buffer, in which nothing is lost.
Hypothesis: at 256 and 512 KiB RL-CC is behind Swift for the rates that queue pairs keep from the iteration before, and for what
flows lose that begin at line rate.

In rows named "in pairs" a process sends to one other at a time from 256 KiB on (Open MPI's pairwise exchange). So would the
paper's 64 processes; with 16, as here, Open MPI sends all messages at once. Hypothesis, from seed 11: in pairs Swift is behind
RL-CC at 256 and 512 KiB, and has the longest time of all.

The row "fresh, beta of 6" changes RL-CC's beta alone, the round trip that is free, from 1.5 to 6 base round trips. Hypothesis,
from seed 11: at 1 MiB RL-CC cuts at queues that last for a moment, and that Swift tolerates; with that beta it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.base.stats import estimate
from dc_gym.base.units import format_size, parse_size_bytes
from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import COLORS, RIVALS, WHO, WHOSE
from dc_gym.benchmarks.studies.rl_cc.common import ITERATIONS, NO_CONTROL, NO_PATIENCE, OWN, WINDOW
from dc_gym.figures import kit
from dc_gym.records.results import Result
from dc_gym.study.claims import Claim, Explanation, alike, below
from dc_gym.study.evidence import VariantEvidence, Evidence, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.scaled import MS, RunLength
from dc_gym.traffic.collectives import decide, sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "MPI_Alltoall by size of message: latency over the best"
SOURCE = "RL-CC, section VI, figure 9 (text only)"
LEAST, MOST, ROUNDS = 32, 1 << 20, 2
SIZES = sizes(LEAST, MOST)
LATENCIES = {size: Measure(f"alltoall_{size}_s", f"{format_size(size)} (us)", 1e6, 5) for size in SIZES}
COLUMNS = (*LATENCIES.values(), common.DROPS)
COUNTED, ITERATED = 20, tuple(size for size in SIZES if size >= 1 << 17)
"""The iterations that count in rows of the variant with a run a size, and its sizes. No algorithm slows smaller messages: all
their iterations take the same time."""
FRESH, SLOWED = "fresh", tuple(size for size in SIZES if size >= 1 << 18)
"""The variant whose messages begin afresh and lose nothing, and its sizes: those at which RL-CC is behind Swift."""
EXPLAINED = SLOWED[:-1]
"""The sizes at which that explains why."""
TOLERANT, BETA = f"{FRESH}, beta of 6", 6
"""The variant of RL-CC that explains the largest size: the round trip that is free, in base round trips."""
TOLERANT_KEYS = {"nic.parameters": {"beta": BETA << 16}}
PAIRS, PAPER_PROCESSES = "in pairs", 64
"""The variant with the schedule of as many processes as the paper has, and its sizes: those at which that schedule is another."""
PAIRED = tuple(size for size in SIZES if decide(PAPER_PROCESSES, size) == "pairwise")
FRESH_NOTE = (
    f"In rows named fresh each size from {format_size(SLOWED[0])} on has a run of its own, each message has a queue pair of its"
    " own, which begins at line rate, and switches have the shared buffer of a Spectrum-2. In others queue pairs last, with the"
    " rates that they had."
)
PAIRS_NOTE = (
    f"In rows named in pairs each size from {format_size(PAIRED[0])} on has a run of its own, in which a process sends to one"
    f" other at a time, as Open MPI's {PAPER_PROCESSES} do. In others all its messages are under way at once, as with 16."
)
VARIANTS = (WINDOW, NO_PATIENCE, ITERATIONS, FRESH, PAIRS)
APART = {ITERATIONS: (ITERATED, COUNTED), FRESH: (SLOWED, 1), PAIRS: (PAIRED, 1), TOLERANT: ((MOST,), 1)}
"""The variants with a run a size: their sizes, and the iterations that count."""
UNTOUCHED, SLOWED_BY_SWIFT = 1 << 16, 1 << 17
"""The largest message that no algorithm slows, and the next one, which RL-CC does not slow either."""
ALIKE = 0.03
"""The tolerated difference from that row: probes take up to 2.4 % of the line."""


def on(who: str, variant: str, size: int = MOST) -> str:
    """Returns the name of a contestant in a comparison of a variant, which may leave a size as it is."""
    if variant in APART:
        return common.of_variant(who, variant) if size in APART[variant][0] else who
    return cluster.on(who, variant)


BASE = {on(who, variant): (who, variant) for variant in (OWN, *VARIANTS) for who in WHOSE.get(variant, tuple(WHO))}
BASE |= {on(NO_CONTROL, variant): (NO_CONTROL, variant) for variant in (OWN, FRESH, PAIRS)}
BASE |= {on("RL-CC", TOLERANT): ("RL-CC", TOLERANT)}
"""A contestant of the page, by name: whose row it is, and the variant."""
CONTROLLERS = {**WHO, **common.UNCONTROLLED}
ALL_COLORS = {**COLORS, NO_CONTROL: "#888888"}


def run_name(who: str, size: int) -> str:
    """Returns the name of the run with one size."""
    return f"{who}, {format_size(size)}"


def _row(title: str, who: str, variant: str, first: int, last: int, rounds: int) -> common.Row:
    fresh = variant in (FRESH, TOLERANT)
    workload = {"kind": "alltoall", "size": f"{first}B", "largest": f"{last}B", "rounds": rounds}
    if variant == PAIRS:
        workload |= {"schedule": "pairwise"}
    own = TOLERANT_KEYS if variant == TOLERANT else common.keys_of(CONTROLLERS[who], variant)
    return common.Row(
        title,
        CONTROLLERS[who],
        common.sharing(common.SMALL_FABRIC) if fresh else common.SMALL_FABRIC,
        workload,
        length=RunLength(150 * MS, 1 * MS),
        full=RunLength(2_000 * MS, 1 * MS),
        values={"nic.queue_pairs": "flow" if fresh else "hosts", **own},
        color=ALL_COLORS[who],
        lines=0,
        full_network=common.sharing(common.FABRIC) if fresh else common.FABRIC,
        variant=variant,
    )


ROWS = [_row(title, who, variant, LEAST, MOST, ROUNDS) for title, (who, variant) in BASE.items() if variant not in APART]
SIZE_ROWS = [
    _row(run_name(title, size), who, variant, size, size, 1 + APART[variant][1])
    for title, (who, variant) in BASE.items()
    if variant in APART
    for size in APART[variant][0]
]


NOTHING_TO_CONTROL = Explanation(
    hypothesis="up to 64 KiB no algorithm slows the flows, so that none can be faster than another",
    experiment=f"the row `{NO_CONTROL}` of dcgym reproduce rl-cc figure-9, whose flows send at line rate always",
    page="docs/reproduce-rl-cc.md#mpi_alltoall-by-size-figure-9",
    showed=f"up to 64 KiB each contestant takes the time of that row, within {ALIKE:.0%}",
)


NOT_SLOWED_BY_RL_CC = replace(
    NOTHING_TO_CONTROL,
    hypothesis=f"at {format_size(SLOWED_BY_SWIFT)} neither RL-CC nor, with most seeds, DCQCN slows the flows, so that neither can"
    " be faster",
    showed=f"RL-CC takes the time of that row, within {ALIKE:.0%}, and DCQCN does with four seeds of five; Swift is slower",
)
KEPT_RATES = Explanation(
    hypothesis="the rates that queue pairs keep from the iteration before, and what flows lose that begin at line rate, put RL-CC"
    " behind Swift",
    experiment=f"the rows named `{FRESH}` of dcgym reproduce rl-cc figure-9",
    page="docs/reproduce-rl-cc.md#mpi_alltoall-by-size-figure-9",
    showed="without either RL-CC takes the time of no control, within 0.5 %, as DCQCN does but for one seed, so that neither can"
    " be ahead; Swift takes 0.6 to 6 % more than RL-CC, with every seed (seeds 1 to 5; found on seed 11)",
)
IN_PAIRS = Explanation(
    hypothesis=f"{PAPER_PROCESSES} processes exchange in pairs from {format_size(PAIRED[0])} on, and there Swift is slow; the"
    " 16 here send all messages at once",
    experiment=f"the rows named `{PAIRS}` of dcgym reproduce rl-cc figure-9, which change the schedule alone",
    page="docs/reproduce-rl-cc.md#mpi_alltoall-by-size-figure-9",
    showed="Swift then takes 950 and 2023 us at 256 and 512 KiB, RL-CC 864 and 1707, DCQCN 851 and 1727 (seeds 1 to 5; found on"
    " 11). If 1.1 times the best one's time is allowed, RL-CC masters it and Swift does not, as in the paper; nor does DCQCN (1"
    " MiB)",
)
"""Why Swift masters MPI_Alltoall here (Table V)."""
CUTS_EARLY = Explanation(
    hypothesis="RL-CC cuts at queues that last for a moment and that Swift tolerates, whose target is a longer delay",
    experiment=f"the row named `{TOLERANT}` of dcgym reproduce rl-cc figure-9, which changes RL-CC's beta alone (1.5)",
    page="docs/reproduce-rl-cc.md#mpi_alltoall-by-size-figure-9",
    showed=f"with a beta of {BETA} RL-CC takes the time of no control, within 0.4 %, and Swift 3.5 to 5.2 % more with every seed:"
    " 2605, 2610 and 2714 us (means of seeds 1 to 5; found on seed 11); with 1.5 RL-CC takes 3557",
)
EXPLANATIONS = (
    {size: NOTHING_TO_CONTROL for size in SIZES if size <= UNTOUCHED}
    | {SLOWED_BY_SWIFT: NOT_SLOWED_BY_RL_CC}
    | dict.fromkeys(EXPLAINED, KEPT_RATES)
    | {MOST: CUTS_EARLY}
)


def _claims(variant: str) -> Iterator[Claim]:
    for size in SIZES[1:]:
        criteria = tuple(below(on("RL-CC", variant, size), on(each, variant, size), LATENCIES[size]) for each in RIVALS)
        explanation = EXPLANATIONS.get(size)
        yield Claim(f"RL-CC has the lowest latency at {format_size(size)}", SOURCE, criteria, explanation=explanation)
    criteria = (below(on("DCQCN", variant, LEAST), on("RL-CC", variant, LEAST), LATENCIES[LEAST]),)
    yield Claim("RL-CC does not have it at 32 B: it cuts its rate needlessly", SOURCE, criteria)


def _as_uncontrolled(what: str, whose: Iterable[str], some: Iterable[int], variant: str = OWN, than: str | None = None) -> Claim:
    """Returns our claim that contestants of a variant take the time of no control, of the variant `than`, at some sizes."""
    other = variant if than is None else than
    pairs = ((on(who, variant, size), on(NO_CONTROL, other, size), size) for size, who in product(some, whose))
    return Claim(
        f"{what} the time of no control at all (ours: within {ALIKE:.0%})",
        "docs/reproduce-rl-cc.md",
        tuple(criterion for who, other, size in pairs for criterion in alike(who, other, LATENCIES[size], ALIKE)),
        ours=True,
    )


CLAIMS = (
    *common.with_variants(VARIANTS, _claims),
    _as_uncontrolled(f"Up to {format_size(UNTOUCHED)} all take", WHO, [size for size in SIZES if size <= UNTOUCHED]),
    _as_uncontrolled(f"At {format_size(SLOWED_BY_SWIFT)} RL-CC takes", ["RL-CC"], [SLOWED_BY_SWIFT]),
    _as_uncontrolled("Afresh and without loss, at 256 and 512KiB RL-CC takes", ["RL-CC"], EXPLAINED, FRESH),
    Claim(
        "In pairs Swift takes longer than RL-CC and DCQCN at 256 and 512KiB",
        "docs/reproduce-rl-cc.md",
        tuple(
            below(on(who, PAIRS, size), on("Swift", PAIRS, size), LATENCIES[size])
            for size in PAIRED[:-1]
            for who in ("RL-CC", "DCQCN")
        ),
        ours=True,
    ),
    _as_uncontrolled(f"Afresh and with a beta of {BETA}, at 1MiB RL-CC takes", ["RL-CC"], [MOST], TOLERANT, FRESH),
)


def latencies(result: Result) -> dict[str, float]:
    """Returns latencies by size, at 100 Gbit/s; NaN for sizes whose iterations have not ended."""
    spec, flows = result.manifest["spec"], result.records("flows")
    scale, workload = int(spec["topology"].get("scale") or 1), spec["workload"]
    rounds = int(workload.get("rounds") or 1)
    found = {}
    for number, size in enumerate(sizes(*(parse_size_bytes(workload[key], key) for key in ("size", "largest")))):
        first = number * rounds
        counted = [_iteration_s(flows[flows["rep"] == rep]) for rep in range(first + min(1, rounds - 1), first + rounds)]
        found[LATENCIES[size].name] = float(np.mean(counted)) / scale
    return found


def _iteration_s(flows: np.ndarray) -> float:
    """Returns the mean over processes; NaN if the iteration did not end."""
    if not len(flows) or (flows["end_ns"] < 0).any():
        return float("nan")
    began_ns = int(flows["start_ns"].min())
    ends = [int(flows["end_ns"][(flows["src"] == host) | (flows["dst"] == host)].max()) for host in np.unique(flows["src"])]
    return (float(np.mean(ends)) - began_ns) / 1e9


def run(options: StudyOptions, progress: Progress) -> Findings:
    rows = [*ROWS, *SIZE_ROWS]
    measured = common.run("alltoall", rows, options, progress, latencies)
    evidence = replace(measured, variants={name: joined(name, measured) for name in BASE})
    return common.findings(TITLE, rows, options, evidence, COLUMNS, CLAIMS, _figure(evidence), [FRESH_NOTE, PAIRS_NOTE])


def joined(name: str, evidence: Evidence) -> VariantEvidence:
    """Returns a contestant with the quantities of its run, or those of its runs with one size each."""
    if name in evidence.variants:
        return evidence.variants[name]
    sizes_of_runs, _ = APART[BASE[name][1]]
    runs = {LATENCIES[size].name: evidence.variants[run_name(name, size)] for size in sizes_of_runs}
    numbers = {column: run.numbers.get(column, {}) for column, run in runs.items()}
    return VariantEvidence(name, name, ALL_COLORS[BASE[name][0]], numbers)


def _figure(evidence: Evidence) -> Figure:
    """Draws bars as in the paper: each latency over the best of its size. Variants are in the table alone."""
    with kit.style():
        canvas = kit.new_figure(9.6, 3.8)
        ax = canvas.subplots()
        shown = [each for who, each in evidence.variants.items() if who in WHO]
        width = 0.8 / len(shown)
        best = _best(evidence)
        for place, each in enumerate(shown):
            found = [
                estimate([value / best[size] for value in each.numbers.get(column.name, {}).values()])
                for size, column in LATENCIES.items()
            ]
            heights = [one.mean if one else np.nan for one in found]
            halves = [(one.half or 0.0) if one else 0.0 for one in found]
            at = np.arange(len(SIZES)) + (place - (len(shown) - 1) / 2) * width
            ax.bar(at, heights, width, yerr=halves, label=each.name, color=each.color, error_kw={"elinewidth": 0.8})
        ax.set_xticks(range(len(SIZES)), [format_size(size) for size in SIZES], rotation=45)
        ax.set_ylabel("Latency over the best")
        ax.set_xlabel("Size of message")
        ax.axhline(1, color=kit.INK, linewidth=0.6)
        kit.legend_below(canvas, ax, len(WHO))
        kit.title(canvas, TITLE)
    return canvas


def _best(evidence: Evidence) -> dict[int, float]:
    """Returns the smallest mean of the paper's contestants, by size."""
    means = {size: [evidence.variants[who].estimate(column.name) for who in WHO] for size, column in LATENCIES.items()}
    return {size: min((one.mean for one in known if one), default=np.nan) for size, known in means.items()}
