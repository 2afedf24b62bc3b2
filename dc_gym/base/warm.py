# SPDX-License-Identifier: Apache-2.0
"""Asks a process that has imported everything (cli/warm.py) for the processes of runs: its forks have nothing left to import."""

from __future__ import annotations

import array
import asyncio
import itertools
import json
import os
import signal
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

from dc_gym.base.interpreter import python
from dc_gym.base.process_bound import unshared

MODULE = "dc_gym.cli.warm"
ENDED = struct.Struct("=ii")
"""The number of a run that has ended, and its exit status, or minus the signal that killed it."""
LONGEST_REQUEST = 1 << 17
"""Bytes of a request, which a socket takes whole. A longer one is refused with OSError."""


class WarmProcess:
    """The process from which runs are forked. It ends with `close`, or with this process, and its runs with it."""

    def __init__(self, process: asyncio.subprocess.Process, requests: socket.socket) -> None:
        self._process, self._requests = process, requests
        self._numbers = itertools.count()
        self._ends: dict[int, asyncio.Future[int]] = {}
        self._loop = asyncio.get_running_loop()
        self.lives = True
        self._loop.add_reader(requests, self._hear)

    @classmethod
    async def start(cls, more: Sequence[str] = ()) -> WarmProcess:
        """Starts it. Requests may come at once; they wait until it has imported everything, `more` modules included."""
        with unshared() as keep:
            own_end, child_end = map(keep, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        try:
            process = await asyncio.create_subprocess_exec(
                *python("-m", MODULE, str(os.getpid()), str(child_end.fileno()), *more),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
                pass_fds=(child_end.fileno(),), start_new_session=True,
            )  # fmt: skip
        except OSError:
            own_end.close()
            raise
        finally:
            child_end.close()
        own_end.setblocking(False)
        return cls(process, own_end)

    async def run(self, argv: Sequence[str]) -> WarmRun:
        """Returns the process of `dcgym` with these words. Raises OSError if it cannot be asked for one."""
        number = next(self._numbers)
        request = json.dumps({"number": number, "argv": argv}).encode()
        if len(request) > LONGEST_REQUEST:
            raise OSError("the request is too long")
        errors, write_end = os.pipe()
        try:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [write_end]))]
            self._requests.sendmsg([request], rights)
        except OSError:
            os.close(errors)
            raise
        finally:
            os.close(write_end)
        ended = self._ends[number] = self._loop.create_future()
        if not self.lives:  # it has ended just now
            self._hear_no_more()
        reader = asyncio.StreamReader()
        await self._loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(errors, "rb", 0))
        return WarmRun(self, number, asyncio.ensure_future(reader.read()), ended)

    def interrupt(self, number: int) -> None:
        with suppress(OSError):  # it has ended, and its runs with it
            self._requests.send(json.dumps({"interrupt": number}).encode())

    async def close(self) -> None:
        """Ends it. There are no runs any more."""
        self._loop.remove_reader(self._requests)
        self._requests.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    def _hear(self) -> None:
        try:
            data = self._requests.recv(ENDED.size)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._hear_no_more()
            return
        number, status = ENDED.unpack(data)
        if not (ended := self._ends.pop(number)).done():
            ended.set_result(status)

    def _hear_no_more(self) -> None:
        """It has ended. Its forks died with it."""
        self.lives = False
        self._loop.remove_reader(self._requests)
        for ended in self._ends.values():
            if not ended.done():
                ended.set_result(-signal.SIGKILL)
        self._ends.clear()


class WarmRun:
    """The process of a run, with that part of asyncio's Process which the pool uses."""

    def __init__(self, warm: WarmProcess, number: int, errors: asyncio.Task[bytes], ended: asyncio.Future[int]) -> None:
        self._warm, self._number, self._errors, self._ended = warm, number, errors, ended

    @property
    def returncode(self) -> int | None:
        return self._ended.result() if self._ended.done() else None

    async def communicate(self) -> tuple[bytes, bytes]:
        """Waits for its end, and returns its output, which is empty, and its standard error."""
        await asyncio.shield(self._ended)
        return b"", await asyncio.shield(self._errors)

    def send_signal(self, number: int) -> None:
        assert number == signal.SIGINT, "runs are interrupted, and nothing else"
        self._warm.interrupt(self._number)
