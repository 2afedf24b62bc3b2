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
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dc_gym.base import folder_lock, janitor
from dc_gym.base.errors import MachineError, naming
from dc_gym.base.folder_lock import LOCK
from dc_gym.base.process_bound import this_process

__all__ = [
    "FAILED",
    "PARTIAL",
    "SCRATCH",
    "discard",
    "is_cut_short",
    "machine_errors",
    "put",
    "remove",
    "scratch",
    "sync",
    "sync_tree",
    "whole",
]

PARTIAL = ".partial"
"""Ending of the name of a file or folder while it is written."""
FAILED = ".failed"
"""Ending of the name of a folder with what is left of a run that failed after its traffic."""
SCRATCH = tuple(
    f"dcgym-{what}-"
    for what in (
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
        "memory",
        "shell",
    )
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
    owner, path = this_process(), parent.resolve() / f"{prefix}{name}{secrets.token_hex(4)}"
    with janitor.watching(path) as watch:
        with machine_errors("make", path, SCRATCH_REMEDY):
            path.parent.mkdir(parents=True, exist_ok=True)
        with machine_errors("make", path, SCRATCH_REMEDY), folder_lock.beginning(path.parent):
            path.mkdir()
            path.chmod(0o755)
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
                held.close()  # the janitor, for which this waits, removes what is left


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
    afterwards, so a power failure leaves the older file or the new one.
    """
    work = path.with_name(f"{path.name}.{os.getpid()}{PARTIAL}")  # is_cut_short() knows the form
    with naming(path):
        try:
            yield work
            if durable:
                sync(work)
            work.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                work.unlink()
            raise
        if durable:
            sync(path.parent)


def is_cut_short(path: Path) -> bool:
    """Returns True for a file that a process was writing by `whole` when it was killed."""
    found = re.fullmatch(rf".+\.(\d+){re.escape(PARTIAL)}", path.name)
    return found is not None and path.is_file() and not path.is_symlink() and not Path("/proc", found[1]).exists()


def sync(path: Path) -> None:
    """Returns when data and names of a file or folder are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Returns when everything in a folder is on disk."""
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            sync(Path(place, name))
        sync(Path(place))


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
def machine_errors(doing: str, path: Path, other: str = "another --out") -> Iterator[None]:
    """Turns an OSError inside the context into one line that names what was tried."""
    try:
        yield
    except OSError as error:
        remedy = f"free some room, or give {other}" if error.errno in (errno.ENOSPC, errno.EDQUOT) else f"give {other}"
        raise MachineError(f"cannot {doing} {path}: {error.strerror or error}; {remedy}") from None


def remove(path: Path) -> None:
    """Removes a file, a link, or a folder with all its contents."""
    with machine_errors("remove", path):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
