# SPDX-License-Identifier: Apache-2.0
"""A range of whole numbers as a grid and `--where` write it: 1..3."""

from __future__ import annotations

import re

MOST = 10_000
"""The most numbers of a range that is of use: a sweep has no more runs."""
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def in_range(text: str) -> range | None:
    """Returns the numbers of a range, both ends included, but at most one more than `MOST`; None for another text."""
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    first, last = int(found[1]), int(found[2])
    return range(first, min(last, first + MOST) + 1)
