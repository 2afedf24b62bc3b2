# SPDX-License-Identifier: Apache-2.0
"""RLlib's behaviour cloning: a net learns the actions in the episodes that a training of RLlib wrote.

dcgym train dcgym/ChangingLink-v1 --config examples/rllib_output.toml --steps 40000 --out results/ppo
python examples/rllib_bc.py dcgym/ChangingLink-v1 results/episodes --save clone.npz
dcgym evaluate clone.npz dcgym/ChangingLink-v1
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import gymnasium
import ray
from ray.rllib.algorithms.bc import BCConfig

import dc_gym.learn  # noqa: F401 - registers the environments
from dc_gym.learn.dense_policy import policy_of
from dc_gym.learn.rllib.policy import layers_of

UPDATES = 100
"""Batches of an iteration."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("task", metavar="ID", help="the task of the episodes")
    parser.add_argument("episodes", type=Path, metavar="DIR", help="the folder that offline_data.output named")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the net's first weights")
    parser.add_argument("--save", type=Path, default=Path("clone.npz"), metavar="FILE", help="the policy file to write")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    env = gymnasium.make(args.task)
    config = BCConfig().environment(observation_space=env.observation_space, action_space=env.action_space)
    config.offline_data(input_=[str(args.episodes.resolve())], input_read_episodes=True, dataset_num_iters_per_learner=UPDATES)
    config.training(lr=1e-3, train_batch_size_per_learner=256)
    config.rl_module(model_config={"fcnet_hiddens": [64, 64]})
    config.debugging(seed=args.seed, log_level="ERROR")
    ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    algorithm = config.build_algo()
    for iteration in range(1, args.iterations + 1):
        loss = algorithm.train()["learners"]["default_policy"]["policy_loss"]
        print(f"iteration {iteration:3}  loss {loss:.3f}")
    policy = policy_of(env, layers_of(algorithm.get_module()), provenance={"command": "examples/rllib_bc.py", "seed": args.seed})
    policy.write(args.save)
    print(f"policy       {args.save}")
    algorithm.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
