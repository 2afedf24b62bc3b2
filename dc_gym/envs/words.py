# SPDX-License-Identifier: Apache-2.0
"""One line about a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """feature 'backlogg' is unknown; did you mean backlog? Without a near one: all that there are."""
    return f"{what} {name!r} is unknown; {hint(name, known)}"


def hint(name: str, known: Iterable[str], most: int = 1) -> str:
    """What may have been meant: the nearest, or `most` of them; else all."""
    names = list(known)
    near = get_close_matches(name, names, n=most, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"one of: {', '.join(names)}"
