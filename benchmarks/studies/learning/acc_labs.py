# SPDX-License-Identifier: Apache-2.0
"""Contestants of ACC's nets in labs that no training had, and the rewards that are kept while a study measures them."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dc_gym.base import plain_json
from dc_gym.base.files import machine_errors, put, scratch
from dc_gym.methods.acc.offline import held_out
from dc_gym.methods.acc.offline.held_out import Contestant, LabCase, constant
from dc_gym.methods.acc.template import DEPLOYED, Template
from dc_gym.results import fingerprint
from dc_gym.study import Evidence, Variant, VariantEvidence

SECN = {"SECN1": (5_000, 200_000, 10_000), "SECN2": (100_000, 400_000, 200_000)}
"""Kmin and Kmax in bytes and Pmax in ppm at 25 Gbit/s (topologies/marking.py)."""
USUAL_BPS = 25 * 10**9
"""The rate at which SECN2 has the thresholds of its name."""
UNTRAINED, CHANCE, BEST = "untrained", "random", "best action of each case"
STATIC = {f"action {number}": constant(DEPLOYED, number) for number in range(len(DEPLOYED.actions))}
COLORS = {"SECN1": "#CC6677", "SECN2": "#999933"}
RIVALS = [*(Variant(name, color=color) for name, color in COLORS.items()), Variant(CHANCE, color="#8A8A8A")]
ACTIONS = [Variant(name, color="#BBBBBB") for name in STATIC]
Rewards = dict[str, dict[str, dict[int, float]]]
"""By variant, measure and seed."""


def secn_template(rate_bps: int = USUAL_BPS) -> Template:
    """Returns SECN1 and SECN2 at a rate as actions: SECN2's thresholds grow with it."""
    low, high, pmax = SECN["SECN2"]
    grown = (low * rate_bps // USUAL_BPS, high * rate_bps // USUAL_BPS, pmax)
    return Template("SECN", DEPLOYED.interval_ns, DEPLOYED.history, (SECN["SECN1"], grown))


def secn(rate_bps: int = USUAL_BPS) -> dict[str, Contestant]:
    template = secn_template(rate_bps)
    return {name: constant(template, number) for number, name in enumerate(SECN)}


@dataclass(slots=True)
class Kept:
    """Rewards by case, lab and contestant, in a file: a study that was killed goes on with them.

    The file's name identifies the inputs of the rewards, besides the contestants' names: the programs, and `parts`.
    """

    place: Path
    parts: tuple[str, ...]
    rewards: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with machine_errors("make", self.place):
            self.place.mkdir(parents=True, exist_ok=True)
        if self.path.is_file():
            self.rewards = plain_json.read(self.path)

    @property
    def path(self) -> Path:
        identity = "\n".join((fingerprint.programs(), fingerprint.agents(), *self.parts))
        return self.place / f"rewards-{hashlib.sha256(identity.encode()).hexdigest()[: fingerprint.DIGITS]}.json"

    def of(
        self, lab: str, case: LabCase, seed: int, contestants: Mapping[str, Contestant], slots: int, *, all_queues: bool = False
    ) -> dict[str, float]:
        """Returns the rewards by contestant. Those that are in the file are read, others are measured and added."""
        rewards = self.rewards.setdefault(lab, {})
        if missing := {name: contestant for name, contestant in contestants.items() if name not in rewards}:
            with scratch(Path(tempfile.gettempdir()), "dcgym-env-") as folder:
                rewards |= held_out.rewards(case, seed, missing, slots=slots, folder=folder, all_queues=all_queues)
            put(self.path, (json.dumps(self.rewards, indent=1) + "\n").encode())
        return {name: rewards[name] for name in contestants}


def add(by_name: Rewards, measure: str, seed: int, rewards: Mapping[str, float]) -> None:
    for name, reward in rewards.items():
        by_name.setdefault(name, {}).setdefault(measure, {})[seed] = reward


def best_of(evidence: Evidence, chosen: Callable[[Mapping[str, Mapping[int, float]]], Mapping[int, float]]) -> VariantEvidence:
    """Returns the oracle: for each measure the value that `chosen` computes from the rewards of all actions."""
    actions = {name: row for name, row in evidence.variants.items() if name in STATIC}
    names = dict.fromkeys(measure for row in actions.values() for measure in row.numbers)
    numbers = {of: chosen({name: row.numbers[of] for name, row in actions.items() if of in row.numbers}) for of in names}
    return VariantEvidence(BEST, BEST, "#222222", numbers)
