# SPDX-License-Identifier: Apache-2.0
"""`dcgym rlcc`: RL-CC's pipeline. Each command is a module here with `main(args)`, imported when it runs."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

POLICY = "rlcc-tree, rlcc-mlp, or a policy file (*.npz)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="COMMAND")
    for add in (_add_distil,):
        add(commands)


def main(args: argparse.Namespace) -> int:
    code: int = import_module(f"dc_gym.rlcc.{args.action}").main(args)
    return code


def _add(commands: Any, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def _add_distil(commands: Any) -> None:
    summary = "a network as a few small trees that a NIC can run, and how far they are from it"
    example = "dcgym rlcc distil net.npz --trees 10 --out tree.npz"
    example += "\n  dcgym rlcc distil net.npz --from results/run --from model --by catboost --out tree.npz"
    parser = _add(commands, "distil", summary, example)
    parser.add_argument("net", metavar="NET", help="rlcc-mlp, or a policy file of a network (*.npz)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="the policy file to write")
    parser.add_argument("--trees", type=int, default=20, metavar="N", help="so many (default: %(default)s; RL-CC: at most 10)")
    maker = "our own fit, or CatBoost with the artifact's parameters, extra `distil` (default: %(default)s)"
    parser.add_argument("--by", choices=("own", "catboost"), default="own", help=maker)
    source = "rows to fit: model (the default), grid, or the result folder of a run with RL-CC; may be repeated"
    parser.add_argument("--from", dest="sources", action="append", metavar="SOURCE", help=source)
    count = "drawn of model (default: 40000) or grid (1000000), or at most of a run (all)"
    parser.add_argument("--rows", type=int, metavar="N", help=count)
    band = "rows within a target of the target count so many times (default: 30 in model, 1 elsewhere)"
    parser.add_argument("--band", type=float, metavar="X", help=band)
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what is drawn (default: %(default)s)")
