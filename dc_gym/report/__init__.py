# SPDX-License-Identifier: Apache-2.0
"""`dcgym report DIR...`: one HTML page about any number of results, which needs nothing else; and its figures as PNG and PDF."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

from dc_gym import controllers
from dc_gym.errors import UsageError
from dc_gym.figures import plots
from dc_gym.folder import put
from dc_gym.progress import Progress
from dc_gym.report import figures, page
from dc_gym.report.measured import Measured, measure
from dc_gym.report.runs import Scenario, gather, scenarios

__all__ = ["main", "write"]

SUFFIXES = (".png", ".pdf")
DPI = 200


def main(args: Namespace, progress: Progress) -> int:
    """`args.folders`, `args.out`, `args.figures`, `args.baseline`, `args.count_unfit`; prints where the page is."""
    made = write(args.folders, args.out, progress, args.figures, args.baseline, args.count_unfit)
    for path in made:
        print(path)
    return 0


def write(
    folders: Sequence[Path],
    out: Path,
    progress: Progress,
    figures_folder: Path | None = None,
    baseline: str | None = None,
    count_unfit: bool = False,
) -> list[Path]:
    """Writes the page, and the figures if a folder is given; answers what was written."""
    found, notes = scenarios(gather(folders), count_unfit)
    _check_baseline(found, baseline)
    measured = _measure_all(found, progress)
    progress.phase("draw")
    text = page.render(found, notes, measured, baseline)
    put(out, text.encode())
    written = [out]
    if figures_folder is not None:
        written += _save_figures(found, measured, figures_folder)
    progress.phase("done")
    return written


def _check_baseline(found: Sequence[Scenario], baseline: str | None) -> None:
    """A controller, or a policy that these results have."""
    names = dict.fromkeys([*controllers.names(), *(group.name for each in found for group in each.groups)])
    if baseline is not None and baseline not in names:
        raise UsageError(f"--baseline {baseline}: unknown controller; one of: {', '.join(names)}")


def _measure_all(found: Sequence[Scenario], progress: Progress) -> dict[str, Measured]:
    """Of every run that counts."""
    runs = [run for each in found for group in each.groups for run in group.runs]
    progress.phase(f"read {len(runs)} results")
    measured = {}
    for done, run in enumerate(runs, 1):
        measured[run.number] = measure(run)
        progress.advance(done, len(runs))
    return measured


def _save_figures(found: Sequence[Scenario], measured: Mapping[str, Measured], folder: Path) -> list[Path]:
    """NAME-FIGURE.png and .pdf; a number where names are the same."""
    written, taken = [], set[str]()
    for each in found:
        name = stem = re.sub(r"[^a-z0-9]+", "-", each.title.lower()).strip("-") or "experiment"
        while name in taken:
            name = f"{stem}-{len(taken) + 1}"
        taken.add(name)
        for figure, canvas in page.draw_all(each, measured):
            written += [plots.save(canvas, folder / f"{name}-{figure.name}{suffix}", DPI, figures.STYLE) for suffix in SUFFIXES]
    return written
