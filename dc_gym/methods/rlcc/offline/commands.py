# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc`: RL-CC's pipeline. Each command is a module with `main(args)`, imported when it runs."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

from dc_gym.base.command import add_command
from dc_gym.methods.rlcc.offline import policy_commands

POLICY = "rlcc-tree, rlcc-mlp, rlcc-mlp8, rlcc-lstm, pccrl-lstm, record-tree, record-mlp, or a policy file (*.npz)"


def add(commands: Any) -> None:
    """Adds the commands below `commands` (argparse's subparsers)."""
    for add_one in (_add_train, _add_distil, _add_boost, _add_explain, _add_export):
        add_one(commands).set_defaults(command=_run)
    policy_commands.add(commands)


def _run(args: argparse.Namespace) -> int:
    code: int = import_module(f"dc_gym.methods.rlcc.offline.{args.action}").main(args)
    return code


def _add_force(parser: argparse.ArgumentParser, output: str) -> None:
    """Adds --force. Without it a command only renews files that it has made of the same inputs."""
    parser.add_argument("--force", action="store_true", help=f"replace {output}")


def _add_train(commands: Any) -> argparse.ArgumentParser:
    summary = "a network from random weights by RL-CC's policy gradient, on labs or on the fluid model"
    example = "dcgym method rlcc train --out results/trained\n"
    example += "  dcgym method rlcc train --ground fluid --out results/fluid   # in seconds"
    parser = add_command(commands, "train", summary, example)
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="DIR", help="its folder: policy.npz, manifest.json, and more of labs")
    add(
        "--ground",
        choices=("lab", "fluid"),
        default="lab",
        help="NICs in labs, or a fluid model (default: %(default)s)",
    )
    add(
        "--net",
        choices=("mlp", "lstm"),
        default="mlp",
        help="RL-CC's network or PCC-RL's with an LSTM (default: %(default)s)",
    )
    add("--preset", default="rl-cc", metavar="NAME", help="reward and traffic: rl-cc or pcc-rl (default: %(default)s)")
    add("--beta", type=float, metavar="X", help="of the reward, eq. 2 (default: the preset's; rl-cc 1.5, pcc-rl 0)")
    add("--target", type=float, metavar="X", help="of the reward, eq. 2 (default: the preset's; rl-cc 0.064, pcc-rl 0.8)")
    add("--seed", type=int, default=1, metavar="N", help="of weights and flows (default: %(default)s)")
    add("--updates", type=int, metavar="N", help="of the weights (default: 1600 on labs; on fluid 1200, lstm 300)")
    add("--learning-rate", type=float, metavar="X", help="of Adam, falling to 0 (default: 0.01, lstm 0.003)")
    whole = "last updates, in which errors beyond two targets count in full (default: 0)"
    add("--unclipped", type=int, metavar="N", help=whole)
    interval = "updates from one new lab, and checkpoint, to the next (default: 100)"
    add("--updates-per-episode", type=int, metavar="N", help=interval)
    add("--labs", type=int, metavar="N", help="side by side (default: 2); another number is another training")
    add("--randomise", action="store_true", help="each lab's episodes have their own line, round trip, buffer, numbers of flows")
    add("--curriculum", action="store_true", help="two flows first, then four, then all")
    free = "no lab waits for another or for the learner; not the same policy twice, and says so"
    add("--asynchronous", action="store_true", help=free)
    add("--resume", action="store_true", help="go on from the checkpoint in DIR")
    add("--batch-size", type=int, metavar="N", help="of fluid: decisions per update (default: 4096)")
    mix = "of fluid: so many with 2 flows, with 4 and with 8 (default: 80, 60 and 40)"
    add("--bottlenecks", type=int, metavar="N", help=mix)
    add("--noise", type=float, metavar="X", help="of fluid: up to so much inflation more, at random (default: 0)")
    add("--quiet", action="store_true", help="no progress on standard error")
    return parser


def _add_distil(commands: Any) -> argparse.ArgumentParser:
    summary = "a network as a few small trees that a NIC can run, and how far they are from it"
    example = "dcgym method rlcc distil net.npz --out tree.npz"
    example += "\n  dcgym method rlcc distil net.npz --from results/run --from model --fitter catboost --out tree.npz"
    parser = add_command(commands, "distil", summary, example)
    parser.add_argument("net", metavar="NET", help="rlcc-mlp, or a policy file of a network (*.npz)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="the policy file to write")
    _add_force(parser, "a file that was not made of the same network")
    parser.add_argument("--trees", type=int, default=10, metavar="N", help="so many (default: %(default)s, RL-CC's most)")
    maker = "our own fit, or CatBoost with the artifact's parameters, extra `distil` (default: %(default)s)"
    parser.add_argument("--fitter", choices=("own", "catboost"), default="own", help=maker)
    source = "rows to fit: model, flood and persistent (the default), grid, or the result of a run with RL-CC; may be repeated"
    parser.add_argument("--from", dest="sources", action="append", metavar="SOURCE", help=source)
    count = "drawn of model (default: 40000) or grid (1000000), or at most of a run (all)"
    parser.add_argument("--rows", type=int, metavar="N", help=count)
    band = "rows within a target of the target count so many times (default: 300 in model, 1 elsewhere)"
    parser.add_argument("--near-weight", type=float, metavar="X", help=band)
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what is drawn (default: %(default)s)")
    return parser


def _add_boost(commands: Any) -> argparse.ArgumentParser:
    summary = "trees by RL-CC's policy gradient on the fluid model, without a network, by GBRL (extra `gbrl`)"
    parser = add_command(commands, "boost", summary, "dcgym method rlcc boost --out tree.npz")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="the policy file to write")
    _add_force(parser, "a file that was not made by this command")
    parser.add_argument("--trees", type=int, default=64, metavar="N", help="one for each update (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the flows (default: %(default)s)")
    return parser


def _add_export(commands: Any) -> argparse.ArgumentParser:
    summary = "a policy made ready for the NIC: does it fit, what it costs, a spec that runs it, and a first run"
    parser = add_command(commands, "export", summary, "dcgym method rlcc export tree.npz --out results/mine")
    parser.add_argument("policy", metavar="POLICY", help=POLICY)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for policy, spec and run (default: results/export-NAME)")
    parser.add_argument("--flows", type=int, default=8, metavar="N", help="of that run (default: %(default)s)")
    latency = "of its decisions in that run, such as 9us: RL-CC's 0.9 us for trees, on a tenth of its line (default: 0)"
    parser.add_argument("--latency", default="0ns", metavar="TIME", help=latency)
    parser.add_argument("--no-run", action="store_true", help="make ready, and run nothing")
    _add_force(parser, "what DIR has of another policy")
    return parser


def _add_explain(commands: Any) -> argparse.ArgumentParser:
    summary = "what a policy does: where it is from, Table VI of RL-CC and its two orders, what flows settle at"
    example = "dcgym method rlcc explain rlcc-tree\n  dcgym method rlcc explain rlcc-tree --lab --out results/explain"
    parser = add_command(commands, "explain", summary, example)
    parser.add_argument("policy", metavar="POLICY", help=POLICY)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    pictures = "draw instead: its action over its inputs, its answers to steps, RL-CC's figure 11 as a trace, in PNG files here"
    parser.add_argument("--out", type=Path, metavar="DIR", help=pictures)
    traced = "with --out: trace the scenario on the lab's data path, too, not in the model alone"
    parser.add_argument("--lab", action="store_true", help=traced)
    _add_force(parser, "pictures of another policy")
    return parser
