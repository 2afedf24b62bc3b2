# SPDX-License-Identifier: Apache-2.0
"""The rewards and the training traffic of the two papers.

PCC-RL (Tessler et al. 2021) trained on many-to-one traffic with two, four and eight flows. Its reward had no beta: flows settle
at inflation = target sqrt(N), and a target below 1/sqrt(2) would ask two flows for less than the empty path's round trip. The
paper does not state its target; TARGET_2021 is our choice. RL-CC (Fuhrer et al. 2023) added all-to-all traffic and beta.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.methods.rlcc.decision import Scaling

PATTERNS = ("many_to_one", "all_to_all")
TARGET_2021 = 0.8
"""With this target two flows rest at an inflation of 1.13, eight at 2.26, and 128 at 9.05."""


@dataclass(frozen=True, slots=True)
class TrafficPattern:
    """A traffic pattern, on hosts of its own."""

    pattern: str
    flows: int
    """Number of senders to the one receiver, or of hosts that each send to all others."""
    copies: int = 1

    def __post_init__(self) -> None:
        if self.pattern not in PATTERNS or self.flows < 2 or self.copies < 1:
            raise UsageError(f"{self} is no pattern: give {' or '.join(PATTERNS)}, two flows or more, a copy or more")

    @property
    def hosts(self) -> int:
        """Number of hosts in one copy."""
        return self.flows + (self.pattern == "many_to_one")

    def pairs(self) -> list[tuple[int, int]]:
        """Returns the sender and receiver of each flow, as host numbers within the copy."""
        if self.pattern == "many_to_one":
            return [(sender, self.flows) for sender in range(self.flows)]
        return [(sender, receiver) for sender in range(self.flows) for receiver in range(self.flows) if sender != receiver]


@dataclass(frozen=True, slots=True)
class PaperPreset:
    """A paper's reward, and the traffic that its network is trained on."""

    name: str
    scaling: Scaling
    patterns: tuple[TrafficPattern, ...]
    """The traffic; all patterns run on one switch."""
    summary: str


SCALING_END = 256.0
"""Beta, target and gain are below this, since a policy file holds no larger ones."""
_UNIT = Scaling().unit
"""The size of a target in a policy's input: RL-CC's for both presets, so that random weights mean the same in both."""
PRESETS = {
    preset.name: preset
    for preset in (
        PaperPreset(
            "rl-cc",
            Scaling(),
            (
                TrafficPattern("many_to_one", 2),
                TrafficPattern("many_to_one", 4),
                TrafficPattern("many_to_one", 8),
                TrafficPattern("all_to_all", 3),
            ),
            "RL-CC 2023: beta 1.5, target 0.064; two, four and eight to one, and three to each other",
        ),
        PaperPreset(
            "pcc-rl",
            Scaling(target=TARGET_2021, beta=0.0, gain=_UNIT / TARGET_2021),
            (TrafficPattern("many_to_one", 2), TrafficPattern("many_to_one", 4), TrafficPattern("many_to_one", 8)),
            f"PCC-RL 2021: no beta, target {TARGET_2021:g}; two, four and eight to one",
        ),
    )
}


def preset(name: str) -> PaperPreset:
    if name not in PRESETS:
        raise UsageError("--preset: " + unknown("preset", name, PRESETS))
    return PRESETS[name]


def reward(name: str, beta: float | None = None, target: float | None = None) -> Scaling:
    """Returns the reward of a preset, with another beta or target if they are given.

    A target keeps its size in a policy's input, so that random weights mean the same for every target.
    """
    scaling = preset(name).scaling
    if beta is not None:
        if not 0 <= beta < SCALING_END:
            raise UsageError(f"beta = {beta:g}: give a number from 0, below {SCALING_END:g}")
        scaling = replace(scaling, beta=beta)
    if target is not None:
        if not _UNIT / SCALING_END < target < SCALING_END:
            raise UsageError(f"target = {target:g}: give a number above {_UNIT / SCALING_END:g}, below {SCALING_END:g}")
        scaling = replace(scaling, target=target, gain=_UNIT / target)
    return scaling
