# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench nic-golden`: what the NIC's algorithms decide, against float references and from kernel to kernel.

Each preset of each algorithm decides on four golden traces (ctrl/nic/golden.py): in userspace, within a stated distance of its
float reference; in a lab's BPF and, where there is BPF and root, in this machine's, bit for bit as in userspace.
DCQCN's alpha is held to its recursion in 10 bits, event by event.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.bench.report import Bar
from dc_gym.ctrl.nic import algorithms, golden, kernels
from dc_gym.ctrl.nic.algorithms import Algorithm
from dc_gym.ctrl.nic.golden import NEW_FLOW, Decided, Step
from dc_gym.ctrl.nic.reference import REFERENCES, Dcqcn
from dc_gym.folder import scratch

ALPHA_WORD = 2
"""Of DCQCN's state."""


@dataclass(frozen=True, slots=True)
class Case:
    """One trace for one preset."""

    algorithm: Algorithm
    preset: str
    values: Mapping[str, int]
    kind: str
    steps: Sequence[Step]
    made: Sequence[Decided]
    """In userspace."""

    @property
    def name(self) -> str:
        return f"{self.algorithm.name}{self.preset and ' ' + self.preset}, {self.kind}"


def bars(seeds: int = 3) -> Iterable[Bar]:
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        known = [algorithms.load(name, folder) for name in algorithms.names() if name in REFERENCES]
    cases = [case for each in known for case in of(each, seeds)]
    for each in known:
        yield _references([case for case in cases if case.algorithm == each])
    yield _alphas([case for case in cases if case.algorithm.name == "dcqcn"])
    yield _kernel("a lab's BPF", kernels.lab, cases)
    why = kernels.why_not_here()
    yield (
        Bar("this machine's BPF", "equal", why, False, skipped=True)
        if why
        else _kernel("this machine's BPF", kernels.here, cases)
    )


def of(algorithm: Algorithm, seeds: int) -> Iterator[Case]:
    """All presets of an algorithm on all kinds of traces."""
    for preset in [each.name for each in algorithm.presets] or [""]:
        values = golden.values_of(algorithm, preset)
        for kind in golden.KINDS:
            steps = [step for seed in range(1, seeds + 1) for step in golden.trace(kind, algorithm, seed)]
            made = golden.decisions(golden.runner_argv(algorithm, values), steps)
            yield Case(algorithm, preset, values, kind, steps, made)


def _references(cases: Sequence[Case]) -> Bar:
    """The largest distances of one algorithm, and the first decision that is out of bounds."""
    found = [golden.held(case.algorithm.name, case.steps, case.made, case.values) for case in cases]
    broken = [f"{case.name}: {each.broken}" for case, each in zip(cases, found, strict=True) if each.broken]
    name = cases[0].algorithm.name
    bound = golden.BOUNDS[name]
    relative = f" or {bound.relative:.1%}, windows {bound.relative:.1%} and a byte" if bound.relative else ""
    asked = f"rates within {bound.rate:g} / 2^20 of the line{relative}"
    rate, window = max(each.rate for each in found), max(each.window for each in found)
    measured = f"{sum(each.decisions for each in found):,} decisions: rates {rate:.1f} / 2^20, windows {window:.3%}"
    return Bar(f"{name} against float", asked, broken[0] if broken else measured, not broken)


def _alphas(cases: Sequence[Case]) -> Bar:
    """Alpha after each event."""
    wrong = [line for case in cases for line in wrong_alphas(case)]
    events = sum(len(case.steps) for case in cases)
    return Bar("dcqcn's alpha against 10 bits", "equal", wrong[0] if wrong else f"equal at {events:,} events", not wrong)


def wrong_alphas(case: Case) -> Iterator[str]:
    reference = Dcqcn(case.values)
    for number, ((event, flow), made) in enumerate(zip(case.steps, case.made, strict=True), 1):
        if event.flags & NEW_FLOW:
            reference = Dcqcn(case.values)
        reference.on_event(event, flow)
        if made.state[ALPHA_WORD] != reference.alpha:
            yield f"{case.name}, line {number}: alpha {made.state[ALPHA_WORD]}, not {reference.alpha}"


def _kernel(name: str, kernel: kernels.Kernel, cases: Sequence[Case]) -> Bar:
    """All traces once more through BPF_PROG_TEST_RUN."""
    wrong = list(differing(kernel, cases))
    decisions = sum(len(case.made) for case in cases)
    return Bar(f"{name} against userspace", "equal", wrong[0] if wrong else f"equal: {decisions:,} decisions", not wrong)


def differing(kernel: kernels.Kernel, cases: Sequence[Case]) -> Iterator[str]:
    """Where a kernel decides otherwise."""
    objects = [kernels.test_object(case.algorithm) for case in cases]
    commands = [
        kernels.Command(kernels.arguments(path, case.values), golden.text(case.steps))
        for path, case in zip(objects, cases, strict=True)
    ]
    for case, answer in zip(cases, kernel(commands), strict=True):
        got = [golden.parsed(line) for line in answer.lines()]
        for number, (theirs, ours) in enumerate(zip(got, case.made, strict=True), 1):
            if theirs != ours:
                yield f"{case.name}, line {number}: {theirs}, userspace {ours}"
                break
