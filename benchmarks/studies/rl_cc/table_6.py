# SPDX-License-Identifier: Apache-2.0
"""Table VI of RL-CC: the policy's actions in nine situations, by the previous state and the current one.

The policies are the shipped ones, in the integers that a NIC computes (cells.py). `dcgym method rlcc explain` draws any
other policy.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from dc_gym.base.progress import Progress
from dc_gym.figures import kit, styles
from dc_gym.methods.rlcc.offline import cells
from dc_gym.methods.rlcc.offline.cells import STATES
from dc_gym.nets import nic_policy, response
from dc_gym.study import (
    Claim,
    Criterion,
    Evidence,
    Measure,
    Outcome,
    Study,
    StudyOptions,
    Variant,
    bounded,
    collect,
    less_than,
    more_than,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Actions by the previous and the current state"
SOURCE = "RL-CC, Table VI and section VI"
ARTIFACT = Measure("artifact", "the artifact's network", digits=4)
UNDER, TARGET, CONGESTED = STATES


POLICIES = ("rlcc-mlp", "rlcc-tree")
"""The algorithms whose policy has no memory. An LSTM's action also depends on what came before the two states."""
ACTIONS = [Measure(each, each, digits=4) for each in POLICIES]


def name(before: str, now: str) -> str:
    return f"{before}, then {now}"


VARIANTS = [
    Variant(name(before, now), paper={POLICIES[0]: printed})
    for before, row in zip(STATES, response.PAPER, strict=True)
    for now, printed in zip(STATES, row, strict=True)
]


def rows(options: StudyOptions, progress: Progress) -> Mapping[str, Mapping[str, Mapping[int, float]]]:
    """Evaluates the policies; nothing is random."""
    tables = {each: cells.table(nic_policy.load(each)) for each in POLICIES}
    return {
        name(cell.before, cell.now): {each: {1: table[place].integer} for each, table in tables.items()}
        | {ARTIFACT.name: {1: cell.artifact}}
        for place, cell in enumerate(tables[POLICIES[0]])
    }


def action(evidence: Evidence, policy: str, before: str, now: str) -> float:
    return evidence.values(name(before, now), policy)[1]


def more(policy: str, first: tuple[str, str], than: tuple[str, str]) -> Criterion:
    names = name(*first), name(*than)

    def judge(evidence: Evidence) -> Outcome:
        a, b = action(evidence, policy, *first), action(evidence, policy, *than)
        return bounded(a > b, f"{policy}: {a:.3f} and {b:.3f}", sure=True)

    return Criterion(f"{policy}: {names[0]} above {names[1]}", names, judge, (policy,))


BY_STATE = [(policy, (state, high), (state, low)) for policy in POLICIES for state in STATES for high, low in pairwise(STATES)]
FROM_UNDER, FROM_FULL = name(UNDER, TARGET), name(CONGESTED, TARGET)
CLAIMS = (
    Claim("Raise, keep, cut by the current state", SOURCE, tuple(more(*each) for each in BY_STATE)),
    Claim(
        "The first cut is stronger than a repeated one",
        SOURCE + ": 0.89 and 0.94",
        tuple(more(each, (CONGESTED, CONGESTED), (UNDER, CONGESTED)) for each in POLICIES),
    ),
    Claim(
        "The first raise is stronger than a repeated one",
        SOURCE + ": 1.15 and 1.05",
        tuple(more(each, (CONGESTED, UNDER), (UNDER, UNDER)) for each in POLICIES),
    ),
    Claim("From under-utilized to target it cuts", SOURCE + ": 0.92", tuple(less_than(FROM_UNDER, each, 1) for each in ACTIONS)),
    Claim("From congested to target it raises", SOURCE + ": 1.07", tuple(more_than(FROM_FULL, each, 1) for each in ACTIONS)),
)


def _figure(evidence: Evidence) -> Figure:
    with kit.style({"axes.grid.axis": "y"}):
        canvas = kit.new_figure(9.6, 3.8)
        axes = canvas.subplots(1, len(STATES), sharey=True)
        for ax, before in zip(axes, STATES, strict=True):
            printed = [evidence.variants[name(before, now)].paper[POLICIES[0]] for now in STATES]
            ax.plot(range(3), printed, "D:", color=kit.INK, markerfacecolor="none", markersize=8, label="the paper")
            artifact = [action(evidence, ARTIFACT.name, before, now) for now in STATES]
            ax.plot(range(3), artifact, "x", color="#888888", label=ARTIFACT.title)
            for each in POLICIES:
                known = styles.find(each)
                assert known is not None
                values = [action(evidence, each, before, now) for now in STATES]
                ax.plot(range(3), values, color=known.color, marker=known.marker, markersize=5, label=each)
            ax.axhline(1, color="#999999", linewidth=0.8)
            ax.set_xticks(range(3), [f"{now}\nnow" for now in STATES], fontsize=8)
            ax.set_title(f"{before} before", loc="left")
        axes[0].set_ylabel("Action: factor of the rate")
        kit.legend_below(canvas, axes[0], 5)
        kit.title(canvas, TITLE)
    return canvas


STUDY = Study(
    TITLE,
    (*ACTIONS, ARTIFACT),
    VARIANTS,
    source=SOURCE,
    claims=CLAIMS,
    draw=_figure,
    facts=[(each, nic_policy.shipped(each).name) for each in POLICIES],
    seeds=1,
    collect=collect.FunctionRows(rows),
)
