# SPDX-License-Identifier: Apache-2.0
"""Where a lab's memory lives."""

import os
import tempfile
from pathlib import Path

import pytest

from dc_gym.base.errors import MachineError
from dc_gym.kernel import memory
from dc_gym.kernel.lab import Lab

ON_DISK = (
    tempfile.gettempdir() if memory._type_of_file_system(Path(tempfile.gettempdir())) not in memory.IN_MEMORY else "/var/tmp"
)


@pytest.fixture
def small(monkeypatch):
    """A machine with a MiB of memory left."""
    monkeypatch.setattr(memory, "machine_room", lambda: 1 << 20)
    monkeypatch.delenv("SUDO_UID", raising=False)
    return monkeypatch


def test_memory_that_the_machine_has_needs_no_file_system(monkeypatch, tmp_path):
    """This holds however small, read-only or noexec the machine's folders are."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    monkeypatch.setattr(memory, "ON_DISK", ())
    assert memory.machine_room() > 1 << 20 and memory.memory_folder(1 << 20) is None


def test_no_room_for_memory_names_what_was_tried(small):
    words = (
        r"no room for the lab's memory of 2 MiB: the machine has 1 MiB of memory and swap left; .*/none has .*; lower lab.memory"
    )
    with tempfile.TemporaryDirectory(dir=ON_DISK) as folder:
        Path(folder).chmod(0o777)
        small.setattr(memory, "_unfit", lambda folder, memory_bytes: "has 0 MiB")
        (Path(folder) / "none").mkdir()
        small.setenv("TMPDIR", f"{folder}/none")
        with pytest.raises(MachineError, match=words):
            memory.memory_folder(2 << 20)


@pytest.mark.user
@pytest.mark.parametrize(("mode", "taken"), [(0o777, True), (0o775, os.geteuid() != 0)])
def test_the_users_own_folder_on_disk_goes_first(small, mode, taken):
    """It is not taken if the user as whom root's labs run cannot enter it."""
    with tempfile.TemporaryDirectory(dir=ON_DISK, prefix="dcgym-test-") as name:
        Path(name).chmod(mode)
        small.setenv("TMPDIR", name)
        assert (memory.memory_folder(2 << 20) == Path(name)) is taken


def test_a_file_system_in_memory_is_no_way_out(small):
    small.setattr(memory, "ON_DISK", ("/dev/shm",))
    small.setattr(memory, "_type_of_file_system", lambda folder: "tmpfs")
    small.setenv("TMPDIR", "")
    with pytest.raises(MachineError, match="/dev/shm is memory, too"):
        memory.memory_folder(2 << 20)


def test_the_type_of_a_file_system_is_that_of_its_innermost_mount():
    assert memory._type_of_file_system(Path("/proc/self")) == "proc"
    assert memory._type_of_file_system(Path("/proc/../")) == memory._type_of_file_system(Path("/")) != "proc"


def test_a_control_group_limits_what_a_lab_can_have(tmp_path):
    names = "memory.max", "memory.current", "inactive_file"
    assert memory._room_of(tmp_path / "none", *names) is None
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("3000\n")
    (tmp_path / "memory.stat").write_text("anon 2000\ninactive_file 1000\n")
    assert memory._room_of(tmp_path, *names) is None
    (tmp_path / "memory.max").write_text("5000\n")
    assert memory._room_of(tmp_path, *names) == 3000
    (tmp_path / "memory.max").write_text("1000\n")
    assert memory._room_of(tmp_path, *names) == 0


@pytest.mark.lab
@pytest.mark.parametrize("where", ["in memory", "on disk"])
def test_a_lab_runs_on_both(where, lab_config, monkeypatch):
    with tempfile.TemporaryDirectory(dir=ON_DISK) as folder:
        Path(folder).chmod(0o777)
        monkeypatch.setattr("dc_gym.kernel.lab.memory_folder", lambda size: Path(folder) if where == "on disk" else None)
        with Lab(lab_config(["/bin/sh", "-c", "read -r line"])) as lab:
            lab.wait()
            files = {name for path in Path("/proc/self/fd").iterdir() for name in _target(path)}
        assert any(name.startswith("/memfd:lab-memory" if where == "in memory" else f"{folder}/") for name in files)


def _target(link):
    """Returns the target of a link as a list; empty if the link has gone, as that of the folder which is being read."""
    try:
        return [str(link.readlink())]
    except FileNotFoundError:
        return []
