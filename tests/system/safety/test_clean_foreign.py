# SPDX-License-Identifier: Apache-2.0
"""`dcgym clean` removes only what carries a mark of dc-gym's own: a user's files stay, whatever they are called."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dc_gym.base.errors import UsageError
from dc_gym.cli import clean
from dc_gym.methods import training_folder

WRITER = """
import sys, time
from pathlib import Path
from dc_gym.base import files
with files.whole(Path(sys.argv[1])) as work:
    work.write_text("half")
    print("writing", flush=True)
    time.sleep(600)
"""
FOREIGN = (
    "thesis.2024.partial",
    "sub/video.720.partial",
    "sub/deeper/disk.4194305.partial",
    "notes.partial",
    "table.csv.dcgym-0123456789abcdef.partial",
    "table.csv.dcgym-.partial",
    "dcgym.1.partial",
)


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the command search a folder of the test's own among temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))


@contextmanager
def writer(path: Path) -> Iterator[Path]:
    """Yields the temporary file of a process that writes `path` until it is killed at the end."""
    before = set(path.parent.iterdir())
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "writing\n"
        (work,) = set(path.parent.iterdir()) - before
        yield work
        process.kill()


def run(folder: Path) -> None:
    assert clean.main(Namespace(folders=[folder], cache=False)) == 0


def test_users_files_with_a_like_name_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FOREIGN:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("precious")
    run(tmp_path)
    assert [name for name in FOREIGN if not (tmp_path / name).exists()] == [] and capsys.readouterr().out == ""


def test_the_file_of_a_living_writer_stays_and_that_of_a_killed_one_goes(tmp_path: Path) -> None:
    with writer(tmp_path / "table.csv") as work:
        run(tmp_path)
        assert work.read_text() == "half"
    assert work.exists(), "kill -9 leaves it"
    run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_user_made_of_a_killed_writers_file_stays(tmp_path: Path) -> None:
    """Its mark belongs to its name, so a copy with another name has none. A link is no file that dc-gym wrote."""
    with writer(tmp_path / "table.csv") as work:
        pass
    users_copy = tmp_path / work.name.replace("table", "mine")
    shutil.copy(work, users_copy)
    target = tmp_path / "target"
    work.rename(target)
    work.symlink_to(target)
    run(tmp_path)
    assert users_copy.read_text() == "half" and work.is_symlink() and target.exists()


def test_a_training_begins_in_no_folder_with_a_users_file(tmp_path: Path) -> None:
    (tmp_path / "thesis.4194305.partial").write_text("precious")
    with pytest.raises(UsageError, match="exists"), training_folder.open_folder(tmp_path, resume=False):
        pytest.fail("entered")
