# SPDX-License-Identifier: Apache-2.0
"""The host's end of the lab channel: messages with checked types and lengths, and the shared memory.

kernel/drivers/lab.h defines the layout. A test compares the two.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import mmap
import os
import socket
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from dc_gym.base.errors import USED_UP, ProtocolError
from dc_gym.base.process_bound import this_process

PROTOCOL_VERSION = 2
MESSAGE_MAX_BYTES = 4096
HEADER = struct.Struct("<II")
HELLO = struct.Struct("<IIQQQ")
STEP = struct.Struct("<QQ")
STEP_REPLY = struct.Struct("<QiI")
SEED = struct.Struct("<QQ")
BYE = struct.Struct("<iIQ")
ONE_DESCRIPTOR = socket.CMSG_SPACE(array.array("i").itemsize)
PAGE = struct.Struct("<QQII16sQQ")


class MessageType(IntEnum):
    HELLO = 1
    LOG = 2
    STEP = 3
    SEED = 4
    DEATH = 5
    BYE = 6


TYPES = {int(kind): kind for kind in MessageType}
# Payload lengths of the message types with a fixed length. Text messages have none.
LENGTHS = {
    MessageType.HELLO: HELLO.size,
    MessageType.STEP: STEP.size,
    MessageType.SEED: SEED.size,
    MessageType.BYE: BYE.size,
}


@dataclass(frozen=True, slots=True)
class Message:
    type: MessageType
    payload: bytes

    @property
    def text(self) -> str:
        return self.payload.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class LabState:
    """The contents of the lab's shared page at one moment."""

    virtual_ns: int
    switches: int
    pid: int
    comm: str
    events: int = 0
    """Events of links so far: a frame arrived, or a transmitter became free."""
    loop_events: int = 0
    """Those of them that ran without a timer interrupt."""


def parse(data: bytes) -> Message:
    """Parses one datagram of the channel into a message. Raises ProtocolError if its type or length is wrong."""
    if len(data) < HEADER.size:
        raise ProtocolError(f"lab channel: message of {len(data)} bytes is shorter than its header of {HEADER.size}")
    number, length = HEADER.unpack_from(data)
    payload = data[HEADER.size :]
    if length != len(payload) or length > MESSAGE_MAX_BYTES:
        raise ProtocolError(f"lab channel: message of type {number} claims {length} bytes and carries {len(payload)}")
    kind = TYPES.get(number)
    if kind is None:
        raise ProtocolError(f"lab channel: unknown message type {number}")
    if LENGTHS.get(kind, length) != length:
        raise ProtocolError(f"lab channel: {kind.name} carries {length} bytes, not {LENGTHS[kind]}")
    return Message(kind, payload)


class Channel:
    """The socket to a lab and, after the HELLO message, the page and the region that the lab shares.

    `region` is the memory of the state matrix. `state()` reads the clock and the running task. Both stay readable after the lab's
    death, until `close()`. Only the process that made the channel can use it.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._owner = sock, this_process()
        self._page: mmap.mmap | None = None
        self._memory_fd = -1
        self.region: mmap.mmap | None = None
        self.region_offset = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fileno(self) -> int:
        return self._sock.fileno()

    def set_option(self, name: int, value: bytes) -> None:
        """Sets an option of the socket (SOL_SOCKET)."""
        self._sock.setsockopt(socket.SOL_SOCKET, name, value)

    def receive(self) -> Message | None:
        """Returns the next message (blocking), or None when the lab has closed its end."""
        self._owner.require_here("receive from a lab")
        try:
            data, control, _, _ = self._sock.recvmsg(HEADER.size + MESSAGE_MAX_BYTES, ONE_DESCRIPTOR, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return None
        if not data:
            return None
        fds = _descriptors(control) if control else []
        message = parse(data)
        if message.type is MessageType.HELLO:
            self._map(message.payload, fds)
        elif fds:
            for fd in fds:
                os.close(fd)
            raise ProtocolError(f"lab channel: {message.type.name} carries a descriptor")
        return message

    def reply_step(self, step: int, code: int) -> None:
        """Resumes a lab that is paused in step `step`. The lab's call returns `code`."""
        self._owner.require_here("answer a lab")
        payload = STEP_REPLY.pack(step, code, 0)
        self._sock.send(HEADER.pack(MessageType.STEP, len(payload)) + payload)

    def state(self) -> LabState:
        if self._page is None:
            return LabState(0, 0, 0, "")
        virtual_ns, switches, pid, _, comm, events, loop_events = PAGE.unpack_from(self._page)
        return LabState(virtual_ns, switches, pid, comm.split(b"\0", 1)[0].decode("utf-8", "replace"), events, loop_events)

    def close(self) -> None:
        self._sock.close()
        for mapping in (self._page, self.region):
            if mapping is not None:
                try:
                    mapping.close()
                except BufferError:  # somebody still holds a view; the mapping is removed with it
                    pass
        self._page = self.region = None
        if self._memory_fd >= 0:
            os.close(self._memory_fd)
            self._memory_fd = -1

    def _map(self, payload: bytes, fds: list[int]) -> None:
        version, page_size, page_offset, region_offset, region_length = HELLO.unpack(payload)
        if version != PROTOCOL_VERSION:
            raise ProtocolError(
                f"lab channel: the lab speaks version {version}, this program {PROTOCOL_VERSION}: build the kernel anew"
            )
        if len(fds) != 1 or self._memory_fd >= 0:
            raise ProtocolError(f"lab channel: HELLO carries {len(fds)} descriptors, or came twice")
        self._memory_fd = fds[0]
        with contextlib.suppress(OSError):  # a file on the disk, or a memory that was made without leave for it
            fcntl.fcntl(fds[0], fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)  # who reads memory that has gone dies by SIGBUS
        size = os.fstat(fds[0]).st_size
        for offset, length, least in ((page_offset, page_size, PAGE.size), (region_offset, region_length, 1)):
            if offset % mmap.PAGESIZE or not least <= length <= size or offset > size - length:
                raise ProtocolError(f"lab channel: HELLO names {length} bytes at {offset} of a memory of {size}")
        try:
            self._page = mmap.mmap(fds[0], page_size, prot=mmap.PROT_READ, offset=page_offset)
            self.region = mmap.mmap(fds[0], region_length, offset=region_offset)
        except OSError as error:
            if error.errno in USED_UP:
                raise
            raise ProtocolError(f"lab channel: HELLO carries what is no memory: {error.strerror}") from None
        self.region_offset = region_offset

    @property
    def memory_fd(self) -> int:
        return self._memory_fd


def _descriptors(control: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
