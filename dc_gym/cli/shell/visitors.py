# SPDX-License-Identifier: Apache-2.0
"""Further prompts on a shell that runs (`dcgym attach`): a socket in the run's private folder, and who has come to it.

A visitor sends lines, each a command or INTERRUPT. It gets frames: output, or the Report after which it may send the next line.
Only processes of the same user are served. A visitor that does not read for PATIENCE_S is sent away.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Self

from dc_gym.kernel.share import short
from dc_gym.run.grounds.guest.shell_memory import ENDED

NAME = "prompt"
FRAME = struct.Struct("<BI")
"""Kind (a step of shell_memory.py), and length of the message."""
INTERRUPT, GONE = "\x03", "\x04"
"""Lines by which a visitor interrupts its command, and has gone."""
MOST_VISITORS, LONGEST_LINE = 8, 1 << 15
PATIENCE_S = 5.0
CREDENTIALS = struct.Struct("=3i")


class Visitors:
    """The visitors, while the context is open."""

    def __init__(self, folder: Path) -> None:
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        self._path = folder / f"{NAME}-{os.getpid()}"
        with short(self._path) as address:
            self._server.bind(address)
        self._path.chmod(0o600)
        self._server.listen(MOST_VISITORS)
        self._sockets: dict[int, socket.socket] = {}
        self._unread: dict[int, bytes] = {}
        self._lines: deque[tuple[int, str]] = deque()
        self._count = 0
        self.busy: set[int] = set()
        """Those of whom a command runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for endpoint in (self._server, *self._sockets.values()):
            endpoint.close()
        with suppress(OSError):
            self._path.unlink()

    def waiting(self) -> bool:
        """Returns whether a visitor has sent a line."""
        for ready in select.select([self._server, *self._sockets.values()], [], [], 0)[0]:
            if ready is self._server:
                self._welcome()
            else:
                self._hear(next(number for number, connection in self._sockets.items() if connection is ready))
        return any(self._may_go_on(number, line) for number, line in self._lines)

    def take(self) -> tuple[int, str] | None:
        """Returns the next line with its visitor's number. A visitor's command comes when the one before has ended."""
        for position, (number, line) in enumerate(self._lines):
            if self._may_go_on(number, line):
                del self._lines[position]
                return number, line
        return None

    def show(self, number: int, kind: int, data: bytes) -> None:
        """Sends a frame to a visitor, if it is still there."""
        if kind == ENDED:
            self.busy.discard(number)
        if number in self._sockets:
            try:
                self._sockets[number].sendall(FRAME.pack(kind, len(data)) + data)
            except OSError:
                self._part(number)

    def _may_go_on(self, number: int, line: str) -> bool:
        return number not in self.busy or line in (INTERRUPT, GONE)

    def _welcome(self) -> None:
        with suppress(OSError):
            visitor, _ = self._server.accept()
            _, uid, _ = CREDENTIALS.unpack(visitor.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
            if uid != os.geteuid() or len(self._sockets) >= MOST_VISITORS:
                visitor.close()
                return
            visitor.settimeout(PATIENCE_S)
            self._count += 1
            self._sockets[self._count], self._unread[self._count] = visitor, b""

    def _hear(self, number: int) -> None:
        try:
            data = self._sockets[number].recv(LONGEST_LINE)
        except OSError:
            data = b""
        *lines, rest = (self._unread[number] + data).split(b"\n")
        if not data or len(rest) > LONGEST_LINE:
            self._part(number)
            return
        self._unread[number] = rest
        self._lines += ((number, line.decode(errors="surrogateescape")) for line in lines)

    def _part(self, number: int) -> None:
        """Forgets a visitor. Its command ends."""
        self._sockets.pop(number).close()
        self._lines = deque(entry for entry in self._lines if entry[0] != number)
        if number in self.busy:
            self._lines.append((number, GONE))
