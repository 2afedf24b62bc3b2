# SPDX-License-Identifier: Apache-2.0
"""A method is a plug-in: with its folder, its studies and its tests moved away, everything else works, and nothing names it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dc_gym.base import methods

ROOT = Path(__file__).resolve().parent.parent
STUDIES, TESTS_OF_STUDIES = ROOT / "benchmarks/studies", ROOT / "tests/benchmarks/studies"
METHODS = tuple(methods.by_name())
MEASURED_BY = {"rlcc": {"tests/system/test_nic_loop.py", "tests/learn/rllib/test_flow_agents.py"}}
"""Tests outside of a method's folder that measure with its parts: other algorithms rest on RL-CC's bottleneck, and RLlib trains
its flows."""
FAST_TESTS = (
    "tests/cli/test_listing.py",
    "tests/results/test_fingerprint.py::test_everything_that_decides_what_runs_is_in_the_fingerprint",
    "tests/cli/test_cli.py::test_each_line_of_an_example_parses_and_its_files_are_there",
    "tests/run/agent/test_policies.py",
    "tests/nets/test_agent_policy.py",
    "tests/ctrl/nic/test_nic_algorithms.py",
)


def tracked() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for name in listing.split("\0") if name and os.path.lexists(path := ROOT / name)]


def imported_by(path: Path, *, in_functions: bool = True) -> set[str]:
    """Returns the modules of the project that a file imports."""
    tree = ast.parse(path.read_text())
    names = set[str]()
    for node in ast.walk(tree) if in_functions else tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def own_files(name: str) -> set[Path]:
    """Returns the files of a method: its folder, its tests, and the studies that cannot be imported without it."""
    folders = (ROOT / "dc_gym/methods" / name, ROOT / "tests/methods" / name)
    method_files = {path for path in tracked() if any(path.is_relative_to(folder) for folder in folders)}
    files = [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(STUDIES)]
    studies = {path: imported_by(path, in_functions=False) for path in files}
    gone = {f"dc_gym.methods.{name}"}
    while more := {path for path, names in studies.items() if path not in method_files and begins(names, gone)}:
        method_files |= more
        gone |= {"dc_gym." + ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in more}
    return method_files


def begins(names: set[str], gone: set[str]) -> bool:
    return any(name == prefix or name.startswith(f"{prefix}.") for name in names for prefix in gone)


@pytest.fixture(params=METHODS)
def without(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A copy of the project without one method."""
    method_files = own_files(request.param)
    assert ROOT / "dc_gym/methods" / request.param / "method.py" in method_files
    for path in tracked():
        if path not in method_files:
            copy = tmp_path / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy, follow_symlinks=False)
    (tmp_path / "dc_gym/bin").symlink_to(ROOT / "dc_gym/bin")
    yield tmp_path


def run(folder: Path, *argv: str) -> str:
    env = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    child = subprocess.run([sys.executable, *argv], cwd=folder, env=env, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout + child.stderr
    return child.stdout


@pytest.mark.long
def test_without_a_method_contracts_lists_and_tests_hold(without: Path) -> None:
    run(without, "-m", "ruff", "check", "--no-cache", ".")
    contracts = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    assert "0 broken" in run(without, "-c", contracts)
    assert "dctcp" in run(without, "-c", "import sys; from dc_gym.cli.main import main; sys.exit(main(['list']))")
    output = run(without, "-c", "from dc_gym.base import methods; print(*methods.by_name())")
    assert len(output.split()) == len(METHODS) - 1
    assert "passed" in run(without, "-m", "pytest", "-q", "-n", "0", "-m", "not lab and not long", *FAST_TESTS)


@pytest.mark.parametrize("name", METHODS)
def test_nothing_outside_of_a_method_imports_it(name: str) -> None:
    members, of_studies = own_files(name) | {ROOT / path for path in MEASURED_BY.get(name, ())}, (STUDIES, TESTS_OF_STUDIES)
    python = [path for path in tracked() if path.suffix == ".py" and path not in members]
    others = [path for path in python if not any(path.is_relative_to(folder) for folder in of_studies)]
    wrong = [str(path.relative_to(ROOT)) for path in others if begins(imported_by(path), {f"dc_gym.methods.{name}"})]
    assert not wrong
    core = [path for path in others if path.is_relative_to(ROOT / "dc_gym")]
    assert len(core) > 100 and name in METHODS


@pytest.mark.parametrize("name", METHODS)
def test_no_code_of_the_core_has_a_method_s_name(name: str) -> None:
    """No text that is a name (a key of a table, a branch) is a method's, or that of one of its algorithms or kinds."""
    method = methods.by_name()[name]
    parts = {name, *method.policies, *(policy.algorithm for policy in method.nic_policies.values())}
    folders = ("base", "nets", "spec", "run", "learn", "cli", "study", "results")
    files = [path for folder in folders for path in (ROOT / "dc_gym" / folder).rglob("*.py")]
    assert len(files) > 200
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in parts
    ]
    assert not wrong
