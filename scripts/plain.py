# SPDX-License-Identifier: Apache-2.0
"""Checks what can be checked of plain English: how docstrings begin, how pages begin, and how long their lines are.

python scripts/plain.py      # `make lint` runs it; prints a line for each fault, and fails if there is one
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRAGMENT = re.compile(r"\s*(Of|What|Who|Whose|Whether|For who|Likewise)\b")
"""The beginnings of docstrings that say neither what a thing is nor what it does."""
LONGEST_LINE = 400
"""Characters of a line in a page; rows of tables may be longer."""


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of all docstrings, those below fields and constants included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def faults_of_code(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and fault of each docstring that begins with a fragment."""
    for line, text in docstrings(source):
        if found := FRAGMENT.match(text):
            yield line, f"the docstring begins with {found[1]!r}: say what it is or does"


def faults_of_page(text: str) -> Iterator[tuple[int, str]]:
    """Yields line and fault of a page in Markdown."""
    fenced, begun = False, False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if fenced or line.startswith("```"):
            continue
        if len(line) > LONGEST_LINE and not line.startswith("|"):
            yield number, f"{len(line)} characters in a line: at most {LONGEST_LINE}"
        if not begun and line and not line.startswith(("<!--", "# ", "![")):
            begun = True
            if not line[0].isalpha() and line[0] not in "*_`[":
                yield number, "the page does not begin with a paragraph: say for whom it is"


def main() -> int:
    command = ["git", "ls-files", "*.py", "docs/*.md", "README.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    faults = 0
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.is_symlink() or not path.exists():  # labs/answers.md may be deleted
            continue
        find = faults_of_code if path.suffix == ".py" else faults_of_page
        for line, fault in find(path.read_text(encoding="utf-8")):
            print(f"{name}:{line}: {fault}")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
