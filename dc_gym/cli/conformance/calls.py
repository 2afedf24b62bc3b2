# SPDX-License-Identifier: Apache-2.0
"""System calls of a script, made through libc exactly as written, also with bad pointers and wrong lengths.

A call is a function here, found by its name in CALLS. It gets the unevaluated arguments and returns libc's return value. It
raises Mismatch when the call succeeded and filled in other values than the script's.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dc_gym.cli.conformance.script import Anything, Either, Name, Struct
from dc_gym.cli.conformance.symbols import SYMBOLS

__all__ = ["CALLS", "NEW_DESCRIPTORS", "Mismatch", "ScriptState", "Unsupported", "evaluate"]

PORT = 8080
CONTROL_BYTES = 4096
SOL_SOCKET, SCM_TIMESTAMPING, SOL_TCP = socket.SOL_SOCKET, SYMBOLS["SCM_TIMESTAMPING"], socket.IPPROTO_TCP
TCP_CLOSE = 7
"""State of a socket without a connection: net/tcp_states.h."""
SIZED = ("read", "write", "recv", "send", "sendto", "sendmsg", "recvmsg", "splice", "sendfile")
"""Functions of libc that return a size. The others return an int."""
libc = ctypes.CDLL(None, use_errno=True)


class Mismatch(Exception):
    """The kernel did not behave as the script requires."""


class Unsupported(Exception):
    """The script uses something that this interpreter does not support."""


@dataclass(slots=True)
class ScriptState:
    """The state that the system calls of one script share."""

    domain: int
    local: bytes
    """Packed address that bind() takes, of the domain's length."""
    remote: bytes
    defines: dict[str, int | str]
    realtime_start_ns: int = 0
    tolerance_ns: int = 0
    on_listen: Callable[[int], None] = lambda fd: None
    on_connect: Callable[[int], None] = lambda fd: None
    on_accept: Callable[[int, int], None] = lambda fd, port: None
    fds: dict[int, int] = field(default_factory=dict)
    """The script's descriptors, mapped to the real ones."""
    kept: list[Any] = field(default_factory=list)
    """Buffers that the kernel may still read (MSG_ZEROCOPY)."""

    def fd(self, argument: Any) -> int:
        number = self.number(argument)
        if number < 0:
            return number
        if number not in self.fds:
            raise Unsupported(f"descriptor {number} was not made by this script")
        return self.fds[number]

    def number(self, argument: Any) -> int:
        """Returns an integer from an integer, a symbol, or symbols with | between."""
        value = evaluate(argument, self.defines)
        if not isinstance(value, int):
            raise Unsupported(f"{argument!r} where a number is expected")
        return value


def evaluate(argument: Any, defines: dict[str, int | str]) -> Any:
    """Replaces symbols by numbers. Everything else stays."""
    match argument:
        case Name(name) if name in defines:
            value = defines[name]
            return evaluate(Name(value), {}) if isinstance(value, str) else value
        case Name(name) if name in SYMBOLS:
            return SYMBOLS[name]
        case Name(name):
            raise Unsupported(f"symbol {name}")
        case Either(parts):
            total = 0
            for part in parts:
                total |= evaluate(part, defines)
            return total
    return argument


def _raw(name: str, *args: Any) -> int:
    """Calls libc and returns its result. errno is kept for the caller."""
    ctypes.set_errno(0)
    function = getattr(libc, name)
    function.restype = ctypes.c_ssize_t if name in SIZED else ctypes.c_int
    return int(function(*args))


def _buffer(process: ScriptState, argument: Any, length: int) -> Any:
    """Returns memory of `length` zero bytes, given bytes, or NULL."""
    if argument == Name("NULL"):
        return None
    memory = ctypes.create_string_buffer(argument if isinstance(argument, bytes) else b"", max(length, 1))
    process.kept.append(memory)
    return memory


def _address(process: ScriptState, argument: Any, default: bytes) -> tuple[Any, int]:
    """Returns a socket address: `default` for `...`, and zero bytes (AF_UNSPEC) for 0."""
    if isinstance(argument, Anything):
        family = struct.pack("=H", process.domain) + struct.pack("!H", PORT)
        plain = family + default if process.domain == socket.AF_INET else family + bytes(4) + default + bytes(4)
        data = plain.ljust(16, b"\0")
    elif evaluate(argument, process.defines) == 0:
        data = bytes(16)
    else:
        raise Unsupported(f"socket address {argument!r}")
    return ctypes.create_string_buffer(data, len(data)), len(data)


# -- sockets ----------------------------------------------------------------


def _socket(process: ScriptState, args: Sequence[Any]) -> int:
    domain = process.domain if isinstance(args[0], Anything) else process.number(args[0])
    return _raw("socket", domain, process.number(args[1]), process.number(args[2]))


def _bind(process: ScriptState, args: Sequence[Any]) -> int:
    memory, length = _address(process, args[1], process.local)
    return _raw("bind", process.fd(args[0]), memory, length)


def _listen(process: ScriptState, args: Sequence[Any]) -> int:
    result = _raw("listen", process.fd(args[0]), process.number(args[1]))
    if result == 0:
        process.on_listen(process.fd(args[0]))
    return result


def _accept(process: ScriptState, args: Sequence[Any]) -> int:
    memory, length = ctypes.create_string_buffer(128), ctypes.c_uint32(128)
    flags = process.number(args[3]) if len(args) > 3 else 0
    result = _raw("accept4", process.fd(args[0]), memory, ctypes.byref(length), flags)
    if result >= 0:
        process.on_accept(result, int.from_bytes(memory.raw[2:4], "big"))
    return result


def _connect(process: ScriptState, args: Sequence[Any]) -> int:
    fd = process.fd(args[0])
    memory, length = _address(process, args[1], process.remote)
    if isinstance(args[1], Anything):
        process.on_connect(fd)
    return _raw("connect", fd, memory, length)


def _shutdown(process: ScriptState, args: Sequence[Any]) -> int:
    return _raw("shutdown", process.fd(args[0]), process.number(args[1]))


def _setsockopt(process: ScriptState, args: Sequence[Any]) -> int:
    fd, level, name = process.fd(args[0]), process.number(args[1]), process.number(args[2])
    length = process.number(args[4])
    match args[3]:
        case bytes(data):
            data = data.ljust(length, b"\0")
        case [single]:
            data = struct.pack("=q", process.number(single))[: max(length, 4)]
        case other:
            raise Unsupported(f"setsockopt with {other!r}")
    memory = ctypes.create_string_buffer(data, max(len(data), 1))
    return _raw("setsockopt", fd, level, name, memory, length)


def _getsockopt(process: ScriptState, args: Sequence[Any]) -> int:
    fd, level, name = process.fd(args[0]), process.number(args[1]), process.number(args[2])
    match args[3], args[4]:
        case [expected], [size]:
            pass
        case other:
            raise Unsupported(f"getsockopt with {other!r}")
    memory, length = ctypes.create_string_buffer(16), ctypes.c_uint32(process.number(size))
    result = _raw("getsockopt", fd, level, name, memory, ctypes.byref(length))
    if result == 0:
        target, most = process.number(expected), 1 << 8 * length.value
        value = int.from_bytes(memory.raw[: length.value], "little", signed=target < 0)
        _same(f"getsockopt({level}, {name})", target if abs(target) >= most else target % most, value % most)
    return result


# -- reading and writing ----------------------------------------------------


def _read(process: ScriptState, args: Sequence[Any]) -> int:
    length = process.number(args[2])
    return _raw("read", process.fd(args[0]), _buffer(process, args[1], length), ctypes.c_size_t(length))


def _write(process: ScriptState, args: Sequence[Any]) -> int:
    length = process.number(args[2])
    return _raw("write", process.fd(args[0]), _buffer(process, args[1], length), ctypes.c_size_t(length))


def _recv(process: ScriptState, args: Sequence[Any]) -> int:
    length = process.number(args[2])
    flags = process.number(args[3])
    return _raw("recv", process.fd(args[0]), _buffer(process, args[1], length), ctypes.c_size_t(length), flags)


def _send(process: ScriptState, args: Sequence[Any]) -> int:
    fd, length, flags = process.fd(args[0]), process.number(args[2]), process.number(args[3])
    memory = _buffer(process, args[1], length)
    if len(args) == 4:
        return _raw("send", fd, memory, ctypes.c_size_t(length), flags)
    address, size = _address(process, args[4], process.remote)
    _will_connect(process, fd, flags)
    return _raw("sendto", fd, memory, ctypes.c_size_t(length), flags, address, size)


def _will_connect(process: ScriptState, fd: int, flags: int) -> None:
    """Reports a connection if sending with these flags begins one: MSG_FASTOPEN on a socket that has none."""
    if flags & SYMBOLS["MSG_FASTOPEN"]:
        state = ctypes.create_string_buffer(1)
        known = _raw("getsockopt", fd, SOL_TCP, socket.TCP_INFO, state, ctypes.byref(ctypes.c_uint32(1))) == 0
        if not known or state.raw[0] == TCP_CLOSE:
            process.on_connect(fd)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


def _message(process: ScriptState, argument: Any) -> _Message:
    """Returns a struct msghdr with the vectors that the script asks for."""
    if not isinstance(argument, Struct):
        raise Unsupported(f"message {argument!r}")
    parts = argument.get("msg_iov") or []
    vectors = (_Vector * max(len(parts), 1))()
    for vector, part in zip(vectors, parts, strict=False):
        vector.length = process.number(part.items[1])
        vector.base = ctypes.cast(_buffer(process, part.items[0], vector.length), ctypes.c_void_p)
    message = _Message(vectors=vectors, vector_count=len(parts))
    process.kept += [vectors, message]
    if (name := argument.get("msg_name")) is not None:
        memory, message.name_length = _address(process, name, process.remote)
        message.name = ctypes.cast(memory, ctypes.c_void_p)
        process.kept.append(memory)
    return message


def _sendmsg(process: ScriptState, args: Sequence[Any]) -> int:
    fd, flags, message = process.fd(args[0]), process.number(args[2]), _message(process, args[1])
    if message.name:
        _will_connect(process, fd, flags)
    return _raw("sendmsg", fd, ctypes.byref(message), flags)


def _recvmsg(process: ScriptState, args: Sequence[Any]) -> int:
    message = _message(process, args[1])
    control = ctypes.create_string_buffer(CONTROL_BYTES)
    message.control, message.control_length = ctypes.cast(control, ctypes.c_void_p), CONTROL_BYTES
    result = _raw("recvmsg", process.fd(args[0]), ctypes.byref(message), process.number(args[2]))
    if result >= 0:
        _same("msg_flags", process.number(args[1].get("msg_flags") or 0), message.flags)
        _check_control(process, args[1].get("msg_control") or [], control.raw[: message.control_length])
    return result


def _check_control(process: ScriptState, expected: Sequence[Struct], data: bytes) -> None:
    """Compares control messages in the kernel's order."""
    messages = []
    while len(data) >= 16:
        length, level, kind = struct.unpack_from("=Qii", data)
        messages.append((level, kind, data[16:length]))
        data = data[length + 7 & ~7 :]
    _same("number of control messages", len(expected), len(messages))
    for want, (level, kind, payload) in zip(expected, messages, strict=True):
        _same("cmsg_level", process.number(want.get("cmsg_level")), level)
        _same("cmsg_type", process.number(want.get("cmsg_type")), kind)
        _check_payload(process, want.get("cmsg_data"), payload)


def _check_payload(process: ScriptState, want: Any, payload: bytes) -> None:
    if not isinstance(want, Struct):
        _same("cmsg_data", process.number(want), int.from_bytes(payload[:4], "little", signed=True))
    elif want.get("scm_sec") is not None:
        seconds, nanoseconds = struct.unpack_from("=qq", payload)
        live_ns = seconds * 10**9 + nanoseconds - process.realtime_start_ns
        asked_ns = process.number(want.get("scm_sec")) * 10**9 + process.number(want.get("scm_nsec"))
        if abs(live_ns - asked_ns) > process.tolerance_ns:
            raise Mismatch(f"timestamp is {live_ns} ns after the start, expected {asked_ns} ns")
    else:
        names = ("ee_errno", "ee_origin", "ee_type", "ee_code", "ee_info", "ee_data")
        values = struct.unpack_from("=IBBBxII", payload)
        for name, value in zip(names, values, strict=True):
            _same(name, process.number(want.get(name)), value)


def _same(label: str, expected: int, actual: int) -> None:
    if expected != actual:
        raise Mismatch(f"{label} is {actual}, expected {expected}")


# -- files and events -------------------------------------------------------


def _close(process: ScriptState, args: Sequence[Any]) -> int:
    fd = process.fd(args[0])
    result = _raw("close", fd)
    if result == 0:
        del process.fds[process.number(args[0])]
    return result


def _fcntl(process: ScriptState, args: Sequence[Any]) -> int:
    return _raw("fcntl", process.fd(args[0]), *map(process.number, args[1:]))


def _ioctl(process: ScriptState, args: Sequence[Any]) -> int:
    value = ctypes.c_int()
    result = _raw("ioctl", process.fd(args[0]), ctypes.c_ulong(process.number(args[1])), ctypes.byref(value))
    match args[2:]:
        case [[expected]] if result >= 0:
            _same("ioctl", process.number(expected), value.value)
    return result


def _open(process: ScriptState, args: Sequence[Any]) -> int:
    return _raw("open", ctypes.c_char_p(args[0]), *map(process.number, args[1:]))


def _pipe(process: ScriptState, args: Sequence[Any]) -> int:
    ends = os.pipe()
    process.fds |= dict(zip(map(process.number, args[0]), ends, strict=True))
    return 0


def _splice(process: ScriptState, args: Sequence[Any]) -> int:
    length = ctypes.c_size_t(process.number(args[4]))
    return _raw("splice", process.fd(args[0]), None, process.fd(args[2]), None, length, process.number(args[5]))


def _sendfile(process: ScriptState, args: Sequence[Any]) -> int:
    offset = ctypes.c_int64(process.number(args[2][0]))
    length = ctypes.c_size_t(process.number(args[3]))
    return _raw("sendfile", process.fd(args[0]), process.fd(args[1]), ctypes.byref(offset), length)


def _epoll_create(process: ScriptState, args: Sequence[Any]) -> int:
    return _raw("epoll_create", process.number(args[0]))


_EPOLL = struct.Struct("=Iq")  # packed, on x86-64


def _epoll_ctl(process: ScriptState, args: Sequence[Any]) -> int:
    event = ctypes.create_string_buffer(_EPOLL.pack(process.number(args[3].get("events")), _user(process, args[3])))
    return _raw("epoll_ctl", process.fd(args[0]), process.number(args[1]), process.fd(args[2]), event)


def _epoll_wait(process: ScriptState, args: Sequence[Any]) -> int:
    room = process.number(args[2])
    events = ctypes.create_string_buffer(_EPOLL.size * max(room, 1))
    result = _raw("epoll_wait", process.fd(args[0]), events, room, process.number(args[3]))
    if result > 0:
        event_mask, user = _EPOLL.unpack_from(events.raw)
        _same("epoll events", process.number(args[1].get("events")), event_mask)
        _same("epoll data", _user(process, args[1]), user)
    return result


def _user(process: ScriptState, event: Struct) -> int:
    """Returns the user data of an epoll event: the script's own number of a descriptor, or whatever it wrote."""
    values = [event.get(name) for name in ("fd", "ptr", "u32", "u64")]
    return next((process.number(value) for value in values if value is not None), 0)


def _poll(process: ScriptState, args: Sequence[Any]) -> int:
    polls = args[0]
    memory = b"".join(struct.pack("=ihh", process.fd(poll.get("fd")), process.number(poll.get("events")), 0) for poll in polls)
    buffer = ctypes.create_string_buffer(memory, max(len(memory), 1))
    result = _raw("poll", buffer, ctypes.c_ulong(process.number(args[1])), process.number(args[2]))
    for number, poll in enumerate(polls if result >= 0 else ()):
        _, _, revents = struct.unpack_from("=ihh", buffer.raw, 8 * number)
        _same("revents", process.number(poll.get("revents") or 0), revents)
    return result


CALLS: dict[str, Callable[[ScriptState, Sequence[Any]], int]] = {
    "socket": _socket, "bind": _bind, "listen": _listen, "accept": _accept, "accept4": _accept, "connect": _connect,
    "shutdown": _shutdown, "setsockopt": _setsockopt, "getsockopt": _getsockopt,
    "read": _read, "write": _write, "recv": _recv, "recvfrom": _recv, "send": _send, "sendto": _send,
    "sendmsg": _sendmsg, "recvmsg": _recvmsg,
    "close": _close, "fcntl": _fcntl, "ioctl": _ioctl, "open": _open, "pipe": _pipe, "splice": _splice, "sendfile": _sendfile,
    "epoll_create": _epoll_create, "epoll_ctl": _epoll_ctl, "epoll_wait": _epoll_wait, "poll": _poll,
}  # fmt: skip
NEW_DESCRIPTORS = ("socket", "accept", "accept4", "open", "epoll_create")
"""Calls whose result, if it is not negative, is a new descriptor."""
