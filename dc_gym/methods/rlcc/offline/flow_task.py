# SPDX-License-Identifier: Apache-2.0
"""`dcgym train --agents flows`: standard algorithms on RL-CC's decision problem, where each flow is an agent.

RL-CC's own gradient is no algorithm of RLlib: `method rlcc train` needs numpy alone, on labs and on the same model. This module
compares RLlib's algorithms with it on the same flows (docs/rlcc.md#flows-as-agents).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from ray.rllib.core.columns import Columns

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import hint
from dc_gym.learn.rllib.environment import Task, register_environment
from dc_gym.learn.rllib.evaluation import EpisodeResult
from dc_gym.learn.rllib.settings import TrainingSettings
from dc_gym.methods.rlcc.decision import INPUTS
from dc_gym.methods.rlcc.offline import closed_loop
from dc_gym.methods.rlcc.offline.flow_runner import FlowRunner, to_factors
from dc_gym.methods.rlcc.offline.flows import FlowsConfig
from dc_gym.methods.rlcc.offline.flows_rllib import FLOWS_CONFIG, FlowsMultiAgentEnv
from dc_gym.nets.agent_kinds import CENTRAL
from dc_gym.nets.fixed_point import Floats

ALGORITHMS = ("PPO", "SAC", "DDPG", "TD3")
"""The algorithms that learn from pieces of episodes and have continuous actions."""


def check(algorithm: str, overrides: Sequence[str]) -> None:
    """Raises UsageError for options that do not apply to flows."""
    if algorithm.upper() not in ALGORITHMS:
        raise UsageError(f"--algo {algorithm}: does not train flows; {hint(algorithm.upper(), ALGORITHMS)}")
    if overrides:
        raise UsageError(f"--set {overrides[0]}: is for specs, and --agents flows has none")


def register(flows_config: FlowsConfig, run: TrainingSettings) -> Task:
    """Registers the environment of a flows_config, as dc_gym.learn.rllib.environment.register does for a spec."""
    if run.levels or run.agents != CENTRAL:
        raise UsageError(f"run: levels = {run.levels}, agents = {run.agents!r}: flows act in numbers, one each; leave both out")
    alike = tuple((flows, run.labs) for flows in flows_config.flows)
    flows_config = replace(flows_config, model=replace(flows_config.model, bottlenecks=alike, seed=run.seed))
    name = "dcgym-flows"
    register_environment(name, lambda config: FlowsMultiAgentEnv({FLOWS_CONFIG: flows_config}))
    return Task(
        name,
        flows_config.observation_space(),
        flows_config.action_space(),
        INPUTS,
        ("flow",),
        {"observe": "rlcc", "history": 1, "action": "factor"},
        env_runner=FlowRunner,
        config={FLOWS_CONFIG: flows_config},
        evaluation=ClosedLoopEvaluation,
        uses_labs=False,
    )


class ClosedLoopEvaluation:
    """Evaluates a policy without exploration (closed_loop.py). Each bottleneck gives one EpisodeResult."""

    def __init__(self, ray: Any, config: Any, tasks: Mapping[str, Task], seeds: Sequence[int]) -> None:
        self._flows_config: FlowsConfig = config.env_config[FLOWS_CONFIG]

    def run(self, algorithm: Any) -> list[EpisodeResult]:
        policy, scaling = factors_of(algorithm.get_module()), self._flows_config.scaling
        return [self._episode(closed_loop.totals(policy, flows, scaling)) for flows in closed_loop.FLOWS]

    def _episode(self, totals: dict[str, float]) -> EpisodeResult:
        error = self._flows_config.scaling.error(totals["inflation"], 1.0 / totals["flows"])
        steps = closed_loop.ROUND_TRIPS * closed_loop.STEPS_PER_RTT
        return EpisodeResult("train", 1, float(self._flows_config.rewards(error)), steps, totals)

    def close(self) -> None:
        pass


def factors_of(module: Any) -> Callable[[Floats], Floats]:
    """Returns a module's policy without exploration: it maps inputs [rows, 4] to factors of the rate."""

    def policy(inputs: Floats) -> Floats:
        with torch.no_grad():
            out = module.forward_inference({Columns.OBS: torch.from_numpy(np.asarray(inputs, np.float32))})
            if Columns.ACTIONS not in out:
                chosen = module.get_inference_action_dist_cls().from_logits(out[Columns.ACTION_DIST_INPUTS])
                out[Columns.ACTIONS] = chosen.to_deterministic().sample()
        return to_factors(out[Columns.ACTIONS].numpy()[..., 0])

    return policy
