# SPDX-License-Identifier: Apache-2.0
"""The pictures of the labs' pages are what their commands draw: points, commands and pictures belong together.

What is drawn is compared, not pixels. Pictures are held against the points that are kept; in a lab, points against runs, whatever
the environment: two runs of each picture by `make test`, all of them by `make test-all`.
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
from dc_gym.results.figures import sweep_figure

ROOT = Path(__file__).resolve().parent.parent
REMEDY = "run `make pictures`, or after a change of the drawing alone: python scripts/pictures.py --draw"
QUICK = "dctcp-k"
"""The picture on which the functions of the script are tried."""


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
    sheet = pictures.kept()[QUICK]["shows"]
    assert pictures.plain(pictures.from_plain(sheet)) == sheet


def test_the_hash_knows_what_is_drawn() -> None:
    sheet = pictures.kept()[QUICK]["shows"]
    fingerprints = {pictures.fingerprint_of(sweep_figure.draw(pictures.from_plain(sheet))) for _ in range(2)}
    line = next(iter(sheet["panels"].values()))[0]
    line["points"][0]["mean"] *= 1.01
    moved = pictures.fingerprint_of(sweep_figure.draw(pictures.from_plain(sheet)))
    assert len(fingerprints) == 1 and moved not in fingerprints


@pytest.mark.lab
@pytest.mark.parametrize("name", NAMES)
def test_the_first_and_the_last_run_show_what_the_picture_shows(name: str, tmp_path: Path, lab_kernel: Any) -> None:
    tmp_path.chmod(0o755)
    sheet, _ = pictures.run(pictures.pictures()[name], tmp_path, ends=True)
    kept_points = points_of(pictures.kept()[name]["shows"])
    for key, values in points_of(pictures.plain(sheet)).items():
        assert all(any(value == near(other) for other in kept_points[key]) for value in values), f"{key}: {values}: {REMEDY}"


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_runs_show_what_the_picture_shows(name: str, tmp_path: Path, lab_kernel: Any) -> None:
    tmp_path.chmod(0o755)
    sheet, kept_sheet = pictures.plain(pictures.run(pictures.pictures()[name], tmp_path)[0]), pictures.kept()[name]["shows"]
    assert points_of(sheet) == {key: near(values) for key, values in points_of(kept_sheet).items()}, REMEDY
    assert {key: value for key, value in sheet.items() if key != "panels"} == {
        key: value for key, value in kept_sheet.items() if key != "panels"
    }, REMEDY


def near(value: Any) -> Any:
    """Runs are equal on every machine. What is computed from them may differ by another numpy's order of summation."""
    return pytest.approx(value, rel=1e-9)


def points_of(sheet: dict[str, Any]) -> dict[tuple[str, str, Any], list[float]]:
    """Returns the values of each point of a sheet, by metric, line and place on the axis."""
    return {
        (metric, line["name"], point["x"]): point["values"]
        for metric, lines in sheet["panels"].items()
        for line in lines
        for point in line["points"]
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_reader_gets_the_same_picture(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's plot goes through `dcgym plot`, the picture through the script: both ask for the same sheet."""
    picture = pictures.pictures()[name]
    calls: list[Any] = []
    monkeypatch.setattr("dc_gym.results.figures.curves.main", lambda *args: calls.append(args) or 0)
    assert main.main(list(picture.plot)) == 0
    _, x_key, metrics, by_key, out, force, where = calls[0]
    sheet = pictures.kept()[name]["shows"]
    assert (x_key, list(metrics), by_key) == (sheet["axis"]["key"], list(sheet["panels"]), sheet["by_key"])
    assert out is None and not force and not where


def test_the_script_says_what_it_takes() -> None:
    child = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "pictures.py"), "no-such-picture"], capture_output=True, text=True, check=False
    )
    assert child.returncode == 2 and "bufferbloat" in child.stderr
    assert json.loads(pictures.KEPT.read_text())
