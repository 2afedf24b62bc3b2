# SPDX-License-Identifier: Apache-2.0
"""docs/security.md tells of each promise by which test it is tried, and each file of tests here belongs to a promise."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ROW = re.compile(r"^\| (?P<promise>[^|]+) \| (?P<wall>[^|]+) \| (?P<test>`[^|]+`) \|$", re.MULTILINE)


def named() -> list[tuple[str, Path, str]]:
    """Returns promise, file and function of each test that the page names."""
    rows = []
    for row in ROW.finditer((ROOT / "docs/security.md").read_text()):
        file = HERE
        for name, function in re.findall(r"`([\w/.]*)::(\w+)`", row["test"]):
            if name:
                file = ROOT / name if "/" in name else HERE / name
            rows.append((row["promise"], file, function))
    return rows


def test_each_promise_names_a_test_that_is_there() -> None:
    rows = named()
    assert len(rows) > 30
    for promise, file, function in rows:
        functions = {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}
        assert function in functions, f"{promise} {file.name}::{function}"


def test_each_file_of_tests_belongs_to_a_promise() -> None:
    files = {file for _, file, _ in named()} | {Path(__file__)}
    unnamed = {path.name for path in HERE.glob("test_*.py")} - {file.name for file in files}
    assert unnamed <= {"test_faults.py"}, "what the disturbed benches found is a promise of docs/results.md"
