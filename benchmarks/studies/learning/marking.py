# SPDX-License-Identifier: Apache-2.0
"""PPO sets the ECN thresholds of every switch port, beside twelve static settings and a random agent, under changing load.

On the dumbbell each port is an agent with its own reward, and one policy serves all. On the fat-tree (marking_fat_tree.py) one
agent chooses one of 11 settings for all 80 ports. All are compared by the reward of the whole network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dc_gym.learn.registration import SPECS
from dc_gym.results.results import Result, number
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, Study, above, bounded, drawing, measured, trained
from dc_gym.study.trained import COLORS, PolicyVariant, Setup, TrainedLength, TrainedRuns

SHORT_OF = 0.05
"""The largest acceptable loss against the best static setting."""
STEPS: Mapping[str, Mapping[str, Any]] = {
    f"K = {frames}p": {"marking": "step", "k_bytes": f"{frames}p"} for frames in (3, 5, 10, 20, 40, 65, 130)
}
SLOPES: Mapping[str, Mapping[str, Any]] = {
    "secn1": {"marking": "secn1"},
    "acc-vendor": {"marking": "acc-vendor"},
    "5 .. 50 kB, 20 %": {"marking": "red-instant", "kmin": "5kB", "kmax": "50kB", "pmax": "20%"},
    "15 .. 60 kB, 10 %": {"marking": "red-instant", "kmin": "15kB", "kmax": "60kB", "pmax": "10%"},
    "100 .. 400 kB, 20 %": {"marking": "red-instant", "kmin": "100kB", "kmax": "400kB", "pmax": "20%"},
}
STATIC = {**STEPS, **SLOPES}
"""The static settings, as keys of [topology]."""
TRAINED, RANDOM, BEST = "PPO", "random", "best static setting"
REWARD = Measure("reward", "reward of a step", digits=4)
GOODPUT, DELAY = Measure("goodput_bps", "goodput (Mbit/s)", 1e-6), Measure("switch_delay_s", "delay in switches (us)", 1e6)
OURS = "ours: it has learned"


def setup(name: str, environment: str, **length: Any) -> Setup:
    """Returns the set-up of an environment whose agents set thresholds. `length`: how they are trained."""
    spec = SPECS[environment]
    topology = dict(spec["topology"])
    k_bytes = {"topology.k_bytes": topology.pop("k_bytes")} if "k_bytes" in topology else {}  # static settings have their own
    common_keys = {"controller.name": "dctcp", "agent.observe": "marking", **k_bytes}
    duration = spec["time"]["duration"]
    trainings = TrainedLength(seeds=3, episode=duration, duration=duration, warmup="0s", **length)
    statics = [
        PolicyVariant(label, {"controller.policy": "max", **{f"topology.{key}": value for key, value in keys.items()}}, color)
        for some, color in ((STEPS, "#777777"), (SLOPES, "#AAAAAA"))
        for label, keys in some.items()
    ]
    return Setup(
        name,
        {**spec, "topology": topology},
        default=trainings,
        full=trainings,
        baselines=(),
        own=(
            *statics,
            PolicyVariant(RANDOM, {**common_keys, "controller.policy": "random"}, "#D55E00"),
            PolicyVariant(TRAINED, common_keys, COLORS["PPO"], algorithm="PPO"),
        ),
    )


def measure(result: Result) -> dict[str, float]:
    """Returns the measures that all agents' runs share, and the delay in switches."""
    return measured.numbers(result) | {DELAY.name: number((result.manifest.get("agent") or {}).get(DELAY.name))}


def with_best(evidence: Evidence) -> Evidence:
    """Returns the evidence with the static setting of the greatest mean reward once more, as BEST."""
    known = {name: np.mean([*values.values()]) for name in STATIC if (values := evidence.values(name, REWARD.name))}
    if not known:
        return evidence
    best = max(known, key=lambda name: known[name])
    best_variant = replace(evidence.variants[best], name=BEST, label=f"{BEST}: {best}")
    return replace(evidence, variants={**evidence.variants, BEST: best_variant})


def beside_the_best(evidence: Evidence) -> Outcome:
    best = float(np.mean([*evidence.values(BEST, REWARD.name).values()]))
    rewards = [*evidence.values(TRAINED, REWARD.name).values()]
    words = f"{', '.join(f'{reward:.3f}' for reward in rewards)}; {evidence.variants[BEST].label} {best:.3f}"
    return bounded(min(rewards) >= best - SHORT_OF * abs(best) if rewards else None, words)


AS_GOOD = f"reward of {TRAINED} that of the {BEST} less {SHORT_OF:.0%}, or more, for every seed"
AS_GOOD_AS_THE_BEST = Criterion(AS_GOOD, (TRAINED, BEST), beside_the_best, (REWARD.name,))


def study(title: str, setup: Setup) -> Study:
    return Study(
        title=title,
        variants=setup.variants(),
        measures=(REWARD, GOODPUT, DELAY),
        measure=measure,
        seeds=setup.default.seeds,
        derive=with_best,
        claims=[
            Claim("PPO is as good as the best static setting", OURS, (AS_GOOD_AS_THE_BEST,)),
            Claim("PPO is better than chance", OURS, (above(TRAINED, RANDOM, REWARD),)),
        ],
        draw=lambda evidence: drawing.dot_panels(evidence, (REWARD, GOODPUT, DELAY), title),
        facts=trained.facts(setup),
        collect=TrainedRuns(setup),
        trains=True,
    )


STUDY = study(
    "PPO sets ECN thresholds on a dumbbell, an agent a port",
    setup("marking", "dcgym/EcnDumbbell1g-v0", steps=8_000, preset="ports"),
)
