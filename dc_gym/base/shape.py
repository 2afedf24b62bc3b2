# SPDX-License-Identifier: Apache-2.0
"""Checks the values of a JSON file against their shape, before anybody uses them.

A shape is one of these:

    str, bool, None, ANY        a value of that type; ANY is every value
    Number(least, most)         a finite number in that range; COUNT is a whole one that is not negative
    (SHAPE, SHAPE)              a value of one of these shapes
    [SHAPE]                     a list of any length
    {"key": SHAPE}              an object with that key; further ones are free. "key?": it may lack the key
    {..., str: SHAPE}           all its further keys have values of this shape
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANY = object()
SHOWN = 40
"""Letters of a wrong value that are shown."""


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number. Measurements of a run stay far below the default's largest, and arithmetic with them below infinity."""

    least: float = -1e30
    most: float = 1e30
    whole: bool = False

    def __str__(self) -> str:
        limits = "" if self == NUMBER else f" from {self.least:.6g} to {self.most:.6g}"
        return f"a {'whole ' if self.whole else ''}number{limits}"

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return False
        return self.least <= value <= self.most  # false for NaN


NUMBER = Number()
COUNT = Number(0, 2**63 - 1, whole=True)


def fault(value: Any, shape: Any, key: str = "") -> str | None:
    """Returns the first difference of a value from its shape as "KEY: the fault", or None. `key`: the value's own key."""
    if _holds(value, shape):
        return None
    if isinstance(shape, tuple):
        alike = [part for part in shape if isinstance(value, dict | list) and isinstance(part, (type(value), tuple))]
        faults = [fault(value, part, key) for part in alike]
        return None if None in faults else faults[0] if faults else _wrong(value, shape, key)
    if isinstance(shape, dict) and isinstance(value, dict):
        return _fault_of_keys(value, shape, key)
    if isinstance(shape, list) and isinstance(value, list):
        return next((words for row, entry in enumerate(value) if (words := fault(entry, shape[0], f"{key}[{row}]"))), None)
    return _wrong(value, shape, key)


def _fault_of_keys(value: Mapping[str, Any], shape: Mapping[Any, Any], key: str) -> str | None:
    rest = shape.get(str, ANY)
    for name in shape:
        if isinstance(name, str) and not name.endswith("?") and name not in value:
            return f"{_inside(key, name)}: is missing"
    for name, entry in value.items():
        part = shape[name] if name in shape else shape.get(f"{name}?", rest)
        if not _holds(entry, part) and (words := fault(entry, part, _inside(key, name))):
            return words
    return None


def _holds(value: Any, shape: Any) -> bool:
    """Returns True if a value has a shape without parts, or one of several. A value with parts must be checked part by part."""
    if isinstance(shape, Number):
        return shape.holds(value)
    if isinstance(shape, tuple):
        return any(_holds(value, part) for part in shape)
    return shape is ANY or (value is None if shape is None else isinstance(shape, type) and isinstance(value, shape))


def _wrong(value: Any, shape: Any, key: str) -> str:
    text = repr(value)
    excerpt = text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
    return f"{key or 'the whole'}: {excerpt} is not {_named(shape)}"


def _named(shape: Any) -> str:
    if isinstance(shape, tuple):
        return " or ".join(dict.fromkeys(_named(part) for part in shape))
    if isinstance(shape, dict | list):
        return "an object" if isinstance(shape, dict) else "a list"
    return {str: "a text", bool: "true or false", None: "null"}.get(shape) or str(shape)


def _inside(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
