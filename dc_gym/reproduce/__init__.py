# SPDX-License-Identifier: Apache-2.0
"""`dcgym reproduce PAPER [FIGURE ...]`: a paper's figures, measured anew, beside what it claims (docs/reproduce-iroko.md).

registry.py says which figures there are; each is a module of benchmarks/. The rest is what such modules share: contestants and
lengths (setup.py), trainings and runs that go on where they were stopped (trainings.py, campaign.py), what was measured
(measured.py), claims and their criteria (claims.py), figure and page (drawing.py, page.py).
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dc_gym.errors import UsageError
from dc_gym.progress import Progress
from dc_gym.reproduce import page, registry
from dc_gym.reproduce.claims import State
from dc_gym.reproduce.findings import Findings
from dc_gym.reproduce.order import Order
from dc_gym.sweep import cpus

NONE = "none"
COLOURS = {State.REPRODUCED: "green", State.CONTRADICTED: "red", State.OPEN: "yellow"}


def main(args: Namespace, progress: Progress) -> int:
    """Runs the figures that are named, or all of the paper's; without a paper, names them. 0 whatever the verdicts are."""
    if args.paper is None:
        _list()
        return 0
    paper = registry.find(args.paper)
    figures = [paper.figure(number) for number in args.figures or paper.figures]
    order = _order(args, paper.name)
    for figure in figures:
        progress.note(f"{paper.name} {figure.number}: {figure.title}")
        findings = figure.run(order, progress)
        path = page.write(order.out / f"figure-{figure.number}", paper.name, figure.number, findings)
        _show(f"{paper.name} {figure.number}: {figure.title}", findings)
        print(_counts(findings) + f"page         {path}\n")
    return 0


def _counts(findings: Findings) -> str:
    """A line with how many claims have which verdict; nothing where there are no claims."""
    states = [verdict.state for verdict in findings.verdicts]
    told = ", ".join(f"{states.count(state)} {state}" for state in State if state in states)
    return f"claims       {told}\n" if told else ""


def _order(args: Namespace, paper: str) -> Order:
    algorithms: tuple[str, ...] | None = None
    if args.algorithms is not None:
        algorithms = () if args.algorithms == NONE else tuple(name.strip() for name in args.algorithms.split(","))
        if "" in algorithms:
            raise UsageError(f"--algorithms {args.algorithms!r}: write it like PPO,DDPG, or none")
    return Order(
        out=(args.out or Path("results") / "reproduce" / paper).absolute(),
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
        print(f"{paper.name}: {paper.title}")
        for number in paper.figures:
            print(f"  {number:12} {paper.figure(number).title}")


def _show(title: str, findings: Findings) -> None:
    console = Console(width=None if Console().is_terminal else 160)
    table = Table(title=title, title_justify="left", show_edge=False, pad_edge=False)
    for name in ("", *(column.title for column in findings.columns)):
        table.add_column(name, overflow="fold")
    for row in page.cells(findings.contenders, findings.columns):
        table.add_row(*row)
    console.print(table)
    if findings.verdicts:
        claims = Table(show_edge=False, pad_edge=False)
        for name in ("claim", "measured", ""):
            claims.add_column(name, overflow="fold")
        for verdict in findings.verdicts:
            after = f" ({verdict.steps:,} steps)" if verdict.steps is not None else ""
            state = f"[{COLOURS[verdict.state]}]{verdict.state}{after}[/]"
            claims.add_row(verdict.claim.text, "; ".join(dict.fromkeys(verdict.measured)), state)
        console.print(claims)
