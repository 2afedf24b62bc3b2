# SPDX-License-Identifier: Apache-2.0
"""Rewards of labs that no training had, in a file: a bench that was killed goes on with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from dc_gym.base import plain_json
from dc_gym.base.errors import AgentError
from dc_gym.base.files import put
from dc_gym.methods.acc.held_out import Contestant
from dc_gym.records import fingerprint

Measure = Callable[[Mapping[str, Contestant]], dict[str, float]]
"""Returns the rewards by contestant."""


class KeptRewards:
    """The rewards that were measured, by case, lab and contestant.

    `parts` are what they follow from besides the programs and the contestants' names. Raises AgentError if the file's are others.
    """

    def __init__(self, path: Path, *parts: str) -> None:
        told = "\n".join((fingerprint.programs(), fingerprint.agents(), *parts))
        self._path, self._identity = path, hashlib.sha256(told.encode()).hexdigest()
        self._rewards: dict[str, dict[str, dict[str, float]]] = _read(path, self._identity)

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
