# SPDX-License-Identifier: Apache-2.0
"""Python files of the user: plug-ins that register topologies, markings, workloads or controllers, and Mininet topologies.

A file is run once for its content, wherever it lies, so a spec and its result's copy are one plug-in. An error in it becomes one
line with the file's name and the line number. `blamed` does this where the file is read; the command line does it for everything
later. For callers from Python, exceptions stay unchanged or are the cause of that line. Results keep a copy of the files that
ran (folder CODE) and their SHA-256.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import reprlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from dc_gym.base import bounded
from dc_gym.base.errors import SpecError, TestbedError, naming
from dc_gym.base.interpreter import import_from
from dc_gym.base.terminal import say

CODE = "code"
MODULE = "dcgym_user_"
"""The beginning of the names of these files' modules."""
SUFFIX = ".py"
LOOK_S, PATIENCE_S = 1.0, 5.0
"""The interval at which a thread looks for a call into the user's files, and the time after which it reports the call."""


@dataclass(frozen=True, slots=True)
class UserFile:
    """A file that has been run."""

    path: Path
    source: bytes
    module: ModuleType

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.source).hexdigest()


_watched_by = 0
"""The process in which that thread runs: a forked child has none."""
_by_digest: dict[str, UserFile] = {}
_by_path: dict[Path, UserFile] = {}
_names: set[str] = set()
"""The names of the user's files in Python's tracebacks."""
_shown: dict[Path, str] = {}
"""The original names of copied files."""
_expected: dict[Path, str] = {}
"""The SHA-256 that files must have to be run."""
_running: list[Path] = []
"""The files that are being run, the innermost last."""


def load(path: Path) -> UserFile:
    """Runs the file, unless one of the same content has been run."""
    _watch()
    source = read(path)
    digest = hashlib.sha256(source).hexdigest()
    if digest not in _by_digest:
        module = ModuleType(f"{MODULE}{digest[:16]}")
        module.__file__ = str(path)
        sys.modules[module.__name__] = module  # dataclasses look the module up there
        name = _shown.get(path, str(path))
        _names.add(name)
        _running.append(path)
        try:
            with blamed():
                exec(compile(source, name, "exec"), module.__dict__)
        finally:
            _running.pop()
        _by_digest[digest] = UserFile(path, source, module)
    _by_path[path] = _by_digest[digest]
    return _by_path[path]


def read(path: Path) -> bytes:
    """Returns the content of a file of code. Raises SpecError if it cannot be read, or is not what `expect` expects."""
    try:
        source = bounded.read_bytes(path)
    except OSError as error:
        raise SpecError(f"{path}: cannot read it: {error.strerror}; give the path of a file of code") from None
    digest = hashlib.sha256(source).hexdigest()
    if _expected.get(path.absolute(), digest) != digest:
        raise SpecError(f"{path}: was changed after it was checked; do it again")
    return source


def beside(path: str | Path) -> Path:
    """Returns a path as the file that is being run means it: a relative one is relative to that file."""
    return _running[-1].absolute().parent / path if _running else Path(path).absolute()


def find_module(name: str, folder: Path | None = None) -> ModuleType:
    """Imports a module of the user by its dotted name. If none of that name is installed, the module or package may be in
    `folder`. Modules that it imports must be installed, or belong to that package.

    Raises ImportError where there is none. Other errors in it are blamed on it.
    """
    parts = name.split(".")
    _watch()
    with blamed():
        if folder is not None and importlib.util.find_spec(parts[0]) is None:
            _names.update(str(folder / file) for file in (f"{parts[0]}.py", f"{parts[0]}/__init__.py"))
            import_from(folder, parts[0])
        for count in range(1, len(parts) + 1):  # looking for a module imports the packages above it
            module_spec = importlib.util.find_spec(".".join(parts[:count]))
            if module_spec is not None and module_spec.origin:
                _names.add(module_spec.origin)
        return importlib.import_module(name)


def expect(path: Path, sha256: str) -> None:
    """Lets a file be run only with this content."""
    _expected[path.absolute()] = sha256


def shown_as(copies: Mapping[Path, str]) -> None:
    """Sets the paths from which the user's files were copied, for messages."""
    _shown.update(copies)


@contextmanager
def blamed() -> Iterator[None]:
    """Turns an exception from one of the user's files into one line with its place. Others stay as they are."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, TestbedError):
            _add_place(error)
        elif (user_error := in_words(error)) is not None:
            raise user_error from error
        raise


def in_words(error: BaseException) -> SpecError | None:
    """Returns one line, FILE:LINE and the error, for an exception or for the exception that caused it.

    Returns None if none of them came from the user's files.
    """
    for exception in chain(error):
        location = _place(exception)
        if location is not None:
            return SpecError(f"{location}: {_what(exception)}")
    return None


def in_words_of(text: str) -> SpecError | None:
    """Does the same for the text that Python printed of an exception in another process, with the first cause."""
    location = None
    for line in text.splitlines():
        match = re.match(r' *File "(.+)", line ([0-9]+)', line)
        if match:
            location = f"{match[1]}:{match[2]}" if match[1] in _names else location
        elif location is not None and line and not line[0].isspace():
            return SpecError(f"{location}: {line}")
    return None


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an exception and the exceptions that caused it, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def check_call(error: type[TestbedError], label: str, function: Any, *arguments: str, named: Iterable[str] = ()) -> None:
    """Raises the error unless a function that a plug-in registers takes these arguments, by position and by name."""
    try:
        inspect.signature(function).bind(*arguments, **dict.fromkeys(named))
    except ValueError:  # some functions that are written in C have no signature
        return
    except TypeError as fault:
        call = ", ".join((*arguments, *(f"{name}=..." for name in named)))
        raise error(f"{label}: cannot be called with ({call}): {fault}; give a function that takes these") from None


def check_tuple(error: type[TestbedError], label: str, names: object) -> None:
    """Raises the error if a plug-in gives a single name in place of a tuple."""
    if isinstance(names, str):
        raise error(f"{label} {names!r} is no tuple; write ({names!r},)")


def shown(value: Any) -> str:
    """Describes the result of a user's function in a few words for a message."""
    shape = getattr(value, "shape", ())
    if shape:
        return f"an array of shape {shape}" + (" of objects" if str(getattr(value, "dtype", "")) == "object" else "")
    return " ".join(reprlib.repr(value).split())


def source_of(path: Path) -> bytes:
    """Returns a file's content; a loaded file's as it was when loaded."""
    return _by_path[path].source if path in _by_path else path.read_bytes()


def keep(files: Iterable[Path], folder: Path) -> list[dict[str, Any]]:
    """Writes files into CODE of a result and returns their rows for the manifest.

    Loaded files are written as they were when loaded.
    """
    rows = []
    for path in files:
        source = source_of(path)
        copy = folder / CODE / path.name
        copy.parent.mkdir(exist_ok=True)
        with naming(copy):
            copy.write_bytes(source)
        rows.append({"file": f"{CODE}/{path.name}", "sha256": hashlib.sha256(source).hexdigest()})
    return rows


def place_of(error: BaseException) -> str | None:
    """Returns FILE:LINE in FUNCTION of the innermost frame of the user's files in an exception's traceback."""
    location, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in _names:
            location = _words(trace.tb_frame, trace.tb_lineno)
        trace = trace.tb_next
    return location


def _words(frame: FrameType, line: int) -> str:
    return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"


def _watch() -> None:
    """Starts the thread that reports a call into the user's files that does not return, once in a process."""
    global _watched_by
    if _watched_by != os.getpid():
        _watched_by = os.getpid()
        threading.Thread(target=_look_for_ever, args=(threading.main_thread().ident,), daemon=True).start()


def _look_for_ever(thread: int | None) -> None:
    call: FrameType | None = None
    since_s, is_told = 0.0, False
    while True:
        time.sleep(LOOK_S)
        outer, location = _call_of_user(sys._current_frames().get(thread or 0))
        if outer is None or outer is not call:
            call, since_s, is_told = outer, time.monotonic(), False
        elif not is_told and time.monotonic() > since_s + PATIENCE_S:
            is_told = True
            say(f"dcgym: {location} has not returned for {PATIENCE_S:g} s; Ctrl-C ends it", file=sys.stderr, flush=True)
        del outer  # a frame keeps all objects of its function


def _call_of_user(frame: FrameType | None) -> tuple[FrameType | None, str]:
    """Returns the outermost frame of the user's files on a stack, and words for the place of the innermost."""
    outer, location = None, ""
    while frame is not None:
        if frame.f_code.co_filename in _names:
            outer, location = frame, location or _words(frame, frame.f_lineno)
        frame = frame.f_back
    return outer, location


def _place(error: BaseException) -> str | None:
    """Returns FILE:LINE of the innermost frame in one of the user's files, or where one cannot be parsed as Python."""
    if isinstance(error, SyntaxError) and (error.filename in _names or _frame(error)):
        return f"{error.filename}:{error.lineno}"
    return _frame(error)


def _frame(error: BaseException) -> str | None:
    location, frame = None, error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if name in _names:
            location = f"{name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return location


def _what(error: BaseException) -> str:
    """Returns the first line of the exception's text, with its class where that adds something."""
    text = (str(error).splitlines() or [""])[0]
    if isinstance(error, SyntaxError):
        return error.msg
    return text if isinstance(error, TestbedError) else type(error).__name__ + (f": {text}" if text else "")


def _add_place(error: TestbedError) -> None:
    """Adds the place to an error of dc-gym that was raised because of a user's file."""
    where = _frame(error)
    if where is not None and type(error).__init__ is Exception.__init__ and not str(error).startswith(where.rpartition(":")[0]):
        error.args = (f"{where}: {error}",)
