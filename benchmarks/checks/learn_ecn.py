# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench learn-ecn`: PPO sets the ECN thresholds of every switch port, beside twelve static settings and a random agent.

Two networks under DCTCP whose load changes. On the dumbbell each port is an agent with its own reward, and one policy serves all.
On the fat-tree one agent chooses one of 11 settings for all 80 ports. Each training is a `dcgym train` of its own. The policy
files that they leave and the static settings are compared by the reward of the whole network, in episodes with seeds that no
training had. A bench that was killed resumes.
"""

from __future__ import annotations

import copy
import csv
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.base.outputs import free_place, is_table_of
from dc_gym.base.progress import Quiet
from dc_gym.envs.env import as_spec
from dc_gym.envs.evaluate import evaluate
from dc_gym.envs.registration import SPECS
from dc_gym.envs.session import external
from dc_gym.figures import kit
from dc_gym.spec import Spec
from dc_gym.study.trainings import run_all, training
from dc_gym.sweep import cpus, runs

NAME = "learn-ecn"
OUT = Path("results/learn-ecn")
FIGURE, TABLE = OUT.with_suffix(".png"), OUT.with_suffix(".csv")
SEEDS = (1, 2, 3)
HELD_OUT = (1_000_001, 1_000_002, 1_000_003)
SHORT_OF = 0.05
"""How much less than the best static setting is still good."""
STATIC: dict[str, tuple[str, ...]] = {
    **{f"K = {frames}p": ("marking=step", f"k_bytes={frames}p") for frames in (3, 5, 10, 20, 40, 65, 130)},
    "secn1": ("marking=secn1",),
    "acc-vendor": ("marking=acc-vendor",),
    "5 .. 50 kB, 20 %": ("marking=red-instant", "kmin=5kB", "kmax=50kB", "pmax=20%"),
    "15 .. 60 kB, 10 %": ("marking=red-instant", "kmin=15kB", "kmax=60kB", "pmax=10%"),
    "100 .. 400 kB, 20 %": ("marking=red-instant", "kmin=100kB", "kmax=400kB", "pmax=20%"),
}
"""The static settings, as keys of [topology]."""
TRAINED, RANDOM = "PPO", "random"
COLUMNS = ("network", "setting", "seed", "reward", "goodput_bps", "switch_delay_s")


@dataclass(frozen=True, slots=True)
class EcnNetwork:
    """A network, and how its agents are trained."""

    environment: str
    preset: str
    levels: int
    steps: int


NETWORKS = {
    "dumbbell": EcnNetwork("dcgym/EcnDumbbell1g-v0", "ports", 0, 8_000),
    "fat-tree": EcnNetwork("dcgym/EcnFatTreeK4-v0", "marking", 11, 6_000),
}


@dataclass(frozen=True, slots=True)
class EcnResult:
    """The result of one setting on one network: means over the held-out episodes."""

    network: str
    setting: str
    seed: int
    """The training's seed; 0: there was none."""
    reward: float
    """The mean reward of a step, of the whole network."""
    goodput_bps: float
    switch_delay_s: float

    @classmethod
    def of(cls, network: str, setting: str, seed: int, episodes: Sequence[Mapping[str, float]]) -> EcnResult:
        count = len(episodes)
        reward = sum(each["return"] / each["steps"] for each in episodes) / count
        goodput, delay = (sum(each[name] for each in episodes) / count for name in ("goodput_bps", "switch_delay_s"))
        return cls(network, setting, seed, reward, goodput, delay)


def checks() -> Iterator[Check]:
    if importlib.util.find_spec("ray") is None:
        yield Check("learning", "RLlib", "not installed: pip install 'dc-gym[rl]'", ok=False, skipped=True)
        return
    found: list[EcnResult] = []
    for network in NETWORKS:
        mine = measure(network)
        found += mine
        yield from verdicts(network, mine)
    table, figure = free_place(TABLE, is_table_of(COLUMNS)), runs.figure_place(FIGURE, NAME)
    save(found, table)
    draw_figure(found, figure)
    yield Check("table and figure", "recorded", f"{table}, {figure}", ok=True)


def spec_of(network: str, *topology: str) -> Spec:
    """Returns the spec of a network, with other keys of [topology]."""
    plain = copy.deepcopy(SPECS[NETWORKS[network].environment])
    if topology:
        plain["topology"].pop("k_bytes", None)  # means nothing to another marking
    return external(as_spec(plain, [f"topology.{each}" for each in topology]))


def measure(network: str) -> list[EcnResult]:
    """Trains, and measures every setting."""
    spec, how = spec_of(network), NETWORKS[network]
    asked = [
        training(OUT / network, spec, "PPO", f"ppo-{seed}-{how.steps}", how.preset, seed, how.steps, levels=how.levels)
        for seed in SEEDS
    ]
    run_all(asked, max(1, cpus() // 2), Quiet(), force=True)
    found = [EcnResult.of(network, TRAINED, each.seed, evaluate(spec, each.policy, HELD_OUT)) for each in asked]
    found.append(EcnResult.of(network, RANDOM, 0, evaluate(spec, RANDOM, HELD_OUT)))
    for setting, keys in STATIC.items():
        found.append(EcnResult.of(network, setting, 0, evaluate(spec_of(network, *keys), "max", HELD_OUT)))
    return found


def verdicts(network: str, found: Sequence[EcnResult]) -> Iterator[Check]:
    """Yields a check for each training: as good as the best static setting, and better than chance."""
    best = max((each for each in found if each.setting in STATIC), key=lambda each: each.reward)
    (chance,) = (each for each in found if each.setting == RANDOM)
    least = best.reward - SHORT_OF * abs(best.reward)
    for each in found:
        if each.setting != TRAINED:
            continue
        statics = f"best of {len(STATIC)} static settings {best.reward:.3f} ({best.setting})"
        told = f"{each.reward:.3f}; {statics}, random {chance.reward:.3f}"
        yield Check(
            f"{network}, seed {each.seed}: reward a step",
            f"{least:.3f} or more, above random",
            told,
            each.reward >= least and each.reward > chance.reward,
        )


def save(found: Sequence[EcnResult], path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for each in found:
            numbers = (f"{each.reward:.4f}", f"{each.goodput_bps:.0f}", f"{each.switch_delay_s:.3e}")
            writer.writerow((each.network, each.setting, each.seed, *numbers))


def draw_figure(found: Sequence[EcnResult], path: Path) -> None:
    """Draws goodput over delay: the curve of the static settings, chance, and each training."""
    with kit.style():
        figure = kit.new_figure(10, 4)
        for axes, network in zip(figure.subplots(1, len(NETWORKS)), NETWORKS, strict=True):
            mine = [each for each in found if each.network == network]
            steps = [each for each in mine if each.setting.startswith("K = ")]
            slopes = [each for each in mine if each.setting in STATIC and each not in steps]
            _points(axes, steps, "-o", "0.45", "step at K")
            _points(axes, slopes, "s", "0.65", "slopes")
            _points(axes, [each for each in mine if each.setting == RANDOM], "X", kit.FLOW_COLORS[1], "random agent")
            _points(
                axes, [each for each in mine if each.setting == TRAINED], "*", kit.FLOW_COLORS[0], "PPO, three seeds", size=11
            )
            for each in steps:
                at = (1e6 * each.switch_delay_s, each.goodput_bps / 1e6)
                axes.annotate(
                    each.setting.removeprefix("K = "), at, xytext=(4, -10), textcoords="offset points", fontsize="x-small"
                )
            axes.set_xscale("log")
            axes.set_xlabel("Delay in switches (us)")
            axes.set_title(network)
        figure.axes[0].set_ylabel("Goodput (Mbit/s)")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), ncols=4, fontsize="small", loc="outside lower center")
        kit.save(figure, path, mark=runs.mark_of(NAME))


def _points(axes: object, found: Sequence[EcnResult], style: str, color: str, label: str, size: float = 6) -> None:
    at = [1e6 * each.switch_delay_s for each in found], [each.goodput_bps / 1e6 for each in found]
    axes.plot(*at, style, color=color, label=label, markersize=size)  # type: ignore[attr-defined]
