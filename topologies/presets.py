# SPDX-License-Identifier: Apache-2.0
"""From the keys of [topology] to a Graph: the registry of topologies, the named presets, and the choice of marking.

A new topology is one file with a `build` and one `register` at the end of this one. Integers here: bit/s, ns, bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from dc_gym.errors import TopologyError
from dc_gym.topologies import dumbbell, fattree, single
from dc_gym.topologies.graph import FRAME_BYTES, NO_MARKING, Graph, Marking, Queue, Wiring

HOST_QDISCS = ("bfifo", "fq")
MARKINGS = ("auto", "none", "step", "iroko-thesis")
MBIT, GBIT = 10**6, 10**9
IROKO_AVPKT_BYTES = 1500
IROKO_PROBABILITY_PPM = 100_000


@dataclass(frozen=True, slots=True)
class TopologyParams:
    """The keys of [topology] (docs/spec.md), parsed; None: not given."""

    preset: str | None = None
    kind: str | None = None
    hosts: int | None = None  # single
    pairs: int | None = None  # dumbbell, a side
    k: int | None = None  # fattree, ports a switch
    rate_bps: int | None = None
    bottleneck_rate_bps: int | None = None  # dumbbell: middle link; single: last host's; None: rate_bps
    delay_ns: int | None = None
    buffer_bytes: int | None = None
    host_buffer_bytes: int | None = None  # None: buffer_bytes
    host_qdisc: str | None = None  # None: bfifo
    marking: str | None = None  # None: auto
    k_bytes: int | None = None
    ecn: bool = False  # the controller reads ECN: what marking 'auto' looks at

    def __post_init__(self) -> None:
        for each in fields(self):
            value, smallest = getattr(self, each.name), 0 if each.name == "delay_ns" else 1
            if type(value) is int and value < smallest:
                raise TopologyError(f"{key_of(each.name)}: value {value} is below {smallest}; give {smallest} or more")
        _known("topology.preset", self.preset, PRESETS)
        _known("topology.kind", self.kind, TOPOLOGIES)
        _known("topology.host_qdisc", self.host_qdisc, HOST_QDISCS)
        _known("topology.marking", self.marking, MARKINGS)


@dataclass(frozen=True, slots=True)
class Topology:
    """A registered topology: how it is built, and which keys give its shape."""

    name: str
    build: Callable[..., Graph]
    required: tuple[str, ...]
    optional: tuple[str, ...]


TOPOLOGIES: dict[str, Topology] = {}
PRESETS: dict[str, TopologyParams] = {}


def register(name: str, build: Callable[..., Graph], required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    """Make `build(wiring, **shape)` known as topology.kind; the keys of the shape are fields of TopologyParams."""
    if name in TOPOLOGIES:
        raise TopologyError(f"topology.kind: value {name!r} is registered already; choose another name")
    TOPOLOGIES[name] = Topology(name, build, required, optional)


def build(params: TopologyParams) -> Graph:
    """The network that the keys ask for."""
    full = resolve(params)
    topology = TOPOLOGIES[_given(full, "kind")]
    for name in topology.required:
        _given(full, name)
    shape = {name: getattr(full, name) for name in (*topology.required, *topology.optional)}
    return topology.build(_wiring(full), **shape)


def resolve(params: TopologyParams) -> TopologyParams:
    """The same with everything filled in: the preset's values, the defaults, and the marking that 'auto' stands for."""
    base = PRESETS[params.preset] if params.preset else TopologyParams()
    kind = params.kind or base.kind
    if kind is None:
        names = f"one of: {', '.join(TOPOLOGIES)}; or a topology.preset, one of: {', '.join(PRESETS)}"
        raise TopologyError(f"topology.kind is missing; give {names}")
    _refuse_unused(params, TOPOLOGIES[kind])
    if kind != base.kind:
        nothing: dict[str, Any] = dict.fromkeys(_shape_keys())
        base = replace(base, **nothing)
    given = {each.name: value for each in fields(params) if (value := getattr(params, each.name)) is not None}
    full = replace(base, **given)
    marking = full.marking or "auto"
    if marking == "auto":
        marking = "step" if full.ecn else "none"
    host_buffer = full.host_buffer_bytes or full.buffer_bytes
    return replace(
        full,
        kind=kind,
        marking=marking,
        k_bytes=full.k_bytes if marking == "step" else None,
        host_qdisc=full.host_qdisc or "bfifo",
        host_buffer_bytes=host_buffer,
    )


def iroko_thesis(rate_bps: int, limit_bytes: int) -> Marking:
    """RED as in the thesis' table 1, for a port of that rate and buffer.

    min = 17 % of the bandwidth-delay product at 100 us, which is in bits and was used as bytes; at least 3000 (2 packets);
    max = limit / 4; burst = (2 min + max) / (3 avpkt). This gives the table's numbers at 10 Mbit/s and at 1 Gbit/s.
    """
    low = max(3000, rate_bps * 17 // 10**6)
    high = limit_bytes // 4
    # The thesis prints "10Gbit" for the links of 1 Gbit/s, twice; tc needs it only for the decay of the average on an idle port.
    bandwidth_bps = 10 * GBIT if rate_bps == GBIT else rate_bps
    if high <= low:
        raise TopologyError(f"topology.buffer: value {limit_bytes} is too small for iroko-thesis; give more than {4 * low + 3}")
    return Marking(
        kind="iroko-thesis",
        min_bytes=low,
        max_bytes=high,
        limit_bytes=limit_bytes,
        avpkt_bytes=IROKO_AVPKT_BYTES,
        burst_packets=(2 * low + high) // (3 * IROKO_AVPKT_BYTES),
        probability_ppm=IROKO_PROBABILITY_PPM,
        bandwidth_bps=bandwidth_bps,
    )


def key_of(name: str) -> str:
    """The spec's key of a field: rate_bps -> topology.rate; k_bytes keeps its name."""
    return "topology." + (name if name == "k_bytes" else name.removesuffix("_bps").removesuffix("_ns").removesuffix("_bytes"))


def _wiring(full: TopologyParams) -> Wiring:
    """Links and queues of resolved parameters. Only switch ports mark."""
    rate_bps, delay_ns = _given(full, "rate_bps"), _given(full, "delay_ns")
    limit_bytes, host_bytes = _given(full, "buffer_bytes"), _given(full, "host_buffer_bytes")

    def switch_queue(port_rate_bps: int) -> Queue:
        marking = _marking(full, port_rate_bps, limit_bytes)
        return Queue(limit_bytes, "bfifo" if marking.kind == "none" else "red", marking)

    return Wiring(rate_bps, delay_ns, Queue(host_bytes, "fq" if full.host_qdisc == "fq" else "bfifo"), switch_queue)


def _marking(full: TopologyParams, rate_bps: int, limit_bytes: int) -> Marking:
    if full.marking == "step":
        return Marking("step", k_bytes=_given(full, "k_bytes"))
    return iroko_thesis(rate_bps, limit_bytes) if full.marking == "iroko-thesis" else NO_MARKING


def _given(full: TopologyParams, name: str) -> Any:
    value = getattr(full, name)
    if value is None:
        why = f"kind {full.kind} with marking {full.marking} needs it"
        raise TopologyError(f"{key_of(name)} is missing: {why}; give it, or name a topology.preset")
    return value


def _refuse_unused(params: TopologyParams, topology: Topology) -> None:
    """A key that this kind or this marking cannot honour is an error."""
    for name in _shape_keys():
        value = getattr(params, name)
        if value is not None and name not in (*topology.required, *topology.optional):
            raise TopologyError(f"{key_of(name)}: value {value} means nothing to kind {topology.name!r}; remove it")
    if params.k_bytes is not None and params.marking in ("none", "iroko-thesis"):
        raise TopologyError(f"topology.k_bytes: value {params.k_bytes} means nothing to marking {params.marking!r}; remove it")


def _shape_keys() -> list[str]:
    return [name for topology in TOPOLOGIES.values() for name in (*topology.required, *topology.optional)]


def _known(key: str, value: str | None, names: Iterable[str]) -> None:
    if value is not None and value not in names:
        raise TopologyError(f"{key} {value!r} is unknown; one of: {', '.join(names)}")


register("single", single.build, ("hosts",), ("bottleneck_rate_bps",))
register("dumbbell", dumbbell.build, ("pairs",), ("bottleneck_rate_bps",))
register("fattree", fattree.build, ("k",))

PRESETS.update(
    {
        # Iroko thesis, table 1: rate and buffer. The delay is ours (the thesis gives none), and so is K.
        "dumbbell-10m": TopologyParams(
            kind="dumbbell", pairs=2, rate_bps=10 * MBIT, delay_ns=10_000, buffer_bytes=400_000, k_bytes=2 * FRAME_BYTES
        ),
        "dumbbell-1g": TopologyParams(
            kind="dumbbell", pairs=2, rate_bps=GBIT, delay_ns=10_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES
        ),
        # Four senders h1..h4 and the receiver h5. Round trip without serialization 10 us.
        "dctcp-10g": TopologyParams(
            kind="single", hosts=5, rate_bps=10 * GBIT, delay_ns=2_500, buffer_bytes=4_000_000, k_bytes=60 * FRAME_BYTES
        ),
        "fattree-k4": TopologyParams(
            kind="fattree", k=4, rate_bps=GBIT, delay_ns=1_000, buffer_bytes=4_000_000, k_bytes=20 * FRAME_BYTES
        ),
    }
)
