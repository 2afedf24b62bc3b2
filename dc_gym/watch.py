# SPDX-License-Identifier: Apache-2.0
"""`dcgym watch DIR`: the queues of a run that is under way, from the lab's own state matrix, without touching the run."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from dc_gym.errors import ProtocolError, UsageError
from dc_gym.folder import PARTIAL
from dc_gym.kernel.share import attach
from dc_gym.monitors.state_matrix import StateMatrix, Sweep

PERIOD_S = 0.5
SHOWN = ("backlog_bytes", "backlog_packets", "tx_packets", "drops", "marks", "active_flows")


def main(args: Namespace) -> int:
    """Redraws a table until the run ends; with `args.once`, or where standard output is no terminal, prints it once."""
    folder = _folder(args.dir)
    fd, offset, length = attach(folder)
    try:
        matrix = _wait_for_matrix(fd, offset, length)
    finally:
        os.close(fd)
    console = Console(width=None if sys.stdout.isatty() else 160)
    with matrix:
        if args.once or not sys.stdout.isatty():
            console.print(_table(matrix, matrix.read()))
            return 0
        with Live(console=console, auto_refresh=False) as live:
            while folder.exists():
                live.update(_table(matrix, matrix.read()), refresh=True)
                time.sleep(PERIOD_S)
    return 0


def _folder(out: Path) -> Path:
    """Of the run, by its --out or by the folder that it writes."""
    real = out.resolve()
    for folder in (real.parent / f"{real.name}{PARTIAL}" / ".lab", real / ".lab"):
        if folder.is_dir():
            return folder
    raise UsageError(f"{out}: no run is under way here; give the --out of a run that is")


def _wait_for_matrix(fd: int, offset: int, length: int, tries: int = 100) -> StateMatrix:
    """The matrix appears when the monitor has started."""
    while True:
        try:
            return StateMatrix(fd, offset, length)
        except ProtocolError as error:
            tries -= 1
            if not tries:
                raise UsageError(f"the run has no state matrix yet ({error}); try again when its traffic has begun") from None
            time.sleep(0.1)


def _table(matrix: StateMatrix, sweep: Sweep) -> Table:
    table = Table(title=f"t0 + {(sweep.t_ns - matrix.t0_ns) / 1e9:.3f} s, sweep {sweep.generation}", title_justify="left")
    table.add_column("port")
    columns = [matrix.columns.index(name) for name in SHOWN]
    for name in SHOWN:
        table.add_column(name, justify="right")
    for row, port in enumerate(matrix.rows):
        cells = sweep.cells[row]
        if cells.any():
            table.add_row(port, *(f"{int(cells[column]):,}" for column in columns))
    return table
