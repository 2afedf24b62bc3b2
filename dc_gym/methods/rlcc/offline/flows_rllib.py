# SPDX-License-Identifier: Apache-2.0
"""The RLlib environment with one agent for each flow (dc_gym/methods/rlcc/offline/flows.py).

An agent is in a step's dicts only when it decides or ends. Use it with `.environment(FlowsMultiAgentEnv, env_config={"flows": (2,
4, 8)})` and a policy that all agents share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from dc_gym.base.errors import MachineError
from dc_gym.learn.env import Seeds
from dc_gym.learn.multi_agent import NETWORK
from dc_gym.learn.rllib.callbacks import TOTALS
from dc_gym.methods.rlcc.offline.flows import Flows, FlowsConfig, Vector

try:
    from ray.rllib.env.multi_agent_env import MultiAgentEnv
except ImportError as error:
    raise MachineError(f"dc_gym.methods.rlcc.offline.flows_rllib: {error}; pip install 'dc-gym[rl]'") from None

ALL = "__all__"
FLOWS_CONFIG = "flows_config"
"""The key of the env's config that holds a FlowsConfig."""


class FlowsMultiAgentEnv(MultiAgentEnv):
    """One bottleneck on the fluid model, with one agent for each flow. The config has the fields of a FlowsConfig.

    Observations, actions and rewards are as in FlowsParallelEnv. An agent first appears at its flow's first decision; a flow
    that ends before its first decision never appears. The network's info of an episode's last step has its totals.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        flows_config = config.get(FLOWS_CONFIG) or FlowsConfig.of(config)
        self.flows = Flows(flows_config)
        self.possible_agents = list(flows_config.names)
        self.agents: list[str] = []
        self.observation_spaces = dict.fromkeys(self.possible_agents, flows_config.observation_space())
        self.action_spaces = dict.fromkeys(self.possible_agents, flows_config.action_space())
        self._seeds = Seeds()
        self._decided: set[str] = set()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Vector], dict[str, dict[str, Any]]]:
        turn = self.flows.begin(self._seeds.take(seed))
        self.agents, self._decided = list(turn.decides), set(turn.decides)
        return {name: turn.observations[name] for name in turn.decides}, {}

    def step(
        self, action_dict: Mapping[str, npt.ArrayLike]
    ) -> tuple[dict[str, Vector], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        turn = self.flows.step(action_dict)
        self._decided |= set(turn.decides)
        ended = [name for name in turn.ended if name in self._decided]
        reported = [*turn.decides, *ended]
        self.agents = [name for name in dict.fromkeys([*self.agents, *turn.decides]) if name not in ended]
        terminated = dict.fromkeys(() if turn.over else ended, True) | {ALL: False}
        truncated = dict.fromkeys(ended if turn.over else (), True) | {ALL: turn.over}
        infos = {name: {NETWORK: {TOTALS: dict(turn.totals)}} for name in ended} if turn.over else {}
        return {n: turn.observations[n] for n in reported}, {n: turn.rewards[n] for n in reported}, terminated, truncated, infos
