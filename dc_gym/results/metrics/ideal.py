# SPDX-License-Identifier: Apache-2.0
"""The ideal completion time of a flow: alone on the idle network, measured for each size, path class and controller.

A path class describes a path in both directions: rate, delay and queue of each hop. Lone flows are sent one after the other over
one path of each class, in a separate run with the same kernel and network. Their completion times are kept in the cache, keyed by
everything that they depend on. If there are few different sizes, each is measured. If there are many, a grid is measured: both
sides of every packet boundary up to BOUNDARIES packets, then sizes that double, halved wherever linear interpolation misses the
middle by more than HALVE. Values in between are interpolated linearly. The error of the interpolation is measured too, at sizes
that occur in the run (`Ideal.error`).

The closed form is a bound that no transport can beat: a handshake, propagation, and the frames' serialization hop by hop. It does
not model slow start, so the measured time is longer where the bandwidth-delay product exceeds the initial window.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import plain_json
from dc_gym.base.errors import TestbedError
from dc_gym.base.files import whole
from dc_gym.base.units import ETHERNET_BYTES, MTU_BYTES, TCP_HEADERS_BYTES
from dc_gym.kernel.cache import cache_dir, locked_if_ours
from dc_gym.results.tables import Records
from dc_gym.topologies.ecmp import Router, draw
from dc_gym.topologies.graph import Graph
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.schedule import FIRST_SOURCE_PORT, LAST_SOURCE_PORT, Flow, Schedule, both_ways, ways_from

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Measure = Callable[[Schedule, int], Records]
"""A function that runs a schedule's flows for a number of ns, on the ground and network of the run, and returns the table of
flows."""

FORMAT = 2
NOT_IDEAL = ("a", "b", "rate_bps", "delay_ns", "impairment")
PART = "ideal"  # folder in the cache
SYN_BYTES, LEAST_BYTES = 74, 60
EXACT = 48  # with at most this many sizes in a class, each is measured; more are interpolated
BOUNDARIES = 64
HALVE = 0.004
ROUNDS = 8
PROBES = 24
PROBE_BYTES = 64 * 10**6
MOST_FLOWS = 1500  # most lone flows in one run
GAP_NS = 5_000_000
PATIENCE = (4, 40, 400)  # closed forms and gaps that a lone flow may take until the next starts: at last 2 s or more


@dataclass(frozen=True, slots=True)
class Framing:
    """The split of payload into frames."""

    payload_bytes: int
    """The payload of a full frame."""
    header_bytes: int
    handshake: bool


def of_tcp(mtu_bytes: int = MTU_BYTES) -> Framing:
    """Returns TCP's framing, with timestamps."""
    return Framing(mtu_bytes - TCP_HEADERS_BYTES, ETHERNET_BYTES + TCP_HEADERS_BYTES, handshake=True)


NO_FRAMINGS: Mapping[str | None, Framing] = {}


@dataclass(frozen=True, slots=True)
class PathClass:
    """The description of a path: each hop as (rate in bit/s, delay in ns, the graph's other properties of cable and queue)."""

    forward: tuple[tuple[int, int, str], ...]
    backward: tuple[tuple[int, int, str], ...]
    framing: Framing = field(default_factory=of_tcp, repr=False)

    def closed_form_ns(self, size_bytes: npt.ArrayLike) -> Floats:
        """Returns the time that no transport can beat, for flows of these sizes."""
        size = np.asarray(size_bytes, np.float64)
        rates = np.array([hop[0] for hop in self.forward], np.float64) / 8e9  # bytes per ns
        payload, header = self.framing.payload_bytes, self.framing.header_bytes
        packets = np.ceil(size / payload)
        full = float(payload + header)
        last = np.maximum(size - (packets - 1) * payload + header, LEAST_BYTES)
        best = np.zeros(size.shape)
        for m in range(len(rates)):  # the last packet may be shorter: from hop m on it has caught up
            head = full * (1 / rates[: m + 1]).sum() + (packets - 2) * full / rates[: m + 1].min()
            best = np.maximum(best, head + last * (1 / rates[m:]).sum())
        body = np.where(packets > 1, best, last * (1 / rates).sum())
        first = self.handshake_ns + header / rates[0] if self.framing.handshake else 0.0  # its ACK precedes the data
        total: Floats = first + sum(hop[1] for hop in self.forward) + body
        return total

    @property
    def handshake_ns(self) -> float:
        """The time of a SYN in one direction and the SYN-ACK back."""
        return sum(delay + SYN_BYTES * 8e9 / rate for rate, delay, _ in (*self.forward, *self.backward))


@dataclass(frozen=True, slots=True)
class Ideal:
    """The ideal times of each flow of a run. NaN (class -1) for a flow without a size, with a rate of its own, or over UDP."""

    path_class: npt.NDArray[np.int32]
    fct_ns: Floats
    closed_form_ns: Floats
    error: float | None
    """The largest relative error of interpolation, found at sizes that occur; 0: nothing is interpolated; None: not measured."""
    facts: dict[str, Any]
    """Facts for the manifest."""


@dataclass(slots=True)
class FctCurve:
    """The measured FCT by size, of one path class and controller."""

    path_class: PathClass
    model: Flow
    """A flow of the run on a path of this description."""
    file: Path
    wanted: Ints
    """The sizes that occur, ascending."""
    fits: Callable[[int], bool]
    """Returns whether the model would be on a path of this class with another source port."""
    known: dict[int, int] = field(default_factory=dict)
    """FCT by size, from the cache and from new measurements."""
    points: dict[int, int] = field(default_factory=dict)
    """The entries of `known` that this run asks for. Only these are interpolated, so that sizes asked for by other runs change
    nothing."""
    probed_to_bytes: int | None = None
    """The largest size at which the error was measured. For larger sizes the error is not known."""
    error: float = 0.0

    def at(self, sizes: npt.ArrayLike) -> Floats:
        """Returns the linear interpolation between the points."""
        known = np.array(sorted(self.points), np.float64)
        times = np.array([self.points[int(size)] for size in known], np.float64)
        return np.interp(np.asarray(sizes, np.float64), known, times)

    def missing(self, sizes: Iterable[int]) -> list[int]:
        return sorted({size for size in sizes if size not in self.points})


def of(
    schedule: Schedule,
    graph: Graph,
    router: Router,
    depends_on: Mapping[str, Any],
    measure: Measure | None,
    seed: int,
    framings: Mapping[str | None, Framing] = NO_FRAMINGS,
) -> Ideal:
    """Returns the ideal of every flow.

    `depends_on`: other inputs of an FCT. `measure`: None for the closed form alone. `framings`: by transport; without
    an entry, TCP's.
    """
    classes, of_flow = classify(schedule, graph, router, framings)
    sizes = np.array([flow.request.size_bytes for flow in schedule.flows], np.int64)
    closed, fct = (np.full(len(sizes), np.nan) for _ in range(2))
    for number, path_class in enumerate(classes):
        if not router.balance:  # it is the time over one path
            closed[of_flow == number] = path_class.closed_form_ns(sizes[of_flow == number])
    if measure is None or not len(classes):
        return Ideal(of_flow, closed, closed, None, {"method": "closed-form"})
    groups = _groups(schedule, of_flow)
    curves = {}
    for (number, controller), rows in groups.items():
        key = _key(classes[number], controller, depends_on)
        flow_sizes = np.unique(sizes[rows])
        model = schedule.flows[int(rows[0])]
        fits = partial(_is_of_class, classes[number], model, graph, router, framings)
        curves[number, controller] = FctCurve(classes[number], model, cache_dir() / PART / f"{key}.json", flow_sizes, fits)
    measured = complete(list(curves.values()), measure, seed)
    for group, rows in groups.items():
        fct[rows] = curves[group].at(sizes[rows])
    return Ideal(of_flow, fct, closed, max(curve.error for curve in curves.values()), _facts(curves, groups, measured))


def unknown(schedule: Schedule, why: str) -> Ideal:
    """Returns the ideal for a failed measurement. The run keeps its other results, and the manifest has the reason why there is
    no slowdown."""
    nothing = np.full(len(schedule.flows), np.nan)
    return Ideal(np.full(len(nothing), -1, np.int32), nothing, nothing, None, {"method": "failed", "why": why})


def classify(
    schedule: Schedule, graph: Graph, router: Router, framings: Mapping[str | None, Framing] = NO_FRAMINGS
) -> tuple[list[PathClass], npt.NDArray[np.int32]]:
    """Returns the different path classes of the flows that have an ideal, and the class of each flow (-1: none)."""
    hops, tcp = _hops(graph), of_tcp(graph.mtu_bytes)
    numbers: dict[PathClass, int] = {}
    known: dict[tuple[object, ...], int] = {}
    class_of_flow = np.full(len(schedule.flows), -1, np.int32)
    rows = [row for row, flow in enumerate(schedule.flows) if has_ideal(flow)]
    flows = [schedule.flows[row] for row in rows]
    for row, flow, ways in zip(rows, flows, both_ways(flows, graph, router), strict=True):
        transport = flow.request.transport
        if (transport, ways) not in known:
            path_class = _class_of(ways, hops, framings.get(transport, tcp))
            known[transport, ways] = numbers.setdefault(path_class, len(numbers))
        class_of_flow[row] = known[transport, ways]
    return list(numbers), class_of_flow


def _hops(graph: Graph) -> dict[str, tuple[int, int, str]]:
    return {port.ifname: _hop(graph, port.ifname) for port in graph.ports()}


def _class_of(ways: tuple[tuple[str, ...], ...], hops: Mapping[str, tuple[int, int, str]], framing: Framing) -> PathClass:
    there, back = (tuple(hops[port] for port in way) for way in ways)
    return PathClass(there, back, framing)


def _is_of_class(
    path_class: PathClass, model: Flow, graph: Graph, router: Router, framings: Mapping[str | None, Framing], src_port: int
) -> bool:
    ways = ways_from(model, graph, router, src_port)
    hops = {port: _hop(graph, port) for way in ways for port in way}
    return _class_of(ways, hops, framings.get(model.request.transport) or of_tcp(graph.mtu_bytes)) == path_class


def has_ideal(flow: Flow) -> bool:
    """Returns whether a flow has an ideal: it goes over TCP or RDMA, has a size, and sends as fast as it can.

    A connection of a job sends when messages are posted.
    """
    request = flow.request
    return request.job is None and request.transport != "udp" and request.size_bytes > 0 and not request.rate_bps


def complete(curves: Sequence[FctCurve], measure: Measure, seed: int) -> int:
    """Fills all curves, from the cache as far as possible. Returns the number of lone flows that were sent."""
    names = "".join(sorted(curve.file.name for curve in curves))
    sent = 0
    with locked_if_ours(cache_dir() / PART / f"{hashlib.sha256(names.encode()).hexdigest()[:16]}.lock"):
        for curve in curves:
            curve.known = _read(curve.file)
        few = [curve for curve in curves if len(curve.wanted) <= EXACT]
        many = [curve for curve in curves if len(curve.wanted) > EXACT]
        sizes = {id(curve): curve.missing(curve.wanted.tolist()) for curve in few}
        sizes |= {id(curve): curve.missing(_first_grid(curve.wanted, curve.path_class.framing.payload_bytes)) for curve in many}
        sent += _fill(curves, sizes, measure)
        for _ in range(ROUNDS):
            sizes = {id(curve): _middles(curve) for curve in many}
            if not any(sizes.values()):
                break
            sent += _fill(many, sizes, measure)
        sent += _check(many, measure, seed)
        for curve in curves:
            _write(curve)
    return sent


def _check(curves: Sequence[FctCurve], measure: Measure, seed: int) -> int:
    """Measures the error of interpolation at sizes that occur. The probed sizes are points afterwards."""
    probes = {id(curve): _probes(curve, draw(seed, "ideal probes")) for curve in curves}
    before = {id(curve): curve.at(probes[id(curve)]) for curve in curves}
    sent = _fill(curves, probes, measure)
    for curve in curves:
        truth = np.array([curve.points[size] for size in probes[id(curve)]], np.float64)
        curve.probed_to_bytes = max(probes[id(curve)], default=None)
        curve.error = float(np.max(np.abs(before[id(curve)] / truth - 1), initial=0.0))
    return sent


def _probes(curve: FctCurve, seed: int) -> list[int]:
    """Returns sizes that occur and are not points yet, ascending: the largest that PROBE_BYTES allows, where intervals are
    widest, and randomly drawn others as far as the bytes last."""
    free = [size for size in curve.missing(curve.wanted.tolist()) if size <= PROBE_BYTES]
    chosen, left = free[-1:], PROBE_BYTES - sum(free[-1:])
    for index in np.random.default_rng(seed).permutation(len(free[:-1])).tolist():
        if len(chosen) < PROBES and free[index] <= left:
            chosen.append(free[index])
            left -= free[index]
    return sorted(chosen)


def _first_grid(sizes: Ints, payload: int) -> list[int]:
    """Returns the first grid, from the smallest to the largest size that occurs."""
    low, high = int(sizes[0]), int(sizes[-1])
    steps = [size for n in range(1, BOUNDARIES + 1) for size in (n * payload, n * payload + 1)]
    while steps[-1] < high:
        steps.append(steps[-1] * 2)
    return [low, *(size for size in steps if low < size < high), high]


def _middles(curve: FctCurve) -> list[int]:
    """Returns the middles of the intervals for which linear interpolation may not be good enough.

    An interval is trusted once its own middle has been measured: a point that lies on the line between its neighbours confirms
    both sides. Intervals shorter than a packet are left as they are.
    """
    sizes = sorted(curve.points)
    inside = [size for size in sizes if curve.wanted[0] <= size <= curve.wanted[-1]]
    trusted = set()
    for left, middle, right in zip(inside, inside[1:], inside[2:], strict=False):
        share = (middle - left) / (right - left)
        line = curve.points[left] * (1 - share) + curve.points[right] * share
        if abs(line / curve.points[middle] - 1) <= HALVE:
            trusted |= {(left, middle), (middle, right)}
    return [(a + b) // 2 for a, b in pairwise(inside) if b - a > curve.path_class.framing.payload_bytes and (a, b) not in trusted]


def _fill(curves: Sequence[FctCurve], sizes: Mapping[int, Sequence[int]], measure: Measure) -> int:
    """Measures the sizes that each curve wants (by its id) and the cache does not have. Returns the number of flows that were
    sent."""
    todo = [(curve, size) for curve in curves for size in sizes[id(curve)] if size not in curve.known]
    for begin in range(0, len(todo), MOST_FLOWS):
        part = todo[begin : begin + MOST_FLOWS]
        for factor in PATIENCE:
            part = _send(part, measure, factor)
            if not part:
                break
        else:
            curve, size = part[0]
            raise TestbedError(
                f"ideal FCT: a lone flow of {size} bytes from {curve.model.src} to {curve.model.dst} did not end"
                f" in {PATIENCE[-1]} times its closed form and {PATIENCE[-1] * GAP_NS / 1e9:g} s;"
                " set metrics.slowdown to closed-form"
            )
    for curve in curves:
        curve.points |= {size: curve.known[size] for size in sizes[id(curve)]}
    return len(todo)


def _send(todo: Sequence[tuple[FctCurve, int]], measure: Measure, factor: int) -> list[tuple[FctCurve, int]]:
    """Sends lone flows, each with `factor` times its closed form. Returns the flows that were not alone, or did not finish."""
    flows, at = [], 0
    next_port: dict[tuple[object, ...], int] = {}
    for number, (curve, size) in enumerate(todo):
        src_port = _free_port(curve, next_port)
        flows.append(_lone(curve.model, number, size, at, src_port))
        at += factor * (int(float(curve.path_class.closed_form_ns(size))) + GAP_NS)
    table = measure(Schedule(tuple(flows)), at)
    alone = _were_alone(table, at)
    for row in np.flatnonzero(alone).tolist():
        curve, size = todo[row]
        curve.known[size] = int(table["fct_ns"][row])
    return [pair for pair, was_alone in zip(todo, alone.tolist(), strict=True) if not was_alone]


def _were_alone(table: Records, stop_ns: int) -> npt.NDArray[np.bool_]:
    """Returns a mask of the flows that ended before the next one started, and started after all earlier ones had ended."""
    starts, done = table["start_ns"], table["fct_ns"] >= 0
    ends = np.where(done, table["end_ns"], np.iinfo(np.int64).max)
    before = np.concatenate(([0], np.maximum.accumulate(ends)[:-1]))
    alone: npt.NDArray[np.bool_] = done & (ends <= np.append(starts[1:], stop_ns)) & (before <= starts)
    return alone


def _free_port(curve: FctCurve, next_port: dict[tuple[object, ...], int]) -> int:
    """Returns a source port for the curve's model that keeps its path class. `next_port` has the next one between two ends."""
    model = curve.model
    ends = model.request.transport, model.src, model.dst, model.dst_port
    port = next_port.get(ends, FIRST_SOURCE_PORT)
    while not curve.fits(port):
        port = _after(port)
    next_port[ends] = _after(port)
    return port


def _after(port: int) -> int:
    return port + 1 if port < LAST_SOURCE_PORT else FIRST_SOURCE_PORT


def _lone(model: Flow, number: int, size: int, start_ns: int, src_port: int) -> Flow:
    """Returns a flow between the ends of the model."""
    request = FlowRequest(
        model.src, model.dst, model.dst_port, start_ns=start_ns, size_bytes=size, transport=model.request.transport
    )
    return replace(model, flow=number, request=request, src_port=src_port)


def _groups(schedule: Schedule, of_flow: npt.NDArray[np.int32]) -> dict[tuple[int, str], Ints]:
    """Returns the rows of the flows of each class and controller."""
    controllers = np.array([flow.cc for flow in schedule.flows], object)
    groups = {}
    for number in np.unique(of_flow[of_flow >= 0]).tolist():
        class_rows = np.flatnonzero(of_flow == number)
        for controller in dict.fromkeys(controllers[class_rows]):
            groups[number, str(controller)] = class_rows[controllers[class_rows] == controller]
    return groups


def _hop(graph: Graph, ifname: str) -> tuple[int, int, str]:
    """Returns the graph's properties of a port's queue and cable, except names."""
    cable, port = graph.cable_of(ifname), graph.port(ifname)
    rest = {name: value for name, value in _rest_of(cable).items()} | {"queue": repr(port.queue)}
    return cable.rate_bps, cable.delay_ns, json.dumps(rest, sort_keys=True)


def _rest_of(cable: Any) -> dict[str, str]:
    """Returns the fields of a cable other than its ends, rate and delay, and the other direction if that differs. Impairments are
    left out, since an idle network has none."""
    attributes = {name: getattr(cable, name) for name in cable.__slots__ if name not in NOT_IDEAL}
    return {name: repr(value) for name, value in attributes.items() if value is not None}


def _key(path_class: PathClass, controller: str, depends_on: Mapping[str, Any]) -> str:
    text = json.dumps(
        {"format": FORMAT, "class": repr(path_class), "controller": controller, **depends_on}, sort_keys=True, default=str
    )
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _read(file: Path) -> dict[int, int]:
    """Returns the points of a curve; none if the file is missing or incomplete."""
    try:
        plain = plain_json.read(file)
        return dict(zip(map(int, plain["size_bytes"]), map(int, plain["fct_ns"]), strict=True))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return {}


def _write(curve: FctCurve) -> None:
    """Writes a curve's points atomically; the caller holds the lock. If there is no space, the points are measured again the next
    time."""
    sizes = sorted(curve.known)
    text = json.dumps({"size_bytes": sizes, "fct_ns": [curve.known[size] for size in sizes]})
    with suppress(OSError), whole(curve.file) as work:
        work.write_text(text)


def _facts(curves: Mapping[tuple[int, str], FctCurve], groups: Mapping[tuple[int, str], Ints], sent: int) -> dict[str, Any]:
    """Returns facts for the manifest about how the ideal was found."""
    rows = [
        {
            "class": number,
            "controller": controller,
            "from": curve.model.src,
            "to": curve.model.dst,
            "hops": [{"rate_bps": rate, "delay_ns": delay} for rate, delay, _ in curve.path_class.forward],
            "flows": len(groups[number, controller]),
            "points": len(curve.points),
            "interpolated": len(curve.wanted) > EXACT,
            "error": curve.error,
            "probed_to_bytes": curve.probed_to_bytes,
            "cache_key": curve.file.stem,
        }
        for (number, controller), curve in curves.items()
    ]
    return {"method": "measured", "lone_flows_sent": sent, "classes": rows}
