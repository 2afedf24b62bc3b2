# SPDX-License-Identifier: Apache-2.0
"""Root removes, and gives away, only the folders that it made: never what a link in the place of one leads to."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base import files, folder_lock, janitor
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.kernel import lab, user
from dc_gym.kernel.lab import Lab, LabConfig
from dc_gym.results import folder

SWAP = 'find "$1" -depth -mindepth 1 -type d -exec sh -c \'mv -T -- "$2" "$2.moved" && ln -s -- "$1" "$2"\' sh "$2" {} \\;'
"""A shell's command that puts a link to folder $2 in the place of every folder below folder $1 that its user can rename."""


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A folder that nobody else may enter. It looks as if dc-gym had left it."""
    private = tmp_path / "precious"
    (private / "below").mkdir(parents=True)
    (private / "below" / "file").write_text("kept")
    claim(private)
    private.chmod(0o700)
    return private


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder like /tmp, which the lab's user reaches."""
    with files.scratch(Path(tempfile.gettempdir()), "dcgym-user-") as scratch:
        folder = scratch / "tmp"
        folder.mkdir()
        folder.chmod(0o1777)
        yield folder


def claim(path: Path) -> None:
    """Leaves a folder as a run does that is killed together with its janitor."""
    lock = folder_lock.take(path)
    assert lock is not None
    lock.close()


def is_intact(precious: Path) -> bool:
    inode = precious.stat()
    return (inode.st_mode & 0o777, inode.st_uid) == (0o700, os.geteuid()) and (precious / "below" / "file").read_text() == "kept"


def swap(path: Path, target: Path) -> None:
    path.rename(path.with_name(f"{path.name}.moved"))
    path.symlink_to(target)


def swap_as_lab_user(below: Path, target: Path) -> None:
    uid, gid = user.lab_user()
    subprocess.run(["/bin/sh", "-c", SWAP, "sh", str(below), str(target)], user=uid, group=gid, extra_groups=[], cwd="/")


@pytest.mark.lab
@pytest.mark.root
def test_the_labs_user_cannot_turn_roots_removal_of_its_memory(
    public: Path, precious: Path, lab_config: Callable[..., LabConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "memory_folder", lambda memory_bytes: public)
    with Lab(lab_config(["/bin/sleep", "1000"])):
        swap_as_lab_user(public, precious)
    assert is_intact(precious)
    assert list(public.iterdir()) == [], "the folder that root made is gone, with what the lab's user put there"


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.parametrize("writable", [(), ("exec", ".lab/out")], ids=["all of it", "two folders"])
def test_the_labs_user_cannot_turn_what_root_does_in_a_runs_folder(
    public: Path, precious: Path, lab_config: Callable[..., LabConfig], writable: tuple[str, ...]
) -> None:
    run_dir = public / "run"
    for name in ("exec", ".lab/out"):
        (run_dir / name).mkdir(parents=True)
    config = lab_config(["/bin/sleep", "1000"], run_dir=run_dir)
    with Lab(replace(config, writable=[run_dir / name for name in writable])):
        swap_as_lab_user(public, precious)
        with suppress(OSError):  # the name of a folder that was given away leads elsewhere now
            user.let_lab_read(run_dir)
    assert is_intact(precious)
    moved = run_dir if writable else run_dir.with_name("run.moved")
    assert moved.lstat().st_uid == os.geteuid(), "root has back what it gave away"


@pytest.mark.root
def test_a_link_in_a_folder_is_not_followed_to_what_the_lab_shall_read(tmp_path: Path, precious: Path) -> None:
    closed = precious / "below" / "file"
    closed.chmod(0o600)
    (tmp_path / "link").symlink_to(closed)
    (tmp_path / "place").symlink_to(precious)
    user.let_lab_read(tmp_path)
    with pytest.raises(OSError, match="place"):
        user.let_lab_read(tmp_path / "place")
    assert is_intact(precious) and closed.stat().st_mode & 0o777 == 0o600


def test_a_scratch_folder_that_became_a_link_empties_nothing(tmp_path: Path, precious: Path) -> None:
    with files.scratch(tmp_path, "dcgym-nic-") as scratch:
        swap(scratch, precious)
    assert is_intact(precious)


def test_another_folder_in_the_place_of_ones_own_stays(tmp_path: Path, precious: Path) -> None:
    (precious / folder_lock.LOCK).unlink()
    with files.scratch(tmp_path, "dcgym-nic-") as scratch:
        scratch.rename(tmp_path / "moved")
        precious.rename(scratch)
    assert is_intact(scratch)


def test_a_janitor_empties_nothing_through_a_link(tmp_path: Path, precious: Path) -> None:
    partial = tmp_path / "run.partial"
    with janitor.watching(partial):
        partial.mkdir()
        claim(partial)
        swap(partial, precious)
    assert is_intact(precious)


def test_a_janitor_removes_no_lock_through_a_link(tmp_path: Path, precious: Path) -> None:
    out = tmp_path / "run"
    out.symlink_to(precious)
    with janitor.watching(tmp_path / "run.partial", out, tmp_path / "run.replaced"):
        pass
    assert is_intact(precious) and folder_lock.is_ours(precious)


def test_a_run_that_takes_over_a_folder_empties_nothing_through_a_link(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = tmp_path / "run.partial"
    partial.mkdir()
    claim(partial)
    take = folder_lock.take

    def taken_and_swapped(path: Path) -> int | None:
        held = take(path)
        swap(path, precious)
        return held

    monkeypatch.setattr(folder_lock, "take", taken_and_swapped)
    with pytest.raises(TestbedError), folder.writing(tmp_path / "run", force=False):
        pytest.fail("entered")
    assert is_intact(precious)


@pytest.mark.root
def test_a_run_takes_over_no_folder_of_another_user(tmp_path: Path) -> None:
    """Its owner could put links there, and the run would write through them."""
    partial = tmp_path / "run.partial"
    partial.mkdir()
    claim(partial)
    os.chown(partial, user.UNPRIVILEGED, user.UNPRIVILEGED)
    with pytest.raises(UsageError, match="belongs to another user; remove it"), folder.writing(tmp_path / "run", force=False):
        pytest.fail("entered")
    assert folder_lock.is_ours(partial)


@pytest.mark.parametrize("kind", ["a link", "a pipe"])
def test_a_lock_that_is_no_file_is_not_opened(tmp_path: Path, kind: str) -> None:
    held, target = tmp_path / "held", tmp_path / "target"
    held.mkdir()
    target.touch()
    lock = held / folder_lock.LOCK
    if kind == "a link":
        lock.symlink_to(target)
    else:
        os.mkfifo(lock)
    with pytest.raises(OSError, match=r"\.lock"):
        folder_lock.take(held)
    assert not folder_lock.is_held(held) and not folder_lock.is_ours(held)
    assert target.read_bytes() == b"" and not folder.is_unfinished(held)


def test_a_tree_with_a_link_and_a_pipe_is_synced_without_opening_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Any] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "outside").touch()
    (tree / "file").touch()
    (tree / "link").symlink_to(tmp_path / "outside")
    os.mkfifo(tree / "pipe")
    reader = os.open(tree / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tree / "pipe", os.O_WRONLY)

    files.sync_tree(tree)
    os.close(writer)
    os.close(reader)
    assert synced == ["file", "tree"]
