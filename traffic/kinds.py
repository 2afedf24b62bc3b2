# SPDX-License-Identifier: Apache-2.0
"""The parts of every kind of workload: its keys, what it sees of the experiment, the registry, gates and repetitions.

A kind is one function from a WorkloadContext to its flows and one `register` call at the end of its file. workloads.py imports
the files. Times are ns relative to t0, sizes payload bytes, rates bit/s of payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.errors import WorkloadError
from dc_gym.base.spelling import unknown
from dc_gym.topologies.graph import Graph, Port
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.flows import MOST_FLOWS, FlowRequest
from dc_gym.traffic.sizes import HEADER_BYTES, SEGMENT_BYTES

DEFAULT_PORT = 5001  # iperf's
NS_PER_S = 10**9


@dataclass(frozen=True, slots=True)
class WorkloadParams:
    """The keys of [workload], parsed (docs/spec.md). None means not given."""

    kind: str
    size_bytes: int = 0  # 0: no limit
    rate_bps: int = 0  # 0: no limit
    start_ns: int = 0
    stop_ns: int | None = None  # None: the duration
    jitter_ns: int = 0
    transport: str = "tcp"
    gaps: str = "exact"  # between the packets of a flow with a rate
    # Keys that only some kinds read:
    file: Path | None = None
    pattern: str | None = None
    broken: str | None = None
    senders: int | None = None
    flows: int | None = None
    stride: int | None = None
    p_edge: float | None = None
    p_pod: float | None = None
    ends: str | None = None
    rounds: int | None = None
    interval_ns: int | None = None
    intervals: str | None = None
    last_start_ns: int | None = None
    request_bytes: int | None = None
    long: int | None = None
    short: int | None = None
    short_start_ns: int | None = None
    on_ns: int | None = None
    off_ns: int | None = None
    distribution: str | None = None
    distribution_file: Path | None = None
    load: float | None = None
    load_counts: str | None = None
    load_of: str | None = None
    truncate_bytes: int | None = None
    size_scale: float | None = None
    outstanding: int | None = None
    mix: str | None = None
    storage: int | None = None
    replicas: int | None = None
    compute_ns: int | None = None
    largest_bytes: int | None = None
    schedule: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise WorkloadError(unknown("workload.kind", self.kind, KINDS))
        for each in fields(self):
            value = getattr(self, each.name)
            if type(value) is int and value < 0:
                raise WorkloadError(f"{key_of(each.name)}: value {value} is negative; give 0 or more")
            if each.default is None and each.name != "stop_ns" and value is not None and each.name not in KINDS[self.kind].uses:
                raise WorkloadError(f"{key_of(each.name)}: value {str(value)!r} has no effect with kind {self.kind!r}; remove it")


def key_of(name: str) -> str:
    """Returns the spec's key of a field: size_bytes -> workload.size."""
    return "workload." + name.removesuffix("_ns").removesuffix("_bps").removesuffix("_bytes")


@dataclass(frozen=True)
class WorkloadContext:
    """The part of the experiment that a kind sees."""

    graph: Graph
    params: WorkloadParams
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
        """The time in which flows may start, in ns from workload.start."""
        ends = (self.duration_ns, self.params.stop_ns, self.params.last_start_ns)
        stop = min(end for end in ends if end is not None)
        return max(0, stop - self.params.start_ns - self.params.jitter_ns)

    def stream(self, *labels: object) -> Stream:
        """Returns a stream of draws for this kind. All streams follow from the one seed."""
        return Stream(self.seed, "workload", self.params.kind, *labels)

    def need(self, name: str) -> Any:
        """Returns the value of a key that this kind requires."""
        value = getattr(self.params, name)
        if value is None or (name == "size_bytes" and value == 0):
            raise WorkloadError(
                f"{key_of(name)} is missing: kind {self.params.kind!r} needs it; docs/workloads.md says what it is"
            )
        return value

    def ports_of(self, host: str) -> list[Port]:
        """Returns the host's interfaces."""
        return self._access[host]

    def rate_bps(self, host: str) -> int:
        """Returns the total rate of the host's interfaces."""
        return sum(self.graph.cable_of(port).rate_bps for port in self._access[host])

    def edge_of(self, host: str) -> str:
        """Returns the switch at the host's first interface."""
        return self.graph.peer(self._access[host][0]).node

    def least_ns(self, src: str, dst: str, size_bytes: int) -> int:
        """Returns a lower bound of the time of a flow of that size.

        It is three one-way delays over the access links, and the time of its bytes over the slower link.
        """
        cables = [self.graph.cable_of(self._access[host][0]) for host in (src, dst)]
        wire_bytes = size_bytes + HEADER_BYTES * -(-size_bytes // SEGMENT_BYTES)
        slowest = min(self.rate_bps(src), self.rate_bps(dst))
        return 3 * sum(cable.delay_ns for cable in cables) + wire_bytes * 8 * NS_PER_S // slowest + 1

    @cached_property
    def _access(self) -> dict[str, list[Port]]:
        return {host: list(self.graph.ports_of(host)) for host in self.hosts}


Pattern = Callable[[WorkloadContext], list[FlowRequest]]


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A registered kind of workload, the keys that not all kinds read, and those of all kinds that it handles itself."""

    pattern: Pattern
    uses: tuple[str, ...]


KINDS: dict[str, WorkloadKind] = {}


def register(name: str, pattern: Pattern, uses: tuple[str, ...] = ()) -> None:
    """Registers a pattern as a value of workload.kind. `uses` lists fields of WorkloadParams.

    If `uses` contains "size_bytes", the pattern itself handles workload.size; otherwise workload.size is the size of each flow
    that has none.
    """
    if name in KINDS:
        raise WorkloadError(f"workload.kind {name!r} is registered already; choose another name")
    usercode.check_call(WorkloadError, f"workload.kind {name!r}", pattern, "context")
    usercode.check_tuple(WorkloadError, f"workload.kind {name!r}: uses", uses)
    known = [each.name for each in fields(WorkloadParams)]
    if strange := [key for key in uses if key not in known]:
        raise WorkloadError(f"workload.kind {name!r}: " + unknown("key", strange[0], known))
    KINDS[name] = WorkloadKind(pattern, uses)


@dataclass(slots=True)
class Gates:
    """Hands out the numbers of gates, each once."""

    _numbers: count[int] = field(default_factory=count)

    def new(self) -> int:
        return next(self._numbers)


def require(holds: bool, key: str, value: object, why: str) -> None:
    """Raises a WorkloadError about a key unless the condition holds."""
    if not holds:
        raise WorkloadError(f"{key_of(key)}: value {value} {why}")


def bounded(flows: Iterable[FlowRequest]) -> list[FlowRequest]:
    """Returns all flows if their number is within the limit of a run."""
    found: list[FlowRequest] = []
    for flow in flows:
        found.append(flow)
        if len(found) > MOST_FLOWS:
            raise WorkloadError(
                f"more than {MOST_FLOWS} flows may fit into the run; run shorter, or ask for larger or fewer flows"
            )
    return found


def chained(
    context: WorkloadContext, gates: Gates, reps: int | None, make: Callable[[int], tuple[FlowRequest, int]]
) -> list[FlowRequest]:
    """Repeats a flow: each repetition starts a gap after the one before has ended.

    `make` returns a repetition, as if it were alone, and the gap before it. With `reps` None it is endless: as many repetitions
    as could fit into the run if nothing ever waited. Those that do not start are left out of the results.
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
