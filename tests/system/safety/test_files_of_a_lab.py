# SPDX-License-Identifier: Apache-2.0
"""Mode, owner and times that a lab's programs set stay in the lab: the host gets no set-user-ID program of them.

Ordinary programs notice nothing of it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dc_gym.results import folder

pytestmark = [pytest.mark.lab, pytest.mark.user]
SET_ID = 0o7000

SETS_USER_ID = """
import json, os, stat
os.umask(0)
os.chdir(FOLDER)
def mode(name):
    return stat.S_IMODE(os.stat(name).st_mode)
os.close(os.open("created", os.O_CREAT | os.O_WRONLY, 0o4755))
open("changed", "w").close()
os.chmod("changed", 0o6755)
fd = os.open("through a descriptor", os.O_CREAT | os.O_WRONLY)
os.fchmod(fd, 0o2755)
os.mkdir("folder", 0o755)
os.chmod("folder", 0o7777)
os.mknod("file", stat.S_IFREG | 0o4711)
os.mknod("pipe", stat.S_IFIFO | 0o4666)
print(json.dumps({name: mode(name) for name in sorted(os.listdir("."))}))
"""


def test_no_set_user_id_reaches_the_host(in_lab: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "run" / "made"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    ran = in_lab(SETS_USER_ID.replace("FOLDER", repr(str(folder))))
    assert ran.exit.status == 0, ran.text
    assert json.loads(ran.lines[-1]) == {
        "changed": 0o6755,
        "created": 0o4755,
        "file": 0o4711,
        "folder": 0o7777,
        "pipe": 0o4666,
        "through a descriptor": 0o2755,
    }
    assert {path.name: path.lstat().st_mode & SET_ID for path in folder.iterdir()} == dict.fromkeys(
        ("changed", "created", "file", "folder", "pipe", "through a descriptor"), 0
    )


SHELL = """
set -e
umask 022
cd FOLDER
mkdir -p tree/folder
echo content > tree/folder/file
echo '#!/bin/sh' > tree/program
chmod 4750 tree/program
chown 7:8 tree/folder/file
ln tree/folder/file tree/second
ln -s program tree/link
touch -d 2001-02-03T04:05:06 tree/folder/file tree/program
tar cf tree.tar tree
mkdir unpacked
tar xpf tree.tar -C unpacked
cp -a tree copied
"""
LISTS = """
import json, os, stat
os.chdir(FOLDER)
def listed(top):
    for path, folders, files in sorted(os.walk(top)):
        for name in sorted(files):
            found = os.lstat(os.path.join(path, name))
            yield [os.path.relpath(os.path.join(path, name), top), found.st_mode, found.st_uid, found.st_gid, int(found.st_mtime)]
print(json.dumps([list(listed(top)) for top in ("tree", "unpacked/tree", "copied")]))
"""


def test_archives_and_copies_keep_what_was_set(in_lab: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    quoted = str(folder)
    (tmp_path / "run" / "list.py").write_text(LISTS.replace("FOLDER", repr(quoted)))
    ran = in_lab(["/bin/sh", "-c", SHELL.replace("FOLDER", quoted) + "exec python3 list.py"])
    assert ran.exit.status == 0, ran.text
    tree, unpacked, copied = json.loads(ran.lines[-1])
    of_links = {entry[0] for entry in tree if stat.S_ISLNK(entry[1])}
    assert [row for row in tree if row[0] == "folder/file"] == [["folder/file", 0o100644, 7, 8, 981173106]]
    assert [row[1] for row in tree if row[0] == "program"] == [0o104750]
    assert of_links == {"link"}
    for other in (unpacked, copied):
        assert [row[:4] for row in other] == [row[:4] for row in tree]
        assert [row for row in other if row[0] not in of_links] == [row for row in tree if row[0] not in of_links]


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_works_in_a_folder_of_the_lab(in_lab: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    commands = (
        f"set -e; export HOME={folder}; cd {folder}; git init -q r; cd r; git config user.email a@b; git config user.name a",
        "echo 1 > f; echo 2 > g; chmod +x g; git add f g; git commit -qm first; rm f; git checkout -q f; git status --porcelain",
        "git clone -q . ../c; cd ../c; git ls-files --stage; test -x g",
    )
    ran = in_lab(["/bin/sh", "-c", "; ".join(commands)])
    assert ran.exit.status == 0, ran.text
    assert [line.split()[0] for line in ran.lines] == ["100644", "100755"]


WRITES_LATER = """
import os
os.chdir(FOLDER)
open("file", "w").write("1")
os.utime("file", (5, 7))
before = os.stat("file").st_mtime
open("file", "a").write("2")
print(before, os.stat("file").st_mtime > 7)
os.chmod("file", 0o600)
os.link("file", "second")
os.unlink("file")
print(oct(os.stat("second").st_mode))
open("file", "w").close()
print(oct(os.stat("file").st_mode))
os.rename("file", "second")
print(oct(os.stat("second").st_mode))
open("readonly", "w").close()
os.chmod("readonly", 0o400)
open("readonly", "w").write("root may")
os.truncate("readonly", 4)
print(open("readonly").read())
"""


def test_what_was_set_ends_with_the_file_and_a_time_with_its_next_change(in_lab: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    ran = in_lab("import os\nos.umask(0o022)\n" + WRITES_LATER.replace("FOLDER", repr(str(folder))))
    assert ran.lines == ["7.0 True", "0o100600", "0o100644", "0o100644", "root"], ran.text


def test_a_run_is_closed_to_others_while_it_lasts(tmp_path: Path) -> None:
    out = tmp_path / "result"
    before = os.umask(0o022)
    try:
        with folder.writing(out, force=False) as partial:
            assert stat.S_IMODE(partial.stat().st_mode) == 0o700
            for name in folder.FILES:
                (partial / name).write_text("{}")
            folder.finish(partial)
            assert stat.S_IMODE(out.stat().st_mode) == 0o755, "a result is as open as its user makes folders"
    finally:
        os.umask(before)
