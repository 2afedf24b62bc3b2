# SPDX-License-Identifier: Apache-2.0
"""Findings: the verdict on a claim and, if an experiment has shown it, its cause. Causes are written in findings.toml.

[[finding]]
study = "figure-9"
claims = ["VDI, depth 1: as many operations as with the vendor's marking"]
hypothesis = "the supposed cause, written down before the experiment"
experiment = "the rows or the command that show it"
showed = "what came out, with its numbers and seeds"
note = "known facts that no experiment was made for"
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.study.claims import Claim, Judged, Verdict

FILE = "findings.toml"
TEXTS = ("hypothesis", "experiment", "showed", "note")


@dataclass(frozen=True, slots=True)
class Cause:
    """The known cause of a verdict."""

    hypothesis: str = ""
    experiment: str = ""
    showed: str = ""
    note: str = ""
    of_success: bool = False
    """True if it shows why the claim holds; False if it shows why the claim does not."""

    @property
    def shown(self) -> bool:
        """True if an experiment shows it."""
        return bool(self.experiment)


@dataclass(frozen=True, slots=True)
class Finding:
    judged: Judged
    cause: Cause | None = None

    @property
    def claim(self) -> Claim:
        return self.judged.claim

    @property
    def verdict(self) -> Verdict:
        return self.judged.verdict


def read(file: Path, studies: Iterable[str]) -> dict[str, dict[str, Cause]]:
    """Returns causes by study and by the claim's title, from a findings.toml if there is one.

    Raises UsageError if it is not TOML, or if it names a key that is unknown, or a study that is not one of `studies`.
    """
    try:
        document = tomllib.loads(file.read_text()) if file.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None
    causes: dict[str, dict[str, Cause]] = {}
    known = list(studies)
    for entry in document.get("finding", ()):
        if (study := entry.get("study")) not in known:
            raise UsageError(f"{file}: {unknown('study', str(study), known)}")
        if strange := sorted(entry.keys() - {"study", "claims", "of_success", *TEXTS}):
            raise UsageError(f"{file}: finding of {study}: {unknown('key', strange[0], ('claims', 'of_success', *TEXTS))}")
        cause = Cause(**{name: str(entry.get(name, "")) for name in TEXTS}, of_success=bool(entry.get("of_success", False)))
        causes.setdefault(study, {}).update(dict.fromkeys(entry.get("claims", ()), cause))
    return causes


def require_claims(file: Path, study: str, causes: Mapping[str, Cause], claims: Sequence[Claim]) -> None:
    """Raises UsageError if a finding names a claim that its study does not make."""
    titles = [claim.title for claim in claims]
    for title in causes:
        if title not in titles:
            raise UsageError(f"{file}: finding of {study}: {unknown('claim', title, titles)}")


def finding(judged: Judged, causes: Mapping[str, Cause]) -> Finding:
    """Returns a verdict with its cause, if the known cause is about that verdict."""
    cause = causes.get(judged.claim.title)
    return Finding(judged, cause if cause and cause.of_success is (judged.verdict is Verdict.SAME) else None)
