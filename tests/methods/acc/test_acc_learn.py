# SPDX-License-Identifier: Apache-2.0
"""How ACC's offline training explores and counts rewards, and the study that measures what it learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.benchmarks.studies.learning import acc, acc_labs
from dc_gym.benchmarks.studies.learning.acc import INCAST, MIX, NETS, SINGLE
from dc_gym.benchmarks.studies.learning.acc_labs import BEST, SECN, STATIC
from dc_gym.methods.acc.double_dqn import DoubleDqn
from dc_gym.methods.acc.offline import held_out, on_labs, scenarios
from dc_gym.methods.acc.offline.held_out import constant
from dc_gym.methods.acc.offline.on_labs import USUAL_REWARD, relative
from dc_gym.methods.acc.queues import Slot
from dc_gym.methods.acc.settings import DqnSettings
from dc_gym.methods.acc.template import DEPLOYED
from dc_gym.study import claims
from dc_gym.study.evidence import Evidence, VariantEvidence

BUSY = scenarios.Scenario("incast", 3, {"kind": "many_to_one", "flows": 8})


def test_rewards_count_beside_those_of_the_other_labs() -> None:
    """The part that all labs have in common falls out. One lab has nothing to be compared with."""
    rewards = relative([np.array([0.5, 0.9]), np.array([0.7, 0.9]), np.array([0.9, 0.9])])
    assert np.allclose(rewards, USUAL_REWARD + np.array([[-0.3, 0], [0, 0], [0.3, 0]]))
    assert np.allclose(relative([np.array([0.2])]), [[0.2]])
    shifted = relative([np.array([1.5, 0.9]), np.array([1.7, 0.9]), np.array([1.9, 0.9])])
    assert np.allclose(rewards, shifted)


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
    actions = explored(share, hold=10, steps=1000)
    other = (actions != 3).mean() * 20 / 19  # one action in 20 that is drawn is the net's
    assert other == pytest.approx(share, abs=0.05)
    changes = (actions[1:] != actions[:-1]).mean()
    assert changes < 0.25 and (changes > 0.05) == (share > 0)


def test_contestants_with_one_action_earn_the_same_and_others_do_not(tmp_path: Path) -> None:
    contestants = {"low": constant(DEPLOYED, 0), "as low": constant(DEPLOYED, 0), "high": constant(DEPLOYED, 19)}
    rewards = held_out.rewards(BUSY, 7, contestants, 30, tmp_path)
    assert rewards["low"] == rewards["as low"] != rewards["high"] and not list(tmp_path.iterdir())


def test_secn_is_that_of_the_spec() -> None:
    """At 25 Gbit/s, the rate of the scenarios."""
    plain = BUSY.spec(DEPLOYED, 10**7, 1)
    for name, (low, high, pmax) in SECN.items():
        graph = replace(plain, topology=replace(plain.topology, marking=name.lower())).graph()
        (marking,) = {port.queue.marking for port in graph.ports() if port.queue.marking.kind == "red-instant"}
        assert (marking.min_bytes, marking.max_bytes, marking.probability_ppm) == (low, high, pmax)


def test_held_out_scenarios_are_of_their_kind_and_no_training_s() -> None:
    drawn = {case: [acc.drawn(case, number) for number in range(count)] for case, count in acc.CASES.items()}
    assert all(scenario.kind == INCAST for scenario in drawn[INCAST])
    trained = {str(scenarios.drawn(seed, episode)) for seed in range(1, 6) for episode in range(200)}
    assert not trained & {str(scenario) for some in drawn.values() for scenario in some if scenario.kind == INCAST}


def judged(net: dict[int, float], best: int) -> dict[str, claims.Verdict]:
    """Returns verdicts on held-out rewards: `net` by scenario; SECN has 0.5, action `best` 0.6, all other actions 0.4."""
    rewards = dict.fromkeys(SECN, 0.5) | dict.fromkeys(STATIC, 0.4) | {f"action {best}": 0.6}
    numbers = {name: {of: dict.fromkeys(net, value) for of in (acc.CHOICE, *acc.CASES)} for name, value in rewards.items()}
    numbers["ACC, seed 1"] = {of: {number: value + number / 1000 for number, value in net.items()} for of in acc.CASES}
    evidence = acc.with_oracles(Evidence({name: VariantEvidence(name, name, "#000000", row) for name, row in numbers.items()}))
    assert evidence.variants[SINGLE].label.startswith(f"action {best}, ")
    assert evidence.values(BEST, MIX) == dict.fromkeys(net, 0.6)
    return {claim.title: claims.judge(claim, evidence).verdict for claim in acc.STUDY.claims}


@pytest.mark.parametrize(
    ("earned", "against_secn", "against_best"), [(0.7, True, True), (0.55, True, False), (0.45, False, False)]
)
def test_a_net_passes_above_secn_and_on_the_mix_above_the_best_action(
    earned: float, against_secn: bool, against_best: bool
) -> None:
    verdicts = judged(dict.fromkeys(range(1, 6), earned), 2)
    best = verdicts.pop(f"{MIX}: more reward than {SINGLE}")
    assert len(verdicts) == 6 and {verdict is claims.Verdict.SAME for verdict in verdicts.values()} == {against_secn}
    assert (best is claims.Verdict.SAME) == against_best


def test_four_of_five_nets_are_enough() -> None:
    """Their interval must exclude 0; what is equal does not."""
    for passing, verdict in ((4, claims.Verdict.SAME), (3, claims.Verdict.OPPOSITE)):
        rival = {number: 0.5 for number in range(1, 9)}
        nets = {
            name: {number: value + (0.1 + number / 1000 if seed <= passing else 0.0) for number, value in rival.items()}
            for name, seed in NETS.items()
        }
        variants = {name: VariantEvidence(name, name, "#000000", {INCAST: row}) for name, row in {**nets, "SECN1": rival}.items()}
        assert acc.better(INCAST, "SECN1").judge(Evidence(variants)).verdict is verdict


def test_rewards_are_kept_and_further_contestants_alone_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A study that is killed goes on; with another net or other cases nothing is taken over."""
    calls: list[list[str]] = []

    def rewards(case: object, seed: int, contestants: dict[str, object], **more: object) -> dict[str, float]:
        calls.append(list(contestants))
        return dict.fromkeys(contestants, len(calls) / 10)

    monkeypatch.setattr(acc_labs.held_out, "rewards", rewards)
    low, high = ({name: constant(DEPLOYED, 0)} for name in ("low", "high"))
    assert acc_labs.Kept(tmp_path, ("net 1",)).of("mix 0", BUSY, 7, low, 30) == {"low": 0.1}
    assert acc_labs.Kept(tmp_path, ("net 1",)).of("mix 0", BUSY, 7, low | high, 30) == {"low": 0.1, "high": 0.2}
    assert acc_labs.Kept(tmp_path, ("net 2",)).of("mix 0", BUSY, 7, low, 30) == {"low": pytest.approx(0.3)}
    assert calls == [["low"], ["high"], ["low"]]
