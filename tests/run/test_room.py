# SPDX-License-Identifier: Apache-2.0
"""The room that a run needs: estimated before anything boots, and refused or announced with numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from dc_gym.base.errors import MachineError
from dc_gym.base.progress import Quiet
from dc_gym.monitors.state_matrix import COLUMNS
from dc_gym.run import room, runner
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.result import tgen_log
from dc_gym.spec import load

SPEC = """
spec_version = 1
topology.preset = "fattree-k4"
controller.name = "dctcp"
workload.kind = "hotspot"
time.duration = "3600s"
"""
GB = 10**9


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "hour.toml"
    path.write_text(SPEC)
    return path


def test_the_records_are_those_that_the_daemons_write() -> None:
    assert (len(COLUMNS), tgen_log.SAMPLE_DTYPE.itemsize) == (room.CELLS, room.SAMPLE_BYTES)


def test_an_hour_of_a_fat_tree(spec: Path) -> None:
    needed = room.RoomNeeded.of(Experiment.of(load(spec)))
    sweeps, ports, flows = 360_001, 96, 16
    assert needed.records == sweeps * (8 + ports * 15 * 8) + flows * 360_000 * room.SAMPLE_BYTES
    assert needed.memory < GB, "it does not grow with ports times sweeps"
    rare = room.RoomNeeded.of(Experiment.of(load(spec, ["monitor.interval=100ms"])))
    assert rare.records == pytest.approx(needed.records / 10, rel=1e-3)


@pytest.mark.parametrize(
    ("settings", "sampled_s"),
    [
        (["workload.stop=600s"], 600),
        (["workload.rate=1Mbit/s", "workload.size=125MB"], 1000),
        (["workload.start=3000s"], 600),
        (["workload.size=1kB"], 0),
    ],
)
def test_flows_are_sampled_while_they_are_under_way(spec: Path, settings: list[str], sampled_s: int) -> None:
    whole, some = (room.RoomNeeded.of(Experiment.of(load(spec, overrides))).records for overrides in ([], settings))
    assert whole - some == pytest.approx(16 * (3600 - sampled_s) * 100 * room.SAMPLE_BYTES, rel=1e-3)


def test_a_run_that_cannot_fit_is_refused_before_it_boots(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "check_programs", lambda: None)
    monkeypatch.setattr(room, "free_bytes", lambda _: 1 * GB)
    with pytest.raises(MachineError, match=r"4\.\d+ GB.* 1 GB.*monitor\.interval"):
        runner.run(load(spec), tmp_path / "out", Quiet())
    assert [path.name for path in tmp_path.iterdir()] == ["hour.toml"] and not capsys.readouterr().err


@pytest.mark.parametrize(("disk", "memory", "word"), [(5.0, 9, "the disk may"), (9, 0.1, "memory may"), (9, 9, "")])
def test_a_run_that_may_not_fit_is_announced(
    spec: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], disk: float, memory: float, word: str
) -> None:
    monkeypatch.setattr(room, "free_bytes", lambda _: int(disk * GB))
    monkeypatch.setattr(room, "machine_room", lambda: int(memory * GB))
    room.check(Experiment.of(load(spec)), Path("out"), Quiet())
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == bool(word) and word in "".join(lines)


def test_the_room_beside_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert room.free_bytes(tmp_path / "a" / "b") > 0
