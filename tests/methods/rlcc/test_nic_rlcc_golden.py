# SPDX-License-Identifier: Apache-2.0
"""RL-CC's algorithms on golden traces and on the lives of Table VI: their actions, each for its own inputs, against floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import nic_golden
import pytest
from nic_golden import TraceCase

from dc_gym.base.package import PROGRAMS
from dc_gym.ctrl.nic import algorithms, golden, kernels
from dc_gym.methods.rlcc.offline import cells
from dc_gym.nets import nic_policy

ALGORITHMS = ("rlcc-mlp", "rlcc-mlp8", "rlcc-lstm", "rlcc-tree")


def lives_of_table_six(case: TraceCase) -> TraceCase:
    """Returns the trace of Table VI for the algorithm of a case."""
    steps = cells.trace_of_table(nic_policy.load(case.algorithm.name))
    decisions = golden.decisions(golden.runner_argv(case.algorithm, case.values, case.table), steps)
    return replace(case, kind="Table VI", steps=steps, made=decisions)


def verify_policy(cases: Sequence[TraceCase], lives: TraceCase) -> None:
    file = nic_policy.load(lives.algorithm.name)
    assert max(cells.distance(file, case.steps, case.made)[1] for case in (*cases, lives)) < cells.BOUNDS[file.kind]
    rows = cells.table_of_trace(file, lives.made)
    assert len(rows) == 9 and max(abs(cell.integer - cell.exact) for cell in rows) < cells.TABLE_BOUND


@pytest.mark.parametrize("name", ALGORITHMS)
def test_policies_are_held_to_their_floats_and_go_through_table_six(name: str, tmp_path: Path) -> None:
    traces = tuple(nic_golden.of(algorithms.load(name, PROGRAMS), 1, tmp_path))
    lives = lives_of_table_six(traces[0])
    verify_policy(traces, lives)
    wrong = [
        replace(decision, state=(*decision.state[:4], (decision.state[4] + 4000) % 2**32, *decision.state[5:]))
        for decision in traces[0].made
    ]
    with pytest.raises(AssertionError):
        verify_policy((replace(traces[0], made=wrong), *traces[1:]), lives)


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("name", ALGORITHMS)
def test_table_six_in_every_machine(name: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # a lab that root starts runs as another user
    first, *_ = nic_golden.of(algorithms.load(name, PROGRAMS), 1, tmp_path)
    lives = [lives_of_table_six(first)]
    assert list(nic_golden.differing(kernels.run_in_lab, lives)) == []
    assert list(nic_golden.differing(kernels.run_in_lab, lives, native=True)) == []
