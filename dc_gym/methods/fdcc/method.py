# SPDX-License-Identifier: Apache-2.0
"""FDCC's parts: its commands."""

from __future__ import annotations

from typing import Any

from dc_gym.base.methods import Method, MethodCurve


def _add_commands(commands: Any) -> None:
    from dc_gym.methods.fdcc.offline.commands import add

    add(commands)


METHOD = Method(
    summary="train FDCC's policies for NICs, and make trees of them",
    example="dcgym method fdcc train --out results/fdcc",
    add_commands=_add_commands,
    curve=MethodCurve(("episode", "flows")),
)
