# SPDX-License-Identifier: Apache-2.0
"""The results that a report is about: found in folders, grouped by experiment and controller, a seed a run.

Results of the same spec but for its seed, of the same files that it reads and of one fingerprint are one group: their means have
intervals. Groups that differ in their controller alone are one scenario: their seeds are paired. The name of a spec is a title
and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.ctrl import controllers
from dc_gym.figures.curves import find_results
from dc_gym.figures.plots import FLOW_COLORS
from dc_gym.records.results import Result
from dc_gym.spec.experiment import POLICY_COPY

TITLES = ("name", "seed", "controller")  # keys of a spec that tell runs of one scenario apart
MOST_TOLD = 4  # keys in a title
HASHES, HASH_DIGITS = ("inputs", "fingerprint"), 8  # and so many digits of one in a title
NAMED, GREY = ("name", "policy"), "#8A8A8A"
CONTENT = "content"  # beside the keys of [controller]: the hash of its policy's file
MEANS = ("memory", "watchdog")  # keys of [lab] that results do not depend on


@dataclass(frozen=True, slots=True)
class Run:
    """One result."""

    result: Result
    spec: Mapping[str, Any]
    seed: int
    number: str
    """What anchors call it: run-1, run-2, ... in the order found."""


@dataclass(frozen=True, slots=True)
class Group:
    """One controller in one scenario: its runs by seed."""

    name: str
    """Of its policy, or without one of its TCP."""
    label: str
    color: str
    runs: tuple[Run, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    def values(self, metric: str) -> dict[int, float]:
        """A number of summary.json by seed, where it is one."""
        found = {run.seed: run.result.summary.get(metric) for run in self.runs}
        return {seed: float(value) for seed, value in found.items() if isinstance(value, int | float)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One network and workload, and what each controller did on it."""

    title: str
    groups: tuple[Group, ...]
    unfit: tuple[Run, ...]
    """Runs that are shown and not counted."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """Of any of its runs; they differ in seed, name and controller."""
        return self.all_runs[0].spec

    @property
    def all_runs(self) -> tuple[Run, ...]:
        return (*(run for group in self.groups for run in group.runs), *self.unfit)


def gather(folders: Sequence[Path]) -> list[Result]:
    """All results in the folders, each once, in the order of the folders and their names."""
    found: dict[Path, Result] = {}
    for folder in folders:
        for result in find_results(folder):
            found.setdefault(result.path.resolve(), result)
    lacking = [result.path for result in found.values() if not isinstance(result.manifest.get("spec"), Mapping)]
    if lacking:
        raise UsageError(f"{lacking[0]}: its manifest has no spec; a report needs it to know what was run")
    return list(found.values())


def scenarios(results: Iterable[Result], count_unfit: bool = False) -> tuple[list[Scenario], list[str]]:
    """The scenarios in the order of their first run; and notes on what was left out, in words."""
    notes: list[str] = []
    sorted_out: dict[str, dict[str, dict[int, Run]]] = {}
    unfit: dict[str, list[Run]] = {}
    for number, result in enumerate(results, 1):
        spec = result.manifest["spec"]
        run = Run(result, spec, int(spec.get("seed", 1)), f"run-{number}")
        key = _text(_experiment(result))
        groups, acting = sorted_out.setdefault(key, {}), _text(_controller(result))
        if not result.fit and not count_unfit:
            unfit.setdefault(key, []).append(run)
            continue
        seeds = groups.setdefault(acting, {})
        if run.seed in seeds:
            same = "the same digest" if seeds[run.seed].result.digest == result.digest else "ANOTHER digest"
            notes.append(f"{result.path} is left out: same spec and seed as {seeds[run.seed].result.path}, with {same}")
        else:
            seeds[run.seed] = run
    found = [_scenario(groups, unfit.get(key, [])) for key, groups in sorted_out.items()]
    return _told_apart(found), notes + _warnings(found)


def _controller(result: Result) -> dict[str, Any]:
    """What makes a group: the section of the spec, and what is in a policy's file."""
    section: Mapping[str, Any] = result.manifest["spec"].get("controller", {})
    content = result.inputs.get(POLICY_COPY)
    return {**section, **({} if content is None else {CONTENT: str(content)[:HASH_DIGITS]})}


def _experiment(result: Result) -> dict[str, Any]:
    """What makes a scenario: the spec, what is in the files that it names, and what the run was made with."""
    spec: Mapping[str, Any] = result.manifest["spec"]
    lab = {name: value for name, value in spec.get("lab", {}).items() if name not in MEANS}
    told = {name: value for name, value in spec.items() if name not in TITLES} | {"lab": lab}
    inputs = {name: content for name, content in result.inputs.items() if name != POLICY_COPY}
    return told | {"inputs": inputs, "fingerprint": result.manifest.get("fingerprint")}


def _warnings(found: Sequence[Scenario]) -> list[str]:
    """Of scenarios that are one spec and one set of files, and were run with different things."""
    fingerprints: dict[str, set[str]] = {}
    for each in found:
        told = _experiment(each.all_runs[0].result)
        fingerprint = str(told.pop("fingerprint"))
        fingerprints.setdefault(_text(told), set()).add(fingerprint)
    most = max(map(len, fingerprints.values()), default=0)
    if most < 2:
        return []
    text = f"runs of the same experiment have {most} fingerprints (kernel, Open vSwitch, libc, Python or this project differ)"
    return [f"{text}: each is a scenario of its own, and they are not compared; dcgym verify A --against B says what differs"]


def _scenario(groups: Mapping[str, Mapping[int, Run]], unfit: Sequence[Run]) -> Scenario:
    ordered = sorted(groups.items(), key=lambda item: (_rank(json.loads(item[0])), item[0]))
    sorted_runs = [tuple(seeds[seed] for seed in sorted(seeds)) for _, seeds in ordered if seeds]
    keys = [json.loads(key) for key, seeds in ordered if seeds]
    sections = [key | runs[0].result.controller for key, runs in zip(keys, sorted_runs, strict=True)]
    names = map(controllers.acting, sections)
    found = tuple(map(Group, names, _labels(sections), _colors(sections), sorted_runs))
    first = found[0].runs[0] if found else unfit[0]
    return Scenario(str(first.spec.get("name", "experiment")), found, tuple(unfit))


def _told_apart(found: list[Scenario]) -> list[Scenario]:
    """Scenarios of one title get what sets them apart in theirs."""
    told = []
    for each in found:
        same = [other for other in found if other.title == each.title]
        more = _differences(each, same, _named) or _differences(each, same, _flat)
        told.append(replace(each, title=f"{each.title}: {more}") if more else each)
    return told


def _differences(each: Scenario, same: Sequence[Scenario], words: Callable[[Result], dict[str, str]]) -> str:
    """In words what sets a scenario apart from others; empty if these words are those of another one, too."""
    mine, others = words(each.all_runs[0].result), [words(other.all_runs[0].result) for other in same if other is not each]
    if mine in others:
        return ""
    return ", ".join([mine[key] for key in mine if any(other.get(key) != mine[key] for other in others)][:MOST_TOLD])


def _named(result: Result) -> dict[str, str]:
    """As _flat, with policies by their names."""
    return _flat(result) | {f"inputs.{copy}": f"{copy} {name}" for copy, name in result.policies.items() if copy != POLICY_COPY}


def _flat(result: Result) -> dict[str, str]:
    """The keys that make a scenario, dotted, and each in words."""
    found = {}
    for name, section in _experiment(result).items():
        for key, value in (section if isinstance(section, Mapping) else {"": section}).items():
            short = str(value)[:HASH_DIGITS] if name in HASHES else value
            found[f"{name}.{key}".rstrip(".")] = f"{key or name} {short}"
    return found


def _labels(sections: Sequence[Mapping[str, Any]]) -> list[str]:
    """With a controller's parameters where its name alone does not tell it from another."""
    names = [controllers.label_of(section) for section in sections]
    return [
        name if names.count(name) == 1 else name + "".join(f", {key} {section[key]}" for key in section if key not in NAMED)
        for name, section in zip(names, sections, strict=True)
    ]


def _colors(sections: Sequence[Mapping[str, Any]]) -> list[str]:
    """A TCP has its own, and each policy one that no other has here, as far as they go."""
    known = [None if section.get("policy") else controllers.find(str(section.get("name"))) for section in sections]
    free = iter([color for color in FLOW_COLORS if all(each is None or each.color != color for each in known)])
    return [
        each.color if each else next(free, GREY) if section.get("policy") else GREY
        for each, section in zip(known, sections, strict=True)
    ]


def _rank(controller: Mapping[str, Any]) -> tuple[int, int]:
    """Registered ones come first, in their order; before all policies over one TCP comes "max", the TCP alone."""
    known = controllers.names()
    name, policies = controller.get("name"), (None, "max")
    policy = controller.get("policy")
    return known.index(name) if name in known else len(known), policies.index(policy) if policy in policies else len(policies)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
