# SPDX-License-Identifier: Apache-2.0
"""The constants of a network while an agent acts on it, and the facts of an episode's schedule about its flows. Plain data.

Rows are the state matrix's (graph.rows()): the ports of the switches, the hosts' egresses, then the classes of ports. Arrays over
ports leave out the classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import AgentError
from dc_gym.ctrl.actuators import Actuator
from dc_gym.ctrl.actuators.selection import ActuatedPort, select
from dc_gym.monitors.state_matrix import COLUMNS
from dc_gym.results.metrics import ideal
from dc_gym.run.agent.frame import Bools, Floats, FlowInfo, Frame, Rows
from dc_gym.spec.agent import AgentSpec
from dc_gym.topologies.changes import Capacities
from dc_gym.topologies.graph import Graph, Port
from dc_gym.topologies.paths import base_rtt_ns, round_trip_ns
from dc_gym.traffic.schedule import Flow, Schedule

if TYPE_CHECKING:
    from dc_gym.run.plan.experiment import Experiment

RATE = "rate"
"""The actuator of the hosts' rates, which rewards and features of hosts refer to."""


@dataclass(frozen=True, slots=True, eq=False)
class ActuatedRows:
    """One actuator at the ports and classes, or at the flows, where agents set it. `ports` counts all of them."""

    actuator: Actuator
    rows: Rows
    """[ports]: the rows of the ports and classes, or the numbers of the flows."""
    names: tuple[str, ...]
    """[ports]: the name of each; the host's name if it is the host's only port, s1-eth3:rdma of a class, flow0."""
    low: Floats
    """[ports, quantities]: the bounds of each value."""
    high: Floats
    start: Floats
    """[ports, quantities]: the values before the first action."""
    place: slice
    """The place of its values among all actuators' values, port by port."""

    @property
    def ordered(self) -> tuple[tuple[int, int], ...]:
        """Pairs of quantities, by number: the first of a pair is never below the second."""
        return self.actuator.ordered

    @property
    def value_names(self) -> tuple[str, ...]:
        """One name for each value: h1 for its rate, s1-eth3/kmin for one of several."""
        quantities = self.actuator.quantities
        return tuple(
            name if len(quantities) == 1 else f"{name}/{quantity.name}" for name in self.names for quantity in quantities
        )


@dataclass(frozen=True, slots=True, eq=False)
class ClassRows:
    """The classes of a network's ports, in the order of their rows."""

    names: tuple[str, ...] = ()
    """[classes]: the name of each row, such as s1-eth3:rdma."""
    kinds: tuple[str, ...] = ()
    """[classes]: the name of each class, such as rdma."""
    port: Rows = field(default_factory=lambda: np.empty(0, np.intp))
    """[classes]: the row of each one's port."""
    buffer_bytes: Floats = field(default_factory=lambda: np.empty(0))
    """[classes]: the limit of each one's queue."""

    @classmethod
    def of(cls, graph: Graph) -> ClassRows:
        """Returns the rows of all classes of a network's ports."""
        rows = [row for row in graph.rows() if row.number is not None]
        number = {port.ifname: row for row, port in enumerate(graph.ports())}
        limits = [row.port.queue.classes[row.number].limit_bytes for row in rows if row.number is not None]
        return cls(
            tuple(row.name for row in rows),
            tuple(row.class_name for row in rows),
            np.array([number[row.port.ifname] for row in rows], np.intp),
            np.array(limits, np.float64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """The constants of a network."""

    ports: tuple[str, ...]
    """The names of the ports."""
    nodes: tuple[str, ...]
    """[ports]: the host or switch of each."""
    is_switch: Bools
    rate_bps: Floats
    """[ports]: line rates."""
    buffer_bytes: Floats
    """[ports]"""
    peer_row: Rows
    """[ports]: the port at the other end of the cable, whose egress this port receives."""
    all_hosts: tuple[str, ...]
    """All hosts of the network; FlowInfo.src and dst are indices into it."""
    hosts: tuple[str, ...]
    """The hosts of agent.hosts: the name of the host, or of each of its ports if it has several. If `rate` is among the
    actuators, only those whose rates agents set, in the order of these rates."""
    host_row: Rows
    """[hosts]: the row of each host's egress."""
    senders: Bools
    """[hosts]: whether the host sends at least one flow of the schedule of the spec's own seed."""
    floor_bps: Floats
    """[hosts]: the least rate of each; the line rate where no agent sets rates."""
    base_rtt_ns: int
    """The largest round trip of a full frame and its ACK over the idle network."""
    frame_bytes: int
    """A full frame."""
    step_ns: int
    seed: int
    actuated: tuple[ActuatedRows, ...]
    """The actuators that agents set, in the order of their values."""
    commands: tuple[tuple[int, bytes, int], ...] = ()
    """The rows of the commands: row of the state matrix or number of the flow, actuator, number of values."""
    flow_row: Rows = field(default_factory=lambda: np.empty(0, np.intp))
    """The flows at which agents set something: the row of each one's egress under the spec's own seed, -1 if it has none."""
    columns: tuple[str, ...] = COLUMNS
    classes: ClassRows = field(default_factory=ClassRows)
    fastest_bps: float = 0.0
    """The rate of the fastest line. 0 stands for the largest of `rate_bps`."""
    scale: int = 1
    """topology.scale, by which rates are divided and times multiplied."""
    is_stock: Bools = field(default_factory=lambda: np.empty(0, bool))
    """[ports]: whether the port has a stock queue, which counts neither its time integral nor CE."""
    rows: tuple[str, ...] = field(init=False)
    """The names of the rows of the state matrix: the ports, then the classes."""
    of_classes: Scene | None = field(init=False)
    """The same network as if the classes of ports were the ports, without hosts and agents; None if there are no classes."""
    rates: slice | None = field(init=False)
    """The place of the hosts' rates among the values that agents set. None: agents set no rates."""
    line_bps: Floats = field(init=False)
    """[hosts]: the line rate of each host's egress."""
    switch_rows: slice = field(init=False)
    """The rows of the switch ports, which come first. Like host_rows it is a slice: indexing with a slice gives a view without a
    copy."""
    host_rows: slice = field(init=False)

    def __post_init__(self) -> None:
        switch_ports = int(np.count_nonzero(self.is_switch))
        object.__setattr__(self, "fastest_bps", self.fastest_bps or float(self.rate_bps.max()))
        object.__setattr__(self, "rows", self.ports + self.classes.names)
        object.__setattr__(self, "of_classes", self._of_classes() if self.classes.names else None)
        object.__setattr__(self, "line_bps", self.rate_bps[self.host_row])
        places = [rows.place for rows in self.actuated if rows.actuator.name == RATE]
        object.__setattr__(self, "rates", places[0] if places else None)
        object.__setattr__(self, "switch_rows", slice(0, switch_ports))
        object.__setattr__(self, "host_rows", slice(switch_ports, len(self.ports)))

    def _of_classes(self) -> Scene:
        of_port, none = self.classes.port, np.empty(0)
        return replace(
            self,
            ports=self.classes.names,
            nodes=tuple(self.nodes[port] for port in of_port.tolist()),
            is_switch=self.is_switch[of_port],
            rate_bps=self.rate_bps[of_port],
            buffer_bytes=self.classes.buffer_bytes,
            peer_row=of_port,
            hosts=(),
            host_row=none.astype(np.intp),
            senders=none.astype(bool),
            floor_bps=none,
            actuated=(),
            classes=ClassRows(),
        )

    @classmethod
    def of(cls, experiment: Experiment, agent: AgentSpec | None = None) -> Scene:
        """Returns the scene of an experiment.

        Args:
            experiment: The network, the controller and the flows.
            agent: The settings of the agent; None: the experiment's spec has them.

        Raises:
            AgentError: The agent cannot act on this network.
        """
        agent = experiment.spec.agent if agent is None else agent
        graph, ports = experiment.graph, experiment.graph.ports()
        rows = {port.ifname: row for row, port in enumerate(ports)}
        sending = {flow.rows[0] for flow in experiment.schedule.flows}
        egress = [port for host in graph.hosts for port in graph.ports_of(host.name)]
        acting = [port for port in egress if agent.hosts == "all" or rows[port.ifname] in sending]
        if not acting:
            raise AgentError('agent.hosts "senders": no host sends a flow in this workload; give "all", or another workload')
        selected = select(agent.sets, graph, agent, experiment.spec.ground, lambda: experiment.spec.tcp_flows(graph))
        names = {port.ifname for port in acting}
        rated = [actuated.port for actuated in selected if actuated.actuator.name == RATE and actuated.port.ifname in names]
        sets_rates, acting = bool(rated), rated or acting
        host_row = np.array([rows[port.ifname] for port in acting], np.intp)
        rate_bps = np.array([graph.cable_of(port).rate_bps for port in ports], np.float64)
        floor_bps = np.minimum(float(agent.floor_bps), rate_bps[host_row]) if sets_rates else rate_bps[host_row]
        flow_row = np.full(max([actuated.row + 1 for actuated in selected if actuated.actuator.of_flows], default=0), -1, np.intp)
        known = experiment.schedule.flows[: len(flow_row)]
        flow_row[: len(known)] = [flow.rows[0] for flow in known]
        return cls(
            ports=tuple(port.ifname for port in ports),
            nodes=tuple(port.node for port in ports),
            is_switch=np.arange(len(ports)) < len(graph.switch_ports()),
            rate_bps=rate_bps,
            buffer_bytes=np.array([port.queue.limit_bytes for port in ports], np.float64),
            peer_row=np.array([rows[graph.peer(port).ifname] for port in ports], np.intp),
            all_hosts=tuple(host.name for host in graph.hosts),
            hosts=tuple(_name_of(graph, port) for port in acting),
            host_row=host_row,
            senders=np.array([row in sending for row in host_row.tolist()], bool),
            floor_bps=floor_bps,
            base_rtt_ns=base_rtt_ns(graph),
            frame_bytes=graph.frame_bytes,
            step_ns=agent.interval_ns,
            seed=experiment.spec.seed,
            actuated=_actuated(selected, graph, frozenset(host_row.tolist())),
            commands=tuple((actuated.row, actuated.actuator.name.encode(), len(actuated.bounds)) for actuated in selected),
            flow_row=flow_row,
            classes=ClassRows.of(graph),
            scale=experiment.spec.topology.scale or 1,
            is_stock=np.array([port.queue.kind != "port" for port in ports], bool),
        )

    @property
    def start(self) -> Floats:
        """[values]: the values in force before the first action."""
        return np.concatenate([rows.start.ravel() for rows in self.actuated])

    @property
    def value_names(self) -> tuple[str, ...]:
        """One name for each value that agents set."""
        return tuple(name for rows in self.actuated for name in rows.value_names)

    @property
    def columns_of_values(self) -> tuple[str, ...]:
        """The name of each value in tables, with its unit: bps_h1, kmin_bytes_s1-eth3."""
        return tuple(
            f"{quantity.column}_{name}" for rows in self.actuated for name in rows.names for quantity in rows.actuator.quantities
        )

    def check(self, values: Floats) -> None:
        """Raises AgentError if a value is below another that it must not be below."""
        for rows in self.actuated:
            for number, earlier in rows.ordered:
                targets = values[rows.place].reshape(rows.low.shape)
                wrong = np.flatnonzero(targets[:, number] < targets[:, earlier])
                if len(wrong):
                    row = int(wrong[0])
                    names = [quantity.name for quantity in rows.actuator.quantities]
                    below = f"{names[number]} {targets[row, number]:g} is below {names[earlier]} {targets[row, earlier]:g}"
                    raise AgentError(f"step: {rows.names[row]}: {below}; give at least that")

    def on_flows(self, values: Floats, frame: Frame) -> Floats:
        """Returns values of an episode's flows as values of the flows that agents set: 0 where one is not under way.

        Args:
            values: A value for each flow of the episode.
            frame: The step.
        """
        slots = np.zeros(len(self.flow_row))
        slots[: len(values)] = np.where(frame.under_way, values, 0.0)
        return slots

    def port_of(self, row: int) -> int:
        """Returns the row of the port of a row, which may be a class's row."""
        return row if row < len(self.ports) else int(self.classes.port[row - len(self.ports)])

    def capacity_bps(self, frame: Frame) -> Floats:
        """Returns the rates in force at the time of a frame, [ports]: line rates but for events, and 0 where a link is cut."""
        capacities = frame.info.capacities
        return self.rate_bps if capacities is None else np.array(capacities.at(frame.t_ns), np.float64)

    def share(self, rates_bps: Floats) -> Floats:
        """Returns rates as shares of the hosts' line rates, [hosts]. Rewards call these shares the action."""
        return rates_bps / self.line_bps


def _name_of(graph: Graph, port: Port) -> str:
    """Returns the name under which agents set a port: the host's name if the host has one port, otherwise the port's."""
    alone = len(graph.ports_of(port.node)) == 1 and any(host.name == port.node for host in graph.hosts)
    return port.node if alone else port.ifname


def _actuated(selected: Sequence[ActuatedPort], graph: Graph, acting: frozenset[int]) -> tuple[ActuatedRows, ...]:
    """Returns the selected rows by actuator. Of the hosts, only the rows in `acting` are set."""
    actuated_rows, offset = [], 0
    owned = {port.ifname for row, port in enumerate(graph.ports()) if row < len(graph.switch_ports()) or row in acting}
    for name in dict.fromkeys(actuated.actuator.name for actuated in selected):
        ports = [
            actuated
            for actuated in selected
            if actuated.actuator.name == name and (actuated.actuator.of_flows or actuated.port.ifname in owned)
        ]
        if not ports:
            raise AgentError(f'agent.actuators: {name!r} is of no host that sends; give agent.hosts = "all", or other ports')
        low, high, start = (
            np.array([[getattr(bounds, attribute) for bounds in actuated.bounds] for actuated in ports], np.float64)
            for attribute in ("low", "high", "start")
        )
        end = offset + start.size
        names = tuple(
            actuated.name if actuated.actuator.of_flows or actuated.number is not None else _name_of(graph, actuated.port)
            for actuated in ports
        )
        rows = np.array([actuated.row for actuated in ports], np.intp)
        actuated_rows.append(ActuatedRows(ports[0].actuator, rows, names, low, high, start, slice(offset, end)))
        offset = end
    return tuple(actuated_rows)


def flow_info(experiment: Experiment, scene: Scene) -> FlowInfo:
    """Returns the FlowInfo of an episode.

    Args:
        experiment: The network, the controller and the episode's flows.
        scene: Its scene.
    """
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
        mtu_bytes=graph.mtu_bytes,
        capacities=Capacities(graph, experiment.changes) if experiment.changes else None,
    )


def _ideals(experiment: Experiment, schedule: Schedule) -> Floats:
    """Returns each flow's completion time in closed form; nan where there is none."""
    classes, of_flow = ideal.classify(schedule, experiment.graph, experiment.router)
    sizes = np.array([flow.request.size_bytes for flow in schedule.flows], np.int64)
    ideals_ns: npt.NDArray[np.float64] = np.full(len(sizes), np.nan)
    for number, flow_class in enumerate(classes):
        ideals_ns[of_flow == number] = flow_class.closed_form_ns(sizes[of_flow == number])
    return ideals_ns


def _awaits(flows: tuple[Flow, ...]) -> tuple[tuple[int, ...], ...]:
    """Returns, for each flow, the flows that open its gate."""
    openers: dict[int, list[int]] = {}
    for flow in flows:
        for gate in flow.request.opens:
            openers.setdefault(gate, []).append(flow.flow)
    return tuple(tuple(openers.get(flow.request.gate, ())) for flow in flows)
