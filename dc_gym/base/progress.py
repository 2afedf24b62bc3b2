# SPDX-License-Identifier: Apache-2.0
"""The progress that a run shows its user: the phase, how far virtual time is, how fast it is, and the remaining time.

On a terminal it is a bar that is redrawn; elsewhere, a line for each phase and each tenth of the run. With --quiet it only
announces work that takes minutes and that the user did not ask for, such as the build of the lab kernel. All output goes to
standard error: standard output is for results.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TextIO

from dc_gym.base import terminal
from dc_gym.base.readable import fixed, number, scale_of
from dc_gym.base.terminal import say

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import TaskID

__all__ = ["Bar", "Lines", "Pace", "Progress", "Quiet", "VirtualOnly", "choose", "short_time"]

DONE = "done"
LINE_EVERY_S = 10.0


class Progress(Protocol):
    """The interface that the runner calls, from one thread. The caller enters and leaves it."""

    def phase(self, name: str) -> None:
        """Begins a new phase, such as "boot". "done" ends a run, and another run may follow."""

    def virtual(self, now_ns: int, total_ns: int) -> None:
        """Reports that the virtual time of the traffic is at now_ns of total_ns. Below 0 the traffic has not begun."""

    def advance(self, done: int, total: int, state: str = "") -> None:
        """Reports how far a phase without virtual time is, such as a build or a sweep. `state` describes it in words.

        Without words `total` is taken as an estimate.
        """

    def note(self, line: str) -> None:
        """Shows one line that the user should see now."""

    def announce(self, line: str) -> None:
        """Shows one line even to a user who wants quiet: why nothing happens for minutes."""

    def __enter__(self) -> Progress: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Pace:
    """Virtual time against wall-clock time, from the first report that traffic runs."""

    def __init__(self, wall_s: Callable[[], float] = time.monotonic) -> None:
        self._wall_s = wall_s
        self._start: tuple[float, int] | None = None
        self._total_ns = 0
        self.factor: float | None = None
        """Virtual seconds in a wall-clock second. None: not known yet."""
        self.eta_s: float | None = None
        """Remaining wall-clock time in seconds."""

    def restart(self) -> None:
        """Forgets the measurements."""
        self._start = self.factor = self.eta_s = None

    def report(self, now_ns: int, total_ns: int) -> None:
        """Reports that virtual time is at now_ns. A different total, or a step back, means another run."""
        if self._start is None or now_ns < self._start[1] or total_ns != self._total_ns:
            self.restart()
            self._start, self._total_ns = (self._wall_s(), max(0, now_ns)), total_ns
        passed_s = self._wall_s() - self._start[0]
        moved_s = (now_ns - self._start[1]) / 1e9
        if passed_s > 0 and moved_s > 0:
            self.factor = moved_s / passed_s
            self.eta_s = max(0.0, (total_ns - now_ns) / 1e9 / self.factor)

    def __str__(self) -> str:
        if self.factor is None or self.eta_s is None:
            return ""
        return f"{number(self.factor, 3)}x real time, {short_time(self.eta_s)} to go"


class Quiet:
    """Shows almost nothing."""

    def phase(self, name: str) -> None:
        pass

    def virtual(self, now_ns: int, total_ns: int) -> None:
        pass

    def advance(self, done: int, total: int, state: str = "") -> None:
        pass

    def note(self, line: str) -> None:
        pass

    def announce(self, line: str) -> None:
        say(f"dcgym: {line}", file=sys.stderr, flush=True)

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass


class VirtualOnly(Quiet):
    """Passes on only how far virtual time is, for a run within a phase of another."""

    def __init__(self, progress: Progress) -> None:
        self._shown = progress

    def virtual(self, now_ns: int, total_ns: int) -> None:
        self._shown.virtual(now_ns, total_ns)

    def announce(self, line: str) -> None:
        self._shown.announce(line)


class Lines(Quiet):
    """Prints plain lines, for logs and pipes."""

    def __init__(self, stream: TextIO, wall_s: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._pace = Pace(wall_s)
        self._wall_s = wall_s
        self._said_s = wall_s()
        self._tenths = 0

    def phase(self, name: str) -> None:
        self._pace.restart()
        self._tenths = 0
        if name != DONE:
            self.note(name)

    def virtual(self, now_ns: int, total_ns: int) -> None:
        if now_ns <= 0 or total_ns <= 0:
            return
        self._pace.report(now_ns, total_ns)
        tenths = min(10, 10 * now_ns // total_ns)
        if tenths < self._tenths:  # another run in the same phase
            self._tenths = 0
        if tenths > self._tenths:
            self._tenths = tenths
            pace = f" ({self._pace})" if str(self._pace) else ""
            self.note(f"{_so_far(now_ns, total_ns)}{pace}")

    def advance(self, done: int, total: int, state: str = "") -> None:
        if self._wall_s() - self._said_s >= LINE_EVERY_S:
            self.note(state or f"{done} of about {total}")

    def note(self, line: str) -> None:
        self._said_s = self._wall_s()
        say(f"dcgym: {line}", file=self._stream, flush=True)

    def announce(self, line: str) -> None:
        self.note(line)

    def __enter__(self) -> Lines:
        return self


class Bar(Quiet):
    """One line on a terminal that is redrawn."""

    def __init__(self, console: Console, wall_s: Callable[[], float] = time.monotonic) -> None:
        self._pace = Pace(wall_s)
        from rich.progress import BarColumn, TextColumn  # rich takes time to import, and help does not need it
        from rich.progress import Progress as RichBar

        columns = (TextColumn("{task.description}"), BarColumn(bar_width=32), TextColumn("{task.fields[state]}"))
        self._bar = RichBar(*columns, console=console, transient=True, redirect_stdout=False)
        self._task: TaskID = self._bar.add_task("", total=None, state="")

    def phase(self, name: str) -> None:
        self._pace.restart()
        if name == DONE:
            self._bar.stop()
            return
        self._bar.update(self._task, description=name, total=None, completed=0, state="")
        self._bar.start()

    def virtual(self, now_ns: int, total_ns: int) -> None:
        if now_ns <= 0 or total_ns <= 0:
            return
        self._pace.report(now_ns, total_ns)
        state = f"{_so_far(now_ns, total_ns)}  {self._pace}"
        self._bar.update(self._task, total=total_ns, completed=min(now_ns, total_ns), state=state)

    def advance(self, done: int, total: int, state: str = "") -> None:
        self._bar.update(self._task, total=total, completed=min(done, total), state=state or f"{done} of about {total}")

    def note(self, line: str) -> None:
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)  # a command in it can be copied

    def announce(self, line: str) -> None:
        self.note(line)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bar.stop()


def choose(quiet: bool, stream: TextIO | None = None) -> Progress:
    """Returns no output, a bar, or lines, depending on `quiet` and on the stream (standard error)."""
    stream = sys.stderr if stream is None else stream
    if quiet:
        return Quiet()
    console = terminal.console(file=stream)
    return Bar(console) if console.is_terminal and not console.is_dumb_terminal else Lines(stream)


def _so_far(now_ns: int, total_ns: int) -> str:
    """Returns text such as '359 of 3,000 s': both in the unit that suits the total, to a thousandth of it."""
    scale = scale_of("ns", [total_ns])
    places = max(0, 2 - math.floor(math.log10(scale.of(total_ns))))
    return f"{fixed(scale.of(now_ns), places, strip=True)} of {scale.text(total_ns)}"


def short_time(seconds: float) -> str:
    """Returns text such as '3.2 s', '4 min 10 s' or '2 h 5 min'."""
    if seconds < 60:
        return f"{number(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
