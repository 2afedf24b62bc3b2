# SPDX-License-Identifier: Apache-2.0
"""The way of observations to the agent: they may be late, and some may be lost (agent.observation_delay, observation_loss)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from dc_gym.base.units import PPB
from dc_gym.run.agent.observation import Vector
from dc_gym.spec import AgentSpec
from dc_gym.traffic.draws import Stream


class ObservationChannel:
    """Delivers one agent's observations in one episode. An observation with its history is one message.

    The agent keeps the last observation that arrived. It always knows the first one, of step 0.
    """

    def __init__(self, agent: AgentSpec, seed: int, name: str = "") -> None:
        """`name` is the agent's, if there are several: each one's losses are drawn by the episode's seed and its name."""
        self._loss_ppb, self._stream = agent.observation_loss_ppb or 0, Stream(seed, "observation", name)
        self._under_way: deque[Vector] = deque(maxlen=1 + (agent.observation_delay or 0))
        self._held: Vector | None = None

    @classmethod
    def of(cls, agent: AgentSpec, seed: int, name: str = "") -> ObservationChannel | None:
        """Returns the channel of an episode; None if every observation arrives at once."""
        return cls(agent, seed, name) if agent.observation_delay or agent.observation_loss_ppb else None

    def deliver(self, observation: Vector) -> Vector:
        """Sends the observation of the next step, and returns what the agent has then."""
        self._under_way.append(observation)
        if self._held is None:
            self._held = observation
        elif len(self._under_way) == self._under_way.maxlen and self._stream.below(PPB) >= self._loss_ppb:
            self._held = self._under_way[0]
        return self._held


class ObservationChannels:
    """The channels of many agents in one episode."""

    def __init__(self, agent: AgentSpec, seed: int, names: Iterable[str]) -> None:
        self._channels = [ObservationChannel.of(agent, seed, name) for name in names]

    def deliver(self, observations: Iterable[Vector]) -> list[Vector]:
        """Sends the observation of each agent, and returns what each has then."""
        pairs = zip(self._channels, observations, strict=True)
        return [observation if channel is None else channel.deliver(observation) for channel, observation in pairs]
