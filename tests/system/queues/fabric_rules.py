# SPDX-License-Identifier: Apache-2.0
"""Cases of classes, pools and pauses that arithmetic alone decides, and their checks: shares, thresholds, headroom, deadlocks.

The oracle answers each of these cases, too (fabric_lab.py). Here the lab's figures are compared with formulas that
neither of both has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from fabric_cases import FabricCase, host_queue
from fabric_nets import NETS, FabricNet, FabricPort, peer
from fabric_oracle import FabricFrame

from dc_gym.base.units import FRAME_BYTES
from dc_gym.benchmarks.checks.link_cases import AMPLE_BYTES
from dc_gym.topologies.buffers import ClassRule, headroom_bytes, quanta_of_weights
from dc_gym.topologies.deadlock import PortState, find_deadlock
from dc_gym.topologies.graph import Cable, Pause, Pool, Port, Queue, QueueClass

LINE_BPS = 10**10
DSCPS = (10, 20, 30, 40, 50)
SHARE_ERROR = 0.01
OF_2_16 = 1 << 16

Rows = Mapping[tuple[int, int], Mapping[str, int]]
"""The values of samples, by time and port."""


class Rule(Protocol):
    """A case, and what must hold in its samples, given the number of frames that arrived."""

    @property
    def name(self) -> str: ...

    def case(self) -> FabricCase: ...

    def verify(self, rows: Rows, arrived: int) -> None: ...


def _wire_ns(frames: int, length: int, rate_bps: int) -> int:
    return frames * length * 8 * 10**9 // rate_bps


def _flows(flows: Sequence[tuple[int, int, int, int, int]], begin_ns: int = 1) -> tuple[FabricFrame, ...]:
    """Returns the frames of flows (sender, receiver, number of frames, length, DSCP). Each begins at once."""
    rows = [
        (begin_ns + 8 * index, sender, receiver, length, dscp)
        for index, (sender, receiver, count, length, dscp) in enumerate(flows)
        for _ in range(count)
    ]
    return tuple(
        FabricFrame(t_ns, sender, receiver, length, dscp, True, seq)
        for seq, (t_ns, sender, receiver, length, dscp) in enumerate(sorted(rows))
    )


def _ports(
    shape: FabricNet, queue: Queue, classes: tuple[QueueClass, ...], delay_ns: int, last_bps: int
) -> tuple[FabricPort, ...]:
    """Returns the ports of a network whose last wire has its own rate."""
    slow = (shape.ports - 2, shape.ports - 1)
    return tuple(
        FabricPort(last_bps if port in slow else LINE_BPS, delay_ns, queue if shape.is_switch(port) else host_queue(classes))
        for port in range(shape.ports)
    )


# ---- shares ----


@dataclass(frozen=True, slots=True)
class Shares:
    """Classes by their weights and frame lengths, all of them backlogged at both looks."""

    weights: tuple[int, ...]
    lengths: tuple[int, ...]
    strict: bool = False
    """True if a strict class takes a fifth of the line before them."""

    @property
    def name(self) -> str:
        text = ":".join(map(str, self.weights)) + ", frames of " + ", ".join(map(str, self.lengths))
        return text + (" below a strict class" if self.strict else "")

    def case(self) -> FabricCase:
        rules = tuple(ClassRule(name=f"w{number}", dscp=(), weight=weight) for number, weight in enumerate(self.weights))
        quanta = quanta_of_weights(rules, FRAME_BYTES)
        classes = tuple(
            QueueClass(rule.name, (DSCPS[number],), AMPLE_BYTES, quantum_bytes=quanta[rule.name])
            for number, rule in enumerate(rules)
        )
        if self.strict:
            classes += (QueueClass("strict", (DSCPS[len(rules)],), AMPLE_BYTES),)
        shape = NETS["incast4"]
        frames = _flows([(number, 4, SHARE_BYTES // length, length, DSCPS[number]) for number, length in enumerate(self.lengths)])
        if self.strict:
            frames = _with_paced(frames, 3, DSCPS[len(rules)])
        queue = Queue(AMPLE_BYTES, "port", classes=classes)
        ports = _ports(shape, queue, classes, 1_000, LINE_BPS)
        return FabricCase(f"shares {self.name}", "incast4", ports, frames, samples=0, times=(SHARE_BEGIN_NS, SHARE_END_NS))

    def verify(self, rows: Rows, arrived: int) -> None:
        out, numbers = NETS["incast4"].routes["s0", 4], range(len(self.weights))
        begin, end = rows[SHARE_BEGIN_NS, out], rows[SHARE_END_NS, out]
        sent = [_of_class(end, number, "sent_bytes") - _of_class(begin, number, "sent_bytes") for number in numbers]
        assert all(_of_class(row, number, "backlog_bytes") for row in (begin, end) for number in numbers)
        shares = [weight / sum(self.weights) for weight in self.weights]
        assert [sent_bytes / sum(sent) for sent_bytes in sent] == pytest.approx(shares, rel=SHARE_ERROR)


SHARE_BYTES = 1_000_000
"""Bytes that each class offers at line rate."""
SHARE_BEGIN_NS, SHARE_END_NS = 100_000, _wire_ns(1, SHARE_BYTES, LINE_BPS)
PACED_FRAMES = 200
SHARES = (
    Shares((70, 30), (1514, 1514)),
    Shares((70, 30), (590, 1514)),
    Shares((50, 30, 20), (1514, 590, 100)),
    Shares((50, 30, 20), (100, 1514, 590), strict=True),
)


def _with_paced(frames: tuple[FabricFrame, ...], sender: int, dscp: int) -> tuple[FabricFrame, ...]:
    """Adds full frames of a sender that take a fifth of the line."""
    gap_ns = 5 * _wire_ns(1, FRAME_BYTES, LINE_BPS)
    paced = [
        FabricFrame(5 + number * gap_ns, sender, 4, FRAME_BYTES, dscp, True, len(frames) + number)
        for number in range(PACED_FRAMES)
    ]
    return tuple(sorted((*frames, *paced), key=lambda frame: frame.t_ns))


# ---- thresholds of pools ----


@dataclass(frozen=True, slots=True)
class Threshold:
    """Equal classes that overload a port and share its pool. One class alone may have a reserve."""

    classes: int
    alpha: float
    reserve_bytes: int = 0

    @property
    def name(self) -> str:
        reserve = f", reserve {self.reserve_bytes} bytes" if self.reserve_bytes else ""
        return f"{self.classes} class{'es' if self.classes > 1 else ''}, alpha {self.alpha:g}{reserve}"

    def case(self) -> FabricCase:
        classes = tuple(
            QueueClass(
                f"c{number}",
                (DSCPS[number],),
                AMPLE_BYTES,
                quantum_bytes=POOL_FRAME,
                reserve_bytes=self.reserve_bytes,
                alpha_2_16=int(self.alpha * OF_2_16),
            )
            for number in range(self.classes)
        )
        shape = NETS["incast4"]
        frames = _flows([(number, 4, POOL_FRAMES, POOL_FRAME, DSCPS[number]) for number in range(self.classes)])
        ports = _ports(
            shape, Queue(AMPLE_BYTES, "port", classes=classes, pool=Pool(1, POOL_BYTES)), classes, 1_000, LINE_BPS // 10
        )
        return FabricCase(f"threshold, {self.name}", "incast4", ports, frames, samples=0, times=(POOL_LOOK_NS,))

    def verify(self, rows: Rows, arrived: int) -> None:
        row = rows[POOL_LOOK_NS, NETS["incast4"].routes["s0", 4]]
        threshold = self.reserve_bytes + self.alpha * POOL_BYTES / (1 + self.classes * self.alpha)
        if self.classes == 1:  # the first frame above the threshold is refused
            assert row["longest_bytes"] == -(-threshold // POOL_FRAME) * POOL_FRAME
            return
        for number in range(self.classes):
            assert _of_class(row, number, "backlog_bytes") == pytest.approx(threshold, abs=2 * POOL_FRAME)
            assert _of_class(row, number, "drops")


POOL_BYTES, POOL_FRAME, POOL_FRAMES = 200_001, 1_000, 1_000
POOL_LOOK_NS = _wire_ns(POOL_FRAMES, POOL_FRAME, LINE_BPS)
"""When the senders end."""
THRESHOLDS = (
    *(Threshold(1, alpha) for alpha in (0.125, 0.5, 1, 2, 8)),
    Threshold(1, 0.5, reserve_bytes=20_500),
    Threshold(2, 0.5),
    Threshold(2, 1),
    Threshold(3, 1),
)


# ---- headroom ----


@dataclass(frozen=True, slots=True)
class Headroom:
    """An incast into a slow port, with a part of the headroom that a cable needs."""

    senders: int
    parts: int = 1
    """Headroom is divided by it."""
    whole_port: bool = False

    @property
    def name(self) -> str:
        kind = "802.3x" if self.whole_port else "PFC"
        return f"{kind}, {self.senders} senders, {'half of ' if self.parts == 2 else ''}the headroom of {HEADROOM} bytes"

    @property
    def net(self) -> str:
        return f"incast{self.senders}"

    def case(self) -> FabricCase:
        shape = NETS[self.net]
        pause = Pause(
            xoff_bytes=20_000,
            share=0,
            share_of=0,
            xon_below_bytes=3_000,
            reserve_bytes=0,
            headroom_bytes=HEADROOM // self.parts,
            quanta=2_000,
            whole_port=self.whole_port,
        )
        queue = Queue(AMPLE_BYTES, "port", classes=PFC_CLASSES, pool=Pool(1, 10**6), pause=pause)
        flows = [(sender, self.senders, PFC_FRAMES, FRAME_BYTES, PFC_DSCP) for sender in range(self.senders)]
        flows += [(self.senders, sender, 4, FRAME_BYTES, 0) for sender in range(self.senders)]  # pauses wait behind these
        return FabricCase(self.name, self.net, _ports(shape, queue, PFC_CLASSES, PFC_DELAY_NS, LINE_BPS // 10), _flows(flows))

    def verify(self, rows: Rows, arrived: int) -> None:
        end = max(t_ns for t_ns, _ in rows)
        last = [rows[end, port] for port in range(NETS[self.net].ports)]
        refused, most = sum(row["refused"] for row in last), max(row["most_headroom_bytes"] for row in last)
        assert self.senders * (PFC_FRAMES + 4) - arrived == refused
        if self.parts > 1:
            assert refused > 0
        else:
            assert refused == 0 and 0 < most <= HEADROOM and sum(row["pauses_sent"] for row in last) > 0


PFC_DELAY_NS, PFC_FRAMES, PFC_DSCP = 20_000, 120, 26
PFC_CLASSES = (
    QueueClass("other", (0,), AMPLE_BYTES, alpha_2_16=OF_2_16),
    QueueClass("lossless", (PFC_DSCP,), AMPLE_BYTES, lossless=True),
)


def _cable() -> Cable:
    queue = Queue(AMPLE_BYTES)
    return Cable(Port("h1", "h1-eth0", queue), Port("s1", "s1-eth1", queue), LINE_BPS, PFC_DELAY_NS)


HEADROOM = headroom_bytes(_cable(), 1, FRAME_BYTES)
HEADROOMS = tuple(
    Headroom(senders, parts, whole_port) for whole_port in (False, True) for senders in (2, 4, 16) for parts in (1, 2)
)


# ---- deadlocks ----


@dataclass(frozen=True, slots=True)
class Ring:
    """Four switches in a ring, and a flow from each to the one opposite. Clockwise routes all wait for the next."""

    net: str
    deadlocks: bool

    @property
    def name(self) -> str:
        return f"ring of 4 switches, {'clockwise' if self.deadlocks else 'shortest'} routes"

    def case(self) -> FabricCase:
        shape = NETS[self.net]
        pause = Pause(10_000, 0, 0, 3_000, 0, 60_000, 1_000, whole_port=False)
        queue = Queue(AMPLE_BYTES, "port", classes=PFC_CLASSES, pool=Pool(1, 400_000), pause=pause)
        ports = tuple(
            FabricPort(LINE_BPS, 1_000, queue if shape.is_switch(port) else host_queue(PFC_CLASSES))
            for port in range(shape.ports)
        )
        frames = _flows([(host, (host + 2) % 4, RING_FRAMES, FRAME_BYTES, PFC_DSCP) for host in range(4)])
        until_ns = RING_END_NS if self.deadlocks else None
        return FabricCase(self.name, self.net, ports, frames, samples=0, until_ns=until_ns, times=RING_TIMES)

    def verify(self, rows: Rows, arrived: int) -> None:
        shape = NETS[self.net]
        deadlocks = [_deadlock(shape, {port: rows[t_ns, port] for port in range(shape.ports)}) for t_ns in RING_TIMES]
        if not self.deadlocks:
            assert deadlocks == [None, None] and arrived == 4 * RING_FRAMES
            return
        assert deadlocks[0] is not None and deadlocks[0] == deadlocks[1]
        assert set(deadlocks[0]) == {shape.name(port) for port in range(8, 16, 2)} and arrived < 4 * RING_FRAMES


RING_FRAMES, RING_END_NS = 300, 3_000_000
RING_TIMES = (1_500_000, 2_500_000)
RINGS = (Ring("ring4", deadlocks=True), Ring("ring4short", deadlocks=False))
"""The ring that deadlocks comes first and leaves frames in its queues; the next case of that network begins with none."""


def _deadlock(shape: FabricNet, rows: Mapping[int, Mapping[str, int]]) -> tuple[str, ...] | None:
    numbers = range(len(PFC_CLASSES))
    states = {
        shape.name(port): PortState(
            row["paused_classes"],
            tuple(_of_class(row, number, "backlog_bytes") for number in numbers),
            tuple(_of_class(row, number, "charged_bytes") for number in numbers),
        )
        for port, row in rows.items()
    }
    peers = {shape.name(port): shape.name(peer(port)) for port in rows}
    leads_to = {
        shape.name(port): {shape.name(other) for other in shape.ports_of(shape.node(port)) if other != port} for port in rows
    }
    return find_deadlock(states, peers, leads_to)


def _of_class(row: Mapping[str, int], number: int, field: str) -> int:
    return row[f"class {number} {field}"]


def light_ring() -> FabricCase:
    """Returns a ring in which nobody must wait, to be run after one in which everybody did."""
    case = RINGS[0].case()
    frames = _flows([(host, (host + 1) % 4, 20, FRAME_BYTES, PFC_DSCP) for host in range(4)])
    return FabricCase("ring after a deadlock", case.net, case.ports, frames)


RULES: tuple[Rule, ...] = (*SHARES, *THRESHOLDS, *HEADROOMS, *RINGS)


# ---- an hour ----


def hour() -> FabricCase:
    """Returns a minute of pauses, to be repeated for an hour: two hosts at 10 Mbit/s into a port of 1 Mbit/s."""
    shape, classes = NETS["incast2"], PFC_CLASSES
    pause = Pause(10_000, 0, 0, 3_000, 0, 20_000, 500, whole_port=False)
    queue = Queue(AMPLE_BYTES, "port", classes=classes, pool=Pool(1, 200_000), pause=pause)
    rates = (10**7, 10**7, 10**7, 10**7, 10**6, 10**6)
    ports = tuple(
        FabricPort(rate_bps, 10_000, queue if shape.is_switch(port) else host_queue(classes))
        for port, rate_bps in enumerate(rates)
    )
    frames = _flows([(sender, 2, MINUTE_FRAMES, FRAME_BYTES, PFC_DSCP) for sender in range(2)])
    return FabricCase("an hour of pauses", "incast2", ports, frames, samples=0, repeat=MINUTES, times=(MINUTE_NS,))


MINUTES, MINUTE_NS, MINUTE_FRAMES = 60, 60 * 10**9, 2_000
GROWTH_KB = 64


def verify_hour(rows: Rows, arrived: int, reply: Mapping[str, Any]) -> None:
    """Verifies that an hour of pauses leaves nothing behind, and that the kernel's memory does not grow with it."""
    last = [rows[MINUTE_NS, port] for port in range(NETS["incast2"].ports)]
    assert not sum(row["charged_bytes"] + row["pool_used_bytes"] + row["paused_classes"] for row in last)
    assert not sum(device["flight_packets"] + device["pauses_in_flight"] for device in reply["devices"])
    sent = sum(device["pauses_sent"] for device in reply["devices"])
    assert sent == sum(device["pauses_received"] for device in reply["devices"])
    assert arrived == 2 * MINUTE_FRAMES and reply["pauses"] > 100 * MINUTES
    assert reply["memory_kb"][-1] - reply["memory_kb"][MINUTES // 2] <= GROWTH_KB
