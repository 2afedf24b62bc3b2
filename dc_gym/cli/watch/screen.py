# SPDX-License-Identifier: Apache-2.0
"""Shows a lab as tables of its queues, the rates that an agent allows the hosts, and its flows, with as many rows and columns as
fit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dc_gym.base.readable import number, quantity
from dc_gym.cli.watch.places import Place
from dc_gym.cli.watch.snapshot import ActiveFlows, Change, Rates
from dc_gym.cli.watch.training import TrainingStatus

__all__ = ["clock", "draw"]

BAR_CELLS, FEWEST_CELLS = 24, 6
EIGHTHS = " ▏▎▍▌▋▊▉█"
HIGH, FULL = 0.5, 0.9
"""The shares from which a bar is yellow, and red."""
MOST_RATES, MOST_FLOWS = 16, 8
TABLE_LINES = 3
FEWEST_PORTS = 4
DIGITS = 3
PADDING = 2

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScreenColumn:
    """A column of texts, as wide as its widest."""

    name: str
    cells: Sequence[str]
    drop_order: int = 0
    """The order in which columns are left out where space is short, the highest first; 0: the column always stays."""

    @property
    def width(self) -> int:
        return max(len(self.name), *map(len, self.cells), 0) + PADDING


@dataclass(frozen=True, slots=True)
class Bars:
    """A column of bars, as long as space allows."""

    name: str
    shares: Numbers
    drop_order: int
    plain: bool = False


def draw(lab_place: Place, change: Change, training: TrainingStatus | None, width: int, height: int | None) -> RenderableType:
    """Returns the tables of a lab. `width`, `height`: the available characters and lines; a height of None means no limit."""
    rates, flows = change.now.rates, change.now.flows
    head = _head(lab_place, change, training)
    parts: list[RenderableType] = [head]
    tables: list[RenderableType] = []
    if rates is not None:
        tables.append(_rates(change, rates, width, len(rates.row) if height is None else MOST_RATES))
        height = None if height is None else height - min(len(rates.row), MOST_RATES) - TABLE_LINES - 1
    if flows is not None:
        tables += _flows(flows, width, len(flows.number) if height is None else MOST_FLOWS)
        height = None if height is None else height - min(len(flows.number), MOST_FLOWS) - TABLE_LINES - 2
    head_lines = sum(-(-len(words) // width) for words in head.plain.splitlines())
    parts.append(_ports(change, width, None if height is None else max(FEWEST_PORTS, height - head_lines - TABLE_LINES - 2)))
    return Group(*parts, *tables)


def clock(change: Change) -> str:
    """Returns the time, and how fast it passes."""
    total_ns = change.network.duration_ns
    if change.since_t0_s < 0:  # only in real time: the next episode's traffic is being prepared
        return "between episodes"
    words = f"t0 + {change.since_t0_s:.3f} s" + (f" of {number(total_ns / 1e9)} s" if total_ns else "")
    if not change.speed:
        return f"{words}, stands still"
    return words if math.isnan(change.speed) else f"{words}, {number(change.speed, DIGITS)}x real time"


def _head(lab_place: Place, change: Change, training: TrainingStatus | None) -> Text:
    lab = f", of {lab_place.count} labs (--lab NAME stays with one)" if lab_place.count > 1 else ""
    text = Text.assemble((lab_place.name, "bold"), lab if not lab_place.alone else "", "\n", clock(change))
    text.append(f", sweep {change.now.generation:,}")
    if training is not None:
        text.append(f"\n{training}")
    return text


def _ports(change: Change, width: int, most: int | None) -> RenderableType:
    """Returns the table of ports that have seen any traffic. If there is no room for all, the fullest are shown, in the order of
    the rows."""
    network, backlog = change.network, change.value("backlog_bytes")
    rows = np.flatnonzero(change.now.cells.any(axis=1))
    hidden = 0
    if most is not None and len(rows) > most:
        fullest = rows[np.argsort(-backlog[rows], kind="stable")[:most]]
        rows, hidden = np.sort(fullest), len(rows) - most
    filled = _shares(backlog, network.buffer_bytes)[rows]
    sends = 8 * change.per_s("tx_bytes")
    columns: list[ScreenColumn | Bars] = [
        ScreenColumn("port", [network.ports[row] for row in rows]),
        Bars("queue", filled, drop_order=3),
        ScreenColumn("backlog", [quantity(size_bytes, "bytes", DIGITS) for size_bytes in backlog[rows]]),
        ScreenColumn("full", list(map(_percent, filled))),
        ScreenColumn("sends", [quantity(rate_bps, "bps", DIGITS) for rate_bps in sends[rows]]),
        ScreenColumn("used", list(map(_percent, _shares(sends, network.rate_bps)[rows])), drop_order=4),
        ScreenColumn("drops/s", list(map(_count, change.per_s("drops")[rows])), drop_order=1),
        ScreenColumn("marks/s", list(map(_count, change.per_s("marks")[rows])), drop_order=2),
        *_thresholds(change, rows),
        ScreenColumn("flows", [f"{count:.0f}" for count in change.value("active_flows")[rows]], drop_order=5),
    ]
    return _table(columns, width, hidden, "ports with less queued")


def _thresholds(change: Change, rows: npt.NDArray[np.intp]) -> list[ScreenColumn]:
    """Returns the columns of the markings in force, if an agent sets any."""
    markings = change.now.markings
    if markings is None:
        return []
    sizes = (("Kmin", markings.kmin_bytes), ("Kmax", markings.kmax_bytes))
    columns = [
        ScreenColumn(name, ["" if math.isnan(size) else quantity(size, "bytes", DIGITS) for size in values[rows]], drop_order=1)
        for name, values in sizes
    ]
    return [*columns, ScreenColumn("Pmax", list(map(_percent, markings.pmax[rows])), drop_order=2)]


def _rates(change: Change, rates: Rates, width: int, most: int) -> RenderableType:
    rows = rates.row[:most]
    shares = _shares(rates.wanted_bps, change.network.rate_bps[rates.row])[:most]
    sends = 8 * change.per_s("tx_bytes")[rows]
    rate_columns = (("wanted", rates.wanted_bps[:most]), ("enforced", rates.enforced_bps[:most]), ("sends", sends))
    columns: list[ScreenColumn | Bars] = [
        ScreenColumn("host's rate", [change.network.ports[row] for row in rows]),
        Bars("of its link", shares, drop_order=1, plain=True),
        *(ScreenColumn(name, [quantity(rate_bps, "bps", DIGITS) for rate_bps in values]) for name, values in rate_columns),
    ]
    return _table(columns, width, max(0, len(rates.row) - most), "hosts")


def _flows(flows: ActiveFlows, width: int, most: int) -> list[RenderableType]:
    """Returns the table of the flows with the longest round trips or, if no round trip is known, of the slowest flows. The CNPs
    column appears only if NICs have received some."""
    known = flows.srtt_us[~np.isnan(flows.srtt_us)]
    mean = f", srtt {quantity(known.mean(), 'us', DIGITS)} on average" if len(known) else ""
    order = np.lexsort((np.nan_to_num(flows.rate_bps, nan=np.inf), -np.nan_to_num(flows.srtt_us)))[:most]
    columns: list[ScreenColumn | Bars] = [
        ScreenColumn("", [f"flow {number}" for number in flows.number[order]]),
        ScreenColumn("srtt", [quantity(srtt_us, "us") for srtt_us in flows.srtt_us[order]]),
        ScreenColumn("rate", [quantity(rate_bps, "bps", DIGITS) for rate_bps in flows.rate_bps[order]]),
        ScreenColumn("received", [quantity(size, "bytes", DIGITS) for size in flows.received_bytes[order]], drop_order=2),
        ScreenColumn("retransmits", [f"{count:,.0f}" for count in flows.retransmits[order]], drop_order=1),
        *([ScreenColumn("CNPs", [f"{count:,.0f}" for count in flows.cnps[order]])] if flows.cnps.any() else []),
    ]
    hidden = "flows with shorter round trips" if len(known) else "faster flows"
    title = Text(f" {len(flows.number)} flows under way{mean}", style="bold")
    return [title, _table(columns, width, max(0, len(flows.number) - most), hidden)]


def _table(columns: Sequence[ScreenColumn | Bars], width: int, hidden: int, hidden_label: str) -> RenderableType:
    """Returns a table that fits the width. Names are never cut: bars become shorter first, then columns are left out."""
    fitting = list(columns)
    while (room := width - sum(column.width for column in fitting if isinstance(column, ScreenColumn))) < _fewest(fitting):
        last = max(fitting, key=lambda column: column.drop_order)
        if not last.drop_order:
            break
        fitting.remove(last)
    cells = min(BAR_CELLS, room - PADDING)
    table = Table(box=None, padding=(0, 1), show_edge=False)
    drawn: list[Sequence[str | Text]] = []
    for column in fitting:
        left = column is fitting[0] or isinstance(column, Bars)
        table.add_column(column.name, justify="left" if left else "right", no_wrap=True)
        drawn.append([_bar(share, cells, column.plain) for share in column.shares] if isinstance(column, Bars) else column.cells)
    for row in zip(*drawn, strict=True):
        table.add_row(*row)
    return Group(table, Text(f" and {hidden} {hidden_label}", style="dim")) if hidden else table


def _fewest(columns: Sequence[ScreenColumn | Bars]) -> int:
    """Returns the fewest characters that the bars take."""
    return sum(max(FEWEST_CELLS, len(column.name)) + PADDING for column in columns if isinstance(column, Bars))


def _shares(values: Iterable[float] | Numbers, wholes: Numbers) -> Numbers:
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Numbers = np.asarray(values, float) / wholes
    return shares


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{100 * share:.0f} %"


def _count(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s > 0 else ""


def _bar(share: float, cells: int, plain: bool) -> Text:
    if math.isnan(share):
        return Text("")
    eighths = round(8 * cells * min(1.0, max(0.0, share)))
    bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    style = "cyan" if plain else "green" if share < HIGH else "yellow" if share < FULL else "red"
    return Text(bar.ljust(cells), style=style)
