# SPDX-License-Identifier: Apache-2.0
"""Figure 2 of ACC (Yan et al., SIGCOMM 2021): which static marking is best depends on the workload.

ACC draws completion times over those of SECN0: under DataMining SECN2 is best, under WebSearch SECN1. It does not give the load,
the duration, and which completion time. Here flows arrive at 60 % of the servers' links, and the mean of all flows decides. The
mean slowdown, in which mice count as much as elephants, is beside it.

With the room of ACC's rule no switch pauses a port here. In rows named "early pauses" a port is paused before SECN2 marks, at a
bound that DCQCN's paper computes and does not use, and flows arrive for three times as long. Hypothesis, from seed 11: SECN1 is
best under WebSearch where ports are paused before SECN2 marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.base.readable import sentence
from dc_gym.study import collect
from dc_gym.benchmarks.studies.acc.common import FABRICS, FACTS, LOSSY, NOTE, PAUSES, PFC, on, variant
from dc_gym.study.collect import Variant
from dc_gym.figures import kit
from dc_gym.figures.axes import log_ticks
from dc_gym.records.results import Result, number
from dc_gym.study.claims import Claim, Explanation, below
from dc_gym.study.evidence import VariantEvidence, Evidence, Floats, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Completion times by static marking, over those of SECN0"
SOURCE = "ACC, figure 2 (text only)"
NAME = "static-markings"
WORKLOADS = {"DataMining": "datamining", "WebSearch": "websearch"}
BEST = {"DataMining": "SECN2", "WebSearch": "SECN1"}
"""The paper's best."""
MARKINGS = {"SECN0": "secn0", "SECN1": "secn1", "SECN2": "secn2"}
COLORS = {"SECN0": "#999933", "SECN1": "#CC6677", "SECN2": "#332288"}
LOAD, DURATION_MS, LAST_START_MS, LARGEST = 0.6, 100, 20, "10MB"
EARLY, EARLY_DURATION_MS, EARLY_LAST_START_MS = "early pauses", 160, 60
EARLY_XOFF_BYTES = 12_000_000 // (8 * 32) - 22_400
"""Where a port's class is paused: an equal share of 12 MB for 8 classes of 32 ports, less what comes in after the pause (Zhu et
al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 4). That paper computes it as the largest static
bound of its switches, and then takes a dynamic one, since pauses come before marks with it."""
SETUPS: Mapping[str, Mapping[str, Any]] = {**FABRICS, EARLY: {**FABRICS[PFC], "topology.xoff": f"{EARLY_XOFF_BYTES}B"}}
LENGTHS_MS = {**dict.fromkeys(FABRICS, (DURATION_MS, LAST_START_MS)), EARLY: (EARLY_DURATION_MS, EARLY_LAST_START_MS)}
"""Duration of a run, and when its last flow may start."""
MICE_BYTES, ELEPHANT_BYTES = 100_000, 1_000_000
BASE = "SECN0"
RIVALS = tuple(marking for marking in MARKINGS if marking != BASE)
MEAN = Measure("fct_s", "mean FCT (ms)", 1e3, 3)
TAIL = Measure("fct_p99_s", "99th percentile (ms)", 1e3, 3)
MICE = Measure("mice_s", "mean FCT up to 100 kB (us)", 1e6, 3)
MICE_TAIL = Measure("mice_p99_s", "99th percentile up to 100 kB (us)", 1e6, 3)
ELEPHANTS = Measure("elephants_s", "mean FCT from 1 MB on (ms)", 1e3, 3)
SLOWDOWN = Measure("slowdown", "mean slowdown", digits=4)
MEASURED = (MEAN, TAIL, MICE, MICE_TAIL, ELEPHANTS)
SHORT_TITLES = {each.name: each.title.partition(" (")[0] for each in MEASURED}
RATIOS = {name: Measure(f"{name}_ratio", f"{title}, over SECN0's", digits=3) for name, title in SHORT_TITLES.items()}
LINE_BPS, BASE_NS = 25 * 10**9, 7270
"""A server's line, and the base round trip between racks (`dcgym topology acc24a`)."""
FLOWS, UNFINISHED = Measure("flows", "flows"), Measure("unfinished", "unfinished")
DROPPED, CNPS = Measure("drops", "frames dropped"), Measure("cnps", "CNPs")


def name(workload: str, marking: str, fabric: str = LOSSY) -> str:
    return f"{on(workload, fabric)}, {marking}"


def traffic(distribution: str, load: float, duration_ms: int, last_start_ms: int = LAST_START_MS) -> dict[str, Any]:
    """Returns the keys of flows of a distribution, of which all count that start until `last_start_ms`."""
    return {
        "workload.kind": "poisson",
        "workload.distribution": distribution,
        "workload.truncate": LARGEST,
        "workload.load": load,
        "workload.last_start": f"{last_start_ms}ms",
        "metrics.cutoff": f"{last_start_ms}ms",
        "time.duration": f"{duration_ms}ms",
        "time.warmup": "0s",
        "monitor.interval": "100us",
        "monitor.tcp_interval": "10ms",
    }


ROWS = [
    Variant(
        name(workload, marking, fabric),
        {
            **network,
            "topology.marking": MARKINGS[marking],
            **traffic(distribution, LOAD, *LENGTHS_MS[fabric]),
        },
        COLORS[marking],
    )
    for fabric, network in SETUPS.items()
    for workload, distribution in WORKLOADS.items()
    for marking in MARKINGS
]
NO_PAUSES = Explanation(
    hypothesis="SECN1 is best where ports are paused before SECN2 marks, and here no port is ever paused",
    experiment=f"the rows `{EARLY}` of dcgym reproduce acc figure-2 --seeds 10",
    page="docs/reproduce-acc.md#figure-2",
    showed="paused at 24.5 kB SECN1 is best with each of ten seeds (3.61 ms, SECN2 4.04, SECN0 5.04; five do not decide; found on"
    " seed 11). SECN2 then has 95 CNPs a run, SECN1 3,841. Under DataMining SECN1 is best, too, so this is not ACC's set-up",
)
CLAIMS = tuple(
    Claim(
        f"{workload}: {best} is best (mean of all flows)",
        SOURCE,
        tuple(below(name(workload, best, fabric), name(workload, other, fabric), MEAN) for other in MARKINGS if other != best),
        why="load, duration, DCQCN's parameters, the buffer, and SECN1's and SECN2's Pmax are not given",
        variant=variant(fabric),
        explanation=NO_PAUSES if best == "SECN1" and fabric != EARLY else None,
    )
    for fabric in SETUPS
    for workload, best in BEST.items()
)
NOTES = (
    NOTE,
    f"Scaled: flows start for {LAST_START_MS} ms, with early pauses for {EARLY_LAST_START_MS} ms; sizes are cut at {LARGEST}, or"
    " a run of milliseconds could not finish them.",
    "SECN1's and SECN2's Pmax are ours (1 % as in DCQCN's paper, 20 % as in HPCC's simulator): ACC gives none.",
)


def alone_ns(size_bytes: np.ndarray) -> Floats:
    """Returns the time of lone flows between racks: their frames on a server's line, and the base round trip."""
    found: Floats = own_rate.wire_bytes(size_bytes) * 8 * 1e9 / LINE_BPS + BASE_NS
    return found


def measure(result: Result) -> dict[str, float]:
    """Returns completion times of the flows that ended, and how many did not."""
    flows = result.records("flows")
    started = flows[flows["start_ns"] >= 0]
    ended = started[started["end_ns"] >= 0]
    took_s, size = (ended["end_ns"] - ended["start_ns"]) / 1e9, ended["size_bytes"]
    mice, elephants = took_s[size <= MICE_BYTES], took_s[size >= ELEPHANT_BYTES]

    def mean(values: np.ndarray) -> float:
        return float(values.mean()) if len(values) else float("nan")

    def tail(values: np.ndarray) -> float:
        return float(np.percentile(values, 99)) if len(values) else float("nan")

    return {
        MEAN.name: mean(took_s),
        TAIL.name: tail(took_s),
        MICE.name: mean(mice),
        MICE_TAIL.name: tail(mice),
        ELEPHANTS.name: mean(elephants),
        SLOWDOWN.name: mean(took_s * 1e9 / alone_ns(size)),
        FLOWS.name: float(len(started)),
        UNFINISHED.name: float(len(started) - len(ended)),
        DROPPED.name: float(result.records("queues")["drops"][-len(result.ports) :].sum()),
        PAUSES.name: number(result.summary.get("pauses")),
        CNPS.name: number(result.summary.get("nic_cnps")),
    }


def with_ratios(evidence: Evidence) -> Evidence:
    """Adds completion times over those of SECN0, seed by seed."""
    made = {}
    for workload, fabric in product(WORKLOADS, SETUPS):
        base = evidence.variants[name(workload, BASE, fabric)].numbers
        for marking in MARKINGS:
            each = evidence.variants[name(workload, marking, fabric)]
            made[each.name] = replace(each, numbers={**each.numbers, **_ratios(each.numbers, base)})
    return replace(evidence, variants=made)


def _ratios(numbers: Mapping[str, Mapping[int, float]], base: Mapping[str, Mapping[int, float]]) -> dict[str, dict[int, float]]:
    return {
        ratio.name: {seed: value / base[of][seed] for seed, value in numbers[of].items() if seed in base[of]}
        for of, ratio in RATIOS.items()
    }


def run(options: StudyOptions, progress: Progress) -> Findings:
    evidence = with_ratios(own_rate.run(NAME, ROWS, options, progress, measure))
    told = f"flows of the distribution at {LOAD:.0%} of each server's link, to uniformly drawn others, for {LAST_START_MS} ms,"
    told += f" with early pauses for {EARLY_LAST_START_MS} ms"
    columns = (*MEASURED, SLOWDOWN, *RATIOS.values(), FLOWS, UNFINISHED, PAUSES, CNPS, DROPPED)
    early = f"PFC, and a port is paused at {EARLY_XOFF_BYTES} bytes, before SECN2 marks"
    facts = (*FACTS, ("Early pauses", early), ("Traffic", told))
    return own_rate.findings(TITLE, facts, options, evidence, columns, CLAIMS, _figure(evidence), NOTES)


def _figure(evidence: Evidence) -> Figure:
    """Draws a panel per fabric and workload, and in it a group of bars per completion time, which begin at SECN0's."""
    with kit.style():
        canvas = kit.new_figure(9.6, 9.6)
        axes = canvas.subplots(len(SETUPS), len(WORKLOADS), sharex=True, sharey="row")
        for ax, (fabric, workload) in zip(axes.flat, product(SETUPS, WORKLOADS), strict=True):
            ax.axhline(1, color=COLORS[BASE], linewidth=1.5, label=BASE)
            for place, marking in enumerate(RIVALS):
                _bars(ax, evidence.variants[name(workload, marking, fabric)], place, marking)
            titles = [SHORT_TITLES[each.name].replace(" up", "\nup").replace(" from", "\nfrom") for each in MEASURED]
            ax.set_xticks(range(len(MEASURED)), titles)
            ax.tick_params(axis="x", labelsize=7)
            ax.set_title(f"{workload}, {fabric} (the paper's best: {BEST[workload]})", loc="left")
            if fabric == EARLY:
                ax.set_yscale("log")
                log_ticks(ax, "y", 0.0)
        for ax in axes[:, 0]:
            ax.set_ylabel(sentence("over SECN0's"))
        kit.legend_below(canvas, axes[0, 0], len(MARKINGS))
        kit.title(canvas, TITLE)
    return canvas


def _bars(ax: Axes, who: VariantEvidence, place: int, label: str) -> None:
    width = 0.6 / len(RIVALS)
    found = [who.estimate(RATIOS[each.name].name) for each in MEASURED]
    at = np.arange(len(MEASURED)) + (place - (len(RIVALS) - 1) / 2) * width
    above = [0.0 if each is None else each.mean - 1 for each in found]
    halves = [0.0 if each is None or each.half is None else each.half for each in found]
    ax.bar(at, above, width, bottom=1, yerr=halves, color=who.color, label=label, error_kw={"linewidth": 0.8})
