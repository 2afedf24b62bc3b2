# SPDX-License-Identifier: Apache-2.0
"""The messages of a training about resuming: after Ctrl-C, and with --resume.

After Ctrl-C they name the last checkpoint and the command that continues. With --resume they name the checkpoint to continue
from.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from pathlib import Path

__all__ = ["begins", "command", "goes_on", "interrupted"]

OPTION = "--resume"


def command(args: Namespace, *, resume: bool = True) -> str:
    """Returns the command line from which `args` were read, quoted for a shell.

    It contains --resume, unless `resume` is False.
    """
    return shlex.join(["dcgym", *args.argv, *([OPTION] if resume and not args.resume else [])])


def interrupted(state: str | None, path: Path, again: str) -> str:
    """Returns the message after Ctrl-C.

    `state` names the progress in the checkpoint at `path`, such as "iteration 3"; None means that there is no checkpoint. `again`
    is the command.
    """
    return f"{state} is kept in {path}; go on with: {again}" if state else f"nothing is kept yet; begin again with: {again}"


def goes_on(state: str, path: Path) -> str:
    """Returns the message with --resume."""
    return f"goes on after {state}, from {path}"


def begins(path: Path, when: str) -> str:
    """Returns the message with --resume if there is no checkpoint. `when` says when checkpoints are written."""
    return f"{OPTION}: {path} has no checkpoint, so the training begins at zero; one is written {when}, and at Ctrl-C"
