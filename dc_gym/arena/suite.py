# SPDX-License-Identifier: Apache-2.0
"""Tracks and their cases: tracks/TRACK.toml.

reference = "dctcp"              the entrant to whose values others are compared; a list: the best of these
[base]                           tables of a spec, for all cases
[entrants.NAME]                  keys that make a shipped entrant, where no controller of that name does
[cases.NAME]
title, measures                  the first two measures make the case's Pareto front
others                           flows of others, which the entrant may harm (measures.py)
[cases.NAME.spec]                tables of a spec, over those of [base]
[cases.NAME.held-out]            distributions of keys, as in [episodes.draw]
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dc_gym import spec as specs
from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.spec import Spec
from dc_gym.spec.episodes import DRAWS, Distribution
from dc_gym.spec.experiment import field_of_key
from dc_gym.traffic.draws import Stream

FOLDER = Path(__file__).resolve().parent / "tracks"
TRACKS = ("tcp", "nic", "agents", "marking")
SEEDS = (1, 2, 3)
DIGITS = 16


@dataclass(frozen=True, slots=True)
class Secret:
    """The text that draws held-out cases."""

    text: str

    @property
    def sha256(self) -> str:
        """The commitment to it, which a judge publishes first."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def seed(self, case: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.text}/{case}".encode()).digest()[:8], "big")


@dataclass(frozen=True, slots=True)
class Case:
    """One network with its traffic."""

    name: str
    title: str
    spec: Mapping[str, Any]
    """The tables of a spec without its entrant."""
    measures: tuple[str, ...]
    others: Mapping[str, Any]
    held_out: Mapping[str, Distribution]

    def seeds(self, secret: Secret | None) -> tuple[int, ...]:
        if secret is None:
            return SEEDS
        stream = Stream(secret.seed(self.name), "arena seeds")
        return tuple(1 + stream.below(2**31) for _ in SEEDS)

    def drawn(self, secret: Secret | None) -> dict[str, Any]:
        """Returns the values that a secret draws, by key; none without a secret."""
        if secret is None:
            return {}
        seed = secret.seed(self.name)
        return {key: drawing.draw(seed, key, self._kind(key)) for key, drawing in self.held_out.items()}

    def _kind(self, key: str) -> Any:
        return field_of_key(key, self.spec.get(key.partition(".")[0])).metadata["kind"]

    def spec_of(
        self, keys: Mapping[str, Any], seed: int, secret: Secret | None, folder: Path, settings: Sequence[str] = ()
    ) -> Spec:
        """Returns the spec of a run. `keys`, `settings`: those of the entrant. Paths are relative to `folder`."""
        for setting in settings:
            section, _, key = setting.partition("=")[0].partition(".")
            if key in self.spec.get(section, {}):
                raise UsageError(f"arena: --set {setting}: case {self.name} has a value of its own; leave it out")
        values = {"name": self.name, **self.drawn(secret), **keys, "seed": seed}
        return specs.vary(self.spec, folder, f"case {self.name}", settings, values, f"case {self.name}")


@dataclass(frozen=True, slots=True)
class Track:
    """A kind of entrants, and the cases that they play."""

    name: str
    title: str
    reference: tuple[str, ...]
    cases: Mapping[str, Case]
    entrants: Mapping[str, Mapping[str, Any]]
    """Keys of shipped entrants by name."""
    suite: str
    """Digest of its cases: rows of one suite can be compared."""

    def chosen(self, names: tuple[str, ...]) -> list[Case]:
        """Returns cases by name; all if none is named."""
        for name in names:
            if name not in self.cases:
                raise UsageError(f"arena: track {self.name}: {unknown('case', name, self.cases)}")
        return [self.cases[name] for name in names or self.cases]


@cache
def track(name: str) -> Track:
    """Returns a track. Raises UsageError for an unknown one."""
    if name not in TRACKS:
        raise UsageError(f"arena: {unknown('track', name, TRACKS)}")
    data = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    base = data.get("base", {})
    cases = {case: _case(case, table, base) for case, table in data["cases"].items()}
    reference = data["reference"]
    plain = json.dumps([base, data["cases"]], sort_keys=True)
    return Track(
        name,
        data["title"],
        tuple(reference) if isinstance(reference, list) else (reference,),
        cases,
        {entrant: dict(_flat(keys)) for entrant, keys in data.get("entrants", {}).items()},
        hashlib.sha256(plain.encode()).hexdigest()[:DIGITS],
    )


def _case(name: str, table: Mapping[str, Any], base: Mapping[str, Any]) -> Case:
    spec = {**base, **table["spec"]}
    spec |= {section: {**base[section], **table["spec"].get(section, {})} for section in base}
    draws = dict(DRAWS.parse(table["held-out"]))
    return Case(name, table["title"], spec, tuple(table["measures"]), table.get("others", {}), draws)


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields dotted keys of the sections of a spec."""
    for section, keys in table.items():
        yield from ((f"{section}.{key}", value) for key, value in keys.items())
