# SPDX-License-Identifier: Apache-2.0
"""`dcgym method acc`: ACC's offline training. Each command is a module with `main(args)`, imported when it runs."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from dc_gym.base.command import add_command


def add(commands: Any) -> None:
    """Adds the commands below `commands` (argparse's subparsers)."""
    _add_train(commands)


def _run(args: argparse.Namespace) -> int:
    code: int = import_module(f"dc_gym.methods.acc.offline.{args.action}").main(args)
    return code


def _add_train(commands: Any) -> None:
    summary = "the net of ACC's switches on labs with drawn incasts, WebSearch, DataMining, storage and trainings"
    example = "dcgym method acc train --out results/acc --seed 1\n"
    example += "  dcgym run examples/acc.toml --set controller.start=results/acc/policy.npz --out results/run"
    parser = add_command(commands, "train", summary, example)
    parser.set_defaults(command=_run)
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="its folder: policy.npz, manifest.json, curve.csv, checkpoint.npz")
    add(
        "--template", default="acc-deployed", metavar="NAME", help="acc-deployed, acc-section-3, or a file (default: %(default)s)"
    )
    add("--seed", type=int, default=1, metavar="N", help="of net, scenarios and exploration (default: %(default)s)")
    add("--episodes", type=int, metavar="N", help="each with a scenario of its own (default: 120)")
    add("--labs", type=int, metavar="N", help="side by side, with one scenario (default: 4); another number is another training")
    add("--steps", type=int, metavar="N", help="decision times of an episode (default: 100)")
    add("--updates-per-step", type=int, metavar="N", help="of the net at each decision time (default: 4)")
    add("--replay", type=int, metavar="N", help="transitions that are kept (default: 60000)")
    add("--explore", type=float, metavar="X", help="share of decisions at random, at first (default: 1)")
    add("--half-life", type=int, metavar="N", help="decision times after which that share is half as much (default: 10000)")
    add("--hold", type=int, metavar="N", help="mean decision times for which an action at random is kept (default: 20)")
    add("--groups", choices=("queue", "direction"), help="queues that have one setting; direction trains C-ACC (default: queue)")
    add("--worth", choices=("step", "linear"), help="D(L) of the reward: design 2 of the paper or 1 (default: step)")
    add("--discount", type=float, metavar="X", help="gamma (default: 0.9)")
    add("--learning-rate", type=float, metavar="X", help="of Adam (default: 0.001)")
    add("--batch-size", type=int, metavar="N", help="transitions of an update (default: 32)")
    add("--target-every", type=int, metavar="N", help="updates from one target copy to the next (default: 100)")
    add("--prefer", type=float, metavar="X", help="share of a batch that prefers large rewards (default: 0)")
    add("--resume", action="store_true", help="go on from the checkpoint in DIR")
    add("--quiet", action="store_true", help="no progress on standard error")
