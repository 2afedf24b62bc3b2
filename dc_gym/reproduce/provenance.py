# SPDX-License-Identifier: Apache-2.0
"""The provenance of a figure's verdicts: what they may depend on, so that `dcgym reproduce --score` tells old ones from today's.

The fingerprint covers what runs and trains (docs/digests.md). The sources are the modules that make the figure's specs, measure
its results and judge its claims. The options are those of the command that made it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from dc_gym.base import behaviour
from dc_gym.base.package import PACKAGE
from dc_gym.kernel import build, openvswitch
from dc_gym.kernel import cache as caches
from dc_gym.kernel import source as sources_of_kernels
from dc_gym.records import fingerprint
from dc_gym.reproduce.options import ReproduceOptions

JUDGES = ("dc_gym.benchmarks.", "dc_gym.reproduce.", "dc_gym.methods.", "dc_gym.figures.timeline")
"""Where the modules lie that make specs, measure and judge. All else that a verdict depends on is in the fingerprint."""
DRAWS = ("dc_gym.reproduce.drawing", "dc_gym.reproduce.series")
"""Modules of these folders on which no verdict depends."""


@dataclass(frozen=True, slots=True)
class Provenance:
    environment: Mapping[str, str]
    """The parts of the fingerprint."""
    sources: str
    """SHA-256 over the figure's sources, shortened."""
    options: Mapping[str, Any]
    """The options of the command that change what is run."""

    @property
    def fingerprint(self) -> str:
        return fingerprint.fingerprint(self.environment)

    @property
    def complete(self) -> bool:
        """True if the environment includes that of labs."""
        return "kernel" in self.environment

    def as_dict(self) -> dict[str, Any]:
        """Returns the keys of claims.json."""
        return {
            "fingerprint": self.fingerprint,
            "environment": dict(self.environment),
            "sources": self.sources,
            "options": dict(self.options),
        }


def now(module: str, options: ReproduceOptions) -> Provenance:
    """Returns the provenance of a figure that is made now, by the name of its module."""
    return Provenance(environment(), sources(module), told(options))


def told(options: ReproduceOptions) -> dict[str, Any]:
    """Returns the options that change what is run, as claims.json has them."""
    algorithms = None if options.algorithms is None else list(options.algorithms)
    given = {"full": options.full, "seeds": options.seeds, "steps": options.steps, "duration": options.duration}
    return given | {
        "algorithms": algorithms,
        "preset": options.preset,
        "set": list(options.overrides),
        "ground": options.ground,
    }


def environment() -> dict[str, str]:
    """Returns the parts of today's fingerprint. It builds and fetches nothing.

    Without a lab kernel or Open vSwitch no run can have been made here: then only the programs count.
    """
    kernel, ovs = build.lookup(sources_of_kernels.tested(None)), _open_vswitch()
    made = fingerprint.environment(kernel, ovs) if kernel and ovs else {"programs": fingerprint.programs()}
    return made | {"agents": fingerprint.agents(), "numpy": metadata.version("numpy")}


def _open_vswitch() -> openvswitch.OpenVSwitch | None:
    """Returns the copy that runs use, or None if it has not been fetched yet."""
    places = (caches.BUNDLE / "openvswitch", *sorted((caches.cache_dir() / "openvswitch").glob("current-*")))
    return next((found for place in places if (found := openvswitch.load(place))), None)


@cache
def sources(module: str) -> str:
    """Returns the SHA-256 over what a figure's module does, and what it imports, directly or not, of JUDGES."""
    paths: dict[str, Path] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        path = _file(name)
        if name in paths or name in DRAWS or path is None:
            continue
        paths[name] = path
        todo += [each for each in _imports(path.read_bytes()) if each.startswith(JUDGES)]
    with caches.keeping_behaviour():
        rows = "".join(f"{name} {behaviour.digest_of_file(paths[name])}\n" for name in sorted(paths))
    return hashlib.sha256(rows.encode()).hexdigest()[: fingerprint.DIGITS]


def _file(module: str) -> Path | None:
    """Returns the file of a module of this package; None if the name is of something else, such as a function."""
    place = PACKAGE.joinpath(*module.split(".")[1:])
    return next((path for path in (place.with_name(f"{place.name}.py"), place / "__init__.py") if path.is_file()), None)


def _imports(source: bytes) -> Iterator[str]:
    """Yields the names that a module imports: modules, and what it takes from them, which may be modules as well."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
