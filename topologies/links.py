# SPDX-License-Identifier: Apache-2.0
"""The keys of links: those that hold for all links, rules for some of them, and the Cable that follows from both.

Queue sizes follow from unscaled rates and round trips. After that the scale s divides rates and multiplies times
(docs/topologies.md).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.amount import Size, in_bytes
from dc_gym.base.errors import TopologyError
from dc_gym.base.units import FRAME_BYTES
from dc_gym.topologies import marking
from dc_gym.topologies.graph import Cable, Impairment, Marking, Port, Queue, QueueKind

ANY = "*"
HOST = "host"
LAYERS = {"host": "host", "edge": "edge", "leaf": "edge", "tor": "edge", "agg": "agg", "core": "core", "spine": "core"}
"""Names of layers in [[topology.links]]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkParams:
    """The keys of a link. None means not given."""

    rate_bps: int | None = None
    delay_ns: int | None = None
    buffer_bytes: Size | None = None  # buffer of its switch ports
    host_buffer_bytes: Size | None = None  # buffer of its host's port
    marking: str | None = None
    k_bytes: Size | None = None
    kmin_bytes: Size | None = None
    kmax_bytes: Size | None = None
    pmax_ppm: int | None = None
    loss_ppb: int | None = None
    jitter_ns: int | None = None
    reorder_ppb: int | None = None
    reorder_delay_ns: int | None = None

    def over(self, base: LinkParams) -> LinkParams:
        """Returns `base` with the values given here in place of its own."""
        return replace(base, **self.given())

    def given(self) -> dict[str, Any]:
        """Returns the keys that have a value."""
        return {each.name: value for each in fields(self) if (value := getattr(self, each.name)) is not None}


NOTHING = LinkParams()


@dataclass(frozen=True, slots=True)
class LinkRule:
    """Keys for the links between two nodes, or between the nodes of two layers, in either direction."""

    between: tuple[str, str]  # names of nodes, names of layers, or '*'
    params: LinkParams

    def matches(self, a: Node, b: Node) -> bool:
        first, second = self.between
        return (a.is_called(first) and b.is_called(second)) or (a.is_called(second) and b.is_called(first))


@dataclass(frozen=True, slots=True)
class Node:
    """One end of a link that is to be made: its name, and its layer or 'host'."""

    name: str
    layer: str

    def is_called(self, word: str) -> bool:
        return word in (ANY, self.name) or LAYERS.get(word) == self.layer


@dataclass(frozen=True, slots=True)
class Wiring:
    """Determines the rates, delays, queues and impairments of a network's links."""

    links: LinkParams
    rules: tuple[LinkRule, ...] = ()
    host_qdisc: QueueKind = "bfifo"
    ecn: bool = False
    """True if the controller reads ECN. It decides what marking 'auto' stands for."""
    scale: int = 1
    rtt_ns: int | None = None
    """The base round trip before scaling, in ns, for amounts in BDPs. None means not known."""
    measuring: bool = False
    """True if only rates and delays matter: no scale, and queues of one frame."""

    def cable(self, a: tuple[Node, str], b: tuple[Node, str], own: LinkParams = NOTHING) -> Cable:
        """Returns the link between two nodes, each given with the name of its port.

        `own` holds what the topology says of this link.
        """
        link = self._link(a[0], b[0], own)
        rate_bps, delay_ns = _given(link, "rate_bps"), _given(link, "delay_ns")
        scale = 1 if self.measuring else self.scale
        ports = [Port(node.name, ifname, self._queue(link, node, ifname, rate_bps)) for node, ifname in (a, b)]
        return Cable(ports[0], ports[1], max(1, rate_bps // scale), delay_ns * scale, _impairment(link, scale))

    def missing(self, a: Node, b: Node, own: LinkParams = NOTHING) -> list[str]:
        """Returns the fields that a link between two nodes needs, and that neither the link nor the spec gives."""
        link = self._link(a, b, own)
        needed = ["rate_bps", "delay_ns"]
        for node in (a, b):
            if node.layer != HOST:
                needed += ["buffer_bytes", *marking.KINDS[resolve_marking(link.marking, self.ecn)].needs]
            elif link.host_buffer_bytes is None:
                needed.append("buffer_bytes")
        return [name for name in dict.fromkeys(needed) if getattr(link, name) is None]

    def _link(self, a: Node, b: Node, own: LinkParams) -> LinkParams:
        """Returns all keys that hold for a link."""
        link = own.over(self.links)
        for rule in self.rules:
            if rule.matches(a, b):
                link = rule.params.over(link)
        return link

    def _queue(self, link: LinkParams, node: Node, ifname: str, rate_bps: int) -> Queue:
        if self.measuring:
            return Queue(FRAME_BYTES)
        try:
            return self._queue_of(link, node, rate_bps)
        except TopologyError as error:
            raise TopologyError(str(error) if str(error).startswith("topology.") else f"{ifname}: {error}") from None

    def _queue_of(self, link: LinkParams, node: Node, rate_bps: int) -> Queue:
        if node.layer == HOST:
            given = link.buffer_bytes if link.host_buffer_bytes is None else link.host_buffer_bytes
            return Queue(self._bytes(given, "host_buffer_bytes", rate_bps), self.host_qdisc)
        limit_bytes = self._bytes(link.buffer_bytes, "buffer_bytes", rate_bps)
        marks = self._marking(link, rate_bps, limit_bytes)
        return Queue(limit_bytes, "bfifo" if marks.kind == "none" else "red", marks)

    def _marking(self, link: LinkParams, rate_bps: int, limit_bytes: int) -> Marking:
        kind = marking.KINDS[resolve_marking(link.marking, self.ecn)]
        keys = {name: getattr(link, name) for name in (*kind.needs, *kind.takes)}
        for name in kind.needs:
            if keys[name] is None:
                why = f"marking {resolve_marking(link.marking, self.ecn)!r} needs it"
                raise TopologyError(f"{key_of(name)} is missing: {why}; give it, or name a topology.preset")
        sizes = {name: in_bytes(value, rate_bps, self.rtt_ns) for name, value in keys.items() if name != "pmax_ppm" and value}
        made: object = kind.make(marking.MarkingContext(rate_bps, limit_bytes, pmax_ppm=keys.get("pmax_ppm"), **sizes))
        if not isinstance(made, Marking):
            what = f"topology.marking {resolve_marking(link.marking, self.ecn)!r}: its function gives {usercode.shown(made)}"
            raise TopologyError(f"{what} instead of a Marking; return one")
        return replace(made, bandwidth_bps=max(1, made.bandwidth_bps // self.scale)) if made.bandwidth_bps else made

    def _bytes(self, value: Size | None, name: str, rate_bps: int) -> int:
        if value is None:
            raise TopologyError(f"{key_of(name)} is missing; give it, or name a topology.preset")
        return in_bytes(value, rate_bps, self.rtt_ns)


def resolve_marking(name: str | None, ecn: bool) -> str:
    """Returns the marking; 'auto' and None are resolved to 'step' with ECN and to 'none' without."""
    if name is None or name == marking.AUTO:
        return "step" if ecn else "none"
    return name


def key_of(name: str) -> str:
    """Returns the spec's key of a field: rate_bps -> topology.rate; k_bytes keeps its name."""
    if name in ("k_bytes", "class_name"):
        return "topology." + name.removesuffix("_name")
    unit = name.rpartition("_")[2]
    return "topology." + (name.removesuffix(f"_{unit}") if unit in ("bps", "ns", "bytes", "ppm", "ppb") else name)


def _given(link: LinkParams, name: str) -> int:
    value: int | None = getattr(link, name)
    if value is None:
        raise TopologyError(f"{key_of(name)} is missing; give it, or name a topology.preset")
    return value


def _impairment(link: LinkParams, scale: int) -> Impairment:
    return Impairment(
        loss_ppb=link.loss_ppb or 0,
        jitter_ns=(link.jitter_ns or 0) * scale,
        reorder_ppb=link.reorder_ppb or 0,
        reorder_delay_ns=(link.reorder_delay_ns or 0) * scale,
    )
