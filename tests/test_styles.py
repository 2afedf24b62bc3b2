# SPDX-License-Identifier: Apache-2.0
"""Styles of controllers in figures: those that come with dc-gym, a default for everybody, and what a plug-in says otherwise."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dc_gym.base.errors import SpecError
from dc_gym.ctrl import controllers
from dc_gym.ctrl.controllers import Controller
from dc_gym.figures import styles
from dc_gym.figures.styles import Style

KNOWN = {
    "dctcp": Style("#0072B2", "o", "DCTCP"),
    "nv": Style("#D55E00", "s", "TCP NV"),
    "cubic": Style("#009E73", "^", "CUBIC"),
    "bbr": Style("#CC79A7", "D", "BBR"),
    "vegas": Style("#E69F00", "v", "Vegas"),
    "reno": Style("#56B4E9", "P", "Reno"),
    "dcqcn": Style("#B7A100", "p", "DCQCN"),
    "swift": Style("#000000", "*", "Swift"),
    "timely": Style("#882255", "h", "TIMELY"),
    "timely-patched": Style("#AA4499", "H", "patched TIMELY"),
    "none": Style("#555555", "x", "no control"),
    "fixed": Style("#999999", "x", "fixed rate"),
    "rlcc-tree": Style("#332288", "<", "RL-CC (tree)"),
    "rlcc-mlp": Style("#117733", ">", "RL-CC (MLP)"),
    "rlcc-mlp8": Style("#999933", "8", "RL-CC (MLP, int8)"),
    "rlcc-lstm": Style("#44AA99", "X", "PCC-RL (LSTM)"),
    "hpcc": Style("#CC6677", "d", "HPCC"),
    "powertcp": Style("#DDAA33", "8", "PowerTCP"),
    "fdcc": Style("#004488", "P", "FDCC"),
    "fdcc-tree": Style("#88CCEE", "<", "FDCC (tree)"),
    "bic": Style("#1B7837", "s", "BIC"),
    "westwood": Style("#762A83", "^", "Westwood+"),
    "htcp": Style("#B2182B", "v", "H-TCP"),
    "highspeed": Style("#2166AC", "h", "HighSpeed TCP"),
    "hybla": Style("#8C510A", "o", "Hybla"),
    "scalable": Style("#01665E", "p", "Scalable TCP"),
    "lp": Style("#737373", "d", "TCP-LP"),
    "veno": Style("#C51B7D", "P", "Veno"),
    "yeah": Style("#4D9221", "X", "YeAH"),
    "illinois": Style("#E08214", "*", "Illinois"),
    "cdg": Style("#542788", "H", "CDG"),
}
pytestmark = pytest.mark.usefixtures("registries")


def test_those_that_come_with_dc_gym() -> None:
    assert {name: styles.find(name) for name in controllers.names()} == KNOWN


def test_everybody_has_one_that_follows_from_the_name() -> None:
    names = [f"mine-{number}" for number in range(200)]
    for name in names:
        controllers.register(Controller(name, "cubic", ecn=False))
    found = [styles.find(name) for name in names]
    assert {each.color for each in found} == set(styles.COLORS) and {each.marker for each in found} == set(styles.MARKERS)
    assert [each.label for each in found] == names
    assert styles.find("mine-1") == Style("#DC143C", "<", "mine-1"), "the same in every process and version"


def test_a_plug_in_says_otherwise_before_or_after_it_registers() -> None:
    styles.register("mine", color="#661100", label="my own")
    assert styles.find("mine") is None and styles.label_of("mine") == "mine", "a style alone makes no controller"
    controllers.register(Controller("mine", "cubic", "from the controller", ecn=False))
    assert styles.find("mine") == Style("#661100", styles._default("mine")[1], "my own")
    styles.register("cubic", marker="x")
    assert styles.find("cubic") == Style("#009E73", "x", "CUBIC")
    with pytest.raises(SpecError, match="style of 'cubic': is registered already; leave one of them out"):
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
    program = "import sys; from dc_gym.figures import styles; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
