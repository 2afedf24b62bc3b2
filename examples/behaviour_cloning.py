# SPDX-License-Identifier: Apache-2.0
"""Behaviour cloning: a net learns a policy's actions from a dataset of `dcgym record`, or from the episodes that RLlib wrote.

dcgym record dcgym/ChangingLink-v1 --episodes 40
python examples/behaviour_cloning.py results/minari ChangingLink/oracle-v0 --save clone.npz
dcgym evaluate clone.npz dcgym/ChangingLink-v1

dcgym train dcgym/ChangingLink-v1 --config output.toml --out results/ppo    # docs/training.md#episodes-of-rllib
python examples/behaviour_cloning.py results/episodes dcgym/ChangingLink-v1 --save clone.npz

It needs Minari and scikit-learn (pip install 'dc-gym[offline]'); for RLlib's episodes 'dc-gym[rl]' in place of Minari.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from sklearn.neural_network import MLPRegressor

import dc_gym.learn  # noqa: F401 - registers the environments
from dc_gym.learn.dense_policy import policy_of

EVERY = 5
"""One episode in so many is not learnt from, and tells the error."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, metavar="DIR", help="folder of Minari's datasets, or of RLlib's episodes")
    parser.add_argument("dataset", metavar="ID", help="a dataset, such as ChangingLink/oracle-v0; of RLlib's episodes their task")
    parser.add_argument("--seed", type=int, default=1, help="of the net's first weights and of batches")
    parser.add_argument("--save", type=Path, default=Path("clone.npz"), metavar="FILE", help="the policy file to write")
    return parser.parse_args()


def of_minari(root: Path, dataset_id: str) -> tuple[Any, list[Any], dict[str, str]]:
    """Returns the environment, each episode's observations and actions, and facts on the dataset."""
    import minari

    os.environ["MINARI_DATASETS_PATH"] = str(root)
    dataset = minari.load_dataset(dataset_id)
    episodes = [(one.observations[:-1], one.actions) for one in dataset]
    return dataset.recover_environment(), episodes, {"dataset": dataset_id, "digest": dataset.storage.metadata["digest"]}


def of_rllib(root: Path, task: str) -> tuple[Any, list[Any], dict[str, str]]:
    """Returns the same of RLlib's files, whose actions may lie outside the action space."""
    import msgpack
    import msgpack_numpy
    from pyarrow import parquet

    env, episodes = gymnasium.make(task), []
    for path in sorted(root.rglob("*.parquet")):
        for packed in parquet.read_table(path)["item"].to_pylist():
            state = msgpack.unpackb(packed, object_hook=msgpack_numpy.decode, strict_map_key=False)
            observed, acted = (np.stack(state[name]["data"]) for name in ("observations", "actions"))
            episodes.append((observed[:-1], np.clip(acted, env.action_space.low, env.action_space.high)))
    return env, episodes, {"episodes": str(root), "task": task}


def main() -> None:
    args = arguments()
    env, episodes, origin = (of_rllib if args.dataset.startswith("dcgym/") else of_minari)(args.root, args.dataset)
    test, train = episodes[::EVERY], [one for number, one in enumerate(episodes) if number % EVERY]
    net = MLPRegressor(hidden_layer_sizes=(64, 64), activation="tanh", max_iter=500, random_state=args.seed)
    net.fit(*(np.concatenate(parts) for parts in zip(*train, strict=True)))
    error = [np.abs(net.predict(observations) - actions).mean() for observations, actions in test]
    print(f"episodes     {len(train)} learnt, {len(test)} others: mean error of an action {np.mean(error):.3f}")
    layers = [(weight.T, bias) for weight, bias in zip(net.coefs_, net.intercepts_, strict=True)]
    facts = {"command": "examples/behaviour_cloning.py", **origin, "seed": args.seed}
    policy_of(env, layers, provenance=facts).write(args.save)
    print(f"policy       {args.save}")


if __name__ == "__main__":
    main()
