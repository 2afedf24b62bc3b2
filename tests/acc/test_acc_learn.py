# SPDX-License-Identifier: Apache-2.0
"""How ACC's offline training explores and counts rewards, and the bench that measures what it learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.benchmarks.checks import acc_learn
from dc_gym.benchmarks.checks.acc_learn import CHANCE, INCAST, MIX, STATIC, UNTRAINED
from dc_gym.envs.acc_queues import Slot
from dc_gym.methods.acc import held_out, on_labs, scenarios
from dc_gym.methods.acc.held_out import constant
from dc_gym.methods.acc.on_labs import USUAL_REWARD, relative
from dc_gym.nets.acc_policy import AccPolicy
from dc_gym.nets.acc_settings import DqnSettings
from dc_gym.nets.acc_template import DEPLOYED
from dc_gym.nets.double_dqn import HIDDEN, DoubleDqn
from dc_gym.nets.q_network import QNetwork

BUSY = scenarios.Scenario("incast", 3, {"kind": "many_to_one", "flows": 8})


def test_rewards_count_beside_those_of_the_other_labs() -> None:
    """The part that all labs have in common falls out. One lab has nothing to be compared with."""
    found = relative([np.array([0.5, 0.9]), np.array([0.7, 0.9]), np.array([0.9, 0.9])])
    assert np.allclose(found, USUAL_REWARD + np.array([[-0.3, 0], [0, 0], [0.3, 0]]))
    assert np.allclose(relative([np.array([0.2])]), [[0.2]])
    shifted = relative([np.array([1.5, 0.9]), np.array([1.7, 0.9]), np.array([1.9, 0.9])])
    assert np.allclose(found, shifted)


class Queues:
    """50 queues, whose values are their actions."""

    def __init__(self) -> None:
        self.settings = np.zeros(50, np.int64)

    def __len__(self) -> int:
        return len(self.settings)

    def values(self, actions: np.ndarray) -> np.ndarray:
        return actions


def explored(at_random: float, hold: int, steps: int) -> np.ndarray:
    """Returns the actions of 50 queues that are always busy, [steps, queues]; the net always chooses action 3."""
    lab = object.__new__(on_labs._Lab)
    lab.queues = Queues()
    lab._random, lab._hold, lab._kept = np.random.default_rng(1), hold, np.zeros(50, np.int64)
    posted: list[np.ndarray] = []
    lab.session = SimpleNamespace(post=lambda actions: posted.append(actions.copy()))
    learner = DoubleDqn.random(DEPLOYED.inputs, len(DEPLOYED.actions), DqnSettings(), np.random.default_rng(1))
    learner.net.weights[-1][:] = 0
    learner.net.biases[-1][3] = 1
    slot = Slot(np.zeros((50, DEPLOYED.inputs)), np.zeros(50), np.zeros(50, bool))
    for _ in range(steps):
        lab.decide(slot, learner, at_random)
    return np.array(posted)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_actions_at_random_are_kept_and_have_their_share(share: float) -> None:
    found = explored(share, hold=10, steps=1000)
    other = (found != 3).mean() * 20 / 19  # one action in 20 that is drawn is the net's
    assert other == pytest.approx(share, abs=0.05)
    changes = (found[1:] != found[:-1]).mean()
    assert changes < 0.25 and (changes > 0.05) == (share > 0)


def test_contestants_with_one_action_earn_the_same_and_others_do_not(tmp_path: Path) -> None:
    contestants = {"low": constant(DEPLOYED, 0), "as low": constant(DEPLOYED, 0), "high": constant(DEPLOYED, 19)}
    found = held_out.rewards(BUSY, 7, contestants, 30, tmp_path)
    assert found["low"] == found["as low"] != found["high"] and not list(tmp_path.iterdir())


def test_secn_is_that_of_the_spec() -> None:
    """At 25 Gbit/s, the rate of the scenarios."""
    plain = BUSY.spec(DEPLOYED, 10**7, 1)
    for name, (low, high, pmax) in acc_learn.SECN.items():
        graph = replace(plain, topology=replace(plain.topology, marking=name.lower())).graph()
        (found,) = {port.queue.marking for port in graph.ports() if port.queue.marking.kind == "red-instant"}
        assert (found.min_bytes, found.max_bytes, found.probability_ppm) == (low, high, pmax)


def rows(net: dict[int, float], best: int) -> list[dict[str, float]]:
    """Returns held-out rewards: `net` by scenario; SECN has 0.5, action `best` 0.6, all other actions 0.4."""
    other = dict.fromkeys((*acc_learn.SECN, UNTRAINED, CHANCE), 0.5) | dict.fromkeys(STATIC, 0.4)
    return [other | {"net 1": reward + number / 1000, f"action {best}": 0.6} for number, reward in net.items()]


@pytest.mark.parametrize(("earned", "passed"), [(0.7, [True] * 5), (0.55, [True, True, True, True, False]), (0.45, [False] * 5)])
def test_a_net_passes_above_secn_and_on_the_mix_above_the_best_action(earned: float, passed: list[bool]) -> None:
    found = {case: rows(dict.fromkeys(range(5), earned), 2) for case in (INCAST, MIX)}
    made = [check for check in acc_learn.verdicts(found, "action 2", [1]) if check.required != "recorded"]
    assert [check.ok for check in made] == passed


def test_a_constant_action_does_not_pass() -> None:
    """However good a single action is, it is not above itself."""
    mix = rows(dict.fromkeys(range(5), 0.6), 2)
    for row in mix:
        row["net 1"] = row["action 2"]
    made = [check for check in acc_learn.verdicts({MIX: mix}, "action 2", [1]) if check.required != "recorded"]
    assert [check.ok for check in made] == [True, True, False]


def test_held_out_scenarios_are_of_their_kind_and_no_training_s() -> None:
    drawn = {case: [acc_learn.drawn(case, number) for number in range(count)] for case, count in acc_learn.CASES.items()}
    assert all(each.kind == INCAST for each in drawn[INCAST])
    trained = {str(scenarios.drawn(seed, episode)) for seed in range(1, 6) for episode in range(200)}
    assert not trained & {str(each) for some in drawn.values() for each in some if each.kind == INCAST}


def test_the_bench_goes_on_and_measures_further_nets_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed in its third lab; two labs are read then. With a further seed its net alone is measured, in held-out labs."""
    sizes = (DEPLOYED.inputs, *HIDDEN, len(DEPLOYED.actions))
    monkeypatch.setattr(acc_learn, "OUT", tmp_path)
    nets = {seed: AccPolicy(QNetwork.random(sizes, np.random.default_rng(seed)), DEPLOYED) for seed in (1, 2)}
    monkeypatch.setattr(acc_learn, "_trained", nets.__getitem__)
    asked: list[list[str]] = []
    killed_in = 3

    def rewards(scenario: object, seed: int, contestants: dict[str, object], slots: int, folder: Path) -> dict[str, float]:
        asked.append(list(contestants))
        if len(asked) == killed_in:
            raise KeyboardInterrupt
        return {name: 0.5 + 0.1 * (name == "action 2") for name in contestants}

    monkeypatch.setattr(acc_learn.held_out, "rewards", rewards)
    with pytest.raises(KeyboardInterrupt):
        list(acc_learn.checks(1))
    one = list(acc_learn.checks(1))
    labs = sum(acc_learn.CASES.values())
    assert len(asked) == 1 + acc_learn.CHOSEN_IN + labs and list(acc_learn.checks(1)) == one
    asked.clear()
    killed_in = 0
    two = list(acc_learn.checks(2))
    assert [len(names) for names in asked] == [1] * labs and len({name for (name,) in asked}) == 1
    assert [check.name for check in two] == [check.name for check in one] and any("action 2" in check.name for check in one)
