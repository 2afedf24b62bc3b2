# SPDX-License-Identifier: Apache-2.0
"""The folder of a training's own Ray: Ray opens its folder to everybody, and the one around it is its user's alone.

No Ray is needed here: a stand-in makes the folder as Ray does. tests/learn/rllib/test_ray_session.py asks the real one.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from dc_gym.base import ray_cluster
from dc_gym.learn.rllib import ray_session, reaper

AS_NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")


class StandIn:
    """A module `ray` whose session has one socket, in folders that everybody may write."""

    def __init__(self) -> None:
        self.socket: Path
        self._server: socket.socket

    def init(self, *, _temp_dir: str, **_: object) -> None:
        folder = Path(_temp_dir)
        folder.mkdir(exist_ok=True)
        (folder / "sockets").mkdir()
        for directory in (folder, folder / "sockets"):
            directory.chmod(0o777)
        self.socket = folder / "sockets" / "raylet"
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.socket))
        self.socket.chmod(0o777)
        self._server.listen()

    def shutdown(self) -> None:
        self._server.close()


@pytest.fixture
def socket_of_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The socket of a session that is open during the test."""
    ray = StandIn()
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray._private.ray_constants", SimpleNamespace(ENABLE_RAY_CLUSTER=True))
    monkeypatch.setattr(ray_session, "require", lambda: None)
    monkeypatch.setattr(reaper, "raylet_of", lambda pid: None)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, "")
    before = os.umask(0)
    try:
        with ray_session.session(None, 1, 1):
            yield ray.socket
    finally:
        os.umask(before)
    assert not ray.socket.parents[1].exists()


@pytest.mark.user
def test_a_folder_around_rays_sockets_is_the_users_alone(socket_of_ray: Path) -> None:
    stats = [folder.stat() for folder in socket_of_ray.parents]
    assert any(status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700 for status in stats)


@pytest.mark.root
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="no setpriv")
def test_nobody_lists_moves_or_reaches_rays_sockets(socket_of_ray: Path) -> None:
    reach = f"import socket; socket.socket(socket.AF_UNIX).connect({str(socket_of_ray)!r})"
    attacks = (
        ["ls", str(socket_of_ray.parent)],
        ["mv", str(socket_of_ray), f"{socket_of_ray}.moved"],
        ["mv", str(socket_of_ray.parent), f"{socket_of_ray.parent}.moved"],
        ["touch", str(socket_of_ray.parents[1] / "planted")],
        [sys.executable, "-c", reach],
    )
    runs = [subprocess.run([*AS_NOBODY, *attack], capture_output=True, text=True, cwd="/") for attack in attacks]
    assert all(run.returncode and "Permission denied" in run.stderr for run in runs), [run.stderr for run in runs]
    assert socket_of_ray.is_socket()


@pytest.mark.parametrize(
    ("home_mode", "mode", "count"), [(0o755, 0o644, 1), (0o711, 0o604, 1), (0o700, 0o644, 0), (0o755, 0o600, 0)]
)
def test_a_token_that_others_may_read_is_told(
    home_mode: int, mode: int, count: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ray get-auth-token --generate` makes it readable for everybody who may enter the user's home."""
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        token = Path(home, ray_cluster.TOKEN_FILE)
        token.parent.mkdir(mode=0o755)
        token.write_text("0" * 64)
        token.chmod(mode)
        Path(home).chmod(home_mode)
        monkeypatch.setenv("HOME", home)
        for name in ray_cluster.TOKENS:
            monkeypatch.delenv(name, raising=False)
        ray_cluster.warn_of_open_token()
        assert capsys.readouterr().err.count(f"others may read {token} and run programs as you; chmod 600 {token}") == count
        monkeypatch.setenv("HOME", f"{home}/elsewhere")
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        ray_cluster.warn_of_open_token()
        assert capsys.readouterr().err.count(f"others may read {token}") == count
        monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)  # goes before the file
        ray_cluster.warn_of_open_token()
        assert not capsys.readouterr().err


def test_a_session_within_another_keeps_that_ones_addresses(socket_of_ray: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", StandIn())
    with ray_session.session(None, 1, 1):
        pass
    assert os.environ[ray_session.SEVERAL_MACHINES] == "0"


def test_a_ray_that_was_imported_before_gets_a_token_of_this_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one it would make a token for ever, in a file of the user's home that others may read."""
    monkeypatch.setitem(sys.modules, "ray", StandIn())
    for name in (ray_cluster.AUTH_MODE, *ray_cluster.TOKENS):
        monkeypatch.setenv(name, "")  # so that it is removed afterwards
        monkeypatch.delenv(name)
    ray_cluster.protect()
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
