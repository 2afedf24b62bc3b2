# SPDX-License-Identifier: Apache-2.0
"""Tests the output of progress: the pace by a clock that the test moves, lines, and a bar on a made-up terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dc_gym.base.progress import Bar, Lines, Pace, Quiet, VirtualOnly, choose

S = 10**9


class Clock:
    """Wall time that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_pace_is_virtual_over_wall_time_and_the_rest_at_that_speed() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.report(1 * S, 10 * S)
    assert str(pace) == "", "nothing is known from one report"
    clock.now_s += 2
    pace.report(5 * S, 10 * S)
    assert (pace.factor, pace.eta_s) == (2.0, 2.5)
    assert str(pace) == "2x real time, 2.5 s to go"


def test_another_run_has_its_own_pace() -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.report(0, 10 * S)
    clock.now_s += 1
    pace.report(9 * S, 10 * S)
    pace.report(1 * S, 40 * S)
    assert pace.factor is None
    clock.now_s += 1
    pace.report(4 * S, 40 * S)
    assert (pace.factor, pace.eta_s) == (3.0, 12.0)


@pytest.mark.parametrize(
    ("eta_s", "text"), [(0.5, "0.5 s"), (59, "59 s"), (250, "4 min 10 s"), (7500, "2 h 5 min"), (9.96, "10 s")]
)
def test_time_to_go_in_words(eta_s: float, text: str) -> None:
    clock = Clock()
    pace = Pace(clock)
    pace.report(0, int((1 + eta_s) * S))
    clock.now_s += 1
    pace.report(S, int((1 + eta_s) * S))
    assert str(pace) == f"1x real time, {text} to go"


def test_lines_tell_phases_and_tenths() -> None:
    stream, clock = io.StringIO(), Clock()
    with Lines(stream, clock) as lines:
        lines.phase("traffic")
        for tenth in (0, 1, 1, 2):
            clock.now_s += 1
            lines.virtual(tenth * S, 10 * S)
        lines.phase("ideal")
        lines.virtual(5 * S, 10 * S)
        lines.virtual(1 * S, 10 * S)
        lines.advance(3, 9)
        lines.phase("done")
    assert stream.getvalue().splitlines() == [
        "dcgym: traffic",
        "dcgym: 1 of 10 s",
        "dcgym: 2 of 10 s (0.5x real time, 16 s to go)",
        "dcgym: ideal",
        "dcgym: 5 of 10 s",
        "dcgym: 1 of 10 s",
    ]


def test_a_bar_shows_virtual_time_speed_and_the_rest() -> None:
    clock = Clock()
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Bar(console, clock) as bar:
        bar.phase("traffic")
        bar.virtual(1 * S, 10 * S)
        clock.now_s += 2
        bar.virtual(5 * S, 10 * S)
        state = bar._bar.tasks[0].fields["state"]
        assert state == "5 of 10 s  2x real time, 2.5 s to go"
        assert (bar._bar.tasks[0].completed, bar._bar.tasks[0].total) == (5 * S, 10 * S)
        bar.advance(3, 9)
        assert bar._bar.tasks[0].fields["state"] == "3 of about 9"


def test_a_run_within_a_phase_passes_on_virtual_time_alone() -> None:
    stream = io.StringIO()
    inner = VirtualOnly(Lines(stream))
    inner.phase("boot")
    inner.note("hidden")
    inner.virtual(5 * S, 10 * S)
    assert stream.getvalue() == "dcgym: 5 of 10 s\n"


def test_what_takes_minutes_is_told_to_everybody(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    VirtualOnly(Lines(stream)).announce("building")
    assert stream.getvalue() == "dcgym: building\n"
    quiet = Quiet()
    quiet.phase("build")
    quiet.note("a step")
    quiet.announce("building")
    assert capsys.readouterr() == ("", "dcgym: building\n")


def test_quiet_and_dumb_streams() -> None:
    assert isinstance(choose(quiet=True), Quiet) and not isinstance(choose(quiet=True), Lines)
    assert isinstance(choose(quiet=False, stream=io.StringIO()), Lines)


@pytest.mark.parametrize(
    ("now_s", "total_s", "text"),
    [(359, 3000, "359 of 3,000 s"), (0.00023, 0.001, "0.23 of 1 ms"), (23.4567, 150, "23 of 150 s"), (3.001, 4, "3 of 4 s")],
)
def test_virtual_time_is_told_in_the_unit_of_the_whole(now_s: float, total_s: float, text: str) -> None:
    stream = io.StringIO()
    Lines(stream).virtual(round(now_s * 1e9), round(total_s * 1e9))
    assert stream.getvalue() == f"dcgym: {text}\n"
