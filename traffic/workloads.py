# SPDX-License-Identifier: Apache-2.0
"""Workloads: the senders, receivers and times of flows (docs/workloads.md). Their kinds are found in the folder kinds/.

A kind gives the pattern. `generate` adds to every flow the values of the spec's other keys (docs/spec.md, workload.*).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.errors import WorkloadError
from dc_gym.topologies.ecmp import draw
from dc_gym.topologies.graph import Graph
from dc_gym.traffic import kinds
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.flows import NO_GATE, FlowRequest
from dc_gym.traffic.kinds import WorkloadContext, bounded, register
from dc_gym.traffic.sections import Section
from dc_gym.traffic.workload_spec import KINDS, TrafficSpec, WorkloadSpec

__all__ = ["KINDS", "TrafficSpec", "WorkloadSpec", "generate", "generate_side_by_side", "generate_with_notes", "register"]

FAMILIES = tuple(import_module(f"{kinds.__name__}.{module.name}") for module in iter_modules(kinds.__path__))
"""The modules of kinds/, by name. Importing a module registers its kinds."""


def generate(graph: Graph, workload: TrafficSpec, duration_ns: int, seed: int) -> list[FlowRequest]:
    """Returns the flows of a run, in the order of the pattern. Equal arguments give equal flows."""
    return generate_with_notes(graph, workload, duration_ns, seed)[0]


def generate_side_by_side(
    graph: Graph,
    phases: Sequence[Section],
    others: Sequence[TrafficSpec],
    duration_ns: int,
    seed: int,
    *,
    may_be_idle: bool = False,
) -> tuple[list[FlowRequest], dict[str, object]]:
    """Returns the flows of all workloads of a run, one workload after the other, and their notes.

    `phases` belong to the first workload. Each workload has draws of its own. The first workload's draws do not depend on the
    others.
    """
    flows, notes = generate_phases(graph, phases, duration_ns, seed, may_be_idle=may_be_idle or bool(others))
    beside = []
    for number, workload in enumerate(others, 1):
        own_seed = draw(seed, "beside", number)
        try:
            more, more_notes = generate_with_notes(graph, workload, duration_ns, own_seed, may_be_idle=may_be_idle)
        except WorkloadError as error:
            raise WorkloadError(f"workload.beside[{number - 1}]: {error}") from None
        gates = 1 + max((gate for flow in flows for gate in (flow.gate, *flow.opens)), default=NO_GATE)
        flows += [_beside(flow, number, gates) for flow in more]
        beside.append(more_notes)
    return bounded(flows), notes | ({"beside": beside} if any(beside) else {})


def _beside(flow: FlowRequest, number: int, gates: int) -> FlowRequest:
    """Returns a flow of another workload. `gates` is the number of gates of those before it."""
    gate = NO_GATE if flow.gate == NO_GATE else flow.gate + gates
    return replace(flow, workload=number, gate=gate, opens=tuple(opened_gate + gates for opened_gate in flow.opens))


def generate_with_notes(
    graph: Graph, workload: TrafficSpec, duration_ns: int, seed: int, *, may_be_idle: bool = False
) -> tuple[list[FlowRequest], dict[str, object]]:
    """Returns the flows, and the kind's notes about itself. With `may_be_idle`, it is no error if a seed gives no flow at all."""
    context = WorkloadContext(graph, workload, duration_ns, seed)
    requests = workload.pattern(context, *workload.arguments())
    fill_size_bytes = 0 if workload.handles_size else workload.size_bytes or 0
    flows = [_timed(flow, context, fill_size_bytes, row) for row, flow in enumerate(_flows(requests, context))]
    if workload.kind == "none" or may_be_idle:
        return flows, context.notes
    if not flows:
        raise WorkloadError(
            f"workload.kind {workload.kind!r}: it gives no flow in this network and time; run longer or load more"
        )
    if all(flow.start_ns >= duration_ns for flow in flows if flow.gate == NO_GATE):
        raise WorkloadError(f"no flow starts before the end of the run, time.duration {duration_ns} ns; run longer")
    return flows, context.notes


def generate_phases(
    graph: Graph, sections: Sequence[Section], duration_ns: int, seed: int, *, may_be_idle: bool = False
) -> tuple[list[FlowRequest], dict[str, object]]:
    """Returns the flows of a workload with phases, one phase after the other, and the notes of the first.

    To its kind, a phase looks like a run of its own. If there are several, the notes have each phase's notes as `phases`.
    """
    flows: list[FlowRequest] = []
    notes: list[dict[str, object]] = []
    ends_ns = [*(phase.at_ns for phase in sections[1:]), duration_ns]
    for number, (section, end_ns) in enumerate(zip(sections, ends_ns, strict=True)):
        own_seed, length_ns = section.seed(seed, number), end_ns - section.at_ns
        phase_flows, phase_notes = generate_with_notes(graph, section.workload, length_ns, own_seed, may_be_idle=may_be_idle)
        section.check(phase_flows, last=section is sections[-1])
        flows += [section.shifted(flow) for flow in phase_flows]
        notes.append({"at_ns": section.at_ns, "kind": section.workload.kind, **phase_notes})
    first = {name: value for name, value in notes[0].items() if name not in ("at_ns", "kind")}
    return bounded(flows), first | ({"phases": notes} if len(notes) > 1 else {})


def _flows(flows: object, context: WorkloadContext) -> Iterator[FlowRequest]:
    """Yields the flows of a pattern. Raises WorkloadError unless it is flows between hosts of the network."""
    kind, hosts = f"workload.kind {context.workload.kind!r}", set(context.hosts)
    if not isinstance(flows, Iterable):
        raise WorkloadError(f"{kind}: its function gives {usercode.shown(flows)} instead of a list of FlowRequests; return one")
    for row, flow in enumerate(flows):
        if not isinstance(flow, FlowRequest):
            raise WorkloadError(f"{kind}: flow {row} is {usercode.shown(flow)}; make it a FlowRequest")
        if flow.src not in hosts or flow.dst not in hosts:
            strange = flow.dst if flow.src in hosts else flow.src
            one, last = context.hosts[0], context.hosts[-1]
            raise WorkloadError(
                f"{kind}: flow {row}: {strange!r} is not one of the hosts {one} .. {last}; take them from context.hosts"
            )
        yield flow


def _timed(flow: FlowRequest, context: WorkloadContext, fill_size_bytes: int, row: int) -> FlowRequest:
    """Returns a pattern's flow completed with the spec's keys.

    workload.start and jitter move a flow. workload.size, rate, stop, transport and dscp apply where the pattern gives nothing. A
    flow without any end stops with the run.
    """
    workload = context.workload
    size_bytes = flow.size_bytes or fill_size_bytes
    later_ns = _jitter_ns(workload, context.seed, row) + (workload.start_ns if flow.gate == NO_GATE else 0)
    stop_ns = workload.stop_ns or 0
    if flow.stop_ns:
        stop_ns = flow.stop_ns + (later_ns if flow.gate == NO_GATE else workload.start_ns)
    if not stop_ns and not size_bytes and not flow.length_ns:
        stop_ns = context.duration_ns
    values: dict[str, Any] = {
        "start_ns": flow.start_ns + later_ns,
        "stop_ns": stop_ns,
        "size_bytes": size_bytes,
        "rate_bps": flow.rate_bps or workload.rate_bps or 0,
        "transport": flow.transport or workload.transport or "tcp",
        "dscp": workload.dscp if flow.dscp is None else flow.dscp,
        "gaps": workload.gaps if flow.gaps == "exact" else flow.gaps,
    }
    changed = {name: value for name, value in values.items() if getattr(flow, name) != value}
    return replace(flow, **changed) if changed else flow  # a run may have a million flows; most stay as they are


def _jitter_ns(workload: TrafficSpec, seed: int, row: int) -> int:
    """Returns a draw from [0, jitter), by seed and row."""
    if not workload.jitter_ns:
        return 0
    if workload.jitter_distribution == "gaussian":
        return Stream(seed, "jitter", row).gaussian_below(workload.jitter_ns)
    return draw(seed, "jitter", row) * workload.jitter_ns >> 64
