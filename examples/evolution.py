# SPDX-License-Identifier: Apache-2.0
"""The cross-entropy method in one file on a vector of labs, with numpy alone: python examples/evolution.py --generations 20

Each lab of the vector tries another net for an episode, all with the same traffic. The best fourth of the nets give mean and
deviation of the next generation (Rubinstein 1999; Mannor et al., ICML 2003). One seed gives one policy, bit for bit.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from dc_gym.learn.dense_policy import policy_of

Floats = npt.NDArray[np.float64]
LEAST_DEVIATION = 0.02


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="dc_gym.learn:dcgym/Dumbbell10m-v0", help="id of the environment")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="changes the spec")
    parser.add_argument("--generations", type=int, default=20, help="generations of nets (default: %(default)s)")
    parser.add_argument("--nets", type=int, default=16, help="nets of a generation, a multiple of --labs (default: %(default)s)")
    parser.add_argument("--labs", type=int, default=8, help="labs in the vector (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of nets and traffic (default: %(default)s)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the policy to this file, for `dcgym run`")
    return parser.parse_args()


def returns_of(envs: Any, weights: Floats, biases: Floats, seed: int) -> Floats:
    """Returns the return of an episode for each lab, whose net is one layer. All labs have the traffic of one seed."""
    low, high = envs.single_action_space.low, envs.single_action_space.high
    observations, _ = envs.reset(seed=[seed] * envs.num_envs)
    total, going = np.zeros(envs.num_envs), np.ones(envs.num_envs, bool)
    while going.any():
        actions = np.einsum("lao,lo->la", weights, observations) + biases
        observations, rewards, ended, cut, _ = envs.step(np.clip(actions, low, high).astype(np.float32))
        total += np.where(going, rewards, 0.0)
        going &= ~(ended | cut)  # an episode that ended earlier begins anew, and does not count
    return total


def main() -> None:
    args = arguments()
    if args.nets % args.labs or args.nets < 4:
        raise SystemExit(f"--nets {args.nets}: give a multiple of --labs {args.labs}, and at least 4")
    envs: Any = gymnasium.make_vec(args.env, args.labs, "vector_entry_point", overrides=args.overrides, step_info=False)
    inputs, outputs = envs.single_observation_space.shape[0], envs.single_action_space.shape[0]
    generator = np.random.default_rng(args.seed)
    mean, deviation = np.zeros(outputs * (inputs + 1)), np.ones(outputs * (inputs + 1))
    begun_s = time.perf_counter()
    for generation in range(1, args.generations + 1):
        nets = mean + deviation * generator.standard_normal((args.nets, len(mean)))
        group_returns = []
        for group in nets.reshape(-1, args.labs, outputs, inputs + 1):
            group_returns.append(returns_of(envs, group[:, :, 1:], group[:, :, 0], args.seed + generation))
        order = np.argsort(-np.concatenate(group_returns), kind="stable")
        best = nets[order[: args.nets // 4]]
        mean, deviation = best.mean(0), np.maximum(best.std(0), LEAST_DEVIATION)
        returns = np.concatenate(group_returns)
        rate = generation * args.nets / (time.perf_counter() - begun_s)
        print(
            f"generation {generation}, return {returns.mean():.2f}, best {returns.max():.2f}, {rate:.1f} episodes/s", flush=True
        )
    if args.save:
        net = mean.reshape(outputs, inputs + 1)
        provenance = {"command": "examples/evolution.py", "algorithm": "CEM", "seed": args.seed, "generations": args.generations}
        policy_of(envs, [(net[:, 1:], net[:, 0])], provenance=provenance).write(args.save)
        print(args.save)
    envs.close()


if __name__ == "__main__":
    main()
