# SPDX-License-Identifier: Apache-2.0
"""One line about a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """feature 'backlogg' is unknown; did you mean backlog? Without a near one: all that there are."""
    names = list(known)
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"{what} {name!r} is unknown; " + (f"did you mean {near[0]}?" if near else f"one of: {', '.join(names)}")
