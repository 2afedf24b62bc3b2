# SPDX-License-Identifier: Apache-2.0
"""One list of DCTCP flows on a leaf-spine, in the lab and in ns-3: slowdown by size side by side, and wall time.

Sizes are from WebSearch, arrivals are Poisson, and both ends are drawn uniformly among hosts of different leaves. Each host has
one path in both (topology.routing = "single"). Hosts are four times as fast as uplinks, so every queue that builds up is a
switch's, which marks. What a host's own queue does (TSQ in Linux, nothing of the kind in ns-3) is a separate subject
(docs/peers.md). Slowdown is completion time over the closed form (dc_gym/metrics/ideal.py), the same for both.

A third run explains the differences and is compared with the lab: ns-3 that acknowledges every segment, so that no lone segment
waits for a delayed ACK.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym import spec
from dc_gym.base.checks import Check
from dc_gym.benchmarks.peers import ns3, plots
from dc_gym.benchmarks.peers.pairs import LabRun, run_pairs, speed_checks
from dc_gym.grounds.experiment import Experiment
from dc_gym.metrics import ideal
from dc_gym.sweep import runs
from dc_gym.traffic import sizes
from dc_gym.traffic.draws import Stream

Floats = npt.NDArray[np.float64]

FLOWS, LOAD, SEED = 600, Fraction(6, 10), 1
LEAVES, HOSTS_PER_LEAF, SPINES = 3, 4, 2
HOST_BPS, UPLINK_BPS = 40 * 10**9, 10 * 10**9
TRAFFIC_SHARE, WHOLE_SHARE = 0.25, 0.4
"""The largest shares of ns-3's wall time that traffic and the whole run may take."""
DRAIN_NS = 10**9
"""Time after the last start. It is long because flows in ns-3 wait for timers, too."""
SPEC = f"""
spec_version = 1
name = "ns3-fct"
controller.name = "dctcp"
workload = {{ kind = "matrix", file = "flows.csv" }}
monitor.interval = "10ms"
metrics.slowdown = "off"

[topology]
kind = "leafspine"
leaves = {LEAVES}
hosts_per_leaf = {HOSTS_PER_LEAF}
spines = {SPINES}
rate = "{HOST_BPS}bit/s"
uplink_rate = "{UPLINK_BPS}bit/s"
delay = "1us"
buffer = "4MB"
k_bytes = "60p"
routing = "single"
"""
HEADER = "source,destination,port,start,stop,size"
BINS = ((0, 10_000), (10_000, 100_000), (100_000, 1_000_000), (1_000_000, 10_000_000), (10_000_000, 10**12))
EXPLAINED = (0.1, 0.2)
LAB, NS3, ACKED = "lab", "ns-3", "ns-3, an ACK a segment"
EQUAL_FLOWS = 150
LONE_BYTES = (1, 1_448, 10_000, 14_480, 30_000, 100_000, 300_000, 1_000_000, 10_000_000)
LONE_GAP_NS, LONE_TOLERANCE = 10**8, 0.02
FIGURE = Path("results") / "ns3-fct.png"


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """Slowdowns of all flows, by the program that ran them; NaN for flows that did not finish."""

    size_bytes: npt.NDArray[np.int64]
    by_runner: Mapping[str, Floats]

    def of_bin(self, who: str, low: int, high: int) -> Floats:
        """Returns those of the sizes in (low, high]."""
        return self.by_runner[who][(self.size_bytes > low) & (self.size_bytes <= high)]


def checks() -> Iterable[Check]:
    yield Check("ns-3", "recorded", str(ns3.toolchain()), ok=True)
    with runs.scratch("ns3-fct") as folder:
        yield from _lone_checks(folder)
        path = write_experiment(folder, flow_rows(FLOWS, LOAD, SEED))
        pairs = run_pairs(path, folder)
        experiment = Experiment.of(spec.load(path))
        acked = ns3.run(ns3.ensure(), folder / "peer", experiment.spec.time.duration_ns, (ns3.EACH_SEGMENT,))
        ends = {LAB: _lab_ends(pairs[0].lab), NS3: _peer_ends(pairs[0].peer), ACKED: _peer_ends(acked)}
        yield from slowdown_checks(slowdowns(experiment, ends))
        yield from _host_queue_checks(folder / "equal")
        yield from speed_checks(pairs, TRAFFIC_SHARE, WHOLE_SHARE)


def flow_rows(count: int, load: Fraction, seed: int) -> list[str]:
    """Returns the rows of a flow matrix. `load` is payload over the capacity of all uplinks."""
    found = sizes.load("websearch")
    sampler, draw = sizes.Sampler(found), Stream(seed, "ns3-fct")
    gap_ns = int(found.mean_bytes() * 8 * 10**9 / (load * LEAVES * SPINES * UPLINK_BPS))
    hosts, start_ns, rows = LEAVES * HOSTS_PER_LEAF, 0, []
    for _ in range(count):
        start_ns += draw.around(gap_ns, "exponential")
        src = draw.below(hosts)
        away = draw.below(hosts - HOSTS_PER_LEAF)  # counted from the first host of the next leaf
        dst = (src - src % HOSTS_PER_LEAF + HOSTS_PER_LEAF + away) % hosts
        rows.append(f"h{src + 1},h{dst + 1},5001,{start_ns / 1e9:.9f},0,{sampler.draw(draw)}")
    return rows


def write_experiment(folder: Path, rows: Sequence[str]) -> Path:
    """Writes the spec file of a run of these flows, with the matrix beside it."""
    (folder / "flows.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    last_ns = max(round(float(row.split(",")[3]) * 1e9) for row in rows)
    return runs.write_spec(folder, "ns3-fct", SPEC + f'\n[time]\nduration = "{last_ns + DRAIN_NS}ns"\n')


def slowdowns(experiment: Experiment, ends_ns: Mapping[str, Floats]) -> Slowdowns:
    """Returns completion times (NaN: not done) over the closed form of each flow's size and path."""
    requests = [flow.request for flow in experiment.schedule.flows]
    size = np.array([asked.size_bytes for asked in requests], np.int64)
    start_ns = np.array([asked.start_ns for asked in requests], np.float64)
    classes, of_flow = ideal.classify(experiment.schedule, experiment.graph, experiment.router)
    best = np.array([float(classes[which].closed_form_ns(each)) for which, each in zip(of_flow, size, strict=True)])
    return Slowdowns(size, {who: (ends - start_ns) / best for who, ends in ends_ns.items()})


def slowdown_checks(found: Slowdowns) -> Iterator[Check]:
    """Yields unfinished flows, then mean and 99th percentile by bin, and the figure."""
    unfinished = {who: int(np.isnan(values).sum()) for who, values in found.by_runner.items()}
    words = ", ".join(f"{who}: {count}" for who, count in unfinished.items())
    yield Check(f"unfinished of {len(found.size_bytes)} flows", "0", words, not any(unfinished.values()))
    for low, high in BINS:
        values = {who: found.of_bin(who, low, high) for who in found.by_runner}
        words = "; ".join(f"{who}: {np.nanmean(each):.2f} / {np.nanpercentile(each, 99):.1f}" for who, each in values.items())
        asked = f"{ACKED}: within {EXPLAINED[0]:.0%} / {EXPLAINED[1]:.0%} of the lab's"
        name = f"slowdown of {bin_name(low, high)}, {len(values[LAB])} flows: mean / p99"
        yield Check(name, asked, words, is_explained(values[LAB], values[ACKED]))
    figure = plots.slowdown_figure(found, BINS, runs.figure_place(FIGURE, plots.NAME))
    yield Check("figure", "recorded", str(figure), ok=True)


def is_explained(lab: Floats, acked: Floats) -> bool:
    """Returns whether the lab and ns-3 with an ACK per segment have nearly the same mean and 99th percentile."""
    ratios = np.nanmean(acked) / np.nanmean(lab), np.nanpercentile(acked, 99) / np.nanpercentile(lab, 99)
    return all(abs(ratio - 1) <= most for ratio, most in zip(ratios, EXPLAINED, strict=True))


def bin_name(low: int, high: int) -> str:
    """Returns a name such as '10 .. 100 kB'."""
    if high > BINS[-1][0]:
        return f"more than {low / 1e6:.0f} MB"
    return f"{low / 1e3:.0f} .. {high / 1e3:.0f} kB" if high < 10**6 else f"{low / 1e6:g} .. {high / 1e6:.0f} MB"


def _host_queue_checks(folder: Path) -> Iterator[Check]:
    """Yields the check with hosts no faster than uplinks: a host's own queue, which never marks, is then often the bottleneck."""
    folder.mkdir(mode=0o755)
    path = write_experiment(folder, flow_rows(EQUAL_FLOWS, LOAD, SEED))
    (pair,) = run_pairs(path, folder, (f"topology.rate={UPLINK_BPS}bit/s",), pairs=1)
    queues, names = pair.lab.result.records("queues"), pair.lab.result.names.port
    hosts = [row for row, name in enumerate(names) if name.startswith("h")]
    longest = int(queues["backlog_bytes"][np.isin(queues["port"], hosts)].max())
    drops = [sum(ports[names[row]].drops for row in hosts) for ports in (pair.lab.ports(), pair.peer.ports)]
    unfinished = [int(np.isnan(ends).sum()) for ends in (_lab_ends(pair.lab), _peer_ends(pair.peer))]
    words = (
        f"lab {drops[0]} (longest sampled {longest / 1e6:.2f} MB), ns-3 {drops[1]}; unfinished {unfinished[0]}, {unfinished[1]}"
    )
    yield Check(f"hosts as fast as uplinks, {EQUAL_FLOWS} flows: dropped in hosts' own queues", "recorded", words, ok=True)


def _lone_checks(folder: Path) -> Iterator[Check]:
    """Yields checks on one flow at a time on the idle network: the same sizes in both, one check each."""
    inside = folder / "lone"
    inside.mkdir(mode=0o755)
    rows = [f"h1,h5,5001,{number * LONE_GAP_NS / 1e9:.9f},0,{size}" for number, size in enumerate(LONE_BYTES)]
    path = write_experiment(inside, rows)
    (pair,) = run_pairs(path, inside, pairs=1)
    starts = np.arange(len(LONE_BYTES)) * float(LONE_GAP_NS)
    times = [ends - starts for ends in (_lab_ends(pair.lab), _peer_ends(pair.peer))]
    for size, lab, peer in zip(LONE_BYTES, *times, strict=True):
        words, near = f"lab {lab / 1e3:.2f} us, ns-3 {peer / 1e3:.2f} us", abs(lab / peer - 1) <= LONE_TOLERANCE
        yield Check(f"a lone flow of {size:,} B", f"equal within {LONE_TOLERANCE:.0%}", words, bool(near))


def _lab_ends(lab: LabRun) -> Floats:
    ends = np.asarray(lab.result.records("flows")["end_ns"], np.float64)
    return np.where(ends >= 0, ends, np.nan)


def _peer_ends(peer: ns3.PeerRun) -> Floats:
    ends = np.array([flow.end_ns for flow in peer.flows], np.float64)
    return np.where(ends >= 0, ends, np.nan)
