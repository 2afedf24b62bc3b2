# SPDX-License-Identifier: Apache-2.0
"""The cases in which the lab's algorithms and a peer's are compared: their specs, and peers' results (stored.tsv).

A case is written once, as keys of a spec and a list of flows. A peer gets the CSV files of files.py that are made of this spec.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym import spec
from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.peers import files
from dc_gym.ctrl import controllers
from dc_gym.results.metrics.fairness import jain
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec.nic import FRAME_HEADERS_BYTES
from dc_gym.study import collect
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.telemetry import TELEMETRY_BYTES
from dc_gym.traffic.sizes import HEADER_BYTES

STORED, BUILDS = (Path(__file__).resolve().with_name(name) for name in ("stored.tsv", "simulators.tsv"))
"""The peers' results, a row for each case, so that a comparison needs no peer; and the builds that gave these rows."""
FLOW_BYTES = 4_000_000_000
"""A flow's size, near the most that HPCC's simulator counts (2^32): none ends while it is measured."""
FIRST_PORT = 5001
LEAVES, HOSTS_PER_LEAF = 4, 4
SHIFT = HOSTS_PER_LEAF + 1
"""A permutation sends from each host to the one so many places further: always to another leaf, and not all to one."""
BIN_NS, FAIR = 200_000, 0.9
"""Flows have converged when Jain's index of a bin of BIN_NS is at least FAIR for the first time."""
NEVER = float("inf")
SWEEP_US, PROGRESS_NS = 10, 100_000
"""From one reading of the queues to the next, and of the flows' bytes."""

Progress = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Times in ns, and the bytes that each flow (columns) had delivered until then."""


def read(kind: type[Any], row: Mapping[str, str]) -> Any:
    """Returns the fields of a dataclass from a row of a table."""
    return kind(*({"str": str, "int": int, "float": float}[str(field.type)](row[field.name]) for field in fields(kind)))


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines(), delimiter="\t"))


SIMULATORS: Mapping[str, Mapping[str, str]] = {row["peer"]: row for row in table(BUILDS)}
"""By peer: `title`, `repository`, `commit`, `build`."""


@dataclass(frozen=True, slots=True)
class PeerCase:
    """Flows of one algorithm that begin one after the other and share ports, each from its own sender."""

    algorithm: str
    topology: str
    """`single`: all hosts at one switch. `leafspine`: a permutation of 16 hosts below 4 leaves and one spine. Four flows share
    each link between leaf and spine."""
    flows: int
    rate_gbps: int
    delay_ns: int
    """Delay of each link."""
    gap_ns: int
    """From one flow's start to the next."""
    from_us: int
    until_us: int
    """The window in which queue and rates are measured."""

    @property
    def group(self) -> str:
        """Returns the name of the cases that differ by their gap alone."""
        return f"{self.algorithm}, {'permutation' if self.topology == 'leafspine' else f'{self.flows} to 1'}"

    @property
    def name(self) -> str:
        return f"{self.group}, gap {self.gap_ns} ns"

    @property
    def file(self) -> str:
        """Returns the name of the list of its flows, which algorithms share."""
        return f"{self.topology}-{self.flows}-gap-{self.gap_ns}.csv"

    @property
    def links(self) -> int:
        """Returns the number of links of a flow's path. All but the first and the last, or the last of two, are shared."""
        return {"single": 2, "leafspine": 4}[self.topology]

    def ends(self) -> list[tuple[str, str]]:
        """Returns each flow's sender and receiver."""
        hosts = [f"h{number + 1}" for number in range(self.flows + 1)]
        away = [self.flows if self.topology == "single" else (number + SHIFT) % self.flows for number in range(self.flows)]
        return [(hosts[number], hosts[other]) for number, other in enumerate(away)]

    def flow_list(self) -> str:
        """Returns the file of the flows, for workload.kind = "matrix"."""
        rows = [f"{a},{b},{FIRST_PORT + n},{n * self.gap_ns / 1e9:.9f},0,{FLOW_BYTES}" for n, (a, b) in enumerate(self.ends())]
        return collect.flow_list(rows)


def owner(port: str) -> str:
    return port.rpartition("-")[0]


def shared_ports(flows: int, cables: Iterable[tuple[str, str]]) -> list[str]:
    """Returns the ports of switches through which several flows go, of all cables by the names of their two ports."""
    both, receiver = [end for a, b in cables for end in ((a, owner(b)), (b, owner(a)))], f"h{flows + 1}"
    return sorted({port for port, to in both if to == receiver or not (port.startswith("h") or to.startswith("h"))})


@dataclass(frozen=True, slots=True)
class PeerRow:
    """The results of a case."""

    queue_bytes: float
    """The mean queue of a shared port, over time and over these ports. A packet that is being sent is not in the queue."""
    utilization: float
    """Data that a shared port carried, as whole packets, over its line rate; mean over these ports. ACKs do not count."""
    jain: float
    """Jain's index of the flows' bytes."""
    converged_us: float = NEVER
    """From the last start until the flows were fair; infinite: they were not while the run lasted."""
    hop_ns: float = -1
    """CPU time of the whole process for a packet of data on a link, in ns, with that machine and that build. -1: unknown."""
    pauses: int = 0
    """PAUSE frames of priority flow control."""


COLUMNS = ("peer", *(column.name for kind in (PeerCase, PeerRow) for column in fields(kind)))


def stored(peer: str, path: Path = STORED) -> dict[PeerCase, PeerRow]:
    """Returns a peer's stored results, by case."""
    return {read(PeerCase, row): read(PeerRow, row) for row in table(path) if row["peer"] == peer}


def row_text(peer: str, case: PeerCase, row: PeerRow) -> str:
    """Returns a row of stored.tsv."""
    values = (peer, *astuple(case), *astuple(row))
    return "\t".join(f"{value:.10g}" if isinstance(value, float) else str(value) for value in values)


@dataclass(frozen=True, slots=True)
class Ours:
    """The lab's side of a peer's algorithm."""

    controller: str
    frame_bytes: int
    """A packet of the peer, and so of ours, as the cable carries it."""
    keys: Mapping[str, object]
    """Keys of the spec that the peer's setting asks for."""

    @property
    def header_bytes(self) -> int:
        """Bytes of a frame that are no payload (docs/nic.md), and so of an ACK."""
        controller = controllers.find(self.controller)
        assert controller is not None
        return FRAME_HEADERS_BYTES + TELEMETRY_BYTES * controller.telemetry if controller.nic else HEADER_BYTES

    @property
    def payload_bytes(self) -> int:
        return self.frame_bytes - self.header_bytes


PFC: Mapping[str, object] = {"topology.shared_buffer": "32MB", "topology.pfc": "classes", "topology.xoff": "1/8"}
"""As HPCC's simulator: a buffer of 32 MB, and third.cc's shift of 3 for the share of the free room that pauses a port."""
LOSSY: Mapping[str, object] = {"topology.buffer": "32MB"}
SECN: Mapping[str, object] = {**PFC, "topology.marking": "secn2"}
STEP: Mapping[str, object] = {"topology.buffer": "4MB", "topology.marking": "step", "topology.k_bytes": "60p"}
OURS = {
    "hpcc": Ours("hpcc", 1090, {"nic.preset": "ns3", **LOSSY}),
    "dcqcn": Ours("dcqcn", 1048, {"nic.preset": "ns3", **SECN}),
    "dcqcn_paper": Ours("dcqcn", 1048, {"nic.preset": "ns3_paper", **SECN}),
    "timely": Ours("timely", 1056, {"nic.preset": "ns3", **PFC}),
    "swift": Ours("swift", 1048, {"nic.preset": "absolute", **LOSSY}),
    "dctcp": Ours("dctcp", FRAME_BYTES, STEP),
}
"""By the peer's name of an algorithm."""
BASE: Mapping[str, object] = {
    "workload.kind": "matrix",
    "monitor.interval": f"{SWEEP_US}us",
    "monitor.tcp_interval": f"{PROGRESS_NS}ns",
    "metrics.slowdown": "off",
    "topology.routing": "single",
    "topology.host_buffer": "4MB",
}
SHAPES: Mapping[str, Mapping[str, object]] = {
    "single": {},
    "leafspine": {"topology.leaves": LEAVES, "topology.hosts_per_leaf": HOSTS_PER_LEAF, "topology.spines": 1},
}


def keys(case: PeerCase) -> dict[str, object]:
    """Returns the keys of a case's spec, besides the keys of BASE."""
    setup = OURS[case.algorithm]
    nic = {"nic.payload": f"{setup.payload_bytes}B", "nic.trace": "off", "nic.message": "1GB"}
    return {
        "controller.name": setup.controller,
        **(nic if "nic.preset" in setup.keys else {}),
        "topology.kind": case.topology,
        **(SHAPES[case.topology] or {"topology.hosts": case.flows + 1}),
        "topology.rate": f"{case.rate_gbps}Gbit/s",
        "topology.delay": f"{case.delay_ns}ns",
        **setup.keys,
        "workload.file": case.file,
        "time.duration": f"{case.until_us}us",
        "time.warmup": f"{case.from_us}us",
    }


def experiment(case: PeerCase, folder: Path) -> Experiment:
    """Returns the lab's experiment of a case, whose list of flows it writes to `folder`."""
    (folder / case.file).write_text(case.flow_list())
    return Experiment.of(spec.vary({"name": case.name}, folder, case.name, (), {**BASE, **keys(case)}, case.name))


@contextmanager
def made(case: PeerCase) -> Iterator[tuple[Path, Experiment]]:
    """Yields a folder for a run of a case by a peer, and the case's experiment."""
    with tempfile.TemporaryDirectory(prefix="dcgym-peer-") as folder:
        yield Path(folder), experiment(case, Path(folder))


def shared_here(case: PeerCase, graph: Graph) -> list[str]:
    return shared_ports(case.flows, ((cable.a.ifname, cable.b.ifname) for cable in graph.cables))


def converged_us(progress: Progress, case: PeerCase) -> float:
    """Returns the time from the last start until the first bin in which the flows' shares are fair."""
    (t_ns, delivered), last_start_ns = progress, (case.flows - 1) * case.gap_ns
    edges = np.arange(last_start_ns, int(t_ns[-1]) + 1, BIN_NS) if len(t_ns) else np.empty(0)
    if len(edges) < 2:
        return NEVER
    at = np.stack([np.interp(edges, t_ns, column) for column in delivered.T], axis=1)
    for edge, shares in zip(edges[1:], np.diff(at, axis=0), strict=True):
        if (jain(shares) or 0) >= FAIR:
            return float(edge - last_start_ns) / 1000
    return NEVER


def hop_ns(cpu_s: float, case: PeerCase, delivered_bytes: float, packet_bytes: int) -> float:
    """Returns the CPU time for a packet of data on a link; `delivered_bytes` in units of `packet_bytes`."""
    return round(cpu_s * 1e9 / (delivered_bytes / packet_bytes * case.links), 1)


def read_back(case: PeerCase, graph: Graph, folder: Path, cpu_s: float, packet_bytes: int) -> PeerRow:
    """Returns a peer's row from its queues-out.csv and progress-out.csv: means over the shared ports, and the flows' shares.

    Rates are measured from the window's first sample to the last one. A peer's last sample may come before the window's end.
    `packet_bytes`: the bytes that a packet adds to the received bytes.
    """
    queues, progress, shared = files.read_queues(folder), files.read_progress(folder, case.flows), shared_here(case, graph)
    t_ns, received = progress
    first = np.searchsorted(t_ns, case.from_us * 1000)
    rates = np.asarray((received[-1] - received[first]) * 8e9 / (t_ns[-1] - t_ns[first]))
    carried_bps = rates.sum() * OURS[case.algorithm].frame_bytes / packet_bytes * (case.links // 2)  # on all shared ports
    return PeerRow(
        round(float(np.mean([queues[port] for port in shared])), 1),
        round(float(carried_bps) / len(shared) / (case.rate_gbps * 1e9), 4),
        round(jain(rates) or 0, 4),
        converged_us(progress, case),
        hop_ns(cpu_s, case, float(received[-1].sum()), packet_bytes),
    )
