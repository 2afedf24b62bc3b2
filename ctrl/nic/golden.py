# SPDX-License-Identifier: Apache-2.0
"""Golden traces: seeded events, an algorithm's decisions on them, and how far these are from its floating-point reference.

A trace consists of many short lives of one flow each. There are four kinds. `fabric` has round trips and marks as a network
produces them. `lossy` is the same with events lost and summed up. `silent` has silences up to a full turn of the 32-bit clock.
`hostile` has zeros and extremes in every field. Clocks start anywhere, often just before they wrap.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.algorithms import reference_of, resolve_parameters
from dc_gym.ctrl.nic.events import (
    ACK,
    CNP,
    MARKED,
    NACK,
    PROBING,
    RTT,
    TIMEOUT,
    TRIMMED,
    TX,
    Decision,
    NicEvent,
    NicFlow,
    Telemetry,
)
from dc_gym.ctrl.nic.reference import Bound, Parameters, Reference
from dc_gym.ctrl.nic.reference_telemetry import RATES
from dc_gym.nets.nic_kind import NicKindReference

TIMEOUT_S = 120  # for a trace that takes seconds at most
KINDS = ("fabric", "lossy", "silent", "hostile")
FLOWS_PER_TRACE, STEPS = 10, 150
NEW_FLOW = 1
EVENT_NUMBERS = 10
"""Numbers of an event without telemetry."""
TYPES = {"cnp": CNP, "tx": TX, "ack": ACK, "nack": NACK, "rtt": RTT}
CLOCK_TURN_NS = 2**32
LONGEST_SILENCE_NS = CLOCK_TURN_NS - 10**6
"""The longest silence in ns.

If less than a timer's period is missing to a full turn, the clock cannot distinguish it from no silence.
"""
EXTREMES = (0, 1, 2, 255, 65535, 65536, 2**20, 2**30, 2**31 - 1, 2**31, CLOCK_TURN_NS - 2, CLOCK_TURN_NS - 1)
Q20 = 2**20


@dataclass(frozen=True, slots=True)
class RunnerDecision:
    """One output line of a runner: the rate, window and probe in force after an event."""

    rate: int
    window_bytes: int
    probe: bool
    state: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Distance:
    """The difference between a whole trace's decisions and the reference's decisions."""

    decisions: int
    rate: float
    """The largest difference of rates, in 2^-20 of the line."""
    window: float
    """The largest relative difference of windows beyond a byte."""
    broken: str
    """The first decision out of bounds, or "" if there is none."""


Step = tuple[NicEvent, NicFlow]


def trace(kind: str, algorithm: Algorithm, seed: int, flows: int = FLOWS_PER_TRACE, steps: int = STEPS) -> list[Step]:
    """Returns events for this algorithm. Equal arguments give equal traces."""
    draw = random.Random(f"{kind} {algorithm.name} {seed}")
    types = [TYPES[name] for name in algorithm.events] or [TX]
    return [step for _ in range(flows) for step in _life(draw, kind, types, steps, algorithm.telemetry, algorithm.sprayed)]


def _life(draw: random.Random, kind: str, types: Sequence[int], steps: int, telemetry: bool, sprayed: bool) -> Iterator[Step]:
    hostile = kind == "hostile"
    flow = _hostile_flow(draw) if hostile else _flow(draw)
    path = _Path(draw, flow, hostile) if telemetry else None
    before_turn_ns = CLOCK_TURN_NS - draw.randrange(1, 4 * flow.base_rtt_ns + 2)
    now_ns = draw.choice([0, before_turn_ns, draw.randrange(CLOCK_TURN_NS)]) % CLOCK_TURN_NS
    queue = 0.0
    for number in range(steps):
        gap_ns = _gap(draw, kind, flow)
        now_ns = (now_ns + gap_ns) % CLOCK_TURN_NS
        queue = max(0.0, min(30.0, queue + draw.uniform(-1.0, 1.0)))
        event = _event(draw, draw.choice(types), now_ns, flow, queue, NEW_FLOW if number == 0 else 0)
        if event.type == TX and RTT in types:
            event = _probing(draw, event, flow)
        if sprayed:
            event = _of_a_packet(draw, event, flow, queue)
        if path is not None:
            event = path.measure(event, gap_ns)
        if hostile:
            event = _spoilt(draw, event)
        elif kind == "lossy":
            if number and draw.random() < 0.2:
                continue
            event = _summed(draw, event)
        yield event, flow


def _flow(draw: random.Random) -> NicFlow:
    line_mbps = draw.choice([100, 1000, 10_000, 100_000])
    packets = draw.choice([2, 10, 50, 100])
    packet_bytes = draw.choice([1090, 1514, 4170])
    base_rtt_ns = max(1000, packets * packet_bytes * 8000 // line_mbps // 1000 * 1000)
    return NicFlow(base_rtt_ns, line_mbps, packet_bytes, draw.choice([2, 4, 6]))


def _hostile_flow(draw: random.Random) -> NicFlow:
    return NicFlow(
        draw.choice([0, 1, 999, 20_000, 2**30, CLOCK_TURN_NS - 1]),
        draw.choice([1, 10, 100_000, 400_000, 2**23]),
        draw.choice([64, 1514, 9000, 65535]),
        draw.choice([0, 1, 255, CLOCK_TURN_NS - 1]),
    )


def _gap(draw: random.Random, kind: str, flow: NicFlow) -> int:
    """Returns the time from one event to the next: zero, packet times, round trips or silences."""
    if kind == "silent" and draw.random() < 0.1:
        return draw.choice([draw.randrange(10**6, 10**8), draw.randrange(10**8, LONGEST_SILENCE_NS), LONGEST_SILENCE_NS])
    if kind == "hostile" and draw.random() < 0.2:
        return min(LONGEST_SILENCE_NS, draw.choice(EXTREMES))
    packet_ns = flow.packet_bytes * 8000 // flow.line_mbps
    return draw.choice([0, packet_ns, draw.randrange(1, 20 * packet_ns + 2), draw.randrange(1, 2 * flow.base_rtt_ns + 2)])


def _event(draw: random.Random, kind: int, now_ns: int, flow: NicFlow, queue: float, flags: int) -> NicEvent:
    packets = draw.choice([1, 1, 1, 16, 64]) if kind in (TX, ACK) else 0
    rtt_ns = int(flow.base_rtt_ns * (1 + queue)) + draw.randrange(1000) if kind == RTT else 0
    inside_ns = draw.randrange(2000) if kind == RTT else 0
    sent_ns = (now_ns - rtt_ns - inside_ns) % CLOCK_TURN_NS
    received_ns = draw.randrange(CLOCK_TURN_NS)  # of another clock
    flags |= TIMEOUT if kind == NACK and draw.random() < 0.5 else 0
    size = packets * flow.packet_bytes
    return NicEvent(
        kind, flags, now_ns, now_ns, 1, size, packets, sent_ns, received_ns, (received_ns + inside_ns) % CLOCK_TURN_NS
    )


def _probing(draw: random.Random, event: NicEvent, flow: NicFlow) -> NicEvent:
    """Returns the event of a packet that leaves while a probe is under way, in most cases for a short time."""
    if draw.random() < 0.4:
        return event
    round_trips = draw.choice([draw.random(), draw.uniform(1.0, 10.0), draw.uniform(1.0, 200.0)])
    sent_ns = (event.now_ns - int(flow.base_rtt_ns * round_trips)) % CLOCK_TURN_NS
    return replace(event, flags=event.flags | PROBING, sent_ns=sent_ns)


def _summed(draw: random.Random, event: NicEvent) -> NicEvent:
    """Returns several events that the NIC combines into one."""
    times = draw.choice([1, 1, 2, 5, 40])
    first_ns = event.now_ns if event.type == RTT else (event.now_ns - draw.randrange(100_000)) % CLOCK_TURN_NS
    fixed = (event.sent_ns, event.received_ns, event.answered_ns, event.telemetry)
    return NicEvent(event.type, event.flags, event.now_ns, first_ns, times, event.bytes * times, event.packets * times, *fixed)


def _spoilt(draw: random.Random, event: NicEvent) -> NicEvent:
    """Sets up to two fields to an extreme value."""
    fields = list(astuple(event)[:EVENT_NUMBERS])
    for index in draw.sample(range(3, len(fields)), draw.choice([0, 1, 2])):
        fields[index] = draw.choice(EXTREMES) if index != 4 else draw.choice([1, 2, 65536, CLOCK_TURN_NS - 1])
    return replace(NicEvent(*fields), telemetry=event.telemetry)


def _of_a_packet(draw: random.Random, event: NicEvent, flow: NicFlow, queue: float) -> NicEvent:
    """Returns the event as transport uec tells it: when its packet left, and the bytes under way. Marks begin at half a queue."""
    rtt_ns = int(flow.base_rtt_ns * (1 + max(0.0, queue - 1) / 4)) + draw.randrange(1000)
    flag = {ACK: MARKED if queue > 1.5 and draw.random() < 0.5 else 0, NACK: TRIMMED if draw.random() < 0.5 else 0}
    return replace(
        event,
        flags=event.flags | flag.get(event.type, 0),
        bytes=flow.packet_bytes if event.type == NACK else event.bytes,
        sent_ns=(event.now_ns - rtt_ns) % CLOCK_TURN_NS,
        received_ns=draw.randrange(100) * flow.packet_bytes,
    )


class _Path:
    """The switch ports between two NICs, as their telemetry shows them."""

    def __init__(self, draw: random.Random, flow: NicFlow, hostile: bool) -> None:
        self._draw, self._flow, self._hostile = draw, flow, hostile
        self._acked = draw.choice([0, CLOCK_TURN_NS - draw.randrange(1, 100), draw.randrange(CLOCK_TURN_NS)])
        self._ports = [_MeasuredPort(draw) for _ in range(draw.choice([1, 2, 3, 5]))]

    def measure(self, event: NicEvent, gap_ns: int) -> NicEvent:
        """Returns the event with telemetry if it is an ACK. The ports went on for `gap_ns`."""
        draw = self._draw
        for port in self._ports:
            port.go_on(gap_ns)
        if event.type != ACK:
            return event
        self._acked = (self._acked + draw.choice([1, 1, 4])) % CLOCK_TURN_NS
        sent = (self._acked + draw.choice([0, 1, 5, 20])) % CLOCK_TURN_NS
        if draw.random() < 0.02:
            self._ports = [_MeasuredPort(draw) for _ in range(draw.choice([1, 2, 5]))]  # the path has changed
        hops, records = len(self._ports), [port.record() for port in self._ports]
        if self._hostile and draw.random() < 0.1:
            hops = draw.choice([0, 1, 5])
            records = [draw.choice([0, 2**64 - 1, draw.getrandbits(64)]) for _ in range(5)]
        padded = (*records, *[0] * (5 - len(records)))
        return replace(event, telemetry=Telemetry(self._acked, sent, hops, padded))


class _MeasuredPort:
    """One switch port: its clock, its sent bytes, and its queue."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._place = draw.randrange(len(RATES))
        units = RATES[self._place]
        self._time_ns = draw.choice([0, 2**24 * units.time_ns - draw.randrange(1, 10**5), draw.randrange(2**40)])
        self._sent = draw.choice([0, 2**20 * units.sent_bytes - draw.randrange(1, 10**5), draw.randrange(2**40)])
        self._queue = 0

    def go_on(self, gap_ns: int) -> None:
        draw, rate_bps = self._draw, RATES[self._place].rate_bps
        self._time_ns += gap_ns
        self._sent += int(rate_bps / 8e9 * gap_ns * draw.choice([1.0, draw.random()]))
        self._queue = max(0, self._queue + draw.randrange(-40_000, 40_000)) if draw.random() < 0.8 else 0

    def record(self) -> int:
        return RATES[self._place].record(self._place, self._time_ns, self._sent, self._queue)


def text(steps: Sequence[Step]) -> str:
    """Returns the steps in the format that runners read."""
    return "".join(",".join(map(str, _columns(event, flow))) + "\n" for event, flow in steps)


def _columns(event: NicEvent, flow: NicFlow) -> tuple[int, ...]:
    telemetry = event.telemetry
    measured = () if telemetry is None else (telemetry.acked_psn, telemetry.sent_psn, telemetry.hops, *telemetry.records)
    return (*astuple(event)[:EVENT_NUMBERS], *astuple(flow), *measured)


def rates_text() -> str:
    """Returns the table of rates of telemetry as runners read it."""
    return ",".join(str(word) for rate in RATES for word in rate.words())


def decisions(argv: Sequence[str], steps: Sequence[Step]) -> list[RunnerDecision]:
    """Returns the decisions of a runner (ccrun, or cctest in a kernel) on a trace."""
    try:
        process = subprocess.run(list(argv), input=text(steps), capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise TestbedError(f"no decisions on a golden trace within {TIMEOUT_S} s: is there a loop without an end?") from None
    if process.returncode:
        raise TestbedError(_complaint(process.stderr) or f"{argv[0]} ended with {process.returncode}")
    return [parsed(line) for line in process.stdout.splitlines()]


def _complaint(errors: str) -> str:
    """Returns a runner's error in one line. That of ASan has its place behind it."""
    match = re.search(r"ERROR: AddressSanitizer: (\S+).*?\b(READ|WRITE)\b.*?#0 \S+ in \w+ (\S+)", errors, re.DOTALL)
    if match is None:
        return next(iter(errors.strip().splitlines()), "")
    kind, how, location = match.groups()
    return f"{location}: {how} beyond its words of context, parameters or table ({kind})"


def parsed(line: str) -> RunnerDecision:
    rate, window_bytes, probe, *state = map(int, line.split(","))
    return RunnerDecision(rate, window_bytes, bool(probe), tuple(state))


def runner_argv(algorithm: Algorithm, values: Mapping[str, int], table: Path | None = None) -> list[str]:
    """Returns the command of ccrun with these parameters."""
    argv = [str(algorithm.runner)]
    argv += ["--parameters", ",".join(map(str, values.values()))] if values else []
    argv += ["--rates", rates_text()] if algorithm.telemetry else []
    return argv + (["--table", str(table)] if table else [])


def table_of(algorithm: Algorithm, folder: Path, policy: Path | None = None) -> Path | None:
    """Writes the words of the policy that the algorithm reads to a file and returns its path. None: it reads none.

    It is the shipped policy unless `policy` names another.
    """
    if not algorithm.table:
        return None
    from dc_gym.nets import nic_policy

    path = folder / f"{algorithm.name}.table"
    nic_policy.write_table(nic_policy.load(algorithm.name, policy).table(), path)
    return path


def values_of(algorithm: Algorithm, preset: str, line_bps: int = 10**11) -> Mapping[str, int]:
    return resolve_parameters(algorithm, preset, {}, line_bps).values


def references(values: Mapping[str, int], steps: Sequence[Step], make: Callable[[Parameters], Reference]) -> list[Decision]:
    """Returns the decisions of the papers' formulas. Each new flow starts with a new reference."""
    flow_of, expected = make(values), []
    for event, flow in steps:
        if event.flags & NEW_FLOW:
            flow_of = make(values)
        expected.append(flow_of.on_event(event, flow))
    return expected


def compare_with_reference(
    name: str, steps: Sequence[Step], actual: Sequence[RunnerDecision], values: Mapping[str, int]
) -> Distance:
    """Compares a trace's decisions with the algorithm's reference, within its bound."""
    reference = reference_of(name)
    assert reference is not None, f"{name} has none"
    if isinstance(reference, NicKindReference):
        assert reference.make is not None, f"{name} has none"
        of_kind = partial(reference.make, states=iter([decision.state for decision in actual]))
    try:
        expected = references(values, steps, of_kind if isinstance(reference, NicKindReference) else reference.make)
    except TestbedError as error:
        return Distance(len(actual), 0.0, 0.0, str(error))
    return distance(reference.bound, steps, actual, expected)


def distance(bound: Bound, steps: Sequence[Step], actual: Sequence[RunnerDecision], expected: Sequence[Decision]) -> Distance:
    """Returns the largest differences, and the first decision that is out of bounds."""
    rates, windows, broken = 0.0, 0.0, ""
    for number, (decision, reference) in enumerate(zip(actual, expected, strict=True), 1):
        rate = abs(decision.rate - reference.rate * Q20)
        slack = steps[number - 1][1].packet_bytes if bound.whole_packets else 1
        window = max(0.0, abs(decision.window_bytes - reference.window_bytes) - slack) / max(1.0, reference.window_bytes)
        rates, windows = max(rates, rate), max(windows, window)
        within = rate <= max(bound.rate, bound.relative * reference.rate * Q20) and window <= bound.relative
        if not broken and not (within and decision.probe == reference.probe):
            actual_text = f"{decision.rate} {decision.window_bytes} {decision.probe}"
            expected_text = f"{reference.rate * Q20:.1f} {reference.window_bytes:.1f} {reference.probe}"
            broken = f"line {number}, {steps[number - 1][0]}: {actual_text}; reference {expected_text}"
    return Distance(len(actual), rates, windows, broken)
