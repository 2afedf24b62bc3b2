# SPDX-License-Identifier: Apache-2.0
"""The commands of a shell as processes in a ground: each in its node's network namespace, in a session of its own.

A job's output comes through pipes. If the user has a terminal, input and output go through a pseudo-terminal. Linux only; needs
root in the ground.
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

from dc_gym.run.grounds.guest import reading
from dc_gym.run.grounds.guest.shell_memory import ERR, OUT, TERMINAL, Order

SHELL = "/bin/sh"
READ_BYTES = 1 << 16
CTRL_C = b"\x03"


class Terminal:
    """The pseudo-terminal of a job, which owns the master's descriptor as one of its outputs."""

    def __init__(self, window: tuple[int, int]) -> None:
        self.master, self.slave = os.openpty()
        """The slave is the command's, and is closed here once that runs."""
        self.device = os.fstat(self.slave).st_rdev
        self._window = (0, 0)
        self._typed = b""
        """Keys that the user has typed and the terminal has not taken yet."""
        self.resize(window)

    def resize(self, window: tuple[int, int]) -> None:
        """Gives the command the size of the window, if it has changed."""
        if window != self._window:
            self._window = window
            fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", *window, 0, 0))

    def type(self, data: bytes) -> bool:
        """Types as the user does. Returns False if the terminal does not take all of it yet; b"" then goes on with the rest."""
        self._typed += data
        with suppress(BlockingIOError):
            while self._typed:
                self._typed = self._typed[os.write(self.master, self._typed) :]
        return not self._typed

    def interrupt(self) -> None:
        """Types Ctrl-C: the terminal makes it a signal, or the command reads it as a key."""
        self._typed = b""
        with suppress(BlockingIOError):
            os.write(self.master, CTRL_C)

    def awaits_input(self) -> bool:
        return reading.waits_for_input(self.master, self.device)


@dataclass(slots=True)
class Job:
    """A running command."""

    order: Order
    process: subprocess.Popen[bytes]
    pidfd: int
    """Readable when the command has ended."""
    outputs: dict[int, int]
    """The steps by which output is shown, by descriptor."""
    terminal: Terminal | None = None
    """None: it has no input."""
    number: int = 0
    """Its number among the jobs in the background; 0: it is in the foreground."""
    visitor: int = 0
    """The number of the visitor whose it is; 0: the user's at the prompt."""
    lines: dict[int, bytes] = field(default_factory=dict)
    """The line of each step that has no end yet, of a job in the background."""

    @property
    def status(self) -> int:
        """Exit status as in a shell: 128 + signal if a signal ended it."""
        code = self.process.wait()
        return code if code >= 0 else 128 - code

    def read(self, fd: int) -> bytes | None:
        """Returns the bytes that one of its outputs has now, b"" if there are none, or None at its end."""
        try:
            return os.read(fd, READ_BYTES) or None
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno == errno.EIO:  # the end of a pseudo-terminal
                return None
            raise

    def drain(self) -> Iterator[tuple[int, bytes]]:
        """Yields the bytes that its outputs have now, each with its step."""
        for fd, step in self.outputs.items():
            while data := self.read(fd):
                yield step, data

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to all processes of its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def interrupt(self) -> None:
        """Acts like Ctrl-C."""
        if self.terminal is None:
            self.signal(signal.SIGINT)
        else:
            self.terminal.interrupt()

    def close(self) -> None:
        for fd in (*self.outputs, self.pidfd):
            os.close(fd)


def start(order: Order, folder: str, environment: Mapping[str, str], window: tuple[int, int]) -> Job:
    """Starts a command in this thread's namespaces. `window` is the size of the user's terminal."""
    terminal = None if order.terminal is None else Terminal(window)
    read_fds, child_fds = _pipes() if terminal is None else ({terminal.master: TERMINAL}, [terminal.slave])
    try:
        process = subprocess.Popen(
            [SHELL, "-c", order.line],
            cwd=folder,
            env={**environment, **({"TERM": order.terminal} if order.terminal else {})},
            stdin=subprocess.DEVNULL if terminal is None else terminal.slave,
            stdout=child_fds[0],
            stderr=child_fds[-1],
            start_new_session=True,
            preexec_fn=None if terminal is None else _take_terminal,
        )
    finally:
        for fd in child_fds:
            os.close(fd)
    for fd in read_fds:
        os.set_blocking(fd, False)
    return Job(order, process, os.pidfd_open(process.pid), read_fds, terminal)


def _pipes() -> tuple[dict[int, int], list[int]]:
    """Returns our ends of two pipes, each with its step, and the ends of the command."""
    (out, its_out), (err, its_err) = os.pipe(), os.pipe()
    return {out: OUT, err: ERR}, [its_out, its_err]


def _take_terminal() -> None:
    """Makes standard input the terminal of this session, whose leader calls this function. So Ctrl-C reaches the command."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
