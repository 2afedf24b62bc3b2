# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can see. Each is one line with three facts: the attempt, the value, and the next step."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeGuard

INTERRUPTED, TERMINATED, HUNG_UP = 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP
"""Exit codes, as a shell gives them, of a command that Ctrl-C, SIGTERM or SIGHUP ended."""


USED_UP: Mapping[int, str] = {
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "end other programs: the machine can open no further file",
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
    errno.ENOMEM: "end other programs, or give the machine more memory",
    errno.ENOBUFS: "end other programs, or give the machine more memory",
}
"""Errors of an exhausted resource of the process or the machine, whatever the file, and the remedy."""
OF_A_PLACE: Mapping[int, str] = {
    errno.ENOSPC: "free some room",
    errno.EDQUOT: "free some room",
    errno.EIO: "its disk or network failed; try again",
    errno.ENOLCK: "its file system has no locks",
}
"""Errors of the file system that a file is on, and the remedy or the explanation."""
REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS)


class TestbedError(Exception):
    """A run, a build or a bar failed (exit code 1)."""

    __test__ = False  # not a test class, although its name begins with Test
    exit_code = 1


def in_one_line(error: Exception) -> str:
    """Returns an error as one line, with its kind unless it was written for users or by the operating system."""
    if is_of_machine(error):
        return in_words(error)
    text = " ".join(str(error).split())
    return text if isinstance(error, TestbedError) else f"{type(error).__name__}: {text}"


def is_of_machine(error: BaseException) -> TypeGuard[OSError]:
    """Returns True for an error that only the user of the machine can mend: no room, no permission, a limit, a broken disk."""
    return isinstance(error, OSError) and (error.errno in USED_UP or error.errno in OF_A_PLACE or error.errno in REFUSED)


def in_words(error: OSError) -> str:
    """Returns an error of the operating system as one line: the file, the fault, and the remedy."""
    named = error.filename or ("" if error.errno in USED_UP else _file_of(error) or "reading or writing")
    return f"{named}{': ' if named else ''}{with_remedy(error)}"


def with_remedy(error: OSError | UnicodeDecodeError, remedy: str = "") -> str:
    """Describes an error and its remedy in one line.

    Args:
        error: The error of a system call, or of a text that is none. The path is left to the caller, who knows its role.
        remedy: The advice, unless memory, disk space or descriptors are used up.
    """
    number, words = (error.errno or 0, error.strerror) if isinstance(error, OSError) else (0, None)
    steps = [USED_UP[number]] if number in USED_UP else [OF_A_PLACE.get(number, ""), remedy]
    return "; ".join(filter(None, (words or str(error), ", or ".join(filter(None, steps)))))


def _file_of(error: OSError) -> str:
    """Returns the file that was read or written, or "".

    The error does not name it, but its innermost function with a path does, such as pathlib's or the one that loads a module.
    """
    name, trace = "", error.__traceback__
    while trace is not None:
        values = [trace.tb_frame.f_locals.get(variable) for variable in ("self", "path")]
        name = next((str(value) for value in values if isinstance(value, (Path, str))), name)
        trace = trace.tb_next
    return name


@contextmanager
def naming(name: Path | str) -> Iterator[None]:
    """Adds a name to an OSError inside the context that has none: one of open() names the file, one of write() does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(name)
        raise


class UsageError(TestbedError):
    """An error that the user can correct: a wrong key, value, file or argument, or the machine (exit code 2)."""

    exit_code = 2


class MachineError(UsageError):
    """The machine lacks something that only its user can provide: room, a permission, a program (exit code 2)."""


class SpecError(UsageError):
    """A spec names an unknown key, or a value out of its range."""


class TopologyError(UsageError):
    """A topology cannot be built as requested."""


class WorkloadError(UsageError):
    """A workload or a flow matrix is not valid."""


class AgentError(UsageError):
    """An observation, an action, a reward or a policy is unknown, or does not fit the network."""


class ResultError(UsageError):
    """A folder is not a result, or not one that this version can read."""


class KernelError(MachineError):
    """The lab kernel could not be found, fetched, patched or built."""


class UnbuildableError(KernelError):
    """The user's own kernel tree could not be built. Exit code 125 lets `git bisect run` go on to another commit."""

    exit_code = 125


class LabError(TestbedError):
    """A lab did not boot, died or hung."""


class UnfitError(LabError):
    """An episode's measurements cannot be used, for a reason that a run's manifest would have as `unfit`."""


class ProtocolError(TestbedError):
    """Another program broke a protocol: wrong magic, version, length or order."""


class FabricError(TestbedError):
    """The network that was built differs from the requested one."""
