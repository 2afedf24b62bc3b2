# SPDX-License-Identifier: Apache-2.0
"""The keys of links: keys for all links, and rules for some links. They give the Cable.

Queue sizes follow from unscaled rates and round trips. After that the scale s divides rates and multiplies times
(docs/topologies.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self, cast, get_args

from dc_gym.base import usercode
from dc_gym.base.amount import Amount, Size, in_bytes
from dc_gym.base.errors import SpecError, TopologyError
from dc_gym.base.key import (
    AMOUNT,
    RATE,
    SHARE_PPB,
    TEXT,
    TIME,
    KeyFault,
    Kind,
    entries,
    key,
    own_keys,
    section_of,
    tables_of,
    values_of,
)
from dc_gym.base.units import FRAME_BYTES, PPB
from dc_gym.topologies import marking, qdiscs
from dc_gym.topologies.buffers import ClassRule, quanta_of_weights
from dc_gym.topologies.graph import (
    FASTEST_BPS,
    LONGEST_DELAY_NS,
    NO_MARKING,
    QUEUE_MARKINGS,
    Cable,
    Impairment,
    Marking,
    MarksAt,
    Port,
    Queue,
    QueueClass,
    QueueKind,
    Way,
    require_queue_size,
)

MARKINGS = marking.KINDS
ANY = "*"
HOST = "host"
ONLY_CLASS = "all"
"""The name of the class of all packets, where a network has no others."""
MARKS_AT: tuple[str, ...] = get_args(MarksAt)
LAYERS = {"host": "host", "edge": "edge", "leaf": "edge", "tor": "edge", "agg": "agg", "core": "core", "spine": "core"}
"""Names of layers in [[topology.links]]."""


def link_rate(help: str, otherwise: str = "") -> Any:
    """Declares a rate of links.

    Args:
        help: The meaning of the key.
        otherwise: The rule without the key.
    """
    return key(RATE, low=1, high=FASTEST_BPS, otherwise=otherwise, help=help)


def link_time(help: str, otherwise: str = "") -> Any:
    """Declares a time on links.

    Args:
        help: The meaning of the key.
        otherwise: The rule without the key.
    """
    return key(TIME, low=0, high=LONGEST_DELAY_NS, otherwise=otherwise, help=help)


def middle_rate() -> Any:
    """Declares the key bottleneck_rate of kinds whose switches stand in a row."""
    return link_rate("rate of the links between switches", "`rate`")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """The keys of a link. None means not given."""

    rate_bps: int | None = link_rate("line rate of every link, in both directions")
    delay_ns: int | None = link_time("propagation delay of every link, in both directions", '`mininet`: `"0ns"`')
    buffer_bytes: Size | None = key(
        AMOUNT,
        low=1,
        help='queue limit of a switch port: bytes (`"400kB"`), full frames (`"100p"`, 1514 B each unless `mtu` is another) or '
        'bandwidth-delay products (`"2bdp"`, of the port\'s rate and the [base round trip](topologies.md#buffers))',
    )
    host_buffer_bytes: Size | None = key(AMOUNT, low=1, otherwise="`buffer`", help="queue limit of a host's egress")
    marking: str | None = key(
        TEXT, names=marking.names, otherwise='`"auto"`', help="[ECN marking](topologies.md#marking) of switch ports"
    )
    marks_at: str | None = key(
        TEXT,
        names=lambda: MARKS_AT,
        otherwise="the marking's own",
        help="the moment at which a switch port marks a packet: its `arrival`, by the queue that it finds, or its `departure`, by"
        " the queue that it leaves behind ([who marks when](topologies.md#marking))",
    )
    loss_ppb: int | None = key(
        SHARE_PPB,
        low=0,
        high=PPB,
        otherwise="0",
        help="share of frames that every link loses in each direction ([impairments](topologies.md#loss-jitter-reordering))",
    )
    jitter_ns: int | None = link_time("maximum extra delay of a frame, drawn uniformly; frames stay in order", '`"0ns"`')
    reorder_ppb: int | None = key(
        SHARE_PPB,
        low=0,
        high=PPB,
        otherwise="0",
        help="share of frames that travel `reorder_delay` longer, so that later frames overtake them",
    )
    reorder_delay_ns: int | None = link_time("extra delay of a reordered frame")
    thresholds: tuple[tuple[str, Any], ...] = own_keys(MARKINGS)
    """The keys that markings declare, as the file gives them."""

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Returns the keys, including the keys that kinds declare, by the names of their fields."""
        return section_of(cls, given)

    def over(self, base: LinkSpec) -> LinkSpec:
        """Returns `base` with its values replaced by the values given here."""
        names = [each.name for each in fields(LinkSpec) if each.name != "thresholds"]
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(base, **given, thresholds=merged(base.thresholds, self.thresholds))


NOTHING = LinkSpec()


def merged(*pairs: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    """Returns the keys of kinds that several places give; the last place wins."""
    together = {name: value for each in pairs for name, value in each}
    return tuple(sorted(together.items()))


def _pair(value: list[Any]) -> tuple[str, str]:
    if len(value) != 2 or not all(isinstance(word, str) for word in value):
        raise SpecError("between: not two names")
    return value[0], value[1]


PAIR = Kind((list,), 'two words such as ["leaf", "spine"]', _pair, list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRule(LinkSpec):
    """An entry of `[[topology.links]]`: keys for the links between two nodes, or the nodes of two layers.

    They hold in either direction (`between`), or for the frames that the nodes at one end send (`from` and `to`).
    """

    between: tuple[str, str] | None = key(PAIR, help="names of nodes, names of layers, or `*`; in both directions")
    sender: str | None = key(TEXT, name="from", help="in place of `between`: the end that sends, by such a name; with `to`")
    receiver: str | None = key(TEXT, name="to", help="the other end")

    def ends(self) -> tuple[str, str]:
        """Returns the two words that select its links."""
        return self.between or (self.sender or "", self.receiver or "")

    def matches(self, a: Node, b: Node) -> bool:
        """Returns True if it holds for frames from a to b.

        Args:
            a: The sender.
            b: The receiver.
        """
        first, second = self.ends()
        there = a.is_called(first) and b.is_called(second)
        return there or (self.between is not None and a.is_called(second) and b.is_called(first))

    def told(self) -> str:
        """Returns which links it names, as a spec has it."""
        return f"between = {list(self.between)}" if self.between else f"from = {self.sender!r}, to = {self.receiver!r}"


def _rules(tables: list[Any]) -> tuple[LinkRule, ...]:
    """Returns the entries of [[topology.links]]."""
    found = []
    for section, rule in entries(tables, "topology.links", LinkRule, {}):
        given = {name for name in ("between", "from", "to") if name in values_of(rule)}
        if not given:
            raise KeyFault(f"{section}.between", None, f"is missing; write {PAIR.example}, or from and to")
        if given not in ({"between"}, {"from", "to"}):
            why = f"names {' and '.join(sorted(given))}; give between alone, or both from and to"
            raise KeyFault(section, None, why)
        found.append(rule)
    return tuple(found)


RULES = tables_of("topology.links", LinkRule, _rules, ())


@dataclass(frozen=True, slots=True)
class Node:
    """One end of a link that is to be made: its name, and its layer or 'host'."""

    name: str
    layer: str

    def is_called(self, word: str) -> bool:
        """Returns True if a word names the node, its layer, or any node."""
        return word in (ANY, self.name) or LAYERS.get(word) == self.layer


@dataclass(frozen=True, slots=True)
class Wiring:
    """Determines the rates, delays, queues and impairments of a network's links."""

    links: LinkSpec
    rules: tuple[LinkRule, ...] = ()
    host_qdisc: QueueKind = "bfifo"
    switch_qdisc: str = "port"
    """The queues of switch ports: one of qdiscs.KINDS."""
    switch_qdisc_keys: tuple[tuple[str, Any], ...] = ()
    """Their keys, as the file gives them."""
    ecn: bool = False
    """True if the controller reads ECN. It decides the meaning of marking 'auto'."""
    scale: int = 1
    frame_bytes: int = FRAME_BYTES
    """A full frame."""
    rtt_ns: int | None = None
    """The base round trip before scaling, in ns, for amounts in BDPs. None means not known."""
    classes: tuple[ClassRule, ...] = ()
    """The classes of all ports; none: one that has all packets."""
    pooled: bool = False
    """True if the ports of a switch share a buffer."""
    lossless: bool = False
    """True if a network without classes pauses instead of dropping."""
    alpha: float = 1.0
    reserve_bytes: int = 0
    measuring: bool = False
    """True if only rates and delays matter: no scale, and queues of one frame."""

    def cable(self, a: tuple[Node, str], b: tuple[Node, str], own: LinkSpec = NOTHING) -> Cable:
        """Returns the link between two nodes.

        Args:
            a: A node, and the name of its port.
            b: The other.
            own: The keys that the topology gives for this link.
        """
        links = self._link(a[0], b[0], own), self._link(b[0], a[0], own)
        ports = [
            Port(node.name, ifname, self._queue(link, node, ifname, _given(link.rate_bps, "rate")))
            for link, (node, ifname) in zip(links, (a, b), strict=True)
        ]
        there, back = (self._way(link) for link in links)
        return Cable(ports[0], ports[1], there.rate_bps, there.delay_ns, there.impairment, None if there == back else back)

    def _way(self, link: LinkSpec) -> Way:
        rate_bps, delay_ns = _given(link.rate_bps, "rate"), _given(link.delay_ns, "delay")
        scale = 1 if self.measuring else self.scale
        return Way(max(1, rate_bps // scale), delay_ns * scale, _impairment(link, scale))

    def missing(self, a: Node, b: Node, own: LinkSpec = NOTHING) -> list[str]:
        """Returns the keys that a link between two nodes needs, and that neither the link nor the spec gives.

        Args:
            a: A node.
            b: The other.
            own: The keys that the topology gives for this link.
        """
        found = []
        for node, other in ((a, b), (b, a)):
            link = self._link(node, other, own)
            needed = ["rate", "delay"]
            if node.layer != HOST:
                marks = marking.KINDS[marking.resolve(link.marking, self.ecn)]
                needed += ["buffer", *(marks.needs() if self.switch_qdisc in qdiscs.OURS else ())]
            elif link.host_buffer_bytes is None:
                needed.append("buffer")
            given = values_of(link)
            found += [name for name in needed if name not in given]
        return list(dict.fromkeys(found))

    def _link(self, a: Node, b: Node, own: LinkSpec) -> LinkSpec:
        """Returns all keys that hold for frames from a to b over a link."""
        link = own.over(self.links)
        for rule in self.rules:
            if rule.matches(a, b):
                link = rule.over(link)
        return link

    def _queue(self, link: LinkSpec, node: Node, ifname: str, rate_bps: int) -> Queue:
        if self.measuring:
            return Queue(self.frame_bytes)
        try:
            return self._queue_of(link, node, rate_bps)
        except TopologyError as error:
            raise TopologyError(str(error) if str(error).startswith("topology.") else f"{ifname}: {error}") from None

    def _queue_of(self, link: LinkSpec, node: Node, rate_bps: int) -> Queue:
        if node.layer == HOST:
            return self._host_queue(link, rate_bps)
        limit_bytes = self._bytes(link.buffer_bytes, "buffer", rate_bps)
        if self.switch_qdisc not in qdiscs.OURS:
            return self._linux_queue(link, limit_bytes)
        if self.classes or self.pooled:
            return _classful(tuple(self._classes(link, rate_bps, limit_bytes)))
        marks = self._marking(link, rate_bps, limit_bytes)
        return Queue(limit_bytes, self._switch_queue(marks), marks)

    def _linux_queue(self, link: LinkSpec, limit_bytes: int) -> Queue:
        """Returns a queue of Linux' own, which has its own marking."""
        for name in ("marking", "marks_at"):
            value = getattr(link, name)
            if value not in (None, marking.AUTO, "none"):
                why = f'is of ports with topology.qdisc = "port", and {self.switch_qdisc!r} marks by rules of its own'
                raise TopologyError(f"topology.{name}: value {value!r} {why}; leave one out")
        port = qdiscs.QdiscContext(limit_bytes, self.ecn, self.scale, self.frame_bytes)
        made = qdiscs.settings(self.switch_qdisc, self.switch_qdisc_keys, port)
        return Queue(limit_bytes, cast(QueueKind, self.switch_qdisc), settings=made)

    def _host_queue(self, link: LinkSpec, rate_bps: int) -> Queue:
        """Returns a host's queue. A queue that may be paused has the classes of switches, and counts how long it was paused."""
        same = link.host_buffer_bytes in (None, link.buffer_bytes)
        given = link.buffer_bytes if same else link.host_buffer_bytes
        limit_bytes = self._bytes(given, "buffer" if same else "host_buffer", rate_bps)
        if not self.classes and not self.lossless:
            return Queue(limit_bytes, self.host_qdisc, packet_bytes=self.frame_bytes)
        if not self.classes and self.host_qdisc != "bfifo":
            return Queue(limit_bytes, self.host_qdisc, packet_bytes=self.frame_bytes)  # a pause stops it as a whole
        if self.host_qdisc != "bfifo":
            raise TopologyError(
                f"topology.host_qdisc: value {self.host_qdisc!r} has no classes; leave it out, or topology.classes"
            )
        rules = self._rules()
        quanta = quanta_of_weights(rules, self.frame_bytes)
        return _classful(tuple(QueueClass(each.name, each.dscp, limit_bytes, NO_MARKING, quanta[each.name]) for each in rules))

    def _rules(self) -> tuple[ClassRule, ...]:
        """Returns the classes of a port; where none are given, one that has all packets."""
        return self.classes or (ClassRule(name=ONLY_CLASS, dscp=(), lossless=self.lossless),)

    def _classes(self, link: LinkSpec, rate_bps: int, limit_bytes: int) -> Iterator[QueueClass]:
        """Yields the classes of a switch port."""
        rules = self._rules()
        quanta = quanta_of_weights(rules, self.frame_bytes)
        for number, rule in enumerate(rules):
            own = LinkSpec(marking=rule.marking, thresholds=rule.thresholds).over(link)
            room = (
                limit_bytes
                if rule.buffer_bytes is None
                else self._bytes(rule.buffer_bytes, f"classes[{number}].buffer", rate_bps)
            )
            yield QueueClass(
                rule.name,
                rule.dscp,
                room,
                self._marking(own, rate_bps, room),
                quanta[rule.name],
                self.reserve_bytes,
                round(self.alpha * 2**16),
                bool(rule.lossless),
            )

    def _switch_queue(self, marks: Marking) -> QueueKind:
        if self.switch_qdisc == "port" and marks.kind in QUEUE_MARKINGS["port"]:
            return "port"
        return "bfifo" if marks.kind == "none" else "red"

    def _marking(self, link: LinkSpec, rate_bps: int, limit_bytes: int) -> Marking:
        entry = marking.KINDS[marking.resolve(link.marking, self.ecn)]
        if lacking := entry.lacking(dict(link.thresholds)):
            why = f"marking {entry.name!r} needs it"
            raise TopologyError(f"topology.{lacking[0]} is missing: {why}; give it, or name a topology.preset")
        own = {name: self._at_port(value, rate_bps) for name, value in link.thresholds}
        made: object = entry.call(marking.MarkingContext(rate_bps, limit_bytes), *entry.arguments(own, "topology."))
        if not isinstance(made, Marking):
            what = f"topology.marking {entry.name!r}: its function gives {usercode.shown(made)}"
            raise TopologyError(f"{what} instead of a Marking; return one")
        if made.bandwidth_bps:
            made = replace(made, bandwidth_bps=max(1, made.bandwidth_bps // self.scale))
        return replace(made, at=self._marks_at(link, made))

    def _marks_at(self, link: LinkSpec, made: Marking) -> MarksAt:
        """Returns the moment at which a port marks. Stock queues mark arrivals alone."""
        if link.marks_at == "arrival" or (link.marks_at is None and self._switch_queue(made) != "port"):
            return "arrival"
        if link.marks_at is None:
            return made.at
        if self._switch_queue(made) != "port":
            why = f"marking {made.kind!r}" if self.switch_qdisc == "port" else 'topology.qdisc = "stock"'
            raise TopologyError(f"topology.marks_at: value 'departure' cannot go with {why}, which marks arrivals; leave it out")
        return "departure"

    def _at_port(self, value: Any, rate_bps: int) -> Any:
        """Returns a key's value at a port of that rate: an amount becomes bytes."""
        return in_bytes(value, rate_bps, self.rtt_ns, self.frame_bytes) if isinstance(value, Amount) else value

    def _bytes(self, value: Size | None, name: str, rate_bps: int) -> int:
        """Returns the size of a queue, by the name of the key that gives it."""
        size = in_bytes(_given(value, name), rate_bps, self.rtt_ns, self.frame_bytes)
        require_queue_size(f"topology.{name}", size, self.frame_bytes)
        return size


def _classful(classes: tuple[QueueClass, ...]) -> Queue:
    """Returns a `port` with classes: its limit and marking are the first class's."""
    return Queue(classes[0].limit_bytes, "port", classes[0].marking, classes=classes)


def _given(value: Any, name: str) -> Any:
    if value is None:
        raise TopologyError(f"topology.{name} is missing; give it, or name a topology.preset")
    return value


def _impairment(link: LinkSpec, scale: int) -> Impairment:
    return Impairment(
        loss_ppb=link.loss_ppb or 0,
        jitter_ns=(link.jitter_ns or 0) * scale,
        reorder_ppb=link.reorder_ppb or 0,
        reorder_delay_ns=(link.reorder_delay_ns or 0) * scale,
    )
