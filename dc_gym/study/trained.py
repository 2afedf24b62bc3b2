# SPDX-License-Identifier: Apache-2.0
"""Collects a study whose variants include policies that are trained first, above a TCP.

    OUT/NAME/trainings/    the trainings (trainings.py); they use labs whatever the ground
    OUT/NAME/runs/         a sweep: one result per variant and seed

All variants are measured in the same way, on the same traffic. All state is in these folders, so the same command resumes.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dc_gym import spec as specs
from dc_gym.base.errors import UsageError
from dc_gym.base.files import in_full, scratch
from dc_gym.base.progress import Progress
from dc_gym.base.units import format_rate, format_size, format_time, parse_time_ns
from dc_gym.learn.rllib.settings import HELD_OUT
from dc_gym.results.figures import styles
from dc_gym.results.results import Result
from dc_gym.run.sweep.grid import Point
from dc_gym.spec import Spec
from dc_gym.spec.experiment import POLICY_COPY
from dc_gym.study import collect, trainings
from dc_gym.study.evidence import Evidence, Sample, Shortfall, VariantEvidence, fewer
from dc_gym.study.model import Collected, Facts, Files, Study, StudyOptions, Variant
from dc_gym.study.trainings import Training

POLICY = "controller.policy"
TRAFFIC = ("kind", "transport", "rate", "jitter", "file")
"""Keys of [workload] that a page shows."""
THESIS_PRESET = "iroko-thesis"
THESIS_AGENT = {"agent.tbf": "stock", "agent.burst": "12500B"}
"""The thesis' enforcement of rates (its listing 3); used with the preset of the thesis' own hyper-parameters."""
COLORS: Mapping[str, str] = {"PPO": "#CC79A7", "APPO": "#7B3F8C", "DDPG": "#E69F00", "REINFORCE": "#B22222", "SAC": "#00556B"}
OTHER_COLOR = "#5A7D2A"


@dataclass(frozen=True, slots=True)
class PolicyVariant(Variant):
    """A TCP with a policy above it. The policy may be "max" (the TCP alone), an oracle, or one that is trained first."""

    algorithm: str = ""
    """The algorithm that learns its policy; empty if it does not learn."""
    alone: bool = False
    """True for a TCP whose rates no agent sets."""


@dataclass(frozen=True, slots=True)
class TrainedLength:
    """The number and length of trainings and runs."""

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
    levels: int = 0
    """Number of discrete actions; 0: continuous ones."""
    batches: Mapping[str, int] = field(default_factory=dict)
    """Training batch in steps, by algorithm, where it differs from the thesis' preset for this network."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the spec that differ at this length."""
    agent: Mapping[str, Any] = field(default_factory=dict)
    """Keys that differ where an agent sets the rates, such as UDP instead of TCP."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A network with its traffic, and who is run on it."""

    name: str
    """Name of its folder. Studies with the same runs share it."""
    base: Mapping[str, Any]
    """The spec that all variants share."""
    default: TrainedLength
    full: TrainedLength
    baselines: tuple[str, ...] = ("dctcp", "dctcp-red", "nv", "cubic", "fair-share", "random")
    algorithms: tuple[str, ...] = ()
    """The algorithms to train unless the command names others: the algorithms of the claims."""
    own: tuple[PolicyVariant, ...] = ()
    """Variants of this setup alone, such as an oracle of its figure."""
    paper_steps: int = 0
    files: Files = field(default_factory=dict)

    def variants(self, algorithms: tuple[str, ...] | None = None) -> list[PolicyVariant]:
        """Returns all variants; learning ones come last."""
        learners = self.algorithms if algorithms is None else algorithms
        return [*map(baseline, self.baselines), *self.own, *map(learner, learners if self.algorithms else ())]

    def length(self, options: StudyOptions) -> TrainedLength:
        """Returns the own length, replaced by the command's options where they are given."""
        settings: dict[str, Any] = {name: getattr(options, name) for name in ("seeds", "steps", "preset", "duration")}
        if options.duration:
            settings["warmup"] = format_time(parse_time_ns(options.duration, "--duration") // collect.WARMUP_PART)
        return replace(self.full if options.full else self.default, **{name: value for name, value in settings.items() if value})

    def shortfall(self, options: StudyOptions) -> Shortfall:
        """Returns the parts that the command made shorter than the own length."""
        whole, length = self.full if options.full else self.default, self.length(options)
        shorter = parse_time_ns(length.duration) < parse_time_ns(whole.duration)
        return Shortfall(
            runs=f"runs of {length.duration} instead of {whole.duration}" if shorter else "",
            trainings=f"trainings of {length.steps:,} steps instead of {whole.steps:,}" if length.steps < whole.steps else "",
            seeds=fewer("seed", length.seeds, whole.seeds),
        )


def _tcp(controller: str, label: str = "", color: str = "", **values: Any) -> PolicyVariant:
    known = styles.find(controller)
    assert known is not None
    keys = {"controller.name": controller, POLICY: "max"} | values
    return PolicyVariant("", keys, color or known.color, label or known.label, alone=True)


def over_cubic(policy: str | type, label: str, color: str, name: str = "", **values: Any) -> PolicyVariant:
    """Returns a variant whose policy sets the rates above CUBIC. `policy` is a registered name, or a class."""
    policy_name = policy if isinstance(policy, str) else f"{policy.__module__}:{policy.__name__}"
    return PolicyVariant(name, {"controller.name": "cubic", POLICY: policy_name} | values, color, label)


BASELINES: Mapping[str, PolicyVariant] = {
    "dctcp": _tcp("dctcp", "DCTCP (step at K)"),
    "dctcp-red": _tcp("dctcp", "DCTCP (RED as in the thesis)", "#56B4E9", **{"topology.marking": "iroko-thesis"}),
    "nv": _tcp("nv"),
    "cubic": _tcp("cubic"),
    "fair-share": over_cubic("fair-share", "fair-share oracle", "#222222"),
    "fair-share-ahead": over_cubic("fair-share-ahead", "oracle that knows the schedule", "#8C6D31"),
    "random": over_cubic("random", "random", "#8A8A8A"),
    "no-control": over_cubic("max", "no control", "#B0A080"),
}


def baseline(name: str) -> PolicyVariant:
    return replace(BASELINES[name], name=name)


def learner(algorithm: str) -> PolicyVariant:
    """Returns the variant of an algorithm of `dcgym train`. The file of its policy is known once it is trained."""
    name = algorithm.rpartition(":")[2]
    if not name.replace("_", "").isalnum():
        raise UsageError(f"algorithm {algorithm!r} is neither a name such as PPO nor a module:Class")
    return PolicyVariant(name, {"controller.name": "cubic"}, COLORS.get(name, OTHER_COLOR), name, algorithm=algorithm)


@dataclass(frozen=True, slots=True)
class TrainedRuns:
    """The `Study.collect` of a setup."""

    setup: Setup

    def __call__(self, study: Study, options: StudyOptions, progress: Progress) -> Collected:
        """Makes missing trainings and missing runs, and returns the evidence."""
        setup, campaign = self.setup, Campaign(self.setup, options)
        collect.write(campaign.folder, setup.files)
        variants = [
            variant for variant in setup.variants(options.algorithms) if variant.name in (options.variants or [variant.name])
        ]
        seeds = range(1, setup.length(options).seeds + 1)
        learners = [variant for variant in variants if variant.algorithm]
        ready = [campaign.point(variant, seed) for variant in variants if not variant.algorithm for seed in seeds]
        todo = [campaign.training(learner, seed) for learner in learners for seed in seeds]
        runs = campaign.run(ready, progress)  # this finds all mistakes in specs before training starts
        if learners:
            trainings.run_all(todo, options.jobs, progress, options.force)
            learned = [campaign.point(learner, seed) for learner in learners for seed in seeds]
            for learned_point in learned:
                campaign.forget_older(learned_point)
            runs = campaign.run([*ready, *learned], progress)
        progress.phase("measuring")
        by_name = {variant.name: campaign.measured(study, variant, runs) for variant in variants}
        first = next((variant for variant in variants if not variant.algorithm), variants[0])
        sample = None if first.algorithm else Sample(first.name, 1, runs[first.name, 1].digest)
        return Collected(Evidence(by_name, setup.paper_steps, setup.shortfall(options)), sample)

    def repeat(self, study: Study, sample: Sample, options: StudyOptions, progress: Progress) -> str:
        campaign = Campaign(self.setup, options)
        collect.write(campaign.folder, self.setup.files)
        variant = next(candidate for candidate in self.setup.variants() if candidate.name == sample.variant)
        return collect.repeated(campaign.point(variant, sample.seed), campaign.folder, options, progress)


@dataclass(frozen=True, slots=True)
class Campaign:
    """The specs, trainings and runs of a setup with the options of a command."""

    setup: Setup
    options: StudyOptions

    @property
    def length(self) -> TrainedLength:
        return self.setup.length(self.options)

    @property
    def folder(self) -> Path:
        """The folder of the runs. Host runs and lab runs are kept apart, full and default lengths, too."""
        return collect.folder(self.setup.name, self.options)

    @property
    def home(self) -> Path:
        """The folder of the trainings. Policies learn in labs even if they then run on the host."""
        return collect.folder(self.setup.name, replace(self.options, ground="lab"))

    def spec(self, variant: PolicyVariant, values: Mapping[str, Any], ground: str | None = None) -> Spec:
        """Returns the spec of a variant: the setup's keys, then the variant's, the command's, and `values`.

        `ground`: None means the command's. On the host a TCP alone runs without its idle agent, which would cost CPU time there.
        """
        length = self.length
        keys = dict(length.values) | ({} if variant.alone else dict(length.agent))
        if variant.algorithm:
            keys |= {"agent.observe": "thesis"}
        if length.preset == THESIS_PRESET and not variant.alone:
            keys |= THESIS_AGENT | ({"agent.action": "thesis"} if variant.algorithm else {})
        keys |= dict(variant.values)
        if (ground or self.options.ground) == "host":
            keys = {key: value for key, value in keys.items() if not (variant.alone and key == POLICY)} | {"ground": "host"}
        keys = specs.not_given(keys, self.options.overrides) | dict(values)
        return specs.vary(self.setup.base, self.folder, self.setup.name, self.options.overrides, keys, self.setup.name)

    def _episode(self, variant: PolicyVariant, ground: str | None = None) -> Spec:
        return self.spec(variant, {POLICY: "external", "time.duration": self.length.episode, "time.warmup": "0s"}, ground)

    def training(self, variant: PolicyVariant, seed: int) -> Training:
        length = self.length
        batch = length.batches.get(variant.name) if length.preset == THESIS_PRESET else None
        settings = {"algorithm": variant.algorithm, "preset": length.preset, "seed": seed, "steps": length.steps}
        settings |= {"batch": batch, "levels": length.levels, "evaluated": False}
        return trainings.training(self.home, self._episode(variant, "lab"), f"{variant.name}-s{seed}", **settings)

    def point(self, variant: PolicyVariant, seed: int) -> Point:
        """Returns a run to be measured; all variants have the same traffic."""
        length = self.length
        values: dict[str, Any] = {"time.duration": length.duration, "time.warmup": length.warmup, "seed": HELD_OUT + seed}
        if variant.algorithm:
            values[POLICY] = str(self._place(variant, seed) / "policy.npz")
        return Point(f"{variant.name}-s{seed}", {"variant": variant.name, "seed": seed}, self.spec(variant, values))

    def _place(self, variant: PolicyVariant, seed: int) -> Path:
        return in_full(self.home / trainings.FOLDER / f"{variant.name}-s{seed}")

    def forget_older(self, point: Point) -> None:
        """Removes a result whose policy has been trained further since, so that it is run again."""
        result, policy = self.folder / collect.FOLDER / point.name, point.spec.controller.policy
        copy = result / POLICY_COPY
        if isinstance(policy, Path) and copy.is_file() and copy.read_bytes() != policy.read_bytes():
            shutil.rmtree(result)

    def run(self, points: Sequence[Point], progress: Progress) -> dict[tuple[str, int], Result]:
        runs = collect.run_all(self.setup.name, ("variant", "seed"), points, self.folder, self.options, progress)
        return {(str(point.values["variant"]), int(point.values["seed"])): runs[point.name] for point in points}

    def measured(self, study: Study, variant: PolicyVariant, runs: Mapping[tuple[str, int], Result]) -> VariantEvidence:
        """Returns the evidence of a variant. Its training has the quantities that its runs have over time."""
        own_runs = {seed: result for (name, seed), result in runs.items() if name == variant.name}
        evidence = collect.measured(study, variant, own_runs)
        if not variant.algorithm:
            return evidence
        steps, names = self._episode(variant).steps, {name for track in evidence.over_time.values() for name in track.values}
        curves = {seed: trainings.learning_curve(self._place(variant, seed), steps, names) for seed in own_runs}
        return replace(evidence, learning=curves)


def facts(setup: Setup) -> Callable[[StudyOptions], Facts]:
    """Returns the `Study.facts` of a setup."""
    return functools.partial(_facts, setup)


def _facts(setup: Setup, options: StudyOptions) -> Facts:
    with scratch(Path(tempfile.gettempdir()), "dcgym-study-") as work:  # a page is made without the folder of the runs
        campaign = Campaign(setup, replace(options, out=work))
        collect.write(campaign.folder, setup.files)
        length, variants = campaign.length, setup.variants(options.algorithms)
        spec = campaign.spec(variants[0], {"time.duration": length.duration, "time.warmup": length.warmup})
        traffic = spec.to_dict()["workload"]
        traffic |= {name: path.name for section, name, path in spec.paths() if section == "workload"}
        rows = [
            ("Network", _network(spec)),
            ("Traffic", _pairs({key: value for key, value in traffic.items() if key in TRAFFIC})),
        ]
        if length.agent:
            rows.append(("Under agents", _pairs({key.rpartition(".")[2]: value for key, value in length.agent.items()})))
        rows.append(("Measured", f"{length.duration} a run, from {length.warmup} on"))
        if learners := [variant for variant in variants if variant.algorithm]:
            names, step = ", ".join(learner.name for learner in learners), format_time(spec.agent.interval_ns)
            rows.append(("Learned", f"{names}: one training a seed, steps of {step}, episodes of {length.episode}"))
            agent = campaign.spec(learners[0], {POLICY: "external"}).agent
            how = (
                f"observes {agent.observe}, action {agent.action}, reward {agent.reward}, tbf {agent.tbf}; preset {length.preset}"
            )
            rows.append(("Agent", how))
            paper = f"; the source: {setup.paper_steps:,}" if setup.paper_steps else ""
            rows.append(("Steps", f"{length.steps:,} asked for{paper}"))
        return rows


def _network(spec: Spec) -> str:
    """Describes a network: its hosts, and all different rates and queue sizes."""
    graph = spec.graph()
    rates = sorted({cable.rate_bps for cable in graph.cables})
    queues = sorted({port.queue.limit_bytes for port in graph.ports()})
    size = f"{len(graph.hosts)} hosts, {len(graph.switches)} switches"
    named = spec.topology.preset or spec.topology.kind
    return f"{named}: {size}, {' and '.join(map(format_rate, rates))}, queues of {' and '.join(map(format_size, queues))}"


def _pairs(keys: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in keys.items())
