# SPDX-License-Identifier: Apache-2.0
"""One agent a host under RLlib: one policy serves all of them, and no lab starts before the first reset."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ray.rllib.env.multi_agent_env import MultiAgentEnv

SPEC = {
    "topology": {"preset": "dumbbell-10m"},
    "controller": {"name": "cubic"},
    "workload": {"kind": "pairs"},
    "time": {"duration": "50ms"},
}


def config() -> dict[str, Any]:
    return {"spec": SPEC, "overrides": ["agent.reward=thesis_all"], "view": "local"}


def test_the_protocol_of_rllib() -> None:
    from dc_gym.rl.multi_agent import HostsMultiAgentEnv

    env = HostsMultiAgentEnv(config())
    assert isinstance(env, MultiAgentEnv)
    assert env.possible_agents == ["h1", "h2", "h3", "h4"] == list(env.observation_spaces) == list(env.action_spaces)
    assert env._env.session.boots == 0
    observations, _ = env.reset(seed=1)
    assert set(observations) == set(env.possible_agents)
    for step in range(1, 51):
        observations, rewards, terminated, truncated, infos = env.step({agent: np.zeros(1) for agent in env.agents})
        assert all(env.observation_spaces[agent].contains(seen) for agent, seen in observations.items())
        assert len(set(rewards.values())) == 1 and not terminated["__all__"]
        assert truncated["__all__"] is truncated["h1"] is (step == 50)
    assert "episode_totals" in infos["__common__"]
    env.close()


@pytest.mark.usefixtures("ray")
def test_one_policy_trains_on_all_hosts() -> None:
    from ray.rllib.algorithms.ppo import PPOConfig

    from dc_gym.rl.multi_agent import HostsMultiAgentEnv

    made = PPOConfig().environment(HostsMultiAgentEnv, env_config=config()).env_runners(num_env_runners=0)
    made.multi_agent(policies={"host"}, policy_mapping_fn=lambda agent, episode, **_: "host")
    made.training(train_batch_size_per_learner=100, minibatch_size=100, num_epochs=1)
    made.debugging(seed=1, log_level="ERROR")
    algorithm = made.build_algo()
    try:
        found = algorithm.train()["env_runners"]
        assert found["num_env_steps_sampled"] == 100 and found["episode_len_mean"] == 50
        assert set(found["module_episode_returns_mean"]) == {"host"}
    finally:
        algorithm.stop()
