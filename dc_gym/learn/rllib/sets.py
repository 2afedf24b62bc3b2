# SPDX-License-Identifier: Apache-2.0
"""Nets whose weights all hosts, or all flows, share: exchanging two hosts exchanges their actions, and nothing else.

A layer (Zaheer et al. 2017, Deep Sets) has for each actor i the units

    h'_i = A h_i + B mean_j h_j + b

In the first one h_i is what the observation has of actor i, and b also depends on what it has of the network. For a number of
actors such a layer is a dense one, so a policy file holds it, and from that file the same policy can be made for another number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import UsageError
from dc_gym.nets.agent_kinds import CENTRAL
from dc_gym.nets.agent_policy import ARGMAX, AgentPolicy

Floats = npt.NDArray[np.floating[Any]]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of an observation's elements: those of each actor, and those of the network."""

    actors: Places
    """[actors, features]."""
    network: Places
    """[features]."""

    @classmethod
    def of(cls, observation: Sequence[str], actors: int) -> Layout:
        """Returns the layout of an observation with these names.

        Neighbours of one feature (what stands after the last /) are an element for each actor, in the order of the actors, if
        their number is that of the actors or a multiple; else they are the network's. If all are, the whole is one actor.
        """
        own: list[range] = []
        network: list[int] = []
        at = 0
        for _, group in groupby(observation, lambda name: name.rpartition("/")[2]):
            count = len(list(group))
            if count % actors == 0 and actors > 1:
                own += [range(first, first + actors) for first in range(at, at + count, actors)]
            else:
                network += range(at, at + count)
            at += count
        if not own:
            return cls(np.arange(at)[None], np.array([], np.int64))
        return cls(np.array(own, np.int64).reshape(-1, actors).T, np.array(network, np.int64))

    def features(self, observation: Sequence[str]) -> str:
        """Returns in words what is observed."""
        own, network = (
            ", ".join(observation[place].rpartition("/")[2] for place in places) for places in (self.actors[0], self.network)
        )
        return f"{own or 'nothing'} of each and {network or 'nothing'} of the network"


@dataclass(frozen=True, slots=True)
class SharedLayer:
    """The weights of a layer."""

    own: Floats
    """A: [units, inputs of an actor]."""
    pooled: Floats
    """B: likewise."""
    bias: Floats
    """[units]."""
    network: Floats
    """[units, features of the network]; without columns after the first layer."""

    def dense(self, actors: int, layout: Layout | None) -> tuple[Floats, Floats]:
        """Returns weight and bias of the dense layer. Its units are in the order of the actors; so are its inputs if there is no
        layout."""
        units, inputs = self.own.shape
        blocks = np.repeat(np.repeat(self.pooled[None, :, None, :] / actors, actors, 0), actors, 2)
        blocks[range(actors), :, range(actors), :] += self.own
        weight = blocks.reshape(actors * units, actors * inputs)
        if layout is not None:
            ordered = np.zeros((len(weight), layout.actors.size + layout.network.size), weight.dtype)
            ordered[:, layout.actors.reshape(-1)] = weight
            ordered[:, layout.network] = np.tile(self.network, (actors, 1))
            weight = ordered
        return weight, np.tile(self.bias, actors)

    @classmethod
    def read(cls, weight: Floats, bias: Floats, actors: int, layout: Layout | None) -> SharedLayer | None:
        """Returns the layer of which `dense` makes these; None if there is none."""
        units, rest = divmod(len(weight), actors)
        if rest or not units:
            return None
        columns = weight if layout is None else weight[:, layout.actors.reshape(-1)]
        blocks = columns.reshape(actors, units, actors, -1)
        pooled = blocks[0, :, 1] * actors
        network = weight[:units, layout.network if layout is not None else []]
        layer = cls(blocks[0, :, 0] - blocks[0, :, 1], pooled, bias[:units], network)
        again = layer.dense(actors, layout)
        is_equal = all(np.allclose(new, old, rtol=1e-4, atol=1e-5) for new, old in zip(again, (weight, bias), strict=True))
        return layer if is_equal else None


def onto(policy: AgentPolicy, observation: Sequence[str], hosts: Sequence[str], settings: Mapping[str, Any]) -> AgentPolicy:
    """Returns the policy for a network with other hosts or flows, or with more of them.

    Args:
        policy: A policy with weights that all its hosts or flows share.
        observation: The names of the other network's observation.
        hosts: The values that an action sets there.
        settings: What a policy file records of it.

    Raises:
        UsageError: The weights are not shared, or the other observation has other features.
    """
    before, after = (Layout.of(names, len(acts)) for names, acts in ((policy.observation, policy.hosts), (observation, hosts)))
    is_plain = policy.agents == CENTRAL and policy.output != ARGMAX and policy.obs_mean is None
    if min(len(before.actors), len(after.actors)) < 2 or not is_plain:
        raise UsageError("it does not set one value for each of several hosts or flows, or has a filter; train one that does")
    seen, there = before.features(policy.observation), after.features(observation)
    if seen != there:
        raise UsageError(f"it observes {seen}, and there are {there}; give a spec with the same agent.observe")
    weights, biases = [], []
    for number, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
        layer = SharedLayer.read(weight, bias, len(policy.hosts), None if number else before)
        if layer is None:
            raise UsageError("its hosts or flows do not share their weights; train one with --preset suite")
        other = layer.dense(len(hosts), None if number else after)
        weights.append(other[0].astype(weight.dtype))
        biases.append(other[1].astype(bias.dtype))
    low, high = (np.full(len(hosts), end[0], end.dtype) for end in (policy.low, policy.high))
    names: dict[str, Any] = {"observation": tuple(observation), "hosts": tuple(hosts), "low": low, "high": high}
    return replace(policy, weights=tuple(weights), biases=tuple(biases), settings=settings, **names)
