# SPDX-License-Identifier: Apache-2.0
"""Reads the current state of a lab from its shared memory, and computes the changes since an earlier snapshot.

Rates (drops per second, bit/s) are per second of the lab's clock, over the last WINDOW_S of wall time. Classes of ports are left
out: the counters of their ports include theirs.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dc_gym.base import plain_json
from dc_gym.base.errors import ProtocolError, TopologyError, UsageError
from dc_gym.base.units import PPM
from dc_gym.kernel import share
from dc_gym.monitors.state_matrix import FlowStatus, StateMatrix
from dc_gym.topologies.graph import CLASS_MARK, Graph

__all__ = ["ActiveFlows", "Attached", "Change", "NetworkConstants", "Rates", "RecentSnapshots", "Snapshot"]

WINDOW_S = 3.0
STILL_S = 3.0
"""If the clock stands still this long, the process that ran the lab may be dead."""
LONGEST_NS = 10**15
"""A longer duration means that the run continues until it is stopped."""
NS = 1e-9

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NetworkConstants:
    """The constants of a network, for the ports in the order of the rows. nan: the run's plan lacks the constant."""

    ports: tuple[str, ...]
    rate_bps: Numbers
    buffer_bytes: Numbers
    duration_ns: int | None

    @classmethod
    def of(cls, ports: tuple[str, ...], plan: Path) -> NetworkConstants:
        port_limits: dict[str, tuple[int, int]] = {}
        duration_ns = None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, OverflowError, TopologyError):
            plain: dict[str, Any] = plain_json.read(plan)
            for cable in Graph.from_json(plain["graph"]).cables:
                for port in (cable.a, cable.b):
                    port_limits[port.ifname] = cable.sent_by(port.ifname).rate_bps, port.queue.limit_bytes
            duration_ns = int(plain["duration_ns"])
        limits = np.array([port_limits.get(port, (np.nan, np.nan)) for port in ports], dtype=np.float64).reshape(-1, 2)
        return cls(ports, limits[:, 0], limits[:, 1], duration_ns if duration_ns and duration_ns < LONGEST_NS else None)


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates that an agent commands for the hosts, and the rates that their kernel enforces."""

    row: npt.NDArray[np.intp]
    wanted_bps: Numbers
    enforced_bps: Numbers


@dataclass(frozen=True, slots=True)
class PortMarkings:
    """The markings that agents set at switch ports, as the kernel has them in force; nan: no agent sets that port's."""

    kmin_bytes: Numbers
    """[ports]"""
    kmax_bytes: Numbers
    pmax: Numbers
    """[ports]: shares of 1."""


@dataclass(frozen=True, slots=True)
class ActiveFlows:
    """The flows under way."""

    number: npt.NDArray[np.intp]
    received_bytes: Numbers
    srtt_us: Numbers
    """nan: there is no sample."""
    retransmits: Numbers
    rate_bps: Numbers
    """TCP: the delivery rate; under NICs: the rate in force. nan: not known."""
    cnps: Numbers


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One complete sweep, and the other contents of the matrix."""

    wall_s: float
    t_ns: int
    t0_ns: int
    generation: int
    cells: npt.NDArray[np.uint64]
    rates: Rates | None
    markings: PortMarkings | None
    """None: no agent sets any."""
    flows: ActiveFlows | None
    """None: the traffic generator does not publish flows."""


class RecentSnapshots:
    """The snapshots of the last WINDOW_S within one episode."""

    def __init__(self) -> None:
        self._snapshots: deque[Snapshot] = deque()
        self.speed = float("nan")
        """Seconds of the lab's clock per second of wall time, as last known."""

    def add(self, snapshot: Snapshot) -> Snapshot:
        """Adds `snapshot` as the newest and returns the oldest."""
        if self._snapshots and self._snapshots[-1].t0_ns != snapshot.t0_ns:
            self._snapshots.clear()
        self._snapshots.append(snapshot)
        while len(self._snapshots) > 2 and snapshot.wall_s - self._snapshots[1].wall_s > WINDOW_S:
            self._snapshots.popleft()
        oldest = self._snapshots[0]
        if oldest is not snapshot:
            self.speed = (snapshot.t_ns - oldest.t_ns) * NS / (snapshot.wall_s - oldest.wall_s)
        return oldest


@dataclass(frozen=True, slots=True)
class Change:
    """Two snapshots of a lab."""

    network: NetworkConstants
    columns: tuple[str, ...]
    before: Snapshot
    now: Snapshot
    speed: float
    """Seconds of the lab's clock per second of wall time; nan: not known yet."""

    @property
    def elapsed_s(self) -> float:
        """The time between the snapshots, by the lab's clock."""
        return (self.now.t_ns - self.before.t_ns) * NS

    @property
    def since_t0_s(self) -> float:
        return (self.now.t_ns - self.now.t0_ns) * NS

    def value(self, column: str) -> Numbers:
        """Returns the current value of each port."""
        return self.now.cells[:, self.columns.index(column)].astype(np.float64)

    def per_s(self, column: str) -> Numbers:
        """Returns how fast each port's counter grows; nan: not known yet."""
        index = self.columns.index(column)
        grown = self.now.cells[:, index].astype(np.float64) - self.before.cells[:, index].astype(np.float64)
        return grown / self.elapsed_s if self.elapsed_s > 0 else np.full(len(grown), np.nan)


class Attached:
    """A lab's state matrix, mapped read-only."""

    def __init__(self, folder: Path, region: tuple[int, int, int] | None = None) -> None:
        """`region`: the lab's answer; its matrix may not exist yet (ProtocolError). None: asks the lab, and waits for the answer
        and the matrix."""
        self._folder = folder
        fd, offset, length = region or share.attach(folder)
        try:
            self._matrix = StateMatrix(fd, offset, length) if region else _wait_for_matrix(fd, offset, length)
        finally:
            os.close(fd)
        self.moved_s = 0.0
        """When the lab's clock was last seen to have moved."""
        ports = tuple(row for row in self._matrix.rows if CLASS_MARK not in row)
        self.network = NetworkConstants.of(ports, folder / "plan.json")
        self._seen: tuple[int, float] = (-1, time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._matrix.close()

    def is_alive(self) -> bool:
        """Returns whether the lab is alive. A lab removes its socket when it ends. A killed lab does not, so the socket is tested
        when the clock stands still."""
        if not (self._folder / share.NAME).exists():
            return False
        now_s = time.monotonic()
        try:
            t_ns = self._matrix.read().t_ns
        except ProtocolError:  # killed within a sweep, or a fault to report
            return share.is_served(self._folder)
        if t_ns != self._seen[0]:
            self.moved_s = now_s if self._seen[0] >= 0 else self.moved_s
            self._seen = (t_ns, now_s)
        elif now_s - self._seen[1] > STILL_S:
            self._seen = (t_ns, now_s)
            return share.is_served(self._folder)
        return True

    def change(self, window: RecentSnapshots) -> Change:
        """Returns the change from the oldest snapshot in `window` to now."""
        matrix = self._matrix
        sweep = matrix.read()
        cells = sweep.cells[: len(self.network.ports)]
        commands = _commands(matrix, len(self.network.ports))
        parts = _rates(commands), _markings(commands, len(self.network.ports)), _flows(matrix)
        now = Snapshot(time.monotonic(), sweep.t_ns, matrix.t0_ns, sweep.generation, cells, *parts)
        return Change(self.network, matrix.columns, window.add(now), now, window.speed)


def _wait_for_matrix(fd: int, offset: int, length: int, tries: int = 100) -> StateMatrix:
    """Waits for the matrix, which appears when the monitor has started."""
    while True:
        try:
            return StateMatrix(fd, offset, length)
        except ProtocolError as error:
            tries -= 1
            if not tries:
                raise UsageError(f"the run has no state matrix yet ({error}); try again when its traffic has begun") from None
            time.sleep(0.1)


def _commands(matrix: StateMatrix, ports: int) -> npt.NDArray[np.void] | None:
    """Returns the rows of actuators at ports, or None if there is no agent."""
    try:
        rows = matrix.commands.rows.copy()
    except ProtocolError:
        return None
    return rows[rows["row"] < ports]


def _rates(commands: npt.NDArray[np.void] | None) -> Rates | None:
    if commands is None:
        return None
    rates = commands[commands["actuator"] == b"rate"]
    if not len(rates):
        return None
    return Rates(rates["row"].astype(np.intp), *(rates[name][:, 0].astype(float) for name in ("wanted", "in_force")))


def _markings(commands: npt.NDArray[np.void] | None, ports: int) -> PortMarkings | None:
    if commands is None:
        return None
    rows = commands[commands["actuator"] == b"marking"]
    if not len(rows):
        return None
    values = np.full((3, ports), np.nan)
    values[:, rows["row"]] = rows["in_force"][:, :3].T
    return PortMarkings(values[0], values[1], values[2] / PPM)


def _flows(matrix: StateMatrix) -> ActiveFlows | None:
    if not len(matrix.flows):
        return None
    number = np.flatnonzero(matrix.flows["status"] == FlowStatus.RUNNING)
    flows = matrix.flows[number]
    srtt_us, rate_bps = (np.where(flows[name] > 0, flows[name].astype(float), np.nan) for name in ("srtt_us", "rate_bps"))
    received, retransmits, cnps = (flows[name].astype(float) for name in ("received_bytes", "retransmits", "cnps"))
    return ActiveFlows(number, received, srtt_us, retransmits, rate_bps, cnps)
