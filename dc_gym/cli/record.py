# SPDX-License-Identifier: Apache-2.0
"""`dcgym record`: writes episodes of a policy in a task of the suite as a dataset of Minari."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.cli import arguments
from dc_gym.learn import dataset, tasks
from dc_gym.learn.evaluate import Played

ORACLE = "oracle"


def main(args: Namespace, progress: Progress) -> int:
    """Runs the command."""
    task = tasks.find(args.task)
    if not args.episodes:
        raise UsageError("--episodes 0: a dataset has one or more; give as many")
    arguments.keep_split(args.overrides, "no learner may see held-out episodes")
    policy = task.oracle if args.policy == ORACLE else args.policy
    id = dataset.dataset_id(task, args.name or Path(str(args.policy).rpartition(":")[2]).stem)
    returns: list[float] = []

    def on_episode(played: Played) -> None:
        returns.append(sum(played.rewards))
        progress.phase(f"episode {len(returns)} of {args.episodes}")

    seeds = range(args.seed, args.seed + args.episodes)
    digest = dataset.record(task, policy, seeds, id, args.out, args.overrides, on_episode)
    say(f"dataset      {id} in {args.out} (MINARI_DATASETS_PATH)")
    say(f"episodes     {len(returns)}, mean return {sum(returns) / len(returns):.4g}")
    say(f"digest       {digest}")
    return 0
