# SPDX-License-Identifier: Apache-2.0
"""The fabric, the load-balancing configurations and the KPIs of the draft that its tests share.

The fabric is the draft's topology A: 4 leaves of 4 hosts, 4 spines, 10 Gbit/s, RoCEv2 (`rdma`) under DCQCN with PFC. NICs send
lost frames again selectively, since go-back-N does not bear spraying. The draft asks for 60 seconds and 20 to 1000 repetitions. A
run here repeats to the bit, so that what varies is the seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dc_gym.results.results import Result, number
from dc_gym.study import Measure

SOURCE = "draft-calabria-bmwg-ai-fabric-training-bench"
LEAVES, HOSTS_PER_LEAF, LINE_BPS, SEEDS = 4, 4, 10 * 10**9, 3
HOSTS = LEAVES * HOSTS_PER_LEAF
LINES: Mapping[str, Any] = {
    "topology.rate": "10Gbit/s",
    "topology.delay": "1us",
    "topology.shared_buffer": "2MB",
    "topology.pfc": "classes",
    "topology.xoff": "acc",
    "topology.marking": "red-instant",
    "topology.kmin": "100kB",
    "topology.kmax": "400kB",
    "topology.pmax": "20%",
    "controller.name": "dcqcn",
    "nic.trace": "off",
}
"""Links, switches and NICs of all tests with PFC."""
FABRIC: Mapping[str, Any] = {
    **LINES,
    "topology.kind": "leafspine",
    "topology.leaves": LEAVES,
    "topology.hosts_per_leaf": HOSTS_PER_LEAF,
    "topology.spines": 4,
    "nic.retransmit": "selective",
    "monitor.interval": "100us",
    "monitor.tcp_interval": "2ms",
    "metrics.slowdown": "off",
}
ECMP, FLOWLET, SPRAY = "ECMP", "DLB (flowlets of 50 us)", "packet spray"
BALANCING: Mapping[str, Mapping[str, Any]] = {
    ECMP: {"topology.balance": "flowlet", "topology.balance_gap": "10s"},
    FLOWLET: {"topology.balance": "flowlet", "topology.balance_gap": "50us"},
    SPRAY: {"topology.balance": "random"},
}
"""Flowlets without end are ECMP to the frame, and are counted."""
COLORS = {ECMP: "#332288", FLOWLET: "#009E73", SPRAY: "#D55E00"}
MMR = Measure("mmr", "MMR of uplinks (bytes)", digits=3)
JFI = Measure("jfi", "JFI of uplinks", digits=4)
OUT_OF_ORDER = Measure("out_of_order", "out of order (% of packets)", 100, digits=2)
RESENT = Measure("resent", "retransmitted (% of packets)", 100, digits=2)
GOODPUT = Measure("goodput", "effective goodput (% of the lines)", 100, digits=3)
JCT = Measure("iteration_s", "JCT of an iteration (ms)", 1e3)
BUSBW = Measure("bus_bandwidth_bps", "BusBW (Gbit/s an accelerator)", 1e-9, 3)
PAUSES = Measure("pauses", "PFC PAUSE frames")
PAUSED = Measure("paused", "time paused, sum of ports (ms)", 1e3)
DROPS = Measure("drops", "drops")


def uplinks(result: Result) -> dict[str, float]:
    """Returns how evenly the links from leaves to spines were used, by the bytes of each leaf's ways to another leaf."""
    loads = result.records("nexthops")["bytes"].astype(float)
    return {MMR.name: float(loads.max() / loads.mean()), JFI.name: float(loads.sum() ** 2 / len(loads) / (loads**2).sum())}


def transport(result: Result) -> dict[str, float]:
    """Returns reordering and retransmissions as shares of the frames with data, pauses and drops."""
    nics, summary = result.records("nic_flows"), result.summary
    sent = float(nics["sent_packets"].sum())
    return {
        OUT_OF_ORDER.name: float(nics["dropped_packets"].sum()) / sent,
        RESENT.name: number(summary["nic_resent_share"]),
        DROPS.name: number(summary["drops"]),
    } | pauses(result)


def pauses(result: Result) -> dict[str, float]:
    """Returns the PAUSE frames of all ports, and the time for which their peers were paused, added up."""
    classes = result.records("class_queues")
    last = classes[classes["t_ns"] == classes["t_ns"].max()]
    return {PAUSES.name: float(last["pauses"].sum()), PAUSED.name: float(last["paused_ns"].sum()) / 1e9}


def job(result: Result) -> dict[str, float]:
    """Returns the mean time of an iteration, and the bus bandwidth of its collective."""
    summary = result.summary
    return {JCT.name: number(summary["iteration_mean_s"]), BUSBW.name: number(summary["bus_bandwidth_bps"])}
