# SPDX-License-Identifier: Apache-2.0
"""Runs the examples of docs/results.md, in their order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.results.pages.test_report import a_result

PAGE = Path(__file__).parent.parent / "docs" / "results.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

pytest.importorskip("pandas")


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    a_result(tmp_path / "results" / "run", 1)
    a_result(tmp_path / "results" / "sized", 1, sized=True)
    for controller in ("dctcp", "cubic"):
        for seed in (1, 2):
            a_result(tmp_path / "results" / "sweep" / f"{controller}-{seed}", seed, controller)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, block in enumerate(BLOCKS, 1):
        exec(compile(block, f"docs/results.md, example {number}", "exec"), names)
    stdout = capsys.readouterr().out
    assert len(BLOCKS) == 6 and "CUBIC - DCTCP:" in stdout and "over 2 seeds" in stdout
    assert names["by_size"]["unfinished"].sum() == 1 and len(names["by_size"]) == 20
    assert names["rates"].shape[1] == 2 and len(names["runs"]) == 4
