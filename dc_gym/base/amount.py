# SPDX-License-Identifier: Apache-2.0
"""An amount of queue as a spec may give it: bytes ("400kB"), full frames ("100p") or bandwidth-delay products ("2bdp").

A frame is a full one of the network. A BDP is the port's rate times the base round trip of the network (topologies/paths.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from dc_gym.base import units
from dc_gym.base.errors import SpecError, TopologyError
from dc_gym.base.units import FRAME_BYTES

NS = 10**9
_WORD = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(p|bdp)", re.IGNORECASE)


PATTERN = rf"[0-9]+(\.[0-9]+)? ?([pP]|{units.either_case('bdp')})|{units.pattern(units.SIZE_UNITS)}"
"""A regular expression of the texts that are amounts."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of full frames, or of bandwidth-delay products."""

    number: Fraction
    unit: str  # 'p' or 'bdp'

    def __str__(self) -> str:
        return f"{units.format_fraction(self.number)}{self.unit}"

    def bytes_at(self, rate_bps: int, rtt_ns: int, frame_bytes: int = FRAME_BYTES) -> int:
        """Returns bytes, rounded down, for a port of that rate in a network of that base round trip. The least is one frame."""
        whole = frame_bytes if self.unit == "p" else Fraction(rate_bps * rtt_ns, 8 * NS)
        return max(frame_bytes, int(self.number * whole))


Size = int | Amount
"""Bytes, or an amount that becomes bytes once rate and round trip are known."""


def parse(value: int | str, field: str = "size") -> Size:
    """Parses a number of bytes, '400kB', '100p' or '2bdp'."""
    if isinstance(value, int):
        return value
    match = _WORD.fullmatch(value)
    if match is None:
        try:
            return units.parse_size_bytes(value, field)
        except (units.Misspelt, units.TooFine):
            raise
        except SpecError:
            raise SpecError(f"{field}: value {value!r} is not an amount; write it like '400kB', '100p' or '2bdp'") from None
    number = Fraction(match[1])
    if not number:
        raise SpecError(f"{field}: value {value!r} is not above 0; give more")
    return Amount(number, match[2].lower())


def write(value: Size) -> str:
    """Returns the text that parses back to the same value."""
    return units.format_size(value) if isinstance(value, int) else str(value)


def write_plain(value: Size) -> int | str:
    """Does the same as `write`, but returns bytes as a number."""
    return value if isinstance(value, int) else str(value)


def in_bytes(value: Size, rate_bps: int, rtt_ns: int | None, frame_bytes: int) -> int:
    """Returns the bytes at a port. `rtt_ns` may be None as long as nothing is given in BDPs."""
    if isinstance(value, int):
        return value
    if value.unit == "bdp" and rtt_ns is None:
        raise TopologyError(f"amount {value}: the round trip is not known; give bytes or frames")
    return value.bytes_at(rate_bps, rtt_ns or 0, frame_bytes)
