# SPDX-License-Identifier: Apache-2.0
"""`[episodes]`: the keys whose values are drawn anew in each episode, and from which seeds (docs/environment.md).

A value depends only on the episode's seed, its key and its distribution. Seeds of held-out episodes begin where those of training
end, so no training meets one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from re import findall, fullmatch
from typing import Any

from dc_gym.base import spelling
from dc_gym.base.errors import AgentError, TestbedError
from dc_gym.base.key import (
    CODE_PATH,
    NUMBER,
    PATH,
    TEXT,
    KeyFault,
    Kind,
    all_fields,
    check,
    declared_by,
    fields_by_key,
    key,
    parse,
    parse_value,
    to_plain,
)
from dc_gym.spec.agent import AgentSpec
from dc_gym.spec.events import EVENTS, EventSpec
from dc_gym.topologies.graph import Graph
from dc_gym.traffic.draws import Stream
from dc_gym.traffic.workload_spec import TrafficSpec, WorkloadSpec

TRAIN, HELD_OUT = SPLITS = ("train", "held-out")
FIRST_HELD_OUT = 2**62
"""The first seed of a held-out episode. A seed of a training is below it."""
CHOICE, UNIFORM, LOG_UNIFORM = DISTRIBUTIONS = ("choice", "uniform", "log_uniform")
MILLIONTHS = 10**6
"""A number that is no whole one is drawn in steps of a millionth."""
Spec = Any
"""A dc_gym.spec.Spec, whose module imports this one."""
KEY = r"(?P<section>workload(\.beside\[\d+\])?|events\[\d+\](\.workload)?|agent)\.(?P<name>\w+)"
OBSERVED = ("observation_delay", "observation_loss")
"""Keys of [agent] that may be drawn."""
FIXED = {"exec", "beside", "dscp", "link", "port", "state", "reroute"}
"""Keys of the workload and of events that are part of the network, or that its set-up depends on."""
DRAWABLE = "draw keys of workload and events, or agent.observation_delay and agent.observation_loss"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution, and its values as the file gives them: those to choose from, or the two ends of a range."""

    name: str
    values: tuple[Any, ...]

    def ends(self, name: str, kind: Kind) -> tuple[int, int]:
        """Returns the ends of a range as whole numbers, of millionths if the key takes fractions.

        Raises KeyFault for a key whose values have no order, and for a range that is empty or 0 on a logarithmic scale.
        """
        low, high = (_whole(name, value, kind) for value in self.values)
        if low >= high:
            raise KeyFault(name, list(self.values), "is an empty range; give the lower end first, and a higher one")
        if self.name == LOG_UNIFORM and low < 1:
            raise KeyFault(name, list(self.values), f"begins at 0, and {LOG_UNIFORM} needs more; give a higher end, or {UNIFORM}")
        return low, high

    def draw(self, seed: int, name: str, kind: Kind) -> Any:
        """Returns the value of an episode, as a file would give it. Both ends of a range are possible."""
        stream = Stream(seed, "episodes", name)
        if self.name == CHOICE:
            return stream.choose(self.values)
        low, high = self.ends(name, kind)
        if self.name == LOG_UNIFORM:
            return _written(stream.log_uniform(low, high + 1), kind)
        return _written(low + stream.below(high - low + 1), kind)


def _whole(name: str, value: Any, kind: Kind) -> int:
    stored = parse_value(name, value, kind)
    if kind is NUMBER:
        stored = Fraction(str(stored)) * MILLIONTHS
        if stored.denominator != 1:
            raise KeyFault(name, value, "has more than six decimals; give fewer")
        return int(stored)
    if type(stored) is not int:
        raise KeyFault(name, value, f"has no order to draw from; give {CHOICE}, or sizes in bytes")
    return stored


def _written(number: int, kind: Kind) -> Any:
    return number / MILLIONTHS if kind is NUMBER else kind.write(number)


def _draws(table: Mapping[str, Any]) -> tuple[tuple[str, Distribution], ...]:
    """Returns the distributions of [episodes.draw] by the keys that are drawn."""
    return tuple((name, _distribution(f"episodes.draw.{name}", entry)) for name, entry in sorted(_flat(table, "")))


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yields the entries by their whole keys: TOML makes tables of a key with dots that is not quoted."""
    for name, entry in table.items():
        if isinstance(entry, Mapping) and entry and all(isinstance(inner, Mapping) for inner in entry.values()):
            yield from _flat(entry, f"{prefix}{name}.")
        else:
            yield prefix + name, entry


def _distribution(name: str, entry: Any) -> Distribution:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise KeyFault(name, entry, "is not one distribution; write it like { uniform = [0.2, 0.9] }")
    ((distribution, values),) = entry.items()
    if distribution not in DISTRIBUTIONS:
        raise KeyFault(name, entry, spelling.unknown("distribution", str(distribution), DISTRIBUTIONS))
    needs_two = distribution != CHOICE
    if not isinstance(values, list) or not values or (needs_two and len(values) != 2):
        remedy = f"{distribution} = [LOW, HIGH]" if needs_two else "choice = [A, B, ...]"
        raise KeyFault(name, entry, f"lacks its values; write {{ {remedy} }}")
    return Distribution(distribution, tuple(values))


DRAWS = Kind(
    (dict,),
    'a table such as { "workload.load" = { uniform = [0.2, 0.9] } }',
    _draws,
    lambda draws: {name: {distribution.name: list(distribution.values)} for name, distribution in draws},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodesSpec:
    """`[episodes]`: in what the episodes of an environment differ. A run is the episode of its seed."""

    draw: tuple[tuple[str, Distribution], ...] = key(
        DRAWS,
        (),
        otherwise="none",
        help="keys [drawn in each episode](environment.md#episodes-that-differ), by `uniform`, `log_uniform` or `choice`",
    )
    split: str | None = key(
        TEXT,
        names=lambda: SPLITS,
        otherwise='`"train"`',
        help="the seeds of the episodes: `train`, or `held-out`, which no training has",
    )

    def __post_init__(self) -> None:
        check(self, "episodes.")

    def seed_of(self, seed: int) -> int:
        """Returns the seed of an episode that is asked for by a number. Without this section it is the number.

        Raises AgentError if a training asks for a held-out episode.
        """
        if self.split == HELD_OUT and seed < FIRST_HELD_OUT:
            return seed + FIRST_HELD_OUT
        if self != EpisodesSpec() and self.split != HELD_OUT and seed >= FIRST_HELD_OUT:
            remedy = f'give one below {FIRST_HELD_OUT}, or episodes.split = "{HELD_OUT}"'
            raise AgentError(f"seed {seed} is of a held-out episode, and these are for training; {remedy}")
        return seed


def drawn(spec: Spec, seed: int) -> dict[str, Any]:
    """Returns the values of an episode by their keys, as a file would give them."""
    return {name: distribution.draw(seed, name, _kind(spec, name)) for name, distribution in spec.episodes.draw}


def with_values(spec: Spec, values: Mapping[str, Any]) -> Spec:
    """Returns the spec with other values of keys that may be drawn.

    Raises KeyFault if a key refuses its value.
    """
    plain: dict[str, Any] = {"workload": to_plain(spec.workload, WorkloadSpec), "agent": to_plain(spec.agent, AgentSpec)}
    plain["events"] = EVENTS.write(spec.events)
    for name, value in values.items():
        *outer, last = findall(r"\w+", name)
        table: Any = plain
        for part in outer:
            table = table[int(part) if isinstance(table, list) else part]
        table[last] = value
    changed: dict[str, Any] = {}
    for section in {findall(r"\w+", name)[0] for name in values}:
        if section == "events":
            changed[section] = parse_value(section, plain[section], EVENTS)
        else:
            changed[section] = (cls := _class_of(section))(**parse(plain[section], section, cls))
    with_them: Spec = replace(spec, **changed)
    return with_them


def check_draws(spec: Spec, graph: Graph, keys: Iterable[str]) -> None:
    """Checks that each key may be drawn, and takes every value of a choice, or both ends of a range.

    Args:
        spec: The spec.
        graph: Its network.
        keys: All keys of a spec, to tell one that is fixed from one that is unknown.

    Raises:
        KeyFault: One may not, or does not.
    """
    for name, distribution in spec.episodes.draw:
        drawn_key = f"episodes.draw.{name}"
        _require_drawable(spec, name, drawn_key, keys)
        if distribution.name != CHOICE:
            distribution.ends(drawn_key, _kind(spec, name))
        for value in distribution.values:
            try:
                changed = with_values(spec, {name: value})
                changed.flows_with_notes(graph, may_be_idle=True)
                changed.changes(graph)
            except KeyFault as fault:
                raise KeyFault(drawn_key, value, fault.why if fault.key == name else f"{fault.key}: {fault.why}") from None
            except TestbedError as error:
                raise KeyFault(drawn_key, value, str(error)) from None


def _require_drawable(spec: Spec, name: str, drawn_key: str, keys: Iterable[str]) -> None:
    match = fullmatch(KEY, name)
    declared = _field(spec, name) if match else None
    if match and declared is None:
        known = OBSERVED if match["section"] == "agent" else all_fields(_class_of(match["section"]))
        raise KeyFault(drawn_key, None, f"unknown key; {spelling.hint(match['name'], known)}")
    if declared is None and name not in keys:
        raise KeyFault(drawn_key, None, f"unknown key; {DRAWABLE}")
    if match is None or declared is None or not _is_drawable(match["section"], match["name"], declared):
        raise KeyFault(drawn_key, None, f"is part of the network, which all episodes of a lab share; {DRAWABLE}")
    _require_place(spec, name, drawn_key, match["section"])


def _is_drawable(section: str, name: str, declared: Any) -> bool:
    if section == "agent":
        return name in OBSERVED
    return name not in FIXED and declared.metadata["kind"] not in (PATH, CODE_PATH)


def _require_place(spec: Spec, name: str, drawn_key: str, section: str) -> None:
    """Raises KeyFault if the spec lacks the entry that a key names, or a drawn key of an event."""
    numbers = [int(number) for number in findall(r"\[(\d+)\]", section)]
    array = spec.events if section.startswith("events") else spec.workload.beside or ()
    if numbers and numbers[0] >= len(array):
        raise KeyFault(drawn_key, None, f"the spec has {len(array)} of these; number them from 0 on")
    if not section.startswith("events"):
        return
    event, last = array[numbers[0]], name.rpartition(".")[2]
    needed = "workload" if section.endswith(".workload") else last
    if getattr(event, fields_by_key(EventSpec)[needed].name) is None:
        raise KeyFault(drawn_key, None, f"the event has no {needed}; give it one, which the drawn values replace")
    if last == "rate" and spec.controller.telemetry:
        raise KeyFault(drawn_key, None, f"the ports' telemetry of {spec.controller.name} has fixed rates; draw another key")


def _class_of(section: str) -> Any:
    if section.startswith("events"):
        return WorkloadSpec if section.endswith(".workload") else EventSpec
    return {"workload": WorkloadSpec, "agent": AgentSpec}.get(section, TrafficSpec)


def _field(spec: Spec, name: str) -> Any:
    """Returns the declaration of a key that may be drawn; None: there is none."""
    section, _, last = name.rpartition(".")
    kind = {"kind": spec.workload.kind} if section == "workload" else {}
    return declared_by(_class_of(section), last, kind)


def _kind(spec: Spec, name: str) -> Kind:
    kind: Kind = _field(spec, name).metadata["kind"]
    return kind
