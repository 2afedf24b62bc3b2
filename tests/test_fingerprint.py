# SPDX-License-Identifier: Apache-2.0
"""Tests what a digest depends on besides the spec, and how programs that are older than their sources are found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.base.errors import MachineError
from dc_gym.grounds import ground
from dc_gym.records import fingerprint


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files that are fingerprinted."""
    for pattern in (*fingerprint.GUEST, f"bin/{fingerprint.STAMP}", "benchmarks/checks/*.c"):
        for path in fingerprint.PACKAGE.glob(pattern):
            copy = tmp_path / path.relative_to(fingerprint.PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path)
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
    ],
)
def test_what_runs_in_the_lab_and_what_starts_it_is_in_the_fingerprint(package: Path, name: str) -> None:
    before = fingerprint.programs()
    with (package / name).open("a") as file:
        file.write("\n")
    assert fingerprint.programs() != before


# Imported in a lab, and without a say in what is recorded there: words for the user, and how things get into the cache.
WORDS = {
    "__init__.py",
    "base/__init__.py",
    "base/errors.py",
    "base/progress.py",
    "base/readable.py",
    "kernel/__init__.py",
    "kernel/apt.py",
    "kernel/cache.py",
}


def test_every_data_file_and_every_module_of_a_ground_is_in_the_fingerprint() -> None:
    here = fingerprint.PACKAGE
    covered = {path for pattern in fingerprint.GUEST for path in here.glob(pattern)}
    program = "import sys, dc_gym.grounds.guest.main, dc_gym.grounds.host.inside\n"
    program += "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'dc_gym'), sep='\\n')"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert {Path(line) for line in said.splitlines()} - covered == {here / name for name in WORDS}
    assert {*(here / "spec").glob("*.py"), here / "base/units.py"} <= covered, "they decide what a lab is given"
    data = {
        Path(folder, name)
        for top in ("traffic", "topologies", "spec")
        for folder, _, names in os.walk(here / top)
        for name in names
        if Path(name).suffix in (".csv", ".txt", ".json", ".toml")
    }
    assert len(data) > 3 and data <= covered


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
