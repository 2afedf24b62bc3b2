# SPDX-License-Identifier: Apache-2.0
"""What was measured over one step: every queue's counters, every flow's progress, the hosts' rates; now and one step before.

Bytes of ports are those of L2 frames without FCS, bytes of flows are payload. Rewards and features are functions of a Frame and
its Scene (scene.py) and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dc_gym.metrics.fairness import PAYLOAD_SHARE
from dc_gym.monitors.state_matrix import COLUMNS, FlowStatus

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
T = TypeVar("T")

PLACES = {name: place for place, name in enumerate(COLUMNS)}
UDP_PAYLOAD_SHARE = 1472 / 1514
"""Of a full datagram's frame, as PAYLOAD_SHARE is of a TCP segment's."""
CARRIED = "carried bytes"
TAKEN_OVER = (("levels", "levels before"), ("under way", "was under way"))
"""What the next frame knows under another name."""
WAITING, RUNNING, DONE, STOPPED, FAILED = map(int, FlowStatus)


@dataclass(frozen=True, slots=True, eq=False)
class FlowInfo:
    """What the schedule of an episode says of its flows; arrays by flow number."""

    src: Rows
    """With dst: an index into Scene.all_hosts."""
    dst: Rows
    size_bytes: npt.NDArray[np.int64]
    """0: unlimited."""
    is_udp: Bools
    ideal_ns: Floats
    """FCT alone on the idle network, in closed form (dc_gym/metrics/ideal.py); nan: it has none."""
    rows: tuple[Rows, ...]
    """The ports that its data crosses: its host's egress, then those of switches."""
    base_rtt_ns: Floats
    """A full frame over its path and an ACK back, without queues."""
    demand_bps: Floats
    """Payload that its application offers; inf: as much as goes."""
    start_ns: npt.NDArray[np.int64]
    """After t0, or after its gate opens."""
    awaits: tuple[tuple[int, ...], ...]
    """The flows that must all have ended before its gate opens; empty: it waits for its time alone."""
    host_row: Rows
    """Scene.host_row."""
    host: Rows = field(init=False)
    """By flow: the index into Scene.hosts of the egress that it leaves by; -1: one without an action."""
    first_row: Rows = field(init=False)
    """By flow: its host's egress."""
    switch_rows: Rows = field(init=False)
    """The rest of all paths in one array, and by the same places the flows."""
    switch_flows: Rows = field(init=False)
    payload_share: Floats = field(init=False)
    """By flow: payload of its full frames."""
    known: dict[bytes, Floats] = field(init=False, repr=False, default_factory=dict)
    """Fair shares that have been worked out (measures.py)."""

    def __post_init__(self) -> None:
        first = np.array([int(rows[0]) for rows in self.rows], np.intp)
        places = {int(row): place for place, row in enumerate(self.host_row)}
        object.__setattr__(self, "payload_share", np.where(self.is_udp, UDP_PAYLOAD_SHARE, PAYLOAD_SHARE))
        object.__setattr__(self, "first_row", first)
        object.__setattr__(self, "host", np.array([places.get(int(row), -1) for row in first], np.intp))
        rest = [rows[1:] for rows in self.rows]
        object.__setattr__(self, "switch_rows", np.concatenate([*rest, np.empty(0, np.intp)]).astype(np.intp))
        object.__setattr__(self, "switch_flows", np.repeat(np.arange(len(rest)), [len(rows) for rows in rest]).astype(np.intp))

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(slots=True, eq=False)
class Frame:
    """What was measured over one step; or a stack of such, whose arrays have one more axis, of frames, before the others.

    Nobody changes one. It is not frozen, because that makes it three times as slow to make, and one is made each step.
    """

    step: int
    """0: before the first action."""
    t_ns: int
    """After t0 of the episode."""
    elapsed_ns: int
    """Since the frame before (0 at step 0): the interval that was achieved."""
    cells: npt.NDArray[np.uint64]
    """[rows, columns] now."""
    before: npt.NDArray[np.uint64]
    """The same at the frame before."""
    flows: npt.NDArray[np.void]
    """[flows] of FLOW, as of each one's last sample or its end."""
    flows_before: npt.NDArray[np.void]
    wanted_bps: Floats
    """[hosts] of the last command."""
    in_force_bps: Floats
    """[hosts]: what was commanded and in force over the step, on its mean; `wanted_bps` where commands take no time."""
    enforced_bps: Floats
    """[hosts], as the kernel says at the end of the step."""
    info: FlowInfo
    _known: dict[str, Any] = field(init=False, repr=False, default_factory=dict)

    def once(self, key: str, work: Callable[[], T]) -> T:
        """What `work` gives, worked out the first time that this frame is asked for it."""
        found: T | None = self._known.get(key)
        if found is None:
            found = self._known[key] = work()
        return found

    def follow(self, before: Frame) -> None:
        """Takes over what was worked out of the frame before, and holds at the beginning of this one, or in both."""
        known = before._known
        for now, then in TAKEN_OVER:
            if now in known:
                self._known[then] = known[now]
        if before.elapsed_ns == self.elapsed_ns and CARRIED in known:
            self._known[CARRIED] = known[CARRIED]

    @property
    def elapsed_s(self) -> float:
        return self.elapsed_ns / 1e9

    @property
    def levels(self) -> Floats:
        """[rows, columns] now."""
        return self.once("levels", lambda: self.cells.astype(np.float64))

    @property
    def changes(self) -> Floats:
        """[rows, columns]: what changed over the step."""
        return self.once("changes", lambda: self.levels - self.once("levels before", lambda: self.before.astype(np.float64)))

    def column(self, name: str) -> Floats:
        """[rows] of one column now."""
        values: Floats = self.levels[..., PLACES[name]]
        return values

    def change(self, name: str) -> Floats:
        """[rows]: what one column changed by over the step."""
        values: Floats = self.changes[..., PLACES[name]]
        return values

    def flow_change(self, name: str) -> Floats:
        """[flows]: what a counter of each flow grew by over the step."""
        return self.once(name, lambda: self.flows[name].astype(np.float64) - self.flows_before[name].astype(np.float64))

    def utilization(self, rate_bps: Floats) -> Floats:
        """[rows]: frame bytes sent over the step as a share of what the line rates (Scene.rate_bps) carry; 0 at step 0.

        A frame counts when it leaves the queue: in a step that is shorter than a frame takes, its share is above 1.
        """
        return self.change("tx_bytes") * (8 / self.elapsed_s) / rate_bps if self.elapsed_ns else np.zeros(self.cells.shape[:-1])

    def goodput_bps(self) -> Floats:
        """[flows]: payload that receivers got in order over the step; 0 at step 0."""
        received = self.flow_change("received_bytes")
        return received * (8 / self.elapsed_s) if self.elapsed_ns else np.zeros(received.shape)

    @property
    def under_way(self) -> Bools:
        """[flows]: running now."""
        return self.once("under way", lambda: self.flows["status"] == RUNNING)

    @property
    def was_under_way(self) -> Bools:
        """[flows]: running at the frame before."""
        return self.once("was under way", lambda: self.flows_before["status"] == RUNNING)

    @property
    def ended(self) -> Bools:
        """[flows]: done in this step, with all their bytes."""
        return self.once("ended", lambda: (self.flows["status"] == DONE) & (self.flows_before["status"] != DONE))

    @property
    def at_work(self) -> Bools:
        """[flows]: under way at either end of the step, or something of it arrived in between."""

        def work() -> Bools:
            return self.under_way | self.was_under_way | (self.flow_change("received_bytes") > 0)

        return self.once("at work", work)


def stacked(frames: Sequence[Frame]) -> Frame:
    """Steps of one episode that took equally long, as one: what is worked out of it are arrays with a number a frame."""
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
    )


def _pile(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """What np.stack gives, which takes its time over arrays of records: as blocks of bytes they are quick."""
    kind, first = arrays[0].dtype, arrays[0]
    if kind.names:
        arrays = [array.view(f"V{kind.itemsize}") for array in arrays]
    return np.concatenate(arrays).reshape(len(arrays), *first.shape).view(kind)
