# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc import` and `rebuild`: import a policy for RL-CC's algorithms, and make the shipped ones again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dc_gym.base.command import add_command
from dc_gym.base.terminal import say


def add(commands: Any) -> None:
    """Adds the commands below `commands` (argparse's subparsers)."""
    _add_import(commands)
    _add_rebuild(commands)


def _add_import(commands: Any) -> None:
    summary = "a network of your own as a policy; `dcgym method rlcc distil` makes trees of it"
    add = add_command(commands, "import", summary, "dcgym method rlcc import net.npz --out own.npz")
    add.set_defaults(command=import_policy)
    weights = "W0, W1, W2 of a 4-12-12-1 network, [outputs, inputs] each, or W0, b0 to W3, b3 of one with an LSTM"
    add.add_argument("file", type=Path, metavar="FILE.npz", help=weights)
    add.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="the policy file to write")
    for name, text in (("target", "of (inflation - beta) sqrt(rate)"), ("beta", "inflation that is free")):
        add.add_argument(f"--{name}", type=float, metavar="X", help=f"that it was trained for: {text} (default: RL-CC's)")
    add.add_argument("--gain", type=float, metavar="X", help="of the error that it sees (default: 12, as the artifact's)")
    add.add_argument("--int8", action="store_true", help="with weights of 8 bits, a policy of rlcc-mlp8, instead")
    add.add_argument("--force", action="store_true", help="replace a file that was not made of the same network")


def _add_rebuild(commands: Any) -> None:
    summary = "make record-mlp, record-tree and rlcc-mlp8 again, and compare with those that ship"
    add = add_command(commands, "rebuild", summary, "dcgym method rlcc rebuild")
    add.set_defaults(command=rebuild)
    add.add_argument("--out", type=Path, metavar="DIR", help="keep the files here")
    add.add_argument("--force", action="store_true", help="replace files that this command did not make")


def import_policy(args: argparse.Namespace) -> int:
    """Imports a network."""
    from dc_gym.base.outputs import require_place
    from dc_gym.methods.rlcc.decision import Scaling
    from dc_gym.methods.rlcc.offline import importing
    from dc_gym.nets import nic_policy

    options = {name: getattr(args, name) for name in ("target", "beta", "gain") if getattr(args, name) is not None}
    policy = importing.network(args.file, Scaling(**options))
    if args.int8:
        policy = importing.in_8_bits(policy, f"{importing.COMMAND} --int8")
    require_place(args.out, nic_policy.made_alike(policy), force=args.force)
    policy.write(args.out)
    say(f"{args.out}: {policy.describe()}")
    return 0


def rebuild(args: argparse.Namespace) -> int:
    """Makes record-mlp, record-tree and rlcc-mlp8 again and compares them with the shipped files."""
    from dc_gym.base.files import machine_errors
    from dc_gym.base.outputs import require_place
    from dc_gym.methods.rlcc.offline import record_policies
    from dc_gym.nets import nic_policy

    if args.out:
        with machine_errors("make", args.out):
            args.out.mkdir(parents=True, exist_ok=True)
    same = True
    for name, policy in record_policies.policies().items():
        ships = nic_policy.NicPolicy.read(nic_policy.shipped(name)).sha256() == policy.sha256()
        same &= ships
        say(f"{name}: sha256 {policy.sha256()}, {'the one that ships' if ships else 'another than ships'}")
        if args.out:
            path = args.out / f"{name}.npz"
            require_place(path, nic_policy.made_alike(policy), force=args.force)
            policy.write(path)
    return 0 if same else 1
