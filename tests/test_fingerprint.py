# SPDX-License-Identifier: Apache-2.0
"""Tests what a digest depends on besides the spec, and how programs that are older than their sources are found."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from dc_gym.base.errors import MachineError
from dc_gym.grounds import ground
from dc_gym.records import fingerprint
from dc_gym.spec import load

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files that are fingerprinted."""
    for pattern in (*fingerprint.GUEST, *fingerprint.AGENTS, f"bin/{fingerprint.STAMP}", "benchmarks/checks/*.c"):
        for path in fingerprint.PACKAGE.glob(pattern):
            copy = tmp_path / path.relative_to(fingerprint.PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path)
    monkeypatch.setattr(fingerprint, "_digest_of", fingerprint._digest_of.__wrapped__)  # sources change here, in one process
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "traffic/tgen/tgen.c",
        "topologies/realize/fabric.py",
        "grounds/guest/main.py",
        "run/runner.py",
        "ctrl/controllers.py",
        "grounds/lab.py",
        "kernel/lab.py",
        "grounds/plan.py",
        "grounds/nics.py",
        "base/npz.py",
        "nets/nic_policy.py",
        "records/tables.py",
    ],
)
def test_what_runs_in_the_lab_and_what_starts_it_is_in_the_fingerprint(package: Path, name: str) -> None:
    before = fingerprint.programs()
    with (package / name).open("a") as file:
        file.write("\n")
    assert fingerprint.programs() != before


ROOTS = {
    "GUEST": (
        *("grounds.guest.main", "grounds.host.inside", "grounds.selection", "grounds.experiment", "grounds.plan"),
        *("spec", "spec.nic_configuration", "run.read_back", "run.execution"),
    ),
    "AGENTS": ("envs.driver", "envs.policy_selection"),
}
"""The modules with which the making of a plan, a ground, the reading of its output, and an agent begin."""


class Imports(ast.NodeVisitor):
    """Collects what a module imports, in functions too, but not what it imports for types alone."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) != "TYPE_CHECKING":
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.names.update(each.name for each in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.module and not node.level, "this project imports by whole names"
        self.names.update((node.module, *(f"{node.module}.{each.name}" for each in node.names)))


PICTURES = "dc_gym.figures"
"""The folder by which an environment's pictures are drawn: nothing that runs depends on it."""


def closure(roots: Iterable[str]) -> set[Path]:
    """Returns the files of dc-gym that these modules import, directly or not, but for those of PICTURES."""
    here, todo = fingerprint.PACKAGE, {f"dc_gym.{root}" for root in roots}
    found: set[Path] = set()
    while todo:
        name = todo.pop()
        place = here.joinpath(*name.split(".")[1:])
        path = next((each for each in (place.with_suffix(".py"), place / "__init__.py") if each.is_file()), None)
        if not name.startswith("dc_gym") or name.startswith(PICTURES) or path is None or path in found:
            continue
        found.add(path)
        imports = Imports()
        imports.visit(ast.parse(path.read_text()))
        parts = name.split(".")
        todo |= imports.names | {".".join(parts[:count]) for count in range(1, len(parts))}
    return found


@pytest.mark.parametrize("names", [("GUEST",), ("GUEST", "AGENTS")])
def test_everything_that_decides_what_runs_is_in_the_fingerprint(names: tuple[str, ...]) -> None:
    covered = set(fingerprint.files(pattern for name in names for pattern in getattr(fingerprint, name)))
    imported = closure(root for name in names for root in ROOTS[name])
    assert len(imported) > 100 and imported <= covered, sorted(map(str, imported - covered))
    for name in ("grounds/plan.py", "grounds/nics.py", "base/npz.py", "nets/nic_policy.py"):
        assert fingerprint.PACKAGE / name in imported, "the closure sees what makes the plan"


def test_the_closure_of_agents_has_what_acts() -> None:
    imported = closure(ROOTS["AGENTS"])
    for name in ("envs/driver.py", "envs/policies.py", "envs/observation.py", "nets/mlp.py", "base/npz.py"):
        assert fingerprint.PACKAGE / name in imported


def test_what_is_imported_while_a_plan_is_made_and_an_agent_is_built_is_in_the_fingerprint(tmp_path: Path) -> None:
    """This also sees what is imported by a name that is computed."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom types import SimpleNamespace\n"
        "import dc_gym.grounds.guest.main, dc_gym.grounds.host.inside, dc_gym.run.read_back\n"
        "from dc_gym.spec import load\nfrom dc_gym.grounds import plan\n"
        "from dc_gym.grounds.experiment import Experiment\nfrom dc_gym.envs.driver import PolicyDriver\n"
        "made = Experiment.of(load('examples/dumbbell.toml', ['controller.policy=fair-share']))\n"
        "plan.write_plan(made, SimpleNamespace(folder=Path()), Path(sys.argv[1]))\n"
        "PolicyDriver(made)\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'dc_gym'), sep='\\n')"
    )
    root = Path(__file__).resolve().parent.parent
    argv = [sys.executable, "-c", program, str(tmp_path)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=root).stdout
    covered = set(fingerprint.files((*fingerprint.GUEST, *fingerprint.AGENTS)))
    imported = {Path(line) for line in said.splitlines()}
    assert fingerprint.PACKAGE / "grounds" / "plan.py" in imported and imported <= covered, sorted(map(str, imported - covered))


def test_every_data_file_and_every_source_of_a_program_is_in_the_fingerprint() -> None:
    here = fingerprint.PACKAGE
    covered = set(fingerprint.files((*fingerprint.GUEST, *fingerprint.AGENTS)))
    data = {
        Path(folder, name)
        for top in ("traffic", "topologies", "spec")
        for folder, _, names in os.walk(here / top)
        for name in names
        if Path(name).suffix in (".csv", ".txt", ".json", ".toml")
    }
    assert len(data) > 3 and data <= covered
    stamped = {here / line.split()[1] for line in (here / "bin" / fingerprint.STAMP).read_text().splitlines()}
    of_benches = {path for path in stamped if path.is_relative_to(here / "benchmarks")}
    assert stamped - of_benches <= covered


def test_an_agent_has_its_own_parts(package: Path) -> None:
    """Its code and numpy act; without one they do not. The parts say in which folder two differ."""
    plain = load(EXAMPLES / "dumbbell.toml")
    agent = load(EXAMPLES / "dumbbell.toml", ["controller.policy=fair-share"])
    nic = load(EXAMPLES / "dumbbell.toml", ["controller.name=dcqcn", "topology.rate=1Gbit/s"])
    assert fingerprint.acting(plain) == {} and fingerprint.kind_of(plain) == "lab"
    assert set(fingerprint.acting(nic)) == {"numpy"} and fingerprint.kind_of(nic) == "lab, numpy"
    before, folders, programs = fingerprint.acting(agent), fingerprint.sources(agent), fingerprint.programs()
    assert set(before) == {"agents", "numpy"} and "envs" not in fingerprint.sources(plain)
    with (package / "envs" / "policies.py").open("a") as file:
        file.write("\n")
    after = fingerprint.sources(agent)
    assert fingerprint.acting(agent)["agents"] != before["agents"] and fingerprint.programs() == programs
    assert [folder for folder in folders if folders[folder] != after[folder]] == ["envs"]


def test_programs_that_are_older_than_their_sources_are_noticed(package: Path) -> None:
    assert fingerprint.stale() is None
    ground.check_programs()
    with (package / "traffic" / "tgen" / "tgen.c").open("a") as file:
        file.write("\n")
    assert fingerprint.stale() == "traffic/tgen/tgen.c"
    with pytest.raises(MachineError, match=r"built from another traffic/tgen/tgen\.c than is here now; run `make programs`"):
        ground.check_programs()
    (package / "bin" / fingerprint.STAMP).unlink()
    assert fingerprint.stale() == fingerprint.STAMP
