# SPDX-License-Identifier: Apache-2.0
"""Starts the program of a lab from frozen modules: compiled modules in one file, which the host has made (run/grounds/frozen.py).

  python -S start.py MODULES RUN_FOLDER

A lab opens each file on the host, and cannot write .pyc files, so Mininet would be compiled at each start. Modules that are not
in the file are imported as ever. This file itself imports only built-in modules of the interpreter.
"""

from __future__ import annotations

import gc
import marshal
import posix
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MCL_FUTURE = 2  # mlockall(2)
PROGRAM, NETWORK = "dc_gym.run.grounds.guest.main", "dc_gym.topologies.realize.fabric"


class FrozenModules:
    """A finder and loader of the modules in a file: a line with the length of the index, the index, and the modules' code."""

    def __init__(self, path: str) -> None:
        self._fd = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
        head = posix.pread(self._fd, 64, 0).partition(b"\n")[0]
        self._base = len(head) + 1 + int(head)
        self._index: dict[str, tuple[str, list[str] | None, int, int]] = marshal.loads(
            posix.pread(self._fd, int(head), len(head) + 1)
        )["modules"]

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        location = self._index.get(name)
        if location is None:
            return None
        spec = ModuleSpec(name, self, origin=location[0], is_package=location[1] is not None)  # type: ignore[arg-type]
        spec.has_location = True
        if location[1] is not None:
            spec.submodule_search_locations = location[1]
        return spec

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves it to Python to make the module."""

    def exec_module(self, module: ModuleType) -> None:
        _, _, offset, length = self._index[module.__name__]
        exec(marshal.loads(posix.pread(self._fd, length, self._base + offset)), module.__dict__)


def main() -> None:
    gc.disable()  # no imported object ends before the program
    sys.meta_path.insert(0, FrozenModules(sys.argv[1]))
    from ctypes import CDLL
    from importlib import import_module

    libc = CDLL(None)
    libc.mlockall(MCL_FUTURE)  # memory comes in large pieces: each page that is touched first costs a lab 20 us. It may fail
    program = import_module(PROGRAM)
    import_module(NETWORK)
    libc.munlockall()
    gc.freeze()
    gc.enable()
    status = int(program.main([PROGRAM, *sys.argv[2:]]))
    sys.stdout.flush()
    posix._exit(status)  # the lab ends here; nothing is left that the interpreter would have to tidy up


if __name__ == "__main__":
    main()
