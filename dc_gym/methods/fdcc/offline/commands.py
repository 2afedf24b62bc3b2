# SPDX-License-Identifier: Apache-2.0
"""`dcgym method fdcc`: FDCC's training, and trees of it. Each command is a module with `main(args)`, imported when it runs."""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from dc_gym.base.command import add_command


def add(commands: Any) -> None:
    """Adds the commands below `commands` (argparse's subparsers)."""
    _add_train(commands)
    _add_distil(commands)


def _run(args: argparse.Namespace) -> int:
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: its products then repeat bit for bit, and small ones are faster
    code: int = import_module(f"dc_gym.methods.fdcc.offline.{args.action}").main(args)
    return code


def _add_train(commands: Any) -> None:
    summary = "a policy of FDCC's flows in a fluid model with telemetry, with 2 to 32 flows on a bottleneck"
    example = "dcgym method fdcc train --out results/fdcc --seed 1\n"
    example += "  dcgym run examples/fdcc.toml --set nic.policy=results/fdcc/policy.npz --out results/run"
    parser = add_command(commands, "train", summary, example)
    parser.set_defaults(command=_run)
    add = parser.add_argument
    add(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="its folder: policy.npz, manifest.json, curve.csv, stages.csv, checkpoint.npz",
    )
    add(
        "--preset",
        metavar="NAME",
        help="ours; crowds: never with a lone flow; short-queue: next to no queue; thesis: algorithm 1's reward and traffic"
        " (default: ours)",
    )
    add("--seed", type=int, metavar="N", help="of networks, incasts and exploration (default: 1)")
    add("--episodes", type=int, metavar="N", help="of each of five stages: up to 2, 4, 8, 16, 32 flows (default: 12)")
    add("--updates", type=int, metavar="N", help="of the critics after each episode (default: 60)")
    add("--history", type=int, metavar="N", help="observations that a decision learns from, 1 to 8 (default: 8)")
    add("--replay", type=int, metavar="N", help="decisions that are kept (default: 200000)")
    add("--discount", type=float, metavar="X", help="gamma, for each decision (default: 0.9)")
    add("--learning-rate", type=float, metavar="X", help="of Adam (default: 0.001)")
    add("--explore", type=float, metavar="X", help="standard deviation of the noise in actions (default: 0.2)")
    add("--resume", action="store_true", help="go on from the checkpoint in DIR")
    add("--quiet", action="store_true", help="no progress on standard error")


def _add_distil(commands: Any) -> None:
    summary = "FDCC's network as a few oblivious trees for `fdcc-tree`, and how far they are off"
    example = "dcgym method fdcc distil --out tree.npz\n"
    example += "  dcgym run examples/fdcc.toml --set controller=fdcc-tree --set nic.policy=tree.npz --out results/run"
    parser = add_command(commands, "distil", summary, example)
    parser.set_defaults(command=_run)
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FILE", help="the policy file of the trees (*.npz)")
    add(
        "--policy",
        default="fdcc",
        metavar="POLICY",
        help="the network: fdcc, fdcc-scripted, or a policy file (default: %(default)s)",
    )
    add("--trees", type=int, default=20, metavar="N", help="how many, each of depth 4 (default: %(default)s)")
    add("--seed", type=int, default=1, metavar="N", help="of the networks that flows run through (default: %(default)s)")
    add("--force", action="store_true", help="replace a file that was not made of the same network")
    add("--quiet", action="store_true", help="no progress on standard error")
