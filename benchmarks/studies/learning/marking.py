# SPDX-License-Identifier: Apache-2.0
"""PPO sets the ECN thresholds of every switch port, beside twelve static settings and a random agent, under changing load.

On the dumbbell each port is an agent with its own reward, and one policy serves all. On the fat-tree (marking_fat_tree.py) one
agent chooses one of 11 settings for all 80 ports. All are compared by the reward of the whole network.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dc_gym.envs.registration import SPECS
from dc_gym.figures import kit
from dc_gym.records.results import Result, number
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, Study, above, bounded, measured, trained
from dc_gym.study.trained import COLORS, PolicyVariant, Setup, TrainedLength, TrainedRuns

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHORT_OF = 0.05
"""How much less than the best static setting is still good."""
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
    topology = {key: value for key, value in spec["topology"].items() if key != "k_bytes"}  # a variant has its own
    own = {"controller.name": "dctcp", "agent.observe": "marking"}
    if "k_bytes" in spec["topology"]:
        own["topology.k_bytes"] = spec["topology"]["k_bytes"]
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
            PolicyVariant(RANDOM, {**own, "controller.policy": "random"}, "#D55E00"),
            PolicyVariant(TRAINED, own, COLORS["PPO"], algorithm="PPO"),
        ),
    )


def measure(result: Result) -> dict[str, float]:
    """Returns what agents' runs have in common, and the delay in switches."""
    return measured.numbers(result) | {DELAY.name: number((result.manifest.get("agent") or {}).get(DELAY.name))}


def with_best(evidence: Evidence) -> Evidence:
    """Returns the evidence with the static setting of the greatest mean reward once more, as BEST."""
    means = {name: evidence.values(name, REWARD.name) for name in STATIC}
    known = {name: float(np.mean([*values.values()])) for name, values in means.items() if values}
    if not known:
        return evidence
    best = max(known, key=lambda name: known[name])
    made = replace(evidence.variants[best], name=BEST, label=f"{BEST}: {best}")
    return replace(evidence, variants={**evidence.variants, BEST: made})


def as_good_as_the_best() -> Criterion:
    """Returns the criterion that each training's reward is that of the best static setting less 5 %, or more."""

    def judge(evidence: Evidence) -> Outcome:
        best = float(np.mean([*evidence.values(BEST, REWARD.name).values()]))
        mine = [*evidence.values(TRAINED, REWARD.name).values()]
        said = f"{', '.join(f'{each:.3f}' for each in mine)}; {evidence.variants[BEST].label} {best:.3f}"
        return bounded(min(mine) >= best - SHORT_OF * abs(best) if mine else None, said)

    words = f"reward of {TRAINED} that of the {BEST} less {SHORT_OF:.0%}, or more, for every seed"
    return Criterion(words, (TRAINED, BEST), judge, (REWARD.name,))


def draw(evidence: Evidence, title: str) -> Figure:
    """Draws goodput over delay: the curve of the static settings, chance, and each training."""
    looks = (
        (STEPS, "-o", "step at K", 6),
        (SLOPES, "s", "slopes", 6),
        ((RANDOM,), "X", RANDOM, 6),
        ((TRAINED,), "*", TRAINED, 11),
    )
    with kit.style():
        figure = kit.new_figure(5.5, 4.2)
        axes = figure.subplots()
        for names, style, label, size in looks:
            known = [evidence.variants[name] for name in names if name in evidence.variants]
            points = [tuple(each.numbers[of.name].values()) for each in known for of in (DELAY, GOODPUT)]
            if names is not looks[-1][0]:
                points = [(float(np.mean(each)),) for each in points]
            delays, goodputs = ([value for each in points[start::2] for value in each] for start in (0, 1))
            at = [1e6 * value for value in delays], [value / 1e6 for value in goodputs]
            axes.plot(*at, style, color=known[0].color if known else kit.FAINT, label=label, markersize=size)
            if names is STEPS:
                for each, x, y in zip(known, *at, strict=True):
                    words = each.name.removeprefix("K = ")
                    axes.annotate(words, (x, y), xytext=(4, -10), textcoords="offset points", fontsize="x-small")
        axes.set_xscale("log")
        axes.set_xlabel("Delay in switches (us)")
        axes.set_ylabel("Goodput (Mbit/s)")
        kit.legend_below(figure, axes, 4)
        kit.title(figure, title)
    return figure


def study(title: str, setup: Setup) -> Study:
    return Study(
        title=title,
        variants=setup.variants(),
        measures=(REWARD, GOODPUT, DELAY),
        measure=measure,
        seeds=setup.default.seeds,
        derive=with_best,
        claims=[
            Claim("PPO is as good as the best static setting", OURS, (as_good_as_the_best(),), ours=True),
            Claim("PPO is better than chance", OURS, (above(TRAINED, RANDOM, REWARD),), ours=True),
        ],
        draw=lambda evidence: draw(evidence, title),
        facts=trained.facts(setup),
        collect=TrainedRuns(setup),
        trains=True,
    )


STUDY = study(
    "PPO sets ECN thresholds on a dumbbell, an agent a port",
    setup("marking", "dcgym/EcnDumbbell1g-v0", steps=8_000, preset="ports"),
)
