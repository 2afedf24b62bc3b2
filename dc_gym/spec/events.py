# SPDX-License-Identifier: Apache-2.0
"""`[[events]]`: failures and changes while a run goes on (docs/events.md).

An event names a link, a port or the workload, and its change at a time after t0. `changes` turns the events of links and
ports into plain data for a network. Those of the workload begin phases,
which the planning of flows honours (traffic/sections.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from dc_gym.base import spelling
from dc_gym.base.amount import Size, in_bytes
from dc_gym.base.key import (
    AMOUNT,
    ARGS,
    RATE,
    SHARE_PPB,
    SHARE_PPM,
    TEXT,
    THRESHOLD,
    TIME,
    WORDS,
    KeyFault,
    UnknownKey,
    entries,
    fields_by_key,
    key,
    parse,
    tables_of,
    to_plain,
    values_of,
)
from dc_gym.base.units import PPB, PPM
from dc_gym.topologies.changes import CUT, DELAY, KMAX, KMIN, LIMIT, LOSS, PMAX, Change
from dc_gym.topologies.changes import RATE as RATE_BPS
from dc_gym.topologies.graph import FASTEST_BPS, LARGEST_QUEUE_BYTES, LONGEST_DELAY_NS, Cable, Graph, Port
from dc_gym.topologies.paths import base_rtt_ns
from dc_gym.traffic.sections import Section
from dc_gym.traffic.workload_spec import WorkloadSpec

STATES = ("down", "up")
OF_LINK, OF_PORT = ("state", "rate", "delay", "loss"), ("kmin", "kmax", "pmax", "buffer")
TARGETS = {"link": OF_LINK, "port": (*OF_LINK, *OF_PORT), "workload": ()}
"""The things that an event may name, and for each the keys of which it then needs one. A port has one direction of its link."""
ROUTED = ("link", "port")
"""Those to whose state routing may react."""
NEEDED = ("at",)
NAMING = ("kind", "distribution")
"""Keys of the workload whose values need no name in a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSpec:
    """An entry of `[[events]]`: what becomes of a link, of ports, or of the workload at one time."""

    at_ns: int = key(TIME, low=0, help="when it happens, after t0; before `time.duration`")
    link: tuple[str, ...] | None = key(
        WORDS,
        help='the link: its two nodes, such as `["s1", "s2"]` (all parallel links between them), or one or both of its ports, '
        'such as `["s1-eth3"]`',
    )
    state: str | None = key(
        TEXT,
        names=lambda: STATES,
        help="`down`: [the link is cut](events.md#a-cut), in both directions, or in that of the `port`; `up`: it is whole again",
    )
    reroute_ns: int | None = key(
        TIME,
        low=0,
        otherwise="routing does not react",
        help="time from the event until the switches have [new rules](events.md#routing-that-reacts), without the links "
        "that are then down",
    )
    rate_bps: int | None = key(
        RATE, low=1, high=FASTEST_BPS, help="the new rate of the link, or of the `port` alone, from the next frame on"
    )
    delay_ns: int | None = key(TIME, low=0, high=LONGEST_DELAY_NS, help="the new delay, likewise, for frames sent from then on")
    loss_ppb: int | None = key(SHARE_PPB, low=0, high=PPB, help="share of frames that are lost from then on, likewise; 0 ends it")
    port: str | None = key(
        TEXT,
        help="the ports: a name or a pattern, such as `s1-eth3` or `s1-*`. `rate`, `delay`, `loss` and `state` change what they "
        "send, [one direction of the link](events.md#one-direction); the keys below the queues of switch ports",
    )
    kmin_bytes: Size | None = key(THRESHOLD, low=1, help="[marking](topologies.md#marking): queue length at which it starts")
    kmax_bytes: Size | None = key(
        THRESHOLD, low=1, help="queue length from which every packet is marked; equal to `kmin` it is a step"
    )
    pmax_ppm: int | None = key(SHARE_PPM, low=1, high=PPM, help="marking probability just below `kmax`")
    buffer_bytes: Size | None = key(AMOUNT, low=1, help="limit of the queue; what waits stays")
    workload: tuple[tuple[str, Any], ...] | None = key(
        ARGS,
        help="keys of `[workload]` that hold [from then on](events.md#phases-of-the-workload), such as `{ load = 0.6 }`; with "
        "`kind`, the whole section",
    )

    @property
    def label(self) -> str:
        """The event in a few words, for figures."""
        return f"{self._target()} {', '.join(self._words())}"

    def _target(self) -> str:
        return "--".join(self.link) if self.link else self.port or "workload:"

    def _words(self) -> Iterator[str]:
        written = {name: field_of_event(name).metadata["kind"].write(value) for name, value in values_of(self).items()}
        for name in (*OF_LINK, *OF_PORT):
            if name in written:
                yield str(written[name]) if name in ("state", "rate") else f"{name} {written[name]}"
        for name, value in self.workload or ():
            yield str(value) if name in NAMING else f"{name} {value}"


def field_of_event(name: str) -> Any:
    """Returns the declaration of a key."""
    return fields_by_key(EventSpec)[name]


def _events(tables: list[Any]) -> tuple[EventSpec, ...]:
    """Returns the entries of [[events]], as the file orders them."""
    events = []
    for section, event in entries(tables, "events", EventSpec, {"at": f"give {TIME.example}"}):
        _check_keys(section, event)
        events.append(event)
    return tuple(events)


def _check_keys(section: str, event: EventSpec) -> None:
    """Raises KeyFault unless an event names one thing, and something that it has."""
    values = values_of(event)
    named = [target for target in TARGETS if target in values]
    if len(named) != 1:
        reason = f"names {' and '.join(named)}" if named else "names nothing that changes"
        raise KeyFault(section, None, f"{reason}; give one of: {', '.join(TARGETS)}")
    (target,) = named
    for name in values:
        if name not in (*NEEDED, target, *TARGETS[target]) and not (name == "reroute" and target in ROUTED):
            raise KeyFault(f"{section}.{name}", _written(event, name), f"is nothing that a {target} has; {_has(target)}")
    if event.reroute_ns is not None and event.state is None:
        raise KeyFault(f"{section}.reroute", _written(event, "reroute"), "reacts to a state; give state, or leave it out")
    if TARGETS[target] and not any(name in values for name in TARGETS[target]):
        raise KeyFault(section, None, f"changes nothing; give one of: {', '.join(TARGETS[target])}")


def _has(target: str) -> str:
    return f"it has {', '.join(TARGETS[target])}" if TARGETS[target] else "give it an event of its own"


def _written(event: EventSpec, name: str) -> Any:
    return field_of_event(name).metadata["kind"].write(values_of(event)[name])


EVENTS = tables_of("events", EventSpec, _events, NEEDED)


def scaled_rate(rate_bps: int, scale: int) -> int:
    """Returns a rate of an event in the scaled network."""
    return max(1, rate_bps // scale)


def in_order(events: Sequence[EventSpec]) -> list[tuple[int, EventSpec]]:
    """Returns the events with their numbers in the file, in the order of their times."""
    return sorted(enumerate(events), key=lambda pair: pair[1].at_ns)


def changes(events: Sequence[EventSpec], graph: Graph, scale: int = 1) -> tuple[Change, ...]:
    """Returns the changes of a network that the events make, in the order of their times.

    `scale` divides rates and multiplies delays, as in the topology. Raises KeyFault for names that the network lacks.
    """
    state = _State(graph, scale)
    return tuple(change for number, event in in_order(events) for change in state.changes(number, event))


def link_changes(words: Sequence[str], graph: Graph, scale: int = 1) -> tuple[Change, ...]:
    """Returns the changes for words such as `s1 h1 down` or `s1-eth3 rate 5Mbit/s delay 1ms`, now.

    Raises KeyFault for names that the network lacks, and for words of another form.
    """
    at = next((position for position, word in enumerate(words) if word in (*OF_LINK, *STATES)), len(words))
    names, rest = list(words[:at]), [*words[at:]]
    if rest and rest[0] in STATES:
        rest.insert(0, "state")
    if not names or not rest or len(rest) % 2:
        why = "give a link and what becomes of it, such as: link s1 h1 down, link s1 s2 rate 5Mbit/s delay 1ms"
        raise KeyFault("link", " ".join(words), why)
    if twice := next((name for name in rest[::2] if rest[::2].count(name) > 1), None):
        raise KeyFault("link", " ".join(words), f"has {twice} twice; give one")
    values = {name: _plain(name, text) for name, text in zip(rest[::2], rest[1::2], strict=True)}
    event = EventSpec(**parse({"at": "0s", "link": names, **values}, "link", EventSpec))
    _check_keys("link", event)
    ends = {port.ifname for cable in _cables(graph, names, "link") for port in (cable.a, cable.b)}
    cut = ends if event.state == "up" else set[str]()
    return tuple(_State(graph, scale, cut).changes(0, event))


def _plain(name: str, text: str) -> str | float:
    """Returns a share without a unit as the number that it is in a spec."""
    return float(text) if name == "loss" and text.replace(".", "", 1).isdecimal() else text


OF_ONE_PHASE = ("start", "stop", "last_start", "exec")
"""Keys of `[workload]` that a later phase does not take over."""
SOURCES = ("size", "distribution", "distribution_file")
"""Keys of which a kind takes one: the key that a phase gives replaces the others."""


def sections(events: Sequence[EventSpec], workload: WorkloadSpec) -> tuple[Section, ...]:
    """Returns the phases of the workload: the spec's workload, from t0 on, and one phase for each event that changes it."""
    phases = [Section(0, workload)]
    for number, event in in_order(events):
        if event.workload is not None:
            if event.at_ns <= phases[-1].at_ns:
                why = "the workload changes at that time already, or begins with it; give a later time"
                raise KeyFault(f"events[{number}].at", event.at_ns, why)
            phases.append(Section(event.at_ns, _section(f"events[{number}].workload", phases[-1].workload, dict(event.workload))))
    return tuple(phases)


def _section(section: str, before: WorkloadSpec, table: dict[str, Any]) -> WorkloadSpec:
    """Returns the section of a phase. The keys of its table replace keys of the phase before, or with `kind` the whole phase."""
    kept = {} if "kind" in table else {name: value for name, value in to_plain(before, WorkloadSpec).items() if name not in table}
    dropped = {*OF_ONE_PHASE, *(SOURCES if any(name in table for name in SOURCES) else ())}
    whole = {name: value for name, value in kept.items() if name not in dropped} | table
    for name in ("exec", "distribution_file", "file"):
        if name in table:
            raise KeyFault(f"{section}.{name}", None, "cannot change while the run goes on; leave it out")
    try:
        return WorkloadSpec(**parse(whole, "workload", WorkloadSpec))
    except KeyFault as fault:
        kind = UnknownKey if isinstance(fault, UnknownKey) else KeyFault
        raise kind(f"{section}.{fault.key.removeprefix('workload.')}", fault.value, fault.why) from None


@dataclass
class _State:
    """The state of a network between events."""

    graph: Graph
    scale: int
    down: set[str] = field(default_factory=set)
    """Names of the ports whose frames are lost in a cut."""
    queues: dict[str, dict[str, int]] = field(default_factory=dict)
    """By port: the quantities of its queue."""

    @cached_property
    def base_rtt_ns(self) -> int:
        return base_rtt_ns(self.graph)

    def changes(self, number: int, event: EventSpec) -> Iterator[Change]:
        section = f"events[{number}]"
        if event.link is not None:
            for cable in _cables(self.graph, event.link, section):
                values = tuple(self._of_ends(cable.name, (cable.a, cable.b), event, section))
                for port in (cable.a, cable.b):
                    yield Change(event.at_ns, number, port.ifname, values)
        if event.port is not None:
            queues = bool(set(OF_PORT) & set(values_of(event)))
            for port in _ports(self.graph, event.port, section, queues):
                if values := tuple(self._of_ends(f"of {port.ifname}", (port,), event, section)):
                    yield Change(event.at_ns, number, port.ifname, values)
                if queues:
                    yield Change(event.at_ns, number, port.ifname, self._of_port(port, event, section))

    def _of_ends(self, link: str, ports: Sequence[Port], event: EventSpec, section: str) -> Iterator[tuple[str, int]]:
        """Yields settings and values of an event for these ports: both ends of a link, or one."""
        if event.state is not None:
            names = {port.ifname for port in ports}
            if names <= self.down if event.state == "down" else not names & self.down:
                raise KeyFault(f"{section}.state", event.state, f"the link {link} is {event.state} already; leave it out")
            self.down = self.down | names if event.state == "down" else self.down - names
            yield CUT, int(event.state == "down")
        if event.rate_bps is not None:
            yield RATE_BPS, scaled_rate(event.rate_bps, self.scale)
        if event.delay_ns is not None:
            yield DELAY, event.delay_ns * self.scale
        if event.loss_ppb is not None:
            yield LOSS, event.loss_ppb

    def _of_port(self, port: Port, event: EventSpec, section: str) -> tuple[tuple[str, int], ...]:
        if port.queue.kind != "port":
            why = f'the queue of {port.ifname} is {port.queue.kind}; topology.qdisc = "port" can change while it works'
            raise KeyFault(f"{section}.port", event.port, why)
        now = self.queues.setdefault(port.ifname, _queue_of(port))
        settings = self._given(port, event)
        now |= settings
        marks = KMIN in settings or KMAX in settings or PMAX in settings
        _check_queue(section, port, now, marks, self.graph.frame_bytes)
        return tuple(
            (name, now[name]) for name in (*((LIMIT,) if LIMIT in settings else ()), *((KMIN, KMAX, PMAX) if marks else ()))
        )

    def _given(self, port: Port, event: EventSpec) -> dict[str, int]:
        rate_bps = self.graph.cable_of(port).rate_bps
        sizes = {LIMIT: event.buffer_bytes, KMIN: event.kmin_bytes, KMAX: event.kmax_bytes}
        settings = {
            name: in_bytes(size, rate_bps, self.base_rtt_ns, self.graph.frame_bytes)
            for name, size in sizes.items()
            if size is not None
        }
        return settings | ({} if event.pmax_ppm is None else {PMAX: event.pmax_ppm})


def _queue_of(port: Port) -> dict[str, int]:
    """Returns the quantities of a queue as the network begins. One that marks nothing has no thresholds."""
    marking, limit = port.queue.marking, {LIMIT: port.queue.limit_bytes}
    if marking.kind == "step":
        return limit | {KMIN: marking.k_bytes, KMAX: marking.k_bytes, PMAX: PPM}
    if marking.kind == "red-instant":
        return limit | {KMIN: marking.min_bytes, KMAX: marking.max_bytes, PMAX: marking.probability_ppm}
    return limit | {PMAX: PPM}


def _check_queue(section: str, port: Port, now: dict[str, int], marks: bool, frame_bytes: int) -> None:
    limit = now[LIMIT]
    if not frame_bytes <= limit <= LARGEST_QUEUE_BYTES:
        why = f"is not in {frame_bytes} .. {LARGEST_QUEUE_BYTES} bytes; give room for a frame"
        raise KeyFault(f"{section}.buffer", limit, why)
    for name, quantity in (("kmin", KMIN), ("kmax", KMAX)):
        if marks and quantity not in now:
            raise KeyFault(f"{section}.{name}", None, f"is missing, and {port.ifname} marks nothing before; give both thresholds")
    if KMIN in now and now[KMIN] > now[KMAX]:
        raise KeyFault(f"{section}.kmin", now[KMIN], f"is above the kmax of {port.ifname}, {now[KMAX]} bytes; lower it")
    if KMAX in now and now[KMAX] > limit:
        name, value = ("kmax", now[KMAX]) if marks else ("buffer", limit)
        why = f"the buffer of {port.ifname} is then {limit} bytes, below its kmax of {now[KMAX]}; change one of them"
        raise KeyFault(f"{section}.{name}", value, why)


def _cables(graph: Graph, link: Sequence[str], section: str) -> list[Cable]:
    """Returns the cables that a link's two nodes, or its ports, name."""
    nodes = [*(switch.name for switch in graph.switches), *(host.name for host in graph.hosts)]
    ports = [port.ifname for port in graph.ports()]
    known = nodes if len(link) == 2 and not any("-" in word for word in link) else ports
    if not 1 <= len(link) <= 2:
        raise KeyFault(f"{section}.link", list(link), "is not two nodes, or one or two ports; write it like ['s1', 's2']")
    for word in link:
        if word not in known:
            raise KeyFault(f"{section}.link", list(link), _unknown(word, known, "node" if known is nodes else "port"))
    if known is nodes:
        cables = [cable for cable in graph.cables if {cable.a.node, cable.b.node} == set(link)]
    else:
        cables = [cable for cable in graph.cables if set(link) <= {cable.a.ifname, cable.b.ifname}]
    if not cables:
        raise KeyFault(f"{section}.link", list(link), "the network has no link between them; name two neighbours")
    return cables


def _ports(graph: Graph, pattern: str, section: str, queues: bool) -> list[Port]:
    """Returns the ports of a name or pattern; only switches' ports if their queues change."""
    known = graph.switch_ports() if queues else graph.ports()
    ports = [port for port in known if fnmatchcase(port.ifname, pattern)]
    if not ports and any(fnmatchcase(port.ifname, pattern) for port in graph.ports()):
        raise KeyFault(f"{section}.port", pattern, "is a host's; only switch ports change their queues")
    if not ports:
        raise KeyFault(f"{section}.port", pattern, _unknown(pattern, [port.ifname for port in known], "port"))
    return ports


def _unknown(word: str, known: Sequence[str], kind: str) -> str:
    hint = spelling.hint(word, known) if spelling.near(word, known) else f"they are {known[0]} .. {known[-1]}"
    return f"the network has no {kind} {word!r}; {hint}"
