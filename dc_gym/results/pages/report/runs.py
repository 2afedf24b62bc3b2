# SPDX-License-Identifier: Apache-2.0
"""Finds the results of a report in folders and groups them by experiment and controller, with one run for each seed.

Results with the same spec except for the seed, the same input files and the same fingerprint form one group; means over a group
have intervals. Groups that differ only in their controller form one scenario, and their seeds are paired. To a controller of the
NICs belong the settings of the NICs and the transport. The name of a spec is only a title.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dc_gym.base.errors import UsageError
from dc_gym.ctrl import controllers
from dc_gym.results.figures import styles
from dc_gym.results.figures.curves import find_results
from dc_gym.results.figures.kit import FLOW_COLORS
from dc_gym.results.fingerprint import fingerprint
from dc_gym.results.metrics.summary import told_of_equal_seeds
from dc_gym.results.results import Result
from dc_gym.spec.experiment import NIC_POLICY_COPY, POLICY_COPY

TITLES = ("name", "seed", "controller", "nic")  # keys of a spec in which runs of one scenario may differ
ACTING = ("agents", "methods", "numpy")  # the parts of an environment that only runs of some controllers have
TRANSPORTS = ("tcp", "rdma", "uec")  # follow from the controller, unless the spec sets them
MOST_TOLD = 4  # most keys in a title
HASHES, HASH_DIGITS = ("inputs", "fingerprint"), 8  # values shown as hashes, and their digits in a title
NAMED, GREY = ("name", "policy"), "#8A8A8A"
CONTENT = "content"  # an additional key of [controller]: the hash of its policy's file
MEANS = ("memory", "watchdog")  # keys of [lab] that do not affect results


@dataclass(frozen=True, slots=True)
class ReportedRun:
    """One result."""

    result: Result
    spec: Mapping[str, Any]
    seed: int
    number: str
    """The name in the page's anchors: run-1, run-2, ... in the order found."""


@dataclass(frozen=True, slots=True)
class Group:
    """One controller in one scenario, with its runs by seed."""

    name: str
    """The name of its policy or, without one, of its TCP."""
    label: str
    color: str
    runs: tuple[ReportedRun, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(run.seed for run in self.runs)

    def values(self, metric: str) -> dict[int, float]:
        """Returns a metric of summary.json by seed, for the runs in which it is a number."""
        values_by_seed = {run.seed: run.result.summary.get(metric) for run in self.runs}
        return {seed: float(value) for seed, value in values_by_seed.items() if isinstance(value, int | float)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One network and workload, with the runs of each controller on it."""

    title: str
    groups: tuple[Group, ...]
    unfit: tuple[ReportedRun, ...]
    """Runs that are shown but not counted."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the first run; the runs' specs differ in seed, name and controller."""
        return self.all_runs[0].spec

    @property
    def all_runs(self) -> tuple[ReportedRun, ...]:
        return (*(run for group in self.groups for run in group.runs), *self.unfit)


def gather(folders: Sequence[Path]) -> list[Result]:
    """Returns all results in the folders, each once, in the order of the folders and of their names."""
    results: dict[Path, Result] = {}
    for folder in folders:
        for result in find_results(folder):
            results.setdefault(result.path.resolve(), result)
    specless = [result.path for result in results.values() if not isinstance(result.manifest.get("spec"), Mapping)]
    if specless:
        raise UsageError(f"{specless[0]}: its manifest has no spec; a report needs it to know what was run")
    return list(results.values())


def scenarios(results: Iterable[Result], count_unfit: bool = False) -> tuple[list[Scenario], list[str]]:
    """Returns the scenarios in the order of their first run, and notes on the runs that were left out."""
    notes: list[str] = []
    results = list(results)
    told_apart = _with_several_acting(results)
    sorted_out: dict[str, dict[str, dict[int, ReportedRun]]] = {}
    unfit: dict[str, list[ReportedRun]] = {}
    for number, result in enumerate(results, 1):
        spec = result.manifest["spec"]
        run = ReportedRun(result, spec, int(spec.get("seed", 1)), f"run-{number}")
        key = _text(_experiment(result, told_apart))
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
    merged = [_scenario(groups, unfit.get(key, [])) for key, groups in sorted_out.items()]
    if note := told_of_equal_seeds(
        [json.dumps(run.result.summary, sort_keys=True) for run in group.runs] for scenario in merged for group in scenario.groups
    ):
        notes.append(note)
    return _told_apart(merged), notes + _warnings(merged)


def _controller(result: Result) -> dict[str, Any]:
    """Returns the identity of a group: the controller section of the spec, the settings of its NICs with their transports, and
    the contents of the policies' files."""
    spec: Mapping[str, Any] = result.manifest["spec"]
    identity = dict(spec.get("controller", {}))
    transports = [workload["transport"] for workload in _workloads(spec) if workload.get("transport") in TRANSPORTS]
    if {"rdma", "uec"} & set(transports) or spec.get("nic", {}).get("tcp"):
        identity |= {f"nic.{key}": value for key, value in spec.get("nic", {}).items()} | {"transports": transports}
    contents = {CONTENT: result.inputs.get(POLICY_COPY), f"nic.{CONTENT}": result.inputs.get(NIC_POLICY_COPY)}
    return identity | {name: str(content)[:HASH_DIGITS] for name, content in contents.items() if content is not None}


def _experiment(result: Result, told_apart: Collection[str] = ACTING) -> dict[str, Any]:
    """Returns the identity of a scenario: the spec, the contents of the files that it names, and the run's fingerprint.

    `told_apart`: the parts of ACTING that distinguish scenarios, too.
    """
    spec: Mapping[str, Any] = result.manifest["spec"]
    lab = {name: value for name, value in spec.get("lab", {}).items() if name not in MEANS}
    identity = {name: value for name, value in spec.items() if name not in TITLES} | {"lab": lab}
    if isinstance(workload := spec.get("workload"), Mapping):
        identity["workload"] = _of_any_transport(workload)
    inputs = {name: content for name, content in result.inputs.items() if name not in (POLICY_COPY, NIC_POLICY_COPY)}
    return identity | {"inputs": inputs, "fingerprint": _common_fingerprint(result, told_apart)}


def _workloads(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns the tables of the workload and of those beside it."""
    workload = spec.get("workload")
    beside = workload.get("beside") if isinstance(workload, Mapping) else None
    return [table for table in (workload, *(beside if isinstance(beside, list) else ())) if isinstance(table, Mapping)]


def _of_any_transport(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a workload without the transports that follow from the controller."""
    settings = {key: value for key, value in workload.items() if key != "transport" or value not in TRANSPORTS}
    if isinstance(beside := settings.get("beside"), list):
        settings["beside"] = [_of_any_transport(other) if isinstance(other, Mapping) else other for other in beside]
    return settings


def _common_fingerprint(result: Result, told_apart: Collection[str]) -> Any:
    """Returns the fingerprint of the parts that all runs share: the kernel, for example, but not the code of some controllers."""
    stated, environment = result.manifest.get("fingerprint"), result.manifest.get("environment")
    if not isinstance(environment, Mapping) or fingerprint(environment) != stated:
        return stated
    return fingerprint({name: value for name, value in environment.items() if name not in ACTING or name in told_apart})


def _with_several_acting(results: Sequence[Result]) -> set[str]:
    """Returns the parts of ACTING that have several values in these results, which are then not compared."""
    environments = [result.manifest.get("environment") for result in results]
    variants = {name: {entry[name] for entry in environments if isinstance(entry, Mapping) and name in entry} for name in ACTING}
    return {name for name, values in variants.items() if len(values) > 1}


def _warnings(scenarios: Sequence[Scenario]) -> list[str]:
    """Returns warnings about scenarios with the same spec and files but different fingerprints."""
    fingerprints: dict[str, set[str]] = {}
    for scenario in scenarios:
        identity = _experiment(scenario.all_runs[0].result)
        stated = str(identity.pop("fingerprint"))
        fingerprints.setdefault(_text(identity), set()).add(stated)
    most = max(map(len, fingerprints.values()), default=0)
    if most < 2:
        return []
    text = f"runs of the same experiment have {most} fingerprints (kernel, Open vSwitch, libc, Python or this project differ)"
    return [f"{text}: each is a scenario of its own, and they are not compared; dcgym verify A --against B says what differs"]


def _scenario(groups: Mapping[str, Mapping[int, ReportedRun]], unfit: Sequence[ReportedRun]) -> Scenario:
    ordered = sorted(groups.items(), key=lambda item: (_rank(json.loads(item[0])), item[0]))
    sorted_runs = [tuple(seeds[seed] for seed in sorted(seeds)) for _, seeds in ordered if seeds]
    keys = [json.loads(key) for key, seeds in ordered if seeds]
    sections = [key | runs[0].result.controller for key, runs in zip(keys, sorted_runs, strict=True)]
    names = map(controllers.acting, sections)
    run_groups = tuple(map(Group, names, _labels(sections), _colors(sections), sorted_runs))
    first = run_groups[0].runs[0] if run_groups else unfit[0]
    return Scenario(str(first.spec.get("name", "experiment")), run_groups, tuple(unfit))


def _told_apart(scenarios: list[Scenario]) -> list[Scenario]:
    """Adds distinguishing words to the titles of scenarios with equal titles."""
    titled = []
    for scenario in scenarios:
        same = [other for other in scenarios if other.title == scenario.title]
        more = _differences(scenario, same, _named) or _differences(scenario, same, _flat)
        titled.append(replace(scenario, title=f"{scenario.title}: {more}") if more else scenario)
    return titled


def _differences(scenario: Scenario, same: Sequence[Scenario], words: Callable[[Result], dict[str, str]]) -> str:
    """Returns words that distinguish a scenario from others; empty if another one has the same words."""
    texts, others = (
        words(scenario.all_runs[0].result),
        [words(other.all_runs[0].result) for other in same if other is not scenario],
    )
    if texts in others:
        return ""
    return ", ".join([texts[key] for key in texts if any(other.get(key) != texts[key] for other in others)][:MOST_TOLD])


def _named(result: Result) -> dict[str, str]:
    """Returns the same as _flat, with policies by their names."""
    return _flat(result) | {f"inputs.{copy}": f"{copy} {name}" for copy, name in result.policies.items() if copy != POLICY_COPY}


def _flat(result: Result) -> dict[str, str]:
    """Returns the dotted keys that identify a scenario, each with a text of name and value."""
    texts = {}
    for name, section in _experiment(result).items():
        for key, value in (section if isinstance(section, Mapping) else {"": section}).items():
            short = str(value)[:HASH_DIGITS] if name in HASHES else value
            texts[f"{name}.{key}".rstrip(".")] = f"{key or name} {short}"
    return texts


def _labels(sections: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the labels of the controllers, with their parameters where the name alone is ambiguous."""
    names = [styles.label_of_section(section) for section in sections]

    def full_label(name: str, section: Mapping[str, Any]) -> str:
        same = [other for other, label in zip(sections, names, strict=True) if label == name]
        keys = [key for key in section if key not in NAMED and any(other.get(key) != section[key] for other in same)]
        return name + "".join(f", {key} {section[key]}" for key in keys)

    return list(map(full_label, names, sections))


def _colors(sections: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the colours: a TCP has its own, and each policy gets one that no other has here, as long as there are any."""
    known = [None if section.get("policy") else styles.find(str(section.get("name"))) for section in sections]
    free = iter([color for color in FLOW_COLORS if all(style is None or style.color != color for style in known)])
    return [
        style.color if style else next(free, GREY) if section.get("policy") else GREY
        for style, section in zip(known, sections, strict=True)
    ]


def _rank(controller: Mapping[str, Any]) -> tuple[int, int]:
    """Returns a sort key: controllers that have a style first, in their order. Among policies over one TCP, the TCP alone and
    "max" come first."""
    known = styles.names()
    name, policies = controller.get("name"), (None, "max")
    policy = controller.get("policy")
    return known.index(name) if name in known else len(known), policies.index(policy) if policy in policies else len(policies)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
