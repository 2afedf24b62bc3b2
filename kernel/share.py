# SPDX-License-Identifier: Apache-2.0
"""Gives other processes access to a lab's shared region: a UNIX socket in the run's folder passes a read-only descriptor."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from dc_gym.base.errors import UsageError
from dc_gym.base.process_bound import this_process, unshared

PLACE = struct.Struct("<QQ")  # offset and length of the region in the file behind the descriptor
NAME = "share"
PATIENCE_S = 10.0  # a lab that boots, or whose host is busy, answers late


class RegionServer:
    """Listens at `folder`/share. Each client gets the descriptor and the region's place; then the connection is closed."""

    def __init__(self, folder: Path) -> None:
        self._owner = this_process()
        with unshared() as keep:
            self._socket = keep(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
        self._path = folder / NAME
        self._path.unlink(missing_ok=True)  # left by an earlier lab
        with short(self._path) as address:
            self._socket.bind(address)
        self._socket.listen(8)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        if self._owner.is_here():
            self._path.unlink(missing_ok=True)

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_asked(self) -> bool:
        """Returns whether a client waits."""
        return bool(select.select([self._socket], [], [], 0)[0])

    def serve_one(self, memory_fd: int, offset: int, length: int) -> None:
        """Answers one connection.

        It ignores errors: a client that has gone away, or a lack of descriptors, must not disturb the run.
        """
        with contextlib.suppress(OSError):
            peer, _ = self._socket.accept()
            with peer:
                reader = os.open(f"/proc/self/fd/{memory_fd}", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    socket.send_fds(peer, [PLACE.pack(offset, length)], [reader])
                finally:
                    os.close(reader)


class Request:
    """A request for the region of the lab that runs in `folder`. The lab answers when its clock moves.

    Raises UsageError if there is no lab, or if so many clients wait that there is no room for another within `patience_s`.
    """

    def __init__(self, folder: Path, patience_s: float = 0.0) -> None:
        self._folder = folder
        self._client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._client.settimeout(patience_s)
            with short(folder / NAME) as address:
                self._client.connect(address)
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
        """Returns descriptor, offset and length of the region."""
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
    """Returns the answer of the lab in `folder`: descriptor, offset and length of its region.

    Raises UsageError if it does not answer.
    """
    request = Request(folder, PATIENCE_S)
    if not request.is_answered(PATIENCE_S):
        request.close()
        raise UsageError(f"{folder}: the lab gave no answer for {PATIENCE_S:g} s; try again when it does something")
    return request.take()


def is_served(folder: Path) -> bool:
    """Returns True if a process holds the socket. After a process was killed, the socket's name still exists."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        try:
            with short(folder / NAME) as address:
                client.connect(address)
        except BlockingIOError:  # others are waiting already
            return True
        except OSError:
            return False
    return True


@contextlib.contextmanager
def short(path: Path) -> Iterator[str]:
    """Yields a path of a socket that fits into the 108 bytes of sockaddr_un, however long its own path is."""
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{path.name}"
    finally:
        os.close(fd)
