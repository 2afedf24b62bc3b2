# SPDX-License-Identifier: Apache-2.0
"""The NIC's algorithms in floating point, written from the papers' formulas: what the integer headers are held to.

Nothing of the headers' arithmetic is here: times are seconds' fractions as they come, rates are shares of the line, timers expire
one by one. What the headers define beyond the papers is here by definition, too: DCQCN's alpha has 10 bits, a gradient of TIMELY
below 2^-16 is none, targets of Swift are whole ns, round trips end at 2^30 ns, a clock of 32 bits wraps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

LINE, LEAST = 1.0, 2.0**-14
ONE = 2.0**16
PACKET = 2.0**20
LONGEST_NS = 2**30
CNP, TX, ACK, NACK, RTT = 2, 3, 4, 5, 6
TIMEOUT = 2
MOST_CNPS = 16


@dataclass(frozen=True, slots=True)
class Event:
    """struct cc_event."""

    type: int
    flags: int
    now_ns: int
    first_ns: int
    coalesced: int
    bytes: int
    packets: int
    sent_ns: int
    received_ns: int
    answered_ns: int

    @property
    def rtt_ns(self) -> int:
        """As every algorithm here takes it: at least 1 ns, at most 2^30."""
        whole, inside = since(self.sent_ns, self.now_ns), since(self.received_ns, self.answered_ns)
        return max(1, min(LONGEST_NS, whole - inside))


@dataclass(frozen=True, slots=True)
class Flow:
    """struct cc_flow."""

    base_rtt_ns: int
    line_mbps: int
    packet_bytes: int
    hops: int


@dataclass(frozen=True, slots=True)
class Decision:
    rate: float
    """Share of the line."""
    window_bytes: float
    probe: bool


class Reference(Protocol):
    """One flow's congestion control."""

    def on_event(self, event: Event, flow: Flow) -> Decision: ...


Parameters = Mapping[str, int]


def since(then_ns: int, now_ns: int) -> int:
    """Time that a clock of 32 bits has seen pass."""
    return (now_ns - then_ns) % 2**32


def clamped(rate: float) -> float:
    return max(LEAST, min(LINE, rate))


class Fixed:
    """A rate that nothing changes."""

    def __init__(self, parameters: Parameters) -> None:
        self._rate = parameters["rate"] / 2**20

    def on_event(self, event: Event, flow: Flow) -> Decision:
        return Decision(clamped(self._rate), 0.0, False)


class Dcqcn:
    """Zhu et al., SIGCOMM 2015, and with a monitor period the firmware's variant."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._current = self._target = LINE
        self.alpha = 0
        self._started = False
        self._marked_alpha = self._marked_cut = False
        self._timer_stage = self._byte_stage = 0
        self._sent = 0
        self._due: dict[str, int] = {}
        """By timer: how long until it expires, in ns."""
        self._now_ns = 0

    def on_event(self, event: Event, flow: Flow) -> Decision:
        if self._started:
            self._wait(since(self._now_ns, event.now_ns))
            if event.type == TX:
                self._send(event.bytes)
        self._now_ns = event.now_ns
        if event.type == CNP or (event.type == NACK and self._p["nack"]):
            self._mark(event.coalesced)
        return Decision(clamped(self._current), 0.0, False)

    def _wait(self, passed_ns: int) -> None:
        """Timers in the order in which they expire: at one time alpha's, the raise, the cut."""
        while live := self._live():
            step = min(self._due[name] for name in live)
            if step > passed_ns:
                break
            expired = [name for name in live if self._due[name] == step]
            self._elapse(step)
            passed_ns -= step
            for name in expired:
                {"alpha": self._expire_alpha, "raise": self._expire_raise, "cut": self._expire_cut}[name]()
        self._elapse(passed_ns)

    def _live(self) -> list[str]:
        """Timers whose expiry changes something."""
        back = self._target == LINE and LINE - self._current < 1e-12 and self._timer_stage > self._p["stages"]
        moved = {"alpha": self.alpha or self._marked_alpha, "raise": not back, "cut": self._marked_cut}
        return [name for name, moves in moved.items() if moves]

    def _periods(self) -> dict[str, int]:
        periods = {"alpha": self._p["alpha_timer"], "raise": self._p["rate_timer"]}
        return periods | ({"cut": self._p["monitor_period"]} if self._p["monitor_period"] else {})

    def _elapse(self, step_ns: int) -> None:
        """Timers run on, and anew where they end."""
        for name, period in self._periods().items():
            left = self._due[name] - step_ns
            self._due[name] = left if left > 0 else period - -left % period

    def _expire_alpha(self) -> None:
        self.alpha = hardware_alpha(self.alpha, self._p["g"], self._marked_alpha)
        self._marked_alpha = False

    def _expire_raise(self) -> None:
        self._raise()
        self._timer_stage += 1

    def _expire_cut(self) -> None:
        self._cut()
        self._marked_cut = False

    def _raise(self) -> None:
        """max(t, b) < F: recovery; min(t, b) > F: hyper; else additive."""
        stages = (self._timer_stage, self._byte_stage if self._p["byte_counter"] else self._timer_stage)
        if max(stages) >= self._p["stages"]:
            step = self._p["rate_hai"] if min(stages) > self._p["stages"] else self._p["rate_ai"]
            self._target = min(LINE, self._target + step / 2**20)
        self._current = (self._target + self._current) / 2

    def _send(self, count: int) -> None:
        if not self._p["byte_counter"]:
            return
        self._sent += count
        while self._sent >= self._p["byte_counter"]:
            self._sent -= self._p["byte_counter"]
            self._raise()
            self._byte_stage += 1

    def _cut(self) -> None:
        """RT = RC; RC = RC (1 - alpha / 2)"""
        if self._p["clamp_target"] or self._timer_stage or self._byte_stage:
            self._target = self._current
        self._current = max(self._p["rate_min"] / 2**20, self._current * (1 - self.alpha / 2**10 / 2))
        self._timer_stage = self._byte_stage = self._sent = 0
        self._due["raise"] = self._p["rate_timer"]

    def _mark(self, count: int) -> None:
        first = not self._started
        if first:
            self._started, self.alpha, self._due = True, self._p["alpha_initial"], self._periods()
            self._sent = 0
        if self._p["monitor_period"]:
            self._marked_cut = True
            self._marked_alpha = self._marked_alpha or not first
            return
        for _ in range(min(count, MOST_CNPS)):
            self._cut()
            self.alpha = hardware_alpha(self.alpha, self._p["g"], True)
        self._due["alpha"] = self._p["alpha_timer"]


def hardware_alpha(alpha: int, g: int, marked: bool) -> int:
    """alpha = (1 - g) alpha + g marked, in a register of 10 bits: what falls below its last bit is lost."""
    return math.floor(((1024 - g) * alpha + g * 1024 * marked) / 1024)


class Timely:
    """Mittal et al., SIGCOMM 2015."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._rate = LINE
        self._rtt_ns: int | None = None
        self._diff_ns = 0.0
        self._in_a_row = 0
        self._cut_ns: int | None = None

    def on_event(self, event: Event, flow: Flow) -> Decision:
        if self._cut_ns is None:
            self._cut_ns = event.now_ns - LONGEST_NS
        if event.type == RTT:
            self._measured(event.rtt_ns, flow)
        elif event.type == NACK:
            self._lost(event.now_ns)
        self._rate = max(self._p["rate_min"] / 2**20, min(LINE, self._rate))
        return Decision(clamped(self._rate), 0.0, True)

    def _time(self, name: str, flow: Flow) -> float:
        """A parameter for this flow's base round trip."""
        reference = self._p["reference_rtt"]
        return self._p[name] * flow.base_rtt_ns / reference if reference else float(self._p[name])

    def _measured(self, rtt_ns: int, flow: Flow) -> None:
        newest = rtt_ns - self._rtt_ns if self._rtt_ns is not None else 0
        a = self._p["alpha"] / ONE
        self._diff_ns = (1 - a) * self._diff_ns + a * newest
        self._rtt_ns = rtt_ns
        low, high = self._time("t_low", flow), self._time("t_high", flow)
        if low <= rtt_ns <= high:
            gradient = self._diff_ns / max(1.0, self._time("min_rtt", flow))
            self._between(gradient if abs(gradient) >= 2**-16 else 0.0, rtt_ns, flow)
            return
        self._in_a_row = 0
        if rtt_ns < low:
            self._rate += self._delta
        else:
            self._rate *= 1 - self._beta * (1 - high / rtt_ns)

    def _between(self, gradient: float, rtt_ns: int, flow: Flow) -> None:
        if gradient > 0:
            self._in_a_row = 0
            self._rate *= max(0.0, 1 - self._beta * gradient)
            return
        self._in_a_row += 1
        self._rate += (self._p["hai_steps"] if self._in_a_row >= self._p["hai_after"] else 1) * self._delta

    def _lost(self, now_ns: int) -> None:
        """Ours: once a round trip."""
        if not self._p["loss_cut"] or since(self._cut_ns or 0, now_ns) < (self._rtt_ns or 0):
            return
        self._cut_ns = now_ns
        self._in_a_row = 0
        self._rate *= 1 - self._p["loss_cut"] / ONE

    @property
    def _delta(self) -> float:
        return self._p["delta"] / 2**20

    @property
    def _beta(self) -> float:
        return self._p["beta"] / ONE


class TimelyPatched(Timely):
    """Zhu et al., CoNEXT 2016."""

    def _between(self, gradient: float, rtt_ns: int, flow: Flow) -> None:
        """R = d (1 - w) + R (1 - b w err)"""
        reference = self._time("rtt_ref", flow)
        weight = max(0.0, min(1.0, 2 * gradient + 0.5))
        error = (rtt_ns - reference) / max(1.0, reference)
        self._rate = self._delta * (1 - weight) + self._rate * max(0.0, 1 - self._beta * weight * error)


class Swift:
    """Kumar et al., SIGCOMM 2020, without the endpoint's window."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._cwnd = 0.0
        self._delay_ns = 0
        self._below = True
        self._cut_ns = 0
        self._timeouts = 0

    def on_event(self, event: Event, flow: Flow) -> Decision:
        if not self._cwnd:
            self._begin(event, flow)
        if event.type == RTT:
            self._measured(event, flow)
        elif event.type == ACK:
            self._acknowledged(event.packets)
        elif event.type == NACK:
            self._lost(event)
        self._cwnd = max(self._p["cwnd_min"] / PACKET, min(self._p["cwnd_max"] / PACKET, self._cwnd))
        return self._decision(flow)

    def target_ns(self, flow: Flow) -> float:
        """base + hops h + the flow-scaling term, in whole ns"""
        p = self._p
        a = p["fs_range"] / (1 / math.sqrt(p["fs_min"] / PACKET) - 1 / math.sqrt(p["fs_max"] / PACKET))
        b = -a / math.sqrt(p["fs_max"] / PACKET)
        scaling = max(0.0, min(p["fs_range"], a / math.sqrt(self._cwnd) + b))
        target = min(float(LONGEST_NS), p["base_target"] + min(255, flow.hops) * p["hop"] + scaling)
        return math.floor(target * flow.base_rtt_ns / p["reference_rtt"] if p["reference_rtt"] else target)

    def _begin(self, event: Event, flow: Flow) -> None:
        self._cut_ns = event.now_ns - LONGEST_NS
        bdp = flow.line_mbps * flow.base_rtt_ns / 8000 / max(1, flow.packet_bytes)
        self._cwnd = self._p["cwnd_initial"] / PACKET or max(1.0, bdp)
        self._cwnd = max(self._p["cwnd_min"] / PACKET, min(self._p["cwnd_max"] / PACKET, self._cwnd))
        self._delay_ns = min(LONGEST_NS, flow.base_rtt_ns)

    def _measured(self, event: Event, flow: Flow) -> None:
        self._delay_ns = event.rtt_ns
        target = self.target_ns(flow)
        self._below = self._delay_ns < target
        if not self._below:
            self._cut(min(self._p["beta"] / ONE * (self._delay_ns - target) / self._delay_ns, self._mdf), event.now_ns)

    def _acknowledged(self, packets: int) -> None:
        packets = min(packets, 65535)
        if packets:
            self._timeouts = 0
        if self._below:
            self._cwnd += self._p["ai"] / PACKET * packets / (self._cwnd if self._cwnd >= 1 else 1)

    def _lost(self, event: Event) -> None:
        if event.flags & TIMEOUT:
            self._timeouts += 1
            if self._timeouts >= self._p["retx_reset"]:
                self._cwnd = 0.0
                return
        self._cut(self._mdf, event.now_ns)

    def _cut(self, share: float, now_ns: int) -> None:
        if since(self._cut_ns, now_ns) < self._delay_ns:
            return
        self._cut_ns = now_ns
        self._cwnd *= 1 - share

    @property
    def _mdf(self) -> float:
        return self._p["max_mdf"] / ONE

    def _decision(self, flow: Flow) -> Decision:
        window = min(2.0**32 - 1, max(1.0, self._cwnd) * flow.packet_bytes)
        share = self._cwnd * flow.packet_bytes / max(1e-9, flow.line_mbps * self._delay_ns / 8000)
        gain = 1.0 if self._cwnd < 1 else self._p["pace_gain"] / 2**8
        return Decision(clamped(min(1.0, share) * gain) if gain else LINE, window, True)


REFERENCES: dict[str, Callable[[Parameters], Reference]] = {
    "fixed": Fixed,
    "dcqcn": Dcqcn,
    "swift": Swift,
    "timely": Timely,
    "timely-patched": TimelyPatched,
}
