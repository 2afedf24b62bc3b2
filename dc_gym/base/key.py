# SPDX-License-Identifier: Apache-2.0
"""A key of the spec: how its value is written in the file, how it is stored, and which values it may have.

A key is a field of a dataclass, and its metadata hold everything about it. A section of the spec is such a dataclass. So are the
keys of a kind of topology, workload or marking, which stand beside the kind's function (registry.py); a section holds the keys
that the file gives in a field of its own, declared by `own_keys`.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol, TypeVar

from dc_gym.base import amount, spelling, units
from dc_gym.base.errors import SpecError, TestbedError
from dc_gym.base.units import PPB, PPM

US, MS, S = 10**3, 10**6, 10**9
KB, KIB, MIB = 10**3, 2**10, 2**20
Section = TypeVar("Section")


class KeyFault(SpecError):
    """A key whose value is wrong. The loader adds where it was written, and how."""

    def __init__(self, key: str, value: object, why: str) -> None:
        super().__init__(f"{key} = {quoted(value)}: {why}" if value is not None else f"{key}: {why}")
        self.key, self.value, self.why = key, value, why


class UnknownKey(KeyFault):
    """There is no key of that name. The loader adds the most similar one. `beside`: the section's keys."""

    def __init__(self, key: str, value: object, why: str, beside: Iterable[str] = ()) -> None:
        super().__init__(key, value, why)
        self.beside = tuple(beside)


@dataclass(frozen=True, slots=True)
class Kind:
    """The form of a value in the file, and the form in which it is stored."""

    toml_types: tuple[type, ...]
    example: str
    parse: Callable[[Any], Any]
    write: Callable[[Any], Any]
    unit: str = ""
    """The ending of the names of fields with these values, such as "_bps". The file's name of a key lacks it."""
    pattern: str = ""
    """Regular expression of the texts that can be parsed; empty if any text can."""
    parts: int = 1
    """The number that stands for 1 where the value is stored as a number of parts."""
    entry: type | None = None
    """The class of the entries, if the value is an array of tables."""
    needed: tuple[str, ...] = ()
    """The keys that every entry needs."""


def _same(value: Any) -> Any:
    return value


def _share_of(parts: int, unit: str) -> Kind:
    """A share, stored as a number of `parts`, such as parts in 10^9."""
    return Kind(
        (str, float, int),
        'a share such as "0.1%" or 0.001',
        lambda value: units.parse_share(value, parts),
        lambda value: units.format_share(value, parts),
        unit,
        r"[0-9]+(\.[0-9]+)? ?%",
        parts,
    )


def _policy(value: str) -> str | Path:
    """Returns a file as a path, which the loader takes relative to the spec's folder, and anything else as a name."""
    return Path(value) if value.endswith(".npz") else value


def _name_or_path(value: str) -> str | Path:
    """Does the same where a name has no dot and no slash."""
    return Path(value) if "." in value or "/" in value else value


def _paths(value: list[Any]) -> tuple[Path, ...]:
    if not all(isinstance(path, str) and path for path in value):
        raise SpecError("plugins: not a list of paths")
    return tuple(Path(path) for path in value)


def _words(value: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(word, str) and word for word in value):
        raise SpecError("not a list of texts")
    return tuple(value)


def _numbers(value: list[Any]) -> tuple[int, ...]:
    if not all(type(number) is int and number >= 0 for number in value):
        raise SpecError("not a list of numbers")
    return tuple(value)


def _quantity(example: str, parse: Callable[[str], int], write: Callable[[int], str], unit: str, of: Mapping[str, int]) -> Kind:
    return Kind((str,), example, parse, write, unit, units.pattern(of))


FLAG = Kind((bool,), "true or false", _same, _same)
TEXT = Kind((str,), 'a text such as "dctcp"', _same, _same)
COUNT = Kind((int,), "a whole number such as 4", _same, _same)
RATE = _quantity('a rate with its unit such as "10Mbit/s"', units.parse_rate_bps, units.format_rate, "_bps", units.RATE_UNITS)
TIME = _quantity('a time with its unit such as "10ms"', units.parse_time_ns, units.format_time, "_ns", units.TIME_UNITS)
SIZE = _quantity('a size with its unit such as "400kB"', units.parse_size_bytes, units.format_size, "_bytes", units.SIZE_UNITS)
AMOUNT = Kind(
    (str,), 'an amount such as "400kB", "100p" (frames) or "2bdp"', amount.parse, amount.write, "_bytes", amount.PATTERN
)
THRESHOLD = Kind(
    (int, str),
    'bytes such as 3028, or an amount such as "20p" or "0.2bdp"',
    amount.parse,
    amount.write_plain,
    "_bytes",
    amount.PATTERN,
)
SHARE_PPM = _share_of(PPM, "_ppm")
SHARE_PPB = _share_of(PPB, "_ppb")
PATHS = Kind((list,), 'a list such as ["ring.py"]', _paths, lambda value: list(map(str, value)))
WORDS = Kind((list,), 'a list such as ["s1-eth3"]', _words, list)
NUMBERS = Kind((list,), "a list such as [0, 3]", _numbers, list)
ARGS = Kind((dict,), "a table such as { depth = 2 }", lambda value: tuple(value.items()), dict)
PATH = Kind((str,), 'a path such as "flows.csv"', Path, str)
CODE_PATH = Kind((str,), 'a path such as "my.py"', Path, str)
"""The path of a Python file. A result keeps it as it keeps plug-ins."""
POLICY = Kind((str,), 'a policy such as "max", "policy.npz" or "module:Class"', _policy, str)
NIC_POLICY = Kind((str,), 'a policy such as "policy.npz" or "record-tree"', _name_or_path, str)
NAME_OR_PATH = Kind((str,), 'a name, or a path such as "mine.toml"', _name_or_path, str)
NUMBER = Kind((int, float), "a number such as 0.5", float, _same)


def key(
    kind: Kind,
    default: Any = None,
    *,
    name: str | None = None,
    low: float | None = None,
    high: float | None = None,
    names: Callable[[], Iterable[str]] | None = None,
    needed: bool = False,
    otherwise: str = "",
    help: str = "",
    copy: str = "",
) -> Any:
    """Declares a field that is a key of the file.

    Args:
        kind: The form of its value: COUNT, RATE, TIME, SIZE, TEXT, ... The field's name ends with the kind's unit.
        default: The value, as it is stored, of a key that is not given. None means that there is none.
        name: Its name in the file, if that is not the field's name without the unit.
        low: The smallest value.
        high: The largest value.
        names: Returns the names that it accepts.
        needed: True if a kind cannot do without it.
        otherwise: The rule if the key is not given and no single default can be declared.
        help: The meaning of the key.
        copy: For a PATH: the name of the copy that a result keeps. Without it the name follows from the key's.

    `otherwise` and `help` are Markdown whose links are relative to docs/: scripts/reference.py and `dcgym list` show them.
    """
    details = {"otherwise": otherwise, "help": help, "needed": needed, "copy": copy}
    return field(default=default, metadata={"kind": kind, "name": name, "low": low, "high": high, "names": names, **details})


class Declarations(Protocol):
    """The keys that the kinds of a registry declare (registry.py)."""

    def keys_by_kind(self, first: Collection[str] = ()) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields the kinds, those in `first` first, and for each its fields by their names in the file."""

    def no_effect(self, kinds: tuple[str, ...]) -> str:
        """Returns why a key that none of these kinds declares is refused."""


Get = Callable[[str], Any]
"""Returns the value of a key of a section, or None if it is not given."""


def own_keys(registry: Declarations, chosen: Callable[[Get], tuple[str, ...]] | None = None) -> Any:
    """Declares the field of a section that holds the keys of kinds: pairs of a name in the file and a value, sorted.

    Args:
        registry: The kinds.
        chosen: Returns the names of the kinds that a section chooses; only their keys may be in it. None: the keys of all may.
    """
    return field(default=(), metadata={"registry": registry, "chosen": chosen})


def parse(table: Mapping[str, Any], section: str, cls: type) -> dict[str, Any]:
    """Returns the arguments of a section's dataclass.

    Args:
        table: The section as the file has it.
        section: Its name, for errors.
        cls: Its dataclass.

    Raises:
        KeyFault: A key is unknown, or a value has the wrong form.
    """
    known = fields_by_key(cls)
    parsed: dict[str, Any] = {}
    kind_values: dict[str, list[tuple[str, Any]]] = {}
    for name, value in table.items():
        key = f"{section}.{name}" if section else name
        if name in known:
            parsed[known[name].name] = parse_value(key, value, known[name].metadata["kind"])
            continue
        holder, declared = _declaration(cls, name, table.get)
        if declared is None:
            raise UnknownKey(key, None, "unknown key", all_fields(cls))
        kind_values.setdefault(holder, []).append((name, parse_value(key, value, declared.metadata["kind"])))
    return parsed | {holder: tuple(sorted(pairs, key=lambda pair: pair[0])) for holder, pairs in kind_values.items()}


def parse_value(key: str, value: Any, kind: Kind) -> Any:
    """Returns a value as the field holds it, in bit/s, ns or bytes.

    Args:
        key: The dotted name, for errors.
        value: The value as the file has it.
        kind: The form of the key.

    Raises:
        KeyFault: The value has another form.
    """
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

    Args:
        tables: The array as the file has it.
        array: Its name.
        cls: The dataclass of an entry.
        needed: Maps each required key to a text that describes its value.
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


def tables_of(array: str, cls: type, read: Callable[[list[Any]], tuple[Any, ...]], needed: Iterable[str]) -> Kind:
    """Returns the kind of a key that is an array of tables.

    Args:
        array: Its name.
        cls: The dataclass of an entry.
        read: Makes the value of the array.
        needed: The required keys of an entry.
    """
    return Kind(
        (list,),
        f"tables: write [[{array}]]",
        read,
        lambda value: [to_plain(entry, cls) for entry in value],
        entry=cls,
        needed=tuple(needed),
    )


def check(section: Any, prefix: str) -> None:
    """Checks that each value is within the bounds and names of its field, and belongs to the section's kind.

    Args:
        section: An instance of a section's dataclass.
        prefix: The section's name, for errors.

    Raises:
        KeyFault: A value is not.
    """
    for name, key_field in fields_by_key(type(section)).items():
        check_value(prefix + name, getattr(section, key_field.name), key_field)
    for holder in own_fields(type(section)):
        choose, registry = holder.metadata["chosen"], holder.metadata["registry"]
        kinds = choose(_get_of(section)) if choose else ()
        for name, value in getattr(section, holder.name):
            _, declared = _declaration(type(section), name, _get_of(section))
            if declared is None:
                raise UnknownKey(prefix + name, None, "unknown key")
            if kinds and not any(name in keys for kind, keys in registry.keys_by_kind(kinds) if kind in kinds):
                raise KeyFault(prefix + name, declared.metadata["kind"].write(value), registry.no_effect(kinds))
            check_value(prefix + name, value, declared)


def check_value(key: str, value: Any, key_field: Any) -> None:
    """Checks that a value is within the bounds and names of a field. None and amounts always are.

    Args:
        key: The dotted name, for errors.
        value: The value as the field holds it.
        key_field: The field.

    Raises:
        KeyFault: It is not.
    """
    kind, low, high, names = (key_field.metadata[attribute] for attribute in ("kind", "low", "high", "names"))
    if value is None or isinstance(value, amount.Amount):
        return
    if isinstance(value, float) and not math.isfinite(value):
        raise KeyFault(key, value, f"is not finite; write {kind.example}")
    if low is not None and value < low:
        raise KeyFault(key, value, f"is below {kind.write(low)}; give that or more")
    if high is not None and value > high:
        raise KeyFault(key, value, f"is above {kind.write(high)}; give that or less")
    if names is not None and value not in names():
        raise KeyFault(key, value, f"unknown; {spelling.hint(str(value), names())}")


def require_given(section: Any, prefix: str, name: str) -> None:
    """Checks that the loader gave a value to a field.

    Args:
        section: An instance of a section's dataclass.
        prefix: The section's name, for errors.
        name: The key.

    Raises:
        KeyFault: It did not; the text names the value to give.
    """
    key_field = fields_by_key(type(section))[name]
    if missing(section, key_field.name):
        raise KeyFault(prefix + name, None, f"is missing; give {what_to_give(key_field)}")


def what_to_give(key_field: Any) -> str:
    """Returns the names that a key accepts, otherwise an example of its value."""
    names = key_field.metadata["names"]
    return f"one of: {', '.join(names())}" if names else str(key_field.metadata["kind"].example)


def missing(section: Any, name: str) -> bool:
    """Returns True if the loader gave no value to a field that must have one.

    Args:
        section: An instance of a section's dataclass.
        name: The field.
    """
    return getattr(section, name) is None


def fields_by_key(cls: type) -> dict[str, Any]:
    """Returns the fields of a class that are keys by their names in the file: first its own, then the inherited ones.

    With `INHERITED_FIRST` in the class it is the other way round.
    """
    if cls not in _FIELDS:
        known = [entry for entry in fields(cls) if "kind" in entry.metadata]
        own_names = () if getattr(cls, "INHERITED_FIRST", False) else inspect.get_annotations(cls)
        _FIELDS[cls] = {name_of(entry): entry for entry in sorted(known, key=lambda entry: entry.name not in own_names)}
    return dict(_FIELDS[cls])


_FIELDS: dict[type, dict[str, Any]] = {}


def own_fields(cls: type) -> list[Any]:
    """Returns the fields of a section that hold the keys of kinds."""
    return [key_field for key_field in fields(cls) if "registry" in key_field.metadata]


def all_fields(cls: type) -> dict[str, Any]:
    """Returns the fields of a section, then the fields that kinds declare for it. Of fields with one name, the first counts."""
    by_name = fields_by_key(cls)
    for holder in own_fields(cls):
        for _, declared in holder.metadata["registry"].keys_by_kind():
            by_name |= {name: key_field for name, key_field in declared.items() if name not in by_name}
    return by_name


def name_of(key_field: Any) -> str:
    """Returns the name in the file of a field."""
    return str(key_field.metadata["name"] or key_field.name.removesuffix(key_field.metadata["kind"].unit))


def field_of(section: Any, name: str) -> Any:
    """Returns the field of a key, which may be one that the section's kind declares.

    Args:
        section: An instance of a section's dataclass.
        name: The key.
    """
    key_field = fields_by_key(type(section)).get(name)
    return key_field or _declaration(type(section), name, _get_of(section))[1]


def values_of(section: Any) -> dict[str, Any]:
    """Returns the keys of a section that have a value, by their names in the file, including the keys of its kinds."""
    common = {name: getattr(section, key_field.name) for name, key_field in fields_by_key(type(section)).items()}
    kind_values = {name: value for holder in own_fields(type(section)) for name, value in getattr(section, holder.name)}
    return {name: value for name, value in (common | kind_values).items() if value is not None}


def section_of(cls: type[Section], values: Mapping[str, Any]) -> Section:
    """Returns a section with values by the names of its fields, and of fields that its kinds declare. None is no value."""
    names = {key_field.name for key_field in fields(cls)}  # type: ignore[arg-type]
    common = {name: value for name, value in values.items() if name in names}
    rest = {name: value for name, value in values.items() if name not in names and value is not None}
    kind_values: dict[str, list[tuple[str, Any]]] = {}
    for field_name, value in rest.items():
        holder, declared = _declaration(cls, field_name, common.get, by_field=True)
        if declared is None:
            raise UnknownKey(field_name, None, f"is not a field of {cls.__name__}, and no kind declares it")
        kind_values.setdefault(holder, []).append((name_of(declared), value))
    return cls(**common, **{holder: tuple(sorted(pairs, key=lambda pair: pair[0])) for holder, pairs in kind_values.items()})


def declared_by(cls: type, name: str, table: Mapping[str, Any]) -> Any:
    """Returns the field of a key of a section, also of one that a kind declares; None: there is none.

    Args:
        cls: The section's dataclass.
        name: The key.
        table: The section as the file has it. The kinds that it chooses come first.
    """
    return fields_by_key(cls).get(name) or _declaration(cls, name, table.get)[1]


def default_of(key_field: Any) -> str:
    """Returns the default of a field of a section in Markdown; an empty text if there is none."""
    if key_field.metadata["otherwise"] or key_field.default is None:
        return str(key_field.metadata["otherwise"])
    return f"`{quoted(key_field.metadata['kind'].write(key_field.default))}`"


def to_plain(section: Any, cls: type) -> dict[str, Any]:
    """Returns the keys that have a value as the file would give them."""
    return {name: field_of(section, name).metadata["kind"].write(value) for name, value in values_of(section).items()}


def quoted(value: object) -> str:
    """Returns a value as TOML writes it."""
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except ValueError:  # Python writes no integer of more than 4300 digits
        return "a number of thousands of digits"


def type_name(value: object) -> str:
    """Returns the type of a value of TOML in words."""
    names: dict[type, str] = {bool: "a boolean", int: "a bare number", float: "a fraction"}
    names |= {str: "a text", dict: "a table", list: "a list"}
    return names.get(type(value), f"a {type(value).__name__}")


def _get_of(section: Any) -> Get:
    return lambda name: getattr(section, name, None)


def _declaration(cls: type, name: str, get: Get, by_field: bool = False) -> tuple[str, Any]:
    """Returns the field that a kind declares for a name, and the name of the section's field that holds its value.

    The kinds that the section chooses come first, because another kind may use the name for something else. Without a
    declaration the field is None.
    """
    for holder in own_fields(cls):
        choose = holder.metadata["chosen"]
        chosen = choose(get) if choose else ()
        for _, declared in holder.metadata["registry"].keys_by_kind(chosen):
            by_name = {key_field.name: key_field for key_field in declared.values()} if by_field else declared
            if name in by_name:
                return holder.name, by_name[name]
    return "", None
