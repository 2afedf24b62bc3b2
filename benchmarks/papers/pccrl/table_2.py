# SPDX-License-Identifier: Apache-2.0
"""Table 2 of PCC-RL: all-to-all, N hosts with 2N flows each; utilization, fairness and queue.

In the paper flow i of a host goes to host i mod N through switch i mod N. So each destination is behind its own switch, whose
port to it is the bottleneck. One switch with N ports has the same bottlenecks. Flows from a host to itself are left out, so a
host has 2 (N - 1). The measured values are means over these ports.
"""

from __future__ import annotations

import numpy as np

from dc_gym.base.progress import Progress
from dc_gym.benchmarks.papers.pccrl import common as pccrl
from dc_gym.benchmarks.papers.pccrl.common import COLORS, HPCC, IN_TABLES, LOOKS, VALUES, VARIANT_OF, WHO, printed, swift
from dc_gym.benchmarks.papers.rlcc import common as rlcc
from dc_gym.records.results import Result
from dc_gym.reproduce import series
from dc_gym.reproduce.claims import Claim, above, below, less_than
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.reproduce.scaled import JITTER_NS, MS, RunLength, ScaledNetwork
from dc_gym.reproduce.series import ContestantLine

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
COLUMNS = (rlcc.UTILIZATION, rlcc.FAIRNESS, rlcc.QUEUE, rlcc.DROP_RATE)
NONE = 1e-3


def name(who: str, hosts: int) -> str:
    return f"{who}, {hosts} hosts"


ROWS = [
    rlcc.Row(
        name(who, hosts),
        controller,
        ScaledNetwork(f"{hosts} hosts", f"one switch, {hosts} hosts", {**rlcc.SINGLE, "hosts": hosts}, hosts - 1),
        {"kind": "all_to_all", "flows": 2, "jitter": JITTER_NS},
        length=LENGTH,
        full=FULL,
        paper={} if who in VARIANT_OF else printed(paper),
        values=VALUES.get(who, {}),
        variant=VARIANT_OF.get(who, rlcc.OWN),
        color=COLORS[who],
        lines=0,
    )
    for who, controller in IN_TABLES.items()
    for hosts, paper in zip(HOSTS, PAPER.get(who, PAPER["PCC-RL"]), strict=True)
]


def _claims(variant: str) -> tuple[Claim, ...]:
    return (
        *(
            Claim(
                f"{pccrl.label(who)} drops nothing",
                SOURCE,
                tuple(less_than(name(swift(variant) if who == "Swift" else who, hosts), rlcc.DROP_RATE, NONE) for hosts in HOSTS),
            )
            for who in WHO
        ),
        Claim(
            "PCC-RL uses the switch better than Swift",
            SOURCE,
            tuple(above(name("PCC-RL", hosts), name(swift(variant), hosts), rlcc.UTILIZATION) for hosts in HOSTS),
        ),
        Claim(
            "PCC-RL's queue is shorter than Swift's",
            SOURCE,
            tuple(below(name("PCC-RL", hosts), name(swift(variant), hosts), rlcc.QUEUE) for hosts in HOSTS),
        ),
        Claim(
            "HPCC's queue is shorter than PCC-RL's, and it uses the switch less",
            SOURCE,
            tuple(
                below(name(HPCC, hosts), name("PCC-RL", hosts), column)
                for hosts in HOSTS
                for column in (rlcc.QUEUE, rlcc.UTILIZATION)
            ),
        ),
        Claim(
            "DC2QCN's queue is no longer than PCC-RL's",
            SOURCE,
            tuple(below(name("DC2QCN", hosts), name("PCC-RL", hosts), rlcc.QUEUE) for hosts in HOSTS),
        ),
    )


CLAIMS = rlcc.with_variants((rlcc.PCC,), _claims)


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


def run(options: ReproduceOptions, progress: Progress) -> Findings:
    evidence = rlcc.run("table-2", ROWS, options, progress, ports_to_hosts)
    lines = [
        ContestantLine(pccrl.label(who), COLORS[who], {hosts: name(who, hosts) for hosts in HOSTS}, *LOOKS.get(who, ()))
        for who in IN_TABLES
    ]
    figure = series.figure(evidence, lines, COLUMNS[:3], "hosts", TITLE, base=None)
    return pccrl.completed(rlcc.findings(TITLE, ROWS, options, evidence, COLUMNS, CLAIMS, figure))
