# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench nic-cost`: the cost of a decision for each NIC algorithm. `dcgym bench speed` has the cost of a packet.

Where permitted, decisions are timed natively, with BPF_PROG_TEST_RUN and many repetitions in this machine's kernel, whose JIT
compiles them to machine code. The time of the same program without the decision is subtracted. Otherwise the userspace runner is
timed, and the check notes it.

Each event of a golden trace is timed alone, in the state that the flow has then. The mean is over the events of a type. All
repetitions see the same clock, so catching up after a silence counts once. An algorithm that decides once a period does so at
each ACK here.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base import methods
from dc_gym.base.checks import Check
from dc_gym.base.files import scratch
from dc_gym.ctrl.nic import algorithms, golden, kernels
from dc_gym.ctrl.nic.algorithm import Algorithm
from dc_gym.ctrl.nic.golden import TYPES, Step

REPEAT, EVENTS = 20_000, 60
DECIDING = {"period": 0}
"""Parameters with which an algorithm decides at each repetition of an event, though no time has passed since the last."""
NATIVE, USERSPACE = "this kernel's JIT", "userspace, not BPF"


@dataclass(frozen=True, slots=True)
class AlgorithmCost:
    """The cost of one algorithm."""

    algorithm: Algorithm
    instructions: int
    """BPF instructions of a decision."""
    verified: int
    times_ns: Mapping[str, float]
    """Mean time in ns, by type of event."""
    how: str

    @property
    def worst_ns(self) -> float:
        return max(self.times_ns.values(), default=0.0)


def checks() -> Iterable[Check]:
    why = kernels.reason_not_here()
    if why:
        yield Check("native time", "in this machine's kernel", why, False, skipped=True)
    with scratch(Path(tempfile.gettempdir()), "dcgym-nic-") as folder:
        for cost in measured(folder, native=not why):
            yield _check(cost)


def measured(folder: Path, native: bool, names: Sequence[str] | None = None) -> Iterator[AlgorithmCost]:
    """Yields the cost of each algorithm (`names` None: all).

    The instruction counts come from a kernel, this machine's or a lab's.
    """
    known = [algorithms.load(name, folder) for name in names or algorithms.names()]
    calls = [kernels.arguments(kernels.test_object(algorithm), _values(algorithm)) for algorithm in known]
    loaded = kernels.load(kernels.run_here if native else kernels.run_in_lab, calls)
    for algorithm, programs in zip(known, loaded, strict=True):
        table = golden.table_of(algorithm, folder)
        steps = golden.trace("fabric", algorithm, 1, flows=1, steps=EVENTS)
        times = _native(algorithm, steps, table) if native else _userspace(algorithm, steps, table)
        named = {program.name: program for program in programs}
        test, null = named["nic_test"], named["nic_null"]
        how = NATIVE if native else USERSPACE
        yield AlgorithmCost(algorithm, test.instructions - null.instructions, test.verified, times, how)


def _values(algorithm: Algorithm) -> Mapping[str, int]:
    values = golden.values_of(algorithm, "")
    return {**values, **{name: value for name, value in DECIDING.items() if name in values}}


def _native(algorithm: Algorithm, steps: Sequence[Step], table: Path | None) -> dict[str, float]:
    rates = golden.rates_text() if algorithm.telemetry else ""
    words = kernels.arguments(kernels.test_object(algorithm), _values(algorithm), table, REPEAT, rates)
    (answer,) = kernels.run_here([kernels.CctestCall(words, golden.text(steps))])
    times = list(map(float, answer.lines()))
    names = {number: name for name, number in TYPES.items()}
    by_type: dict[str, list[float]] = {}
    for (event, _), took_ns in zip(steps, times, strict=True):
        by_type.setdefault(names[event.type], []).append(took_ns)
    return {name: sum(times_ns) / len(times_ns) for name, times_ns in by_type.items()}


def _userspace(algorithm: Algorithm, steps: Sequence[Step], table: Path | None) -> dict[str, float]:
    """Returns the mean over all events, since the runner's clock is too coarse for a single one."""
    argv = [*golden.runner_argv(algorithm, _values(algorithm), table), "--repeat", str(REPEAT)]
    process = subprocess.run(argv, input=golden.text(steps), capture_output=True, text=True, check=True, timeout=300)
    return {"all": float(process.stdout)}


def _check(cost: AlgorithmCost) -> Check:
    times = ", ".join(f"{name} {took_ns:.0f}" for name, took_ns in cost.times_ns.items())
    size = f"{cost.instructions} instructions, {4 * cost.algorithm.state_words} bytes a flow, verifier {cost.verified:,}"
    policies = methods.nic_policies().values()
    bound_ns = next((policy.bound_ns for policy in policies if policy.algorithm == cost.algorithm.name), None)
    required = "reported" if bound_ns is None else f"< {bound_ns} ns"
    within = bound_ns is None or cost.worst_ns < bound_ns
    return Check(cost.algorithm.name, required, f"{times} ns ({cost.how}); {size}", within)
