# SPDX-License-Identifier: Apache-2.0
"""The rows that an agent sets: agent.actuators applied to a network.

agent.actuators is a comma list of actuators, written like agent.observe. A prefix `switch:`, `host:`, `all:` or a pattern of port
names such as `s1-*:` chooses the ports:

    marking                         the marking of every switch port that has one
    s1-*:marking,s2-eth3:marking    that of the ports of s1, and of one of s2
    rate,marking                    the rates of the hosts, then the marking of the switch ports
"""

from __future__ import annotations

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
    items = [item.strip() for item in text.split(",")]
    if "" in items:
        raise AgentError(f"{KEY}: {text!r} has an empty item; write it like 'rate' or 's1-*:marking'")
    found: list[ActuatedPort] = []
    taken: dict[tuple[str, str], str] = {}
    for item in items:
        for each in _item(item, graph, agent, ground):
            place = (each.port.ifname, each.actuator.name)
            if place in taken:
                raise AgentError(f"{KEY}: {taken[place]!r} and {item!r} both set the {place[1]} of {place[0]}; take one out")
            taken[place] = item
            found.append(each)
    return tuple(found)


def chosen(text: str) -> tuple[str, ...]:
    """Returns the names of the actuators in agent.actuators."""
    return tuple(dict.fromkeys(item.rpartition(":")[2].strip() for item in text.split(",")))


def equipped(text: str, graph: Graph, agent: Any) -> Graph:
    """Returns the network with the qdiscs that the actuators of a text need. Unknown names are reported by `select`."""
    for name in chosen(text):
        if actuator := actuators.find(name):
            graph = actuator.equip(graph, actuators.keys_of(actuator, agent))
    return graph


def _item(item: str, graph: Graph, agent: Any, ground: str) -> list[ActuatedPort]:
    ports_of, colon, name = item.rpartition(":")
    actuator = actuators.find(name)
    if actuator is None:
        raise AgentError(f"{KEY}: " + unknown("actuator", name, actuators.names()))
    if ground not in actuator.grounds:
        there = " or ".join(f'"{each}"' for each in actuator.grounds)
        raise AgentError(f'{KEY}: {name!r} cannot be enforced on ground "{ground}"; give ground = {there}, or another actuator')
    hosts = {host.name for host in graph.hosts}
    named = bool(colon) and ports_of not in GROUPS
    found: list[ActuatedPort] = []
    missing: dict[bool, str] = {}
    """Why ports have it not, first of those that could have it."""
    for row, port in enumerate(graph.ports()):
        of_host = port.node in hosts
        if (named and not fnmatchcase(port.ifname, ports_of)) or ports_of == ("switch" if of_host else "host"):
            continue
        right = of_host == (actuator.ports == "host")
        why = actuator.misses(port) if right else f"only {OWNERS[actuator.ports]} have one; leave it out"
        if not why:
            found.append(ActuatedPort(actuator, row, port, actuator.bounds(graph, port, actuators.keys_of(actuator, agent))))
            continue
        missing.setdefault(right, f"{KEY}: {item!r}: port {port.ifname} has no {name}: {why}")
        if named:
            raise AgentError(missing[right])
    if not found:
        ports = graph.ports()
        none = f"{KEY}: {item!r}: no port of {ports[0].ifname} .. {ports[-1].ifname} is called so"
        raise AgentError(missing.get(True) or missing.get(False) or none)
    _check_bounds(found)
    return found


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
