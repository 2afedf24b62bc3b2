# SPDX-License-Identifier: Apache-2.0
"""The constants of a network while an agent acts on it, and what an episode's schedule says about its flows. Plain data.

Rows are the ports of the state matrix (graph.ports()): the ports of the switches, then the hosts' egresses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.envs.frame import Bools, Floats, FlowInfo, Rows
from dc_gym.metrics import ideal
from dc_gym.monitors.state_matrix import COLUMNS
from dc_gym.spec.agent import HOSTS
from dc_gym.topologies.graph import Graph, Port
from dc_gym.topologies.paths import base_rtt_ns, round_trip_ns
from dc_gym.traffic.schedule import Flow, Schedule

if TYPE_CHECKING:
    from dc_gym.grounds.experiment import Experiment


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The constants of a network."""

    ports: tuple[str, ...]
    """The names of the rows."""
    is_switch: Bools
    rate_bps: Floats
    """[rows]: line rates."""
    buffer_bytes: Floats
    """[rows]"""
    peer_row: Rows
    """[rows]: the port at the other end of the cable, whose egress is what this port receives."""
    all_hosts: tuple[str, ...]
    """All hosts of the network; FlowInfo.src and dst are indices into it."""
    hosts: tuple[str, ...]
    """The hosts that have an action, in the order of the action: the name of the host, or of each of its ports if it has
    several."""
    host_row: Rows
    """[hosts]: the row of each host's egress."""
    senders: Bools
    """[hosts]: whether the host sends at least one flow of the schedule of the spec's own seed."""
    floor_bps: Floats
    """[hosts]"""
    base_rtt_ns: int
    """The largest round trip of a full frame and its ACK over the idle network."""
    step_ns: int
    seed: int
    columns: tuple[str, ...] = COLUMNS
    line_bps: Floats = field(init=False)
    """[hosts]: the line rate of each host's egress."""
    switch_rows: slice = field(init=False)
    """The rows of the switch ports, which come first. Like host_rows it is a slice: indexing with a slice gives a view without a
    copy."""
    host_rows: slice = field(init=False)

    def __post_init__(self) -> None:
        switch_ports = int(np.count_nonzero(self.is_switch))
        object.__setattr__(self, "line_bps", self.rate_bps[self.host_row])
        object.__setattr__(self, "switch_rows", slice(0, switch_ports))
        object.__setattr__(self, "host_rows", slice(switch_ports, len(self.ports)))

    @classmethod
    def of(cls, experiment: Experiment, *, hosts: str, floor_bps: int, step_ns: int) -> Scene:
        """Returns the scene of an experiment whose agent sets the rates of `hosts` ("all" or "senders") every `step_ns`."""
        if hosts not in HOSTS:
            raise AgentError(unknown("agent.hosts", hosts, HOSTS))
        graph, ports = experiment.graph, experiment.graph.ports()
        rows = {port.ifname: row for row, port in enumerate(ports)}
        sending = {flow.rows[0] for flow in experiment.schedule.flows}
        egress = [port for host in graph.hosts for port in graph.ports_of(host.name)]
        acting = [port for port in egress if hosts == "all" or rows[port.ifname] in sending]
        if not acting:
            raise AgentError('agent.hosts "senders": no host sends a flow in this workload; give "all", or another workload')
        host_row = np.array([rows[port.ifname] for port in acting], np.intp)
        rate_bps = np.array([graph.cable_of(port).rate_bps for port in ports], np.float64)
        return cls(
            ports=tuple(port.ifname for port in ports),
            is_switch=np.arange(len(ports)) < len(graph.switch_ports()),
            rate_bps=rate_bps,
            buffer_bytes=np.array([port.queue.limit_bytes for port in ports], np.float64),
            peer_row=np.array([rows[graph.peer(port).ifname] for port in ports], np.intp),
            all_hosts=tuple(host.name for host in graph.hosts),
            hosts=tuple(_actor(graph, port) for port in acting),
            host_row=host_row,
            senders=np.array([row in sending for row in host_row.tolist()], bool),
            floor_bps=np.minimum(float(floor_bps), rate_bps[host_row]),
            base_rtt_ns=base_rtt_ns(graph),
            step_ns=step_ns,
            seed=experiment.spec.seed,
        )

    def share(self, rates_bps: Floats) -> Floats:
        """Returns rates as shares of the hosts' line rates, [hosts]. Rewards call these shares the action."""
        return rates_bps / self.line_bps


def _actor(graph: Graph, port: Port) -> str:
    return port.node if len(graph.ports_of(port.node)) == 1 else port.ifname


def scene_of(experiment: Experiment) -> Scene:
    """Returns the scene as the experiment's [agent] defines it."""
    agent = experiment.spec.agent
    return Scene.of(experiment, hosts=agent.hosts, floor_bps=agent.floor_bps, step_ns=agent.interval_ns)


def flow_info(experiment: Experiment, scene: Scene) -> FlowInfo:
    """Returns the FlowInfo of an episode."""
    schedule, graph = experiment.schedule, experiment.graph
    flows = schedule.flows
    index = {name: number for number, name in enumerate(scene.all_hosts)}
    round_trips: dict[tuple[str, ...], int] = {}
    for flow in flows:
        if flow.ports not in round_trips:
            round_trips[flow.ports] = round_trip_ns(graph, flow.ports)
    return FlowInfo(
        src=np.array([index[flow.src] for flow in flows], np.intp),
        dst=np.array([index[flow.dst] for flow in flows], np.intp),
        size_bytes=np.array([flow.request.size_bytes for flow in flows], np.int64),
        is_udp=np.array([flow.request.transport == "udp" for flow in flows], bool),
        ideal_ns=_ideals(experiment, schedule),
        rows=tuple(np.array(flow.rows, np.intp) for flow in flows),
        base_rtt_ns=np.array([round_trips[flow.ports] for flow in flows], np.float64),
        demand_bps=np.array([flow.request.rate_bps or np.inf for flow in flows], np.float64),
        start_ns=np.array([flow.request.start_ns for flow in flows], np.int64),
        awaits=_awaits(flows),
        host_row=scene.host_row,
    )


def _ideals(experiment: Experiment, schedule: Schedule) -> Floats:
    """Returns each flow's completion time in closed form; nan where there is none."""
    classes, of_flow = ideal.classify(schedule, experiment.graph, experiment.router)
    sizes = np.array([flow.request.size_bytes for flow in schedule.flows], np.int64)
    found: npt.NDArray[np.float64] = np.full(len(sizes), np.nan)
    for number, each in enumerate(classes):
        found[of_flow == number] = each.closed_form_ns(sizes[of_flow == number])
    return found


def _awaits(flows: tuple[Flow, ...]) -> tuple[tuple[int, ...], ...]:
    """Returns, for each flow, the flows that open its gate."""
    openers: dict[int, list[int]] = {}
    for flow in flows:
        for gate in flow.request.opens:
            openers.setdefault(gate, []).append(flow.flow)
    return tuple(tuple(openers.get(flow.request.gate, ())) for flow in flows)
