# SPDX-License-Identifier: Apache-2.0
"""Flow completion times: WebSearch at 30, 50 and 80 % on a fat-tree and on ACC's testbed, under DCTCP.

WebSearch is scaled to a tenth (mean 171 kB), so that a short run has many flows. ACC's 25 and 100 Gbit/s are scaled down 25
times, and delays up (docs/topologies.md). Every flow is accounted for by its status, all bytes of finished flows arrive, and
frames are conserved.
"""

from __future__ import annotations

from itertools import pairwise

from dc_gym.results.results import Result
from dc_gym.spec import without_code
from dc_gym.study import Claim, Measure, Study, Variant, above, less_than, series

LOADS, NETWORKS = (0.3, 0.5, 0.8), {"fattree-k4": {}, "acc24": {"topology.scale": 25}}
COLORS = {"fattree-k4": "#332288", "acc24": "#D55E00"}
STATUSES = ("done", "running", "failed", "stopped", "waiting")
ENDS = ("received_by_hosts", "dropped_by_switches", "under_way", "lost_on_links", "lost_elsewhere")
"""Where a frame that a host sent can be."""
MEDIAN = Measure("slowdown_p50", "median slowdown", digits=3)
TAIL = Measure("slowdown_p99", "99th percentile of slowdown", digits=3)
FLOWS, UNFINISHED = Measure("fct_flows", "flows counted"), Measure("fct_unfinished", "of them unfinished")
IDEAL_ERROR = Measure("ideal_error", "error of interpolated ideals (%)", 100, 2)
LOST_FLOWS = Measure("lost_flows", "flows that no status accounts for, that failed, or whose bytes did not arrive")
LOST_FRAMES = Measure("lost_frames", "frames that nothing accounts for")


def measure(result: Result) -> dict[str, float]:
    """Returns slowdowns, and how many flows and frames are not accounted for."""
    flows, summary, conservation = result.records("flows"), result.summary, result.manifest["conservation"]
    spec = without_code(result.manifest["spec"], result.path)
    missing = len(spec.flows(spec.graph())) - sum(int(summary[f"flows_{status}"]) for status in STATUSES)
    ended = flows[flows["fct_ns"] >= 0]
    broken = int((ended["received_bytes"] != ended["size_bytes"]).sum())
    return {column.name: float(summary[column.name]) for column in (MEDIAN, TAIL, FLOWS, UNFINISHED, IDEAL_ERROR)} | {
        LOST_FLOWS.name: float(abs(missing) + broken + int(summary["flows_failed"])),
        LOST_FRAMES.name: float(abs(conservation["sent_by_hosts"] - sum(conservation[name] for name in ENDS))),
    }


def name(network: str, load: float) -> str:
    return f"{network}, {load:.0%}"


VARIANTS = [
    Variant(name(network, load), {"topology.preset": network, **keys, "workload.load": load}, COLORS[network])
    for network, keys in NETWORKS.items()
    for load in LOADS
]
GROWING = tuple(above(name(network, high), name(network, low), TAIL) for network in NETWORKS for low, high in pairwise(LOADS))
STUDY = Study(
    title="Slowdown of WebSearch at three loads on two networks",
    base={
        "controller.name": "dctcp",
        "workload.kind": "poisson",
        "workload.distribution": "websearch",
        "workload.size_scale": 0.1,
        "workload.last_start": "150ms",
        "time.duration": "200ms",
        "time.warmup": "10ms",
        "monitor.interval": "1ms",
        "monitor.tcp_interval": "10ms",
        "metrics.cutoff": "120ms",
        "metrics.slowdown": "auto",
    },
    variants=VARIANTS,
    measures=(MEDIAN, TAIL, FLOWS, UNFINISHED, IDEAL_ERROR, LOST_FLOWS, LOST_FRAMES),
    measure=measure,
    seeds=3,
    claims=[Claim("Slowdown grows with the load", "ours: queues grow with it", GROWING)],
    identities=[
        less_than(variant.name, measure, bound)
        for variant in VARIANTS
        for measure, bound in ((LOST_FLOWS, 1), (LOST_FRAMES, 1), (IDEAL_ERROR, 0.01))
    ],
    draw=series.over(COLORS, LOADS, name, (MEDIAN, TAIL), "load (%)", "Slowdown of WebSearch under DCTCP", None, factor=100),
    facts=[
        ("Network", "the preset's; acc24 at a 25th of its rates"),
        ("Traffic", "Poisson, WebSearch scaled to a tenth, 150 ms of starts; flows that start from 10 to 120 ms count"),
    ],
)
