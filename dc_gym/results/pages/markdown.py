# SPDX-License-Identifier: Apache-2.0
"""Tables of the documentation, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yields the lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |".replace("|  |", "| |").replace("|  |", "| |")
