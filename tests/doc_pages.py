# SPDX-License-Identifier: Apache-2.0
"""Finds what the documentation tells readers to type: commands, Python snippets and files to save, in order of each page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = (
    *("dcgym", "dcgym-venv/bin/dcgym", "sudo", "make", "python", "python3", "pip", "dcgym-venv/bin/pip", "git", "apt-get"),
    *(".", "export", "sed", "echo", "docker", "ray", "tensorboard"),
)
"""A block whose first word is one of these holds commands, whatever its fence says."""
SHELLS = ("", "sh", "bash", "console", "shell")
INCLUDE = re.compile(r"--8<--\n[\w./:-]+\n--8<--\n")
"""A block that is a file of the checkout, or lines of one (pymdownx.snippets). Ruff would format the form of one line."""
COMMENT = re.compile(r"^\s*(?:#|\*|/\*|\"\"\")\s?(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block, or an indented one (language "")."""

    page: str
    line: int  # of its first line of text
    language: str
    text: str
    before: str  # the last line of text above it

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def is_shell(self) -> bool:
        first = next((line.split()[0] for line in self.lines if line.split()), "")
        return self.language in SHELLS[1:] or (self.language == "" and first in PROGRAMS)


@dataclass(frozen=True)
class Command:
    """A line for the shell, without its comment."""

    page: str
    line: int
    text: str

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Snippet:
    """A block of Python; `file` is the name that its first line gives it."""

    page: str
    line: int
    text: str
    file: str | None

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}: Python that begins with {self.text.splitlines()[0]!r}"


@dataclass(frozen=True)
class Saved:
    """A file that the reader is told to save."""

    page: str
    line: int
    file: str
    text: str


Item = Command | Snippet | Saved


def pages() -> list[str]:
    """README, CONTRIBUTING, docs and examples, from the checkout's root."""
    paths = [path for pattern in ("docs/**/*.md", "examples/**/*") for path in sorted(ROOT.glob(pattern)) if path.is_file()]
    return ["README.md", "CONTRIBUTING.md", *(str(path.relative_to(ROOT)) for path in paths if "__pycache__" not in path.parts)]


def items(page: str, text: str | None = None) -> list[Item]:
    """Returns all items of a page, in its order. `text` replaces the page's text, for tests."""
    text = (ROOT / page).read_text() if text is None else text
    if not page.endswith(".md"):
        return list(_of_comments(page, text))
    return [item for block in blocks(page, text) for item in _of_block(block)]


def blocks(page: str, text: str) -> Iterator[Block]:
    lines, number, prose = text.splitlines(), 0, ""
    while number < len(lines):
        line = lines[number]
        if fence := re.match(r"( *)```(\w*)$", line):
            end = next(n for n in range(number + 1, len(lines)) if lines[n].strip() == "```")
            inside = [code_line.removeprefix(fence[1]) for code_line in lines[number + 1 : end]]
            yield Block(page, number + 2, fence[2], "\n".join(inside) + "\n", prose)
            number = end + 1
        elif line.startswith("    ") and (not lines[number - 1].strip() or lines[number - 1].startswith("#")):
            end = next((n for n in range(number, len(lines)) if not lines[n].startswith("    ")), len(lines))
            yield Block(page, number + 1, "", "\n".join(code_line[4:] for code_line in lines[number:end]) + "\n", prose)
            number = end
        else:
            prose = line if line.strip() else prose
            number += 1


def _of_block(block: Block) -> Iterator[Item]:
    if block.is_shell:
        yield from _commands(block)
    elif INCLUDE.fullmatch(block.text):
        return
    elif block.language == "python":
        named = re.match(r"# (\w+\.py)\b", block.text)
        yield Snippet(block.page, block.line, block.text, named[1] if named else None)
    elif named := re.match(r"Save (?:it |this )?as `([\w.]+)`", block.before):
        yield Saved(block.page, block.line, named[1], block.text)


def _commands(block: Block) -> Iterator[Command]:
    """Yields one command per line; a line that ends in a backslash goes on in the next."""
    begun: list[str] = []
    for number, line in enumerate(block.lines, block.line):
        text = without_comment(line)
        begun.append(text.removesuffix("\\").strip())
        if not text.endswith("\\"):
            if whole := " ".join(filter(None, begun)):
                yield Command(block.page, number - len(begun) + 1, whole)
            begun = []


def _of_comments(page: str, text: str) -> Iterator[Command]:
    """Yields `dcgym ...` in an example's comments: at the start, or after a colon or semicolon, to the line's end or an aside."""
    for number, line in enumerate(text.splitlines(), 1):
        if (comment := COMMENT.match(line)) and (match := re.search(r"(?:^\s*|[:;] )(dcgym [^`(;]*)", comment[1])):
            yield Command(page, number, match[1].strip())


def without_comment(line: str) -> str:
    """Returns a line of the shell up to its comment."""
    quote = ""
    for index, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (index == 0 or line[index - 1] == " "):
            return line[:index].strip()
    return line.strip()


def mentions(page: str) -> Iterator[tuple[int, str]]:
    """Yields each `dcgym ...` within sentences."""
    for number, line in enumerate((ROOT / page).read_text().splitlines(), 1):
        for text in re.findall(r"`(dcgym [^`]+)`", line):
            yield number, text
