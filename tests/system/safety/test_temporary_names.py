# SPDX-License-Identifier: Apache-2.0
"""Nobody can know, or replace, the temporary file that dc-gym writes: it writes through no link that others planted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dc_gym.base import files
from dc_gym.kernel import cache
from dc_gym.run.grounds.host import state


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file of the user's that links lead to."""
    path = tmp_path / "target"
    path.write_text("kept")
    return path


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """A folder that others may write."""
    path = tmp_path / "place"
    path.mkdir()
    path.chmod(0o777)
    return path


def test_a_link_at_the_name_of_old_is_not_written_through(open_folder: Path, target: Path) -> None:
    (open_folder / f"file.{os.getpid()}.partial").symlink_to(target)
    files.put(open_folder / "file", b"content")
    assert target.read_text() == "kept" and (open_folder / "file").read_text() == "content"


def test_the_name_differs_from_one_write_to_the_next(open_folder: Path) -> None:
    names = set()
    for _ in range(20):
        with files.whole(open_folder / "file"):
            names.update(entry.name for entry in open_folder.iterdir() if entry.name != "file")
    assert len(names) == 20


def test_what_is_put_in_the_place_of_the_temporary_file_is_not_written(open_folder: Path, target: Path) -> None:
    """In a folder that is not sticky, others may rename the file as soon as it is there."""
    with pytest.raises(OSError, match="somebody else has replaced it"), files.whole(open_folder / "file") as work:
        (swapped,) = open_folder.iterdir()
        swapped.rename(open_folder / "moved")
        swapped.symlink_to(target)
        work.write_text("content")
    assert target.read_text() == "kept" and not (open_folder / "file").exists()


def test_the_file_has_the_mode_that_the_users_umask_asks_for(open_folder: Path) -> None:
    before = os.umask(0o027)
    try:
        files.put(open_folder / "file", b"content")
    finally:
        os.umask(before)
    status = (open_folder / "file").lstat()
    assert stat.S_ISREG(status.st_mode) and status.st_mode & 0o777 == 0o640


def test_a_record_of_the_host_ground_is_not_written_through_a_link(open_folder: Path, target: Path) -> None:
    (open_folder / f"{os.getpid()}.new").symlink_to(target)
    state._put(open_folder / "cable", "text\n")
    assert target.read_text() == "kept" and (open_folder / "cable").read_text() == "text\n"


def test_a_lock_of_the_cache_is_not_made_through_a_link(
    open_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DCGYM_CACHE", str(open_folder))
    monkeypatch.setenv("DCGYM_TRUST_CACHE", "1")
    (open_folder / "key.lock").symlink_to(tmp_path / "made")
    with pytest.raises(Exception, match=r"key\.lock"), cache.locked(open_folder / "key.lock"):
        pytest.fail("entered")
    assert not (tmp_path / "made").exists()
