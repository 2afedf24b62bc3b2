# SPDX-License-Identifier: Apache-2.0
"""Unknown names: the error says which known name may have been meant, wherever a name is looked up."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_gym.base import spelling
from dc_gym.cli.main import main

EXAMPLES = Path(__file__).parents[2] / "examples"
CONTROLLERS = ("dctcp", "nv", "cubic", "bbr", "rlcc-tree", "rlcc-mlp")
PRESETS = ("dumbbell-10m", "dumbbell-1g", "fattree-k4", "fattree-k8")


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("cubik", CONTROLLERS, ["cubic"]),
        ("Cubic", CONTROLLERS, ["cubic"]),
        ("NV", CONTROLLERS, ["nv"]),
        ("RLCC_Tree", CONTROLLERS, ["rlcc-tree"]),
        ("rlcc", CONTROLLERS, ["rlcc-tree", "rlcc-mlp"]),
        ("dumbell", PRESETS, ["dumbbell-1g", "dumbbell-10m"]),
        ("dumbbell", PRESETS, ["dumbbell-10m", "dumbbell-1g"]),
        ("DUMBELL-1GG", PRESETS, ["dumbbell-1g"]),
        ("many-to-one", ("pairs", "many_to_one", "all_to_all"), ["many_to_one"]),
        ("zzz", CONTROLLERS, []),
        ("", CONTROLLERS, []),
    ],
)
def test_near(name, known, meant):
    assert spelling.near(name, known) == meant


def test_a_name_in_another_case_comes_before_names_that_begin_with_it():
    assert spelling.near("ACC24", ["acc24a", "acc24", "acc96"]) == ["acc24"]


def test_hint_without_a_near_name_lists_all():
    assert spelling.hint("quux", CONTROLLERS) == "one of: " + ", ".join(CONTROLLERS)


def test_several_are_joined_by_or():
    assert spelling.hint("fattree", PRESETS) == "did you mean fattree-k4 or fattree-k8?"


SPEC = str(EXAMPLES / "dumbbell.toml")
LOOKUPS = {
    "a command": (["runn"], "run"),
    "a kind of list": (["list", "topologie"], "topologies"),
    "a controller": (["run", SPEC, "--set", "controller.name=Cubic"], "cubic"),
    "a controller of a sweep": (["sweep", SPEC, "--controllers", "dctcp,cubik"], "cubic"),
    "a preset": (["topology", SPEC, "--set", "topology.preset=dumbell-1g"], "dumbbell-1g"),
    "a preset alone": (["topology", "Dumbbell-10m"], "dumbbell-10m"),
    "a topology": (["topology", SPEC, "--set", "topology.kind=dumbell"], "dumbbell"),
    "a workload": (["run", SPEC, "--set", "workload.kind=many-to-one"], "many_to_one"),
    "a distribution": (["run", SPEC, "--set", "workload.kind=poisson", "--set", "workload.distribution=web-search"], "websearch"),
    "a key": (["run", SPEC, "--set", "time.durration=1s"], "time.duration"),
    "a bench": (["bench", "link"], "links"),
    "a NIC algorithm": (["nic", "show", "DCQCN"], "dcqcn"),
    "a paper": (["reproduce", "rlcc"], "rl-cc"),
    "a figure": (["reproduce", "rl-cc", "Table-2"], "rl-cc/table-2"),
    "a golden scenario": (["golden", "--only", "dumbell"], "dumbbell"),
    "an IP version": (["conformance", "--ip", "IPv4"], "ipv4"),
}


@pytest.mark.parametrize(("command", "meant"), LOOKUPS.values(), ids=LOOKUPS)
def test_every_lookup_says_what_may_have_been_meant(command, meant, capsys):
    try:
        code = main(command)
    except SystemExit as end:
        code = end.code
    *_, line = capsys.readouterr().err.splitlines()
    assert code == 2
    assert f"did you mean {meant}" in line
