# SPDX-License-Identifier: Apache-2.0
"""`dcgym evaluate`: measures a policy on the held-out episodes of a task of the suite, beside the ladder of that task."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.cli import arguments
from dc_gym.learn import ladder, tasks
from dc_gym.learn.ladder import CONFIDENCE, SHARE_OF_COST, SHARE_OF_DISTANCE, Ladder, interquartile_mean

FEWEST_EPISODES = 2
MEASURES = ("goodput_bps", "switch_delay_s", "fct_mean_s")


def main(args: Namespace, progress: Progress) -> int:
    """Runs the command."""
    task = tasks.find(args.task)
    if args.episodes < FEWEST_EPISODES:
        raise UsageError(f"--episodes {args.episodes}: an interval needs {FEWEST_EPISODES} or more")
    arguments.keep_split(args.overrides, "a task is measured on held-out episodes")
    seeds = range(args.seed, args.seed + args.episodes)
    measured = ladder.measure(task, seeds, args.policy, args.overrides, progress.phase)
    progress.phase("done")
    for line in _lines(task, measured, seeds, args.overrides):
        say(line)
    return 0


def _lines(task: tasks.Task, measured: Ladder, seeds: range, overrides: Sequence[str]) -> Iterator[str]:
    """Yields a table with a row for each policy, then what they mean."""
    yield f"{task.id}, {len(seeds)} held-out episodes from {seeds[0]} on: interquartile means, intervals of {CONFIDENCE:.0%}"
    labels = {id(measured.worst): "worst ", id(measured.best): "best "}
    names = [labels.get(id(rung), "") + rung.name for rung in measured.rungs]
    width = max(map(len, names))
    yield f"{'':{width}}  {'return':>9}  {'interval':>19}  " + "  ".join(f"{measure:>14}" for measure in MEASURES)
    for name, rung in zip(names, measured.rungs, strict=True):
        low, high = ladder.interval(rung.returns)
        means = "  ".join(f"{interquartile_mean(rung.of(measure)):14.5g}" for measure in MEASURES)
        yield f"{name:{width}}  {interquartile_mean(rung.returns):9.4g}  {low:8.4g} .. {high:7.4g}  {means}"
    above = f"is above the best constant by {SHARE_OF_DISTANCE:.0%} of its distance from the worst"
    pays = f"has {SHARE_OF_COST:.0%} less {task.cost} than the best constant" if task.cost else above
    yield f"the oracle {pays} in {int(measured.pays(task.cost).sum())} of {len(seeds)} episodes"
    if measured.policy is not None:
        yield f"{measured.policy.name} reaches {measured.reached:.0%} of the way from the best constant to the oracle"
    if overrides:
        yield f"with {', '.join(overrides)}: this is no score of the suite"
