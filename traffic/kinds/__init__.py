# SPDX-License-Identifier: Apache-2.0
"""The parts of every kind of workload: its view of the experiment, the registry, gates and repetitions.

A kind is one function from a WorkloadContext and its keys to its flows, a dataclass of these keys, and one `register` call at the
end of its file. workloads.py imports the files of this folder.

Times are ns relative to t0, sizes payload bytes, rates bit/s of payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count
from typing import Any

from dc_gym.base.errors import WorkloadError
from dc_gym.topologies.graph import Graph, Port
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.flows import MOST_FLOWS, FlowRequest
from dc_gym.traffic.sizes import HEADER_BYTES
from dc_gym.traffic.workload_spec import KINDS, TrafficSpec

DEFAULT_PORT = 5001  # iperf's
NS_PER_S = 10**9
LAST_START = "last_start"
"""The key, of kinds that declare it, after which no flow starts."""


@dataclass(frozen=True)
class WorkloadContext:
    """The part of the experiment that a kind sees."""

    graph: Graph
    workload: TrafficSpec
    """The keys that all kinds have."""
    duration_ns: int
    seed: int
    notes: dict[str, Any] = field(default_factory=dict)
    """Notes of the kind about itself. They go into the manifest."""

    @cached_property
    def hosts(self) -> list[str]:
        """The hosts' names, in the order of the graph."""
        return [host.name for host in self.graph.hosts]

    @property
    def horizon_ns(self) -> int:
        """The time in which flows may start, in ns from workload.start. It ends at `last_start` if the kind has that key."""
        ends = (self.duration_ns, self.workload.stop_ns, dict(self.workload.own).get(LAST_START))
        stop = min(end for end in ends if end is not None)
        return max(0, stop - self.workload.start_ns - self.workload.jitter_ns)

    def stream(self, *labels: object) -> Stream:
        """Returns a stream of draws for this kind. All streams follow from the one seed."""
        return Stream(self.seed, "workload", self.workload.kind, *labels)

    def ports_of(self, host: str) -> list[Port]:
        """Returns the host's interfaces."""
        return self._access[host]

    def rate_bps(self, host: str) -> int:
        """Returns the total rate of the host's interfaces."""
        return sum(self.graph.cable_of(port).rate_bps for port in self._access[host])

    def offered_bps(self, src: str, transport: str | None) -> int:
        """Returns the rate of a flow in a matrix; 0 is no limit.

        It is workload.rate, otherwise for udp the rate of the host's link.

        Args:
            src: The host.
            transport: The flow's transport; None: the run's.
        """
        udp = (transport or self.workload.transport) == "udp"
        return self.workload.rate_bps or (self.rate_bps(src) if udp else 0)

    def edge_of(self, host: str) -> str:
        """Returns the switch at the host's first interface."""
        return self.graph.peer(self._access[host][0]).node

    def least_ns(self, src: str, dst: str, size_bytes: int) -> int:
        """Returns a lower bound of the time of a flow, ns.

        It is three one-way delays over the access links, and the time of its bytes over the slower link.

        Args:
            src: The sender.
            dst: The receiver.
            size_bytes: Its payload.
        """
        cables = [self.graph.cable_of(self._access[host][0]) for host in (src, dst)]
        wire_bytes = size_bytes + HEADER_BYTES * -(-size_bytes // self.graph.segment_bytes)
        slowest = min(self.rate_bps(src), self.rate_bps(dst))
        return (
            3 * sum(min(way.delay_ns for way in cable.directions()) for cable in cables)
            + wire_bytes * 8 * NS_PER_S // slowest
            + 1
        )

    @cached_property
    def _access(self) -> dict[str, list[Port]]:
        return {host: list(self.graph.ports_of(host)) for host in self.hosts}


def register(name: str, pattern: Callable[..., Iterable[FlowRequest]], keys: Any = None) -> None:
    """Registers a pattern as a value of workload.kind.

    Args:
        name: The value.
        pattern: `pattern(context, keys)`, or `pattern(context)` without keys. Its docstring describes senders, receivers, flows
        and times.
        keys: The dataclass of its keys. If it declares `size` (shared_keys.size), the pattern itself handles workload.size.
            Otherwise workload.size is the size of each flow that has none.
    """
    KINDS.add(name, pattern, keys)


@dataclass(slots=True)
class Gates:
    """Hands out the numbers of gates, each once."""

    _numbers: count[int] = field(default_factory=count)

    def new(self) -> int:
        """Returns a number that no gate has."""
        return next(self._numbers)


def require(holds: bool, key: str, value: object, why: str) -> None:
    """Checks a condition on a key.

    Args:
        holds: The condition.
        key: The key's name in [workload].
        value: Its value.
        why: The fault and the remedy, for the error.

    Raises:
        WorkloadError: It does not hold.
    """
    if not holds:
        raise WorkloadError(f"workload.{key}: value {value} {why}")


def bounded(flows: Iterable[FlowRequest]) -> list[FlowRequest]:
    """Returns all flows if their number is within the limit of a run."""
    flow_list: list[FlowRequest] = []
    for flow in flows:
        flow_list.append(flow)
        if len(flow_list) > MOST_FLOWS:
            raise WorkloadError(
                f"more than {MOST_FLOWS} flows may fit into the run; run shorter, or ask for larger or fewer flows"
            )
    return flow_list


def chained(
    context: WorkloadContext, gates: Gates, reps: int | None, make: Callable[[int], tuple[FlowRequest, int]]
) -> list[FlowRequest]:
    """Repeats a flow: each repetition starts a gap after the one before has ended.

    Args:
        context: The run.
        gates: Hands out the gates between repetitions.
        reps: The number of repetitions. None: endless, as many as could fit into the run if nothing ever waited; repetitions that
        do not start are left out of the results.
        make: Returns repetition n, as if it were alone, and the gap before it, ns.
    """
    chain: list[FlowRequest] = []
    now_ns, rep = 0, 0
    while (reps is None or rep < reps) and len(chain) <= MOST_FLOWS:
        flow, gap_ns = make(rep)
        now_ns += gap_ns if rep else flow.start_ns
        if rep and reps is None and now_ns >= min(context.horizon_ns, flow.stop_ns or context.horizon_ns):
            break
        if rep:
            gate = gates.new()
            chain[-1] = replace(chain[-1], opens=(*chain[-1].opens, gate))
            flow = replace(flow, start_ns=gap_ns, gate=gate, spare=reps is None)
        chain.append(replace(flow, rep=rep))
        least = [time for time in (flow.length_ns, _least_ns(context, flow)) if time]
        if not least:
            break  # the flow never ends
        now_ns, rep = now_ns + min(least), rep + 1
    return chain


def _least_ns(context: WorkloadContext, flow: FlowRequest) -> int:
    return context.least_ns(flow.src, flow.dst, flow.size_bytes) if flow.size_bytes else 0
