# SPDX-License-Identifier: Apache-2.0
"""Converts a figure to SVG inside an HTML page.

Text stays text. Known colours become CSS variables, so that one drawing serves light and dark mode. Ids are made unique to the
figure, because all figures share the page's ids.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import matplotlib

from dc_gym.results.figures import styles
from dc_gym.results.figures.kit import FAINT, FLOW_COLORS, GRID, INK, MARK, SHADE, take_literally

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAPER = "#FFFFFF"
SURFACES = {INK: "ink", FAINT: "faint", GRID: "grid", SHADE: "shade", MARK: "mark", PAPER: "paper"}
DARK = {INK: "#E6E8EA", FAINT: "#8E959C", GRID: "#30363C", SHADE: "#22272C", MARK: "#FF8A80", PAPER: "#1B1F23"}
LIGHTEN = 0.35  # in dark mode a series' colour is this much nearer to white


def to_svg(figure: Figure, name: str, alt: str) -> str:
    """Returns an <svg> element without size: it is as wide as its box."""
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": name}
    take_literally(figure)
    stream = io.StringIO()
    with matplotlib.rc_context(settings):
        figure.savefig(stream, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", text, count=1)
    text = re.sub(r' xmlns(?::xlink)?="[^"]*"', "", text)  # HTML needs neither, and a page without addresses is easy to check
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', text)
    text = re.sub("|".join(variables()), lambda match: f"var(--{variables()[match[0].lower()][0]})", text, flags=re.IGNORECASE)
    return text.replace("<svg", f'<svg role="img" aria-label="{_attribute(alt)}"', 1)


def variables() -> dict[str, tuple[str, str]]:
    """Returns, for each colour in the figures, the name of its CSS variable and its dark-mode colour."""
    by_color = {color.lower(): (f"fig-{name}", DARK[color]) for color, name in SURFACES.items()}
    for color in _series_colors():
        by_color.setdefault(color.lower(), (f"c-{color.lstrip('#').lower()}", _lighter(color)))
    return by_color


def _series_colors() -> Iterable[str]:
    return dict.fromkeys((*styles.colors(), *FLOW_COLORS))


def _lighter(color: str) -> str:
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * LIGHTEN):02x}" for part in parts)


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")
