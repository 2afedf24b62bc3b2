# SPDX-License-Identifier: Apache-2.0
"""What a digest depends on besides the spec, and programs that are older than their sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dc_gym import fingerprint, grounds
from dc_gym.errors import MachineError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what is fingerprinted."""
    for pattern in (*fingerprint.GUEST, f"bin/{fingerprint.STAMP}", "bench/*.c"):
        for path in fingerprint.PACKAGE.glob(pattern):
            copy = tmp_path / path.relative_to(fingerprint.PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    monkeypatch.setattr(fingerprint, "PACKAGE", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name",
    ["traffic/tgen.c", "topologies/fabric.py", "ground.py", "runner.py", "controllers.py", "lab_ground.py", "kernel/lab.py"],
)
def test_what_runs_in_the_lab_and_what_starts_it_is_in_the_fingerprint(package: Path, name: str) -> None:
    before = fingerprint.programs()
    with (package / name).open("a") as file:
        file.write("\n")
    assert fingerprint.programs() != before


def test_the_version_of_mininet_is_in_the_fingerprint(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint.programs()
    monkeypatch.setattr(fingerprint.metadata, "version", lambda name: "9.9")
    assert fingerprint.programs() != before


def test_programs_that_are_older_than_their_sources_are_noticed(package: Path) -> None:
    assert fingerprint.stale() is None
    grounds.check_programs()
    with (package / "traffic" / "tgen.c").open("a") as file:
        file.write("\n")
    assert fingerprint.stale() == "traffic/tgen.c"
    with pytest.raises(MachineError, match=r"built from another traffic/tgen\.c than is here now; run `make programs`"):
        grounds.check_programs()
    (package / "bin" / fingerprint.STAMP).unlink()
    assert fingerprint.stale() == fingerprint.STAMP
