# SPDX-License-Identifier: Apache-2.0
"""The ladder of each task of the suite, with the policy that ships for it (dc_gym/learn/tasks/NAME.npz).

All policies act in the same held-out episodes. Numbers are interquartile means of returns, in brackets their intervals. With
--train TASK a task is trained anew, once a seed, by its preset; the policy of a training is the best in episodes of the
training's own generator.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.learn import ladder
from dc_gym.learn.evaluate import evaluate
from dc_gym.learn.ladder import Rung, interquartile_mean, interval
from dc_gym.learn.tasks import TASKS, Task

ENOUGH, WORST = 0.8, 0.6
"""The shares of the distance from the best constant to the oracle that a policy has to reach: in the interquartile mean over
trainings, and in the worst one."""
EPISODES, SEEDS = range(201, 221), 5
FOLDER = Path("results/learn")


def shipped(task: Task) -> Path | None:
    """Returns the file of a task's policy, if one ships."""
    path = task.path.with_suffix(".npz")
    return path if path.exists() else None


def checks(tasks: Iterable[Task] = TASKS, episodes: Iterable[int] = EPISODES) -> Iterable[Check]:
    """Measures the tasks in turn."""
    for task in tasks:
        say(f"bench learn: {task.id}", file=sys.stderr)
        yield _check(task, episodes)


def _check(task: Task, episodes: Iterable[int]) -> Check:
    policy = shipped(task)
    measured = ladder.measure(task, episodes, policy, (), lambda name: None)
    words = {"worst constant": measured.worst, "best constant": measured.best, measured.rule.name: measured.rule}
    words |= {"policy": measured.policy} if measured.policy else {}
    rungs = ", ".join(
        f"{name} {interquartile_mean(rung.returns):.4g}" for name, rung in (words | {"oracle": measured.oracle}).items()
    )
    required = f"policy >= {ENOUGH:.0%} of the way from best constant to oracle"
    if measured.policy is None:
        return Check(task.id, required, f"{rungs}; no policy ships", ok=False, skipped=True)
    return Check(task.id, required, f"{measured.reached:.0%}: {rungs}", measured.reached >= ENOUGH)


def trainings(task: Task, seeds: Sequence[int], out: Path, progress: Progress) -> Iterable[Check]:
    """Trains a task once a seed, in folders of `out`, and measures the policies. Trainings that are there are not repeated."""
    measured = ladder.measure(task, EPISODES, None, (), progress.phase)
    reached = []
    for seed in seeds:
        path = _trained(task, seed, out, progress)
        policy = Rung(str(path), evaluate(task.spec(), path, EPISODES))
        reached.append(replace(measured, policy=policy).reached)
        words = f"{reached[-1]:.0%}: {_words(policy)}, {_words(measured.rule)}"
        yield Check(f"{task.id}, seed {seed}", f">= {WORST:.0%}", words, reached[-1] >= WORST)
    mean, (low, high) = interquartile_mean(np.array(reached)), interval(np.array(reached))
    words = f"{mean:.0%} ({low:.0%} .. {high:.0%})"
    yield Check(f"{task.id}, interquartile mean over seeds", f">= {ENOUGH:.0%}", words, mean >= ENOUGH)


def _words(rung: Rung) -> str:
    low, high = interval(rung.returns)
    return f"{rung.name} {interquartile_mean(rung.returns):.4g} ({low:.4g} .. {high:.4g})"


def _trained(task: Task, seed: int, out: Path, progress: Progress) -> Path:
    """Returns the best policy of a training."""
    from dc_gym.learn.rllib import environment, train
    from dc_gym.learn.rllib.presets import SUITE
    from dc_gym.learn.session import external

    folder = out / f"{task.name}-{seed}"
    options = dict.fromkeys(train.OPTIONS) | {"preset": SUITE, "seed": seed}
    if not (folder / "policy.npz").exists():
        spec = external(task.training_spec())
        request = train.TrainingRequest(spec, "PPO", folder, task.config, options, {}, False, None)
        train.run(request, progress, environment.register)
    return folder / train.BEST
