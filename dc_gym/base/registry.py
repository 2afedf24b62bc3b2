# SPDX-License-Identifier: Apache-2.0
"""A registry of kinds: the values of a key such as topology.kind, each with its function and the keys that it reads.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class RingKeys:
        size: int = key(COUNT, needed=True, low=3, help="switches in the ring")

    register("ring", build, RingKeys)          # build(wiring, keys), where keys is a RingKeys

The keys are declared here and nowhere else: the loader, `dcgym list`, docs/spec.md and the JSON Schema read the declaration.

A registry may have a folder (`discover`). A kind that comes with dc-gym is a file there, called as the kind, and nothing names
it. It is imported when somebody asks for the kind, or for all of them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.errors import TestbedError
from dc_gym.base.key import KeyFault, check_value, fields_by_key, name_of, own_fields, what_to_give

__all__ = ["Entry", "Registry"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered kind."""

    name: str
    call: Callable[..., Any]
    keys: type | None = None
    """The dataclass of its keys. The function gets one as its last argument."""
    help: str = ""
    """A description in Markdown, where the function's docstring has none."""

    @property
    def declared(self) -> dict[str, Any]:
        """The fields of its keys, by their names in the file."""
        return fields_by_key(self.keys) if self.keys else {}

    def needs(self) -> tuple[str, ...]:
        """Returns the names of the keys without which it cannot do."""
        return tuple(name for name, key_field in self.declared.items() if key_field.metadata["needed"])

    def takes(self) -> tuple[str, ...]:
        """Returns the names of its other keys."""
        return tuple(name for name, key_field in self.declared.items() if not key_field.metadata["needed"])

    def lacking(self, table: Mapping[str, Any]) -> list[str]:
        """Returns the needed keys that are not given, by their names in the file."""
        return [name for name in self.needs() if table.get(name) is None]

    def arguments(self, table: Mapping[str, Any], prefix: str) -> tuple[Any, ...]:
        """Returns the keys as the function's last argument, or nothing for a kind without keys.

        `table` has values by names in the file, also those that other kinds read. Raises KeyFault if a needed one is missing or a
        value is out of bounds.
        """
        if self.keys is None:
            return ()
        if missing_keys := self.lacking(table):
            why = f"is missing: kind {self.name!r} needs it; give {what_to_give(self.declared[missing_keys[0]])}"
            raise KeyFault(prefix + missing_keys[0], None, why)
        values = {name: table[name] for name in self.declared if table.get(name) is not None}
        for name, value in values.items():
            check_value(prefix + name, value, self.declared[name])
        return (self.keys(**{self.declared[name].name: value for name, value in values.items()}),)


class Registry(MutableMapping[str, Entry]):
    """The kinds by name: its folder's kinds, then the others in the order of registration."""

    def __init__(
        self,
        key: str,
        error: type[TestbedError],
        arguments: tuple[str, ...],
        shared: tuple[str, ...] = (),
        together: bool = False,
    ) -> None:
        """Makes an empty registry.

        Args:
            key: The key whose values are its kinds, such as topology.kind.
            error: The class of its errors.
            arguments: The arguments of its functions, before the keys.
            shared: Names of keys of the section that a kind may declare all the same, because it reads them itself.
            together: True if several kinds act in one experiment. A key then has one form in all of them.
        """
        self._entries: dict[str, Entry] = {}
        self._package, self._files = "", tuple[str, ...]()
        self.key, self.error, self._arguments, self._shared, self._together = key, error, arguments, shared, together
        self._sections: tuple[type, ...] = ()

    def belongs_to(self, *sections: type) -> None:
        """Sets the sections that hold the keys of its kinds. A kind cannot declare a key that a section has already."""
        self._sections = sections

    def discover(self, package: str, folder: Path) -> None:
        """Sets the package whose modules, the files of the folder, register a kind each, of their own name."""
        self._package = package
        self._files = tuple(sorted(path.stem for path in folder.glob("[a-z]*.py")))

    def __getitem__(self, name: str) -> Entry:
        if name not in self._entries and name in self._files:
            importlib.import_module(self._module(name))
            if name not in self._entries:
                raise self.error(
                    f"{self._module(name)} registers no {self.key} {name!r}; call register({name!r}, ...) at its end"
                )
        return self._entries[name]

    def __setitem__(self, name: str, entry: Entry) -> None:
        self._entries[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._files

    def __iter__(self) -> Iterator[str]:
        yield from self._files
        yield from [name for name in self._entries if name not in self._files]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        """Removes all kinds that are registered. A file of the folder that was imported does not register its kind again."""
        self._entries.clear()

    def _module(self, name: str) -> str:
        return f"{self._package}.{name}"

    def keys_by_kind(self, first: Collection[str] = ()) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yields the kinds, and for each its fields by their names in the file, without those that all kinds have.

        The kinds in `first` come first: a caller that stops there imports no file of the others.
        """
        for name in sorted(self, key=lambda name: name not in first):
            yield name, {key: key_field for key, key_field in self[name].declared.items() if key not in self._shared}

    def no_effect(self, kinds: tuple[str, ...]) -> str:
        """Returns why a key that none of these kinds declares is refused."""
        return f"has no effect with {self.key.rpartition('.')[2]} {kinds[0]!r}; remove it"

    def add(self, name: str, call: Callable[..., Any], keys: Any, help: str = "") -> None:
        """Registers a kind. Raises an error if its name is taken, or its function or its keys cannot be used."""
        label = f"{self.key} {name!r}"
        if name in self and (name in self._entries or getattr(call, "__module__", "") != self._module(name)):
            raise self.error(f"{self.key}: value {name!r} is registered already; choose another name")
        if keys is not None:
            self._check_keys(label, keys)
        usercode.check_call(self.error, label, call, *self._arguments, *([] if keys is None else ["keys"]))
        self[name] = Entry(name, call, keys, help)

    def _check_keys(self, kind: str, keys: Any) -> None:
        if not (isinstance(keys, type) and is_dataclass(keys)):
            raise self.error(f"{kind}: keys {usercode.shown(keys)} is no dataclass; write @dataclass above the class of the keys")
        for key_field in fields(keys):
            if "kind" not in key_field.metadata:
                raise self.error(f"{kind}: field {key_field.name!r} of {keys.__name__} is no key; declare it by key(...)")
        for name, key_field in fields_by_key(keys).items():
            self._check_key(f"{kind}: key {name!r}", name, key_field)

    def _check_key(self, label: str, name: str, field: Any) -> None:
        unit = field.metadata["kind"].unit
        if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None:
            raise self.error(f"{label} is no name of a key; use small letters, digits and underscores")
        for section in self._sections:
            if name in fields_by_key(section) and name not in self._shared:
                raise self.error(f"{label} is one that all kinds have; choose another name")
            for other in [holder.metadata["registry"] for holder in own_fields(section)]:
                if other is not self and (taken := [kind for kind, keys in other.keys_by_kind() if name in keys]):
                    raise self.error(f"{label} belongs to {other.key} {taken[0]!r}; choose another name")
        for kind, keys in self.keys_by_kind() if self._together else ():
            if name in keys and keys[name].metadata["kind"] is not field.metadata["kind"]:
                form = keys[name].metadata["kind"].example
                raise self.error(f"{label} is {form} with {self.key} {kind!r}; make it the same, or choose another name")
        if not field.name.endswith(unit):
            raise self.error(
                f"{label}: its field {field.name!r} lacks the unit; call it {name_of(field).removesuffix(unit)}{unit}"
            )
        try:
            check_value(name, field.default, field)
        except KeyFault as fault:
            raise self.error(f"{label}: its default {fault.value!r} {fault.why}") from None
