# SPDX-License-Identifier: Apache-2.0
"""The links of a network: the Cable between two nodes follows from the keys of [topology] and the rules for some links.

Queue sizes follow from unscaled rates and round trips. After that the scale s divides rates and multiplies times
(docs/topologies.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

from dc_gym.base import usercode
from dc_gym.base.amount import Amount, Size, in_bytes
from dc_gym.base.errors import TopologyError
from dc_gym.base.key import values_of
from dc_gym.topologies import marking, qdiscs
from dc_gym.topologies.buffers import ClassRule, quanta_of_weights
from dc_gym.topologies.graph import (
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
    Trim,
    Way,
    require_queue_size,
)
from dc_gym.topologies.links import HOST, NOTHING, LinkSpec, Node
from dc_gym.topologies.topology_spec import ONLY_CLASS, TRIMMED, TopologySpec


@dataclass(frozen=True)
class Wiring:
    """Determines the rates, delays, queues and impairments of a network's links from the keys of [topology]."""

    spec: TopologySpec
    ecn: bool = False
    """True if the controller reads ECN. It decides the meaning of marking 'auto'."""
    rtt_ns: int | None = None
    """The base round trip before scaling, in ns, for amounts in BDPs. None means not known."""
    measuring: bool = False
    """True if only rates and delays matter: no scale, and queues of one frame."""

    @cached_property
    def links(self) -> LinkSpec:
        """The keys that hold for all links."""
        return LinkSpec(**{key.name: getattr(self.spec, key.name) for key in fields(LinkSpec)})

    @property
    def in_bdps(self) -> bool:
        """True if some amount needs the base round trip."""
        values = [value for link in (self.links, *(self.spec.links or ())) for value in values_of(link).values()]
        return any(isinstance(value, Amount) and value.unit == "bdp" for value in values)

    @cached_property
    def _scale(self) -> int:
        return self.spec.scale or 1

    @cached_property
    def _switch_qdisc(self) -> str:
        return self.spec.qdisc or "port"

    @cached_property
    def _host_qdisc(self) -> QueueKind:
        return "fq" if self.spec.host_qdisc == "fq" else "bfifo"

    @cached_property
    def _classes(self) -> tuple[ClassRule, ...]:
        """The classes of all ports; none: one that has all packets."""
        return self.spec.classes or ()

    def cable(self, a: tuple[Node, str], b: tuple[Node, str], link_spec: LinkSpec = NOTHING) -> Cable:
        """Returns the link between two nodes.

        Args:
            a: A node, and the name of its port.
            b: The other.
            link_spec: What the topology says of this link.
        """
        links = self._link(a[0], b[0], link_spec), self._link(b[0], a[0], link_spec)
        ports = [
            Port(node.name, ifname, self._queue(link, node, ifname, _given(link.rate_bps, "rate")))
            for link, (node, ifname) in zip(links, (a, b), strict=True)
        ]
        there, back = (self._way(link) for link in links)
        return Cable(ports[0], ports[1], there.rate_bps, there.delay_ns, there.impairment, None if there == back else back)

    def _way(self, link: LinkSpec) -> Way:
        rate_bps, delay_ns = _given(link.rate_bps, "rate"), _given(link.delay_ns, "delay")
        scale = 1 if self.measuring else self._scale
        return Way(max(1, rate_bps // scale), delay_ns * scale, _impairment(link, scale))

    def missing(self, a: Node, b: Node, link_spec: LinkSpec = NOTHING) -> list[str]:
        """Returns the keys that a link between two nodes needs, and that neither the link nor the spec gives.

        Args:
            a: A node.
            b: The other.
            link_spec: What the topology says of this link.
        """
        missing_keys = []
        for node, other in ((a, b), (b, a)):
            link = self._link(node, other, link_spec)
            needed = ["rate", "delay"]
            if node.layer != HOST:
                marking_kind = marking.KINDS[marking.resolve(link.marking, self.ecn)]
                needed += ["buffer", *(marking_kind.needs() if self._switch_qdisc in qdiscs.OURS else ())]
            elif link.host_buffer_bytes is None:
                needed.append("buffer")
            given_keys = values_of(link)
            missing_keys += [name for name in needed if name not in given_keys]
        return list(dict.fromkeys(missing_keys))

    def _link(self, a: Node, b: Node, link_spec: LinkSpec) -> LinkSpec:
        """Returns all keys that hold for frames from a to b over a link."""
        link = link_spec.over(self.links)
        for rule in self.spec.links or ():
            if rule.matches(a, b):
                link = rule.over(link)
        return link

    def _queue(self, link: LinkSpec, node: Node, ifname: str, rate_bps: int) -> Queue:
        if self.measuring:
            return Queue(self.spec.frame_bytes)
        try:
            return self._queue_of(link, node, rate_bps)
        except TopologyError as error:
            raise TopologyError(str(error) if str(error).startswith("topology.") else f"{ifname}: {error}") from None

    def _queue_of(self, link: LinkSpec, node: Node, rate_bps: int) -> Queue:
        if node.layer == HOST:
            return self._host_queue(link, rate_bps)
        limit_bytes = self._bytes(link.buffer_bytes, "buffer", rate_bps)
        if self._switch_qdisc not in qdiscs.OURS:
            return self._linux_queue(link, limit_bytes)
        if self._classes or self.spec.shared_buffer_bytes is not None or self.spec.trim_bytes is not None:
            return self._trimming(_classful(tuple(self._queue_classes(link, rate_bps, limit_bytes))))
        marks = self._marking(link, rate_bps, limit_bytes)
        return Queue(limit_bytes, self._switch_queue(marks), marks)

    def _linux_queue(self, link: LinkSpec, limit_bytes: int) -> Queue:
        """Returns a queue of Linux' own, which has its own marking."""
        for name in ("marking", "marks_at"):
            value = getattr(link, name)
            if value not in (None, marking.AUTO, "none"):
                why = f'is of ports with topology.qdisc = "port", and {self._switch_qdisc!r} marks by rules of its own'
                raise TopologyError(f"topology.{name}: value {value!r} {why}; leave one out")
        port = qdiscs.QdiscContext(limit_bytes, self.ecn, self._scale, self.spec.frame_bytes)
        settings = qdiscs.settings(self._switch_qdisc, self.spec.qdisc_keys, port)
        return Queue(limit_bytes, cast(QueueKind, self._switch_qdisc), settings=settings)

    def _host_queue(self, link: LinkSpec, rate_bps: int) -> Queue:
        """Returns a host's queue. A queue that may be paused has the classes of switches, and counts how long it was paused."""
        same = link.host_buffer_bytes in (None, link.buffer_bytes)
        size = link.buffer_bytes if same else link.host_buffer_bytes
        limit_bytes = self._bytes(size, "buffer" if same else "host_buffer", rate_bps)
        if not self._classes and not self.spec.pauses:
            return Queue(limit_bytes, self._host_qdisc, packet_bytes=self.spec.frame_bytes)
        if not self._classes and self._host_qdisc != "bfifo":
            return Queue(limit_bytes, self._host_qdisc, packet_bytes=self.spec.frame_bytes)  # a pause stops it as a whole
        if self._host_qdisc != "bfifo":
            raise TopologyError(
                f"topology.host_qdisc: value {self._host_qdisc!r} has no classes; leave it out, or topology.classes"
            )
        rules = self._rules()
        quanta = quanta_of_weights(rules, self.spec.frame_bytes)
        return _classful(tuple(QueueClass(rule.name, rule.dscp, limit_bytes, NO_MARKING, quanta[rule.name]) for rule in rules))

    def _rules(self) -> tuple[ClassRule, ...]:
        """Returns the classes of a port; where none are given, one that has all packets."""
        return self._classes or (ClassRule(name=ONLY_CLASS, dscp=(), lossless=self.spec.pauses),)

    def _queue_classes(self, link: LinkSpec, rate_bps: int, limit_bytes: int) -> Iterator[QueueClass]:
        """Yields the classes of a switch port."""
        rules = self._rules()
        quanta = quanta_of_weights(rules, self.spec.frame_bytes)
        for number, rule in enumerate(rules):
            class_link = LinkSpec(marking=rule.marking, thresholds=rule.thresholds).over(link)
            room = (
                limit_bytes
                if rule.buffer_bytes is None
                else self._bytes(rule.buffer_bytes, f"classes[{number}].buffer", rate_bps)
            )
            yield QueueClass(
                rule.name,
                rule.dscp,
                room,
                self._marking(class_link, rate_bps, room),
                quanta[rule.name],
                self.spec.reserve_bytes or 0,
                round((1.0 if self.spec.alpha is None else self.spec.alpha) * 2**16),
                bool(rule.lossless),
            )

    def _trimming(self, queue: Queue) -> Queue:
        """Returns the queue of a port that trims, if ports do. Trimmed frames may take all free room of a pool."""
        size, dscp = self.spec.trim_bytes, self.spec.trimmed_dscp
        if size is None:
            return queue
        reserve_bytes = self.spec.reserve_bytes or 0
        own = QueueClass(TRIMMED, (dscp,), self.spec.trim_room_bytes, reserve_bytes=reserve_bytes, alpha_2_16=2**32 - 1)
        return replace(queue, classes=(*queue.classes, own), trim=Trim(size, len(queue.classes), dscp))

    def _switch_queue(self, marks: Marking) -> QueueKind:
        if self._switch_qdisc == "port" and marks.kind in QUEUE_MARKINGS["port"]:
            return "port"
        return "bfifo" if marks.kind == "none" else "red"

    def _marking(self, link: LinkSpec, rate_bps: int, limit_bytes: int) -> Marking:
        entry = marking.KINDS[marking.resolve(link.marking, self.ecn)]
        if missing_keys := entry.lacking(dict(link.thresholds)):
            why = f"marking {entry.name!r} needs it"
            raise TopologyError(f"topology.{missing_keys[0]} is missing: {why}; give it, or name a topology.preset")
        values = {name: self._at_port(value, rate_bps) for name, value in link.thresholds}
        answer: object = entry.call(marking.MarkingContext(rate_bps, limit_bytes), *entry.arguments(values, "topology."))
        if not isinstance(answer, Marking):
            fault = f"topology.marking {entry.name!r}: its function gives {usercode.shown(answer)}"
            raise TopologyError(f"{fault} instead of a Marking; return one")
        if answer.bandwidth_bps:
            answer = replace(answer, bandwidth_bps=max(1, answer.bandwidth_bps // self._scale))
        return replace(answer, at=self._marks_at(link, answer))

    def _marks_at(self, link: LinkSpec, port_marking: Marking) -> MarksAt:
        """Returns the moment at which a port marks. Stock queues mark arrivals alone."""
        if link.marks_at == "arrival" or (link.marks_at is None and self._switch_queue(port_marking) != "port"):
            return "arrival"
        if link.marks_at is None:
            return port_marking.at
        if self._switch_queue(port_marking) != "port":
            why = f"marking {port_marking.kind!r}" if self._switch_qdisc == "port" else 'topology.qdisc = "stock"'
            raise TopologyError(f"topology.marks_at: value 'departure' cannot go with {why}, which marks arrivals; leave it out")
        return "departure"

    def _at_port(self, value: Any, rate_bps: int) -> Any:
        """Returns a key's value at a port of that rate: an amount becomes bytes."""
        return in_bytes(value, rate_bps, self.rtt_ns, self.spec.frame_bytes) if isinstance(value, Amount) else value

    def _bytes(self, value: Size | None, name: str, rate_bps: int) -> int:
        """Returns the size of a queue, by the name of the key that gives it."""
        size = in_bytes(_given(value, name), rate_bps, self.rtt_ns, self.spec.frame_bytes)
        require_queue_size(f"topology.{name}", size, self.spec.frame_bytes)
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
