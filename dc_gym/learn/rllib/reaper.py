# SPDX-License-Identifier: Apache-2.0
"""Ends the processes that our own Ray leaves when it is killed. Ray's processes watch one another, but some go on for a minute.

    with watching(folder) as reaper:     # before Ray starts in that folder
        ray.init(...)
        reaper.knows(raylet_of(os.getpid()))

The reaper is a process that waits for a message on its standard input. If the input ends without the message, the training was
killed, and the reaper kills every process that has a file in Ray's folder open. After the message it kills the processes that
Ray's own shutdown left. If the raylet ends first, the reaper also ends the training, which would otherwise wait for answers that
never come.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from dc_gym.base.interpreter import python
from dc_gym.base.package import PACKAGE
from dc_gym.base.process_bound import this_process, unshared

DONE, ALONE = b"done\n", b"alone\n"
GRACE_S = 2.0
"""The time that a training has for its own cleanup after its raylet has ended."""
ROUNDS, ROUND_S = 50, 0.1
"""Rounds of killing, and seconds between them: a process may have started while others were killed."""


class Reaper:
    """The training's side of the connection to the reaper."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def knows(self, raylet: int | None) -> None:
        """Sends the reaper the process id of the raylet, whose end ends the training."""
        if raylet is not None:
            self._tell(b"%d\n" % raylet)

    def leaves_raylet(self) -> None:
        """Notifies the reaper that Ray is about to be shut down, and that the raylet may end."""
        self._tell(ALONE)

    def dismiss(self) -> None:
        """Notifies the reaper that Ray was shut down."""
        self._tell(DONE)
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()

    def _tell(self, word: bytes) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the reaper was killed
            self._process.stdin.write(word)


@contextlib.contextmanager
def watching(folder: Path) -> Iterator[Reaper]:
    """Starts a reaper. If this process dies while the context is open, all processes with an open file below `folder` are
    killed."""
    argv = python("-m", "dc_gym.learn.rllib.reaper", str(folder), str(os.getpid()))
    owner, env = this_process(), {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    with unshared() as keep:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, bufsize=0, start_new_session=True, env=env
        )
        assert process.stdin is not None
        keep(process.stdin)
    reaper = Reaper(process)
    try:
        yield reaper
    finally:
        if owner.is_here():
            reaper.dismiss()


def raylet_of(pid: int) -> int | None:
    """Returns the process id of the raylet that a process has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            name, fields = (folder / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            if name == "raylet" and int(fields.split()[1]) == pid:
                return int(folder.name)
    return None


def holders(folder: Path) -> list[int]:
    """Returns the ids of the processes that have a file below `folder` open."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(_is_below(link, folder) for link in (process / "fd").iterdir()):
                pids.append(int(process.name))
    return pids


def _is_below(link: Path, folder: Path) -> bool:
    try:
        return link.readlink().is_relative_to(folder)
    except OSError:
        return False


def main(folder: Path, training: int) -> int:
    watched = os.pidfd_open(training)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    raylet = -1
    while True:
        ready = [number for number, _ in poll.poll()]
        words = os.read(0, 4096) if 0 in ready else None
        if words is None:
            if _lives(watched):
                print("training: Ray's raylet has ended; was it killed? Go on with --resume", file=sys.stderr)
            words = b""
        if words.endswith(DONE):
            _kill_holders(folder, training)
            return 0
        if not words:
            _end(folder, training, watched)
            return 1
        if raylet >= 0:
            poll.unregister(raylet)
            raylet = -1
        if words != ALONE:
            with contextlib.suppress(ProcessLookupError, ValueError):
                raylet = os.pidfd_open(int(words.splitlines()[-1]))
                poll.register(raylet, select.POLLIN)


def _end(folder: Path, training: int, watched: int) -> None:
    """Kills all other processes at once. The training gets time to clean up, and is then killed, too."""
    _signal(watched, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    for _ in range(ROUNDS):
        if time.monotonic() > deadline:
            _signal(watched, signal.SIGKILL)
        if not _kill_holders(folder, training) and not _lives(watched):
            return
        time.sleep(ROUND_S)


def _kill_holders(folder: Path, training: int) -> int:
    """Kills the processes that hold files in the folder open and returns their number."""
    others = [pid for pid in holders(folder) if pid not in (training, os.getpid())]
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(others)


def _signal(watched: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(watched, number)


def _lives(watched: int) -> bool:
    return not select.select([watched], [], [], 0)[0]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
