# SPDX-License-Identifier: Apache-2.0
"""Figure 6.3 of FDCC (K. Zhang, MSc thesis 2023): slowdown, pauses and unfairness by percentile, n to one in the fat-tree.

The runs are table 6.1's, with 48, 192 and 768 flows from three racks to a host of the fourth, and some more. The thesis' text
says that FDCC is the fairest, that it pauses least, and that telemetry in each frame makes it and HPCC slower. It does not define
its percentiles of unfairness; here unfairness is the distance between a flow's rate and the mean of all flows, over that mean.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dc_gym.benchmarks.studies.fdcc import common, n_to_one, table_6_1
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, DCQCN, FDCC, HPCC, PAUSED, RIVALS, UNFINISHED, Change
from dc_gym.benchmarks.studies.fdcc.n_to_one import SLOWDOWN, SMALL, TOGETHER, name, standalone_ns
from dc_gym.benchmarks.studies.fdcc.table_6_1 import COUNTS, LINKS, MOST_FLOWS, SENDERS
from dc_gym.results.figures import kit
from dc_gym.results.results import Result
from dc_gym.study import OURS, Claim, Evidence, Floats, Measure, Study, Track, above, below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "n flows from three racks to the fourth: slowdown, pauses and unfairness by percentile"
SOURCE = "FDCC, figure 6.3 (text only)"
FIRST = Change("first window of a packet", {"nic.parameters.window_initial": 2**22})  # 1/16 BDP: the least in force is a packet
TOGETHER_CHANGES = {48: (TOGETHER, SMALL), 192: (TOGETHER,)}
CHANGED = [(who, flows, changes) for flows, changes in TOGETHER_CHANGES.items() for who in CONTESTANTS]
CHANGED += [(FDCC, MOST_FLOWS, (FIRST,))]
VARIANTS = [
    *table_6_1.PLAIN,
    *(n_to_one.variant(who, flows, SENDERS, common.FAT_TREE, *changes, tracks=0) for who, flows, changes in CHANGED),
]
PERCENTILES = (0.0, 1.0, *map(float, range(10, 100, 10)), 99.0, 100.0)
DIGITS = 3  # of a percentile that is drawn
BY_SLOWDOWN = Measure("slowdown", "slowdown")
BY_PAUSE = Measure("paused", "paused (% of life)", 100)
BY_DISTANCE = Measure("distance", "distance from mean rate (%)", 100)
DRAWN = (BY_SLOWDOWN, BY_PAUSE, BY_DISTANCE)
MEASURED = (("slowdown", 50), ("slowdown", 99), ("paused", 99), ("distance", 50), ("distance", 99))
"""The measured quantity and its percentile."""
MIDDLE = Measure("slowdown_p50", "slowdown, median", digits=4)
TAIL = Measure("slowdown_p99", "99th percentile", digits=4)
PAUSED_TAIL = Measure("paused_p99", "paused, 99th percentile (%)", 100, 3)
DISTANCE = Measure("distance_p50", "distance from mean rate, median (%)", 100, 3)
DISTANCE_TAIL = Measure("distance_p99", "99th percentile (%)", 100, 3)
_claim = partial(n_to_one.compared, SOURCE)


def _fairest(flows: int, *changes: Change) -> Claim:
    how = (dict.fromkeys(CONTESTANTS, changes), common.named(changes=changes))
    text = f"{flows} flows: FDCC is the fairest (median and 99th percentile)"
    return _claim(text, below, FDCC, RIVALS, (DISTANCE, DISTANCE_TAIL), [flows], *how)


CLAIMS = (
    *(_fairest(flows) for flows in COUNTS),
    *(_fairest(flows, *changes) for flows, changes in TOGETHER_CHANGES.items()),
    _claim(f"{MOST_FLOWS} flows: FDCC's flows are paused least", below, FDCC, RIVALS, [PAUSED], [MOST_FLOWS]),
    Claim(
        f"{MOST_FLOWS} flows: with a first window of a packet FDCC's flows are paused for less than a tenth of the time",
        OURS,
        (below(name(FDCC, MOST_FLOWS, FIRST), name(FDCC, MOST_FLOWS), PAUSED, 0.1),),
    ),
    Claim(
        "48 flows: FDCC's and HPCC's flows take longer than DCQCN's (telemetry in each frame)",
        SOURCE,
        tuple(above(name(who, 48), name(DCQCN, 48), SLOWDOWN) for who in (FDCC, HPCC)),
    ),
)


def spread(result: Result) -> dict[str, Floats]:
    """Returns slowdown, share of life paused, and distance from the mean rate of each flow; nothing if a flow did not end."""
    flows, derived = result.records("flows"), result.derived("flow_metrics")
    if derived is None or (flows["end_ns"] < 0).any():
        return {}
    took_ns, size_bytes = (flows["end_ns"] - flows["start_ns"]).astype(float), int(flows["size_bytes"][0])
    rates = size_bytes / took_ns
    return {
        BY_SLOWDOWN.name: took_ns / standalone_ns(size_bytes, LINKS),
        BY_PAUSE.name: np.asarray(derived["paused_share"].to_numpy(), dtype=float)[: len(flows)],
        BY_DISTANCE.name: np.abs(rates / rates.mean() - 1),
    }


def measure(result: Result) -> dict[str, float]:
    """Returns means and percentiles over the flows of a run; of flows that did not all end, how many did not."""
    values = {UNFINISHED.name: float((result.records("flows")["end_ns"] < 0).sum())}
    if spreads := spread(result):
        values |= {SLOWDOWN.name: float(spreads["slowdown"].mean()), PAUSED.name: float(spreads["paused"].mean())}
        values |= {f"{of}_p{percent}": float(np.percentile(spreads[of], percent)) for of, percent in MEASURED}
    return values


def track(result: Result) -> Track:
    """Returns percentiles of each quantity, over the flows of a run."""
    rows = {name: np.percentile(values, PERCENTILES) for name, values in spread(result).items()}
    rounded = {name: np.array([float(f"{value:.{DIGITS}g}") for value in row]) for name, row in rows.items()}
    return Track(np.array(PERCENTILES), rounded)


def _figure(evidence: Evidence) -> Figure:
    """Draws percentiles: a row of panels for each number of flows, a column for each quantity (means over seeds)."""
    with kit.style({"axes.grid.axis": "both"}):
        canvas = kit.new_figure(10.4, 8.2)
        panels = canvas.subplots(len(COUNTS), len(DRAWN), squeeze=False)
        for across, flows in zip(panels, COUNTS, strict=True):
            for ax, quantity in zip(across, DRAWN, strict=True):
                known = {
                    contestant: evidence.variants[name(contestant, flows)]
                    for contestant in CONTESTANTS
                    if name(contestant, flows) in evidence.variants
                }
                for contestant, variant in known.items():
                    tracks = [one.values[quantity.name] for one in variant.over_time.values() if quantity.name in one.values]
                    if tracks:
                        ax.plot(PERCENTILES, np.mean(tracks, axis=0) * quantity.factor, color=variant.color, label=contestant)
                ax.set_title(f"{flows} flows: {quantity.title}", loc="left")
        for ax in panels[-1]:
            ax.set_xlabel("Percentile of flows")
        kit.legend_below(canvas, panels[0][0], len(CONTESTANTS))
        kit.title(canvas, TITLE)
    return canvas


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    variants=VARIANTS,
    measures=(SLOWDOWN, MIDDLE, TAIL, PAUSED, PAUSED_TAIL, DISTANCE, DISTANCE_TAIL, UNFINISHED),
    measure=measure,
    track=track,
    claims=CLAIMS,
    draw=_figure,
    facts=table_6_1.FACTS,
    notes=(
        *n_to_one.NOTES[::2],
        "Variants without a change are table 6.1's runs. A percentile is over the flows of one run.",
        "Distance from the mean rate: |rate - mean| / mean, of flows' sizes over completion times. This reading of the thesis'"
        " percentiles of unfairness is ours.",
    ),
    runs=table_6_1.RUNS,
)
