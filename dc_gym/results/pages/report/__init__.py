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
    paths = write(args.folders, out, progress, args.figures, args.baseline, args.count_unfit, force=args.force)
    for path in paths:
        say(path)
    return 0


def default_place(folders: Sequence[Path]) -> Path:
    """Returns the page's default path, beside the results: report.html in the folder or, for several folders, report-A-B.html in
    the folder that holds them all."""
    distinct = list(dict.fromkeys(folder.absolute() for folder in folders))
    if len(distinct) == 1:
        return folders[0] / PAGE
    parent = Path(os.path.commonpath([folder.parent for folder in distinct]))
    if parent == Path(parent.anchor):
        parent = Path.cwd()  # the folders have only the root in common
    named = [folder.name for folder in distinct[:MOST_NAMED]]
    more = [f"and-{len(distinct) - MOST_NAMED}-more"] if len(distinct) > MOST_NAMED else []
    page_path = parent / f"report-{'-'.join([*named, *more])}.html"
    return page_path.relative_to(Path.cwd()) if page_path.is_relative_to(Path.cwd()) else page_path


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
    scenario_list, notes = scenarios(gather(folders), count_unfit)
    _check_baseline(scenario_list, baseline)
    measured = _measure_all(scenario_list, progress)
    notes = [*notes, *(f"no figure of its network: {run.no_graph}" for run in measured.values() if run.graph is None)]
    named = [] if figures_folder is None else _figure_places(scenario_list, measured, figures_folder)
    for path in (path for _, places in named for path in places):
        require_place(path, is_marked(mark_of(COMMAND, folders, path)), force=force, remedy=REMEDY_OF_FIGURES)
    progress.phase("draw")
    put(out, page.render(scenario_list, notes, measured, baseline, mark))
    written = [out]
    for figure, places in named:
        with kit.style(figures.STYLE):
            drawn = figure.draw()
        written += [kit.save(drawn, path, DPI, figures.STYLE, mark_of(COMMAND, folders, path)) for path in places]
    progress.phase("done")
    return written


def _check_baseline(scenario_list: Sequence[Scenario], baseline: str | None) -> None:
    """Checks that the baseline is a controller, or a policy that these results have."""
    names = dict.fromkeys([*controllers.names(), *(group.name for scenario in scenario_list for group in scenario.groups)])
    if baseline is not None and baseline not in names:
        raise UsageError(f"--baseline: {unknown('controller', baseline, names)}")


def _measure_all(scenario_list: Sequence[Scenario], progress: Progress) -> dict[str, RunData]:
    """Returns the measured data of every run that counts."""
    runs = [run for scenario in scenario_list for group in scenario.groups for run in group.runs]
    progress.phase(f"read {len(runs)} results")
    measured = {}
    for count, run in enumerate(runs, 1):
        measured[run.number] = measure(run)
        progress.advance(count, len(runs))
    return measured


def _figure_places(
    scenario_list: Sequence[Scenario], measured: Mapping[str, RunData], folder: Path
) -> list[tuple[ReportFigure, list[Path]]]:
    """Returns the figures' paths, NAME-FIGURE.png and .pdf, with a number where names are equal."""
    places, taken = list[tuple[ReportFigure, list[Path]]](), set[str]()
    for scenario in scenario_list:
        name = stem = re.sub(r"[^a-z0-9]+", "-", scenario.title.lower()).strip("-") or "experiment"
        while name in taken:
            name = f"{stem}-{len(taken) + 1}"
        taken.add(name)
        for figure in figures.all_figures(scenario, measured):
            places.append((figure, [folder / f"{name}-{figure.name}{suffix}" for suffix in SUFFIXES]))
    return places
