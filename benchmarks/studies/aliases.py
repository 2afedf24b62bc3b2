# SPDX-License-Identifier: Apache-2.0
"""`dcgym reproduce` and `dcgym bench compare`: other names of `dcgym study`."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.compare import cases
from dc_gym.study import command

PAPERS = ("iroko", "rl-cc", "pcc-rl", "fdcc", "acc")
ALL = "all"


def main(args: Namespace, progress: Progress) -> int:
    """Runs `dcgym study list`, `score` or `run` with the options of `dcgym reproduce`."""
    names = [f"{args.paper}/{figure}" for figure in args.figures] or ([*PAPERS] if args.paper in (ALL, None) else [args.paper])
    verb = "list" if args.list else "score" if args.score else "run"
    if verb == "run" and args.paper is None:
        raise UsageError(f"reproduce: name a paper ({', '.join(PAPERS)}) or {ALL}; `dcgym reproduce --list` lists figures")
    if args.paper == ALL and args.figures:
        raise UsageError(f"reproduce {ALL} {args.figures[0]}: name the paper of this figure instead of {ALL}")
    options = vars(args) | {"verb": verb, "names": names}
    options |= {"length": "full", "cases": ALL} if args.full else {}
    return command.main(LIBRARY, Namespace(**options), progress)


def compare(args: Namespace, progress: Progress) -> int:
    """Runs the studies of `compare` with the options of `dcgym bench compare`: some networks, workloads and controllers."""
    contestants, traffic = args.controllers or cases.CONTROLLERS, args.workloads or cases.DEFAULT_TRAFFIC
    studies = [
        replace(cases.study(network, traffic, contestants), name=f"compare/{network}")
        for network in args.topologies or cases.DEFAULT_NETWORKS
    ]
    by_default = not (args.controllers or args.workloads)
    options = {"evidence": None if by_default else (args.out or command.OUT) / "evidence", "address": None}
    options |= {"length": "full" if args.full else "default", "cases": ALL, "ground": args.ground or "lab", "variants": []}
    return command.run(command.Desk(LIBRARY, Namespace(**(vars(args) | options)), progress), studies)
