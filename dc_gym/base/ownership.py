# SPDX-License-Identifier: Apache-2.0
"""Tells whether files are the caller's own: whether somebody else made them, or could change them.

It decides what runs code from a folder without being asked: a result's plug-ins, the pickles of a training's checkpoints.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["why_foreign"]

SUDO = "SUDO_UID"
"""The environment variable by which sudo names its caller."""


def why_foreign(*paths: Path) -> str | None:
    """Returns why these files, or anything in these folders, are not the caller's alone; None if they are.

    Under sudo nothing is: what is safe for the user who asks root for help may not be safe for root.
    """
    if os.geteuid() == 0 and os.environ.get(SUDO, "0") != "0":
        return "this command runs under sudo"
    return next((why for path in paths for each in _with_contents(path) if (why := _why(each)) is not None), None)


def _with_contents(path: Path) -> Iterator[Path]:
    yield path
    if path.is_symlink():
        yield path.resolve()
    for folder, folders, files in os.walk(path.resolve()):
        for name in (*folders, *files):
            each = Path(folder, name)
            yield each
            if each.is_symlink():  # os.walk does not enter it
                yield each.resolve()


def _why(path: Path) -> str | None:
    try:
        found = path.lstat()
    except OSError as error:
        return f"{path}: {error.strerror}"
    if found.st_uid != os.geteuid():
        return f"{path} belongs to {_user(found.st_uid)}"
    if stat.S_ISLNK(found.st_mode):  # its own mode means nothing
        return None
    if found.st_mode & stat.S_IWOTH or (found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid)):
        return f"others may write {path}"
    return None


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _is_private(gid: int) -> bool:
    """Returns True for a group of the caller alone, with which many distributions create each user."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
