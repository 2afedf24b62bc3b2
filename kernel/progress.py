# SPDX-License-Identifier: Apache-2.0
"""How long work is shown: phases, a bar on a terminal, a plain line every ten seconds elsewhere. All of it on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

PLAIN_INTERVAL_S = 10.0


class Progress(Protocol):
    def phase(self, name: str) -> None:
        """What begins now."""

    def advance(self, done: int, total: int) -> None:
        """How far the phase is. `total` may be an estimate."""

    def note(self, line: str) -> None:
        """A line that has to be seen."""


class Silent:
    def phase(self, name: str) -> None:
        pass

    def advance(self, done: int, total: int) -> None:
        pass

    def note(self, line: str) -> None:
        pass


class Plain:
    """Lines of text."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream = stream
        self._title = title
        self._phase = ""
        self._said = 0.0

    def phase(self, name: str) -> None:
        self._phase = name
        self._say(name)

    def advance(self, done: int, total: int) -> None:
        if time.monotonic() - self._said >= PLAIN_INTERVAL_S:
            self._say(f"{self._phase}: {done} of about {total}")

    def note(self, line: str) -> None:
        self._say(line)

    def _say(self, text: str) -> None:
        self._said = time.monotonic()
        print(f"{self._title}: {text}", file=self._stream, flush=True)


@contextmanager
def console(title: str) -> Iterator[Progress]:
    """Progress on stderr in the form that suits it. Says nothing until there is something to say."""
    if not sys.stderr.isatty():
        yield Plain(sys.stderr, title)
        return
    bar = _Bar(title)
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as RichProgress

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TimeElapsedColumn())
        self._rich = RichProgress(*columns, console=Console(stderr=True))
        self._title = title
        self._task = self._rich.add_task(title, total=None, count="", start=False, visible=False)
        self._started = False

    def phase(self, name: str) -> None:
        if not self._started:
            self._rich.start()
            self._rich.start_task(self._task)
            self._started = True
        self._rich.update(self._task, description=f"{self._title}: {name}", total=None, completed=0, count="", visible=True)

    def advance(self, done: int, total: int) -> None:
        self._rich.update(self._task, completed=min(done, total), total=total, count=f"{done}/{total}")

    def note(self, line: str) -> None:
        self._rich.console.print(f"{self._title}: {line}", markup=False, highlight=False, soft_wrap=True)

    def close(self) -> None:
        if self._started:
            self._rich.stop()
