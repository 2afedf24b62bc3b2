# SPDX-License-Identifier: Apache-2.0
"""Four DCTCP senders x 100 MB at 10 Gbit/s through one switch, in the lab and in ns-3: sameness, and cost.

Before speeds are compared, frames on the wire, goodput and finish times must be the same (that ns-3's link and its marking step
are the FIFO oracle's, tests show). docs/peers.md explains the differences in TCP.

Which of the two runs first alternates, so that a load on the machine affects both. A check is the median of the ratios. CPU
time, which other load hardly affects, is reported beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym import spec
from dc_gym.base.checks import Check
from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.peers import files, ns3
from dc_gym.benchmarks.perf import meter
from dc_gym.results.figures import kit
from dc_gym.results.results import Result
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.sweep import runs

SENDERS, SIZE_BYTES, PAIRS = 4, 100 * 10**6, 3
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
FINISH_TOLERANCE, FRAMES_TOLERANCE = 0.01, 0.001
WARMUP_NS, SHOWN_NS = 20_000_000, 2_000_000
TRACE = ("time.duration=60ms", "monitor.interval=10us", "monitor.tcp_interval=10ms")
FIGURE, NAME = Path("results/ns3-queue.png"), "beside a peer"
LAB, NS3 = "lab", "ns-3"


@dataclass(frozen=True, slots=True)
class Pair:
    lab: Result
    cost: meter.ProcessCost
    """Cost of the lab's whole `dcgym run` without the plot."""
    peer: ns3.PeerRun

    def traffic(self, kind: str) -> float:
        """Returns the lab's time of the traffic alone; `kind`: wall_s or cpu_s."""
        return float(self.lab.manifest[kind]["traffic"])

    def ports(self) -> dict[str, Mapping[str, files.PortCount]]:
        """Returns the counters of the ports' queues, in both; the lab's counters are from the last sample."""
        queues = self.lab.records("queues")
        last = queues[queues["t_ns"] == queues["t_ns"].max()]
        counts = [files.PortCount(*(int(row[name]) for name in files.PORTS_OUT[1:])) for row in last]
        names = (self.lab.names.port[row] for row in last["port"])
        return {LAB: dict(zip(names, counts, strict=True)), NS3: self.peer.ports}

    def ends_ns(self) -> dict[str, npt.NDArray[np.float64]]:
        """Returns when each flow ended, in both; NaN: it did not."""
        return {LAB: finished(self.lab.records("flows")["end_ns"]), NS3: finished([flow.end_ns for flow in self.peer.flows])}


def finished(ends_ns: npt.ArrayLike) -> npt.NDArray[np.float64]:
    ends = np.asarray(ends_ns, np.float64)
    return np.where(ends >= 0, ends, np.nan)


def checks() -> Iterable[Check]:
    yield Check("ns-3", "recorded", "{}, build profile {}".format(*ns3.version()), ok=True)
    with runs.scratch("ns3") as folder:
        path = runs.write_spec(folder, "ns3", SPEC)
        pairs = run_pairs(path, folder)
        yield from sameness_checks(pairs[0])
        yield from speed_checks(pairs, TRAFFIC_SHARE, WHOLE_SHARE)
        port = str(pairs[0].lab.summary["bottleneck_port"])
        (traced,) = run_pairs(path, folder, TRACE, 1, (f"--trace-port={port}", "--trace-interval-ns=10000"))
        yield _queue_check(traced.lab, port, folder / "peer")


def run_pairs(
    path: Path, folder: Path, settings: Sequence[str] = (), pairs: int = PAIRS, options: Sequence[str] = ()
) -> list[Pair]:
    """Runs the experiment of a spec file in both, `pairs` times; `options` are ns-3's."""
    lab_spec, program, peer_folder, results = spec.load(path, settings), ns3.ensure(), folder / "peer", []
    peer_folder.mkdir(exist_ok=True)
    files.write(peer_folder, Experiment.of(lab_spec))
    for number in range(pairs):
        peer_first = ns3.run(program, peer_folder, lab_spec.time.duration_ns, options) if number % 2 else None
        result, cost = meter.run_spec(path, folder / f"{path.stem}-{len(settings)}-{number}", settings)
        results.append(Pair(result, cost, peer_first or ns3.run(program, peer_folder, lab_spec.time.duration_ns, options)))
    return results


def speed_checks(pairs: Sequence[Pair], traffic_share: float, whole_share: float) -> Iterator[Check]:
    """Yields the checks on speed. Traffic and the whole run may take these shares of ns-3's wall time."""
    times: tuple[tuple[str, float | None, Callable[[Pair], tuple[float, float]]], ...] = (
        ("traffic phase / ns-3's Simulator::Run, wall time", traffic_share, lambda p: (p.traffic("wall_s"), p.peer.run_s)),
        ("whole run / ns-3's whole process, wall time", whole_share, lambda p: (p.cost.wall_s, p.peer.cost.wall_s)),
        ("traffic phase / ns-3, CPU time", None, lambda p: (p.traffic("cpu_s"), p.peer.cost.cpu_s)),
        ("whole run / ns-3, CPU time", None, lambda p: (p.cost.cpu_s, p.peer.cost.cpu_s)),
    )
    for name, most, of in times:
        both = [of(pair) for pair in pairs]
        ratio, by_pair = median_ratio(both), ", ".join(f"{lab_s:.2f}/{peer_s:.2f}" for lab_s, peer_s in both)
        within, required = most is None or ratio <= most, "recorded" if most is None else f"<= {most}"
        yield Check(name, required, f"{ratio:.3f} ({by_pair} s)", within)
    hops = {side: sum(port.tx_packets for port in ports.values()) for side, ports in pairs[0].ports().items()}
    cpu_s = {LAB: [pair.traffic("cpu_s") for pair in pairs], NS3: [pair.peer.cost.cpu_s for pair in pairs]}
    measured = {side: f"{statistics.median(cpu_s[side]) / count * 1e6:.2f} us ({count} hops)" for side, count in hops.items()}
    yield Check("CPU time a packet-hop", "recorded", _both(measured), ok=True)


def median_ratio(both: Sequence[tuple[float, float]]) -> float:
    """Returns the median over pairs of our time divided by theirs."""
    return statistics.median(lab_s / peer_s for lab_s, peer_s in both)


def sameness_checks(pair: Pair) -> Iterator[Check]:
    """Yields checks on frames, payload and times of one pair, to show that both ran the same experiment."""
    received = {LAB: pair.lab.records("flows")["received_bytes"].tolist(), NS3: [flow.received_bytes for flow in pair.peer.flows]}
    sizes = [SIZE_BYTES] * SENDERS
    yield Check("bytes received of each flow", f"{sizes} in both", _both(received), [*received.values()] == [sizes, sizes])
    ports = pair.ports()
    sent = {side: counts["h1-eth0"] for side, counts in ports.items()}
    near = abs(sent[LAB].tx_bytes / sent[NS3].tx_bytes - 1) <= FRAMES_TOLERANCE
    counted = _both({side: f"{count.tx_packets} frames, {count.tx_bytes} B" for side, count in sent.items()})
    yield Check(f"sent on h1's cable (a full frame: {FRAME_BYTES} B)", f"equal within {FRAMES_TOLERANCE:.1%}", counted, near)
    ends_ms = {side: np.sort(ends) / 1e6 for side, ends in pair.ends_ns().items()}
    near = bool(abs(ends_ms[LAB].max() / ends_ms[NS3].max() - 1) <= FINISH_TOLERANCE)
    finishes = _both({side: " ".join(f"{end:.2f}" for end in ends) for side, ends in ends_ms.items()})
    yield Check("finish of each flow, ms", f"the last equal within {FINISH_TOLERANCE:.0%}", finishes, near)
    drops, marks = (
        {side: sum(getattr(port, field) for port in ports[side].values()) for side in ports} for field in ("drops", "marks")
    )
    yield Check("drops", "0 in both", _both(drops), not any(drops.values()))
    yield Check("marks", "recorded", _both(marks), ok=True)


def _both(values: Mapping[str, object]) -> str:
    return "; ".join(f"{side} {value}" for side, value in values.items())


def _queue_check(lab: Result, port: str, peer: Path) -> Check:
    """Returns the receiver's queue over time in both, every 10 us, with its figure."""
    records = lab.records("queues")
    samples = records[records["port"] == lab.names.port.index(port)]
    queues = {LAB: (samples["t_ns"].astype(np.int64), samples["backlog_packets"].astype(np.int64)), NS3: files.read_queue(peer)}
    path, words = runs.figure_place(FIGURE, NAME), {}
    with kit.style():
        figure = kit.new_figure(11, 3.4)
        start, teeth, share = figure.subplots(1, 3, width_ratios=(1.2, 1.2, 1))
        for color, (side, (t_ns, packets)) in zip(kit.FLOW_COLORS, queues.items(), strict=False):
            for axes, from_ns, title in ((start, 0, "Start"), (teeth, WARMUP_NS, "After the warm-up")):
                some = (t_ns >= from_ns) & (t_ns < from_ns + SHOWN_NS)
                axes.plot(t_ns[some] / 1e6, packets[some], color=color, label=side, linewidth=1)
                axes.set(xlabel="Time (ms)", ylabel="Queue (packets)")
                axes.set_title(title, loc="left")
            settled = np.sort(packets[t_ns >= WARMUP_NS])
            share.plot(settled, np.linspace(0, 1, len(settled)), color=color)
            words[side] = "{:.1f} ({:.0f} .. {:.0f})".format(settled.mean(), *np.percentile(settled, [1, 99]))
        share.set(xlabel="Queue (packets)", ylabel="Share of samples below")
        share.set_title("Distribution after the warm-up", loc="left")
        start.legend()
        kit.save(figure, path, mark=runs.mark_of(NAME))
    return Check("queue in packets: mean (1st .. 99th percentile)", "recorded; K = 60", f"{_both(words)}; {path}", ok=True)
