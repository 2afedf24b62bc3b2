# SPDX-License-Identifier: Apache-2.0
"""Nets whose weights hosts or flows share: as a dense net, exchanged, and for another number of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dc_gym.base.errors import UsageError
from dc_gym.learn.rllib.sets import Layout, SharedLayer, onto
from dc_gym.nets.agent_policy import AgentPolicy

GENERATOR = np.random.default_rng(1)
LAYERS = [(2, 1, 5), (5, 0, 4), (4, 0, 1)]
SHARED = [
    SharedLayer(*(GENERATOR.normal(size=shape) for shape in ((units, own), (units, own), (units,), (units, network))))
    for own, network, units in LAYERS
]


def names(flows: int) -> tuple[str, ...]:
    each = [f"flow{number}" for number in range(flows)]
    return (*(f"{flow}/running" for flow in each), "s1-eth3/backlog", *(f"{flow}/left" for flow in each))


def policy(flows: int) -> AgentPolicy:
    layout = Layout.of(names(flows), flows)
    pairs = [layer.dense(flows, None if number else layout) for number, layer in enumerate(SHARED)]
    ends = np.full(flows, -1.0), np.full(flows, 1.0)
    hosts = tuple(f"flow{number}" for number in range(flows))
    return AgentPolicy(tuple(w for w, _ in pairs), tuple(b for _, b in pairs), *ends, names(flows), hosts, output="tanh")


def by_hand(observation: np.ndarray, flows: int) -> np.ndarray:
    x = np.stack([observation[:flows], observation[flows + 1 :]], 1)
    for number, layer in enumerate(SHARED):
        x = np.tanh(x) if number else x
        context = layer.pooled @ x.mean(0) + layer.bias + (0 if number else layer.network @ observation[[flows]])
        x = x @ layer.own.T + context
    return np.tanh(x[:, 0])


def test_a_layout_tells_what_is_of_each_flow() -> None:
    layout = Layout.of(names(3), 3)
    assert layout.actors.tolist() == [[0, 4], [1, 5], [2, 6]] and layout.network.tolist() == [3]
    hosts = ("s1-eth1/active_flows", "s1-eth2/active_flows", "h1-eth0/active_flows", "h2-eth0/active_flows")
    assert Layout.of(hosts, 2).actors.tolist() == [[0, 2], [1, 3]]


def test_where_nothing_is_observed_of_each_the_whole_is_one_actor() -> None:
    layout = Layout.of(("s1-eth9/backlog", "s1-eth9/marks"), 3)
    assert layout.actors.tolist() == [[0, 1]] and not layout.network.size


@pytest.mark.parametrize("flows", [3, 6])
def test_the_dense_net_does_what_the_layers_say(flows: int) -> None:
    observation = GENERATOR.uniform(-1, 1, 2 * flows + 1)
    acted = policy(flows).act(observation)
    np.testing.assert_allclose(acted, by_hand(observation, flows), atol=1e-12)
    order = GENERATOR.permutation(flows)
    exchanged = np.concatenate([observation[:flows][order], observation[flows : flows + 1], observation[flows + 1 :][order]])
    np.testing.assert_allclose(policy(flows).act(exchanged), acted[order], atol=1e-12)


def test_a_policy_for_three_flows_is_made_for_six() -> None:
    made = onto(policy(3), names(6), policy(6).hosts, {"flows": 6})
    observation = GENERATOR.uniform(-1, 1, 13)
    np.testing.assert_allclose(made.act(observation), policy(6).act(observation), atol=1e-9)
    assert made.settings == {"flows": 6}


def test_weights_of_their_own_and_other_features_are_refused() -> None:
    weights = policy(3).weights
    odd = replace(policy(3), weights=(weights[0] + np.eye(*weights[0].shape), *weights[1:]))
    with pytest.raises(UsageError, match="do not share their weights"):
        onto(odd, names(6), policy(6).hosts, {})
    with pytest.raises(UsageError, match="running, left of each and backlog of the network, and there are running, rate of"):
        onto(policy(3), [name.replace("left", "rate") for name in names(6)], policy(6).hosts, {})


@pytest.mark.parametrize(
    ("each", "network", "outputs"),
    [(("h0", "h1", "h2"), (), 1), (("h0", "h1", "h2"), ("s1-eth3/backlog",), 1), ((), ("s1-eth3/marks",), 3)],
)
def test_the_dense_net_takes_an_observation_that_is_not_scaled(
    each: tuple[str, ...], network: tuple[str, ...], outputs: int
) -> None:
    import torch

    from dc_gym.learn.rllib.algorithms.set_module import SetNet

    observed = (*network, *(f"{host}/rate" for host in each))
    layout = Layout.of(observed, 3)
    net = SetNet(layout, (4, 5), outputs)
    observations = torch.randn(20, len(observed)) * 7 + 3
    net.fit(observations)
    x = observations.numpy()
    for number, layer in enumerate(net.shared()):
        weight, bias = layer.dense(len(layout.actors), None if number else layout)
        x = (np.tanh(x) if number else x) @ weight.T + bias
    np.testing.assert_allclose(x, net(observations).detach().numpy(), atol=1e-5)
