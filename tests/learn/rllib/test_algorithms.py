# SPDX-License-Identifier: Apache-2.0
"""Each algorithm learns a toy; those of RLlib's run at all. What the numbers of the toy mean is in toy_link.py."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("ray")


def build(name: str, **training: Any) -> Any:
    from dc_gym.learn.rllib.algorithms import resolve

    config = resolve(name).config()
    config.environment("toy", env_config={"hosts": 2, "levels": 8 if name == "DQN" else 0})
    config.env_runners(
        num_env_runners=0, num_envs_per_env_runner=4, gym_env_vectorize_mode=gymnasium.VectorizeMode.VECTOR_ENTRY_POINT
    )
    config.learners(num_learners=0).debugging(seed=1, log_level="ERROR")
    config.reporting(min_sample_timesteps_per_iteration=500, min_time_s_per_iteration=0)
    return config.training(gamma=0.9, **training)


def returns(config: Any, steps: int) -> list[float]:
    """Returns the mean return of the episodes of each iteration."""
    algorithm = config.build_algo()
    try:
        means, sampled_steps = [], 0
        while sampled_steps < steps:
            sampled = algorithm.train()["env_runners"]
            sampled_steps = sampled["num_env_steps_sampled_lifetime"]
            means.append(float(sampled["episode_return_mean"]))
        return means
    finally:
        algorithm.stop()


def actor_critic(name: str) -> Any:
    """Returns a configuration with learning rates for a toy; those of the papers take a hundred times as long."""
    config = build(name, train_batch_size_per_learner=128, actor_lr=1e-3, tau=0.02, training_intensity=32.0)
    config.training(num_steps_sampled_before_learning_starts=256)
    return config.env_runners(rollout_fragment_length=8)


def test_reinforce_learns() -> None:
    means = returns(build("REINFORCE", lr=3e-3, train_batch_size_per_learner=512), 6000)
    assert np.mean(means[:2]) < 0 < 5 < np.mean(means[-3:])


@pytest.mark.long
@pytest.mark.parametrize("name", ["DDPG", "TD3"])
def test_a_deterministic_actor_learns(name: str) -> None:
    means = returns(actor_critic(name), 4000)
    assert means[0] < 5 < 10 < means[-1]


def test_as_many_updates_as_were_told() -> None:
    """16 transitions are replayed for each that was sampled, from the 100th on: 4 labs, 8 steps each at a time."""
    config = build("DDPG", train_batch_size_per_learner=64, training_intensity=16.0, num_steps_sampled_before_learning_starts=100)
    algorithm = config.build_algo()
    try:
        result = algorithm.train()
    finally:
        algorithm.stop()
    sampled = result["env_runners"]["num_env_steps_sampled_lifetime"]
    learned = result["learners"]["default_policy"]
    assert sampled == 512
    assert learned["num_module_steps_trained_lifetime"] == 16 * (512 - 96)
    assert learned["num_target_updates"] == 16 * (512 - 96) / 64, "a target moves with each update"


@pytest.mark.long
def test_prioritized_replay() -> None:
    replay = {"type": "PrioritizedEpisodeReplayBuffer", "capacity": 10_000, "alpha": 0.6, "beta": 0.4}
    means = returns(actor_critic("DDPG").training(replay_buffer_config=replay, n_step=3), 1000)
    assert all(np.isfinite(means))


@pytest.mark.long
@pytest.mark.parametrize("name", ["PPO", "SAC", "DQN"])
def test_those_of_rllib_run(name: str) -> None:
    config = build(name, train_batch_size_per_learner=64)
    if name == "PPO":
        config.training(num_epochs=2, minibatch_size=32)
    else:
        config.training(num_steps_sampled_before_learning_starts=256)
        config.env_runners(rollout_fragment_length=16)
    assert all(np.isfinite(returns(config, 600)))


def test_an_actor_that_is_kept_from_the_ends_of_its_tanh() -> None:
    """With a critic of 0, the actor's loss is the weighted square of the tanh's input; its gradient leads the input back to 0."""
    from types import SimpleNamespace

    import torch

    from dc_gym.learn.rllib.algorithms.ddpg import DDPGLearner, DDPGModule

    space = gymnasium.spaces.Box(-1, 1, (3,))
    module = DDPGModule(observation_space=space, action_space=space, model_config={}, inference_only=False)
    with torch.no_grad():
        for critic in module.qs:
            critic[-1].weight.zero_()
            critic[-1].bias.zero_()
        module.pi[-2].weight.zero_()
        module.pi[-2].bias.fill_(9.0)
    batch = {"obs": torch.ones(5, 3)}
    for weight, slope in ((0.0, 0.0), (0.01, 2 * 0.01 * 9 / 3)):
        module.zero_grad()
        loss = DDPGLearner.actor_loss(None, module, SimpleNamespace(preactivation_l2=weight), batch)  # type: ignore[arg-type]
        loss.backward()  # type: ignore[no-untyped-call]
        assert abs(loss.item() - weight * 81) < 1e-5
        assert torch.allclose(module.pi[-2].bias.grad, torch.full((3,), slope))


def noisy() -> Any:
    """A module with three actions."""
    from dc_gym.learn.rllib.algorithms.ddpg import DDPGModule

    space = gymnasium.spaces.Box(-1, 1, (3,))
    settings = {"ou_theta": 0.15, "ou_sigma": 0.2}
    return DDPGModule(observation_space=space, action_space=space, model_config=settings, inference_only=True)


def test_noise_begins_with_an_episode() -> None:
    import torch

    from dc_gym.learn.rllib.callbacks import EpisodeStarts

    module = noisy()
    EpisodeStarts().on_episode_start(env_index=1, rl_module=module)  # before the first step
    for _ in range(100):
        before = module.noise(torch.zeros(2, 3))
    EpisodeStarts().on_episode_start(env_index=1, rl_module=module)
    module.model_config["ou_sigma"] = 0.0
    after = module.noise(torch.zeros(2, 3))
    assert torch.equal(after[1], torch.zeros(3)) and torch.equal(after[0], 0.85 * before[0])


def test_the_noise_is_a_process_of_each_lab() -> None:
    import torch

    module = noisy()
    torch.manual_seed(1)
    drawn = torch.stack([module.noise(torch.zeros(4, 3)) for _ in range(5000)]).numpy()
    deviation = 0.2 / np.sqrt(1 - 0.85**2)  # of x = 0.85 x + 0.2 N(0, 1)
    np.testing.assert_allclose(drawn.std(0), deviation, rtol=0.1)
    step = np.corrcoef(drawn[1:, 0, 0], drawn[:-1, 0, 0])[0, 1]
    assert abs(step - 0.85) < 0.03 and abs(np.corrcoef(drawn[:, 0, 0], drawn[:, 1, 0])[0, 1]) < 0.2
