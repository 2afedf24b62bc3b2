# SPDX-License-Identifier: Apache-2.0
"""RL-CC's figure 11 as a trace, and pictures of policies."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from dc_gym.cli.main import main
from dc_gym.methods.rlcc.offline import bottleneck, scenario
from dc_gym.methods.rlcc.offline.pictures import policies
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import TablePolicy
from dc_gym.results.results import load_result

TREE = nic_policy.load("rlcc-tree")


def test_flows_leave_and_come_again() -> None:
    times = np.array([-1.0, scenario.LEAVE_AT - 1, scenario.LEAVE_AT, scenario.RETURN_AT, scenario.END_AT - 1])
    assert scenario.flows_at(times).tolist() == [0, 4, 2, 3, 4]


def test_the_flow_is_under_utilized_after_they_left_and_congested_once_they_are_back() -> None:
    trace = scenario.in_fluid(TREE)
    left = (trace.times > scenario.LEAVE_AT + 2) & (trace.times < scenario.LEAVE_AT + 6)
    assert (trace.errors[left] < -scenario.CONGESTED).all() and (trace.actions[left] > 1).all()
    back = (trace.times > scenario.RETURN_AT + 5) & (trace.times < scenario.RETURN_AT + 15)
    assert (trace.errors[back] > scenario.CONGESTED).all() and (trace.actions[back] < 1).all()
    late = trace.times > scenario.LEAVE_AT
    states = "".join(state for state, _ in groupby(np.array(trace.state())[late]))
    assert "u" in states and "t" in states and "c" in states
    fixed = trace.rates[1:] - np.clip(trace.rates[:-1] * trace.actions[1:], 2.0**-14, 1.0)
    assert np.abs(fixed).max() < 1e-9  # nothing but its actions moves its rate


def test_an_answer_to_a_step_is_the_policy_s_on_its_own_history() -> None:
    unit, policy = TREE.scaling.unit, TablePolicy(TREE.table())
    acted = scenario.open_loop_actions(policy, [0.0, 0.0, 2.0], unit)
    assert acted[2] == float(policy([acted[0], 0.0, acted[1], 2.0 * unit]))


def test_the_command_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies, "FLOWS", (2, 8))
    assert main(["method", "rlcc", "explain", "rlcc-tree", "--out", str(tmp_path / "a" / "b")]) == 0
    names = {Path(line).name for line in capsys.readouterr().out.splitlines()}
    assert names == {"policy.png", "surfaces.png", "steps.png", "scenario.png"}
    assert all((tmp_path / "a" / "b" / name).read_bytes().startswith(b"\x89PNG") for name in names)
    (tmp_path / "file").write_text("")
    assert main(["method", "rlcc", "explain", "rlcc-tree", "--out", str(tmp_path / "file")]) == 2


@pytest.mark.lab
@pytest.mark.long
def test_a_policy_is_deployed_run_and_traced_on_the_data_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["method", "rlcc", "export", "rlcc-tree", "--out", str(tmp_path / "out"), "--flows", "2"]) == 0
    assert "each as the table says in Python" in capsys.readouterr().out
    trace = scenario.of_run(load_result(tmp_path / "out" / "run"))
    assert len(trace.times) > 1000 and trace.inflation.min() > 0.99 and trace.rates.max() <= 1.0


def test_the_bottleneck_s_base_round_trip_is_what_runs_say(tmp_path: Path) -> None:
    cell = bottleneck.BottleneckRun("rlcc-tree", 3, 10, 10).cell(tmp_path, "three")
    assert bottleneck.base_ns(cell) == bottleneck.BASE_NS
