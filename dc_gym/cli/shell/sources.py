# SPDX-License-Identifier: Apache-2.0
"""Where a shell's commands come from: a terminal, with history and completion, or standard input, as a script."""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from dc_gym.base.errors import UsageError
from dc_gym.base.terminal import say

HISTORY_LINES = 1000
CTRL_C = "\x03"
LOOK_S = 0.2
MARK = "\ufeff"
"""The byte order mark with which files begin that were written on Windows."""
EMPTY = "no terminal, and standard input has no command: pipe commands into it, as in: echo 'h1 ip address' | dcgym shell SPEC"


class Source(Protocol):
    """Gives one command after another."""

    is_terminal: bool

    def read(self, prompt: str, called_away: Callable[[], bool] = lambda: False) -> str | None:
        """Returns the next line that is not blank, without white space around it; None at the end.

        While nothing is typed at a terminal, `called_away` is called now and then. Once that returns True, the result is "".
        """

    def read_on(self) -> str | None:
        """Returns the next line of a command that goes on, as it is; None at the end, or if the user gives it up."""

    def close(self) -> None:
        """Saves the command history."""


def open_source(complete: Callable[[str, str], Sequence[str]]) -> Source:
    """Returns the terminal if standard input is one. Otherwise the script, whose first command is there already.

    `complete(before, word)` returns the possible completions of `word`, which follows `before` in the line.
    """
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError(EMPTY)
    if os.isatty(sys.stdin.fileno()):
        return Terminal(complete)
    return Script()


def command_in(line: str) -> str:
    """Returns the command in a line of a script; empty if it is blank, or a comment, which begins with #."""
    command = line.strip().removeprefix(MARK)
    return "" if command.startswith("#") else command


def lines_of(name: str) -> list[str]:
    """Returns the lines of a file of commands. Raises UsageError if it cannot be read."""
    if not name:
        raise UsageError("source: give a file, such as: source commands.txt")
    try:
        with Path(name).open(encoding="utf-8-sig") as file:
            return file.read().splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(f"source {name}: {why}; give a file of commands, one a line") from None


class Script:
    """The commands of standard input."""

    is_terminal = False

    def __init__(self) -> None:
        self._first = self._next()
        if self._first is None:
            raise UsageError(EMPTY)

    def read(self, prompt: str, called_away: Callable[[], bool] = lambda: False) -> str | None:
        line, self._first = self._first or self._next(), None
        return line

    def read_on(self) -> str | None:
        line = sys.stdin.readline()
        return line.removesuffix("\n") if line else None

    def close(self) -> None:
        """Does nothing."""

    def _next(self) -> str | None:
        while line := sys.stdin.readline():
            if command := command_in(line):
                return command
        return None


class _CalledAway(Exception):
    """Something else than a line comes first."""


class Terminal:
    """The user's terminal. Ctrl-C begins another line; Ctrl-D ends.

    While a line is typed, Ctrl-C is a key and no signal: readline can miss a signal that comes while it handles the key before.
    """

    is_terminal = True

    def __init__(self, complete: Callable[[str, str], Sequence[str]]) -> None:
        self._complete, self._found = complete, list[str]()
        self._history = _history_file()
        try:
            import readline  # some builds of Python have none; then lines are plain
        except ImportError:
            self._readline = None
            return
        self._readline = readline
        with suppress(OSError):
            readline.read_history_file(self._history)
        readline.set_history_length(HISTORY_LINES)
        readline.set_completer_delims(" ")
        readline.set_completer(self._completion)
        readline.parse_and_bind("tab: complete")
        readline.parse_and_bind("set show-all-if-ambiguous on")
        readline.parse_and_bind(r'"\C-c": "\C-v\C-c\C-m"')  # shows ^C, and ends the line with it
        readline.set_auto_history(False)

    def read(self, prompt: str, called_away: Callable[[], bool] = lambda: False) -> str | None:
        while True:
            try:
                with self._ctrl_c_as_a_key(), self._looking(called_away):
                    line = input(prompt).strip()
            except _CalledAway:
                sys.stdout.write("\r")  # the prompt comes again in its place
                return ""
            except KeyboardInterrupt:
                say()
                continue
            except EOFError:
                say()
                return None
            if line and CTRL_C not in line:
                self._remember(line)
                return line

    def read_on(self) -> str | None:
        try:
            return input("> ")
        except (KeyboardInterrupt, EOFError):
            say()
            return None

    def close(self) -> None:
        """Writes the history. A folder that cannot be written costs nothing else."""
        if self._readline is not None:
            with suppress(OSError):
                self._history.parent.mkdir(parents=True, exist_ok=True)
                self._readline.write_history_file(self._history)

    @contextmanager
    def _ctrl_c_as_a_key(self) -> Iterator[None]:
        if self._readline is None:
            yield
            return
        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
        *modes, keys = before
        try:
            termios.tcsetattr(terminal, termios.TCSADRAIN, [*modes, [*keys[: termios.VINTR], b"\0", *keys[termios.VINTR + 1 :]]])
            yield
        finally:
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

    @contextmanager
    def _looking(self, called_away: Callable[[], bool]) -> Iterator[None]:
        """Calls `called_away` every LOOK_S, and leaves the context by _CalledAway when it returns True and the line is empty."""

        def look(_number: int, _frame: object) -> None:
            if called_away() and not (self._readline and self._readline.get_line_buffer()):
                raise _CalledAway

        before = signal.signal(signal.SIGALRM, look)
        try:
            signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _remember(self, line: str) -> None:
        if self._readline is None:
            return
        length = self._readline.get_current_history_length()
        if not length or self._readline.get_history_item(length) != line:
            self._readline.add_history(line)

    def _completion(self, word: str, number: int) -> str | None:
        assert self._readline is not None, "readline calls this"
        if number == 0:
            before = self._readline.get_line_buffer()[: self._readline.get_begidx()]
            self._found = [f"{candidate} " for candidate in self._complete(before, word)]
        return self._found[number] if number < len(self._found) else None


def _history_file() -> Path:
    """Returns the file with earlier commands, in the user's folder for state."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base.startswith("/") else Path.home() / ".local" / "state") / "dcgym" / "shell_history"
