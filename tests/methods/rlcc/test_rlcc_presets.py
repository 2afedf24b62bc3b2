# SPDX-License-Identifier: Apache-2.0
"""Tests training presets: rewards and cases."""

import pytest

from dc_gym.base.errors import UsageError
from dc_gym.methods.rlcc.offline.presets import PRESETS, TrafficPattern, preset, reward


def test_rewards_are_the_papers():
    rlcc, pccrl = preset("rl-cc").scaling, preset("pcc-rl").scaling
    assert (rlcc.target, rlcc.beta) == (0.064, 1.5)
    assert pccrl.beta == 0 and pccrl.inflation(2) > 1, "two flows could not rest below an empty path's round trip"
    assert pccrl.unit == pytest.approx(rlcc.unit), "a target looks the same to a network"


def test_a_reward_is_the_presets_unless_another_is_given():
    assert reward("rl-cc") == preset("rl-cc").scaling and reward("pcc-rl") == preset("pcc-rl").scaling
    other = reward("rl-cc", beta=1.0, target=0.004)
    assert (other.beta, other.target) == (1.0, 0.004) and other.unit == pytest.approx(reward("rl-cc").unit)
    assert reward("pcc-rl", target=1.0).beta == 0


def test_nobody_is_trained_beyond_eight_flows_and_pcc_rl_on_many_to_one_alone():
    assert {case.pattern for case in PRESETS["pcc-rl"].patterns} == {"many_to_one"}
    assert {case.pattern for case in PRESETS["rl-cc"].patterns} == {"many_to_one", "all_to_all"}
    assert {case.flows for case in PRESETS["pcc-rl"].patterns} == {2, 4, 8}
    assert max(case.flows for training_preset in PRESETS.values() for case in training_preset.patterns) == 8


def test_a_case_says_who_sends_to_whom():
    assert TrafficPattern("many_to_one", 3).pairs() == [(0, 3), (1, 3), (2, 3)] and TrafficPattern("many_to_one", 3).hosts == 4
    every = TrafficPattern("all_to_all", 3)
    assert every.hosts == 3 and sorted(every.pairs()) == [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("call", "message"), [(lambda: TrafficPattern("ring", 3), "no pattern"), (lambda: preset("ppo"), "rl-cc, pcc-rl")]
)
def test_what_is_unknown_is_refused(call, message):
    with pytest.raises(UsageError, match=message):
        call()
