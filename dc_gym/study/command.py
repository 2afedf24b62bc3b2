# SPDX-License-Identifier: Apache-2.0
"""`dcgym study list | run | report | score | carry`: see docs/studies.md.

OUT/GROUP/RUNS/runs/       the runs of a study: a sweep
OUT/GROUP/NAME/            its page: index.html, figure.png, table.csv, claims.json
EVIDENCE/GROUP/NAME.tsv    its evidence
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Column
from rich.table import Table as Shown

from dc_gym.base import terminal
from dc_gym.base.errors import UsageError
from dc_gym.base.files import in_full
from dc_gym.base.outputs import is_marked, require_place
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.results import fingerprint
from dc_gym.run.sweep import cpus
from dc_gym.study import carry, collect, headlines, identity, page, score, table
from dc_gym.study.claims import Verdict
from dc_gym.study.evidence import Evidence
from dc_gym.study.find import ALL, Library
from dc_gym.study.headlines import JudgedHeadline
from dc_gym.study.model import Study, StudyOptions
from dc_gym.study.page import Report
from dc_gym.study.table import Table

OUT = Path("results/study")
EVIDENCE = Path("results/evidence")
NO_ALGORITHMS = "none"
COLOURS = {
    Verdict.SAME: "green",
    Verdict.OTHER_SIZE: "green",
    Verdict.OPPOSITE: "red",
    Verdict.NO_DIFFERENCE: "yellow",
    Verdict.NOT_TESTED: "dim",
}


@dataclass(frozen=True, slots=True)
class Desk:
    """The arguments and folders of a `dcgym study` command."""

    library: Library
    args: Namespace
    progress: Progress

    @property
    def out(self) -> Path:
        return in_full(self.args.out or OUT)

    @property
    def evidence(self) -> Path:
        """Folder of the evidence that is read, and written by studies at their own length."""
        return (self.args.evidence or EVIDENCE).absolute()

    @property
    def full(self) -> bool:
        """True if the evidence of `--length full` is asked for."""
        return bool(getattr(self.args, "length", "default") == "full")

    def options(self, group: str) -> StudyOptions:
        args = self.args
        algorithms: tuple[str, ...] | None = None
        if (text := getattr(args, "algorithms", None)) is not None:
            algorithms = () if text == NO_ALGORITHMS else tuple(name.strip() for name in text.split(","))
            if "" in algorithms:
                raise UsageError(f"--algorithms {text!r}: write it like PPO,DDPG, or none")
        settings = {name: getattr(args, name, None) for name in ("seeds", "steps", "duration", "preset", "address")}
        if settings["seeds"] == 0:
            raise UsageError("--seeds 0: a study needs one seed at least; leave it out for the study's own number")
        return StudyOptions(
            out=self.out / group,
            full=self.full,
            all_cases=getattr(args, "cases", "default") == ALL,
            variants=tuple(getattr(args, "variants", ())),
            algorithms=algorithms,
            overrides=tuple(getattr(args, "overrides", ())),
            ground=getattr(args, "ground", "lab"),
            jobs=args.jobs or cpus(),
            retry=getattr(args, "retry", False),
            force=args.force,
            **settings,
        )

    def place_of(self, options: StudyOptions) -> Path:
        """Returns the folder of evidence that a run writes: shorter or changed runs stay beside their results."""
        is_own = options.own or self.args.evidence is not None
        return self.evidence if is_own else options.out / "evidence"

    def parts(self, study: Study) -> list[Study]:
        """Returns the studies whose evidence a study shows: its own, or others'."""
        return self.library.chosen(study.of) if study.of else [study]

    def told(self, study: Study, tables: Sequence[Table], old: str = "") -> Report:
        """Returns the contents of a study's page, from the tables of its parts."""
        evidence = table.merged(list(zip(self.parts(study), tables, strict=True))) if study.of else None
        return page.report(study, replace(tables[0], study=study.name), self.library.causes(study), evidence, old)


def main(library: Library, args: Namespace, progress: Progress) -> int:
    """Runs `dcgym study VERB`. Returns 0 whatever the verdicts are."""
    desk = Desk(library, args, progress)
    return {"list": _list, "run": _run, "report": _report, "score": _score, "carry": _carry}[args.verb](desk)


def _list(desk: Desk) -> int:
    for group in desk.library.groups():
        say(f"{group}: {desk.library.title(group)}")
        for study in desk.library.chosen([group]):
            say(f"  {study.name:24} {study.title}")
    return 0


def _run(desk: Desk) -> int:
    return run(desk, desk.library.chosen(desk.args.names))


def run(desk: Desk, studies: Sequence[Study]) -> int:
    """Runs studies, stores their evidence, and writes their pages."""
    _require_trained(desk.args, studies)
    page.require_places({member.name: desk.out / member.name for member in studies}, desk.args.force)
    for study in studies:
        desk.library.causes(study)  # finds mistakes in findings.toml before hours are spent
        study.chosen(desk.options(study.group))
    for study in studies:
        desk.progress.note(f"{study.name}: {study.title}")
        report = desk.told(study, [_stored(desk, part, desk.options(study.group)) for part in desk.parts(study)])
        path = page.write(desk.out / study.name, report)
        _show(report)
        for name in study.of or [study.name]:
            say(f"evidence     {table.path_of(desk.place_of(desk.options(study.group)), name, desk.options(study.group).full)}")
        say(f"page         {path}\n")
    return 0


def _require_trained(args: Namespace, studies: Sequence[Study]) -> None:
    """Raises UsageError if an option for trainings would have no effect."""
    for name in ("algorithms", "steps", "preset"):
        if (value := getattr(args, name, None)) is not None and not any(study.trains for study in studies):
            raise UsageError(
                f"--{name} {value}: nothing is trained for {', '.join(study.name for study in studies)}; leave it out"
            )


def _stored(desk: Desk, study: Study, options: StudyOptions) -> Table:
    study_options = replace(options, out=desk.out / study.group)
    collected = collect.collector(study)(study, study_options, desk.progress)
    environment = identity.environment()
    new_table = Table(
        study=study.name,
        fingerprint=fingerprint.fingerprint(environment),
        runs=identity.of_runs(study),
        measures=identity.of_measures(study),
        environment=environment,
        options=identity.told(options),
        shortfall=collected.evidence.shortfall,
        paper_steps=collected.evidence.paper_steps,
        sample=collected.sample,
        rows=table.cells(collected.evidence),
    )
    return table.read(table.write(desk.place_of(options), new_table, options.full))


def _reports(desk: Desk, studies: Sequence[Study], full: bool) -> tuple[list[Report], list[str]]:
    """Returns the contents of the pages of all studies that have evidence, and the names of the others."""
    today, lineage = identity.environment(), identity.read_lineage(desk.evidence)
    reports, missing = [], []
    for study in studies:
        parts = desk.parts(study)
        paths = [table.path_of(desk.evidence, part.name, full) for part in parts]
        if not all(path.is_file() for path in paths):
            missing.append(study.name)
            continue
        tables = [table.read(path) for path in paths]
        reasons = [identity.why_old(part, stored, today, lineage) for part, stored in zip(parts, tables, strict=True)]
        reports.append(desk.told(study, tables, next(filter(None, reasons), "")))
    return reports, missing


def _report(desk: Desk) -> int:
    studies = desk.library.chosen(desk.args.names or [ALL])
    groups = dict.fromkeys(study.group for study in studies)
    places: Mapping[str, Path] = {name: desk.out / name for name in (*groups, *(study.name for study in studies))}
    page.require_places(places, desk.args.force)
    reports, missing = _reports(desk, studies, desk.full)
    if not reports:
        raise UsageError(f"study report: no evidence of {', '.join(missing)} in {desk.evidence}; `dcgym study run` makes it")
    paths = {report.study.name: page.write(desk.out / report.study.name, report) for report in reports}
    for group in groups:
        group_reports = [report for report in reports if report.study.group == group]
        if group_reports:
            entries = [(str(paths[report.study.name].relative_to(desk.out / group)), report) for report in group_reports]
            title = desk.library.title(group) if group in desk.library.groups() else group
            rows = _headlines(desk, [group])
            say(f"page         {page.overview(desk.out / group, group, title, entries, rows)}")
    if desk.args.parquet:
        require_place(desk.args.parquet, is_marked("ARROW:schema"), force=desk.args.force)
        say(f"table        {table.write_parquet(desk.args.parquet, [report.table for report in reports])}")
    if missing:
        say(f"no evidence  {', '.join(missing)}")
    return 0


def _headlines(desk: Desk, groups: Iterable[str]) -> list[JudgedHeadline]:
    """Returns the verdicts on the headline statements of groups, from the evidence of the length that each part needs."""
    rows = desk.library.headlines(groups)
    parts = [part for row in rows for part in row.parts if not part.short]
    known: dict[tuple[str, bool], tuple[Evidence, bool]] = {}
    for full in (False, True):
        studies = desk.library.chosen(sorted({part.study for part in parts if part.full is full}))
        known |= {(report.study.name, full): (report.evidence, bool(report.old)) for report in _reports(desk, studies, full)[0]}
    return [headlines.judge(row, known) for row in rows]


def _score(desk: Desk) -> int:
    studies = desk.library.chosen(desk.args.names or [ALL])
    if rows := _headlines(desk, dict.fromkeys(study.group for study in studies)):
        score.show_headlines(rows)
    reports, missing = _reports(desk, studies, desk.full)
    score.show(reports, missing)
    if (drawn := score.write(desk.out, reports)) is not None:
        say(f"figure       {drawn}")
    return 0


def _carry(desk: Desk) -> int:
    studies = [entry for entry in desk.library.chosen(desk.args.names or [ALL]) if not entry.of]
    paths = [(entry, table.path_of(desk.evidence, entry.name, False)) for entry in studies]
    tables = [(entry, table.read(path)) for entry, path in paths if path.is_file()]  # finds no evidence before anything runs
    lineage = identity.read_lineage(desk.evidence)
    for study, stored in tables:
        outcome, carried = carry.carry(study, stored, desk.options(study.group), lineage, desk.progress)
        say(f"{study.name:24} {outcome}")
        if carried != lineage:
            identity.write_lineage(desk.evidence, carried)
            lineage = carried
    return 0


def _folded(names: Sequence[str]) -> list[Column]:
    return [Column(name, overflow="fold") for name in names]


def _show(report: Report) -> None:
    console = terminal.wide_console()
    look: dict[str, Any] = {"title_justify": "left", "show_edge": False, "pad_edge": False}
    overview = Shown(*_folded(page.header(report)), title=f"{report.study.name}: {report.study.title}", **look)
    for row in page.cells(report):
        overview.add_row(*map(escape, row))
    console.print(overview)
    if report.findings:
        claims = Shown(*_folded(("claim", "measured", "")), **look)
        for finding in report.findings:
            judged, cause = finding.judged, finding.cause
            words = "; ".join(dict.fromkeys(judged.measured))
            words += f"\ncause: {cause.hypothesis}; shown by {cause.experiment}: {cause.showed}" if cause and cause.shown else ""
            state = f"[{COLOURS[judged.verdict]}]{judged.verdict}[/]" + (f"\n{escape(judged.why_not)}" if judged.why_not else "")
            claims.add_row(escape(judged.claim.title), escape(words), state)
        console.print(claims)
    if report.summary:
        say(f"claims       {report.summary}")
    if str(report.table.shortfall):
        say(f"shorter      {report.table.shortfall}")
