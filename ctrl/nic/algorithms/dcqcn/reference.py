# SPDX-License-Identifier: Apache-2.0
"""DCQCN in floating point, with each timer separately. dcqcn.h is tested against it."""

from __future__ import annotations

import math

from dc_gym.ctrl.nic.events import CNP, NACK, TX, Decision, NicEvent, NicFlow, since
from dc_gym.ctrl.nic.reference import LINE, Bound, FloatReference, Parameters, clamped

MAX_CNPS = 16
"""The most CNPs of one event that have an effect."""
NO_ALPHA = 1e-12
"""Alpha below it cuts nothing, and its timer need not run."""
STAGE_MOST = 32
"""A stage counts no further."""


class Dcqcn:
    """DCQCN of Zhu et al., SIGCOMM 2015, and with a monitor period the firmware's variant."""

    def __init__(self, parameters: Parameters) -> None:
        self._p = parameters
        self._current = self._target = parameters["rate_initial"] / 2**20
        self.alpha = 0.0
        self._began = self._started = self._marked = False
        self._marked_alpha = self._marked_cut = False
        self._timer_stage = self._byte_stage = 0
        self._sent = 0
        self._due: dict[str, int] = {}
        """Time in ns until each timer expires, by timer."""
        self._now_ns = 0

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision:
        if not self._began:
            self._began, self._started = True, self._current < LINE
            self._now_ns, self._due = event.now_ns, self._periods()
        if self._started:
            self._wait(since(self._now_ns, event.now_ns))
            if event.type == TX:
                self._send(event.bytes)
        self._now_ns = event.now_ns
        if event.type == CNP or (event.type == NACK and self._p["nack"]):
            self._mark(event.coalesced)
        return Decision(clamped(self._current), 0.0, False)

    def _wait(self, passed_ns: int) -> None:
        """Lets timers expire in order. At the same time, alpha's comes first, then the raise, then the cut."""
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
        """Returns the timers whose expiry changes something."""
        back = self._target == LINE and LINE - self._current < 1e-12 and self._timer_stage > self._p["stages"]
        moved = {"alpha": self.alpha > NO_ALPHA or self._marked_alpha, "raise": not back, "cut": self._marked_cut}
        return [name for name, moves in moved.items() if moves]

    def _periods(self) -> dict[str, int]:
        periods = {"alpha": self._p["alpha_timer"], "raise": self._p["rate_timer"]}
        return periods | ({"cut": self._p["monitor_period"]} if self._p["monitor_period"] else {})

    def _elapse(self, step_ns: int) -> None:
        """Advances the timers, and restarts the expired ones."""
        for name, period in self._periods().items():
            left = self._due[name] - step_ns
            self._due[name] = left if left > 0 else period - -left % period

    def _expire_alpha(self) -> None:
        self._move_alpha(self._marked_alpha)
        self._marked_alpha = False

    def _expire_raise(self) -> None:
        self._raise()
        self._timer_stage += 1

    def _expire_cut(self) -> None:
        self._cut()
        self._marked_cut = False

    def _move_alpha(self, marked: bool) -> None:
        g = self._p["g"]
        self.alpha = (
            short_alpha(self.alpha, g, marked) if self._p["short_alpha"] else self.alpha + g / 1024 * (marked - self.alpha)
        )

    def _raise(self) -> None:
        """max(t, b) < F: recovery; min(t, b) > F: hyper; else additive."""
        stages = (self._timer_stage, self._byte_stage if self._p["byte_counter"] else self._timer_stage)
        if max(stages) >= self._p["stages"]:
            beyond = min(STAGE_MOST, min(stages)) - self._p["stages"]
            step = self._p["rate_ai"] if beyond <= 0 else self._p["rate_hai"] * (beyond if self._p["hyper_factor"] else 1)
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
        self._current = max(self._p["rate_min"] / 2**20, self._current * (1 - self.alpha / 2))
        self._timer_stage = self._byte_stage = self._sent = 0
        self._due["raise"] = self._p["rate_timer"]

    def _mark(self, count: int) -> None:
        first = not self._marked
        if first:
            self._sent = self._sent if self._started else 0
            raise_ns = self._due["raise"] if self._started else self._p["rate_timer"]
            self._started, self._marked, self.alpha = True, True, self._p["alpha_initial"] / 1024
            self._due = self._periods() | {"raise": raise_ns}
        if self._p["monitor_period"]:
            self._marked_cut = True
            self._marked_alpha = self._marked_alpha or not first
            return
        for _ in range(min(count, MAX_CNPS)):
            self._cut()
            self._move_alpha(True)
        self._due["alpha"] = self._p["alpha_timer"]


def short_alpha(alpha: float, g: int, marked: bool) -> float:
    """Returns alpha = (1 - g) alpha + g marked, in a register of 10 bits. Fractions below its last bit are lost."""
    return math.floor((1024 - g) * alpha + g * marked) / 1024


REFERENCE = FloatReference(Dcqcn, Bound(64, 0))
