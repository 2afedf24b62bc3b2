# SPDX-License-Identifier: Apache-2.0
"""Runs a setup: trains the contestants that learn, runs all contestants on the same traffic, and measures them in the same way.

    FOLDER/trainings/    the trainings (trainings.py)
    FOLDER/runs/         a sweep: one result per contestant and seed

All state is in these folders. Run again, the same command resumes where it was stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dc_gym import spec as specs
from dc_gym.base.errors import UsageError
from dc_gym.base.files import machine_errors, put
from dc_gym.base.progress import Progress
from dc_gym.base.units import format_rate, format_size, format_time, parse_time_ns
from dc_gym.records.results import Result
from dc_gym.reproduce import measured, runs, trainings
from dc_gym.reproduce.evidence import Contender, Evidence, Shortfall, fewer
from dc_gym.reproduce.options import ReproduceOptions
from dc_gym.reproduce.setup import POLICY, CampaignLength, Contestant, Setup, roster
from dc_gym.reproduce.trainings import Training
from dc_gym.rl.settings import HELD_OUT
from dc_gym.spec import Spec
from dc_gym.spec.experiment import POLICY_COPY
from dc_gym.sweep.grid import Point

WARMUP_PART = 4
"""The warm-up before the metrics' window is 1/4 of a duration that the command gives."""
TRAFFIC = ("kind", "transport", "rate", "jitter", "file")
"""Keys of [workload] that a page shows."""
THESIS_PRESET = "iroko-thesis"
THESIS_AGENT = {"agent.tbf": "stock", "agent.burst": "12500B"}
"""How the thesis enforced rates (its listing 3); used with the preset of the thesis' own hyper-parameters."""

Measure = Callable[[Result], dict[str, float]]


@dataclass(frozen=True, slots=True)
class Campaign:
    setup: Setup
    options: ReproduceOptions
    more: Measure
    """Measures the figure's additional quantities."""

    @property
    def folder(self) -> Path:
        """The folder of the runs. Host runs and lab runs are kept apart."""
        return self.home.with_name(self.home.name + "-host") if self.options.ground == "host" else self.home

    @property
    def home(self) -> Path:
        """The folder of the trainings; full and default lengths are kept apart.

        Policies learn in labs even if they then run on the host.
        """
        return self.options.out / (self.setup.name + ("-full" if self.options.full else ""))

    @property
    def length(self) -> CampaignLength:
        """The figure's own length, with what the command asks for in its place."""
        own, options = self.setup.full if self.options.full else self.setup.default, self.options
        given: dict[str, Any] = {
            "seeds": options.seeds,
            "steps": options.steps,
            "preset": options.preset,
            "duration": options.duration,
        }
        if options.duration:
            given["warmup"] = format_time(parse_time_ns(options.duration, "--duration") // WARMUP_PART)
        return replace(own, **{name: value for name, value in given.items() if value})

    @property
    def shortfall(self) -> Shortfall:
        """The parts (runs, trainings, seeds) that the command made shorter than the figure's own length."""
        own, asked = self.setup.full if self.options.full else self.setup.default, self.length
        shorter = parse_time_ns(asked.duration) < parse_time_ns(own.duration)
        return Shortfall(
            runs=f"runs of {asked.duration} instead of {own.duration}" if shorter else "",
            trainings=f"trainings of {asked.steps:,} steps instead of {own.steps:,}" if asked.steps < own.steps else "",
            seeds=fewer("seed", asked.seeds, own.seeds),
        )

    def contestants(self) -> list[Contestant]:
        return roster(self.setup, self.options.algorithms)

    def spec(self, contestant: Contestant, values: Mapping[str, Any], ground: str | None = None) -> Spec:
        """Returns the spec of a contestant: the setup's keys, then the contestant's, the command's, and `values`.

        `ground`: None means the command's. On the host a contestant that is a TCP alone runs without its idle agent, which would
        cost CPU time there.
        """
        keys = dict(self.length.values) | ({} if contestant.alone else dict(self.length.agent))
        if contestant.algorithm:
            keys |= {"agent.observe": "thesis"}
        if self.length.preset == THESIS_PRESET and not contestant.alone:
            keys |= THESIS_AGENT | ({"agent.action": "thesis"} if contestant.algorithm else {})
        keys |= dict(contestant.values)
        if (ground or self.options.ground) == "host":
            keys = {key: value for key, value in keys.items() if not (contestant.alone and key == POLICY)} | {"ground": "host"}
        keys = specs.not_given(keys, self.options.overrides) | dict(values)
        return specs.vary(self.setup.base, self.folder, self.setup.name, self.options.overrides, keys, self.setup.name)

    def training(self, contestant: Contestant, seed: int) -> Training:
        length = self.length
        spec = self.spec(contestant, {POLICY: "external", "time.duration": length.episode, "time.warmup": "0s"}, "lab")
        name = f"{contestant.name}-s{seed}"
        batch = length.batches.get(contestant.name) if length.preset == THESIS_PRESET else None
        asked = (contestant.algorithm, name, length.preset, seed, length.steps, batch)
        return trainings.training(self.home, spec, *asked, evaluated=False)

    def point(self, contestant: Contestant, seed: int) -> Point:
        """Returns a run to be measured; all contestants have the same traffic."""
        length = self.length
        values: dict[str, Any] = {"time.duration": length.duration, "time.warmup": length.warmup, "seed": HELD_OUT + seed}
        if contestant.algorithm:
            values[POLICY] = str(self._place(contestant, seed) / "policy.npz")
        return Point(f"{contestant.name}-s{seed}", {"contestant": contestant.name, "seed": seed}, self.spec(contestant, values))

    def _place(self, contestant: Contestant, seed: int) -> Path:
        return (self.home / trainings.FOLDER / f"{contestant.name}-s{seed}").absolute()

    def run(self, progress: Progress) -> Evidence:
        """Runs everything that is missing, and returns the evidence."""
        contestants, seeds = self.contestants(), range(1, self.length.seeds + 1)
        ready = [self.point(each, seed) for each in contestants if not each.algorithm for seed in seeds]
        learners = [each for each in contestants if each.algorithm]
        todo = [self.training(each, seed) for each in learners for seed in seeds]
        found = self._measure(ready, progress)  # this finds all mistakes in specs before training starts
        if learners:
            trainings.run_all(todo, self.options.jobs, progress, self.options.force)
            learned = [self.point(each, seed) for each in learners for seed in seeds]
            for each in learned:
                self._forget_older(each)
            found = self._measure([*ready, *learned], progress)
        progress.phase("measuring")
        contenders = {each.name: self._contender(each, found) for each in contestants}
        return Evidence(contenders, self.setup.paper_steps, self.shortfall)

    def _forget_older(self, point: Point) -> None:
        """Removes a result whose policy has been trained further since, so that it is run again."""
        result, policy = self.folder / runs.FOLDER / point.name, point.spec.controller.policy
        copy = result / POLICY_COPY
        if isinstance(policy, Path) and copy.is_file() and copy.read_bytes() != policy.read_bytes():
            shutil.rmtree(result)

    def _measure(self, points: Sequence[Point], progress: Progress) -> dict[tuple[str, int], Result]:
        found = runs.run_all(self.setup.name, ("contestant", "seed"), points, self.folder, self.options, progress)
        return {(str(each.values["contestant"]), int(each.values["seed"])): found[each.name] for each in points}

    def _contender(self, contestant: Contestant, found: Mapping[tuple[str, int], Result]) -> Contender:
        own = {seed: result for (name, seed), result in found.items() if name == contestant.name}
        learning = {}
        if contestant.algorithm:
            steps = self.spec(contestant, {POLICY: "external", "time.duration": self.length.episode, "time.warmup": "0s"}).steps
            learning = {seed: trainings.learning_curve(self._place(contestant, seed), steps) for seed in own}
        tracks = {seed: measured.track(result) for seed, result in own.items()}
        return Contender(
            contestant.name,
            contestant.label,
            contestant.color,
            measured.by_seed(own, self.more),
            over_time=tracks,
            learning=learning,
        )


def campaign(
    setup: Setup, options: ReproduceOptions, files: Mapping[str, str] | None = None, more: Measure = lambda result: {}
) -> Campaign:
    """Returns a campaign, after writing the files that its specs read."""
    made = Campaign(setup, options, more)
    with machine_errors("make", made.folder):
        made.folder.mkdir(parents=True, exist_ok=True)
        for name, content in (files or {}).items():
            put(made.folder / name, content.encode())
    if not made.contestants():
        raise UsageError(f"{setup.name}: no controller is left to run on ground {options.ground!r}")
    return made


def facts(made: Campaign) -> list[tuple[str, str]]:
    """Describes how the campaign was run."""
    length, some = made.length, made.contestants()[0]
    spec = made.spec(some, {"time.duration": length.duration, "time.warmup": length.warmup})
    traffic = spec.to_dict()["workload"]
    traffic |= {name: path.name for section, name, path in spec.paths() if section == "workload"}
    rows = [
        ("Network", _network(spec)),
        ("Traffic", _pairs({key: value for key, value in traffic.items() if key in TRAFFIC})),
        *(
            [("Under agents", _pairs({key.rpartition(".")[2]: value for key, value in length.agent.items()}))]
            if length.agent
            else []
        ),
        ("Measured", f"{length.seeds} seeds, {length.duration} each, from {length.warmup} on; the same traffic for all"),
    ]
    rows += made.shortfall.facts()
    learners = [each for each in made.contestants() if each.algorithm]
    if learners:
        names, step = ", ".join(each.name for each in learners), format_time(spec.agent.interval_ns)
        rows.append(("Learned", f"{names}: one training a seed, steps of {step}, episodes of {length.episode}"))
        agent = made.spec(learners[0], {POLICY: "external"}).agent
        how = f"observes {agent.observe}, action {agent.action}, reward {agent.reward}, tbf {agent.tbf}; preset {length.preset}"
        rows.append(("Agent", how))
        paper = made.setup.paper_steps
        rows.append(("Steps", f"{length.steps:,} asked for" + (f"; the paper: {paper:,}" if paper else "")))
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
