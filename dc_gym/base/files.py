# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are removed with the process that made them.

They are scratch folders, and single files written whole or not at all. Only dc-gym's own files are ever removed: those with its
lock (folder_lock.py).
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dc_gym.base import folder_lock, janitor
from dc_gym.base.errors import MachineError
from dc_gym.base.folder_lock import LOCK

__all__ = ["PARTIAL", "SCRATCH", "discard", "put", "remove", "scratch", "whole", "words"]

PARTIAL = ".partial"
"""Ending of the name of a file or folder while it is written."""
SCRATCH = tuple(
    f"dcgym-{what}-"
    for what in ("verify", "doctor", "links", "user", "cell", "bench", "golden", "conformance", "vm", "ray", "env", "nic")
)
"""Beginnings of the names of scratch folders."""
SCRATCH_REMEDY = "another folder to work in, by TMPDIR or by going there"
"""Advice for an error: many commands need a scratch folder and have no --out."""


@contextlib.contextmanager
def scratch(parent: Path, prefix: str, name: str = "") -> Iterator[Path]:
    """Creates a folder in `parent` that is removed afterwards, also after a kill -9.

    The unprivileged user as whom root's labs run can read it.
    """
    assert prefix in SCRATCH, "`dcgym clean` finds them by name"
    path = parent.resolve() / f"{prefix}{name}{secrets.token_hex(4)}"
    with janitor.watching(path) as watch:
        with words("make", path, SCRATCH_REMEDY):
            path.mkdir(parents=True)
            path.chmod(0o755)
            held = folder_lock.take(path)
        assert held is not None, "nobody else knows its name"
        try:
            yield path
        finally:
            try:
                discard(path)
                watch.done = not path.exists()
            finally:
                os.close(held)  # the janitor, for which this waits, removes what is left


def put(path: Path, content: bytes) -> Path:
    """Writes a single file that a user asked for, whole or not at all. Creates its folder if necessary."""
    with words("write", path, "another path"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as work:
            work.write_bytes(content)
    return path


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[object]]) -> bytes:
    """Returns a table as CSV, with lines that end as on Unix."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([header, *rows])
    return stream.getvalue().encode()


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yields the path to write a file to. The file gets its own name at the end; after an OSError nothing is left of it."""
    work = path.with_name(path.name + PARTIAL)
    try:
        yield work
        work.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            work.unlink()
        raise


def discard(path: Path) -> None:
    """Removes as much as it can of a folder that this process holds.

    The lock goes last, because it shows that the rest is dc-gym's.
    """
    try:
        for each in path.iterdir():
            if each.name != LOCK:
                remove(each)
    except (OSError, MachineError):
        return
    shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def words(doing: str, path: Path, other: str = "another --out") -> Iterator[None]:
    """Turns an OSError inside the context into one line that names what was tried."""
    try:
        yield
    except OSError as error:
        remedy = f"free some room, or give {other}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"give {other}"
        raise MachineError(f"cannot {doing} {path}: {error.strerror or error}; {remedy}") from None


def remove(path: Path) -> None:
    """Removes a file, a link, or a folder with all its contents."""
    with words("remove", path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
