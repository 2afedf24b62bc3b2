# SPDX-License-Identifier: Apache-2.0
"""Files that could run code when they are read: arrays never do, checkpoints of RLlib only if the user's list has them."""

from __future__ import annotations

import ast
import os
import pickle
import shutil
from pathlib import Path

import pytest

from dc_gym.base import trusted
from dc_gym.base.errors import UsageError
from dc_gym.base.package import PACKAGE
from dc_gym.cli import main
from dc_gym.learn.rllib import checkpoints

LOADERS = {"load", "NpzFile", "read_array", "fromfile", "memmap", "open_memmap"}
"""Functions of numpy that read files."""
UNPICKLERS = {
    "learn/rllib/checkpoints.py": "a copy in memory of what this process pickled",
    "run/sweep/cluster.py": "what a process that this one has started prints",
    "cli/node.py": "what the process that started this one says",
    "cli/conformance/guest.py": "a plan that the host wrote for this lab",
}
"""Modules that call pickle.load or pickle.loads, and what they read."""


def calls() -> list[tuple[str, ast.Call, str, str]]:
    """Returns module, call, and the last two names of what is called, such as np and load."""
    rows = []
    for path in sorted(_sources()):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                rows.append((str(path.relative_to(PACKAGE)), node, owner, node.func.attr))
    return rows


def _sources() -> list[Path]:
    return [
        Path(folder, name) for folder, _, names in os.walk(PACKAGE, followlinks=True) for name in names if name.endswith(".py")
    ]


def test_arrays_are_read_without_pickles() -> None:
    readers = 0
    for module, call, owner, name in calls():
        if not (owner.startswith(("np", "numpy")) and name in LOADERS):
            continue
        if name in ("fromfile", "memmap"):  # plain numbers
            continue
        arguments = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert arguments.get("allow_pickle") == "False", f"{module}:{call.lineno}: give allow_pickle=False"
        readers += 1
    assert readers


def test_nothing_else_is_unpickled() -> None:
    files = {module for module, _, owner, name in calls() if owner.endswith("pickle") and name in ("load", "loads", "Unpickler")}
    assert files == set(UNPICKLERS)
    assert not [module for module, _, owner, name in calls() if owner == "torch" and name == "load"]


class Evil:
    """A pickle that writes a file when it is read."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._mark),)


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "training"
    module_folder = folder / "checkpoints" / "iteration-000001" / "learner_group" / "learner" / "rl_module" / "default_policy"
    module_folder.mkdir(parents=True)
    (module_folder / "class_and_ctor_args.pkl").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    return folder


@pytest.mark.parametrize("words", [["export"], ["export", "CHECKPOINT"], ["train", "SPEC", "--resume", "--out"]])
def test_checkpoints_of_others_need_trust(training: Path, words: list[str], capsys) -> None:
    inside = training / "checkpoints" / "iteration-000001"
    argv = [*words[:1], str(inside)] if "CHECKPOINT" in words else [*words, str(training)]
    assert main.main(argv) == 2
    err = capsys.readouterr().err
    assert "its checkpoints are pickles, which run code of whoever wrote them" in err and "add --trust" in err
    assert err.count("\n") == 1 and "does not have it" in err and not (training.parent / "ran").exists()
    assert main.main([*argv, "--trust"]) == 2, "neither a spec nor a whole training"
    assert "pickles" not in capsys.readouterr().err


def test_a_checkpoint_counts_with_all_its_files(training: Path) -> None:
    (checkpoint,) = checkpoints.find(training)
    trusted.remember([checkpoints.item_of(checkpoint)])
    assert checkpoints.require_trusted(checkpoint, trust=False) == []
    shutil.copytree(training, training.parent / "copy")
    (copy,) = checkpoints.find(training.parent / "copy")
    assert checkpoints.require_trusted(copy, trust=False) == []
    more = copy / "learner_group" / "state.pkl"
    for add in (lambda: more.write_bytes(b""), lambda: more.symlink_to(next(checkpoint.rglob("*.pkl")))):
        add()
        with pytest.raises(UsageError, match="does not have it; add --trust"):
            checkpoints.require_trusted(copy, trust=False)
        more.unlink()
    next(copy.rglob("*.pkl")).write_bytes(b"other")
    with pytest.raises(UsageError, match="add --trust"):
        checkpoints.require_trusted(copy, trust=False)
    (line,) = checkpoints.require_trusted(copy, trust=True)
    assert line.startswith(f"reads {copy} (SHA-256 ") and checkpoints.require_trusted(copy, trust=False) == []
    assert checkpoints.require_trusted(training / "none", trust=False) == []
