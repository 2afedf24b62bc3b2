# SPDX-License-Identifier: Apache-2.0
"""Numbers for readers: in engineering units, with sensible digits, with thousands separators, never with an exponent.

    quantity(73.4e9, "bps")          73.4 Gbit/s
    quantity(2.723e5, "us")          272.3 ms
    scale_of("s", values)            the unit in which all of these read well: a column, an axis
    with_interval(3.5, 0.62)         3.50 +- 0.62

A family is a base unit: `family_of` finds it in the name of a metric. units.py, which is exact, writes the values of a spec.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "FAMILIES",
    "NOTHING",
    "Scale",
    "axis_scale",
    "column",
    "columns",
    "family_of",
    "number",
    "quantity",
    "scale_of",
    "sentence",
    "typeset",
    "with_interval",
]

NOTHING = "-"
"""Text for a missing number."""
DIGITS = 4
MOST_PLACES = 9
FAMILIES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "bps": ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1, "bit/s")),
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1, "B")),
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "us": ((1e6, "s"), (1e3, "ms"), (1, "us"), (1e-3, "ns")),
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")),
    "share": ((1e-2, "%"),),
    "": ((1, ""),),
}
"""For each base unit, the units that readers prefer, each with its size in base units, the largest first."""
SUFFIXES = {"_bps": "bps", "_bytes": "bytes", "_us": "us", "_ns": "ns", "_s": "s", "_ratio": "share", "_share": "share"}
SHARES = ("utilization",)


@dataclass(frozen=True, slots=True)
class Scale:
    """A unit, and its size in base units."""

    factor: float
    unit: str

    def of(self, value: float) -> float:
        """Converts a value from base units to this unit."""
        return value if self.factor == 1 else value / self.factor

    def text(self, value: float | None, digits: int = DIGITS) -> str:
        """Returns the number and the unit."""
        return NOTHING if value is None or not math.isfinite(value) else _joined(number(self.of(value), digits), self.unit)


def family_of(name: str) -> str:
    """Returns the family of a metric or of a nested key, by the end of its name: mean_srtt_us is us.

    '' stands for a plain number. An element of a list has the family of the list: flow_goodput_bps.0.
    """
    plain = name.partition(".")[0]
    if plain in SHARES:
        return "share"
    return next((family for suffix, family in SUFFIXES.items() if plain.endswith(suffix)), "")


def scale_of(family: str, values: Iterable[float]) -> Scale:
    """Returns the unit in which these values, in base units, read well side by side: the one for their geometric mean."""
    logs = [math.log(abs(value)) for value in values if math.isfinite(value) and value]
    return _largest_below(family, math.exp(sum(logs) / len(logs)) if logs else 0.0)


def axis_scale(family: str, peak: float) -> Scale:
    """Returns the unit of an axis from 0 to `peak`, in base units, with ticks that are whole numbers or close to it."""
    return _largest_below(family, abs(peak) / 2 if math.isfinite(peak) else 0.0)


def quantity(value: float | None, family: str, digits: int = DIGITS) -> str:
    """Returns a value in base units as text with a readable unit, or '-' if there is none."""
    if value is None or not math.isfinite(value):
        return NOTHING
    rounded = float(f"{abs(value):.{digits - 1}e}")  # 999.96 kB become 1 MB
    return _largest_below(family, rounded).text(value, digits)


def number(value: float | None, digits: int = DIGITS, minus: str = "-") -> str:
    """Returns a number with so many significant digits, or more where they stand before the point, without trailing zeros.

    An int is written in full.
    """
    if value is None or not math.isfinite(value):
        return NOTHING
    if isinstance(value, int):
        return fixed(value, 0, minus=minus)
    if value == 0:
        return "0"
    return fixed(value, max(0, digits - 1 - math.floor(math.log10(abs(value)))), strip=True, minus=minus)


def sentence(words: str) -> str:
    """Returns words with a capital first letter, as in a label."""
    return words[:1].upper() + words[1:]


def typeset(unit: str) -> str:
    """Returns a unit in the form for a page or a figure, which is not limited to ASCII."""
    return "\u00b5s" if unit == "us" else unit


def column(values: Sequence[float | None], family: str = "", digits: int = DIGITS) -> tuple[str, list[str]]:
    """Returns the unit of a column of a table, and its cells.

    All cells have the same number of decimal places, so that they align.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    scale = scale_of(family, known)
    places = 0 if all(isinstance(value, int) for value in known) and scale.factor == 1 else _places(map(scale.of, known), digits)
    cells = [NOTHING if value is None or not math.isfinite(value) else fixed(scale.of(value), places) for value in values]
    return scale.unit, cells


def with_interval(
    mean: float,
    half: float | None,
    *,
    signed: bool = False,
    minus: str = "-",
    plus_minus: str = " +- ",
    digits: int = DIGITS,
    places: int = MOST_PLACES,
) -> str:
    """Returns the mean and half the width of its interval as text, with two digits of the latter, at most `places` places.

    A value without an interval has `digits` digits.
    """
    sign = "+" if signed and mean > 0 else ""
    if half is None or not math.isfinite(half):
        return sign + number(float(mean), digits, minus)
    if half == 0:
        return f"{sign}{number(float(mean), digits + 2, minus)}{plus_minus}0"
    places = min(places, max(0, 1 - math.floor(math.log10(half))))
    return f"{sign}{fixed(mean, places, minus=minus)}{plus_minus}{fixed(half, places)}"


def fixed(value: float, places: int, *, strip: bool = False, minus: str = "-") -> str:
    """Returns a number with so many decimal places. `strip` removes trailing zeros. -0 becomes 0."""
    text = f"{abs(value):,.{places}f}"
    if strip and "." in text:
        text = text.rstrip("0").rstrip(".")
    return (minus if value < 0 and any(digit in text for digit in "123456789") else "") + text


def columns(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Returns rows of texts as lines. Each column is as wide as its widest text; the last one is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append((indent + "  ".join([*cells, row[-1]])).rstrip())
    return "\n".join(lines)


def _largest_below(family: str, value: float) -> Scale:
    """Returns the largest unit of which the value is at least one, or the smallest unit if there is none."""
    units = FAMILIES[family]
    return Scale(*next((unit for unit in units if value >= unit[0] * (1 - 1e-9)), _base(units) if value == 0 else units[-1]))


def _base(units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Returns the base unit itself, in which 0 is written, or the only unit where the base unit has no name."""
    return next((unit for unit in units if unit[0] == 1), units[-1])


def _places(values: Iterable[float], digits: int) -> int:
    """Returns enough decimal places for `digits` digits of the middle value, and for two of the smallest."""
    orders = sorted(math.floor(math.log10(abs(value))) for value in values if value)
    if not orders:
        return 0
    return min(MOST_PLACES, max(0, digits - 1 - orders[len(orders) // 2], 1 - orders[0]))


def _joined(text: str, unit: str) -> str:
    return f"{text} {unit}".rstrip()
