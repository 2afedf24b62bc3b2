# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench nic-golden`: compares the NIC algorithms' decisions with float references, and between kernels.

Each preset of each algorithm decides on four golden traces (ctrl/nic/golden.py). In userspace its decisions must be within a
stated distance of its float reference. As machine code of a lab's kernel, in a lab's BPF and, with BPF and root, in this
machine's, they must equal those in userspace bit for bit. DCQCN's alpha is compared with its recursion in 10 bits, event by
event. RL-CC's algorithms have their actions among their next inputs, so they are compared with their policies in floats decision
by decision, for the same inputs. They also run through Table VI. FDCC is compared in both ways: what surrounds its policy with a
float reference, and its policy decision by decision with floats, and bit for bit with the integers in Python.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.base.files import scratch
from dc_gym.ctrl.nic import algorithms, golden, kernels
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.golden import BOUNDS, KINDS, NEW_FLOW, RunnerDecision, Step
from dc_gym.ctrl.nic.reference_dcqcn import Dcqcn
from dc_gym.ctrl.nic.reference_fdcc import POLICY_BOUNDS, policy_distances
from dc_gym.methods.rlcc import cells
from dc_gym.nets import nic_policy

ALPHA_WORD = 2
"""Index of alpha in DCQCN's state."""
ALPHA_ONE = 1 << 30
ALPHA_ERROR = 2**-20
"""The largest error of alpha with 30 fraction bits, as a number from 0 to 1."""
TABLE_SIX = "Table VI"


@dataclass(frozen=True, slots=True)
class TraceCase:
    """One trace for one preset."""

    algorithm: Algorithm
    preset: str
    values: Mapping[str, int]
    kind: str
    steps: Sequence[Step]
    made: Sequence[RunnerDecision]
    """The decisions in userspace."""
    table: Path | None = None
    """The table of its policy."""

    @property
    def name(self) -> str:
        return f"{self.algorithm.name}{self.preset and ' ' + self.preset}, {self.kind}"


def checks(seeds: int = 3) -> Iterable[Check]:
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        folder.chmod(0o755)
        loaded = [algorithms.load(name, folder) for name in algorithms.names()]
        known = [each for each in loaded if each.name in BOUNDS or each.table]
        cases = [case for each in known for case in of(each, seeds, folder)]
        for each in known:
            mine = [case for case in cases if case.algorithm == each]
            if each.name in BOUNDS:
                yield from _references(mine)
            if each.table:
                yield from fdcc_checks(mine) if each.name in nic_policy.FDCC_KINDS else policy_checks(mine)
        built_in = [case for case in cases if case.algorithm.native]
        yield _kernel("a lab's native code", kernels.run_in_lab, built_in, native=True)
        yield _kernel("a lab's BPF", kernels.run_in_lab, cases)
        why = kernels.reason_not_here()
        yield (
            Check("this machine's BPF", "equal", why, False, skipped=True)
            if why
            else _kernel("this machine's BPF", kernels.run_here, cases)
        )


def of(algorithm: Algorithm, seeds: int, folder: Path) -> Iterator[TraceCase]:
    """Yields all presets of an algorithm on all kinds of traces, and once more with flows that begin at a share of the line if it
    has `rate_initial`; with a policy also on the lives of Table VI."""
    table = golden.table_of(algorithm, folder)
    presets = [each.name for each in algorithm.presets] or [""]
    sets = [(preset, golden.values_of(algorithm, preset)) for preset in presets]
    if not table and "rate_initial" in sets[0][1]:
        sets += [(f"{preset} from 1/64", {**values, "rate_initial": golden.Q20 // 64}) for preset, values in sets]
    for preset, values in sets:
        traces = {kind: [step for seed in range(1, seeds + 1) for step in golden.trace(kind, algorithm, seed)] for kind in KINDS}
        if table and algorithm.name not in nic_policy.FDCC_KINDS:
            traces[TABLE_SIX] = cells.trace_of_table(nic_policy.load(algorithm.name))
        for kind, steps in traces.items():
            made = golden.decisions(golden.runner_argv(algorithm, values, table), steps)
            yield TraceCase(algorithm, preset, values, kind, steps, made, table)


def _references(cases: Sequence[TraceCase]) -> Iterator[Check]:
    """Yields the check with one algorithm's largest distances or its first decision out of bounds, and DCQCN's on alpha."""
    compared = [against_reference(case) for case in cases]
    found = [each for each, _ in compared]
    broken = [f"{case.name}: {each.broken}" for case, each in zip(cases, found, strict=True) if each.broken]
    name = cases[0].algorithm.name
    bound = golden.BOUNDS[name]
    rest = "a packet" if bound.whole_packets else "a byte"
    relative = f" or {bound.relative:.2%}, windows {bound.relative:.2%} and {rest}" if bound.relative else ""
    asked = f"rates within {bound.rate:g} / 2^20 of the line{relative}"
    rate, window = max(each.rate for each in found), max(each.window for each in found)
    measured = f"{sum(each.decisions for each in found):,} decisions: rates {rate:.1f} / 2^20, windows {window:.3%}"
    yield Check(f"{name} against float", asked, broken[0] if broken else measured, not broken)
    if name == "dcqcn":
        wrong = [line for _, lines in compared for line in lines]
        good = f"so at {sum(len(case.steps) for case in cases):,} events"
        yield Check("dcqcn's alpha", "equal with 10 bits, else within 2^-20", wrong[0] if wrong else good, not wrong)


def against_reference(case: TraceCase) -> tuple[golden.Distance, list[str]]:
    """Returns how far the decisions are from the reference's, and the events after which DCQCN's alpha is not its recursion's."""
    name = case.algorithm.name
    if name != "dcqcn":
        return golden.compare_with_reference(name, case.steps, case.made, case.values), []
    reference, said, wrong = Dcqcn(case.values), [], []
    for number, ((event, flow), made) in enumerate(zip(case.steps, case.made, strict=True), 1):
        if event.flags & NEW_FLOW:
            reference = Dcqcn(case.values)
        said.append(reference.on_event(event, flow))
        alpha = made.state[ALPHA_WORD] / ALPHA_ONE
        if abs(alpha - reference.alpha) > (0 if case.values["short_alpha"] else ALPHA_ERROR):
            wrong.append(f"{case.name}, line {number}: alpha {alpha}, not {reference.alpha}")
    return golden.distance(golden.BOUNDS[name], case.steps, case.made, said), wrong


def policy_checks(cases: Sequence[TraceCase]) -> Iterator[Check]:
    """Yields the checks on a policy's actions, each for its own inputs, and on RL-CC's Table VI."""
    name = cases[0].algorithm.name
    file = nic_policy.load(name)
    bound = cells.BOUNDS[file.kind]
    found = [cells.distance(file, case.steps, case.made) for case in cases]
    count, most = sum(each[0] for each in found), max(each[1] for each in found)
    yield Check(f"{name} against float", f"actions within {bound}", f"{count:,} decisions: {most:.5f}", most < bound)
    (lives,) = (case for case in cases if case.kind == TABLE_SIX)
    rows = cells.table_of_trace(file, lives.made)
    off = max(abs(cell.integer - cell.exact) for cell in rows)
    paper = " ".join(f"{cell.integer - cell.paper:+.3f}" for cell in rows)
    asked, measured = f"actions within {cells.TABLE_BOUND}", f"{off:.5f}; off the paper's nine by {paper}"
    yield Check(f"{name}, Table VI against float", asked, measured, off < cells.TABLE_BOUND)


def fdcc_checks(cases: Sequence[TraceCase]) -> Iterator[Check]:
    """Yields the checks on a policy of FDCC: its outputs against floats, and all its numbers against its integers in Python."""
    name = cases[0].algorithm.name
    file, bound = nic_policy.load(name), POLICY_BOUNDS[name]
    count, most, wrong = policy_distances(file, ([row.state for row in case.made] for case in cases))
    many = f"{count:,} decisions"
    yield Check(f"{name}'s policy against float", f"outputs within {bound}", f"{many}: {most:.5f}", most < bound)
    yield Check(f"{name}'s policy against its integers", "equal", f"{many}: {wrong} differ", not wrong)


def _kernel(name: str, kernel: kernels.Kernel, cases: Sequence[TraceCase], native: bool = False) -> Check:
    """Returns the check on all traces run through BPF_PROG_TEST_RUN."""
    wrong = list(differing(kernel, cases, native))
    decisions = sum(len(case.made) for case in cases)
    return Check(f"{name} against userspace", "equal", wrong[0] if wrong else f"equal: {decisions:,} decisions", not wrong)


def differing(kernel: kernels.Kernel, cases: Sequence[TraceCase], native: bool = False) -> Iterator[str]:
    """Yields the first difference of each case between a kernel's decisions and those in userspace."""
    commands = [kernels.CctestCall(_arguments(case, native), golden.text(case.steps)) for case in cases]
    for case, answer in zip(cases, kernel(commands), strict=True):
        got = [golden.parsed(line) for line in answer.lines()]
        for number, (theirs, ours) in enumerate(zip(got, case.made, strict=True), 1):
            if theirs != ours:
                yield f"{case.name}, line {number}: {theirs}, userspace {ours}"
                break


def _arguments(case: TraceCase, native: bool) -> tuple[str, ...]:
    rates = golden.rates_text() if case.algorithm.telemetry else ""
    if native:
        return kernels.native_arguments(case.algorithm, case.values, case.table, rates=rates)
    return kernels.arguments(kernels.test_object(case.algorithm), case.values, case.table, rates=rates)
