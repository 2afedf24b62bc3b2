# SPDX-License-Identifier: Apache-2.0
"""Table V of RL-CC: which controller masters which task. The paper gives no criterion; here one criterion holds for all.

A controller masters a task if in each of its cases it has at least BANDWIDTH of the best controller's bandwidth and takes at most
TIME times the best one's time. Each task has its own bandwidth and time. In the network these are goodput and latency; with long
and short flows, the long flows' goodput and the short ones' slowdown; for MPI_Alltoall the latency alone, which reflects both.
The runs are shared with figures 6, 7, 9 and 10. Rows named "window" compare the same with a Swift that has a window in Swift's
place. Notes on the page give the verdicts of criteria around the fixed one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product

from dc_gym.benchmarks.studies.rl_cc import cluster, common, figure_9
from dc_gym.benchmarks.studies.rl_cc.cluster import ALL_TO_ALL, COLORS, LONG_SHORT, MANY_TO_ONE, WHO, on
from dc_gym.benchmarks.studies.rl_cc.common import OWN, WINDOW
from dc_gym.results.figures import kit
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, Study, Variant, bounded, collect

TITLE = "Tasks mastered or not"
SOURCE = "RL-CC, Table V"
BANDWIDTH, TIME = 0.9, 2.0
"""The criterion, fixed and written down before it was run for the first time. Claims are judged by it alone."""
BANDWIDTHS, TIMES = (0.8, 0.85, 0.9, 0.95), (1.5, 2.0, 3.0, 4.0)
"""Criteria around it, of which the page shows the verdicts, from the same runs."""
MASTERED = Measure("mastered", "mastered (1: yes)", digits=3)
SHARE = Measure("share", "least bandwidth over the best's", digits=3)
LONGEST = Measure("longest", "most time over the best's", digits=3)
OSU = "OSU"
PAPER: Mapping[str, Mapping[str, bool]] = {
    "DCQCN": {MANY_TO_ONE: True, ALL_TO_ALL: False, OSU: True, LONG_SHORT: False},
    "Swift": {MANY_TO_ONE: False, ALL_TO_ALL: True, OSU: False, LONG_SHORT: True},
    "RL-CC": {MANY_TO_ONE: True, ALL_TO_ALL: True, OSU: True, LONG_SHORT: True},
}
TASKS = tuple(PAPER["RL-CC"])
CELLS = [(who, task) for who, tasks in PAPER.items() for task in tasks]


def name(contestant: str, task: str, setup: str = OWN) -> str:
    return f"{common.of_setup(contestant, setup)}, {task}"


def _cases(task: str, setup: str) -> Iterator[tuple[dict[str, str], Measure, bool]]:
    """Yields the cases that the default runs: variants by controller, a measure, and whether it is a time."""
    if task == OSU:
        yield from (
            ({contestant: on(contestant, setup) for contestant in WHO}, time, True) for time in figure_9.LATENCIES.values()
        )
        return
    bandwidth, time = (cluster.LONG_SHARE, cluster.SLOWDOWN) if task == LONG_SHORT else (common.GOODPUT, common.LATENCY)
    for count in cluster.DEFAULT[task]:
        names = {contestant: cluster.name(on(contestant, setup), task, count) for contestant in WHO}
        yield from ((names, bandwidth, False), (names, time, True))


def ratios(evidence: Evidence, task: str, contestant: str, seed: int, setup: str = OWN) -> dict[str, float]:
    """Returns the least bandwidth and the most time relative to the best, and whether that is mastery.

    Empty if something did not run.
    """
    least, most = 1.0, 1.0
    for names, measure, is_time in _cases(task, setup):
        by_seed = {controller: evidence.values(title, measure.name) for controller, title in names.items()}
        known = {controller: values[seed] for controller, values in by_seed.items() if seed in values}
        if contestant not in known:
            return {}
        if is_time:
            most = max(most, known[contestant] / min(known.values()))
        else:
            least = min(least, known[contestant] / max(known.values()))
    return {SHARE.name: least, LONGEST.name: most, MASTERED.name: float(is_mastery(least, most))}


def is_mastery(share: float, longest: float, bandwidth: float = BANDWIDTH, time: float = TIME) -> bool:
    """Returns the verdict on the least bandwidth and the most time over the best's, by the criterion or by another one."""
    return share >= bandwidth and longest <= time


def otherwise(evidence: Evidence, bandwidth: float, time: float) -> list[str]:
    """Returns the verdicts that another criterion has otherwise than the paper, or that differ between seeds."""
    cells = []
    for contestant, task in CELLS:
        shares, times = (evidence.values(name(contestant, task), column.name) for column in (SHARE, LONGEST))
        verdicts = {is_mastery(shares[seed], times[seed], bandwidth, time) for seed in shares.keys() & times.keys()}
        if verdicts != {PAPER[contestant][task]}:
            sure = "" if verdicts == {not PAPER[contestant][task]} else " (by seed)" if verdicts else " (not run)"
            cells.append(f"{contestant}'s {task}{sure}")
    return cells


def sensitivity(evidence: Evidence) -> list[str]:
    """Describes how the verdicts depend on the criterion. Criteria with the same time and the same verdicts share a note."""
    notes = [f"The verdicts by other criteria, from the same runs. The claims are those of {BANDWIDTH:.0%} and {TIME:g} alone."]
    for time in TIMES:
        same: dict[tuple[str, ...], list[str]] = {}
        for bandwidth in BANDWIDTHS:
            same.setdefault(tuple(otherwise(evidence, bandwidth, time)), []).append(f"{bandwidth:.0%}")
        for differ, bandwidths in same.items():
            criterion = f"At most {time:g} times the best one's time, at least {', '.join(bandwidths)} of its bandwidth"
            names = f"; otherwise: {', '.join(differ)}" if differ else ""
            notes.append(f"{criterion}: {len(CELLS) - len(differ)} of {len(CELLS)} as in the paper{names}.")
    return notes


def _as_printed(contestant: str, task: str, setup: str) -> Criterion:
    title, printed = name(contestant, task, setup), PAPER[contestant][task]

    def judge(evidence: Evidence) -> Outcome:
        flags = list(evidence.values(title, MASTERED.name).values())
        share, time = (evidence.variants[title].estimate(column.name) for column in (SHARE, LONGEST))
        if not flags or not share or not time:
            return bounded(None, f"{title}: something has not ended")
        text = f"{title}: {sum(flags):g} of {len(flags)} seeds; bandwidth {share.mean:.2f}, time {time.mean:.2f} of the best's"
        return bounded(all(bool(value) == printed for value in flags), text)

    words = f"{title}: {'mastered' if printed else 'not mastered'} with every seed"
    return Criterion(words, (title,), judge, (MASTERED.name, SHARE.name, LONGEST.name))


def _claims(setup: str) -> Iterator[Claim]:
    for contestant, task in CELLS:
        verdict = "mastered" if PAPER[contestant][task] else "not mastered"
        yield Claim(f"{contestant}: {task} is {verdict}", SOURCE, (_as_printed(contestant, task, setup),))


def derive(evidence: Evidence) -> Evidence:
    """Returns a row for each contestant and task, from the figures' runs."""
    seeds = sorted({seed for variant in evidence.variants.values() for values in variant.numbers.values() for seed in values})
    variants = {}
    for setup, (contestant, task) in product((OWN, WINDOW), CELLS):
        paper = {} if setup else {MASTERED.name: float(PAPER[contestant][task])}
        row = Variant(name(contestant, task, setup), color=COLORS[contestant], paper=paper)
        by_seed = {seed: ratios(evidence, task, contestant, seed, setup) for seed in seeds}
        variants[row.name] = row.evidence(collect.by_measure(by_seed))
    return replace(evidence, variants=variants)


def _positions(evidence: Evidence, rows: common.Rows) -> None:
    """Draws the position of each task; mastery is the upper left corner."""
    for ax, task in zip(rows[0], TASKS, strict=True):
        for contestant in PAPER:
            variant = evidence.variants[name(contestant, task)]
            share, time = variant.estimate(SHARE.name), variant.estimate(LONGEST.name)
            fill = variant.color if PAPER[contestant][task] else "none"
            ax.plot([], [], "o", color=variant.color, markersize=8, label=contestant)
            if share and time:
                ax.plot(time.mean, share.mean, "o", color=variant.color, markerfacecolor=fill, markersize=8)
        ax.axhline(BANDWIDTH, color=kit.INK, linewidth=0.7, linestyle=":")
        ax.axvline(TIME, color=kit.INK, linewidth=0.7, linestyle=":")
        ax.set_ylim(0, 1.08)
        ax.set_title(task, loc="left")
        ax.set_xlabel("Most time / best")
    rows[0][0].set_ylabel("Least bandwidth / best")


FIGURE = f"{TITLE} (filled: mastered in the paper)"
STUDY = Study(
    TITLE,
    (MASTERED, SHARE, LONGEST),
    source=SOURCE,
    claims=common.with_setups((WINDOW,), _claims),
    draw=common.drawing(FIGURE, (9.6, 3.6), _positions, len(PAPER), "both", ncols=len(TASKS), sharex=True, sharey=True),
    facts=(
        ("Criterion", f"in every case at least {BANDWIDTH:.0%} of the best one's bandwidth, at most {TIME:g} times its time"),
        ("Runs", "those of figures 6, 7, 9 and 10, whose pages say how they were made"),
        (f"Rows named {WINDOW}", common.ABOUT[WINDOW]),
    ),
    notes=sensitivity,
    derive=derive,
    of=("rl-cc/figure-6", "rl-cc/figure-7", "rl-cc/figure-9", "rl-cc/figure-10"),
)
