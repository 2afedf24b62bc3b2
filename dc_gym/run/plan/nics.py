# SPDX-License-Identifier: Apache-2.0
"""The parts that a run over RDMA adds to its plan.

They are the files of the NICs' loader (ctrl/nic/nicd.c). Every port of a host has a NIC of the same name. A flow's row in all
tables is its number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base import record_file
from dc_gym.base.amount import in_bytes
from dc_gym.base.record_file import Table
from dc_gym.ctrl.nic import algorithms
from dc_gym.nets import nic_policy
from dc_gym.run.plan import inputs
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import NIC_TABLE, NICS
from dc_gym.spec import Spec, nic_configuration
from dc_gym.spec.nic import BALANCERS, ENTROPIES, FRAME_HEADERS_BYTES, MOST_INFLIGHT_BYTES, PACINGS, TRACES
from dc_gym.topologies import telemetry
from dc_gym.topologies.buffers import pausing_ports
from dc_gym.topologies.ecmp import Router, draw, path
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.paths import BIT_NS, base_rtt_ns, one_way_ns, serialization_ns, transfer_ns
from dc_gym.topologies.realize.nics import devices
from dc_gym.topologies.telemetry import RateUnits
from dc_gym.traffic.flows import NIC_TRANSPORTS, RDMA_PORT
from dc_gym.traffic.schedule import Flow, Schedule, plane_of

NO_END = 2**64 - 1
LINE_RATE, LEAST_RATE = 1 << 20, 1 << 6  # CC_LINE_RATE and CC_MIN_RATE of ctrl/nic/cc.h
LEAST_TIMEOUT_NS = 1_000_000
LONGEST_NS = 100 * 10**9
"""The longest time that a NIC takes as a setting: NS_MAX of ctrl/nic/nics.c. Defaults that follow from slow links end here."""
FRAME_PORTS = 256  # tried for the path of a TCP flow
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
    native: str | None
    """The native object that runs instead of the BPF object's programs. None: these programs run."""
    table: bool
    """True if the algorithm reads a policy's table."""
    trace: bool
    caps: bool
    """True if the flows are the hosts' TCP and the algorithm caps them."""
    keep_pairs: bool
    """True if a flow begins with the state that the last flow between its hosts left."""
    facts: dict[str, Any]
    step_ns: int = 0
    """Time in ns between barriers, at which the lab waits for the host (offline/data_path.py of a method). 0: there are none."""
    ring_classes: int = 0
    """The classes whose pauses stop the NICs' rings, a bit each: the classes of flows over RDMA."""

    def lasting(self) -> dict[str, Any]:
        """Returns the settings on which the completion time of a flow alone in the network depends."""
        settings = {name: value for name, value in self.facts["settings"].items() if name not in ("seed", "trace")}
        return self.facts | {"settings": settings}

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def write(experiment: Experiment, folder: Path, step_ns: int = 0, seed: int | None = None) -> NicPlan:
    """Writes the loader's files. Returns the NICs' part of the ground's plan. `seed`: an episode's seed; None: the spec's."""
    spec, graph = experiment.spec, experiment.graph
    chosen = nic_configuration.configure(spec, line_bps(graph), folder)
    algorithm, setting = chosen.algorithm, chosen.setting
    nic_settings = settings(spec, graph, setting.nic) | ({} if seed is None else {"seed": draw(seed, "nic")})
    flows = flow_table(experiment.schedule, graph, experiment.router, spec)
    rates = telemetry_rates(experiment)
    values = inputs.settings_table(nic_settings, tuple(setting.values.values()), rates, beside=_beside(experiment))
    record_file.write(folder / NICS, inputs.nic_table(graph), flows, values)
    facts: dict[str, Any] = {
        "algorithm": setting.to_dict(),
        "settings": nic_settings | {"payload_bytes": spec.payload_bytes},
        "engine": "bpf" if chosen.native is None else "native",
        "object": hashlib.sha256((chosen.native or algorithm.object).read_bytes()).hexdigest(),
    }
    if rates:
        facts["telemetry"] = {"bytes": telemetry.TELEMETRY_BYTES, "rates": [asdict(rate_units) for rate_units in rates]}
    if spec.nic.inflight_bytes is not None:
        facts["inflight_bytes"] = sorted(set(flows.records["inflight_bytes"].tolist()))
    if chosen.policy is not None:
        nic_policy.write_table(chosen.policy.table(), folder / NIC_TABLE)
        facts["policy"] = {"sha256": chosen.policy.sha256(), "provenance": dict(chosen.policy.provenance)}
    switches = (algorithm.table, spec.nic.trace != "off", spec.nic.tcp is not None, spec.nic.keeps_pairs)
    native = None if chosen.native is None else str(chosen.native)
    return NicPlan(str(algorithm.object), native, *switches, facts, step_ns, ring_classes(experiment))


def write_episode(experiment: Experiment, plan: NicPlan, path: Path, seed: int) -> None:
    """Writes the NICs and flows of another episode: the same algorithm, and the flows and the randomness of another seed."""
    graph = experiment.graph
    nic_settings = {name: value for name, value in plan.facts["settings"].items() if name != "payload_bytes"} | {
        "seed": draw(seed, "nic")
    }
    flows = flow_table(experiment.schedule, graph, experiment.router, experiment.spec)
    values = tuple(plan.facts["algorithm"]["values"].values())
    table = inputs.settings_table(nic_settings, values, telemetry_rates(experiment), beside=_beside(experiment))
    record_file.write(path, inputs.nic_table(graph), flows, table)


def ring_classes(experiment: Experiment) -> int:
    """Returns the lossless classes of the flows over RDMA, a bit each."""
    dscps = {flow.request.dscp or 0 for flow in experiment.schedule.flows if flow.request.by_nic}
    class_bits = 0
    for port in pausing_ports(experiment.graph):
        numbers = set(map(port.queue.class_of, dscps))
        class_bits |= sum(1 << number for number in numbers if port.queue.classes[number].lossless)
    return class_bits


def _dscps(dscp: int, spec: Spec) -> dict[str, int]:
    """Returns the DSCPs of a flow's data, of the answers to it, and of its CNPs."""
    answers = dscp if spec.nic.ack_dscp is None else spec.nic.ack_dscp
    return {"dscp": dscp, "answer_dscp": answers, "cnp_dscp": answers if spec.nic.cnp_dscp is None else spec.nic.cnp_dscp}


def _beside(experiment: Experiment) -> bool:
    """Returns True if the hosts send frames of their own beside RDMA."""
    return experiment.spec.rdma and any(not flow.request.by_nic for flow in experiment.schedule.flows)


def flow_table(schedule: Schedule, graph: Graph, router: Router, spec: Spec) -> Table:
    """Returns the flows over NICs."""
    rows_of = {device.name: row for row, device in enumerate(devices(graph))}
    ends = {
        host_nic.address: (rows_of[f"{host.name}-eth{plane}"], inputs.mac(host_nic.mac))
        for host in graph.hosts
        for plane, host_nic in enumerate(host.nics)
    }
    ports, rows = _FramePorts(graph, router), []
    of_nic = NIC_TRANSPORTS if spec.rdma else ("tcp",)
    for flow, base_ns in zip(schedule.flows, base_rtts_ns(schedule, graph, router, spec), strict=True):
        if flow.request.transport not in of_nic:
            continue
        (src_nic, src_mac), (dst_nic, dst_mac) = ends[flow.src_addr], ends[flow.dst_addr]
        size, capped = flow.request.size_bytes, flow.request.transport == "tcp"
        rows.append(
            {
                "message_bytes": flow.request.message_bytes or size or spec.nic.message_bytes,
                "total_bytes": size or NO_END,
                "flow": flow.flow,
                "src_nic": src_nic,
                "dst_nic": dst_nic,
                "src_addr": inputs.address(flow.src_addr),
                "dst_addr": inputs.address(flow.dst_addr),
                "payload_bytes": spec.payload_bytes,
                "base_rtt_ns": base_ns,
                "hops": len(flow.ports),
                **_dscps(flow.request.dscp or 0, spec),
                "src_mac": src_mac,
                "dst_mac": dst_mac,
                "src_port": ports.of(flow),
                "tcp_src_port": flow.src_port if capped else 0,
                "tcp_dst_port": flow.dst_port if capped else 0,
                "int_bytes": spec.telemetry_bytes,
                "inflight_bytes": _inflight_bytes(spec, graph, flow, base_ns),
            }
        )
    return inputs.NIC_FLOW.table(rows)


def _inflight_bytes(spec: Spec, graph: Graph, flow: Flow, base_ns: int) -> int:
    """Returns the most bytes that a flow may have unacknowledged; 0: no limit. BDPs refer to its line and base round trip."""
    limit = spec.nic.inflight_bytes
    return (
        0
        if limit is None
        else min(in_bytes(limit, graph.cable_of(flow.ports[0]).rate_bps, base_ns, graph.frame_bytes), MOST_INFLIGHT_BYTES)
    )


def telemetry_rates(experiment: Experiment) -> tuple[RateUnits, ...]:
    """Returns the table of rates that the NICs read records by; empty if the algorithm reads none.

    Raises TopologyError if the network or a flow's path has no telemetry.
    """
    controller, graph, further = experiment.spec.controller, experiment.graph, experiment.spec.later_rates_bps
    if not controller.telemetry:
        return ()
    telemetry.check(graph, controller.name, further)
    flows = [flow for flow in experiment.schedule.flows if not experiment.spec.rdma or flow.request.by_nic]
    telemetry.check_paths(graph, dict.fromkeys(flow.ports for flow in flows), controller.name)
    return telemetry.rate_table(graph, further)


class _FramePorts:
    """The UDP source ports of the frames that NICs make."""

    def __init__(self, graph: Graph, router: Router) -> None:
        self._graph, self._router = graph, router

    def of(self, flow: Flow) -> int:
        """Returns a flow's own port.

        Beside TCP, whose segments have other ports, it is one of FRAME_PORTS with which frames take the segments' path. Where
        none does, as for one flow in 10^31 with four paths, the frames take the path of the flow's own port.
        """
        if flow.request.by_nic:
            return flow.src_port
        ports = (flow.src_port ^ bits for bits in range(FRAME_PORTS))
        return next((port for port in ports if self._follows(flow, port)), flow.src_port)

    def _follows(self, flow: Flow, src_port: int) -> bool:
        plane = plane_of(flow, self._graph)
        crossed = path(self._graph, self._router, flow.src, flow.dst, src_port, RDMA_PORT, "udp", plane)
        return tuple(crossed) == flow.ports


def base_rtts_ns(schedule: Schedule, graph: Graph, router: Router, spec: Spec) -> list[int]:
    """Returns the base round trip of each flow's probes."""
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], int] = {}
    ports = _FramePorts(graph, router)
    packet_bytes, rtts_ns = spec.payload_bytes + spec.frame_headers_bytes, []
    for flow in schedule.flows:
        key = flow.ports, way_back(flow, graph, router, ports.of(flow))
        if key not in known:
            known[key] = probe_rtt_ns(graph, *key, packet_bytes)
        rtts_ns.append(known[key])
    return rtts_ns


def way_back(flow: Flow, graph: Graph, router: Router, src_port: int | None = None) -> tuple[str, ...]:
    """Returns the ports that answers cross. `src_port` is the port of the frames that they answer; None means the flow's."""
    ports = flow.src_port if src_port is None else src_port, RDMA_PORT
    return tuple(path(graph, router, flow.dst, flow.src, *ports, "udp", plane_of(flow, graph)))


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


def settings(spec: Spec, graph: Graph, defaults: Mapping[str, int]) -> dict[str, int]:
    """Returns struct nic_settings by name. `defaults` holds the preset's requests, for settings that the spec does not give."""
    nic, longest = spec.nic, round_trip_ns(graph)
    timeout = nic.timeout_ns or min(max(2 * longest, LEAST_TIMEOUT_NS), LONGEST_NS)
    probe_timeout = nic.probe_timeout_ns or timeout
    cnp_interval = defaults.get("cnp_interval", CNP_INTERVAL_NS * algorithms.SCALED_FOR_BPS // line_bps(graph))
    return {
        "latency_ns": nic.latency_ns,
        "cnp_interval_ns": min(cnp_interval, LONGEST_NS) if nic.cnp_interval_ns is None else nic.cnp_interval_ns,
        "nack_interval_ns": min(longest, LONGEST_NS) if nic.nack_interval_ns is None else nic.nack_interval_ns,
        "timeout_ns": timeout,
        "timeout_max_ns": max(nic.timeout_max_ns or min(64 * timeout, LONGEST_NS), timeout),
        "probe_timeout_ns": probe_timeout,
        "probe_timeout_max_ns": max(nic.probe_timeout_max_ns or min(4 * probe_timeout, LONGEST_NS), probe_timeout),
        "ack_packets": nic.ack_packets,
        "burst_packets": nic.burst_packets,
        "selective": int(nic.retransmit == "selective"),
        "trace": TRACES.index(nic.trace),
        "in_turn": int(nic.decisions == "in-turn"),
        "event_loss_ppm": nic.event_loss_ppm,
        "event_coalesce": nic.event_coalesce,
        "event_cost_ns": nic.event_cost_ns,
        "event_queue": nic.event_queue or 0,
        "spaced": defaults.get("spaced", 0) if nic.pacing is None else PACINGS.index(nic.pacing),
        "seed": draw(spec.seed, "nic"),
    } | _extras(spec)


def _extras(spec: Spec) -> dict[str, int]:
    """Returns the settings that only runs with trimming or with transport uec have."""
    nic = spec.nic
    extras = {} if spec.topology.trim_bytes is None else {"trims": spec.topology.trimmed_dscp + 1}
    if spec.sprays:
        extras |= {"entropies": nic.entropies or ENTROPIES, "balancer": BALANCERS.index(nic.balancer or BALANCERS[0])}
    return extras


def line_bps(graph: Graph) -> int:
    """Returns the rate of the fastest NIC. Times that scale with the time of a packet are scaled to it."""
    return max(graph.cable_of(port).rate_bps for host in graph.hosts for port in graph.ports_of(host.name))


def round_trip_ns(graph: Graph) -> int:
    """Returns the base round trip of the network, through its longest queue."""
    drains = [port.queue.limit_bytes * BIT_NS // graph.cable_of(port).rate_bps for port in graph.switch_ports()]
    return base_rtt_ns(graph) + max(drains, default=0)


def lines_bps(schedule: Schedule, graph: Graph) -> dict[int, int]:
    """Returns the rate of each flow's NIC by flow."""
    return {flow.flow: graph.cable_of(flow.ports[0]).rate_bps for flow in schedule.flows}
