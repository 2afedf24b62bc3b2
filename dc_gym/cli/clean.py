# SPDX-License-Identifier: Apache-2.0
"""`dcgym clean`: removes what killed commands left.

A killed command leaves something only if its janitor was killed, too. The command searches the folders that are named and the one
for temporary files. With --cache it also removes downloads and builds.

It removes nothing that a living process holds. A cleaner is a function in CLEANERS that removes leftovers of dead processes and
yields a line for each. To clean up another kind of leftover, add a cleaner.
"""

from __future__ import annotations

import os
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

from dc_gym.base import folder_lock
from dc_gym.base.errors import UsageError
from dc_gym.base.files import PARTIAL, SCRATCH, discard
from dc_gym.base.terminal import say
from dc_gym.base.unfinished import remove_left_over
from dc_gym.kernel import cache
from dc_gym.results.folder import ASIDE, is_result, is_unfinished, recover, settle
from dc_gym.run.grounds.host import state

DEPTH = 2


def main(args: Namespace) -> int:
    """Runs the command.

    `args.folders` are the folders to search for unfinished results; `args.cache` removes kernels and Open vSwitch too.
    """
    for cleaner in CLEANERS:
        for line in cleaner(args):
            say(line)
    return 0


def _folders(args: Namespace) -> Iterator[str]:
    """Removes unfinished results, replaced ones, and scratch folders of verify, doctor and benches."""
    for folder in args.folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder; give one that holds results")
        for path in _search(folder, DEPTH):
            if (path.name.startswith(SCRATCH) or path.name.endswith(PARTIAL)) and is_unfinished(path):
                yield from _remove(path)
            elif path.name.endswith(ASIDE):
                yield from _put_back(path)


def _files(args: Namespace) -> Iterator[str]:
    """Removes single files that were being written."""
    for folder in args.folders:
        for directory in (folder, *_search(folder, DEPTH)):
            for path in sorted(directory.glob(f"*{PARTIAL}")):
                if remove_left_over(path):
                    yield f"removed {path}"


def _temporary(_args: Namespace) -> Iterator[str]:
    """Removes the user's own scratch folders among all users' temporary files."""
    for path in sorted(Path(tempfile.gettempdir()).iterdir()):
        if path.name.startswith(SCRATCH) and _is_own(path) and is_unfinished(path):
            yield from _remove(path)


def _cache(args: Namespace) -> Iterator[str]:
    """Removes kernels, Open vSwitch and package lists.

    The cache folder itself stays, as it may be the user's own (DCGYM_CACHE).
    """
    if args.cache:
        for path in cache.clear():
            yield f"removed {path}"


def _search(folder: Path, depth: int) -> Iterator[Path]:
    """Yields the folders below. It does not enter results, symbolic links, scratch folders and hidden folders."""
    for path in sorted(folder.iterdir()):
        if path.is_symlink() or not path.is_dir():
            continue
        yield path
        entered = (
            not path.name.startswith((".", *SCRATCH))
            and not path.name.endswith((PARTIAL, ASIDE))
            and os.access(path, os.R_OK | os.X_OK)
        )
        if depth and entered and path.exists() and not (path / "manifest.json").exists():
            yield from _search(path, depth - 1)


def _remove(path: Path) -> Iterator[str]:
    with folder_lock.removing(path.parent) as alone:
        if alone and not is_unfinished(path):
            return  # its run has ended just now
        try:
            held = folder_lock.take(path) if alone else None
        except FileNotFoundError:
            return
        except PermissionError:
            yield f"left    {path}: another user's"
            return
        if held is None:
            yield f"left    {path}: in use"
            return
        try:
            if path.name.endswith(PARTIAL):
                settle(path.with_suffix(""))  # an older result that was to be replaced gets its name back first
            discard(path)
        finally:
            held.close()
        yield f"left    {path}: cannot be removed" if path.exists() else f"removed {path}"


def _is_own(path: Path) -> bool:
    try:
        return path.lstat().st_uid == os.geteuid()
    except FileNotFoundError:  # its process has removed it just now
        return False


def _put_back(aside: Path) -> Iterator[str]:
    """Repairs an older result beside which no run is under way any more."""
    out = aside.with_suffix("")
    newer = os.path.lexists(out)
    if not is_result(aside) or (newer and not is_result(out)) or out.with_name(out.name + PARTIAL).exists():
        return  # not dc-gym's, or it is repaired together with its run
    try:
        recover(out)
    except UsageError:
        yield f"left    {aside}: in use"
        return
    yield f"removed {aside}" if newer else f"renamed {aside} to {out.name}"


def _host(_args: Namespace) -> Iterator[str]:
    """Removes the host ground's files below /run/dcgym, and its module."""
    yield from state.clean()


CLEANERS: tuple[Callable[[Namespace], Iterator[str]], ...] = (_host, _folders, _files, _temporary, _cache)
