# SPDX-License-Identifier: Apache-2.0
"""The parts that all figures share: style and colours, how figures are made and saved, axes, and lines with a name.

matplotlib is imported when a figure is drawn. Figures are made without pyplot, so they leave nothing in its global state.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dc_gym.base import readable
from dc_gym.base.errors import UsageError
from dc_gym.base.files import put
from dc_gym.results.figures import styles
from dc_gym.results.figures.axes import plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

Floats = npt.NDArray[np.float64]
DPI, TITLE_POINTS = 150, 11.0
FORMATS: Mapping[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".pdf": {"CreationDate": None},
    ".svg": {"Date": None},
}
"""The metadata that is left out of a file, by its suffix, so that the same figure has the same bytes."""
MARKS = {".png": "Comment", ".pdf": "Keywords", ".svg": "Description"}
"""The metadata field of a file that records the command that made it."""
FRAME_KB = 1.514
FLOW_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#666666")
INK, FAINT, MARK, GRID, SHADE = "#222222", "#8A8A8A", "#B22222", "#E6E6E6", "#F4F4F4"
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "text.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.solid_capstyle": "round",
    "path.simplify": True,
    "svg.hashsalt": "dcgym",
}


def check_name(path: Path) -> None:
    """Raises UsageError unless a figure can have this name. Its suffix selects the format."""
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path}: a figure's name ends in {', '.join(FORMATS)}; give such a one")


def save(figure: Figure, path: Path, dpi: int = DPI, changes: Mapping[str, Any] | None = None, mark: str = "") -> Path:
    """Writes a figure atomically; the same figure gives the same bytes. `mark`: the command that made the figure (outputs.py)."""
    check_name(path)
    take_literally(figure)
    suffix, stream = path.suffix.lower(), io.BytesIO()
    with style(changes):
        metadata = FORMATS[suffix] | ({MARKS[suffix]: mark} if mark else {})
        figure.savefig(stream, format=suffix[1:], dpi=dpi, metadata=metadata)
    return put(path, stream.getvalue())


def take_literally(figure: Figure) -> None:
    """Makes dollar signs in names plain text. In matplotlib's labels they delimit formulas, and names may have any characters.

    The labels of a logarithmic axis, which matplotlib writes as formulas, do not exist before the figure is drawn.
    """
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        if "$" in text.get_text():
            text.set_parse_math(False)


def new_figure(width: float, height: float) -> Figure:
    """Returns a figure of this size in inches that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def style(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Applies our matplotlib settings within the context."""
    import matplotlib

    settings: dict[Any, Any] = STYLE | dict(changes or {})
    with matplotlib.rc_context(settings):
        yield


def peak(values: Floats) -> float:
    """Returns the largest value that is finite; 0 if there is none."""
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else 0.0


def from_zero(ax: Axes, values: Floats, least: float = 0) -> None:
    """Sets the axis from 0 to a little above the peak. If all values are 0, only 0 is labelled."""
    top = max(peak(values), least)
    ax.set_ylim(0, top * 1.12 if top > 0 else 1)
    if top > 0:
        plain_ticks(ax, "y")
    else:
        ax.set_yticks([0])


def fairness_axis(ax: Axes, values: Floats) -> None:
    """Sets the axis from a round number below the values to 1."""
    least = float(np.nanmin(values)) if np.isfinite(values).any() else 0.0
    floor = max(0.0, math.floor(least * 10 - 0.5) / 10)
    ax.set_ylim(floor, 1 + 0.08 * (1 - floor))


def end_line(ax: Axes, height: float, name: str, color: str) -> None:
    """Draws a horizontal line with its name beyond the right end, such as the threshold K."""
    ax.axhline(height, color=color, linestyle=(0, (5, 3)), linewidth=1.0, zorder=1.5)
    end = ax.annotate(name, (1, height), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points")
    end.set(ha="left", va="center", fontsize=9, fontweight="bold", color=color)


def warm_up(ax: Axes, end: float) -> None:
    """Shades the time before `end`."""
    if end > 0:
        ax.axvspan(0, end, color=SHADE, zorder=0, linewidth=0)


def shade(ax: Axes, x: Floats, low: Floats, high: Floats, color: str) -> None:
    """Draws the interval around a line."""
    ax.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0)


def title(figure: Figure, text: str) -> None:
    """Writes the figure's title above all panels, at the left."""
    figure.suptitle(text, x=0.012, ha="left", fontsize=TITLE_POINTS, fontweight="bold")


def caption(figure: Figure, text: str) -> None:
    """Writes small text below all panels, at the left."""
    if text:
        figure.supxlabel(text, x=0.012, ha="left", fontsize=7.5, color=FAINT)


def sample(color: str, **look: Any) -> Line2D:
    """Returns a line as an entry of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, **{"linewidth": 2.4} | look)


def legend_below(figure: Figure, ax: Axes, columns: int) -> None:
    """Draws the legend of one panel below all panels."""
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def rate_unit(values_bps: Floats) -> tuple[float, str]:
    """Returns a factor and a unit that suit an axis of rates."""
    scale = readable.axis_scale("bps", peak(values_bps))
    return scale.factor, scale.unit


def time_unit(values_us: Floats) -> tuple[float, str]:
    """Returns a factor and a unit that suit an axis of short times."""
    scale = readable.axis_scale("us", peak(values_us))
    return scale.factor, readable.typeset(scale.unit)


def color_of(name: str) -> str:
    """Returns the colour of a controller."""
    line_style = styles.find(name)
    return line_style.color if line_style else FAINT
