# SPDX-License-Identifier: Apache-2.0
"""`dcgym method rlcc explain`: a policy's actions in the nine situations of RL-CC's Table VI, and where flows settle with it.

The paper finds two orders in its table. First: a policy raises, keeps or cuts the rate when the current state is under-utilized,
on target or congested. Second, the paper's main finding: the first decision after a change is stronger than a repeated one, and
on the way to the target the policy takes back its last change. This module checks both orders for any policy. A miss is a
finding, not an error.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from dc_gym.base.errors import UsageError
from dc_gym.base.readable import columns
from dc_gym.base.terminal import say
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.offline import cells
from dc_gym.methods.rlcc.policy import read_policy
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Floats
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy

FLOWS = (2, 8, 64, 512, 2048)
KEEP_TOLERANCE = 0.02
"""A factor within this distance of 1 keeps the rate."""
PERSISTENT_QUARTERS, REPEATED = (4, 400), 20
"""The range of persistent errors, in quarters of a target; the number of decisions on each."""


@dataclass(frozen=True, slots=True)
class TableStatement:
    """A statement about Table VI, and whether it holds."""

    order: str
    """"first" or "second"; "none" for a statement that is not in the paper."""
    says: str
    found: str
    holds: bool


def check_policy(file: NicPolicy) -> list[TableStatement]:
    """Checks both orders on the integer table, and one case beyond Table VI: congestion of any size that persists."""
    nine = np.reshape([cell.integer for cell in cells.table(file)], (3, 3))
    return [*check_table(nine), _persistent(file)]


def _persistent(file: NicPolicy) -> TableStatement:
    """Asks the policy again and again about the same error, each time with the action that it gave last."""
    deployed, targets = TablePolicy(file.table()), np.arange(PERSISTENT_QUARTERS[0], PERSISTENT_QUARTERS[1] + 1) / 4.0
    acted: Floats = np.ones_like(targets)
    errors = targets * file.scaling.unit
    for _ in range(REPEATED):
        inputs = np.stack([acted, errors, acted, errors], axis=1)
        acted, _ = fluid.evaluate(deployed, inputs, fluid.settled_memory(deployed, inputs))
    worst = int(acted.argmax())
    summary = f"at most {acted[worst]:.3f}, at {targets[worst]:g}"
    return TableStatement("none", "1 to 100 targets too much, and for long: it cuts", summary, bool(acted[worst] < 1))


def check_table(nine: Floats) -> list[TableStatement]:
    """Checks both orders on the nine actions [previous, current]."""
    (u_u, u_t, u_c), (t_u, t_t, t_c), (c_u, c_t, c_c) = nine.tolist()
    falling = [bool(row[0] > row[1] > row[2]) for row in nine]
    missing = ", ".join(state for state, holds in zip(cells.STATES, falling, strict=True) if not holds)
    sides = u_u > 1 > c_c and t_u > 1 > t_c and c_u > 1 > u_c
    return [
        TableStatement(
            "first", "raise > keep > cut in every row", f"not after {missing}" if missing else "in all three", all(falling)
        ),
        TableStatement("first", "under-utilized raises, congested cuts", f"{_span(nine[:, 0])}, {_span(nine[:, 2])}", sides),
        TableStatement("first", "on target twice keeps", f"{t_t:.3f}", abs(t_t - 1) < KEEP_TOLERANCE),
        TableStatement(
            "second", "a first cut is stronger than a repeated one", f"{u_c:.3f}, {t_c:.3f}; {c_c:.3f}", max(u_c, t_c) < c_c
        ),
        TableStatement(
            "second", "a first raise is stronger than a repeated one", f"{c_u:.3f}, {t_u:.3f}; {u_u:.3f}", min(c_u, t_u) > u_u
        ),
        TableStatement("second", "from under-utilized to target it cuts", f"{u_t:.3f}", u_t < 1),
        TableStatement("second", "from congested to target it raises", f"{c_t:.3f}", c_t > 1),
    ]


def _span(column: Floats) -> str:
    return f"{column.min():.3f} to {column.max():.3f}"


def main(args: argparse.Namespace) -> int:
    path = nic_policy.path_of(args.policy)
    policy = read_policy(path)
    if args.json and args.out:
        raise UsageError("--json prints one object, and --out draws; leave out one of them")
    if (args.lab or args.force) and not args.out:
        raise UsageError(f"{'--lab' if args.lab else '--force'} is of pictures; give their folder by --out")
    if args.json:
        say(json.dumps(_facts(policy), indent=1))
        return 0
    if args.out:
        from dc_gym.methods.rlcc.offline.pictures.folder import draw  # imports matplotlib

        draw(path, policy, args.out, lab=args.lab, force=args.force)
        return 0
    say(f"{path.name}: {policy.describe()}")
    for name, value in policy.provenance.items():
        say(f"  {name}: {_told(value)}")
    say(f"  sha256: {policy.sha256()}\n")
    _print_cells(policy)
    _print_orders(policy)
    _print_loop(policy)
    return 0


def _told(value: object) -> str:
    """Returns an entry of a file's provenance as text."""
    if isinstance(value, Mapping):
        return ", ".join(
            f"{name} ({_told(part)})" if isinstance(part, Mapping) else f"{name} {_told(part)}" for name, part in value.items()
        )
    return ", ".join(map(_told, value)) if isinstance(value, list) else str(value)


def _facts(file: NicPolicy) -> dict[str, object]:
    loop = [asdict(state) for state in _loop(file)]
    stated = {"kind": file.kind, "scaling": asdict(file.scaling), "provenance": dict(file.provenance), "sha256": file.sha256()}
    checks = {"table_vi": [asdict(cell) for cell in cells.table(file)], "orders": [asdict(check) for check in check_policy(file)]}
    return stated | checks | {"rests_at": fluid.resting_error(file.policy, file.scaling), "fluid": loop}


def _print_cells(file: NicPolicy) -> None:
    rows = cells.table(file)
    table = [("previous", "current", "paper", "artifact", "floats", "integers", "off the paper")]
    for cell in rows:
        numbers = (f"{cell.paper:.2f}", f"{cell.artifact:.3f}", f"{cell.exact:.4f}", f"{cell.integer:.4f}")
        table.append((cell.before, cell.now, *numbers, f"{cell.integer - cell.paper:+.4f}"))
    say("Table VI: the factor of the rate")
    say(columns(table))
    say(f"largest distance to the paper {max(abs(cell.integer - cell.paper) for cell in rows):.4f}", end=", ")
    say(f"of integers to floats {max(abs(cell.integer - cell.exact) for cell in rows):.5f}\n")


def _print_orders(file: NicPolicy) -> None:
    table = [("order", "RL-CC's table says", "here", "")]
    table += [(check.order, check.says, check.found, "holds" if check.holds else "MISSES") for check in check_policy(file)]
    say(columns(table), end="\n\n")


def _loop(file: NicPolicy) -> list[fluid.SettledState]:
    """Returns where flows settle.

    A network with memory is slow to evaluate but settles fast, so it gets fewer flows and round trips.
    """
    deployed = TablePolicy(file.table())
    flows, round_trips = (FLOWS[:-1], 500) if fluid.memory_size(deployed) else (FLOWS, 2000)
    return fluid.outcomes(deployed, flows, file.scaling, round_trips)


def _print_loop(file: NicPolicy) -> None:
    scaling, rests = file.scaling, fluid.resting_error(file.policy, file.scaling)
    say(f"closed loop on a fluid queue; a steady error of {rests:+.3f} targets keeps the rate")
    table = [("flows", "inflation", "eq. 2", "eq. 2 at its rest", "sum of rates", "slowest/fastest")]
    for state in _loop(file):
        law, shifted = (f"{float(scaling.inflation(state.flows, offset)):.3f}" for offset in (0.0, rests))
        table.append(
            (
                str(state.flows),
                f"{state.inflation:.3f}",
                law,
                shifted,
                f"{state.sum_of_rates:.4f}",
                f"{state.slowest_over_fastest:.3f}",
            )
        )
    say(columns(table))
