# SPDX-License-Identifier: Apache-2.0
"""Swift in floating point. swift.h is tested against it."""

from __future__ import annotations

import math

from dc_gym.ctrl.nic.events import ACK, LONGEST_NS, NACK, RTT, TIMEOUT, Decision, NicEvent, NicFlow, since
from dc_gym.ctrl.nic.reference import LINE, ONE, Bound, FloatReference, Parameters, clamped

PACKET = 2.0**20
MOST_PACKETS = 4096.0


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


REFERENCE = FloatReference(Swift, Bound(16, 0.001))
