# SPDX-License-Identifier: Apache-2.0
"""A run with an algorithm of RL-CC depends on RL-CC's files, and no other run does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_gym.results import fingerprint
from dc_gym.spec import load
from tests import imports

EXAMPLE = imports.ROOT / "examples/nic.toml"
ALGORITHMS = ("rlcc-tree", "rlcc-mlp", "rlcc-mlp8", "rlcc-lstm")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_run_with_an_algorithm_of_rl_cc_names_the_method(name: str) -> None:
    spec = load(EXAMPLE, [f"controller.name={name}"])
    assert fingerprint.kind_of(spec) == "lab, numpy, rlcc"
    assert fingerprint.acting(spec)["methods"] == fingerprint.of_methods(["rlcc"])
    assert {"methods/rlcc"} <= set(fingerprint.sources(spec))


def test_no_other_run_does() -> None:
    spec = load(EXAMPLE, ["controller.name=dcqcn"])
    assert fingerprint.kind_of(spec) == "lab, numpy"
    assert not any(folder.startswith("methods") for folder in fingerprint.sources(spec))


@pytest.mark.parametrize("name", ["rlcc-tree", "rlcc-lstm"])
def test_everything_that_a_run_of_rl_cc_imports_is_in_its_fingerprint(name: str, tmp_path: Path) -> None:
    imported = imports.of_run("examples/nic.toml", tmp_path, f"controller.name={name}")
    left_out = {fingerprint.PACKAGE / file for file in fingerprint.LEFT_OUT}
    patterns = [f"methods/rlcc/{pattern}" for pattern in fingerprint.METHOD]
    covered = set(fingerprint.files((*fingerprint.GUEST, *patterns, "methods/__init__.py"))) | left_out
    of_others = {path for path in imported if path.is_relative_to(fingerprint.PACKAGE / "methods") and path.parent.name != "rlcc"}
    assert {path.name for path in of_others} <= {"__init__.py", "method.py", "keys.py", "settings.py"}
    assert fingerprint.PACKAGE / "methods/rlcc/policy.py" in imported
    assert imported - of_others <= covered, sorted(map(str, imported - of_others - covered))


def test_headers_and_cards_are_in_it() -> None:
    files = {
        str(path.relative_to(fingerprint.PACKAGE / "methods/rlcc"))
        for path in fingerprint.files(f"methods/rlcc/{pattern}" for pattern in fingerprint.METHOD)
    }
    assert {"nic/rlcc.h", "nic/rlcc_tree/rlcc-tree.h", "nic/rlcc_tree/card.toml", "rlcc-tree.npz", "policy.py"} <= files
