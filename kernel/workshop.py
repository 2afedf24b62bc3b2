# SPDX-License-Identifier: Apache-2.0
"""The workshop: the one tree of the cache in which kernels with a user's changes are built.

It keeps its object files, so that make compiles only what differs from the build before. Files that stay the same keep their
times. The default kernel is built elsewhere, and its tree is not kept.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dc_gym.base.progress import Progress
from dc_gym.kernel.cache import cache_dir, locked, make_folder

__all__ = ["settled"]


@contextmanager
def settled(stage: Path, progress: Progress) -> Iterator[Path]:
    """Yields the workshop's tree, with the sources and the configuration of the tree `stage`, which may move there."""
    folder = make_folder(cache_dir() / "kernel" / "workshop")
    with locked(folder.with_name(f"{folder.name}.lock"), lambda: progress.note("another kernel is being built: waiting for it")):
        tree, listing = folder / "tree", folder / "files"
        names = set(_files(stage))
        if listing.is_file():
            before = set(listing.read_text().split("\0"))
            listing.unlink()  # a tree without one is of a process that was killed
            for name in before - names:
                (tree / name).unlink(missing_ok=True)
            for name in names:
                _renew(stage / name, tree / name)
        else:
            shutil.rmtree(tree, ignore_errors=True)
            stage.rename(tree)
        listing.write_text("\0".join(sorted(names)))
        yield tree


def _files(tree: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(tree):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        yield from (os.path.relpath(Path(folder, name), tree) for name in (*files, *links))


def _renew(source: Path, target: Path) -> None:
    """Copies a file or a link if it differs. A copy is newer than what was made of the file before."""
    if source.is_symlink():
        same = target.is_symlink() and target.readlink() == source.readlink()
    else:
        same = target.is_file() and not target.is_symlink() and filecmp.cmp(source, target)
    if not same:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        shutil.copy(source, target, follow_symlinks=False)
