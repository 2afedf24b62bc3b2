# SPDX-License-Identifier: Apache-2.0
"""A row: what an entrant got in its track, as a JSON file. Reading one runs no code, and names no file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dc_gym.arena import suite
from dc_gym.arena.measures import MEASURES
from dc_gym.arena.suite import TRACKS
from dc_gym.base import plain_json
from dc_gym.base.errors import UsageError, with_remedy
from dc_gym.base.files import put

ROW_VERSION = 1
SHIPPED = Path(__file__).resolve().parent / "rows"
DIGEST_DIGITS = 32
"""A row has the first half of each digest."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
HEX = re.compile(r"[0-9a-f]+")
TEXTS = ("entrant", "track", "file", "release", "suite", "fingerprint", "held_out", "secret")
REMEDY = "give a file that `dcgym arena run` wrote"


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One case: the digests of its runs by seed, in the order of the seeds, and the means of its measures over them."""

    digests: tuple[str, ...]
    measures: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Row:
    """The contents of a row."""

    entrant: str
    track: str
    file: str
    """Name of the entrant's file; empty for one that ships."""
    settings: tuple[str, ...]
    """Its further keys, KEY=VALUE."""
    source: Mapping[str, str]
    release: str
    suite: str
    fingerprint: str
    environment: Mapping[str, str]
    held_out: str
    """SHA-256 of the secret that drew the cases; empty for the public ones."""
    secret: str
    """The secret, if it is told."""
    cases: Mapping[str, CaseRow]

    @property
    def label(self) -> str:
        """Its name in tables."""
        values = ", ".join(setting.partition("=")[2] for setting in self.settings)
        return f"{self.entrant} ({values})" if values else self.entrant

    def write(self, path: Path) -> Path:
        """Writes the row, a line for each case."""
        plain = {"row_version": ROW_VERSION, **asdict(self)}
        cases = ",\n".join(f"  {json.dumps(name)}: {json.dumps(case)}" for name, case in plain.pop("cases").items())
        lines = [f" {json.dumps(name)}: {json.dumps(value)},\n" for name, value in plain.items()]
        return put(path, f'{{\n{"".join(lines)} "cases": {{\n{cases}\n }}\n}}\n'.encode())


def read(path: Path) -> Row:
    """Reads a row. Raises UsageError, in one line, if it is none or if something in it is odd."""
    try:
        return _checked(plain_json.read(path))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the row: {with_remedy(error, REMEDY)}") from None
    except KeyError as error:
        raise UsageError(f"{path}: not a row: {error.args[0]} is missing; {REMEDY}") from None
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path}: not a row: {error}; {REMEDY}") from None


def _checked(data: Any) -> Row:
    if not isinstance(data, dict):
        raise ValueError("no JSON object")
    if data["row_version"] != ROW_VERSION:
        raise ValueError(f"row_version {data['row_version']!r}; this version reads {ROW_VERSION}")
    texts = {name: _text(name, data[name]) for name in TEXTS}
    if texts["track"] not in TRACKS:
        raise ValueError(f"track {texts['track']!r} is none of {', '.join(TRACKS)}")
    for name in ("entrant", "file"):
        if not NAME.fullmatch(texts[name]) and (texts[name] or name == "entrant"):
            raise ValueError(f"{name} {texts[name]!r} is no plain name")
    known = suite.track(texts["track"]).cases
    if odd := [name for name in data["cases"] if name not in known]:
        raise ValueError(f"case {odd[0]!r} is none of track {texts['track']}")
    if not data["cases"]:
        raise ValueError("it has no case")
    return Row(
        **texts,
        settings=tuple(_text("setting", setting) for setting in data["settings"]),
        source=_texts(data["source"]),
        environment=_texts(data["environment"]),
        cases={name: _case(name, case) for name, case in data["cases"].items()},
    )


def _case(name: str, data: Mapping[str, Any]) -> CaseRow:
    digests = tuple(_text("digest", digest) for digest in data["digests"])
    if len(digests) != len(suite.SEEDS) or not all(HEX.fullmatch(digest) and len(digest) == DIGEST_DIGITS for digest in digests):
        raise ValueError(f"case {name}: digests are not {len(suite.SEEDS)} of {DIGEST_DIGITS} hexadecimal digits")
    measures = dict(data["measures"])
    for measure, value in measures.items():
        if measure not in MEASURES or not (value is None or type(value) in (int, float)):
            raise ValueError(f"case {name}: {measure} = {value!r} is no measure")
    return CaseRow(digests, measures)


def _texts(table: Mapping[str, Any]) -> dict[str, str]:
    return {_text("name", name): _text(name, value) for name, value in table.items()}


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} {value!r} is no text")
    return value


def shipped() -> list[Row]:
    """Returns the rows that come with dc-gym."""
    return [read(path) for path in sorted(SHIPPED.glob("*.json"))]
