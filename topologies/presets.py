# SPDX-License-Identifier: Apache-2.0
"""Turns the keys of [topology] into a Graph. Contains the registry of topologies and the named presets.

To add a topology, write a file with a `build` function and one `register` call, at the end of this file or in a plug-in. Integers
are bit/s, ns and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.amount import Amount, Size
from dc_gym.base.errors import TopologyError
from dc_gym.base.spelling import unknown
from dc_gym.base.units import FRAME_BYTES
from dc_gym.topologies import dumbbell, fattree, leafspine, marking, mininet_topo, parkinglot, single
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.links import LinkParams, LinkRule, Node, Wiring, key_of, resolve_marking
from dc_gym.topologies.paths import base_rtt_ns

HOST_QDISCS = ("bfifo", "fq")
MBIT, GBIT = 10**6, 10**9
LARGEST_SCALE = 10**6
MARKING_KEYS = ("k_bytes", "kmin_bytes", "kmax_bytes", "pmax_ppm")
_MAY_BE_ZERO = ("delay_ns", "loss_ppb", "jitter_ns", "reorder_ppb", "reorder_delay_ns")


@dataclass(frozen=True, slots=True)
class TopologyParams:
    """The keys of [topology] (docs/spec.md), parsed. None means not given."""

    preset: str | None = None
    kind: str | None = None
    hosts: int | None = None  # single
    pairs: int | None = None  # dumbbell: hosts on each side
    k: int | None = None  # fattree: ports of a switch
    hops: int | None = None  # parkinglot
    leaves: int | None = None  # leafspine, like the five below
    hosts_per_leaf: int | None = None
    spines: int | None = None
    uplinks: int | None = None
    uplink_rate_bps: int | None = None
    nics: int | None = None
    file: Path | None = None  # mininet, like the two below
    class_name: str | None = None
    args: tuple[tuple[str, Any], ...] | None = None
    rate_bps: int | None = None
    bottleneck_rate_bps: int | None = None  # dumbbell, parkinglot: middle links; single: last host's; None: rate_bps
    delay_ns: int | None = None
    buffer_bytes: Size | None = None
    host_buffer_bytes: Size | None = None  # None: buffer_bytes
    host_qdisc: str | None = None  # None: bfifo
    marking: str | None = None  # None: auto
    k_bytes: Size | None = None
    kmin_bytes: Size | None = None
    kmax_bytes: Size | None = None
    pmax_ppm: int | None = None
    loss_ppb: int | None = None
    jitter_ns: int | None = None
    reorder_ppb: int | None = None
    reorder_delay_ns: int | None = None
    links: tuple[LinkRule, ...] = ()
    scale: int | None = None  # None: 1
    ecn: bool = False  # True if the controller reads ECN; it decides what marking 'auto' stands for

    def __post_init__(self) -> None:
        for each in fields(self):
            value, smallest = getattr(self, each.name), 0 if each.name in _MAY_BE_ZERO else 1
            if type(value) is int and value < smallest:
                raise TopologyError(f"{key_of(each.name)}: value {value} is below {smallest}; give {smallest} or more")
        _known("topology.preset", self.preset, PRESETS)
        _known("topology.kind", self.kind, TOPOLOGIES)
        _known("topology.host_qdisc", self.host_qdisc, HOST_QDISCS)
        _known("topology.marking", self.marking, marking.names())
        for rule in self.links:
            _known("topology.links: marking", rule.params.marking, marking.names())

    def link_params(self) -> LinkParams:
        """Returns the keys that hold for every link."""
        return LinkParams(**{each.name: getattr(self, each.name) for each in fields(LinkParams)})


@dataclass(frozen=True, slots=True)
class Topology:
    """A registered topology: the function that builds it, and the keys of its shape."""

    name: str
    build: Callable[..., Graph]
    required: tuple[str, ...]
    optional: tuple[str, ...]


TOPOLOGIES: dict[str, Topology] = {}
PRESETS: dict[str, TopologyParams] = {}
ORIGINS: dict[str, str] = {}
"""The origin of each preset's numbers, in Markdown."""


def register(name: str, build: Callable[..., Graph], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Registers `build(wiring, **shape)` as a value of topology.kind. The keys of the shape are fields of TopologyParams."""
    if name in TOPOLOGIES:
        raise TopologyError(f"topology.kind: value {name!r} is registered already; choose another name")
    for keys in (required, optional):
        usercode.check_tuple(TopologyError, f"topology.kind {name!r}: keys", keys)
    known = {each.name for each in fields(TopologyParams)}
    if strange := [key for key in (*required, *optional) if key not in known]:
        raise TopologyError(f"topology.kind {name!r}: key {strange[0]!r} is not a key of [topology]; use those, or 'args'")
    usercode.check_call(TopologyError, f"topology.kind {name!r}", build, "wiring", named=(*required, *optional))
    TOPOLOGIES[name] = Topology(name, build, required, optional)


def build(params: TopologyParams) -> Graph:
    """Returns the network that the keys ask for."""
    full = resolve(params)
    if full.kind == "mininet":  # its links may give all keys, and have no delay if they give none
        full = replace(full, delay_ns=full.delay_ns or 0)
    _require_all(full)
    wiring = _wiring(full)
    if _in_bdps(wiring):
        wiring = replace(wiring, rtt_ns=base_rtt_ns(_build(full, replace(wiring, measuring=True))))
    graph = _build(full, wiring)
    _check_rules(full, graph)
    return graph


def unscaled(params: TopologyParams) -> Graph:
    """Returns the same network before topology.scale slows it down."""
    return build(replace(params, scale=1))


def resolve(params: TopologyParams) -> TopologyParams:
    """Returns the keys with everything filled in: the preset's values, the defaults, and the marking that 'auto' stands for."""
    base = PRESETS[params.preset] if params.preset else TopologyParams()
    kind = params.kind or base.kind
    if kind is None:
        names = f"one of: {', '.join(TOPOLOGIES)}; or a topology.preset, one of: {', '.join(PRESETS)}"
        raise TopologyError(f"topology.kind is missing; give {names}")
    _refuse_unused(params, TOPOLOGIES[kind])
    _check_marking_keys(params)
    if kind != base.kind:
        nothing: dict[str, Any] = dict.fromkeys(_shape_keys())
        base = replace(base, **nothing, links=())
    given = {each.name: value for each in fields(params) if (value := getattr(params, each.name)) is not None}
    full = replace(base, **given | {"links": (*base.links, *params.links)})
    unread: dict[str, Any] = dict.fromkeys(set(MARKING_KEYS) - _read_by_markings(full, resolved=True))
    return replace(
        full,
        **unread,
        preset=None,
        kind=kind,
        marking=resolve_marking(full.marking, full.ecn),
        host_qdisc=full.host_qdisc or "bfifo",
        host_buffer_bytes=full.buffer_bytes if full.host_buffer_bytes is None else full.host_buffer_bytes,
        scale=full.scale or 1,
    )


def _build(full: TopologyParams, wiring: Wiring) -> Graph:
    topology = TOPOLOGIES[full.kind or ""]
    shape = {name: getattr(full, name) for name in (*topology.required, *topology.optional)}
    graph: object = topology.build(wiring, **shape)
    if not isinstance(graph, Graph):
        what = f"topology.kind {topology.name!r}: its build gives {usercode.shown(graph)} instead of a Graph"
        raise TopologyError(f"{what}; return that of a Builder, builder.graph()")
    return graph


def _wiring(full: TopologyParams) -> Wiring:
    assert full.scale is not None, "resolved"
    return Wiring(
        full.link_params(),
        full.links,
        host_qdisc="fq" if full.host_qdisc == "fq" else "bfifo",
        ecn=full.ecn,
        scale=full.scale,
    )


def _in_bdps(wiring: Wiring) -> bool:
    """Returns True if some amount needs the base round trip."""
    values = [value for link in (wiring.links, *(rule.params for rule in wiring.rules)) for value in link.given().values()]
    return any(isinstance(value, Amount) and value.unit == "bdp" for value in values)


def _require_all(full: TopologyParams) -> None:
    """Raises an error unless the keys of the shape are given, and those of the links where the links do not give them."""
    links = () if full.kind == "mininet" else ("rate_bps", "delay_ns", "buffer_bytes")
    names = (*TOPOLOGIES[full.kind or ""].required, *links)
    if lacking := [key_of(name) for name in names if getattr(full, name) is None]:
        verb, it = ("is", "it") if len(lacking) == 1 else ("are", "them")
        told = f"{', '.join(lacking)} {verb} missing: kind {full.kind} needs {it}"
        raise TopologyError(f"{told}; give {it}, or name a topology.preset")


def _refuse_unused(params: TopologyParams, topology: Topology) -> None:
    """Raises an error for a key that this kind cannot honour."""
    for name in _shape_keys():
        value = getattr(params, name)
        if value is not None and name not in (*topology.required, *topology.optional):
            raise TopologyError(f"{key_of(name)}: value {value} has no effect with kind {topology.name!r}; remove it")


def _check_marking_keys(params: TopologyParams) -> None:
    """Raises an error for a threshold that no port's marking reads. Under 'auto' K belongs to the step, where there is one."""
    read = _read_by_markings(params, resolved=False)
    for name in MARKING_KEYS:
        value = getattr(params, name)
        if value is not None and name not in read:
            what = params.marking or marking.AUTO
            raise TopologyError(f"{key_of(name)}: value {value} has no effect with marking {what!r}; remove it")


def _read_by_markings(params: TopologyParams, resolved: bool) -> set[str]:
    """Returns the thresholds that the markings of all links read. With `resolved`, 'auto' counts as what it stands for."""
    names = {params.marking, *(rule.params.marking or params.marking for rule in params.links)}
    if resolved:
        names = {resolve_marking(name, params.ecn) for name in names}
    kinds = [marking.KINDS["step" if name is None or name == marking.AUTO else name] for name in names]
    return {key for kind in kinds for key in (*kind.needs, *kind.takes)}


def _check_rules(full: TopologyParams, graph: Graph) -> None:
    """Raises an error unless every entry of [[topology.links]] applies to some link."""
    layers = {switch.name: str(switch.layer) for switch in graph.switches}
    ends = {
        (layers.get(cable.a.node, "host"), layers.get(cable.b.node, "host"), cable.a.node, cable.b.node) for cable in graph.cables
    }
    pairs = [(Node(a, a_layer), Node(b, b_layer)) for a_layer, b_layer, a, b in sorted(ends)]
    for rule in full.links:
        if not any(rule.matches(a, b) for a, b in pairs):
            what = f"topology.links: between = {list(rule.between)} matches no link"
            raise TopologyError(f"{what}; name two joined nodes, or layers (host, leaf, agg, spine), or '*'")


def _shape_keys() -> list[str]:
    return [name for topology in TOPOLOGIES.values() for name in (*topology.required, *topology.optional)]


def _known(key: str, value: str | None, names: Iterable[str]) -> None:
    if value is not None and value not in names:
        raise TopologyError(unknown(key, value, names))


register("single", single.build, ("hosts",), ("bottleneck_rate_bps",))
register("dumbbell", dumbbell.build, ("pairs",), ("bottleneck_rate_bps",))
register("fattree", fattree.build, ("k",))
register("leafspine", leafspine.build, ("leaves", "hosts_per_leaf", "spines"), ("uplinks", "uplink_rate_bps", "nics"))
register("mininet", mininet_topo.build, ("file",), ("class_name", "args"))
register("parkinglot", parkinglot.build, ("hops",), ("bottleneck_rate_bps",))


def _leafspine(**keys: Any) -> TopologyParams:
    """Returns a paper's leaf-spine.

    No paper gives its buffers or the K of a DCTCP step. dc-gym chooses 2 MB for each port and one BDP.
    """
    ours: dict[str, Any] = {"buffer_bytes": 2_000_000, "k_bytes": Amount(Fraction(1), "bdp")}
    return TopologyParams(**ours | {"kind": "leafspine"} | keys)


def _acc(**keys: Any) -> TopologyParams:
    """Returns a topology of ACC, SIGCOMM 2021: servers at 25, spines at 100 Gbit/s.

    ACC's round trips are under 2.32 us within a rack and 6.13 us between two. They are those of small packets: 550 ns for a
    host's link, 950 ns for a spine's.
    """
    spine_delay = LinkRule(("leaf", "spine"), LinkParams(delay_ns=950))
    return _leafspine(**{"rate_bps": 25 * GBIT, "uplink_rate_bps": 100 * GBIT, "delay_ns": 550, "links": (spine_delay,)} | keys)


def _preset(name: str, origin: str, params: TopologyParams) -> None:
    """Registers a preset, with the origin of its numbers."""
    PRESETS[name], ORIGINS[name] = params, origin


_preset(
    "dumbbell-10m",
    "Iroko's thesis, table 1: rate and buffer. Delay and K are ours",
    TopologyParams(kind="dumbbell", pairs=2, rate_bps=10 * MBIT, delay_ns=10_000, buffer_bytes=400_000, k_bytes=2 * FRAME_BYTES),
)
_preset(
    "dumbbell-1g",
    "Iroko's thesis, table 1: rate and buffer. Delay and K are ours",
    TopologyParams(kind="dumbbell", pairs=2, rate_bps=GBIT, delay_ns=10_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES),
)
_preset(
    "dctcp-10g",
    "DCTCP (SIGCOMM 2010): four senders and one receiver; the round trip without serialization is 10 us",
    TopologyParams(kind="single", hosts=5, rate_bps=10 * GBIT, delay_ns=2_500, buffer_bytes=4_000_000, k_bytes=60 * FRAME_BYTES),
)
_preset(
    "fattree-k4",
    "ours",
    TopologyParams(kind="fattree", k=4, rate_bps=GBIT, delay_ns=1_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES),
)
_preset(
    "fattree-k8",
    "ours",
    TopologyParams(kind="fattree", k=8, rate_bps=GBIT, delay_ns=1_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES),
)
_preset(
    "parkinglot-1g",
    "ours",
    TopologyParams(kind="parkinglot", hops=3, rate_bps=GBIT, delay_ns=10_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES),
)
_preset(
    "rlcc64",
    'RL-CC, section VI. Its round trip of about 10 us is eight times 1.25 us. It joins spines and ToRs "via four 100 Gbps links":'
    " as four from each ToR to each spine, the fabric is oversubscribed 2:1; as four per spine, one to each ToR (`uplinks = 1`),"
    " 8:1. The buffer is PCC-RL's, figure 1",
    _leafspine(leaves=4, hosts_per_leaf=16, spines=2, uplinks=4, rate_bps=100 * GBIT, delay_ns=1_250, buffer_bytes=5_000_000),
)
_preset(
    "fdcc64",
    "FDCC: 4 access switches with 16 hosts each, 4 aggregation switches. It gives no delays: 1 us a link, as in HPCC. It"
    " shares its buffer by PFC's thresholds; PFC is not modelled",
    _leafspine(leaves=4, hosts_per_leaf=16, spines=4, uplinks=1, rate_bps=100 * GBIT, delay_ns=1_000),
)
_preset(
    "acc24a",
    "ACC, figures 1 and 2. The number of links between a leaf and a spine is ours",
    _acc(leaves=2, hosts_per_leaf=12, spines=2, uplinks=1),
)
_preset(
    "acc24",
    "ACC, testbed: each server is on two leaves, and each leaf has four links to the spines",
    _acc(leaves=4, hosts_per_leaf=12, spines=2, uplinks=2, nics=2),
)
_preset(
    "acc96",
    "ACC, figure 14. The number of links between a leaf and a spine is ours: three make it as wide as figure 12's (1:1)",
    _acc(leaves=4, hosts_per_leaf=24, spines=2, uplinks=3),
)
_preset("acc288", "ACC, figure 12", _acc(leaves=12, hosts_per_leaf=24, spines=6, uplinks=1))
