# SPDX-License-Identifier: Apache-2.0
"""Files from elsewhere that are read whole: only as many bytes as the policy of their kind allows are taken into memory.

The size that a file states is compared first, so a file that states too much is not read at all.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.readable import quantity

__all__ = ["TABLE_BYTES", "TEXT_BYTES", "read_bytes", "read_text", "require", "sha256_of"]

TEXT_BYTES = 64_000_000
"""Texts that are parsed into many objects, which take ten times their size: JSON, TOML, Python, size distributions."""
TABLE_BYTES = 256_000_000
"""Tables of comma-separated values."""
REMEDY = "give another file, or get it again"


def require(
    source: Path | str, stated_bytes: int, most_bytes: int, remedy: str = REMEDY, error: type[UsageError] = UsageError
) -> None:
    """Raises an error in one line if something states more bytes than its kind may have."""
    if stated_bytes > most_bytes:
        stated, most = quantity(stated_bytes, "bytes"), quantity(most_bytes, "bytes")
        raise error(f"{source} states {stated}, and of its kind at most {most} are read: it would fill the memory; {remedy}")


def read_bytes(path: Path, most_bytes: int = TEXT_BYTES) -> bytes:
    """Returns the content of a file. Raises UsageError if it is too large, OSError if it cannot be read."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            require(f"{path}:", status.st_size, most_bytes)
        content = file.read(most_bytes + 1)
    require(f"{path}:", len(content), most_bytes)
    return content


def read_text(path: Path, most_bytes: int = TEXT_BYTES, errors: str = "strict") -> str:
    """Returns the text of a file in UTF-8, with line ends as of Unix and without a byte order mark, which Windows writes.

    Raises as `read_bytes`, and UnicodeDecodeError.
    """
    return read_bytes(path, most_bytes).decode("utf-8-sig", errors).replace("\r\n", "\n").replace("\r", "\n")


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file of any size. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
