# SPDX-License-Identifier: Apache-2.0
"""`dcgym doctor`: its remedies on simulated machines. On a real machine: test_run.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dc_gym.cli import doctor
from dc_gym.kernel import build, cache
from dc_gym.kernel import source as sources


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "mine"))
    monkeypatch.setattr(cache, "OF_ROOT", tmp_path / "roots")
    return tmp_path / "mine"


def test_a_kernel_that_root_has_need_not_be_built(own_cache: Path, tmp_path: Path) -> None:
    (finding,) = doctor._kernel()
    assert not finding.good and finding.remedy == "dcgym kernel build (five minutes of CPU)"
    kernel = tmp_path / "roots" / "kernel" / build.Parts().key(sources.tested(None)) / "linux"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("")
    kernel.chmod(0o644)
    (finding,) = doctor._kernel()
    assert "root" not in finding.remedy, "it cannot be executed"
    kernel.chmod(0o755)
    (finding,) = doctor._kernel()
    assert finding.remedy.endswith(f", or use root's: export DCGYM_CACHE={tmp_path / 'roots'}")


def test_programs_of_the_distribution_are_told_with_what_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name, path="": None if name in ("flock", "clang") else f"/{name}")
    clean_up, own_nics, scripts = doctor._system()
    assert not clean_up.good and clean_up.fatal and clean_up.words == "flock missing, for what is left of a run that is killed"
    assert clean_up.remedy == "install util-linux, findutils and coreutils"
    assert not own_nics.good and not own_nics.fatal and scripts.good and scripts.words == "all there, for dcgym conformance"


def test_programs_are_found_where_runs_look_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """/usr/sbin is in no PATH of a plain user's."""
    apart = ("ip", "tc", "sysctl", "ethtool")
    monkeypatch.setattr(doctor.shutil, "which", lambda name, path="": None if name in apart and "/usr/sbin" not in path else name)
    *_, scripts = doctor._system()
    assert scripts.good and scripts.words == "all there, for dcgym conformance"


def test_a_cache_that_cannot_be_made_is_told(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = doctor._cache()
    assert finding.words.startswith(f"{own_cache}, ")
    monkeypatch.setattr(os, "access", lambda path, how: False)
    (finding,) = doctor._cache()
    assert not finding.good and finding.words == f"{own_cache} cannot be made in {own_cache.parent}"
    own_cache.mkdir()
    (finding,) = doctor._cache()
    assert finding.words.startswith(f"{own_cache}, "), "what is there can be used"
