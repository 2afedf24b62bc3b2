# SPDX-License-Identifier: Apache-2.0
"""One line about an unknown name: the names that may have been meant, otherwise all known names.

First come names that differ only in case, dashes or blanks, then names that begin with the unknown one, then the most similar.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

__all__ = ["hint", "near", "unknown"]

LIKENESS = 0.5
"""Share of the letters that two names must have in common, as difflib counts it."""
AS_NEAR = 0.11
"""A name that is less similar than the best by at most this much may have been meant as well."""
LEAST_LETTERS = 3
"""Shorter beginnings of a name are not considered."""
MOST = 4


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """Returns text such as "feature 'backlogg' is unknown; did you mean backlog?".

    Without a similar name it lists all known names.
    """
    return f"{kind} {name!r} is unknown; {hint(name, known)}"


def hint(name: str, known: Iterable[str]) -> str:
    """Returns the names that may have been meant, otherwise all."""
    names = list(known)
    similar = near(name, names)
    return f"did you mean {_either(similar)}?" if similar else f"one of: {', '.join(names)}"


def near(name: str, known: Iterable[str]) -> list[str]:
    """Returns the names that may have been meant, the likeliest first; [] if none is similar."""
    names, folded = list(known), _fold(name)
    if same := [word for word in names if _fold(word) == folded]:
        return same
    begun = [word for word in names if _fold(word).startswith(folded)] if len(folded) >= LEAST_LETTERS else []
    return begun if 0 < len(begun) <= MOST else _alike(folded, names)


def _alike(folded: str, names: list[str]) -> list[str]:
    likeness = {word: SequenceMatcher(None, _fold(word), folded).ratio() for word in names}
    least = max(LIKENESS, max(likeness.values(), default=0.0) - AS_NEAR)
    likeliest = sorted((word for word in names if likeness[word] >= least), key=lambda word: -likeness[word])
    return likeliest[:MOST]


def _fold(name: str) -> str:
    """Removes differences that are easily overlooked: case, and the characters that join words."""
    return name.lower().replace("-", "_").replace(" ", "_")


def _either(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
