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
def place(tmp_path: Path) -> Path:
    """A folder that others may write."""
    path = tmp_path / "place"
    path.mkdir()
    path.chmod(0o777)
    return path


def test_a_link_at_the_name_of_old_is_not_written_through(place: Path, target: Path) -> None:
    (place / f"file.{os.getpid()}.partial").symlink_to(target)
    files.put(place / "file", b"content")
    assert target.read_text() == "kept" and (place / "file").read_text() == "content"


def test_the_name_differs_from_one_write_to_the_next(place: Path) -> None:
    names = set()
    for _ in range(20):
        with files.whole(place / "file"):
            names.update(entry.name for entry in place.iterdir() if entry.name != "file")
    assert len(names) == 20


def test_what_is_put_in_the_place_of_the_temporary_file_is_not_written(place: Path, target: Path) -> None:
    """In a folder that is not sticky, others may rename the file as soon as it is there."""
    with pytest.raises(OSError, match="somebody else has replaced it"), files.whole(place / "file") as work:
        (swapped,) = place.iterdir()
        swapped.rename(place / "moved")
        swapped.symlink_to(target)
        work.write_text("content")
    assert target.read_text() == "kept" and not (place / "file").exists()


def test_the_file_has_the_mode_that_the_users_umask_asks_for(place: Path) -> None:
    before = os.umask(0o027)
    try:
        files.put(place / "file", b"content")
    finally:
        os.umask(before)
    status = (place / "file").lstat()
    assert stat.S_ISREG(status.st_mode) and status.st_mode & 0o777 == 0o640


def test_a_record_of_the_host_ground_is_not_written_through_a_link(place: Path, target: Path) -> None:
    (place / f"{os.getpid()}.new").symlink_to(target)
    state._put(place / "cable", "text\n")
    assert target.read_text() == "kept" and (place / "cable").read_text() == "text\n"


def test_a_lock_of_the_cache_is_not_made_through_a_link(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DCGYM_CACHE", str(place))
    monkeypatch.setenv("DCGYM_TRUST_CACHE", "1")
    (place / "key.lock").symlink_to(tmp_path / "made")
    with pytest.raises(Exception, match=r"key\.lock"), cache.locked(place / "key.lock"):
        pytest.fail("entered")
    assert not (tmp_path / "made").exists()
