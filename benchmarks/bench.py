# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench NAME`: makes one group of checks, and reports for each the requirement, the measured value, and whether it passed.

A bench is a module here with `checks() -> Iterable[Check]`, and its name in BENCHES (with '-' for '_'). `compare` has no checks:
it runs a set of experiments and writes a page.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from dc_gym.base import checks, methods
from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import is_json_of, require_place
from dc_gym.base.progress import choose
from dc_gym.base.spelling import unknown
from dc_gym.benchmarks.studies import aliases

COMPARE, LEARN = "compare", "learn"
BENCHES = {
    COMPARE: "RL-CC, DCTCP, TCP NV, DCQCN, HPCC, PowerTCP, FDCC, ACC and others on the same traffic, in one page",
    "links": "cables and queues against a FIFO oracle, frame by frame",
    "port-cost": "what each feature of the switch port's qdisc costs a packet-hop, over bfifo",
    "enforce": "commanded v. measured rates, a thousandth of the line to all of it, set once and every step",
    "steps": "an agent's steps a second, beside what the lab and its channel allow",
    "speed": "wall time of whole runs, by phase; a packet of NICs and of TCP",
    "scale": "4 to 2048 hosts: rates, wall time and memory; the start of large networks",
    "sweep": "two labs side by side, beside two CPU loops",
    "grounds": "one spec in the lab and on the host, on cables and on stock qdiscs; who owns a packet",
    LEARN: "the policies that ship for the tasks of the suite, between constants, static rules and oracles",
    "nic-cost": "what a decision of each NIC algorithm costs: time, instructions, bytes",
    "ns3": "four DCTCP flows in the lab and in ns-3: the same experiment, and wall time",
    "ns3-fct": "a list of DCTCP flows on a leaf-spine in the lab and in ns-3: slowdown by size",
}
PERFORMANCE = ("steps", "speed", "scale", "sweep", LEARN, "nic-cost")
"""Benches whose modules are in perf/; all others are in checks/."""
OF_METHODS = {name: bench for method in methods.by_name().values() for name, bench in method.benches.items()}
BENCHES |= {name: bench.summary for name, bench in OF_METHODS.items()}


def module_of(name: str) -> ModuleType:
    """Returns the module of a bench that has checks."""
    if name in OF_METHODS:
        return import_module(OF_METHODS[name].module)
    return import_module(f"dc_gym.benchmarks.{'perf' if name in PERFORMANCE else 'checks'}.{name.replace('-', '_')}")


def _trainings(args: Namespace) -> Iterator[checks.Check]:
    """Yields the checks of `bench learn --train TASK`."""
    from dc_gym.learn.tasks import find

    learn, task = module_of(LEARN), find(args.train)
    with choose(args.quiet) as progress:
        yield from learn.trainings(task, range(1, (args.seeds or learn.SEEDS) + 1), args.out or learn.FOLDER, progress)


def main(args: Namespace) -> int:
    """Runs the bench `args.name`. Returns 0 if no check failed, else 1.

    `args.of_compare`: the options that only `compare` takes.
    """
    if args.name not in BENCHES:
        raise UsageError(unknown("bench", args.name, BENCHES))
    if args.json and not args.json.absolute().parent.is_dir():  # fail before minutes of measuring
        raise UsageError(f"--json {args.json}: no such folder; make it, or give a file elsewhere")
    if args.json:
        require_place(args.json, is_json_of(bench=args.name), remedy="move it, or give another --json")
    if args.name == COMPARE:
        with choose(args.quiet) as progress:
            return aliases.compare(args, progress)
    if args.train and args.name != LEARN:
        raise UsageError(f"bench {args.name}: --train applies only to bench {LEARN}; leave it out")
    taken = ("seeds", "out", "quiet") if args.train else ()
    if compare_options := [option for name, option in args.of_compare.items() if getattr(args, name) and name not in taken]:
        raise UsageError(f"bench {args.name}: {compare_options[0]} applies only to bench {COMPARE}; leave it out")
    shown = checks.show(args.name, _trainings(args) if args.train else module_of(args.name).checks())
    if args.json:
        checks.save(args.json, args.name, shown)
    return 0 if checks.all_good(shown) else 1
