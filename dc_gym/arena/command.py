# SPDX-License-Identifier: Apache-2.0
"""`dcgym arena run | verify | table | commit | attack`: see docs/arena.md."""

from __future__ import annotations

import random
import tempfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from dc_gym.arena import attack, page, play, ranking, scene, verify
from dc_gym.arena import entrant as entrants
from dc_gym.arena import row as rows
from dc_gym.arena.row import Row
from dc_gym.arena.suite import Case, Secret
from dc_gym.base import bounded, terminal
from dc_gym.base.errors import UsageError
from dc_gym.base.files import in_full, scratch
from dc_gym.base.outputs import is_marked, require_place
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.run.sweep import cpus
from dc_gym.study.collect import slug
from dc_gym.study.model import StudyOptions

OUT, ATTACKS = Path("results/arena"), Path("results/attacks")
LEAST_SECRET = 16
"""Characters of the shortest secret."""


def main(args: Namespace, progress: Progress) -> int:
    return {"run": _run, "verify": _verify, "table": _table, "commit": _commit, "attack": _attack}[args.verb](args, progress)


def secret_of(text: str | None) -> Secret | None:
    """Returns the secret that a text is, or that the file of that name has."""
    if text is None:
        return None
    path = Path(text)
    secret = bounded.read_text(path).strip() if path.is_file() else text
    if len(secret) < LEAST_SECRET:
        why = f"has {len(secret)} characters, and can be guessed; give {LEAST_SECRET} or more, or a file with them"
        raise UsageError(f"secret {text!r}: {why}")
    return Secret(secret)


def _commit(args: Namespace, progress: Progress) -> int:
    secret = secret_of(args.secret)
    assert secret is not None, "the parser requires it"
    say(secret.sha256)
    return 0


def _run(args: Namespace, progress: Progress) -> int:
    entrant, secret = entrants.resolve(args.entrant, args.track, args.overrides), secret_of(args.secret)
    cases = entrant.track.chosen(tuple(args.cases))
    out = in_full(args.out or OUT)
    values = [setting.partition("=")[2] for setting in entrant.settings]
    folder = out / slug(" ".join([entrant.track.name, entrant.name, *values, *([secret.sha256[:8]] if secret else [])]))
    options = StudyOptions(folder, jobs=args.jobs or cpus(), address=args.address, retry=args.retry, force=args.force)
    results = play.run(play.points(entrant, cases, secret, folder), folder, options, progress)
    row = play.row(entrant, cases, results, secret, tell_secret=args.tell_secret)
    for case in cases:
        measured = [f"{name} {'-' if value is None else value}" for name, value in row.cases[case.name].measures.items()]
        say(f"{case.name:22} {', '.join(measured)}")
    say(f"row          {row.write(out / f'{folder.name}.json')}")
    return 0


def _attack(args: Namespace, progress: Progress) -> int:
    entrant, out = entrants.resolve(args.entrant, settings=args.overrides), in_full(args.out or ATTACKS)
    if not (names := args.scenes or scene.names(entrant.track.name)):
        raise UsageError(f"arena attack {entrant.name}: no scene of the track {entrant.track.name} ships; give yours by --scene")
    for chosen in [scene.of_track(name, entrant.track.name) for name in names]:
        folder = out / slug(" ".join([entrant.name, chosen.name]))
        options = StudyOptions(folder, jobs=args.jobs or cpus(), address=args.address, retry=True)
        entrant.write(folder)
        judge = attack.Judge(chosen, entrant, folder, options, progress)
        until = attack.deadline(args.budget_s / len(names))
        attacked = attack.find(judge, args.trials, until, args.seed)
        path, result = attack.write(attacked, judge)
        say(f"{attacked}")
        say(f"spec         {path}, digest {result.digest}")
    return 0


def _verify(args: Namespace, progress: Progress) -> int:
    read = [(path, rows.read(path)) for path in args.rows]
    claims = [(path, _claimed(args, path, row)) for path, row in read]
    with scratch(Path(tempfile.gettempdir()), "dcgym-verify-") as folder:  # one: a plug-in is loaded once, where it lies first
        return max([_judge(args, path, claimed, folder / str(n), progress) for n, (path, claimed) in enumerate(claims)])


def _claimed(args: Namespace, path: Path, row: Row) -> verify.Claimed:
    """Returns what it takes to make a row again. No file is read that the user has not named."""
    if bool(row.file) != (args.entrant is not None):
        remedy = f"give the file {row.file} by --entrant" if row.file else "leave out --entrant: it ships"
        raise UsageError(f"{path}: entrant {row.entrant}: {remedy}")
    if args.entrant is not None:  # before it is read as code
        _require_source(path, row, entrants.sha256(args.entrant) if args.entrant.is_file() else {})
        entrant = entrants.resolve(str(args.entrant), row.track, row.settings)
    else:
        entrant = entrants.shipped(row.entrant, row.track, row.settings)
    _require_source(path, row, entrant.source)
    secret = secret_of(args.secret) or (Secret(row.secret) if row.secret else None) if row.held_out else None
    if row.held_out and secret is None:
        raise UsageError(f"{path}: held-out cases need the secret of SHA-256 {row.held_out}: give it by --secret")
    if secret is not None and secret.sha256 != row.held_out:
        raise UsageError(f"{path}: the secret has SHA-256 {secret.sha256}, the row {row.held_out}")
    return verify.Claimed(row, entrant, secret, _sampled(args, path, row, entrant))


def _require_source(path: Path, row: Row, source: Mapping[str, str]) -> None:
    if source != row.source:
        raise UsageError(f"{path}: it is of {_told(row.source)}, and here is {_told(source)}; give the same file, or its release")


def _sampled(args: Namespace, path: Path, row: Row, entrant: entrants.Entrant) -> list[Case]:
    """Returns the cases to verify: those named, a sample that is drawn, or all of the row."""
    cases = entrant.track.chosen(tuple(args.cases))
    if args.cases and (absent := [case.name for case in cases if case.name not in row.cases]):
        raise UsageError(f"{path}: it has no case {absent[0]}; it has {', '.join(row.cases)}")
    there = [case for case in cases if case.name in row.cases]
    if args.sample is None or args.cases:
        return there
    return random.SystemRandom().sample(there, min(args.sample, len(there)))


def _told(source: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {digest[:16]}" for name, digest in source.items()) or "no file"


def _judge(args: Namespace, path: Path, claimed: verify.Claimed, folder: Path, progress: Progress) -> int:
    lines = verify.other_release(claimed, folder, progress)
    if not lines or args.any_release:
        lines += verify.differences(claimed, folder, args.jobs or cpus(), progress)
    for line in lines:
        say(f"{path}: {line}")
    runs = f"{len(claimed.cases)} of {len(claimed.row.cases)} cases"
    say(f"{path}: {claimed.row.label}: " + (f"NOT verified, {len(lines)} differences" if lines else f"verified, {runs}"))
    return 1 if lines else 0


def _table(args: Namespace, progress: Progress) -> int:
    out = in_full(args.out or OUT / "index.html")
    require_place(out, is_marked(page.MARK), force=args.force)
    leagues = ranking.leagues([*rows.shipped(), *map(rows.read, args.rows)])
    for league in leagues:
        _show(league)
    for title, changes in page.fallen(leagues):
        for change in changes:
            if change.falls:
                say(f"{title}: {change.entrant} falls: {change.measure} x {change.public:.3g}, now x {change.held_out:.3g}")
    say(f"page         {page.write(out, leagues)}")
    return 0


def _show(league: ranking.League) -> None:
    """Prints a league: a row a measure, a column an entrant."""
    names, *lines = zip(page.header(league), *page.standings(league), strict=True)
    table = Table(*names, title=page.title(league), title_justify="left", show_edge=False, pad_edge=False)
    for line in lines:
        table.add_row(*map(escape, line))
    terminal.wide_console().print(table)
