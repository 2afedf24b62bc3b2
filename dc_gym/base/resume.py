# SPDX-License-Identifier: Apache-2.0
"""What a training says of going on: after Ctrl-C what is kept and which command goes on, with --resume where it goes on from."""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

__all__ = ["begins", "command", "goes_on", "interrupted"]

OPTION = "--resume"


def command(args: Namespace, *, resume: bool = True) -> str:
    """The command line `args` were read from, so that a shell takes it; with --resume unless it says so, or `resume` is False."""
    return shlex.join(["dcgym", *args.argv, *([OPTION] if resume and not args.resume else [])])


def interrupted(done: str | None, place: Path, again: str) -> str:
    """`done`: what the checkpoint at `place` holds, such as "iteration 3"; None: there is none. `again`: the command."""
    return f"{done} is kept in {place}; go on with: {again}" if done else f"nothing is kept yet; begin again with: {again}"


def goes_on(done: str, place: Path) -> str:
    """With --resume."""
    return f"goes on after {done}, from {place}"


def begins(place: Path, when: str) -> str:
    """With --resume, where there is nothing to go on from; `when` checkpoints are written."""
    return f"{OPTION}: {place} has no checkpoint, so the training begins at zero; one is written {when}, and at Ctrl-C"
