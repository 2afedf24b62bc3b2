# SPDX-License-Identifier: Apache-2.0
"""Checks on flow completion times: WebSearch at 30, 50 and 80 % on a fat-tree and on ACC's testbed (figure 9).

- The offered load (payload over the rate of the hosts' links) is what was asked for in the long run. The schedule has enough
  flows that their mean size is known to 0.65 %; the standard deviation of one draw is 2.3 times the mean. These flows are
  generated but not run. WebSearch is scaled to a tenth (mean 171 kB), so that a short run has many flows. ACC's 25 and 100 Gbit/s
  are scaled down 25 times, and delays up (docs/topologies.md).
- Every flow of a run is accounted for by its status, all bytes of finished flows arrived, and frames are conserved.
- A lone flow takes its measured ideal time. Flows of WebSearch sizes run one after the other between random hosts. They have many
  more sizes than are measured one by one, so this tests paths, classes and interpolation.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.metrics.ideal import EXACT
from dc_gym.records.results import Result
from dc_gym.spec import Spec, load
from dc_gym.sweep import Cell, runs

LOADS = (0.3, 0.5, 0.8)
TOLERANCE, LONE_TOLERANCE = 0.02, 0.01
LONG_RUN_FLOWS = 130_000
LONE_FLOWS, LONE_GAP_NS = 240, 25_000_000
NETWORKS = {"fattree-k4": (), "acc24": ("topology.scale=25",)}
SPEC = """
spec_version = 1
name = "fct"
topology.preset = "fattree-k4"
controller.name = "dctcp"
time = { duration = "200ms", warmup = "10ms" }
monitor = { interval = "1ms", tcp_interval = "10ms" }
metrics.cutoff = "120ms"

[workload]
kind = "poisson"
distribution = "websearch"
size_scale = 0.1
load = 0.5
last_start = "150ms"
"""
LONE = """
spec_version = 1
name = "lone"
topology.preset = "fattree-k4"
controller.name = "dctcp"
time.duration = "{duration_ns}ns"
monitor.interval = "100ms"
workload = {{ kind = "matrix", file = "lone.csv" }}
"""


@dataclass(frozen=True, slots=True)
class Offered:
    """The load that a generator offers in the long run."""

    asked: float
    found: float
    flows: int

    @property
    def error(self) -> float:
        return self.found / self.asked - 1


def checks() -> Iterable[Check]:
    with runs.scratch("fct") as folder:
        spec = runs.write_spec(folder, "fct", SPEC)
        for network, settings in NETWORKS.items():
            where = (f"topology.preset={network}", *settings)
            for share in LOADS:
                yield _offered_check(network, long_run(spec, where, share))
            cells = [
                Cell(f"{network}-{share}", spec, folder / f"{network}-{share}", (*where, f"workload.load={share}"))
                for share in LOADS
            ]
            for share, result in zip(LOADS, runs.run_all(cells).values(), strict=True):
                yield from _run_checks(f"{network}, {share:.0%}", result, _flow_count(spec, (*where, f"workload.load={share}")))
            yield _lone_check(network, _lone(folder, spec, network, where))


def long_run(path: Path, where: tuple[str, ...], share: float) -> Offered:
    """Returns the load of a schedule of LONG_RUN_FLOWS flows, which is generated but not run."""
    short = _spec(path, (*where, f"workload.load={share}"))
    rate_bps = _host_rate_bps(short)
    mean_bytes = _mean_size_bytes(short)
    hosts = len(short.graph().hosts)
    horizon_s = LONG_RUN_FLOWS * mean_bytes * 8 / (share * rate_bps * hosts)
    times = (
        f"time.duration={round(horizon_s * 1e9)}ns",
        f"workload.last_start={round(horizon_s * 1e9)}ns",
        "metrics.cutoff=100ms",
    )
    long = _spec(path, (*where, f"workload.load={share}", *times))
    flows = long.flows(long.graph())
    offered_bps = sum(flow.size_bytes for flow in flows) * 8 / horizon_s
    return Offered(share, offered_bps / (rate_bps * hosts), len(flows))


def _spec(path: Path, settings: tuple[str, ...]) -> Spec:
    return load(path, settings)


def _mean_size_bytes(spec: Spec) -> float:
    """Returns the mean size of the sampler in use."""
    return float(spec.flows_with_notes(spec.graph())[1]["mean_size_bytes"])


def _host_rate_bps(spec: Spec) -> int:
    """Returns the rate of a host's links together."""
    graph = spec.graph()
    return sum(graph.cable_of(port).rate_bps for port in graph.ports_of(graph.hosts[0].name))


def _offered_check(network: str, found: Offered) -> Check:
    asked = f"{found.asked:.0%} of the hosts' links +- {TOLERANCE:.0%}"
    measured = f"{found.found:.2%} ({found.error:+.2%}) over {found.flows:,} flows"
    return Check(f"{network}: offered in the long run", asked, measured, abs(found.error) <= TOLERANCE)


def _flow_count(path: Path, settings: tuple[str, ...]) -> int:
    """Returns how many flows the workload asks for."""
    spec = _spec(path, settings)
    return len(spec.flows(spec.graph()))


def _run_checks(name: str, result: Result, asked: int) -> Iterator[Check]:
    flows, summary, kept = result.records("flows"), result.summary, result.manifest["conservation"]
    counts = {status: int(summary[f"flows_{status}"]) for status in ("done", "running", "failed", "stopped", "waiting")}
    done = flows[flows["fct_ns"] >= 0]
    whole = bool(np.all(done["received_bytes"] == done["size_bytes"]))
    ends = ("received_by_hosts", "dropped_by_switches", "under_way", "lost_on_links", "lost_elsewhere")
    conserved = kept["sent_by_hosts"] == sum(kept[name] for name in ends)
    words = f"{asked:,} = " + " + ".join(f"{count:,} {status}" for status, count in counts.items() if count)
    words += f"; {kept['sent_by_hosts']:,} frames sent, {'all' if conserved else 'NOT all'} accounted for"
    ok = result.fit and conserved and whole and sum(counts.values()) == asked and not counts["failed"]
    yield Check(f"{name}: every flow and frame", "accounted for", words, ok)
    words = (
        f"{summary['fct_flows']:,} counted, {summary['fct_unfinished']} unfinished, slowdown p50 {summary['slowdown_p50']:.2f},"
        f" p99 {summary['slowdown_p99']:.1f}, ideal interpolated within {summary['ideal_error']:.2%}"
    )
    yield Check(f"{name}: slowdown", "ideals within 1 %", words, summary["ideal_error"] <= LONE_TOLERANCE)


def _lone(folder: Path, spec: Path, network: str, where: tuple[str, ...]) -> Result:
    """Runs flows with separately drawn sizes and hosts, one at a time."""
    drawn = _spec(spec, (*where, "seed=77"))
    sizes = [flow.size_bytes for flow in drawn.flows(drawn.graph())]
    hosts = [host.name for host in drawn.graph().hosts]
    dice, at, lines = random.Random(77), 0, ["source,destination,port,start,stop,size"]
    for size in dice.sample(sizes, LONE_FLOWS):
        src, dst = dice.sample(hosts, 2)
        lines.append(f"{src},{dst},5001,{at / 1e9:.9f},0,{size}")
        at += LONE_GAP_NS + dice.randrange(1_000_000) + 3 * size * 8 * 10**9 // _host_rate_bps(drawn)
    (folder / "lone.csv").write_text("\n".join(lines) + "\n")
    path = runs.write_spec(folder, f"lone-{network}", LONE.format(duration_ns=at))
    cell = Cell(f"{network}-lone", path, folder / f"{network}-lone", where)
    return runs.run_all([cell])[cell.name]


def _lone_check(network: str, result: Result) -> Check:
    table = result.derived("flow_metrics")
    assert table is not None, "a result of today has it"
    slowdown = np.array(table.column("slowdown"), np.float64)
    classes = result.manifest["ideal"]["classes"]
    interpolated = sum(row["flows"] for row in classes if row["interpolated"])
    words = f"{np.nanmin(slowdown):.4f} .. {np.nanmax(slowdown):.4f}, {len(slowdown)} flows in {len(classes)} path classes"
    words += f", {interpolated} of them interpolated (more than {EXACT} sizes)"
    ok = bool(np.all(np.abs(slowdown - 1) <= LONE_TOLERANCE)) and interpolated > 0
    return Check(f"{network}: lone flows' slowdown", f"1 +- {LONE_TOLERANCE:.0%}", words, ok)
