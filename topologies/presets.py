# SPDX-License-Identifier: Apache-2.0
"""Turns the keys of [topology] into a Graph. Contains the named presets; the kinds are the files of kinds/.

Integers are bit/s, ns and bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.amount import Amount
from dc_gym.base.errors import TopologyError
from dc_gym.base.key import fields_by_key, values_of
from dc_gym.base.units import FRAME_BYTES, MTU_BYTES
from dc_gym.topologies import marking
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.kinds import TOPOLOGIES, register
from dc_gym.topologies.links import LinkRule, Node, merged
from dc_gym.topologies.paths import base_rtt_ns
from dc_gym.topologies.topology_spec import ORIGINS, PRESETS, TopologySpec
from dc_gym.topologies.wiring import Wiring

__all__ = ["ORIGINS", "PRESETS", "TOPOLOGIES", "TopologySpec", "build", "register", "resolve", "unscaled"]

MBIT, GBIT = 10**6, 10**9
LINK_NEEDS = ("rate", "delay", "buffer")
WITH_OWN_LINKS = ("file", "mininet")
"""Kinds whose links may give all that links need."""


def build(spec: TopologySpec, ecn: bool = False) -> Graph:
    """Returns the network that the keys ask for. `ecn` is True if the controller reads ECN."""
    full = resolve(spec, ecn)
    if full.kind == "mininet":  # its links may give all keys, and have no delay if they give none
        full = replace(full, delay_ns=full.delay_ns or 0)
    _require_all(full)
    wiring = Wiring(full, ecn)
    if wiring.in_bdps:
        wiring = replace(wiring, rtt_ns=base_rtt_ns(_build(replace(wiring, measuring=True))))
    graph = _build(wiring)
    _check_rules(full, graph)
    return graph if full.buffers is None else full.buffers.equipped(graph)


def unscaled(spec: TopologySpec, ecn: bool = False) -> Graph:
    """Returns the same network before topology.scale slows it down."""
    return build(replace(spec, scale=1), ecn)


def resolve(spec: TopologySpec, ecn: bool = False) -> TopologySpec:
    """Returns the keys with everything filled in: the preset's values, the defaults, and the marking that 'auto' stands for."""
    base = PRESETS[spec.preset] if spec.preset else TopologySpec()
    kind = spec.kind or base.kind
    if kind is None:
        names = f"one of: {', '.join(TOPOLOGIES)}; or a topology.preset, one of: {', '.join(PRESETS)}"
        raise TopologyError(f"topology.kind is missing; give {names}")
    same = kind == base.kind
    if spec.shared_buffer_bytes is not None:  # a preset's buffer is the buffer of a port that shares none
        base = replace(base, buffer_bytes=spec.shared_buffer_bytes)
    overrides: dict[str, Any] = {
        field.name: value for field in fields_by_key(TopologySpec).values() if (value := getattr(spec, field.name)) is not None
    }
    overrides |= {
        "preset": None,
        "kind": kind,
        "shape": merged(base.shape if same else (), spec.shape),
        "qdisc_keys": spec.qdisc_keys,
        "thresholds": (),
        "links": (*(base.links or () if same else ()), *(spec.links or ())),
    }
    full = replace(base, **overrides)
    read = full.read_thresholds(ecn)
    thresholds = merged(base.thresholds, spec.thresholds)
    return replace(
        full,
        thresholds=tuple((name, value) for name, value in thresholds if name in read),
        marking=full.marking or marking.AUTO if full.marks_by_itself else marking.resolve(full.marking, ecn),
        host_qdisc=full.host_qdisc or "bfifo",
        qdisc=full.qdisc or "port",
        host_buffer_bytes=full.buffer_bytes if full.host_buffer_bytes is None else full.host_buffer_bytes,
        scale=full.scale or 1,
        mtu_bytes=full.mtu_bytes or MTU_BYTES,
    )


def _build(wiring: Wiring) -> Graph:
    full = wiring.spec
    entry = TOPOLOGIES[full.kind or ""]
    graph: object = entry.call(wiring, *entry.arguments(dict(full.shape), "topology."))
    if not isinstance(graph, Graph):
        fault = f"topology.kind {entry.name!r}: its build gives {usercode.shown(graph)} instead of a Graph"
        raise TopologyError(f"{fault}; return that of a Builder, builder.graph()")
    return replace(graph, mtu_bytes=full.mtu_bytes or MTU_BYTES)


def _require_all(full: TopologySpec) -> None:
    """Raises an error unless the keys of the shape are given, and the keys of links that the links do not give."""
    given_keys = values_of(full)
    missing_keys = TOPOLOGIES[full.kind or ""].lacking(given_keys)
    missing_keys += [] if full.kind in WITH_OWN_LINKS else [name for name in LINK_NEEDS if name not in given_keys]
    if missing_keys:
        verb, pronoun = ("is", "it") if len(missing_keys) == 1 else ("are", "them")
        fault = f"{', '.join(f'topology.{name}' for name in missing_keys)} {verb} missing: kind {full.kind} needs {pronoun}"
        raise TopologyError(f"{fault}; give {pronoun}, or name a topology.preset")


def _check_rules(full: TopologySpec, graph: Graph) -> None:
    """Raises an error unless every entry of [[topology.links]] applies to some link."""
    layers = {switch.name: str(switch.layer) for switch in graph.switches}
    ends = {
        (layers.get(cable.a.node, "host"), layers.get(cable.b.node, "host"), cable.a.node, cable.b.node) for cable in graph.cables
    }
    pairs = [(Node(a, a_layer), Node(b, b_layer)) for a_layer, b_layer, a, b in sorted(ends)]
    for rule in full.links or ():
        if not any(rule.matches(a, b) or rule.matches(b, a) for a, b in pairs):
            fault = f"topology.links: {rule.told()} matches no link"
            raise TopologyError(f"{fault}; name two joined nodes, or layers (host, leaf, agg, spine), or '*'")


def _leafspine(**keys: Any) -> TopologySpec:
    """Returns a paper's leaf-spine.

    No paper gives its buffers or the K of a DCTCP step. dc-gym chooses 2 MB for each port and one BDP.
    """
    defaults: dict[str, Any] = {"buffer_bytes": 2_000_000, "k_bytes": Amount(Fraction(1), "bdp")}
    return TopologySpec.of(**defaults | {"kind": "leafspine"} | keys)


def _acc(**keys: Any) -> TopologySpec:
    """Returns a topology of ACC, SIGCOMM 2021: servers at 25, spines at 100 Gbit/s.

    ACC's round trips are under 2.32 us within a rack and 6.13 us between two. They hold for small packets: 550 ns for a host's
    link, 950 ns for a spine's.
    """
    spine_delay = LinkRule(between=("leaf", "spine"), delay_ns=950)
    return _leafspine(**{"rate_bps": 25 * GBIT, "uplink_rate_bps": 100 * GBIT, "delay_ns": 550, "links": (spine_delay,)} | keys)


def _preset(name: str, origin: str, make: Callable[[], TopologySpec]) -> None:
    """Registers a preset, with the origin of its numbers."""
    PRESETS.add(name, make)
    ORIGINS[name] = origin


_preset(
    "dumbbell-10m",
    "Iroko's thesis, table 1: rate and buffer. Delay and K are ours",
    lambda: TopologySpec.of(
        kind="dumbbell", pairs=2, rate_bps=10 * MBIT, delay_ns=10_000, buffer_bytes=400_000, k_bytes=2 * FRAME_BYTES
    ),
)
_preset(
    "dumbbell-1g",
    "Iroko's thesis, table 1: rate and buffer. Delay and K are ours",
    lambda: TopologySpec.of(
        kind="dumbbell", pairs=2, rate_bps=GBIT, delay_ns=10_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES
    ),
)
_preset(
    "dctcp-10g",
    "DCTCP (SIGCOMM 2010): four senders and one receiver; the round trip without serialization is 10 us",
    lambda: TopologySpec.of(
        kind="single", hosts=5, rate_bps=10 * GBIT, delay_ns=2_500, buffer_bytes=4_000_000, k_bytes=60 * FRAME_BYTES
    ),
)
_preset(
    "fattree-k4",
    "ours",
    lambda: TopologySpec.of(kind="fattree", k=4, rate_bps=GBIT, delay_ns=1_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES),
)
_preset(
    "fattree-k8",
    "ours",
    lambda: TopologySpec.of(kind="fattree", k=8, rate_bps=GBIT, delay_ns=1_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES),
)
_preset(
    "parkinglot-1g",
    "ours",
    lambda: TopologySpec.of(
        kind="parkinglot", hops=3, rate_bps=GBIT, delay_ns=10_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES
    ),
)
_preset(
    "rlcc64",
    'RL-CC, section VI. Its round trip of about 10 us is eight times 1.25 us. It joins spines and ToRs "via four 100 Gbps links":'
    " as four from each ToR to each spine, the fabric is oversubscribed 2:1; as four per spine, one to each ToR (`uplinks = 1`),"
    " 8:1. The buffer is PCC-RL's, figure 1",
    lambda: _leafspine(
        leaves=4, hosts_per_leaf=16, spines=2, uplinks=4, rate_bps=100 * GBIT, delay_ns=1_250, buffer_bytes=5_000_000
    ),
)
_preset(
    "fdcc64",
    "FDCC: 4 access switches with 16 hosts each, 4 aggregation switches. It gives no delays: 1 us a link, as in HPCC. Its"
    " switches share a buffer and pause: give `shared_buffer`, and `pfc`",
    lambda: _leafspine(leaves=4, hosts_per_leaf=16, spines=4, uplinks=1, rate_bps=100 * GBIT, delay_ns=1_000),
)
_preset(
    "acc24a",
    "ACC, figures 1 and 2. The number of links between a leaf and a spine is ours",
    lambda: _acc(leaves=2, hosts_per_leaf=12, spines=2, uplinks=1),
)
_preset(
    "acc24",
    "ACC, testbed: each server is on two leaves, and each leaf has four links to the spines",
    lambda: _acc(leaves=4, hosts_per_leaf=12, spines=2, uplinks=2, nics=2),
)
_preset(
    "acc96",
    "ACC, figure 14. The number of links between a leaf and a spine is ours: three make it as wide as figure 12's (1:1)",
    lambda: _acc(leaves=4, hosts_per_leaf=24, spines=2, uplinks=3),
)
_preset("acc288", "ACC, figure 12", lambda: _acc(leaves=12, hosts_per_leaf=24, spines=6, uplinks=1))
