# SPDX-License-Identifier: Apache-2.0
"""HPCC's authors' simulator as a peer: runs flows into one port there, and reads queue and rates from its trace.

The simulator is alibaba-edu/High-Precision-Congestion-Control, a fork of ns-3.17 under GPL-2. It is not part of this project:
build it as in docs/peers.md. `third` reads a configuration and three lists, and writes a record of each packet at a port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError, TestbedError, UsageError
from dc_gym.benchmarks.peers import cases, sources
from dc_gym.benchmarks.peers.cases import PeerCase, PeerRow
from dc_gym.results.metrics.fairness import jain
from dc_gym.run.plan.experiment import Experiment
from dc_gym.topologies.graph import Graph

PROGRAM = Path("build/scratch/third")
"""The simulator's program, two folders below its libraries."""
CONFIGURATION = Path(__file__).resolve().with_name("hpcc_ns3.conf")
"""The configuration that run.py writes, with fields for the values that differ by case."""
PORT, PRIORITY = 100, 3
UDP, ENQUEUE, DEQUEUE = 0x11, 1, 2
RECORD = np.dtype(
    {
        "names": ["t_ns", "node", "port", "queue_bytes", "source", "bytes", "protocol", "event"],
        "formats": ["<u8", "<u2", "u1", "<u4", "<u4", "<u2", "u1", "u1"],
        "offsets": [0, 8, 10, 12, 16, 24, 26, 27],
        "itemsize": 56,
    }
)
"""One event of a packet (trace-format.h). `queue_bytes` is without the packet itself."""
PORT_SPEED_BYTES = 11
"""A port's entry in the trace's head."""


SETTINGS: Mapping[str, float] = {"alpha_us": 1, "cut_us": 4, "raise_us": 300, "window": False}
ALGORITHMS: Mapping[str, Mapping[str, float]] = {
    "hpcc": {"mode": 3, "raise_mbps": 40, "fast_raise_mbps": 40, "window": True},
    "dcqcn": {"mode": 1, "raise_mbps": 20, "fast_raise_mbps": 200},
    "dcqcn_paper": {"mode": 1, "raise_mbps": 20, "fast_raise_mbps": 200, "alpha_us": 50, "cut_us": 50, "raise_us": 55},
    "timely": {"mode": 7, "raise_mbps": 100, "fast_raise_mbps": 500},
}
"""As the simulator's run.py sets them, besides SETTINGS; its `--cc` is hp, dcqcn, dcqcn_paper and timely. Increases are those at
100 Gbit/s. `window`: one that follows the rate, and a reaction to each ACK."""


def numbers(graph: Graph) -> dict[str, int]:
    """Returns the simulator's numbers of the nodes: hosts, then switches."""
    names = [*(host.name for host in graph.hosts), *(switch.name for switch in graph.switches)]
    return {name: number for number, name in enumerate(names)}


def write_inputs(case: PeerCase, experiment: Experiment, folder: Path) -> Path:
    """Writes the simulator's input files, and returns the configuration."""
    number, cables = numbers(experiment.graph), experiment.graph.cables
    switches = [str(number[switch.name]) for switch in experiment.graph.switches]
    ends = [f"{number[c.a.node]} {number[c.b.node]} {c.rate_bps // 10**9}Gbps {c.delay_ns}ns 0" for c in cables]
    requests = [flow.request for flow in experiment.schedule.flows]
    rows = [f"{number[f.src]} {number[f.dst]} {PRIORITY} {PORT} {f.size_bytes} {f.start_ns / 1e9:.9f}" for f in requests]
    for name, lines in (
        ("topology.txt", [f"{len(number)} {len(switches)} {len(cables)}", " ".join(switches), *ends]),
        ("flows.txt", [str(len(rows)), *rows]),
        ("traced.txt", [str(len(switches)), " ".join(switches)]),
    ):
        (folder / name).write_text("\n".join(lines) + "\n")
    path = folder / "config.txt"
    path.write_text(configuration(case, folder))
    return path


def configuration(case: PeerCase, folder: Path) -> str:
    """Returns the configuration. Marking's thresholds are run.py's: 100 and 400 kB at 25 Gbit/s."""
    settings, rate_gbps = {**SETTINGS, **ALGORITHMS[case.algorithm]}, case.rate_gbps
    values = settings | {
        "raise_mbps": settings["raise_mbps"] * rate_gbps / 100,
        "fast_raise_mbps": settings["fast_raise_mbps"] * rate_gbps / 100,
        "no_window": not settings["window"],
        "telemetry_unit": max(1, rate_gbps // 25) if settings["window"] else 1,
        "rate_bps": rate_gbps * 10**9,
        "kmin_kb": 4 * rate_gbps,
        "kmax_kb": 16 * rate_gbps,
        "stop_s": case.until_us / 1e6,
    }
    return CONFIGURATION.read_text().format(folder=folder, **values)


def run(program: Path, case: PeerCase) -> PeerRow:
    """Runs a case. Raises TestbedError if the simulator failed, or paused a port where the case is meant to be without PFC."""
    with cases.made(case) as (folder, experiment):
        path = write_inputs(case, experiment, folder)
        argv = ["env", f"LD_LIBRARY_PATH={program.parents[1]}", str(program), str(path)]
        process = sources.run(f"{program}, {case.name},", argv)
        pauses = count_pauses((folder / "pauses.txt").read_text())
        if pauses and "topology.pfc" not in cases.OURS[case.algorithm].keys:
            raise TestbedError(f"{case.name}: {pauses} pauses, in a case without PFC; compare the simulator with docs/peers.md")
        return measure(case, Ports.of(case, experiment), read_trace(folder / "trace"), process.cost.cpu_s, pauses)


def count_pauses(text: str) -> int:
    """Counts the frames that pause a port. The simulator's list has the frames that resume it, too (last column 0)."""
    return sum(line.split()[-1] == "1" for line in text.splitlines())


def program_of(simulator: Path) -> Path:
    """Returns the simulator's program. Raises UsageError if it was not built, or from another commit than the stored results."""
    program = simulator.resolve() / PROGRAM
    if not program.is_file():
        raise UsageError(f"{simulator}: it has no {PROGRAM}; build the simulator as docs/peers.md says, and give `simulation`")
    sources.require_commit(simulator, cases.SIMULATORS["hpcc-ns3"]["commit"])
    return program


def read_trace(path: Path) -> npt.NDArray[np.void]:
    """Returns the events of data packets at the ports of switches."""
    with path.open("rb") as file:
        speeds = int(np.fromfile(file, "<u4", 1)[0])
        file.seek(4 + PORT_SPEED_BYTES * speeds + 4)
        events = np.fromfile(file, RECORD)
    packet_events: npt.NDArray[np.void] = events[(events["protocol"] == UDP) & np.isin(events["event"], (ENQUEUE, DEQUEUE))]
    if not len(packet_events):
        raise ProtocolError(f"{path.name}: no packet left a port")
    return packet_events


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports that are measured, as the trace numbers them: a node's number x 256 + the interface's."""

    shared: Sequence[int]
    last: Sequence[int]
    """By flow: the port to its receiver. A flow alone is identified by its sender."""

    @classmethod
    def of(cls, case: PeerCase, experiment: Experiment) -> Ports:
        """Numbers a node's interfaces from 1 in the order of its links, as ns-3 does."""
        number, used, ports, to = numbers(experiment.graph), Counter[str](), {}, {}
        for cable in experiment.graph.cables:
            for port, other in ((cable.a, cable.b), (cable.b, cable.a)):
                used[port.node] += 1
                ports[port.ifname] = to[other.node] = number[port.node] << 8 | used[port.node]
        shared = cases.shared_here(case, experiment.graph)
        return cls([ports[port] for port in shared], [to[flow.request.dst] for flow in experiment.schedule.flows])


def measure(case: PeerCase, ports: Ports, events: npt.NDArray[np.void], cpu_s: float | None = None, pauses: int = 0) -> PeerRow:
    """Returns the means of the window over the shared ports, and the flows' shares."""
    start_ns, end_ns = case.from_us * 1000, case.until_us * 1000
    line_bytes = case.rate_gbps * (end_ns - start_ns) / 8
    times, port = events["t_ns"].astype(np.int64), events["node"].astype(np.int64) << 8 | events["port"]
    within = (times >= start_ns) & (times < end_ns)
    departure, sender = events["event"] == DEQUEUE, events["source"].astype(np.int64) >> 8 & 0xFFFF
    queues = [_mean_queue(events[port == number], start_ns, end_ns) for number in ports.shared]
    sent = [events["bytes"][departure & within & (port == number)].sum() for number in ports.shared]
    arrived = [departure & (sender == flow) & (port == last) for flow, last in enumerate(ports.last)]
    edges = np.arange(0, end_ns + 1, cases.PROGRESS_NS)
    bins = [np.histogram(times[rows], edges, weights=events["bytes"][rows])[0].cumsum() for rows in arrived]
    fairness = jain(np.array([float(events["bytes"][rows & within].sum()) for rows in arrived]))
    if fairness is None:
        raise ProtocolError(f"{case.algorithm}: no packet left a port from {case.from_us} to {case.until_us} us")
    delivered = float(sum(progress[-1] for progress in bins)) if len(edges) > 1 else 0
    return PeerRow(
        round(float(np.mean(queues)), 1),
        round(float(np.mean(sent) / line_bytes), 4),
        round(fairness, 4),
        cases.converged_us((edges[1:], np.stack(bins, axis=1)), case),
        -1 if cpu_s is None else cases.hop_ns(cpu_s, case, delivered, int(events["bytes"].max())),
        pauses,
    )


def _mean_queue(events: npt.NDArray[np.void], start_ns: int, end_ns: int) -> float:
    """Returns the mean queue of one port over time."""
    times = events["t_ns"].astype(np.int64)
    queue = events["queue_bytes"] + np.where(events["event"] == ENQUEUE, events["bytes"], 0).astype(np.int64)
    lasting = np.diff(np.clip(np.append(times, end_ns), start_ns, end_ns))
    return float((queue * lasting).sum() / (end_ns - start_ns))
