# SPDX-License-Identifier: Apache-2.0
"""The code and the programs of a result's spec, checked before any of them is run.

A result may come from anybody. Its spec runs only files of the result itself, with the content that its manifest recorded. It
runs only files on the user's list (dc_gym/base/trusted.py), or files that the user trusts.
"""

from __future__ import annotations

import hashlib
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym.base import trusted, usercode
from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import SpecError, UsageError
from dc_gym.base.key import CODE_PATH, NIC_POLICY, PATH, POLICY
from dc_gym.base.trusted import Item, Kind
from dc_gym.spec.experiment import SECTIONS, Spec, field_of_key
from dc_gym.traffic.workload_spec import ExecSpec

__all__ = ["code_of", "items_of", "require_no_code", "require_safe"]

PLUGINS, POLICY_KEY, PATCH_KEY = "plugins", "controller.policy", "kernel.patch"
REMEDY = "the manifest was changed; get the result again"
TRUST = "--trust"
OWN_PACKAGE = "dc_gym"


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a spec runs."""

    line: str
    """One line that describes it, for the user to see."""
    items: tuple[Item, ...]
    """The items that the user's list must have for it."""


def code_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields key and name of all code in the plain contents of a spec: files of code, and the modules of policies."""
    kernel = spec.get("kernel")
    patches = kernel.get("patch", []) if isinstance(kernel, Mapping) else []
    for key, names in ((PLUGINS, spec.get(PLUGINS, [])), (PATCH_KEY, patches)):
        yield from ((key, str(name)) for name in (names if isinstance(names, list) else [names]))
    for key, value, kind in _texts(spec):
        if kind is CODE_PATH:
            yield key, value
        elif key == POLICY_KEY and ":" in value:
            module = value.rpartition(":")[0]
            yield key, module


def require_no_code(source: str, spec: Mapping[str, Any]) -> None:
    """Raises SpecError if the plain contents of a result's spec name code, for callers that only read the result."""
    for key, name in code_of(spec):
        if key == PATCH_KEY:  # which readers need not
            continue
        raise SpecError(f"{source}: {key}: value {name!r} is code, which reading a result does not run; run the result again")


def require_safe(source: Path, manifest: Mapping[str, Any], *, trust: bool = False) -> list[str]:
    """Checks the code that a result's spec would run, and makes sure that nothing else is run later. `source` is its manifest.

    Returns the items that will run, a line for each, for the user to see. Raises SpecError if a file is not one of the result's
    own or was changed. Raises UsageError if the user's list lacks something and `trust` is False. With `trust`, the list has it
    afterwards.
    """
    folder, spec, recorded = source.absolute().parent, manifest.get("spec"), _recorded(manifest)
    if not isinstance(spec, Mapping):
        return []
    for key, name in code_of(spec):
        is_module = key == POLICY_KEY and not name.endswith(usercode.SUFFIX)
        if not is_module and name not in recorded:
            raise SpecError(f"{source}: {key}: value {name!r} is not one of the files of code that it lists; {REMEDY}")
    for name, digest in recorded.items():
        usercode.expect(_own_file(source, folder, name, digest), digest)
    _check_inputs(source, folder, spec, manifest.get("inputs"))
    _require_nothing_beside(source, folder, recorded)
    actions = list(_actions(spec, recorded, folder))
    if not trust:
        _require_trusted(source, actions)
    unkept = trusted.remember(item for action in actions for item in action.items)
    return [*(f"{folder.name} {action.line}" for action in actions), *([unkept] if unkept else [])]


def items_of(spec: Spec) -> list[Item]:
    """Returns the items that the user's list must have for the spec's result to run again."""
    recorded = {f"{usercode.CODE}/{path.name}": hashlib.sha256(usercode.source_of(path)).hexdigest() for path in spec.code()}
    return [item for action in _actions(spec.to_dict(copied=True), recorded, Path("/")) for item in action.items]


def _require_trusted(source: Path, actions: list[Action]) -> None:
    unknown = set(trusted.missing(item for action in actions for item in action.items))
    lines = [action.line for action in actions if unknown & set(action.items)]
    if lines:
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        why = f"as you, and {trusted.why_missing()}; read what it runs, then add {TRUST}"
        raise UsageError(f"{source}: its spec {lines[0]}{more}, {why}")


def _recorded(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Returns the SHA-256 of the files of code, by their names in the result."""
    rows = manifest.get("code")
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return {str(row.get("file")): str(row.get("sha256")) for row in rows}


def _own_file(source: Path, folder: Path, name: str, digest: str) -> Path:
    """Returns the path of a file of code if it is a plain file in CODE with that content."""
    if Path(name).parts != (usercode.CODE, Path(name).name):
        raise SpecError(f"{source}: code: value {name!r} is not a file of {usercode.CODE}/; {REMEDY}")
    if (folder / usercode.CODE).is_symlink():
        raise SpecError(f"{source}: {usercode.CODE} is a symbolic link; {REMEDY}")
    return _plain_file(source, folder, name, digest)


def _require_nothing_beside(source: Path, folder: Path, recorded: Mapping[str, str]) -> None:
    """Raises SpecError if CODE has more than the manifest lists, which code of the user could import or include."""
    known = {Path(name).name for name in recorded}
    for path in (folder / usercode.CODE).iterdir() if known else ():
        if path.name not in known:
            raise SpecError(f"{source}: {usercode.CODE}/{path.name} is not one of the files of code that it lists; remove it")


def _plain_file(source: Path, folder: Path, name: str, digest: str | None) -> Path:
    path = folder / name
    try:
        is_plain = stat.S_ISREG(path.lstat().st_mode)
        actual = sha256_of(path) if is_plain else None
    except OSError as error:
        raise SpecError(f"{source}: {name}: {error.strerror}; get the result again") from None
    if actual is None:
        raise SpecError(f"{source}: {name} is not a plain file; {REMEDY}")
    if digest is not None and actual != digest:
        mismatch = f"has SHA-256 {actual[:16]}..., and the run had {digest[:16]}..."
        raise SpecError(f"{path}: {mismatch}; the file was changed, get the result again")
    return path


def _check_inputs(source: Path, folder: Path, spec: Mapping[str, Any], recorded: Any) -> None:
    """Checks that the files that the spec reads are the result's own copies."""
    known = recorded if isinstance(recorded, Mapping) else {}
    for key, name, kind in _texts(spec):
        is_file = kind is PATH or (kind in (POLICY, NIC_POLICY) and isinstance(kind.parse(name), Path))
        if not is_file:
            continue
        if Path(name).name != name or (known and name not in known):
            raise SpecError(f"{source}: {key}: value {name!r} is not a copy that the result keeps; {REMEDY}")
        _plain_file(source, folder, name, None if name not in known else str(known[name]))


def _texts(spec: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yields dotted key, value and kind of the texts in the sections of a spec. Keys that a plug-in declares are unknown here."""
    for section in filter(None, SECTIONS):
        yield from _texts_of(spec.get(section), section, section)
    workload = spec.get("workload")
    beside = workload.get("beside") if isinstance(workload, Mapping) else None
    for number, table in enumerate(beside if isinstance(beside, list) else ()):
        yield from _texts_of(table, "workload", f"workload.beside[{number}]")


def _texts_of(table: Any, section: str, prefix: str) -> Iterator[tuple[str, str, Any]]:
    """Yields the texts of a table with the keys of a section. `prefix` is where the table stands."""
    for name, value in table.items() if isinstance(table, Mapping) else ():
        declared = field_of_key(f"{section}.{name}", table)
        if declared is not None and isinstance(value, str):
            yield f"{prefix}.{name}", value, declared.metadata["kind"]


def _actions(spec: Mapping[str, Any], recorded: Mapping[str, str], folder: Path) -> Iterator[Action]:
    """Yields the code that the spec of a result in `folder` runs. `recorded` has the SHA-256 of its files of code."""
    for name in dict.fromkeys((*(name for _, name in code_of(spec)), *recorded)):
        if digest := recorded.get(name):
            yield Action(f"runs {name} (SHA-256 {digest[:16]}...)", (Item(Kind.CODE, digest, name),))
        else:
            is_own = name.partition(".")[0] == OWN_PACKAGE
            yield Action(f"imports the module {name}", () if is_own else (Item.of(Kind.MODULE, name.encode(), name),))
    workload = spec.get("workload")
    entries = workload.get("exec") if isinstance(workload, Mapping) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping):
            command = str(entry.get("command"))
            yield Action(f"runs the program {command!r} in {entry.get('host')}", tuple(_items_of_command(command, folder)))


def _items_of_command(command: str, folder: Path) -> Iterator[Item]:
    """Yields the text of a command, and the files that it names by their whole paths."""
    try:
        command = ExecSpec(host="", command=command).beside(folder).command
        words = shlex.split(command)
    except (ValueError, IndexError):  # which the spec's own check refuses
        words = []
    yield Item.of(Kind.COMMAND, command.encode(errors="surrogateescape"), command)
    for path in (Path(word) for word in words if word.startswith("/")):
        if (digest := _digest_of(path)) is not None:
            yield Item(Kind.PROGRAM, digest, str(path))


def _digest_of(path: Path) -> str | None:
    """Returns the SHA-256 of a plain file that can be read, None otherwise."""
    try:
        return sha256_of(path) if path.is_file() else None
    except OSError:
        return None
