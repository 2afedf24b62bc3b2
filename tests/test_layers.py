# SPDX-License-Identifier: Apache-2.0
"""A module named in a string lies no higher than the file that names it, as pyproject.toml has the layers of imports."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from doc_pages import ROOT

PACKAGE = ROOT / "dc_gym"
MODULE = re.compile(r"dc_gym((?:\.\w+)+)(?::\w+)?")
OTHER_PROCESSES = {
    ("base/interpreter.py", "cli.main"),
    ("base/warm.py", "cli.warm"),
    ("run/sweep/cluster.py", "cli.node"),
    ("run/sweep/pool.py", "cli.cell"),
}
"""Files that start another process with a module of the command (`python -m`)."""


def rows() -> dict[str, int]:
    """Returns the row of each folder of the package, from the highest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract.get("containers") == ["dc_gym"])
    return {folder: number for number, row in enumerate(layers) for folder in row.split(" | ")}


def named_modules() -> Iterator[tuple[str, str]]:
    """Yields each file of the package and a module that one of its strings names, both relative to the package."""
    folders = os.walk(PACKAGE, followlinks=True)  # the layers of the ground floor are links
    for path in sorted(Path(folder, name) for folder, _, names in folders for name in names if name.endswith(".py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and (match := MODULE.fullmatch(node.value)):
                yield str(path.relative_to(PACKAGE)), match[1][1:]


def test_a_string_names_no_module_above_its_own() -> None:
    row = rows()
    upward = {
        (file, module)
        for file, module in named_modules()
        if row.get(module.split(".")[0], 0) < row[file.split("/")[0].removesuffix(".py")]
    }
    assert upward == OTHER_PROCESSES
