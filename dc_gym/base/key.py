# SPDX-License-Identifier: Apache-2.0
"""A key of the spec: how its value is written in the file, how it is stored, and which values it may have.

A field of a section's dataclass is a key. Its metadata hold everything about it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from dc_gym.base import amount, spelling, units
from dc_gym.base.errors import SpecError, TestbedError
from dc_gym.base.units import PPB, PPM

US, MS, S = 10**3, 10**6, 10**9
KB, KIB, MIB = 10**3, 2**10, 2**20


class KeyFault(SpecError):
    """A key whose value is wrong. The loader adds where it was written, and how."""

    def __init__(self, key: str, value: object, why: str) -> None:
        super().__init__(f"{key} = {quoted(value)}: {why}" if value is not None else f"{key}: {why}")
        self.key, self.value, self.why = key, value, why


class UnknownKey(KeyFault):
    """There is no key of that name. The loader adds the most similar one."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The form of a value in the file, and the form in which it is stored."""

    toml_types: tuple[type, ...]
    example: str
    parse: Callable[[Any], Any]
    write: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _share_of(parts: int) -> Kind:
    """A share, stored as a number of `parts`, such as parts in 10^9."""
    kinds = (str, float, int)
    return Kind(
        kinds,
        'a share such as "0.1%" or 0.001',
        lambda value: units.parse_share(value, parts),
        lambda value: units.format_share(value, parts),
    )


def _policy(value: str) -> str | Path:
    """Returns a file as a path, which the loader takes relative to the spec's folder, and anything else as a name."""
    return Path(value) if value.endswith(".npz") else value


def _nic_policy(value: str) -> str | Path:
    """Does the same for a NIC's policy. A name is that of a policy shipped with dc-gym."""
    return Path(value) if "." in value or "/" in value else value


def _paths(value: list[Any]) -> tuple[Path, ...]:
    if not all(isinstance(path, str) and path for path in value):
        raise SpecError("plugins: not a list of paths")
    return tuple(Path(path) for path in value)


TEXT = Kind((str,), 'a text such as "dctcp"', _same, _same)
COUNT = Kind((int,), "a whole number such as 4", _same, _same)
RATE = Kind((str,), 'a rate with its unit such as "10Mbit/s"', units.parse_rate_bps, units.format_rate)
TIME = Kind((str,), 'a time with its unit such as "10ms"', units.parse_time_ns, units.format_time)
SIZE = Kind((str,), 'a size with its unit such as "400kB"', units.parse_size_bytes, units.format_size)
AMOUNT = Kind((str,), 'an amount such as "400kB", "100p" (frames) or "2bdp"', amount.parse, amount.write)
THRESHOLD = Kind((int, str), 'bytes such as 3028, or an amount such as "20p" or "0.2bdp"', amount.parse, amount.write_plain)
SHARE_PPM = _share_of(PPM)
SHARE_PPB = _share_of(PPB)
PATHS = Kind((list,), 'a list such as ["ring.py"]', _paths, lambda value: list(map(str, value)))
ARGS = Kind((dict,), "a table such as { depth = 2 }", lambda value: tuple(value.items()), dict)
PATH = Kind((str,), 'a path such as "flows.csv"', Path, str)
POLICY = Kind((str,), 'a policy such as "max", "policy.npz" or "module:Class"', _policy, str)
NIC_POLICY = Kind((str,), 'a policy such as "policy.npz" or "record-tree"', _nic_policy, str)
NUMBER = Kind((int, float), "a number such as 0.5", float, _same)


def key(
    kind: Kind,
    default: Any = None,
    *,
    name: str | None = None,
    low: int | None = None,
    high: int | None = None,
    names: Callable[[], Iterable[str]] | None = None,
    otherwise: str = "",
    help: str = "",
) -> Any:
    """Declares a field that is a key of the file: its name there, its least and largest value, or the names that it accepts.

    `otherwise` says what holds if the key is not given and no single default can be declared. `help` says what the key means.
    Both are Markdown whose links are relative to docs/: scripts/reference.py and `dcgym list` show them.
    """
    told = {"otherwise": otherwise, "help": help}
    return field(default=default, metadata={"kind": kind, "name": name, "low": low, "high": high, "names": names, **told})


def parse(table: Mapping[str, Any], section: str, cls: type) -> dict[str, Any]:
    """Returns the arguments of a section's dataclass."""
    known = fields_by_key(cls)
    parsed = {}
    for name, value in table.items():
        key = f"{section}.{name}" if section else name
        if name not in known:
            raise UnknownKey(key, None, "unknown key")
        parsed[known[name].name] = parse_value(key, value, known[name].metadata["kind"])
    return parsed


def parse_value(key: str, value: Any, kind: Kind) -> Any:
    if type(value) not in kind.toml_types:
        raise KeyFault(key, value, f"is {type_name(value)}; write {kind.example}")
    try:
        return kind.parse(value)
    except KeyFault:
        raise
    except units.QuantityError as fault:
        raise KeyFault(key, value, fault.why) from None
    except TestbedError:
        raise KeyFault(key, value, f"is not understood; write {kind.example}") from None


def entries(tables: list[Any], array: str, cls: type, needed: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Yields the entries of an array of tables such as [[topology.links]], each with its place.

    `needed` maps the required keys to the text on what to give.
    """
    for number, table in enumerate(tables):
        section = f"{array}[{number}]"
        if not isinstance(table, Mapping):
            raise KeyFault(section, table, f"is {type_name(table)}; write [[{array}]] and keys below it")
        for name, remedy in needed.items():
            if name not in table:
                raise KeyFault(f"{section}.{name}", None, f"is missing; {remedy}")
        entry = cls(**parse(table, section, cls))
        check(entry, f"{section}.")
        yield section, entry


def tables_of(array: str, cls: type, read: Callable[[list[Any]], tuple[Any, ...]]) -> Kind:
    """Returns the kind of a key that is an array of tables."""
    return Kind((list,), f"tables: write [[{array}]]", read, lambda value: [to_plain(each, cls) for each in value])


def check(section: Any, prefix: str) -> None:
    """Raises KeyFault unless every value is within the bounds and names of its field."""
    for name, each in fields_by_key(type(section)).items():
        value, kind = getattr(section, each.name), each.metadata["kind"]
        low, high, names = (each.metadata[what] for what in ("low", "high", "names"))
        if value is None:
            continue
        if isinstance(value, amount.Amount):
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise KeyFault(prefix + name, value, f"is not finite; write {kind.example}")
        if low is not None and value < low:
            raise KeyFault(prefix + name, value, f"is below {kind.write(low)}; give that or more")
        if high is not None and value > high:
            raise KeyFault(prefix + name, value, f"is above {kind.write(high)}; give that or less")
        if names is not None and value not in names():
            raise KeyFault(prefix + name, value, f"unknown; {spelling.hint(str(value), names())}")


def require_given(section: Any, prefix: str, name: str) -> None:
    each = fields_by_key(type(section))[name]
    if missing(section, each.name):
        names = each.metadata["names"]
        what = f"one of: {', '.join(names())}" if names else each.metadata["kind"].example
        raise KeyFault(prefix + name, None, f"is missing; give {what}")


def missing(section: Any, name: str) -> bool:
    """Returns True if the loader gave no value to a field that must have one."""
    return getattr(section, name) is None


def fields_by_key(cls: type) -> dict[str, Any]:
    """Returns the fields of a section by their names in the file."""
    return {each.metadata["name"] or each.name: each for each in fields(cls) if each.metadata}


def default_of(each: Any) -> str:
    """Returns the default of a field of a section in Markdown; an empty text if there is none."""
    if each.metadata["otherwise"] or each.default is None:
        return str(each.metadata["otherwise"])
    return f"`{quoted(each.metadata['kind'].write(each.default))}`"


def to_plain(section: Any, cls: type) -> dict[str, Any]:
    given = {name: (each.metadata["kind"], getattr(section, each.name)) for name, each in fields_by_key(cls).items()}
    return {name: kind.write(value) for name, (kind, value) in given.items() if value is not None}


def quoted(value: object) -> str:
    """Returns a value as TOML writes it."""
    return json.dumps(value, default=str, ensure_ascii=False)


def type_name(value: object) -> str:
    names: dict[type, str] = {bool: "a boolean", int: "a bare number", float: "a fraction"}
    names |= {str: "a text", dict: "a table", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")
