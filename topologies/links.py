# SPDX-License-Identifier: Apache-2.0
"""The keys of links: those that hold for all links, and rules for some of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self, get_args

from dc_gym.base.amount import Size
from dc_gym.base.errors import SpecError
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
from dc_gym.base.units import PPB
from dc_gym.topologies import marking
from dc_gym.topologies.graph import (
    FASTEST_BPS,
    LONGEST_DELAY_NS,
    MarksAt,
)

MARKINGS = marking.KINDS
ANY = "*"
HOST = "host"
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
    def of(cls, **keys: Any) -> Self:
        """Returns the keys, including the keys that kinds declare, by the names of their fields."""
        return section_of(cls, keys)

    def over(self, base: LinkSpec) -> LinkSpec:
        """Returns `base` with its values replaced by the values given here."""
        names = [field.name for field in fields(LinkSpec) if field.name != "thresholds"]
        overrides = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(base, **overrides, thresholds=merged(base.thresholds, self.thresholds))


NOTHING = LinkSpec()


def merged(*pairs: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    """Returns the keys of kinds that several places give; the last place wins."""
    together = {name: value for table in pairs for name, value in table}
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
    rules = []
    for section, rule in entries(tables, "topology.links", LinkRule, {}):
        given_keys = {name for name in ("between", "from", "to") if name in values_of(rule)}
        if not given_keys:
            raise KeyFault(f"{section}.between", None, f"is missing; write {PAIR.example}, or from and to")
        if given_keys not in ({"between"}, {"from", "to"}):
            why = f"names {' and '.join(sorted(given_keys))}; give between alone, or both from and to"
            raise KeyFault(section, None, why)
        rules.append(rule)
    return tuple(rules)


RULES = tables_of("topology.links", LinkRule, _rules, ())


@dataclass(frozen=True, slots=True)
class Node:
    """One end of a link that is to be made: its name, and its layer or 'host'."""

    name: str
    layer: str

    def is_called(self, word: str) -> bool:
        """Returns True if a word names the node, its layer, or any node."""
        return word in (ANY, self.name) or LAYERS.get(word) == self.layer
