# SPDX-License-Identifier: Apache-2.0
"""Renders pages from templates. All pages share the base, the style and the parts in templates/; a page is one self-contained
file, and templates escape everything that they are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dc_gym import __version__
from dc_gym.results.figures import kit
from dc_gym.results.pages.svg import to_svg, variables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def render(package: str, template: str, *, title: str, mark: str, **values: object) -> bytes:
    """Returns a page. Its template lies in the folder `templates` of a package. `mark`: its command and inputs (outputs.py)."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("dc_gym.results.pages")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    values |= {"title": title, "mark": mark, "version": __version__}
    values["colors"] = [(name, light, dark) for light, (name, dark) in variables().items()]
    return environment.get_template(template).render(**values).encode()


def drawing(figure: Figure, name: str, words: str, style: Mapping[str, Any] | None = None) -> Markup:
    """Returns a figure as part of a page. `name` is its own within the page; `words` describe it."""
    with kit.style(style):
        return Markup(to_svg(figure, name, words))
