# SPDX-License-Identifier: Apache-2.0
"""The actuators file of a run: for each row that an agent may set, the netlink request and the places of its values.

agentd and hostd read it (ctrl/agent/actuators.h).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import groupby
from typing import Any

import numpy as np

from dc_gym.base.errors import AgentError
from dc_gym.base.record_file import Table
from dc_gym.ctrl.actuators import Actuator, Attribute, Quantity, keys_of
from dc_gym.ctrl.actuators.actuator import FLOW, WIDTHS
from dc_gym.ctrl.actuators.selection import ActuatedPort
from dc_gym.monitors.state_matrix import MAX_VALUES
from dc_gym.run.plan import inputs
from dc_gym.run.plan.experiment import Experiment
from dc_gym.topologies.graph import Graph, Port
from dc_gym.topologies.realize.control_network import agent_address
from dc_gym.topologies.realize.rtnl import NLA_F_NESTED, NLM_F_REQUEST, NLMSG_HDR, RTM_NEWQDISC, TCMSG, attr_text, attribute
from dc_gym.topologies.realize.tc import TCA_KIND, TCA_OPTIONS

ATTRIBUTE_HEAD = struct.Struct("=HH")
NOBODY = (IPv4Address(0), 0)
NOWHERE = {"attribute": 0, "nest": 0, "index": 0}
"""The attribute of a place in a request, which is given by its offset alone."""


@dataclass(slots=True)
class Request:
    """A netlink request that sets an actuator, and the records of the places of its values."""

    message: bytes
    writes: list[dict[str, Any]] = field(default_factory=list)
    reads: list[dict[str, Any]] = field(default_factory=list)


def request_of(qdisc: str, attributes: Sequence[Attribute], quantities: Sequence[Quantity]) -> Request:
    """Returns the request that changes a root qdisc of this kind. Device and handle are filled in where it is sent."""
    _check(attributes, quantities)
    kind = attr_text(TCA_KIND, qdisc)
    at = NLMSG_HDR.size + TCMSG.size + len(kind) + ATTRIBUTE_HEAD.size  # of the first byte of the options
    order = [quantity.name for quantity in quantities]
    options, request = b"", Request(b"")
    for (nest, _), inside in groupby(attributes, lambda attr: (attr.nest, attr.index)):
        first, content = at + len(options) + (ATTRIBUTE_HEAD.size if nest else 0), b""
        for attr in inside:
            start = first + len(content) + (ATTRIBUTE_HEAD.size if attr.type else 0)
            for position in attr.places:
                scale = {"multiplier": position.multiplier, "divisor": position.divisor, "value": order.index(position.quantity)}
                scale |= {"width": position.width}
                request.writes.append(scale | NOWHERE | {"offset": start + position.offset})
                where = {"attribute": attr.type, "nest": attr.nest, "index": attr.index}
                request.reads.append(scale | where | {"offset": position.offset})
            content += attribute(attr.type, attr.payload) if attr.type else attr.payload
        options += attribute(nest | NLA_F_NESTED, content) if nest else content
    nested = NLA_F_NESTED if attributes[0].type or attributes[0].nest else 0
    body = TCMSG.pack(0, 0, 0, 0, 0) + kind + attribute(TCA_OPTIONS | nested, options)
    request.message = NLMSG_HDR.pack(NLMSG_HDR.size + len(body), RTM_NEWQDISC, NLM_F_REQUEST, 0, 0) + body
    return request


def _check(attributes: Sequence[Attribute], quantities: Sequence[Quantity]) -> None:
    """Raises AgentError unless each quantity has a place, and each place lies in its attribute."""
    known, placed = [quantity.name for quantity in quantities], set()
    for attr in attributes:
        for position in attr.places:
            label = f"agent.actuators: attribute {attr.type}: the place of {position.quantity!r}"
            if position.quantity not in known:
                raise AgentError(f"{label} is of no quantity; one of: {', '.join(known)}")
            if position.width not in WIDTHS or min(position.multiplier, position.divisor) < 1:
                raise AgentError(
                    f"{label} has width {position.width} and {position.multiplier} / {position.divisor}; give 1, 2, 4 or 8 bytes"
                )
            if not 0 <= position.offset <= len(attr.payload) - position.width:
                raise AgentError(f"{label} is at byte {position.offset} of {len(attr.payload)}; give the whole payload")
            placed.add(position.quantity)
    if missing := [name for name in known if name not in placed]:
        raise AgentError(f"agent.actuators: {missing[0]} has no place in the attributes; give it one")


def tables(experiment: Experiment) -> tuple[Table, Table, Table]:
    """Returns the tables of the actuators file: rows, fields, and the bytes of the requests."""
    graph = experiment.graph
    listens = {
        port.ifname: agent_address(number, egress)
        for number, host in enumerate(graph.hosts)
        for egress, port in enumerate(graph.ports_of(host.name))
    }
    return tables_of(experiment.actuated, graph, experiment.spec.agent, listens)


def tables_of(
    actuated: Sequence[ActuatedPort], graph: Graph, agent: Any, listens: Mapping[str, tuple[IPv4Address, int]]
) -> tuple[Table, Table, Table]:
    """Returns the same of these rows. `agent`: the spec's [agent]. `listens`: by port, where the agent of its host listens, if it
    has one."""
    rows: list[dict[str, Any]] = []
    fields: list[dict[str, Any]] = []
    message = b""
    for actuated_port in actuated:
        actuator = actuated_port.actuator
        qdisc = FLOW if actuator.of_flows else _qdisc(actuator, actuated_port.port)
        request = Request(b"")
        if not actuator.of_flows:
            request = request_of(qdisc, _attributes(actuated_port, graph, keys_of(actuator, agent)), actuator.quantities)
        address, port = listens.get(actuated_port.port.ifname, NOBODY)
        rows.append(
            {
                "actuator": actuator.name,
                "qdisc": qdisc,
                **_bounds(actuated_port),
                "row": actuated_port.row,
                "n_values": len(actuator.quantities),
                "request_start": len(message),
                "request_len": len(request.message),
                "writes_start": len(fields),
                "n_writes": len(request.writes),
                "reads_start": len(fields) + len(request.writes),
                "n_reads": len(request.reads),
                "control_addr": inputs.address(address),
                "control_port": port,
            }
        )
        fields += [*request.writes, *request.reads]
        message += request.message
    bytes_ = Table(inputs.REQUEST_BYTE, np.frombuffer(message, inputs.REQUEST_BYTE.dtype))
    return inputs.ACTUATOR_ROW.table(rows), inputs.ACTUATOR_FIELD.table(fields), bytes_


def _attributes(actuated_port: ActuatedPort, graph: Graph, keys: Any) -> tuple[Attribute, ...]:
    if actuated_port.number is None:
        return actuated_port.actuator.attributes(graph, actuated_port.port, keys)
    assert actuated_port.actuator.of_class is not None, "it was selected"
    return actuated_port.actuator.of_class(graph, actuated_port.port, actuated_port.number, keys)


def _qdisc(actuator: Actuator, port: Port) -> str:
    """Returns the kind of the port's root qdisc. Raises AgentError if it does not carry the actuator."""
    if port.queue.kind not in actuator.qdiscs:
        mismatch = f"agent.actuators: {actuator.name!r} of {port.ifname}: its queue is {port.queue.kind}"
        raise AgentError(f"{mismatch}, and {' or '.join(actuator.qdiscs)} is needed; leave the port out")
    return port.queue.kind


def _bounds(actuated_port: ActuatedPort) -> dict[str, list[int]]:
    """Returns bounds and start values, filled up with zeros."""
    rest = [0] * (MAX_VALUES - len(actuated_port.bounds))
    return {name: [*(getattr(one, name) for one in actuated_port.bounds), *rest] for name in ("low", "high", "start")}
