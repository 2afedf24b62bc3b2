# SPDX-License-Identifier: Apache-2.0
"""Rewards of labs that no training had, in a file: a bench that was killed goes on with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from dc_gym.base import plain_json
from dc_gym.base.errors import AgentError
from dc_gym.base.files import put
from dc_gym.methods.acc.held_out import Contestant

Measure = Callable[[Mapping[str, Contestant]], dict[str, float]]
"""Returns the rewards by contestant."""


class KeptRewards:
    """The rewards that were measured, by case, lab and contestant.

    `identity` is of all that they follow from, but for the contestants' names. Raises AgentError if the file is of another.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self._path, self._identity = path, identity
        self._rewards: dict[str, dict[str, dict[str, float]]] = _read(path, identity)

    def of(self, case: str, lab: str, contestants: Mapping[str, Contestant], measure: Measure) -> dict[str, float]:
        """Returns the rewards by contestant. Those that are in the file are read, others are measured and added."""
        kept = self._rewards.setdefault(case, {}).setdefault(lab, {})
        if missing := {name: each for name, each in contestants.items() if name not in kept}:
            kept |= measure(missing)
            put(self._path, (json.dumps({"of": self._identity, "rewards": self._rewards}, indent=1) + "\n").encode())
        return {name: kept[name] for name in contestants}


def _read(path: Path, identity: str) -> dict[str, dict[str, dict[str, float]]]:
    if not path.is_file():
        return {}
    try:
        kept = plain_json.read(path)
    except (OSError, ValueError):
        kept = None
    if not isinstance(kept, dict) or kept.get("of") != identity:
        raise AgentError(f"{path}: its rewards are of other programs, another net or other cases; move it, then ask again")
    rewards: dict[str, dict[str, dict[str, float]]] = kept["rewards"]
    return rewards
