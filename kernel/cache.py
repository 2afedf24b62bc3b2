# SPDX-License-Identifier: Apache-2.0
"""The cache folder, and the rules by which processes share it.

Each name has a lock. A process works in NAME.partial-RANDOM and renames the folder once at the end. A folder with its final name
is therefore complete. A partial folder belongs to the process that holds the lock; if nobody holds it, the folder is left over
from a dead process.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from dc_gym.base import behaviour
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.files import ODD, scratch

PARTIAL = ".partial-"
NEW_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
"""The flags that open a lock's file: it is made if it does not exist, and never through a link."""
PARTS = (
    "kernel",
    "selftests",
    "openvswitch",
    "ovs",
    "apt",
    "ideal",
    "peers",
    "vm",
    "cable",
    "frozen",
    "headers",
    "objects",
    "behaviour",
)
IN_USE = "in-use.lock"
TRUST = "DCGYM_TRUST_CACHE"
"""Environment variable by which root uses a cache that others may change, as in a VM that is thrown away."""
OF_ROOT = Path("/var/cache/dcgym")
"""Root's cache. Every user may read it."""
ON_DISK = "/var/tmp"
"""Where temporary files of several GB belong: /tmp may lie in memory."""
BUNDLE = Path(__file__).absolute().parents[1] / "bundle"
"""Folder in a wheel that carries parts of the cache under the same names. It is never written to. A checkout has none."""


def cache_dir() -> Path:
    """Returns the cache folder.

    It is $DCGYM_CACHE if that is set. Otherwise it is /var/cache/dcgym for root, because root's labs run as another user who must
    be able to read it, and the user's cache folder for everybody else. Root refuses a folder that others may change.
    """
    named = os.environ.get("DCGYM_CACHE")
    if named:
        path = Path(named).expanduser()
        if not path.is_absolute():
            raise UsageError(f"DCGYM_CACHE={named}: not an absolute path: give one that starts with /")
    elif os.geteuid() == 0:
        path = OF_ROOT
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        path = (Path(base) if base.startswith("/") else Path.home() / ".cache") / "dcgym"
    if os.geteuid() == 0 and TRUST not in os.environ:
        _check_roots_own(path)
    if ":" in str(path):
        raise UsageError(f"cache folder '{path}': Python in a lab takes no colon in it: set DCGYM_CACHE to another folder")
    return path


def _check_roots_own(path: Path) -> None:
    """Raises UsageError if somebody but root could change programs that root would run from this folder."""
    for folder in (path, *path.resolve().parents):
        if not folder.exists():
            continue
        stats = folder.stat()
        sticky = folder != path and stats.st_mode & stat.S_ISVTX  # there others cannot rename root's files
        if stats.st_uid != 0 or (stats.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
            detail = "" if folder == path else f": {folder}"
            raise UsageError(
                f"cache folder {path}: not root's alone{detail} (uid {stats.st_uid}, mode {stats.st_mode & 0o7777:o}): root runs"
                f" nothing from it; unset DCGYM_CACHE, name a folder of root's, or set {TRUST}=1"
            )


def find(*names: str) -> Path:
    """Returns the path of a cached item such as ("kernel", KEY): in the wheel's bundle if that has it, otherwise in the cache."""
    bundled = BUNDLE.joinpath(*names)
    return bundled if bundled.exists() else cache_dir().joinpath(*names)


def make_folder(path: Path) -> Path:
    """Returns the folder and creates it if necessary. New folders are readable by all users whatever the umask."""
    try:
        for folder in (*reversed(path.parents), path):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                folder.chmod(0o755)
        return path
    except OSError as error:
        raise UsageError(f"cache folder {path}: {error.strerror}: set DCGYM_CACHE to a folder that you may write to") from error


def keeping_behaviour() -> AbstractContextManager[None]:
    """Keeps in the cache the digests of sources that are computed meanwhile (base/behaviour.py), if this user may use it."""
    try:
        return behaviour.kept_in(cache_dir() / "behaviour", make_folder)
    except UsageError:
        return nullcontext()


def blocked_folder(path: Path) -> Path | None:
    """Returns the first folder on the way to `path` that other users may not enter, or None if they may enter all."""
    for folder in (*reversed(path.parents), path):
        if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
            return folder
    return None


def check_room(path: Path, need_bytes: int, purpose: str) -> None:
    room = os.statvfs(path)
    free = room.f_bavail * room.f_frsize
    if free < need_bytes:
        raise TestbedError(
            f"{purpose} needs {need_bytes / 1e9:.1f} GB in {path}, which has {free / 1e9:.1f} GB:"
            " set DCGYM_CACHE to a folder with room"
        )


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] = lambda: None) -> Iterator[int]:
    """Holds the lock file `path` and yields its descriptor.

    A child that inherits the descriptor keeps the lock as long as it lives.
    """
    make_folder(path.parent)
    fd = _locked(path, on_wait)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def locked_if_ours(path: Path) -> Iterator[None]:
    """Does the same as `locked` if this user may write to the cache. A cache that the user may only read needs no lock."""
    there = next(folder for folder in path.parents if folder.exists())
    if not os.access(there, os.W_OK):
        yield
        return
    with locked(path):
        yield


@contextmanager
def in_use() -> Iterator[None]:
    """Keeps `clear` from removing the cache while the context is open, since a lab executes files in it.

    Many processes may use the cache at once.
    """
    path = cache_dir() / IN_USE
    try:
        fd = _open_shared(path)
    except (OSError, UsageError):  # the cache is another user's or cannot be created; then the files in use came with the wheel
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks: `clear` can have none either, and reports it
            fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


def clear() -> list[Path]:
    """Removes everything that was downloaded and built, and returns the removed folders.

    Raises UsageError while a run uses the cache or something in it is being built. The cache folder itself stays, since it may be
    the user's own (DCGYM_CACHE).
    """
    base, held = cache_dir(), []
    parts = [base / part for part in PARTS if (base / part).is_dir()]
    locks = [base / IN_USE, *(lock for part in parts for pattern in ("*.lock", "*/lock") for lock in sorted(part.glob(pattern)))]
    try:
        for lock in locks if parts else ():
            held.append(os.open(lock, NEW_LOCK, 0o644))
            if not _try_lock(held[-1]):
                reason = "a run uses it" if lock == base / IN_USE else f"another process holds {lock}"
                raise UsageError(f"the cache {base} is in use: {reason}; try again when it has ended")
        for part in parts:
            shutil.rmtree(part)
    finally:
        for fd in held:
            os.close(fd)
    return parts


@contextmanager
def partial(target: Path) -> Iterator[Path]:
    """Yields a working folder beside `target`, which is removed on exit whatever happens.

    The caller holds the lock of `target`.
    """
    remove_partials(target.parent, key=target.name)
    folder = target.with_name(f"{target.name}{PARTIAL}{secrets.token_hex(4)}")
    folder.mkdir()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def for_make(work: Path) -> Iterator[Path]:
    """Yields a folder for make's inputs: `work`, or a temporary one if make could not read the path of that."""
    if not ODD.search(str(work)):
        yield work
        return
    plain = [Path(folder) for folder in (os.environ.get("TMPDIR", ""), ON_DISK) if folder and not ODD.search(folder)]
    with scratch(plain[0], "dcgym-make-") as folder:
        yield folder


def publish(built: Path, target: Path, work: Path) -> None:
    """Gives the finished folder `built` its final name. A folder that had this name is moved into the folder `work`."""
    for path in built.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    if target.exists():
        target.rename(work / "replaced")
    built.rename(target)


def remove_partials(folder: Path, key: str = "") -> list[Path]:
    """Removes dead processes' partial folders: folders whose lock nobody holds, and folders of `key`, which the caller locks."""
    removed = []
    for path in sorted(folder.glob(f"*{PARTIAL}*")):
        name = path.name.partition(PARTIAL)[0]
        if name == key:
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
        elif _remove_if_free(path, folder / f"{name}.lock"):
            removed.append(path)
    return removed


def _locked(path: Path, on_wait: Callable[[], None]) -> int:
    """Returns a descriptor that holds the lock, of the file that now has this name.

    `clear` may have removed the file for which this process waited.
    """
    while True:
        try:
            fd = os.open(path, NEW_LOCK, 0o644)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}: set DCGYM_CACHE to a folder that you may write to") from error
        try:
            if not _try_lock(fd):
                on_wait()
                fcntl.flock(fd, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(fd), path.stat()):
                return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        make_folder(path.parent)


def _open_shared(path: Path) -> int:
    """Opens a file for reading, which is enough for a shared lock. Creates it for all users if it does not exist."""
    try:
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        make_folder(path.parent)
        fd = os.open(path, NEW_LOCK, 0o644)
        os.fchmod(fd, 0o644)
        return fd


def _remove_if_free(path: Path, lock: Path) -> bool:
    try:
        fd = os.open(lock, NEW_LOCK, 0o644)
    except OSError:
        return False
    try:
        if not _try_lock(fd):
            return False
        shutil.rmtree(path, ignore_errors=True)
        return True
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
