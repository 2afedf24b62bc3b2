# SPDX-License-Identifier: Apache-2.0
"""Keeps the findings about a sweep's runs for the next time, so that they need not be read again: DIR/.checked.json.

An entry counts only as long as its inputs have not changed: the grid's text for the run, the programs that read
it, the fingerprint, and every file of the spec and of the result, by inode, size and times. It is never needed: without it, or
where it does not count, specs and results are read and checked. A file that changed less than a second ago is not trusted, since
a file system's clock may give a second change the time of the first.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dc_gym.base.bounded import read_text
from dc_gym.base.errors import UsageError
from dc_gym.base.files import put

NAME = ".checked.json"
VERSION = 1
MOST_BYTES = 256_000_000
"""The largest record that is read; the 10 000 runs of the largest sweep need a tenth."""
SETTLED_NS = 10**9
"""The age from which a file's times show any change of it."""
Stamp = list[int]
"""The identity of a file's content: device, inode, size, and the times of its change; [] if there is no file."""


@dataclass(frozen=True, slots=True)
class Known:
    """The findings about a run when its spec and its result were checked."""

    key: str
    """Identity of the grid's text for the run."""
    values: Mapping[str, Any]
    kind: str
    clock: str
    fingerprint: str
    status: Mapping[str, Any]
    """The fields of state.Status except its point."""
    files: Mapping[str, Stamp]
    """The files of the spec and of the result, by path."""

    def is_current(self) -> bool:
        """Returns True if none of the files has changed."""
        return all(stamp_of(path) == stamp for path, stamp in self.files.items())

    @property
    def is_settled(self) -> bool:
        """Returns True if the stamps show any later change."""
        latest = max((max(stamp[3:]) for stamp in self.files.values() if stamp), default=0)
        return latest < time.time_ns() - SETTLED_NS


@dataclass(slots=True)
class Record:
    """The entries of one sweep's folder, and the identity of the files that it wrote last."""

    path: Path
    entries: dict[str, Known] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)
    _stored: str = ""

    @classmethod
    def read(cls, folder: Path) -> Record:
        """Returns the record of a folder; an empty one if there is none that can be read."""
        record = cls(folder / NAME)
        with suppress(OSError, UsageError, UnicodeError):
            digest, _, text = read_text(record.path, MOST_BYTES).partition("\n")
            if digest == _digest(text):  # it is as it was written
                document = json.loads(text)
                record.entries = {name: Known(**entry) for name, entry in document["runs"].items()}
                record.written, record._stored = document["written"], text
        return record

    def of(self, name: str, key: str) -> Known | None:
        """Returns the record of a run of this key, if it still counts."""
        known = self.entries.get(name)
        return known if known is not None and known.key == key and known.is_current() else None

    def write(self, names: Iterable[str]) -> None:
        """Writes the entries that are settled, unless they are there already. `names`: the runs that were checked just now; the
        entries of others stay as long as they count."""
        checked = set(names)
        settled = {name: run for name, run in self.entries.items() if run.is_settled and (name in checked or run.is_current())}
        runs = {name: {member.name: getattr(known, member.name) for member in fields(Known)} for name, known in settled.items()}
        text = json.dumps({"written": self.written, "runs": runs}, separators=(",", ":"))
        if text != self._stored:
            put(self.path, f"{_digest(text)}\n{text}".encode())
            self._stored = text


def key_of(*parts: Any) -> str:
    """Returns the identity of plain values."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def stamps(paths: Sequence[Path]) -> dict[str, Stamp]:
    """Returns the stamps of files by path."""
    return {str(path): stamp_of(str(path)) for path in paths}


def stamp_of(path: str) -> Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - a Path a file would take as long as the rest
    except OSError:
        return []
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _digest(text: str) -> str:
    """Returns the checksum of a record's text, also over the form that this version gives it."""
    return hashlib.sha256(f"{VERSION} {text}".encode(errors="surrogateescape")).hexdigest()
