# SPDX-License-Identifier: Apache-2.0
"""Styles of controllers in figures: those that come with dc-gym, a default for everybody, and what a plug-in says otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dc_gym.base.errors import SpecError
from dc_gym.ctrl import controllers
from dc_gym.ctrl.controllers import Controller
from dc_gym.results.figures import styles
from dc_gym.results.figures.styles import Style

pytestmark = pytest.mark.usefixtures("registries")


def test_those_that_come_with_dc_gym() -> None:
    style_by_name = {name: styles.find(name) for name in controllers.names()}
    assert style_by_name["dctcp"] == Style("#0072B2", "o", "DCTCP") and style_by_name["timely-patched"].label == "patched TIMELY"
    colors = [style.color for style in style_by_name.values()]
    assert len(set(colors)) == len(colors) and not set(colors) & set(styles.COLORS), "one can tell them apart"


def test_everybody_has_one_that_follows_from_the_name() -> None:
    names = [f"mine-{number}" for number in range(200)]
    for name in names:
        controllers.register(Controller(name, "cubic", ecn=False))
    looks = [styles.find(name) for name in names]
    assert {style.color for style in looks} == set(styles.COLORS) and {style.marker for style in looks} == set(styles.MARKERS)
    assert [style.label for style in looks] == names
    assert styles.find("mine-1") == Style("#DC143C", "<", "mine-1"), "the same in every process and version"


def test_a_plug_in_says_otherwise_before_or_after_it_registers() -> None:
    styles.register("mine", color="#661100", label="my own")
    assert styles.find("mine") is None and styles.label_of("mine") == "mine", "a style alone makes no controller"
    controllers.register(Controller("mine", "cubic", "from the controller", ecn=False))
    assert styles.find("mine") == Style("#661100", styles._default("mine")[1], "my own")
    styles.register("cubic", marker="x")
    assert styles.find("cubic") == Style("#009E73", "x", "CUBIC")
    with pytest.raises(SpecError, match=r"style of 'cubic'.*leave"):
        styles.register("cubic")


@pytest.mark.parametrize(
    ("section", "label"),
    [
        ({"name": "cubic"}, "CUBIC"),
        ({"name": "cubic", "policy": "fair-share"}, "fair-share over CUBIC"),
        ({"name": "gone"}, "gone"),
        ({}, "?"),
    ],
)
def test_labels_of_sections(section: dict[str, str], label: str) -> None:
    assert styles.label_of_section(section) == label


def test_a_plug_in_that_imports_them_imports_no_matplotlib() -> None:
    program = "import sys; from dc_gym.results.figures import styles; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
