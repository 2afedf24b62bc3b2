# SPDX-License-Identifier: Apache-2.0
"""The behaviour of a FIFO port by definition: the model that links, queues and marks are compared with, packet by packet.

A port has a queue of frames, a transmitter and a wire. A frame that finds the transmitter free starts at once. Any other frame
waits if the queue has room for it: bytes waiting + its own <= limit, where the frame under transmission no longer waits. The
transmitter is busy for length x 8 / rate. The last bit arrives `delay_ns` later.

A frame meets a queue of q bytes: the bytes that wait when it arrives or, at a port that marks departures, when it leaves.
From `mark_bytes` on it is marked with probability pmax (q - mark_bytes) / (kmax - mark_bytes), from kmax on always, if it can be
marked. Each frame on the slope takes the next number of the port's own sequence, whether it can be marked or not.

Two things follow from a clock of whole nanoseconds. An event between two ticks happens at the later one. And a frame that starts
less than a nanosecond after the transmitter became free is back to back with the one before: its time counts from there, so
fractions neither get lost nor add up. Nothing is rounded in between: times are integers with the rate as denominator.

Frame bytes are counted as in Linux: header and payload, no FCS. This file does not depend on the kernel or the driver.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Literal

from dc_gym.base.splitmix import splitmix64

PPM = 10**6
MarksAt = Literal["arrival", "departure"]
BIT_NS = 8 * 10**9  # a byte at 1 bit/s, in ns


@dataclass(frozen=True, slots=True)
class OraclePort:
    rate_bps: int
    delay_ns: int
    limit_bytes: int
    """Room for the frames that wait, in bytes."""
    mark_bytes: int | None = None
    """The queue from which frames are marked: Kmin, or K of a step; None: nothing is marked."""
    kmax_bytes: int | None = None
    """The queue from which every frame is marked; None: `mark_bytes`, a step."""
    pmax_ppm: int = PPM
    marks_at: MarksAt = "arrival"
    seed: int = 0
    """Seed of the draws for marks."""
    int_rate: int | None = None
    """Place of the port's rate in telemetry; None: the port writes none."""
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
    asks: bool = False
    """True if it asks for telemetry."""
    ce: bool = False
    """True if it was marked on its way to the port."""


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
    left_bytes: int = 0
    """Bytes that it leaves behind as it leaves."""
    sent_bytes: int = 0
    """Bytes that left the port before it."""

    @property
    def ce(self) -> bool:
        """True if the frame has CE behind the port."""
        return self.marked or self.frame.ce


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

    def queue_byte_ns(self, t_ns: int) -> int:
        """Returns the integral of the bytes waiting, up to `t_ns`."""
        return sum((end_ns - begin_ns) * waiting for begin_ns, end_ns, waiting in self._steps(t_ns))

    def busy_ns(self, t_ns: int) -> int:
        """Returns the time in which frames waited, up to `t_ns`."""
        return sum(end_ns - begin_ns for begin_ns, end_ns, waiting in self._steps(t_ns) if waiting)

    def longest(self, since_ns: int, t_ns: int) -> int:
        """Returns the most bytes that waited from `since_ns` up to `t_ns`."""
        steps = [waiting for _, end_ns, waiting in self._steps(t_ns) if end_ns > since_ns]
        return max([*steps, self.backlog(since_ns)])

    def ce_bytes(self, t_ns: int) -> int:
        """Returns the bytes of frames with CE that have left at `t_ns`."""
        return sum(
            passage.frame.length for passage in self.passages if passage.ce and not passage.dropped and passage.depart_ns <= t_ns
        )

    def marks_until(self, t_ns: int) -> int:
        """Returns the frames that the port has marked at `t_ns`."""
        when = (
            passage.frame.t_ns if self.port.marks_at == "arrival" else passage.depart_ns
            for passage in self.passages
            if passage.marked
        )
        return sum(moment_ns <= t_ns for moment_ns in when)

    def _steps(self, t_ns: int) -> Iterator[tuple[int, int, int]]:
        """Yields begin, end and bytes waiting of each time in which the queue did not change, up to `t_ns`."""
        for begin_ns, end_ns, waiting in zip(self._times, [*self._times[1:], t_ns], self._backlogs, strict=True):
            if begin_ns < t_ns:
                yield begin_ns, min(end_ns, t_ns), waiting

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
    waiting_bytes = sent_bytes = 0
    passages: list[Passage] = []
    chosen = _Marker(port)

    def transmit(index: int, start: int, depart_ns: int) -> None:
        nonlocal free, sent_bytes
        frame, marked = passages[index].frame, passages[index].marked
        if port.marks_at == "departure":
            marked = chosen.marks(frame, waiting_bytes)
        free = start + frame.length * BIT_NS
        end_ns = _ceil(free, rate)
        passages[index] = Passage(frame, False, marked, depart_ns, end_ns, end_ns + port.delay_ns, waiting_bytes, sent_bytes)
        sent_bytes += frame.length

    def serve(until_ns: int) -> None:
        nonlocal waiting_bytes
        while waiting and _ceil(free, rate) <= until_ns:
            index = waiting.popleft()
            waiting_bytes -= passages[index].frame.length
            transmit(index, free, _ceil(free, rate))

    for index, frame in enumerate(frames):
        serve(frame.t_ns - 1 if port.forwards else frame.t_ns)
        marked = port.marks_at == "arrival" and chosen.marks(frame, waiting_bytes)
        at_once = not waiting and frame.t_ns * rate >= free
        dropped = not at_once and waiting_bytes + frame.length > port.limit_bytes
        passages.append(Passage(frame, dropped, marked))
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
    frames = [replace(passage.frame, t_ns=passage.arrive_ns, ce=passage.ce) for passage in passed]
    return sorted(frames, key=lambda frame: frame.t_ns)


class _Marker:
    """Decides which frames a port marks."""

    def __init__(self, port: OraclePort) -> None:
        self._port = port
        self._kmin = port.mark_bytes
        self._kmax = port.mark_bytes if port.kmax_bytes is None else port.kmax_bytes
        self._pmax = min(2**32 - 1, (port.pmax_ppm << 32) // PPM)
        self._draws = 0

    def marks(self, frame: OracleFrame, queue_bytes: int) -> bool:
        if self._kmin is None or self._kmax is None or queue_bytes < self._kmin:
            return False
        if queue_bytes >= self._kmax:
            return frame.ect
        chance = self._pmax * (queue_bytes - self._kmin) // (self._kmax - self._kmin)
        self._draws += 1
        return splitmix64(self._port.seed, self._draws - 1) >> 32 < chance and frame.ect


def _ceil(value: int, divisor: int) -> int:
    return -(-value // divisor)


def _backlog_steps(passages: Sequence[Passage]) -> tuple[list[int], list[int]]:
    """Returns times, and the bytes waiting from each on. A frame that does not wait comes and goes in one nanosecond."""
    changes: dict[int, int] = {}
    for passage in passages:
        if not passage.dropped:
            changes[passage.frame.t_ns] = changes.get(passage.frame.t_ns, 0) + passage.frame.length
            changes[passage.depart_ns] = changes.get(passage.depart_ns, 0) - passage.frame.length
    times = sorted(changes)
    return times, list(accumulate(changes[time] for time in times))
