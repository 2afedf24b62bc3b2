# SPDX-License-Identifier: Apache-2.0
"""The peers: simulators whose results are stored, and how a case runs in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.benchmarks.peers import hpcc_ns3, htsim, ns3
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow


@dataclass(frozen=True, slots=True)
class Peer:
    """A simulator: its stored results, and how a case runs in it."""

    data: Path
    program: Callable[[Path], Path]
    """Returns the program of a source tree, built if need be. Raises UsageError if there is none, or of another commit."""
    run: Callable[[Path, PeerCase], PeerRow]
    """Runs a case with that program."""
    version: Callable[[], str] | None = None
    """Returns the version of a package of the system. None: it is a source tree, of the commit of the stored results."""


PEERS: Mapping[str, Peer] = {
    "hpcc-ns3": Peer(hpcc_ns3.DATA, hpcc_ns3.program_of, hpcc_ns3.run),
    "htsim": Peer(htsim.DATA, htsim.program_of, htsim.run),
    "ns3": Peer(ns3.DATA, lambda _: ns3.ensure(), ns3.run_case, lambda: ns3.toolchain().ns3_version),
}


def parse(peers: Sequence[str]) -> dict[str, Path]:
    """Returns source trees by name, from NAME=PATH.

    Raises UsageError for an unknown name, one that is given twice, and a path that is no folder.
    """
    given: dict[str, Path] = {}
    for each in peers:
        name, _, path = each.partition("=")
        if name not in PEERS:
            raise UsageError(unknown("peer", name, PEERS))
        if name in given:
            raise UsageError(f"--peer {each}: {name} is given twice; give it once")
        if PEERS[name].version:
            if path:
                raise UsageError(f"--peer {each}: {name} is a package of the system; give --peer {name} alone")
        elif not path or not Path(path).is_dir():
            raise UsageError(f"--peer {each}: {path or 'nothing'!r} is no folder; give {name}=PATH, the simulator's source tree")
        given[name] = Path(path)
    return given
