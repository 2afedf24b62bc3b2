# SPDX-License-Identifier: Apache-2.0
"""Figures 6.4 and 6.5 of FDCC (K. Zhang, MSc thesis 2023): slowdown of WebSearch's and FB_Hadoop's flows between all hosts.

The thesis has loads of 20 to 80 % of the hosts' links, Poisson arrivals, and the fat-tree of table 6.1. FDCC has the best
slowdown of short flows. With one link of 100 Gbit/s from each access switch to each aggregation switch, loads above a third would
not fit between racks. So these links have 400 Gbit/s here, as in HPCC's own simulation.

Its short flows wait in the queue of 0.75 sqrt(N) BDP that FDCC's training asks for here. So variants at 80 % have FDCC with a
policy by hand for next to no queue, and others one that aims at 85 % of the line, as HPCC aims at 95 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.studies.fdcc import common
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, DCQCN, DELAY_NS, FDCC, LINE_BPS, RIVALS, RLCC, TIMELY, Change
from dc_gym.methods.fdcc.net import LOG_SPAN, OBSERVATIONS, FdccNet
from dc_gym.methods.fdcc.scripted import LIFT, scripted_network
from dc_gym.nets.lstm_cell import CELLS
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.results.results import Result
from dc_gym.study import OURS, Claim, Floats, Measure, Study, Variant, below, series
from dc_gym.study.collect import wire_bytes

TITLE = "WebSearch and FB_Hadoop between all hosts, by load"
SOURCE = "FDCC, figures 6.4 and 6.5 (text only)"
WORKLOADS = {"WebSearch": "websearch", "FB_Hadoop": "fb_hadoop"}
LOADS = (20, 50, 80)  # percent of each host's link
LAST_START_US, DURATION_MS = 400, 8
FULL_LAST_START_MS, FULL_DURATION_MS = 10, 60
UPLINK_BPS, RACK_HOSTS = 400 * 10**9, 16
LARGEST = "3MB"  # ours: sizes are cut at it, or a run of milliseconds could not finish them; --length full has them whole
SHORT_BYTES, LONG_BYTES = 100_000, 1_000_000  # ours: short flows have up to 100 kB, long ones 1 MB and more
ALL = Measure("slowdown", "slowdown, all flows", digits=4)
SHORT = Measure("short", "slowdown up to 100 kB", digits=4)
OWN_SHORT = Measure("own_short", "slowdown up to 100 kB, over the time of its own frames", digits=4)
"""Where telemetry does not count against a contestant."""
SHORT_TAIL = Measure("short_p99", "99th percentile up to 100 kB", digits=4)
LONG = Measure("long", "slowdown from 1 MB on", digits=4)
FLOWS = Measure("flows", "flows")
BASE = {
    **common.FAT_TREE,
    "topology.uplink_rate": f"{UPLINK_BPS}bit/s",
    "workload.kind": "poisson",
    "workload.truncate": LARGEST,
    "workload.last_start": f"{LAST_START_US}us",
    "time.duration": f"{DURATION_MS}ms",
    "time.warmup": "0s",
    "monitor.interval": "20us",
    "monitor.tcp_interval": "1ms",
}
"""Flows between drawn hosts, of which all that start in the first part of a run count."""
FULL = {
    "workload.truncate": "30MB",
    "workload.last_start": f"{FULL_LAST_START_MS}ms",
    "time.duration": f"{FULL_DURATION_MS}ms",
    "monitor.interval": "100us",
}
NO_QUEUE, CHANGED_LOAD = Change("no queue", {"nic.policy": "no-queue.npz"}), 80
NO_QUEUE_BDP = 0.003
BY_HAND = {"made": "written by hand, not trained", "command": "dcgym reproduce fdcc figure-6.4"}
AIMED, AIMED_LOAD = Change("aims at 85 %", {"nic.policy": "aimed.npz"}), 0.85
HIGHER_LOADS = LOADS[1:]  # the loads at which that policy is to be the best: at 20 % flows are often alone
AIMED_GAIN, AIMED_FAIRNESS = 0.35, 0.02
"""A decision goes a quarter of the way, in octaves; a flow with half as large a window aims at 1.4 % more."""


def name(workload: str, load: int, contestant: str, *changes: Change) -> str:
    return common.named(workload, f"{load} %", contestant, changes=changes)


def _variant(workload: str, load: int, contestant: str, *changes: Change) -> Variant:
    keys = {**BASE, "workload.distribution": WORKLOADS[workload], "workload.load": load / 100}
    return common.variant(name(workload, load, contestant, *changes), contestant, keys, FULL, changes)


VARIANTS = [
    *(_variant(workload, load, who) for workload in WORKLOADS for load in LOADS for who in CONTESTANTS),
    *(_variant(workload, CHANGED_LOAD, FDCC, NO_QUEUE) for workload in WORKLOADS),
    *(_variant(workload, load, FDCC, AIMED) for workload in WORKLOADS for load in LOADS),
]
LINES = common.lines(dict.fromkeys(WORKLOADS, LOADS), lambda workload, who, load: name(workload, load, who))


def _fastest(workload: str, loads: Sequence[int], text: str, others: Iterable[str], *changes: Change) -> Claim:
    """Returns the claim that FDCC, with these changes, has the lowest slowdown of short flows."""
    pairs = [(name(workload, load, FDCC, *changes), name(workload, load, other)) for load in loads for other in others]
    return Claim(f"{workload}{text}", OURS if changes else SOURCE, tuple(below(*pair, SHORT) for pair in pairs))


LOWEST = "FDCC has the lowest mean slowdown of short flows"
BEST_AIMED = f"with a policy that {AIMED.label} {LOWEST}"
FASTER = "with no queue FDCC's short flows are faster than DCQCN's, TIMELY's and RL-CC's"
CLAIMS = (
    *(_fastest(workload, LOADS, f": {LOWEST}, at every load", RIVALS) for workload in WORKLOADS),
    *(
        _fastest(workload, [CHANGED_LOAD], f", {CHANGED_LOAD} %: {FASTER}", (DCQCN, TIMELY, RLCC), NO_QUEUE)
        for workload in WORKLOADS
    ),
    *(_fastest(workload, [load], f", {load} %: {BEST_AIMED}", RIVALS, AIMED) for workload in WORKLOADS for load in HIGHER_LOADS),
)


def aimed() -> NicPolicy:
    """Returns a policy by hand that aims at a load, as HPCC does, and looks at no queue.

        o = about tanh(-AIMED_GAIN log2(U W^AIMED_FAIRNESS / AIMED_LOAD)),  log2 U = log2 o_1 + (o_3 - 1) / ln 2

    U is about the load offered to the busiest port, as a share of its rate. It follows from the round trip above 1, from the
    port's rate below 1.
    """
    weights = [weight.copy() for weight in scripted_network().weights]
    first, first_bias, gates, gate_biases = weights[:4]
    rtt, sent, window = map(OBSERVATIONS.index, ("rtt", "switch_rate", "ins_rate"))
    first[0] = 0.0
    first[0, [rtt, sent, window]] = -LOG_SPAN, -1 / np.log(2), -LOG_SPAN * AIMED_FAIRNESS
    first_bias[0] = LIFT + np.log2(AIMED_LOAD) + 1 / np.log(2)
    fresh = 2 * CELLS  # the row of the first cell's new value
    gates[fresh, 0], gate_biases[fresh] = AIMED_GAIN, -AIMED_GAIN * LIFT
    return NicPolicy(FdccNet(tuple(weights)), provenance=BY_HAND)


def alone_ns(size_bytes: np.ndarray, across: np.ndarray) -> Floats:
    """Returns the times of lone flows without telemetry: their frames on a host's line, the delays, and the last frame's hops.

    `across`: True for a flow between racks, which crosses four links instead of two.
    """
    wire = wire_bytes(size_bytes).astype(float)
    last = np.minimum(wire, FRAME_BYTES) * 8e9
    hops = np.where(across, last / LINE_BPS + 2 * last / UPLINK_BPS + 4 * DELAY_NS, last / LINE_BPS + 2 * DELAY_NS)
    return np.asarray(wire * 8e9 / LINE_BPS + hops)


def slowdowns(result: Result) -> tuple[np.ndarray, Floats]:
    """Returns size and slowdown of each flow that ended."""
    flows, names = result.records("flows"), result.names
    ended = flows[flows["end_ns"] >= 0]
    racks = [np.array([(int(names.node[node][1:]) - 1) // RACK_HOSTS for node in ended[end]]) for end in ("src", "dst")]
    return ended["size_bytes"], (ended["end_ns"] - ended["start_ns"]) / alone_ns(ended["size_bytes"], racks[0] != racks[1])


def measure(result: Result) -> dict[str, float]:
    started = int((result.records("flows")["start_ns"] >= 0).sum())
    size, slowdown = slowdowns(result)

    def mean(values: Floats) -> float:
        return float(values.mean()) if len(values) else float("nan")

    short = slowdown[size <= SHORT_BYTES]
    return {
        ALL.name: mean(slowdown),
        SHORT.name: mean(short),
        OWN_SHORT.name: mean(short) * common.own_share(result),
        SHORT_TAIL.name: float(np.percentile(short, 99)) if len(short) else float("nan"),
        LONG.name: mean(slowdown[size >= LONG_BYTES]),
        FLOWS.name: float(started),
        common.UNFINISHED.name: float(started - len(size)),
        **common.told(result, common.PAUSED, common.PAUSES, common.DROPPED),
    }


STUDY = Study(
    title=TITLE,
    source=SOURCE,
    variants=VARIANTS,
    files={"no-queue.npz": NicPolicy(scripted_network(NO_QUEUE_BDP), provenance=BY_HAND), "aimed.npz": aimed()},
    measures=(ALL, SHORT, OWN_SHORT, SHORT_TAIL, LONG, FLOWS, common.UNFINISHED, common.PAUSED, common.PAUSES, common.DROPPED),
    measure=measure,
    claims=CLAIMS,
    identities=common.nothing_dropped(VARIANTS),
    draw=lambda evidence: series.figure(evidence, LINES, (SHORT, SHORT_TAIL, ALL), "load (%)", TITLE, None),
    facts=common.facts(
        "preset fdcc64, 400 Gbit/s between switches",
        f"Poisson arrivals between drawn hosts; flows start for {LAST_START_US} us and sizes are cut at {LARGEST};"
        f" with --length full {FULL_LAST_START_MS} ms and whole sizes; all end",
    ),
    notes=(
        "Slowdown is over the time of the same flow alone on its path, without telemetry."
        " So the 42 bytes of telemetry count against HPCC and FDCC.",
        "Links between switches have 400 Gbit/s: with the 100 Gbit/s of the thesis' text, loads above a third do not fit.",
        f"Short flows have up to {SHORT_BYTES // 1000} kB, long ones 1 MB and more: ours.",
        common.POLICIES,
        f"`{NO_QUEUE.label}`: FDCC's policy by hand for a lone flow's queue of {NO_QUEUE_BDP:g} BDP instead of 0.25.",
        f"`{AIMED.label}`: FDCC's policy by hand for a load of {AIMED_LOAD:g} of the line, in small steps.",
    ),
)
