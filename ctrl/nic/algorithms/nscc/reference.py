# SPDX-License-Identifier: Apache-2.0
"""NSCC in floating point. nscc.h is tested against it."""

from __future__ import annotations

from dc_gym.ctrl.nic.events import ACK, MARKED, NACK, TIMEOUT, TRIMMED, Decision, NicEvent, NicFlow, since
from dc_gym.ctrl.nic.reference import LINE, ONE, Bound, FloatReference, Parameters

LONGEST_NS, MOST_BDP, MOST_BYTES = 2**31, 2**30, 2**26
REFERENCE_MBPS = 100_000


class Nscc:
    """The sender's congestion control of uet-htsim @40ccb05, uec.cpp. Windows are whole bytes, as there."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._cwnd = 0
        self._average_ns = 0.0
        self._inc = 0.0
        self._arrived = self._since = self._fast = self._ignore = self._ignored = 0
        self._qa: tuple[int, float] | None = None
        self._trigger = self._rising = False

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
        if not self._cwnd:
            self._begin(event, flow)
        if event.type == ACK:
            self._acknowledged(event)
        elif event.type == NACK and event.flags & TRIMMED:
            self._trimmed(event)
        elif event.type == NACK and event.flags & TIMEOUT:
            self._bound(self._cwnd - event.bytes)
        return Decision(LINE, self._cwnd, False)

    def _begin(self, event: NicEvent, flow: NicFlow) -> None:
        p = self._p
        self._first_ns = self._base_ns = max(1, flow.base_rtt_ns)
        self._line_mbps, self._packet = flow.line_mbps, max(1, min(65535, flow.packet_bytes))
        self._mss = max(1, self._packet - p["header"])
        self._target_ns = min(LONGEST_NS, self._first_ns * p["target"] // 2**10)
        self._a = self._bdp(self._first_ns) / max(1, min(MOST_BDP, p["reference_rtt"] * REFERENCE_MBPS // 8000))
        self._adjusted_ns = self._cut_ns = event.now_ns - LONGEST_NS
        self._bound(self._most)

    def _bdp(self, rtt_ns: int) -> int:
        return min(MOST_BDP, rtt_ns * self._line_mbps // 8000)

    @property
    def _most(self) -> int:
        return max(1, min(2**32 - 1, self._bdp(self._base_ns) * self._p["window_most"] // 2**10))

    def _bound(self, cwnd: float) -> None:
        self._cwnd = min(max(self._packet, int(cwnd)), self._most)

    def _measure(self, event: NicEvent) -> int:
        rtt_ns = max(1, min(LONGEST_NS, since(event.sent_ns, event.now_ns)))
        self._base_ns = min(self._base_ns, rtt_ns)
        return rtt_ns - self._base_ns

    def _acknowledged(self, event: NicEvent) -> None:
        count, delay_ns, marked = min(event.bytes, MOST_BYTES), self._measure(event), bool(event.flags & MARKED)
        self._arrived, self._since, self._ignored = (
            min(2**32 - 1, total + count) for total in (self._arrived, self._since, self._ignored)
        )
        self._smooth(self._base_ns / 4 if not marked and delay_ns > self._target_ns else delay_ns)
        if self._quick_adapt(event, marked, False, delay_ns):
            return
        if delay_ns >= self._target_ns:
            if marked:
                self._cut(event)
            else:
                self._inc += self._share("fair") * count
        elif not marked and not self._rises(count, delay_ns):
            below = min(2.0**14, (self._target_ns - delay_ns) / self._p["reference_rtt"])  # as the header bounds it
            self._inc += self._share("proportional") * count * below
        self._bound(self._cwnd)
        self._fulfill(event)

    def _share(self, count: str) -> float:
        """Returns a parameter in mss a, which the header holds below 2^28 bytes."""
        return min(2.0**28, self._p[count] * self._mss * self._a)

    def _smooth(self, delay_ns: float) -> None:
        self._average_ns += (delay_ns - self._average_ns) * self._p["delay_alpha"] / ONE

    def _rises(self, count: int, delay_ns: int) -> bool:
        if delay_ns >= self._p["fast_below"]:
            self._fast, self._rising = 0, False
            return False
        self._fast = min(2 * MOST_BDP, self._fast + count)
        self._rising = self._rising or self._fast > self._cwnd
        if self._rising:
            self._cwnd = int(self._cwnd + count * self._a * self._p["fast"] / ONE)
        return self._rising

    def _cut(self, event: NicEvent) -> None:
        self._fast, self._rising = 0, False
        excess = self._average_ns - self._target_ns
        if excess <= 0 or since(self._cut_ns, event.now_ns) <= self._base_ns:
            return
        self._bound(self._cwnd * (1 - min(self._p["gamma"] * excess / self._average_ns, self._p["most_cut"]) / ONE))
        self._cut_ns = event.now_ns

    def _fulfill(self, event: NicEvent) -> None:
        passed_ns = since(self._adjusted_ns, event.now_ns)
        if self._since <= self._p["adjust_packets"] * self._packet and passed_ns <= self._first_ns:
            return
        cwnd = self._cwnd + self._inc / self._cwnd
        if passed_ns >= self._first_ns:
            cwnd += self._p["eta"] / ONE * self._mss * self._a
            self._adjusted_ns = event.now_ns
        self._inc, self._since = 0.0, 0
        self._bound(cwnd)

    def _quick_adapt(self, event: NicEvent, marked: bool, lost: bool, delay_ns: int) -> bool:
        done = self._ignored < self._ignore and marked
        if not done and (self._qa is None or since(self._qa[0], event.now_ns) > self._qa[1]):
            wanted = self._trigger or lost or delay_ns > self._p["qa_threshold"] * self._target_ns
            if self._qa is not None and wanted and self._arrived < self._most >> self._p["qa_gate"]:
                self._cwnd = max(self._arrived, self._packet)
                self._ignore, self._ignored = (event.received_ns + (event.bytes if lost else 0)) % 2**32, 0
                self._trigger, done = False, True
            self._arrived = 0
            self._qa = event.now_ns, min(LONGEST_NS, self._base_ns + self._target_ns)
        if done:
            self._inc, self._since = 0.0, 0
        return done

    def _trimmed(self, event: NicEvent) -> None:
        self._measure(event)
        count = min(event.bytes, MOST_BYTES)
        self._ignored = min(2**32 - 1, self._ignored + count)
        self._smooth(self._first_ns)
        self._trigger = True
        if not self._quick_adapt(event, True, True, 0):
            self._bound(self._cwnd - count)


REFERENCE = FloatReference(Nscc, Bound(0, 0.005, whole_packets=True))  # lost packets take bytes off a window of many
