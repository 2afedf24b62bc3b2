# SPDX-License-Identifier: Apache-2.0
"""Behaviour cloning: a net learns a policy's actions from a dataset of `dcgym record`.

dcgym record dcgym/ChangingLink-v1 --episodes 40
python examples/behaviour_cloning.py results/minari ChangingLink/oracle-v0 --save clone.npz
dcgym evaluate clone.npz dcgym/ChangingLink-v1

It needs Minari and scikit-learn (pip install 'dc-gym[offline]').
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import minari
import numpy as np
from sklearn.neural_network import MLPRegressor

import dc_gym.learn  # noqa: F401 - registers the environments
from dc_gym.learn.dense_policy import policy_of

EVERY = 5
"""One episode in so many is not learnt from, and tells the error."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, metavar="DIR", help="folder of Minari's datasets")
    parser.add_argument("dataset", metavar="ID", help="a dataset, such as ChangingLink/oracle-v0")
    parser.add_argument("--seed", type=int, default=1, help="of the net's first weights and of batches")
    parser.add_argument("--save", type=Path, default=Path("clone.npz"), metavar="FILE", help="the policy file to write")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    os.environ["MINARI_DATASETS_PATH"] = str(args.root)
    dataset = minari.load_dataset(args.dataset)
    episodes = list(dataset)
    test, train = episodes[::EVERY], [one for number, one in enumerate(episodes) if number % EVERY]
    net = MLPRegressor(hidden_layer_sizes=(64, 64), activation="tanh", max_iter=500, random_state=args.seed)
    net.fit(np.concatenate([one.observations[:-1] for one in train]), np.concatenate([one.actions for one in train]))
    error = [np.abs(net.predict(one.observations[:-1]) - one.actions).mean() for one in test]
    print(f"episodes     {len(train)} learnt, {len(test)} others: mean error of an action {np.mean(error):.3f}")
    layers = [(weight.T, bias) for weight, bias in zip(net.coefs_, net.intercepts_, strict=True)]
    facts = {"command": "examples/behaviour_cloning.py", "dataset": args.dataset, "digest": dataset.storage.metadata["digest"]}
    policy_of(dataset.recover_environment(), layers, provenance=facts | {"seed": args.seed}).write(args.save)
    print(f"policy       {args.save}")


if __name__ == "__main__":
    main()
