# SPDX-License-Identifier: Apache-2.0
"""A process that has imported the modules of a run, and forks a process for each requested run (base/warm.py).

python -m dc_gym.cli.warm PID FD [MODULE ...]

PID is the number of its parent, with which it ends; requests come on the socket FD; the modules are imported, too. It runs
nothing itself and loads no code of users, so whatever a run does to its process ends with that run. A fork copies one thread
only, and a lock that another one holds would stay locked in the copy. So there is none: `main` ends at once where a library has
started a thread, and runs then start by themselves.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from dc_gym.base import process_room
from dc_gym.base.errors import MachineError, TestbedError
from dc_gym.base.progress import Quiet
from dc_gym.base.terminal import say
from dc_gym.base.warm import ENDED, LONGEST_REQUEST
from dc_gym.cli import early
from dc_gym.cli.signals import tie_to_parent

MODULES = (
    *("dc_gym.cli.run", "dc_gym.base.progress", "dc_gym.run.runner", "dc_gym.run.result.outcome", "dc_gym.run.result.manifest"),
    *(
        "dc_gym.run.grounds.lab",
        "dc_gym.run.plan.writer",
        "dc_gym.run.plan.nics",
        "dc_gym.run.grounds.frozen",
        "dc_gym.results.results",
    ),
    *("numpy.ma", "encodings.utf_8_sig", "encodings.idna"),
)
"""Modules that a run on the lab imports, with all that these import."""
ALLOCATOR = "JE_ARROW_MALLOC_CONF"
"""The settings of an allocator that pyarrow contains and does not use by default. It starts a thread unless these forbid it."""


def main() -> None:
    parent, requests = int(sys.argv[1]), int(sys.argv[2])
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a run that has just been forked is not ready for it
    tie_to_parent(parent, interruptible=False)
    load(sys.argv[3:])
    if threads() == 1:
        Forking(socket.socket(fileno=requests)).serve()


def load(more: Sequence[str] = ()) -> None:
    """Imports the modules of a run, and reads the files whose digests a run checks or names in its manifest."""
    is_ours = ALLOCATOR not in os.environ
    if is_ours:
        os.environ[ALLOCATOR] = "background_thread:false"
    from dc_gym.cli.main import NUMPY_THREADS

    os.environ.setdefault(NUMPY_THREADS, "1")
    for name in (*MODULES, *more):
        importlib.import_module(name)
    if is_ours:
        del os.environ[ALLOCATOR]  # a run does not hand it on to its programs
    from dc_gym.kernel import build
    from dc_gym.results import fingerprint
    from dc_gym.run.grounds.ground import check_programs

    fingerprint.read_sources()
    with suppress(TestbedError):  # each run prints this itself
        build.lookup(build.choose(Quiet()))
        check_programs()
    gc.collect()
    gc.freeze()


def threads() -> int:
    """Returns the number of threads of this process, including libraries' threads."""
    return len([*Path("/proc/self/task").iterdir()])


class Forking:
    """Forks a process for each request, interrupts it on demand, and reports how it ended."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._poll = select.poll()
        self._poll.register(requests, select.POLLIN)
        self._runs: dict[int, tuple[int, int]] = {}
        """Number and process id of each run under way, by the descriptor that is readable when it has ended."""

    def serve(self) -> None:
        """Returns when the other end of the socket is closed."""
        while True:
            for fd, _ in self._poll.poll():
                if fd != self._requests.fileno():
                    self._reap(fd)
                elif not self._take():
                    return

    def _take(self) -> bool:
        data, fds = _receive(self._requests)
        if not data:
            return False
        request = json.loads(data)
        if "argv" in request:
            self._begin(request, *fds)
        for pid in (pid for number, pid in self._runs.values() if number == request.get("interrupt")):
            os.kill(pid, signal.SIGINT)  # it has not been reaped, so the id is its own
        return True

    def _begin(self, request: dict[str, Any], errors: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            if not process_room.is_refusal(error):
                raise
            os.write(errors, f"dcgym: {process_room.refused()}\n".encode())
            self._requests.send(ENDED.pack(request["number"], MachineError.exit_code))
        else:
            if pid == 0:
                self._be_run(request, errors)
            ended = os.pidfd_open(pid)
            self._runs[ended] = request["number"], pid
            self._poll.register(ended, select.POLLIN)
        os.close(errors)

    def _reap(self, ended: int) -> None:
        number, pid = self._runs.pop(ended)
        self._poll.unregister(ended)
        os.close(ended)
        _, status = os.waitpid(pid, 0)
        self._requests.send(ENDED.pack(number, os.waitstatus_to_exitcode(status)))

    def _be_run(self, request: dict[str, Any], errors: int) -> NoReturn:
        """Turns a forked process into the process of a run, as `cli/cell.py` is one, and ends it."""
        code = 1
        try:
            warm = os.getppid()
            self._requests.close()
            for fd in self._runs:
                os.close(fd)
            os.setsid()
            os.dup2(errors, 2)
            os.close(errors)
            code = _run(request["argv"], warm)
        except SystemExit as ended:
            code = _code_of(ended)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            end(code)


def _run(argv: list[str], parent: int) -> int:
    from dc_gym.cli.main import main as dcgym

    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed()  # a plug-in's draws without a seed must differ between runs
    sys.argv = ["dcgym", *argv]
    try:
        tie_to_parent(parent)
        return dcgym(argv)
    except KeyboardInterrupt:  # before or after the errors that `dcgym` itself catches
        early.stop(signal.SIGINT, None)
        raise


def _code_of(ended: SystemExit) -> int:
    if ended.code is None or isinstance(ended.code, int):
        return ended.code or 0
    say(ended.code, file=sys.stderr)
    return 1


def end(code: int) -> NoReturn:
    """Ends the process as multiprocessing ends its forks: registered exit functions run, and memory is left as it is.

    The interpreter's own end would touch all of it, and so copy the pages that the fork shares: 45 ms of CPU time.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


def _receive(requests: socket.socket) -> tuple[bytes, list[int]]:
    """Returns a message and the descriptors that came with it."""
    data, ancillary, _, _ = requests.recvmsg(LONGEST_REQUEST, socket.CMSG_SPACE(struct.calcsize("i")), socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for _, _, payload in ancillary:
        fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
    return data, list(fds)


if __name__ == "__main__":
    main()
