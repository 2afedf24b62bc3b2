# SPDX-License-Identifier: Apache-2.0
"""PPO in one file on a vector of labs, after CleanRL's ppo_continuous_action.py: python examples/ppo.py --steps 100000

It needs PyTorch alone. One seed gives one training, bit for bit, on one machine and version of PyTorch (docs/training.md).
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Normal


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="dc_gym.learn:dcgym/Dumbbell10m-v0", help="id of the environment")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="changes the spec")
    parser.add_argument("--steps", type=int, default=100_000, help="steps over all labs (default: %(default)s)")
    parser.add_argument("--labs", type=int, default=8, help="labs in the vector (default: %(default)s)")
    parser.add_argument("--rollout", type=int, default=128, help="steps of each lab before an update (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over each batch (default: %(default)s)")
    parser.add_argument("--minibatches", type=int, default=8, help="parts of each pass (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's step, annealed to 0 (default: %(default)s)")
    parser.add_argument("--gamma", type=float, default=0.95, help="discount (default: %(default)s)")
    parser.add_argument("--gae-lambda", type=float, default=0.95, help="of the advantages (default: %(default)s)")
    parser.add_argument("--clip", type=float, default=0.2, help="of the ratio (default: %(default)s)")
    parser.add_argument("--entropy", type=float, default=0.0, help="weight of the entropy (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of networks, exploration and traffic (default: %(default)s)")
    parser.add_argument("--save", metavar="FILE", help="where the agent's parameters are saved at the end")
    return parser.parse_args()


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    """A Gaussian policy and a value, two layers of 64 each."""

    def __init__(self, observation: int, action: int) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer(observation, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(observation, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, action, 0.01))
        self.log_std = nn.Parameter(torch.full((action,), -0.5))

    def policy(self, observations: torch.Tensor) -> Normal:
        return Normal(self.actor(observations), self.log_std.exp())

    def value(self, observations: torch.Tensor) -> torch.Tensor:
        value: torch.Tensor = self.critic(observations).squeeze(-1)
        return value


def advantages(
    rewards: torch.Tensor, values: torch.Tensor, terminated: torch.Tensor, over: torch.Tensor, gamma: float, lam: float
) -> torch.Tensor:
    """Returns the generalized advantage estimates, [steps, labs]. `values` has one step more. After a truncation, the value of
    the last observation stands for the rest; after a termination there is none."""
    estimates, last = torch.zeros_like(rewards), torch.zeros(rewards.shape[1])
    for step in reversed(range(len(rewards))):
        error = rewards[step] + gamma * values[step + 1] * ~terminated[step] - values[step]
        estimates[step] = last = error + gamma * lam * last * ~over[step]
    return estimates


def update(agent: Agent, optimizer: torch.optim.Optimizer, batch: dict[str, torch.Tensor], args: argparse.Namespace) -> None:
    """Makes the passes of one update over the transitions of a batch."""
    count = len(batch["seen"])
    for _ in range(args.epochs):
        for rows in torch.randperm(count).tensor_split(args.minibatches):
            observations, gain = batch["seen"][rows], batch["gain"][rows]
            policy, value = agent.policy(observations), agent.value(observations)
            ratio = (policy.log_prob(batch["action"][rows]).sum(-1) - batch["log_prob"][rows]).exp()
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            policy_loss = -torch.min(ratio * gain, ratio.clamp(1 - args.clip, 1 + args.clip) * gain).mean()
            value_loss = 0.5 * (value - batch["target"][rows]).square().mean()
            loss = policy_loss + 0.5 * value_loss - args.entropy * policy.entropy().sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()


def main() -> None:
    args = arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs: Any = gymnasium.make_vec(args.env, args.labs, "vector_entry_point", overrides=args.overrides, step_info=False)
    agent = Agent(envs.single_observation_space.shape[0], envs.single_action_space.shape[0])
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    low, high = torch.from_numpy(envs.action_space.low), torch.from_numpy(envs.action_space.high)
    shape = args.rollout, args.labs
    observations = torch.zeros((args.rollout + 1, args.labs, envs.single_observation_space.shape[0]))
    action = torch.zeros((*shape, envs.single_action_space.shape[0]))
    log_prob, reward = torch.zeros(shape), torch.zeros(shape)
    terminated, over, resets = (torch.zeros(shape, dtype=torch.bool) for _ in range(3))
    updates = max(1, args.steps // (args.rollout * args.labs))
    observations[-1] = torch.from_numpy(envs.reset(seed=args.seed)[0])
    was_over, returns = np.zeros(args.labs, bool), []
    begun_s = time.perf_counter()
    for number in range(1, updates + 1):
        optimizer.param_groups[0]["lr"] = args.lr * (1 - (number - 1) / updates)
        observations[0], ended, sampling_s = observations[-1].clone(), [], time.perf_counter()
        for step in range(args.rollout):
            with torch.no_grad():
                policy = agent.policy(observations[step])
                action[step] = policy.sample()
                log_prob[step] = policy.log_prob(action[step]).sum(-1)
            resets[step] = torch.from_numpy(was_over)  # this step begins an episode, and its action has no effect
            next_obs, gained, ends, cuts, infos = envs.step(action[step].clamp(low, high).numpy())
            observations[step + 1], reward[step] = torch.from_numpy(next_obs), torch.from_numpy(gained)
            terminated[step], over[step] = torch.from_numpy(ends), torch.from_numpy(ends | cuts)
            was_over = ends | cuts
            if "episode_totals" in infos:
                ended += infos["episode_totals"]["return"][infos["_episode_totals"]].tolist()
        sampling_s = time.perf_counter() - sampling_s
        with torch.no_grad():
            values = agent.value(observations)
            gain = advantages(reward, values, terminated, over | resets, args.gamma, args.gae_lambda)
        valid = ~resets
        batch = {"seen": observations[:-1][valid], "action": action[valid], "log_prob": log_prob[valid], "gain": gain[valid]}
        update(agent, optimizer, batch | {"target": (gain + values[:-1])[valid]}, args)
        returns = ended or returns
        return_text = f"return {np.mean(returns):.2f}" if returns else "no episode has ended yet"
        steps = number * args.rollout * args.labs
        speed = f"{steps / (time.perf_counter() - begun_s):.0f} steps/s, {args.rollout * args.labs / sampling_s:.0f} in sampling"
        print(f"update {number} of {updates}, {steps} steps, {return_text}, {speed}", flush=True)
    if args.save:
        torch.save(agent.state_dict(), args.save)
    envs.close()


if __name__ == "__main__":
    main()
