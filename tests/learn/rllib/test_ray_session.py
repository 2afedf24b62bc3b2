# SPDX-License-Identifier: Apache-2.0
"""Ray's start: what it says when it does not come up is one line, and nothing is left of it."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base import ray_cluster
from dc_gym.base.errors import MachineError
from dc_gym.learn.rllib import ray_session, reaper


def test_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ray_session.require()
    import ray

    def busy(**options: object) -> None:
        raise Exception("The current node timed out during startup.\nMore of it.")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray, "init", busy)
    monkeypatch.setattr(ray, "shutdown", lambda: None)  # of the session that other tests have
    with pytest.raises(MachineError) as refusal, ray_session.session(None, 1, 1):
        pass
    message = "Ray does not start here (The current node timed out during startup.); wait until this machine is less busy"
    assert str(refusal.value) == message
    assert not list(tmp_path.iterdir())


def test_a_cluster_of_another_python_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray_session.require()
    import ray

    def other(**options: object) -> None:
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Python: 3.11.7\nThis process:\n    Python: 3.11.2\n"
        )

    monkeypatch.setattr(ray, "init", other)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    with pytest.raises(MachineError, match=r"3\.11\.7 This process: .* the same Python$"), ray_session.session("here", 1, 1):
        pass


LOOPBACK, MAPPED_LOOPBACK = "0100007F", "0000000000000000FFFF00000100007F"
"""127.0.0.1 as /proc/net/tcp and tcp6 print it."""
STRANGER = """
import sys, ray
ray.init(address=sys.argv[1], logging_level="ERROR", log_to_driver=False)
print(ray.get(ray.remote(lambda: "ran as the user").remote()))
"""
OWNER = """
import os, subprocess, sys
from dc_gym.learn.rllib import ray_session, reaper
with ray_session.session(None, 1, 1) as ray:
    assert ray.get(ray.remote(lambda: 1).remote()) == 1
    others = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    argv = [sys.executable, "-c", sys.argv[1], ray.get_runtime_context().gcs_address]
    done = subprocess.run(argv, env=others, capture_output=True, text=True)
    print(done.returncode, done.stdout, done.stderr.splitlines()[-1])
"""


@pytest.mark.long
def test_a_stranger_cannot_use_a_trainings_ray(tmp_path: Path) -> None:
    """Ray listens on the machine's address. A session asks for a token that its user's environment alone has."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {"HOME": str(tmp_path)}
    argv = [sys.executable, "-c", OWNER, STRANGER]
    stdout = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout
    assert stdout.startswith("1 ") and "Failed to connect to Ray cluster" in stdout and "ran as the user" not in stdout


def test_the_token_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    ray_cluster.protect()
    assert "RAY_AUTH_TOKEN" not in os.environ
    monkeypatch.delenv("RAY_AUTH_MODE")
    ray_cluster.protect()
    assert os.environ["RAY_AUTH_MODE"] == "token" and len(os.environ["RAY_AUTH_TOKEN"]) == 64
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")  # so that it is removed afterwards
    monkeypatch.setenv("RAY_AUTH_MODE", "")


def test_a_cluster_without_a_token_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ray_session.require()
    import ray

    monkeypatch.setattr(ray, "init", lambda **_: None)
    for has_token, count in ((True, 0), (False, 1)):
        monkeypatch.setattr(ray_cluster, "HAS_TOKEN", has_token)
        ray_cluster.join("auto", "ray")
        assert capsys.readouterr().err.count("asks for no token: whoever reaches it runs programs as you") == count


IMPORTER = """
import sys
from dc_gym.learn.rllib import ray_session
def worker():
    import sys
    return sys.path
with ray_session.session(None, 1, 1) as ray:
    print(*ray.get(ray.remote(worker).remote()), sep="\\n")
"""


@pytest.mark.long
def test_workers_import_nothing_from_the_working_directory(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-c", IMPORTER]
    folders = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
    assert str(Path(sys.prefix)) in "".join(folders) and not {"", ".", str(tmp_path)} & set(folders)


def folder_of(ray: Any) -> Path:
    """The folder of a Ray's sockets."""
    return Path(ray._private.worker._global_node.get_session_dir_path()) / "sockets"


@pytest.mark.user
def test_a_folder_around_rays_sockets_is_the_users_alone(ray: Any) -> None:
    """Ray gives its own folders mode 0777. Who may rename its sockets makes a training wait for ever."""
    stats = [folder.stat() for folder in folder_of(ray).parents]
    assert any(status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) == 0o700 for status in stats)


@pytest.mark.root
def test_nobody_moves_rays_sockets(ray: Any) -> None:
    sockets = folder_of(ray)
    argv = [
        "setpriv",
        "--reuid",
        "65534",
        "--regid",
        "65534",
        "--clear-groups",
        "mv",
        str(sockets / "raylet"),
        str(sockets / "it"),
    ]
    process = subprocess.run(argv, capture_output=True, text=True)
    if process.returncode == 0:
        (sockets / "it").rename(sockets / "raylet")
    assert process.returncode and "Permission denied" in process.stderr


def listening() -> dict[int, str]:
    """Addresses at which TCP sockets listen, as the kernel prints them, by the sockets' numbers."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {int(row[9]): row[1].partition(":")[0] for row in rows if row[3] == "0A"}


def sockets_of(pid: int) -> set[int]:
    """The numbers of a process' sockets."""
    numbers = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed just now
            numbers |= {int(number) for number in re.findall(r"^socket:\[(\d+)\]$", str(link.readlink()))}
    return numbers


def test_a_trainings_ray_listens_on_the_loopback_address_alone(ray: Any) -> None:
    assert ray.get(ray.remote(lambda: 1).remote()) == 1  # a worker listens, too
    sockets = set().union(*map(sockets_of, reaper.holders(folder_of(ray).parent)))
    addresses = {address for number, address in listening().items() if number in sockets}
    assert addresses == {LOOPBACK, MAPPED_LOOPBACK}
