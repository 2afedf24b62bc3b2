# SPDX-License-Identifier: Apache-2.0
"""The system in a lab, reached from outside by the hand in it (kernel/hand.h): a topologies/realize/system.py.

The lab's answers are not trusted: lengths are checked against the request, and netlink messages by their reader
(topologies/realize/rtnl.py). A lab that answers wrongly ends with an error.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import FabricError, LabError
from dc_gym.kernel.channel import LabState
from dc_gym.kernel.lab import Lab
from dc_gym.topologies.realize.rtnl import CLONE_NEWNET, MS_BIND, SOCKET_OPTIONS, NetlinkSocket
from dc_gym.topologies.realize.system import ABORT, IPV6, LOCAL, RunningProgram, is_for_absent_ipv6, refused_sysctl

PROGRAM = "lab-hand"
BASE, STEP, GO_ON, AT, CALLS_MAX, START = 0x200000000, 0x68616E64, 0x100, 7 << 19, 4096, 0x10000
"""HAND_... of kernel/hand.h."""
LIST, CALL = struct.Struct("=I4x"), struct.Struct("=I6B?5x6qq")
NUMBERS = {
    "read": 0, "write": 1, "open": 2, "close": 3, "ioctl": 16, "access": 21, "nanosleep": 35, "socket": 41, "connect": 42,
    "sendto": 44, "recvfrom": 45, "bind": 49, "listen": 50, "getsockname": 51, "setsockopt": 54, "wait4": 61, "kill": 62,
    "mkdir": 83, "mount": 165, "clock_gettime": 228, "unshare": 272, "accept4": 288, "pipe2": 293, "setns": 308,
    "start": START,
}  # fmt: skip
"""System calls of x86-64, on which alone the lab kernel runs, and the hand's own system call."""
MOST_ERRNO = 4095
PIECE_BYTES = 16 << 10
"""Bytes that are read at once."""
TIMESPEC, NS = struct.Struct("=qq"), 10**9
ADDRESS = struct.Struct("=H2s4s8x")
"""struct sockaddr_in, whose port is the bytes between."""
KERNEL = struct.pack("=HHII", socket.AF_NETLINK, 0, 0, 0)
"""The address of a netlink socket that is no one's in particular (struct sockaddr_nl)."""
HOME, OWN_NETNS = "/proc/1/ns/net", "/proc/self/ns/net"
"""The first network namespace, and the hand's."""


@dataclass(frozen=True, slots=True)
class Back:
    """An argument: the result of the call that is so many places before."""

    places: int


@dataclass(frozen=True, slots=True)
class Room:
    """An argument: the address of a buffer of so many bytes, which the call fills."""

    size: int


Argument = int | str | bytes | Sequence[str] | Back | Room
"""Numbers go as they are. The call gets the address of a text, of bytes, or of words."""


@dataclass(frozen=True, slots=True)
class Call:
    """One system call, by its name in NUMBERS."""

    name: str
    arguments: tuple[Argument, ...]
    may_fail: bool
    size: int
    """Most bytes that it takes in the region."""

    @classmethod
    def of(cls, name: str, *arguments: Argument, may_fail: bool = False) -> Call:
        return cls(name, arguments, may_fail, CALL.size + sum(map(_size, arguments)))

    def failure(self, result: int) -> FabricError:
        """Returns the error for a negative result."""
        return FabricError(f"{self.name} in the lab: {os.strerror(-result)}")


@dataclass(frozen=True, slots=True)
class Done:
    """A call that was made: its result (negative: an errno) and its buffer, whole."""

    result: int
    buffer: bytes

    @property
    def data(self) -> bytes:
        """The bytes that the call put into the buffer: as many as its result."""
        return self.buffer[: max(0, self.result)]


class LostLab(Exception):
    """A lab ended, hangs, or gave an impossible answer, while it was set up or ran."""

    def __init__(self, error: LabError) -> None:
        super().__init__(str(error))
        self.error = error


class Hand:
    """The hand in a lab that has booted, and so the lab's system. It waits for a list whenever the lab does not run."""

    def __init__(self, lab: Lab, on_progress: Callable[[LabState], None] = lambda state: None) -> None:
        """`on_progress` is called now and then while the lab runs."""
        self._lab, self._on_progress = lab, on_progress
        self._unsent: list[tuple[int, list[Call]]] = []
        """By netlink socket the messages to send, and to receive then."""
        self._awaited: dict[int, tuple[int, int]] = {}
        """By netlink socket the datagrams that may still come, and the bytes of each at most."""
        self._arrived: dict[int, deque[bytes]] = {}
        self.waits = False
        """True if the hand waits for a list: not while the lab runs, nor after it ended, or this process was interrupted."""
        self._posted: list[tuple[Call, int, int]] = []
        """The calls of the list that the lab has, with the place and size of each one's buffer."""
        self.await_list(self.until_step())
        self._room = len(lab.region) - AT - LIST.size
        self._has_ipv6 = self.make(Call.of("access", IPV6, 0, may_fail=True))[0].result == 0

    def make(self, *calls: Call) -> list[Done]:
        """Has the lab make system calls, in their order, and returns their results.

        Raises:
            FabricError: One that may not fail did. Those after it were not made.
            LostLab: The lab ended, hangs, or gives an impossible answer.
        """
        self.post(*calls)
        return self.collect()

    def post(self, *calls: Call) -> None:
        """Has the lab begin to make system calls. Programs in it may ask for steps until they are made."""
        if len(calls) > CALLS_MAX or sum(call.size for call in calls) > self._room:
            raise FabricError(f"{len(calls)} system calls, the first of them {calls[0].name}, have no room in a lab's region")
        rooms = self._write(calls)
        self._posted = [(call, *room) for call, room in zip(calls, rooms, strict=True)]
        self.waits = False
        self._lab.answer(GO_ON)

    def collect(self) -> list[Done]:
        """Waits until the calls that were posted are made, and returns their results."""
        if not self.waits:
            self.await_list(self.until_step())
        return [self._read(number, *posted) for number, posted in enumerate(self._posted)]

    def end(self, status: int = 0) -> None:
        """Ends the hand, and so the lab, with an exit status."""
        self.waits = False
        self._lab.answer(status)

    def until_step(self) -> int:
        """Lets the lab run until a program asks, and returns the number of the step: STEP, or the number of an agent's step."""
        try:
            step, _ = self._lab.until_step(on_progress=self._on_progress)
        except LabError as error:
            raise LostLab(error) from error
        return step

    def await_list(self, step: int) -> None:
        """Notes that the hand waits for a list, which it has asked for by this step.

        Raises LostLab if it is another's.
        """
        if step != STEP:
            text = "a program in the lab asked the host for a step of an agent, and no agent steps now: it is no run"
            raise LostLab(LabError(text))
        self.waits = True

    def _write(self, calls: Sequence[Call]) -> list[tuple[int, int]]:
        """Lays calls into the region. Returns the place and size of each one's buffer."""
        region, at = self._lab.region, AT + LIST.size + CALL.size * len(calls)
        rooms: list[tuple[int, int]] = []
        LIST.pack_into(region, AT, len(calls))
        for number, call in enumerate(calls):
            back, values, room = [0] * 6, [0] * 6, (at, 0)
            for position, argument in enumerate(call.arguments):
                if isinstance(argument, Back):
                    back[position] = argument.places
                elif isinstance(argument, int):
                    values[position] = argument
                elif isinstance(argument, Room):
                    room, values[position] = (at, argument.size), BASE + at
                    at += argument.size + -argument.size % 8
                else:
                    data, offset = _laid(argument, BASE + at)
                    region[at : at + len(data)] = data
                    values[position] = BASE + at + offset
                    at += len(data) + -len(data) % 8
            rooms.append(room)
            CALL.pack_into(region, _place(number), NUMBERS[call.name], *back, call.may_fail, *values, 0)
        return rooms

    def _read(self, number: int, call: Call, at: int, size: int) -> Done:
        region = self._lab.region
        result = int(CALL.unpack_from(region, _place(number))[-1])
        if result < -MOST_ERRNO:
            raise LostLab(LabError(f"the lab answers {call.name} with {result}, which is no errno"))
        if result < 0 and not call.may_fail:
            raise call.failure(result)
        return Done(result, region[at : at + size])

    def make_all(self, lists: Iterable[Sequence[Call]]) -> list[list[Done]]:
        """Has the lab make several lists of calls, as many at once as there is room for, and returns the results of each."""
        outcomes: list[list[Done]] = []
        for group in self._groups(lists):
            results = iter(self.make(*(call for calls in group for call in calls)))
            outcomes += [[next(results) for _ in calls] for calls in group]
        return outcomes

    def _groups(self, lists: Iterable[Sequence[Call]]) -> Iterator[list[Sequence[Call]]]:
        group: list[Sequence[Call]] = []
        room = count = 0
        for calls in lists:
            size = sum(call.size for call in calls)
            if group and (size > room or len(calls) > count):
                yield group
                group = []
            if not group:
                room, count = self._room, CALLS_MAX
            group.append(calls)
            room, count = room - size, count - len(calls)
        if group:
            yield group

    # The System.

    def netlinks(self, namespaces: Sequence[str | None], protocol: int = socket.NETLINK_ROUTE) -> Sequence[NetlinkSocket]:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        options = enumerate(SOCKET_OPTIONS, 1)
        calls = [
            Call.of("socket", socket.AF_NETLINK, kind, protocol),
            *(Call.of("setsockopt", Back(at), *option[:2], struct.pack("=i", option[2]), 4) for at, option in options),
            Call.of("bind", Back(len(SOCKET_OPTIONS) + 1), KERNEL, len(KERNEL)),
        ]
        outcomes = self.make_all(_inside(netns, *calls) for netns in namespaces)
        fds = [outcome[_before(netns)].result for netns, outcome in zip(namespaces, outcomes, strict=True)]
        return [NetlinkSocket(opened=_FarSocket(self, fd)) for fd in fds]

    def add_namespaces(self, paths: Sequence[str]) -> None:
        for folder in {str(Path(path).parent) for path in paths}:
            self.make(Call.of("mkdir", folder, 0o755, may_fail=True))
        self.make_all(
            (
                Call.of("open", path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644),
                Call.of("close", Back(1)),
                Call.of("unshare", CLONE_NEWNET),
                Call.of("mount", OWN_NETNS, path, 0, MS_BIND, 0),
                *_home(),
            )
            for path in paths
        )

    @contextmanager
    def namespaces(self, paths: Mapping[str, str]) -> Iterator[Mapping[str, int]]:
        outcomes = self.make_all([Call.of("open", path, os.O_RDONLY | os.O_CLOEXEC)] for path in paths.values())
        fds = {key: outcome[0].result for key, outcome in zip(paths, outcomes, strict=True)}
        yield fds
        self.make_all([Call.of("close", fd)] for fd in fds.values())

    def write_sysctls(self, values: Mapping[str, str], namespaces: Sequence[str | None] = (None,)) -> None:
        sysctls = {name: value for name, value in values.items() if not is_for_absent_ipv6(name, there=self._has_ipv6)}
        calls = []
        for name, value in sysctls.items():
            calls += [
                Call.of("open", f"/proc/sys/{name}", os.O_WRONLY | os.O_CLOEXEC, may_fail=True),
                Call.of("write", Back(1), value.encode(), len(value.encode()), may_fail=True),
                Call.of("close", Back(2), may_fail=True),
            ]
        outcomes = self.make_all(_inside(netns, *calls) for netns in namespaces)
        for netns, outcome in zip(namespaces, outcomes, strict=True):
            results = [answer.result for answer in outcome[_before(netns) :]]
            for (name, value), opened, written in zip(sysctls.items(), results[::3], results[1::3], strict=False):
                if min(opened, written) < 0:
                    raise refused_sysctl(name, value, -(opened if opened < 0 else written))

    def read(self, paths: Sequence[str], namespaces: Sequence[str | None]) -> list[list[str]]:
        calls = []
        for path in paths:
            calls += [
                Call.of("open", path, os.O_RDONLY | os.O_CLOEXEC),
                Call.of("read", Back(1), Room(PIECE_BYTES), PIECE_BYTES),
                Call.of("read", Back(2), Room(1), 1),
                Call.of("close", Back(3)),
            ]
        texts = []
        for netns, outcome in zip(namespaces, self.make_all(_inside(netns, *calls) for netns in namespaces), strict=True):
            reads = outcome[_before(netns) :][: len(calls)]
            for path, more in zip(paths, reads[2::4], strict=True):
                if more.result:
                    raise FabricError(f"{path} in the lab has more than {PIECE_BYTES} bytes")
            texts.append([answer.data.decode() for answer in reads[1::4]])
        return texts

    def connect_once(self, netns: str) -> None:
        opening = Call.of("socket", socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)
        address, size = ADDRESS.pack(socket.AF_INET, bytes(2), socket.inet_aton(LOCAL)), struct.pack("=I", ADDRESS.size)
        outcome = self.make(
            *_inside(
                netns,
                *(opening, Call.of("bind", Back(1), address, len(address)), Call.of("listen", Back(2), 1)),
                *(Call.of("getsockname", Back(3), Room(len(address)), size), opening),
            )
        )[_before(netns) :]
        server, bound, client = outcome[0].result, outcome[3].buffer, outcome[4].result
        ends = Call.of("connect", client, bound, len(bound)), Call.of("accept4", server, 0, 0, socket.SOCK_CLOEXEC)
        accepted = self.make(*ends)[1].result
        linger = socket.SOL_SOCKET, socket.SO_LINGER, ABORT, len(ABORT)
        self.make(
            *(Call.of("setsockopt", end, *linger) for end in (client, accepted)),
            *(Call.of("close", fd) for fd in (client, accepted, server)),
        )

    def clock_ns(self) -> int:
        (answer,) = self.make(Call.of("clock_gettime", time.CLOCK_MONOTONIC, Room(TIMESPEC.size)))
        seconds, rest_ns = TIMESPEC.unpack(answer.buffer)
        return int(seconds * NS + rest_ns)

    def sleep(self, duration_ns: int) -> None:
        self.make(Call.of("nanosleep", TIMESPEC.pack(*divmod(duration_ns, NS)), 0))

    # Netlink: messages of several sockets go in one list, with the receiving of the answers.

    def send(self, fd: int, data: bytes, answers: int, answer_bytes: int) -> None:
        """Has a datagram sent before anything is received from any socket."""
        send = Call.of("sendto", fd, data, len(data), 0, 0, 0)
        self._awaited[fd] = answers, answer_bytes
        self._unsent.append((fd, [send, *self._receives(fd, self._room - send.size)]))

    def receive(self, fd: int) -> bytes:
        """Waits for the next datagram of a socket."""
        if not self._arrived.get(fd) and self._unsent:
            unsent, self._unsent = self._unsent, []
            for (unsent_fd, _), outcome in zip(unsent, self.make_all(calls for _, calls in unsent), strict=True):
                self._arrive(unsent_fd, outcome[1:])
        if not self._arrived.get(fd):
            self._arrive(fd, self.make(*self._receives(fd, self._room)))
        return self._arrived[fd].popleft()

    def _receives(self, fd: int, room: int) -> list[Call]:
        """Returns calls that receive the datagrams that are awaited, as many as have room. The first waits for one."""
        answers, size = self._awaited.get(fd, (1, PIECE_BYTES))
        wait, rest = (
            Call.of("recvfrom", fd, Room(size), size, socket.MSG_TRUNC | flags, 0, 0, may_fail=bool(flags))
            for flags in (0, socket.MSG_DONTWAIT)
        )
        count = max(1, min(answers, room // wait.size))
        self._awaited[fd] = max(1, answers - count), size
        return [wait, *[rest] * (count - 1)]

    def _arrive(self, fd: int, received: Sequence[Done]) -> None:
        for datagram in received:
            if datagram.result > len(datagram.buffer):
                raise FabricError(f"netlink: a datagram of {datagram.result} bytes, and there is room for {len(datagram.buffer)}")
            if datagram.result >= 0:
                self._arrived.setdefault(fd, deque()).append(datagram.data)

    def start(self, argv: Sequence[str], priority: int) -> RunningProgram:
        return _FarProgram(self, argv, priority)


class _FarSocket:
    """A netlink socket of the lab's: an rtnl.Transport."""

    def __init__(self, hand: Hand, fd: int) -> None:
        self._hand, self._fd = hand, fd

    def send(self, data: bytes, answers: int, answer_bytes: int) -> None:
        self._hand.send(self._fd, data, answers, answer_bytes)

    def recv(self) -> bytes:
        return self._hand.receive(self._fd)

    def close(self) -> None:
        """Leaves it to the hand's end."""


class _FarProgram:
    """A program that the hand has started."""

    def __init__(self, hand: Hand, argv: Sequence[str], priority: int) -> None:
        self._hand, self._unread = hand, b""
        self._listens = False
        """True if the hand reads its output, and nobody has collected it yet."""
        self._status: int | None = None
        pipes = hand.make(Call.of("pipe2", Room(8), os.O_CLOEXEC), Call.of("pipe2", Room(8), os.O_CLOEXEC))
        (input_end, self._stdin), (self._stdout, output) = (struct.unpack("=2i", pipe.buffer) for pipe in pipes)
        self._open = [self._stdin, self._stdout]
        started, *_ = hand.make(
            Call.of("start", argv[0], list(argv), input_end, output, priority, may_fail=True),
            Call.of("close", input_end),
            Call.of("close", output),
        )
        if started.result < 0:
            raise FabricError(f"{Path(argv[0]).name}: start it in the lab: {os.strerror(-started.result)}")
        self._pid = started.result

    def write(self, data: bytes) -> None:
        write = Call.of("write", self._stdin, data, len(data), may_fail=True)
        (outcome,) = self._hand.make(write)
        if outcome.result == -errno.EPIPE:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if outcome.result < 0:
            raise write.failure(outcome.result)

    def hang_up(self) -> None:
        self._open.remove(self._stdin)
        self._hand.make(Call.of("close", self._stdin))

    def line(self) -> bytes:
        while b"\n" not in self._unread and (data := self._more()):
            self._unread += data
        line, end, self._unread = self._unread.partition(b"\n")
        return line + end

    def rest(self) -> bytes:
        while data := self._more():
            self._unread += data
        output, self._unread = self._unread, b""
        return output

    def signal(self, number: int) -> None:
        if self._status is None and self._hand.waits:  # otherwise it ends with its lab
            self._hand.make(Call.of("kill", self._pid, number, may_fail=True))

    def wait(self) -> int:
        if not self._hand.waits:
            return -signal.SIGKILL
        if self._status is None:
            (outcome,) = self._hand.make(Call.of("wait4", self._pid, Room(4), 0, 0))
            self._status = os.waitstatus_to_exitcode(int.from_bytes(outcome.buffer, "little"))
        return self._status

    def close(self) -> None:
        if self._hand.waits and self._open:
            pipes, self._open = self._open, []
            self._hand.make(*(Call.of("close", fd) for fd in pipes))

    def listen(self) -> None:
        if b"\n" not in self._unread:
            self._hand.post(self._reading())
            self._listens = True

    def _more(self) -> bytes:
        (outcome,) = self._hand.collect() if self._listens else self._hand.make(self._reading())
        self._listens = False
        return outcome.data

    def _reading(self) -> Call:
        return Call.of("read", self._stdout, Room(PIECE_BYTES), PIECE_BYTES)


def _inside(netns: str | None, *calls: Call) -> list[Call]:
    """Returns the calls, made in a network namespace: two calls more before them, and some after them."""
    if netns is None:
        return list(calls)
    return [
        Call.of("open", netns, os.O_RDONLY | os.O_CLOEXEC),
        Call.of("setns", Back(1), CLONE_NEWNET),
        *calls,
        Call.of("close", Back(len(calls) + 2)),
        *_home(),
    ]


def _home() -> list[Call]:
    return [
        Call.of("open", HOME, os.O_RDONLY | os.O_CLOEXEC),
        Call.of("setns", Back(1), CLONE_NEWNET),
        Call.of("close", Back(2)),
    ]


def _before(netns: str | None) -> int:
    """Returns the number of calls that _inside() puts before the given ones."""
    return 0 if netns is None else 2


def _place(number: int) -> int:
    return AT + LIST.size + CALL.size * number


def _size(argument: Argument) -> int:
    if isinstance(argument, (int, Back)):
        return 0
    return (argument.size if isinstance(argument, Room) else len(_laid(argument, 0)[0])) + 8


def _laid(argument: str | bytes | Sequence[str], address: int) -> tuple[bytes, int]:
    """Returns the bytes of an argument that begin at an address, and the offset that the call gets."""
    if isinstance(argument, bytes):
        return argument, 0
    if isinstance(argument, str):
        return argument.encode() + b"\0", 0
    texts = [word.encode() + b"\0" for word in argument]
    table = 8 * (len(texts) + 1)  # the last pointer is NULL
    places = [address + table + sum(map(len, texts[:number])) for number in range(len(texts))]
    return struct.pack(f"={len(texts) + 1}Q", *places, 0) + b"".join(texts), 0
