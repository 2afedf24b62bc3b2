# SPDX-License-Identifier: Apache-2.0
"""`dcgym attach`: a further prompt on a shell that runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from dc_gym.base.errors import UsageError
from dc_gym.cli.shell import commands
from dc_gym.cli.shell.network import SCRATCH
from dc_gym.cli.shell.sources import Source, open_source
from dc_gym.cli.shell.visitors import FRAME, INTERRUPT, NAME
from dc_gym.kernel.share import short
from dc_gym.run.grounds.guest.shell_memory import ENDED, ERR, Report

ENDED_EARLY = "the shell has ended"


def attach(number: int | None) -> int:
    """Serves the prompt, and returns the exit status of its last command.

    `number` is the process of the shell. None: this user has only one.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as shell:
        name, path = _place(number)
        try:
            with short(path) as address:
                shell.connect(address)
        except OSError as error:
            raise UsageError(f"the shell of process {name} does not answer ({error.strerror}); has it just ended?") from None
        source = open_source(lambda before, word: [verb for verb in commands.NAMES if not before and verb.startswith(word)])
        try:
            return _converse(shell, source)
        finally:
            source.close()


def _place(number: int | None) -> tuple[str, Path]:
    """Returns process and socket of this user's shell."""
    sockets = {}
    for path in sorted(Path(tempfile.gettempdir()).glob(f"{SCRATCH}*/{NAME}-*")):
        with suppress(OSError):
            if path.stat().st_uid == os.geteuid():
                sockets[path.name.rpartition("-")[2]] = path
    matches = [name for name in sockets if number is None or name == str(number)]
    if len(matches) == 1:
        return matches[0], sockets[matches[0]]
    if not sockets:
        raise UsageError("no shell of yours runs here: start one with dcgym shell SPEC")
    raise UsageError(f"give the process of the shell: dcgym attach PID; there are: {', '.join(sockets)}")


def _converse(shell: socket.socket, source: Source) -> int:
    status, clock_ns = 0, 0
    with shell.makefile("rb") as frames:
        signal.signal(signal.SIGINT, lambda *_: shell.sendall(f"{INTERRUPT}\n".encode()))
        shell.sendall(b"\n")  # asks for the time
        while True:
            kind, data = _frame(frames)
            if kind != ENDED:
                (sys.stderr if kind == ERR else sys.stdout).buffer.write(data)
                (sys.stderr if kind == ERR else sys.stdout).flush()
                continue
            report = Report(**json.loads(data))
            status, clock_ns = report.status, report.clock_ns
            signal.signal(signal.SIGINT, signal.default_int_handler)
            line = source.read(f"{clock_ns / 1e9:.3f}s attached> ")
            if line is None or line in commands.END:
                return status
            signal.signal(signal.SIGINT, lambda *_: shell.sendall(f"{INTERRUPT}\n".encode()))
            shell.sendall(f"{line}\n".encode(errors="surrogateescape"))


def _frame(frames: BinaryIO) -> tuple[int, bytes]:
    head = frames.read(FRAME.size)
    if len(head) < FRAME.size:
        raise UsageError(ENDED_EARLY)
    kind, length = FRAME.unpack(head)
    return kind, frames.read(length)
