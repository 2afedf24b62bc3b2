# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can see. Each is one line that says what was tried, with which value, and what to do next."""

from __future__ import annotations

import errno
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

INTERRUPTED, TERMINATED, HUNG_UP = 128 + signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGHUP
"""Exit codes, as a shell gives them, of a command that Ctrl-C, SIGTERM or SIGHUP ended."""


REMEDIES: Mapping[int | None, str] = {
    errno.ENOSPC: "free some room",
    errno.EDQUOT: "free some room",
    errno.EFBIG: "raise the limit on the size of a file (ulimit -f)",
    errno.EMFILE: "raise the limit on open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit on open files (sysctl fs.file-max)",
}
"""Advice for those error numbers of the operating system that have one cause."""


class TestbedError(Exception):
    """A run, a build or a bar failed (exit code 1)."""

    __test__ = False  # not a test class, although its name begins with Test
    exit_code = 1


def in_one_line(error: Exception) -> str:
    """Returns an error as one line, with its kind unless it was written for users."""
    text = " ".join(str(error).split())
    return text if isinstance(error, TestbedError) else f"{type(error).__name__}: {text}"


@contextmanager
def naming(what: Path | str) -> Iterator[None]:
    """Adds a name to an OSError inside the context that has none: one of open() names the file, one of write() does not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = str(what)
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


class LabError(TestbedError):
    """A lab did not boot, died or hung."""


class ProtocolError(TestbedError):
    """Another program broke a protocol: wrong magic, version, length or order."""


class FabricError(TestbedError):
    """The network that was built differs from the requested one."""
