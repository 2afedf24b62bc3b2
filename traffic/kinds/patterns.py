# SPDX-License-Identifier: Apache-2.0
"""Patterns of hosts that all send at once: pairs, many to one, all to all, and Hedera's patterns (NSDI 2010, section 5).

Hedera's paper leaves two things open. Staggered(p_edge, p_pod): here the three classes are disjoint, so "pod" means the own pod
but not the own edge switch; a class that a network does not have hands its probability to the next wider one that it has, else
to the next narrower one. Hotspot: here Iroko's fixed table.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base.errors import WorkloadError
from dc_gym.base.key import COUNT, NUMBER, key
from dc_gym.traffic import shared_keys
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, WorkloadContext, bounded, register, require
from dc_gym.traffic.matrix import read_matrix

HOTSPOT_FILE = Path(__file__).parents[1] / "matrices" / "hotspot.csv"
HOTSPOT_HOSTS = 16


def _flows(help: str, default: int | None = 1, otherwise: str = "") -> Any:
    return key(COUNT, default, low=1, otherwise=otherwise, help=help)


def _probability(help: str) -> Any:
    return key(NUMBER, needed=True, low=0, high=1, help=help)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyToOneKeys:
    """Keys of kind many_to_one."""

    senders: int | None = shared_keys.senders("hosts that send", "all others")
    flows: int | None = _flows("number of flows in all", None, "one per sender")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllToAllKeys:
    """Keys of kind all_to_all."""

    flows: int = _flows("flows to each other host")


@dataclass(frozen=True, slots=True, kw_only=True)
class StrideKeys:
    """Keys of kind stride."""

    stride: int = key(COUNT, needed=True, low=1, help="host x sends to host x + stride")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaggeredKeys:
    """Keys of kind staggered."""

    p_edge: float = _probability("probability that the destination is on the sender's edge switch")
    p_pod: float = _probability("probability that the destination is elsewhere in the sender's pod")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomKeys:
    """Keys of kind random."""

    flows: int = _flows("destinations per host")


def flow(src: str, dst: str) -> FlowRequest:
    """From one host to another, all else to be filled in."""
    return FlowRequest(src, dst, DEFAULT_PORT)


def pairs(context: WorkloadContext) -> list[FlowRequest]:
    """Host i sends to host i + n/2: on a dumbbell each host on the left to its partner on the right."""
    half = len(context.hosts) // 2
    if len(context.hosts) % 2:
        have = f"{len(context.hosts)} hosts are an odd number"
        raise WorkloadError(f"workload.kind 'pairs': {have}; take many_to_one or another topology")
    return [flow(src, dst) for src, dst in zip(context.hosts[:half], context.hosts[half:], strict=True)]


def none(context: WorkloadContext) -> list[FlowRequest]:
    """No flow: for runs of real programs (workload.exec) alone."""
    return []


def many_to_one(context: WorkloadContext, keys: ManyToOneKeys) -> list[FlowRequest]:
    """The first `senders` hosts send to the last one; they take turns to start `flows` in all, by default one each."""
    *others, last = context.hosts
    senders = len(others) if keys.senders is None else keys.senders
    require(1 <= senders <= len(others), "senders", senders, f"is not in 1..{len(others)}; the last host receives")
    flows = keys.flows or senders
    return bounded(flow(others[number % senders], last) for number in range(flows))


def endpoints(context: WorkloadContext, ends: str, count: int) -> list[tuple[str, str]]:
    """Source and destination of `count` flows, by `ends`, one of ENDS; with more flows than hosts they take turns."""
    if ends == "pairs":
        known = [(request.src, request.dst) for request in pairs(context)]
    else:
        known = [(src, context.hosts[-1]) for src in context.hosts[:-1]]
    return [known[number % len(known)] for number in range(count)]


def all_to_all(context: WorkloadContext, keys: AllToAllKeys) -> list[FlowRequest]:
    """Every host sends to every other one, `flows` times.

    With `flows = 2` these are PCC-RL's 2N flows per host (section 5), without the flows that a host would send to itself.
    """
    hosts, times = context.hosts, keys.flows
    requests = (flow(src, dst) for src in hosts for _ in range(times) for dst in hosts if dst != src)
    return bounded(requests)


def stride(context: WorkloadContext, keys: StrideKeys) -> list[FlowRequest]:
    """Host x sends to host (x + `stride`) mod n (Hedera)."""
    hosts, step = context.hosts, keys.stride
    require(step % len(hosts) != 0, "stride", step, f"sends each of {len(hosts)} hosts to itself; give another")
    return [flow(src, hosts[(number + step) % len(hosts)]) for number, src in enumerate(hosts)]


def random_destinations(context: WorkloadContext, keys: RandomKeys) -> list[FlowRequest]:
    """Each host sends to `flows` different others, drawn uniformly; several may share a receiver (Hedera)."""
    hosts, times = context.hosts, keys.flows
    require(times < len(hosts), "flows", times, f"is not below the {len(hosts)} hosts; give fewer destinations a host")
    stream = context.stream()
    return [flow(src, dst) for src in hosts for dst in stream.shuffled([host for host in hosts if host != src])[:times]]


def random_bijective(context: WorkloadContext) -> list[FlowRequest]:
    """A random permutation in which no host sends to itself: every host receives from exactly one (Hedera)."""
    hosts, stream = context.hosts, context.stream()
    order = stream.shuffled(hosts)
    while any(src == dst for src, dst in zip(hosts, order, strict=True)):
        order = stream.shuffled(hosts)  # a third of all permutations will do
    return [flow(src, dst) for src, dst in zip(hosts, order, strict=True)]


def staggered(context: WorkloadContext, keys: StaggeredKeys) -> list[FlowRequest]:
    """Each host sends to one on its edge switch, in its pod, or elsewhere, by probability (Hedera).

    On its own edge switch with probability `p_edge`, in its own pod but not on its edge switch with `p_pod`, elsewhere with
    the rest. Several may share a receiver.
    """
    p_edge, p_pod = keys.p_edge, keys.p_pod
    require(p_edge + p_pod <= 1 + 1e-9, "p_pod", p_pod, f"and workload.p_edge {p_edge} are above 1 together; lower one")
    pods, stream = pods_of(context), context.stream()
    return [flow(src, _staggered_to(context, pods, src, p_edge, p_pod, stream)) for src in context.hosts]


def hotspot(context: WorkloadContext) -> list[FlowRequest]:
    """Iroko's fixed table for 16 hosts: one flow per host, at most three to one receiver."""
    if len(context.hosts) != HOTSPOT_HOSTS:
        have = f"the topology has {len(context.hosts)} hosts, not {HOTSPOT_HOSTS}"
        raise WorkloadError(f"workload.kind 'hotspot': {have}; take the preset fattree-k4")
    return read_matrix(HOTSPOT_FILE, set(context.hosts))


def pods_of(context: WorkloadContext) -> dict[str, int]:
    """The pod of every host: edge switches that share a switch of the layer above, not counting the core, are one pod.

    In a network of two layers an edge switch is a pod of its own.
    """
    graph = context.graph
    layers = {switch.name: switch.layer for switch in graph.switches}
    edges = list(dict.fromkeys(context.edge_of(host) for host in context.hosts))
    middle = {edge: {name for name in graph.neighbours(edge) if layers.get(name) == "agg"} for edge in edges}
    has_core = "core" in layers.values()
    pod: dict[str, int] = {}
    for edge in edges:
        same = [pod[other] for other in pod if has_core and middle[edge] & middle[other]]
        pod[edge] = same[0] if same else len(pod)
    return {host: pod[context.edge_of(host)] for host in context.hosts}


def _staggered_to(context: WorkloadContext, pods: dict[str, int], src: str, p_edge: float, p_pod: float, stream: Stream) -> str:
    others = [host for host in context.hosts if host != src]
    edge = [host for host in others if context.edge_of(host) == context.edge_of(src)]
    pod = [host for host in others if pods[host] == pods[src] and host not in edge]
    rest = [host for host in others if pods[host] != pods[src]]
    drawn = 0 if stream.chance(p_edge) else 1 if p_edge < 1 and stream.chance(min(1.0, p_pod / (1 - p_edge))) else 2
    classes = [edge, pod, rest]
    return stream.choose(next(members for members in (*classes[drawn:], *reversed(classes[:drawn])) if members))


register("pairs", pairs)
register("none", none)
register("many_to_one", many_to_one, ManyToOneKeys)
register("all_to_all", all_to_all, AllToAllKeys)
register("stride", stride, StrideKeys)
register("staggered", staggered, StaggeredKeys)
register("random", random_destinations, RandomKeys)
register("random_bijective", random_bijective)
register("hotspot", hotspot)
