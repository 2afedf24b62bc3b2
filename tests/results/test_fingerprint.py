# SPDX-License-Identifier: Apache-2.0
"""Tests what a digest depends on besides the spec, and how programs that are older than their sources are found."""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from dc_gym.base.errors import MachineError
from dc_gym.kernel import build, cable_module, source
from dc_gym.results import fingerprint
from dc_gym.run.grounds import ground
from dc_gym.spec import load
from tests import imports

SOURCES = (f"bin/{fingerprint.STAMP}", "benchmarks/checks/*.c", "kernel/module/*", "kernel/drivers/*.c")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files that are fingerprinted, and of those that programs and the cable module are built of."""
    for pattern in (*fingerprint.GUEST, *fingerprint.AGENTS, "methods/*/*", "methods/*/*/*", "methods/*/*/*/*", *SOURCES):
        for path in filter(Path.is_file, fingerprint.PACKAGE.glob(pattern)):
            copy = tmp_path / path.relative_to(fingerprint.PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path)
    monkeypatch.setattr(cable_module, "HERE", tmp_path / "kernel")
    monkeypatch.setattr(fingerprint, "_digest_of", fingerprint._digest_of.__wrapped__)  # sources change here, in one process
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        "traffic/tgen/tgen.c",
        "topologies/realize/fabric.py",
        "run/grounds/guest/main.py",
        "run/runner.py",
        "ctrl/controllers.py",
        "run/grounds/lab.py",
        "kernel/lab.py",
        "run/plan/writer.py",
        "run/plan/nics.py",
        "base/npz.py",
        "nets/nic_policy.py",
        "results/tables.py",
    ],
)
def test_what_runs_in_the_lab_and_what_starts_it_is_in_the_fingerprint(package: Path, name: str) -> None:
    before = fingerprint.programs()
    add(package / name)
    assert fingerprint.programs() != before


def add(path: Path) -> None:
    """Adds a variable to a source."""
    with path.open("a") as file:
        file.write("more = 1\n" if path.suffix == ".py" else "int more;\n")


@pytest.fixture
def parts(tmp_path: Path) -> build.Parts:
    """A copy of what goes into the lab kernel."""
    return build.Parts().copy_to(tmp_path / "parts")


@dataclass(frozen=True, slots=True)
class Identities:
    """All that names sources by what they do: the parts of the fingerprint, the lab kernel's key, and the cable module's."""

    programs: str
    agents: str
    kernel: str
    cable: str
    stale: str | None

    @classmethod
    def of(cls, parts: build.Parts) -> Identities:
        keys = fingerprint.programs(), fingerprint.agents(), parts.key(source.tested()), cable_module.key()
        return cls(*keys, fingerprint.stale())


QUIET = {
    "a comment": ("topologies/realize/rtnl.py", r"^import struct$", "import struct  # another comment"),
    "a docstring": ("topologies/realize/rtnl.py", r'^"""', '"""Other words. '),
    "an error's words": ("traffic/sizes.py", r"give a text file of sizes", "give whatever you have"),
    "a message": ("base/spelling.py", r"LIKENESS = 0\.5", "LIKENESS = 0.6"),
    "a check's bound": ("base/checks.py", r"^from __future__", "BOUND = 2\nfrom __future__"),
    "a comment in tgen": ("traffic/tgen/tgen.c", r"^enum \{ SIGNALLED", "/* another comment */\nenum { SIGNALLED"),
    "layout in tgen": ("traffic/tgen/tgen.c", r"\{ SIGNALLED = 128 \}", "{\n  SIGNALLED=128\n}"),
    "a comment in an algorithm": ("ctrl/nic/algorithms/dcqcn/dcqcn.h", r"\A", "// another comment\n"),
    "a comment in the cable": ("kernel/drivers/cable.c", r"BITS   512$", "BITS 512 // another comment"),
    "layout of the cable": ("kernel/drivers/cable.c", r"^\tu8 paused = 0;", "\n    u8\n  paused=0 ;"),
    "a patch's story": ("kernel/patches/0001-um-exact-clock.patch", r"\A", "Another story.\n"),
    "a comment of the configuration": ("kernel/lab.config", r"\A", "# another comment\n"),
}
"""Edits by which nothing does something else: the file, what is looked for, and what takes its place."""
LOUD = [
    ("programs stale", "traffic/tgen/tgen.c", r"SIGNALLED = 128", "SIGNALLED = 129"),
    ("programs", "topologies/realize/rtnl.py", r"\b4\b", "5"),
    ("agents", "run/agent/policies.py", r"\b1\b", "2"),
    ("kernel cable", "kernel/drivers/cable.c", r"BITS   512$", "BITS 513"),
    ("kernel", "kernel/patches/0001-um-exact-clock.patch", r"^\+\tdefault 1000$", "+\tdefault 1001"),
    ("kernel", "kernel/lab.config", r"^CONFIG_LOG_BUF_SHIFT=17$", "CONFIG_LOG_BUF_SHIFT=18"),
]
"""Edits of a number: what they move, the file, what is looked for, and what takes its place."""


def edit(package: Path, parts: build.Parts, name: str, old: str, new: str) -> None:
    """Edits a source wherever the copies have it."""
    of_kernel = {"drivers": parts.drivers, "patches": parts.patches, "lab.config": parts.config}
    part, _, file = name.removeprefix("kernel/").partition("/")
    edited = 0
    for path in (package / name, of_kernel[part] / file if name.startswith("kernel/") and part in of_kernel else None):
        if path is not None and path.is_file():
            text, substitutions = re.subn(old, lambda match: new, path.read_text(), count=1, flags=re.MULTILINE)
            path.write_text(text)
            edited += substitutions
    assert edited, f"{name} has no {old!r} any more"


@pytest.mark.parametrize("name,old,new", QUIET.values(), ids=QUIET)
def test_an_edit_that_changes_nothing_moves_nothing(package: Path, parts: build.Parts, name: str, old: str, new: str) -> None:
    before = Identities.of(parts)
    assert before.stale is None
    edit(package, parts, name, old, new)
    assert Identities.of(parts) == before


@pytest.mark.parametrize("moved,name,old,new", LOUD)
def test_an_edit_of_a_number_moves_what_names_it(
    package: Path, parts: build.Parts, moved: str, name: str, old: str, new: str
) -> None:
    before = Identities.of(parts)
    edit(package, parts, name, old, new)
    after = Identities.of(parts)
    assert {key.name for key in fields(before) if getattr(before, key.name) != getattr(after, key.name)} == {*moved.split()}


def test_what_is_left_out_is_there_and_would_be_in() -> None:
    """A file that has moved would come back unnoticed."""
    whole = {path for pattern in fingerprint.GUEST for path in fingerprint.PACKAGE.glob(pattern)}
    assert whole - set(fingerprint.files(fingerprint.GUEST)) == LEFT_OUT


ROOTS = {
    "GUEST": (
        *("run.grounds.guest.main", "run.grounds.host.inside", "run.grounds.selection", "run.plan.experiment", "run.plan.writer"),
        *("spec", "spec.nic_configuration", "run.result.read_back", "run.execution"),
    ),
    "AGENTS": ("run.agent.driver", "run.agent.policy_selection"),
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
        self.names.update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.module and not node.level, "this project imports by whole names"
        self.names.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))


PICTURES = "dc_gym.results.figures"
"""The folder by which an environment's pictures are drawn: nothing that runs depends on it."""

LEFT_OUT = {fingerprint.PACKAGE / name for name in fingerprint.LEFT_OUT}


def closure(roots: Iterable[str]) -> set[Path]:
    """Returns the files of dc-gym that these modules import, directly or not, but for those of PICTURES and LEFT_OUT."""
    here, todo = fingerprint.PACKAGE, {f"dc_gym.{root}" for root in roots}
    files: set[Path] = set()
    while todo:
        name = todo.pop()
        base = here.joinpath(*name.split(".")[1:])
        path = next((file for file in (base.with_suffix(".py"), base / "__init__.py") if file.is_file()), None)
        if not name.startswith("dc_gym") or name.startswith(PICTURES) or path is None or path in files | LEFT_OUT:
            continue
        files.add(path)
        imports = Imports()
        imports.visit(ast.parse(path.read_text()))
        parts = name.split(".")
        todo |= imports.names | {".".join(parts[:count]) for count in range(1, len(parts))}
    return files


@pytest.mark.parametrize("names", [("GUEST",), ("GUEST", "AGENTS")])
def test_everything_that_decides_what_runs_is_in_the_fingerprint(names: tuple[str, ...]) -> None:
    covered = set(fingerprint.files(pattern for name in names for pattern in getattr(fingerprint, name)))
    imported = closure(root for name in names for root in ROOTS[name])
    assert len(imported) > 100 and imported <= covered, sorted(map(str, imported - covered))
    for name in ("run/plan/writer.py", "run/plan/nics.py", "base/npz.py", "nets/nic_policy.py"):
        assert fingerprint.PACKAGE / name in imported, "the closure sees what makes the plan"


def test_the_closure_of_agents_has_what_acts() -> None:
    imported = closure(ROOTS["AGENTS"])
    for name in ("run/agent/driver.py", "run/agent/policies.py", "run/agent/observation.py", "nets/agent_policy.py"):
        assert fingerprint.PACKAGE / name in imported


def test_what_is_imported_while_a_plan_is_made_and_an_agent_is_built_is_in_the_fingerprint(tmp_path: Path) -> None:
    """This also sees what is imported by a name that is computed. Of methods the keys alone are, which this run has none of."""
    covered = set(fingerprint.files((*fingerprint.GUEST, *fingerprint.AGENTS)))
    imported = imports.of_run("examples/dumbbell.toml", tmp_path, "controller.policy=fair-share") - LEFT_OUT
    of_methods = {path for path in imported if path.is_relative_to(fingerprint.PACKAGE / "methods")}
    assert {path.name for path in of_methods} <= {"__init__.py", "method.py", "keys.py", "settings.py"}
    imported -= of_methods
    assert fingerprint.PACKAGE / "run" / "plan" / "writer.py" in imported and imported <= covered, sorted(
        map(str, imported - covered)
    )


def test_every_data_file_and_every_source_of_a_program_is_in_the_fingerprint() -> None:
    here = fingerprint.PACKAGE
    of_methods = (f"methods/*/{pattern}" for pattern in fingerprint.METHOD)
    covered = set(fingerprint.files((*fingerprint.GUEST, *fingerprint.AGENTS, *of_methods)))
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
    assert set(before) == {"agents", "numpy"} and "run/agent" not in fingerprint.sources(plain)
    add(package / "run" / "agent" / "policies.py")
    after = fingerprint.sources(agent)
    assert fingerprint.acting(agent)["agents"] != before["agents"] and fingerprint.programs() == programs
    assert [folder for folder in folders if folders[folder] != after[folder]] == ["run/agent"]


def test_programs_that_are_older_than_their_sources_are_noticed(package: Path) -> None:
    assert fingerprint.stale() is None
    ground.check_programs()
    add(package / "traffic" / "tgen" / "tgen.c")
    assert fingerprint.stale() == "traffic/tgen/tgen.c"
    with pytest.raises(MachineError, match=r"traffic/tgen/tgen\.c.*`make programs`"):
        ground.check_programs()
    (package / "bin" / fingerprint.STAMP).unlink()
    assert fingerprint.stale() == fingerprint.STAMP
