# SPDX-License-Identifier: Apache-2.0
"""Files and folders that are removed with the process that made them.

They are scratch folders, and single files written whole or not at all. Only dc-gym's own files are ever removed: files with its
lock (folder_lock.py).
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dc_gym.base import folder_lock, janitor, unfinished
from dc_gym.base.errors import MachineError, naming, with_remedy
from dc_gym.base.folder_lock import LOCK
from dc_gym.base.pinned import pinned
from dc_gym.base.process_bound import this_process
from dc_gym.base.unfinished import PARTIAL

__all__ = [
    "FAILED",
    "ODD",
    "PARTIAL",
    "SCRATCH",
    "discard",
    "empty",
    "in_full",
    "machine_errors",
    "put",
    "remove",
    "scratch",
    "sync",
    "sync_tree",
    "whole",
]

FAILED = ".failed"
"""Ending of the name of a folder with the records of a run that failed after its traffic."""
SCRATCH = tuple(
    f"dcgym-{what}-"
    for what in (
        "study",
        "verify",
        "doctor",
        "fabric",
        "links",
        "user",
        "cell",
        "bench",
        "golden",
        "conformance",
        "vm",
        "ray",
        "env",
        "nic",
        "make",
        "memory",
        "shell",
    )
)
"""Beginnings of the names of scratch folders."""
ODD = re.compile(r"""[\s,:"'\\$#]""")
"""Characters of a path that the command line of the lab kernel, or of make, could take for something else."""
SCRATCH_REMEDY = "another folder to work in, by TMPDIR or by going there"
"""Advice for an error: many commands need a scratch folder and have no --out."""


@contextlib.contextmanager
def scratch(parent: Path, prefix: str, name: str = "", *, mode: int = 0o755) -> Iterator[Path]:
    """Creates a folder in `parent` that is removed afterwards, also after a kill -9.

    By default the unprivileged user as whom root's labs run can read it.
    """
    assert prefix in SCRATCH, "`dcgym clean` finds them by name"
    owner, path = this_process(), parent.resolve() / f"{prefix}{name}{secrets.token_hex(4)}"
    with janitor.watching(path) as watch:
        with machine_errors("make", path, SCRATCH_REMEDY):
            path.parent.mkdir(parents=True, exist_ok=True)
        with machine_errors("make", path, SCRATCH_REMEDY), folder_lock.beginning(path.parent):
            path.mkdir(mode)
            path.chmod(mode)
            held = folder_lock.take(path)
        assert held is not None, "nobody else knows its name"
        try:
            yield path
        finally:
            try:
                if owner.is_here():
                    discard(path)
                    watch.done = not path.exists()
            finally:
                held.close()  # the janitor, for which this waits, removes the rest


def put(path: Path, content: bytes) -> Path:
    """Writes a single file that a user asked for, whole or not at all. Creates its folder if necessary."""
    with machine_errors("write", path, "another path"):
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
def whole(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yields the path to write a file to. The file gets its own name at the end; after an error nothing is left of it.

    Processes that write the same file at the same time do not disturb each other. `durable`: it has its name and content on disk
    afterwards, so a power failure leaves the older file or the new one. The path leads to the file itself, so nobody who may
    write the folder can lead the writing elsewhere.
    """
    with naming(path), unfinished.created(path) as (work, fd):
        try:
            yield Path(f"/proc/self/fd/{fd}")
            if durable:
                os.fsync(fd)
            unfinished.require_same(work, fd)
            work.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                work.unlink()
            raise
        if durable:
            sync(path.parent)


def sync(path: Path) -> None:
    """Returns when data and names of a file or folder are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Returns when all files and folders in a folder are on disk. It opens nothing else, such as a link or a pipe."""
    for parent, _, files in os.walk(folder, topdown=False):
        for path in (Path(parent, name) for name in files):
            if stat.S_ISREG(path.lstat().st_mode):
                sync(path)
        sync(Path(parent))


def discard(path: Path) -> None:
    """Removes as much as it can of a folder that this process holds.

    The lock goes last, because it shows that the rest is dc-gym's.
    """
    with contextlib.suppress(OSError, MachineError):
        empty(path, lock_too=True)
        path.rmdir()


def empty(path: Path, *, lock_too: bool = False) -> None:
    """Removes everything in a folder but its lock. It removes nothing in a folder without dc-gym's lock, or through a link."""
    with pinned(path) as itself:
        if not folder_lock.is_ours(itself):
            return
        for entry in itself.iterdir():
            if entry.name != LOCK:
                _remove_in(itself, entry.name, path)
        if lock_too:
            (itself / LOCK).unlink()


def _remove_in(itself: Path, name: str, path: Path) -> None:
    try:
        remove(itself / name)
    except MachineError as error:
        raise MachineError(str(error).replace(str(itself), str(path))) from None


def in_full(path: Path) -> Path:
    """Returns an absolute path without `..` and without links on the way. Its last name stays, even if that is a link."""
    return Path(os.path.realpath(path)) if path.name in ("", "..") else Path(os.path.realpath(path.parent), path.name)


@contextlib.contextmanager
def machine_errors(doing: str, path: Path, other: str = "another --out") -> Iterator[None]:
    """Turns an OSError inside the context into one line that names the attempt."""
    try:
        yield
    except OSError as error:
        raise MachineError(f"cannot {doing} {path}: {with_remedy(error, f'give {other}')}") from None


def remove(path: Path) -> None:
    """Removes a file, a link, or a folder with all its contents."""
    with machine_errors("remove", path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
