# SPDX-License-Identifier: Apache-2.0
"""Digests of the behaviour of sources: a comment, a docstring, layout or the words of an error change none.

- Python: its tokens without comments, strings that are statements (docstrings), layout, and the arguments of an exception in
  `raise`. Annotations count, since dataclasses and the readers of specs act by them.
- C: its tokens without comments, as text, so that nothing is included. A directive keeps its line. Linker scripts likewise.
- Patches: the lines that they add and remove, and in which files. Context and numbers of lines are left out.
- Files of kbuild: without lines that are comments.
- TOML, the cards of controllers: without comments and without keys that only people read. All else counts with each byte.

No parser of Python's own is used, since their trees and tokens differ between versions: every Python finds the same digests.

python -m dc_gym.base.behaviour FILE...   prints them as sha256sum(1) prints its own: `make programs` keeps the C sources' digests
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dc_gym.base import contents
from dc_gym.base.errors import TestbedError
from dc_gym.base.files import put
from dc_gym.base.terminal import say

__all__ = ["MOST_KEPT", "digest_of_file", "kept_in", "of_python"]

STAND_IN = "\0"
"""Stands for a string in code, so that changes to code do not reach the string. No source has this character."""
OPENING, CLOSING = frozenset("([{"), frozenset(")]}")
QUOTES = frozenset("\"'")
# Patterns, each compiled when it is first used: a run finds its digests in the cache and uses none.
TOKEN = (
    r"""(?s)[^\n"'#()\[\]{}\\]+|\"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"""|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"""
    r"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'|\#[^\n]*|\\\n|\n\s*|."""
)
"""A token of Python, or several in one: the text between strings, brackets, comments and ends of lines."""
ONLY_STRINGS = r"(?:[ rRuUbB]*\0)+ *"
RAISED = r"raise [\w.]+ *"
BLANKS = r"[ \t\f\r]+"
NEEDLESS = r"(?<!\w) | (?!\w)"
C_COMMENT_OR_STRING = r"""(?s)//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'"""
C_DIRECTIVE = r"(?m)^[ \t]*(#.*)$"
C_NEEDLESS = r"(?<=[()\[\]{};,]) | (?=[()\[\]{};,])|(?<=[\w\0]) (?![\w\0])|(?<![\w\0]) (?=[\w\0])"
"""Blanks without which all tokens are the same: not the one in `a + +b`."""
HUNK = r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@"
KBUILD_COMMENT = r"(?m)^[ \t]*(?:#.*)?\n"
CARD_OF_READERS = r"(?m)^(?:#.*|(?:label|color|marker|source|reads) = .*|)\n"
MOST_KEPT = 4096
HEX_DIGITS = 64

_known: dict[str, str] = {}
"""Digests by kind and content."""
_read: set[Path] = set()


def digest_of_file(path: Path) -> str:
    """Returns the SHA-256 of a source's behaviour, by the rule for its kind. Where there is no rule, its content counts."""
    kind = path.suffix or path.name
    digest = contents.digest_of_file(path)
    if kind not in _RULES:
        return digest
    if (behaviour := _known.get(f"{kind} {digest}")) is None:
        data = path.read_bytes()
        text = _RULES[kind](data.decode(errors="surrogateescape").replace("\r\n", "\n"))
        behaviour = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()
        _known[f"{kind} {hashlib.sha256(data).hexdigest()}"] = behaviour
    return behaviour


@contextmanager
def kept_in(folder: Path, make_folder: Callable[[Path], Path]) -> Iterator[None]:
    """Keeps in a folder of the user's own the digests that are computed meanwhile, and computes none that are there.

    An entry maps a content's digest to the digest of its behaviour. A file that others may write is not read, and another version
    of this module has a file of its own. Where the folder cannot be written, nothing is kept.
    """
    path = folder / f"{contents.digest_of_file(Path(__file__))[:16]}.digests"
    if path not in _read:
        _known.update(_own_pairs(path))
        _read.add(path)
    before = len(_known)
    yield
    if len(_known) > before:
        lines = [f"{source} {behaviour}\n" for source, behaviour in _known.items()][-MOST_KEPT:]
        with suppress(OSError, TestbedError):
            put(make_folder(folder) / path.name, "".join(lines).encode()).chmod(0o644)


def _own_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yields the file's rows: kind and SHA-256 of a source's content, and the SHA-256 of its behaviour."""
    with suppress(OSError, UnicodeDecodeError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd) as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
                return
            for line in file.read().splitlines():
                source, _, digest = line.rpartition(" ")
                if len(digest) == len(source.partition(" ")[2]) == HEX_DIGITS:
                    yield source, digest


def of_python(text: str) -> str:
    """Returns the behaviour of Python source: statements with their indentation as a depth, and after them their strings."""
    code, strings, widths = [], [], [0]
    for width, tokens in _statements(text):
        while width < widths[-1]:
            widths.pop()
        if width > widths[-1]:
            widths.append(width)
        statement = "".join(STAND_IN if token[0] in QUOTES else token for token in tokens)
        if re.fullmatch(ONLY_STRINGS, statement):
            continue
        if statement.startswith("raise "):
            tokens = _without_arguments(tokens)
            statement = "".join(STAND_IN if token[0] in QUOTES else token for token in tokens)
        code.append("\n" + "\1" * (len(widths) - 1) + statement)
        strings += [token for token in tokens if token[0] in QUOTES]
    return re.sub(NEEDLESS, "", re.sub(BLANKS, " ", "".join(code))) + STAND_IN.join(["", "", *strings])


def _statements(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields each logical line of Python: the width of its indentation, and its tokens."""
    line: list[str] = []
    depth = width = 0
    for token in re.findall(TOKEN, f"\n{text}\n"):
        first = token[0]
        if first == "\n":
            if depth:
                line.append(" ")
                continue
            if line:
                yield width, line
                line = []
            width = len(token) - 1 - token.rfind("\n")
        elif first == "#":
            continue
        elif token == "\\\n":
            line.append(" ")
        else:
            line.append(token)
            if first in OPENING:
                depth += 1
            elif first in CLOSING:
                depth -= 1


def _without_arguments(tokens: list[str]) -> list[str]:
    """Returns `raise Name(...) from error` as `raise Name() from error`, and any other statement as it is."""
    if len(tokens) < 3 or tokens[1] != "(" or not re.fullmatch(RAISED, tokens[0]):
        return tokens
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token in OPENING) - (token in CLOSING)
        if token == ")" and not depth:
            return [*tokens[:2], *tokens[at:]]
    return tokens


def _c(text: str) -> str:
    code, strings = _without_comments(text)
    parts = re.split(C_DIRECTIVE, code)  # every second one is a directive, in which a blank may be all that makes the difference
    folded = [" ".join(part.split()) for part in parts]
    folded[::2] = [re.sub(C_NEEDLESS, "", part) for part in folded[::2]]
    return "\n".join([*(part for part in folded if part), STAND_IN.join(["", *strings])])


def _linker_script(text: str) -> str:
    code, strings = _without_comments(text)
    return "\n".join([" ".join(code.split()), *strings])


def _without_comments(text: str) -> tuple[str, list[str]]:
    """Returns C with joined lines, a blank for each comment and a stand-in for each string or character, and the latter."""
    strings = []

    def stand_in(match: re.Match[str]) -> str:
        if match[0].startswith("/"):
            return " "
        strings.append(match[0])
        return STAND_IN

    return re.sub(C_COMMENT_OR_STRING, stand_in, text.replace("\\\n", "")), strings


def _patch(text: str) -> str:
    """Returns the lines that a patch in the unified format adds and removes, each file's after its names."""
    changed = []
    old = new = 0  # lines of the hunk that are to come
    for line in text.splitlines():
        if line.startswith("\\"):
            changed.append(line)
        elif old or new:
            old -= line[:1] != "+"
            new -= line[:1] != "-"
            if line[:1] in ("+", "-"):
                changed.append(line)
        elif hunk := re.match(HUNK, line):
            old, new = (1 if count is None else int(count) for count in hunk.groups())
        elif line.startswith(("--- ", "+++ ")):
            changed.append(line.partition("\t")[0])
    return "\n".join(changed)


def _kbuild(text: str) -> str:
    return re.sub(KBUILD_COMMENT, "", text)


def _card(text: str) -> str:
    return re.sub(CARD_OF_READERS, "", text)


_RULES: dict[str, Callable[[str], str]] = {
    **dict.fromkeys((".c", ".h"), _c),
    **dict.fromkeys(("Kconfig", "Makefile", "Kbuild"), _kbuild),
    ".ld": _linker_script,
    ".patch": _patch,
    ".py": of_python,
    ".toml": _card,
}
"""The reader of a source, by the ending of its name, or by its name if that has none."""


def main(names: Iterable[str]) -> None:
    for name in names:
        say(f"{digest_of_file(Path(name))}  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
