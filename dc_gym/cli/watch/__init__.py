# SPDX-License-Identifier: Apache-2.0
"""`dcgym watch DIR`: shows a running run or training, from its labs' shared memory, which it only reads.

places.py    finds the labs that run below a folder
labs.py      chooses the lab that is working now
snapshot.py  reads a lab's current state, and the changes since
training.py  reads the progress of a training
screen.py    shows all of this as tables, for a terminal
line.py      shows it as one line, for everything else
"""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from dc_gym.base import terminal
from dc_gym.base.errors import UsageError
from dc_gym.base.terminal import say
from dc_gym.cli.watch import line, places, screen, training
from dc_gym.cli.watch.labs import LabChooser
from dc_gym.cli.watch.places import Place
from dc_gym.cli.watch.snapshot import Attached, Change, RecentSnapshots

__all__ = ["main"]

SCREEN_S, LINES_S = 0.5, 5.0
"""Default intervals: a terminal is redrawn, elsewhere a line is printed."""
LOOK_S = 0.5
"""The longest time between two reads of a lab: an episode may be over in a second, and rates are computed within one episode."""
PATIENCE_S = 1.0
"""The time without a lab after which the command prints that it waits."""
ONCE_S = 10.0
"""The timeout of --once for a training whose labs all stand still."""
WIDTH = 160  # width of output that does not go to a terminal
ENDED = "The run has ended."


class Show(Protocol):
    """The output: a terminal, or lines."""

    def lab(self, lab_place: Place, change: Change) -> None:
        """Shows a lab."""

    def waits(self, words: str) -> None:
        """Shows that there is nothing to show yet."""


def main(args: Namespace) -> int:
    """Shows the lab that is working until the run has ended; with `args.once` prints it once. Without a terminal: prints a line
    every `args.interval` seconds."""
    on_terminal = sys.stdout.isatty()
    if args.once:
        console = terminal.console(width=None if on_terminal else WIDTH)
        console.print(_once(args.dir, args.lab, console.width))
        return 0
    interval_s = args.interval or (SCREEN_S if on_terminal else LINES_S)
    with LabChooser(args.dir, args.lab) as labs, _screen(args.dir) if on_terminal else _lines(args.dir) as show:
        _follow(args.dir, labs, show, interval_s)
    return 0


def _once(out: Path, lab_name: str | None, width: int) -> RenderableType:
    """Returns one table, from two reads so that there are rates."""
    candidates = places.find(out)
    places.require(candidates, out, lab_name)
    if candidates[0].alone:
        lab_place, change = _alone(candidates[0])
    else:
        lab_place, change = _working(out, lab_name)
    return screen.draw(lab_place, change, training.read(out), width, None)


def _alone(lab_place: Place) -> tuple[Place, Change]:
    window = RecentSnapshots()
    with Attached(lab_place.folder) as lab:
        lab.change(window)
        time.sleep(LOOK_S)
        return lab_place, lab.change(window)


def _working(out: Path, lab_name: str | None) -> tuple[Place, Change]:
    until_s = time.monotonic() + ONCE_S
    with LabChooser(out, lab_name) as labs:
        while (reading := labs.look()) is None or not reading[1].elapsed_s > 0:
            if time.monotonic() > until_s:
                raise UsageError(f"{out}: no lab has moved for {ONCE_S:g} s; try again when the training goes on")
            time.sleep(LOOK_S / 5)
    return reading


def _follow(out: Path, labs: LabChooser, show: Show, interval_s: float) -> None:
    """Shows labs until the run has ended. A training goes on with its next lab."""
    due_s = shown_s = time.monotonic()
    last: Path | None = None
    while True:
        reading, now_s = labs.look(), time.monotonic()
        if reading is None and labs.is_over():
            return
        if reading is None:
            if now_s - shown_s > PATIENCE_S:
                show.waits(f"{out}: waits for {labs.awaited()}")
            time.sleep(LOOK_S / 5)
            continue
        shown_s = now_s
        if now_s >= due_s or reading[0].folder != last:
            show.lab(*reading)
            due_s, last = max(due_s + interval_s, now_s), reading[0].folder
        time.sleep(min(LOOK_S, max(0.0, due_s - now_s)))


class _Screen:
    def __init__(self, out: Path, live: Live) -> None:
        self._out, self._live = out, live

    def lab(self, lab_place: Place, change: Change) -> None:
        size = self._live.console.size
        self._live.update(screen.draw(lab_place, change, training.read(self._out), size.width, size.height), refresh=True)

    def waits(self, words: str) -> None:
        progress = training.read(self._out)
        self._live.update(Text(words + (f"\n{progress}" if progress else "")), refresh=True)


class _Lines:
    def __init__(self, out: Path) -> None:
        self._out, self._waited = out, ""

    def lab(self, lab_place: Place, change: Change) -> None:
        self._waited = ""
        say(line.of(lab_place, change, training.read(self._out)), flush=True)

    def waits(self, words: str) -> None:
        if words != self._waited:
            say(words, flush=True)
        self._waited = words


@contextmanager
def _screen(out: Path) -> Iterator[Show]:
    console = terminal.console()
    with Live(console=console, auto_refresh=False) as live:
        yield _Screen(out, live)
    console.print(ENDED)


@contextmanager
def _lines(out: Path) -> Iterator[Show]:
    yield _Lines(out)
