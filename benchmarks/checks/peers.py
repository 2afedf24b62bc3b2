# SPDX-License-Identifier: Apache-2.0
"""The lab's algorithms beside other simulators', on the same networks, routes and flows: queue, share of the line, fairness,
convergence, and CPU time a packet-hop.

What the peers gave is stored (peers/*.toml), so none of them need be installed. `--peer NAME=PATH` runs one anew from its source
tree, and `--peer ns3` the system's package. docs/peers.md says how they are built, what differs, and why.

Each case is run with several gaps between the flows' starts, and medians are compared: single runs differ by how packets meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from dc_gym.base.checks import Check
from dc_gym.benchmarks.peers import cases
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow
from dc_gym.benchmarks.peers.registry import PEERS, parse
from dc_gym.sweep import runs

JUDGED = ("queue_bytes", "utilization", "jain")
BARS: Mapping[tuple[str, str], tuple[float, Sequence[str]]] = {
    ("hpcc-ns3", "hpcc"): (0.15, JUDGED),
    ("hpcc-ns3", "dcqcn"): (0.15, JUDGED),
    ("hpcc-ns3", "dcqcn_paper"): (0.15, JUDGED),
    ("hpcc-ns3", "timely"): (0.15, JUDGED),
    ("htsim", "swift"): (0.10, JUDGED),
    ("ns3", "dctcp"): (0.01, ("utilization",)),
}
"""By peer and algorithm: the largest difference of the medians, of the peer's, and the columns to which it applies. TCP's code
differs, so that only what it carries is judged; htsim's has no handshake, no delayed ACKs and no floor, and is shown alone."""
UNJUDGED = (("ns3", "dctcp", "leafspine"),)
"""Topologies without a bar. An ACK for each segment, which ns-3 needs, takes 2 % more of links that carry data both ways."""


@dataclass(frozen=True, slots=True)
class Column:
    """A field of the rows, and how it is shown."""

    field: str
    title: str
    unit: float
    digits: int


COLUMNS = (
    Column("queue_bytes", "mean queue (kB)", 1e3, 2),
    Column("utilization", "share of the line", 1, 3),
    Column("jain", "Jain's index", 1, 3),
    Column("converged_us", "convergence (us; inf: none)", 1, 0),
    Column("pauses", "PAUSE frames", 1, 0),
    Column("hop_ns", "CPU time a packet-hop (ns)", 1, 0),
)


def checks(peer: Sequence[str] = ()) -> Iterable[Check]:
    """Yields the checks. `peer`: the peers to be run anew, as NAME=PATH."""
    programs = {name: PEERS[name].program(path) for name, path in parse(peer).items()}
    ours: dict[PeerCase, PeerRow] = {}
    for name, each in PEERS.items():
        data = cases.stored(each.data)
        commit = data.simulator["commit"][:7]
        stored = f"{data.simulator['repository']}, {commit}"
        theirs = data.rows
        if program := programs.get(name):
            stored += f"; {each.version() if each.version else commit} runs anew"
            theirs = {case: each.run(program, case) for case in theirs}
        yield Check(name, "recorded", stored, ok=True)
        for algorithm in dict.fromkeys(case.algorithm for case in theirs):
            mine = {case: row for case, row in theirs.items() if case.algorithm == algorithm}
            ours |= run_lab([case for case in mine if case not in ours])
            yield from compared(name, mine, ours)


def compared(peer: str, theirs: Mapping[PeerCase, PeerRow], ours: Mapping[PeerCase, PeerRow]) -> Iterator[Check]:
    """Yields the checks of each group of cases of one algorithm."""
    for group in dict.fromkeys(case.group for case in theirs):
        mine = [case for case in theirs if case.group == group]
        tolerance, judged = BARS.get((peer, mine[0].algorithm), (0, ()))
        if (peer, mine[0].algorithm, mine[0].topology) in UNJUDGED:
            judged = ()
        there, here = ([rows[case] for case in mine] for rows in (theirs, ours))
        for column in COLUMNS:
            limit = tolerance if column.field in judged else None
            yield check(f"{peer}, {mine[0].algorithm}, {group}", column, there, here, limit)


def run_lab(wanted: Sequence[PeerCase]) -> dict[PeerCase, PeerRow]:
    """Runs cases in the lab."""
    with runs.scratch("peers") as folder:
        cells = {case: cases.cell(f"{case.algorithm}-{case.name}".replace("_", "-"), case, folder) for case in wanted}
        found = runs.run_all(list(cells.values()))
        return {case: cases.measured(case, found[cell.name], cases.layout(case, cell.spec)) for case, cell in cells.items()}


def check(title: str, column: Column, theirs: Sequence[PeerRow], ours: Sequence[PeerRow], tolerance: float | None) -> Check:
    """Returns the check of a column: medians, with the least and the greatest. Without a tolerance they are shown alone."""
    mine, other = ([getattr(row, column.field) / column.unit for row in rows] for rows in (ours, theirs))
    words, asked = (
        f"{median(each):.{column.digits}f} ({min(each):.{column.digits}f}..{max(each):.{column.digits}f})"
        for each in (mine, other)
    )
    name = f"{title}: {column.title}"
    if tolerance is None:
        return Check(name, f"recorded; there {asked}", words, ok=True)
    off = median(mine) / median(other) - 1
    return Check(name, f"{asked} +- {tolerance:.0%}", f"{words}, {off:+.1%}", abs(off) <= tolerance)
