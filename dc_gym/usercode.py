# SPDX-License-Identifier: Apache-2.0
"""Python files of the user's: plug-ins that register topologies, markings, workloads or controllers, and Mininet topologies.

A file is run once for its content, wherever it lies, so a spec and its result's copy are one plug-in. What goes wrong in it is
one line with its name and the line's number. Results keep a copy of what ran (folder CODE) and its SHA-256.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dc_gym.errors import SpecError, TestbedError

CODE = "code"


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file that has been run."""

    path: Path
    source: bytes
    module: ModuleType

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source).hexdigest()


_by_digest: dict[str, UserFile] = {}
_by_path: dict[Path, UserFile] = {}


def load(path: Path) -> UserFile:
    """Run the file, unless one of the same content has been run."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path}: cannot read it: {error.strerror}; give the path of a Python file") from None
    digest = hashlib.sha256(source).hexdigest()
    if digest not in _by_digest:
        module = ModuleType(f"dcgym_user_{digest[:16]}")
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # dataclasses look there
        with blamed(path):
            exec(compile(source, str(path), "exec"), module.__dict__)
        _by_digest[digest] = UserFile(path, source, module)
    _by_path[path] = _by_digest[digest]
    return _by_path[path]


@contextmanager
def blamed(*paths: Path) -> Iterator[None]:
    """An exception that comes from one of the user's files becomes one line that says where; others stay as they are."""
    try:
        yield
    except (TestbedError, KeyboardInterrupt):
        raise
    except SyntaxError as error:
        raise SpecError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        place = _last_line(error, {*map(str, paths), *(str(each.path) for each in _by_digest.values())})
        if place is None:
            raise
        text = (str(error).splitlines() or [""])[0]
        raise SpecError(f"{place}: {type(error).__name__}" + (f": {text}" if text else "")) from None


def keep(files: Iterable[Path], folder: Path) -> list[dict[str, Any]]:
    """Write files, those that were loaded as they were then, into CODE of a result; their rows in the manifest."""
    rows = []
    for path in files:
        source = _by_path[path].source if path in _by_path else path.read_bytes()
        (folder / CODE).mkdir(exist_ok=True)
        (folder / CODE / path.name).write_bytes(source)
        rows.append({"file": f"{CODE}/{path.name}", "sha256": hashlib.sha256(source).hexdigest()})
    return rows


def _last_line(error: BaseException, files: set[str]) -> str | None:
    """FILE:LINE of the innermost frame in one of the files."""
    place, frame = None, error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if name in files:
            place = f"{name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place
