# SPDX-License-Identifier: Apache-2.0
"""Frozen modules: what the program in a lab imports, in one file that follows its sources."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.base.package import PACKAGE
from dc_gym.kernel import cache
from dc_gym.run.grounds import frozen
from dc_gym.run.grounds.guest import start


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which the root is a module of the test's."""
    source = tmp_path / "source" / "inner"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("NAME = 'inner'\n")
    (source / "part.py").write_text("import struct\nfrom . import other\nVALUE = other.VALUE + 1\n")
    (source / "other.py").write_text("VALUE = 1\n")
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "cache"))
    program = "import sys; from pathlib import Path; from dc_gym.run.grounds import frozen; frozen.ROOTS = ('inner.part',);"
    program += " frozen.freeze(Path(sys.argv[1]))"
    monkeypatch.setattr(frozen, "_argv", lambda path: [sys.executable, "-S", "-c", program, str(path)])
    return {"PYTHONPATH": os.pathsep.join([str(source.parent), str(PACKAGE.parent)])}


def value(modules: Path, env: dict[str, str]) -> list[str]:
    """Returns the module's contents in a new interpreter, and its place."""
    program = f"""
import sys
from dc_gym.run.grounds.guest.start import FrozenModules
sys.meta_path.insert(0, FrozenModules({str(modules)!r}))
import inner.part
print(inner.part.VALUE, type(inner.part.__loader__).__name__, inner.part.__file__, inner.__path__[0])
"""
    interpreter = subprocess.run([sys.executable, "-S", "-c", program], env=env, capture_output=True, text=True, check=True)
    return interpreter.stdout.split()


def test_modules_are_frozen_once_and_anew_when_a_source_changes(env: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "source" / "inner"
    path = frozen.modules(env)
    assert path is not None and path.parent == tmp_path / "cache" / "frozen"
    assert value(path, env) == ["2", "FrozenModules", str(source / "part.py"), str(source)]
    identity = path.stat().st_mtime_ns, path.stat().st_ino
    assert frozen.modules(env) == path and (path.stat().st_mtime_ns, path.stat().st_ino) == identity
    (source / "other.py").write_text("VALUE = 41  # longer\n")
    assert value(path, env)[0] == "2", "the file is stale"
    assert frozen.modules(env) == path and value(path, env)[0] == "42"


@pytest.mark.parametrize("content", [b"", b"12", b"12\nabc", b"99999\n\xe3", b"x\n"])
def test_a_file_that_is_not_whole_is_made_again(env: dict[str, str], content: bytes) -> None:
    path = frozen.modules(env)
    assert path is not None
    path.write_bytes(content)
    assert frozen.modules(env) == path and value(path, env)[0] == "2"


def test_a_source_that_is_gone_makes_the_file_stale(env: dict[str, str], tmp_path: Path) -> None:
    assert frozen.modules(env) is not None
    (tmp_path / "source" / "inner" / "other.py").unlink()
    assert frozen.modules(env) is None, "it cannot be made, and a stale one is not used"


def test_a_cache_that_cannot_be_written_leaves_the_modules_where_they_are(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "file" / "cache"))
    assert frozen.modules(env) is None


def test_the_roots_are_those_that_the_program_starts() -> None:
    assert {start.PROGRAM, start.NETWORK} <= set(frozen.ROOTS)
    assert "frozen" in cache.PARTS, "`dcgym clean --cache` removes the file"
