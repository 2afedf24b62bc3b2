# SPDX-License-Identifier: Apache-2.0
"""`dcgym grade LAB --student ID`: prints a student's task; with --submission DIR, grades what the student hands in.

Exit codes: 0: it is graded, right or wrong; 1: runs are missing or not the student's, or not proven; 2: it cannot be graded.
"""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from dc_gym.base.files import scratch
from dc_gym.base.progress import Progress
from dc_gym.base.readable import columns
from dc_gym.base.terminal import say
from dc_gym.grade import marking, proof, rubric, submission
from dc_gym.grade.marking import Report
from dc_gym.run.sweep import cpus


def main(args: Namespace, progress: Progress) -> int:
    """Returns the exit code."""
    lab = rubric.read(args.lab)
    if args.submission is None:
        say("\n".join(lab.task(args.student)))
        return 0
    points = lab.points_of(args.student)
    progress.phase(f"reading {len(points)} runs")
    read = submission.read(args.submission, lab, points)
    with scratch(Path(tempfile.gettempdir()), "dcgym-verify-") as folder:
        proven = proof.prove(points, read.runs, args.sample, args.jobs or cpus(), folder, progress)
    report = marking.report(lab, args.student, read, proven)
    whole = asdict(report) | {"points": report.points, "most": report.most, "seeds": list(report.seeds)}
    say(json.dumps(whole, indent=1) if args.json else "\n".join(lines(report)))
    return 0 if report.proven and not report.findings else 1


def lines(report: Report) -> Iterator[str]:
    """Yields the report in words."""
    heads = ["question", "answer", "own runs", "points", ""]
    yield columns([heads, *([row.question, row.answer or "-", row.value, row.got, row.why] for row in report.marks)])
    yield from (f"{name}: {text}" for name, text in report.findings.items())
    yield from report.notes
    yield f"{report.lab}, student {report.student}: {report.points:g} of {report.most:g} points; {report.proof}"
