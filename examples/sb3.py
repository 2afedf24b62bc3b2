# SPDX-License-Identifier: Apache-2.0
"""PPO or SAC of stable-baselines3 on labs, one process for each: python examples/sb3.py --algo PPO --steps 40000

It needs stable-baselines3 (pip install stable-baselines3). docs/rl-libraries.md says how it compares with other libraries.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import SubprocVecEnv
from torch import nn

from dc_gym.learn.dense_policy import policy_of


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--algo", choices=("PPO", "SAC"), default="PPO", help="the algorithm (default: %(default)s)")
    parser.add_argument("--env", default="dc_gym.learn:dcgym/Dumbbell10m-v0", help="id of the environment")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="changes the spec")
    parser.add_argument("--steps", type=int, default=40_000, help="steps over all labs (default: %(default)s)")
    parser.add_argument("--labs", type=int, default=2, help="processes with a lab each (default: %(default)s)")
    parser.add_argument("--rollout", type=int, default=512, help="PPO: steps of each lab before an update (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=3, help="episodes of the evaluation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of networks, exploration and traffic (default: %(default)s)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the policy to this file, for `dcgym run`")
    return parser.parse_args()


def learner(args: argparse.Namespace, envs: SubprocVecEnv) -> BaseAlgorithm:
    """Returns the algorithm with nets of two layers of 64. A policy file holds nets with one activation."""
    if args.algo == "SAC":
        kwargs = {"net_arch": [64, 64], "activation_fn": nn.ReLU}
        return SAC("MlpPolicy", envs, gamma=0.95, policy_kwargs=kwargs, seed=args.seed, device="cpu")
    kwargs = {"net_arch": [64, 64], "activation_fn": nn.Tanh, "log_std_init": -0.5}
    return PPO(
        "MlpPolicy",
        envs,
        n_steps=args.rollout,
        batch_size=128,
        learning_rate=1e-3,
        gamma=0.95,
        policy_kwargs=kwargs,
        seed=args.seed,
        device="cpu",
    )


def layers_of(model: BaseAlgorithm) -> list[nn.Linear]:
    """Returns the layers from the observation to the action's mean."""
    if isinstance(model, SAC):
        parts = [*model.actor.latent_pi, model.actor.mu]
    else:
        parts = [*model.policy.mlp_extractor.policy_net, model.policy.action_net]
    return [part for part in parts if isinstance(part, nn.Linear)]


def main() -> None:
    args = arguments()
    making = {"env_kwargs": {"overrides": args.overrides}, "vec_env_cls": SubprocVecEnv}
    envs = make_vec_env(args.env, n_envs=args.labs, seed=args.seed, **making)
    model = learner(args, envs)
    model.learn(args.steps)
    envs.close()
    single = gymnasium.make(args.env, overrides=args.overrides)
    single.reset(seed=1_000_001)  # episodes that the training did not have
    mean, deviation = evaluate_policy(model, single, args.episodes, warn=False)
    print(f"{args.algo}, {model.num_timesteps} steps, return {mean:.2f} +- {deviation:.2f} over {args.episodes} episodes")
    if args.save:
        layers = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in layers_of(model)]
        how = {"activation": "relu", "output": "tanh"} if args.algo == "SAC" else {"activation": "tanh", "output": "clip"}
        provenance = {"command": "examples/sb3.py", "algorithm": args.algo, "seed": args.seed, "steps": model.num_timesteps}
        policy_of(single, layers, **how, provenance=provenance).write(args.save)
        print(args.save)
    single.close()


if __name__ == "__main__":
    main()
