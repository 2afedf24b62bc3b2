# SPDX-License-Identifier: Apache-2.0
"""The parts of the algorithms' floating-point references. Each algorithm's own is reference.py in its folder.

References are written from the papers' formulas; the integer headers are tested against them. Nothing of the headers' arithmetic
is in them: rates are shares of the line, windows are packets, timers expire one by one. Rules that the headers define beyond the
papers are part of a reference, too: DCQCN's alpha has 10 bits, a gradient of TIMELY below 2^-16 counts as none, targets of Swift
are whole ns, round trips end at 2^30 ns, a clock of 32 bits wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dc_gym.ctrl.nic.events import Decision, NicEvent, NicFlow

__all__ = ["LEAST", "LINE", "ONE", "Bound", "FloatReference", "Parameters", "Reference", "clamped"]

LINE, LEAST = 1.0, 2.0**-14
ONE = 2.0**16
Parameters = Mapping[str, int]


class Reference(Protocol):
    """The congestion control of one flow."""

    def on_event(self, event: NicEvent, flow: NicFlow) -> Decision: ...


@dataclass(frozen=True, slots=True)
class Bound:
    """The largest permitted difference between a header and its reference."""

    rate: float
    """Tolerance of rates: share of the line, in 2^-20."""
    relative: float
    """Relative tolerance of windows, to a byte, and of rates where it allows more than `rate`."""
    whole_packets: bool = False
    """True if windows are whole packets. A window may then be off by a packet: the exact one may be at a border between two."""


@dataclass(frozen=True, slots=True)
class FloatReference:
    """The reference of an algorithm: REFERENCE of reference.py in its folder."""

    make: Callable[..., Reference]
    """`make(parameters)` returns the congestion control of a flow."""
    bound: Bound


def clamped(rate: float) -> float:
    return max(LEAST, min(LINE, rate))
