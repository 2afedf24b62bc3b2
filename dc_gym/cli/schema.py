# SPDX-License-Identifier: Apache-2.0
"""`dcgym schema`: the JSON Schema of specs (draft 2020-12), made from the declarations of the keys, for editors.

It has names, types, bounds of numbers, and the spelling of quantities. Only the loader checks rules on several keys or on the
network. A spec that names plug-ins may have kinds and keys that the schema lacks, unless it was made with these plug-ins.
"""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dc_gym.base.key import (
    AMOUNT,
    NUMBERS,
    PATHS,
    RATE,
    SHARE_PPM,
    SIZE,
    TIME,
    WORDS,
    Kind,
    all_fields,
    default_of,
    fields_by_key,
    own_fields,
)
from dc_gym.base.terminal import say
from dc_gym.ctrl import actuators, tcp_sources
from dc_gym.spec.experiment import SECTIONS, SPEC_VERSION
from dc_gym.topologies.buffers import DSCP_LIST, ClassRule
from dc_gym.topologies.graph import DSCPS
from dc_gym.topologies.links import PAIR, LinkRule

__all__ = ["DIALECT", "main", "schema", "to_json"]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
NEEDED = {"": ("topology", "controller", "workload", "time"), "workload": ("kind",), "time": ("duration",)}
"""The keys that every spec has, by section."""
EITHER = {"topology": ("preset", "kind"), "controller": ("name", "policy")}
"""The keys of which every spec has at least one, by section."""
PLUGGED: Mapping[str, tuple[str, ...]] = {
    "topology": ("kind", "marking", "preset"),
    "workload": ("kind",),
    "controller": ("name",),
    "agent": (),
    "nic": ("tcp",),
}
"""The sections to which plug-ins may add keys, and the keys in them to whose names plug-ins may add."""
PLUGGED_OF_LINKS = ("marking",)
"""The same of an entry of [[topology.links]]."""
QUANTITIES = {
    kind.pattern: name for name, kind in {"rate": RATE, "time": TIME, "size": SIZE, "amount": AMOUNT, "share": SHARE_PPM}.items()
}
"""The names under which the schema defines the texts of quantities, by their patterns."""
TYPES: Mapping[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"
}  # fmt: skip


def main(args: Namespace) -> int:
    """Runs the command. `args.plugins` are files that register more."""
    for path in args.plugins:
        tcp_sources.load_plugin(path)
    say(to_json(schema([path.name for path in args.plugins])), end="")
    return 0


def schema(plugins: Iterable[str] = ()) -> dict[str, Any]:
    """Returns the schema of everything that is registered. `plugins` are the names of the plug-ins among that, for the title."""
    named = list(plugins)
    properties = _properties(fields_by_key(SECTIONS[""]))
    properties["spec_version"]["const"] = SPEC_VERSION
    for section in filter(None, SECTIONS):
        properties[section] = _table(section)
    title = "dc-gym experiment" + (f" with {', '.join(named)}" if named else "")
    document: dict[str, Any] = {
        "$schema": DIALECT,
        "title": title,
        "description": "A spec of an experiment (docs/spec.md).",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "required": list(NEEDED[""]),
    }
    closed = {section: _closed(SECTIONS[section], names) for section, names in PLUGGED.items()}
    closed["agent"]["properties"]["actuators"] = {"pattern": _items(actuators.names())}
    closed["topology"]["properties"]["links"] = {"items": _closed(LinkRule, PLUGGED_OF_LINKS)}
    closed["topology"]["properties"]["classes"] = {"items": _closed(ClassRule, PLUGGED_OF_LINKS)}
    document["$defs"] = {name: {"type": "string", "pattern": f"^({pattern})$"} for pattern, name in QUANTITIES.items()}
    if named:
        return document | {"allOf": [{"properties": closed}]}
    return document | {"if": {"not": {"required": ["plugins"]}}, "then": {"properties": closed}}


def to_json(document: Mapping[str, Any]) -> str:
    """Returns the text of a schema: a line for each value, without indentation, which would be a third of it."""
    return json.dumps(document, indent=0, separators=(",", ":")) + "\n"


def _table(section: str) -> dict[str, Any]:
    """Returns the schema of a section, which is open for keys of plug-ins if the section has kinds."""
    cls = SECTIONS[section]
    table: dict[str, Any] = {
        "type": "object",
        "description": _plain((cls.__doc__ or "").partition("\n")[0].partition(": ")[2]),
        "properties": _properties(fields_by_key(cls), PLUGGED.get(section, ())) | _own(cls),
    }
    if not own_fields(cls):
        table["additionalProperties"] = False
    if section in NEEDED:
        table["required"] = list(NEEDED[section])
    if section in EITHER:
        table["anyOf"] = [{"required": [name]} for name in EITHER[section]]
    if rules := [rule for holder in own_fields(cls) if holder.metadata["chosen"] for rule in _rules(cls, holder)]:
        table["allOf"] = rules
    return table


def _rules(cls: type, holder: Any) -> Iterator[dict[str, Any]]:
    """Yields for each kind the keys that a table of that kind may have, and the keys that it needs if no preset gives them."""
    registry = holder.metadata["registry"]
    if not _has_kinds(registry):
        yield from _rules_of_names(registry)
        return
    of_kinds = {name for _, declared in registry.keys_by_kind() for name in declared}
    for kind, declared in registry.keys_by_kind():
        then: dict[str, Any] = {"properties": {name: _form(field) for name, field in declared.items()}}
        then["propertyNames"] = {"not": {"enum": sorted(of_kinds - set(declared))}}
        if needs := list(registry[kind].needs()):
            then |= (
                {"anyOf": [{"required": ["preset"]}, {"required": needs}]}
                if "preset" in fields_by_key(cls)
                else {"required": needs}
            )
        yield {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": then}


def _rules_of_names(registry: Any) -> Iterator[dict[str, Any]]:
    """Yields the same for agent.actuators, where several kinds may act, and for controller.policy, which may be no kind."""
    for kind, declared in registry.keys_by_kind():
        if declared:
            then: dict[str, Any] = {"properties": {name: _form(field) for name, field in declared.items()}}
            yield {"if": _has(registry, [kind]), "then": then | {"required": list(registry[kind].needs())}}


def _needed_kinds(cls: type) -> dict[str, Any]:
    """Returns by key the kinds of which it needs one, for the registries of _rules_of_names."""
    of_keys: dict[str, tuple[Any, list[str]]] = {}
    for holder in own_fields(cls):
        registry = holder.metadata["registry"]
        if holder.metadata["chosen"] and not _has_kinds(registry):
            for kind, declared in registry.keys_by_kind():
                for name in declared:
                    of_keys.setdefault(name, (registry, []))[1].append(kind)
    return {name: _has(registry, kinds) for name, (registry, kinds) in of_keys.items()}


def _has_kinds(registry: Any) -> bool:
    """Says whether a table has one kind of a registry, in its key `kind`."""
    return bool(registry.key == f"{registry.key.partition('.')[0]}.kind")


def _has(registry: Any, kinds: Iterable[str]) -> dict[str, Any]:
    """Returns the schema of a table that names one of these kinds."""
    key = registry.key.rpartition(".")[2]
    named = {"enum": list(kinds)} if key == "policy" else {"pattern": _items(kinds, alone=False)}
    return {"properties": {key: named}, "required": [key]}


def _items(names: Iterable[str], alone: bool = True) -> str:
    """Returns the pattern of a list such as "rate,s1-*:marking" of these names; not `alone`: of a list that has one of them."""
    item = rf"\s*([^,]*:)?\s*({'|'.join(names)})\s*"
    return f"^{item}(,{item})*$" if alone else f"(^|,){item}(,|$)"


def _closed(cls: type, names: Iterable[str]) -> dict[str, Any]:
    """Returns the rule for a table without plug-ins: its keys and names are registered ones, and a key has its kind."""
    known = fields_by_key(cls)
    rule: dict[str, Any] = {"properties": {name: {"enum": _names(known[name])} for name in names}}
    rule["properties"] |= {name: _one_of_forms(declarations) for name, declarations in _own_forms(cls).items()}
    if own_fields(cls):
        rule["propertyNames"] = {"enum": list(all_fields(cls))}
    if kinds := _needed_kinds(cls):
        rule["dependentSchemas"] = kinds
    return rule


def _properties(known: Mapping[str, Any], plugged: Iterable[str] = ()) -> dict[str, Any]:
    return {name: _key(field, open=name in plugged) for name, field in known.items()}


def _own(cls: type) -> dict[str, Any]:
    """Returns the keys that kinds declare: their meanings, and for completion their forms. A plug-in's kind may have others."""
    return {name: _open(declarations) for name, declarations in _own_forms(cls).items()}


def _own_forms(cls: type) -> dict[str, list[tuple[str, Any]]]:
    """Returns by key the kinds that declare it, each with its field."""
    forms: dict[str, list[tuple[str, Any]]] = {}
    for holder in own_fields(cls):
        registry = holder.metadata["registry"]
        for kind, declared in registry.keys_by_kind():
            for name, field in declared.items():
                forms.setdefault(name, []).append((f"{registry.key.rpartition('.')[2]} {kind}", field))
    return forms


def _open(declarations: list[tuple[str, Any]]) -> dict[str, Any]:
    meanings: dict[str, list[str]] = {}
    for kind, field in declarations:
        meanings.setdefault(_description(field), []).append(kind)
    text = " / ".join(f"{', '.join(kinds)}: {meaning}" for meaning, kinds in meanings.items())
    defaults = [field.metadata["kind"].write(field.default) for _, field in declarations if field.default is not None]
    rule = {"description": text, "anyOf": [_one_of_forms(declarations), {}]}
    return rule | ({"default": defaults[0]} if len(defaults) == len(declarations) and len(set(map(str, defaults))) == 1 else {})


def _one_of_forms(declarations: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the form of a key, or any of its forms if kinds declare it differently."""
    forms = [_form(field) for _, field in declarations]
    different = [form for number, form in enumerate(forms) if form not in forms[:number]]
    return different[0] if len(different) == 1 else {"anyOf": different}


def _key(field: Any, open: bool = False) -> dict[str, Any]:
    """Returns the schema of a key. With `open`, names that are not registered are accepted, too."""
    form = _form(field)
    rule: dict[str, Any] = {"description": _description(field)}
    rule |= {"anyOf": [form, {"type": "string"}]} if open else form
    if field.default is not None:
        rule["default"] = field.metadata["kind"].write(field.default)
    return rule


def _description(field: Any) -> str:
    """Describes a key, with its bounds and default where the schema cannot express them otherwise."""
    metadata, kind = field.metadata, field.metadata["kind"]
    parts = [_plain(metadata["help"])]
    if kind.pattern and kind.parts == 1:
        parts += [f"at least {kind.write(metadata['low'])}"] if metadata["low"] not in (None, 0, 1) else []
        parts += [f"at most {kind.write(metadata['high'])}"] if metadata["high"] is not None else []
    parts += [f"default: {_plain(default_of(field))}"] if metadata["otherwise"] else []
    return "; ".join(parts)


def _form(field: Any) -> dict[str, Any]:
    """Returns the values that a key may have."""
    metadata, kind = field.metadata, field.metadata["kind"]
    if metadata["names"]:
        return {"enum": _names(field)}
    forms = [
        _type(kind, of, metadata["low"], metadata["high"])
        for of in kind.toml_types
        if not (of is int and float in kind.toml_types)
    ]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def _type(kind: Kind, of: type, low: float | None, high: float | None) -> dict[str, Any]:
    form: dict[str, Any] = {"type": TYPES[of]}
    if of is str and kind.pattern in QUANTITIES:
        return {"$ref": f"#/$defs/{QUANTITIES[kind.pattern]}"}
    if of is str and kind.pattern:
        form["pattern"] = f"^({kind.pattern})$"
    if of in (int, float):
        form |= {} if low is None else {"minimum": low / kind.parts if kind.parts > 1 else low}
        form |= {} if high is None else {"maximum": high / kind.parts if kind.parts > 1 else high}
    if kind in (PATHS, WORDS):
        form["items"] = {"type": "string", "minLength": 1}
    if kind is NUMBERS:
        form["items"] = {"type": "integer", "minimum": 0}
    if kind is DSCP_LIST:
        form["items"] = {"type": "integer", "minimum": 0, "maximum": DSCPS - 1}
    if kind is PAIR:
        form |= {"items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    if kind.entry is not None:
        form["items"] = _entry(kind.entry, kind.needed)
    return form


def _entry(cls: type, needed: tuple[str, ...]) -> dict[str, Any]:
    """Returns the schema of an entry of an array of tables."""
    properties = _properties(fields_by_key(cls), PLUGGED_OF_LINKS if cls in (LinkRule, ClassRule) else ()) | _own(cls)
    entry: dict[str, Any] = {"type": "object", "properties": properties, "required": list(needed)}
    if cls is LinkRule:
        entry["oneOf"] = [{"required": list(ends)} for ends in (("between",), ("from", "to"))]
    return entry if own_fields(cls) else entry | {"additionalProperties": False}


def _names(field: Any) -> list[str]:
    return list(field.metadata["names"]())


def _plain(text: str) -> str:
    """Returns Markdown without its links."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
