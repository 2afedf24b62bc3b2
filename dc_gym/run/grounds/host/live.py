# SPDX-License-Identifier: Apache-2.0
"""A live network on the host ground: its process, its shared memory, and the steps of an agent in real time.

It has the same interface for steps as a Lab (`until_step`, `answer`, `region`), but the network does not wait for the agent. A
step is the sweep at t0 + k x step. An agent that comes too late for a step gets the newest one and has missed those between.
"""

from __future__ import annotations

import mmap
import os
import select
import subprocess
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from dc_gym.base.errors import FabricError, LabError
from dc_gym.base.process_bound import this_process, unshared
from dc_gym.kernel.share import RegionServer
from dc_gym.monitors.state_matrix import StateMatrix
from dc_gym.run.grounds.ground import inside
from dc_gym.run.grounds.host import state
from dc_gym.run.plan.plan import GO_ON, NEXT_EPISODE, REASON

SETUP_LIMIT_S = 600.0
GRACE_S = 120.0  # after the traffic, for counting
SWEEP_LIMIT_S = 30.0  # a sweep that is later than this will not come
POLL_S, LOOK_S = 0.2, 0.0005
NEXT_WORD = b"next\n"
"""Line to the network's process: the files of another episode are ready."""
LAST_LINES = 15
ASKS = "::ask "
"""Beginning of a line by which the network's process asks for a step."""


class Ended(LabError):
    """The network's process has ended where a step was expected."""


class LiveNetwork:
    """One network, while the context is open."""

    def __init__(
        self,
        argv: Callable[[int], list[str]],
        folder: Path,
        module: Path | None,
        step_ns: int,
        on_line: Callable[[str], None] = lambda line: None,
        on_note: Callable[[str], None] = lambda words: None,
        limits_s: tuple[float, float] = (SETUP_LIMIT_S, GRACE_S),
    ) -> None:
        """`argv` returns the command of the network's process for the descriptor of its memory.

        `folder` is the run's folder. `module` is the cable's module. `limits_s` are the longest times of the set-up, and of the
        work after the traffic.
        """
        self._argv, self._folder, self._module, self._step_ns = argv, folder, module, step_ns
        self._on_line, self._on_note = on_line, on_note
        self._setup_limit_s, self._grace_s = limits_s
        self._stack, self._owner = ExitStack(), this_process()
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._rest = b""
        self.t0_ns: int | None = None
        """CLOCK_MONOTONIC of t0, of a run or of the present episode. None until it is known."""
        self._next_step = 0
        self._memory = -1
        self._share: RegionServer | None = None
        self._process: subprocess.Popen[bytes]
        self._region: mmap.mmap | None = None
        self._matrix: StateMatrix | None = None
        self._asked: deque[int] = deque()
        """Steps that the network's process has asked for."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def region(self) -> mmap.mmap:
        """The state matrix, writable, from the first step on."""
        assert self._region is not None, "until_step comes first"
        return self._region

    def until_step(self) -> tuple[int, int]:
        """Waits for the next step, or takes the newest if that is past. Returns its number and the time of its sweep.

        Raises Ended if the network has ended instead, and LabError if sweeps do not come.
        """
        self._owner.require_here("step")
        t0_ns = self._until_t0()
        due_ns = t0_ns + self._next_step * self._step_ns
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            self._attend_alive(left_ns / 1e9)
        matrix = self._mapped()
        while matrix.t_ns < due_ns:
            self._attend_alive(LOOK_S)
            if time.monotonic_ns() > due_ns + int(SWEEP_LIMIT_S * 1e9):
                raise LabError(self._story(f"no sweep of step {self._next_step} came within {SWEEP_LIMIT_S:g} s"))
        t_ns = matrix.t_ns
        step = (t_ns - t0_ns) // self._step_ns if self._next_step else 0
        self._next_step = step + 1
        return step, t_ns

    def answer(self, code: int) -> None:
        """Passes on the agent's decision about the episode. If the agent ends the episode, it is over at its next step."""
        self._owner.require_here("answer a network")
        if code == GO_ON:
            return
        self._mapped().commands.end(code)
        if code == NEXT_EPISODE:
            self.t0_ns, self._next_step = None, 0
            assert self._process.stdin is not None
            with suppress(BrokenPipeError):  # the next wait for a step reports it
                os.write(self._process.stdin.fileno(), NEXT_WORD)

    def wait(self, duration_ns: int, on_progress: Callable[[int, int], None]) -> int:
        """Waits until the network's process ends and returns its status. Raises FabricError if it does not end."""
        began = time.monotonic()
        while self._attend(POLL_S):
            self._check_time(began, duration_ns)
            if self.t0_ns is not None:
                on_progress(time.monotonic_ns() - self.t0_ns, duration_ns)
        return self._process.wait()

    def converse(self, answer: Callable[[mmap.mmap, int], int]) -> int:
        """Answers the requests of the network's process (`Site.ask`) until it ends, and returns its status."""
        began = time.monotonic()
        while self._attend(POLL_S):
            if self.t0_ns is None:
                self._check_time(began, 0)
            while self._asked:
                if self._region is None:
                    self._region = self._map()
                code = answer(self._region, self._asked.popleft())
                assert self._process.stdin is not None
                with suppress(BrokenPipeError):  # the network has ended, as its output shows
                    os.write(self._process.stdin.fileno(), f"{code}\n".encode())
        return self._process.wait()

    def close(self) -> None:
        """Ends the network. Does nothing in a forked child."""
        if not self._owner.is_here():
            return
        if self._matrix is not None:
            self._matrix.close()
            self._matrix = None
        if self._region is not None:
            with suppress(BufferError):  # somebody still views it; it is released with the last reference
                self._region.close()
            self._region = None
        self._stack.close()

    def _start(self) -> None:
        in_ground = self._stack.enter_context(state.registered(self._folder))
        if self._module is not None:
            state.use_cable(self._module)
        self._memory = os.memfd_create("dcgym-matrix", os.MFD_CLOEXEC)
        self._stack.callback(os.close, self._memory)
        self._share = self._serve()
        with unshared() as keep:
            self._process = subprocess.Popen(
                self._argv(self._memory),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=[self._memory], env=inside("/run"), cwd="/", start_new_session=True,
            )  # fmt: skip
            assert self._process.stdin is not None
            keep(self._process.stdin)
        self._stack.callback(_end, self._process)
        in_ground(self._process.pid)

    def _serve(self) -> RegionServer | None:
        """Opens the socket to which `dcgym watch` attaches. A file system without sockets (9p) has none."""
        folder = self._folder / ".lab"
        try:
            return self._stack.enter_context(RegionServer(folder))
        except OSError as error:
            self._on_note(f"{folder}: no socket can be made here ({error.strerror}): dcgym watch will not find this run")
            return None

    def _until_t0(self) -> int:
        """Returns the time at which traffic starts, or has started, in the present episode."""
        began = time.monotonic()
        while self.t0_ns is None:
            self._attend_alive(POLL_S)
            self._check_time(began, 0)
        return self.t0_ns

    def _mapped(self) -> StateMatrix:
        """Maps the matrix. agentd has created it before t0 is known."""
        if self._matrix is None:
            self._region = self._map()
            self._matrix = StateMatrix.over(self._region)
        return self._matrix

    def _map(self) -> mmap.mmap:
        """Maps the shared memory, to which the network's process has given its size."""
        return mmap.mmap(self._memory, os.fstat(self._memory).st_size)

    def _attend_alive(self, timeout_s: float) -> None:
        if not self._attend(timeout_s):
            raise Ended(self._story(f"the network on the host ended with status {self._process.wait()}"))

    def _attend(self, timeout_s: float) -> bool:
        """Passes on the network's output and serves watchers for at most that long. Returns False when the network has ended."""
        assert self._process.stdout is not None
        sources: list[Any] = [self._process.stdout, *([] if self._share is None else [self._share])]
        ready, _, _ = select.select(sources, [], [], timeout_s)
        if self._share is not None and self._share in ready:
            self._share.serve_one(self._memory, 0, os.fstat(self._memory).st_size)
        if self._process.stdout in ready:
            data = os.read(self._process.stdout.fileno(), 1 << 16)
            if not data:
                return False
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._take(line.decode(errors="replace"))
        return True

    def _take(self, line: str) -> None:
        if line.startswith("::t0 "):
            self.t0_ns = int(line.removeprefix("::t0 "))
            return
        if line.startswith(ASKS):
            self._asked.append(int(line.removeprefix(ASKS)))
            return
        if not line.startswith("::"):
            self._lines.append(line)
        self._on_line(line)

    def _check_time(self, began: float, duration_ns: int) -> None:
        if self.t0_ns is None:
            if time.monotonic() - began > self._setup_limit_s:
                raise FabricError(f"the network did not stand within {self._setup_limit_s:g} s")
        elif time.monotonic_ns() > self.t0_ns + duration_ns + int(self._grace_s * 1e9):
            raise FabricError(f"the run has not ended {self._grace_s:g} s after its traffic should have")

    def _story(self, problem: str) -> str:
        """Returns the reason that the network's process gave, if it did, and its last lines."""
        reasons = [line.removeprefix(REASON) for line in self._lines if line.startswith(REASON)]
        words = [line for line in self._lines if not line.startswith(REASON)]
        return "\n".join([reasons[-1] if reasons else problem, *(f"  host: {line}" for line in words)])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the ground by closing the pipe. If it hangs, kills it, and all in its namespaces with it."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    if process.poll() is None:
        process.kill()
    process.wait()
