# SPDX-License-Identifier: Apache-2.0
"""Figure 9 of RL-CC: the latency of MPI_Alltoall by message size, over the best of that size (OSU benchmark, a process a node).

Open MPI polls, which virtual time does not allow. So here its schedules are a kind of traffic (traffic/collectives.py), over
queue pairs that last. As in the OSU benchmark sizes double, a first iteration of each size warms up and does not count, and the
latency is the mean over processes of the time until each has sent and received everything. The paper does not say which MPI it
used, nor how many iterations it counted; here it is one. The row "no control" has no algorithm: all flows send at line rate. In
"fresh, beta of 6" RL-CC's beta, the round trip that is free, is 6 base round trips, not 1.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, product

import numpy as np

from dc_gym.base.stats import estimate
from dc_gym.base.units import format_size, parse_size_bytes
from dc_gym.benchmarks.studies.rl_cc import cluster, common
from dc_gym.benchmarks.studies.rl_cc.cluster import COLORS, EVERYBODY, RIVALS, WHO, WHOSE
from dc_gym.benchmarks.studies.rl_cc.common import FRESH, ITERATIONS, NO_CONTROL, NO_PATIENCE, OWN, PAIRS, WINDOW
from dc_gym.results.figures import kit
from dc_gym.results.results import Result
from dc_gym.study import Claim, Evidence, Measure, Variant, VariantEvidence, alike, below
from dc_gym.study.claims import any_of, or_tied
from dc_gym.study.scaled import MS, RunLength
from dc_gym.traffic.kinds.collectives import decide, sizes

TITLE = "MPI_Alltoall by size of message: latency over the best"
SOURCE = "RL-CC, section VI, figure 9 (text only)"
LEAST, MOST, ROUNDS = 32, 1 << 20, 2
SIZES = sizes(LEAST, MOST)
LATENCIES = {size: Measure(f"alltoall_{size}_s", f"{format_size(size)} (us)", 1e6, 5) for size in SIZES}
TOLERANT, BETA = f"{FRESH}, beta of 6", 6
SLOWED, UNTOUCHED, SLOWED_BY_SWIFT = 1 << 18, 1 << 16, 1 << 17
"""The sizes from which on RL-CC is behind Swift, up to which no algorithm slows a message, and the next one, which RL-CC does not
slow either."""
PAPER_PROCESSES = 64
LENGTH, FULL = RunLength(150 * MS, 1 * MS), RunLength(2_000 * MS, 1 * MS)
APART = {
    ITERATIONS: (tuple(size for size in SIZES if size > UNTOUCHED), 20),
    FRESH: (tuple(size for size in SIZES if size >= SLOWED), 1),
    PAIRS: (tuple(size for size in SIZES if decide(PAPER_PROCESSES, size) == "pairwise"), 1),
    TOLERANT: ((MOST,), 1),
}
"""The set-ups with a run a size: their sizes, and the iterations that count. In pairs these are the sizes at which as many
processes as the paper has exchange in pairs."""
SETUPS = (WINDOW, NO_PATIENCE, ITERATIONS, FRESH, PAIRS)
ALIKE = 0.03
"""The tolerated difference from the time of no control: probes take up to 2.4 % of the line."""


def on(contestant: str, setup: str, size: int = MOST) -> str:
    """Returns the name of a contestant in a comparison of a set-up, which may leave a size as it is."""
    if setup in APART:
        return common.of_setup(contestant, setup) if size in APART[setup][0] else contestant
    return cluster.on(contestant, setup)


_ROWS = [(who, setup) for setup in (OWN, *SETUPS) for who in WHOSE.get(setup, EVERYBODY)]
_ROWS += [(NO_CONTROL, OWN), (NO_CONTROL, FRESH), (NO_CONTROL, PAIRS), ("RL-CC", TOLERANT)]
BASE = {on(who, setup): (who, setup) for who, setup in _ROWS}
"""A contestant of the page, by name: whose row it is, and the set-up."""
CONTROLLERS = {**WHO, **common.UNCONTROLLED}
ALL_COLORS = {**COLORS, NO_CONTROL: "#888888"}


def variant(title: str, contestant: str, setup: str, first: int, last: int, rounds: int) -> Variant:
    """Returns the variant of a contestant in a set-up, with the sizes from `first` to `last`, and so many iterations of each."""
    fresh, controller = setup in (FRESH, TOLERANT), CONTROLLERS[contestant]
    workload = {"kind": "alltoall", "size": f"{first}B", "largest": f"{last}B", "rounds": rounds}
    if setup == PAIRS:
        workload |= {"schedule": "pairwise"}
    parameters = {"nic.parameters": {"beta": BETA << 16}} if setup == TOLERANT else common.keys_of(controller, setup)
    network = common.sharing(common.SMALL_FABRIC) if fresh else common.SMALL_FABRIC
    keys = {"nic.queue_pairs": "flow" if fresh else "hosts", **parameters}
    return common.variant(title, controller, network, workload, keys, 0, length=LENGTH, full=FULL, color=ALL_COLORS[contestant])


def _variants() -> Iterator[Variant]:
    for title, (contestant, setup) in BASE.items():
        if setup in APART:
            apart, counted = APART[setup]
            yield from (variant(f"{title}, {format_size(size)}", contestant, setup, size, size, 1 + counted) for size in apart)
        else:
            yield variant(title, contestant, setup, LEAST, MOST, ROUNDS)


def _claims(setup: str) -> Iterator[Claim]:
    lowest = {
        size: [below(on("RL-CC", setup, size), on(rival, setup, size), LATENCIES[size]) for rival in RIVALS] for size in SIZES[1:]
    }
    text = f"RL-CC has the lowest latency at every size above {LEAST} B, or ties, and the lowest at one at least"
    yield Claim(text, SOURCE, (*map(or_tied, chain(*lowest.values())), any_of([*lowest.values()])))
    for size, criteria in lowest.items():
        yield Claim(f"RL-CC has the lowest latency at {format_size(size)}", "ours: the paper has one statement", tuple(criteria))
    behind = (below(on("DCQCN", setup, LEAST), on("RL-CC", setup, LEAST), LATENCIES[LEAST]),)
    yield Claim("RL-CC does not have it at 32 B: it cuts its rate needlessly", SOURCE, behind)


def _as_uncontrolled(subject: str, whose: Iterable[str], some: Iterable[int], setup: str = OWN, than: str | None = None) -> Claim:
    """Returns our claim that contestants of a set-up take the time of no control, of the set-up `than`, at some sizes."""
    other = setup if than is None else than
    pairs = (
        (on(contestant, setup, size), on(NO_CONTROL, other, size), LATENCIES[size]) for size, contestant in product(some, whose)
    )
    criteria = chain(*(alike(*pair, ALIKE) for pair in pairs))
    return common.ours(f"{subject} the time of no control at all (ours: within {ALIKE:.0%})", criteria)


IN_PAIRS = [(on(who, PAIRS, size), size) for size in APART[PAIRS][0][:-1] for who in ("RL-CC", "DCQCN")]
ALSO = (
    _as_uncontrolled(f"Up to {format_size(UNTOUCHED)} all take", WHO, [size for size in SIZES if size <= UNTOUCHED]),
    _as_uncontrolled(f"At {format_size(SLOWED_BY_SWIFT)} RL-CC takes", ["RL-CC"], [SLOWED_BY_SWIFT]),
    _as_uncontrolled("Afresh and without loss, at 256 and 512KiB RL-CC takes", ["RL-CC"], APART[FRESH][0][:-1], FRESH),
    common.ours(
        "In pairs Swift takes longer than RL-CC and DCQCN at 256 and 512KiB",
        (below(other, on("Swift", PAIRS, size), LATENCIES[size]) for other, size in IN_PAIRS),
    ),
    _as_uncontrolled(f"Afresh and with a beta of {BETA}, at 1MiB RL-CC takes", ["RL-CC"], [MOST], TOLERANT, FRESH),
)


def latencies(result: Result) -> dict[str, float]:
    """Returns latencies by size, at 100 Gbit/s; NaN for sizes whose iterations have not ended."""
    spec, flows = result.manifest["spec"], result.records("flows")
    scale, workload = int(spec["topology"].get("scale") or 1), spec["workload"]
    rounds = int(workload.get("rounds") or 1)
    values = {}
    for number, size in enumerate(sizes(*(parse_size_bytes(workload[key], key) for key in ("size", "largest")))):
        first = number * rounds
        counted = [_iteration_s(flows[flows["rep"] == rep]) for rep in range(first + min(1, rounds - 1), first + rounds)]
        values[LATENCIES[size].name] = float(np.mean(counted)) / scale
    return values


def _iteration_s(flows: np.ndarray) -> float:
    """Returns the mean over processes; NaN if the iteration did not end."""
    if not len(flows) or (flows["end_ns"] < 0).any():
        return float("nan")
    began_ns = int(flows["start_ns"].min())
    ends = [int(flows["end_ns"][(flows["src"] == host) | (flows["dst"] == host)].max()) for host in np.unique(flows["src"])]
    return (float(np.mean(ends)) - began_ns) / 1e9


def joined(evidence: Evidence) -> Evidence:
    """Returns the contestants of the page, with the measures of their one run or of their runs of one size each."""
    variants = {}
    for name, (contestant, setup) in BASE.items():
        apart, _ = APART.get(setup, ((), 0))
        columns = {size: LATENCIES[size].name for size in apart}
        runs = {column: evidence.values(f"{name}, {format_size(size)}", column) for size, column in columns.items()}
        if name in evidence.variants:
            variants[name] = evidence.variants[name]
        elif any(runs.values()):
            variants[name] = VariantEvidence(name, name, ALL_COLORS[contestant], runs)
    return replace(evidence, variants=variants)


def bars(evidence: Evidence, rows: common.Rows) -> None:
    """Draws bars as in the paper: each latency over the best of its size. Set-ups are in the table alone."""
    ((ax,),) = rows
    best, width = _best(evidence), 0.8 / len(WHO)
    for position, contestant in enumerate(WHO):
        values = [
            [one / best[size] for one in evidence.values(contestant, column.name).values()] for size, column in LATENCIES.items()
        ]
        estimates = [estimate(ratios) for ratios in values]
        heights = [one.mean if one else np.nan for one in estimates]
        halves = [(one.half or 0.0) if one else 0.0 for one in estimates]
        at = np.arange(len(SIZES)) + (position - (len(WHO) - 1) / 2) * width
        ax.bar(at, heights, width, yerr=halves, label=contestant, color=COLORS[contestant], error_kw={"elinewidth": 0.8})
    ax.set_xticks(range(len(SIZES)), [format_size(size) for size in SIZES], rotation=45)
    ax.set_ylabel("Latency over the best")
    ax.set_xlabel("Size of message")
    ax.axhline(1, color=kit.INK, linewidth=0.6)


def _best(evidence: Evidence) -> dict[int, float]:
    """Returns the smallest mean of the paper's contestants, by size."""
    estimates = {
        size: [estimate([*evidence.values(contestant, column.name).values()]) for contestant in WHO]
        for size, column in LATENCIES.items()
    }
    return {size: min((one.mean for one in known if one), default=np.nan) for size, known in estimates.items()}


STUDY = common.study(
    TITLE,
    SOURCE,
    list(_variants()),
    (*LATENCIES.values(), common.DROPS),
    _claims,
    common.drawing(TITLE, (9.6, 3.8), bars, len(WHO)),
    networks=(common.SMALL_FABRIC,),
    setups=SETUPS,
    also=ALSO,
    more=latencies,
    derive=joined,
    runs="alltoall",
)
