# SPDX-License-Identifier: Apache-2.0
"""The bars of the project: `dcgym bench NAME` measures one group and says asked, measured, good or short.

A bench is a module here with `bars() -> Iterable[Bar]`, and its name in BENCHES (with '-' for '_'). `compare` has no bars: it is
a campaign with a page.
"""

from __future__ import annotations

from argparse import Namespace
from importlib import import_module

from dc_gym.bench import report
from dc_gym.errors import UsageError

COMPARE = "compare"
BENCHES = {
    COMPARE: "RL-CC, DCTCP, TCP NV, DCQCN and others on the same traffic, in one page",
    "determinism": "equal digests under load, elsewhere, and with a disturbed set-up",
    "links": "cables and queues against a FIFO oracle, frame by frame",
    "rate-changes": "a tbf whose rate is set anew all the time, with and without the lab's flag",
    "learn": "PPO on dumbbell-10m against chance, its own beginning, CUBIC and an oracle (needs the extra rl)",
    "enforce": "commanded v. measured rates, a thousandth of the line to all of it, set once and every step",
    "steps": "an agent's steps a second, beside what the lab and its channel allow",
    "orphans": "nothing is left after kill -9 of an environment's or a training's processes",
    "dctcp": "DCTCP's queue against its paper, TCP NV at two rates",
    "incast": "2 to 256 senders to one receiver: collapse, its end, and the arithmetic",
    "speed": "wall time of whole runs, by phase",
    "scale": "4 to 2048 hosts: rates, wall time and memory; the start of acc288",
    "sweep": "labs side by side, and a sweep that is killed and goes on",
    "fct": "WebSearch at three loads: what is offered, every flow accounted for, lone flows against their ideal",
    "clean": "nothing is left after kill -9 of any process",
    "resets": "an episode after resets and in a fresh lab: equal, or how far apart",
    "grounds": "one spec in the lab and on the host, on cables and on stock qdiscs; who owns a packet",
    "nic-golden": "the NIC's algorithms against float references, in userspace and in BPF",
    "nic-cost": "what a decision of each NIC algorithm costs: time, instructions, bytes; and a data packet in the lab",
    "nic-pacing": "the NIC's rates and gaps, 1 Mbit/s to 10 Gbit/s, and 512 flows that share a link",
    "nic-loop": "DCQCN, Swift and RL-CC on one bottleneck: state machine, shares, delays",
    if args.policy and args.name not in OF_A_POLICY:
        raise UsageError(f"bench {args.name}: --policy is of bench {' and '.join(OF_A_POLICY)} alone")
    chosen = {"policy": args.policy} if args.policy else {}
    bars = import_module(f"dc_gym.bench.{args.name.replace('-', '_')}").bars(**repeats, **chosen)
    shown = report.show(args.name, bars)
    if args.json:
        report.save(args.json, args.name, shown)
    return 0 if report.all_good(shown) else 1
