# SPDX-License-Identifier: Apache-2.0
"""Freezes the modules of the program that runs in labs: their compiled code in one file of the cache (guest/start.py).

The file names the source of each module with its time and size, as Python's own .pyc files do. A source that has changed makes
the file stale, and it is made again. So does a source that is not of this package, the interpreter or Mininet: nothing else is
frozen, and no file with another source is used.
"""

from __future__ import annotations

import hashlib
import importlib
import marshal
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any

from dc_gym.base.errors import TestbedError
from dc_gym.base.files import put
from dc_gym.base.interpreter import python
from dc_gym.base.package import PACKAGE
from dc_gym.kernel.cache import cache_dir, make_folder
from dc_gym.run.grounds.guest import start

ROOTS = (
    *(start.PROGRAM, start.NETWORK),
    *(
        "dc_gym.run.grounds.guest.episodes",
        "dc_gym.run.grounds.guest.nic_loader",
        "dc_gym.run.grounds.guest.shell",
        "dc_gym.topologies.ecmp",
    ),
)
"""Modules that are frozen with all that they import."""
HEAD_BYTES = 64
SEARCHED = "PYTHONPATH"
LIBRARY = Path(os.__file__).parent
"""The folder of the interpreter's own modules."""
INSTALLED = ("site-packages", "dist-packages")
"""The folders in it that have other modules."""


def modules(env: Mapping[str, str]) -> Path | None:
    """Returns the file of frozen modules for a program with this environment. It is made first if it is missing or stale.

    None: it cannot be made here, as in a cache that the user may not write to. The program then imports its modules one by one.
    """
    made_by = f"{sys.version} {_argv(Path())} {env[SEARCHED]}"
    path = cache_dir() / "frozen" / f"{hashlib.sha256(made_by.encode()).hexdigest()[:16]}.modules"
    if _is_current(path, env):
        return path
    with suppress(TestbedError, OSError):
        if not os.access(make_folder(path.parent), os.W_OK):
            return None
        process = subprocess.run(_argv(path), env=env, capture_output=True, stdin=subprocess.DEVNULL)
        if process.returncode == 0 and _is_current(path, env):
            return path
    return None


def _argv(path: Path) -> list[str]:
    """Returns the command that freezes the modules in a process of its own, which has imported nothing else."""
    return python("-S", "-m", __name__, str(path))


def _is_current(path: Path, env: Mapping[str, str]) -> bool:
    """Returns whether the file exists, and all its sources are unchanged and lie where they may."""
    try:
        with path.open("rb") as file:
            head = file.readline(HEAD_BYTES)
            sources: list[tuple[str, int, int]] = marshal.loads(file.read(int(head)))["sources"]
        return all(_is_own(name, env) and _stamp(name) == (time_ns, size) for name, time_ns, size in sources)
    except (OSError, ValueError, EOFError, TypeError, KeyError):  # missing, or not whole
        return False


def _is_own(source: str, env: Mapping[str, str]) -> bool:
    """Returns whether a source is of this package, of another folder that the environment names, or of the interpreter."""
    folders = [str(PACKAGE) if folder == str(PACKAGE.parent) else folder for folder in env[SEARCHED].split(os.pathsep)]
    if source.startswith(tuple(f"{folder}/" for folder in folders)):
        return True
    return source.startswith(f"{LIBRARY}/") and not source.startswith(tuple(f"{LIBRARY}/{name}/" for name in INSTALLED))


def _stamp(source: str) -> tuple[int, int]:
    status = Path(source).stat()
    return status.st_mtime_ns, status.st_size


def freeze(path: Path) -> None:
    """Imports the roots in this process and writes the code of all modules that this has loaded.

    Raises TestbedError if a module comes from a place where it may not lie.
    """
    for root in ROOTS:
        importlib.import_module(root)
    index: dict[str, tuple[str, list[str] | None, int, int]] = {}
    sources, blobs, offset = [], [], 0
    for name, module in sorted(sys.modules.items()):
        spec = getattr(module, "__spec__", None)
        code = _code(spec, name) if name != "__main__" else None
        if spec is None or code is None:
            continue
        if not _is_own(spec.origin, os.environ):
            raise TestbedError(
                f"{name}: its source is {spec.origin}, which is not of dc-gym, Mininet or Python; remove that file"
            )
        blob = marshal.dumps(code)
        index[name] = (spec.origin, list(module.__path__) if hasattr(module, "__path__") else None, offset, len(blob))
        sources.append((spec.origin, *_stamp(spec.origin)))
        blobs.append(blob)
        offset += len(blob)
    head = marshal.dumps({"modules": index, "sources": sources})
    put(path, b"".join([f"{len(head)}\n".encode(), head, *blobs]))
    path.chmod(0o644)


def _code(spec: Any, name: str) -> CodeType | None:
    """Returns the code of a module that has a source; None for others (built in, frozen, in C)."""
    if spec is None or not str(spec.origin).endswith(".py") or not hasattr(spec.loader, "get_code"):
        return None
    code: CodeType | None = spec.loader.get_code(name)
    return code


if __name__ == "__main__":
    freeze(Path(sys.argv[1]))
