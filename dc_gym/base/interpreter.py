# SPDX-License-Identifier: Apache-2.0
"""This Python, started again, and modules from a folder: neither imports from the current folder.

Somebody else's folder, or one with a `random.py` of a student's, may have files that are called like modules. Python would look
there before its own library. Every Python that dc-gym starts is started by a command from here.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

__all__ = ["dcgym", "import_from", "python"]


def python(*arguments: str) -> list[str]:
    """Returns the command that starts this Python with these arguments."""
    return [sys.executable, "-P", *arguments]


def dcgym(*words: str) -> list[str]:
    """Returns the command that starts `dcgym` with these words."""
    return python("-m", "dc_gym.cli.main", *words)


def import_from(folder: Path, name: str) -> ModuleType:
    """Imports a module or package that lies in this folder. Other modules are not found there afterwards.

    Raises ModuleNotFoundError if the folder has no module of that name.
    """
    spec = PathFinder.find_spec(name, [str(folder)])
    if spec is None or spec.loader is None or spec.origin is None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
