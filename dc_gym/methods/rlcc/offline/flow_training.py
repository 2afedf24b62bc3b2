# SPDX-License-Identifier: Apache-2.0
"""`dcgym train --agents flows`: RLlib's algorithms on RL-CC's decision problem (flow_task.py)."""

from __future__ import annotations

from argparse import Namespace

from dc_gym.base import resume
from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.learn.rllib import train
from dc_gym.methods.rlcc.offline.flows import FlowsConfig


def main(args: Namespace, progress: Progress) -> int:
    """Runs the training."""
    if args.spec:
        raise UsageError(f"SPEC {args.spec}: --agents flows trains on RL-CC's fluid model; leave SPEC out")
    train.prepare(args, progress)
    from dc_gym.methods.rlcc.offline import flow_task

    if args.evaluate:
        raise UsageError(f"--evaluate {args.evaluate[0]}: is for specs; flows are evaluated in the closed loop of the model")
    flow_task.check(args.algo, args.overrides)
    options = {name: getattr(args, name) for name in train.OPTIONS}
    again = resume.command(args)
    request = train.TrainingRequest(
        FlowsConfig(), args.algo, args.out, args.config, options, {}, args.resume, args.address, again
    )
    say(train.run(request, progress, flow_task.register))
    return 0
