# SPDX-License-Identifier: Apache-2.0
"""What a policy is trained for and on: the two papers' rewards and traffic.

PCC-RL (Tessler et al. 2021) trained on many flows to one alone, two, four and eight of them, and its reward had no beta: flows
settle at inflation = target sqrt(N), and a target below 1/sqrt(2) would ask two flows for less than the empty path's round trip.
The paper does not say its target; TARGET_2021 is ours. RL-CC (Fuhrer et al. 2023) added all to all, and beta.
"""

from __future__ import annotations

from dataclasses import dataclass

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.nets.decision import Scaling

PATTERNS = ("many_to_one", "all_to_all")
TARGET_2021 = 0.8
"""Two flows rest at an inflation of 1.13, eight at 2.26, 128 at 9.05."""


@dataclass(frozen=True, slots=True)
class Case:
    """Who sends to whom, on hosts of its own."""

    pattern: str
    flows: int
    """Senders to one, or hosts that send to all others."""
    copies: int = 1

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS or self.flows < 2 or self.copies < 1:
            raise UsageError(f"{self} is no case: give {' or '.join(PATTERNS)}, two flows or more, a copy or more")

    @property
    def hosts(self) -> int:
        """Of one copy."""
        return self.flows + (self.pattern == "many_to_one")

    def pairs(self) -> list[tuple[int, int]]:
        """Sender and receiver of each flow, as numbers of the copy's hosts."""
        if self.pattern == "many_to_one":
            return [(sender, self.flows) for sender in range(self.flows)]
        return [(sender, receiver) for sender in range(self.flows) for receiver in range(self.flows) if sender != receiver]


@dataclass(frozen=True, slots=True)
class Preset:
    name: str
    scaling: Scaling
    cases: tuple[Case, ...]
    """All of them on one switch."""
    summary: str


_UNIT = Scaling().unit
"""In which a policy sees a target: RL-CC's, so that random first weights mean the same under either reward."""
PRESETS = {
    each.name: each
    for each in (
        Preset(
            "rl-cc",
            Scaling(),
            (Case("many_to_one", 2), Case("many_to_one", 4), Case("many_to_one", 8), Case("all_to_all", 3)),
            "RL-CC 2023: beta 1.5, target 0.064; two, four and eight to one, and three to each other",
        ),
        Preset(
            "pcc-rl",
            Scaling(target=TARGET_2021, beta=0.0, gain=_UNIT / TARGET_2021),
            (Case("many_to_one", 2), Case("many_to_one", 4), Case("many_to_one", 8)),
            f"PCC-RL 2021: no beta, target {TARGET_2021:g}; two, four and eight to one",
        ),
    )
}


def preset(name: str) -> Preset:
    if name not in PRESETS:
        raise UsageError("--preset: " + unknown("preset", name, PRESETS))
    return PRESETS[name]
