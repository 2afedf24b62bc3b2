# SPDX-License-Identifier: Apache-2.0
"""Real programs in hosts: started and stopped at times after t0, in a host's network namespace, with their output in files.

Each program has a keeper: a forked process that sleeps until the start, runs the program in a session of its own, and ends that
session at the stop. Nothing polls. Files that a program writes into its folder (RUN/exec) stay with the result, and so do
HOST-N.stdout and HOST-N.stderr. A pipe passes on how it ended (`finish`). Linux only; needs root in the ground.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
KEEPER_PRIORITY = 5  # SCHED_FIFO, so that sleeps end on time; below tgen and qmon
GRACE_NS = 10**9  # between SIGTERM and SIGKILL
NS_PER_S = 10**9
STARTED = "::exec "
"""Beginning of the line by which the runner gets a program's process id, host and command."""
FOLDER = "exec"
LONGEST_SAID = 300
"""The number of characters of a failed program's last line that are passed on."""


@dataclass(frozen=True, slots=True)
class ExecRequest:
    """A program to run. Times are ns after t0."""

    host: str
    argv: tuple[str, ...]
    start_ns: int
    stop_ns: int


def find_program(name: str) -> str | None:
    """Returns the path of a program as a host would find it, or None if there is none."""
    import shutil  # no lab needs it

    return shutil.which(name, path=PATH)


class Execs:
    """All programs of a run, from before t0 to its end. No program outlives the context."""

    def __init__(self, requests: Sequence[ExecRequest], run_folder: Path, t0_ns: int) -> None:
        self._requests, self._folder, self._t0_ns = tuple(requests), run_folder / FOLDER, t0_ns
        self._keepers: list[tuple[int, int]] = []  # process, and reading end of its pipe

    def __enter__(self) -> Self:
        if self._requests:
            from dc_gym.topologies.realize.fabric import name_hosts

            self._folder.mkdir(exist_ok=True)
            name_hosts(dict.fromkeys(request.host for request in self._requests))  # before two keepers would
        counts: dict[str, int] = {}
        for request in self._requests:
            number = counts.get(request.host, 0)
            counts[request.host] = number + 1
            self._keepers.append(self._fork(request, f"{request.host}-{number}"))
        return self

    def __exit__(self, *_: object) -> None:
        while self._keepers:
            keeper, pipe = self._keepers.pop()
            os.kill(keeper, signal.SIGTERM)  # the keeper ends its program, then itself
            os.waitpid(keeper, 0)
            os.close(pipe)

    def finish(self) -> list[dict[str, Any]]:
        """Waits until all programs have ended or were stopped, and returns how each ended, in the order of the requests."""
        ends = []
        for _, pipe in self._keepers:
            with os.fdopen(os.dup(pipe), "rb") as file:
                ends.append(json.loads(file.read() or b"{}"))
        return [
            {"host": request.host, "command": list(request.argv), **end}
            for request, end in zip(self._requests, ends, strict=True)
        ]

    def _fork(self, request: ExecRequest, name: str) -> tuple[int, int]:
        reading, writing = os.pipe()
        keeper = os.fork()
        if keeper:
            os.close(writing)
            return keeper, reading
        status = 1
        try:
            end = _keep(request, self._folder, name, self._t0_ns)
            os.write(writing, json.dumps(end).encode())
            status = 0
        finally:
            os._exit(status)


def _keep(request: ExecRequest, folder: Path, name: str, t0_ns: int) -> dict[str, Any]:
    """Runs the whole life of a keeper."""
    from dc_gym.topologies.realize.fabric import at_host  # imports Mininet, which only a ground needs

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(KEEPER_PRIORITY))
    if _wait({signal.SIGTERM}, t0_ns + request.start_ns):
        return {"start_ns": None, "end_ns": None, "exit": None, "stopped": True}
    outputs = folder / f"{name}.stdout", folder / f"{name}.stderr"
    with at_host(request.host), outputs[0].open("wb") as out, outputs[1].open("wb") as err:
        started_ns = time.monotonic_ns()
        try:
            program = _start(request, folder, out, err)
        except OSError as error:
            reason = f"{request.argv[0]}: {error.strerror}"
            err.write(f"{reason}\n".encode())
            at_ns = started_ns - t0_ns
            return {"start_ns": at_ns, "end_ns": at_ns, "exit": 127, "stopped": False, "said": reason}
        command = " ".join(shlex.join(request.argv).split())
        print(f"{STARTED}{program.pid} {request.host}: {command[:LONGEST_SAID]}", flush=True)
        stopped = _wait_for(program, t0_ns + request.stop_ns)
        ended_ns = time.monotonic_ns()
    end = {"start_ns": started_ns - t0_ns, "end_ns": ended_ns - t0_ns, "exit": program.returncode, "stopped": stopped}
    return end | ({"said": _last_line(outputs[1])} if program.returncode and not stopped else {})


def _last_line(stderr: Path) -> str:
    """Returns the last line that contains a word, shortened, or '' if there is none."""
    with stderr.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4 * LONGEST_SAID))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines()]
    words = next((line for line in reversed(lines) if line), "")
    return "".join(letter if letter.isprintable() else " " for letter in words[:LONGEST_SAID])


def _start(request: ExecRequest, folder: Path, out: Any, err: Any) -> subprocess.Popen[bytes]:
    environment = {"PATH": PATH, "HOME": str(folder), "TMPDIR": "/tmp", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}
    return subprocess.Popen(
        request.argv,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
        preexec_fn=_be_ordinary,
    )


def _be_ordinary() -> None:
    """Resets scheduling and signals. A program would otherwise inherit the keeper's."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _wait_for(program: subprocess.Popen[bytes], stop_ns: int) -> bool:
    """Waits until the program ends or its time is up, then ends its whole session. Returns True if it was stopped."""
    if _ends(program, stop_ns):
        return False
    for how in (signal.SIGTERM, signal.SIGKILL):
        _signal_session(program.pid, how)
        if _ends(program, time.monotonic_ns() + GRACE_NS):
            break
    _signal_session(program.pid, signal.SIGKILL)
    return True


def _ends(program: subprocess.Popen[bytes], until_ns: int) -> bool:
    """Waits for the program's end. Returns False if it did not end in time, or if the keeper gets the command to end."""
    while program.poll() is None:
        if _wait({signal.SIGTERM, signal.SIGCHLD}, until_ns) != signal.SIGCHLD:
            return program.poll() is not None
    return True


def _signal_session(leader: int, how: signal.Signals) -> None:
    try:
        os.killpg(leader, how)
    except ProcessLookupError:
        pass


def _wait(signals: set[signal.Signals], until_ns: int) -> signal.Signals | None:
    """Returns the first of the (blocked) signals to arrive, or None when the time is up."""
    while (left_ns := until_ns - time.monotonic_ns()) > 0:
        if (siginfo := signal.sigtimedwait(signals, left_ns / NS_PER_S)) is not None:
            return signal.Signals(siginfo.si_signo)
    return None


def to_json(requests: Sequence[ExecRequest]) -> list[dict[str, Any]]:
    """Returns the requests as JSON types for the plan."""
    return [asdict(request) for request in requests]


def from_json(plain: Sequence[dict[str, Any]]) -> list[ExecRequest]:
    """Returns the requests that to_json wrote."""
    return [ExecRequest(**{**request, "argv": tuple(request["argv"])}) for request in plain]
