# SPDX-License-Identifier: Apache-2.0
"""Runs a peer's stored cases anew, and prints the rows of stored.tsv.

    python -m dc_gym.benchmarks.peers NAME[=PATH] [ALGORITHM ...]

NAME=PATH is `hpcc-ns3` or `htsim` and its source tree, of the commit of the stored rows; `ns3` is a package of the system.
Without an ALGORITHM all run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.spelling import unknown
from dc_gym.base.terminal import say
from dc_gym.benchmarks.peers import cases, hpcc_ns3, htsim, ns3
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow

PACKAGES = ("ns3",)
"""Peers that are packages of the system."""
PEERS: Mapping[str, tuple[Callable[[Path], Path], Callable[[Path, PeerCase], PeerRow]]] = {
    "hpcc-ns3": (hpcc_ns3.program_of, hpcc_ns3.run),
    "htsim": (htsim.program_of, htsim.run),
    "ns3": (lambda _: ns3.ensure(), ns3.run_case),
}
"""By name: the function that returns the program of a source tree, built if need be, and the one that runs a case with it."""


def main(argv: Sequence[str]) -> int:
    try:
        _run(argv)
    except (TestbedError, UsageError) as error:
        say(f"peers: {error}", file=sys.stderr)
        return 2
    return 0


def _run(argv: Sequence[str]) -> None:
    if not argv:
        raise UsageError(f"no peer is given; give one of {', '.join(PEERS)}, as docs/peers.md says")
    name, _, path = argv[0].partition("=")
    if name not in PEERS:
        raise UsageError(unknown("peer", name, PEERS))
    if name in PACKAGES and path:
        raise UsageError(f"{argv[0]}: {name} is a package of the system; give {name} alone")
    if name not in PACKAGES and not (path and Path(path).is_dir()):
        raise UsageError(f"{argv[0]}: {path or 'nothing'!r} is no folder; give {name}=PATH, the simulator's source tree")
    stored = cases.stored(name)
    known = list(dict.fromkeys(case.algorithm for case in stored))
    for algorithm in argv[1:]:
        if algorithm not in known:
            raise UsageError(unknown("algorithm", algorithm, known))
    program_of, run = PEERS[name]
    program = program_of(Path(path))
    say("\t".join(cases.COLUMNS))
    for case in stored:
        if case.algorithm in (argv[1:] or known):
            say(cases.row_text(name, case, run(program, case)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
