# SPDX-License-Identifier: Apache-2.0
"""A run with an algorithm of FDCC depends on FDCC's files, and no other run does."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_gym.results import fingerprint
from dc_gym.spec import load
from tests import imports

EXAMPLE = imports.ROOT / "examples/fdcc.toml"


@pytest.mark.parametrize("name", ["fdcc", "fdcc-tree"])
def test_a_run_with_an_algorithm_of_fdcc_names_the_method(name: str) -> None:
    spec = load(EXAMPLE, [f"controller.name={name}"])
    assert fingerprint.kind_of(spec) == "lab, numpy, fdcc"
    assert fingerprint.acting(spec)["methods"] == fingerprint.of_methods(["fdcc"])
    assert "methods/fdcc" in fingerprint.sources(spec)


def test_no_other_run_does() -> None:
    spec = load(EXAMPLE, ["controller.name=hpcc"])
    assert fingerprint.kind_of(spec) == "lab, numpy"
    assert set(fingerprint.acting(spec)) == {"numpy"} and "methods/fdcc" not in fingerprint.sources(spec)


def test_everything_that_a_run_of_fdcc_imports_is_in_its_fingerprint(tmp_path: Path) -> None:
    imported = imports.of_run("examples/fdcc.toml", tmp_path)
    left_out = {fingerprint.PACKAGE / name for name in fingerprint.LEFT_OUT}
    of_fdcc = [f"methods/fdcc/{pattern}" for pattern in fingerprint.METHOD]
    covered = set(fingerprint.files((*fingerprint.GUEST, *of_fdcc, "methods/__init__.py"))) | left_out
    of_others = {path for path in imported if path.is_relative_to(fingerprint.PACKAGE / "methods") and path.parent.name != "fdcc"}
    assert {path.name for path in of_others} <= {"__init__.py", "method.py", "keys.py", "settings.py"}
    assert fingerprint.PACKAGE / "methods/fdcc/policy.py" in imported
    assert imported - of_others <= covered, sorted(map(str, imported - of_others - covered))
