# SPDX-License-Identifier: Apache-2.0
"""Files that a power failure, a second process or a signal must not cost: written whole, on disk before older ones go."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic

from dc_gym.base import files, folder_lock, record_file
from dc_gym.base.npz import load_arrays, write_arrays
from dc_gym.cli import clean, main, signals
from dc_gym.learn.rllib import checkpoints
from dc_gym.learn.rllib.checkpoints import TrainingState
from dc_gym.nets import nic_policy


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is synced, renamed and removed, in order."""
    events: list[str] = []
    replace, rename, rmtree = Path.replace, Path.rename, shutil.rmtree
    monkeypatch.setattr(os, "fsync", lambda fd: events.append(f"sync {Path(f'/proc/self/fd/{fd}').readlink().name}"))
    monkeypatch.setattr(Path, "replace", lambda self, to: (events.append(f"rename {self.name}"), replace(self, to))[1])
    monkeypatch.setattr(Path, "rename", lambda self, to: (events.append(f"rename {self.name}"), rename(self, to))[1])
    monkeypatch.setattr(shutil, "rmtree", lambda path, **how: (events.append(f"remove {Path(path).name}"), rmtree(path, **how)))
    return events


def test_a_policy_is_on_disk_before_it_has_its_name(tmp_path: Path, seen: list[str]) -> None:
    write_arrays(tmp_path / "policy.npz", {"weights": np.arange(3)})
    work = seen[0].removeprefix("sync ")
    assert re.fullmatch(r"policy\.npz\.dcgym-[0-9a-f]{16}\.partial", work)
    assert seen == [f"sync {work}", f"rename {work}", f"sync {tmp_path.name}"]
    assert load_arrays(tmp_path / "policy.npz", "")["weights"].tolist() == [0, 1, 2]


class Algorithm:
    """A stand-in for RLlib's: its checkpoint is one file in a folder."""

    def save_to_path(self, path: str, state: Any) -> None:
        assert not clean.main(Namespace(folders=[Path(path).parent], cache=False))
        (Path(path) / "learner").mkdir()
        (Path(path) / "learner" / "state").write_text(state)


def test_a_checkpoint_is_on_disk_before_an_older_one_goes(tmp_path: Path, seen: list[str]) -> None:
    for iteration in (1, 2):
        seen.clear()
        training = TrainingState(iteration, 100 * iteration, b"\x80\x04\x8c\x01x\x94.")  # a pickled "x"
        checkpoints.save(Algorithm(), training, tmp_path, keep=1)
    assert [checkpoint.name for checkpoint in checkpoints.find(tmp_path)] == ["iteration-000002"]
    named = seen.index("rename iteration-000002.partial")
    assert {"sync state", "sync learner", "sync dcgym.json", "sync iteration-000002.partial"} <= set(seen[:named])
    assert seen[named + 1 :] == ["sync checkpoints", "rename iteration-000001", "remove iteration-000001.partial"]


def test_two_processes_that_write_one_file_do_not_disturb_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with files.whole(tmp_path / "cached") as partial_path:
        partial_path.write_text("ours")
        monkeypatch.setattr(os, "getpid", lambda: 4194305)
        files.put(tmp_path / "cached", b"theirs")
        assert partial_path.read_text() == "ours"
    assert (tmp_path / "cached").read_text() == "ours" and len(list(tmp_path.iterdir())) == 1


def test_an_interrupted_write_leaves_the_older_file(tmp_path: Path) -> None:
    files.put(tmp_path / "file", b"older")
    with pytest.raises(KeyboardInterrupt), files.whole(tmp_path / "file") as work:
        work.write_text("half")
        raise KeyboardInterrupt
    assert (tmp_path / "file").read_text() == "older" and len(list(tmp_path.iterdir())) == 1


def test_an_error_of_writing_names_the_file(tmp_path: Path) -> None:
    """As on a full disk. The kernel's error names no file."""
    full = Path("/dev/full")
    table = record_file.RecordKind(b"RECORDED", np.dtype([("number", "<u8")])).table([{"number": 1}])
    for write in (lambda: record_file.write(full, table), lambda: nic_policy.write_table(np.zeros(1, np.uint32), full)):
        with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
            write()
    with pytest.raises(OSError, match=r"No space left on device: '.*/policy\.npz'"), files.whole(tmp_path / "policy.npz"):
        full.write_text("x")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", [["list"], ["compare", "a", "b"]], ids=["plain", "a table"])
def test_a_full_standard_output_is_named(words: list[str], unbuffered: str, tmp_path: Path) -> None:
    """Python's own buffer may keep what could not be written, and tries once more as it ends."""
    for number, name in enumerate(("a", "b")):
        synthetic.result(tmp_path / name, synthetic.run(seed=number))
    argv = [sys.executable, "-m", "dc_gym.cli.main", words[0], *(str(tmp_path / name) for name in words[1:])]
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            argv, stdout=full, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": unbuffered}
        )
    assert (process.returncode, process.stderr) == (2, "dcgym: standard output: No space left on device; free some room\n")


def test_clean_leaves_what_another_user_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: Path) -> int:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "theirs.partial").mkdir()
    monkeypatch.setattr(folder_lock, "take", refuse)
    assert clean.main(Namespace(folders=[tmp_path], cache=False)) == 0
    assert "theirs.partial: another user's" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "code", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 129, "hung up")])
def test_a_signal_ends_a_command_in_one_line(
    number: signal.Signals, code: int, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def clean_up(_: Namespace) -> int:
        try:
            signal.raise_signal(number)
            raise AssertionError("the signal did not end it")
        finally:
            for end_signal in signals.ENDS:
                signal.raise_signal(end_signal)  # a further one does not disturb what is being cleaned up

    before = [signal.signal(end_signal, signal.SIG_DFL) for end_signal in signals.ENDS]  # the tests may run under nohup
    monkeypatch.setattr(clean, "main", clean_up)
    try:
        assert main.main(["clean"]) == code
    finally:
        for end_signal, handler in zip(signals.ENDS, before, strict=True):
            signal.signal(end_signal, handler)
    assert capsys.readouterr().err == f"dcgym: {word}\n"


@pytest.fixture
def module_that_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that sends SIGTERM to its own process while it is imported."""
    (tmp_path / "sends_sigterm.py").write_text("import signal\nsignal.raise_signal(signal.SIGTERM)\nis_whole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield "sends_sigterm"
    signal.signal(signal.SIGTERM, before)
    sys.modules.pop("sends_sigterm", None)


def test_a_signal_waits_for_the_end_of_an_import(module_that_ends_the_command: str) -> None:
    """Python drops an exception that is raised at certain moments of an import, and the signal would be lost."""
    with pytest.raises(signals.Terminated), signals.terminable():
        assert importlib.import_module(module_that_ends_the_command).is_whole
        time.sleep(60)


def test_a_signal_does_not_wait_for_an_endless_import(module_that_ends_the_command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "MOST_PUT_OFF_S", -1.0)
    with pytest.raises(signals.Terminated), signals.terminable():
        importlib.import_module(module_that_ends_the_command)
    assert module_that_ends_the_command not in sys.modules


def test_a_command_under_nohup_is_not_hung_up(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(clean, "main", lambda _: signal.raise_signal(signal.SIGHUP) or 0)
        assert main.main(["clean"]) == 0
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
