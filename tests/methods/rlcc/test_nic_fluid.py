# SPDX-License-Identifier: Apache-2.0
"""The fluid model of RL-CC's closed loop, and what the shipped policies do in it."""

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.decision import MIN_RATE, Scaling
from dc_gym.methods.rlcc.fluid import Bottleneck, Fluid
from dc_gym.methods.rlcc.offline import response
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy


def shipped(name):
    return NicPolicy.read(nic_policy.shipped(name))


def keep(inputs):
    return np.ones(len(inputs))


@pytest.mark.parametrize(("flows", "inflation"), [(8, 1.698), (64, 2.061), (512, 3.086), (2048, 4.672)])
def test_the_network_settles_where_the_artifact_does(flows, inflation):
    """The values are those of the artifact's own network in this model; eq. 2 with its offset says the same."""
    law = float(Scaling().inflation(flows, response.OFFSET))
    assert law == pytest.approx(inflation, abs=1e-3)
    state = fluid.settle(TablePolicy(shipped("record-mlp").table()), Bottleneck(flows), round_trips=600)
    assert state.inflation == pytest.approx(inflation, rel=0.005)
    assert state.sum_of_rates == pytest.approx(1.0, abs=1e-3) and state.slowest_over_fastest > 0.98 and state.inflation_std < 1e-3


@pytest.mark.parametrize("flows", [8, 64, 512])
@pytest.mark.parametrize("family", ["record", "rlcc"])
def test_the_tree_settles_near_its_network(family, flows):
    tree, net = (
        fluid.settle(TablePolicy(shipped(f"{family}-{kind}").table()), Bottleneck(flows), round_trips=1200)
        for kind in ("tree", "mlp")
    )
    assert tree.inflation == pytest.approx(net.inflation, rel=0.05)
    assert tree.sum_of_rates == pytest.approx(net.sum_of_rates, rel=0.02) and tree.jain > 0.99


def test_a_policy_without_a_will_keeps_its_rates_and_the_queue_is_their_sum():
    model = Fluid(Bottleneck(4, start_rate=0.5))
    for step in range(5):
        model.step(keep)
        assert model.queue == pytest.approx((step + 1) * (4 * 0.5 - 1))
    assert (model.rate == 0.5).all() and model.decided == 20


def test_a_queue_is_neither_negative_nor_longer_than_its_buffer():
    full = Fluid(Bottleneck(4, start_rate=1.0, buffer_bdp=5.0))
    for _ in range(4):
        full.step(keep)
    assert full.queue == 5.0 and full.lost_bdp == pytest.approx(4 * 3 - 5)
    idle = Fluid(Bottleneck(2, start_rate=0.1))
    idle.step(keep)
    assert idle.queue == 0.0


def test_inputs_are_the_last_decision_and_this_one():
    history = []

    def policy(inputs):
        history.append(inputs.copy())
        return np.full(len(inputs), 1.1 if len(history) % 2 else 0.9)

    model, scaling = Fluid(Bottleneck(1, start_rate=1.0)), Scaling()
    model.queue = 2.0
    for _ in range(3):
        model.step(policy)
    assert history[0][0].tolist() == [1.0, 0.0, 1.0, float(scaling.error(3.0, 1.0))]
    assert history[1][0][[0, 2]].tolist() == [1.0, 1.1] and history[1][0][1] == history[0][0][3]
    assert history[2][0][[0, 2]].tolist() == [1.1, 0.9] and history[2][0][1] == history[1][0][3]


def test_a_decision_takes_a_round_trip_and_its_latency():
    model = Fluid(Bottleneck(1, steps_per_rtt=4, start_rate=1.0, latency_rtts=0.5))
    model._due[:] = 0
    at = [step for step in range(60) if len(model.step(keep))]
    assert at == list(range(0, 60, 6))  # a base RTT and a half, in quarters; a lone flow at line rate makes no queue


def test_rates_stay_within_the_nics_range():
    model = Fluid(Bottleneck(3))
    for _ in range(200):
        model.step(lambda inputs: np.full(len(inputs), 1 / 1.2))
    assert (model.rate == MIN_RATE).all()
    for _ in range(200):
        model.step(lambda inputs: np.full(len(inputs), 1.2))
    assert (model.rate == 1.0).all()


def test_one_seed_is_one_run():
    shape = Bottleneck(8, steps_per_rtt=4, noise=0.2, seed=3)
    policy = shipped("rlcc-tree").policy
    assert fluid.settle(policy, shape, round_trips=100) == fluid.settle(policy, shape, round_trips=100)


def test_rest_is_where_the_response_crosses_one():
    scaling = Scaling()
    assert fluid.resting_error(lambda x: np.where(x[:, 3] > 0.3 * scaling.unit, 0.9, 1.1)) == pytest.approx(0.3, abs=2e-3)
    assert fluid.resting_error(shipped("record-mlp").policy) == pytest.approx(response.OFFSET, abs=0.01)
    assert abs(fluid.resting_error(shipped("rlcc-mlp").policy)) < 0.2


def test_an_impossible_bottleneck_is_refused():
    for wrong in ({"flows": 0}, {"steps_per_rtt": 0}, {"buffer_bdp": 0.0}, {"latency_rtts": -1.0}, {"start_rate": 2.0}):
        with pytest.raises(UsageError):
            Bottleneck(**wrong)
