# SPDX-License-Identifier: Apache-2.0
"""PPO of TorchRL on one lab: python examples/torchrl_ppo.py --steps 40000

It needs TorchRL (pip install torchrl). docs/rl-libraries.md says how it compares with other libraries.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
import torch
from tensordict.nn import NormalParamExtractor, TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper, TransformedEnv
from torchrl.envs.transforms import RewardSum
from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from dc_gym.learn.dense_policy import policy_of


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="dc_gym.learn:dcgym/Dumbbell10m-v0", help="id of the environment")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE", help="changes the spec")
    parser.add_argument("--steps", type=int, default=40_000, help="steps of the lab (default: %(default)s)")
    parser.add_argument("--rollout", type=int, default=1000, help="steps before an update (default: %(default)s)")
    parser.add_argument("--epochs", type=int, default=10, help="passes over each batch (default: %(default)s)")
    parser.add_argument("--minibatch", type=int, default=125, help="transitions of a minibatch (default: %(default)s)")
    parser.add_argument("--lr", type=float, default=1e-3, help="Adam's step (default: %(default)s)")
    parser.add_argument("--gamma", type=float, default=0.95, help="discount (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of networks, exploration and traffic (default: %(default)s)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the policy to this file, for `dcgym run`")
    return parser.parse_args()


def networks(env: TransformedEnv) -> tuple[ProbabilisticActor, ValueOperator, MLP]:
    """Returns a policy whose samples pass through tanh, a value, and the policy's net: two layers of 64 each."""
    inputs, outputs = env.observation_spec["observation"].shape[-1], env.action_spec.shape[-1]
    net = MLP(in_features=inputs, out_features=2 * outputs, num_cells=[64, 64], activation_class=nn.Tanh)
    both = nn.Sequential(net, NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(both, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        distribution_kwargs={"low": env.action_spec.space.low, "high": env.action_spec.space.high, "tanh_loc": False},
        return_log_prob=True,
    )
    value = ValueOperator(MLP(in_features=inputs, out_features=1, num_cells=[64, 64], activation_class=nn.Tanh), ["observation"])
    return actor, value, net


def main() -> None:
    args = arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    single = gymnasium.make(args.env, overrides=args.overrides)
    env = TransformedEnv(GymWrapper(single), RewardSum())
    env.set_seed(args.seed)
    actor, value, net = networks(env)
    loss = ClipPPOLoss(actor, value, clip_epsilon=0.2, entropy_coeff=0.0, critic_coeff=0.5)
    advantage = GAE(gamma=args.gamma, lmbda=0.95, value_network=value)
    optimizer = torch.optim.Adam(loss.parameters(), args.lr)
    collector = Collector(
        env, actor, frames_per_batch=args.rollout, total_frames=args.steps, auto_register_policy_transforms=False
    )
    steps = 0
    for batch in collector:
        steps += batch.numel()
        for _ in range(args.epochs):
            advantage(batch)  # with the values of this pass
            for rows in torch.randperm(batch.numel()).split(args.minibatch):
                losses = loss(batch[rows])
                total = losses["loss_objective"] + losses["loss_critic"]
                optimizer.zero_grad()
                total.backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimizer.step()
        ended = batch["next", "episode_reward"][batch["next", "done"]]
        return_text = f"return {ended.mean():.2f}" if len(ended) else "no episode has ended in it"
        print(f"{steps} steps, {return_text}", flush=True)
    if args.save:
        dense = [layer for layer in net if isinstance(layer, nn.Linear)]
        pairs = [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in dense]
        weight, bias = pairs[-1]
        means = len(bias) // 2  # the other half are deviations
        provenance = {"command": "examples/torchrl_ppo.py", "algorithm": "PPO", "seed": args.seed, "steps": steps}
        policy = policy_of(single, [*pairs[:-1], (weight[:means], bias[:means])], output="tanh", provenance=provenance)
        policy.write(args.save)
        print(args.save)
    collector.shutdown()


if __name__ == "__main__":
    main()
