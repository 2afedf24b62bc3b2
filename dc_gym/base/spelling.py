# SPDX-License-Identifier: Apache-2.0
"""One line about a name that nobody knows: what may have been meant, else all that there is.

First come names that differ in case, dashes or blanks alone, then those that begin with what was written, then the nearest.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["hint", "near", "unknown"]

LIKENESS = 0.5
"""Share of the letters that two names must have in common, as difflib counts it."""
AS_NEAR = 0.11
"""A name that is less like it by no more than this may have been meant as well."""
LEAST_LETTERS = 3
"""Shorter beginnings say too little."""
MOST = 4


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """feature 'backlogg' is unknown; did you mean backlog? Without a near one: all that there are."""
    return f"{what} {name!r} is unknown; {hint(name, known)}"


def hint(name: str, known: Iterable[str]) -> str:
    """What may have been meant; else all."""
    names = list(known)
    found = near(name, names)
    return f"did you mean {_either(found)}?" if found else f"one of: {', '.join(names)}"


def near(name: str, known: Iterable[str]) -> list[str]:
    """The names that may have been meant, the likeliest first; [] where none is like it."""
    names, folded = list(known), _fold(name)
    if same := [each for each in names if _fold(each) == folded]:
        return same
    begun = [each for each in names if _fold(each).startswith(folded)] if len(folded) >= LEAST_LETTERS else []
    return begun if 0 < len(begun) <= MOST else _alike(folded, names)


def _alike(folded: str, names: list[str]) -> list[str]:
    likeness = {each: SequenceMatcher(None, _fold(each), folded).ratio() for each in names}
    least = max(LIKENESS, max(likeness.values(), default=0.0) - AS_NEAR)
    found = sorted((each for each in names if likeness[each] >= least), key=lambda each: -likeness[each])
    return found[:MOST]


def _fold(name: str) -> str:
    """Without what is easily mistaken: case, and what joins words."""
    return name.lower().replace("-", "_").replace(" ", "_")


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
