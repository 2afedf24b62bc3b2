# SPDX-License-Identifier: Apache-2.0
"""A set of runs: one network and workload, and the contestants on it.

A contestant is a TCP with a policy above it. The policy may be "max" (the TCP alone), an oracle, or one that is trained first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.figures import styles

POLICY = "controller.policy"


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    label: str
    color: str
    values: Mapping[str, Any]
    """Dotted keys of the spec."""
    algorithm: str = ""
    """The algorithm that learns its policy; empty if it does not learn."""
    alone: bool = False
    """True for a TCP whose rates no agent sets."""


@dataclass(frozen=True, slots=True)
class CampaignLength:
    """How much is run."""

    seeds: int
    steps: int
    """Number of steps of a training."""
    episode: str
    """Length of an episode of a training."""
    duration: str
    """Duration of a run with the final policy, or of a TCP."""
    warmup: str
    preset: str = "default"
    """Name of the preset of hyper-parameters."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """Training batch in steps, by algorithm, where it differs from the thesis' preset for this network."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the spec that differ at this length."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Keys that differ where an agent sets the rates, such as UDP in place of TCP."""


@dataclass(frozen=True, slots=True)
class Setup:
    name: str
    """Name of its folder. Figures with the same runs share it."""
    base: Mapping[str, Any]
    """The spec that all contestants share."""
    default: CampaignLength
    full: CampaignLength
    baselines: tuple[str, ...] = ("dctcp", "dctcp-red", "nv", "cubic", "fair-share", "random")
    algorithms: tuple[str, ...] = ()
    """The algorithms to train unless the command names others: those that the figures' claims are about. If it is empty, nothing
    is trained here."""
    own: tuple[Contestant, ...] = ()
    """Contestants of this setup alone, such as an oracle of its figure."""
    paper_steps: int = 0


def _tcp(controller: str, label: str = "", color: str = "", **values: Any) -> Contestant:
    known = styles.find(controller)
    assert known is not None
    keys = {"controller.name": controller, POLICY: "max"} | values
    return Contestant("", label or known.label, color or known.color, keys, alone=True)


def over_cubic(policy: str | type, label: str, color: str, name: str = "", **values: Any) -> Contestant:
    """Returns a contestant whose policy sets the rates above CUBIC. `policy` is a registered name, or a class."""
    told = policy if isinstance(policy, str) else f"{policy.__module__}:{policy.__name__}"
    return Contestant(name, label, color, {"controller.name": "cubic", POLICY: told} | values)


BASELINES: Mapping[str, Contestant] = {
    "dctcp": _tcp("dctcp", "DCTCP (step at K)"),
    "dctcp-red": _tcp("dctcp", "DCTCP (RED as in the thesis)", "#56B4E9", **{"topology.marking": "iroko-thesis"}),
    "nv": _tcp("nv"),
    "cubic": _tcp("cubic"),
    "fair-share": over_cubic("fair-share", "fair-share oracle", "#222222"),
    "fair-share-ahead": over_cubic("fair-share-ahead", "oracle that knows the schedule", "#8C6D31"),
    "random": over_cubic("random", "random", "#8A8A8A"),
    "no-control": over_cubic("max", "no control", "#B0A080"),
}
COLORS: Mapping[str, str] = {"PPO": "#CC79A7", "APPO": "#7B3F8C", "DDPG": "#E69F00", "REINFORCE": "#B22222", "SAC": "#00556B"}
OTHER_COLOR = "#5A7D2A"


def baseline(name: str) -> Contestant:
    return replace(BASELINES[name], name=name)


def label_of(name: str) -> str:
    """Returns a contestant's name on a page."""
    return BASELINES[name].label if name in BASELINES else name


def learner(algorithm: str) -> Contestant:
    """Returns the contestant for an algorithm of `dcgym train`. The file of its policy is known once it is trained."""
    name = algorithm.rpartition(":")[2]
    if not name.replace("_", "").isalnum():
        raise UsageError(f"algorithm {algorithm!r} is neither a name such as PPO nor a module:Class")
    return Contestant(name, name, COLORS.get(name, OTHER_COLOR), {"controller.name": "cubic"}, algorithm)


def roster(setup: Setup, algorithms: tuple[str, ...] | None) -> list[Contestant]:
    """Returns all contestants; those that learn come last."""
    learners = setup.algorithms if algorithms is None else algorithms
    return [*map(baseline, setup.baselines), *setup.own, *map(learner, learners if setup.algorithms else ())]
