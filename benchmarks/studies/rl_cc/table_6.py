# SPDX-License-Identifier: Apache-2.0
"""Table VI of RL-CC: the policy's actions in nine situations, by the previous state and the current one.

The policies are the shipped ones, in the integers that a NIC computes (cells.py). `dcgym method rlcc explain` draws any
other policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise, starmap
from typing import Any

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies.rl_cc import common
from dc_gym.methods.rlcc.offline import cells, response
from dc_gym.methods.rlcc.offline.cells import STATES
from dc_gym.nets import nic_policy
from dc_gym.results.figures import kit, styles
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, Study, Variant, bounded, collect, less_than, more_than
from dc_gym.study.model import StudyOptions

TITLE = "Actions by the previous and the current state"
SOURCE = "RL-CC, Table VI and section VI"
ARTIFACT = Measure("artifact", "the artifact's network", digits=4)
UNDER, TARGET, CONGESTED = STATES
POLICIES = ("rlcc-mlp", "rlcc-tree")
"""The algorithms whose policy has no memory. An LSTM's action also depends on the states before these two."""
ACTIONS = [Measure(policy, policy, digits=4) for policy in POLICIES]


def name(before: str, now: str) -> str:
    return f"{before}, then {now}"


VARIANTS = [
    Variant(name(before, now), paper={POLICIES[0]: printed})
    for before, row in zip(STATES, response.PAPER, strict=True)
    for now, printed in zip(STATES, row, strict=True)
]


def rows(options: StudyOptions, progress: Progress) -> Mapping[str, Mapping[str, Mapping[int, float]]]:
    """Evaluates the policies; nothing is random."""
    tables = {policy: cells.table(nic_policy.load(policy)) for policy in POLICIES}
    return {
        name(cell.before, cell.now): {policy: {1: table[index].integer} for policy, table in tables.items()}
        | {ARTIFACT.name: {1: cell.artifact}}
        for index, cell in enumerate(tables[POLICIES[0]])
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
FIRST_CUT = [(policy, (CONGESTED, CONGESTED), (UNDER, CONGESTED)) for policy in POLICIES]
FIRST_RAISE = [(policy, (CONGESTED, UNDER), (UNDER, UNDER)) for policy in POLICIES]
FROM_UNDER, FROM_FULL = name(UNDER, TARGET), name(CONGESTED, TARGET)
_CLAIMS: Mapping[str, tuple[str, Iterable[Criterion]]] = {
    "Raise, keep, cut by the current state": ("", starmap(more, BY_STATE)),
    "The first cut is stronger than a repeated one": (": 0.89 and 0.94", starmap(more, FIRST_CUT)),
    "The first raise is stronger than a repeated one": (": 1.15 and 1.05", starmap(more, FIRST_RAISE)),
    "From under-utilized to target it cuts": (": 0.92", [less_than(FROM_UNDER, column, 1) for column in ACTIONS]),
    "From congested to target it raises": (": 1.07", [more_than(FROM_FULL, column, 1) for column in ACTIONS]),
}
CLAIMS = [Claim(text, SOURCE + printed, tuple(criteria)) for text, (printed, criteria) in _CLAIMS.items()]


_STYLES = [(column, known) for column in ACTIONS if (known := styles.find(column.name))]
LOOKS: Mapping[Measure, Mapping[str, Any]] = {
    ARTIFACT: {"marker": "x", "linestyle": "", "color": "#888888"},
    **{column: {"marker": known.marker, "color": known.color, "markersize": 5} for column, known in _STYLES},
}


def _panels(evidence: Evidence, rows: common.Rows) -> None:
    for ax, before in zip(rows[0], STATES, strict=True):
        printed = [evidence.variants[name(before, now)].paper[POLICIES[0]] for now in STATES]
        ax.plot(range(3), printed, "D:", color=kit.INK, markerfacecolor="none", markersize=8, label="the paper")
        for column, look in LOOKS.items():
            ax.plot(range(3), [action(evidence, column.name, before, now) for now in STATES], label=column.title, **look)
        ax.axhline(1, color="#999999", linewidth=0.8)
        ax.set_xticks(range(3), [f"{now}\nnow" for now in STATES], fontsize=8)
        ax.set_title(f"{before} before", loc="left")
    rows[0][0].set_ylabel("Action: factor of the rate")


STUDY = Study(
    TITLE,
    (*ACTIONS, ARTIFACT),
    VARIANTS,
    source=SOURCE,
    claims=CLAIMS,
    draw=common.drawing(TITLE, (9.6, 3.8), _panels, 5, ncols=len(STATES), sharey=True),
    facts=[(policy, nic_policy.shipped(policy).name) for policy in POLICIES],
    seeds=1,
    collect=collect.FunctionRows(rows),
)
