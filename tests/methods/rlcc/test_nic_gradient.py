# SPDX-License-Identifier: Apache-2.0
"""RL-CC's policy gradient on the fluid model."""

from dataclasses import replace

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.decision import Scaling, cells
from dc_gym.methods.rlcc.fluid import Bottleneck
from dc_gym.methods.rlcc.mlp import Mlp, random_network
from dc_gym.methods.rlcc.offline.on_fluid import Bottlenecks, FluidTrainingSettings, train

SHORT = FluidTrainingSettings(updates=200, batch_size=2048)


def settled(net, flows):
    state = fluid.settle(net, Bottleneck(flows, steps_per_rtt=4), round_trips=400)
    return state, state.inflation / float(Scaling().inflation(flows))


def test_a_network_learns_to_hold_the_queue_and_not_if_it_is_told_of_the_next_delta():
    """The next probe leaves with the decision, which cannot affect its delta: a network trained on that delta oscillates."""
    state, ratio = settled(train(SHORT).net, 8)
    assert ratio == pytest.approx(1.0, abs=0.25) and state.inflation_std < 0.5 and state.sum_of_rates > 0.97
    blind, _ = settled(train(replace(SHORT, delta_lag=1)).net, 8)
    assert blind.inflation_std > 2 * state.inflation_std


@pytest.mark.long
def test_a_trained_network_keeps_eq_2_far_beyond_what_it_was_trained_on_and_shows_table_six():
    net = train(FluidTrainingSettings(seed=2)).net
    for flows in (2, 4, 8, 32, 128):
        state, ratio = settled(net, flows)
        assert ratio == pytest.approx(1.0, abs=0.1) and state.jain > 0.95
    nine = net(cells(Scaling().unit))
    assert (np.diff(nine, axis=1) < 0).all()  # raise > keep > cut
    assert (np.diff(nine, axis=0) > 0).all()  # a first one is stronger than a repeated one
    assert nine[0, 1] < 1 < nine[2, 1]  # from under-utilized to target it cuts, from congested it raises


def test_one_seed_is_one_network():
    few = FluidTrainingSettings(updates=3, batch_size=256)
    once, again, other = (train(one).net.weights for one in (few, few, replace(few, seed=2)))
    assert all((a == b).all() for a, b in zip(once, again, strict=True))
    assert any((a != b).any() for a, b in zip(once, other, strict=True))


def test_the_gradient_is_that_of_the_mean_of_error_times_action():
    random = np.random.default_rng(3)
    net = random_network(random)
    inputs, errors = random.normal(size=(50, 4)) + np.array([1, 0, 1, 0]), random.random(50) * 3 - 1
    slopes = net.policy_gradient(inputs[None], np.zeros((50, 0)), errors[None])
    for layer, index in ((0, (3, 1)), (1, (5, 7)), (2, (0, 4))):
        moved = []
        for step in (1e-6, -1e-6):
            weights = [weight.copy() for weight in net.weights]
            weights[layer][index] += step
            moved.append(float((errors * Mlp(tuple(weights))(inputs)).mean()))
        assert slopes[layer][index] == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("sequence_length", [1, 3])
def test_errors_belong_to_decisions_of_the_same_flow_so_many_before(sequence_length):
    """One flow runs at line rate, so that its inputs are known step by step; stretches follow one another without a gap."""
    training = FluidTrainingSettings(
        bottlenecks=((1, 1),), delta_lag=2, steps_per_rtt=1, flow_end_probability=0.0, seed=5, sequence_length=sequence_length
    )
    model, net = Bottlenecks(training, Scaling()), random_network(np.random.default_rng(1))
    flow_inputs, pairs = [], []
    for _ in range(40):
        before = model._age[0]
        batch = model.step(net)
        pairs += [
            (inputs, error)
            for flow in range(batch.errors.shape[1])
            for inputs, error in zip(batch.inputs[:, flow], batch.errors[:, flow], strict=True)
        ]
        if model._age[0] > before:
            flow_inputs.append(model.inputs[0].copy())
    assert len(pairs) > 5
    for number, (inputs, error) in enumerate(pairs):
        assert np.array_equal(inputs, flow_inputs[number]) and error == flow_inputs[number + 2][3]


@pytest.mark.parametrize("wrong", [{"delta_lag": 5}, {"updates": 0}, {"net": "gru"}, {"seed": -1}, {"sequence_length": 0}])
def test_what_is_no_training_is_refused(wrong):
    with pytest.raises(UsageError):
        FluidTrainingSettings(**wrong)
