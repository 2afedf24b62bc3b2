# SPDX-License-Identifier: Apache-2.0
"""Other processes' way to a lab's shared region: a UNIX socket in the run's folder that hands out a read-only descriptor."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
from pathlib import Path
from typing import Self

from dc_gym.base.errors import UsageError

PLACE = struct.Struct("<QQ")  # offset and length of the region in the file behind the descriptor
NAME = "share"
PATIENCE_S = 10.0  # a lab that boots, or whose host is busy, answers later


class RegionServer:
    """Listens at `folder`/share; whoever connects gets the descriptor and the region's place, and the connection is closed."""

    def __init__(self, folder: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._path = folder / NAME
        self._path.unlink(missing_ok=True)  # an earlier lab's
        with _short(folder) as short:
            self._socket.bind(short)
        self._socket.listen(8)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def fileno(self) -> int:
        return self._socket.fileno()

    def serve_one(self, memory_fd: int, offset: int, length: int) -> None:
        """Answers one connection. A watcher that has gone away again, or no descriptor left for it, is not the run's problem."""
        with contextlib.suppress(OSError):
            peer, _ = self._socket.accept()
            with peer:
                reader = os.open(f"/proc/self/fd/{memory_fd}", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    socket.send_fds(peer, [PLACE.pack(offset, length)], [reader])
                finally:
                    os.close(reader)


class Request:
    """Asks the lab that runs in `folder` for its region, which answers when its clock moves.

    UsageError when no lab is there, or so many have asked that there is no room for another within `patience_s`.
    """

    def __init__(self, folder: Path, patience_s: float = 0.0) -> None:
        self._folder = folder
        self._client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._client.settimeout(patience_s)
            with _short(folder) as short:
                self._client.connect(short)
        except (BlockingIOError, TimeoutError):
            self._client.close()
            raise UsageError(f"{folder}: too many wait for this lab's answer already; try again when it does something") from None
        except OSError as error:
            self._client.close()
            words = f"no lab runs here ({error.strerror or error}); give the folder of a run that is under way"
            raise UsageError(f"{folder}: {words}") from None

    def is_answered(self, patience_s: float = 0.0) -> bool:
        return bool(select.select([self._client], [], [], patience_s)[0])

    def take(self) -> tuple[int, int, int]:
        """Descriptor, offset and length of the region."""
        with self._client:
            try:
                data, fds, _, _ = socket.recv_fds(self._client, PLACE.size, 1)
            except OSError:
                data, fds = b"", []
        if len(data) != PLACE.size or len(fds) != 1:
            raise UsageError(f"{self._folder}: the lab has just ended")
        offset, length = PLACE.unpack(data)
        return fds[0], offset, length

    def close(self) -> None:
        self._client.close()


def attach(folder: Path) -> tuple[int, int, int]:
    """What the lab in `folder` answers; UsageError when it does not."""
    request = Request(folder, PATIENCE_S)
    if not request.is_answered(PATIENCE_S):
        request.close()
        raise UsageError(f"{folder}: the lab gave no answer for {PATIENCE_S:g} s; try again when it does something")
    return request.take()


def is_served(folder: Path) -> bool:
    """Whether somebody holds the socket: one whose process was killed still has its name."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        try:
            with _short(folder) as short:
                client.connect(short)
        except BlockingIOError:  # others wait already
            return True
        except OSError:
            return False
    return True


class _short:
    """A path of a socket in `folder` that fits into the 108 bytes of sockaddr_un, however long the folder's own is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> str:
        self._fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._fd}/{NAME}"

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
