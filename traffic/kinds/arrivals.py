# SPDX-License-Identifier: Apache-2.0
"""Flows of a size distribution, in an open loop at a given load (`poisson`) or in a closed loop (`closed_loop`).

The closed loop keeps a number of flows outstanding for each host. In the open loop, flows start whatever the state of earlier
ones: arrivals of each host are a Poisson process of its own with the mean gap 8 E[size] / (load x rate). Destinations are uniform
over the other hosts, as in HPCC's traffic generator. The flows follow from the seed alone, and are equal for every controller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dc_gym.base.errors import WorkloadError
from dc_gym.base.key import NUMBER, TEXT, KeyFault, key
from dc_gym.traffic import shared_keys, sizes
from dc_gym.traffic.flows import MOST_FLOWS, FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, NS_PER_S, Gates, WorkloadContext, bounded, chained, register, require
from dc_gym.traffic.shared_keys import SizesKeys
from dc_gym.traffic.sizes import Sampler, Sizes

LOAD_COUNTS = ("payload", "wire")
LOAD_OF = ("host", "bisection")
PS_PER_NS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PoissonKeys(SizesKeys):
    """Keys of kind poisson."""

    load: float = key(NUMBER, needed=True, low=0, high=1, help="offered load as a share of the rate, above 0")
    load_counts: str = key(
        TEXT, "payload", names=lambda: LOAD_COUNTS, help="bytes that the load counts: `payload`, or frames on the `wire`"
    )
    load_of: str = key(
        TEXT,
        "host",
        names=lambda: LOAD_OF,
        help="rate that the load refers to: each `host`'s link, or the links above its edge switch (`bisection`)",
    )
    last_start_ns: int | None = shared_keys.last_start()

    def __post_init__(self) -> None:
        _require_above_0("load", self.load)
        _require_above_0("size_scale", self.size_scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoopKeys(SizesKeys):
    """Keys of kind closed_loop."""

    outstanding: int = shared_keys.outstanding("flows that a host keeps under way")
    interval_ns: int = shared_keys.interval("time from the end of a flow to the next")
    intervals: str = shared_keys.intervals()

    def __post_init__(self) -> None:
        _require_above_0("size_scale", self.size_scale)


def _require_above_0(name: str, value: float) -> None:
    if not value:
        raise KeyFault(f"workload.{name}", value, "is not above 0; give more")


def size_distribution(context: WorkloadContext, keys: SizesKeys) -> Sizes:
    """Returns the distribution by its name, its file, or a fixed size. It is scaled, then truncated."""
    sources = {"size": keys.size_bytes, "distribution": keys.distribution, "distribution_file": keys.distribution_file}
    given_keys = [f"workload.{name}" for name, value in sources.items() if value]
    if len(given_keys) != 1:
        have = " and ".join(given_keys) or "nothing"
        raise WorkloadError(f"workload.distribution, distribution_file or size: give one of the three, not {have}")
    if keys.size_bytes:
        distribution = sizes.fixed(keys.size_bytes)
    else:
        distribution = sizes.read(keys.distribution_file) if keys.distribution_file else sizes.load(str(keys.distribution))
    distribution = distribution.scaled(Fraction(str(keys.size_scale)))
    if keys.truncate_bytes is not None:
        distribution = distribution.truncated(keys.truncate_bytes)
    context.notes["mean_size_bytes"] = float(distribution.mean_bytes())
    context.notes["mean_wire_bytes"] = float(distribution.mean_wire_bytes(context.graph.segment_bytes))
    context.notes["sampling"] = distribution.sampling
    return distribution


def poisson(context: WorkloadContext, keys: PoissonKeys) -> list[FlowRequest]:
    """Open loop: each host's flows start as a Poisson process, to uniformly drawn other hosts, at a `load`.

    Sizes are drawn from `distribution` or `distribution_file`, or all are `size`.
    """
    distribution, load = size_distribution(context, keys), keys.load
    mean = distribution.mean_wire_bytes(context.graph.segment_bytes) if keys.load_counts == "wire" else distribution.mean_bytes()
    rates = _bisection_rates(context) if keys.load_of == "bisection" else _host_rates(context)
    sampler, flows = Sampler(distribution), list[FlowRequest]()
    expected = sum(rates.values()) * Fraction(str(load)) * context.horizon_ns / (mean * 8 * NS_PER_S)
    require(expected <= MOST_FLOWS, "load", load, f"makes about {int(expected)} flows, a run takes {MOST_FLOWS}; run shorter")
    for src in context.hosts:
        offered_bps = Fraction(str(load)) * rates[src]
        line = context.rate_bps(src)
        require(offered_bps <= line, "load", load, f"asks {float(offered_bps / line):.3g} times what the link of {src} carries")
        gap_ps = int(mean * 8 * NS_PER_S * PS_PER_NS / offered_bps)
        flows += _arrivals(context, src, max(1, gap_ps), sampler)
    context.notes["offered_payload_bps"] = sum(flow.size_bytes for flow in flows) * 8 * NS_PER_S / max(1, context.horizon_ns)
    return sorted(bounded(flows), key=lambda flow: flow.start_ns)


def closed_loop(context: WorkloadContext, keys: ClosedLoopKeys) -> list[FlowRequest]:
    """Each host keeps `outstanding` flows under way; where one ends, the next starts, to a random other host.

    It starts `interval` later. Sizes are drawn from `distribution` or `distribution_file`, or all are `size`.
    """
    sampler, gates, flows = Sampler(size_distribution(context, keys)), Gates(), list[FlowRequest]()
    for src in context.hosts:
        for slot in range(keys.outstanding):
            flows += chained(context, gates, None, _next_of(context, keys, src, slot, sampler))
    return bounded(flows)


def _next_of(
    context: WorkloadContext, keys: ClosedLoopKeys, src: str, slot: int, sampler: Sampler
) -> Callable[[int], tuple[FlowRequest, int]]:
    stream, others = context.stream(src, slot), [host for host in context.hosts if host != src]

    def make(rep: int) -> tuple[FlowRequest, int]:
        dst, size = stream.choose(others), sampler.draw(stream)
        return FlowRequest(src, dst, DEFAULT_PORT, size_bytes=size), stream.around(keys.interval_ns, keys.intervals)

    return make


def _arrivals(context: WorkloadContext, src: str, mean_gap_ps: int, sampler: Sampler) -> list[FlowRequest]:
    stream, others = context.stream(src), [host for host in context.hosts if host != src]
    flows, horizon_ps = [], context.horizon_ns * PS_PER_NS
    at_ps = stream.around(mean_gap_ps, "exponential")
    while at_ps < horizon_ps:
        dst, size = stream.choose(others), sampler.draw(stream)
        flows.append(FlowRequest(src, dst, DEFAULT_PORT, start_ns=at_ps // PS_PER_NS, size_bytes=size))
        at_ps += stream.around(mean_gap_ps, "exponential")
    return bounded(flows)


def _host_rates(context: WorkloadContext) -> dict[str, Fraction]:
    return {host: Fraction(context.rate_bps(host)) for host in context.hosts}


def _bisection_rates(context: WorkloadContext) -> dict[str, Fraction]:
    """Returns the rate in bit/s that each host must offer to fill its share of the links above its edge switches.

    Part of each host's traffic stays below these links. A host in several planes has an edge switch in each plane, and its flows
    are spread evenly over the planes.
    """
    graph, hosts = context.graph, context.hosts
    members: dict[str, list[str]] = {}
    for host in hosts:
        for edge in dict.fromkeys(graph.neighbours(host)):
            members.setdefault(edge, []).append(host)
    names = set(hosts)
    rates = dict.fromkeys(hosts, Fraction(0))
    for edge, inside in members.items():
        up_bps = sum(graph.cable_of(port).rate_bps for port in graph.ports_of(edge) if graph.peer(port).node not in names)
        leaving = Fraction(len(hosts) - len(inside), len(hosts) - 1)
        if not up_bps or not leaving:
            raise WorkloadError(f"workload.load_of = 'bisection': no links above switch {edge}; give load_of = 'host'")
        for host in inside:
            rates[host] += Fraction(up_bps, len(inside)) / leaving
    return rates


register("poisson", poisson, PoissonKeys)
register("closed_loop", closed_loop, ClosedLoopKeys)
