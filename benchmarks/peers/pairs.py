# SPDX-License-Identifier: Apache-2.0
"""Runs an experiment in the lab and in a peer, in pairs.

Which of the two runs first alternates, so that a load on the machine affects both. A check is the median of the pairs' ratios.
CPU time, which other load hardly affects, is reported beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dc_gym import spec
from dc_gym.base.checks import Check
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.interpreter import dcgym
from dc_gym.benchmarks.peers import files, ns3
from dc_gym.benchmarks.perf import meter
from dc_gym.grounds.experiment import Experiment
from dc_gym.records.results import Result, load_result
from dc_gym.traffic.flows import FlowRequest

PAIRS = 3


@dataclass(frozen=True, slots=True)
class LabRun:
    """A whole `dcgym run` without the plot, and its cost."""

    result: Result
    cost: meter.ProcessCost

    @property
    def traffic_s(self) -> float:
        return float(self.result.manifest["wall_s"]["traffic"])

    @property
    def traffic_cpu_s(self) -> float:
        """CPU time of all processes during the traffic, with that of libraries which are loaded meanwhile."""
        return float(self.result.manifest["cpu_s"]["traffic"])

    @property
    def packet_hops(self) -> int:
        """Number of frames that left the ports' queues during the traffic."""
        return sum(port.tx_packets for port in self.ports().values())

    def ports(self) -> dict[str, files.PortCount]:
        """Returns the counters of the ports' queues at the last sample, by name."""
        queues = self.result.records("queues")
        last = queues[queues["t_ns"] == queues["t_ns"].max()]
        names = [self.result.names.port[row] for row in last["port"]]
        columns = [np.asarray(last[name], np.int64).tolist() for name in files.PORTS_OUT[1:]]
        return {name: files.PortCount(*counts) for name, *counts in zip(names, *columns, strict=True)}


@dataclass(frozen=True, slots=True)
class Pair:
    lab: LabRun
    peer: ns3.PeerRun


def run_lab(path: Path, out: Path, settings: Sequence[str] = ()) -> LabRun:
    argv = dcgym("run", str(path), "--out", str(out), "--quiet", "--no-plot")
    for setting in settings:
        argv += ["--set", setting]
    done = meter.run(argv)
    if done.status:
        raise TestbedError(f"run {out.name}: exit {done.status}: {done.stderr.strip()}")
    return LabRun(load_result(out), done.cost)


def write_peer_files(experiment: Experiment, folder: Path) -> None:
    """Writes the experiment's network and flows in the form that a peer reads."""
    folder.mkdir(exist_ok=True)
    flows = [_peer_flow(each.flow, each.request) for each in experiment.schedule.flows]
    files.write_experiment(folder, experiment.graph, experiment.router, flows)


def _peer_flow(number: int, asked: FlowRequest) -> files.PeerFlow:
    flow = files.PeerFlow(asked.src, asked.dst, asked.dst_port, asked.start_ns, asked.size_bytes)
    known = FlowRequest(asked.src, asked.dst, asked.dst_port, asked.start_ns, size_bytes=asked.size_bytes, transport="tcp")
    if replace(asked, stop_ns=0, group=known.group, rep=known.rep) != known:
        raise UsageError(f"flow {number}: peers know TCP flows with a start and a size, nothing else; ask for such")
    return flow


def run_pairs(path: Path, folder: Path, settings: Sequence[str] = (), pairs: int = PAIRS) -> list[Pair]:
    """Runs the experiment of a spec file in both, `pairs` times."""
    loaded = spec.load(path, settings)
    program = ns3.ensure()
    write_peer_files(Experiment.of(loaded), folder / "peer")
    found = []
    for number in range(pairs):
        out = folder / f"{path.stem}-{number}"
        if number % 2:
            peer = ns3.run(program, folder / "peer", loaded.time.duration_ns)
            lab = run_lab(path, out, settings)
        else:
            lab = run_lab(path, out, settings)
            peer = ns3.run(program, folder / "peer", loaded.time.duration_ns)
        found.append(Pair(lab, peer))
    return found


def speed_checks(pairs: Sequence[Pair], traffic_share: float, whole_share: float) -> Iterator[Check]:
    """Yields the checks on speed. The shares are what traffic and the whole run may take of ns-3's wall time."""
    yield _ratio_check(
        "traffic phase / ns-3's Simulator::Run, wall time",
        traffic_share,
        [pair.lab.traffic_s for pair in pairs],
        [pair.peer.run_s for pair in pairs],
    )
    yield _ratio_check(
        "whole run / ns-3's whole process, wall time",
        whole_share,
        [pair.lab.cost.wall_s for pair in pairs],
        [pair.peer.cost.wall_s for pair in pairs],
    )
    cpu = [pair.peer.cost.cpu_s for pair in pairs]
    traffic = [pair.lab.traffic_cpu_s for pair in pairs]
    yield _ratio_check("traffic phase / ns-3, CPU time", None, traffic, cpu)
    yield _ratio_check("whole run / ns-3, CPU time", None, [pair.lab.cost.cpu_s for pair in pairs], cpu)
    hops = pairs[0].lab.packet_hops, pairs[0].peer.packet_hops
    costs = [statistics.median(times) / count * 1e6 for times, count in zip((traffic, cpu), hops, strict=True)]
    words = f"lab {costs[0]:.2f} us ({hops[0]} hops), ns-3 {costs[1]:.2f} us ({hops[1]} hops)"
    yield Check("CPU time a packet-hop", "recorded", words, ok=True)


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Returns the median over pairs of our time divided by theirs."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def _ratio_check(name: str, most: float | None, ours: Sequence[float], theirs: Sequence[float]) -> Check:
    ratio = median_ratio(ours, theirs)
    each = ", ".join(f"{mine:.2f}/{other:.2f}" for mine, other in zip(ours, theirs, strict=True))
    asked = "recorded" if most is None else f"<= {most}"
    return Check(name, asked, f"{ratio:.3f} ({each} s)", ok=most is None or ratio <= most)
