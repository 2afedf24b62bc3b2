# SPDX-License-Identifier: Apache-2.0
"""Draws when the ports of a lossless fabric were paused: one row for each port that was, darker the larger the share of time.

A cell is the share of an interval in which the port had to hold a class because its peer sent pauses: the class of the port that
was held longest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dc_gym.base import readable
from dc_gym.base.errors import UsageError
from dc_gym.results.figures import kit
from dc_gym.results.results import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw", "paused_shares"]

Floats = npt.NDArray[np.float64]
INTERVALS = 120
MOST_PORTS = 40
"""Further ports, which were paused least, are left out."""
WIDTH, ROW_HEIGHT, HEAD_HEIGHT = 7.5, 0.24, 1.3
COLORS = "Blues"


def paused_shares(result: Result, intervals: int = INTERVALS) -> tuple[Floats, dict[str, Floats]]:
    """Returns the edges of the intervals in seconds, and the paused share in each of them for every port that was paused.

    Raises UsageError for a result whose ports have no classes.
    """
    table = result.arrow("class_queues")
    if not table.num_rows:
        raise UsageError(f"{result.path}: its ports have no classes, so nothing was paused; give topology.pfc")
    port, held_class = table["port"].to_numpy(), table["class"].to_numpy()
    t_ns, paused_ns = table["t_ns"].to_numpy().astype(np.float64), table["paused_ns"].to_numpy().astype(np.float64)
    edges = np.linspace(0.0, t_ns.max(), min(intervals, len(np.unique(t_ns))) + 1)
    shares_by_port: dict[str, Floats] = {}
    for name in dict.fromkeys(port.tolist()):
        port_rows = port == name
        class_rows = [port_rows & (held_class == number) for number in np.unique(held_class[port_rows])]
        grown = [np.diff(np.interp(edges, [0.0, *t_ns[rows]], [0.0, *paused_ns[rows]])) for rows in class_rows]
        shares = np.max(grown, axis=0) / np.diff(edges)
        if shares.any():
            shares_by_port[str(name)] = np.clip(shares, 0.0, 1.0)
    return edges / 1e9, shares_by_port


def draw(result: Result) -> Figure:
    """Returns the figure of a run's pauses, with its ports in the order of ports.json."""
    edges_s, shares = paused_shares(result)
    if not shares:
        raise UsageError(f"{result.path}: no port was paused")
    most_paused = set(sorted(shares, key=lambda name: -shares[name].sum())[:MOST_PORTS])
    names = [port["name"] for port in result.ports if port["name"] in most_paused]
    peers = {port["name"]: port.get("peer") or "?" for port in result.ports}
    scale = readable.axis_scale("s", float(edges_s[-1]))
    with kit.style({"axes.grid": False}):
        figure = kit.new_figure(WIDTH, HEAD_HEIGHT + ROW_HEIGHT * len(names))
        ax = figure.subplots()
        places = np.arange(len(names) + 1) - 0.5
        cells = ax.pcolormesh(
            edges_s / scale.factor, places, np.stack([shares[name] for name in names]), cmap=COLORS, vmin=0, vmax=1
        )
        ax.set_yticks(range(len(names)), [f"{name}, to {peers[name]}" for name in names], fontsize=8)
        ax.set_ylim(len(names) - 0.5, -0.5)
        ax.set_xlabel(f"Time ({readable.typeset(scale.unit)})")
        figure.colorbar(cells, ax=ax, label="Share of time paused", shrink=min(1.0, 6 / len(names)))
        kit.title(figure, f"{result.manifest.get('spec', {}).get('name', 'run')}: ports that their peers paused")
        left_out = len(shares) - len(names)
        kit.caption(figure, f"{left_out} ports that were paused less are left out" if left_out else "")
    return figure
