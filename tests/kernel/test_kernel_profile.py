# SPDX-License-Identifier: Apache-2.0
"""The recorded profile of the lab kernel: its files, which gcc takes them, and what a build says of it."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from dc_gym.base.errors import KernelError
from dc_gym.kernel import build, profile

SOURCE = """
int often(int n) { int sum = 0; for (int i = 0; i < n; i++) sum += i % 7 ? i : -i; return sum; }
int main(void) { return often(100000) == 1; }
"""

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def archive(path: Path, **files: bytes) -> Path:
    with tarfile.open(path, "w:xz") as written:
        for name, data in files.items():
            member = tarfile.TarInfo(f"net/{name}.gcda")
            member.size = len(data)
            written.addfile(member, io.BytesIO(data))
    return path


def tree(path: Path, *names: str) -> Path:
    (path / "net").mkdir(parents=True)
    for name in names:
        (path / "net" / f"{name}.c").touch()
    return path


def test_files_get_the_compilers_version_and_go_beside_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "compiler_version", lambda: b"new!")
    folder = tree(tmp_path / "tree", "tcp")
    packed = archive(tmp_path / "p.tar.xz", tcp=b"adcgold!counts", gone=b"adcgold!counts")
    assert profile.place(folder, packed) == "used"
    assert (folder / "net/tcp.gcda").read_bytes() == b"adcgnew!counts"
    assert not (folder / "net/gone.gcda").exists(), "this kernel has no such source"


def test_a_file_that_is_no_profile_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "compiler_version", lambda: b"new!")
    with pytest.raises(KernelError, match=r"net/tcp\.gcda.*restore"):
        profile.place(tree(tmp_path / "tree", "tcp"), archive(tmp_path / "p.tar.xz", tcp=b"something else"))


@pytest.mark.parametrize(("version", "known"), [("11", False), ("9.3", False), ("12", True), ("14", True)])
def test_a_gcc_with_another_format_uses_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, known: bool) -> None:
    real = shutil.which("gcc")
    (tmp_path / "gcc").write_text(f'#!/bin/sh\ncase "$1" in -dumpversion) echo {version} ;; *) exec {real} "$@" ;; esac\n')
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert (profile.compiler_version() is not None) == known
    if not known:
        outcome = profile.place(tree(tmp_path / "tree", "tcp"), archive(tmp_path / "p.tar.xz", tcp=b"adcgold!counts"))
        assert outcome == "not used: it needs gcc 12 or newer" and not (tmp_path / "tree/net/tcp.gcda").exists()


def test_gcc_takes_a_file_with_its_version(tmp_path: Path) -> None:
    """gcc warns of a profile that it does not take; of one that went through an archive with another version it does not."""
    if profile.compiler_version() is None:
        pytest.skip("gcc is too old for profiles")
    folder = tree(tmp_path / "tree")
    (folder / "net/a.c").write_text(SOURCE)
    flags = ["gcc", "-O2", "-c", "net/a.c", "-o", "net/a.o"]
    subprocess.run([*flags, "-fprofile-arcs", "-fprofile-values"], cwd=folder, check=True)
    subprocess.run(["gcc", "-fprofile-arcs", "net/a.o", "-o", "a"], cwd=folder, check=True)
    subprocess.run([folder / "a"], cwd=folder, check=True)
    recorded = (folder / "net/a.gcda").read_bytes()
    other = recorded[:4] + b"*00A" + recorded[8:]
    use = [*flags, "-fprofile-use", "-Wmissing-profile", "-Wcoverage-mismatch"]

    def stderr() -> str:
        return subprocess.run(use, cwd=folder, check=True, capture_output=True, text=True).stderr

    (folder / "net/a.gcda").write_bytes(other)
    assert "version" in stderr()
    assert profile.place(folder, archive(tmp_path / "p.tar.xz", a=other)) == "used"
    assert stderr() == ""


def test_the_archive_has_the_objects_of_the_data_path() -> None:
    with tarfile.open(profile.ARCHIVE) as files:
        names = {member.name for member in files if member.isfile()}
        assert all(files.extractfile(name).read(4) == profile.MAGIC for name in names)  # type: ignore[union-attr]
    assert names >= {"drivers/lab/cable.gcda", "drivers/lab/lab_event.gcda", "net/ipv4/tcp_input.gcda", "net/core/dev.gcda"}


def test_the_profile_is_part_of_the_key_and_of_the_manifest(lab_kernel: Path) -> None:
    assert "profile" in build.Parts().digests()
    assert build.ensure().manifest["profile"].startswith(("used", "not used: it needs gcc"))
