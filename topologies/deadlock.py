# SPDX-License-Identifier: Apache-2.0
"""Deadlocks of pauses: ports that wait for one another in a circle, so that none of them ever sends again.

A port whose peer has it hold a class waits for the frames that came in at the peer: it may go on when enough of them have left
that switch. If all the ports at which they wait are held themselves, and so on round a circle, nothing moves any more (Hu et al.,
"Deadlocks in Datacenter Networks: Why Do They Form, and How to Avoid Them", HotNets 2016).

The states are read at one moment. A PAUSE frame that ends a pause may be under way at that moment; a true deadlock is there at
any later moment, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from dc_gym.topologies.graph import CLASSES


@dataclass(frozen=True, slots=True)
class PortState:
    """A port at one moment: struct tc_port_xstats and tc_port_class_xstats of kernel/drivers/lab.h."""

    paused_classes: int
    """The classes that the peer has this port hold, a bit each."""
    backlog_bytes: tuple[int, ...]
    """By class, the bytes that wait here to be sent."""
    charged_bytes: tuple[int, ...]
    """By class, the bytes that came in here and wait in the node."""

    def backlog(self, number: int) -> int:
        return self.backlog_bytes[number] if number < len(self.backlog_bytes) else 0

    def charged(self, number: int) -> int:
        return self.charged_bytes[number] if number < len(self.charged_bytes) else 0


def find_deadlock(
    states: Mapping[str, PortState], peers: Mapping[str, str], leads_to: Mapping[str, Collection[str]]
) -> tuple[str, ...] | None:
    """Returns a circle of ports that wait for one another, each for the next, or None.

    The circle begins with the port whose name is first. `peers` has the port at the other end of each port's cable, and
    `leads_to` the ports by which frames leave that came in at a port.
    """
    for number in range(CLASSES):
        waits = {port: _waits_for(port, number, states, peers, leads_to) for port in states}
        stuck = _stuck(waits)
        if stuck:
            return _circle({port: sorted(waits[port])[0] for port in stuck})
    return None


def _waits_for(
    port: str,
    number: int,
    states: Mapping[str, PortState],
    peers: Mapping[str, str],
    leads_to: Mapping[str, Collection[str]],
) -> set[str]:
    """Returns the ports whose frames of a class must leave before this port may send; none if it is not held."""
    state, peer = states[port], peers[port]
    if not state.paused_classes >> number & 1 or not state.backlog(number) or not states[peer].charged(number):
        return set()
    return {next_port for next_port in leads_to.get(peer, ()) if states[next_port].backlog(number)}


def _stuck(waits: Mapping[str, set[str]]) -> set[str]:
    """Returns the ports that wait only for ports that wait likewise."""
    stuck = {port for port, others in waits.items() if others}
    while free := {port for port in stuck if not waits[port] <= stuck}:
        stuck -= free
    return stuck


def _circle(following: Mapping[str, str]) -> tuple[str, ...]:
    seen: list[str] = []
    port = min(following)
    while port not in seen:
        seen.append(port)
        port = following[port]
    circle = seen[seen.index(port) :]
    first = circle.index(min(circle))
    return (*circle[first:], *circle[:first])
