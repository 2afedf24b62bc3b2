# SPDX-License-Identifier: Apache-2.0
"""The memory that a shell's two sides share: the prompt outside, and the process in the ground that runs commands.

  bytes 0..3    how often the user has interrupted (Ctrl-C); only the prompt writes it, at any time
  bytes 4..7    rows and columns of the user's terminal, of 16 bits each, likewise
  bytes 8..11   how often a visitor (dcgym attach) has sent a command, likewise
  bytes 12..15  length of the message
  from byte 16  the message, of the side whose turn it is

The process in the ground asks (`Site.ask`), and waits for the answer. So only one side writes a message at a time.
"""

from __future__ import annotations

import json
import mmap
import struct
from dataclasses import asdict, dataclass
from typing import Any

SIZE = 1 << 17
WORD = struct.Struct("<I")
INTERRUPTS, WINDOW, NEWS, LENGTH, HEAD = (index * WORD.size for index in range(5))
MOST_BYTES = SIZE - HEAD
"""Length of the longest message, in bytes."""
PROMPT, OUT, ERR, TERMINAL, INPUT, FILES, DATA, VISIT, ENDED = range(1, 10)
"""The steps that the process in the ground asks for: the next order (the message is a Report), and that the message is shown, as
standard output, as standard error, or as a command's output to its terminal.

With INPUT a command waits for the user's typing: the answer is a message with it, empty if nothing is typed for INPUT_S.
FILES and DATA answer the orders `written` and `get`: a list of names, as JSON, and a piece of a file. After DATA the answer
states whether more is wanted. VISIT asks for a command of a visitor, and ENDED reports its end (the message is a Report). Steps
for a visitor have its number from bit VISITOR_BIT on."""
VISITOR_BIT = 8
NOTHING = 3
"""Answer to PROMPT and VISIT: no command is there yet."""
INPUT_S = 0.02
INTERRUPT = "interrupt"
"""The kind of an order that interrupts a visitor's command; with a word the command is killed."""


@dataclass(frozen=True, slots=True)
class Order:
    """A command of the user's."""

    kind: str
    """run (a program on a node), or the name of a command that the ground executes."""
    node: str = ""
    line: str = ""
    """The command, for `sh -c`."""
    background: bool = False
    terminal: str | None = None
    """The kind ($TERM) of the user's terminal. None: input is empty, and output goes elsewhere."""
    words: tuple[str, ...] = ()
    """Names of ports for `queues`, of two hosts for `iperf`, and of a file for `get`."""
    duration_s: float = 0.0
    """The time for which `iperf` sends."""
    changes: tuple[tuple[str, dict[str, int]], ...] = ()
    """Ports and the quantities that `link` changes there (topologies/changes.py)."""
    visitor: int = 0
    """The number of the visitor who gives it; 0: the user at the prompt."""


@dataclass(frozen=True, slots=True)
class Report:
    """The state at a prompt."""

    status: int
    """Exit status of the last order."""
    clock_ns: int
    """The time that the prompt shows."""


def packed(record: Order | Report) -> bytes:
    """Returns a record as a message."""
    return json.dumps(asdict(record)).encode()


class ShellMemory:
    """One side's view of the memory."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    @property
    def interrupts(self) -> int:
        return int(WORD.unpack_from(self._memory, INTERRUPTS)[0])

    def interrupt(self) -> None:
        """Counts an interruption. Only the prompt's side calls it."""
        WORD.pack_into(self._memory, INTERRUPTS, (self.interrupts + 1) & 0xFFFFFFFF)

    @property
    def news(self) -> int:
        return int(WORD.unpack_from(self._memory, NEWS)[0])

    def tell_news(self) -> None:
        """Counts a command of a visitor. Only the prompt's side calls it."""
        WORD.pack_into(self._memory, NEWS, (self.news + 1) & 0xFFFFFFFF)

    @property
    def window(self) -> tuple[int, int]:
        """Rows and columns of the user's terminal."""
        (word,) = WORD.unpack_from(self._memory, WINDOW)
        return int(word) >> 16, int(word) & 0xFFFF

    def resize(self, rows: int, columns: int) -> None:
        """Writes the terminal's size. Only the prompt's side calls it."""
        WORD.pack_into(self._memory, WINDOW, (rows & 0xFFFF) << 16 | columns & 0xFFFF)

    def read(self) -> bytes:
        """Returns the other side's message."""
        length = min(WORD.unpack_from(self._memory, LENGTH)[0], MOST_BYTES)
        return self._memory[HEAD : HEAD + length]

    def write(self, message: bytes) -> None:
        """Leaves a message of at most MOST_BYTES for the other side."""
        assert len(message) <= MOST_BYTES, "the caller divides it"
        WORD.pack_into(self._memory, LENGTH, len(message))
        self._memory[HEAD : HEAD + len(message)] = message

    def tell(self, record: Order | Report) -> None:
        """Leaves a record for the other side."""
        self.write(packed(record))

    def order(self) -> Order:
        """Returns the prompt's order."""
        plain: dict[str, Any] = json.loads(self.read())
        plain |= {name: tuple(value) for name, value in plain.items() if isinstance(value, list)}
        return Order(**plain)

    def report(self) -> Report:
        """Returns the report of the process in the ground."""
        return Report(**json.loads(self.read()))
