# SPDX-License-Identifier: Apache-2.0
"""`[topology]` and `[[topology.links]]`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from dc_gym.base import amount
from dc_gym.base.errors import SpecError
from dc_gym.base.key import (
    AMOUNT,
    ARGS,
    COUNT,
    PATH,
    RATE,
    SHARE_PPB,
    SHARE_PPM,
    TEXT,
    THRESHOLD,
    TIME,
    Kind,
    check,
    entries,
    key,
    tables_of,
)
from dc_gym.base.units import PPB, PPM
from dc_gym.topologies import marking, presets
from dc_gym.topologies.ecmp import ROUTINGS
from dc_gym.topologies.graph import FASTEST_BPS, LONGEST_DELAY_NS
from dc_gym.topologies.links import LinkParams, LinkRule
from dc_gym.topologies.presets import LARGEST_SCALE, TopologyParams


def _pair(value: list[Any]) -> tuple[str, str]:
    if len(value) != 2 or not all(isinstance(word, str) for word in value):
        raise SpecError("between: not two words")
    return value[0], value[1]


_PAIR = Kind((list,), 'two words such as ["leaf", "spine"]', _pair, list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """`[[topology.links]]`: keys for some links. None means not given: the setting of all links applies."""

    between: tuple[str, str] = key(_PAIR)
    rate_bps: int | None = key(RATE, name="rate", low=1, high=FASTEST_BPS)
    delay_ns: int | None = key(TIME, name="delay", low=0, high=LONGEST_DELAY_NS)
    buffer_bytes: amount.Size | None = key(AMOUNT, name="buffer", low=1)
    host_buffer_bytes: amount.Size | None = key(AMOUNT, name="host_buffer", low=1)
    marking: str | None = key(TEXT, names=marking.names)
    k_bytes: amount.Size | None = key(THRESHOLD, low=1)
    kmin_bytes: amount.Size | None = key(THRESHOLD, name="kmin", low=1)
    kmax_bytes: amount.Size | None = key(THRESHOLD, name="kmax", low=1)
    pmax_ppm: int | None = key(SHARE_PPM, name="pmax", low=1, high=PPM)
    loss_ppb: int | None = key(SHARE_PPB, name="loss", low=0, high=PPB)
    jitter_ns: int | None = key(TIME, name="jitter", low=0, high=LONGEST_DELAY_NS)
    reorder_ppb: int | None = key(SHARE_PPB, name="reorder", low=0, high=PPB)
    reorder_delay_ns: int | None = key(TIME, name="reorder_delay", low=0, high=LONGEST_DELAY_NS)

    def rule(self) -> LinkRule:
        """Returns the rule in the form that topologies use."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "between"}
        return LinkRule(self.between, LinkParams(**given))


def _link_specs(tables: list[Any]) -> tuple[LinkSpec, ...]:
    """Returns the entries of [[topology.links]]."""
    needed = {"between": f"write {_PAIR.example}"}
    return tuple(link for _, link in entries(tables, "topology.links", LinkSpec, needed))


_LINKS = tables_of("topology.links", LinkSpec, _link_specs)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySpec:
    """`[topology]`. None means not given: the preset or the default applies."""

    preset: str | None = key(TEXT, names=lambda: presets.PRESETS)
    kind: str | None = key(TEXT, names=lambda: presets.TOPOLOGIES)
    hosts: int | None = key(COUNT, low=2)
    pairs: int | None = key(COUNT, low=1)
    k: int | None = key(COUNT, low=2)
    hops: int | None = key(COUNT, low=1)
    leaves: int | None = key(COUNT, low=1)
    hosts_per_leaf: int | None = key(COUNT, low=1)
    spines: int | None = key(COUNT, low=1)
    uplinks: int | None = key(COUNT, low=1)
    uplink_rate_bps: int | None = key(RATE, name="uplink_rate", low=1, high=FASTEST_BPS)
    nics: int | None = key(COUNT, low=1)
    file: Path | None = key(PATH)
    class_name: str | None = key(TEXT, name="class")
    args: tuple[tuple[str, Any], ...] | None = key(ARGS)
    rate_bps: int | None = key(RATE, name="rate", low=1, high=FASTEST_BPS)
    bottleneck_rate_bps: int | None = key(RATE, name="bottleneck_rate", low=1, high=FASTEST_BPS)
    delay_ns: int | None = key(TIME, name="delay", low=0, high=LONGEST_DELAY_NS)
    buffer_bytes: amount.Size | None = key(AMOUNT, name="buffer", low=1)
    host_buffer_bytes: amount.Size | None = key(AMOUNT, name="host_buffer", low=1)
    host_qdisc: str | None = key(TEXT, names=lambda: presets.HOST_QDISCS)
    marking: str | None = key(TEXT, names=marking.names)
    k_bytes: amount.Size | None = key(THRESHOLD, low=1)
    kmin_bytes: amount.Size | None = key(THRESHOLD, name="kmin", low=1)
    kmax_bytes: amount.Size | None = key(THRESHOLD, name="kmax", low=1)
    pmax_ppm: int | None = key(SHARE_PPM, name="pmax", low=1, high=PPM)
    loss_ppb: int | None = key(SHARE_PPB, name="loss", low=0, high=PPB)
    jitter_ns: int | None = key(TIME, name="jitter", low=0, high=LONGEST_DELAY_NS)
    reorder_ppb: int | None = key(SHARE_PPB, name="reorder", low=0, high=PPB)
    reorder_delay_ns: int | None = key(TIME, name="reorder_delay", low=0, high=LONGEST_DELAY_NS)
    scale: int | None = key(COUNT, low=1, high=LARGEST_SCALE)
    links: tuple[LinkSpec, ...] | None = key(_LINKS)
    routing: str = key(TEXT, "ecmp", names=lambda: ROUTINGS)

    def __post_init__(self) -> None:
        check(self, "topology.")

    def params(self, ecn: bool) -> TopologyParams:
        """Returns the keys in the form that topologies use. `ecn` is True if the controller reads ECN."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("links", "routing")}
        return TopologyParams(ecn=ecn, links=tuple(link.rule() for link in self.links or ()), **given)
