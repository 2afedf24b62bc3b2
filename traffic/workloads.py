# SPDX-License-Identifier: Apache-2.0
"""Workloads: who sends to whom, and when. A kind is one function from a graph to its flows and one `register` at the end.

A kind gives the pattern; `generate` adds to every flow what the spec's other keys say (docs/spec.md, workload.*).
Times are ns relative to t0, sizes payload bytes, rates bit/s of payload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from dc_gym.errors import WorkloadError
from dc_gym.topologies.ecmp import draw
from dc_gym.topologies.graph import Graph
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.matrix import read_matrix

DEFAULT_PORT = 5001  # iperf's
HOTSPOT_FILE = Path(__file__).parent / "matrices" / "hotspot.csv"
HOTSPOT_HOSTS = 16


@dataclass(frozen=True, slots=True)
class WorkloadParams:
    """The keys of [workload], parsed."""

    kind: str
    file: Path | None = None  # matrix
    senders: int | None = None  # many_to_one; None: all hosts but the last
    size_bytes: int = 0  # 0: no limit
    rate_bps: int = 0  # 0: no limit
    start_ns: int = 0
    stop_ns: int | None = None  # None: the duration
    jitter_ns: int = 0
    transport: str = "tcp"
    gaps: str = "exact"  # of a flow with a rate

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise WorkloadError(f"workload.kind {self.kind!r} is unknown; one of: {', '.join(KINDS)}")
        for name in ("size_bytes", "rate_bps", "start_ns", "stop_ns", "jitter_ns"):
            if (getattr(self, name) or 0) < 0:
                key = name.removesuffix("_ns").removesuffix("_bps").removesuffix("_bytes")
                raise WorkloadError(f"workload.{key}: value {getattr(self, name)} is negative; give 0 or more")
        for name in ("file", "senders"):
            value = getattr(self, name)
            if value is not None and name not in KINDS[self.kind].uses:
                raise WorkloadError(f"workload.{name}: value {str(value)!r} means nothing to kind {self.kind!r}; remove it")


Pattern = Callable[[Graph, WorkloadParams], list[FlowRequest]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A registered kind of workload and the keys that only it reads."""

    pattern: Pattern
    uses: tuple[str, ...]


KINDS: dict[str, Kind] = {}


def register(name: str, pattern: Pattern, uses: tuple[str, ...] = ()) -> None:
    """Make a pattern known as workload.kind."""
    if name in KINDS:
        raise WorkloadError(f"workload.kind {name!r} is registered already; choose another name")
    KINDS[name] = Kind(pattern, uses)


def generate(graph: Graph, params: WorkloadParams, duration_ns: int, seed: int) -> list[FlowRequest]:
    """The flows of a run, in the order of the pattern, equal for equal arguments."""
    pattern = KINDS[params.kind].pattern(graph, params)
    flows = [_timed(flow, params, duration_ns, _jitter_ns(params.jitter_ns, seed, row)) for row, flow in enumerate(pattern)]
    for row, flow in enumerate(flows):
        if flow.start_ns >= duration_ns:
            raise WorkloadError(f"flow {row}: start_ns {flow.start_ns} is not before time.duration {duration_ns} ns; run longer")
    return flows


def pairs(graph: Graph, params: WorkloadParams) -> list[FlowRequest]:
    """Host i to host i + n/2: on a dumbbell each host of the left to its partner on the right."""
    names = [host.name for host in graph.hosts]
    half = len(names) // 2
    if len(names) % 2:
        raise WorkloadError(f"workload.kind 'pairs': {len(names)} hosts are an odd number; take many_to_one or another topology")
    return [FlowRequest(src, dst, DEFAULT_PORT) for src, dst in zip(names[:half], names[half:], strict=True)]


def many_to_one(graph: Graph, params: WorkloadParams) -> list[FlowRequest]:
    """The first `senders` hosts to the last host."""
    *others, last = [host.name for host in graph.hosts]
    senders = len(others) if params.senders is None else params.senders
    if not 1 <= senders <= len(others):
        raise WorkloadError(f"workload.senders: value {senders} is not in 1..{len(others)}; the last host receives")
    return [FlowRequest(src, last, DEFAULT_PORT) for src in others[:senders]]


def hotspot(graph: Graph, params: WorkloadParams) -> list[FlowRequest]:
    """Iroko's fixed hotspot pattern for 16 hosts: one flow a host, at most three to one receiver (matrices/README.md)."""
    if len(graph.hosts) != HOTSPOT_HOSTS:
        have = f"the topology has {len(graph.hosts)} hosts, not {HOTSPOT_HOSTS}"
        raise WorkloadError(f"workload.kind 'hotspot': {have}; take the preset fattree-k4")
    return read_matrix(HOTSPOT_FILE, {host.name for host in graph.hosts})


def matrix(graph: Graph, params: WorkloadParams) -> list[FlowRequest]:
    """The flows of a CSV file."""
    if params.file is None:
        raise WorkloadError("workload.file is missing: kind 'matrix' needs it; give the path of a CSV file")
    return read_matrix(params.file, {host.name for host in graph.hosts})


def _timed(flow: FlowRequest, params: WorkloadParams, duration_ns: int, jitter_ns: int) -> FlowRequest:
    """The flow of a pattern with the spec's keys.

    workload.start moves the whole pattern; workload.size, rate and stop stand in where the pattern says nothing.
    A flow without a size always stops.
    """
    size_bytes = flow.size_bytes or params.size_bytes
    stop_ns = flow.stop_ns + params.start_ns if flow.stop_ns else params.stop_ns or 0
    if not stop_ns and not size_bytes:
        stop_ns = duration_ns
    return replace(
        flow,
        start_ns=flow.start_ns + params.start_ns + jitter_ns,
        stop_ns=stop_ns,
        size_bytes=size_bytes,
        rate_bps=flow.rate_bps or params.rate_bps,
        transport=params.transport,
        gaps=params.gaps,
    )


def _jitter_ns(bound_ns: int, seed: int, row: int) -> int:
    """Uniform in [0, bound), by seed and row."""
    return draw(seed, "jitter", row) * bound_ns >> 64


register("pairs", pairs)
register("many_to_one", many_to_one, ("senders",))
register("hotspot", hotspot)
register("matrix", matrix, ("file",))
