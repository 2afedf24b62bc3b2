# SPDX-License-Identifier: Apache-2.0
"""Keeps matplotlib from obeying a `matplotlibrc` of the current folder, which may be somebody else's result.

matplotlib reads that file when it is imported, before the user's own and with no way to ask for another order. Its settings start
LaTeX with any preamble, and a pipe of that name would stop the import. The user's own settings hold as ever.

The import also lists the machine's fonts, by a program. Where it finds new fonts and no folder for its cache, it would print a
message.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

__all__ = ["ignore_current_folder"]

LIBRARY, FONTS, FILE = "matplotlib", "matplotlib.font_manager", "matplotlibrc"


class _Loader(SourceFileLoader):
    """A loader that hides the file, and programs' messages on standard error, while it runs the module."""

    def exec_module(self, module: ModuleType) -> None:
        import subprocess  # only here: it takes time

        exists, output = os.path.exists, subprocess.check_output
        os.path.exists = lambda path: path != FILE and exists(path)
        subprocess.check_output = partial(output, stderr=subprocess.DEVNULL)  # type: ignore[assignment]
        try:
            super().exec_module(module)
        finally:
            os.path.exists, subprocess.check_output = exists, output


class _Finder:
    """A finder of matplotlib alone, and of its module of fonts."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in (LIBRARY, FONTS) else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


def ignore_current_folder() -> None:
    """Has an effect on the first import of matplotlib, wherever it is."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
