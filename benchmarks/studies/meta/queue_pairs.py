# SPDX-License-Identifier: Apache-2.0
"""Queue-pair scaling of Meta's RoCE fabric (Gangidi et al., SIGCOMM 2024, section 4): 1 to 32 queue pairs a pair of hosts.

Switches hash the queue pair, so the messages of a pair of hosts take as many paths as it has queue pairs. Meta runs its fabrics
of 400 Gbit/s without DCQCN. Here 16 hosts in 4 racks have uplinks for all, and each sends to one of the next rack, as in a step
of a ring. The paper gives neither sizes nor numbers of uplinks: 8 MB a host, 4 spines, 100 Gbit/s and 12 MB a switch are ours.
"""

from __future__ import annotations

import numpy as np

from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Measure, Study, Variant, above, below, collect, series

RACKS, HOSTS_PER_RACK, LINE_BPS, SIZE_BYTES = 4, 4, 100 * 10**9, 8_000_000
LEAVES = [f"s{rack}" for rack in range(1, RACKS + 1)]
QUEUE_PAIRS = (1, 2, 4, 8, 16, 32)
ON, OFF = "DCQCN", "no DCQCN"
CONTROLLERS = {
    ON: {"controller.name": "dcqcn", "nic.preset": "paper", "topology.marking": "secn2"},
    OFF: {"controller.name": "fixed"},
}
COLORS = {ON: "#D55E00", OFF: "#332288"}
THROUGHPUT = Measure("throughput", "throughput of the step, of the lines'", digits=3)
IMBALANCE = Measure("uplink_max_mean", "uplinks: greatest load over the mean", digits=3)
PAUSES = Measure("pauses", "pauses told")
SOURCE = "Gangidi et al., section 4"


def name(contestant: str, queue_pairs: int) -> str:
    return f"{contestant}, {queue_pairs} queue pairs"


def measure(result: Result) -> dict[str, float]:
    """Returns the step's throughput, and how unevenly the links from the racks to the spines were used."""
    flows, last = result.records("flows"), result.records("queues")[-len(result.ports) :]
    uplinks = [row for row, port in enumerate(result.ports) if port["owner"] in LEAVES and port["peer"].startswith("s")]
    sent = last["tx_bytes"][uplinks].astype(float)
    took_ns = float(flows["end_ns"].max() - flows["start_ns"].min()) if (flows["end_ns"] >= 0).all() else np.nan
    return {
        THROUGHPUT.name: SIZE_BYTES * 8e9 / took_ns / LINE_BPS,
        IMBALANCE.name: float(sent.max() / sent.mean()),
        PAUSES.name: number(result.summary["pauses"]),
    }


STUDY = Study(
    title="Throughput and imbalance of uplinks by queue pairs a pair of hosts",
    source=SOURCE,
    base={
        "topology.kind": "leafspine",
        "topology.leaves": RACKS,
        "topology.hosts_per_leaf": HOSTS_PER_RACK,
        "topology.spines": 4,
        "topology.rate": "100Gbit/s",
        "topology.delay": "600ns",
        "topology.shared_buffer": "12MB",
        "topology.pfc": "classes",
        "topology.xoff": "acc",
        "nic.trace": "off",
        "workload.kind": "matrix",
        "workload.jitter": "1us",
        "time.duration": "8ms",
        "time.warmup": "0s",
        "monitor.interval": "100us",
        "monitor.tcp_interval": "2ms",
    },
    variants=[
        Variant(name(who, pairs), {**keys, "workload.file": f"{pairs}.csv"}, COLORS[who])
        for who, keys in CONTROLLERS.items()
        for pairs in QUEUE_PAIRS
    ],
    files={f"{pairs}.csv": collect.to_next_rack(RACKS, HOSTS_PER_RACK, SIZE_BYTES, pairs) for pairs in QUEUE_PAIRS},
    measures=(THROUGHPUT, IMBALANCE, PAUSES),
    measure=measure,
    claims=[
        Claim("More queue pairs balance the uplinks better", SOURCE, (below(name(OFF, 16), name(OFF, 1), IMBALANCE),)),
        Claim("More queue pairs raise the throughput of a collective", SOURCE, (above(name(OFF, 16), name(OFF, 1), THROUGHPUT),)),
        Claim(
            "Without DCQCN throughput is no lower",
            f"{SOURCE}, section 6",
            (above(name(OFF, 16), name(ON, 16), THROUGHPUT, 0.97),),
        ),
    ],
    draw=series.over(
        *(COLORS, QUEUE_PAIRS, name, (THROUGHPUT, IMBALANCE), "queue pairs", "A step of a ring by queue pairs a pair of hosts")
    ),
    facts=[
        ("Network", "4 racks of 4 hosts, 4 spines, 100 Gbit/s, 600 ns a link; 12 MB a switch, PFC by ACC's rule"),
        ("Traffic", "each host sends 8 MB to the host of the same place in the next rack, over so many queue pairs"),
    ],
)
