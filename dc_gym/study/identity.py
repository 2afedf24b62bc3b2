# SPDX-License-Identifier: Apache-2.0
"""The inputs of a study's evidence: the environment's fingerprint, its specs, and the functions that measure them.

A claim's bounds, a figure's style and a message are not in it. An environment stands for another one if a study's sample run had
equal digests in both (carry.py): these pairs are in the lineage, EVIDENCE/lineage.tsv.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import inspect
import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import metadata
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from dc_gym.base import behaviour, usercode
from dc_gym.base.errors import UsageError
from dc_gym.base.files import put
from dc_gym.base.npz import load_arrays
from dc_gym.base.package import PACKAGE
from dc_gym.kernel import build, openvswitch
from dc_gym.kernel import cache as caches
from dc_gym.kernel import source as sources_of_kernels
from dc_gym.nets import policy_file
from dc_gym.results import fingerprint
from dc_gym.study.evidence import Measure
from dc_gym.study.model import Study, StudyOptions
from dc_gym.study.table import Table

LINEAGE = "lineage.tsv"
GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
"""Instructions that read a name of the module; others with names read attributes."""
OWN_CODE = ("dc_gym.benchmarks.", "dc_gym.study.", "dc_gym.methods.", "dc_gym.results.figures.timeline", "own.")
"""Modules whose functions are part of the measuring code. Others are in the environment's fingerprint."""
OPTIONS = {"full": "full", "cases": "all_cases"}
OPTIONS |= {name: name for name in ("variants", "seeds", "steps", "duration", "algorithms", "preset")}
OPTIONS |= {"set": "overrides", "ground": "ground"}
"""The fields of StudyOptions that change the runs, by their names in a table's head."""


def environment() -> dict[str, str]:
    """Returns the parts of today's fingerprint. It builds and fetches nothing.

    Without a lab kernel or Open vSwitch no run can have been made here: then only the programs count.
    """
    kernel, ovs = build.lookup(sources_of_kernels.tested(None)), _open_vswitch()
    parts = fingerprint.environment(kernel, ovs) if kernel and ovs else {"programs": fingerprint.programs()}
    return parts | {"agents": fingerprint.agents(), "numpy": metadata.version("numpy")}


def _open_vswitch() -> openvswitch.OpenVSwitch | None:
    """Returns the copy that runs use, or None if it has not been fetched yet."""
    places = (caches.BUNDLE / "openvswitch", *sorted((caches.cache_dir() / "openvswitch").glob("current-*")))
    return next((ovs_copy for path in places if (ovs_copy := openvswitch.load(path))), None)


def told(options: StudyOptions) -> dict[str, Any]:
    """Returns the options that change the runs, as a table's head has them."""
    return {name: list(given) if isinstance(given := getattr(options, key), tuple) else given for name, key in OPTIONS.items()}


def asked(head: Mapping[str, Any]) -> StudyOptions:
    """Returns the options that a table's head has."""
    known = {OPTIONS[name]: value for name, value in head.items() if name in OPTIONS}
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in known.items()}
    return StudyOptions(Path(), **values)


def of_runs(study: Study) -> str:
    """Returns the identity of a study's specs: base, variants, the files and policies that they read, and their maker."""
    rows = [
        study.base,
        [(variant.name, variant.values, variant.full, variant.by_seed, variant.given) for variant in study.variants],
    ]
    return _digest([*rows, study.files, study.collect, type(study.collect), *_policies(study)])


def _policies(study: Study) -> list[tuple[str, str]]:
    """Returns the names of the shipped policies that specs name, each with the digest of what it computes with.

    The name of an algorithm is that of its policy.
    """
    keys = [study.keys(variant, full) for variant in study.variants for full in (False, True)]
    words = {value for values in keys for value in values.values() if isinstance(value, str)}
    paths = sorted(path for path in PACKAGE.glob("methods/*/*.npz") if path.stem in words)
    return [(path.stem, _digest(_computes_with(path))) for path in paths]


def _computes_with(path: Path) -> dict[str, Any]:
    """Returns the arrays of a policy file; its manifest says where they are from."""
    return {name: array for name, array in load_arrays(path, policy_file.GUIDE).items() if name != "manifest"}


def of_measures(study: Study) -> str:
    """Returns the identity of the behaviour of a study's measuring functions, with the functions that they call."""
    return _digest([study.measure, study.track])


def _digest(value: Any) -> str:
    code: dict[str, Any] = {}
    plain = _told(value, code)
    return hashlib.sha256(json.dumps([plain, code], sort_keys=True).encode()).hexdigest()[: fingerprint.DIGITS]


def _told(value: Any, code: dict[str, Any]) -> Any:
    """Returns the JSON form of a value. The behaviour of functions goes into `code`, by name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Measure):
        return value.name
    if isinstance(value, functools.partial):
        return [_told(part, code) for part in (value.func, value.args, value.keywords)]
    if is_dataclass(value) and not isinstance(value, type):
        return [_name(type(value)), {field.name: _told(getattr(value, field.name), code) for field in fields(value)}]
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): _told(entry, code) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_told(element, code) for element in value]
    if isinstance(value, (set, frozenset)):
        return [_told(element, code) for element in sorted(value, key=str)]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Path) and value.is_absolute():  # the same file, wherever the tree lies
        return [value.name, behaviour.digest_of_file(value) if value.is_file() else ""]
    if isinstance(value, (PurePath, range)):
        return str(value)
    if callable(value):
        return _of_code(value, code)
    raise TypeError(f"{value!r}: a study's identity knows no {type(value).__name__}; use numbers, texts, tables, dataclasses")


def _of_code(value: Any, code: dict[str, Any]) -> str:
    """Returns the name of a function or a class. First adds its behaviour, and the values it reads, to `code` if in OWN_CODE."""
    value = inspect.unwrap(value)
    name = _name(value)
    if name in code or not name.startswith(OWN_CODE) or (source := _source(value)) is None:
        return name
    code[name] = source
    for label, read in _read_by(value):
        if not isinstance(read, types.ModuleType) and _is_of(read):
            code[f"{name} {label}"] = _told(read, code)
    return name


def _is_of(value: Any) -> bool:
    """Returns whether a value that a function reads may be part of its behaviour: a function, or data."""
    data = (bool, int, float, str, tuple, list, set, frozenset, Mapping, np.ndarray, PurePath, functools.partial)
    return callable(value) or isinstance(value, data) or (is_dataclass(value) and not isinstance(value, type))


def _name(value: Any) -> str:
    module = str(getattr(value, "__module__", ""))
    return f"{'own' if module.startswith(usercode.MODULE) else module}.{getattr(value, '__qualname__', '')}"


@cache
def _source(value: Any) -> str | None:
    """Returns the behaviour of a function or a class; None for a generated function, such as a dataclass's `__repr__`."""
    try:
        return behaviour.of_python(inspect.cleandoc("\n" + inspect.getsource(value)))
    except OSError:
        return None


def _read_by(value: Any) -> Iterator[tuple[str, Any]]:
    """Yields, by name, the values that a function, or a class's methods, read of their module and of modules that it names."""
    functions = [value] if isinstance(value, types.FunctionType) else [attr for attr in vars(value).values() if callable(attr)]
    for function in functions:
        if not isinstance(function, types.FunctionType):
            continue
        names, codes = function.__globals__, [function.__code__]
        for code in codes:
            codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
            read = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname in GLOBALS}
            for name in sorted(read):
                target = names.get(name)
                if isinstance(target, types.ModuleType) and target.__name__.startswith(OWN_CODE):
                    yield from ((f"{name}.{part}", getattr(target, part)) for part in code.co_names if hasattr(target, part))
                elif target is not None:
                    yield name, target
        yield from zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()), strict=True)


@dataclass(frozen=True, slots=True)
class Lineage:
    """The pairs of environments in which a study's sample run had equal digests."""

    rows: tuple[tuple[str, str, str, str], ...] = ()
    """Study, fingerprint before, fingerprint after, digest."""

    def reaches(self, study: str, old: str, new: str) -> bool:
        """Returns whether a chain of pairs leads from one fingerprint to another."""
        known = {old}
        while reached := {after for name, before, after, _ in self.rows if name == study and before in known} - known:
            known |= reached
        return new in known

    def with_pair(self, study: str, old: str, new: str, digest: str) -> Lineage:
        return Lineage(tuple(sorted({*self.rows, (study, old, new, digest)})))


HEADER = ("study", "before", "after", "digest")


def read_lineage(folder: Path) -> Lineage:
    try:
        lines = (folder / LINEAGE).read_text().splitlines()
    except FileNotFoundError:
        return Lineage()
    rows = [tuple(line.split("\t")) for line in lines]
    if not rows or rows[0] != HEADER or any(len(row) != len(HEADER) for row in rows):
        raise UsageError(f"{folder / LINEAGE}: not a lineage ({', '.join(HEADER)}); restore it from git")
    return Lineage(tuple((row[0], row[1], row[2], row[3]) for row in rows[1:]))


def write_lineage(folder: Path, lineage: Lineage) -> None:
    put(folder / LINEAGE, "".join("\t".join(row) + "\n" for row in (HEADER, *lineage.rows)).encode())


def why_old(study: Study, table: Table, today: Mapping[str, str], lineage: Lineage) -> str:
    """Returns why a study's evidence is not of today; empty if it is."""
    return why_changed(study, table) or why_elsewhere(study, table, today, lineage)


def why_changed(study: Study, table: Table) -> str:
    """Returns in words which input of the study has changed since its evidence was made; empty if none has."""
    if table.measures != of_measures(study):
        return "what measures has changed: `dcgym study run` measures the same runs again"
    return "its specs have changed" if table.runs != of_runs(study) else ""


def why_elsewhere(study: Study, table: Table, today: Mapping[str, str], lineage: Lineage) -> str:
    """Returns why the environment of a study's evidence does not stand for today's; empty if it does."""
    now = fingerprint.fingerprint(today)
    if table.fingerprint == now or lineage.reaches(study.name, table.fingerprint, now):
        return ""
    parts = [name for name in {**today, **table.environment} if today.get(name) != table.environment.get(name)]
    return f"evidence of fingerprint {table.fingerprint}, other {', '.join(parts) or 'parts'}"
