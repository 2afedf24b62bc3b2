# SPDX-License-Identifier: Apache-2.0
"""`dcgym watch DIR`: a run or a training that is under way, from its labs' own shared memory, which it only reads.

places.py    which labs run below a folder
moment.py    what one of them looks like now, and what changed since
training.py  how far a training is
screen.py    all of that as tables, for a terminal
line.py      and as one line, for everything else
"""

from __future__ import annotations

import contextlib
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, RenderableType
from rich.live import Live

from dc_gym.errors import UsageError
from dc_gym.watch import line, places, screen, training
from dc_gym.watch.moment import Attached, Change, Window
from dc_gym.watch.places import Place

__all__ = ["main"]

SCREEN_S, LINES_S = 0.5, 5.0
"""How often by default: a terminal is redrawn, elsewhere a line is printed."""
LOOK_S = 0.5
"""A lab is looked at at least so often: an episode may be over in a second, and rates are of one episode."""
NEXT_LAB_S = 10.0
"""A training's lab that dies is replaced within seconds."""
WIDTH = 160  # of what is printed to no terminal

Show = Callable[[Place, Change], None]


def main(args: Namespace) -> int:
    """Shows the lab until it ends; with `args.once` prints it once. On no terminal: a line each `args.interval` seconds."""
    place = places.find(args.dir, args.lab)
    on_terminal = sys.stdout.isatty()
    if args.once:
        Console(width=None if on_terminal else WIDTH).print(_once(args.dir, place))
        return 0
    interval_s = args.interval or (SCREEN_S if on_terminal else LINES_S)
    with _screen(args.dir) if on_terminal else _lines(args.dir) as show:
        _follow(args.dir, args.lab, place, show, interval_s)
    return 0


def _once(out: Path, place: Place) -> RenderableType:
    """Two looks, so that there are rates."""
    window = Window()
    with Attached(place.folder) as lab:
        lab.change(window)
        time.sleep(LOOK_S)
        return screen.draw(place, lab.change(window), training.read(out), None)


def _follow(out: Path, number: int, place: Place, show: Show, interval_s: float) -> None:
    """Until the run has ended; a training goes on with its next lab."""
    while True:
        _follow_lab(place, show, interval_s)
        if place.alone:
            return
        until_s = time.monotonic() + NEXT_LAB_S
        while (found := _found_again(out, number)) is None:
            if time.monotonic() > until_s:
                return
            time.sleep(min(interval_s, 1.0))
        place = found


def _found_again(out: Path, number: int) -> Place | None:
    with contextlib.suppress(UsageError):
        return places.find(out, number)
    return None


def _follow_lab(place: Place, show: Show, interval_s: float) -> None:
    window = Window()
    with Attached(place.folder) as lab:
        due_s = time.monotonic()
        while lab.is_alive():
            change = lab.change(window)
            if (now_s := time.monotonic()) >= due_s:
                show(place, change)
                due_s = max(due_s + interval_s, now_s)
            time.sleep(min(LOOK_S, max(0.0, due_s - now_s)))


@contextmanager
def _screen(out: Path) -> Iterator[Show]:
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        yield lambda place, change: live.update(screen.draw(place, change, training.read(out), console.height), refresh=True)
    console.print("The run has ended.")


@contextmanager
def _lines(out: Path) -> Iterator[Show]:
    yield lambda place, change: print(line.of(place, change, training.read(out)), flush=True)
