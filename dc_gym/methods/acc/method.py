# SPDX-License-Identifier: Apache-2.0
"""ACC's parts: policy `acc`, reward `acc`, and policy files of kind `acc`."""

from __future__ import annotations

from typing import Any

from dc_gym.base.methods import Method, MethodBench, MethodCurve, MethodPolicy, MethodPolicyFile, MethodReward


def _keys() -> type:
    from dc_gym.methods.acc.keys import AccKeys

    return AccKeys


def _agent(context: Any, keys: Any) -> Any:
    """An agent in each switch that sets the marking of its queues."""
    from dc_gym.methods.acc.agent import AccAgent

    return AccAgent(context, keys)


def _reward(frame: Any, scene: Any, share: Any) -> float:
    from dc_gym.methods.acc.reward import design_2

    return design_2(frame, scene)


def _add_commands(commands: Any) -> None:
    from dc_gym.methods.acc.offline.commands import add

    add(commands)


METHOD = Method(
    title="ACC",
    summary="train ACC's policies for switches",
    example="dcgym method acc train --out results/acc",
    add_commands=_add_commands,
    curve=MethodCurve(("episode", "scenario"), {"mean_error": "Error of the net's values in its updates"}),
    benches={
        "acc-cost": MethodBench(
            "what an inference of ACC's net costs, and what its integer form changes", "dc_gym.methods.acc.bench.acc_cost"
        )
    },
    policies={"acc": MethodPolicy(_keys, _agent)},
    rewards={
        "acc": MethodReward(
            (0, float("inf")),
            "mean over the switch ports that sent in the step of 0.7 bytes sent over what the line carries + 0.3 D(mean queue):"
            " ACC, design 2",
            _reward,
            flows=False,
        )
    },
    policy_files={"acc": MethodPolicyFile("a switch", "--set controller.policy=acc --set controller.start={path}")},
)
