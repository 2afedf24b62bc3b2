# SPDX-License-Identifier: Apache-2.0
"""Table 2 of PCC-RL: all-to-all, N hosts with 2N flows each; utilization, fairness and queue.

In the paper flow i of a host goes to host i mod N through switch i mod N. So each destination is behind its own switch, whose
port to it is the bottleneck. One switch with N ports has the same bottlenecks. Flows from a host to itself are left out, so a
host has 2 (N - 1). The measured values are means over these ports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from dc_gym.benchmarks.studies.pcc_rl import common as pccrl
from dc_gym.benchmarks.studies.pcc_rl.common import HPCC, IN_TABLES, MEASURES, SWIFT_PCC, WHO
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.results.results import Result
from dc_gym.study import Claim, Variant, above, below, less_than, series
from dc_gym.study.scaled import JITTER_NS, MS, RunLength, ScaledNetwork

TITLE = "All-to-all by number of hosts: utilization, fairness and queue"
SOURCE = "PCC-RL, Table 2"
HOSTS = (4, 8)
LENGTH, FULL = RunLength(30 * MS, 15 * MS), RunLength(1_000 * MS, 500 * MS)
PAPER = {
    "PCC-RL": ((94, 77, 6), (94, 97, 8)),
    "DC2QCN": ((90, 91, 5), (91, 89, 6)),
    "Swift": ((76, 100, 11), (76, 98, 13)),
    HPCC: ((71, 18, 3), (69, 60, 3)),
}
"""SU in %, FR in %, QL in us, by number of hosts; no controller drops."""
EARLY, BURSTS = "early marks", "bursts"
"""The set-ups whose switches mark early, and whose NICs send bursts with a target of Swift's near the base round trip."""
MARKS: rlcc.Keys = {
    "topology.marking": "red-instant",
    "topology.kmin": "12500B",
    "topology.kmax": "50kB",
    "topology.pmax": "20%",
}
BURST: rlcc.Keys = {"nic.burst": 8, "nic.ack_packets": 8}
NEAR_TARGET: rlcc.Keys = {"nic.parameters": {"base_target": 8_000, "hop": 0, "fs_range": 50_000}}
CHANGED: Mapping[str, Mapping[str, rlcc.Keys]] = {
    EARLY: {"DC2QCN": MARKS},
    BURSTS: {"PCC-RL": BURST, "Swift": {**BURST, **NEAR_TARGET}},
    rlcc.PCC: {"Swift": pccrl.KEYS[SWIFT_PCC]},
}
"""The contestants that have rows of their own in a set-up, with their keys."""
NOTES = (
    "In rows named early marks switches mark up to 20 % of DCQCN's frames between 12.5 and 50 kB, and all from 50 kB on; in"
    " others it is 400 and 1600 kB, as HPCC's authors had it. PCC-RL does not say how its switches mark.",
    "In rows named bursts NICs send eight packets at a time and get an ACK for each eight. Swift's target there is 8 us at a base"
    " RTT of 10 us, without hops, and flow scaling adds half as much: with 6 and 14 flows a port 1.2 and 1.5 base RTTs. PCC-RL"
    " says nothing about either.",
)
NONE = 1e-3
NETWORKS = {
    hosts: ScaledNetwork(f"{hosts} hosts", f"one switch, {hosts} hosts", {**rlcc.SINGLE, "hosts": hosts}, hosts - 1)
    for hosts in HOSTS
}


def name(contestant: str, hosts: int) -> str:
    return f"{contestant}, {hosts} hosts"


def on(contestant: str, setup: str) -> str:
    """Returns the name of a contestant in a comparison of a set-up."""
    return rlcc.of_setup(contestant, setup) if contestant in CHANGED.get(setup, ()) else contestant


def _variant(contestant: str, hosts: int, setup: str = rlcc.OWN, keys: rlcc.Keys | None = None) -> Variant:
    title, as_printed = name(on(contestant, setup), hosts), setup == rlcc.OWN and contestant != SWIFT_PCC
    workload = {"kind": "all_to_all", "flows": 2, "jitter": JITTER_NS}
    style = pccrl.told(title, contestant, PAPER.get(contestant, PAPER["PCC-RL"])[HOSTS.index(hosts)] if as_printed else ())
    return rlcc.variant(title, IN_TABLES[contestant], NETWORKS[hosts], workload, keys, 0, length=LENGTH, full=FULL, **style)


VARIANTS = [
    *(_variant(who, hosts, keys=pccrl.KEYS.get(who)) for who in IN_TABLES for hosts in HOSTS),
    *(_variant(who, hosts, setup, keys) for setup in (EARLY, BURSTS) for who, keys in CHANGED[setup].items() for hosts in HOSTS),
]


def _claims(setup: str) -> Iterator[Claim]:
    def rows(contestant: str) -> list[str]:
        return [name(on(contestant, setup), hosts) for hosts in HOSTS]

    tree, dcqcn, swift, hpcc = map(rows, WHO)
    stated = [name("PCC-RL", hosts) for hosts in HOSTS]
    for contestant in WHO:
        none = tuple(less_than(row, rlcc.DROP_RATE, NONE) for row in rows(contestant))
        yield Claim(f"{pccrl.label(contestant)} drops nothing", SOURCE, none)
    more = [above(*pair, rlcc.UTILIZATION) for pair in zip(tree, swift, strict=True)]
    yield Claim("PCC-RL uses the switch better than Swift", SOURCE, tuple(more))
    shorter = [below(*pair, rlcc.QUEUE) for pair in zip(tree, swift, strict=True)]
    yield Claim("PCC-RL's queue is shorter than Swift's", SOURCE, tuple(shorter))
    less = [below(*pair, measure) for pair in zip(hpcc, stated, strict=True) for measure in (rlcc.QUEUE, rlcc.UTILIZATION)]
    yield Claim("HPCC's queue is shorter than PCC-RL's, and it uses the switch less", SOURCE, tuple(less))
    no_longer = [below(*pair, rlcc.QUEUE) for pair in zip(dcqcn, stated, strict=True)]
    yield Claim("DC2QCN's queue is no longer than PCC-RL's", SOURCE, tuple(no_longer))


def ports_to_hosts(result: Result) -> dict[str, float]:
    """Returns means over the switches' ports."""
    table = result.derived("port_metrics")
    assert table is not None
    scale = int(result.manifest["spec"]["topology"].get("scale") or 1)
    at_switch = np.array(table["side"].to_pylist()) == "switch"
    return {
        rlcc.UTILIZATION.name: float(table["utilization"].to_numpy()[at_switch].mean()),
        rlcc.QUEUE.name: float(table["mean_delay_s"].to_numpy()[at_switch].mean()) / scale,
    }


STUDY = rlcc.study(
    TITLE,
    SOURCE,
    VARIANTS,
    MEASURES,
    _claims,
    partial(series.figure, series=pccrl.lines(HOSTS, name), columns=MEASURES[:3], xlabel="hosts", title=TITLE, base=None),
    networks=tuple(NETWORKS.values()),
    setups=(rlcc.PCC, EARLY, BURSTS),
    more=ports_to_hosts,
    notes=(*pccrl.NOTES, *NOTES),
)
