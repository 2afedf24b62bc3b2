# SPDX-License-Identifier: Apache-2.0
"""rtnetlink in batches: many requests in few system calls, every answer checked.

In a lab a system call costs as much as hundreds of packets, and importing a netlink library costs as much as a whole run of the
dumbbell. RED and the cable are not in the libraries either. So this module contains the small part that the fabric needs: it
builds messages, sends a batch, and raises on the first refusal with the kernel's own words. Numbers are host-endian as in
netlink. Lengths are checked before anything is read.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from dc_gym.base.errors import FabricError

NLMSG_HDR = struct.Struct("=IHHII")
_unpack_attribute = struct.Struct("=HH").unpack_from
IFINFOMSG = struct.Struct("=BxHiII")
TCMSG = struct.Struct("=BxxxiIII")
IFADDRMSG = struct.Struct("=BBBBI")
NDMSG = struct.Struct("=BxxxiHBB")

NLMSG_ERROR, NLMSG_DONE = 2, 3
NLM_F_REQUEST, NLM_F_MULTI, NLM_F_ACK, NLM_F_ECHO = 1, 2, 4, 8
NLM_F_DUMP, NLM_F_REPLACE, NLM_F_EXCL, NLM_F_CREATE = 0x300, 0x100, 0x200, 0x400
NLM_F_CAPPED, NLM_F_ACK_TLVS = 0x100, 0x200
NLA_F_NESTED, NLA_TYPE_MASK = 0x8000, 0x3FFF
SOL_NETLINK, NETLINK_CAP_ACK, NETLINK_EXT_ACK = 270, 10, 11
NLMSGERR_ATTR_MSG = 1

RTM_NEWLINK, RTM_GETLINK = 16, 18
RTM_NEWADDR, RTM_NEWNEIGH, RTM_NEWQDISC, RTM_GETQDISC = 20, 28, 36, 38
CLONE_NEWNET, CLONE_NEWUTS = 0x40000000, 0x04000000
NAMESPACES = {CLONE_NEWNET: "net", CLONE_NEWUTS: "uts"}
"""The kinds of namespaces, each with its name below /proc."""
MS_BIND = 0x1000
SEND_BYTES = 32 << 10
RECEIVE_BYTES = 256 << 10
ANSWERS_AT_ONCE = 32
LISTING_BYTES, OBJECT_BYTES, ANSWER_BYTES = 16 << 10, 8 << 10, 1 << 10
"""Room for a datagram of a listing, in which the kernel puts as many objects as it may, for one object, and for a refusal."""
FEWEST_DATAGRAMS = 2
"""Datagrams of a listing: the objects, and the end."""

_libc = ctypes.CDLL(None, use_errno=True)


def attribute(kind: int, value: bytes) -> bytes:
    """Returns one netlink attribute, padded to four bytes."""
    length = 4 + len(value)
    return struct.pack("=HH", length, kind) + value + bytes(-length % 4)


def attr_u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def attr_u64(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=Q", value))


def attr_text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def nested(kind: int, *attributes: bytes) -> bytes:
    return attribute(kind | NLA_F_NESTED, b"".join(attributes))


def each_attribute(data: bytes) -> list[tuple[int, bytes]]:
    """Returns type and payload of every attribute in `data`. Raises FabricError when a length is wrong.

    A large network has half a million of them, and a generator would take twice the time.
    """
    pairs = []
    at, end = 0, len(data)
    while at + 4 <= end:
        length, kind = _unpack_attribute(data, at)
        if length < 4 or at + length > end:
            raise FabricError(f"netlink: attribute of {length} bytes at {at} of {end}")
        pairs.append((kind & NLA_TYPE_MASK, data[at + 4 : at + length]))
        at += (length + 3) & ~3
    return pairs


def attributes(data: bytes) -> dict[int, bytes]:
    """Returns the attributes in `data` by type (the last of each type wins). Raises FabricError when a length is wrong."""
    return dict(each_attribute(data))


class Listing(NamedTuple):
    """A request for all objects of a type."""

    kind: int
    body: bytes
    flags: int = NLM_F_DUMP

    def request(self) -> NetlinkRequest:
        return NetlinkRequest(self.kind, self.flags, self.body, f"list objects of type {self.kind}")


LINKS = Listing(RTM_GETLINK, IFINFOMSG.pack(0, 0, 0, 0, 0))
QDISCS = Listing(RTM_GETQDISC, TCMSG.pack(0, 0, 0, 0, 0))


class NetlinkRequest:
    """One message to the kernel. `what` describes it in words, for the error."""

    __slots__ = ("body", "flags", "kind", "what")

    def __init__(self, kind: int, flags: int, body: bytes, what: str) -> None:
        self.kind, self.flags, self.body, self.what = kind, flags, body, what

    def message(self, seq: int = 0, flags: int = 0) -> bytes:
        """Returns the bytes of the message, padded to four bytes. `flags` are set beside the request's own."""
        length = NLMSG_HDR.size + len(self.body)
        header = NLMSG_HDR.pack(length, self.kind, self.flags | flags | NLM_F_REQUEST, seq, 0)
        return header + self.body + bytes(-length % 4)


class Batch(NamedTuple):
    """Requests that were sent together, and the number of the first. The kernel acknowledges the last."""

    requests: Sequence[NetlinkRequest]
    first: int


class Transport(Protocol):
    """A netlink socket of some system."""

    def send(self, data: bytes, answers: int, answer_bytes: int) -> None:
        """Sends a datagram, to which about so many datagrams, of so many bytes at most, will be the answer."""

    def recv(self) -> bytes:
        """Waits for a datagram."""

    def close(self) -> None: ...


SOCKET_OPTIONS = (
    (SOL_NETLINK, NETLINK_CAP_ACK, 1),
    (SOL_NETLINK, NETLINK_EXT_ACK, 1),
    (socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20),
)


class _OwnSocket:
    """A netlink socket of this machine."""

    def __init__(self, netns: str | None, protocol: int) -> None:
        with entered(netns):
            self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        for option in SOCKET_OPTIONS:
            self._socket.setsockopt(*option)
        self._socket.bind((0, 0))

    def send(self, data: bytes, answers: int, answer_bytes: int) -> None:
        self._socket.send(data)

    def recv(self) -> bytes:
        return self._socket.recv(RECEIVE_BYTES)

    def close(self) -> None:
        self._socket.close()


class NetlinkSocket:
    """A netlink socket in one network namespace. `netns` is a path; None means the caller's namespace."""

    def __init__(self, netns: str | None = None, protocol: int = socket.NETLINK_ROUTE, opened: Transport | None = None) -> None:
        """`opened` takes the place of a new socket of this machine."""
        self._seq = 0
        self._socket: Transport = opened or _OwnSocket(netns, protocol)
        self._asked: deque[Listing | Batch] = deque()
        self._datagrams: dict[Listing, int] = {}
        """The number of datagrams that a listing took last time."""

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> NetlinkSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def batch(self, requests: Sequence[NetlinkRequest]) -> None:
        """Sends all requests in order. Raises FabricError at the first that the kernel refuses, and names it.

        The kernel always answers refusals. It acknowledges only the last request of a group that succeeds.
        """
        self.begin(requests)
        self.finish()

    def begin(self, requests: Sequence[NetlinkRequest]) -> None:
        """Sends requests as `batch` does. It is `finish`, or whatever is done with this socket next, that raises.

        If requests of several sockets are begun before one is finished, a lab carries out all at once.
        """
        self.finish()
        for group in _groups(requests):
            self._begin(group, answers=1, answer_bytes=ANSWER_BYTES)

    def each(self, requests: Sequence[NetlinkRequest]) -> None:
        """Asks for one object by each request, and lets the answers go. A refusal raises as with `begin`."""
        for begin in range(0, len(requests), ANSWERS_AT_ONCE):
            self.finish()
            group = requests[begin : begin + ANSWERS_AT_ONCE]
            self._begin(group, answers=len(group) + 1, answer_bytes=OBJECT_BYTES)

    def finish(self) -> None:
        """Waits until the kernel has answered the sent messages."""
        while self._asked:
            self._hear(self._asked.popleft())

    def _begin(self, group: Sequence[NetlinkRequest], answers: int, answer_bytes: int) -> None:
        self._asked.append(Batch(group, self._seq + 1))
        last = len(group) - 1
        packed = (self._pack(request, NLM_F_ACK if at == last else 0) for at, request in enumerate(group))
        self._socket.send(b"".join(packed), answers, answer_bytes)

    def _hear(self, pending: Listing | Batch) -> None:
        if isinstance(pending, Listing):
            self._heard(pending)
            return
        requests, first = pending
        last, done = first + len(requests) - 1, False
        while not done:
            for kind, _flags, seq, payload in self._receive():
                if not first <= seq <= last:
                    raise FabricError(f"netlink: message of type {kind} where an answer was expected")
                if kind == NLMSG_ERROR:
                    _check(requests[seq - first], payload)
                    done = seq == last

    def ask(self, listing: Listing) -> None:
        """Sends the request of the next `listed`, which then only waits for the answer. Asked of several sockets before they are
        heard, a lab answers all of them at once. Whatever else is done first lets the answer go."""
        self._send(listing)
        self._asked.append(listing)

    def listed(self, listing: Listing) -> list[bytes]:
        """Returns all payloads that the kernel lists."""
        while self._asked:
            if (earlier := self._asked.popleft()) == listing:
                return self._heard(listing)
            self._hear(earlier)
        return self.dump(*listing)

    def dump(self, kind: int, body: bytes, flags: int = NLM_F_DUMP) -> list[bytes]:
        """Returns all payloads that the kernel lists for a dump request or, with flags 0, the one answer."""
        listing = Listing(kind, body, flags)
        self._send(listing)
        return self._heard(listing)

    def _send(self, listing: Listing) -> None:
        self.finish()
        answers = self._datagrams.get(listing, FEWEST_DATAGRAMS) if listing.flags else 1
        self._socket.send(self._pack(listing.request(), 0), answers, LISTING_BYTES)

    def _heard(self, listing: Listing) -> list[bytes]:
        request = listing.request()
        payloads: list[bytes] = []
        self._datagrams[listing] = 0
        while True:
            self._datagrams[listing] += 1
            for answer, answer_flags, _seq, payload in self._receive():
                if answer == NLMSG_ERROR:
                    _check(request, payload)
                    return payloads
                if answer == NLMSG_DONE:
                    return payloads
                payloads.append(payload)
                if not answer_flags & NLM_F_MULTI:
                    return payloads

    def _pack(self, request: NetlinkRequest, flags: int) -> bytes:
        self._seq += 1
        return request.message(self._seq, flags)

    def _receive(self) -> Iterator[tuple[int, int, int, bytes]]:
        data = self._socket.recv()
        at = 0
        while at + NLMSG_HDR.size <= len(data):
            length, kind, flags, seq, _pid = NLMSG_HDR.unpack_from(data, at)
            if length < NLMSG_HDR.size or at + length > len(data):
                raise FabricError(f"netlink: message of {length} bytes at {at} of {len(data)}")
            yield kind, flags, seq, data[at + NLMSG_HDR.size : at + length]
            at += length + (-length % 4)


def _groups(requests: Sequence[NetlinkRequest]) -> Iterator[list[NetlinkRequest]]:
    group: list[NetlinkRequest] = []
    size = 0
    for request in requests:
        size += NLMSG_HDR.size + len(request.body) + 3
        if group and size > SEND_BYTES:
            yield group
            group, size = [], NLMSG_HDR.size + len(request.body) + 3
        group.append(request)
    if group:
        yield group


def _check(request: NetlinkRequest, payload: bytes) -> None:
    error = -struct.unpack_from("=i", payload)[0]
    if error == 0:
        return
    message = ""
    extended = attributes(payload[4 + NLMSG_HDR.size :]) if len(payload) > 4 + NLMSG_HDR.size else {}
    if NLMSGERR_ATTR_MSG in extended:
        message = ": " + extended[NLMSGERR_ATTR_MSG].rstrip(b"\0").decode("utf-8", "replace")
    raise FabricError(f"{request.what}: {os.strerror(error)}{message}")


class entered:
    """Moves the calling thread into the namespace at a path while the context is open. With None nothing changes."""

    def __init__(self, path: str | None, kind: int = CLONE_NEWNET) -> None:
        self._path, self._kind = path, kind
        self._home = -1

    def __enter__(self) -> None:
        if self._path is None:
            return
        self._home = _own_namespace(self._kind)
        target = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(target, self._path, self._kind)
        finally:
            os.close(target)

    def __exit__(self, *_: object) -> None:
        if self._home >= 0:
            _setns(self._home, "the first namespace", self._kind)
            os.close(self._home)
            self._home = -1


def _own_namespace(kind: int) -> int:
    return os.open(f"/proc/thread-self/ns/{NAMESPACES[kind]}", os.O_RDONLY | os.O_CLOEXEC)


def _setns(fd: int, name: str, kind: int) -> None:
    if _libc.setns(fd, kind):
        raise FabricError(f"enter {NAMESPACES[kind]} namespace {name}: {os.strerror(ctypes.get_errno())}")


def new_namespace() -> None:
    """Moves the calling thread into a new network namespace. Needs CAP_SYS_ADMIN."""
    if _libc.unshare(CLONE_NEWNET):
        raise FabricError(f"create a network namespace: {os.strerror(ctypes.get_errno())}")


def add_namespaces(paths: Sequence[str], kind: int = CLONE_NEWNET) -> None:
    """Creates a namespace at each path (as `ip netns add` does). Needs CAP_SYS_ADMIN."""
    name = NAMESPACES[kind]
    home = _own_namespace(kind)
    try:
        for path in paths:
            Path(path).touch(exist_ok=False)
            if _libc.unshare(kind):
                raise FabricError(f"create {name} namespace {path}: {os.strerror(ctypes.get_errno())}")
            if _libc.mount(f"/proc/thread-self/ns/{name}".encode(), path.encode(), None, MS_BIND, None):
                raise FabricError(f"mount {name} namespace at {path}: {os.strerror(ctypes.get_errno())}")
    finally:
        _setns(home, "the first namespace", kind)
        os.close(home)
