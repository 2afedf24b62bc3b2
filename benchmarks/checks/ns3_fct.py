# SPDX-License-Identifier: Apache-2.0
"""One list of DCTCP flows on a leaf-spine, in the lab and in ns-3: slowdown by size side by side, and wall time.

Sizes are from WebSearch, arrivals are Poisson, and both ends are drawn uniformly among hosts of different leaves. Each host has
one path in both (topology.routing = "single"). Hosts are four times as fast as uplinks, so every queue that builds up is a
switch's, which marks: a host's own queue (TSQ in Linux, nothing of the kind in ns-3) is a separate subject. Slowdown is
completion time over the closed form (dc_gym/results/metrics/ideal.py), the same for both.

A third run explains the differences and is compared with the lab: ns-3 that acknowledges every segment, so that no lone segment
waits for a delayed ACK.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dc_gym import spec
from dc_gym.base.checks import Check
from dc_gym.benchmarks.checks.ns3 import LAB, finished, run_pairs, speed_checks
from dc_gym.benchmarks.peers import ns3
from dc_gym.results.figures import kit
from dc_gym.results.figures.axes import log_ticks
from dc_gym.results.metrics import ideal
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.sweep import runs
from dc_gym.study import collect
from dc_gym.traffic import sizes
from dc_gym.traffic.draws import Stream

Floats = npt.NDArray[np.float64]

FLOWS, LOAD, SEED = 600, Fraction(6, 10), 1
LEAVES, HOSTS_PER_LEAF, SPINES = 3, 4, 2
UPLINK_BPS = 10 * 10**9
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
rate = "40Gbit/s"
uplink_rate = "{UPLINK_BPS}bit/s"
delay = "1us"
buffer = "4MB"
k_bytes = "60p"
routing = "single"
"""
BINS = {"<= 10 kB": 10**4, "<= 100 kB": 10**5, "<= 1 MB": 10**6, "<= 10 MB": 10**7, "more": 10**12}
"""The largest size of each bin."""
EXPLAINED = (0.1, 0.2)
ACKED = "ns-3, an ACK a segment"
FIGURE, NAME = Path("results/ns3-fct.png"), "beside a peer"


def checks() -> Iterable[Check]:
    yield Check("ns-3", "recorded", "{}, build profile {}".format(*ns3.version()), ok=True)
    with runs.scratch("ns3-fct") as folder:
        path = write_experiment(folder, flow_rows(FLOWS, LOAD, SEED))
        pairs, experiment = run_pairs(path, folder), Experiment.of(spec.load(path))
        acked = ns3.run(ns3.ensure(), folder / "peer", experiment.spec.time.duration_ns, (ns3.EACH_SEGMENT,))
        ends_ns = {**pairs[0].ends_ns(), ACKED: finished([flow.end_ns for flow in acked.flows])}
        yield from slowdown_checks(*slowdowns(experiment, ends_ns))
        yield from speed_checks(pairs, TRAFFIC_SHARE, WHOLE_SHARE)


def flow_rows(count: int, load: Fraction, seed: int) -> list[str]:
    """Returns the rows of a flow matrix. `load` is payload over the capacity of all uplinks."""
    distribution = sizes.load("websearch")
    sampler, draw = sizes.Sampler(distribution), Stream(seed, "ns3-fct")
    gap_ns = int(distribution.mean_bytes() * 8 * 10**9 / (load * LEAVES * SPINES * UPLINK_BPS))
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
    (folder / "flows.csv").write_text(collect.flow_list(rows))
    last_ns = max(round(float(row.split(",")[3]) * 1e9) for row in rows)
    return runs.write_spec(folder, "ns3-fct", SPEC + f'\n[time]\nduration = "{last_ns + DRAIN_NS}ns"\n')


def slowdowns(experiment: Experiment, ends_ns: Mapping[str, Floats]) -> tuple[npt.NDArray[np.int64], dict[str, Floats]]:
    """Returns the flows' sizes, and completion times (NaN: not done) over the closed form of each flow's size and path."""
    requests = [flow.request for flow in experiment.schedule.flows]
    size = np.array([request.size_bytes for request in requests], np.int64)
    start_ns = np.array([request.start_ns for request in requests], np.float64)
    classes, of_flow = ideal.classify(experiment.schedule, experiment.graph, experiment.router)
    best = np.array([float(classes[number].closed_form_ns(payload)) for number, payload in zip(of_flow, size, strict=True)])
    return size, {side: (ends - start_ns) / best for side, ends in ends_ns.items()}


def slowdown_checks(size: npt.NDArray[np.int64], by_side: Mapping[str, Floats]) -> Iterator[Check]:
    """Yields unfinished flows, then mean and 99th percentile by bin, and the figure."""
    unfinished = {side: int(np.isnan(values).sum()) for side, values in by_side.items()}
    words = ", ".join(f"{side}: {count}" for side, count in unfinished.items())
    yield Check(f"unfinished of {len(size)} flows", "0", words, not any(unfinished.values()))
    bin_of_flow = np.searchsorted(list(BINS.values()), size)
    in_bins = {side: [values[bin_of_flow == number] for number in range(len(BINS))] for side, values in by_side.items()}
    by_bin = {side: [(np.nanmean(values), np.nanpercentile(values, 99)) for values in bins] for side, bins in in_bins.items()}
    required = f"{ACKED}: within {EXPLAINED[0]:.0%} / {EXPLAINED[1]:.0%} of the lab's"
    for number, name in enumerate(BINS):
        of_bin = {side: bins[number] for side, bins in by_bin.items()}
        measured = "; ".join(f"{side}: {mean:.2f} / {tail:.1f}" for side, (mean, tail) in of_bin.items())
        near = np.abs(np.array(of_bin[ACKED]) / of_bin[LAB] - 1) <= EXPLAINED
        title = f"slowdown of {name}, {(bin_of_flow == number).sum()} flows: mean / p99"
        yield Check(title, required, measured, bool(near.all()))
    yield Check("figure", "recorded", str(_figure(size, by_side, by_bin)), ok=True)


def _figure(size: npt.NDArray[np.int64], by_side: Mapping[str, Floats], by_bin: Mapping[str, list[tuple[float, float]]]) -> Path:
    """Draws each flow's slowdown against its size, and mean and 99th percentile by bin."""
    path, width = runs.figure_place(FIGURE, NAME), 0.8 / len(by_side)
    with kit.style():
        figure = kit.new_figure(11, 3.8)
        single, binned = figure.subplots(1, 2)
        for number, (side, color) in enumerate(zip(by_side, kit.FLOW_COLORS, strict=False)):
            if side != ACKED:
                single.plot(size, by_side[side], ".", color=color, markersize=4, alpha=0.8)
            left, (means, tails) = np.arange(len(BINS)) - 0.4 + (number + 0.5) * width, zip(*by_bin[side], strict=True)
            binned.bar(left, means, 0.9 * width, color=color, label=side)
            binned.plot(left, tails, "_", color=color, markersize=14, markeredgewidth=2)
        for axes, least, title in ((single, 0.9, "Every flow"), (binned, 1, "Mean (bar) and 99th percentile (line) by size")):
            axes.set(yscale="log", ylabel="Slowdown", xlabel="Size of the flow")
            axes.set_ylim(bottom=least)  # bars start at 1, the ideal slowdown
            axes.set_title(title, loc="left")
            log_ticks(axes, "y")
        single.set_xscale("log")
        log_ticks(single, "x", family="bytes")
        binned.set_xticks(range(len(BINS)), list(BINS))
        binned.legend()
        return kit.save(figure, path, mark=runs.mark_of(NAME))
