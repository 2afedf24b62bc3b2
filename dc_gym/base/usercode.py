# SPDX-License-Identifier: Apache-2.0
"""Python files of the user's: plug-ins that register topologies, markings, workloads or controllers, and Mininet topologies.

A file is run once for its content, wherever it lies, so a spec and its result's copy are one plug-in. What goes wrong in it is
one line with its name and the line's number: `blamed` says so where it is read, the command line of all that comes later. To who
calls from Python exceptions stay what they are, or are the cause of that line. Results keep a copy of what ran (folder CODE) and
its SHA-256.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dc_gym.base.errors import SpecError, TestbedError

CODE = "code"
MOVED = {
    "dc_gym.controllers": "dc_gym.ctrl.controllers",
    "dc_gym.errors": "dc_gym.base.errors",
    "dc_gym.results": "dc_gym.records.results",
    "dc_gym.stats": "dc_gym.base.stats",
    "dc_gym.topologies.amount": "dc_gym.base.amount",
    "dc_gym.units": "dc_gym.base.units",
    "dc_gym.envs.flows": "dc_gym.methods.rlcc.flows",
    "dc_gym.envs.flows_parallel": "dc_gym.methods.rlcc.flows_parallel",
}
"""Modules that users import, by the names that they once had."""


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
_names: set[str] = set()
"""What Python calls the user's files, in tracebacks."""
_shown: dict[Path, str] = {}
"""Of copies: the names of their originals."""


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
        name = _shown.get(path, str(path))
        _names.add(name)
        with blamed():
            exec(compile(source, name, "exec"), module.__dict__)
        _by_digest[digest] = UserFile(path, source, module)
    _by_path[path] = _by_digest[digest]
    return _by_path[path]


def find_module(name: str) -> ModuleType:
    """Import a module of the user's by its dotted name; ImportError where there is none, and what goes wrong in it is blamed."""
    parts = name.split(".")
    with blamed():
        for count in range(1, len(parts) + 1):  # looking for a module imports the packages above it
            found = importlib.util.find_spec(".".join(parts[:count]))
            if found is not None and found.origin:
                _names.add(found.origin)
        return importlib.import_module(name)


def shown_as(copies: Mapping[Path, str]) -> None:
    """Of copies of the user's files: by what paths he knows them, for messages."""
    _shown.update(copies)


@contextmanager
def blamed() -> Iterator[None]:
    """An exception that comes from one of the user's files becomes one line that says where; others stay as they are."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, TestbedError):
            _add_place(error)
        elif (told := in_words(error)) is not None:
            raise told from error
        raise


def in_words(error: BaseException) -> SpecError | None:
    """An exception, or one that it came from, as one line, FILE:LINE and what was raised; None: none of the user's files did."""
    for each in chain(error):
        place = _place(each)
        if place is not None:
            return SpecError(f"{place}: {_what(each)}")
    return None


def in_words_of(text: str) -> SpecError | None:
    """Likewise, of what Python printed of an exception in another process, what it came from first."""
    place = None
    for line in text.splitlines():
        found = re.match(r' *File "(.+)", line ([0-9]+)', line)
        if found:
            place = f"{found[1]}:{found[2]}" if found[1] in _names else place
        elif place is not None and line and not line[0].isspace():
            return SpecError(f"{place}: {line}")
    return None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and what it was raised from, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def keep(files: Iterable[Path], folder: Path) -> list[dict[str, Any]]:
    """Write files, those that were loaded as they were then, into CODE of a result; their rows in the manifest."""
    rows = []
    for path in files:
        source = _by_path[path].source if path in _by_path else path.read_bytes()
        (folder / CODE).mkdir(exist_ok=True)
        (folder / CODE / path.name).write_bytes(source)
        rows.append({"file": f"{CODE}/{path.name}", "sha256": hashlib.sha256(source).hexdigest()})
    return rows


def _place(error: BaseException) -> str | None:
    """FILE:LINE of the innermost frame in one of the user's files, or where one cannot be read as Python."""
    if isinstance(error, SyntaxError) and (error.filename in _names or _frame(error)):
        return f"{error.filename}:{error.lineno}"
    return _frame(error)


def _frame(error: BaseException) -> str | None:
    place, frame = None, error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if name in _names:
            place = f"{name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


def _what(error: BaseException) -> str:
    """Its class, if that says more than its words, and their first line."""
    text = (str(error).splitlines() or [""])[0]
    if isinstance(error, SyntaxError):
        return error.msg
    if isinstance(error, ModuleNotFoundError) and error.name in MOVED:
        text += f"; it is {MOVED[error.name]} now"
    return text if isinstance(error, TestbedError) else type(error).__name__ + (f": {text}" if text else "")


def _add_place(error: TestbedError) -> None:
    """One of ours, raised on behalf of a file of the user's, says where that was."""
    place = _frame(error)
    if place is not None and type(error).__init__ is Exception.__init__ and not str(error).startswith(place.rpartition(":")[0]):
        error.args = (f"{place}: {error}",)
