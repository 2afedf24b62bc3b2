# SPDX-License-Identifier: Apache-2.0
"""A job: ranks that compute and exchange messages over connections that last as long as it does (traffic/job_graph.py).

Its flows are its connections. What they carry, and when, is in the graph, which each of them has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.key import COUNT, NUMBER, PATH, TEXT, TIME, WORDS, key
from dc_gym.traffic import shared_keys
from dc_gym.traffic.flows import NIC_TRANSPORTS, FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, WorkloadContext, bounded, register, require

if TYPE_CHECKING:
    from dc_gym.traffic.job_graph import Job, JobGraph

PLACEMENTS = ("packed", "round_robin", "random")
NAMES = (
    *("all_reduce_ring", "all_reduce_tree", "all_reduce_halving_doubling", "all_gather", "reduce_scatter"),
    *("all_to_all", "all_to_all_pairwise", "broadcast", "all_reduce_hierarchical"),
)
"""The collectives of traffic/job_collectives.py, which needs numpy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKeys:
    """Keys of kind job."""

    file: Path | None = key(PATH, help="a job, relative to the spec: GOAL text, or SimAI's workload; in place of `collective`")
    collective: str | None = key(TEXT, names=lambda: NAMES, help="the collective of each iteration")
    size_bytes: int | None = shared_keys.size(needed=False)
    ranks: int | None = key(COUNT, low=2, otherwise="all hosts", help="number of ranks of the collective")
    rounds: int = key(COUNT, 1, low=1, help="iterations")
    compute_ns: int = key(TIME, 0, low=0, help="time for which a rank computes before it sends")
    local_ranks: int | None = key(COUNT, low=2, help="ranks of a node, of `all_reduce_hierarchical`")
    stragglers: int = key(COUNT, 0, low=0, help="number of ranks, by seed, that compute `slowdown` times as long")
    slowdown: float | None = key(NUMBER, low=1, help="how many times as long stragglers compute")
    placement: str = key(
        TEXT,
        "packed",
        names=lambda: PLACEMENTS,
        help="hosts of ranks 0, 1, ...: `packed` (in their order), `round_robin` (edge switches take turns), `random`, by seed",
    )
    hosts: tuple[str, ...] | None = key(WORDS, otherwise="all hosts", help="those that `placement` uses")


def job(context: WorkloadContext, keys: JobKeys) -> list[FlowRequest]:
    """Ranks compute and exchange messages as a graph says: `rounds` of a `file`, or of a `collective` of `size`.

    Two ranks exchange messages over one connection, which lasts as long as the job; over RDMA over one for each size of message.
    """
    from dc_gym.traffic.job_graph import Job

    workload = context.workload
    for name, value in (("rate", workload.rate_bps), ("stop", workload.stop_ns), ("jitter", workload.jitter_ns or None)):
        require(value is None, name, value, "has no effect on a job, whose graph says when it sends; leave it out")
    require(workload.transport != "udp", "transport", "udp", "loses messages for good; give another")
    hosts = _placed(context, keys)
    graph = _graph(keys, len(hosts))
    count = f"has {graph.ranks} ranks, and there are {len(hosts)} hosts for them; give as many"
    require(graph.ranks <= len(hosts), "file", keys.file, count)
    if slow := _stragglers(context, keys, graph.ranks):
        graph = graph.slowed(slow, keys.slowdown or 1)
    made = Job.of(graph, tuple(hosts[: graph.ranks]), one_size=workload.transport in NIC_TRANSPORTS)
    context.notes["job"] = {"ranks": graph.ranks, "nodes": len(graph.nodes), "messages": len(made.connection)}
    context.notes["job"] |= {"stragglers": slow} if slow else {}
    return bounded(_connections(made))


def _connections(made: Job) -> Iterable[FlowRequest]:
    for src, dst, message_bytes, total_bytes in made.connections.tolist():
        yield FlowRequest(
            made.hosts[src],
            made.hosts[dst],
            DEFAULT_PORT,
            size_bytes=total_bytes,
            group="connection",
            message_bytes=message_bytes,
            job=made,
        )


def _graph(keys: JobKeys, hosts: int) -> JobGraph:
    """Returns the graph of the file or of the collective."""
    from dc_gym.traffic import job_collectives, job_files

    if keys.file is not None:
        of_collective = {"collective": keys.collective, "size": keys.size_bytes, "ranks": keys.ranks}
        of_collective |= {"compute": keys.compute_ns or None, "local_ranks": keys.local_ranks}
        for name, given in of_collective.items():
            require(given is None, name, given, "has no effect with workload.file; leave one of the two out")
        return job_files.read(keys.file).repeated(keys.rounds)
    require(keys.collective is not None, "file", None, "is missing; give a file, or a collective and its size")
    require(keys.size_bytes is not None, "size", None, "is missing; give the bytes of the collective such as 1MB")
    assert keys.collective is not None and keys.size_bytes is not None
    ranks = keys.ranks or hosts
    require(2 <= ranks <= hosts, "ranks", ranks, f"is not in 2..{hosts}, one for each host; give as many hosts")
    local, hierarchical = keys.local_ranks, keys.collective == job_collectives.HIERARCHICAL
    if hierarchical:
        divides = f"does not divide {ranks} ranks; give the ranks of a node such as {ranks // 2}"
        require(local is not None and local < ranks and ranks % local == 0, "local_ranks", local, divides)
    else:
        require(local is None, "local_ranks", local, f"is of {job_collectives.HIERARCHICAL} alone; leave it out")
        if job_collectives.COLLECTIVES[keys.collective].powers:
            require(ranks & (ranks - 1) == 0, "ranks", ranks, f"is no power of two, which {keys.collective} needs; give one")
    return job_collectives.graph(keys.collective, ranks, keys.size_bytes, keys.rounds, keys.compute_ns, local or 1)


def _stragglers(context: WorkloadContext, keys: JobKeys, ranks: int) -> list[int]:
    """Returns the ranks that compute more slowly."""
    require(keys.stragglers <= ranks, "stragglers", keys.stragglers, f"is above the {ranks} ranks; give at most as many")
    require((keys.slowdown is None) == (not keys.stragglers), "slowdown", keys.slowdown, "and stragglers go together; give both")
    return sorted(context.stream("stragglers").shuffled(list(range(ranks)))[: keys.stragglers]) if keys.stragglers else []


def _placed(context: WorkloadContext, keys: JobKeys) -> list[str]:
    """Returns the hosts in the order of their ranks."""
    hosts = context.hosts if keys.hosts is None else list(keys.hosts)
    known, last = set(context.hosts), context.hosts[-1]
    for number, host in enumerate(keys.hosts or ()):
        require(host in known, "hosts", repr(host), f"is not one of the hosts {context.hosts[0]} .. {last}; name one")
        require(host not in hosts[:number], "hosts", repr(host), "comes twice; name a host for each rank")
    if keys.placement == "random":
        return context.stream("placement").shuffled(hosts)
    if keys.placement == "packed":
        return hosts
    turns: dict[str, int] = {}
    places = []
    for number, host in enumerate(hosts):
        edge = context.edge_of(host)
        places.append((turns.get(edge, 0), number))
        turns[edge] = turns.get(edge, 0) + 1
    return [hosts[number] for _, number in sorted(places)]


register("job", job, JobKeys)
