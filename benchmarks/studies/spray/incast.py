# SPDX-License-Identifier: Apache-2.0
"""One incast under PFC, trimming and plain drops: how long it takes, and what it costs a neighbour.

11 hosts of three racks send 250 kB each to one host of the fourth, at one moment; a switch has 150 kB for all its ports. A
neighbour in the first rack sends to another host of the fourth all the while, and nothing else goes there.
"""

from __future__ import annotations

import numpy as np

from dc_gym.benchmarks.studies.bmwg.common import DROPS, PAUSES, pauses
from dc_gym.benchmarks.studies.spray.entropies import HOSTS_PER_RACK, LINE_BPS, NETWORK, RACKS
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Measure, Study, Variant, above, below, collect, drawing

SENDERS, SIZE_BYTES, START_S, DURATION_MS = 11, 250_000, 0.001, 12
RECEIVER, SPARED = (f"h{(RACKS - 1) * HOSTS_PER_RACK + place}" for place in (1, 2))
TITLE = "An incast under PFC, trimming and drops"
TOOK = Measure("took", "time until its last flow ended, over the line's")
NEIGHBOUR = Measure("neighbour", "what the neighbour gets meanwhile (% of its line)", 100, digits=3)
TRIMMED = Measure("trimmed", "frames trimmed")
UEC, RDMA = "UEC (NSCC)", "RDMA (DCQCN)"
TRANSPORTS = {
    UEC: ({"controller.name": "nscc", "workload.transport": "uec", "nic.balancer": "reps"}, "#D55E00"),
    RDMA: ({"controller.name": "dcqcn", "nic.retransmit": "selective"}, "#332288"),
}
PFC, TRIM, DROP = "PFC", "trimming", "drops"
FABRICS = {PFC: {"topology.pfc": "classes"}, TRIM: {"topology.trim": "128B"}, DROP: {}}


def name(transport: str, fabric: str) -> str:
    return f"{transport}, {fabric}"


def flow_list() -> str:
    """Returns the neighbour, which sends for the whole run, and the incast."""
    hosts = [f"h{host}" for host in range(2, SENDERS + 2)]
    incast = (f"{host},{RECEIVER},5001,{START_S},0,{SIZE_BYTES}" for host in hosts)
    return collect.flow_list([f"h1,{SPARED},5001,0,0,0", *incast])


def measure(result: Result) -> dict[str, float]:
    """Returns how long the incast took, what reached the neighbour's receiver in that time, and what became of frames."""
    incast, queues = result.records("flows")[1:], result.records("queues")
    begin_ns, end_ns = incast["start_ns"].min(), incast["end_ns"].max()
    port = next(row for row, known in enumerate(result.ports) if known["peer"].startswith(f"{SPARED}-"))
    samples = queues[queues["port"] == port]
    got = np.diff(np.interp([begin_ns, end_ns], samples["t_ns"], samples["tx_bytes"]))[0]
    took_ns = float(end_ns - begin_ns) if (incast["end_ns"] >= 0).all() else np.nan
    return {
        TOOK.name: took_ns * LINE_BPS / (SENDERS * SIZE_BYTES * 8e9),
        NEIGHBOUR.name: float(got * 8e9 / took_ns / LINE_BPS),
        DROPS.name: number(result.summary["drops"]),
        TRIMMED.name: number(result.summary.get("trimmed") or 0),
    } | pauses(result)


STUDY = Study(
    title=TITLE,
    source="ours",
    base={
        **NETWORK,
        "nic.trace": "off",
        "topology.shared_buffer": "150kB",
        "workload.kind": "matrix",
        "workload.file": "incast.csv",
        "time.duration": f"{DURATION_MS}ms",
        "monitor.interval": "100us",
    },
    variants=[
        Variant(name(transport, fabric), {**keys, **FABRICS[fabric]}, color)
        for transport, (keys, color) in TRANSPORTS.items()
        for fabric in FABRICS
    ],
    files={"incast.csv": flow_list()},
    measures=(TOOK, NEIGHBOUR, DROPS, TRIMMED, PAUSES),
    measure=measure,
    seeds=5,
    claims=[
        Claim("Trimming ends an incast sooner than drops", "ours", (below(name(UEC, TRIM), name(UEC, DROP), TOOK),)),
        Claim("PFC costs the neighbour more than trimming", "ours", (above(name(UEC, TRIM), name(UEC, PFC), NEIGHBOUR),)),
    ],
    draw=lambda evidence: drawing.dot_panels(evidence, (TOOK, NEIGHBOUR), TITLE),
)
