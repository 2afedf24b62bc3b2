# SPDX-License-Identifier: Apache-2.0
"""`dcgym new`: writes a commented spec from the answers to three questions. At a terminal it asks for the missing answers."""

from __future__ import annotations

import shlex
import sys
import textwrap
import tomllib
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dc_gym import spec as specs
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.key import S, quoted, to_plain
from dc_gym.base.spelling import unknown
from dc_gym.base.terminal import say
from dc_gym.base.units import format_time
from dc_gym.cli.list import GROUPS, first_line, plain
from dc_gym.ctrl import controllers
from dc_gym.spec.experiment import SECTIONS, field_of_key
from dc_gym.topologies import presets
from dc_gym.topologies.topology_spec import TopologySpec
from dc_gym.traffic.workloads import KINDS

__all__ = ["NETWORKS", "TRAFFIC", "Answers", "main", "text_of"]

MOST_HOSTS = 24
"""A run on a network of more hosts takes too long for a first one."""
MOST_FRAMES = 10**6
"""The hosts' links carry at most this many full frames in a run, so that it takes seconds."""
LONGEST_NS = 10 * S
NETWORKS = tuple(name for name, params in presets.PRESETS.items() if len(presets.build(params).hosts) <= MOST_HOSTS)
TRAFFIC: Mapping[str, Mapping[str, Any]] = {
    "many_to_one": {},
    "pairs": {},
    "random_bijective": {},
    "incast": {"senders": 4, "size": "64kB"},
    "poisson": {"distribution": "websearch", "load": 0.5, "truncate": "3MB"},
    "ring_allreduce": {"size": "1MB"},
}
"""The workloads that are offered, with the keys that the spec gives beside the kind."""
CHANGED_FIRST = ("rate", "delay", "buffer", "k_bytes")
"""The preset's keys that the spec shows as comments."""
WIDTH = 100


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers to the questions. The defaults fit together, and each fits every answer to the others."""

    network: str = "dumbbell-10m"
    traffic: str = "many_to_one"
    controllers: tuple[str, ...] = ("dctcp", "cubic")


@dataclass(frozen=True, slots=True)
class Question:
    """A question. `topic` is the name of its option and of its field of Answers."""

    topic: str
    text: str
    group: str
    names: Callable[[], tuple[str, ...]]

    @property
    def several(self) -> bool:
        return self.topic == "controllers"

    def parsed(self, answer: str) -> Any:
        """Returns the answer's value. Raises UsageError that names the answer and the choices."""
        choices = [part.strip() for part in answer.split(",")] if self.several else [answer]
        for name in choices:
            if name in presets.PRESETS and self.topic == "network" and name not in NETWORKS:
                reason = f"--network: {name!r} has more than {MOST_HOSTS} hosts, too many for a first run"
                raise UsageError(f"{reason}; take one of: {', '.join(NETWORKS)}; and change topology.preset later")
            if name not in self.names():
                raise UsageError(f"--{self.topic}: {unknown(self.topic.removesuffix('s'), name, self.names())}")
        return tuple(dict.fromkeys(choices)) if self.several else answer

    def lines(self) -> list[str]:
        """Returns a line for each choice, as `dcgym list` shows it."""
        return [line for line in GROUPS[self.group]() if line.split()[0] in self.names()]


QUESTIONS = (
    Question("network", "Which network?", "topologies", lambda: NETWORKS),
    Question("traffic", "Which traffic?", "workloads", lambda: tuple(TRAFFIC)),
    Question("controllers", "Which congestion controls (one, or several: dctcp,cubic)?", "controllers", controllers.names),
)


def main(args: Namespace) -> int:
    """Runs the command."""
    path: Path = args.file
    _require_free(path, args.force)
    answers = Answers()
    for question in QUESTIONS:
        option = getattr(args, question.topic)
        if option is None and sys.stdin.isatty() and sys.stdout.isatty():
            answers = _asked(question, answers, path)
        elif option is not None:
            answers = replace(answers, **{question.topic: question.parsed(option)})
    text = text_of(answers, path)
    _check(text, answers, path)
    path.write_text(text, encoding="utf-8")
    say("\n".join([f"{path}: {_title(answers)}", *(f"  {line}" for line in _commands(answers, path))]))
    return 0


def _require_free(path: Path, force: bool) -> None:
    if path.suffix != ".toml":
        raise UsageError(f"{path}: a spec's name ends in .toml; give {path.with_suffix('.toml').name!r}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file")
    if path.exists() and not force:
        raise UsageError(f"{path} exists; replace it with --force, or give another name")


def _asked(question: Question, before: Answers, path: Path) -> Answers:
    """Asks until an answer fits the network and the traffic, and returns the answers with it."""
    default = getattr(before, question.topic)
    default_text = ",".join(default) if question.several else default
    say("\n".join([question.text, *(f"  {line}" for line in question.lines())]))
    while True:
        try:
            answer = input(f"{question.topic} [{default_text}]: ").strip() or default_text
        except EOFError:
            say()
            options = ", ".join(f"--{other.topic}" for other in QUESTIONS)
            raise UsageError(f"{path} was not written: the input ended; answer the questions, or give {options}") from None
        try:
            answers = replace(before, **{question.topic: question.parsed(answer)})
            _check(text_of(answers, path), answers, path)
        except TestbedError as error:
            say(error)
        else:
            return answers


def _check(text: str, answers: Answers, path: Path) -> None:
    """Raises SpecError unless the spec loads with each of the controllers."""
    data = tomllib.loads(text)
    for name in answers.controllers:
        specs.vary(data, path.absolute().parent, str(path), (), {"controller.name": name}, "--controllers")


def text_of(answers: Answers, path: Path) -> str:
    """Returns the text of the spec."""
    duration_ns = _duration_ns(answers.network)
    jitter = {"jitter": format_time(duration_ns // 100)}
    tables: dict[str, dict[str, Any]] = {
        "": {"name": path.stem, "seed": 1},
        "topology": {"preset": answers.network},
        "controller": {"name": answers.controllers[0]},
        "workload": {"kind": answers.traffic, **(TRAFFIC[answers.traffic] or jitter)},
        "time": {"duration": format_time(duration_ns), "warmup": format_time(duration_ns // 5)},
        "monitor": {"interval": format_time(duration_ns // 1000)},
    }
    of_preset = to_plain(presets.PRESETS[answers.network], TopologySpec)
    later = {"topology": {name: of_preset[name] for name in CHANGED_FIRST if name in of_preset}}
    lines = [f"# {_title(answers)}", *(f"#   {line}" for line in _commands(answers, path))]
    lines += ["# A line that begins with #KEY shows the value that the preset gives; remove the # to change it."]
    for section, keys in tables.items():
        lines += [""]
        if section:
            lines += [*_comment(_told_of(section)), f"[{section}]"]
        for name, value in keys.items():
            lines += [*_comment(_meaning(section, name, answers)), f"{name} = {quoted(value)}"]
        for name, value in later.get(section, {}).items():
            lines += [*_comment(_meaning(section, name, answers)), f"#{name} = {quoted(value)}"]
    return "\n".join(lines) + "\n"


def _title(answers: Answers) -> str:
    return f"{answers.traffic} on {answers.network}, under {' and '.join(answers.controllers)}"


def _commands(answers: Answers, path: Path) -> Iterator[str]:
    """Yields the commands that the spec is for."""
    file = shlex.quote(str(path))
    yield f"dcgym run {file}"
    if len(answers.controllers) > 1:
        yield f"dcgym sweep {file} --controllers {','.join(answers.controllers)} --seeds 1..3"
    yield f"dcgym list {answers.traffic}"


@cache
def _duration_ns(network: str) -> int:
    """Returns the time in which the hosts' links carry MOST_FRAMES, rounded down to 1, 2 or 5 times a power of ten."""
    graph = presets.build(presets.PRESETS[network])
    hosts = {host.name for host in graph.hosts}
    total_bps = sum(graph.cable_of(port).rate_bps for port in graph.ports() if port.node in hosts)
    time_ns = min(MOST_FRAMES * graph.frame_bytes * 8 * S // total_bps, LONGEST_NS)
    power = 10 ** (len(str(time_ns)) - 1)
    return int(max(first for first in (1, 2, 5) if first * power <= time_ns) * power)


def _told_of(section: str) -> str:
    """Returns the description of a section, from its class."""
    return (SECTIONS[section].__doc__ or "").partition("\n")[0].partition(": ")[2]


def _meaning(section: str, name: str, answers: Answers) -> str:
    """Returns the meaning of a key, from its declaration."""
    declared = KINDS[answers.traffic].declared.get(name) if section == "workload" else None
    field = declared or field_of_key(f"{section}.{name}" if section else name)
    text = plain(field.metadata["help"])
    if (section, name) == ("workload", "kind"):
        text += f". {answers.traffic}: {first_line(KINDS[answers.traffic].call)}"
    return text


def _comment(text: str) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, WIDTH)]
