# SPDX-License-Identifier: Apache-2.0
"""The runs of a sweep: a grid file, or a spec with seeds and controllers, becomes a list of points, each with its whole spec.

    base = "dumbbell.toml"                    # or a table [base] with the spec itself
    [grid]
    "controller.name" = ["dctcp", "cubic"]    # the last key varies fastest
    seed = "1..3"
    [[cells]]                                 # any number of further blocks, each like [grid]
    "controller.name" = "bbr"

This module reads and checks every spec before anything runs. It works on plain data and writes nothing to disk.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from dc_gym import spec as specs
from dc_gym.base.errors import SpecError
from dc_gym.base.spelling import hint
from dc_gym.base.units import parse_range
from dc_gym.ctrl.controllers import policy_name
from dc_gym.results import fingerprint
from dc_gym.run.sweep.known import Known, Record, key_of
from dc_gym.spec import Spec

SWEEP_VERSION = 1
MOST_POINTS = 10_000
LONGEST_NAME = 80
KEYS = ("sweep_version", "name", "base", "grid", "cells")


@dataclass(frozen=True)
class Point:
    """One run of a sweep."""

    name: str
    """Name of its folder: the varied values in short."""
    values: Mapping[str, Any]
    """Values of the grid's keys in this run, as the spec has them. None means not given."""
    given: Spec | Callable[[], Spec]
    """The spec, or a function that reads and checks it."""
    key: str = ""
    """Identity of the grid's text for this run; '' if there is none."""
    known: Known | None = None
    """The findings about the run from the last time, if it still counts. Its spec was checked then."""

    @cached_property
    def spec(self) -> Spec:
        return self.given if isinstance(self.given, Spec) else self.given()

    @property
    def kind(self) -> str:
        """The kind of run, which determines the fingerprint."""
        return self.known.kind if self.known else fingerprint.kind_of(self.spec)

    @property
    def clock(self) -> str:
        return self.known.clock if self.known else self.spec.clock


@dataclass(frozen=True, slots=True)
class Grid:
    name: str
    keys: tuple[str, ...]
    """The keys that vary: dotted keys of the spec."""
    points: tuple[Point, ...]
    record: Record | None = None
    """The record of the sweep's folder when the grid was read."""


Block = dict[str, list[Any]]
"""Values by dotted key. Their product gives the points."""


def load(
    path: Path,
    overrides: Sequence[str] = (),
    axes: Mapping[str, list[Any]] | None = None,
    *,
    trust: bool = False,
    say: Callable[[str], object] | None = None,
    record: Record | None = None,
) -> Grid:
    """Returns the grid of a grid file, or of a spec that `axes` vary (as --seeds and --controllers do in a grid file, too).

    Raises SpecError with the file and the key if anything in it, or in any of its specs, is wrong. `trust` and `say` are as in
    specs.load. `record`: the sweep folder's record; specs that were checked and have not changed are not read again.
    """
    read_spec = partial(specs.read, trust=trust, say=say)
    path = specs.file_of(path)
    data = read_spec(path)
    if not {"base", "grid", "cells"} & set(data):
        data = {"base": data}
    return of(data, path, overrides, axes, read_spec, record)


def of(
    data: dict[str, Any],
    path: Path,
    overrides: Sequence[str] = (),
    axes: Mapping[str, list[Any]] | None = None,
    read: Callable[[Path], dict[str, Any]] = specs.read,
    record: Record | None = None,
) -> Grid:
    """Returns the grid of the tables of a grid file. `path`: the name in errors; files that it names lie beside it."""
    base, source, folder = _base(data, path, read)
    base.setdefault("name", source.stem)
    blocks = [block | dict(axes or {}) for block in _blocks(data, path)]
    size = sum(math.prod(map(len, block.values())) for block in blocks)
    if size > MOST_POINTS:
        raise SpecError(f"{path}: {size} runs; a sweep has at most {MOST_POINTS}: make it smaller, or several")
    keys = tuple(dict.fromkeys(key for block in blocks for key in block))
    choices = [dict(zip(block, values, strict=True)) for block in blocks for values in itertools.product(*block.values())]
    shared = key_of(base, str(folder), str(source), list(overrides), str(Path.cwd()), fingerprint.programs())
    points = []
    for name, values in zip(_names(choices, path), choices, strict=True):
        vary = partial(specs.vary, base, folder, str(source), overrides, values, str(path))
        key = key_of(shared, values, keys)
        if record is not None and (known := record.of(name, key)):
            points.append(Point(name, known.values, vary, key, known))
            continue
        try:
            spec = vary()
        except SpecError as error:
            raise SpecError(f"{error} (in the run {name})") from None
        points.append(Point(name, {key: _value(spec, key) for key in keys}, spec, key))
    return Grid(str(data.get("name", path.stem)), keys, tuple(points), record)


def _base(data: dict[str, Any], path: Path, read: Callable[[Path], dict[str, Any]]) -> tuple[dict[str, Any], Path, Path]:
    """Returns the spec that is varied, where it is written, and the folder to which its paths are relative."""
    unknown = [key for key in data if key not in KEYS]
    if unknown:
        raise SpecError(f"{path}: {unknown[0]}: unknown key; {hint(unknown[0], KEYS)}")
    version = data.get("sweep_version", SWEEP_VERSION)
    if version != SWEEP_VERSION:
        raise SpecError(f"{path}: sweep_version = {json.dumps(version, default=str)}: this version reads {SWEEP_VERSION}")
    if not isinstance(data.get("name", ""), str):
        raise SpecError(f'{path}: name: is not a string; write a name such as "rates"')
    match data.get("base"):
        case str(name):
            source = path.parent / name
            return read(source), source, source.absolute().parent
        case dict(table):
            return dict(table), path, path.absolute().parent
    raise SpecError(f'{path}: base: is missing or not a string; write base = "spec.toml", or a table [base] with the spec')


def _blocks(data: Mapping[str, Any], path: Path) -> list[Block]:
    grid, cells = data.get("grid", {}), data.get("cells", [])
    if not isinstance(grid, dict):
        raise SpecError(f"{path}: grid: is not a table; write [grid] and keys such as seed = [1, 2]")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise SpecError(f"{path}: cells: is not a list of tables; write [[cells]] and keys such as seed = [1, 2]")
    tables = ([("[grid]", grid)] if grid or not cells else []) + [("[[cells]]", cell) for cell in cells]
    return [{key: _axis(path, where, key, value) for key, value in _flat(table)} for where, table in tables]


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields dotted keys, whether they were written with quotes or as tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _axis(path: Path, where: str, key: str, value: Any) -> list[Any]:
    """Returns the values of one key: a list, a range of whole numbers "1..5", or a single one."""
    numbers = parse_range(value, MOST_POINTS) if isinstance(value, str) else None
    values = list(numbers) if numbers is not None else value if isinstance(value, list) else [value]
    if not values:
        raise SpecError(f"{path}: {where} {key}: has no value; give one or more")
    twice = [entry for number, entry in enumerate(values) if entry in values[:number]]
    if twice:
        raise SpecError(f"{path}: {where} {key}: {json.dumps(twice[0], default=str)} is there twice; give different values")
    return values


def _value(spec: Spec, key: str) -> Any:
    """Returns a key's value as the spec would be written."""
    plain: Any = spec.to_dict()
    for part in key.split("."):
        plain = plain.get(part) if isinstance(plain, dict) else None
    return plain


def _names(points: Sequence[Mapping[str, Any]], path: Path) -> list[str]:
    """Returns a name for each point, from seed, controller and the other varied keys: dctcp-rate-10Mbits-s1.

    Where the name is too long or not unique, it is the point's number.
    """
    varying = {"seed", "controller.name"}
    varying |= {key for point in points for key in point if any(other.get(key) != points[0].get(key) for other in points)}
    names = ["-".join(_part(key, value) for key, value in point.items() if key in varying) or "run" for point in points]
    seen: dict[str, Mapping[str, Any]] = {}
    for number, (name, point) in enumerate(zip(names, points, strict=True)):
        if len(name) > LONGEST_NAME or (name in seen and seen[name] != point):
            names[number] = f"{name[: LONGEST_NAME - 10].rstrip('-.')}-n{number}"
        elif name in seen:
            raise SpecError(f"{path}: the run {name} is there twice: leave one of them out")
        seen[names[number]] = point
    return names


def _part(key: str, value: Any) -> str:
    """Returns a key and its value in characters that a file system accepts."""
    value = policy_name(value) if key == "controller.policy" else value
    text = re.sub(r"[^A-Za-z0-9._+-]+", "", str(value).replace(" ", "-")).strip(".-") or "x"
    if key == "controller.name":
        return text
    return f"s{text}" if key == "seed" else f"{key.rpartition('.')[2]}-{text}"
