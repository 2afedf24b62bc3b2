# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench NAME`: makes one group of checks, and reports for each what is required, what was measured, and whether it passed.

A bench is a module here with `checks() -> Iterable[Check]`, and its name in BENCHES (with '-' for '_'). `compare` has no checks:
it runs a set of experiments and writes a page.
"""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module
from types import ModuleType

from dc_gym.base import checks
from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import is_json_of, require_place
from dc_gym.base.progress import choose
from dc_gym.base.spelling import unknown
from dc_gym.benchmarks.studies import aliases

COMPARE = "compare"
BENCHES = {
    COMPARE: "RL-CC, DCTCP, TCP NV, DCQCN, HPCC, PowerTCP, FDCC, ACC and others on the same traffic, in one page",
    "links": "cables and queues against a FIFO oracle, frame by frame",
    "port-cost": "what each feature of the switch port's qdisc costs a packet-hop, over bfifo",
    "learn": "PPO on dumbbell-10m against chance, its own beginning, CUBIC and an oracle (needs the extra rl)",
    "learn-ecn": "PPO sets every switch port's ECN thresholds, beside 12 static settings and chance (needs the extra rl)",
    "acc-learn": "ACC's net, trained offline, beside SECN1, SECN2 and each action as a static marking (--seeds, default 1)",
    "acc-oracle": "ACC's net over DCQCN and DCTCP in cases that nobody trained on, beside the best action (--seeds, default 3)",
    "acc-cost": "what an inference of ACC's net costs, and what its integer form changes",
    "fdcc-train": "FDCC's policies, trained in a fluid model, in incasts of 4 to 256 flows beside rivals (--seeds, default 5)",
    "enforce": "commanded v. measured rates, a thousandth of the line to all of it, set once and every step",
    "steps": "an agent's steps a second, beside what the lab and its channel allow",
    "dctcp": "DCTCP's queue against its paper, TCP NV at two rates",
    "incast": "2 to 256 senders to one receiver: collapse, its end, and the arithmetic",
    "speed": "wall time of whole runs, by phase",
    "scale": "4 to 2048 hosts: rates, wall time and memory; the start of acc288",
    "sweep": "labs side by side, and a sweep that is killed and goes on",
    "fct": "WebSearch at three loads: what is offered, every flow accounted for, lone flows against their ideal",
    "grounds": "one spec in the lab and on the host, on cables and on stock qdiscs; who owns a packet",
    "nic-cost": "what a decision of each NIC algorithm costs: time, instructions, bytes; and a data packet in the lab",
    "rlcc-train": "RL-CC's networks and PCC-RL's, trained on labs from random weights, with 2 to 128 flows (--seeds, default 3)",
    "rlcc-distil": "RL-CC: trees against their own network in the lab's closed loop, 8 to 512 flows (--policy NET)",
    "ns3": "four DCTCP flows in the lab and in ns-3: the same experiment, and wall time",
    "ns3-fct": "a list of DCTCP flows on a leaf-spine in the lab and in ns-3: slowdown by size",
}
PERFORMANCE = ("steps", "speed", "scale", "sweep", "nic-cost", "acc-cost")
"""Benches whose modules are in perf/; all others are in checks/."""
OPTIONS = {
    "seeds": ("rlcc-train", "acc-learn", "acc-oracle", "fdcc-train"),
    "out": ("acc-oracle",),
    "policy": ("rlcc-distil",),
}
"""Options, and the benches that take them; `compare` has its own."""


def module_of(name: str) -> ModuleType:
    """Returns the module of a bench that has checks."""
    return import_module(f"dc_gym.benchmarks.{'perf' if name in PERFORMANCE else 'checks'}.{name.replace('-', '_')}")


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
    given = [option for option in {*OPTIONS, *args.of_compare} if getattr(args, option)]
    own = [option for option in given if args.name in OPTIONS.get(option, ())]
    if odd := sorted({*given} - {*own}):
        where = f"applies only to bench {COMPARE if odd[0] in args.of_compare else OPTIONS[odd[0]][0]}"
        raise UsageError(f"bench {args.name}: {args.of_compare.get(odd[0], f'--{odd[0]}')} {where}; leave it out")
    shown = checks.show(args.name, module_of(args.name).checks(**{option: getattr(args, option) for option in own}))
    if args.json:
        checks.save(args.json, args.name, shown)
    return 0 if checks.all_good(shown) else 1
