# SPDX-License-Identifier: Apache-2.0
"""Figure 2 of ACC (Yan et al., SIGCOMM 2021): which static marking is best depends on the workload.

ACC draws completion times over those of SECN0: under DataMining SECN2 is best, under WebSearch SECN1. It does not give the load,
the duration, and which completion time. Here flows arrive at 60 % of the servers' links, and the mean of all flows decides. The
mean slowdown, in which mice count as much as elephants, is beside it. Flows start for 20 ms, and sizes are cut at 10 MB, or a run
of milliseconds could not finish them. The network is preset acc24a.

With the room of ACC's rule no switch pauses a port here. In rows named "early pauses" a port is paused before SECN2 marks, at a
bound that DCQCN's paper computes and does not use (24,475 bytes), and flows arrive for three times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.benchmarks.studies.acc import common, completion
from dc_gym.benchmarks.studies.acc.common import CONTESTANTS, FABRICS, LOSSY, PFC, on, setup_of
from dc_gym.benchmarks.studies.acc.completion import CNPS, LAST_START_MS, MEAN, SLOWDOWN, TIMES, traffic
from dc_gym.figures import kit
from dc_gym.figures.axes import log_ticks
from dc_gym.study import Claim, Evidence, Measure, Study, Variant, VariantEvidence, below

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Completion times by static marking, over those of SECN0"
WORKLOADS = {"DataMining": "datamining", "WebSearch": "websearch"}
BEST = {"DataMining": "SECN2", "WebSearch": "SECN1"}
"""The paper's best."""
COLORS = {"SECN0": "#999933", "SECN1": "#CC6677", "SECN2": "#332288"}
BASE, *RIVALS = COLORS
LOAD = 0.6
EARLY, EARLY_LAST_START_MS = "early pauses", 60
EARLY_XOFF_BYTES = 12_000_000 // (8 * 32) - 22_400
"""Where a port's class is paused: an equal share of 12 MB for 8 classes of 32 ports, less what comes in after the pause (Zhu et
al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015, section 4). That paper computes it as the largest static
bound of its switches, and then takes a dynamic one, since pauses come before marks with it."""
SETUPS: Mapping[str, Mapping[str, Any]] = {**FABRICS, EARLY: {**FABRICS[PFC], "topology.xoff": f"{EARLY_XOFF_BYTES}B"}}
LENGTHS_MS = {**dict.fromkeys(FABRICS, (100, LAST_START_MS)), EARLY: (160, EARLY_LAST_START_MS)}
"""Duration of a run, and when its last flow may start.
"""
SHORT_TITLES = {each.name: each.title.partition(" (")[0] for each in TIMES}
RATIOS = {name: Measure(f"{name}_ratio", f"{title}, over SECN0's", digits=3) for name, title in SHORT_TITLES.items()}


def name(workload: str, marking: str, fabric: str = LOSSY) -> str:
    return f"{on(workload, fabric)}, {marking}"


VARIANTS = tuple(
    Variant(
        name(workload, marking, fabric),
        {**network, **CONTESTANTS[marking], **traffic(distribution, LOAD, *LENGTHS_MS[fabric])},
        color,
    )
    for fabric, network in SETUPS.items()
    for workload, distribution in WORKLOADS.items()
    for marking, color in COLORS.items()
)
CLAIMS = tuple(
    Claim(
        f"{workload}: {best} is best (mean of all flows)",
        "ACC, figure 2 (text only)",
        tuple(below(name(workload, best, fabric), name(workload, other, fabric), MEAN) for other in COLORS if other != best),
        setup=setup_of(fabric),
    )
    for fabric in SETUPS
    for workload, best in BEST.items()
)


def with_ratios(evidence: Evidence) -> Evidence:
    """Adds completion times over those of SECN0, seed by seed."""
    made = {}
    for workload, fabric, marking in product(WORKLOADS, SETUPS, COLORS):
        who, base = name(workload, marking, fabric), name(workload, BASE, fabric)
        ratios = {}
        for of, ratio in RATIOS.items():
            bases = evidence.values(base, of)
            ratios[ratio.name] = {seed: value / bases[seed] for seed, value in evidence.values(who, of).items() if seed in bases}
        if who in evidence.variants:
            made[who] = replace(evidence.variants[who], numbers={**evidence.variants[who].numbers, **ratios})
    return replace(evidence, variants=made)


def _figure(evidence: Evidence) -> Figure:
    """Draws a panel per fabric and workload, and in it a group of bars per completion time, which begin at SECN0's."""
    with kit.style():
        canvas = kit.new_figure(9.6, 9.6)
        axes = canvas.subplots(len(SETUPS), len(WORKLOADS), sharex=True, sharey="row")
        for ax, (fabric, workload) in zip(axes.flat, product(SETUPS, WORKLOADS), strict=True):
            ax.axhline(1, color=COLORS[BASE], linewidth=1.5, label=BASE)
            for place, marking in enumerate(RIVALS):
                if who := evidence.variants.get(name(workload, marking, fabric)):
                    _bars(ax, who, place, marking)
            titles = [each.replace(" up", "\nup").replace(" from", "\nfrom") for each in SHORT_TITLES.values()]
            ax.set_xticks(range(len(titles)), titles)
            ax.tick_params(axis="x", labelsize=7)
            ax.set_title(f"{workload}, {fabric} (the paper's best: {BEST[workload]})", loc="left")
            if fabric == EARLY:
                ax.set_yscale("log")
                log_ticks(ax, "y", 0.0)
        for ax in axes[:, 0]:
            ax.set_ylabel("Over SECN0's")
        kit.legend_below(canvas, axes[0, 0], len(COLORS))
        kit.title(canvas, TITLE)
    return canvas


def _bars(ax: Axes, who: VariantEvidence, place: int, label: str) -> None:
    width = 0.6 / len(RIVALS)
    found = [who.estimate(each.name) for each in RATIOS.values()]
    at = np.arange(len(found)) + (place - (len(RIVALS) - 1) / 2) * width
    above = [0.0 if each is None else each.mean - 1 for each in found]
    halves = [0.0 if each is None or each.half is None else each.half for each in found]
    ax.bar(at, above, width, bottom=1, yerr=halves, color=who.color, label=label, error_kw={"linewidth": 0.8})


STUDY = Study(
    title=TITLE,
    source="ACC, figure 2 (text only)",
    variants=VARIANTS,
    measures=(*TIMES, SLOWDOWN, *RATIOS.values(), common.FLOWS, common.UNFINISHED, common.PAUSES, CNPS, common.DROPPED),
    measure=completion.measure,
    derive=with_ratios,
    claims=CLAIMS,
    draw=_figure,
    facts=common.FACTS,
    runs="static-markings",
)
