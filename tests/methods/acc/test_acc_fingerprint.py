# SPDX-License-Identifier: Apache-2.0
"""A run that names a part of ACC depends on ACC's files, and no other run does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dc_gym.results import fingerprint
from dc_gym.spec import Spec, load
from tests import imports

EXAMPLES = imports.ROOT / "examples"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files that the fingerprints of runs and agents are made of."""
    for pattern in (*fingerprint.GUEST, *fingerprint.AGENTS, "methods/*/*.*", "methods/*/*/*.*"):
        for path in fingerprint.PACKAGE.glob(pattern):
            copy = tmp_path / path.relative_to(fingerprint.PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path)
    monkeypatch.setattr(fingerprint, "_digest_of", fingerprint._digest_of.__wrapped__)  # sources change here, in one process
    return tmp_path


SPECS = {
    "policy": lambda: load(EXAMPLES / "acc.toml"),
    "reward": lambda: load(EXAMPLES / "dumbbell.toml", ["controller.policy=fair-share", "agent.reward=goodput + acc"]),
    "agent": lambda: load(EXAMPLES / "dumbbell.toml", ["controller.policy=fair-share"]),
    "plain": lambda: load(EXAMPLES / "dumbbell.toml"),
}
MOVED = [
    ("agent.py", ["policy", "reward"]),
    ("acc-deployed.npz", ["policy", "reward"]),
    ("offline/on_labs.py", []),
]
"""Files of ACC, and the specs whose fingerprint each of them moves."""


def identity(spec: Spec) -> dict[str, str]:
    return fingerprint.acting(spec) | {"programs": fingerprint.programs()}


@pytest.mark.parametrize("name,moved", MOVED)
def test_a_change_of_acc_moves_runs_that_name_it_alone(package: Path, name: str, moved: list[str]) -> None:
    specs = {kind: make() for kind, make in SPECS.items()}
    before = {kind: identity(spec) for kind, spec in specs.items()}
    with (package / "methods/acc" / name).open("ab") as file:
        file.write(b"more = 1\n")
    after = {kind: identity(spec) for kind, spec in specs.items()}
    assert [kind for kind in specs if before[kind] != after[kind]] == moved
    for kind in moved:
        assert {part for part in before[kind] if before[kind][part] != after[kind][part]} == {"methods"}


def test_runs_with_acc_are_a_kind_of_their_own() -> None:
    kinds = {kind: fingerprint.kind_of(make()) for kind, make in SPECS.items()}
    assert kinds == {"policy": "lab, agents, numpy, acc", "reward": "lab, agents, numpy, acc", "agent": "lab, agents, numpy"} | {
        "plain": "lab"
    }


def test_everything_that_a_run_of_acc_imports_is_in_its_fingerprint(tmp_path: Path) -> None:
    imported = imports.of_run("examples/acc.toml", tmp_path)
    left_out = {fingerprint.PACKAGE / name for name in fingerprint.LEFT_OUT}
    of_acc = {f"methods/acc/{pattern}" for pattern in fingerprint.METHOD}
    covered = set(fingerprint.files((*fingerprint.GUEST, *fingerprint.AGENTS, *of_acc, "methods/__init__.py"))) | left_out
    of_others = {path for path in imported if path.name in ("__init__.py", "method.py") and path.parent.name != "acc"}
    assert fingerprint.PACKAGE / "methods/acc/agent.py" in imported
    assert imported - of_others <= covered, sorted(map(str, imported - covered))
