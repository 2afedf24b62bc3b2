# SPDX-License-Identifier: Apache-2.0
"""An actuator: something that an agent may set at a port of the network, at a class of one, or at a flow, while traffic runs.

An actuator is declared once: its values with their units and bounds, the ports that have it, the netlink request that sets it,
and where in the kernel's description of the port's qdisc each value is read back. agentd (ctrl/agent/) carries requests out and
reads back; it knows no qdisc by name. To add an actuator, write a file like rate.py and call `register` in it. Actuators of flows
(window.py) are set by tgen, which knows them by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from dc_gym.base import usercode
from dc_gym.base.errors import AgentError
from dc_gym.base.registry import Entry, Registry
from dc_gym.topologies.graph import Graph, Port

__all__ = ["KINDS", "Actuator", "Attribute", "Bounds", "Place", "Quantity", "find", "keys_of", "names", "register"]

MOST_QUANTITIES, MOST_NAME = 4, 15
"""Limits of the state matrix: values of an actuator, and bytes of its name (SM_MAX_VALUES, SM_ACTUATOR_LEN)."""
UNITS = ("bps", "bytes", "ppm", "packets", "ns")
WIDTHS = (1, 2, 4, 8)
FLOW: Literal["flow"] = "flow"
OF_FLOWS = ("cwnd", "clamp", "pacing")
"""The actuators of flows (traffic/tgen/tgen_matrix.c)."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """One value of an actuator. Values are whole numbers."""

    name: str
    """Also the name of the feature that shows an agent the value in force."""
    unit: str
    """One of UNITS."""
    help: str
    at_least: str | None = None
    """The name of an earlier quantity of the actuator below which this one never is."""

    @property
    def column(self) -> str:
        """The name in tables, with the unit: kmin_bytes. A rate is named by its unit alone: bps."""
        return self.unit if self.name == "rate" else f"{self.name}_{self.unit}"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a quantity at one port, and its value outside of episodes."""

    low: int
    high: int
    start: int


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value in a netlink attribute, when it is set and when it is read back.

    The kernel's number is value x multiplier / divisor, rounded down, at most the largest number of the width. The way back is
    rounded up.
    """

    quantity: str
    offset: int
    """In bytes from the attribute's beginning."""
    width: int
    """In bytes: 1, 2, 4 or 8."""
    multiplier: int = 1
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class Attribute:
    """A netlink attribute of a qdisc's options, with the places of values in it.

    An attribute that the kernel does not send back is not read. If it sends two with the same quantity, the later one holds.
    """

    type: int
    """0: these bytes are the options themselves, which have no attributes (bfifo)."""
    payload: bytes
    places: tuple[Place, ...] = ()
    nest: int = 0
    """The type of the attribute of the options in which it lies; 0: it lies in the options themselves."""
    index: int = 0
    """The index of the nest among the nests of its type, in the order in which the kernel sends them, from 0."""


@dataclass(frozen=True, slots=True)
class Actuator:
    """An actuator. `keys` in its functions are its own keys if it declares some, otherwise the spec's [agent]."""

    name: str
    """Name in agent.actuators."""
    help: str
    """The thing that an agent sets with it, in Markdown."""
    ports: Literal["host", "switch", "flow"]
    """The ports that have it: the hosts' egresses, or the ports of switches. "flow": flows of TCP have it, and no port."""
    qdiscs: tuple[str, ...]
    """The kinds of root qdisc that carry it. A port has one of these kinds, and the request goes to its qdisc. Of flows: none."""
    quantities: tuple[Quantity, ...]
    bounds: Callable[[Graph, Port, Any], tuple[Bounds, ...]]
    """(graph, port, keys) -> the bounds of each quantity at that port. For a class, the port is as if it had only that class."""
    attributes: Callable[[Graph, Port, Any], tuple[Attribute, ...]] = lambda graph, port, keys: ()
    """(graph, port, keys) -> the options of the request that sets it. The values themselves may be 0. Of flows: none."""
    misses: Callable[[Port], str] = lambda port: ""
    """(port) -> why a port of the right kind lacks it, with the remedy; empty if the port has it. Of a class, as for bounds."""
    of_class: Callable[[Graph, Port, int, Any], tuple[Attribute, ...]] | None = None
    """(graph, port, class, keys) -> the options of the request that sets it at the class of that number. None: classes do not
    have it. At a whole port it sets the value of the port's first class."""
    equip: Callable[[Graph, Any], Graph] = lambda graph, keys: graph
    """(graph, keys) -> the same network with the qdiscs that the actuator needs."""
    grounds: tuple[str, ...] = ("lab", "host")
    """The grounds that can enforce it."""
    cost: str = "one netlink request for each port whose values change"
    """The cost of a change, in words."""
    tcp: str = ""
    """Of flows: the only TCP congestion control that has it. Empty: all have it."""
    keys: type | None = None
    """The dataclass of its keys (base/registry.py), which are keys of the spec's [agent]."""
    ordered: tuple[tuple[int, int], ...] = field(init=False)
    """Pairs of quantities, by number: the first of a pair is never below the second."""

    def __post_init__(self) -> None:
        numbers = {quantity.name: number for number, quantity in enumerate(self.quantities)}
        pairs = [
            (numbers[quantity.name], numbers.get(quantity.at_least, -1))
            for quantity in self.quantities
            if quantity.at_least is not None
        ]
        object.__setattr__(self, "ordered", tuple(pairs))

    @property
    def of_flows(self) -> bool:
        """True if flows have it, not ports."""
        return self.ports == FLOW


_registry: dict[str, Actuator] = {}
KINDS = Registry("agent.actuators", AgentError, ("graph", "port"), together=True)
"""The keys that actuators declare."""


def register(actuator: Actuator) -> None:
    """Registers an actuator as a word of agent.actuators. A name can be registered only once."""
    subject = f"actuator {actuator.name!r}"
    if actuator.name in _registry:
        raise AgentError(f"{subject} is registered already; choose another name")
    if not (actuator.name.isidentifier() and actuator.name.isascii()) or len(actuator.name) > MOST_NAME:
        raise AgentError(f"{subject} is not a valid name; use letters, digits and _, at most {MOST_NAME}")
    for kind in () if actuator.of_flows else actuator.qdiscs or ("",):
        if not 0 < len(kind) <= MOST_NAME or not kind.isascii():
            raise AgentError(f"{subject}: qdisc {kind!r} is no kind of qdisc; give one such as port")
    if actuator.of_flows and actuator.name not in OF_FLOWS:
        raise AgentError(f"{subject}: flows have only {', '.join(OF_FLOWS)}; give ports host or switch")
    if actuator.ports not in ("host", "switch", FLOW):
        raise AgentError(f"{subject}: ports {actuator.ports!r} are unknown; give host or switch")
    _check_quantities(subject, actuator.quantities)
    for name, arguments in (("bounds", ("graph", "port", "keys")), ("attributes", ("graph", "port", "keys")),
                            ("misses", ("port",)), ("equip", ("graph", "keys"))):  # fmt: skip
        usercode.check_call(AgentError, f"{subject}: {name}", getattr(actuator, name), *arguments)
    if actuator.of_class is not None:
        usercode.check_call(AgentError, f"{subject}: of_class", actuator.of_class, "graph", "port", "number", "keys")
    if actuator.keys is None:
        KINDS[actuator.name] = Entry(actuator.name, actuator.bounds, help=actuator.help)
    else:
        KINDS.add(actuator.name, actuator.bounds, actuator.keys, help=actuator.help)
    _registry[actuator.name] = actuator


def names() -> tuple[str, ...]:
    """Returns the names of all actuators, in the order of registration."""
    return tuple(_registry)


def find(name: str) -> Actuator | None:
    """Returns the actuator of that name, or None."""
    return _registry.get(name)


def keys_of(actuator: Actuator, agent: Any) -> Any:
    """Returns the keys for the actuator's functions.

    Args:
        actuator: The actuator.
        agent: The spec's [agent].
    """
    if actuator.keys is None:
        return agent
    return KINDS[actuator.name].arguments(dict(agent.own), "agent.")[0]


def _check_quantities(subject: str, quantities: tuple[Quantity, ...]) -> None:
    if not 1 <= len(quantities) <= MOST_QUANTITIES:
        raise AgentError(f"{subject} has {len(quantities)} quantities; give 1 to {MOST_QUANTITIES}")
    known: list[str] = []
    for quantity in quantities:
        if quantity.name in known or not quantity.name.isidentifier():
            raise AgentError(f"{subject}: quantity {quantity.name!r} is no name of its own; give each quantity one")
        if quantity.unit not in UNITS:
            raise AgentError(f"{subject}: unit {quantity.unit!r} of {quantity.name} is unknown; one of: {', '.join(UNITS)}")
        if quantity.at_least is not None and quantity.at_least not in known:
            raise AgentError(
                f"{subject}: {quantity.name} is at least {quantity.at_least!r}, which is no earlier quantity; name one"
            )
        known.append(quantity.name)
