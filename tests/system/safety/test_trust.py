# SPDX-License-Identifier: Apache-2.0
"""Whose code a result or a training holds is known by its content: a download makes its user the owner of what others wrote."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import tarfile
from contextlib import nullcontext
from pathlib import Path

import pytest
import synthetic

from dc_gym.cli import main
from dc_gym.verify import verify

PLUGIN = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
from dc_gym.ctrl.controllers import Controller, register
register(Controller("mine", "reno", ecn=False))
"""


class Evil:
    """A pickle that makes a folder when it is read."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._mark),)


@pytest.fixture(autouse=True)
def victim(registries: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the test a list of its own, which is empty, and makes files those of the caller alone, whatever the umask."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SUDO_UID", raising=False)
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """The file that hostile code makes if it runs."""
    return tmp_path / "ran"


@pytest.fixture
def rerun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets verify load the spec, which runs its plug-ins, and run nothing else."""
    monkeypatch.setattr(verify.runner, "run", lambda spec, place, *_, **__: synthetic.result(place))
    monkeypatch.setattr(verify, "scratch", lambda *_: nullcontext(tmp_path / "scratch"))


def a_result(folder: Path, mark: Path) -> Path:
    """Returns a result whose spec names a plug-in that makes `mark`."""
    made = synthetic.result(folder)
    (folder / "code").mkdir()
    put_code(folder, PLUGIN.format(mark=str(mark)), made.manifest["spec"] | {"plugins": ["code/mine.py"]})
    return folder


def put_code(folder: Path, source: str, spec: object = None) -> None:
    """Writes the plug-in of a result together with what its manifest says of it."""
    (folder / "code" / "mine.py").write_text(source)
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["code"] = [{"file": "code/mine.py", "sha256": hashlib.sha256(source.encode()).hexdigest()}]
    path.write_text(json.dumps(manifest | ({"spec": spec} if spec else {})))


def downloaded(folder: Path, place: Path) -> Path:
    """Returns the folder after it went through an archive, which makes the caller its owner."""
    with tarfile.open(place.with_suffix(".tar"), "w") as archive:
        archive.add(folder, "download")
    shutil.rmtree(folder)
    place.mkdir()
    subprocess.run(["tar", "xf", place.with_suffix(".tar"), "--no-same-owner"], cwd=place, check=True)
    return place / "download"


@pytest.mark.xfail(strict=True, reason="the owner of the files decides, and unpacking makes the caller their owner")
@pytest.mark.usefixtures("rerun")
def test_an_unpacked_result_runs_only_with_trust(tmp_path: Path, mark: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = downloaded(a_result(tmp_path / "theirs", mark), tmp_path / "unpacked")
    for words in (["verify", str(folder)], ["run", str(folder / "manifest.json"), "--out", str(tmp_path / "new")]):
        assert main.main([*words, "--quiet"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "its spec runs code/mine.py (SHA-256 " in err and "add --trust" in err
        assert not mark.exists()
    assert main.main(["verify", str(folder), "--quiet", "--trust"]) == 0
    assert mark.exists() and "download runs code/mine.py (SHA-256 " in capsys.readouterr().err


@pytest.mark.xfail(strict=True, reason="the owner of the files decides, and unpacking makes the caller their owner")
@pytest.mark.parametrize("command", ["export", "train"])
def test_an_unpacked_training_is_read_only_with_trust(
    tmp_path: Path, mark: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "theirs" / "checkpoints" / "iteration-000001"
    module = place / "learner_group" / "learner" / "rl_module" / "default_policy"
    module.mkdir(parents=True)
    (module / "class_and_ctor_args.pkl").write_bytes(pickle.dumps(Evil(mark)))
    settings = {"agents": "central", "policies": "shared", "seed": 1}
    about = {"version": 2, "settings": settings, "algorithm": "PPO", "fingerprint": ""}
    (tmp_path / "theirs" / "train.json").write_text(json.dumps(about))
    folder = downloaded(tmp_path / "theirs", tmp_path / "unpacked")
    words = {"export": ["export", str(folder)], "train": ["train", "SPEC", "--resume", "--out", str(folder)]}
    assert main.main(words[command]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "which run code of whoever wrote them" in err and "add --trust" in err
    assert not mark.exists()
