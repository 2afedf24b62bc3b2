# SPDX-License-Identifier: Apache-2.0
"""Table V of RL-CC by the worst contestant of each measure, on the cluster's own size: who is it, and where.

Table 5 has a criterion of mastery; here no threshold is needed. Of each benchmark and measure a row has the geometric mean over
cases of the value relative to the best one's, so that 1 is the best and more is worse; of losses the sum over cases. Goodput,
latency and slowdown are those at rest, losses those from the first packet on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dc_gym.benchmarks.studies.rl_cc import at_rest, bring_up, cluster, common, figure_9, osu
from dc_gym.benchmarks.studies.rl_cc.cluster import LONG_SHORT, RIVALS, WHO
from dc_gym.study import Claim, Evidence, Measure, Study, Variant, above, below, collect
from dc_gym.study.claims import any_of, or_tied

TITLE = "Each measure relative to the best"
SOURCE = "ours: the paper gives no criterion (Table V)"


@dataclass(frozen=True, slots=True)
class Column:
    """A measure of a benchmark: the measures of its cases, and the variants that have them, with {} for the contestant."""

    measure: Measure
    cases: Sequence[tuple[str, str]]
    sign: int
    """1 where less is better, -1 where more is, 0 where cases are added up."""

    def values(self, evidence: Evidence, seed: int) -> dict[str, float]:
        """Returns the values by contestant; without those of cases that did not run or have not ended."""
        rows = {who: [evidence.values(name.format(who), key).get(seed, np.nan) for name, key in self.cases] for who in WHO}
        if not self.sign:
            return {who: float(np.sum(row)) for who, row in rows.items()}
        logs = {who: self.sign * float(np.mean(np.log(row))) for who, row in rows.items()}
        return {who: float(np.exp(log - min(logs.values()))) for who, log in logs.items()}


def _columns() -> Iterator[Column]:
    for task, counts in at_rest.COUNTS.items():
        key, names = task.replace("-", "_"), [at_rest.name("{}", task, count) for count in counts]
        more, less = (cluster.LONG_SHARE, cluster.SLOWDOWN) if task == LONG_SHORT else (common.GOODPUT, common.LATENCY)
        yield Column(Measure(f"{key}_goodput", f"{task}: goodput, best over it"), [(name, more.name) for name in names], -1)
        yield Column(
            Measure(f"{key}_time", f"{task}: {'slowdown' if task == LONG_SHORT else 'latency'} over the best"),
            [(name, less.name) for name in names],
            1,
        )
        whole = [(bring_up.name("{}", task, count), bring_up.LOST.name) for count in cluster.COUNTS[task]]
        yield Column(Measure(f"{key}_lost", f"{task}: drops a flow, all cases"), whole, 0)
    sizes = [("{}", figure_9.LATENCIES[size].name) for size in osu.SIZES]
    yield Column(Measure("alltoall", "MPI_Alltoall: latency over the best"), sizes, 1)


COLUMNS = tuple(_columns())


def derive(evidence: Evidence) -> Evidence:
    """Returns a row for each contestant, from the three studies' runs."""
    seeds = range(1, at_rest.SEEDS + 1)
    by_column = {column.measure.name: {seed: column.values(evidence, seed) for seed in seeds} for column in COLUMNS}
    variants = {}
    for who in WHO:
        by_seed = {seed: {name: values[seed][who] for name, values in by_column.items()} for seed in seeds}
        variants[who] = Variant(who, color=cluster.COLORS[who]).evidence(collect.by_measure(by_seed))
    return replace(evidence, variants=variants)


def _worst(who: str) -> Claim:
    rivals = [rival for rival in WHO if rival != who]
    cases = [[above(who, rival, column.measure) for rival in rivals] for column in COLUMNS]
    return Claim(f"{who} is the worst on one measure at least", SOURCE, (any_of(cases),))


STUDY = Study(
    TITLE,
    [column.measure for column in COLUMNS],
    source="RL-CC, Table V",
    claims=(
        Claim(
            "RL-CC is the worst on no measure, or ties",
            SOURCE,
            tuple(any_of([[or_tied(below("RL-CC", rival, column.measure))] for rival in RIVALS]) for column in COLUMNS),
        ),
        *map(_worst, RIVALS),
    ),
    derive=derive,
    facts=(("Runs", "those of at-rest, bring-up and osu, whose pages say how they were made"),),
    seeds=at_rest.SEEDS,
    of=("rl-cc/at-rest", "rl-cc/bring-up", "rl-cc/osu"),
)
