# SPDX-License-Identifier: Apache-2.0
"""The environment cut up for one agent a host: who sees what of the central observation, and one action out of many.

An agent is a slot that is there from the first step of every episode to its last: the hosts that act, by their names. All have
the same spaces and the same reward, so that one policy can serve all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.envs.action import Action
from dc_gym.envs.observation import Observer, Vector
from dc_gym.envs.words import unknown
from dc_gym.errors import AgentError

VIEWS = ("local", "global")
"""local: of what agent.observe names, what concerns the host: its own features, its egress and the switch port that faces it;
global: that, and the whole central observation behind it."""


class HostViews:
    """Views of one environment's observations."""

    def __init__(self, observer: Observer, action: Action, view: str = "local") -> None:
        if view not in VIEWS:
            raise AgentError(unknown("view", view, VIEWS))
        scene, names = observer.scene, observer.names
        self.agents = scene.hosts
        chosen = [_chosen(names, _roles(observer, number)) for number in range(len(scene.hosts))]
        self._check(observer, chosen)
        whole = list(range(len(names))) if view == "global" else []
        self._places = np.array([[place for place, _ in mine] + whole for mine in chosen], np.intp)
        self.names = tuple(tuple(names[place] for place in row) for row in self._places.tolist())
        """By agent: one an element of what it sees."""
        low, high, bound = observer.space.low, observer.space.high, action.head.bound
        self.observation_space = spaces.Box(low[self._places[0]], high[self._places[0]], dtype=np.float32)
        self.action_space = spaces.Box(-bound, bound, (1,), dtype=np.float32)

    def split(self, observation: Vector) -> dict[str, Vector]:
        """By agent: its view of a central observation."""
        return dict(zip(self.agents, observation[self._places], strict=True))

    def join(self, actions: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        """The central action of all agents' actions."""
        if missing := [agent for agent in self.agents if agent not in actions]:
            raise AgentError(f"step: no action for {missing[0]}; every host acts in every step")
        return np.array([float(np.asarray(actions[agent]).reshape(())) for agent in self.agents])

    def _check(self, observer: Observer, chosen: list[list[tuple[int, str]]]) -> None:
        """One policy must be able to serve all: every agent sees the same features in the same order."""
        first = [role for _, role in chosen[0]]
        for agent, mine in zip(self.agents, chosen, strict=True):
            roles = [role for _, role in mine]
            if not roles or roles != first:
                seen = f"{agent} sees {len(roles)} values ({', '.join(roles[:4])}), and {self.agents[0]} {len(first)}"
                raise AgentError(f"agent.observe: {seen}; choose features that every host has, such as 'default'")


def _roles(observer: Observer, number: int) -> dict[str, str]:
    """What a host's owners of features are to it."""
    scene = observer.scene
    row = int(scene.host_row[number])
    return {scene.ports[int(scene.peer_row[row])]: "access", scene.ports[row]: "egress", scene.hosts[number]: "host"}


def _chosen(names: tuple[str, ...], roles: Mapping[str, str]) -> list[tuple[int, str]]:
    """Places in the observation, each with what it is to the host, such as access/backlog@-1."""
    parts = [name.partition("/") for name in names]
    return [(place, f"{roles[owner]}/{rest}") for place, (owner, _, rest) in enumerate(parts) if owner in roles]
