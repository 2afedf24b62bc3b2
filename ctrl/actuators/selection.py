# SPDX-License-Identifier: Apache-2.0
"""The rows that an agent sets: agent.actuators applied to a network.

agent.actuators is a comma list of actuators, written like agent.observe. A prefix `switch:`, `host:`, `all:` or a pattern of port
names such as `s1-*:` chooses the ports:

    marking                         the marking of every switch port that has one
    s1-*:marking,s2-eth3:marking    that of the ports of s1, and of one of s2
    rate,marking                    the rates of the hosts, then the marking of the switch ports
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dc_gym.base.errors import AgentError
from dc_gym.base.spelling import unknown
from dc_gym.ctrl import actuators
from dc_gym.ctrl.actuators.actuator import Actuator, Bounds
from dc_gym.topologies.graph import Graph, Port

KEY = "agent.actuators"
GROUPS = ("all", "switch", "host")
"""The words that stand for groups of ports, instead of a pattern of their names."""
OWNERS = {"host": "egresses of hosts", "switch": "ports of switches"}


@dataclass(frozen=True, slots=True)
class ActuatedPort:
    """One actuator at one port."""

    actuator: Actuator
    row: int
    """The port's row in the state matrix."""
    port: Port
    bounds: tuple[Bounds, ...]
    """The bounds of each quantity."""


def select(text: str, graph: Graph, agent: Any, ground: str) -> tuple[ActuatedPort, ...]:
    """Returns the rows of agent.actuators: one item after the other, each in the order of the network's ports.

    `agent` is the spec's [agent], which has the text. Raises AgentError for a row that has no such actuator, for two
    items that set one row, and for a ground that cannot enforce an actuator.
    """
    found: list[ActuatedPort] = []
    taken: dict[tuple[str, str], str] = {}
    for item, ports_of, actuator in parsed(text):
        _check_ground(actuator, ground)
        for each in _rows(item, ports_of, actuator, graph, agent):
            place = (each.port.ifname, each.actuator.name)
            if place in taken:
                raise AgentError(f"{KEY}: {taken[place]!r} and {item!r} both set the {place[1]} of {place[0]}; take one out")
            taken[place] = item
            found.append(each)
    return tuple(found)


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


def _rows(item: str, ports_of: str, actuator: Actuator, graph: Graph, agent: Any) -> list[ActuatedPort]:
    """Returns the rows of one item. A port that a pattern names must have the actuator; of a group, those that have it count."""
    keys, hosts = actuators.keys_of(actuator, agent), {host.name for host in graph.hosts}
    found: list[ActuatedPort] = []
    without: list[tuple[bool, str]] = []
    for row, port in _ports(ports_of, graph, hosts):
        right = (port.node in hosts) == (actuator.ports == "host")
        if why := actuator.misses(port) if right else f"only {OWNERS[actuator.ports]} have one; leave it out":
            without.append((not right, f"{KEY}: {item!r}: port {port.ifname} has no {actuator.name}: {why}"))
        else:
            found.append(ActuatedPort(actuator, row, port, actuator.bounds(graph, port, keys)))
    if without and (ports_of not in GROUPS or not found):
        raise AgentError(min(without, key=lambda each: each[0])[1])  # first of those that could have it
    if not found:
        ports = graph.ports()
        raise AgentError(f"{KEY}: {item!r}: no port of {ports[0].ifname} .. {ports[-1].ifname} is called so")
    _check_bounds(found)
    return found


def _check_ground(actuator: Actuator, ground: str) -> None:
    if ground not in actuator.grounds:
        there, name = " or ".join(f'"{each}"' for each in actuator.grounds), actuator.name
        raise AgentError(f'{KEY}: {name!r} cannot be enforced on ground "{ground}"; give ground = {there}, or another actuator')


def _ports(ports_of: str, graph: Graph, hosts: set[str]) -> Iterator[tuple[int, Port]]:
    """Yields the ports of a group or pattern, with their rows."""
    for row, port in enumerate(graph.ports()):
        group = "host" if port.node in hosts else "switch"
        if ports_of in ("all", group) or (ports_of not in GROUPS and fnmatchcase(port.ifname, ports_of)):
            yield row, port


def _check_bounds(found: list[ActuatedPort]) -> None:
    """Raises AgentError unless each quantity has bounds in order, and its start between them."""
    for each in found:
        quantities = each.actuator.quantities
        if len(each.bounds) != len(quantities):
            what = f"{each.actuator.name} of {each.port.ifname} has {len(each.bounds)} bounds for {len(quantities)} quantities"
            raise AgentError(f"{KEY}: {what}; mend its bounds")
        for quantity, bounds in zip(quantities, each.bounds, strict=True):
            if not 1 <= bounds.low <= bounds.start <= bounds.high:
                what = f"{quantity.name} of {each.port.ifname} starts at {bounds.start} of {bounds.low}..{bounds.high}"
                raise AgentError(f"{KEY}: {what}; give bounds of 1 or more, in order")
