# SPDX-License-Identifier: Apache-2.0
"""Keeps matplotlib from obeying a `matplotlibrc` of the current folder, which may be somebody else's result.

matplotlib reads that file when it is imported, before the user's own and with no way to ask for another order. Its settings start
LaTeX with any preamble, and a pipe of that name would stop the import. The user's own settings hold as ever.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

__all__ = ["ignore_current_folder"]

LIBRARY, FILE = "matplotlib", "matplotlibrc"


class _Loader(SourceFileLoader):
    """A loader that hides the file while it runs the module."""

    def exec_module(self, module: ModuleType) -> None:
        exists = os.path.exists
        os.path.exists = lambda path: path != FILE and exists(path)
        try:
            super().exec_module(module)
        finally:
            os.path.exists = exists


class _Finder:
    """A finder of matplotlib alone."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == LIBRARY else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


def ignore_current_folder() -> None:
    """Has an effect on the first import of matplotlib, wherever it is."""
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)
