# SPDX-License-Identifier: Apache-2.0
"""Scenes of the adversary: scenes/SCENE.toml.

track, title                     who plays in it, and its name in words
measure                          what harms the entrant, as a share: harm (measures.py), or drop_ratio (summary.json)
others                           as in a case of a track
reference                        the entrant whose harm under the same attack is subtracted; without it the ideal, which has none
[spec]                           the spec of the start, in which the adversary has done nothing
[moves.NAME]                     something that the adversary may do
title, most                      its name in words, and how often it may be done (1)
add                              the list of the spec that gets its table, events or workload.beside; without it keys are replaced
table                            the table, or dotted keys
until                            keys of a second event, after the time `lasts`
[moves.NAME.draw]                distributions of keys, and of `lasts`
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from dc_gym import spec as specs
from dc_gym.arena.entrant import Entrant
from dc_gym.base import bounded
from dc_gym.base.errors import UsageError
from dc_gym.base.key import TIME, KeyFault, Kind, declared_by, quoted
from dc_gym.base.spelling import unknown
from dc_gym.base.units import format_time, parse_time_ns
from dc_gym.spec import Spec
from dc_gym.spec.episodes import CHOICE, DRAWS, LOG_UNIFORM, Distribution
from dc_gym.spec.events import EventSpec
from dc_gym.spec.experiment import field_of_key
from dc_gym.traffic.workload_spec import TrafficSpec

FOLDER = Path(__file__).resolve().parent / "scenes"
ADDED = {"events": EventSpec, "workload.beside": TrafficSpec}
"""The lists of a spec that a move may add to, and the class of their tables."""
LASTS = "lasts"
MEASURES = ("harm", "drop_ratio")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A number that the adversary chooses: a value in its unit, or the place of one in a list."""

    distribution: Distribution
    kind: Kind
    low: int
    high: int

    @property
    def is_choice(self) -> bool:
        return self.distribution.name == CHOICE

    @property
    def is_log(self) -> bool:
        return self.distribution.name == LOG_UNIFORM

    def written(self, number: int) -> Any:
        """Returns the value as a spec has it."""
        return self.distribution.values[number] if self.is_choice else self.kind.write(number)


@dataclass(frozen=True, slots=True)
class Move:
    """Something that the adversary may do."""

    name: str
    title: str
    table: Mapping[str, Any]
    drawn: Mapping[str, Drawn]
    most: int = 1
    add: str = ""
    until: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Act:
    """A move with its numbers."""

    move: Move
    numbers: Mapping[str, int]

    @property
    def values(self) -> dict[str, Any]:
        return {name: self.move.drawn[name].written(number) for name, number in self.numbers.items()}

    def tables(self) -> Iterator[dict[str, Any]]:
        """Yields the tables that the act adds."""
        values = {**self.move.table, **self.values}
        lasts = values.pop(LASTS, None)
        yield values
        if lasts is not None:
            end_ns = parse_time_ns(values["at"]) + parse_time_ns(lasts)
            target = {name: value for name, value in values.items() if name in ("link", "port")}
            yield {"at": format_time(end_ns), **target, **self.move.until}

    def __str__(self) -> str:
        return " ".join([self.move.title, *(f"{name} {value}" for name, value in sorted(self.values.items()))])


Attack: TypeAlias = tuple[Act, ...]


@dataclass(frozen=True, slots=True)
class Scene:
    """A network with its traffic, and what may be done to it."""

    name: str
    title: str
    track: str
    measure: str
    others: Mapping[str, Any]
    reference: str
    start: Mapping[str, Any]
    moves: tuple[Move, ...]

    def tables(self, attack: Attack) -> dict[str, Any]:
        """Returns the tables of the spec under an attack."""
        tables = copy.deepcopy(dict(self.start))
        for act in attack:
            if not act.move.add:
                for key, value in {**act.move.table, **act.values}.items():
                    section, _, name = key.rpartition(".")
                    tables.setdefault(section, {})[name] = value
                continue
            section, _, name = act.move.add.rpartition(".")
            holder = tables.setdefault(section, {}) if section else tables
            holder[name] = [*holder.get(name, []), *act.tables()]
        if "events" in tables:
            tables["events"].sort(key=lambda event: parse_time_ns(event["at"]))
        return tables

    def spec(self, attack: Attack, entrant: Entrant, folder: Path) -> Spec:
        """Returns the spec of an attack on an entrant, whose files lie in the folder.

        Raises SpecError if it is none, such as one with two events of a link at one time.
        """
        source = f"scene {self.name}"
        return specs.vary(self.tables(attack), folder, source, entrant.settings, {"name": self.title, **entrant.keys}, source)


def names(track: str) -> list[str]:
    """Returns the names of the scenes of a track."""
    return [path.stem for path in sorted(FOLDER.glob("*.toml")) if load(path.stem).track == track]


def of_track(text: str, track: str) -> Scene:
    """Returns a scene. Raises UsageError if another track plays in it."""
    scene = load(text)
    if scene.track != track:
        others = ", ".join(names(track)) or "none"
        raise UsageError(f"arena: scene {text} is of the track {scene.track}, not {track}; that one has {others}")
    return scene


def load(text: str) -> Scene:
    """Returns a scene by its name, or of a file. Raises UsageError, in one line, if it is none."""
    path = Path(text) if text.endswith(".toml") else FOLDER / f"{text}.toml"
    if not text.endswith(".toml") and not path.is_file():
        raise UsageError(f"arena: {unknown('scene', text, [known.stem for known in sorted(FOLDER.glob('*.toml'))])}")
    try:
        return _scene(path.stem, tomllib.loads(bounded.read_text(path)))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the scene: {error.strerror}; give another file") from None
    except KeyError as error:
        raise UsageError(f"{path}: not a scene: {error.args[0]} is missing; copy one of dc_gym/arena/scenes") from None
    except (KeyFault, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path}: not a scene: {error}; copy one of dc_gym/arena/scenes") from None


def _scene(name: str, data: Mapping[str, Any]) -> Scene:
    if data["measure"] not in MEASURES:
        raise ValueError(f"measure {data['measure']!r} is none of {', '.join(MEASURES)}")
    moves = tuple(_move(move, table, data["spec"]) for move, table in data["moves"].items())
    fixed = {"metrics": {"slowdown": "off"}, "seed": 1}
    others, reference = data.get("others", {}), data.get("reference", "")
    return Scene(name, data["title"], data["track"], data["measure"], others, reference, fixed | data["spec"], moves)


def _move(name: str, data: Mapping[str, Any], start: Mapping[str, Any]) -> Move:
    table, add = data.get("table", {}), data.get("add", "")
    if add and add not in ADDED:
        raise ValueError(f"moves.{name}.add = {add!r} is none of {', '.join(ADDED)}")
    drawn = {key: _drawn(f"moves.{name}.draw.{key}", key, drawing, add, table, start) for key, drawing in _draws(data)}
    return Move(name, data["title"], table, drawn, data.get("most", 1), add, data.get("until", {}))


def _draws(data: Mapping[str, Any]) -> Sequence[tuple[str, Distribution]]:
    draws: Sequence[tuple[str, Distribution]] = DRAWS.parse(data.get("draw", {}))
    return draws


def _drawn(
    place: str, key: str, distribution: Distribution, add: str, table: Mapping[str, Any], start: Mapping[str, Any]
) -> Drawn:
    section = start.get(key.rpartition(".")[0])
    declared = declared_by(ADDED[add], key, table) if add else field_of_key(key, section)
    if declared is None and key != LASTS:
        raise ValueError(f"{place}: no key of {add or 'a spec'}")
    kind = TIME if key == LASTS else declared.metadata["kind"]
    ends = (0, len(distribution.values) - 1) if distribution.name == CHOICE else distribution.ends(place, kind)
    return Drawn(distribution, kind, *ends)


def toml(tables: Mapping[str, Any]) -> str:
    """Returns a spec's plain contents as TOML, a line for each key of a section."""
    lines = [f"{name} = {_value(value)}" for name, value in tables.items() if not _is_section(value)]
    for name, section in tables.items():
        if isinstance(section, Mapping):
            inner = {key: value for key, value in section.items() if _is_array(value)}
            lines += ["", f"[{name}]", *_lines({key: value for key, value in section.items() if key not in inner})]
            lines += [line for key, array in inner.items() for line in _array(f"{name}.{key}", array)]
        elif _is_array(section):
            lines += _array(name, section)
    return "\n".join(lines) + "\n"


def _is_array(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _is_section(value: object) -> bool:
    return isinstance(value, Mapping) or _is_array(value)


def _array(name: str, array: Sequence[Mapping[str, Any]]) -> list[str]:
    return [line for entry in array for line in ("", f"[[{name}]]", *_lines(entry))]


def _lines(table: Mapping[str, Any]) -> list[str]:
    return [f"{name} = {_value(value)}" for name, value in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_lines(value)) + " }"
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list) else quoted(value)
