# SPDX-License-Identifier: Apache-2.0
"""The measurements of one step: every queue's counters, every flow's progress and agents' settings, now and one step before.

Bytes of ports count L2 frames without FCS; bytes of flows count payload. Rewards and features are functions of a Frame and its
Scene (scene.py) alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dc_gym.base.units import MTU_BYTES
from dc_gym.monitors.state_matrix import COLUMNS, FlowStatus
from dc_gym.results.metrics.fairness import tcp_share, udp_share
from dc_gym.topologies.changes import Capacities

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
T = TypeVar("T")

PLACES = {name: column for column, name in enumerate(COLUMNS)}
CARRIED = "carried bytes"
TAKEN_OVER = (("under way", "was under way"),)
"""Cached values that the next frame takes over under another name: pairs (name now, name in the next frame)."""
WAITING, RUNNING, DONE, STOPPED, FAILED = map(int, FlowStatus)
NO_VALUES: Floats = np.empty(0)
NO_CELLS: npt.NDArray[np.uint64] = np.empty((0, len(COLUMNS)), np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class FlowInfo:
    """The flows of an episode, as its schedule defines them. Arrays are indexed by flow number."""

    src: Rows
    """The sender of each flow; `src` and `dst` are indices into Scene.all_hosts."""
    dst: Rows
    size_bytes: npt.NDArray[np.int64]
    """Size of each flow; 0: unlimited."""
    is_udp: Bools
    ideal_ns: Floats
    """Flow completion time alone on the idle network, in closed form (dc_gym/results/metrics/ideal.py); nan if there is no closed
    form."""
    rows: tuple[Rows, ...]
    """The ports that the flow's data crosses: its host's egress, then ports of switches."""
    base_rtt_ns: Floats
    """Round trip of a full frame over the flow's path and an ACK back, without queues."""
    demand_bps: Floats
    """Payload rate that the application offers; inf: no limit."""
    start_ns: npt.NDArray[np.int64]
    """Start time after t0, or after the flow's gate opens."""
    awaits: tuple[tuple[int, ...], ...]
    """The flows that must all have ended before this flow's gate opens; empty: the flow has only its start time."""
    host_row: Rows
    """Equal to Scene.host_row."""
    mtu_bytes: int = MTU_BYTES
    capacities: Capacities | None = None
    """The rates in force at each port over the episode: line rates but for events, 0 where a link is cut. None: no event changes
    one."""
    host: Rows = field(init=False)
    """By flow: index into Scene.hosts of the egress that the flow leaves by; -1 if that egress has no action."""
    first_row: Rows = field(init=False)
    """By flow: the row of its host's egress."""
    switch_rows: Rows = field(init=False)
    """The switch ports of all paths, concatenated. switch_flows holds the flow of each entry."""
    switch_flows: Rows = field(init=False)
    payload_share: Floats = field(init=False)
    """By flow: payload as a share of a full frame."""
    known: dict[bytes, Floats] = field(init=False, repr=False, default_factory=dict)
    """Cache of fair shares already computed (measures.py)."""

    def __post_init__(self) -> None:
        first = np.array([int(rows[0]) for rows in self.rows], np.intp)
        places = {int(row): host for host, row in enumerate(self.host_row)}
        object.__setattr__(self, "payload_share", np.where(self.is_udp, udp_share(self.mtu_bytes), tcp_share(self.mtu_bytes)))
        object.__setattr__(self, "first_row", first)
        object.__setattr__(self, "host", np.array([places.get(int(row), -1) for row in first], np.intp))
        rest = [rows[1:] for rows in self.rows]
        object.__setattr__(self, "switch_rows", np.concatenate([*rest, np.empty(0, np.intp)]).astype(np.intp))
        object.__setattr__(self, "switch_flows", np.repeat(np.arange(len(rest)), [len(rows) for rows in rest]).astype(np.intp))

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(slots=True, eq=False)
class Frame:
    """The measurements of one step, or of a stack of steps.

    The arrays of a stack have one more axis in front, over the frames. A Frame is never changed. It is not a frozen dataclass
    because a frozen one takes three times as long to construct, and each step constructs one.
    """

    step: int
    """Number of the step; 0: before the first action."""
    t_ns: int
    """Time after the episode's t0."""
    elapsed_ns: int
    """Time since the frame before (0 at step 0): the interval that was achieved."""
    cells: npt.NDArray[np.uint64]
    """The ports' rows of the state matrix now, [ports, columns]."""
    before: npt.NDArray[np.uint64]
    """The same at the frame before."""
    flows: npt.NDArray[np.void]
    """[flows] of FLOW records, as of each flow's last sample or its end."""
    flows_before: npt.NDArray[np.void]
    wanted_bps: Floats
    """[hosts]: rates of the last command; line rates where agents set no rates."""
    in_force_bps: Floats
    """[hosts]: mean over the step of the commanded rates in force; equal to `wanted_bps` where commands take no time."""
    enforced_bps: Floats
    """[hosts]: rates that the kernels enforce at the end of the step."""
    info: FlowInfo
    wanted: Floats = field(default_factory=lambda: NO_VALUES)
    """[values]: the last command, over all values that agents set (Scene.actuated)."""
    enforced: Floats = field(default_factory=lambda: NO_VALUES)
    """[values]: the values that the kernels enforce at the end of the step."""
    class_cells: npt.NDArray[np.uint64] = field(default_factory=lambda: NO_CELLS)
    """The classes' rows of the state matrix now, [classes, columns]."""
    class_before: npt.NDArray[np.uint64] = field(default_factory=lambda: NO_CELLS)
    """The same at the frame before."""
    _known: dict[str, Any] = field(init=False, repr=False, default_factory=dict)

    def once(self, key: str, work: Callable[[], T]) -> T:
        """Returns the result of `work`, which is called once for each frame and key.

        Args:
            key: A name for the result.
            work: A function without arguments.
        """
        result: T | None = self._known.get(key)
        if result is None:
            result = self._known[key] = work()
        return result

    def follow(self, before: Frame) -> None:
        """Takes over cached values of the frame before that hold at the beginning of this frame, or in both frames."""
        known = before._known
        for now, then in TAKEN_OVER:
            if now in known:
                self._known[then] = known[now]
        if before.elapsed_ns == self.elapsed_ns and CARRIED in known:
            self._known[CARRIED] = known[CARRIED]

    @property
    def of_classes(self) -> Frame:
        """The same step as if the classes of ports were the ports (Scene.of_classes)."""
        return self.once("of classes", lambda: replace(self, cells=self.class_cells, before=self.class_before))

    @property
    def elapsed_s(self) -> float:
        """The length of the step, s."""
        return self.elapsed_ns / 1e9

    @property
    def levels(self) -> Floats:
        """[ports, columns]: values now."""
        return self.once("levels", lambda: self.cells.astype(np.float64))

    @property
    def changes(self) -> Floats:
        """[ports, columns]: changes over the step. A counter may have wrapped."""
        return self.once("changes", lambda: (self.cells - self.before).view(np.int64).astype(np.float64))

    def column(self, name: str) -> Floats:
        """Returns one column's values now, as [ports]."""
        values: Floats = self.levels[..., PLACES[name]]
        return values

    def change(self, name: str) -> Floats:
        """Returns one column's changes over the step, as [ports]."""
        values: Floats = self.changes[..., PLACES[name]]
        return values

    def flow_change(self, name: str) -> Floats:
        """Returns the growth of each flow's counter over the step, as [flows]."""
        return self.once(name, lambda: self.flows[name].astype(np.float64) - self.flows_before[name].astype(np.float64))

    def utilization(self, rate_bps: Floats) -> Floats:
        """Returns the frame bytes sent over the step as a share of the capacity of lines of these rates, as [ports]; 0 at step 0.

        `rate_bps`: as Scene.rate_bps. A frame counts when it leaves the queue. If the step is shorter than the frame's
        serialization time, the share is above 1.
        """
        return self.change("tx_bytes") * (8 / self.elapsed_s) / rate_bps if self.elapsed_ns else np.zeros(self.cells.shape[:-1])

    def goodput_bps(self) -> Floats:
        """Returns the payload rate that receivers got in order over the step, as [flows]; 0 at step 0."""
        received = self.flow_change("received_bytes")
        return received * (8 / self.elapsed_s) if self.elapsed_ns else np.zeros(received.shape)

    @property
    def under_way(self) -> Bools:
        """[flows]: whether the flow is running now."""
        return self.once("under way", lambda: self.flows["status"] == RUNNING)

    @property
    def was_under_way(self) -> Bools:
        """[flows]: whether the flow was running at the frame before."""
        return self.once("was under way", lambda: self.flows_before["status"] == RUNNING)

    @property
    def ended(self) -> Bools:
        """[flows]: whether the flow ended in this step with all its bytes."""
        return self.once("ended", lambda: (self.flows["status"] == DONE) & (self.flows_before["status"] != DONE))

    @property
    def at_work(self) -> Bools:
        """[flows]: whether the flow is running at either end of the step, or some of its payload arrived in between."""

        def work() -> Bools:
            return self.under_way | self.was_under_way | (self.flow_change("received_bytes") > 0)

        return self.once("at work", work)


def stacked(frames: Sequence[Frame]) -> Frame:
    """Stacks steps of one episode that took equally long into one Frame.

    Values computed from it are arrays with one entry for each frame. `wanted` and `enforced` are the last frame's.
    """
    last = frames[-1]
    return Frame(
        step=last.step,
        t_ns=last.t_ns,
        elapsed_ns=last.elapsed_ns,
        cells=_pile([frame.cells for frame in frames]),
        before=_pile([frame.before for frame in frames]),
        flows=_pile([frame.flows for frame in frames]),
        flows_before=_pile([frame.flows_before for frame in frames]),
        wanted_bps=_pile([frame.wanted_bps for frame in frames]),
        in_force_bps=_pile([frame.in_force_bps for frame in frames]),
        enforced_bps=_pile([frame.enforced_bps for frame in frames]),
        info=last.info,
        wanted=last.wanted,
        enforced=last.enforced,
        class_cells=_pile([frame.class_cells for frame in frames]),
        class_before=_pile([frame.class_before for frame in frames]),
    )


def _pile(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Stacks arrays as np.stack does, which is slow for arrays of records; concatenating them as raw bytes is fast."""
    kind, first = arrays[0].dtype, arrays[0]
    if kind.names:
        arrays = [array.view(f"V{kind.itemsize}") for array in arrays]
    return np.concatenate(arrays).reshape(len(arrays), *first.shape).view(kind)
