# SPDX-License-Identifier: Apache-2.0
"""Figure 9 of RL-CC: the latency of MPI_Alltoall by message size, over the best of that size (OSU benchmark, one process per
node).

Open MPI polls, which virtual time does not allow. So here its schedules are a kind of traffic (traffic/collectives.py), over
queue pairs that last. As in the OSU benchmark sizes double, a first iteration of each size warms up and does not count, and the
latency is the mean over processes of the time until each has sent and received everything. The paper does not say which MPI it
used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.base.stats import estimate
from dc_gym.base.units import format_size
from dc_gym.benchmarks.papers.rlcc import common
from dc_gym.benchmarks.papers.rlcc.cluster import ALL, COLORS, RIVALS, VARIANT_OF, WHO, on
from dc_gym.benchmarks.papers.rlcc.common import NO_PATIENCE, OWN, PCC
from dc_gym.figures import kit
from dc_gym.records.results import Result
from dc_gym.reproduce.claims import Claim, below
from dc_gym.reproduce.evidence import Evidence, Quantity
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.reproduce.scaled import MS, RunLength
from dc_gym.traffic.collectives import sizes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "MPI_Alltoall by size of message: latency over the best"
SOURCE = "RL-CC, section VI, figure 9 (text only)"
LEAST, MOST, ROUNDS = 32, 1 << 20, 2
SIZES = sizes(LEAST, MOST)
LATENCIES = {size: Quantity(f"alltoall_{size}_s", f"{format_size(size)} (us)", 1e6, 5) for size in SIZES}
COLUMNS = (*LATENCIES.values(), common.DROPS)
VARIANTS = (PCC, NO_PATIENCE)
CONTESTANTS = tuple(who for who in ALL if who in WHO or VARIANT_OF.get(who) in VARIANTS)
HATCHES = {PCC: "///", NO_PATIENCE: "..."}
"""The hatches of bars by variant."""
ROWS = [
    common.Row(
        who,
        ALL[who],
        common.SMALL_FABRIC,
        {"kind": "alltoall", "size": f"{LEAST}B", "largest": f"{MOST}B", "rounds": ROUNDS},
        length=RunLength(150 * MS, 1 * MS),
        full=RunLength(2_000 * MS, 1 * MS),
        values={"nic.queue_pairs": "hosts", **common.PRESETS.get(VARIANT_OF.get(who, OWN), {})},
        color=COLORS[who],
        lines=0,
        full_network=common.FABRIC,
        variant=VARIANT_OF.get(who, OWN),
    )
    for who in CONTESTANTS
]


def _claims(variant: str) -> Iterator[Claim]:
    ours = on("RL-CC", variant)
    for size in SIZES[1:]:
        criteria = tuple(below(ours, on(each, variant), LATENCIES[size]) for each in RIVALS)
        yield Claim(f"RL-CC has the lowest latency at {format_size(size)}", SOURCE, criteria)
    criteria = (below("DCQCN", ours, LATENCIES[LEAST]),)
    yield Claim("RL-CC does not have it at 32 B: it cuts its rate needlessly", SOURCE, criteria)


CLAIMS = common.with_variants(VARIANTS, _claims)


def latencies(result: Result) -> dict[str, float]:
    """Returns latencies by size, at 100 Gbit/s; NaN for sizes whose iterations have not ended."""
    spec, flows = result.manifest["spec"], result.records("flows")
    scale, rounds = int(spec["topology"].get("scale") or 1), int(spec["workload"].get("rounds") or 1)
    found = {}
    for number, column in enumerate(LATENCIES.values()):
        first = number * rounds
        counted = [_iteration_s(flows[flows["rep"] == rep]) for rep in range(first + min(1, rounds - 1), first + rounds)]
        found[column.name] = float(np.mean(counted)) / scale
    return found


def _iteration_s(flows: np.ndarray) -> float:
    """Returns the mean over processes; NaN if the iteration did not end."""
    if not len(flows) or (flows["end_ns"] < 0).any():
        return float("nan")
    began_ns = int(flows["start_ns"].min())
    ends = [int(flows["end_ns"][(flows["src"] == host) | (flows["dst"] == host)].max()) for host in np.unique(flows["src"])]
    return (float(np.mean(ends)) - began_ns) / 1e9


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = common.run("alltoall", ROWS, options, progress, latencies)
    return common.findings(TITLE, ROWS, options, evidence, COLUMNS, CLAIMS, _figure(evidence))


def _figure(evidence: Evidence) -> Figure:
    """Draws bars as in the paper: each latency over the best of its size."""
    with kit.style():
        canvas = kit.new_figure(9.6, 3.8)
        ax = canvas.subplots()
        shown = [each for who, each in evidence.contenders.items() if who in CONTESTANTS]
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
            hatch = HATCHES.get(VARIANT_OF.get(each.name, OWN))
            look: dict[str, Any] = {"color": each.color, "hatch": hatch, "edgecolor": "white" if hatch else None}
            ax.bar(at, heights, width, yerr=halves, label=each.name, error_kw={"elinewidth": 0.8}, **look)
        ax.set_xticks(range(len(SIZES)), [format_size(size) for size in SIZES], rotation=45)
        ax.set_ylabel("Latency over the best")
        ax.set_xlabel("Size of message")
        ax.axhline(1, color=kit.INK, linewidth=0.6)
        kit.legend_below(canvas, ax, len(shown))
        kit.title(canvas, TITLE)
    return canvas


def _best(evidence: Evidence) -> dict[int, float]:
    """Returns the smallest mean of the paper's contestants, by size."""
    means = {size: [evidence.contenders[who].estimate(column.name) for who in WHO] for size, column in LATENCIES.items()}
    return {size: min((one.mean for one in known if one), default=np.nan) for size, known in means.items()}
