# SPDX-License-Identifier: Apache-2.0
"""The user as whom a lab runs, and that user's rights."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.pinned import pinned
from dc_gym.base.taken import BITS, OPEN

UNPRIVILEGED = 65534  # nobody, if root was not reached by sudo
NO_ID = 2**32 - 1
"""The kernel takes this number for none."""
ENTER, ENTER_AND_READ, ENTER_AND_WRITE = 0o1, 0o5, 0o3


def lab_user() -> tuple[int, int]:
    """Returns uid and gid of a lab: the caller's or, for root, the ids of the user behind sudo, otherwise of nobody."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    uid, gid = _of_sudo("SUDO_UID"), _of_sudo("SUDO_GID")
    return (uid, gid) if uid and gid else (UNPRIVILEGED, UNPRIVILEGED)


def _of_sudo(name: str) -> int:
    """Returns a number that sudo gives for its caller, 0 without sudo."""
    text = os.environ.get(name) or "0"
    if not (text.isascii() and text.isdecimal() and int(text) < NO_ID):
        raise UsageError(f"{name}={text}: sudo sets it to a number below {NO_ID}; unset it, or call dcgym by sudo")
    return int(text)


def lab_user_may(rights: int, folder: Path) -> bool:
    """Returns whether the lab's user has these rights in a folder that it has reached.

    os.access() does not help: for root it returns True whatever the mode.
    """
    (uid, gid), status = lab_user(), folder.stat()
    shift = 6 if status.st_uid == uid else 3 if status.st_gid == gid else 0
    return status.st_mode >> shift & rights == rights


def let_lab_read(folder: Path) -> None:
    """Lets root's labs read the files in a folder of root's, whatever root's umask is. It opens nothing through a link."""
    if os.geteuid() != 0:
        return
    with pinned(folder) as itself:
        itself.chmod(0o755)
        for path in itself.iterdir():
            if path.is_file() and not path.is_symlink():
                _let_read(path)


def _let_read(path: Path) -> None:
    """Opens a file to everybody, unless it has a second name: the second name may belong to a file that is to stay closed."""
    fd = os.open(path, OPEN)
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            os.fchmod(fd, status.st_mode & BITS | 0o444)
    finally:
        os.close(fd)
