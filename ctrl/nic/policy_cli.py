# SPDX-License-Identifier: Apache-2.0
"""`dcgym nic policy`, `import`, `train` and `fit`: what RL-CC's algorithms run; brought along, trained, and made again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dc_gym.ctrl.nic.policy_file import PolicyFile

FLOWS = (2, 8, 64, 512, 2048)


def add_commands(commands: Any) -> None:
    shown = commands.add_parser("policy", help="a policy: where it is from, Table VI of RL-CC, what it settles at")
    shown.add_argument("file", metavar="NAME|FILE", help="rlcc-tree, rlcc-mlp, or a policy file (*.npz)")
    shown.add_argument("--plot", type=Path, metavar="FILE.png", help="draw its response and what it settles at")
    brought = commands.add_parser("import", help="a 4-12-12-1 network of your own as a policy of rlcc-mlp")
    brought.add_argument("file", type=Path, metavar="FILE.npz", help="three weight matrices W0, W1, W2, [outputs, inputs] each")
    brought.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="the policy file to write")
    for name, text in (("target", "of (inflation - beta) sqrt(rate)"), ("beta", "inflation that is free")):
        brought.add_argument(f"--{name}", type=float, metavar="X", help=f"that it was trained for: {text} (default: RL-CC's)")
    brought.add_argument("--gain", type=float, metavar="X", help="of the error that it sees (default: 12, as the artifact's)")
    brought.add_argument("--trees", type=int, metavar="N", help="distil it to so many trees, a policy of rlcc-tree, instead")
    trained = commands.add_parser("train", help="a network by RL-CC's policy gradient on the fluid model, in seconds")
    trained.add_argument("--out", type=Path, required=True, metavar="FILE.npz", help="the policy file to write")
    trained.add_argument("--seed", type=int, default=1, metavar="N", help="of weights and flows (default: %(default)s)")
    trained.add_argument("--updates", type=int, default=1200, metavar="N", help="of the weights (default: %(default)s)")
    trained.add_argument(
        "--noise", type=float, default=0.0, metavar="X", help="up to so much inflation more, at random (default: 0)"
    )
    trained.add_argument("--trees", type=int, metavar="N", help="distil it to so many trees")
    fitted = commands.add_parser("fit", help="make the policies that ship again, and compare")
    fitted.add_argument("--out", type=Path, metavar="DIR", help="keep the files here")


def policy(args: argparse.Namespace) -> int:
    """Tell of a policy."""
    from dc_gym.ctrl.nic import policy_file

    path = policy_file.shipped(args.file) if "." not in args.file and "/" not in args.file else Path(args.file)
    found = policy_file.PolicyFile.read(path)
    print(f"{path.name}: {describe(found)}")
    for name, value in found.origin.items():
        print(f"  {name}: {value}")
    print(f"  sha256: {found.sha256()}\n")
    _print_cells(found)
    _print_loop(found)
    if args.plot:
        from dc_gym.figures import policies

        policies.draw(found, path.stem, args.plot)
        print(f"\n{args.plot}")
    return 0


def describe(file: PolicyFile) -> str:
    """A policy's form, in a line."""
    from dc_gym.ctrl.nic.trees import DEPTH, Trees

    scaled = file.scaling
    seen = f"target {scaled.target:g}, beta {scaled.beta:g}, gain {scaled.gain:g}"
    if isinstance(file.policy, Trees):
        count = len(file.policy.inputs)
        size = f"{count * DEPTH} compares a decision, {file.policy.packed_bytes()} bytes packed"
        return f"{count} trees of depth {DEPTH}, {size}; {seen}"
    return f"a 4-12-12-1 network, {sum(weight.size for weight in file.policy.weights)} multiplications a decision; {seen}"


def _print_cells(file: PolicyFile) -> None:
    from dc_gym.ctrl.nic import cells
    from dc_gym.ctrl.nic.cli import columns

    rows = cells.table(file)
    table = [("previous", "current", "paper", "artifact", "floats", "integers", "off the paper")]
    for cell in rows:
        numbers = (f"{cell.paper:.2f}", f"{cell.artifact:.3f}", f"{cell.exact:.4f}", f"{cell.integer:.4f}")
        table.append((cell.before, cell.now, *numbers, f"{cell.integer - cell.paper:+.4f}"))
    print("Table VI: the factor of the rate")
    print(columns(table))
    print(f"largest distance to the paper {max(abs(cell.integer - cell.paper) for cell in rows):.4f}", end=", ")
    print(f"of integers to floats {max(abs(cell.integer - cell.exact) for cell in rows):.5f}\n")


def _print_loop(file: PolicyFile) -> None:
    from dc_gym.ctrl.nic import fluid
    from dc_gym.ctrl.nic.cli import columns
    from dc_gym.ctrl.nic.policy_file import Deployed

    deployed, scaling = Deployed(file.table()), file.scaling
    rests = fluid.rest(file.policy, scaling)
    print(f"closed loop on a fluid queue; a steady error of {rests:+.3f} targets keeps the rate")
    table = [("flows", "inflation", "eq. 2", "eq. 2 at its rest", "sum of rates", "slowest/fastest")]
    for found in fluid.outcomes(deployed, FLOWS, scaling):
        law, shifted = (f"{float(scaling.inflation(found.flows, offset)):.3f}" for offset in (0.0, rests))
        table.append((str(found.flows), f"{found.inflation:.3f}", law, shifted, f"{found.rates:.4f}", f"{found.least:.3f}"))
    print(columns(table))


def brought(args: argparse.Namespace) -> int:
    """Import a network."""
    from dc_gym.ctrl.nic import importing
    from dc_gym.ctrl.nic.observation import Scaling

    given = {name: getattr(args, name) for name in ("target", "beta", "gain") if getattr(args, name) is not None}
    return _keep(importing.network(args.file, Scaling(**given)), args)


def train(args: argparse.Namespace) -> int:
    """Train a network."""
    from dc_gym.ctrl.nic import gradient

    return _keep(gradient.file(gradient.Training(seed=args.seed, updates=args.updates, noise=args.noise)), args)


def _keep(made: PolicyFile, args: argparse.Namespace) -> int:
    """Write a network, or its trees."""
    from dc_gym.ctrl.nic import distil

    if args.trees is not None:
        made = distil.tree_file(made, distil.Recipe(trees=args.trees))
    made.write(args.out)
    print(f"{args.out}: {describe(made)}")
    return 0


def fit(args: argparse.Namespace) -> int:
    """Make the shipped policies again."""
    from dc_gym.ctrl.nic import fit as fitting
    from dc_gym.ctrl.nic import policy_file

    same = True
    for name, made in fitting.policies().items():
        ships = policy_file.PolicyFile.read(policy_file.shipped(name)).sha256() == made.sha256()
        same &= ships
        print(f"{name}: sha256 {made.sha256()}, {'the one that ships' if ships else 'another than ships'}")
        if args.out:
            args.out.mkdir(parents=True, exist_ok=True)
            made.write(args.out / f"{name}.npz")
    return 0 if same else 1


ACTIONS = {"policy": policy, "import": brought, "train": train, "fit": fit}
