# SPDX-License-Identifier: Apache-2.0
"""The keys of the specs of many results: which vary, with which values, and the results that `--where KEY=VALUE` chooses.

A key is a dotted key of docs/spec.md. Values are compared as quantities: 10Mbit/s is 10000kbit/s.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym import spec
from dc_gym.base import spelling, units
from dc_gym.base.errors import SpecError, UsageError
from dc_gym.base.units import parse_range
from dc_gym.results.figures import styles
from dc_gym.results.figures.sweep_figure import BY_DEFAULT
from dc_gym.results.results import Result, load_result, result_folders

__all__ = [
    "ABSENT",
    "POLICIES",
    "Condition",
    "at",
    "choose",
    "family",
    "find_results",
    "in_order",
    "leaves_of",
    "names",
    "near",
    "place",
    "place_of",
    "settings",
    "varying",
    "written",
]

ABSENT = "-"
"""Stands for the value of a key that a spec does not have."""
HASH_DIGITS = 8
POLICIES = (BY_DEFAULT, "controller.policy")
"""The keys by which policies are distinguished."""
NO_SETTINGS = ("seed", "name", "lab.memory")
"""Keys that do not define the experiment."""
MOST_VALUES = 10_000
"""The most values of a range: a sweep has no more runs."""
FINEST = 10**12
"""The resolution in which shares are read, in parts of 1."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The values of a key that results must have, as `--where KEY=VALUE` gives them."""

    key: str
    values: tuple[Any, ...]
    text: str
    """The condition as it was written."""

    @classmethod
    def of(cls, text: str) -> Condition:
        """Returns the condition of a text. The value is one, a TOML list, or a range such as 1..3, as in a sweep's grid."""
        key, equals, raw = (part.strip() for part in text.partition("="))
        if not equals or not key or not raw:
            raise UsageError(f"--where {text!r}: not KEY=VALUE; write it like --where topology.hosts=8")
        if (numbers := parse_range(raw, MOST_VALUES)) is not None:
            return cls(key, tuple(numbers), text)
        try:
            value = tomllib.loads(f"value = {raw}")["value"]
        except (ValueError, RecursionError):  # a bare text, as after --set
            value = raw
        return cls(key, tuple(value) if isinstance(value, list) else (value,), text)


def choose(results: Sequence[Result], where: Sequence[str]) -> list[Result]:
    """Returns the results that fulfil all conditions. Conditions on one key are alternatives.

    Raises UsageError for a key that no spec has, and for a value that none of the results has.
    """
    by_key: dict[str, list[Condition]] = {}
    for condition in map(Condition.of, where):
        by_key.setdefault(condition.key, []).append(condition)
    left = list(results)
    for number, (key, conditions) in enumerate(by_key.items()):
        try:
            recorded = [_texts(result, key) for result in left]
        except UsageError as error:
            raise UsageError(f"--where {conditions[0].text}: {error}") from None
        for condition in conditions:
            unmet = [value for value in condition.values if not any(_is_one_of(value, texts) for texts in recorded)]
            if unmet or not condition.values:
                known = sorted({texts[0] for texts in recorded}, key=in_order)
                reason = "no run of those left has it" if number else "no run has it"
                raise UsageError(f"--where {condition.text}: {reason}; {key} is {', '.join(known)}")
        values = [value for condition in conditions for value in condition.values]
        left = [result for result, texts in zip(left, recorded, strict=True) if any(_is_one_of(value, texts) for value in values)]
    return left


def _texts(result: Result, key: str) -> list[str]:
    """Returns the texts that stand for a result's value of a key: as the spec has it and, of a policy, its name."""
    value = written(result, key)
    return [_text(value), *([_name_of(result, key)] if key in POLICIES else [])]


def _is_one_of(value: Any, texts: Sequence[str]) -> bool:
    return any(_same(_text(value), text) for text in texts)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _same(one: str, other: str) -> bool:
    """Returns True for equal texts, quantities (50kB, 0.05MB) and numbers (0.3, 0.30, 30%)."""
    (first, kind), (second, another) = _number(one), _number(other)
    return one == other or (first is not None and first == second and (kind == another or not kind or not another))


def _number(text: str) -> tuple[float | None, str]:
    """Returns a text such as "10ms" or "0.3" as a number in base units, and its family; None if it is no number."""
    try:
        return _quantity(text) or (float(text), "")
    except ValueError:
        return None, ""


def find_results(folder: Path) -> list[Result]:
    """Returns every complete result below a folder, in the order of their paths."""
    results = [load_result(path) for path in result_folders(folder)]
    for result in results:
        styles.remember(result.manifest)
    return results


def written(result: Result, key: str) -> Any:
    """Returns the value of a key in the result's spec; '-' if it has none."""
    value = at(result.manifest.get("spec", {}), key)
    if value is not None:
        return value
    known = spec.keys()
    if not any(key == name or key.startswith(f"{name}.") for name in known):
        raise UsageError(f"{key!r} is not a key of a spec; {near(key, known, 'docs/spec.md lists the keys')}")
    return ABSENT


def names(results: Sequence[Result], key: str) -> list[str]:
    """Returns the name of each result by a key. By controller, a policy has a name of its own. If files of different contents
    have the same name, part of the content's hash is added."""
    names = [_name_of(result, key) for result in results]
    contents = [result.inputs.get(spec.POLICY_COPY, "") if key in POLICIES else "" for result in results]
    several = {
        name for name in names if len({content for other, content in zip(names, contents, strict=True) if other == name}) > 1
    }
    return [f"{name} {content[:HASH_DIGITS]}" if name in several else name for name, content in zip(names, contents, strict=True)]


def _name_of(result: Result, key: str) -> str:
    section = result.controller
    if key in POLICIES and section.get("policy"):
        return styles.label_of_section(section) if key == BY_DEFAULT else str(section["policy"])
    return str(written(result, key))


def place(result: Result, key: str) -> float | str:
    """Returns a number in base units if the value is a number or a quantity; else its text."""
    return place_of(written(result, key))


def place_of(value: Any) -> float | str:
    """Returns the place of a value of a key on an axis, likewise."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    parsed = _quantity(value)
    return str(value) if parsed is None else parsed[0]


def _quantity(value: Any) -> tuple[float, str] | None:
    """Returns a text such as "10ms" in base units, and its family; None if it is not a quantity."""
    for parse, family in ((units.parse_rate_bps, "bps"), (units.parse_time_ns, "ns"), (units.parse_size_bytes, "bytes")):
        try:
            return float(parse(value)), family
        except SpecError:
            continue
    if isinstance(value, str) and value.endswith("%"):
        try:
            return units.parse_share(value, FINEST) / FINEST, "share"
        except SpecError:
            return None
    return None


def settings(result: Result) -> dict[str, str]:
    """Returns the spec by dotted key, without the keys that do not define the experiment: seed, name, and the lab's memory."""
    leaves = dict(leaves_of(result.manifest.get("spec", {})))
    return {key: value for key, value in leaves.items() if key not in NO_SETTINGS}


def varying(results: Sequence[Result]) -> dict[str, list[str]]:
    """Returns the keys that differ between the specs, each with its values in order.

    Keys that follow from the controller are left out: the transport, and the settings that only NICs have.
    """
    specs = [dict(leaves_of(result.manifest.get("spec", {}))) for result in results]
    keys = dict.fromkeys(key for leaves in specs for key in leaves if key not in NO_SETTINGS[1:])
    values = {key: [leaves.get(key, ABSENT) for leaves in specs] for key in keys}
    controllers = names(results, BY_DEFAULT)

    def follows(key: str) -> bool:
        of_nics = key.startswith("nic.") or key == "workload.transport"
        return of_nics and len(set(zip(controllers, values[key], strict=True))) == len(set(controllers))

    return {key: sorted(set(texts), key=in_order) for key, texts in values.items() if len(set(texts)) > 1 and not follows(key)}


def in_order(text: str) -> tuple[float, str]:
    """Returns a sort key: quantities and numbers by size, then texts."""
    parsed = _quantity(text)
    if parsed is not None:
        return parsed[0], ""
    return (float(text), "") if text.replace(".", "", 1).isdecimal() else (math.inf, text)


def family(results: Iterable[Result], key: str) -> str:
    """Returns the unit family of a key: its values' texts give it, or the spec's field if the values are plain numbers."""
    unit = spec.unit_of(key).removeprefix("_")
    families = {(_quantity(value) or (0.0, unit))[1] for value in (written(result, key) for result in results)}
    return families.pop() if len(families) == 1 else ""


def at(tree: Any, path: str) -> Any:
    """Returns the value at a dotted path in dicts and lists, such as topology.links.0.delay; None if the path does not exist."""
    for part in path.split("."):
        if isinstance(tree, Mapping):
            tree = tree.get(part)
        elif isinstance(tree, Sequence) and not isinstance(tree, str) and part.isdecimal() and int(part) < len(tree):
            tree = tree[int(part)]
        else:
            return None
    return tree


def leaves_of(tree: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yields the values of a tree as texts, by dotted key."""
    if isinstance(tree, Mapping):
        for name, value in tree.items():
            yield from leaves_of(value, f"{path}.{name}" if path else str(name))
    elif isinstance(tree, list) and tree:
        for number, value in enumerate(tree):
            yield from leaves_of(value, f"{path}.{number}")
    else:
        yield path, str(tree)


def near(name: str, known: Iterable[str], listing: str) -> str:
    """Returns a hint at a similar name, or `listing`, where all are listed."""
    return spelling.hint(name, known) if spelling.near(name, known) else listing
