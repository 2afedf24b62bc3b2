# SPDX-License-Identifier: Apache-2.0
"""Prints for the user, without passing on control characters.

Texts of manifests, specs and names of files may be somebody else's. Printed raw, they could recolour or erase the terminal's
text, or make the terminal answer. A test holds that commands print with this module alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any, TextIO

from dc_gym.base.errors import naming

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["STANDARD_OUTPUT", "console", "say", "visible", "wide_console"]

STANDARD_OUTPUT = "standard output"
"""Its name in errors."""
TABLE_WIDTH = 160
"""Width of tables where the output is no terminal."""
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 and C1 without tab and newline, characters that change the direction of text, and bytes of names that are not UTF-8."""


def visible(text: str) -> str:
    """Returns the text with its control characters written as escapes such as \\x1b."""
    return CONTROLS.sub(_escape, text)


def say(*values: object, sep: str = " ", end: str = "\n", file: TextIO | None = None, flush: bool = False) -> None:
    """Prints as print() does, without control characters."""
    stream = file or sys.stdout
    with naming(_name_of(stream)):
        print(visible(sep.join(map(str, values))), end=end, file=stream, flush=flush)


def console(**options: Any) -> Console:
    """Returns a console of rich that shows no control characters but its own."""
    from rich.console import Console  # takes time to import
    from rich.segment import Segment

    class VisibleConsole(Console):
        def render(self, *arguments: Any, **named: Any) -> Iterable[Segment]:
            for segment in super().render(*arguments, **named):
                yield segment if segment.control else Segment(visible(segment.text), segment.style)

        def print(self, *arguments: Any, **named: Any) -> None:
            with naming(_name_of(self.file)):
                super().print(*arguments, **named)

    return VisibleConsole(**options)


def wide_console() -> Console:
    """Returns a console for tables: as wide as the terminal, and of a fixed width where there is none."""
    return console(width=None if console().is_terminal else TABLE_WIDTH)


def _name_of(stream: IO[str]) -> str:
    return STANDARD_OUTPUT if stream is sys.stdout else str(getattr(stream, "name", "a stream"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
