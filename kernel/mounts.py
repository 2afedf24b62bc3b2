# SPDX-License-Identifier: Apache-2.0
"""The folders of the host as a lab reaches them: folders that it writes to, and folders to which its user cannot walk.

A lab started by root runs as another user, without any right of root's. Root opens for it a needed folder that lies in a folder
closed to others, such as a checkout below /root: the lab mounts the folder behind the descriptor. The rest of the closed folder
is empty for it. kernel/init.c makes the mounts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.files import ODD
from dc_gym.kernel.user import ENTER, ENTER_AND_READ, lab_user, lab_user_may


class LabFolders:
    """Opens folders for a lab. The descriptors stay open as long as `stack`."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.fds: list[int] = []
        """All descriptors that the lab inherits."""
        self.writable_fds: list[int] = []
        self._reached: dict[str, Path] = {}

    def open(self, folder: Path) -> int:
        fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._stack.callback(os.close, fd)
        self.fds.append(fd)
        return fd

    def reach(self, folder: Path) -> str:
        """Returns a path by which the lab kernel reaches a folder, in characters that its command line can carry."""
        if _closed_folder(folder, []) is None and not ODD.search(str(folder)):
            return str(folder)
        path = behind(self.open(folder))
        self._reached[path] = folder
        return path

    def named(self, text: str) -> str:
        """Returns a text of the lab kernel with the names of the folders that it reached by descriptors."""
        for path, folder in self._reached.items():
            text = text.replace(f"{path}/", f"{folder}/")
        return text

    def mounts(self, writable: Sequence[Path], private: Path, needed: Iterable[Path]) -> list[str]:
        """Returns the mounts that the lab makes, as entries of its boot file: of the folders that it writes to, of the run's
        `private`, and of folders in `needed` to which its user cannot walk.

        `private` lies below the overlay of /tmp otherwise, whose entries stay in the lab's memory. Raises UsageError if the lab's
        user could not read one of these even then.
        """
        entries: list[str] = []
        reached: list[Path] = []
        for path in sorted({*writable, private, *_with_targets(needed)}):
            _check_open(path)
            closed = _closed_folder(path, reached)
            if closed is not None and (cover := f"cover {closed}") not in entries:
                entries.append(cover)
            if path in writable:
                self.writable_fds.append(self.open(path))
                entries.append(f"write {self.writable_fds[-1]} {path}")
                reached.append(path)
            elif closed is not None or (path == private and not any(path.is_relative_to(folder) for folder in writable)):
                entries.append(f"read {self.open(path)} {path}")
                reached.append(path)
        return entries


def behind(fd: int) -> str:
    """Returns the path by which a process reaches the folder behind a descriptor of its own."""
    return f"/proc/self/fd/{fd}/."


def _with_targets(needed: Iterable[Path]) -> list[Path]:
    """Returns the folders that exist, and the targets of links among them."""
    folders = [path for path in needed if path.is_dir()] if os.geteuid() == 0 else []
    return [folder for path in folders for folder in (path, path.resolve())]


def _check_open(path: Path) -> None:
    if os.geteuid() == 0 and not lab_user_may(ENTER_AND_READ, path):
        raise UsageError(
            f"{path} is closed to user {lab_user()[0]}, as whom root's labs run: chmod -R a+rX {path}, or let that user run dcgym"
        )


def _closed_folder(path: Path, reached: Sequence[Path]) -> Path | None:
    """Returns the first folder on the way to `path` that the lab's user may not enter, or None.

    The way begins at the nearest of the folders that the lab has reached, or at the root.
    """
    if os.geteuid() != 0:
        return None
    start = max((base for base in reached if path.is_relative_to(base)), key=lambda base: len(base.parts), default=Path("/"))
    way = [folder for folder in reversed(path.parents) if folder.is_relative_to(start) and folder != start]
    return next((folder for folder in way if not lab_user_may(ENTER, folder)), None)
