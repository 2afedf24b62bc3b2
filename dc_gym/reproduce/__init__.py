# SPDX-License-Identifier: Apache-2.0
"""`dcgym reproduce PAPER|all [FIGURE ...]`: measures papers' figures again and compares them with the papers' claims.

See docs/reproduce-iroko.md and docs/reproduce-rl-cc.md. registry.py lists the figures; each is a module of benchmarks/. The other
modules here are what the figures share:

- runs.py: runs that resume where they were stopped;
- claims.py: claims and their criteria;
- series.py, drawing.py, page.py: figures and pages;
- provenance.py, score.py: what verdicts depend on, and the count of all of them (`dcgym reproduce --score`);
- setup.py, trainings.py, campaign.py, measured.py: contestants and lengths, trainings, and measured quantities, for papers that
  train;
- scaled.py and benchmarks/papers/rlcc/common.py: networks of 100 Gbit/s, slowed down, for papers on NICs.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from rich.table import Table

from dc_gym.base import terminal
from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.base.terminal import say
from dc_gym.reproduce import page, provenance, registry, score
from dc_gym.reproduce.claims import ClaimState
from dc_gym.reproduce.evidence import SHORTER
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.sweep import cpus

ALL = "all"
"""The word for all papers in the place of a paper."""
NONE = "none"
UNSCORED = ("list", "full", "seeds", "algorithms", "steps", "duration", "preset", "jobs", "retry")
"""Options that have no effect on a score, beside --set and --ground."""
OUT = Path("results") / "reproduce"
COLOURS = {
    ClaimState.REPRODUCED: "green",
    ClaimState.CONTRADICTED: "red",
    ClaimState.OPEN: "yellow",
    ClaimState.TOO_SHORT: "yellow",
    ClaimState.NOT_RUN: "dim",
}


def main(args: Namespace, progress: Progress) -> int:
    """Runs the named figures, or all figures of the paper, or of all papers. Returns 0 whatever the verdicts are."""
    if args.score:
        return _score(args)
    if args.list:
        _list()
        return 0
    if args.paper is None:
        raise UsageError(
            f"reproduce: name a paper ({', '.join(registry.PAPERS)}) or {ALL}; `dcgym reproduce --list` lists figures"
        )
    if args.paper == ALL and args.figures:
        raise UsageError(f"reproduce {ALL} {args.figures[0]}: name the paper of this figure instead of {ALL}")
    papers = list(registry.PAPERS.values()) if args.paper == ALL else [registry.find(args.paper)]
    chosen = [(paper, [paper.figure(number) for number in args.figures or paper.figures]) for paper in papers]
    out = (args.out or (OUT if args.paper == ALL else OUT / args.paper)).absolute()
    folders = {paper.name: out / paper.name if args.paper == ALL else out for paper in papers}
    if args.paper != ALL:
        _check_trains(args, papers[0])
    orders = {paper.name: _order(args, folders[paper.name]) for paper in papers}
    places = {
        page.mark_of(f"{paper.name} {each.number}"): _place(folders[paper.name], each.number)
        for paper, figures in chosen
        for each in figures
    }
    page.require_places(out, places, args.force)
    for paper, figures in chosen:
        for figure in figures:
            progress.note(f"{paper.name} {figure.number}: {figure.title}")
            made = provenance.now(figure.module, orders[paper.name])
            findings = figure.run(orders[paper.name], progress)
            if not made.complete:  # the figure's own runs have built the kernel, or fetched Open vSwitch
                made = provenance.now(figure.module, orders[paper.name])
            path = page.write(_place(folders[paper.name], figure.number), paper.name, figure.number, findings, made)
            _show(f"{paper.name} {figure.number}: {figure.title}", findings)
            say(_counts(findings) + f"page         {path}\n")
    found = {
        paper.title: [place for number in paper.figures if (place := _place(folders[paper.name], number)).is_dir()]
        for paper in papers
    }
    say(f"all claims   {page.overview(out, found)}")
    return 0


def _score(args: Namespace) -> int:
    """Counts the verdicts that are there. Returns 2 if figures have no results of today, as for other results that do not fit."""
    given = {name: getattr(args, name) for name in UNSCORED} | {"set": args.overrides, "ground": args.ground != "lab"}
    if said := next((f"--{name}" for name, value in given.items() if value), args.paper):
        raise UsageError(f"reproduce --score {said}: --score reads the results of all papers and runs nothing; leave {said} out")
    out = (args.out or OUT).absolute()
    if not out.is_dir():
        raise UsageError(f"reproduce --score: {out} is no folder; `dcgym reproduce {ALL}` makes results, or give its --out")
    if any(out.glob(f"figure-*/{page.CLAIMS}")):
        raise UsageError(f"reproduce --score: {out} has the figures of one paper; give the folder in which it is called PAPER")
    found = score.read(out)
    path = score.write(out, found, args.force)
    score.show(found)
    say(f"\nscore        {path}")
    for line in score.faults(found):
        say(f"dcgym: {line}", file=sys.stderr)
    return 0 if found.complete else UsageError.exit_code


def _place(folder: Path, number: str) -> Path:
    """Returns the folder of a figure's page."""
    return folder / f"figure-{number}"


def _counts(findings: Findings) -> str:
    """Returns a line with the number of claims per verdict, if any, and a line on what was shorter than it should be."""
    variants = dict.fromkeys(verdict.claim.variant for verdict in findings.verdicts)
    told = "; ".join(f"{each}: {_verdicts(findings, each)}" if each else _verdicts(findings, each) for each in variants)
    shorter = dict(findings.facts).get(SHORTER)
    return (f"claims       {told}\n" if told else "") + (f"shorter      {shorter}\n" if shorter else "")


def _verdicts(findings: Findings, variant: str) -> str:
    states = [verdict.state for verdict in findings.verdicts if verdict.claim.variant == variant]
    return ", ".join(f"{states.count(state)} {state}" for state in ClaimState if state in states)


def _check_trains(args: Namespace, paper: registry.Paper) -> None:
    """Raises UsageError if an option for trainings would have no effect."""
    chosen = args.figures or paper.figures
    figures = f"{', '.join(args.figures)} of {paper.name}" if args.figures else f"the figures of {paper.name}"
    for name, given in (("algorithms", args.algorithms), ("steps", args.steps), ("preset", args.preset)):
        if given is not None and paper.trains.isdisjoint(chosen):
            raise UsageError(f"--{name} {given}: nothing is trained for {figures}; leave it out")


def _order(args: Namespace, out: Path) -> ReproduceOptions:
    algorithms: tuple[str, ...] | None = None
    if args.algorithms is not None:
        algorithms = () if args.algorithms == NONE else tuple(name.strip() for name in args.algorithms.split(","))
        if "" in algorithms:
            raise UsageError(f"--algorithms {args.algorithms!r}: write it like PPO,DDPG, or none")
    return ReproduceOptions(
        out=out,
        full=args.full,
        seeds=args.seeds,
        steps=args.steps,
        duration=args.duration,
        algorithms=algorithms,
        preset=args.preset,
        overrides=tuple(args.overrides),
        ground=args.ground,
        jobs=args.jobs or cpus(),
        retry=args.retry,
        force=args.force,
    )


def _list() -> None:
    for paper in registry.PAPERS.values():
        say(f"{paper.name}: {paper.title}")
        for number in paper.figures:
            say(f"  {number:12} {paper.figure(number).title}")


def _show(title: str, findings: Findings) -> None:
    console = terminal.console(width=None if terminal.console().is_terminal else 160)
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for name in page.header(findings):
        table.add_column(name, overflow="fold")
    for row in page.cells(findings):
        table.add_row(*row)
    console.print(table)
    if findings.verdicts:
        claims = Table(show_edge=False, pad_edge=False)
        for name in ("claim", "measured", ""):
            claims.add_column(name, overflow="fold")
        for verdict in findings.verdicts:
            after = f" ({verdict.steps:,} steps)" if verdict.steps is not None and verdict.state is not ClaimState.NOT_RUN else ""
            state = f"[{COLOURS[verdict.state]}]{verdict.state}{after}[/]"
            why = f"\nwhy: {verdict.why}" if verdict.why else ""
            if verdict.explanation:
                why += f"\nshown by {verdict.explanation.experiment}: {verdict.explanation.showed}"
            claims.add_row(verdict.claim.title, "; ".join(dict.fromkeys(verdict.measured)) + why, state)
        console.print(claims)
