# SPDX-License-Identifier: Apache-2.0
"""Four DCTCP senders x 100 MB at 10 Gbit/s through one switch, in the lab and in ns-3: sameness, and cost.

Before speeds are compared, ns-3 must run the same experiment as the lab. Its link and its marking step are compared with the FIFO
oracle that `dcgym bench links` uses for the lab (bursts of datagrams: marks, drops, the instant of the last byte). Then frames on
the wire, goodput and finish times of the experiment itself are compared. docs/peers.md explains what differs in TCP.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from dc_gym import spec
from dc_gym.base.checks import Check
from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.checks import oracle
from dc_gym.benchmarks.peers import files, ns3, plots
from dc_gym.benchmarks.peers.pairs import Pair, run_lab, run_pairs, speed_checks, write_peer_files
from dc_gym.grounds.experiment import Experiment
from dc_gym.records.results import Result
from dc_gym.sweep import runs
from dc_gym.topologies.graph import Graph, Port

SENDERS, SIZE_BYTES = 4, 100 * 10**6
SPEC = f"""
spec_version = 1
name = "ns3"
topology.preset = "dctcp-10g"
controller.name = "dctcp"
workload = {{ kind = "many_to_one", senders = {SENDERS}, size = "{SIZE_BYTES}B" }}
time = {{ duration = "400ms" }}
monitor.interval = "10ms"
metrics.slowdown = "off"
"""
TRAFFIC_SHARE, WHOLE_SHARE = 0.08, 0.16
"""The largest shares of ns-3's wall time that traffic and the whole run may take."""
FINISH_TOLERANCE = 0.01
FRAMES_TOLERANCE = 0.001
SEGMENT_BYTES = 1448

TRACE_NS, TRACE_INTERVAL_NS, WARMUP_NS = 60_000_000, 10_000, 20_000_000
TRACE = ("time.duration=60ms", "monitor.interval=10us", "monitor.tcp_interval=10ms")
FIGURES = Path("results")

BURST_FRAMES, BURST_STOP_NS = 300, 10**9
BURST_HOPS = 2
"""Tolerance in ns. The oracle's clock, like the lab's, rounds up to a nanosecond at each hop; ns-3's here counts picoseconds."""
DATAGRAM_BYTES = FRAME_BYTES - 14 - 20 - 8
BURSTS = {"no loss": 4_000_000, "overflow": 200 * FRAME_BYTES}
"""By name: the buffer of the switch port in which two bursts of BURST_FRAMES meet."""


def checks() -> Iterable[Check]:
    yield Check("ns-3", "recorded", str(ns3.toolchain()), ok=True)
    with runs.scratch("ns3") as folder:
        path = runs.write_spec(folder, "ns3", SPEC)
        for name in BURSTS:
            yield burst_check(name, path, folder)
        pairs = run_pairs(path, folder)
        yield from sameness_checks(pairs[0])
        yield from speed_checks(pairs, TRAFFIC_SHARE, WHOLE_SHARE)
        yield from _queue_checks(path, folder)


def burst_check(name: str, path: Path, folder: Path) -> Check:
    """Compares ns-3 with the oracle: two hosts send BURST_FRAMES datagrams each to the last host."""
    settings = (f"topology.buffer={BURSTS[name]}B", f"topology.host_buffer={BURST_FRAMES * FRAME_BYTES}B")
    experiment = Experiment.of(spec.load(path, settings))
    receiver = experiment.graph.hosts[-1].name
    sizes = {host.name: BURST_FRAMES * DATAGRAM_BYTES for host in experiment.graph.hosts[:2]}
    flows = [files.PeerFlow(each, receiver, 5001, 0, size, "udp") for each, size in sizes.items()]
    inside = folder / "burst"
    inside.mkdir(exist_ok=True)
    files.write_experiment(inside, experiment.graph, experiment.router, flows)
    found = ns3.run(ns3.ensure(), inside, BURST_STOP_NS)
    port = experiment.graph.peer(experiment.graph.ports_of(receiver)[0])
    counted = found.ports[port.ifname]
    asked = burst_oracle(experiment.graph, port)
    equal = (asked.marks, asked.drops) == (counted.marks, counted.drops)
    words, found_words = f"{asked.marks} marks, {asked.drops} drops", f"{counted.marks} marks, {counted.drops} drops"
    if not asked.drops:
        last_ns = max(each.arrive_ns for each in asked.passages)
        equal = equal and abs(found.virtual_ns - last_ns) <= BURST_HOPS
        words += f", last byte at {last_ns} +- {BURST_HOPS} ns"
        found_words += f", last byte at {found.virtual_ns} ns"
    return Check(f"ns-3's link and marking step against the oracle, {name}", words, found_words, equal)


def burst_oracle(graph: Graph, port: Port) -> oracle.PortRun:
    """Returns what the switch's port to the receiver does with both bursts."""
    frames = [oracle.OracleFrame(0, FRAME_BYTES, True, number) for number in range(BURST_FRAMES)]
    senders = [oracle.run_port(_oracle_port(graph, graph.ports_of(host.name)[0]), frames) for host in graph.hosts[:2]]
    return oracle.run_port(_oracle_port(graph, port), oracle.arrivals(senders))


def _oracle_port(graph: Graph, port: Port) -> oracle.OraclePort:
    cable, queue = graph.cable_of(port), port.queue
    is_host = any(host.name == port.node for host in graph.hosts)
    return oracle.OraclePort(
        cable.rate_bps, cable.delay_ns, queue.limit_bytes, queue.marking.k_bytes or None, forwards=not is_host
    )


def sameness_checks(pair: Pair) -> Iterator[Check]:
    """Yields checks on frames, payload and times of one pair, to show that both ran the same experiment."""
    flows, peer_flows = pair.lab.result.records("flows"), pair.peer.flows
    received = {"lab": [int(each) for each in flows["received_bytes"]], "ns-3": [each.received_bytes for each in peer_flows]}
    whole = all(size == SIZE_BYTES for sizes in received.values() for size in sizes)
    words = _side_by_side({who: f"{sum(sizes) / 1e6:.6f} MB" for who, sizes in received.items()})
    yield Check("payload received", f"{SENDERS} x {SIZE_BYTES / 1e6:.0f} MB in both", words, whole)
    ports = {"lab": pair.lab.ports(), "ns-3": pair.peer.ports}
    sent = {who: counts["h1-eth0"] for who, counts in ports.items()}
    near = abs(sent["lab"].tx_bytes / sent["ns-3"].tx_bytes - 1) <= FRAMES_TOLERANCE
    words = _side_by_side({who: f"{each.tx_packets} frames, {each.tx_bytes} B" for who, each in sent.items()})
    yield Check(f"sent on h1's cable (a full frame: {FRAME_BYTES} B)", f"equal within {FRAMES_TOLERANCE:.1%}", words, near)
    ends = {"lab": [int(end) / 1e6 for end in flows["end_ns"]], "ns-3": [each.end_ns / 1e6 for each in peer_flows]}
    last = {who: max(each) for who, each in ends.items()}
    words = _side_by_side({who: f"{ms:.3f} ms, {sum(received[who]) * 8e-6 / ms:.4f} Gbit/s" for who, ms in last.items()})
    near = abs(last["lab"] / last["ns-3"] - 1) <= FINISH_TOLERANCE
    yield Check("all flows done, total goodput", f"equal within {FINISH_TOLERANCE:.0%}", words, near)
    words = _side_by_side({who: " ".join(f"{end:.2f}" for end in sorted(each)) for who, each in ends.items()})
    yield Check("finish of each flow, ms", "recorded", words, ok=True)
    drops = {who: sum(port.drops for port in counts.values()) for who, counts in ports.items()}
    yield Check("drops", "0 in both", _side_by_side(drops), not any(drops.values()))
    marks = {who: sum(port.marks for port in counts.values()) for who, counts in ports.items()}
    segments = SENDERS * SIZE_BYTES / SEGMENT_BYTES
    yield Check(
        "marks", "recorded", _side_by_side({who: f"{each} ({each / segments:.1%})" for who, each in marks.items()}), ok=True
    )


def _side_by_side(values: Mapping[str, object]) -> str:
    return "; ".join(f"{who} {value}" for who, value in values.items())


def _queue_checks(path: Path, folder: Path) -> Iterator[Check]:
    """Yields the receiver's queue over time in both, every 10 us, from separate runs; and the figure."""
    lab = run_lab(path, folder / "trace", TRACE).result
    port = lab.summary["bottleneck_port"]
    write_peer_files(Experiment.of(spec.load(path, TRACE)), folder / "peer")
    options = (f"--trace-port={port}", f"--trace-interval-ns={TRACE_INTERVAL_NS}")
    ns3.run(ns3.ensure(), folder / "peer", TRACE_NS, options)
    queues = {"lab": lab_queue(lab, port), "ns-3": files.read_queue(folder / "peer")}
    settled = {who: packets[t_ns >= WARMUP_NS] for who, (t_ns, packets) in queues.items()}
    percentiles = {who: np.percentile(waiting, [1, 99]) for who, waiting in settled.items()}
    words = _side_by_side(
        {who: f"{settled[who].mean():.1f} ({low:.0f} .. {high:.0f})" for who, (low, high) in percentiles.items()}
    )
    yield Check("queue in packets: mean (1st .. 99th percentile)", "recorded; K = 60", words, ok=True)
    figure = plots.queue_figure(queues, WARMUP_NS, runs.figure_place(FIGURES / "ns3-queue.png", plots.NAME))
    yield Check("figure", "recorded", str(figure), ok=True)


def lab_queue(result: Result, port: str) -> plots.Trace:
    """Returns times in ns, and the number of packets that waited in a port."""
    records = result.records("queues")
    mine = records[records["port"] == result.names.port.index(port)]
    return np.asarray(mine["t_ns"], np.int64), np.asarray(mine["backlog_packets"], np.int64)
