# SPDX-License-Identifier: Apache-2.0
"""The commands of a shell as processes in a ground: each in its node's network namespace, in a session of its own.

A job's output comes through pipes, or through a pseudo-terminal if the user has a terminal. Linux only; needs root in the
ground.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from dc_gym.grounds.guest.shell_memory import ERR, OUT, Order

SHELL = "/bin/sh"
READ_BYTES = 1 << 16
OUTPUT_FLAGS = 1  # the place of the output flags among the attributes of a terminal


@dataclass(slots=True)
class Job:
    """A running command."""

    order: Order
    process: subprocess.Popen[bytes]
    pidfd: int
    """Readable when the command has ended."""
    outputs: dict[int, int]
    """The steps by which output is shown, by descriptor."""
    number: int = 0
    """Its number among those in the background; 0: it is in the foreground."""
    lines: dict[int, bytes] = field(default_factory=dict)
    """The line of each step that has no end yet, of a job in the background."""

    @property
    def status(self) -> int:
        """Exit status as a shell tells it: 128 + signal if a signal ended it."""
        code = self.process.wait()
        return code if code >= 0 else 128 - code

    def read(self, fd: int) -> bytes | None:
        """Returns what one of its outputs has now, b"" if there is nothing, or None at its end."""
        try:
            return os.read(fd, READ_BYTES) or None
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno == errno.EIO:  # the end of a pseudo-terminal
                return None
            raise

    def drain(self) -> Iterator[tuple[int, bytes]]:
        """Yields what its outputs have now, each with its step."""
        for fd, step in self.outputs.items():
            while data := self.read(fd):
                yield step, data

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to all processes of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        for fd in (*self.outputs, self.pidfd):
            os.close(fd)


def start(order: Order, folder: str, environment: Mapping[str, str]) -> Job:
    """Starts a command in this thread's network namespace. It has no input."""
    ours, theirs = _terminal(order.terminal) if order.terminal else _pipes()
    try:
        process = subprocess.Popen(
            [SHELL, "-c", order.line],
            cwd=folder,
            env={**environment, **({"TERM": order.terminal[2]} if order.terminal else {})},
            stdin=subprocess.DEVNULL,
            stdout=theirs[0],
            stderr=theirs[-1],
            start_new_session=True,
        )
    finally:
        for fd in theirs:
            os.close(fd)
    for fd in ours:
        os.set_blocking(fd, False)
    return Job(order, process, os.pidfd_open(process.pid), ours)


def _pipes() -> tuple[dict[int, int], list[int]]:
    """Returns our ends of two pipes, each with its step, and the ends of the command."""
    (out, its_out), (err, its_err) = os.pipe(), os.pipe()
    return {out: OUT, err: ERR}, [its_out, its_err]


def _terminal(terminal: tuple[int, int, str]) -> tuple[dict[int, int], list[int]]:
    """Returns our end of a pseudo-terminal of that size, and the command's. It passes output on as it is."""
    rows, columns, _ = terminal
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    attributes = termios.tcgetattr(slave)
    attributes[OUTPUT_FLAGS] &= ~termios.OPOST
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    return {master: OUT}, [slave]
