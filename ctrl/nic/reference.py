# SPDX-License-Identifier: Apache-2.0
"""The NIC's algorithms in floating point, written from the papers' formulas. The integer headers are tested against them.

Nothing of the headers' arithmetic is here: rates are shares of the line, windows are packets, timers (reference_dcqcn.py) expire
one by one. What the headers define beyond the papers is part of this module by definition, too: DCQCN's alpha has 10 bits, a
gradient of TIMELY below 2^-16 counts as none, targets of Swift are whole ns, round trips end at 2^30 ns, a clock of 32 bits
wraps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Protocol

from dc_gym.ctrl.nic.events import ACK, LONGEST_NS, NACK, RTT, TIMEOUT, Decision, NicEvent, NicFlow, since

__all__ = ["FixedRate", "NicEvent", "NicFlow", "Parameters", "Reference", "Swift", "Timely", "TimelyPatched", "clamped"]

LINE, LEAST = 1.0, 2.0**-14
ONE = 2.0**16
PACKET = 2.0**20
MOST_PACKETS = 4096.0


class Reference(Protocol):
    """The congestion control of one flow."""

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision: ...


Parameters = Mapping[str, int]


def clamped(rate: float) -> float:
    return max(LEAST, min(LINE, rate))


class FixedRate:
    """A constant rate."""

    def __init__(self, parameters: Parameters) -> None:
        self._rate = parameters["rate"] / 2**20

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
        return Decision(clamped(self._rate), 0.0, False)


class Timely:
    """Mittal et al., SIGCOMM 2015."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._rate = LINE
        self._rtt_ns: int | None = None
        self._diff_ns = 0.0
        self._in_a_row = 0
        self._cut_ns: int | None = None

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
        if self._cut_ns is None:
            self._cut_ns = event.now_ns - LONGEST_NS
        if event.type == RTT:
            self._measured(event.rtt_ns, flow)
        elif event.type == NACK:
            self._lost(event.now_ns)
        self._rate = max(self._p["rate_min"] / 2**20, min(LINE, self._rate))
        return Decision(clamped(self._rate), 0.0, True)

    def _time(self, name: str, flow: NicFlow) -> float:
        """Returns a parameter, in ns, for this flow's base round trip."""
        reference = self._p["reference_rtt"]
        return self._p[name] * flow.base_rtt_ns / reference if reference else float(self._p[name])

    def _measured(self, rtt_ns: int, flow: NicFlow) -> None:
        newest = rtt_ns - self._rtt_ns if self._rtt_ns is not None else 0
        a = self._p["alpha"] / ONE
        self._diff_ns = (1 - a) * self._diff_ns + a * newest
        self._rtt_ns = rtt_ns
        low, high = self._time("t_low", flow), self._time("t_high", flow)
        if low <= rtt_ns <= high:
            gradient = self._diff_ns / max(1.0, self._time("min_rtt", flow))
            self._between(gradient if abs(gradient) >= 2**-16 else 0.0, rtt_ns, flow)
            return
        if rtt_ns < low:
            self._below()
            return
        self._in_a_row = 0
        self._rate *= 1 - self._beta * (1 - high / rtt_ns)

    def _below(self) -> None:
        if self._p["hai_below"]:
            self._raise()
            return
        self._in_a_row = 0
        self._rate += self._delta

    def _between(self, gradient: float, rtt_ns: int, flow: NicFlow) -> None:
        if gradient > 0:
            self._in_a_row = 0
            self._rate *= max(0.0, 1 - self._beta * gradient)
            return
        self._raise()

    def _raise(self) -> None:
        """Adds one step, or several from the `hai_after`-th raise in a row on."""
        self._in_a_row += 1
        self._rate += (self._p["hai_steps"] if self._in_a_row >= self._p["hai_after"] else 1) * self._delta

    def _lost(self, now_ns: int) -> None:
        """Reacts to a loss at most once in a round trip. This rule is dc-gym's own."""
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

    def _below(self) -> None:
        self._rate += self._delta

    def _between(self, gradient: float, rtt_ns: int, flow: NicFlow) -> None:
        """R = d (1 - w) + R (1 - b w err)"""
        reference = self._time("rtt_ref", flow)
        weight = max(0.0, min(1.0, 2 * gradient + 0.5))
        error = (rtt_ns - reference) / max(1.0, reference)
        self._rate = self._delta * (1 - weight) + self._rate * max(0.0, 1 - self._beta * weight * error)


class Swift:
    """Kumar et al., SIGCOMM 2020, without the endpoint's window.

    With `rate_only` a probe raises, and the answer is a rate; if it is HELD, the round trip does not change that.
    """

    HELD = 2

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._cwnd = 0.0
        self._delay_ns = 0
        self._below = True
        self._cut_ns = 0
        self._timeouts = 0

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
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

    def target_ns(self, flow: NicFlow) -> float:
        """base + hops h + the flow-scaling term, in whole ns"""
        p = self._p
        a = p["fs_range"] / (1 / math.sqrt(p["fs_min"] / PACKET) - 1 / math.sqrt(p["fs_max"] / PACKET))
        b = -a / math.sqrt(p["fs_max"] / PACKET)
        scaling = max(0.0, min(p["fs_range"], a / math.sqrt(self._cwnd) + b))
        target = min(float(LONGEST_NS), p["base_target"] + min(255, flow.hops) * p["hop"] + scaling)
        return math.floor(target * flow.base_rtt_ns / p["reference_rtt"] if p["reference_rtt"] else target)

    def _begin(self, event: NicEvent, flow: NicFlow) -> None:
        self._cut_ns = event.now_ns - LONGEST_NS
        self._cwnd = self._p["cwnd_initial"] / PACKET or self._line(flow)
        self._cwnd *= self._p["rate_initial"] / 2**20
        self._cwnd = max(self._p["cwnd_min"] / PACKET, min(self._p["cwnd_max"] / PACKET, self._cwnd))
        self._delay_ns = min(LONGEST_NS, flow.base_rtt_ns)

    def _measured(self, event: NicEvent, flow: NicFlow) -> None:
        self._delay_ns = event.rtt_ns
        target = self.target_ns(flow)
        self._below = self._delay_ns < target
        if self._below:
            if self._p["rate_only"]:
                self._raise(flow)
        else:
            self._cut(min(self._p["beta"] / ONE * (self._delay_ns - target) / self._delay_ns, self._mdf), event.now_ns)

    def _raise(self, flow: NicFlow) -> None:
        raised = self._cwnd + self._p["ai"] / PACKET
        self._cwnd = max(self._cwnd, min(raised, self._line(flow))) if self._p["rate_only"] == self.HELD else raised

    @staticmethod
    def _line(flow: NicFlow) -> float:
        """Returns the packets that the line carries in a base round trip."""
        return max(1.0, min(MOST_PACKETS, flow.line_mbps * flow.base_rtt_ns / 8000 / max(1, flow.packet_bytes)))

    def _acknowledged(self, packets: int) -> None:
        packets = min(packets, 65535)
        if packets:
            self._timeouts = 0
        if self._below and not self._p["rate_only"]:
            self._cwnd += self._p["ai"] / PACKET * packets / (self._cwnd if self._cwnd >= 1 else 1)

    def _lost(self, event: NicEvent) -> None:
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

    def _share(self, flow: NicFlow) -> float:
        """The window in one round trip, of the line."""
        rtt_ns = min(LONGEST_NS, flow.base_rtt_ns) if self._p["rate_only"] == self.HELD else self._delay_ns
        return self._cwnd * flow.packet_bytes / max(1e-9, flow.line_mbps * rtt_ns / 8000)

    def _decision(self, flow: NicFlow) -> Decision:
        window = min(2.0**32 - 1, max(1.0, self._cwnd) * flow.packet_bytes)
        share = self._share(flow)
        gain = 1.0 if self._cwnd < 1 else self._p["pace_gain"] / 2**8
        if self._p["rate_only"]:
            return Decision(clamped(min(1.0, share) * (gain or 1.0)), 0.0, True)
        return Decision(clamped(min(1.0, share) * gain) if gain else LINE, window, True)
