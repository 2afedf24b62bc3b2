# SPDX-License-Identifier: Apache-2.0
"""Actuators: what may be declared, the rows that agent.actuators selects, their bounds, and the netlink requests that set them.

test_agentd sets them in a lab and reads them back; tests/c has their file and its enforcement.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from c_layout import numbers

from dc_gym import spec
from dc_gym.base.errors import AgentError, SpecError
from dc_gym.base.key import RATE, SIZE, key
from dc_gym.ctrl import actuators
from dc_gym.ctrl.actuators import Actuator, Attribute, Bounds, Place, Quantity, actuator, selection
from dc_gym.ctrl.actuators.selection import ActuatedPort, select
from dc_gym.run.plan import actuation
from dc_gym.run.plan.actuation import Request, request_of
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec import AgentSpec
from dc_gym.topologies.graph import NO_MARKING, Cable, Graph, Host, Marking, Port, Queue, QueueClass, Switch
from dc_gym.topologies.realize import tc
from dc_gym.topologies.realize.rtnl import NLA_F_NESTED, NLM_F_REQUEST, NLMSG_HDR, RTM_NEWQDISC, attributes, each_attribute

AGENT = AgentSpec(burst_bytes=3028)
LIMIT = 400_000
STEP = Queue(LIMIT, "red", Marking("step", k_bytes=30_000))
SLOPE = Queue(LIMIT, "red", Marking("red-instant", min_bytes=5_000, max_bytes=200_000, probability_ppm=10_000))
AVERAGE = Queue(
    LIMIT,
    "red",
    Marking("iroko-thesis", min_bytes=5_000, max_bytes=25_000, limit_bytes=LIMIT, avpkt_bytes=1500, burst_packets=6,
            probability_ppm=100_000, bandwidth_bps=10**7),
)  # fmt: skip
PLAIN = Queue(LIMIT)
TWO_CLASSES = (
    QueueClass("tcp", (0,), LIMIT, Marking("step", k_bytes=30_000)),
    QueueClass("rdma", (26,), 100_000, Marking("red-instant", min_bytes=5000, max_bytes=20_000, probability_ppm=10_000)),
)
CLASSFUL = Queue(LIMIT, "port", TWO_CLASSES[0].marking, classes=TWO_CLASSES)
UNMARKED = replace(CLASSFUL, classes=(TWO_CLASSES[0], replace(TWO_CLASSES[1], marking=NO_MARKING)))


def star(*queues: Queue, rate_bps: int = 10**7) -> Graph:
    """Returns a switch with a host at each port. `queues` are those of the switch's ports."""
    places = range(1, len(queues) + 1)
    hosts = tuple(Host(f"h{i}", f"10.0.0.{i}", f"02:00:00:00:00:{i:02x}") for i in places)
    ends = [
        (Port(f"h{i}", f"h{i}-eth0", PLAIN), Port("s1", f"s1-eth{i}", queue)) for i, queue in zip(places, queues, strict=True)
    ]
    return Graph(hosts, (Switch("s1", "edge"),), tuple(Cable(*pair, rate_bps, 0) for pair in ends))


def known(name: str) -> Actuator:
    known_actuator = actuators.find(name)
    assert known_actuator is not None
    return known_actuator


def selected(text: str, graph: Graph, ground: str = "lab") -> list[str]:
    return [f"{actuated.name}:{actuated.actuator.name}" for actuated in select(text, graph, AGENT, ground)]


# --- the registry


def some(**changes: Any) -> Actuator:
    declaration = Actuator(
        name="mine",
        help="something",
        ports="switch",
        qdiscs=("red",),
        quantities=(Quantity("low", "bytes", "one"), Quantity("high", "ppm", "another", at_least="low")),
        bounds=lambda graph, port, keys: (Bounds(1, 3, 2),) * 2,
        attributes=lambda graph, port, keys: (Attribute(1, bytes(8), (Place("low", 0, 4), Place("high", 4, 4))),),
    )
    return replace(declaration, **changes)


def test_limits_are_those_of_the_state_matrix() -> None:
    limits = [actuator.MOST_QUANTITIES, actuator.MOST_NAME]
    assert numbers("monitors/state_matrix.h", "SM_MAX_VALUES", "SM_ACTUATOR_LEN - 1") == limits


def test_those_that_come_with_it() -> None:
    assert set(actuators.names()) == {"rate", "marking", "cwnd", "clamp", "pacing"} and actuators.find("mine") is None
    quantities = {name: [(quantity.name, quantity.unit) for quantity in known(name).quantities] for name in actuators.names()}
    assert quantities == {
        "rate": [("rate", "bps")],
        "marking": [("kmin", "bytes"), ("kmax", "bytes"), ("pmax", "ppm")],
        "cwnd": [("window", "packets")],
        "clamp": [("clamp", "packets")],
        "pacing": [("pacing", "bps")],
    }
    for name in actuators.names():
        known_actuator = known(name)
        texts = [known_actuator.help, known_actuator.cost, *(quantity.help for quantity in known_actuator.quantities)]
        assert all(text and not text.endswith(".") for text in texts)
    columns = [quantity.column for name in ("rate", "marking") for quantity in known(name).quantities]
    assert columns == ["bps", "kmin_bytes", "kmax_bytes", "pmax_ppm"]
    assert known("rate").ordered == () and known("marking").ordered == ((1, 0),), "kmax is at least kmin"


def test_one_of_the_user_s(registries: None) -> None:
    before = actuators.names()
    others = [Quantity(f"q{i}", "ns", "x", at_least="q0") for i in (1, 2, 3)]
    declaration = some(name="a23456789_12345", quantities=(Quantity("q0", "ns", "x"), *others))
    actuators.register(declaration)
    assert actuators.names() == (*before, "a23456789_12345") and actuators.find("a23456789_12345") is declaration
    assert declaration.ordered == ((1, 0), (2, 0), (3, 0))
    assert declaration.misses(Port("s1", "s1-eth1", PLAIN)) == "" and declaration.grounds == ("lab", "host")
    graph = star(PLAIN)
    assert declaration.equip(graph, AGENT) is graph


QUANTITY = Quantity("x", "bytes", "one")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"name": "rate"}, "actuator 'rate' is registered already; choose another name"),
        ({"name": "a b"}, "actuator 'a b' is not a valid name; use letters, digits and _, at most 15"),
        ({"name": ""}, "actuator '' is not a valid name"),
        ({"name": "1st"}, "actuator '1st' is not a valid name"),
        ({"name": "s1:mine"}, "actuator 's1:mine' is not a valid name"),
        ({"name": "a234567890123456"}, "actuator 'a234567890123456' is not a valid name"),
        ({"ports": "hosts"}, "actuator 'mine': ports 'hosts' are unknown; give host or switch"),
        ({"quantities": ()}, "actuator 'mine' has 0 quantities; give 1 to 4"),
        ({"quantities": tuple(Quantity(f"q{i}", "ns", "") for i in range(5))}, "actuator 'mine' has 5 quantities; give 1 to 4"),
        ({"quantities": (QUANTITY, QUANTITY)}, "actuator 'mine': quantity 'x' is no name of its own; give each quantity one"),
        ({"quantities": (Quantity("k-min", "bytes", ""),)}, "actuator 'mine': quantity 'k-min' is no name of its own"),
        (
            {"quantities": (Quantity("x", "kB", ""),)},
            "actuator 'mine': unit 'kB' of x is unknown; one of: bps, bytes, ppm, packets, ns",
        ),
        (
            {"quantities": (QUANTITY, Quantity("y", "bytes", "", at_least="z"))},
            "actuator 'mine': y is at least 'z', which is no earlier quantity; name one",
        ),
        ({"quantities": (Quantity("x", "bytes", "", at_least="x"),)}, "x is at least 'x', which is no earlier quantity"),
        (
            {"quantities": (Quantity("x", "bytes", "", at_least="y"), Quantity("y", "bytes", ""))},
            "x is at least 'y', which is no",
        ),
        ({"bounds": lambda graph, port: ()}, "actuator 'mine': bounds: cannot be called with (graph, port, keys): too many"),
        ({"attributes": lambda: ()}, "actuator 'mine': attributes: cannot be called with (graph, port, keys): too many"),
        ({"misses": lambda: ""}, "actuator 'mine': misses: cannot be called with (port): too many"),
        ({"equip": lambda graph: graph}, "actuator 'mine': equip: cannot be called with (graph, keys): too many"),
    ],
)
def test_a_wrong_declaration_is_one_line(registries: None, changes: dict[str, Any], line: str) -> None:
    before = actuators.names()
    with pytest.raises(AgentError) as refusal:
        actuators.register(some(**changes))
    assert line in str(refusal.value) and "\n" not in str(refusal.value)
    assert actuators.names() == before


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastKeys:
    """Keys of an actuator."""

    least_bytes: int = key(SIZE, 3000, low=1514, help="least that is set")


def test_keys_of_its_own_reach_its_functions(registries: None) -> None:
    received: list[Any] = []

    def bounds(graph: Graph, port: Port, keys: LeastKeys) -> tuple[Bounds, ...]:
        received.append(keys)
        return (Bounds(keys.least_bytes, 10**6, 10**6),)

    def attributes(graph: Graph, port: Port, keys: LeastKeys) -> tuple[Attribute, ...]:
        received.append(keys)
        return (Attribute(1, bytes(8), (Place("x", 0, 4),)),)

    def equip(graph: Graph, keys: LeastKeys) -> Graph:
        received.append(keys)
        return graph

    one = (Quantity("x", "bytes", "one"),)
    actuators.register(some(quantities=one, bounds=bounds, attributes=attributes, equip=equip, keys=LeastKeys))
    for own_keys, least in (((), 3000), ((("least", 2000),), 2000)):
        agent, graph = replace(AGENT, actuators="s1-eth1:mine,s1-eth2:marking", own=own_keys), star(STEP, STEP)
        received.clear()
        assert selection.equipped(agent.sets, graph, agent) is graph
        rows, *_ = actuation.tables_of(select(agent.sets, graph, agent, "lab"), graph, agent, {})
        assert rows.records["low"].tolist() == [[least, 0, 0, 0], [1514, 1514, 10_000, 0]]
        assert received == [LeastKeys(least_bytes=least)] * 3


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("agent.actuators=mine", "agent.least=1kB"), 'agent.least = "1kB": is below 1514B'),
        (("agent.least=2kB",), "agent.least"),
        (("agent.actuators=marking", "agent.least=2kB"), "has no effect with actuators 'marking'; remove it"),
    ],
)
def test_a_key_of_its_own_is_checked(registries: None, overrides: tuple[str, ...], words: str) -> None:
    actuators.register(some(keys=LeastKeys))
    with pytest.raises(SpecError) as refusal:
        made(POLICY, *overrides)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenKeys:
    floor_bps: int = key(RATE, 1000, help="a name that all agents have")


def test_a_key_that_all_agents_have_is_refused(registries: None) -> None:
    with pytest.raises(AgentError, match=r"agent\.actuators 'mine': key 'floor'.*another name"):
        actuators.register(some(keys=TakenKeys))
    assert actuators.find("mine") is None


# --- selection


def test_every_port_that_has_one() -> None:
    graph = star(STEP, PLAIN, SLOPE)
    assert selected("rate", graph) == ["h1-eth0:rate", "h2-eth0:rate", "h3-eth0:rate"]
    assert selected("marking", graph) == ["s1-eth1:marking", "s1-eth3:marking"]
    for text in ("switch:marking", "all:marking"):
        assert selected(text, graph) == selected("marking", graph)
    for text in ("host:rate", "all:rate", " rate "):
        assert selected(text, graph) == selected("rate", graph)


def test_rows_are_those_of_the_state_matrix() -> None:
    graph = star(STEP, PLAIN, SLOPE)
    rows = [port.ifname for port in graph.ports()]
    for actuated in select("rate,marking", graph, AGENT, "lab"):
        assert rows[actuated.row] == actuated.port.ifname and graph.port(actuated.port.ifname) is actuated.port


def test_one_item_after_the_other() -> None:
    """Within an item, ports are in the order of the network."""
    graph = star(*[STEP] * 11)
    assert selected("h2-*:rate, s1-eth[23]:marking,h1-eth0:rate", graph) == [
        *("h2-eth0:rate", "s1-eth2:marking", "s1-eth3:marking", "h1-eth0:rate")
    ]
    assert selected("s1-eth1*:marking", graph) == [f"s1-eth{i}:marking" for i in (1, 10, 11)]
    assert selected("s1-*:marking,rate", graph)[10:12] == ["s1-eth11:marking", "h1-eth0:rate"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rat", "actuator 'rat' is unknown; did you mean rate?"),
        ("s1-*:markings", "actuator 'markings' is unknown; did you mean marking?"),
        ("speed", "actuator 'speed' is unknown; one of: marking, rate, cwnd, clamp, pacing"),
        ("", "'' has an empty item; write it like 'rate' or 's1-*:marking'"),
        ("rate,", "'rate,' has an empty item; write it like 'rate' or 's1-*:marking'"),
        ("rate, ,marking", "'rate, ,marking' has an empty item; write it like 'rate' or 's1-*:marking'"),
        ("s1-eth1:", "actuator '' is unknown; one of: marking, rate, cwnd, clamp, pacing"),
        ("rate,rate", "'rate' and 'rate' both set the rate of h1-eth0; take one out"),
        (
            "s1-eth3:marking,marking",
            "'s1-eth3:marking' and 'marking' both set the marking of s1-eth3; take one out",
        ),
        ("s9-*:marking", "'s9-*:marking': no port of s1-eth1 .. h3-eth0 is called so"),
        (":rate", "':rate': no port of s1-eth1 .. h3-eth0 is called so"),
        ("hosts:rate", "'hosts:rate': no port of s1-eth1 .. h3-eth0 is called so"),
        (
            "switch:rate",
            "'switch:rate': port s1-eth1 has no rate: only egresses of hosts have one; leave it out",
        ),
        (
            "host:marking",
            "'host:marking': port h1-eth0 has no marking: only ports of switches have one; leave it out",
        ),
        ("*:rate", "'*:rate': port s1-eth1 has no rate: only egresses of hosts have one; leave it out"),
        (
            "s1-*:marking",
            "'s1-*:marking': port s1-eth2 has no marking: its queue marks nothing; give a topology.marking such as \"step\"",
        ),
    ],
)
def test_a_wrong_item_is_one_line(text: str, line: str) -> None:
    with pytest.raises(AgentError) as refusal:
        select(text, star(STEP, PLAIN, SLOPE), AGENT, "lab")
    assert str(refusal.value) == f"agent.actuators: {line}"


@pytest.mark.parametrize(
    ("queue", "why"),
    [
        (PLAIN, 'its queue marks nothing; give a topology.marking such as "step"'),
        (AVERAGE, 'its marking is "iroko-thesis", on an average of the queue; give a topology.marking such as "step"'),
    ],
)
@pytest.mark.parametrize("text", ["marking", "switch:marking", "s1-eth2:marking"])
def test_a_network_without_marking_says_why(queue: Queue, why: str, text: str) -> None:
    port = "s1-eth2" if "eth2" in text else "s1-eth1"
    with pytest.raises(AgentError) as refusal:
        select(text, star(queue, queue), AGENT, "lab")
    assert str(refusal.value) == f"agent.actuators: {text!r}: port {port} has no marking: {why}"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("class:marking", ["s1-eth1:tcp:marking", "s1-eth1:rdma:marking", "s1-eth2:tcp:marking"]),
        ("s1-*:tcp:marking", ["s1-eth1:tcp:marking", "s1-eth2:tcp:marking"]),
        ("s1-eth1:*:marking", ["s1-eth1:tcp:marking", "s1-eth1:rdma:marking"]),
        ("marking", ["s1-eth1:marking", "s1-eth2:marking", "s1-eth3:marking"]),
        ("s1-eth1:rdma:marking,s1-eth1:marking", ["s1-eth1:rdma:marking", "s1-eth1:marking"]),
    ],
)
def test_classes_that_mark(text: str, names: list[str]) -> None:
    graph = star(CLASSFUL, UNMARKED, STEP)
    assert selected(text, graph) == names
    for actuated in select(text, graph, AGENT, "lab"):
        assert graph.rows()[actuated.row].name == actuated.name


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("s1-*:storage:marking", "no class of s1-eth1:tcp .. s1-eth2:rdma is called so"),
        (
            "s1-*:rdma:marking",
            'class s1-eth2:rdma has no marking: its queue marks nothing; give a topology.marking such as "step"',
        ),
        ("class:rate", "class s1-eth1:tcp has no rate: only egresses of hosts have one; leave it out"),
        (
            "s1-eth1:marking,class:marking",
            "'s1-eth1:marking' and 'class:marking' both set the marking of s1-eth1:tcp; take one out",
        ),
        ("s1-eth1:tcp:marking,marking", "'s1-eth1:tcp:marking' and 'marking' both set the marking of s1-eth1; take one out"),
    ],
)
def test_a_wrong_item_of_classes_is_one_line(text: str, line: str) -> None:
    with pytest.raises(AgentError) as refusal:
        select(text, star(CLASSFUL, UNMARKED), AGENT, "lab")
    assert str(refusal.value).startswith("agent.actuators: ") and str(refusal.value).endswith(line)


def test_classes_have_what_declares_so(registries: None) -> None:
    with pytest.raises(AgentError, match=r"no classes.*topology\.classes"):
        select("class:marking", star(STEP), AGENT, "lab")
    actuators.register(some(qdiscs=("port",)))
    with pytest.raises(AgentError, match=r"s1-eth1:tcp.*mine.*name ports"):
        select("class:mine", star(CLASSFUL), AGENT, "lab")


def test_blanks_do_not_count() -> None:
    assert selected(" s1-* : marking , rate ", star(STEP)) == selected("s1-*:marking,rate", star(STEP))


def test_a_ground_that_cannot_enforce_it() -> None:
    graph = star(STEP)
    assert selected("rate", graph, "host") == ["h1-eth0:rate"]
    with pytest.raises(AgentError) as refusal:
        select("rate,marking", graph, AGENT, "host")
    line = '\'marking\' cannot be enforced on ground "host"; give ground = "lab", or another actuator'
    assert str(refusal.value) == f"agent.actuators: {line}"


@pytest.mark.parametrize(
    ("bounds", "line"),
    [
        ((Bounds(1, 3, 2),), "mine of s1-eth1 has 1 bounds for 2 quantities; mend its bounds"),
        ((Bounds(1, 3, 2),) * 3, "mine of s1-eth1 has 3 bounds for 2 quantities; mend its bounds"),
        ((Bounds(1, 3, 2), Bounds(3, 1, 2)), "high of s1-eth1 starts at 2 of 3..1; give bounds of 1 or more, in order"),
        ((Bounds(3, 4, 2), Bounds(1, 3, 2)), "low of s1-eth1 starts at 2 of 3..4; give bounds of 1 or more, in order"),
        ((Bounds(1, 3, 4), Bounds(1, 3, 2)), "low of s1-eth1 starts at 4 of 1..3; give bounds of 1 or more, in order"),
        ((Bounds(0, 3, 2), Bounds(1, 3, 2)), "low of s1-eth1 starts at 2 of 0..3; give bounds of 1 or more, in order"),
    ],
)
def test_bounds_of_a_plug_in_that_cannot_be(registries: None, bounds: tuple[Bounds, ...], line: str) -> None:
    actuators.register(some(bounds=lambda graph, port, keys: bounds))
    with pytest.raises(AgentError) as refusal:
        select("mine", star(PLAIN), AGENT, "lab")
    assert str(refusal.value) == f"agent.actuators: {line}"


def test_equip_gives_each_actuator_its_qdisc() -> None:
    graph = star(STEP, PLAIN)
    assert selection.equipped("s1-eth1:marking,unknown", graph, AGENT) is graph
    for text in ("rate", "marking, h1-*: rate"):
        equipped = selection.equipped(text, graph, AGENT)
        assert [port.queue.kind for port in equipped.ports()] == ["red", "bfifo", "tbf", "tbf"]
        assert equipped == graph.limited(AGENT.burst_bytes, AGENT.limit_bytes)


def test_equip_is_called_once_for_each_actuator(registries: None) -> None:
    calls: list[tuple[str, Any]] = []

    def equip(name: str) -> Any:
        return lambda graph, keys: calls.append((name, keys)) or graph

    for name in ("one", "other"):
        actuators.register(some(name=name, equip=equip(name)))
    selection.equipped("s1-eth1:other,one,s1-eth2:other", star(PLAIN), AGENT)
    assert calls == [("other", AGENT), ("one", AGENT)]


# --- in a spec


def made(*overrides: str) -> Experiment:
    return Experiment.of(spec.of_preset("dumbbell-10m", ['workload.kind="pairs"', 'topology.marking="step"', *overrides]))


POLICY = 'controller.policy="external"'


def test_what_an_experiment_s_agent_sets() -> None:
    assert made().actuated == ()
    default = made(POLICY)
    assert [actuated.port.ifname for actuated in default.actuated] == [f"h{i}-eth0" for i in (1, 2, 3, 4)]
    assert {port.queue.kind for port in default.graph.ports()} == {"port", "tbf"}
    marks = made(POLICY, 'agent.actuators="s1-*:marking"')
    assert [actuated.port.ifname for actuated in marks.actuated] == [f"s1-eth{i}" for i in (1, 2, 3)]
    assert {port.queue.kind for port in marks.graph.ports()} == {"port", "bfifo"}, "without rates there is no token bucket"


def test_control_packets_carry_rates_alone() -> None:
    assert len(made(POLICY, 'agent.control="network"').actuated) == 4
    with pytest.raises(SpecError) as refusal:
        made(POLICY, 'agent.control="network"', 'agent.actuators="rate,marking"')
    why = "control packets go to hosts and carry one value, and 'marking' has other ports or more; leave it out"
    assert str(refusal.value) == f'--set: agent.control = "network": {why}'


# --- bounds


@pytest.mark.parametrize(
    ("line_bps", "floor_bps", "low"), [(10**7, 10_000, 10_000), (10**7, 10**7, 10**7), (10**7, 10**9, 10**7)]
)
def test_bounds_of_a_rate(line_bps: int, floor_bps: int, low: int) -> None:
    graph = star(PLAIN, rate_bps=line_bps)
    bounds = known("rate").bounds(graph, graph.port("h1-eth0"), replace(AGENT, floor_bps=floor_bps))
    assert bounds == (Bounds(low, line_bps, line_bps),)


def ramp(low: int, high: int, ppm: int, limit: int = LIMIT) -> Queue:
    return Queue(limit, "red", Marking("red-instant", min_bytes=low, max_bytes=high, probability_ppm=ppm))


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        (STEP, [(1514, LIMIT, 30_000), (1514, LIMIT, 30_000), (10_000, 10**6, 10**6)]),
        (SLOPE, [(1514, LIMIT, 5_000), (1514, LIMIT, 200_000), (10_000, 10**6, 10_000)]),
        (Queue(LIMIT, "red", Marking("step", k_bytes=1)), [(1, LIMIT, 1), (1, LIMIT, 1), (10_000, 10**6, 10**6)]),
        (ramp(1000, LIMIT, 1), [(1000, LIMIT, 1000), (1000, LIMIT, LIMIT), (1, 10**6, 1)]),
    ],
)
def test_bounds_of_marking(queue: Queue, expected: list[tuple[int, int, int]]) -> None:
    """From a full frame to the buffer, and from 1 % to 100 %; what is in force at the start lies between, in any case."""
    graph = star(queue)
    bounds = known("marking").bounds(graph, graph.port("s1-eth1"), AGENT)
    assert [(span.low, span.high, span.start) for span in bounds] == expected


def test_bounds_of_the_marking_of_a_class() -> None:
    """Those of its own marking and limit."""
    (tcp, rdma) = select("class:marking", star(CLASSFUL), AGENT, "lab")
    assert [(span.low, span.high, span.start) for span in tcp.bounds] == [*[(1514, LIMIT, 30_000)] * 2, (10_000, 10**6, 10**6)]
    assert [(span.low, span.high, span.start) for span in rdma.bounds] == [
        *((1514, 100_000, 5000), (1514, 100_000, 20_000), (10_000, 10**6, 10_000))
    ]


# --- requests


def taken_apart(message: bytes) -> tuple[str, dict[int, bytes], bool]:
    """Returns the kind of the qdisc that a request changes, its options as attributes, and whether they are said to be nested."""
    size, kind, flags, seq, port = NLMSG_HDR.unpack_from(message)
    assert (size, kind, flags, seq, port) == (len(message), RTM_NEWQDISC, NLM_F_REQUEST, 0, 0) and size % 4 == 0
    assert not any(message[NLMSG_HDR.size : NLMSG_HDR.size + tc.TCMSG.size]), "agentd fills them in"
    body = message[NLMSG_HDR.size + tc.TCMSG.size :]
    values = attributes(body)
    raw_kinds = [struct.unpack_from("=H", body, at + 2)[0] for at in starts(body)]
    assert [raw_kind & ~NLA_F_NESTED for raw_kind in raw_kinds] == [tc.TCA_KIND, tc.TCA_OPTIONS]
    return values[tc.TCA_KIND].rstrip(b"\0").decode(), values[tc.TCA_OPTIONS], bool(raw_kinds[1] & NLA_F_NESTED)


def starts(data: bytes) -> list[int]:
    """Returns where each attribute begins."""
    offsets, at = [], 0
    while at < len(data):
        offsets.append(at)
        at += -(-struct.unpack_from("=H", data, at)[0] // 4) * 4
    return offsets


def patched(request: Request, values: Sequence[int]) -> bytes:
    """Returns the request with values in their places, as agentd writes them."""
    message = bytearray(request.message)
    for field in request.writes:
        raw = min(values[field["value"]] * field["multiplier"] // field["divisor"], 256 ** field["width"] - 1)
        message[field["offset"] : field["offset"] + field["width"]] = raw.to_bytes(field["width"], "little")
    return bytes(message)


def read_back(request: Request, options: dict[int, bytes], count: int) -> list[int]:
    """Returns the values in the options of a qdisc, as agentd reads them."""
    values = [0] * count
    for field in request.reads:
        data = options.get(field["attribute"], b"")
        if field["offset"] + field["width"] <= len(data):
            raw = int.from_bytes(data[field["offset"] : field["offset"] + field["width"]], "little")
            values[field["value"]] = -(-raw * field["divisor"] // field["multiplier"])
    return values


def request_for(name: str, port: Port, graph: Graph, keys: Any = AGENT) -> Request:
    known_actuator = known(name)
    return request_of(port.queue.kind, known_actuator.attributes(graph, port, keys), known_actuator.quantities)


@pytest.mark.parametrize("rate_bps", [8, 10_000, 10**7, 8 * (2**32 - 1), 8 * 2**32, 400 * 10**9])
def test_a_request_for_a_rate_is_what_tc_packs(rate_bps: int) -> None:
    """The value alone differs from the qdisc as it was set up: the kernel takes burst and limit anew."""
    graph = star(PLAIN, rate_bps=400 * 10**9).limited(3028, LIMIT)
    port = graph.port("h1-eth0")
    for tbf in ("exact", "stock"):
        request = request_for("rate", port, graph, replace(AGENT, tbf=tbf))
        kind, options, is_nested = taken_apart(patched(request, [rate_bps]))
        packed = attributes(attributes(tc.tbf_options(rate_bps, 3028, LIMIT))[tc.TCA_OPTIONS])
        keep = {} if tbf == "stock" else {16: b""}
        assert (kind, attributes(options), is_nested) == ("tbf", packed | keep, True)
        assert read_back(request, packed, 1) == [rate_bps]
    narrow = {key: value for key, value in packed.items() if key != tc.TCA_TBF_RATE64}
    assert read_back(request, narrow, 1) == [min(rate_bps, 8 * (2**32 - 1))], "the kernel leaves it out where 32 bits are enough"


@pytest.mark.parametrize("values", [(5000, 200_000, 10_000), (1514, 1515, 1), (30_000, 400_000, 999_999), (1, LIMIT, 10**6)])
@pytest.mark.parametrize("queue", [STEP, SLOPE])
def test_a_request_for_marking_is_what_tc_packs(queue: Queue, values: tuple[int, int, int]) -> None:
    """A limit of 0 keeps the queue; all else is as if the port had been set up with these values."""
    graph = star(queue)
    request = request_for("marking", graph.port("s1-eth1"), graph)
    kind, options, is_nested = taken_apart(patched(request, values))
    packed = attributes(tc._options(ramp(*values))[1])
    packed = attributes(packed[tc.TCA_OPTIONS])
    parms = packed[tc.TCA_RED_PARMS]
    assert (kind, attributes(options), is_nested) == ("red", packed | {tc.TCA_RED_PARMS: bytes(4) + parms[4:]}, True)
    assert read_back(request, packed, 3) == list(values)


@pytest.mark.parametrize("number", [0, 1])
def test_a_request_for_the_marking_of_a_class_is_what_tc_packs(number: int) -> None:
    """It names the class, and all else of it stays as it is."""
    graph = star(CLASSFUL)
    port, of_class = graph.port("s1-eth1"), known("marking").of_class
    assert of_class is not None
    request = request_of("port", of_class(graph, port, number, AGENT), known("marking").quantities)
    kind, options, is_nested = taken_apart(patched(request, [2000, 60_000, 500_000]))
    ((nest, inside),) = each_attribute(options)
    new_marking = Marking("red-instant", min_bytes=2000, max_bytes=60_000, probability_ppm=500_000)
    class_options = {tc.CLASS_NUMBER: number.to_bytes(4, "little"), tc.CLASS_MARKING: tc.port_marking(new_marking)}
    assert (kind, nest, attributes(inside), is_nested) == ("port", tc.TCA_PORT_CLASS, class_options, True)
    assert struct.unpack_from("=H", options, 2)[0] & NLA_F_NESTED
    places = {(field["nest"], field["index"], field["attribute"]) for field in request.reads}
    assert places == {(tc.TCA_PORT_CLASS, number, tc.CLASS_MARKING)}
    assert read_back(request, class_options, 3) == [2000, 60_000, 500_000]


def test_a_request_without_attributes() -> None:
    """The options of bfifo are its limit."""
    bare = (Attribute(0, bytes(4), (Place("limit", 0, 4),)),)
    request = request_of("bfifo", bare, (Quantity("limit", "bytes", "x"),))
    kind, options, is_nested = taken_apart(patched(request, [123_456]))
    assert (kind, options, is_nested) == ("bfifo", struct.pack("=I", 123_456), False)
    field = {"attribute": 0, "nest": 0, "index": 0, "offset": 0}
    assert request.reads == [{"multiplier": 1, "divisor": 1, "value": 0, "width": 4} | field]
    assert tc._options(Queue(123_456))[1][4:] == options


def test_places_of_odd_attributes() -> None:
    """An attribute takes a multiple of 4 bytes; a value may lie anywhere in it, and a quantity in several."""
    odd = (
        Attribute(7, b"abcde", (Place("b", 1, 2),)),
        Attribute(9, b""),
        Attribute(8, bytes(11), (Place("a", 3, 8, 3, 2), Place("b", 2, 1))),
    )
    request = request_of("red", odd, (Quantity("a", "ns", "x"), Quantity("b", "ns", "x")))
    _, options, _ = taken_apart(patched(request, [1000, 0x0201]))
    assert attributes(options) == {7: b"a\1\2de", 9: b"", 8: b"\0\0\xff" + (1500).to_bytes(8, "little")}
    assert [(field["value"], field["attribute"], field["offset"], field["width"]) for field in request.reads] == [
        *((1, 7, 1, 2), (0, 8, 3, 8), (1, 8, 2, 1))
    ]


# --- the file


def test_rows_find_their_requests_and_places() -> None:
    graph = star(STEP, SLOPE).limited(1514, LIMIT)
    rows = select("s1-eth2:marking,rate,s1-eth1:marking", graph, AGENT, "lab")
    listens = {"h1-eth0": ("172.16.0.1", 20130)}
    table, fields, message = (part.records for part in actuation.tables_of(rows, graph, AGENT, listens))
    data = message["byte"].tobytes()
    assert table["actuator"].tolist() == [b"marking", b"rate", b"rate", b"marking"]
    assert table["qdisc"].tolist() == [b"red", b"tbf", b"tbf", b"red"] and table["row"].tolist() == [1, 2, 3, 0]
    assert table["n_values"].tolist() == [3, 1, 1, 3]
    assert table["control_port"].tolist() == [0, 20130, 0, 0]
    assert table["control_addr"].tolist() == [[0] * 4, [172, 16, 0, 1], [0] * 4, [0] * 4]
    for row, actuated in zip(table, rows, strict=True):
        request = request_for(actuated.actuator.name, actuated.port, graph)
        assert data[row["request_start"] :][: row["request_len"]] == request.message
        assert fields_at(fields, row["writes_start"], row["n_writes"]) == request.writes
        assert fields_at(fields, row["reads_start"], row["n_reads"]) == request.reads
        check_bounds(row, actuated)
    assert len(data) == sum(table["request_len"]) and len(fields) == sum(table["n_writes"]) + sum(table["n_reads"])


def fields_at(fields: Any, start: int, count: int) -> list[dict[str, int]]:
    return [dict(zip(fields.dtype.names, field.item(), strict=True)) for field in fields[start : start + count]]


def check_bounds(row: Any, actuated: ActuatedPort) -> None:
    rest = [0] * (4 - len(actuated.bounds))
    for name in ("low", "high", "start"):
        assert row[name].tolist() == [getattr(bounds, name) for bounds in actuated.bounds] + rest


def test_an_experiment_s_hosts_listen_for_commands() -> None:
    table, *_ = (part.records for part in actuation.tables(made(POLICY, 'agent.control="network"')))
    assert table["control_port"].all() and len(set(map(tuple, table["control_addr"].tolist()))) == 4
    marks, *_ = (part.records for part in actuation.tables(made(POLICY, 'agent.actuators="marking"')))
    assert not marks["control_port"].any() and not marks["control_addr"].any()


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ((Attribute(1, bytes(4), (Place("kmin", 0, 4),)),), "kmax has no place in the attributes; give it one"),
        ((Attribute(1, bytes(4), (Place("kmim", 0, 4),)),), "the place of 'kmim' is of no quantity; one of: kmin, kmax"),
        ((Attribute(1, bytes(4), (Place("kmin", 1, 4),)),), "the place of 'kmin' is at byte 1 of 4; give the whole payload"),
        ((Attribute(1, bytes(4), (Place("kmin", 0, 3),)),), "the place of 'kmin' has width 3"),
        ((Attribute(1, bytes(4), (Place("kmin", 0, 4, divisor=0),)),), "give 1, 2, 4 or 8 bytes"),
        ((), "kmin has no place in the attributes; give it one"),
    ],
)
def test_places_that_cannot_be_are_one_line(attributes, words):
    quantities = (Quantity("kmin", "bytes", "low"), Quantity("kmax", "bytes", "high"))
    with pytest.raises(AgentError) as refusal:
        request_of("red", attributes, quantities)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)
