# SPDX-License-Identifier: Apache-2.0
"""Reads JSON that somebody else may have written. Everything that is wrong with it is a ValueError."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dc_gym.base import bounded


def loads(text: str) -> Any:
    """Returns the value of a JSON text. Raises ValueError, also where Python would run out of its stack."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its lists or objects lie too deep in one another") from None


def read(path: Path) -> Any:
    """Returns the value of a JSON file.

    Raises OSError if it cannot be read, UsageError if it is too large, ValueError if it is no JSON in UTF-8.
    """
    return loads(bounded.read_text(path))
