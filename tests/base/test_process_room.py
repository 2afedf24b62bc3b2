# SPDX-License-Identifier: Apache-2.0
"""Too few processes and threads: one line that names the limit, in the command, in a lab and in a sweep."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base import control_groups, process_room, warm
from dc_gym.base.errors import LabError, MachineError
from dc_gym.base.process_room import ProcessLimit
from dc_gym.base.progress import Quiet
from dc_gym.cli import main
from dc_gym.run import runner
from dc_gym.run.execution import Clock, execute
from dc_gym.run.loading import Loading
from dc_gym.run.sweep import pool

SPEC = """
spec_version = 1
topology.preset = "dumbbell-10m"
controller.name = "dctcp"
workload.kind = "pairs"
time.duration = "1s"
"""
AGAIN = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
LIMIT = "pids.max is 40, of which 35 are in use"


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [ProcessLimit("RLIMIT_NPROC", 4096, 35), ProcessLimit("pids.max", 40, 35)]
    monkeypatch.setattr(process_room, "_limits", lambda: iter(limits))


@pytest.mark.usefixtures("limited")
def test_the_tightest_limit_is_named() -> None:
    assert str(process_room.tightest()) == LIMIT
    assert process_room.too_few(6).startswith(f"a run needs 6 processes and threads: {LIMIT}; raise it")
    assert process_room.too_few(5) == ""


def test_without_a_limit_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_room, "_limits", lambda: iter(()))
    assert process_room.too_few() == "" and "the machine has no room" in process_room.refused()


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("error", [AGAIN, RuntimeError("can't start new thread")])
def test_a_command_that_cannot_start_a_process_says_so(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: Any, **__: Any) -> None:
        raise error

    (tmp_path / "spec.toml").write_text(SPEC)
    monkeypatch.setattr(runner, "run", run)
    assert main.main(["run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    stderr = capsys.readouterr().err
    assert f"no further process or thread can be started: {LIMIT}" in stderr and len(stderr.splitlines()) == 1


@pytest.mark.usefixtures("limited")
def test_a_run_that_has_too_few_is_refused_before_it_boots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dc_gym.spec import load

    (tmp_path / "spec.toml").write_text(SPEC)
    monkeypatch.setattr(runner, "check_programs", lambda: None)
    with pytest.raises(MachineError, match="needs 12 processes"):
        runner.run(load(tmp_path / "spec.toml"), tmp_path / "out", Quiet())
    assert [path.name for path in tmp_path.iterdir()] == ["spec.toml"]


class BrokenGround:
    """A ground whose lab dies, or in which a program does not start."""

    def __init__(self, line: str) -> None:
        self.line = line

    def run(self, _folder: Path, _plan: Any, on_line: Any, *_: Any) -> int:
        if self.line.startswith("check_seccomp"):
            raise LabError(f"the lab ended\n  lab: {self.line}")
        on_line(self.line)
        return 1


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    "line", ["check_seccomp : clone failed: Resource temporarily unavailable", "lab-init: run python: Cannot allocate memory"]
)
def test_a_lab_that_cannot_start_a_process_says_so(tmp_path: Path, line: str) -> None:
    with pytest.raises(MachineError, match=r"process or thread.*pids"):
        execute(BrokenGround(line), "lab", tmp_path, lambda: None, Clock(), Quiet())  # type: ignore[arg-type]


def test_a_sweep_fails_the_cell_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Child:
        returncode = 0

        async def communicate(self) -> tuple[bytes, bytes]:
            return b"", b""

    async def start(*argv: str, **_: Any) -> Child:
        if warm.MODULE in argv:  # then each cell starts by itself
            raise AGAIN
        if argv[argv.index("--out") + 1].endswith("2"):
            raise AGAIN
        return Child()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    cells = [pool.Cell(f"s{seed}", tmp_path / "spec.json", tmp_path / f"s{seed}") for seed in (1, 2, 3)]
    outcomes = pool.run_cells(cells, 1, Quiet())
    assert [outcome.status for outcome in outcomes] == [0, 2, 0]
    assert "no further process or thread can be started" in outcomes[1].message


def test_a_run_does_without_the_thread_that_loads_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with Loading(plot=False) as loading:
        loading.begin()
        loading.finish()


@pytest.mark.parametrize(("command", "threads"), [("run", "1"), ("sweep", "1"), ("train", None)])
def test_a_run_computes_without_numpys_threads(command: str, threads: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS interrupts the process by SIGINT where its threads cannot start."""
    monkeypatch.delenv(main.NUMPY_THREADS, raising=False)
    with pytest.raises(SystemExit):
        main.main([command, "--help"])
    assert os.environ.get(main.NUMPY_THREADS) == threads
    monkeypatch.delenv(main.NUMPY_THREADS, raising=False)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(("file", "message"), [("/x/numpy/__init__.py", LIMIT), ("/x/train.py", "dcgym: interrupted\n")])
def test_an_interruption_by_numpys_library_is_told(
    file: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def dispatch(_: object) -> int:
        exec(compile("raise KeyboardInterrupt", file, "exec"))
        return 0

    monkeypatch.setattr(main, "_dispatch", dispatch)
    assert main.main(["list"]) == main.INTERRUPTED
    assert message in capsys.readouterr().err


def test_limits_of_control_groups_are_read_up_to_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folders(_: str) -> Iterator[tuple[Path, bool]]:
        yield from ((tmp_path / "a" / "b", True), (tmp_path / "a", True), (tmp_path, True))

    (tmp_path / "a" / "b").mkdir(parents=True)
    for folder, most in ((tmp_path / "a" / "b", "max"), (tmp_path / "a", "100")):
        (folder / "pids.max").write_text(f"{most}\n")
        (folder / "pids.current").write_text("90\n")
    monkeypatch.setattr(control_groups, "folders", folders)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert process_room.tightest() == ProcessLimit(f"the control group's limit {tmp_path}/a/pids.max", 100, 90)
