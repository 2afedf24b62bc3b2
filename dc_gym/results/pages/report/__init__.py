# SPDX-License-Identifier: Apache-2.0
"""`dcgym report DIR...`: writes one self-contained HTML page about any number of results, and its figures as PNG and PDF."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.files import put
from dc_gym.base.outputs import is_marked, mark_of, require_place
from dc_gym.base.progress import Progress
from dc_gym.base.spelling import unknown
from dc_gym.base.terminal import say
from dc_gym.ctrl import controllers
from dc_gym.results.figures import kit
from dc_gym.results.pages.report import figures, page
from dc_gym.results.pages.report.figures import ReportFigure
from dc_gym.results.pages.report.measured import RunData, measure
from dc_gym.results.pages.report.runs import Scenario, gather, scenarios

__all__ = ["default_place", "main", "write"]

PAGE, COMMAND = "report.html", "report"
MOST_NAMED = 3
"""The most folders that are named in a page's file name."""
REMEDY_OF_FIGURES = "replace it with --force, or give another --figures"
SUFFIXES = (".png", ".pdf")
DPI = 200


def main(args: Namespace, progress: Progress) -> int:
    """Runs `dcgym report` with `args.folders`, `args.out`, `args.figures`, `args.baseline`, `args.count_unfit` and `args.force`;
    prints where the page is."""
    out = args.out or default_place(args.folders)
    made = write(args.folders, out, progress, args.figures, args.baseline, args.count_unfit, force=args.force)
    for path in made:
        say(path)
    return 0


def default_place(folders: Sequence[Path]) -> Path:
    """Returns the page's default path, beside the results: report.html in the folder or, for several folders, report-A-B.html in
    the folder that holds them all."""
    found = list(dict.fromkeys(folder.absolute() for folder in folders))
    if len(found) == 1:
        return folders[0] / PAGE
    parent = Path(os.path.commonpath([folder.parent for folder in found]))
    if parent == Path(parent.anchor):
        parent = Path.cwd()  # the folders have only the root in common
    named = [folder.name for folder in found[:MOST_NAMED]]
    more = [f"and-{len(found) - MOST_NAMED}-more"] if len(found) > MOST_NAMED else []
    place = parent / f"report-{'-'.join([*named, *more])}.html"
    return place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place


def write(
    folders: Sequence[Path],
    out: Path,
    progress: Progress,
    figures_folder: Path | None = None,
    baseline: str | None = None,
    count_unfit: bool = False,
    *,
    force: bool = False,
) -> list[Path]:
    """Writes the page, and the figures if a folder is given. Returns the files that were written.

    Files made from the same folders are replaced. Anything else that exists is replaced only with `force`.
    """
    mark = mark_of(COMMAND, folders, out)
    require_place(out, is_marked(mark), force=force)
    found, notes = scenarios(gather(folders), count_unfit)
    _check_baseline(found, baseline)
    measured = _measure_all(found, progress)
    notes = [*notes, *(f"no figure of its network: {run.no_graph}" for run in measured.values() if run.graph is None)]
    named = [] if figures_folder is None else _figure_places(found, measured, figures_folder)
    for place in (place for _, places in named for place in places):
        require_place(place, is_marked(mark_of(COMMAND, folders, place)), force=force, remedy=REMEDY_OF_FIGURES)
    progress.phase("draw")
    put(out, page.render(found, notes, measured, baseline, mark))
    written = [out]
    for figure, places in named:
        with kit.style(figures.STYLE):
            drawn = figure.draw()
        written += [kit.save(drawn, place, DPI, figures.STYLE, mark_of(COMMAND, folders, place)) for place in places]
    progress.phase("done")
    return written


def _check_baseline(found: Sequence[Scenario], baseline: str | None) -> None:
    """Checks that the baseline is a controller, or a policy that these results have."""
    names = dict.fromkeys([*controllers.names(), *(group.name for each in found for group in each.groups)])
    if baseline is not None and baseline not in names:
        raise UsageError(f"--baseline: {unknown('controller', baseline, names)}")


def _measure_all(found: Sequence[Scenario], progress: Progress) -> dict[str, RunData]:
    """Returns the measured data of every run that counts."""
    runs = [run for each in found for group in each.groups for run in group.runs]
    progress.phase(f"read {len(runs)} results")
    measured = {}
    for done, run in enumerate(runs, 1):
        measured[run.number] = measure(run)
        progress.advance(done, len(runs))
    return measured


def _figure_places(
    found: Sequence[Scenario], measured: Mapping[str, RunData], folder: Path
) -> list[tuple[ReportFigure, list[Path]]]:
    """Returns the figures' paths, NAME-FIGURE.png and .pdf, with a number where names are equal."""
    places, taken = list[tuple[ReportFigure, list[Path]]](), set[str]()
    for each in found:
        name = stem = re.sub(r"[^a-z0-9]+", "-", each.title.lower()).strip("-") or "experiment"
        while name in taken:
            name = f"{stem}-{len(taken) + 1}"
        taken.add(name)
        for figure in figures.all_figures(each, measured):
            places.append((figure, [folder / f"{name}-{figure.name}{suffix}" for suffix in SUFFIXES]))
    return places
