# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench enforce`: the rates at which hosts send if an agent commands a thousandth of their line rate up to all of it.

Hosts on one switch send as fast as they may, each to its own receiver: TCP, and UDP at line rate. The commands take the usual
path of an agent's, through agentd. The bench counts the frames that arrived over the host's cable, at the queue of the switch
port by which they leave. Rates are set once, or drawn again at each step; then the mean over the steps counts. Time is virtual.
The slowest host sends FRAMES frames, so one frame more or less is half a per cent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.checks import Check
from dc_gym.base.files import csv_bytes, put
from dc_gym.base.outputs import free_place, is_table_of
from dc_gym.base.readable import quantity
from dc_gym.base.units import FRAME_BYTES, format_rate
from dc_gym.learn.env import as_spec
from dc_gym.learn.session import Session
from dc_gym.results.figures import kit
from dc_gym.results.figures.axes import log_ticks
from dc_gym.run.agent.frame import Floats
from dc_gym.run.sweep import runs

LINES_BPS = (10**7, 10**9, 10**10)
SHARES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
TRANSPORTS = ("tcp", "udp")
FRAMES = 200
STEPS = 500
SETTLE_STEPS = 50
"""Number of first steps that do not count, since TCP starts and the bucket was full."""
LOWEST_DRAW = 0.2
"""The lowest drawn rate, as a part of the host's own rate."""
TOLERANCE = 0.01
NAME = "enforce"
FIGURE, TABLE = Path("results/enforce.png"), Path("results/enforce.csv")

Draw = Callable[[Floats, int], Floats]
"""Returns the rates of a step from the hosts' own rates and the step's number."""


@dataclass(frozen=True, slots=True)
class RatePoint:
    """One host over one episode."""

    line_bps: int
    transport: str
    changes: str
    commanded_bps: float
    measured_bps: float

    @property
    def error(self) -> float:
        return self.measured_bps / self.commanded_bps - 1


def once(rates_bps: Floats, step: int) -> Floats:
    return rates_bps


def each_step(rates_bps: Floats, step: int) -> Floats:
    drawn: Floats = rates_bps * np.random.default_rng(step).uniform(LOWEST_DRAW, 1, len(rates_bps))
    return drawn


CHANGES: dict[str, Draw] = {"once": once, "each step": each_step}


def spec_of(line_bps: int, transport: str, shares: Sequence[float] = SHARES, frames: int = FRAMES) -> dict[str, Any]:
    """Returns a spec with as many pairs of hosts as shares. It lasts as long as the slowest host needs for its frames."""
    duration_ns = frames * FRAME_BYTES * 8 * 10**9 / (min(shares) * line_bps)
    step_ns = round(duration_ns / STEPS)
    rate = {"rate": f"{line_bps}bit/s"}
    floor_bps = max(1000, round(LOWEST_DRAW * min(shares) * line_bps))
    return {
        "topology": {"kind": "single", "hosts": 2 * len(shares), **rate, "delay": "10us", "buffer": "400kB"},
        "controller": {"name": "cubic"},
        "workload": {"kind": "pairs", "transport": transport, **(rate if transport == "udp" else {})},
        "time": {"duration": f"{step_ns * STEPS}ns"},
        "agent": {
            "interval": f"{step_ns}ns",
            "hosts": "senders",
            "floor": f"{floor_bps}bit/s",
            "publish": f"{step_ns * SETTLE_STEPS}ns",
        },
    }


def measure(line_bps: int, transport: str, shares: Sequence[float] = SHARES, frames: int = FRAMES) -> Iterator[RatePoint]:
    """Runs one lab, with an episode for each way of changing rates."""
    own_bps = np.array(shares) * line_bps
    with Session(as_spec(spec_of(line_bps, transport, shares, frames))) as session:
        for name, draw in CHANGES.items():
            commanded, measured = episode(session, own_bps, draw)
            for wanted_bps, found_bps in zip(commanded.tolist(), measured.tolist(), strict=True):
                yield RatePoint(line_bps, transport, name, wanted_bps, found_bps)


def episode(session: Session, own_bps: Floats, draw: Draw) -> tuple[Floats, Floats]:
    """Returns, by host, the mean commanded and the mean arriving rate over the steps that count."""
    session.begin(seed=1)
    rates_bps = [draw(own_bps, step) for step in range(session.steps)]
    frames = [session.step(commanded_bps) for commanded_bps in rates_bps]
    first, last = frames[SETTLE_STEPS - 1], frames[-1]
    # of each acting host, the row of the switch port through which its frames alone leave
    rows = [int(flow.rows[-1]) for flow in session.experiment.schedule.flows]
    sent = (last.column("tx_bytes") - first.column("tx_bytes"))[rows]
    return np.mean(rates_bps[SETTLE_STEPS:], axis=0), sent * 8e9 / (last.t_ns - first.t_ns)


def bar_of(points: Sequence[RatePoint]) -> Check:
    """Returns the check on one line rate, transport and way of changing rates."""
    worst = max(points, key=lambda point: abs(point.error))
    first, low = points[0], min(point.commanded_bps for point in points)
    at = f"{quantity(worst.measured_bps, 'bps', 6)} where {quantity(worst.commanded_bps, 'bps', 6)} were commanded"
    return Check(
        f"{format_rate(first.line_bps)}, {first.transport.upper()}, rates set {first.changes}",
        f"within {TOLERANCE:.0%}, {format_rate(round(low))} to the line",
        f"{worst.error:+.3%} at the worst: {at}",
        abs(worst.error) <= TOLERANCE,
    )


def grouped(points: Sequence[RatePoint]) -> dict[tuple[int, str, str], list[RatePoint]]:
    """Returns the points by line rate, transport and way of changing rates."""
    by_setting: dict[tuple[int, str, str], list[RatePoint]] = {}
    for point in points:
        by_setting.setdefault((point.line_bps, point.transport, point.changes), []).append(point)
    return by_setting


def checks() -> Iterator[Check]:
    points = [point for line_bps in LINES_BPS for transport in TRANSPORTS for point in measure(line_bps, transport)]
    yield from map(bar_of, grouped(points).values())
    table, figure = free_place(TABLE, is_table_of(COLUMNS)), runs.figure_place(FIGURE, NAME)
    save(points, table)
    draw_figure(points, figure)
    yield Check("table and figure", "recorded", f"{table}, {figure}", ok=True)


COLUMNS = (*(field.name for field in fields(RatePoint)), "error")


def save(points: Sequence[RatePoint], path: Path) -> None:
    put(path, csv_bytes(COLUMNS, ((*astuple(point), f"{point.error:.6f}") for point in points)))


def draw_figure(points: Sequence[RatePoint], path: Path) -> None:
    """Draws the error of each host over its rate."""
    colors, markers = dict(zip(LINES_BPS, kit.FLOW_COLORS, strict=False)), dict(zip(TRANSPORTS, "ox", strict=True))
    with kit.style():
        figure = kit.new_figure(10, 3.6)
        panels = dict(zip(CHANGES, figure.subplots(1, len(CHANGES), sharey=True), strict=True))
        for (line_bps, transport, changes), group in grouped(points).items():
            rates_bps, errors_percent = [point.commanded_bps for point in group], [100 * point.error for point in group]
            look = {"color": colors[line_bps], "label": f"{quantity(line_bps, 'bps')}, {transport.upper()}"}
            panels[changes].plot(rates_bps, errors_percent, markers[transport], fillstyle="none", markersize=6, **look)
        for changes, axes in panels.items():
            axes.axhspan(-100 * TOLERANCE, 100 * TOLERANCE, color="0.93")
            axes.axhline(0, color="0.6", linewidth=0.8)
            axes.set_xscale("log")
            log_ticks(axes, "x", family="bps")
            axes.tick_params(axis="x", rotation=30)
            axes.set_xlabel("Commanded" if changes == "once" else "Commanded (mean)")
            axes.set_title(f"Rates set {changes}")
        figure.axes[0].set_ylabel("Measured, % off")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), ncols=6, fontsize="small", loc="outside lower center")
        kit.save(figure, path, mark=runs.mark_of(NAME))
