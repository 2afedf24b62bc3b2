# SPDX-License-Identifier: Apache-2.0
"""The adversary: searches a scene for the attack that harms an entrant most, then shrinks it (delta debugging, Zeller 1999).

The search is Optuna's tree-structured Parzen estimator. Its rounds have one size and one seed, so that neither the number of CPUs
nor a stop in between changes what it finds. Scores are kept in scores.json; the runs behind them are not.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dc_gym.arena import entrant as entrants
from dc_gym.arena import measures, play
from dc_gym.arena.entrant import Entrant
from dc_gym.arena.scene import Act, Attack, Scene, toml
from dc_gym.base import plain_json
from dc_gym.base.errors import SpecError, TestbedError, UsageError
from dc_gym.base.files import put, scratch
from dc_gym.base.progress import Progress
from dc_gym.results.figures.timeline import plot_result
from dc_gym.results.results import Result, load_result
from dc_gym.run.sweep.grid import Point
from dc_gym.run.sweep.state import RunState
from dc_gym.spec import Spec
from dc_gym.study import collect
from dc_gym.study.model import StudyOptions

ROUND = 8
"""Attacks that are tried before the search learns from them."""
KEPT = 0.8
"""A smaller attack still shows the weakness if it does that share of the additional harm."""
DIGITS = (1, 2, 3, 4)
"""Significant digits to which numbers are rounded, if the attack still shows the weakness."""
SCORES = "scores.json"


@dataclass(frozen=True, slots=True)
class Found:
    """The smallest attack that was found, and what it does."""

    scene: Scene
    entrant: Entrant
    attack: Attack
    start: float
    """Harm without an attack."""
    worst: float
    """The greatest harm of the search."""
    harm: float
    """Harm of the smallest attack."""
    trials: int

    def __str__(self) -> str:
        measure = self.scene.measure.replace("_", " ") + (f" beyond {self.scene.reference}'s" if self.scene.reference else "")
        what = "; ".join(map(str, self.attack)) or "none was found"
        return f"{self.entrant.name}, {self.scene.name}: {measure} {self.harm:.3g}, without {self.start:.3g}: {what}"


@dataclass(frozen=True)
class Judge:
    """Measures the harm of attacks, each once."""

    scene: Scene
    entrant: Entrant
    folder: Path
    options: StudyOptions
    progress: Progress

    def harms(self, attacks: Sequence[Attack]) -> list[float | None]:
        """Returns the harm of each attack; None: its spec is refused, or its run has no such measure."""
        by_name = {f"{attack_key(attack)}-{self._identity}": attack for attack in attacks}
        if missing := {name: self._specs(attack) for name, attack in by_name.items() if name not in self._scores}:
            self._measure(missing)
        return [self._scores[f"{attack_key(attack)}-{self._identity}"] for attack in attacks]

    @cached_property
    def _scores(self) -> dict[str, float | None]:
        try:
            kept = dict(plain_json.read(self.folder / SCORES))
        except (OSError, ValueError, TypeError):  # there is none, or it is damaged
            return {}
        return {name: value for name, value in kept.items() if value is None or isinstance(value, int | float)}

    @cached_property
    def _identity(self) -> str:
        """The digest of everything but the attack that a score depends on."""
        plain = [self.scene.start, self.scene.measure, self.scene.others, self.scene.reference, dict(self.entrant.source)]
        environment = play.environment(self.scene.spec((), self.entrant, self.folder), self.progress)
        text = json.dumps([plain, self.entrant.settings, self.entrant.name, environment], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @cached_property
    def _reference(self) -> Entrant | None:
        return entrants.shipped(self.scene.reference, self.scene.track) if self.scene.reference else None

    def _specs(self, attack: Attack) -> list[Spec]:
        """Returns the specs of an attack on the entrant and on the reference; none if it is no spec."""
        players = [self.entrant, *([self._reference] if self._reference else [])]
        try:
            return [self.scene.spec(attack, player, self.folder) for player in players]
        except SpecError:
            return []

    def _measure(self, specs: dict[str, list[Spec]]) -> None:
        named = [(f"{name}-{n}", spec) for name, by_player in specs.items() for n, spec in enumerate(by_player)]
        points = [Point(run, {"attack": run}, spec) for run, spec in named]
        with scratch(Path(tempfile.gettempdir()), "dcgym-study-") as runs:
            results = self._results(points, runs) if points else {}
            for name, players in specs.items():
                harms = [_harm(self.scene, results.get(f"{name}-{n}")) for n in range(len(players))]
                self._scores[name] = _difference(harms)
        put(self.folder / SCORES, json.dumps(self._scores, indent=0, sort_keys=True).encode())

    def _results(self, points: Sequence[Point], runs: Path) -> dict[str, Result]:
        statuses = collect.statuses("attacks", ("attack",), points, runs, self.options, self.progress)
        if failed := next((status for status in statuses if status.state is RunState.FAILED), None):
            why = (failed.message.splitlines() or ["no message"])[0]
            raise TestbedError(f"arena attack: a run failed: {why}; the same command goes on from here")
        done = [status.point.name for status in statuses if status.state is RunState.DONE]
        return {name: load_result(runs / collect.FOLDER / name) for name in done}


def attack_key(attack: Attack) -> str:
    """Returns the name of an attack: a digest of what it does, in whatever order."""
    acts = sorted(json.dumps([act.move.name, act.values], sort_keys=True) for act in attack)
    return hashlib.sha256("\n".join(acts).encode()).hexdigest()[:16]


def _harm(scene: Scene, result: Result | None) -> float | None:
    if result is None:
        return None
    value = measures.harm(result, scene.others) if scene.measure == "harm" else result.summary.get(scene.measure)
    return measures.rounded(value)


def _difference(harms: Sequence[float | None]) -> float | None:
    """Returns the entrant's harm beyond the reference's."""
    if not harms or None in harms:
        return None
    own, *reference = [harm for harm in harms if harm is not None]
    return measures.rounded(own - sum(reference))


def find(judge: Judge, trials: int | None, until: Callable[[], bool], seed: int) -> Found:
    """Searches until so many attacks were tried, or until the time is over, and shrinks the worst.

    Raises UsageError if the start cannot be measured.
    """
    (start,) = judge.harms([()])
    if start is None:
        raise UsageError(f"arena: scene {judge.scene.name}: {judge.entrant.name} has no {judge.scene.measure} at the start")
    worst: Attack = ()
    harm, count = start, 0
    for attacks, harms in _rounds(judge, seed):
        count += len(attacks)
        for attack, tried in zip(attacks, harms, strict=True):
            if tried is not None and tried > harm:
                worst, harm = attack, tried
        judge.progress.note(f"{judge.entrant.name}, {judge.scene.name}: {count} attacks, the worst harms {harm:.3g}")
        if until() or (trials is not None and count >= trials):
            break
    attack = _smallest(judge, worst, start + KEPT * (harm - start))
    (smallest,) = judge.harms([attack])
    assert smallest is not None, "it was measured before"
    return Found(judge.scene, judge.entrant, attack, start, harm, smallest, count)


def _rounds(judge: Judge, seed: int) -> Iterator[tuple[list[Attack], list[float | None]]]:
    """Yields attacks with their harm, without end."""
    optuna = _optuna()
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    while True:
        trials = [study.ask() for _ in range(ROUND)]
        attacks = [_asked(judge.scene, trial) for trial in trials]
        harms = judge.harms(attacks)
        for trial, harm in zip(trials, harms, strict=True):
            study.tell(trial, harm, state=None if harm is not None else optuna.trial.TrialState.FAIL)
        yield attacks, harms


def _optuna() -> Any:
    try:
        optuna = importlib.import_module("optuna")
    except ImportError:
        raise UsageError("arena attack: Optuna is not installed; pip install 'dc-gym[attack]'") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _asked(scene: Scene, trial: Any) -> Attack:
    acts = []
    for move in scene.moves:
        for n in range(move.most):
            if not trial.suggest_categorical(f"{move.name}.{n}", (False, True)):
                continue
            numbers = {
                name: trial.suggest_int(f"{move.name}.{n}.{name}", drawn.low, drawn.high, log=drawn.is_log)
                for name, drawn in move.drawn.items()
            }
            acts.append(Act(move, numbers))
    return tuple(acts)


def _smallest(judge: Judge, attack: Attack, least: float) -> Attack:
    """Returns the attack without each act that it can spare, and with round numbers, as long as it does so much harm."""
    smaller: Attack | None = attack
    while smaller is not None:
        attack, smaller = smaller, _first(judge, _without_one(smaller), least)
    for place, act in enumerate(attack):
        for name in act.numbers:
            attack = _first(judge, _rounded(attack, place, name), least) or attack
    return attack


def _first(judge: Judge, attacks: Sequence[Attack], least: float) -> Attack | None:
    """Returns the first of some attacks that does enough harm."""
    harms = judge.harms(attacks) if attacks else []
    enough = (attack for attack, harm in zip(attacks, harms, strict=True) if harm is not None and harm >= least)
    return next(enough, None)


def _without_one(attack: Attack) -> list[Attack]:
    return [attack[:place] + attack[place + 1 :] for place in range(len(attack))]


def _rounded(attack: Attack, place: int, name: str) -> list[Attack]:
    """Returns the attack with one number rounded, the roundest first."""
    act = attack[place]
    drawn, number = act.move.drawn[name], act.numbers[name]
    if drawn.is_choice:
        return []
    numbers = [int(float(f"{number:.{digits - 1}e}")) for digits in DIGITS]
    changed = [replace(act, numbers={**act.numbers, name: rounder}) for rounder in numbers if drawn.low <= rounder <= drawn.high]
    return [(*attack[:place], other, *attack[place + 1 :]) for other in changed if other != act]


def deadline(budget_s: float) -> Callable[[], bool]:
    """Returns a function that tells whether a time from now is over."""
    end_s = time.monotonic() + budget_s
    return lambda: time.monotonic() >= end_s


def write(found: Found, judge: Judge) -> tuple[Path, Result]:
    """Runs the attack, writes its spec and its picture, and returns the spec's path and the result."""
    spec = judge.scene.spec(found.attack, found.entrant, judge.folder)
    name = "attack"
    point = Point(name, {"case": judge.scene.name, "seed": spec.seed}, spec)
    results = play.run([point], judge.folder, judge.options, judge.progress)
    path = judge.folder / f"{name}.toml"
    put(path, f"# {found}\n# digest {results[name].digest}\n{toml(_tables(found, spec))}".encode())
    plot_result(results[name], judge.folder / f"{name}.png")
    return path, results[name]


def _tables(found: Found, spec: Spec) -> dict[str, Any]:
    """Returns what a file needs to say of the spec of an attack."""
    whole, tables = spec.to_dict(), found.scene.tables(found.attack)
    named = {name: whole[name] for name in ("spec_version", "name")}
    values = dict(found.entrant.keys)
    for setting in found.entrant.settings:
        section, key = setting.partition("=")[0].split(".")[:2]
        values[f"{section}.{key}"] = whole[section][key]
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        (tables.setdefault(section, {}) if section else tables)[key] = value
    return named | tables
