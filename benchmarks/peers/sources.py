# SPDX-License-Identifier: Apache-2.0
"""Checks a peer's source tree, which the user gives by its path, builds our programs against peers' libraries, and runs them.

Programs are kept in the cache, below peers/KEY. The environment variable CXX selects another compiler.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.benchmarks.perf import meter
from dc_gym.kernel import cache

CACHE_PART, PROGRAM = "peers", "peer"
READER = Path(__file__).resolve().with_name("csv.h")
"""The header that all our programs include."""


def require_commit(folder: Path, commit: str) -> None:
    """Raises UsageError if the folder's repository is at another commit: its results would pass for stored ones."""
    process = answer(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if process.returncode:
        raise UsageError(f"{folder}: its commit cannot be read; give a git clone, at {commit[:7]}")
    if (head := process.stdout.strip()) != commit:
        raise UsageError(f"{folder}: it is at {head[:7]}, and the stored results are of {commit[:7]}; check that commit out")


def compiler() -> list[str]:
    words = shlex.split(os.environ.get("CXX", "g++"))
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"no C++ compiler {shlex.join(words)!r}: apt-get install g++, or set CXX")
    return words


def built(source: Path, library: Path, flags: Sequence[str], links: Sequence[str], against: str) -> Path:
    """Returns a program of ours, from the cache or built now.

    Args:
        source: its source.
        library: the peer's, on whose contents it depends.
        flags: the compiler's options before the source.
        links: the libraries that it is linked with.
        against: names the peer, for the error.

    Raises:
        UsageError: there is no compiler, or the program does not build.
    """
    words = compiler()
    argv = [*words, *flags, str(source), *links, "-o"]
    files = [path.read_bytes() for path in (source, READER, library)]
    key = hashlib.sha256(b"\0".join([*files, repr((argv, answer([*words, "--version"]).stdout)).encode()])).hexdigest()[:32]
    target = cache.cache_dir() / CACHE_PART / key
    with cache.locked(target.with_name(f"{target.name}.lock")):
        if not (target / PROGRAM).is_file():
            with cache.partial(target) as work:
                folder = cache.make_folder(work / "made")
                process = answer([*argv, str(folder / PROGRAM)])
                if process.returncode:
                    errors = [line for line in process.stderr.splitlines() if "error" in line or "undefined" in line]
                    raise UsageError(f"{source.name} does not build against {against}: {(errors or ['no message'])[0].strip()}")
                (folder / PROGRAM).chmod(0o755)
                cache.publish(folder, target, work)
    return target / PROGRAM


def run(subject: str, argv: Sequence[str]) -> meter.Metered:
    """Runs a peer's program, which may lie in the cache. Raises TestbedError if it fails."""
    with cache.in_use():
        process = meter.run(argv)
    if process.status:
        raise TestbedError(f"{subject} failed ({process.status}): {process.stderr.strip()[-200:] or 'no message'}")
    return process


def answer(argv: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, input=text, capture_output=True, text=True, errors="replace")
