# SPDX-License-Identifier: Apache-2.0
"""The style of a controller in figures: its colour, its marker and its label.

A controller declares its style (ctrl/controllers.py). Fields that it leaves open follow from its name, so that they are the same
in every figure. `register` changes the style of a controller that somebody else has registered:

    styles.register("cubic", color="#661100", marker="d")

The first six colours that come with dc-gym are Okabe and Ito's, which colour-blind readers can distinguish. This
module does not import matplotlib.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dc_gym.base.errors import SpecError
from dc_gym.ctrl import controllers

__all__ = [
    "COLORS",
    "MARKERS",
    "Style",
    "colors",
    "find",
    "label_of",
    "label_of_section",
    "names",
    "register",
    "remember",
    "to_record",
]

COLORS = (
    *("#661100", "#4A6FE3", "#8E063B", "#7B4B94", "#B5651D", "#2F4F4F"),
    *("#C71585", "#6B8E23", "#A0522D", "#5F9EA0", "#483D8B", "#DC143C"),
)
MARKERS = ("d", "P", "X", "h", "8", "<", ">", "p")
"""The default palette. No controller that comes with dc-gym has one of its colours."""


@dataclass(frozen=True, slots=True)
class Style:
    """The style of a controller in figures."""

    color: str
    marker: str
    label: str


_registry: dict[str, dict[str, str]] = {}
_recorded: dict[str, Style] = {}
"""The styles of a plug-in's controllers, as results recorded them."""


def register(name: str, *, color: str | None = None, marker: str | None = None, label: str | None = None) -> None:
    """Sets the style of a controller in figures. Arguments that are not given stay the default.

    Args:
        name: The controller.
        color: A colour of matplotlib, such as "#884488".
        marker: A marker of matplotlib.
        label: Its name in figures and tables.

    Raises:
        SpecError: The controller has a style of a plug-in already.
    """
    if name in _registry:
        raise SpecError(f"style of {name!r}: is registered already; leave one of them out")
    settings = {"color": color, "marker": marker, "label": label}
    _registry[name] = {key: value for key, value in settings.items() if value is not None}


def to_record(name: str) -> dict[str, str] | None:
    """Returns the style of a plug-in's controller for a manifest; None for one that comes with dc-gym."""
    controller = controllers.find(name)
    style = None if controller is not None and controller.row is not None else find(name)
    return None if style is None else asdict(style)


def remember(manifest: Mapping[str, Any]) -> None:
    """Takes the style of a plug-in's controller from a result, since its plug-in does not run when the result is read."""
    style, spec = manifest.get("style"), manifest.get("spec")
    controller = spec.get("controller") if isinstance(spec, Mapping) else None
    if not isinstance(style, Mapping) or not isinstance(controller, Mapping):
        return
    color, marker, label = (str(style.get(name)) for name in ("color", "marker", "label"))
    if re.fullmatch("#[0-9A-Fa-f]{6}", color) and len(marker) == 1:
        _recorded[str(controller.get("name"))] = Style(color, marker, label)


def find(name: str) -> Style | None:
    """Returns the style of a controller that is registered or that a result recorded, or None if there is none of that name."""
    controller = controllers.find(name)
    if controller is None:
        return _recorded.get(name)
    color, marker = _default(name)
    defaults = {"color": controller.color or color, "marker": controller.marker or marker, "label": controller.label}
    return Style(**defaults | _registry.get(name, {}))


def label_of(name: str) -> str:
    """Returns the name of a controller in figures and tables; a name that is no controller's is shown as it is."""
    known = find(name)
    return known.label if known else name


def label_of_section(section: Mapping[str, Any]) -> str:
    """Returns the name of a spec's `[controller]` in figures and tables.

    Examples are "CUBIC", "DCQCN and CUBIC", and "fair-share over CUBIC".
    """
    label = label_of(str(section.get("name", "?"))) + (f" and {label_of(str(section['tcp']))}" if section.get("tcp") else "")
    return f"{section['policy']} over {label}" if section.get("policy") else label


def names() -> tuple[str, ...]:
    """Returns the names of all controllers that have a style: the registered ones, then the ones that results recorded."""
    return tuple(dict.fromkeys((*controllers.names(), *_recorded)))


def colors() -> tuple[str, ...]:
    """Returns the colours of all controllers that have a style."""
    return tuple(known.color for name in names() if (known := find(name)))


def _default(name: str) -> tuple[str, str]:
    """Returns a colour and a marker that follow from the name alone."""
    digest = hashlib.sha256(name.encode()).digest()
    return COLORS[digest[0] % len(COLORS)], MARKERS[digest[1] % len(MARKERS)]
