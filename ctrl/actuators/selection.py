# SPDX-License-Identifier: Apache-2.0
"""The rows that an agent sets: agent.actuators applied to a network.

agent.actuators is a comma list of actuators, written like agent.observe. A prefix `switch:`, `host:`, `all:` or a pattern of port
names such as `s1-*:` chooses the ports; `class:` or a pattern of class names such as `s1-*:rdma:` chooses classes:

    marking                         the marking of every switch port that has one
    s1-*:marking,s2-eth3:marking    the marking of the ports of s1, and of one port of s2
    class:marking                   the marking of every class of switch ports that has one
    s1-*:rdma:marking               the marking of the class rdma of the ports of s1
    rate,marking                    the rates of the hosts, then the marking of the switch ports
    cwnd                            the window of every flow
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.ctrl import actuators
from dc_gym.ctrl.actuators.actuator import Actuator, Bounds
from dc_gym.topologies.graph import CLASS_MARK, Graph, Port, Row

KEY = "agent.actuators"
CLASS = "class"
GROUPS = ("all", "switch", "host", CLASS)
"""The words that stand for groups of ports, or for all classes, instead of a pattern of their names."""
MOST_FLOWS = 1 << 13
"""The largest number of flows at which agents set something: three actuators of so many fit a lab's shared memory."""
OWNERS = {"host": "egresses of hosts", "switch": "ports of switches"}


@dataclass(frozen=True, slots=True)
class ActuatedPort:
    """One actuator at one port, at one class of it, or at one flow."""

    actuator: Actuator
    row: int
    """The row of the port or class in the state matrix, or the number of the flow."""
    port: Port
    """Of a flow: some port of a host."""
    bounds: tuple[Bounds, ...]
    """The bounds of each quantity."""
    number: int | None = None
    """The number of the class; None: the whole port."""

    @property
    def name(self) -> str:
        """s1-eth3, s1-eth3:rdma, or flow0."""
        return f"flow{self.row}" if self.actuator.of_flows else Row(self.port, self.number).name

    @property
    def sets(self) -> tuple[str, int, str]:
        """Identifies its values: the port, the class, and the actuator. At a whole port that is the first class."""
        return self.name if self.actuator.of_flows else self.port.ifname, self.number or 0, self.actuator.name


def select(text: str, graph: Graph, agent: Any, ground: str, flows: Callable[[], int] = lambda: 0) -> tuple[ActuatedPort, ...]:
    """Returns the rows of agent.actuators: one item after the other, each in the order of the network's ports, or of the flows.

    `agent` is the spec's [agent], which has the text. `flows` returns how many flows of TCP and others the workload has, or 0 if
    none is of TCP. Raises AgentError for a row that has no such actuator, for two
    items that set one row, and for a ground that cannot enforce an actuator.
    """
    rows: list[ActuatedPort] = []
    taken: dict[tuple[str, int, str], str] = {}
    for item, ports_of, actuator in parsed(text):
        _check_ground(actuator, ground)
        for row in (
            _flows(item, ports_of, actuator, graph, agent, flows())
            if actuator.of_flows
            else _rows(item, ports_of, actuator, graph, agent)
        ):
            if row.sets in taken:
                fault = f"{taken[row.sets]!r} and {item!r} both set the {actuator.name} of {row.name}"
                raise AgentError(f"{KEY}: {fault}; take one out")
            taken[row.sets] = item
            rows.append(row)
    return tuple(rows)


def parsed(text: str) -> list[tuple[str, str, Actuator]]:
    """Returns the items of agent.actuators: the text of each, its group or pattern of ports, and its actuator.

    Raises AgentError for an empty item and for an unknown actuator.
    """
    return [(item, *_item(text, item)) for item in map(str.strip, text.split(","))]


def chosen(text: str) -> tuple[str, ...]:
    """Returns the names of the actuators in agent.actuators."""
    return tuple(dict.fromkeys(item.rpartition(":")[2].strip() for item in text.split(",")))


def equipped(text: str, graph: Graph, agent: Any) -> Graph:
    """Returns the network with the qdiscs that the actuators of a text need. Unknown names are reported by `select`."""
    for name in chosen(text):
        if actuator := actuators.find(name):
            graph = actuator.equip(graph, actuators.keys_of(actuator, agent))
    return graph


def _item(text: str, item: str) -> tuple[str, Actuator]:
    if not item:
        raise AgentError(f"{KEY}: {text!r} has an empty item; write it like 'rate' or 's1-*:marking'")
    ports_of, colon, name = (part.strip() for part in item.rpartition(":"))
    actuator = actuators.find(name)
    if actuator is None:
        raise AgentError(f"{KEY}: " + unknown("actuator", name, actuators.names()))
    return (ports_of if colon else "all"), actuator


def sets_flows(text: str) -> bool:
    """Returns whether agent.actuators has an actuator of flows."""
    return any(actuator is not None and actuator.of_flows for actuator in map(actuators.find, chosen(text)))


def _flows(item: str, rows_of: str, actuator: Actuator, graph: Graph, agent: Any, flows: int) -> list[ActuatedPort]:
    """Returns the rows of one item of flows, by their numbers."""
    if rows_of != "all":
        raise AgentError(f"{KEY}: {item!r}: every flow has its {actuator.name}; write {actuator.name!r} alone")
    if not flows:
        raise AgentError(f"{KEY}: {item!r}: the workload has no flow of TCP; give it some, or other actuators")
    count = agent.flows or flows
    if flows > count:
        raise AgentError(f"agent.flows = {count}: the workload has {flows} flows; give {flows} or more")
    if count > MOST_FLOWS:
        raise AgentError(f"{KEY}: {item!r}: the workload has {count} flows, and agents set {MOST_FLOWS} at most; give fewer")
    keys, port = actuators.keys_of(actuator, agent), graph.ports_of(graph.hosts[0].name)[0]
    rows = [ActuatedPort(actuator, number, port, actuator.bounds(graph, port, keys)) for number in range(count)]
    _check_bounds(rows[:1])
    return rows


def _rows(item: str, ports_of: str, actuator: Actuator, graph: Graph, agent: Any) -> list[ActuatedPort]:
    """Returns the rows of one item. A port that a pattern names must have the actuator; in a group, ports that have it count."""
    keys, hosts = actuators.keys_of(actuator, agent), {host.name for host in graph.hosts}
    actuated: list[ActuatedPort] = []
    without: list[tuple[bool, str]] = []
    for index, row in _chosen(ports_of, graph, hosts):
        port = row.port if row.number is None else row.port.alone(row.number)
        wrong = _wrong_kind(actuator, row, hosts)
        if why := wrong or actuator.misses(port):
            kind = "port" if row.number is None else "class"
            without.append((bool(wrong), f"{KEY}: {item!r}: {kind} {row.name} has no {actuator.name}: {why}"))
        else:
            actuated.append(ActuatedPort(actuator, index, row.port, actuator.bounds(graph, port, keys), row.number))
    if without and (ports_of not in GROUPS or not actuated):
        raise AgentError(min(without, key=lambda reason: reason[0])[1])  # first of the ports that could have it
    if not actuated:
        raise AgentError(f"{KEY}: {item!r}: {nothing_called(ports_of, [row.name for row in graph.rows()])}")
    _check_bounds(actuated)
    return actuated


def _check_ground(actuator: Actuator, ground: str) -> None:
    if ground not in actuator.grounds:
        there, name = " or ".join(f'"{other}"' for other in actuator.grounds), actuator.name
        raise AgentError(f'{KEY}: {name!r} cannot be enforced on ground "{ground}"; give ground = {there}, or another actuator')


def of_classes(rows_of: str) -> bool:
    """Returns whether a group or pattern selects classes, not ports."""
    return rows_of == CLASS or CLASS_MARK in rows_of


def nothing_called(rows_of: str, names: Sequence[str]) -> str:
    """Returns an error's words for a pattern that matches no row. `names`: the names of all rows."""
    kind = "class" if of_classes(rows_of) else "port"
    known = [name for name in names if (CLASS_MARK in name) == (kind == "class")]
    if not known:
        return "the ports of this network have no classes; give topology.classes, or leave it out"
    return f"no {kind} of {known[0]} .. {known[-1]} is called so"


def _wrong_kind(actuator: Actuator, row: Row, hosts: set[str]) -> str:
    """Returns why no row of this kind has the actuator; empty if some have it."""
    if (row.port.node in hosts) != (actuator.ports == "host"):
        return f"only {OWNERS[actuator.ports]} have one; leave it out"
    return "classes have none; name ports" if row.number is not None and actuator.of_class is None else ""


def _chosen(rows_of: str, graph: Graph, hosts: set[str]) -> Iterator[tuple[int, Row]]:
    """Yields the ports or classes of a group or pattern, with their rows."""
    for index, row in enumerate(graph.rows()):
        group = "host" if row.port.node in hosts else "switch"
        if (row.number is not None) != of_classes(rows_of):
            continue
        if rows_of in ("all", group, CLASS) or (rows_of not in GROUPS and fnmatchcase(row.name, rows_of)):
            yield index, row


def _check_bounds(rows: list[ActuatedPort]) -> None:
    """Raises AgentError unless each quantity has bounds in order, and its start between them."""
    for row in rows:
        quantities = row.actuator.quantities
        if len(row.bounds) != len(quantities):
            fault = f"{row.actuator.name} of {row.name} has {len(row.bounds)} bounds for {len(quantities)} quantities"
            raise AgentError(f"{KEY}: {fault}; mend its bounds")
        for quantity, bounds in zip(quantities, row.bounds, strict=True):
            if not 1 <= bounds.low <= bounds.start <= bounds.high:
                fault = f"{quantity.name} of {row.name} starts at {bounds.start} of {bounds.low}..{bounds.high}"
                raise AgentError(f"{KEY}: {fault}; give bounds of 1 or more, in order")
