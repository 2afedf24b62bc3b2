# SPDX-License-Identifier: Apache-2.0
"""`dcgym nic check`: can a NIC run this algorithm?

Compiles it, runs it under sanitizers, verifies it, and runs it in a kernel.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dc_gym.base import methods
from dc_gym.base.checks import Check, all_good, show
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.files import scratch
from dc_gym.ctrl.nic import algorithms, build, golden, kernels
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.algorithms import ResolvedParameters
from dc_gym.ctrl.nic.golden import RunnerDecision
from dc_gym.ctrl.nic.reference import FloatReference
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_kind import NicKindReference
from dc_gym.nets.nic_policy import NicPolicy

BUDGET = 1_000_000
"""Number of instructions that a kernel's verifier walks before it gives up."""
MOST_BYTES = 256
"""Bytes of context that a NIC here keeps for a flow (CC_STATE_WORDS_MAX)."""


def main(args: argparse.Namespace) -> int:
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        folder.chmod(0o755)
        header = Path(args.name) if args.name.endswith(".h") else algorithms.header_of(args.name)
        algorithm = build.compile_header(header, folder)
        setting = algorithms.resolve_parameters(algorithm, args.preset, {}, algorithms.SCALED_FOR_BPS)
        if args.policy and not algorithm.table:
            raise UsageError(f"--policy {args.policy}: {algorithm.name} reads no policy; leave it out")
        policy = nic_policy.path_of(args.policy) if args.policy else None
        checks = show(
            f"nic check {algorithm.name}", AlgorithmCheck(algorithm, setting, folder, policy).checks(args.here, args.no_kernel)
        )
    return 0 if all_good(checks) else 1


class AlgorithmCheck:
    """One algorithm, compiled in a folder."""

    def __init__(self, algorithm: Algorithm, setting: ResolvedParameters, folder: Path, policy: Path | None = None) -> None:
        self._algorithm, self._setting, self._folder = algorithm, setting, folder
        self._table = golden.table_of(algorithm, folder, policy)
        self._policy = nic_policy.load(algorithm.name, policy) if algorithm.table else None
        self._traces = {kind: golden.trace(kind, algorithm, 1) for kind in golden.KINDS}
        self._made: dict[str, Sequence[RunnerDecision]] = {}
        self._reference = algorithms.reference_of(algorithm.name)

    def checks(self, here: bool = False, no_kernel: bool = False) -> Iterator[Check]:
        """Yields all checks, the cheapest first."""
        yield self._size()
        yield self._sanitized()
        if self._reference is not None:
            yield self._held(self._reference)
        if self._policy and self._made:
            yield self._held_to_policy(self._policy)
        if not no_kernel:
            yield from self._in_kernel(kernels.run_here if here else kernels.run_in_lab)

    def _size(self) -> Check:
        count = 4 * self._algorithm.state_words
        actual = f"{count} bytes; events {', '.join(self._algorithm.events)}; {len(self._algorithm.parameters)} parameters"
        note = "" if self._algorithm.fits else "; does not fit a ConnectX"
        return Check("context of a flow", f"{MOST_BYTES} bytes, 48 on a ConnectX", actual + note, count <= MOST_BYTES)

    def _sanitized(self) -> Check:
        """Runs all traces in userspace. ASan and UBSan end a run at the first undefined behaviour."""
        argv = self._argv(build.compile_runner(self._algorithm.header, self._folder, sanitized=True))
        requirement, name = "no complaint of ASan or UBSan", "golden traces"
        try:
            self._made = {kind: golden.decisions(argv, steps) for kind, steps in self._traces.items()}
        except TestbedError as error:
            return Check(name, requirement, str(error), False)
        rates = [row.rate for rows in self._made.values() for row in rows]
        return Check(name, requirement, f"{len(rates):,} decisions: rates {min(rates)}..{max(rates)} / 2^20 of the line", True)

    def _held(self, reference: FloatReference | NicKindReference) -> Check:
        """Compares the decisions with the float reference, which dc-gym's own algorithms have."""
        name, values = self._algorithm.name, self._setting.values
        comparisons = {
            kind: golden.compare_with_reference(name, steps, self._made[kind], values)
            for kind, steps in self._traces.items()
            if kind in self._made
        }
        broken = [f"{kind}: {comparison.broken}" for kind, comparison in comparisons.items() if comparison.broken]
        measured = f"rates {max((comparison.rate for comparison in comparisons.values()), default=0.0):.1f} / 2^20"
        bound = reference.bound
        requirement = f"rates within {bound.rate:g} / 2^20" + (f" or {bound.relative:.2%}" if bound.relative else "")
        return Check("float reference", requirement, broken[0] if broken else measured, bool(comparisons) and not broken)

    def _held_to_policy(self, policy: NicPolicy) -> Check:
        """Compares each output of a policy with that in floats, for the same inputs and memory."""
        reference: NicKindReference = methods.nic_policies()[policy.kind].reference()
        bound = reference.output_bound
        count, most, wrong = reference.distances(
            policy, ((self._traces[kind], decisions) for kind, decisions in self._made.items())
        )
        words = f"{count:,} decisions: {most:.5f}" + ("" if wrong is None else f"; {wrong} differ from the integers in Python")
        return Check("policy in floats", f"{reference.outputs} within {bound}", words, most < bound and not wrong)

    def _in_kernel(self, kernel: kernels.Kernel) -> Iterator[Check]:
        """Verifies it as part of the NIC, counts its instructions alone, and runs it."""
        test = build.compile_test_object(self._algorithm.header, kernels.test_object(self._algorithm))
        alone = kernels.arguments(test, self._setting.values)
        requirement = f"verifier: below {BUDGET:,}"
        try:
            whole, parts = kernels.load(kernel, [kernels.arguments(self._algorithm.object), alone])
        except TestbedError as error:
            yield Check("loaded", requirement, str(error), False)
            return
        most = max(whole, key=lambda program: program.verified)
        size = f"{sum(program.instructions for program in whole):,} instructions; verifier {most.verified:,} in {most.name}"
        yield Check("the NIC with it", requirement, size, most.verified < BUDGET)
        sizes = {program.name: program for program in parts}
        count = sizes["nic_test"].instructions - sizes["nic_null"].instructions
        yield Check("a decision", "counted", f"{count} instructions; verifier {sizes['nic_test'].verified:,}", True)
        if self._made:
            yield self._equal(kernel, test)

    def _equal(self, kernel: kernels.Kernel, test: Path) -> Check:
        """Checks that BPF decides the same as userspace, bit for bit."""
        rates = golden.rates_text() if self._algorithm.telemetry else ""
        words = kernels.arguments(test, self._setting.values, self._table, rates=rates)
        answers = kernel([kernels.CctestCall(words, golden.text(steps)) for steps in self._traces.values()])
        wrong = []
        for (kind, steps), answer in zip(self._traces.items(), answers, strict=True):
            rows = [golden.parsed(line) for line in answer.lines()]
            places = [n for n, pair in enumerate(zip(rows, self._made[kind], strict=True)) if pair[0] != pair[1]]
            wrong += [f"{kind}, {steps[n][0]}: {rows[n]}, userspace {self._made[kind][n]}" for n in places[:1]]
        summary = f"equal: {sum(map(len, self._traces.values())):,} decisions"
        return Check("BPF against userspace", "equal", wrong[0] if wrong else summary, not wrong)

    def _argv(self, runner: Path) -> list[str]:
        return golden.runner_argv(replace(self._algorithm, runner=runner), self._setting.values, self._table)
