# SPDX-License-Identifier: Apache-2.0
"""Fan-in: incast in rounds, and partition-aggregate, where all answer an aggregator at once (DCTCP, section 2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dc_gym.base.key import SIZE, key
from dc_gym.traffic import shared_keys
from dc_gym.traffic.flows import MOST_FLOWS, NO_GATE, FlowRequest
from dc_gym.traffic.kinds import DEFAULT_PORT, Gates, WorkloadContext, bounded, register, require
from dc_gym.traffic.kinds.patterns import endpoints

REQUEST_BYTES = 1600  # a query in DCTCP's cluster (SIGCOMM 2010, section 2.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncastKeys:
    """Keys of kind incast."""

    size_bytes: int = shared_keys.size()
    senders: int = shared_keys.senders("simultaneous flows", needed=True)
    rounds: int | None = shared_keys.rounds("rounds")
    interval_ns: int = shared_keys.interval("time from the end of a round to the next")
    intervals: str = shared_keys.intervals()
    ends: str = shared_keys.ends()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAggregateKeys:
    """Keys of kind partition_aggregate."""

    size_bytes: int = shared_keys.size()
    senders: int | None = shared_keys.senders("hosts that answer a query", "all others")
    request_bytes: int = key(SIZE, REQUEST_BYTES, low=1, help="size of a query's request")
    interval_ns: int = shared_keys.interval("time between queries", None, needed=True)
    intervals: str = shared_keys.intervals("exponential")
    last_start_ns: int | None = shared_keys.last_start()


def incast(context: WorkloadContext, keys: IncastKeys) -> list[FlowRequest]:
    """`senders` flows of `size` to the last host, all at once, in rounds.

    More senders than hosts take turns. The next round starts `interval` after the last flow of a round has ended.
    """
    size, senders = keys.size_bytes, keys.senders
    ends = endpoints(context, keys.ends, senders)
    stream, gates = context.stream("gaps"), Gates()
    bytes_in = size * senders
    least_ns = max(context.least_ns(*ends[0], size), bytes_in * 8 * 10**9 // context.rate_bps(context.hosts[-1]))
    flows: list[FlowRequest] = []
    now_ns, gate, rounds = 0, NO_GATE, keys.rounds
    for number in range(MOST_FLOWS if rounds is None else rounds):
        pause_ns = stream.around(keys.interval_ns, keys.intervals) if number else 0
        now_ns += pause_ns
        if number and rounds is None and now_ns >= context.horizon_ns:
            break
        opens, spare = gates.new(), rounds is None and number > 0
        one = FlowRequest(
            *ends[0], DEFAULT_PORT, pause_ns, size_bytes=size, group="response", rep=number, gate=gate, opens=(opens,)
        )
        flows += [replace(one, src=src, dst=dst, spare=spare) for src, dst in ends]
        require(len(flows) <= MOST_FLOWS, "rounds", rounds, f"makes more than {MOST_FLOWS} flows; run shorter or give fewer")
        gate, now_ns = opens, now_ns + least_ns
    return flows


def partition_aggregate(context: WorkloadContext, keys: PartitionAggregateKeys) -> list[FlowRequest]:
    """Queries: a random host sends `request` to `senders` random others, and each then answers with `size` / `senders`.

    Queries start as a Poisson process (or by `intervals`) with mean `interval` and do not wait for each other (DCTCP, section 2).
    Default: all others. Groups `query` and `response`.
    """
    size, interval_ns = keys.size_bytes, keys.interval_ns
    hosts, stream, gates = context.hosts, context.stream(), Gates()
    senders = keys.senders or len(hosts) - 1
    require(senders < len(hosts), "senders", senders, f"is not below the {len(hosts)} hosts; one of them aggregates")
    require(size >= senders, "size", size, f"leaves nothing for each of {senders} workers; give more")
    expected = 2 * senders * context.horizon_ns // max(1, interval_ns)
    require(expected <= MOST_FLOWS, "interval", interval_ns, f"makes about {expected} flows, a run takes {MOST_FLOWS}")
    flows: list[FlowRequest] = []
    now_ns, query = 0, 0
    while now_ns < context.horizon_ns:
        aggregator = stream.choose(hosts)
        for worker in stream.shuffled([host for host in hosts if host != aggregator])[:senders]:
            gate = gates.new()
            ask = FlowRequest(
                aggregator, worker, DEFAULT_PORT, now_ns, size_bytes=keys.request_bytes, group="query", rep=query, opens=(gate,)
            )
            flows.append(ask)
            answer = FlowRequest(
                worker, aggregator, DEFAULT_PORT, size_bytes=size // senders, group="response", rep=query, gate=gate
            )
            flows.append(answer)
        now_ns, query = now_ns + max(1, stream.around(interval_ns, keys.intervals)), query + 1
    return bounded(flows)


register("incast", incast, IncastKeys)
register("partition_aggregate", partition_aggregate, PartitionAggregateKeys)
