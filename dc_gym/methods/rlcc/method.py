# SPDX-License-Identifier: Apache-2.0
"""RL-CC's parts: policies for NICs of the kinds `tree`, `mlp`, `mlp8` and `lstm`, a training of flows, and its commands."""

from __future__ import annotations

from functools import partial
from typing import Any

from dc_gym.base.methods import Method, MethodCurve, MethodNicPolicy, MethodTrainer


def _add_commands(commands: Any) -> None:
    from dc_gym.methods.rlcc.offline.commands import add

    add(commands)


def _kind(name: str) -> Any:
    from dc_gym.methods.rlcc.policy import KINDS

    return KINDS[name]


def _reference(name: str) -> Any:
    from dc_gym.methods.rlcc.offline.cells import REFERENCES

    return REFERENCES[name]


def _train_flows(args: Any, progress: Any) -> int:
    from dc_gym.methods.rlcc.offline import flow_training

    return flow_training.main(args, progress)


def _nic_policy(name: str, number: int, bound_ns: int | None = None) -> MethodNicPolicy:
    return MethodNicPolicy(f"rlcc-{name}", number, partial(_kind, name), partial(_reference, name), True, bound_ns)


METHOD = Method(
    title="RL-CC",
    summary="train, distil, explain and export RL-CC's policies for NICs",
    example="dcgym method rlcc explain rlcc-tree",
    add_commands=_add_commands,
    curve=MethodCurve(("update",)),
    threads=True,
    nic_policies={
        "tree": _nic_policy("tree", 1, bound_ns=500),
        "mlp": _nic_policy("mlp", 2),
        "mlp8": _nic_policy("mlp8", 3),
        "lstm": _nic_policy("lstm", 4),
    },
    trainers={
        "flows": MethodTrainer(
            "each flow of RL-CC's fluid model, without SPEC",
            "dcgym train --agents flows --algo PPO --steps 250000 --out results/flows",
            _train_flows,
        )
    },
)
