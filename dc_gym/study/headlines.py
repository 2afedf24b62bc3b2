# SPDX-License-Identifier: Apache-2.0
"""Headline statements of a source: a fixed list, judged as it stands, before all other claims. It is headlines.toml.

[[headline]]
id = "R2"
source = "RL-CC, section V.C, Table III"
says = "In simulation the trees lose nothing against the network that they imitate"
printed = "goodput 0.92 / 0.90 / 0.90 for both"
[[headline.part]]
name = "a"
says = "equal goodput with 64 and 512 flows"
study = "table-3"
cases = ["64", "512"]                          each stands for {} in the names of variants and measures
tests = [{ of = "tree, {} flows", equal = "MLP, {} flows", measure = "goodput" }]

A part holds if all of its tests do, in all cases. A test compares two sides in one of RELATIONS. A side is a variant, a number,
or a mean, geomean, min or max of variants: { mean = ["DCQCN", "Swift"] }. Behind the relation a list stands for a test of each.

- `factor = 0.9`: the second side counts 0.9 times, for above and below.
- `ratio`, `change` or `points` = NUMBER or [FROM, TO], and `within = F`: the printed size, judged after the order.
- `found_on = [2]`: these seeds found a setting, and do not count. `claim = "..."`: the criteria of this claim of the study.
- `full = true`: the evidence of `--length full` decides.
- `short = "..."`: the runs fall short of the source's set-up, so the part is not tested. `takes = "..."`: what would test it.
  Both may stand in the headline, for all of its parts.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.study import claims
from dc_gym.study.claims import Claim, Criterion, Judged, Outcome, Values, Verdict
from dc_gym.study.evidence import Evidence, Measure, VariantEvidence, of_seeds
from dc_gym.study.model import Study

FILE = "headlines.toml"
HEADLINE = ("id", "source", "says", "printed", "short", "takes", "part")
PART = ("name", "says", "study", "cases", "tests", "claim", "full", "found_on", "short", "takes")
TEST = ("of", "measure", "factor", "within")
"""The keys of the tables, besides relations and sizes."""
RELATIONS: Mapping[str, Callable[..., Criterion]] = {
    "above": claims.above,
    "below": claims.below,
    "at_least": lambda *sides: claims.or_tied(claims.above(*sides)),
    "at_most": lambda *sides: claims.or_tied(claims.below(*sides)),
    "equal": claims.equal,
}
FOLDS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda values: float(np.mean(values)),
    "geomean": lambda values: float(np.exp(np.mean(np.log(values)))),
    "min": min,
    "max": max,
}


@dataclass(frozen=True, slots=True)
class Part:
    claim: Claim
    """With its id, such as "R2 (a)"."""
    study: str
    """Name of the study whose evidence decides, such as rl-cc/table-3."""
    full: bool = False
    """True if the evidence of `--length full` decides."""
    short: str = ""
    """How all runs fall short of the source's set-up; empty if they do not."""
    takes: str = ""
    """What would test it."""


@dataclass(frozen=True, slots=True)
class Headline:
    id: str
    source: str
    says: str
    printed: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class JudgedPart:
    part: Part
    judged: Judged
    old: bool = False
    """True if its evidence is not of today."""

    @property
    def verdict(self) -> str:
        return f"{self.judged.verdict}{', old evidence' if self.old else ''}"

    @property
    def told(self) -> str:
        """What decided, or why it was not tested and what would test it."""
        if self.judged.verdict is Verdict.NOT_TESTED:
            return f"{self.judged.why_not}; it takes {self.part.takes}"
        return self.judged.decisive


@dataclass(frozen=True, slots=True)
class JudgedHeadline:
    headline: Headline
    parts: tuple[JudgedPart, ...]

    @property
    def tested(self) -> bool:
        """True if one part is tested at least."""
        return any(one.judged.verdict is not Verdict.NOT_TESTED for one in self.parts)

    @property
    def verdict(self) -> str:
        """It holds if all parts do; otherwise "k of n", with the number of parts that are not tested."""
        verdicts = [one.judged.verdict for one in self.parts]
        held, ordered, untested = map(verdicts.count, (Verdict.SAME, Verdict.OTHER_SIZE, Verdict.NOT_TESTED))
        if not self.tested or held == len(verdicts):
            return "holds" if self.tested else str(Verdict.NOT_TESTED)
        same_order = f" ({Verdict.OTHER_SIZE})" if held + ordered == len(verdicts) else ""
        return f"{held} of {len(verdicts)}{same_order}" + (f", {untested} not tested" if untested else "")

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The parts' names and verdicts, and what is told about them; equal words are told once."""
        names: dict[tuple[str, str], list[str]] = {}
        for one in self.parts:
            names.setdefault((one.verdict, one.told), []).append(one.part.claim.id.partition(" ")[2])
        return [(f"{', '.join(parts)} {verdict}", words) for (verdict, words), parts in names.items()]


def summary(rows: Sequence[JudgedHeadline]) -> str:
    """Returns how many headlines and parts have each verdict."""
    verdicts = [one.judged.verdict for row in rows for one in row.parts]
    of_parts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in reversed(Verdict) if verdict in verdicts)
    holding, tested = (sum(row.verdict == "holds" for row in rows), sum(row.tested for row in rows))
    return f"{len(rows)} headline statements: {tested} tested, {holding} of them hold; {len(verdicts)} parts: {of_parts}"


Known = Mapping[tuple[str, bool], tuple[Evidence, bool]]
"""Evidence by the study's name and whether it is of `--length full`, and whether it is old."""


def judge(headline: Headline, known: Known) -> JudgedHeadline:
    return JudgedHeadline(headline, tuple(_judge(part, known.get((part.study, part.full))) for part in headline.parts))


def _judge(part: Part, known: tuple[Evidence, bool] | None) -> JudgedPart:
    if part.short or known is None:
        return JudgedPart(part, Judged(part.claim, Verdict.NOT_TESTED, (), part.short or "no evidence yet"))
    evidence, old = known
    if any(name not in evidence.variants for criterion in part.claim.criteria for name in criterion.about):
        return JudgedPart(part, Judged(part.claim, Verdict.NOT_TESTED, (), "rows that decide it did not run"))
    return JudgedPart(part, claims.judge(part.claim, evidence), old)


def read(file: Path, studies: Sequence[str], load: Callable[[str], Study]) -> list[Headline]:
    """Returns the headlines of a file; none if it is not there. `studies`: names of those beside it, of which `load` returns one.

    Raises UsageError if something is unknown, missing or there twice.
    """
    try:
        document = tomllib.loads(file.read_text()) if file.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None
    known = {name.partition("/")[2]: name for name in studies}
    rows: dict[str, Headline] = {}
    for table in document.get("headline", ()):
        where = f"{file}: headline {table.get('id', '')}"
        _require(where, table, HEADLINE, ("id", "source", "says", "part"))
        if table["id"] in rows:
            raise UsageError(f"{where}: there are two of this id; each needs one of its own")
        parts = tuple(_part(f"{where} ({part.get('name', '')})", part, table, known, load) for part in table["part"])
        rows[table["id"]] = Headline(table["id"], table["source"], table["says"], table.get("printed", ""), parts)
    return list(rows.values())


def _part(
    where: str, table: Mapping[str, Any], row: Mapping[str, Any], known: Mapping[str, str], load: Callable[[str], Study]
) -> Part:
    _require(where, table, PART, ("name", "says", "study"))
    if table["study"] not in known:
        raise UsageError(f"{where}: {unknown('study', table['study'], known)}")
    study, full = load(known[table["study"]]), bool(table.get("full"))
    short, takes = (str(table.get(key, row.get(key, ""))) for key in ("short", "takes"))
    try:
        criteria = tuple(_criteria(where, table, study))
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise UsageError(f"{where}: a test lacks a value, or has one of another kind: {error}") from None
    if not criteria and not short:
        raise UsageError(f"{where}: nothing decides it; give tests, a claim, or short, with why today's runs do not")
    claim = Claim(table["says"], row["source"], criteria, id=f"{row['id']} ({table['name']})")
    return Part(claim, study.name, full, short, takes or f"`dcgym study run {study.name}{' --length full' if full else ''}`")


def _require(where: str, table: Mapping[str, Any], known: Iterable[str], needed: Iterable[str] = ()) -> None:
    if strange := [key for key in table if key not in known]:
        raise UsageError(f"{where}: {unknown('key', strange[0], known)}")
    if absent := [key for key in needed if not table.get(key)]:
        raise UsageError(f"{where}: no {absent[0]}; every headline and part has {', '.join(needed)}")


def _criteria(where: str, table: Mapping[str, Any], study: Study) -> Iterator[Criterion]:
    if title := table.get("claim"):
        known = {claim.title: claim for claim in study.claims}
        if title not in known:
            raise UsageError(f"{where}: {unknown('claim', title, known)}")
        yield from known[title].criteria
    for test, case in product(table.get("tests", ()), table.get("cases", [""])):
        yield from _of_case(where, json.loads(json.dumps(test).replace("{}", case)), study, table.get("found_on", ()))


def _of_case(where: str, test: Mapping[str, Any], study: Study, found_on: Sequence[int]) -> Iterator[Criterion]:
    """Yields a criterion for each second side of a test."""
    _require(where, test, (*TEST, *RELATIONS, *claims.SIZES), ("of", "measure"))
    relations, measures = [key for key in RELATIONS if key in test], {measure.name: measure for measure in study.measures}
    if len(relations) != 1:
        raise UsageError(f"{where}: a test has one of {', '.join(RELATIONS)}, not {len(relations)}")
    if test["measure"] not in measures:
        raise UsageError(f"{where}: {unknown('measure', test['measure'], measures)}")
    rivals = test[relations[0]]
    for rival in rivals if isinstance(rivals, list) else [rivals]:
        first, second = _side(where, test["of"], study), _side(where, rival, study)
        yield _on_sides(first, second, test, relations[0], measures[test["measure"]], found_on)


@dataclass(frozen=True, slots=True)
class _Side:
    """A side of a comparison: a variant, what variants have together, or a number, which has no name."""

    name: str = ""
    about: tuple[str, ...] = ()
    fold: Callable[[Sequence[float]], float] = min
    number: float = 0.0

    def values(self, evidence: Evidence, measure: str) -> Values:
        """Returns values by seed."""
        return of_seeds(lambda *each: self.fold(each), *(evidence.values(name, measure) for name in self.about))


def _side(where: str, side: Any, study: Study) -> _Side:
    if isinstance(side, (int, float)):
        return _Side(number=float(side))
    how, names = next(iter(side.items())) if isinstance(side, dict) else ("min", [side])
    if how not in FOLDS:
        raise UsageError(f"{where}: {unknown('way to join variants', how, FOLDS)}")
    known = [variant.name for variant in study.variants]
    if not study.derives and (strange := [name for name in names if name not in known]):
        raise UsageError(f"{where}: {unknown('variant', strange[0], known)}")
    return _Side(f"the {how} of {', '.join(names)}" if isinstance(side, dict) else side, tuple(names), FOLDS[how])


def _on_sides(
    first: _Side, second: _Side, test: Mapping[str, Any], relation: str, measure: Measure, found_on: Sequence[int]
) -> Criterion:
    """Returns a criterion on two sides, of the seeds that both have."""
    factor = {"factor": test["factor"]} if "factor" in test else {}
    inner = RELATIONS[relation](first.name, second.name, measure, **factor)
    if kinds := [key for key in (*claims.SIZES, "within") if key in test]:
        inner = claims.sized(inner, kinds[0], test[kinds[0]], test["within"])

    def judge(evidence: Evidence) -> Outcome:
        by_side = {side: side.values(evidence, measure.name) for side in (first, second) if side.about}
        finite = [{seed for seed, value in by_seed.items() if math.isfinite(value)} for by_seed in by_side.values()]
        seeds = sorted(set.intersection(*finite).difference(found_on))
        rows = {
            side.name: {seed: by_side[side][seed] if side in by_side else side.number for seed in seeds}
            for side in (first, second)
        }
        return inner.judge(Evidence({name: VariantEvidence(name, name, "", {measure.name: by}) for name, by in rows.items()}))

    return replace(inner, about=(*first.about, *second.about), judge=judge)
