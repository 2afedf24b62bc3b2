# SPDX-License-Identifier: Apache-2.0
"""The behaviour of a FIFO port by definition: the model that links, queues and marks are compared with, packet by packet.

A port has a queue of frames, a transmitter and a wire. A frame that finds the transmitter free starts at once. Any other frame
waits if the queue has room for it: bytes waiting + its own <= limit, where the frame under transmission no longer waits. A frame
that finds `mark_bytes` or more waiting is marked if it can be. The transmitter is busy for length x 8 / rate. The last bit
arrives `delay_ns` later.

Two things follow from a clock of whole nanoseconds. An event between two ticks happens at the later one. And a frame that starts
less than a nanosecond after the transmitter became free is back to back with the one before: its time counts from there, so
fractions neither get lost nor add up. Nothing is rounded in between: times are integers with the rate as denominator.

Frame bytes are those of Linux: header and payload, no FCS. This file does not depend on the kernel or the driver.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

BIT_NS = 8 * 10**9  # a byte at 1 bit/s, in ns


@dataclass(frozen=True, slots=True)
class OraclePort:
    rate_bps: int
    delay_ns: int
    limit_bytes: int
    """Room for the frames that wait, in bytes."""
    mark_bytes: int | None = None
    """K of the marking step; None: nothing is marked."""
    forwards: bool = False
    """The order of events in the same nanosecond. A switch forwards (True): an arriving frame sees the one that is about to leave
    still waiting. A host's program (False) sends after all events that were due."""


@dataclass(frozen=True, slots=True)
class OracleFrame:
    t_ns: int
    """When the frame comes to the port."""
    length: int
    ect: bool
    seq: int


@dataclass(frozen=True, slots=True)
class Passage:
    """The outcome of one frame at one port; a dropped frame has no times."""

    frame: OracleFrame
    dropped: bool
    marked: bool
    """Marked by this port, even if then dropped: RED marks before its queue refuses, and counts so."""
    depart_ns: int = -1
    """The first bit leaves: the frame no longer waits."""
    end_ns: int = -1
    """The last bit has left."""
    arrive_ns: int = -1


@dataclass(frozen=True, slots=True)
class PortRun:
    """All frames at one port, in order of arrival."""

    port: OraclePort
    passages: tuple[Passage, ...]
    _times: list[int] = field(repr=False)
    _backlogs: list[int] = field(repr=False)

    def backlog(self, t_ns: int) -> int:
        """Returns the bytes waiting after all events at `t_ns`."""
        index = bisect_right(self._times, t_ns)
        return self._backlogs[index - 1] if index else 0

    @property
    def drops(self) -> int:
        return sum(passage.dropped for passage in self.passages)

    @property
    def marks(self) -> int:
        return sum(passage.marked for passage in self.passages)


def run_port(port: OraclePort, frames: Iterable[OracleFrame]) -> PortRun:
    """Runs `frames`, in order of time, through a port."""
    rate = port.rate_bps
    free = 0  # when the transmitter becomes free, in ns x rate
    waiting: deque[int] = deque()
    waiting_bytes = 0
    passages: list[Passage] = []

    def transmit(index: int, start: int, depart_ns: int) -> None:
        nonlocal free
        frame, marked = passages[index].frame, passages[index].marked
        free = start + frame.length * BIT_NS
        end_ns = _ceil(free, rate)
        passages[index] = Passage(frame, False, marked, depart_ns, end_ns, end_ns + port.delay_ns)

    def serve(until_ns: int) -> None:
        nonlocal waiting_bytes
        while waiting and _ceil(free, rate) <= until_ns:
            index = waiting.popleft()
            waiting_bytes -= passages[index].frame.length
            transmit(index, free, _ceil(free, rate))

    for index, frame in enumerate(frames):
        serve(frame.t_ns - 1 if port.forwards else frame.t_ns)
        ect_above_k = port.mark_bytes is not None and waiting_bytes >= port.mark_bytes and frame.ect
        at_once = not waiting and frame.t_ns * rate >= free
        dropped = not at_once and waiting_bytes + frame.length > port.limit_bytes
        passages.append(Passage(frame, dropped, ect_above_k))
        if at_once:
            late = frame.t_ns * rate - free
            transmit(index, free if late < rate else frame.t_ns * rate, frame.t_ns)
        elif not dropped:
            waiting.append(index)
            waiting_bytes += frame.length
    while waiting:
        serve(_ceil(free, rate))
    return PortRun(port, tuple(passages), *_backlog_steps(passages))


def run_chain(ports: Sequence[OraclePort], frames: Iterable[OracleFrame]) -> list[PortRun]:
    """Runs frames through one port after the other."""
    runs: list[PortRun] = []
    for port in ports:
        runs.append(run_port(port, frames))
        frames = arrivals(runs[-1:])
    return runs


def arrivals(runs: Iterable[PortRun]) -> list[OracleFrame]:
    """Returns the frames that leave these ports, merged as they arrive at the next one."""
    passed = (passage for run in runs for passage in run.passages if not passage.dropped)
    frames = [OracleFrame(each.arrive_ns, each.frame.length, each.frame.ect, each.frame.seq) for each in passed]
    return sorted(frames, key=lambda frame: frame.t_ns)


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _backlog_steps(passages: Sequence[Passage]) -> tuple[list[int], list[int]]:
    """Returns times, and the bytes waiting from each on. A frame that does not wait comes and goes in one nanosecond."""
    changes: dict[int, int] = {}
    for each in passages:
        if not each.dropped:
            changes[each.frame.t_ns] = changes.get(each.frame.t_ns, 0) + each.frame.length
            changes[each.depart_ns] = changes.get(each.depart_ns, 0) - each.frame.length
    times = sorted(changes)
    return times, list(accumulate(changes[time] for time in times))
