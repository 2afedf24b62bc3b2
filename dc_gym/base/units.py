# SPDX-License-Identifier: Apache-2.0
"""Quantities with units, parsed once when they are read: '10Mbit/s' -> bit/s, '10us' -> ns, '400kB' -> bytes.

Conversions are exact: Fraction inside, integers outside. A value that is not a whole number of base units is an error; it is not
rounded. Rates and times are decimal; sizes are decimal (kB, MB, GB) or binary (KiB, MiB, GiB). Other common spellings are
accepted where they have only one meaning: a blank before the unit, and, for rates and times, other capitals and tc's words
(10mbit, 5msec). For an ambiguous spelling the error shows both meanings: KB may be 1000 bytes or 1024, and Mbps means megabytes a
second in tc.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction

from dc_gym.base.errors import SpecError

RATE_UNITS = {"bit/s": 1, "kbit/s": 10**3, "Mbit/s": 10**6, "Gbit/s": 10**9}
TIME_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
SIZE_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
MTU_BYTES, ETHERNET_BYTES = 1500, 14
FRAME_BYTES = MTU_BYTES + ETHERNET_BYTES  # a full frame, where a network has no other MTU (Graph.frame_bytes)
TCP_HEADERS_BYTES, UDP_HEADERS_BYTES = 52, 28  # in an IPv4 packet: a full TCP segment has timestamps
PPM, PPB = 10**6, 10**9
LARGEST = 2**63 - 1  # fits every signed 64-bit field further down

_RATE_WORDS = {word: unit for unit in RATE_UNITS for word in (unit.lower(), unit.lower().removesuffix("/s"))}
_TIME_WORDS = {f"{unit[:-1]}{second}": unit for unit in TIME_UNITS for second in ("s", "sec", "secs")}
_SIZE_WORDS = {unit[0].lower() + unit[1:]: unit for unit in ("KiB", "MiB", "GiB")}
"""Spellings of tc(8) and of people, by meaning.

Those of rates and times are in small letters; in sizes the B distinguishes bytes from bits.
"""
_MICRO = str.maketrans("\u00b5\u03bc", "uu")
_NUMBER = r"([0-9]{1,40}(?:\.[0-9]{1,40})?)"  # longer ones are no quantity, and int() refuses thousands of digits
_QUANTITY = re.compile(_NUMBER + r" ?([^0-9\s].*)")
_RATE_SLIP = re.compile(r"([kmg]?)(?:bits?|b|)(ps|/s|/sec)?", re.IGNORECASE)
_SIZE_SLIP = re.compile(r"([kmg]?)(i?)(?:b|bytes?|)", re.IGNORECASE)
_PREFIXES = {"": "", "k": "k", "m": "M", "g": "G"}


class QuantityError(SpecError):
    """The text is no quantity, or one that is not possible."""

    def __init__(self, field: str, value: object, why: str) -> None:
        super().__init__(f"{field}: value {value!r} {why}")
        self.why = why


class NoQuantity(QuantityError):
    """The text is no number with a unit."""


class TooFine(QuantityError):
    """The quantity lies between two that are possible."""


class Misspelt(QuantityError):
    """The unit is misspelled or ambiguous. `why` contains the right spelling."""


def pattern(units: Mapping[str, int]) -> str:
    """Returns a regular expression, without anchors, of the texts that are quantities of these units (RATE_UNITS, ...)."""
    words = _SIZE_WORDS if units is SIZE_UNITS else _RATE_WORDS if units is RATE_UNITS else _TIME_WORDS
    if units is not SIZE_UNITS:
        words = {either_case(word): unit for word, unit in words.items()}
    spelled = "|".join(sorted({*units, *words} if units is SIZE_UNITS else words, key=lambda word: (-len(word), word)))
    return rf"[0-9]+(\.[0-9]+)? ?({spelled})"


def either_case(word: str) -> str:
    """Returns a regular expression of a word in upper or lower case; u stands for the Greek letter, too."""
    letters = {letter: f"[{letter}{letter.upper()}]" for letter in word if letter.isalpha()}
    letters["u"] = "[uU\u00b5\u03bc]"
    return "".join(letters.get(letter, letter) for letter in word)


def parse_rate_bps(text: str, field: str = "rate") -> int:
    """Returns the bits per second of a text such as '10Mbit/s'."""
    return _parse(text, field, RATE_UNITS, "10Mbit/s")


def parse_time_ns(text: str, field: str = "time") -> int:
    """Returns the nanoseconds of a text such as '2.5us' (2500)."""
    return _parse(text, field, TIME_UNITS, "10us")


def parse_size_bytes(text: str, field: str = "size") -> int:
    """Returns the bytes of a text such as '400kB' (400,000) or '512MiB'."""
    return _parse(text, field, SIZE_UNITS, "400kB")


def format_rate(rate_bps: int) -> str:
    """Returns the shortest text that parses back to the same rate: 10_000_000 -> '10Mbit/s'."""
    return _format(rate_bps, RATE_UNITS)


def format_time(time_ns: int) -> str:
    """Returns the shortest text that parses back to the same time: 2500 -> '2.5us'."""
    return _format(time_ns, TIME_UNITS)


def format_size(size_bytes: int) -> str:
    """Returns the shortest text that parses back to the same size: 400_000 -> '400kB', 536_870_912 -> '512MiB'."""
    return _format(size_bytes, SIZE_UNITS)


def parse_range(text: str, most: int) -> range | None:
    """Returns the whole numbers of a range such as "1..3", at most `most` + 1 of them; None if the text is no range."""
    numbers = re.fullmatch(r"(\d+)\.\.(\d+)", text)
    if numbers is None:
        return None
    first, last = int(numbers[1]), int(numbers[2])
    return range(first, min(last, first + most) + 1)


def parse_share(value: object, parts: int, field: str = "share") -> int:
    """Returns a share such as 0.001 or '0.1%' as a number of `parts`."""
    match = re.fullmatch(_NUMBER + " ?%", value) if isinstance(value, str) else None
    if match is None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise SpecError(f"{field}: value {value!r} is not a share; write it like '0.1%' or 0.001")
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{field}: value {value!r} is not a share; write it like '0.1%' or 0.001")
    share = Fraction(match[1]) / 100 if match else Fraction(str(value))
    if (share * parts).denominator != 1:
        raise TooFine(field, value, f"is too fine: shares are multiples of {format_share(1, parts)} (one in {parts:,}); round it")
    return int(share * parts)


def format_share(count: int, parts: int) -> str:
    """Returns the text that parses back to the same share: 1_000_000 of 10^9 -> '0.1%'."""
    return f"{format_fraction(Fraction(100 * count, parts))}%"


def format_fraction(value: Fraction) -> str:
    """Returns a fraction whose denominator divides a power of ten as a decimal number."""
    return _exact(value.numerator, value.denominator)


def _parse(text: object, field: str, units: dict[str, int], example: str) -> int:
    """Returns the quantity in base units."""
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    unit = _unit(match[2], units) if match else None
    if match is None or unit is None:
        if match and (slip := _meant(match[1], match[2], units)):
            raise Misspelt(field, text, slip)
        raise NoQuantity(field, text, f"is not a number with a unit ({', '.join(units)}); write it like '{example}'")
    value = Fraction(match[1]) * units[unit]
    base = next(iter(units))
    if value.denominator != 1:
        raise TooFine(field, text, f"is not a whole number of {base}; round it")
    if value > LARGEST:
        raise QuantityError(field, text, f"is above {LARGEST} {base}; give a smaller one")
    return int(value)


def _unit(word: str, units: dict[str, int]) -> str | None:
    """Returns the unit that a word clearly means, or None."""
    if word in units:
        return word
    if units is SIZE_UNITS:
        return _SIZE_WORDS.get(word)
    return (_RATE_WORDS if units is RATE_UNITS else _TIME_WORDS).get(word.translate(_MICRO).lower())


def _meant(number: str, word: str, units: dict[str, int]) -> str:
    """Returns why a word is no unit and the right spelling of the most similar unit, or '' if no unit is similar."""
    if units is RATE_UNITS and (rate := _RATE_SLIP.fullmatch(word)):
        prefix = _PREFIXES[rate[1].lower()]
        if "B" in word:
            return f"counts bytes, and rates are in bits; write '{format_fraction(8 * Fraction(number))}{prefix}bit/s'"
        doubt = (
            "has a unit that is bytes a second to tc and bits a second to others" if rate[2] == "ps" else "has no unit of rates"
        )
        return f"{doubt}; write '{number}{prefix}bit/s'"
    if units is SIZE_UNITS and (size := _SIZE_SLIP.fullmatch(word)):
        prefix = _PREFIXES[size[1].lower()]
        if not prefix:
            return f"has no unit of sizes; write '{number}B'"
        binary = f"'{number}{prefix.upper()}iB' ({_spelled(number, 2 ** (10 * 'kMG'.index(prefix) + 10))})"
        if size[2]:
            return f"has no unit of sizes; write {binary}"
        decimal = f"'{number}{prefix}B' ({_spelled(number, SIZE_UNITS[f'{prefix}B'])})"
        return f"may be decimal or binary; write {decimal} or {binary}"
    return ""


def _spelled(number: str, scale: int) -> str:
    """Returns text such as '400,000 bytes' for '400' of scale 1000."""
    count = Fraction(number) * scale
    return f"{count.numerator:,} bytes" if count.denominator == 1 else f"{float(count):,} bytes"


def _format(value: int, units: dict[str, int]) -> str:
    """Returns the shortest exact text. If two are equally short, it returns the text with the larger unit."""
    base = next(iter(units))
    if value < 0:
        raise SpecError(f"{base}: value {value} is negative; give 0 or more")
    texts = [_exact(value, scale) + unit for unit, scale in reversed(units.items()) if scale <= value]
    return min(texts, key=len, default=f"0{base}")


def _exact(value: int, scale: int) -> str:
    """Returns value / scale as a decimal number without rounding (every scale divides a power of ten)."""
    whole, rest = divmod(value, scale)
    digits = ""
    while rest:
        digit, rest = divmod(rest * 10, scale)
        digits += str(digit)
    return f"{whole}.{digits}" if digits else str(whole)
