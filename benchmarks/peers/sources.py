# SPDX-License-Identifier: Apache-2.0
"""Checks and builds against a peer's source tree, which the user gives by its path."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.kernel import cache

CACHE_PART, PROGRAM = "peers", "peer"
READER = Path(__file__).resolve().with_name("csv.h")
"""The header that all our programs include."""


def require_commit(folder: Path, commit: str) -> None:
    """Raises UsageError if the folder's repository is at another commit: its results could not be told from the stored ones."""
    argv = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise UsageError(f"{folder}: its commit cannot be read; give a git clone, at {commit[:7]}")
    if (found := done.stdout.strip()) != commit:
        raise UsageError(f"{folder}: it is at {found[:7]}, and the stored results are of {commit[:7]}; check that commit out")


def built(folder: Path, library: Path, source: Path, flags: Sequence[str], include: Sequence[str], commit: str) -> Path:
    """Returns a program of ours that is linked with a peer's library, from the cache or built now.

    Raises UsageError, in one line, if the library is missing, of another commit, or the program does not build against it.
    """
    require_commit(folder, commit)
    linked = folder / library
    if not linked.is_file():
        raise UsageError(f"{folder}: it has no {library}; build it as docs/peers.md says")
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    argv = [*compiler, *flags, *include, str(source), str(linked), "-o"]
    key = hashlib.sha256(
        b"\0".join([source.read_bytes(), READER.read_bytes(), linked.read_bytes(), repr(argv).encode()])
    ).hexdigest()[:32]

    def compile_to(out: Path) -> None:
        try:
            done = subprocess.run([*argv, str(out)], capture_output=True, text=True, errors="replace")
        except OSError as error:
            raise UsageError(
                f"no C++ compiler {shlex.join(compiler)!r} ({error.strerror}): apt-get install g++, or set CXX"
            ) from None
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "error" in line or "undefined" in line]
            raise UsageError(f"{source.name} does not build against {folder}: {(errors or ['no message'])[0].strip()}")

    return cached(key, PROGRAM, compile_to)


def cached(key: str, program: str, compile_to: Callable[[Path], None]) -> Path:
    """Returns a program from the cache, below peers/KEY; builds it if it is not there."""
    target = cache.cache_dir() / CACHE_PART / key
    with cache.locked(target.with_name(f"{target.name}.lock")):
        if not (target / program).is_file():
            with cache.partial(target) as work:
                made = cache.make_folder(work / "made")
                compile_to(made / program)
                (made / program).chmod(0o755)
                cache.publish(made, target, work)
    return target / program
