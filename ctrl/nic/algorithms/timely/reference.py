# SPDX-License-Identifier: Apache-2.0
"""TIMELY in floating point. timely.h is tested against it."""

from __future__ import annotations

from dc_gym.ctrl.nic.events import LONGEST_NS, NACK, RTT, Decision, NicEvent, NicFlow, since
from dc_gym.ctrl.nic.reference import LINE, ONE, Bound, FloatReference, Parameters, clamped


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


REFERENCE = FloatReference(Timely, Bound(16, 0.0001))
"""Gradients have 16 fraction bits: each cut may be off by 0.0012 % of the rate, and eight add up."""
