# SPDX-License-Identifier: Apache-2.0
"""The cases in which the lab's algorithms and a peer's are compared: what runs, what is measured, and what peers gave.

A case is written once as a spec, and as the four CSV files of files.py from that spec: a peer gets the lab's network, routes and
flows. What peers gave is stored, one TOML file a peer, so that a comparison needs no peer.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym import spec
from dc_gym.base.errors import ProtocolError
from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.peers import files
from dc_gym.grounds.experiment import Experiment
from dc_gym.metrics.fairness import jain
from dc_gym.records.results import Result
from dc_gym.sweep import Cell, runs

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
        return f"{self.topology}-{self.flows}-{self.rate_gbps}g-{self.delay_ns}ns"

    @property
    def name(self) -> str:
        return f"{self.group}-gap-{self.gap_ns}ns"

    @property
    def links(self) -> int:
        """Returns the number of links of a flow's path."""
        return {"single": 2, "leafspine": 4}[self.topology]

    def starts_ns(self) -> list[int]:
        return [number * self.gap_ns for number in range(self.flows)]

    def ends(self) -> list[tuple[str, str]]:
        """Returns each flow's sender and receiver."""
        hosts = [f"h{number + 1}" for number in range(self.flows + 1)]
        if self.topology != "leafspine":
            return [(host, hosts[self.flows]) for host in hosts[: self.flows]]
        return [(hosts[number], hosts[(number + SHIFT) % self.flows]) for number in range(self.flows)]


@dataclass(frozen=True, slots=True)
class PeerRow:
    """The results of a case."""

    queue_bytes: float
    """Mean over time of what waits in a shared port, and over these ports. A packet that is being sent waits no more."""
    utilization: float
    """Data that a shared port carried, as whole packets, over its line rate; mean over these ports. ACKs do not count."""
    jain: float
    """Jain's index of the flows' bytes."""
    converged_us: float = NEVER
    """From the last start until the flows were fair; infinite: they were not while the run lasted."""
    hop_ns: float = -1
    """CPU time for a packet of data on a link, in ns: what that machine and that build took. Ours is that of the traffic, a
    peer's that of its whole process. -1: not measured."""
    pauses: int = 0
    """PAUSE frames of priority flow control."""


@dataclass(frozen=True, slots=True)
class PeerData:
    """A peer's results, and how it was asked for them."""

    simulator: Mapping[str, str]
    rows: Mapping[PeerCase, PeerRow]


def stored(path: Path) -> PeerData:
    with path.open("rb") as file:
        read = tomllib.load(file)
    return PeerData(read["simulator"], {_part(PeerCase, each): _part(PeerRow, each) for each in read.get("run", ())})


def _part(kind: type[Any], row: Mapping[str, object]) -> Any:
    return kind(**{each.name: row[each.name] for each in fields(kind) if each.name in row})


def row_text(case: PeerCase, row: PeerRow) -> str:
    """Returns a row of a peer's file."""
    values = {**asdict(case), **asdict(row)}
    pairs = [f'{name} = "{value}"' if isinstance(value, str) else f"{name} = {value}" for name, value in values.items()]
    return "\n".join(["[[run]]", *pairs, ""])


@dataclass(frozen=True, slots=True)
class Ours:
    """The lab's side of a peer's algorithm: its controller and the keys of the spec that the peer's setting asks for."""

    controller: str
    nic: Mapping[str, str] = field(default_factory=dict)
    topology: Mapping[str, object] = field(default_factory=dict)
    frame_bytes: int = 1048
    """A packet of the peer, and so of ours, as the cable carries it."""

    @property
    def header_bytes(self) -> int:
        """Bytes of a frame that are no payload, and so of an ACK."""
        return HEADERS.get(self.controller, NIC_HEADERS)

    @property
    def payload_bytes(self) -> int:
        return self.frame_bytes - self.header_bytes


NIC_HEADERS, HEADERS = 74, {"hpcc": 116, "dctcp": 66}
"""Bytes of our frames that are no payload (docs/nic.md), and with telemetry, and of TCP."""
LOSSLESS: Mapping[str, object] = {"shared_buffer": "32MB", "pfc": "classes", "xoff": "1/8"}
"""As HPCC's simulator: a buffer of 32 MB, and third.cc's shift of 3 for the share of the free room that pauses a port."""
OURS = {
    "hpcc": Ours("hpcc", {"preset": "ns3"}, {"buffer": "32MB"}, 1090),
    "dcqcn": Ours("dcqcn", {"preset": "ns3"}, {**LOSSLESS, "marking": "secn2"}),
    "dcqcn_paper": Ours("dcqcn", {"preset": "ns3_paper"}, {**LOSSLESS, "marking": "secn2"}),
    "timely": Ours("timely", {"preset": "ns3"}, LOSSLESS, 1056),
    "swift": Ours("swift", {"preset": "absolute"}, {"buffer": "32MB"}),
    "dctcp": Ours("dctcp", {}, {"buffer": "4MB", "marking": "step", "k_bytes": "60p"}, FRAME_BYTES),
}
"""By the peer's name of an algorithm."""
SHAPES: Mapping[str, str] = {
    "single": 'kind = "single"\nhosts = {hosts}',
    "leafspine": f'kind = "leafspine"\nleaves = {LEAVES}\nhosts_per_leaf = {HOSTS_PER_LEAF}\nspines = 1',
}
SPEC = """
spec_version = 1
name = "{name}"
controller.name = "{controller}"
{nic}
workload = {{ kind = "matrix", file = "{name}.csv" }}
time = {{ duration = "{until_us}us", warmup = "{from_us}us" }}
monitor = {{ interval = "{sweep_us}us", tcp_interval = "{progress_ns}ns" }}
metrics.slowdown = "off"
[topology]
{shape}
routing = "single"
rate = "{rate}Gbit/s"
delay = "{delay}ns"
host_buffer = "4MB"
{keys}
"""


def write_spec(case: PeerCase, folder: Path, name: str) -> Path:
    """Writes a case as a spec and the list of its flows, and returns the spec's path."""
    ours = OURS[case.algorithm]
    flows = zip(case.ends(), case.starts_ns(), strict=True)
    rows = [f"{a},{b},{FIRST_PORT + n},{start / 1e9:.9f},0,{FLOW_BYTES}" for n, ((a, b), start) in enumerate(flows)]
    (folder / f"{name}.csv").write_text("\n".join(["source,destination,port,start,stop,size", *rows]) + "\n")
    given = {**ours.nic, "payload": f"{ours.payload_bytes}B", "trace": "off", "message": "1GB"} if ours.nic else {}
    text = SPEC.format(
        name=name,
        controller=ours.controller,
        nic="\n".join(f'nic.{key} = "{value}"' for key, value in given.items()),
        until_us=case.until_us,
        from_us=case.from_us,
        sweep_us=SWEEP_US,
        progress_ns=PROGRESS_NS,
        shape=SHAPES[case.topology].format(hosts=case.flows + 1),
        rate=case.rate_gbps,
        delay=case.delay_ns,
        keys="\n".join(f'{key} = "{value}"' for key, value in ours.topology.items()),
    )
    return runs.write_spec(folder, name, text)


def cell(name: str, case: PeerCase, folder: Path) -> Cell:
    """Returns the run of a case in the lab, with its files in a folder."""
    return Cell(name, write_spec(case, folder, name), folder / name)


@dataclass(frozen=True, slots=True)
class Layout:
    """A case's network as the peers get it."""

    experiment: Experiment
    flows: Sequence[files.PeerFlow]
    paths: Sequence[Sequence[str]]
    """By flow: the ports that its packets leave by, its host's first."""

    @property
    def shared(self) -> list[str]:
        """Returns the ports of switches through which several flows go."""
        count = Counter(port for path in self.paths for port in path[1:])
        return sorted(port for port, flows in count.items() if flows > 1)


def layout(case: PeerCase, path: Path, protocol: str | None = None) -> Layout:
    """Returns the layout of a case that write_spec wrote. `protocol`: what flows.csv says, if not the algorithm's name."""
    experiment = Experiment.of(spec.load(path))
    asked = [each.request for each in experiment.schedule.flows]
    flows = [
        files.PeerFlow(each.src, each.dst, each.dst_port, each.start_ns, FLOW_BYTES, protocol or case.algorithm) for each in asked
    ]
    return Layout(experiment, flows, files.paths(experiment.graph, experiment.router, flows))


def write_files(case: PeerCase, folder: Path, protocol: str | None = None) -> Layout:
    """Writes a case's network, routes and flows for a peer, from its spec."""
    found = layout(case, write_spec(case, folder, case.name), protocol)
    files.write_experiment(folder, found.experiment.graph, found.experiment.router, found.flows)
    return found


def converged_us(progress: Progress, last_start_ns: int) -> float:
    """Returns the time from the last start until the first bin in which the flows' shares are fair."""
    t_ns, delivered = progress
    edges = np.arange(last_start_ns, int(t_ns[-1]) + 1, BIN_NS) if len(t_ns) else np.empty(0)
    if len(edges) < 2:
        return NEVER
    at = np.stack([np.interp(edges, t_ns, column) for column in delivered.T], axis=1)
    for edge, shares in zip(edges[1:], np.diff(at, axis=0), strict=True):
        if (jain(shares) or 0) >= FAIR:
            return float(edge - last_start_ns) / 1000
    return NEVER


def carried(case: PeerCase, layout: Layout, delivered_bps: npt.NDArray[np.float64]) -> float:
    """Returns the mean share of their line that the shared ports carried.

    `delivered_bps`: the rate at which each flow brought whole packets to its receiver.
    """
    ports = [sum(delivered_bps[flow] for flow, path in enumerate(layout.paths) if port in path) for port in layout.shared]
    return float(np.mean(ports)) / (case.rate_gbps * 1e9)


def rates_bps(case: PeerCase, progress: Progress) -> npt.NDArray[np.float64]:
    """Returns each flow's rate in the window, from its first sample to the last one, with which a peer may end before it."""
    t_ns, received = progress
    first = np.searchsorted(t_ns, case.from_us * 1000)
    return np.asarray((received[-1] - received[first]) * 8e9 / (t_ns[-1] - t_ns[first]))


def hop_ns(cpu_s: float, case: PeerCase, delivered_bytes: float, packet_bytes: int) -> float:
    """Returns the CPU time for a packet of data on a link; `delivered_bytes` in units of `packet_bytes`."""
    return round(cpu_s * 1e9 / (delivered_bytes / packet_bytes * case.links), 1)


def carried_here(case: PeerCase, result: Result, layout: Layout) -> float:
    """Returns the same share in a run of the lab's own, from the ports' counters.

    Packets of data have one size and ACKs another, so bytes and packets tell how many of each left. CNPs and probes are as small
    as ACKs, and count as these.
    """
    names, ours, queues = [port["name"] for port in result.ports], OURS[case.algorithm], result.records("queues")
    window_ns = np.array([case.from_us, case.until_us]) * 1000
    shares = []
    for port in layout.shared:
        rows = queues[queues["port"] == names.index(port)]
        size, count = (float(np.diff(np.interp(window_ns, rows["t_ns"], rows[each]))[0]) for each in ("tx_bytes", "tx_packets"))
        data = (size - ours.header_bytes * count) / ours.payload_bytes
        shares.append(data * ours.frame_bytes * 8 / (case.rate_gbps * float(np.diff(window_ns)[0])))
    return float(np.mean(shares))


def measured(case: PeerCase, result: Result, layout: Layout) -> PeerRow:
    """Returns a row of the lab's own."""
    ports = result.derived("port_metrics")
    if ports is None:
        raise ProtocolError(f"{result.path}: it has no table of ports")
    mask = np.isin(ports["port"].to_pylist(), layout.shared)
    progress = delivered(result, case.flows)
    cpu_s, payload_bytes = float(result.manifest["cpu_s"]["traffic"]), OURS[case.algorithm].payload_bytes
    return PeerRow(
        float(np.asarray(ports["mean_queue_bytes"], np.float64)[mask].mean()),
        carried_here(case, result, layout),
        float(result.summary["jain"] or 0),
        converged_us(progress, case.starts_ns()[-1]),
        hop_ns(cpu_s, case, float(progress[1][-1].sum()), payload_bytes),
        int(result.summary.get("pauses") or 0),
    )


def delivered(result: Result, flows: int) -> Progress:
    """Returns the flows' bytes over time in the lab: what was acknowledged."""
    records = result.records("tcp")
    times = np.unique(np.asarray(records["t_ns"], np.int64))
    at = np.zeros((len(times), flows))
    at[np.searchsorted(times, records["t_ns"]), np.asarray(records["flow"], np.int64)] = records["bytes_acked"]
    return times, np.maximum.accumulate(at, axis=0)


def read_back(case: PeerCase, layout: Layout, folder: Path, cpu_s: float, packet_bytes: int) -> PeerRow:
    """Returns a peer's row from its queues-out.csv and progress-out.csv: means over the shared ports, and the flows' shares.

    `packet_bytes`: what a packet adds to the received bytes.
    """
    queues, progress = files.read_queues(folder), files.read_progress(folder, case.flows)
    rates = rates_bps(case, progress)
    return PeerRow(
        round(float(np.mean([queues[port] for port in layout.shared])), 1),
        round(carried(case, layout, rates * OURS[case.algorithm].frame_bytes / packet_bytes), 4),
        round(jain(rates) or 0, 4),
        converged_us(progress, case.starts_ns()[-1]),
        hop_ns(cpu_s, case, float(progress[1][-1].sum()), packet_bytes),
    )
