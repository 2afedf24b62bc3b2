# SPDX-License-Identifier: Apache-2.0
"""Changes of a network while traffic runs, as plain data: the port, the time, and the values in force there from then on.

A change of a cable holds for the frames that one of its ends sends, so a link's change is two. A change of a queue concerns a
switch port. Nothing here touches a kernel.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dc_gym.topologies.graph import Graph

CUT, RATE, DELAY, LOSS = "cut", "rate_bps", "delay_ns", "loss_ppb"
CABLE = (CUT, RATE, DELAY, LOSS)
"""The quantities of one direction of a cable. A cut one (1) loses every frame; a whole one is 0."""
LIMIT, KMIN, KMAX, PMAX = "limit_bytes", "kmin_bytes", "kmax_bytes", "pmax_ppm"
TELLS = "telemetry_bps"
QUEUE = (LIMIT, KMIN, KMAX, PMAX, TELLS)
"""The quantities of a switch port's queue. Three are its marking, and always change together. The last is the rate that its
telemetry records name, which stands alone."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one port. Its quantities are all of CABLE or all of QUEUE."""

    at_ns: int
    """After t0."""
    event: int
    """Its number in the spec, from 0."""
    port: str
    values: tuple[tuple[str, int], ...]
    """Quantities with their new values."""

    @property
    def of_queue(self) -> bool:
        return self.values[0][0] in QUEUE


def with_telemetry(changes: Iterable[Change], graph: Graph) -> Iterator[Change]:
    """Yields the changes, and behind each new rate of a switch port that its telemetry names this rate from then on."""
    tell = {port.ifname for port in graph.switch_ports() if port.queue.telemetry}
    for change in changes:
        yield change
        rates = [value for name, value in change.values if name == RATE]
        if rates and change.port in tell:
            yield replace(change, values=((TELLS, rates[0]),))


def rates_of(changes: Iterable[Change]) -> set[int]:
    """Returns the rates that ports get, in bit/s."""
    return {value for change in changes for name, value in change.values if name == RATE}


def ports_of(changes: Iterable[Change], *quantities: str) -> tuple[str, ...]:
    """Returns the ports at which one of these quantities changes, each once."""
    ports = (change.port for change in changes if any(name in quantities for name, _ in change.values))
    return tuple(dict.fromkeys(ports))


class Capacities:
    """The rates in force at each port over a run: 0 while its cable is cut."""

    def __init__(self, graph: Graph, changes: Sequence[Change]) -> None:
        ports = [port.ifname for port in graph.ports()]
        now = {name: (graph.cable_of(name).rate_bps, 0) for name in ports}
        rows = {name: row for row, name in enumerate(ports)}
        self._times_ns = [0]
        self._rates = [[rate_bps for rate_bps, _ in now.values()]]
        for at_ns, port, rate_bps in _steps(now, changes):
            if at_ns > self._times_ns[-1]:
                self._times_ns.append(at_ns)
                self._rates.append(list(self._rates[-1]))
            self._rates[-1][rows[port]] = rate_bps

    def at(self, t_ns: int) -> list[int]:
        """Returns the rate of each port, in the order of `graph.ports()`. At the time of a change, the new one holds."""
        return self._rates[max(0, bisect_right(self._times_ns, t_ns) - 1)]


def _steps(now: dict[str, tuple[int, int]], changes: Sequence[Change]) -> Iterator[tuple[int, str, int]]:
    """Yields the changes of capacities: time, port, and new rate. `now` holds by port the rate and whether the cable is cut."""
    for change in changes:
        values = dict(change.values)
        if RATE in values or CUT in values:
            rate_bps, cut = now[change.port]
            now[change.port] = rate_bps, cut = values.get(RATE, rate_bps), values.get(CUT, cut)
            yield change.at_ns, change.port, 0 if cut else rate_bps
