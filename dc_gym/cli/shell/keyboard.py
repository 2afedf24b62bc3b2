# SPDX-License-Identifier: Apache-2.0
"""The user's terminal while a command has it: keys go to the command's own terminal, which echoes and edits them."""

from __future__ import annotations

import os
import select
import sys
import termios
from typing import Any

READ_BYTES = 1024
INPUT_FLAGS, OUTPUT_FLAGS, LOCAL_FLAGS, CHARACTERS = 0, 1, 3, 6
"""Places among the attributes of a terminal."""


class Keyboard:
    """Standard input, which is a terminal. Ctrl-C stays a signal to this process; all other keys are read as they are."""

    def __init__(self) -> None:
        self._fd = sys.stdin.fileno()
        self._before: list[Any] | None = None

    @property
    def lent(self) -> bool:
        """True while a command has the terminal."""
        return self._before is not None

    def lend(self) -> None:
        """Lets a command have the terminal."""
        self._before = termios.tcgetattr(self._fd)
        attributes = termios.tcgetattr(self._fd)
        attributes[INPUT_FLAGS] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
        attributes[OUTPUT_FLAGS] &= ~termios.OPOST
        attributes[LOCAL_FLAGS] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        keys = list(attributes[CHARACTERS])
        keys[termios.VMIN], keys[termios.VTIME] = 1, 0
        keys[termios.VQUIT] = keys[termios.VSUSP] = b"\0"
        attributes[CHARACTERS] = keys
        termios.tcsetattr(self._fd, termios.TCSADRAIN, attributes)

    def take_back(self) -> None:
        """Gives the user the terminal as it was."""
        if self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
            self._before = None

    def typed(self) -> bool:
        """Returns whether the user has typed a key, while a command has the terminal."""
        return bool(select.select([self._fd], [], [], 0)[0])

    def read(self, patience_s: float) -> bytes:
        """Returns the keys that the user has typed, or b"" if there is none for so long."""
        if not select.select([self._fd], [], [], patience_s)[0]:
            return b""
        return os.read(self._fd, READ_BYTES)

    def window(self) -> tuple[int, int]:
        """Returns the rows and columns of the terminal."""
        columns, rows = os.get_terminal_size(self._fd)
        return rows, columns
