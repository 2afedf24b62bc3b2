# SPDX-License-Identifier: Apache-2.0
"""The checks of learning, on made-up totals: each can fall short."""

import numpy as np
import pytest

from dc_gym.benchmarks.checks.learn import ENVIRONMENT, SEEDS, STEPS, Found, mean, of_values, shown, train_all, verdicts
from dc_gym.envs.env import as_spec
from dc_gym.envs.registration import SPECS
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.study import trainings

TCP = {"return": -50.0, "queueing_delay_s": 0.1, "switch_delay_s": 0.11, "host_delay_s": 0.0, "goodput_bps": 9.5e6}
ORACLE = TCP | {"return": 400.0, "queueing_delay_s": 0.008, "goodput_bps": 9.4e6}
GOOD = {"queueing_delay_s": 0.009, "switch_delay_s": 0.001, "host_delay_s": 0.008, "goodput_bps": 8.5e6}


def checks_of(must=True, untrained=(10.0, 12.0, 14.0), **learned):
    policies = [GOOD | {"return": value} | learned for value in (300.0, 310.0, 320.0)]
    chance = [TCP | {"return": value} for value in (90.0, 100.0, 110.0)]
    return {
        check.name.partition(": ")[2]: check for check in verdicts("x", Found(policies, untrained, chance, TCP, ORACLE), must)
    }


def test_what_has_learned_meets_every_check():
    assert all(check.ok for check in checks_of().values())


@pytest.mark.parametrize(
    ("short", "case"),
    [
        ("return above random", {"return": 105.0}),
        ("return above untrained", {"untrained": (200.0, 300.0, 400.0)}),
        ("mean end-to-end queueing delay", {"queueing_delay_s": 0.0101}),
        ("goodput", {"goodput_bps": 7.5e6}),
    ],
)
def test_each_bar_can_fall_short(short, case):
    checks = checks_of(**case)
    assert not checks[short].ok
    assert all(check.ok for name, check in checks.items() if name != short and "return" not in case)
    assert all(check.ok and check.required == "recorded" for check in checks_of(must=False, **case).values()), (
        "a finding, not a check"
    )


def test_means_are_of_what_all_episodes_have():
    assert mean([{"a": 1.0, "b": 2.0}, {"a": 3.0}]) == {"a": 2.0}
    assert shown(of_values([1.0, 2.0, 3.0]), 10) == "20 +- 25 (n = 3)"


class Killed(BaseException):
    pass


@pytest.fixture
def begun(monkeypatch):
    """Makes trainings end at once; lists (name, resumes) of all that begin. The first one is killed when it has a folder."""
    found = []

    def run_cells(cells, jobs, progress, on_end):
        for each in cells:
            assert each.resumes or not each.out.exists(), "dcgym train would refuse it"
            each.out.mkdir(exist_ok=True)
            found.append((each.name, each.resumes))
            if len(found) == 1:
                raise Killed
            one = np.ones(1)
            provenance = {"steps": each.steps}
            AgentPolicy((np.ones((1, 1)),), (one,), -one, one, ("a",), ("h",), provenance=provenance).write(each.policy)
            (each.out / "evaluation.csv").write_text(f"steps,return\n0,{each.seed}\n0,{each.seed + 1}\n{each.steps},99\n")

    monkeypatch.setattr(trainings, "run_cells", run_cells)
    return found


def test_a_bench_that_was_killed_goes_on_and_takes_nothing_of_others(tmp_path, begun):
    first, other = (as_spec(SPECS[ENVIRONMENT], keys) for keys in ((), ["agent.interval=1ms"]))
    with pytest.raises(Killed):  # before its first checkpoint
        train_all(first, tmp_path)
    names = [(f"ppo-{seed}-{STEPS}", False) for seed in SEEDS]
    found = train_all(first, tmp_path)
    assert begun[1:] == names
    assert [each.untrained_return for each in found] == [seed + 0.5 for seed in SEEDS]
    assert train_all(first, tmp_path) == found and len(begun) == 1 + len(SEEDS), "they are there"
    train_all(other, tmp_path)
    assert begun[1 + len(SEEDS) :] == names, "another spec is another training"
