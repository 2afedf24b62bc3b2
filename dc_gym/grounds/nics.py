# SPDX-License-Identifier: Apache-2.0
"""The parts that a run over RDMA adds to its plan.

They are the files of the NICs' loader (ctrl/nic/nicd.c), and the tables that it leaves. Every port of a host has a NIC of the
same name. A flow's row in all tables is its number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import ProtocolError
from dc_gym.ctrl.nic import algorithms, configuration
from dc_gym.grounds.guest.main import DECISIONS, NIC_CAPPED, NIC_FLOWS, NIC_SETTINGS, NIC_TABLE
from dc_gym.nets import nic_policy
from dc_gym.records.digest import TABLES, Records, empty
from dc_gym.spec import Spec
from dc_gym.spec.nic import FRAME_HEADERS_BYTES, TRACES
from dc_gym.topologies.ecmp import PORT_MASK, Router, draw, path
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.paths import BIT_NS, base_rtt_ns, one_way_ns, serialization_ns, transfer_ns
from dc_gym.traffic import tgen_log
from dc_gym.traffic.flows import RDMA_PORT
from dc_gym.traffic.schedule import Flow, Schedule

if TYPE_CHECKING:
    from dc_gym.grounds.plan import Experiment

COUNTS = "nics.bin"
COLUMNS = (
    "flow,src_nic,dst_nic,src_addr,dst_addr,src_mac,dst_mac,src_port,payload_bytes,message_bytes,total_bytes,base_rtt_ns,hops"
)
NO_END = 2**64 - 1
LINE_RATE, LEAST_RATE = 1 << 20, 1 << 6  # CC_LINE_RATE and CC_MIN_RATE of ctrl/nic/cc.h
LEAST_TIMEOUT_NS = 1_000_000
CNP_INTERVAL_NS = 50_000  # at 100 Gbit/s: N of the DCQCN paper (Zhu et al., SIGCOMM 2015)
DECISION_DTYPE = np.dtype(
    [
        *(("t_ns", "<u8"), ("flow", "<u4"), ("event", "<u2"), ("flags", "<u2"), ("rtt_ns", "<u4")),
        *(("rate_before", "<u4"), ("rate", "<u4"), ("window_bytes", "<u4")),
    ]
)
"""struct nic_decision of ctrl/nic/shim.h."""
STEP_DTYPE = np.dtype([*DECISION_DTYPE.descr, ("state", "<u4", (8,))])
"""struct nic_step: nic_decision with the first words of the algorithm's context after the decision."""


@dataclass(frozen=True, slots=True)
class NicPlan:
    """The settings of the NICs that the ground gets, and the facts about them in the run's manifest."""

    object: str
    """The algorithm as a BPF object."""
    table: bool
    """True if the algorithm reads a policy's table."""
    trace: bool
    caps: bool
    """True if the flows are the hosts' TCP and the algorithm caps them."""
    keep_pairs: bool
    """True if a flow begins with the state that the last flow between its hosts left."""
    facts: dict[str, Any]
    step_ns: int = 0
    """Time in ns between barriers, at which the lab waits for the host (rlcc/data_path.py). 0: there are none."""

    def lasting(self) -> dict[str, Any]:
        """Returns the settings on which the completion time of a flow alone in the network depends."""
        settings = {name: value for name, value in self.facts["settings"].items() if name not in ("seed", "trace")}
        return self.facts | {"settings": settings}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def write(experiment: Experiment, folder: Path, step_ns: int = 0) -> NicPlan:
    """Writes the loader's files. Returns what the ground's plan says of the NICs."""
    spec, graph = experiment.spec, experiment.graph
    chosen = configuration.configure(spec, line_bps(graph), folder)
    algorithm, setting = chosen.algorithm, chosen.setting
    told = settings(spec, graph, setting.nic)
    numbered = {f"parameter.{index}": value for index, value in enumerate(setting.values.values())}
    (folder / NIC_SETTINGS).write_text("".join(f"{name}={value}\n" for name, value in (told | numbered).items()))
    (folder / NIC_FLOWS).write_text(flows_csv(experiment.schedule, graph, experiment.router, spec))
    if spec.nic.tcp is not None:
        (folder / NIC_CAPPED).write_text(capped_csv(experiment.schedule))
    facts: dict[str, Any] = {
        "algorithm": setting.to_dict(),
        "settings": told | {"payload_bytes": spec.nic.payload_bytes},
        "object": hashlib.sha256(algorithm.object.read_bytes()).hexdigest(),
    }
    if chosen.policy is not None:
        nic_policy.write_table(chosen.policy.table(), folder / NIC_TABLE)
        facts["policy"] = {"sha256": chosen.policy.sha256(), "provenance": dict(chosen.policy.provenance)}
    switches = (algorithm.table, spec.nic.trace != "off", spec.nic.tcp is not None, spec.nic.keeps_pairs)
    return NicPlan(str(algorithm.object), *switches, facts, step_ns)


def flows_csv(schedule: Schedule, graph: Graph, router: Router, spec: Spec) -> str:
    """Returns the loader's table of flows."""
    nics = {nic.address: (nic.mac, f"{host.name}-eth{plane}") for host in graph.hosts for plane, nic in enumerate(host.nics)}
    ports, lines = _FramePorts(graph, router), [COLUMNS]
    for flow, base_ns in zip(schedule.flows, base_rtts_ns(schedule, graph, router, spec), strict=True):
        if flow.request.transport == "udp":
            continue
        (src_mac, src), (dst_mac, dst) = nics[flow.src_addr], nics[flow.dst_addr]
        size = flow.request.size_bytes
        ends = (src, dst, flow.src_addr, flow.dst_addr, src_mac, dst_mac, ports.of(flow))
        amounts = (spec.nic.payload_bytes, size or spec.nic.message_bytes, size or NO_END)
        lines.append(",".join(map(str, (flow.flow, *ends, *amounts, base_ns, len(flow.ports)))))
    return "\n".join(lines) + "\n"


def capped_csv(schedule: Schedule) -> str:
    """Returns the flows of the hosts' TCP, with the ports that identify their segments."""
    rows = [f"{flow.flow},{flow.src_port},{flow.dst_port}" for flow in schedule.flows if flow.request.transport == "tcp"]
    return "\n".join(["flow,src_port,dst_port", *rows]) + "\n"


class _FramePorts:
    """The UDP source ports of the frames that NICs make."""

    def __init__(self, graph: Graph, router: Router) -> None:
        self._graph, self._router = graph, router
        self._known: dict[tuple[str, str, int, int], int] = {}

    def of(self, flow: Flow) -> int:
        """Returns a flow's own port.

        Beside TCP, whose segments have other ports, it is one of 16 with which frames take the segments' path. With four paths,
        none of the 16 does for one flow in 100. The frames of such a flow take the path of its own port.
        """
        if flow.request.transport == "rdma":
            return flow.src_port
        key = flow.src_addr, flow.dst_addr, flow.src_port & PORT_MASK, flow.dst_port & PORT_MASK
        if key not in self._known:
            self._known[key] = next((bits for bits in range(PORT_MASK + 1) if self._follows(flow, flow.src_port ^ bits)), 0)
        return flow.src_port ^ self._known[key]

    def _follows(self, flow: Flow, src_port: int) -> bool:
        plane = plane_of(flow, self._graph)
        crossed = path(self._graph, self._router, flow.src, flow.dst, src_port, RDMA_PORT, "udp", plane)
        return tuple(crossed) == flow.ports


def base_rtts_ns(schedule: Schedule, graph: Graph, router: Router, spec: Spec) -> list[int]:
    """Returns the base round trip of each flow's probes."""
    known: dict[tuple[str, str, int], int] = {}
    ports = _FramePorts(graph, router)
    packet_bytes, found = spec.nic.payload_bytes + FRAME_HEADERS_BYTES, []
    for flow in schedule.flows:
        port = ports.of(flow)
        key = flow.src_addr, flow.dst_addr, port & PORT_MASK  # all fields that routing reads
        if key not in known:
            known[key] = probe_rtt_ns(graph, flow.ports, way_back(flow, graph, router, port), packet_bytes)
        found.append(known[key])
    return found


def way_back(flow: Flow, graph: Graph, router: Router, src_port: int | None = None) -> tuple[str, ...]:
    """Returns the ports that answers cross. `src_port` is that of the frames that they answer; None means the flow's."""
    ports = flow.src_port if src_port is None else src_port, RDMA_PORT
    return tuple(path(graph, router, flow.dst, flow.src, *ports, "udp", plane_of(flow, graph)))


def plane_of(flow: Flow, graph: Graph) -> int:
    return next(n for n, nic in enumerate(graph.host(flow.src).nics) if nic.address == flow.src_addr)


def probe_rtt_ns(graph: Graph, forward: Sequence[str], back: Sequence[str], packet_bytes: int) -> int:
    """Returns the round trip of a probe over the idle path.

    The probe leaves right behind a packet of its flow and stays behind it: at each link it waits until that packet has been sent.
    Its answer comes back alone.
    """
    packet_ns = probe_ns = 0  # arrival times
    for cable in map(graph.cable_of, forward):
        sent_ns = packet_ns + serialization_ns(cable, packet_bytes)
        probe_ns = max(probe_ns, sent_ns) + transfer_ns(cable, FRAME_HEADERS_BYTES)
        packet_ns = sent_ns + cable.delay_ns
    return probe_ns + one_way_ns(graph, back, FRAME_HEADERS_BYTES)


def settings(spec: Spec, graph: Graph, asked: Mapping[str, int]) -> dict[str, int]:
    """Returns struct nic_settings by name. `asked` holds what the algorithm's preset asks for where the spec gives nothing."""
    nic, longest = spec.nic, round_trip_ns(graph)
    timeout = nic.timeout_ns or max(2 * longest, LEAST_TIMEOUT_NS)
    probe_timeout = nic.probe_timeout_ns or timeout
    cnp_interval = asked.get("cnp_interval", CNP_INTERVAL_NS * algorithms.SCALED_FOR_BPS // line_bps(graph))
    return {
        "latency_ns": nic.latency_ns,
        "cnp_interval_ns": cnp_interval if nic.cnp_interval_ns is None else nic.cnp_interval_ns,
        "nack_interval_ns": longest if nic.nack_interval_ns is None else nic.nack_interval_ns,
        "timeout_ns": timeout,
        "timeout_max_ns": max(nic.timeout_max_ns or 64 * timeout, timeout),
        "probe_timeout_ns": probe_timeout,
        "probe_timeout_max_ns": max(nic.probe_timeout_max_ns or 4 * probe_timeout, probe_timeout),
        "ack_packets": nic.ack_packets,
        "burst_packets": nic.burst_packets,
        "selective": int(nic.retransmit == "selective"),
        "trace": TRACES.index(nic.trace),
        "in_turn": int(nic.decisions == "in-turn"),
        "event_loss_ppm": nic.event_loss_ppm,
        "event_coalesce": nic.event_coalesce,
        "seed": draw(spec.seed, "nic"),
    }


def line_bps(graph: Graph) -> int:
    """Returns the rate of the fastest NIC. Times that scale with the time of a packet are scaled to it."""
    return max(graph.cable_of(port).rate_bps for host in graph.hosts for port in graph.ports_of(host.name))


def round_trip_ns(graph: Graph) -> int:
    """Returns the base round trip of the network, through its longest queue."""
    drains = [port.queue.limit_bytes * BIT_NS // graph.cable_of(port).rate_bps for port in graph.switch_ports()]
    return base_rtt_ns(graph) + max(drains, default=0)


def read_counts(folder: Path, duration_ns: int, started: npt.NDArray[np.uint32]) -> Records:
    """Returns the table nic_flows of a run, with the flows that started."""
    if not (folder / COUNTS).is_file():
        return empty("nic_flows")
    counted = tgen_log.read_nics(folder / COUNTS)
    counted = counted[np.isin(counted["flow"], started)]
    records = np.zeros(len(counted), TABLES["nic_flows"].dtype)
    for name in counted.dtype.names or ():
        records[name] = counted[name]
    records["t_ns"] = duration_ns
    return records


def read_trace(folder: Path, t0_ns: int, of_flow_bps: dict[int, int]) -> Records:
    """Returns the table of decisions. `of_flow_bps` is the rate of each flow's NIC; decisions are fractions of it."""
    if not (folder / DECISIONS).is_file():
        return empty("decisions")
    data = (folder / DECISIONS).read_bytes()
    if len(data) % DECISION_DTYPE.itemsize:
        raise ProtocolError(f"{folder / DECISIONS}: {len(data)} bytes are no whole number of decisions; run it again")
    read = np.frombuffer(data, DECISION_DTYPE)
    records = np.zeros(len(read), TABLES["decisions"].dtype)
    for name in ("flow", "event", "flags", "rtt_ns", "window_bytes"):
        records[name] = read[name]
    records["t_ns"] = read["t_ns"].astype(np.int64) - t0_ns
    lines = np.zeros(max(of_flow_bps, default=-1) + 1, np.uint64)
    lines[list(of_flow_bps)] = list(of_flow_bps.values())
    for name, column in (("rate_before", "rate_before_bps"), ("rate", "rate_bps")):
        records[column] = _part(lines[read["flow"]], read[name].astype(np.uint64))
    return records


def _part(line: Any, rate: Any) -> Any:
    """Returns line x rate / 2^20 in integers that do not overflow."""
    whole, rest = line // LINE_RATE, line % LINE_RATE
    return whole * rate + rest * rate // LINE_RATE


def lines_bps(schedule: Schedule, graph: Graph) -> dict[int, int]:
    """Returns the rate of each flow's NIC by flow."""
    return {flow.flow: graph.cable_of(flow.ports[0]).rate_bps for flow in schedule.flows}
