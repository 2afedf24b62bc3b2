# SPDX-License-Identifier: Apache-2.0
"""ACC's net in integers, compiled: it decides as the Python form does, and the bench says when it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dc_gym.base.errors import TestbedError
from dc_gym.base.stats import Estimate
from dc_gym.benchmarks import bench
from dc_gym.methods.acc.bench import acc_cost
from dc_gym.methods.acc.bench.acc_cost import Played
from dc_gym.methods.acc.policy import SHIPPED, AccPolicy
from dc_gym.methods.acc.q_int8 import IntegerQNetwork
from dc_gym.methods.acc.q_network import QNetwork
from dc_gym.methods.acc.template import DEPLOYED


@pytest.mark.parametrize("sizes", [(20, 40, 40, 20), (12, 16, 7), (4, 3)])
def test_the_compiled_form_decides_as_the_python_form(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    random = np.random.default_rng(5)
    integer, states = IntegerQNetwork.of(QNetwork.random(sizes, random)), 2 * random.random((300, sizes[0]))
    took_ns, chosen = acc_cost.infer(integer, states, tmp_path, 1)
    assert took_ns > 0 and len(set(chosen.tolist())) > 1
    assert (chosen == integer.best(states)).all()


def test_what_are_no_rows_and_states_is_one_line(tmp_path: Path) -> None:
    integer = IntegerQNetwork.of(QNetwork.random((4, 3), np.random.default_rng(1)))
    with pytest.raises(TestbedError, match=r"^acc_inference: 17 words .*$"):
        acc_cost.infer(integer, np.zeros((1, 5)), tmp_path, 1)


def test_the_bench_fails_where_decisions_differ_or_reward_is_lost() -> None:
    policy = AccPolicy.read(SHIPPED[DEPLOYED.name])
    integer = IntegerQNetwork.of(policy.net)
    states = np.random.default_rng(2).random((50, 20))
    chosen = integer.best(states)

    def failed(gain: float, actions: np.ndarray) -> list[str]:
        played = Played(states, Estimate(gain, 0.001, 12))
        return [check.name for check in acc_cost.verdicts(policy, integer, played, 100.0, actions) if not check.ok]

    assert failed(-0.001, chosen) == [] and failed(-0.01, chosen) == ["reward"]
    assert failed(0.0, (chosen + 1) % 20) == ["compiled decisions"]


@pytest.mark.lab
def test_a_short_form_runs(lab_kernel: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bench.module_of("acc-cost") is acc_cost
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    for constant, value in {"SCENARIOS": 1, "SLOTS": 10, "REPEAT": 2}.items():
        monkeypatch.setattr(acc_cost, constant, value)
    checks = list(acc_cost.checks())
    assert checks and not [check.name for check in checks if not check.ok]
