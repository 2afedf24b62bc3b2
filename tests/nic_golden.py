# SPDX-License-Identifier: Apache-2.0
"""The NIC algorithms' decisions on golden traces (ctrl/nic/golden.py), and what they are held to.

Each preset of each algorithm decides on four traces. In userspace its decisions must be within a stated distance of its float
reference. DCQCN's alpha is compared with its recursion in 10 bits, event by event. A method's policy is compared with floats
decision by decision, for the same inputs, and what surrounds it with a float reference if there is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.ctrl.nic import golden, kernels
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.algorithms.dcqcn.reference import REFERENCE, Dcqcn
from dc_gym.ctrl.nic.golden import KINDS, NEW_FLOW, RunnerDecision, Step
from dc_gym.nets import nic_kind, nic_policy

ALPHA_WORD = 2
"""Index of alpha in DCQCN's state."""
ALPHA_ONE = 1 << 30
ALPHA_ERROR = 2**-20
"""The largest error of alpha with 30 fraction bits, as a number from 0 to 1."""


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


def of(algorithm: Algorithm, seeds: int, folder: Path) -> Iterator[TraceCase]:
    """Yields all presets of an algorithm on all kinds of traces, and once more with flows that begin at a share of the line if it
    has `rate_initial` and no policy."""
    table = golden.table_of(algorithm, folder)
    presets = [preset.name for preset in algorithm.presets] or [""]
    sets = [(preset, golden.values_of(algorithm, preset)) for preset in presets]
    if not table and "rate_initial" in sets[0][1]:
        sets += [(f"{preset} from 1/64", {**values, "rate_initial": golden.Q20 // 64}) for preset, values in sets]
    for preset, values in sets:
        traces = {kind: [step for seed in range(1, seeds + 1) for step in golden.trace(kind, algorithm, seed)] for kind in KINDS}
        for kind, steps in traces.items():
            decisions = golden.decisions(golden.runner_argv(algorithm, values, table), steps)
            yield TraceCase(algorithm, preset, values, kind, steps, decisions, table)


def against_reference(case: TraceCase) -> tuple[golden.Distance, list[str]]:
    """Returns how far the decisions are from the reference's, and the events after which DCQCN's alpha is not its recursion's."""
    name = case.algorithm.name
    if name != "dcqcn":
        return golden.compare_with_reference(name, case.steps, case.made, case.values), []
    reference, expected, wrong = Dcqcn(case.values), [], []
    for number, ((event, flow), decision) in enumerate(zip(case.steps, case.made, strict=True), 1):
        if event.flags & NEW_FLOW:
            reference = Dcqcn(case.values)
        expected.append(reference.on_event(event, flow))
        alpha = decision.state[ALPHA_WORD] / ALPHA_ONE
        if abs(alpha - reference.alpha) > (0 if case.values["short_alpha"] else ALPHA_ERROR):
            wrong.append(f"{case.name}, line {number}: alpha {alpha}, not {reference.alpha}")
    return golden.distance(REFERENCE.bound, case.steps, case.made, expected), wrong


def kind_distances(cases: Sequence[TraceCase]) -> tuple[int, float, int | None]:
    """Returns the number of decisions of a policy of a method's kind, its largest distance from floats, and how many are not its
    integers in Python (None: not compared)."""
    name = cases[0].algorithm.name
    reference = nic_kind.reference_of(name)
    assert reference is not None
    return reference.distances(nic_policy.load(name), ((case.steps, case.made) for case in cases))


def differing(kernel: kernels.Kernel, cases: Sequence[TraceCase], native: bool = False) -> Iterator[str]:
    """Yields the first difference of each case between a kernel's decisions and those in userspace."""
    commands = [kernels.CctestCall(_arguments(case, native), golden.text(case.steps)) for case in cases]
    for case, answer in zip(cases, kernel(commands), strict=True):
        kernel_rows = [golden.parsed(line) for line in answer.lines()]
        for number, (kernel_row, userspace_row) in enumerate(zip(kernel_rows, case.made, strict=True), 1):
            if kernel_row != userspace_row:
                yield f"{case.name}, line {number}: {kernel_row}, userspace {userspace_row}"
                break


def _arguments(case: TraceCase, native: bool) -> tuple[str, ...]:
    rates = golden.rates_text() if case.algorithm.telemetry else ""
    if native:
        return kernels.native_arguments(case.algorithm, case.values, case.table, rates=rates)
    return kernels.arguments(kernels.test_object(case.algorithm), case.values, case.table, rates=rates)
