# SPDX-License-Identifier: Apache-2.0
"""Exported policies act as RLlib does: its pipeline runs an episode, and the toy's next observation shows what was applied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_task
from test_train import spec

from dc_gym.nets.agent_policy import AgentPolicy

pytestmark = pytest.mark.usefixtures("ray")


def built(name: str, model: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
    """An algorithm whose weights are far from their beginning, and its train.json."""
    import torch

    from dc_gym.learn.rllib import algorithms, manifest, settings, train

    choice = algorithms.resolve(name)
    configuration = settings.read(None, choice.name, {"labs": 1, "levels": 7 if name == "DQN" else 0})
    task = toy_task.register(spec(), configuration.settings)
    configuration.sections["model"] = model or {"fcnet_hiddens": [16, 16]}
    algorithm = train.configure(choice, configuration, task).build_algo()
    torch.manual_seed(1)
    for parameter in algorithm.get_module().parameters():
        torch.nn.init.normal_(parameter, std=1.0 if name == "DQN" else 0.2)  # so that it chooses several levels
    return algorithm, manifest.make(choice, configuration, spec(), {}, task)


SHARED = {"net": "sets", "hidden": [8, 8]}


@pytest.mark.parametrize(
    ("name", "model"),
    [("PPO", None), ("PPO", SHARED), ("SAC", None), ("TD3", None), ("REINFORCE", None), ("DQN", None)],
)
def test_numpy_acts_as_rllib(name: str, model: dict[str, Any] | None, tmp_path: Path) -> None:
    from dc_gym.learn.rllib import policy

    algorithm, about = built(name, model)
    try:
        module = algorithm.get_module()
        policy.write(module, about, 0, tmp_path / "policy.npz")
        runner = algorithm.env_runner
        if runner.module is not module:
            runner.module.load_state_dict(module.state_dict(), strict=False)
        episode = runner.sample(num_episodes=1, explore=False)[0]
    finally:
        algorithm.stop()
    observations = np.asarray(episode.get_observations())
    read = AgentPolicy.read(tmp_path / "policy.npz")
    acted = np.stack([read.act(observation) for observation in observations[:-1]])
    np.testing.assert_allclose(acted, observations[1:, 2:], atol=1e-5)
    assert acted.std() > 0.005
    assert read.observation[0] == "queue" and read.settings["action"] == "linear"


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("[nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 2)]", "has a Dropout"),
        ("[nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)]", "one activation"),
        ("[nn.Linear(4, 2, bias=False)]", "without bias"),
        ("[nn.Linear(4, 4), nn.Linear(4, 2)]", "one activation"),
        ("[nn.Tanh(), nn.Linear(4, 2)]", "has a Tanh"),
    ],
)
def test_nets_that_do_not_fit(layers: str, words: str) -> None:
    from torch import nn

    from dc_gym.learn.rllib.policy import NotExportable, read_layers

    with pytest.raises(NotExportable, match=words):
        read_layers(eval(layers, {"nn": nn}))


def test_more_than_its_layers_is_noticed() -> None:
    import torch

    from dc_gym.learn.rllib import policy

    algorithm, about = built("REINFORCE")
    try:
        module = algorithm.get_module()
        module.forward_inference = lambda batch: {"actions": torch.zeros(len(batch["obs"]), 2)}
        with pytest.raises(policy.NotExportable, match="act differently"):
            policy.read(module, about, 0)
    finally:
        algorithm.stop()
