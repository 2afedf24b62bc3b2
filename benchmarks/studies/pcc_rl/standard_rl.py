# SPDX-License-Identifier: Apache-2.0
"""PCC-RL's claim that standard algorithms fail on the task: PPO, SAC and DDPG against the analytic gradient (RL-CC's eq. 3).

All of them train on the same flows of the fluid model: two, four and eight per bottleneck, which come and go. All flows share one
policy, and the number of decisions is the same. Standard algorithms train with RLlib, eq. 3 with `method rlcc train --ground
fluid`. Training is not on labs: NICs there run a table without randomness, and a standard algorithm explores.

One criterion decides for all who masters the task. The policy runs alone on a bottleneck without exploration, with two to 128
flows; it was trained with at most eight. It must keep inflation within a tenth of eq. 2, Jain's index above 0.95, and the sum of
rates above 0.9. The papers give neither hyper-parameters nor training lengths of the failed algorithms; ours are below.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Progress
from dc_gym.methods.rlcc.decision import Scaling
from dc_gym.methods.rlcc.offline import closed_loop
from dc_gym.methods.rlcc.offline.flows import FlowsConfig
from dc_gym.methods.rlcc.offline.train import CURVE_CSV
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.results import fingerprint
from dc_gym.study import Claim, Criterion, Evidence, Measure, Outcome, Track, bounded, collect, series, trainings
from dc_gym.study.evidence import Shortfall, fewer
from dc_gym.study.model import Collected, Facts, Study, StudyOptions, Variant

TITLE = "Standard algorithms on RL-CC's task, and the analytic gradient"
SOURCE = "PCC-RL, sections 1 and 4: DQN, DDPG, PPO and others fail"
FLOWS = closed_loop.FLOWS
LENGTHS = {False: (3, 250_000), True: (5, 1_000_000)}
"""Seeds and decisions of each training; True: with `--length full`."""
LABS = 4
"""Number of bottlenecks for each number of flows."""
ANALYTIC = "RLCC"
LABELS = {ANALYTIC: "eq. 3", "PPO": "PPO", "SAC": "SAC", "DDPG": "DDPG", "TD3": "TD3"}
COLORS = {ANALYTIC: "#332288", "PPO": "#D55E00", "SAC": "#117733", "DDPG": "#AA4499", "TD3": "#0072B2"}
STANDARD = ("PPO", "SAC", "DDPG")

_RUN = "[run]\nevaluate_episodes = 1\n"
_OFF_POLICY = """[training]
gamma = 0.95
train_batch_size_per_learner = 256
training_intensity = 8.0
[env_runners]
rollout_fragment_length = 64
"""
CONFIGS = {
    "PPO": _RUN + "[training]\ngamma = 0.95\nminibatch_size = 500\nvf_clip_param = 1000000.0\n",
    "SAC": _RUN + _OFF_POLICY,
    "DDPG": _RUN + _OFF_POLICY,
    "TD3": _RUN + _OFF_POLICY,
}
"""Settings of standard algorithms that replace the preset `default`. A decision's consequences end a few decisions later,
hence gamma. Rewards reach -100, hence PPO's clip. PPO learns ten times from each decision, the others eight times, eq. 3 once."""
BATCH, LEARNING_RATE = 250, 0.005
"""Decisions of an update of eq. 3, and Adam's first learning rate."""

OVER = Measure("inflation_over_eq_2", "inflation over eq. 2", digits=3)
JAIN = Measure("jain", "Jain's index", digits=3)
RATES = Measure("sum_of_rates", "sum of rates", digits=3)
SPREAD = Measure("inflation_std", "deviation of inflation", digits=2)
MEASURES = (OVER, JAIN, RATES, SPREAD)
WITHIN, LEAST_JAIN, LEAST_RATES = 0.1, 0.95, 0.9

NOTES = (
    f"Criterion: inflation within {WITHIN:.0%} of eq. 2, Jain's index above {LEAST_JAIN}, sum of rates above {LEAST_RATES}, for"
    f" {', '.join(map(str, FLOWS))} flows.",
    f"Inflation by eq. 2 with so many flows: {', '.join(f'{flows}: {Scaling().inflation(flows):.3f}' for flows in FLOWS)}.",
)


@dataclass(frozen=True, slots=True)
class StandardTraining(trainings.Training):
    """A training of a standard algorithm by `dcgym train --agents flows`."""

    def argv(self) -> list[str]:
        arguments = {"algo": self.algorithm, "seed": self.seed, "steps": self.steps, "labs": LABS, "config": self.config}
        options = [f"--{name}={value}" for name, value in arguments.items()]
        resume = ["--resume"] if self.resumes else []
        return ["train", "--agents=flows", f"--out={self.out}", "--quiet", *options, *resume]

    @property
    def config(self) -> Path:
        return self.out.with_name(f"{self.algorithm}.toml")

    def trained(self) -> int:
        return self.steps_so_far() if self.policy.is_file() else 0

    def order(self) -> dict[str, object]:
        order = {"algorithm": self.algorithm, "seed": self.seed, "labs": LABS, "config": CONFIGS[self.algorithm]}
        return order | {"programs": fingerprint.programs()}

    def closed_loop(self) -> dict[int, Mapping[str, float]]:
        """Returns the evaluation of the final policy, by number of flows."""
        with (self.out / "evaluation.csv").open(newline="") as file:
            rows = [{key: float(value) for key, value in row.items() if key != "spec"} for row in csv.DictReader(file)]
        last = max(row["iteration"] for row in rows)
        return {int(row["flows"]): row for row in rows if row["iteration"] == last}


@dataclass(frozen=True, slots=True)
class GradientTraining(StandardTraining):
    """A training of eq. 3 by `method rlcc train --ground fluid`. It takes seconds, and does not go on where it was stopped."""

    def argv(self) -> list[str]:
        arguments = {"seed": self.seed, "updates": -(-self.steps // BATCH), "batch-size": BATCH, "learning-rate": LEARNING_RATE}
        options = [f"--{name}={value}" for name, value in arguments.items()]
        return ["method", "rlcc", "train", "--ground=fluid", f"--out={self.out}", "--quiet", f"--bottlenecks={LABS}", *options]

    def steps_so_far(self) -> int:
        if not self.policy.is_file():
            return 0
        return int(np.genfromtxt(self.out / CURVE_CSV, delimiter=",", names=True)["decisions"].sum())

    def order(self) -> dict[str, object]:
        order = {"algorithm": self.algorithm, "seed": self.seed, "bottlenecks": LABS, "batch": BATCH}
        return order | {"learning_rate": LEARNING_RATE, "programs": fingerprint.programs()}

    def closed_loop(self) -> dict[int, Mapping[str, float]]:
        file = NicPolicy.read(self.policy)
        return {flows: closed_loop.totals(file.policy, flows, file.scaling) for flows in FLOWS}


def name(algorithm: str, flows: int) -> str:
    return f"{LABELS[algorithm]}, {flows} flows"


def _mastered(algorithm: str, expected: bool) -> Criterion:
    """Returns a criterion: the task is mastered by every seed, or by none."""
    names, measures = {flows: name(algorithm, flows) for flows in FLOWS}, (OVER.name, JAIN.name, RATES.name)
    label = LABELS[algorithm]

    def judge(evidence: Evidence) -> Outcome:
        seeds, masters, off = list(evidence.values(names[FLOWS[0]], OVER.name)), 0, []
        for seed in seeds:
            rows = [[evidence.values(variant, one).get(seed, math.nan) for one in measures] for variant in names.values()]
            off.append(max(abs(over - 1) for over, _, _ in rows))
            masters += all(abs(over - 1) <= WITHIN and jain > LEAST_JAIN and rates > LEAST_RATES for over, jain, rates in rows)
        text = f"{label}: {masters} of {len(seeds)} seeds; off eq. 2 by up to {', '.join(f'{distance:.0%}' for distance in off)}"
        return bounded(masters == (len(seeds) if expected else 0), text)

    words = f"{label} {'masters the task with every seed' if expected else 'does not master the task with any seed'}"
    return Criterion(words, tuple(names.values()), judge, measures)


CLAIMS = (
    Claim("The analytic gradient masters the task", "PCC-RL, section 4; RL-CC, eq. 3", (_mastered(ANALYTIC, True),)),
    *(Claim(f"{LABELS[algorithm]} fails", SOURCE, (_mastered(algorithm, False),)) for algorithm in STANDARD),
)
PLACES = {name(algorithm, flows): (algorithm, flows) for algorithm in LABELS for flows in FLOWS}
"""Algorithm and number of flows of each variant."""
VARIANTS = [
    Variant(title, color=COLORS[algorithm], extra=algorithm not in (ANALYTIC, *STANDARD))
    for title, (algorithm, _) in PLACES.items()
]


@dataclass(frozen=True, slots=True)
class FluidTrainings:
    """The `Study.collect`: a training for each algorithm and seed, whose policy then runs with each number of flows."""

    lengths: Mapping[bool, tuple[int, int]]
    """Seeds and decisions of the study's own length, and with `--length full`."""
    settings: Mapping[str, Any]
    """The arguments of trainings: part of the identity of the evidence."""

    def __call__(self, study: Study, options: StudyOptions, progress: Progress) -> Collected:
        algorithms = _algorithms(study, options)
        own_seeds, own_steps = self.lengths[options.full]
        steps, seeds = options.steps or own_steps, range(1, (options.seeds or own_seeds) + 1)
        folder = collect.folder("standard-rl", options) / trainings.FOLDER
        collect.write(folder, {f"{algorithm}.toml": CONFIGS[algorithm] for algorithm in algorithms if algorithm in CONFIGS})
        planned = [training(folder, algorithm, seed, steps) for seed in seeds for algorithm in algorithms]
        trainings.run_all(planned, options.jobs, progress, options.force)
        progress.phase("measuring")
        groups = {algorithm: {one.seed: one for one in planned if one.algorithm == algorithm} for algorithm in algorithms}
        loops = {algorithm: {seed: one.closed_loop() for seed, one in by_seed.items()} for algorithm, by_seed in groups.items()}
        variants = {}
        for variant in (variant for variant in study.variants if PLACES[variant.name][0] in algorithms):
            algorithm, flows = PLACES[variant.name]
            values = {seed: {one.name: loop[flows][one.name] for one in MEASURES} for seed, loop in loops[algorithm].items()}
            curves = {seed: Track(np.array([float(one.trained())]), {}) for seed, one in groups[algorithm].items()}
            variants[variant.name] = variant.evidence(collect.by_measure(values), learning=curves)
        shorter = f"trainings of {steps:,} decisions instead of {own_steps:,}" if steps < own_steps else ""
        return Collected(Evidence(variants, shortfall=Shortfall(trainings=shorter, seeds=fewer("seed", len(seeds), own_seeds))))


def _algorithms(study: Study, options: StudyOptions) -> list[str]:
    """Returns the algorithms that a command asks for. Raises UsageError if one does not train flows."""
    if options.preset:
        raise UsageError(f"--preset {options.preset}: this study has hyper-parameters of its own; leave it out")
    if options.algorithms is None:
        return list(dict.fromkeys(PLACES[variant.name][0] for variant in study.chosen(options)))
    names = [algorithm.upper() for algorithm in options.algorithms]
    if unknown := [algorithm for algorithm in names if algorithm not in CONFIGS]:
        raise UsageError(f"--algorithms {unknown[0]}: does not train flows here; give some of {', '.join(CONFIGS)}")
    return [ANALYTIC, *names]


def training(folder: Path, algorithm: str, seed: int, steps: int) -> StandardTraining:
    kind, name = GradientTraining if algorithm == ANALYTIC else StandardTraining, f"{algorithm}-s{seed}"
    return kind(name, folder, folder / name, algorithm=algorithm, seed=seed, steps=steps)


def facts(options: StudyOptions) -> Facts:
    flows, steps = FlowsConfig(), options.steps or LENGTHS[options.full][1]
    return [
        ("Ground", "the fluid model, not labs: a NIC's table throws no dice, and a standard algorithm explores"),
        ("Trained on", f"{LABS} bottlenecks each of {', '.join(map(str, flows.flows))} flows, which come and go"),
        ("Reward", f"-(delta / target)^2, delta counted up to {flows.max_error:g} targets (RL-CC's eq. 1)"),
        ("Length", f"{steps:,} decisions of each training"),
        ("Policy", "one for all flows; standard algorithms: two layers of 64; eq. 3: the artifact's 4-12-12-1"),
        ("Measured", "without exploration, 400 base RTTs of which the second half counts"),
    ]


BAND = {OVER.name: lambda ax: ax.axhspan(1 - WITHIN, 1 + WITHIN, color="#DDDDDD", zorder=0)}
"""The range that the criterion allows, as a band of the figure."""
LINES = [
    series.VariantLine(LABELS[algorithm], COLORS[algorithm], {flows: name(algorithm, flows) for flows in FLOWS})
    for algorithm in LABELS
]
STUDY = Study(
    TITLE,
    MEASURES,
    VARIANTS,
    source=SOURCE,
    claims=CLAIMS,
    draw=partial(series.figure, series=LINES, columns=MEASURES[:3], xlabel="flows", title=TITLE, curves=BAND),
    facts=facts,
    notes=NOTES,
    seeds=LENGTHS[False][0],
    collect=FluidTrainings(LENGTHS, {"labs": LABS, "batch": BATCH, "learning_rate": LEARNING_RATE, "configs": CONFIGS}),
    trains=True,
)
