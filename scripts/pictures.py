# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of docs/labs anew, by the commands that the labs' pages tell their readers: make pictures

    python scripts/pictures.py             runs everything (fifteen minutes on one CPU), keeps the points, draws
    python scripts/pictures.py rtt incast  these pictures alone
    python scripts/pictures.py --draw      draws from the points that are kept, after a change of the drawing

Points are kept in docs/labs/pictures.json, with the commands and the environment that they are from. A picture bears the hash of
what was drawn (texts, places, colours: not pixels, which another matplotlib sets otherwise), so that tests/test_pictures.py knows
on any machine whether pictures, points and commands belong together.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from dc_gym.base.progress import Quiet
from dc_gym.base.spelling import unknown
from dc_gym.results.figures import curves, kit, sweep_figure
from dc_gym.results.figures.sweep_figure import Axis, Curve, CurvePoint, Sheet
from dc_gym.results.results import load_result
from dc_gym.run.sweep import cpus, grid, local, run_grid

ROOT = Path(__file__).resolve().parent.parent
LABS = ROOT / "docs" / "labs"
KEPT = LABS / "pictures.json"
PLACES = 6
"""Significant digits of a coordinate that enter the hash."""
BLOCK = re.compile(r"```\n((?:dcgym .*\n)+)```\n\n!\[[^\]]*\]\((\w[\w-]*)\.png\)")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a lab's page, and the commands above it."""

    name: str
    sweep: tuple[str, ...]
    plot: tuple[str, ...]

    @property
    def path(self) -> Path:
        return LABS / f"{self.name}.png"

    @staticmethod
    def option(command: Sequence[str], name: str) -> list[str]:
        """Returns the values of a command's option."""
        return [value for option, value in pairwise(command) if option == name]


def pictures() -> dict[str, Picture]:
    """Returns the pictures of all pages: below a block of two commands, a sweep and its plot, a page shows the picture."""
    by_name = {}
    for page in sorted(LABS.glob("*.md")):
        for commands, name in BLOCK.findall(page.read_text()):
            sweep, plot = (tuple(shlex.split(line)[1:]) for line in commands.splitlines())
            assert sweep[0] == "sweep" and plot[0] == "plot" and plot[1] == sweep[sweep.index("--out") + 1], f"{page}: {name}"
            by_name[name] = Picture(name, sweep, plot)
    return by_name


def run(picture: Picture, folder: Path, *, ends: bool = False) -> tuple[Sheet, dict[str, Any]]:
    """Runs the sweep in a folder, or only its first and its last run (`ends`). Returns what the plot shows, and the
    environment of the runs."""
    out = folder / picture.name
    full_grid = grid.load(ROOT / picture.sweep[1], Picture.option(picture.sweep, "--set"))
    points = (full_grid.points[0], full_grid.points[-1]) if ends else full_grid.points
    run_grid(replace(full_grid, points=points), out, local(1 if ends else cpus()), Quiet())
    return sheet_of(picture, out), dict(load_result(next(curves_of(out))).manifest["environment"])


def curves_of(out: Path) -> Iterator[Path]:
    return (result.path for result in curves.find_results(out))


def sheet_of(picture: Picture, out: Path) -> Sheet:
    """Returns the sheet that the plot of a sweep's folder shows."""
    x, y, by = (Picture.option(picture.plot, name) for name in ("--x", "--y", "--by"))
    sheets, left_out = curves.sheets_of(out, x[0], y, *by)
    assert not left_out, left_out
    (sheet,) = sheets.values()
    return sheet


def plain(sheet: Sheet) -> dict[str, Any]:
    """Returns the sheet as values of JSON."""
    record: dict[str, Any] = json.loads(json.dumps(asdict(sheet)))
    return record


def from_plain(record: Mapping[str, Any]) -> Sheet:
    panels = {
        metric: [
            Curve(line["name"], tuple(CurvePoint(**point | {"values": tuple(point["values"])}) for point in line["points"]))
            for line in lines
        ]
        for metric, lines in record["panels"].items()
    }
    return Sheet(record["title"], panels, Axis(**record["axis"]), record["by_key"], record["caption"])


def fingerprint_of(figure: Figure) -> str:
    """Returns a hash over what a figure says: texts, lines and markers with their places and colours, scales and limits."""
    content: list[Any] = [[text.get_text() for text in figure.texts], figure.get_supxlabel()]
    for legend in figure.legends:
        content.append([legend.get_title().get_text(), *(text.get_text() for text in legend.get_texts())])
        content.append([_look(handle) for handle in legend.get_lines()])
    for ax in figure.axes:
        content.append([ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()])
        content.append([_rounded(ax.get_ylim()), [label.get_text() for label in ax.get_xticklabels() if label.get_visible()]])
        for line in ax.lines:
            content.append([*_look(line), _rounded(line.get_xdata()), _rounded(line.get_ydata())])
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def _look(line: Line2D) -> list[str]:
    return [str(line.get_color()), str(line.get_marker()), str(line.get_linestyle())]


def _rounded(values: Any) -> list[str]:
    return [f"{float(value):.{PLACES}g}" for value in values]


def draw(picture: Picture, sheet: Sheet) -> None:
    figure = sweep_figure.draw(sheet)
    print(kit.save(figure, picture.path, mark=mark_of(figure)).relative_to(ROOT))


def mark_of(figure: Figure) -> str:
    return f"dcgym pictures {fingerprint_of(figure)}"


def kept() -> dict[str, Any]:
    """Returns the kept record of each picture: commands, environment, and what the picture shows."""
    records: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    return records


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Makes the pictures of docs/labs anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"these alone (default: all): {', '.join(pictures())}")
    parser.add_argument("--draw", action="store_true", help="from the points that are kept, without running anything")
    args = parser.parse_args(argv)
    if odd := [name for name in args.names if name not in pictures()]:
        parser.error(unknown("picture", odd[0], pictures()))
    record = kept()
    with tempfile.TemporaryDirectory(prefix="dcgym-pictures-") as folder:
        Path(folder).chmod(0o755)
        for name, picture in pictures().items():
            if args.names and name not in args.names:
                continue
            if not args.draw:
                sheet, environment = run(picture, Path(folder))
                commands = [shlex.join(["dcgym", *words]) for words in (picture.sweep, picture.plot)]
                record[name] = {"commands": commands, "environment": environment, "shows": plain(sheet)}
                KEPT.write_text(json.dumps(record, indent=1) + "\n")
            draw(picture, from_plain(record[name]["shows"]))


if __name__ == "__main__":
    main()
