# SPDX-License-Identifier: Apache-2.0
"""A fluid model of many networks at once: in each, flows with windows share a bottleneck with in-band telemetry.

Times are in base round trips, bytes in bandwidth-delay products (BDP), rates in fractions of the line. All delay but the queue's
lies behind the bottleneck: bytes that leave it at t are acknowledged at t + 1, with the telemetry of t. A flow with window WIN
sends at WIN / base RTT while fewer bytes are on their way than the enforced window: WIN rounded down to whole packets, at least
one. The queue is FIFO, and has room for everything (PFC loses nothing). Flows whose windows are in force settle at a queue of the
sum of windows less the BDP.

Each network has a clock of its own. A step is a part of its present round trip, so a long queue takes no more steps than a short
one. Arrays are [networks, flows].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import UsageError
from dc_gym.nets.fixed_point import Floats

STEPS_PER_RTT = 8
Places = npt.NDArray[np.intp]
"""Numbers of flows, counted through all networks."""


@dataclass(frozen=True, slots=True)
class Incasts:
    """The networks of a model, and how their flows begin."""

    windows: Floats
    """[networks, flows]: first windows."""
    starts: Floats
    """[networks, flows]: times at which the flows start, from 0."""
    packets: Floats
    """[networks]: packets in a BDP."""
    background: Floats
    """[networks]: constant rate of other traffic, below 1."""
    queue: Floats
    """[networks]: bytes of other traffic that wait at first."""
    size: float = np.inf
    """Bytes that each flow sends."""

    def __post_init__(self) -> None:
        networks = self.windows.shape[:1]
        shapes = [values.shape for values in (self.packets, self.background, self.queue)]
        if self.windows.ndim != 2 or self.starts.shape != self.windows.shape or shapes != [networks] * 3:
            raise UsageError(f"incasts of the shapes {self.windows.shape}, {self.starts.shape} and {shapes} do not fit together")
        if not (self.windows > 0).all() or not (self.starts >= 0).all() or not (self.queue >= 0).all() or self.size <= 0:
            raise UsageError("incasts: windows and size must be above 0, starts and queues not below")
        if not (self.packets > 0).all() or not ((self.background >= 0) & (self.background < 1)).all():
            raise UsageError("incasts: a BDP must have packets, and background must be from 0 to below 1")

    @property
    def count(self) -> Floats:
        """[networks]: flows with equal shares that would fill the line, the background's part included."""
        return np.asarray(self.windows.shape[1] / (1.0 - self.background))


@dataclass(frozen=True, slots=True)
class Signals:
    """The measurements of flows at a decision, one row each. Changes are per base round trip."""

    rtt: Floats
    queue: Floats
    switch_rate: Floats
    goodput: Floats
    rtt_change: Floats
    queue_change: Floats
    ins_rate: Floats
    """The rate in force."""


class TelemetryFluid:
    """The model's state; `step` advances each network by a part of its round trip."""

    def __init__(self, incasts: Incasts, least_window: float = 2.0**-14, most_window: float = 1.0) -> None:
        networks, flows = incasts.windows.shape
        self.incasts, self.bounds = incasts, (least_window, np.maximum(incasts.windows, most_window))
        self.windows = incasts.windows.copy()
        self.now: Floats = np.zeros(networks)
        self.queue: Floats = incasts.queue.copy()
        self._sent: Floats = np.zeros((networks, flows))
        self._arrived: Floats = incasts.queue.copy()
        self._left: Floats = np.zeros(networks)
        self._rows = np.arange(networks)
        self._lines, self._flows = _History((networks, 4)), _History((networks, flows))
        self._arriving, self._acking = np.zeros(networks, np.intp), np.zeros(networks, np.intp)
        for at, arrived in ((-1.0 - incasts.queue, np.zeros(networks)), (np.zeros(networks), incasts.queue)):
            self._remember(at, arrived)
        self.acked: Floats = np.zeros((networks, flows))
        self.rtt: Floats = 1.0 + incasts.queue
        self.seen_queue: Floats = incasts.queue.copy()
        self.seen_left: Floats = np.zeros(networks)
        self._last = np.full((5, networks, flows), np.nan)
        """At the last decision: time, RTT, queue, the bytes that had left the bottleneck, and the acknowledged bytes."""
        self._due = np.full((networks, flows), np.inf)

    def _remember(self, at: Floats, arrived: Floats) -> None:
        if self._lines.full:
            oldest = min(int(self._arriving.min()), int(self._acking.min()))
            self._lines.drop(oldest)
            self._flows.drop(oldest)
            self._arriving, self._acking = self._arriving - oldest, self._acking - oldest
        self._lines.add(np.stack([at, self.queue, self._left, arrived], axis=1))
        self._flows.add(self._sent)

    def step(self) -> Places:
        """Advances all networks. Returns the flows that can decide now, and whose `measure` has not been called yet."""
        span = (1.0 + self.queue) / STEPS_PER_RTT
        self._acknowledge(self.now + span)
        self._send(span)
        self.now = self.now + span
        waiting = self._arrived - self._left
        gone = np.minimum(waiting, span)
        self.queue, self._left = waiting - gone, self._left + gone
        self._remember(self.now, self._arrived)
        first = (self.acked > 0) & np.isnan(self._last[0])
        if first.any():
            self._mark(np.flatnonzero(first), np.zeros(first.sum()))
        return np.flatnonzero(self._due <= self.now[:, None])

    def enforced(self) -> Floats:
        """Returns the windows in force: whole packets, at least one."""
        packets = self.incasts.packets[:, None]
        return np.asarray(np.maximum(np.floor(self.windows * packets + 1e-9), 1.0) / packets)

    def _acknowledge(self, now: Floats) -> None:
        """Finds the bytes that left the bottleneck one base round trip before `now`, the end of a step, and their flows.

        Those that arrived first left first. A step longer than a base round trip begins with a queue that lasts beyond it.
        """
        lines, flows, rows = self._lines.rows, self._flows.rows, self._rows
        index, part = self._place(self._acking, 0, now - 1.0)
        sample = _between(lines[index, rows], lines[index + 1, rows], part[:, None])
        self.seen_queue, self.seen_left = sample[:, 1], sample[:, 2] + np.maximum(now - 1.0 - self.now, 0.0)
        index, part = self._place(self._arriving, 3, self.seen_left)
        entered = _between(lines[index, rows, 0], lines[index + 1, rows, 0], part)
        self.rtt = np.maximum(now - entered, 1.0)
        self.acked = _between(flows[index, rows], flows[index + 1, rows], part[:, None])

    def _send(self, span: Floats) -> None:
        room = np.maximum(self.enforced() - (self._sent - self.acked), 0.0)
        active = np.clip(self.now[:, None] + span[:, None] - self.incasts.starts, 0.0, span[:, None])
        sent = np.minimum(np.minimum(self.windows * active, room), self.incasts.size - self._sent)
        self._sent = self._sent + sent
        self._arrived = self._arrived + sent.sum(axis=1) + self.incasts.background * span

    def _place(self, pointers: Places, column: int, value: Floats) -> tuple[Places, Floats]:
        """Moves the pointers to the rows whose column encloses a value.

        Returns them, and how far the value is on the way to the next row.
        """
        lines, rows, last = self._lines.rows[:, :, column], self._rows, len(self._lines) - 1
        while (behind := (pointers + 1 < last) & (lines[pointers + 1, rows] < value)).any():
            pointers += behind
        low, high = lines[pointers, rows], lines[pointers + 1, rows]
        part = np.where(high > low, (value - low) / np.where(high > low, high - low, 1.0), 1.0)
        return pointers, np.clip(part, 0.0, 1.0)

    def measure(self, flows: Places) -> Signals:
        """Returns the measurements of flows since their last decision."""
        net = flows // self.windows.shape[1]
        at, rtt, queue, left, acked = self._last.reshape(5, -1)[:, flows]
        took = np.maximum(self.now[net] - at, 1e-6)
        return Signals(
            rtt=self.rtt[net],
            queue=self.seen_queue[net],
            switch_rate=np.clip((self.seen_left[net] - left) / took, 0.0, 1.0),
            goodput=(self.acked.reshape(-1)[flows] - acked) / took,
            rtt_change=(self.rtt[net] - rtt) / took,
            queue_change=(self.seen_queue[net] - queue) / took,
            ins_rate=self.windows.reshape(-1)[flows],
        )

    def decide(self, flows: Places, factors: Floats) -> None:
        """Multiplies the windows of these flows, and begins to measure anew."""
        windows, net = self.windows.reshape(-1), flows // self.windows.shape[1]
        most = self.bounds[1].reshape(-1)[flows]
        windows[flows] = np.clip(windows[flows] * factors, self.bounds[0], most)
        packets = self.enforced().reshape(-1)[flows] * self.incasts.packets[net]
        gap = np.maximum(self.rtt[net] / packets, 1.0 / (windows[flows] * self.incasts.packets[net]))
        self._mark(flows, np.ceil(self.rtt[net] / 2.0 / gap) * gap)

    def _mark(self, flows: Places, until_next: Floats) -> None:
        net = flows // self.windows.shape[1]
        last = self._last.reshape(5, -1)
        last[:, flows] = np.stack(
            [
                self.now[net],
                self.rtt[net],
                self.seen_queue[net],
                self.seen_left[net],
                self.acked.reshape(-1)[flows],
            ]
        )
        self._due.reshape(-1)[flows] = self.now[net] + until_next * (1.0 - 1e-6)


class _History:
    """Rows that are added at the end. Old ones are dropped when there is no room for more."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.rows, self._count = np.zeros((256, *shape)), 0

    def __len__(self) -> int:
        return self._count

    @property
    def full(self) -> bool:
        return self._count == len(self.rows)

    def add(self, row: Floats) -> None:
        self.rows[self._count] = row
        self._count += 1

    def drop(self, oldest: int) -> None:
        """Drops the oldest rows, and doubles the memory if that leaves it more than half full."""
        remaining = self.rows[oldest : self._count]
        self._count = len(remaining)
        if 2 * self._count > len(self.rows):
            self.rows = np.concatenate([remaining, np.zeros((2 * len(self.rows) - len(remaining), *remaining.shape[1:]))])
        else:
            self.rows[: self._count] = remaining.copy()


def _between(low: Floats, high: Floats, part: Floats) -> Floats:
    return np.asarray(low + (high - low) * part)
