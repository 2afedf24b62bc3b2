# SPDX-License-Identifier: Apache-2.0
"""Deadlocks of pauses, found in states written by hand."""

from __future__ import annotations

from itertools import pairwise

from dc_gym.run.result.deadlocks import leads_to
from dc_gym.topologies.deadlock import PortState, find_deadlock
from dc_gym.topologies.ecmp import path, route
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.traffic.flows import FlowRequest
from dc_gym.traffic.schedule import Schedule, make_schedule

IDLE = PortState(0, (0, 0), (0, 0))
RDMA = 1
"""The class that is paused here."""


def held(backlog: int = 5000, charged: int = 0, number: int = RDMA) -> PortState:
    """Returns a port that its peer has hold a class."""
    return PortState(1 << number, _only(number, backlog), _only(number, charged))


def charged(size: int = 5000, number: int = RDMA) -> PortState:
    """Returns a port at which frames came in that wait in its node."""
    return PortState(0, (0, 0), _only(number, size))


def _only(number: int, value: int) -> tuple[int, ...]:
    return tuple(value if index == number else 0 for index in range(2))


def ring(size: int) -> tuple[dict[str, PortState], dict[str, str], dict[str, set[str]]]:
    """Returns a ring of switches in which each waits for the next: ports a0, a1, ... lead on, ports z0, z1, ... come in."""
    states = {f"a{index}": held() for index in range(size)} | {f"z{index}": charged() for index in range(size)}
    peers = {f"a{index}": f"z{(index + 1) % size}" for index in range(size)}
    peers |= {there: here for here, there in peers.items()}
    return states, peers, {f"z{index}": {f"a{index}", f"h{index}"} for index in range(size)}


def with_hosts(states, peers, leads_to, size):
    """Adds a port to a host at each switch."""
    for index in range(size):
        states[f"h{index}"], peers[f"h{index}"] = IDLE, f"host{index}"
        states[f"host{index}"], peers[f"host{index}"] = IDLE, f"h{index}"
    return states, peers, leads_to


def test_ports_that_wait_for_one_another_are_named_in_their_order():
    for size in (2, 4, 5):
        network = with_hosts(*ring(size), size)
        assert find_deadlock(*network) == tuple(f"a{index}" for index in range(size))


def test_nothing_waits_in_an_idle_network():
    states, peers, leads_to = with_hosts(*ring(4), 4)
    assert find_deadlock(dict.fromkeys(states, IDLE), peers, leads_to) is None


def test_one_port_that_is_not_held_lets_all_go_on():
    for state in (IDLE, PortState(0, (0, 5000), (0, 0)), held(number=0)):
        states, peers, leads_to = with_hosts(*ring(4), 4)
        assert find_deadlock(states | {"a2": state}, peers, leads_to) is None


def test_frames_that_also_wait_for_a_host_will_leave():
    """Frames that came in at z1 wait at a1, which is held, and at h1, which is not: the pause of a0 may end."""
    states, peers, leads_to = with_hosts(*ring(4), 4)
    assert find_deadlock(states | {"h1": PortState(0, (0, 3000), (0, 0))}, peers, leads_to) is None
    assert find_deadlock(states | {"h1": PortState(0, (3000, 0), (0, 0))}, peers, leads_to) is not None, "of another class"


def test_a_pause_that_has_just_ended_is_no_deadlock():
    """Nothing is charged at z3 any more, so the frame that ends the pause of a2 is under way."""
    states, peers, leads_to = with_hosts(*ring(4), 4)
    assert find_deadlock(states | {"z3": IDLE}, peers, leads_to) is None


def test_ports_that_only_wait_for_the_circle_are_not_in_it():
    """A host is held by the first switch, whose port waits in the circle."""
    states, peers, leads_to = with_hosts(*ring(4), 4)
    states |= {"host0": held(), "h0": charged()}
    leads_to["h0"] = {"a0"}
    assert find_deadlock(states, peers, leads_to) == ("a0", "a1", "a2", "a3")


def test_a_long_queue_at_a_slow_receiver_is_no_deadlock():
    """An incast: two hosts are held, but the switch sends."""
    states = {"h0": held(), "h1": held(), "s0": charged(), "s1": charged(), "out": PortState(0, (0, 9000), (0, 0)), "rx": IDLE}
    peers = {"h0": "s0", "s0": "h0", "h1": "s1", "s1": "h1", "out": "rx", "rx": "out"}
    assert find_deadlock(states, peers, {"s0": {"out"}, "s1": {"out"}}) is None


def test_pauses_of_a_receiver_that_holds_everybody_make_no_circle():
    """The port to the receiver is held, and the receiver has charged nothing: it is slow, not part of a circle."""
    states = {"h0": held(), "s0": charged(), "out": held(), "rx": IDLE}
    peers = {"h0": "s0", "s0": "h0", "out": "rx", "rx": "out"}
    assert find_deadlock(states, peers, {"s0": {"out"}}) is None


def test_whole_ports_may_deadlock_in_any_class():
    states, peers, leads_to = with_hosts(*ring(3), 3)
    states = {
        name: PortState(0xFF * bool(port.paused_classes), port.backlog_bytes, port.charged_bytes) for name, port in states.items()
    }
    assert find_deadlock(states, peers, leads_to) == ("a0", "a1", "a2")


def test_answers_lead_on_by_the_way_that_routing_gives_them():
    """Each leaf of two with four spines draws a table of its own, so most answers come back over another spine."""
    links = {"rate_bps": 10**9, "delay_ns": 1000, "buffer_bytes": 10**6}
    graph = build(TopologySpec.of(kind="leafspine", leaves=2, hosts_per_leaf=2, spines=4, **links))
    router = route(graph, 1)
    for transport in ("tcp", "rdma"):
        requests = [FlowRequest("h1", "h3", 5001, size_bytes=1000, transport=transport)] * 32
        flows, others = make_schedule(requests, graph, router, "dctcp", 1).flows, 0
        for flow in flows:
            back = path(graph, router, "h3", "h1", *flow.answer_ports, "udp" if transport == "rdma" else "tcp")
            steps = {(graph.peer(before).ifname, after) for way in (flow.ports, back) for before, after in pairwise(way)}
            successors = leads_to(graph, router, Schedule((flow,)))
            assert {(came_in, leaves) for came_in, ways in successors.items() for leaves in ways} == steps
            others += back != [graph.peer(port).ifname for port in reversed(flow.ports)]
        assert others > 8, "of 32 flows"
