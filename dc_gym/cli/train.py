# SPDX-License-Identifier: Apache-2.0
"""`dcgym train`: trains a policy on a spec, or as a method does that adds a value of --agents."""

from __future__ import annotations

from argparse import Namespace

from dc_gym.base import methods
from dc_gym.base.progress import Progress


def main(args: Namespace, progress: Progress) -> int:
    """Runs the training."""
    if (trainer := methods.trainers().get(args.agents)) is not None:
        return trainer.main(args, progress)
    from dc_gym.learn.rllib import train

    return train.main(args, progress)
