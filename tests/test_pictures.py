# SPDX-License-Identifier: Apache-2.0
"""The pictures of the labs' pages are what their commands draw: points, commands and pictures belong together.

What is drawn is compared, not pixels. Pictures are held against the points that are kept; in a lab, points against runs.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dc_gym.cli import main
from dc_gym.figures import sweep_figure

ROOT = Path(__file__).resolve().parent.parent
REMEDY = "run `make pictures`, or after a change of the drawing alone: python scripts/pictures.py --draw"
QUICK = "dctcp-k"
"""The picture whose commands run with every change; the others take minutes."""


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "scripts" / "pictures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pictures"] = module
    spec.loader.exec_module(module)
    return module


pictures = load_script()
NAMES = sorted(pictures.pictures())


def test_every_picture_of_a_lab_is_made_by_the_commands_above_it() -> None:
    assert {f"{name}.png" for name in NAMES} == {path.name for path in pictures.LABS.glob("*.png")}
    assert set(pictures.kept()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_of_the_points_that_are_kept(name: str) -> None:
    picture, record = pictures.pictures()[name], pictures.kept()[name]
    assert record["commands"] == [shlex.join(["dcgym", *words]) for words in (picture.sweep, picture.plot)], REMEDY
    figure = sweep_figure.draw(pictures.from_plain(record["shows"]))
    assert pictures.mark_of(figure).encode() in picture.path.read_bytes(), REMEDY


def test_points_survive_being_kept() -> None:
    told = pictures.kept()[QUICK]["shows"]
    assert pictures.plain(pictures.from_plain(told)) == told


def test_the_hash_knows_what_is_drawn() -> None:
    told = pictures.kept()[QUICK]["shows"]
    found = {pictures.fingerprint_of(sweep_figure.draw(pictures.from_plain(told))) for _ in range(2)}
    line = next(iter(told["panels"].values()))[0]
    line["points"][0]["mean"] *= 1.01
    moved = pictures.fingerprint_of(sweep_figure.draw(pictures.from_plain(told)))
    assert len(found) == 1 and moved not in found


@pytest.mark.lab
@pytest.mark.parametrize("name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.long) for name in NAMES])
def test_the_runs_show_what_the_picture_shows(name: str, tmp_path: Path, lab_kernel: Any) -> None:
    """Points are equal to the bit in the environment of the picture; elsewhere lines are the same, with points at all values."""
    tmp_path.chmod(0o755)
    sheet, environment = pictures.run(pictures.pictures()[name], tmp_path)
    record = pictures.kept()[name]
    ours, theirs = (
        {key: value for key, value in each.items() if key != "programs"} for each in (environment, record["environment"])
    )
    found, kept = pictures.plain(sheet), record["shows"]
    if ours == theirs:
        assert found == kept, REMEDY
    assert shape(found) == shape(kept), REMEDY


def shape(told: dict[str, Any]) -> Any:
    """Returns everything but the numbers."""
    panels = {
        metric: [(line["name"], [(point["x"], len(point["values"])) for point in line["points"]]) for line in lines]
        for metric, lines in told["panels"].items()
    }
    return {key: value for key, value in told.items() if key != "panels"} | panels


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_gets_the_same_picture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's plot goes through `dcgym plot`, the picture through the script: both ask for the same sheet."""
    picture = pictures.pictures()[name]
    asked: list[Any] = []
    monkeypatch.setattr("dc_gym.figures.curves.main", lambda *args: asked.append(args) or 0)
    assert main.main(list(picture.plot)) == 0
    _, x_key, metrics, by_key, out, force = asked[0]
    told = pictures.kept()[name]["shows"]
    assert (x_key, list(metrics), by_key) == (told["axis"]["key"], list(told["panels"]), told["by_key"])
    assert out is None and not force


def test_the_script_says_what_it_takes() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "pictures.py"), "no-such-picture"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "bufferbloat" in done.stderr
    assert json.loads(pictures.KEPT.read_text())
