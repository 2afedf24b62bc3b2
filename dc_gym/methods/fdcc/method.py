# SPDX-License-Identifier: Apache-2.0
"""FDCC's parts: policies for NICs of the kinds `fdcc` and `fdcc-tree`, and its commands."""

from __future__ import annotations

from typing import Any

from dc_gym.base.methods import Method, MethodCurve, MethodNicPolicy


def _add_commands(commands: Any) -> None:
    from dc_gym.methods.fdcc.offline.commands import add

    add(commands)


def _network() -> Any:
    from dc_gym.methods.fdcc.policy import NETWORK

    return NETWORK


def _trees() -> Any:
    from dc_gym.methods.fdcc.policy import TREES

    return TREES


def _reference_of_network() -> Any:
    from dc_gym.methods.fdcc.reference import OF_NETWORK

    return OF_NETWORK


def _reference_of_trees() -> Any:
    from dc_gym.methods.fdcc.reference import OF_TREES

    return OF_TREES


METHOD = Method(
    title="FDCC",
    summary="train FDCC's policies for NICs, and make trees of them",
    example="dcgym method fdcc train --out results/fdcc",
    add_commands=_add_commands,
    curve=MethodCurve(("episode", "flows")),
    nic_policies={
        "fdcc": MethodNicPolicy("fdcc", 5, _network, _reference_of_network),
        "fdcc-tree": MethodNicPolicy("fdcc-tree", 6, _trees, _reference_of_trees),
    },
)
