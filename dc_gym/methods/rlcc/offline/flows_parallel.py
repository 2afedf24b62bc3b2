# SPDX-License-Identifier: Apache-2.0
"""The PettingZoo environment with one agent per flow (flows.py). Importing it needs the extra `multi`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dc_gym.base.errors import AgentError, MachineError
from dc_gym.learn.env import Seeds
from dc_gym.methods.rlcc.offline.flows import Flows, FlowsConfig, Turn, Vector

try:
    from pettingzoo import ParallelEnv
except ImportError:
    raise MachineError("dc_gym.methods.rlcc.offline.flows_parallel: pettingzoo is missing; pip install 'dc-gym[multi]'") from None

DECIDES = "decides"
TOTALS = "episode_totals"
Actions = npt.NDArray[np.floating[Any]]


class FlowsParallelEnv(ParallelEnv[str, Vector, Actions]):
    """One bottleneck in the fluid model, with one agent per flow (docs/rlcc.md#flows-as-agents).

    Observation: a float32 Box of a_old, e_old, a_new, e_new (docs/rlcc.md). Action: a Box of one number in 1/1.2..1.2; the
    flow's rate is multiplied by it. Reward: -(delta / target)^2, with delta clipped at `max_error` targets (10 by default).

    A step is an instant at which at least one agent decides; `info["decides"]` is True for agents that decide. The actions of the
    other agents are ignored. They keep the observation of their last decision, and their reward is 0.

    terminated: the flow has ended. Another flow begins, and it is a new agent. truncated: the episode's time is over, for all
    agents at once. Their info then holds the episode's totals.
    """

    metadata: dict[str, Any] = {"name": "dcgym_flows_v0", "render_modes": []}

    def __init__(self, config: FlowsConfig | None = None, *, render_mode: str | None = None, **changes: Any) -> None:
        """Takes a FlowsConfig, or the fields that differ from its defaults: flows=(2, 4, 8), spare_agents=8, round_trips=200."""
        if render_mode is not None:
            raise AgentError(f"render_mode: {render_mode!r} is not supported; leave it out")
        if config is not None and changes:
            raise AgentError(f"a config is given, and {min(changes)}, too; give one of them")
        self.render_mode = None
        self.flows = Flows(config or FlowsConfig.of(changes))
        self.possible_agents = list(self.flows.config.names)
        self.agents: list[str] = []
        self._seeds = Seeds()
        self._decides: tuple[str, ...] = ()
        self._spaces = self.flows.config.observation_space(), self.flows.config.action_space()

    def observation_space(self, agent: str) -> spaces.Box:
        return self._spaces[0]

    def action_space(self, agent: str) -> spaces.Box:
        return self._spaces[1]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        turn = self.flows.begin(self._seeds.take(seed))
        self.agents = list(self.flows.live)
        observations, infos = self._told(turn)
        return observations, infos

    def step(
        self, actions: Mapping[str, Actions]
    ) -> tuple[dict[str, Vector], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        if not self.agents and not actions:
            return {}, {}, {}, {}, {}  # the episode is over
        if odd := set(actions) ^ set(self.agents):
            raise AgentError(f"step: {min(odd)} {'has no action' if min(odd) in self.agents else 'is no agent now'}")
        turn = self.flows.step({name: actions[name] for name in self._decides})
        self.agents = list(dict.fromkeys([*turn.ended, *self.flows.live]))
        observations, infos = self._told(turn)
        rewards = {name: turn.rewards.get(name, 0.0) for name in self.agents}
        terminated = {name: name in turn.ended and not turn.over for name in self.agents}
        truncated = dict.fromkeys(self.agents, turn.over)
        self.agents = [name for name in self.agents if name not in turn.ended]
        return observations, rewards, terminated, truncated, infos

    def _told(self, turn: Turn) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        self._decides = turn.decides
        observations = {
            name: turn.observations[name] if name in turn.observations else self.flows.observation(name) for name in self.agents
        }
        infos: dict[str, dict[str, Any]] = {name: {DECIDES: name in turn.decides} for name in self.agents}
        if turn.over:
            infos = {name: info | {TOTALS: dict(turn.totals)} for name, info in infos.items()}
        return observations, infos
