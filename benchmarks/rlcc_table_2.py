# SPDX-License-Identifier: Apache-2.0
"""Table II of RL-CC: how long a decision takes, and what that does to many flows into one port.

In the paper an LSTM (450 us), an MLP (17 us) and trees (0.9 us) decide on a ConnectX-6Dx. Here those times are injected between a
round trip's measurement and the rate that follows from it (`nic.latency`). The LSTM's place is taken by the MLP with the LSTM's
time: its shape is not published, and it is the time that the table is about. How long the paper's runs are is not given.
"""

from __future__ import annotations

from dc_gym.benchmarks import rlcc
from dc_gym.benchmarks.rlcc import name
from dc_gym.progress import Progress
from dc_gym.reproduce import series
from dc_gym.reproduce.claims import Claim, above, below, less_than
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.order import Order
from dc_gym.reproduce.scaled import MS, Length
from dc_gym.reproduce.series import Series

TITLE = "Many-to-one over one switch by how long a decision takes: goodput and drops"
SOURCE = "RL-CC, Table II"
LENGTH = Length(60 * MS, 30 * MS)
FLOWS = (16, 64, 128)
WHO = {"LSTM": ("rlcc-mlp", 450_000, "#D55E00"), "MLP": ("rlcc-mlp", 17_000, "#117733"), "tree": ("rlcc-tree", 900, "#332288")}
"""Controller, ns for a decision, colour."""
PAPER = {
    "LSTM": ((0.91, 0), (0.33, 60e3), (0.40, 16e3)),
    "MLP": ((0.91, 0), (0.31, 60e3), (0.39, 16e3)),
    "tree": ((0.86, 0), (0.86, 1.59), (0.85, 6.96)),
}
"""Goodput and drops a flow, by number of flows."""
SLOWER, FEWER = 2, 0.01
"""Goodput of the tree over the networks', and their drops: by so much at least."""


ROWS = [
    rlcc.many_to_one(
        name(who, flows),
        controller,
        rlcc.SEVEN,
        flows,
        length=LENGTH,
        values={"nic.latency": latency_ns},
        paper=dict(zip((rlcc.GOODPUT.name, rlcc.DROPS.name), paper, strict=True)),
        color=color,
    )
    for who, (controller, latency_ns, color) in WHO.items()
    for flows, paper in zip(FLOWS, PAPER[who], strict=True)
]
COLUMNS = (rlcc.GOODPUT, rlcc.DROPS, rlcc.LATE_DROPS, rlcc.DROPPED, rlcc.RESENT, rlcc.LATENCY, rlcc.JAIN)
NETS = ("LSTM", "MLP")
CLAIMS = (
    Claim(
        "With 16 flows nobody drops",
        SOURCE,
        tuple(less_than(name(who, 16), rlcc.LATE_DROPS, 1e-9) for who in WHO),
    ),
    Claim(
        "With 16 flows the slow networks have no less goodput than the tree",
        SOURCE,
        tuple(above(name(who, 16), name("tree", 16), rlcc.GOODPUT, 0.999) for who in NETS),
    ),
    *(
        Claim(
            f"With {flows} flows the tree has at least twice the goodput of the {who}",
            SOURCE,
            (above(name("tree", flows), name(who, flows), rlcc.GOODPUT, SLOWER),),
        )
        for flows in FLOWS[1:]
        for who in NETS
    ),
    *(
        Claim(
            f"With {flows} flows the tree drops at least 100 times fewer packets a flow than the {who}",
            SOURCE,
            (below(name("tree", flows), name(who, flows), rlcc.LATE_DROPS, FEWER),),
        )
        for flows in FLOWS[1:]
        for who in NETS
    ),
)


def run(order: Order, progress: Progress) -> Findings:
    evidence = rlcc.run("table-2", ROWS, order, progress)
    lines = [Series(who, color, {flows: name(who, flows) for flows in FLOWS}) for who, (_, _, color) in WHO.items()]
    figure = series.figure(evidence, lines, (rlcc.GOODPUT, rlcc.DROPS, rlcc.LATE_DROPS), "flows", TITLE)
    return rlcc.findings(TITLE, ROWS, order, evidence, COLUMNS, CLAIMS, figure)
