# SPDX-License-Identifier: Apache-2.0
"""`dcgym watch` where there is nothing to watch, and the socket behind it; tests of whole runs watch a real one."""

from __future__ import annotations

import socket
from argparse import Namespace
from pathlib import Path

import pytest

from dc_gym import watch
from dc_gym.errors import UsageError
from dc_gym.kernel import share


@pytest.mark.parametrize("where", [".", "..", "/", "none", "deep/none"])
def test_nothing_under_way_is_one_line(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    with pytest.raises(UsageError, match="no run is under way here"):
        watch.main(Namespace(dir=Path(where), once=True))


def test_a_run_is_found_by_its_out_and_by_the_folder_that_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run.partial" / ".lab"
    folder.mkdir(parents=True)
    assert watch._folder(tmp_path / "run") == watch._folder(tmp_path / "run.partial") == folder
    monkeypatch.chdir(tmp_path / "run.partial")
    assert watch._folder(Path()) == folder
    with pytest.raises(UsageError, match="no lab runs here"):
        watch.main(Namespace(dir=tmp_path / "run", once=True))


def test_a_watcher_gets_the_region_and_a_failing_one_harms_nobody(tmp_path: Path) -> None:
    memory = (tmp_path / "memory").open("w+b")
    with share.RegionServer(tmp_path) as server, memory:
        server.serve_one(memory.fileno(), 0, 1)  # nobody is there
        with socket.socket(socket.AF_UNIX) as watcher:
            watcher.connect(str(tmp_path / share.NAME))
            server.serve_one(99999, 0, 1)  # a descriptor that cannot be opened
            assert watcher.recv(16) == b""
        with socket.socket(socket.AF_UNIX) as watcher:
            watcher.connect(str(tmp_path / share.NAME))
            server.serve_one(memory.fileno(), 4096, 8192)
            data, fds, _, _ = socket.recv_fds(watcher, 16, 1)
            assert share.PLACE.unpack(data) == (4096, 8192) and len(fds) == 1
            socket.close(fds[0])
