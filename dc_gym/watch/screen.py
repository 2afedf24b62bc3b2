# SPDX-License-Identifier: Apache-2.0
"""A lab as tables: its queues, what an agent lets the hosts send, its flows; as many rows as the terminal has room for."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dc_gym.watch.moment import Change, Flows, Rates
from dc_gym.watch.places import Place
from dc_gym.watch.training import Training
from dc_gym.watch.words import short

__all__ = ["clock", "draw"]

BAR_CELLS = 24
EIGHTHS = " ▏▎▍▌▋▊▉█"
HIGH, FULL = 0.5, 0.9
"""Shares from which on a bar is yellow, and red."""
MOST_RATES, MOST_FLOWS = 16, 8
HEAD_LINES, TABLE_LINES = 3, 3
FEWEST_PORTS = 4

Numbers = npt.NDArray[np.float64]


def draw(place: Place, change: Change, training: Training | None, height: int | None) -> RenderableType:
    """`height`: lines that there are; None: as many as it takes."""
    rates, flows = change.now.rates, change.now.flows
    parts: list[RenderableType] = [_head(place, change, training)]
    tables: list[RenderableType] = []
    if rates is not None:
        tables.append(_rates(change, rates, len(rates.row) if height is None else MOST_RATES))
        height = None if height is None else height - min(len(rates.row), MOST_RATES) - TABLE_LINES - 1
    if flows is not None:
        tables.append(_flows(flows, len(flows.number) if height is None else MOST_FLOWS))
        height = None if height is None else height - min(len(flows.number), MOST_FLOWS) - TABLE_LINES - 1
    parts.append(_ports(change, None if height is None else max(FEWEST_PORTS, height - HEAD_LINES - TABLE_LINES - 2)))
    return Group(*parts, *tables)


def clock(change: Change) -> str:
    """When, and how fast."""
    total_ns = change.network.duration_ns
    if change.since_t0_s < 0:  # in real time: the next episode's traffic is being prepared
        return "between episodes"
    words = f"t0 + {change.since_t0_s:.3f} s" + (f" of {total_ns / 1e9:g} s" if total_ns else "")
    return words if math.isnan(change.speed) else f"{words}, {change.speed:.3g}x real time"


def _head(place: Place, change: Change, training: Training | None) -> Text:
    lab = f"  lab {place.number} of {place.count}" + (" (--lab N shows another)" if place.count > 1 else "")
    text = Text.assemble((place.name, "bold"), lab if not place.alone else "", "\n", clock(change))
    text.append(f", sweep {change.now.generation:,}")
    if training is not None:
        text.append(f"\n{training}")
    return text


def _ports(change: Change, most: int | None) -> Table:
    """Those that have seen anything; where there is no room for all of them the fullest, in the order of the rows."""
    network, backlog = change.network, change.value("backlog_bytes")
    filled = _shares(backlog, network.buffer_bytes)
    rows = np.flatnonzero(change.now.cells.any(axis=1))
    hidden = 0
    if most is not None and len(rows) > most:
        fullest = rows[np.argsort(-backlog[rows], kind="stable")[:most]]
        rows, hidden = np.sort(fullest), len(rows) - most
    sends = 8 * change.per_s("tx_bytes")
    used = _shares(sends, network.rate_bps)
    drops, marks, flows = change.per_s("drops"), change.per_s("marks"), change.value("active_flows")
    table = _table("port", "queue", "backlog_bytes", "of buffer", "sends", "of link", "drops/s", "marks/s", "flows")
    for row in rows:
        table.add_row(
            network.ports[row], _bar(filled[row]), f"{backlog[row]:,.0f}", _percent(filled[row]), short(sends[row], "bit/s"),
            _percent(used[row]), _count(drops[row]), _count(marks[row]), f"{flows[row]:.0f}",
        )  # fmt: skip
    _say_hidden(table, hidden, "ports with less queued")
    return table


def _rates(change: Change, rates: Rates, most: int) -> Table:
    line_bps = change.network.rate_bps[rates.row]
    share = _shares(rates.wanted_bps, line_bps)
    table = _table("host's rate", "of its link", "wanted", "enforced", "sends")
    sends = 8 * change.per_s("tx_bytes")[rates.row]
    for i in range(min(most, len(rates.row))):
        cells = (short(value, "bit/s") for value in (rates.wanted_bps[i], rates.enforced_bps[i], sends[i]))
        table.add_row(change.network.ports[rates.row[i]], _bar(share[i], plain=True), *cells)
    _say_hidden(table, max(0, len(rates.row) - most), "hosts")
    return table


def _flows(flows: Flows, most: int) -> Table:
    """Those with the longest round trips; where no round trip is known, the slowest. CNPs: under NICs that get some."""
    known = flows.srtt_us[~np.isnan(flows.srtt_us)]
    mean = f", srtt {known.mean() / 1e3:.3g} ms on average" if len(known) else ""
    marked = ["CNPs"] if flows.cnps.any() else []
    table = _table(f"{len(flows.number)} flows under way{mean}", "srtt", "rate", "received", "retransmits", *marked)
    order = np.lexsort((np.nan_to_num(flows.rate_bps, nan=np.inf), -np.nan_to_num(flows.srtt_us)))[:most]
    for i in order:
        srtt = "" if math.isnan(flows.srtt_us[i]) else f"{flows.srtt_us[i] / 1e3:.3f} ms"
        rate = "" if math.isnan(flows.rate_bps[i]) else short(flows.rate_bps[i], "bit/s")
        counts = [f"{flows.retransmits[i]:,.0f}", f"{flows.cnps[i]:,.0f}"][: 1 + len(marked)]
        table.add_row(f"flow {flows.number[i]}", srtt, rate, short(flows.received_bytes[i], "B"), *counts)
    _say_hidden(table, max(0, len(flows.number) - most), "flows with shorter round trips" if len(known) else "faster flows")
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 1), show_edge=False)
    for i, column in enumerate(columns):
        left = i == 0 or column in ("queue", "of its link")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    return table


def _say_hidden(table: Table, count: int, what: str) -> None:
    if count:
        table.add_row(Text(f"and {count} {what}", style="dim"))


def _shares(values: Iterable[float] | Numbers, wholes: Numbers) -> Numbers:
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: Numbers = np.asarray(values, float) / wholes
    return shares


def _percent(share: float) -> str:
    return "" if math.isnan(share) else f"{100 * share:.0f} %"


def _count(per_s: float) -> str:
    return f"{per_s:,.0f}" if per_s > 0 else ""


def _bar(share: float, *, plain: bool = False) -> Text:
    if math.isnan(share):
        return Text("")
    eighths = round(8 * BAR_CELLS * min(1.0, max(0.0, share)))
    bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    style = "cyan" if plain else "green" if share < HIGH else "yellow" if share < FULL else "red"
    return Text(bar.ljust(BAR_CELLS), style=style)
