# SPDX-License-Identifier: Apache-2.0
"""dc_gym.notebook: bad input in words, a run inside a running event loop as in Jupyter, and commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dc_gym import notebook
from dc_gym.base.errors import SpecError, TestbedError, UsageError
from dc_gym.results.figures import pauses

SPEC = """
topology = { preset = "dumbbell-10m" }
controller = { name = "cubic" }
workload = { kind = "pairs" }
time = { duration = "100ms" }
"""


@pytest.mark.lab
def test_a_run_inside_a_running_loop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second call finds the result; a spec with another seed is refused in that folder."""

    async def cell() -> notebook.Result:
        return notebook.run(SPEC, tmp_path / "first")

    result = asyncio.run(cell())
    assert result.fit and result.path == tmp_path / "first" / "run"
    stamp = (result.path / "manifest.json").stat().st_mtime_ns
    assert notebook.run(SPEC, tmp_path / "first").digest == result.digest
    assert (result.path / "manifest.json").stat().st_mtime_ns == stamp
    assert "1 runs: 1 done" in capsys.readouterr().out
    with pytest.raises(UsageError, match="has another spec"):
        notebook.run(SPEC, tmp_path / "first", "seed=2")
    with pytest.raises(UsageError, match="no classes"):
        pauses.draw(result)
    assert notebook.timeline(result).save(tmp_path / "run.svg").read_text().startswith("<?xml")


def test_bad_specs(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="the text of the spec is not TOML"):
        notebook.run("topology = {\n", tmp_path / "x")
    with pytest.raises(SpecError, match=r"controller\.name"):
        notebook.run(SPEC, tmp_path / "x", "controller.name=cubik")
    with pytest.raises(SpecError, match=r"nowhere\.toml"):
        notebook.run(tmp_path / "nowhere.toml", tmp_path / "x")


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.dcgym("list controllers")
    assert "dctcp" in capsys.readouterr().out
    with pytest.raises(TestbedError, match=r"dcgym list nonsense: exit code 2: .*nonsense"):
        notebook.dcgym("list nonsense")
    existing = tmp_path / "made"
    existing.touch()
    notebook.dcgym("list nonsense", makes=existing)
    assert "is there already" in capsys.readouterr().out
