# SPDX-License-Identifier: Apache-2.0
"""The public API is documented: ruff's rules "D" act on the files that pyproject.toml names, and functions list arguments."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
IGNORES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]["per-file-ignores"]
(PATTERN,) = (pattern for pattern, rules in IGNORES.items() if rules == ["D"])
FILES = subprocess.run(["bash", "-c", f"echo {PATTERN.removeprefix('!')}"], capture_output=True, text=True).stdout.split()


def functions(body: list[ast.stmt], scope: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yields the public functions and methods of a module, with their qualified names."""
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            name = f"{scope}{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from functions(node.body, f"{name}.")
            else:
                yield name, node


def lacks_arguments(node: ast.FunctionDef) -> bool:
    """Tells whether a function takes several arguments and has no Args section."""
    names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) > 1 and "Args:\n" not in (ast.get_docstring(node) or "")


def test_the_list_names_files_that_are_there() -> None:
    assert PATTERN.startswith("!{") and len(FILES) == len(set(FILES)) > 20
    assert not [name for name in FILES if not (ROOT / name).is_file()]


@pytest.mark.parametrize("name", FILES)
def test_functions_describe_their_arguments(name: str) -> None:
    tree = ast.parse((ROOT / name).read_text())
    assert not [function for function, node in functions(tree.body) if lacks_arguments(node)]


def test_ruff_checks_the_docstrings_of_the_list_and_of_no_other_file() -> None:
    for name, code in ((FILES[0], 1), ("dc_gym/base/files.py", 0)):
        argv = [sys.executable, "-m", "ruff", "check", "--stdin-filename", name, "-"]
        child = subprocess.run(argv, cwd=ROOT, input="def shown(): ...\n", capture_output=True, text=True)
        assert child.returncode == 1 and ("D103" in child.stdout) == bool(code), child.stdout + child.stderr
