# SPDX-License-Identifier: Apache-2.0
"""examples/sb3.py and examples/torchrl_ppo.py: short trainings, whose policy file acts as their net does and in a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym.cli import main
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.results.results import load_result

EXAMPLES = Path(__file__).parents[3] / "examples"
LAB = ["--set", "time.duration=300ms"]
SHORT = {
    "sb3": ("stable_baselines3", ["--steps", "128", "--rollout", "64", "--labs", "2", "--episodes", "1"]),
    "torchrl_ppo": ("torchrl", ["--steps", "200", "--rollout", "100", "--minibatch", "50", "--epochs", "2"]),
}


def train(name: str, folder: Path, *words: str) -> list[str]:
    """Runs an example with a few steps and returns the lines that it prints."""
    package, short = SHORT[name]
    pytest.importorskip(package)
    argv = [sys.executable, str(EXAMPLES / f"{name}.py"), *short, *LAB, "--save", str(folder / "policy.npz"), *words]
    process = subprocess.run(argv, capture_output=True, text=True, cwd=folder, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def acts(folder: Path) -> None:
    words = [*LAB, "--set", "time.warmup=0s", "--no-plot", "--quiet", "--out", str(folder / "run")]
    assert main.main(["run", str(EXAMPLES / "gym.toml"), "--set", f"controller={folder / 'policy.npz'}", *words]) == 0
    assert load_result(folder / "run").manifest["agent"]["steps"] == 30


@pytest.mark.lab
@pytest.mark.parametrize(("algorithm", "output"), [("PPO", "clip"), ("SAC", "tanh")])
def test_stable_baselines3(algorithm: str, output: str, tmp_path: Path) -> None:
    lines = train("sb3", tmp_path, "--algo", algorithm)
    assert lines[-2].startswith(f"{algorithm}, 128 steps, return ") and "over 1 episodes" in lines[-2]
    policy = AgentPolicy.read(tmp_path / "policy.npz")
    assert len(policy.weights) == 3 and policy.output == output and policy.provenance["algorithm"] == algorithm
    acts(tmp_path)


@pytest.mark.lab
def test_stable_baselines3_takes_an_id() -> None:
    """It asks for pictures. Its own check of environments finds nothing."""
    pytest.importorskip("stable_baselines3")
    import gymnasium
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env("dc_gym.learn:dcgym/Dumbbell10m-v0", n_envs=1, seed=1, env_kwargs={"overrides": ["time.duration=100ms"]})
    envs.reset()
    envs.step([envs.action_space.sample()])
    assert envs.get_images()[0].shape == (480, 640, 3)
    envs.close()
    env = gymnasium.make("dc_gym.learn:dcgym/Dumbbell10m-v0", render_mode="rgb_array")
    check_env(env.unwrapped)
    env.close()


@pytest.mark.lab
def test_torchrl(tmp_path: Path) -> None:
    lines = train("torchrl_ppo", tmp_path)
    assert lines[-3].startswith("100 steps, return ") and lines[-2].startswith("200 steps, return ")
    assert AgentPolicy.read(tmp_path / "policy.npz").output == "tanh"
    acts(tmp_path)


def test_the_file_acts_as_the_net() -> None:
    """stable-baselines3's own prediction and the policy file's agree on observations at random."""
    sb3 = pytest.importorskip("stable_baselines3")
    import importlib.util

    import gymnasium
    import numpy as np

    from dc_gym.learn.dense_policy import policy_of

    spec = importlib.util.spec_from_file_location("sb3_example", EXAMPLES / "sb3.py")
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    env = gymnasium.make("dc_gym.learn:dcgym/Dumbbell10m-v0")
    for algorithm, activation, output in (("PPO", "tanh", "clip"), ("SAC", "relu", "tanh")):
        policy_class = getattr(sb3, algorithm)
        nn = __import__("torch").nn
        kwargs = {"net_arch": [64, 64], "activation_fn": nn.Tanh if algorithm == "PPO" else nn.ReLU}
        model = policy_class("MlpPolicy", env, policy_kwargs=kwargs, seed=1, device="cpu")
        layers = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in example.layers_of(model)]
        written = policy_of(env, layers, activation=activation, output=output)
        for observation in np.random.default_rng(1).uniform(0, 1, (16, env.observation_space.shape[0])).astype(np.float32):
            np.testing.assert_allclose(written.act(observation), model.predict(observation, deterministic=True)[0], atol=1e-5)
    env.close()
