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
        raise SpecError("between: not two names")
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
    """`[topology]`: the network, as a preset or a kind with its keys.

    None means not given: the preset or the default applies.
    """

    preset: str | None = key(
        TEXT, names=lambda: presets.PRESETS, help="one of [the presets](topologies.md#presets); the keys below override it"
    )
    kind: str | None = key(
        TEXT, names=lambda: presets.TOPOLOGIES, help="needed without a preset; a [plug-in](topologies.md#a-plug-in) may add kinds"
    )
    hosts: int | None = key(COUNT, low=2, help="`single`: hosts on the switch")
    pairs: int | None = key(COUNT, low=1, help="`dumbbell`: hosts on each side")
    k: int | None = key(COUNT, low=2, help="`fattree`: ports per switch, an even number, at most 16")
    hops: int | None = key(COUNT, low=1, help="`parkinglot`: links between switches, at most 64")
    leaves: int | None = key(COUNT, low=1, help="`leafspine`: leaves (ToRs)")
    hosts_per_leaf: int | None = key(COUNT, low=1, help="`leafspine`: ports of a leaf that lead to hosts")
    spines: int | None = key(COUNT, low=1, help="`leafspine`: spines")
    uplinks: int | None = key(COUNT, low=1, otherwise="1", help="`leafspine`: parallel links between each leaf and spine")
    uplink_rate_bps: int | None = key(
        RATE,
        name="uplink_rate",
        low=1,
        high=FASTEST_BPS,
        otherwise="`rate`",
        help="`leafspine`: rate of a link between leaf and spine",
    )
    nics: int | None = key(
        COUNT,
        low=1,
        otherwise="1",
        help="`leafspine`: ports per host, each to another leaf and in a [plane](topologies.md#planes) of its own",
    )
    file: Path | None = key(
        PATH, help="`mininet`: path of the Python file, relative to the spec ([your Topo](topologies.md#a-mininet-topo))"
    )
    class_name: str | None = key(
        TEXT, name="class", otherwise="the only one", help="`mininet`: name of the `Topo` subclass in the file"
    )
    args: tuple[tuple[str, Any], ...] | None = key(ARGS, otherwise="none", help="`mininet`: keyword arguments of its constructor")
    rate_bps: int | None = key(RATE, name="rate", low=1, high=FASTEST_BPS, help="line rate of every link, in both directions")
    bottleneck_rate_bps: int | None = key(
        RATE,
        name="bottleneck_rate",
        low=1,
        high=FASTEST_BPS,
        otherwise="`rate`",
        help="`dumbbell`, `parkinglot`: rate of the links between switches; `single`: rate of the last host's link",
    )
    delay_ns: int | None = key(
        TIME,
        name="delay",
        low=0,
        high=LONGEST_DELAY_NS,
        otherwise='`mininet`: `"0ns"`',
        help="propagation delay of every link, in both directions",
    )
    buffer_bytes: amount.Size | None = key(
        AMOUNT,
        name="buffer",
        low=1,
        help='queue limit of a switch port: bytes (`"400kB"`), full frames (`"100p"`, 1514 B each) or bandwidth-delay '
        'products (`"2bdp"`, of the port\'s rate and the [base round trip](topologies.md#buffers))',
    )
    host_buffer_bytes: amount.Size | None = key(
        AMOUNT, name="host_buffer", low=1, otherwise="`buffer`", help="queue limit of a host's egress"
    )
    host_qdisc: str | None = key(TEXT, names=lambda: presets.HOST_QDISCS, otherwise='`"bfifo"`', help="qdisc of a host's egress")
    marking: str | None = key(
        TEXT, names=marking.names, otherwise='`"auto"`', help="[ECN marking](topologies.md#marking) of switch ports"
    )
    k_bytes: amount.Size | None = key(
        THRESHOLD,
        low=1,
        otherwise="preset",
        help="threshold of `step`, in frame bytes, or an amount as for `buffer`; under `auto` it applies only where "
        "`auto` chooses `step`",
    )
    kmin_bytes: amount.Size | None = key(
        THRESHOLD, name="kmin", low=1, help="`red-instant`: queue length at which marking starts"
    )
    kmax_bytes: amount.Size | None = key(
        THRESHOLD, name="kmax", low=1, help="`red-instant`: queue length from which every packet is marked"
    )
    pmax_ppm: int | None = key(
        SHARE_PPM,
        name="pmax",
        low=1,
        high=PPM,
        help="`red-instant`: marking probability just below `kmax`; it also applies to `secn1`, `secn2` and `acc-vendor`",
    )
    loss_ppb: int | None = key(
        SHARE_PPB,
        name="loss",
        low=0,
        high=PPB,
        otherwise="0",
        help="share of frames that every link loses in each direction ([impairments](topologies.md#loss-jitter-reordering))",
    )
    jitter_ns: int | None = key(
        TIME,
        name="jitter",
        low=0,
        high=LONGEST_DELAY_NS,
        otherwise='`"0ns"`',
        help="maximum extra delay of a frame, drawn uniformly; frames stay in order",
    )
    reorder_ppb: int | None = key(
        SHARE_PPB,
        name="reorder",
        low=0,
        high=PPB,
        otherwise="0",
        help="share of frames that travel `reorder_delay` longer, so that later frames overtake them",
    )
    reorder_delay_ns: int | None = key(
        TIME, name="reorder_delay", low=0, high=LONGEST_DELAY_NS, help="extra delay of a reordered frame"
    )
    scale: int | None = key(
        COUNT,
        low=1,
        high=LARGEST_SCALE,
        otherwise="1",
        help="s: divides rates and multiplies delays by s; queues keep their bytes ([what is not "
        "scale-free](topologies.md#scale))",
    )
    links: tuple[LinkSpec, ...] | None = key(_LINKS, help="[other values for some links](topologies.md#some-links)")
    routing: str = key(
        TEXT,
        "ecmp",
        names=lambda: ROUTINGS,
        help="choice among equally short paths: `ecmp` (seeded hash buckets of the ports), or `single` (one path to each "
        "host; paths are assigned round-robin)",
    )

    def __post_init__(self) -> None:
        check(self, "topology.")

    def params(self, ecn: bool) -> TopologyParams:
        """Returns the keys in the form that topologies use. `ecn` is True if the controller reads ECN."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("links", "routing")}
        return TopologyParams(ecn=ecn, links=tuple(link.rule() for link in self.links or ()), **given)
