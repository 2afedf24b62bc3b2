# SPDX-License-Identifier: Apache-2.0
"""`dcgym train`: trains a policy on a spec, or, with `--agents flows`, on RL-CC's fluid model."""

from __future__ import annotations

from argparse import Namespace

from dc_gym.base.progress import Progress

FLOWS = "flows"
"""The value of --agents for flows of a NIC."""


def main(args: Namespace, progress: Progress) -> int:
    """Runs the training."""
    if args.agents == FLOWS:
        from dc_gym.methods.rlcc.offline import flow_training

        return flow_training.main(args, progress)
    from dc_gym.learn.rllib import train

    return train.main(args, progress)
