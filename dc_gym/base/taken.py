# SPDX-License-Identifier: Apache-2.0
"""Takes over the files that programs in a ground have written, so that nothing among them leads elsewhere."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
BITS = 0o777
"""The mode of a file that is kept: without set-user-id and the like."""


def take_over(folder: Path) -> list[str]:
    """Makes all files and folders in `folder` this process' own, and removes everything else: links, pipes, sockets, devices,
    and files with a second name. Returns the removed names. The programs have ended.

    Nothing is opened through a link.
    """
    removed = []
    at = folder
    try:
        for path, folders, files, fd in os.fwalk(folder, follow_symlinks=False):
            at = Path(path)
            status = os.fstat(fd)
            _own(fd, status.st_mode & BITS | stat.S_IRWXU)
            for name in sorted([*folders, *files]):
                at = Path(path, name)
                if not _taken(name, fd):
                    os.unlink(name, dir_fd=fd)
                    removed.append(str(at.relative_to(folder)))
    except OSError as error:  # calls with a descriptor name none, or a number
        error.filename = str(at)
        raise
    return removed


def _taken(name: str, folder_fd: int) -> bool:
    """Makes a file this process' own, unless it is none. Folders are taken when the walk comes to them."""
    status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return True
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        return False
    with suppress(PermissionError):  # the user's own file, which the user may not read: it leads nowhere
        fd = os.open(name, OPEN, dir_fd=folder_fd)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:  # another took its place just now
                return False
            _own(fd, status.st_mode & BITS)
        finally:
            os.close(fd)
    return True


def _own(fd: int, mode: int) -> None:
    os.fchown(fd, os.geteuid(), os.getegid())
    os.fchmod(fd, mode)
