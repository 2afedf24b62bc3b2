# SPDX-License-Identifier: Apache-2.0
"""RL-CC's parts: its commands."""

from __future__ import annotations

from typing import Any

from dc_gym.base.methods import Method, MethodCurve


def _add_commands(commands: Any) -> None:
    from dc_gym.methods.rlcc.offline.commands import add

    add(commands)


METHOD = Method(
    title="RL-CC",
    summary="train, distil, explain and export RL-CC's policies for NICs",
    example="dcgym method rlcc explain rlcc-tree",
    add_commands=_add_commands,
    curve=MethodCurve(("update",)),
    threads=True,
)
