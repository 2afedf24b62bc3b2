# SPDX-License-Identifier: Apache-2.0
"""Draws a network in layers from hosts to cores.

Each link has two halves, one for each direction: the half beside a node is the direction that leaves it. If utilization by port
is given, the halves are coloured by it. The width of a line grows with the link's rate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize

from dc_gym.topologies.graph import Graph, Port

HEIGHTS = {"host": 0.0, "edge": 1.0, "agg": 2.0, "core": 3.0}
COLOURS = {"host": "#0072B2", "edge": "#009E73", "agg": "#E69F00", "core": "#CC79A7"}
WORDS = {"host": "hosts", "edge": "edge (leaves)", "agg": "aggregation", "core": "core (spines)"}
PLAIN = "#888888"
IDLE_TO_FULL = LinearSegmentedColormap.from_list("utilization", ["#C4C4C4", "#ECB83C", "#D55E00", "#B4003C"])
MOST_LABELS = 40  # most nodes of a layer with names; the names of more would overlap
APART, TOGETHER = 0.012, 0.018  # shares of the width: between two parallel links, and between the outermost of more


@dataclass(frozen=True, slots=True)
class Layout:
    """The positions of nodes: x in 0..1, y by layer."""

    at: dict[str, tuple[float, float]]
    layer: dict[str, str]

    def of_layer(self, name: str) -> list[str]:
        """Returns the nodes of a layer."""
        return [node for node, layer in self.layer.items() if layer == name]


def draw_topology(graph: Graph, axes: Axes, utilization: Mapping[str, float] | None = None) -> ScalarMappable | None:
    """Draws the network on the axes. With `utilization` (0..1 by port name) returns the mapping of colours, for a colour bar."""
    layout = lay_out(graph)
    colours = ScalarMappable(Normalize(0.0, 1.0), IDLE_TO_FULL) if utilization is not None else None
    segments, shades, widths = [], [], []
    for a, b, start, end in _lines(graph, layout):
        middle = ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
        width = line_width(graph, graph.cable_of(a).rate_bps)
        for port, near in ((a, start), (b, end)):
            segments.append([near, middle])
            widths.append(width)
            shades.append(IDLE_TO_FULL((utilization or {}).get(port.ifname, 0.0)) if colours else PLAIN)
    axes.add_collection(LineCollection(segments, colors=shades, linewidths=widths, zorder=1, capstyle="round"))
    _draw_nodes(axes, layout)
    axes.set_xlim(-0.06, 1.06)
    top = max(y for _, y in layout.at.values())
    axes.set_ylim(-0.14 * top, 1.14 * top)
    axes.axis("off")
    return colours


def line_width(graph: Graph, rate_bps: int) -> float:
    """Returns the width of a link of this rate, in points. The fastest links are the thickest."""
    fastest = max(cable.rate_bps for cable in graph.cables)
    thick = max(0.4, min(1.0, 8.0 / math.sqrt(len(graph.cables))))
    return thick * max(0.6, 2.2 + 0.8 * math.log10(rate_bps / fastest))


def lay_out(graph: Graph) -> Layout:
    """Returns the positions of the nodes. Within a layer nodes are evenly spaced, in the order of their neighbours below."""
    layer = {switch.name: str(switch.layer) for switch in graph.switches} | {host.name: "host" for host in graph.hosts}
    used = [name for name in HEIGHTS if name in layer.values()]
    order = {name: [node for node in layer if layer[node] == name] for name in used}
    rank = {switch.name: number for number, switch in enumerate(graph.switches)}
    order["host"].sort(key=lambda host: (rank[graph.neighbours(host)[0]], int(graph.peer(f"{host}-eth0").number)))
    at: dict[str, tuple[float, float]] = {}
    for height, name in enumerate(used):
        nodes = order[name]
        if height:
            nodes.sort(key=lambda node: _mean([at[other][0] for other in graph.neighbours(node) if other in at]))
        for position, node in enumerate(nodes):
            at[node] = ((position + 0.5) / len(nodes), float(height))
    return Layout(at, layer)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.5


def _lines(graph: Graph, layout: Layout) -> list[tuple[Port, Port, tuple[float, float], tuple[float, float]]]:
    """Returns every cable with its ends' positions; parallel cables lie side by side."""
    groups: dict[tuple[str, str], list[tuple[Port, Port]]] = {}
    for cable in graph.cables:
        pair = (cable.a, cable.b) if cable.a.node < cable.b.node else (cable.b, cable.a)
        groups.setdefault((pair[0].node, pair[1].node), []).append(pair)
    lines = []
    for (first, second), pairs in groups.items():
        (x1, y1), (x2, y2) = layout.at[first], layout.at[second]
        length = math.hypot(x2 - x1, y2 - y1) or 1.0
        for number, (a, b) in enumerate(pairs):
            shift = min(APART, TOGETHER / max(1, len(pairs) - 1)) * (number - (len(pairs) - 1) / 2)
            dx, dy = shift * (y2 - y1) / length, -3 * shift * (x2 - x1) / length
            lines.append((a, b, (x1 + dx, y1 + dy), (x2 + dx, y2 + dy)))
    return lines


def _draw_nodes(axes: Axes, layout: Layout) -> None:
    for name in HEIGHTS:
        nodes = layout.of_layer(name)
        if not nodes:
            continue
        xs, ys = [layout.at[node][0] for node in nodes], [layout.at[node][1] for node in nodes]
        size = max(12.0, min(140.0, 2600.0 / len(nodes)))
        marker = "o" if name == "host" else "s"
        axes.scatter(xs, ys, s=size, marker=marker, color=COLOURS[name], zorder=2, label=WORDS[name])
        if len(nodes) <= MOST_LABELS:
            for node, x, y in zip(nodes, xs, ys, strict=True):
                below = name == "host"
                axes.annotate(
                    node,
                    (x, y),
                    xytext=(0, -9 if below else 9),
                    textcoords="offset points",
                    ha="center",
                    va="top" if below else "bottom",
                    fontsize=7 if len(nodes) <= MOST_LABELS / 2 else 6,
                    bbox={"boxstyle": "square,pad=0.1", "facecolor": axes.get_facecolor(), "edgecolor": "none", "alpha": 0.8},
                )
