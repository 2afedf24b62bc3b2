# SPDX-License-Identifier: Apache-2.0
"""TCP beside UEC on one fabric: who pays. Each host has a flow of both to the next rack, alone and together.

ECMP keeps a TCP flow on its path, and UEC's packets take all of them. Both share the queues, or have a class of half of each
port's line.
"""

from __future__ import annotations

from typing import Any

from dc_gym.benchmarks.studies.spray.entropies import HOSTS_PER_RACK, LINE_BPS, NETWORK, RACKS
from dc_gym.results.results import Result
from dc_gym.study import Claim, Measure, Study, Variant, above, drawing

TITLE = "TCP beside UEC: who pays"
UEC, ALONE, SHARED, APART = "UEC", "alone", "in one queue", "in classes"
TCPS = {"CUBIC": ("cubic", "#332288"), "DCTCP": ("dctcp", "#009E73")}
OF_TCP = Measure("tcp", "TCP's goodput (% of the lines)", 100, digits=3)
OF_UEC = Measure("uec", "UEC's goodput (% of the lines)", 100, digits=3)
RESENT = Measure("retransmits", "TCP's retransmissions")
SPRAYED: dict[str, Any] = {
    "controller.name": "nscc",
    "nic.balancer": "reps",
    "nic.trace": "off",
    "workload.transport": "uec",
    "workload.dscp": 26,
}
BESIDE: dict[str, Any] = {"kind": "stride", "stride": HOSTS_PER_RACK, "transport": "tcp", "jitter": "100us"}
CLASSES = [{"name": "uec", "dscp": [26], "weight": 50}, {"name": "tcp", "dscp": [0], "weight": 50}]


def name(tcp: str, how: str) -> str:
    return f"{tcp}, {how}"


def measure(result: Result) -> dict[str, float]:
    """Returns the goodput of both transports as shares of all hosts' lines."""
    lines_bps = RACKS * HOSTS_PER_RACK * LINE_BPS
    alone = {**result.summary, "transport": "uec" if len(result.records("nic_flows")) else "tcp"}
    entries = result.summary["classes"] or [alone]
    rates = {entry["transport"]: float(entry["goodput_bps"]) / lines_bps for entry in entries}
    values = {column.name: rates[transport] for transport, column in (("tcp", OF_TCP), ("uec", OF_UEC)) if transport in rates}
    return values | ({RESENT.name: float(result.summary["retransmits"])} if "tcp" in rates else {})


STUDY = Study(
    title=TITLE,
    source="ours",
    base={
        **NETWORK,
        "topology.buffer": "200kB",
        "workload.kind": "stride",
        "workload.stride": HOSTS_PER_RACK,
        "workload.jitter": "100us",
        "time.duration": "40ms",
        "time.warmup": "10ms",
    },
    variants=[
        Variant(name(UEC, ALONE), SPRAYED, "#D55E00"),
        *(Variant(name(tcp, ALONE), {"controller.name": kind}, color) for tcp, (kind, color) in TCPS.items()),
        *(
            Variant(name(tcp, how), {**SPRAYED, "controller.tcp": kind, "workload.beside": [BESIDE], **keys}, color)
            for tcp, (kind, color) in TCPS.items()
            for how, keys in {SHARED: {}, APART: {"topology.classes": CLASSES}}.items()
        ),
    ],
    measures=(OF_TCP, OF_UEC, RESENT),
    measure=measure,
    seeds=5,
    claims=[
        Claim("In one queue CUBIC takes more than UEC", "ours", (above(name("CUBIC", SHARED), name("CUBIC", APART), OF_TCP),)),
    ],
    draw=lambda evidence: drawing.dot_panels(evidence, (OF_TCP, OF_UEC), TITLE),
)
