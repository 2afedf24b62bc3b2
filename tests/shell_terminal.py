# SPDX-License-Identifier: Apache-2.0
"""A `dcgym shell` on a terminal of its own, to which a test types."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROMPT = re.compile(rb"\d+\.\d{3}s \w+> $")
CTRL_C, CTRL_D = "\x03", "\x04"
PATIENCE_S = 120.0
CODES = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]")
"""The codes that readline sends to the terminal beside text."""


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class ShellTerminal:
    """The command on a pseudo-terminal, of which it is the session's leader, so that Ctrl-C reaches it as a user's does."""

    def __init__(self, *words: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
        self._master, slave = os.openpty()
        self.resize(24, 80)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dc_gym.cli.main", "shell", "--quiet", *words],
            cwd=cwd, env={**os.environ, "TERM": "dumb", **(env or {})},
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(slave)
        self._unseen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def attributes(self) -> list[Any]:
        """Returns how the terminal treats keys."""
        return termios.tcgetattr(self._master)

    def command(self, line: str) -> str:
        """Types a line and returns what is shown until the next prompt, without the line itself."""
        self.type(f"{line}\n")
        return self.until(PROMPT).partition("\n")[2].rpartition("\n")[0]

    def until(self, pattern: re.Pattern[bytes] | bytes) -> str:
        """Waits until what was shown since the last call matches. Returns all up to the end of what matches."""
        deadline = time.monotonic() + PATIENCE_S
        while not (match := re.search(pattern, CODES.sub(b"", self._unseen))):
            data = self._read(deadline)
            assert data, f"the shell ended, or showed no more for {PATIENCE_S:g} s: {pattern!r} is not in {self._unseen!r}"
            self._unseen += data
        plain = CODES.sub(b"", self._unseen)
        self._unseen = plain[match.end() :]
        return plain[: match.end()].decode().replace("\r", "")

    def end(self) -> int:
        """Waits for the command's end and returns its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read(deadline):
            pass
        return self.process.wait(PATIENCE_S)

    def _read(self, deadline: float) -> bytes:
        """Returns what is shown next, or b"" at the end."""
        if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return b""
        try:
            return os.read(self._master, 1 << 16)
        except OSError:  # the other end is closed
            return b""
