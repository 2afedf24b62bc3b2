# SPDX-License-Identifier: Apache-2.0
"""`dcgym record`: writes episodes of a policy in a task of the suite as a dataset of Minari."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.learn import dataset, tasks
from dc_gym.learn.evaluate import Played

ORACLE = "oracle"


def main(args: Namespace, progress: Progress) -> int:
    """Runs the command."""
    task = tasks.find(args.task)
    if split := next((text for text in args.overrides if text.startswith("episodes.split")), None):
        raise UsageError(f"--set {split}: no learner may see held-out episodes; leave it out")
    policy = task.oracle if args.policy == ORACLE else Path(args.policy) if args.policy.endswith(".npz") else args.policy
    id = dataset.dataset_id(task, args.name or Path(args.policy.rpartition(":")[2]).stem)
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
