# SPDX-License-Identifier: Apache-2.0
"""The system on which a network is set up: this process's own system, or a lab that it reaches (run/grounds/hand.py).

Set-up goes through these few operations, so the same code does it from inside a lab and from outside.
"""

from __future__ import annotations

import errno
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

from dc_gym.base.errors import FabricError
from dc_gym.topologies.realize import rtnl
from dc_gym.topologies.realize.rtnl import NetlinkSocket, entered


class RunningProgram(Protocol):
    """A program with a pipe at its standard input and at its standard output."""

    def write(self, data: bytes) -> None:
        """Writes to its standard input. Raises BrokenPipeError if it has ended."""

    def hang_up(self) -> None:
        """Closes its standard input."""

    def line(self) -> bytes:
        """Waits for the next line of its standard output. Returns nothing at its end."""

    def listen(self) -> None:
        """Lets time pass in the system until the next line comes, for which the next `line` waits."""

    def rest(self) -> bytes:
        """Waits for the end of its standard output, and returns the unread rest."""

    def signal(self, number: int) -> None:
        """Sends it a signal, unless it has ended."""

    def wait(self) -> int:
        """Waits for its end. Returns its exit status, or minus the signal that killed it."""

    def close(self) -> None:
        """Closes the pipes of a program that has ended."""


class System(Protocol):
    """The operations. Paths are the system's own. Network namespaces are given by their paths; None is the first one."""

    def netlinks(self, namespaces: Sequence[str | None], protocol: int = socket.NETLINK_ROUTE) -> Sequence[NetlinkSocket]:
        """Returns a netlink socket in each network namespace."""

    def add_namespaces(self, paths: Sequence[str]) -> None:
        """Creates a network namespace at each path, in a folder that it makes where there is none."""

    def namespaces(self, paths: Mapping[str, str]) -> AbstractContextManager[Mapping[str, int]]:
        """Returns descriptors of network namespaces by the keys of their paths, for requests while the context is open."""

    def write_sysctls(self, values: Mapping[str, str], namespaces: Sequence[str | None] = (None,)) -> None:
        """Sets kernel parameters by their paths below /proc/sys. Raises FabricError at the first that is refused."""

    def read(self, paths: Sequence[str], namespaces: Sequence[str | None]) -> list[list[str]]:
        """Returns the text of files, as they are in each network namespace."""

    def connect_once(self, netns: str) -> None:
        """Makes a TCP connection within a network namespace, and aborts it."""

    def clock_ns(self) -> int:
        """Returns CLOCK_MONOTONIC."""

    def sleep(self, duration_ns: int) -> None:
        """Lets time pass."""

    def start(self, argv: Sequence[str], priority: int) -> RunningProgram:
        """Starts a program with a priority of SCHED_FIFO (0: none)."""


class _Child:
    """A child process of this one."""

    def __init__(self, argv: Sequence[str], priority: int) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        try:
            if priority:
                os.sched_setscheduler(self._process.pid, os.SCHED_FIFO, os.sched_param(priority))
        except PermissionError as error:
            self.signal(signal.SIGKILL)
            self.wait()
            raise FabricError(
                f"{Path(argv[0]).name}: make it a real-time process: {error.strerror}; give CAP_SYS_NICE"
            ) from error

    def write(self, data: bytes) -> None:
        self._stdin.write(data)
        self._stdin.flush()

    def hang_up(self) -> None:
        self._stdin.close()

    def line(self) -> bytes:
        return self._stdout.readline()

    def listen(self) -> None:
        """Does nothing: time passes anyway."""

    def rest(self) -> bytes:
        return self._stdout.read()

    def signal(self, number: int) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait()

    def close(self) -> None:
        for pipe in (self._stdin, self._stdout):
            pipe.close()


class Here:
    """The system in which this process runs."""

    def netlinks(self, namespaces: Sequence[str | None], protocol: int = socket.NETLINK_ROUTE) -> Sequence[NetlinkSocket]:
        return [NetlinkSocket(netns, protocol) for netns in namespaces]

    def add_namespaces(self, paths: Sequence[str]) -> None:
        for folder in {Path(path).parent for path in paths}:
            folder.mkdir(exist_ok=True)
        rtnl.add_namespaces(paths)

    @contextmanager
    def namespaces(self, paths: Mapping[str, str]) -> Iterator[Mapping[str, int]]:
        with ExitStack() as stack:
            fds = {key: os.open(path, os.O_RDONLY | os.O_CLOEXEC) for key, path in paths.items()}
            for fd in fds.values():
                stack.callback(os.close, fd)
            yield fds

    def write_sysctls(self, values: Mapping[str, str], namespaces: Sequence[str | None] = (None,)) -> None:
        settings = {name: value for name, value in values.items() if not is_for_absent_ipv6(name, there=Path(IPV6).exists())}
        for netns in namespaces:
            with entered(netns):
                for name, value in settings.items():
                    try:
                        Path("/proc/sys", name).write_text(value)
                    except OSError as error:
                        raise refused_sysctl(name, value, error.errno or errno.EIO) from error

    def read(self, paths: Sequence[str], namespaces: Sequence[str | None]) -> list[list[str]]:
        texts = []
        for netns in namespaces:
            with entered(netns):
                texts.append([Path(path).read_text() for path in paths])
        return texts

    def connect_once(self, netns: str) -> None:
        with entered(netns), socket.create_server((LOCAL, 0)) as server:
            client = socket.create_connection(server.getsockname())
            accepted, _ = server.accept()
            for end in (client, accepted):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
                end.close()

    def clock_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, duration_ns: int) -> None:
        time.sleep(duration_ns / 1e9)

    def start(self, argv: Sequence[str], priority: int) -> RunningProgram:
        return _Child(argv, priority)


HERE = Here()
LOCAL = "127.0.0.1"
ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER of a TCP socket whose end leaves no TIME_WAIT."""
IPV6 = "/proc/sys/net/ipv6"


def is_for_absent_ipv6(name: str, *, there: bool) -> bool:
    """Returns True for a parameter of IPv6 where the kernel has none (`there`), and so cannot have it on."""
    return name.startswith("net/ipv6/") and not there


def refused_sysctl(name: str, value: str, number: int) -> FabricError:
    """Returns the error for a kernel parameter that was refused with this errno."""
    return FabricError(f"set {name.replace('/', '.')} to '{value}': {os.strerror(number)}")
