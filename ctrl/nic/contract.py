# SPDX-License-Identifier: Apache-2.0
"""Checks an algorithm against the contract of docs/nic-algorithms.md, as far as its object file and its includes show it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Collection
from pathlib import Path

from dc_gym.base.errors import UsageError

MEMORY = frozenset("bBdDcCsSgGu")
"""Types of symbols (nm) that are memory which may change."""
OUTSIDE = frozenset("Uw")
"""Types of symbols (nm) that another object has to bring."""
COMPILERS_OWN = frozenset({"memcpy", "memset", "memmove", "memcmp", "__stack_chk_fail"})
"""Functions that compilers call by themselves."""
LOCAL_NAME = re.compile(r"^cc_\w+\.|\.\d+$")
"""The ending that compilers add to the name of a static variable of a function."""


def check(header: Path, product: Path, files: Path, shared: Collection[Path]) -> None:
    """Raises UsageError with the first thing that an algorithm must not do.

    `product` is the object of ccalone.c with this header. `files` lists its sources for make. `shared` are the folders with
    headers that every algorithm may include.
    """
    for source in _listed_in(files):
        if source != header.resolve() and not any(source.is_relative_to(folder.resolve()) for folder in shared):
            raise UsageError(f"{header}: it includes {source}; an algorithm is one header, which includes only cc.h")
    symbols = subprocess.run(["nm", "-f", "posix", str(product)], capture_output=True, text=True, check=True).stdout
    for name, kind in (line.split()[:2] for line in symbols.splitlines()):
        symbol = repr(LOCAL_NAME.sub("", name))
        if kind in MEMORY:
            raise UsageError(f"{header}: {symbol} is memory of its own; keep it in state[], the only memory of an algorithm")
        if kind in OUTSIDE and name not in COMPILERS_OWN:
            raise UsageError(f"{header}: {symbol} is not in it; an algorithm uses no code and no data outside of its header")


def _listed_in(path: Path) -> list[Path]:
    """Returns the files of a compiler's list for make, resolved."""
    words = path.read_text().replace("\\\n", " ").replace("\\ ", "\0").split()[1:]
    return [Path(word.replace("\0", " ")).resolve() for word in words]
