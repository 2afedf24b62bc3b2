# SPDX-License-Identifier: Apache-2.0
"""Root runs what was made, from a cache that is root's."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from dc_gym.base import contents
from dc_gym.base.errors import MachineError, UsageError
from dc_gym.kernel import cable_module, cache, openvswitch
from dc_gym.run.grounds import ground


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "made"
    (folder / "deep").mkdir(parents=True)
    for name in ("first", "deep/second"):
        (folder / name).write_text(name)
    contents.write_sums(folder)
    return folder


def test_the_list_is_that_of_sha256sum(folder: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", contents.SUMS], cwd=folder, check=True, capture_output=True)
    contents.check(folder, "make it again")


def test_a_file_of_another_content_is_named_with_the_remedy(folder: Path) -> None:
    """Also one of the same size and time: the time of change says so."""
    second = folder / "deep/second"
    contents.check(folder, "make it again")
    status = second.stat()
    second.write_text("deep/SECOND")
    os.utime(second, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(MachineError, match=r"made/deep/second: .*make it again$"):
        contents.check(folder, "make it again")
    contents.check(folder, "make it again", ["first"])
    second.unlink()
    with pytest.raises(MachineError, match="deep/second: not the file"):
        contents.check(folder, "make it again")


def test_what_is_not_in_the_list_is_not_run(folder: Path) -> None:
    (folder / "third").write_text("third")
    with pytest.raises(MachineError, match="made/third: not the file"):
        contents.check(folder, "make it again", ["third"])
    (folder / contents.SUMS).unlink()
    with pytest.raises(MachineError, match=r"SHA256SUMS: cannot be read .* make it again"):
        contents.check(folder, "make it again")


@pytest.mark.root
def test_root_runs_no_program_that_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "bin"
    subprocess.run(["cp", "-r", str(ground.PROGRAMS), str(changed)], check=True)
    (changed / "tgen").write_text("another")
    monkeypatch.setattr(ground, "PROGRAMS", changed)
    with pytest.raises(MachineError, match="bin/tgen: not"):
        ground.check_programs()


def test_the_host_ground_runs_no_switch_that_was_changed(folder: Path) -> None:
    (folder / "first").write_text("another")
    with pytest.raises(MachineError, match="made/first: not"):
        openvswitch.OpenVSwitch(folder, "1", "ovs-1").check_contents()


def test_a_module_that_was_changed_is_not_loaded(tmp_path: Path) -> None:
    module = tmp_path / "cable.ko"
    module.write_text("a module")
    contents.write_sums(tmp_path)
    module.write_text("a nodule")
    with pytest.raises(MachineError, match=r"cable\.ko: not"):
        cable_module.load(module)


@pytest.mark.root
@pytest.mark.parametrize("how", ["owner", "mode", "parent"])
def test_root_refuses_a_cache_that_others_may_change(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        folder = Path(parent) / "cache"
        folder.mkdir(mode=0o755)
        monkeypatch.setenv("DCGYM_CACHE", str(folder))
        monkeypatch.delenv(cache.TRUST, raising=False)
        assert cache.cache_dir() == folder
        if how == "mode":
            folder.chmod(0o777)
        else:
            os.chown(folder if how == "owner" else parent, 65534, 65534)
        with pytest.raises(UsageError, match=r"root.*unset DCGYM_CACHE") as refusal:
            cache.cache_dir()
        assert "\n" not in str(refusal.value)
        monkeypatch.setenv(cache.TRUST, "1")
        assert cache.cache_dir() == folder
