# SPDX-License-Identifier: Apache-2.0
"""What load balancing in switches does to Linux' TCP and to RDMA: CUBIC, DCTCP and DCQCN under each way of `topology.balance`.

16 hosts in 4 racks have uplinks for all, and each host sends to the one of the same place in the next rack for the whole run, so
a perfect balance gives every flow the whole of its line. Out-of-order segments and retransmissions in vain are Linux' own counts
(`reordering`). Of RDMA, whose NICs have no such counts, they are what a receiver did not accept and what was sent again. ECMP
runs as flowlets without end, which is the same to the frame and is counted.
"""

from __future__ import annotations

from dc_gym.base.units import ETHERNET_BYTES, FRAME_BYTES, TCP_HEADERS_BYTES
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, Variant, above, below, drawing

RACKS, HOSTS_PER_RACK, LINE_BPS = 4, 4, 10 * 10**9
PAYLOAD_BYTES = FRAME_BYTES - ETHERNET_BYTES - TCP_HEADERS_BYTES
FLOWLETS, RANDOM, DRILL = "flowlets of 50 us", "random", "DRILL(2, 1)"
WAYS = {
    "ECMP": {"topology.balance": "flowlet", "topology.balance_gap": "10s"},
    FLOWLETS: {"topology.balance": "flowlet", "topology.balance_gap": "50us"},
    RANDOM: {"topology.balance": "random"},
    "in turn": {"topology.balance": "round_robin"},
    DRILL: {"topology.balance": "drill"},
    "adaptive": {"topology.balance": "adaptive"},
}
CONTROLLERS = {
    "CUBIC": ({"controller.name": "cubic"}, "#332288"),
    "DCTCP": ({"controller.name": "dctcp"}, "#009E73"),
    "DCQCN": ({"controller.name": "dcqcn", "nic.retransmit": "selective", "nic.trace": "off"}, "#D55E00"),
    "DCQCN, go-back-N": ({"controller.name": "dcqcn", "nic.trace": "off"}, "#CC79A7"),
}
GOODPUT = Measure("goodput", "goodput, of the lines'", digits=3)
OUT_OF_ORDER = Measure("out_of_order", "out of order (% of packets)", 100, digits=2)
RESENT = Measure("resent", "sent again (% of packets)", 100, digits=2)
IN_VAIN = Measure("in_vain", "sent again in vain (% of packets)", 100, digits=2)
IMBALANCE = Measure("uplink_max_mean", "uplinks: greatest load over the mean", digits=3)
LETFLOW, DRILL_PAPER = "ours: after LetFlow, NSDI 2017", "ours: after DRILL, SIGCOMM 2017"


def name(controller: str, way: str) -> str:
    return f"{controller}, {way}"


def measure(result: Result) -> dict[str, float]:
    """Returns goodput, reordering as shares of the packets that hosts sent with data, and how evenly uplinks were used."""
    flows, loads = result.records("flows"), result.records("nexthops")["bytes"].astype(float)
    values = {
        GOODPUT.name: float(result.summary["goodput_bps"]) / (RACKS * HOSTS_PER_RACK * LINE_BPS),
        IMBALANCE.name: float(loads.max() / loads.mean()),
    }
    if len(nics := result.records("nic_flows")):
        counted, sent = nics, nics["sent_packets"].sum()
        columns = {OUT_OF_ORDER: "dropped_packets", RESENT: "resent_packets"}
    else:
        counted, sent = result.records("reordering"), flows["sent_bytes"].sum() / PAYLOAD_BYTES
        columns = {OUT_OF_ORDER: "out_of_order_packets", RESENT: "retransmits", IN_VAIN: "dsacks"}
    return values | {measure.name: float(counted[column].sum() / sent) for measure, column in columns.items()}


STUDY = Study(
    title="Load balancing in switches: goodput and reordering of TCP and RDMA",
    source="ours",
    base={
        "topology.kind": "leafspine",
        "topology.leaves": RACKS,
        "topology.hosts_per_leaf": HOSTS_PER_RACK,
        "topology.spines": 4,
        "topology.rate": "10Gbit/s",
        "topology.delay": "2us",
        "topology.buffer": "500kB",
        "topology.kmin": "100kB",
        "topology.kmax": "400kB",
        "topology.pmax": "20%",
        "topology.marking": "red-instant",
        "workload.kind": "stride",
        "workload.stride": HOSTS_PER_RACK,
        "workload.jitter": "100us",
        "time.duration": "20ms",
        "time.warmup": "5ms",
        "monitor.interval": "1ms",
        "metrics.slowdown": "off",
    },
    variants=[
        Variant(name(controller, way), {**keys, **chosen}, color)
        for controller, (keys, color) in CONTROLLERS.items()
        for way, chosen in WAYS.items()
    ],
    measures=(GOODPUT, OUT_OF_ORDER, RESENT, IN_VAIN, IMBALANCE),
    measure=measure,
    claims=[
        Claim("Flowlets carry more than ECMP", LETFLOW, (above(name("DCTCP", FLOWLETS), name("DCTCP", "ECMP"), GOODPUT),)),
        Claim("DRILL carries more than ECMP", DRILL_PAPER, (above(name("CUBIC", DRILL), name("CUBIC", "ECMP"), GOODPUT),)),
        Claim(
            "DRILL reorders less than random", DRILL_PAPER, (below(name("DCTCP", DRILL), name("DCTCP", RANDOM), OUT_OF_ORDER),)
        ),
        Claim(
            "Go-back-N does not bear frames that overtake one another",
            "ours",
            (below(name("DCQCN, go-back-N", RANDOM), name("DCQCN", RANDOM), GOODPUT),),
        ),
    ],
    draw=lambda evidence: drawing.dot_panels(evidence, (GOODPUT, OUT_OF_ORDER, IN_VAIN), "Load balancing of TCP and RDMA"),
    facts=[
        ("Network", "4 racks of 4 hosts, 4 spines, 10 Gbit/s, 2 us a link, 500 kB a port, marking from 100 to 400 kB"),
        ("Traffic", "each host sends to the host of the same place in the next rack, for 20 ms"),
    ],
)
