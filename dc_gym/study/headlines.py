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
cases = ["64", "512"]                          each stands for {} in the names of variants
tests = [{ of = "tree, {} flows", equal = "MLP, {} flows", measure = "goodput" }]

A part holds if all of its tests do, in all cases. A test compares two sides in one of RELATIONS. A side is a variant, a number,
or a mean, geomean, min or max of variants: { mean = ["DCQCN", "Swift"] }. Behind the relation a list stands for a test of each.

- `factor = 0.9`: the second side counts 0.9 times.
- `ratio`, `change` or `points` = NUMBER or [FROM, TO], and `within = F`: the printed size, judged after the order.
- `once = true`: one case is enough.
- `claim = "..."` instead of tests: the criteria of this claim of the study.
- `full = true`: the evidence of `--length full` decides. `found_on = [2]`: these seeds found a setting, and do not count.
- `short = "..."`: the runs fall short of the source's set-up, so the part is not tested. `takes = "..."`: what would test it.
  Both may stand in the headline, for all of its parts.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base.errors import UsageError
from dc_gym.base.spelling import unknown
from dc_gym.study import claims
from dc_gym.study.claims import Claim, Criterion, Judged, Values, Verdict
from dc_gym.study.evidence import Evidence, Measure, VariantEvidence, of_seeds
from dc_gym.study.model import Study

FILE = "headlines.toml"
HEADLINE = ("id", "source", "says", "printed", "short", "takes", "part")
PART = ("name", "says", "study", "cases", "tests", "claim", "full", "found_on", "short", "takes")
TEST = ("of", "measure", "factor", "within", "once")
"""The keys of the tables, besides relations and sizes."""
RELATIONS: Mapping[str, Callable[..., Criterion]] = {
    "above": claims.above,
    "below": claims.below,
    "at_least": claims.at_least,
    "at_most": claims.at_most,
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
    found_on: tuple[int, ...] = ()
    """Seeds that found a setting of its variants. They do not count."""
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

    @property
    def also(self) -> list[str]:
        """What else was measured."""
        return [text for text in dict.fromkeys(self.judged.measured) if text != self.judged.decisive]


@dataclass(frozen=True, slots=True)
class JudgedHeadline:
    headline: Headline
    parts: tuple[JudgedPart, ...]

    def count(self, verdict: Verdict) -> int:
        return sum(one.judged.verdict is verdict for one in self.parts)

    @property
    def tested(self) -> bool:
        """True if one part is tested at least."""
        return self.count(Verdict.NOT_TESTED) < len(self.parts)

    @property
    def verdict(self) -> str:
        """It holds if all parts do; otherwise "k of n", with the number of parts that are not tested."""
        held, untested, count = self.count(Verdict.SAME), self.count(Verdict.NOT_TESTED), len(self.parts)
        if not self.tested:
            return str(Verdict.NOT_TESTED)
        if held == count:
            return "holds"
        same_order = f" ({Verdict.OTHER_SIZE})" if held + self.count(Verdict.OTHER_SIZE) == count else ""
        return f"{held} of {count}{same_order}" + (f", {untested} not tested" if untested else "")

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
    return JudgedPart(part, claims.judge(part.claim, _without(part.found_on, evidence)), old)


def _without(seeds: Sequence[int], evidence: Evidence) -> Evidence:
    """Returns the evidence without the numbers of some seeds."""

    def kept(row: VariantEvidence) -> VariantEvidence:
        rest = {name: {seed: value for seed, value in by.items() if seed not in seeds} for name, by in row.numbers.items()}
        return replace(row, numbers=rest)

    return replace(evidence, variants={name: kept(row) for name, row in evidence.variants.items()}) if seeds else evidence


def read(file: Path, studies: Sequence[str], load: Callable[[str], Study], taken: Iterable[str] = ()) -> list[Headline]:
    """Returns the headlines of a file; none if it is not there.

    `studies`: names of the studies beside it, and `load` returns one. `taken`: ids of other files.

    Raises UsageError if something is unknown, missing or there twice.
    """
    try:
        document = tomllib.loads(file.read_text()) if file.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None
    known = {name.partition("/")[2]: name for name in studies}
    rows: list[Headline] = []
    for table in document.get("headline", ()):
        where = f"{file}: headline {table.get('id', '')}"
        _require(where, table, HEADLINE, ("id", "source", "says", "part"))
        if table["id"] in {*taken, *(row.id for row in rows)}:
            raise UsageError(f"{where}: there are two of this id; each needs one of its own")
        parts = tuple(_part(f"{where} ({part.get('name', '')})", part, table, known, load) for part in table["part"])
        rows.append(Headline(table["id"], table["source"], table["says"], table.get("printed", ""), parts))
    return rows


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
    except (ArithmeticError, AttributeError, TypeError) as error:
        raise UsageError(f"{where}: a test has a value of another kind than its key ({error})") from None
    if not criteria and not short:
        raise UsageError(f"{where}: nothing decides it; give tests, a claim, or short, with why today's runs do not")
    claim = Claim(table["says"], row["source"], criteria, id=f"{row['id']} ({table['name']})")
    command = f"`dcgym study run {study.name}{' --length full' if full else ''}`"
    return Part(claim, study.name, full, tuple(table.get("found_on", ())), short, takes or command)


def _require(where: str, table: Mapping[str, Any], known: Iterable[str], needed: Iterable[str] = ()) -> None:
    if strange := [key for key in table if key not in known]:
        raise UsageError(f"{where}: {unknown('key', strange[0], known)}")
    if absent := [key for key in needed if not table.get(key)]:
        raise UsageError(f"{where}: no {absent[0]}; every headline and part has {', '.join(needed)}")


def _criteria(where: str, table: Mapping[str, Any], study: Study) -> Iterable[Criterion]:
    if title := table.get("claim"):
        known = {claim.title: claim for claim in study.claims}
        if title not in known:
            raise UsageError(f"{where}: {unknown('claim', title, known)}")
        yield from known[title].criteria
    for test in table.get("tests", ()):
        by_case = [list(_of_case(where, _named(test, case), study)) for case in table.get("cases", [""])]
        yield from [claims.any_of([claims.all_of(some) for some in by_case])] if test.get("once") else chain(*by_case)


def _named(value: Any, case: str) -> Any:
    """Returns a test with the case in its names."""
    if isinstance(value, dict):
        return {key: _named(entry, case) for key, entry in value.items()}
    if isinstance(value, list):
        return [_named(entry, case) for entry in value]
    return value.replace("{}", case) if isinstance(value, str) else value


def _of_case(where: str, test: Mapping[str, Any], study: Study) -> Iterable[Criterion]:
    """Yields a criterion for each second side of a test."""
    _require(where, test, (*TEST, *RELATIONS, *claims.SIZES), ("of", "measure"))
    relations, measures = [key for key in RELATIONS if key in test], {measure.name: measure for measure in study.measures}
    if len(relations) != 1:
        raise UsageError(f"{where}: a test has one of {', '.join(RELATIONS)}, not {len(relations)}")
    if test["measure"] not in measures:
        raise UsageError(f"{where}: {unknown('measure', test['measure'], measures)}")
    if "factor" in test and relations[0] not in ("above", "below"):
        raise UsageError(f"{where}: {relations[0]} has no factor; say above or below")
    if any(kind in test for kind in claims.SIZES) is not ("within" in test):
        raise UsageError(f"{where}: a size ({', '.join(claims.SIZES)}) and within go together")
    rivals = test[relations[0]]
    for rival in rivals if isinstance(rivals, list) else [rivals]:
        first, second = _side(where, test["of"], study), _side(where, rival, study)
        yield _on_sides(first, second, measures[test["measure"]], partial(_compared, test, relations[0]))


@dataclass(frozen=True, slots=True)
class _Side:
    """A side of a comparison: a number, a variant, or what variants have together."""

    name: str
    """Empty for a number."""
    about: tuple[str, ...]
    values: Callable[[Evidence, str], Values | None]
    """Returns values by seed, of a measure; None: the same number for all seeds."""
    number: float = 0.0


def _side(where: str, side: Any, study: Study) -> _Side:
    if isinstance(side, (int, float)):
        return _Side("", (), lambda evidence, measure: None, float(side))
    how, names = next(iter(side.items())) if isinstance(side, dict) else ("mean", [side])
    if how not in FOLDS:
        raise UsageError(f"{where}: {unknown('way to join variants', how, FOLDS)}")
    known = [variant.name for variant in study.variants]
    if not study.derives and (strange := [name for name in names if name not in known]):
        raise UsageError(f"{where}: {unknown('variant', strange[0], known)}")

    def values(evidence: Evidence, measure: str) -> Values:
        return of_seeds(lambda *each: FOLDS[how](each), *(evidence.values(name, measure) for name in names))

    return _Side(f"the {how} of {', '.join(names)}" if isinstance(side, dict) else side, tuple(names), values)


def _on_sides(first: _Side, second: _Side, measure: Measure, make: Callable[..., Criterion]) -> Criterion:
    """Returns a criterion on two sides; it sees the seeds that both have."""
    inner = make(first.name, second.name, measure)

    def judge(evidence: Evidence) -> claims.Outcome:
        given = {side: side.values(evidence, measure.name) for side in (first, second)}
        finite = [{seed for seed, value in by.items() if math.isfinite(value)} for by in given.values() if by is not None]
        seeds = sorted(set.intersection(*finite))
        rows = {side.name: {seed: side.number if by is None else by[seed] for seed in seeds} for side, by in given.items()}
        return inner.judge(Evidence({name: VariantEvidence(name, name, "", {measure.name: by}) for name, by in rows.items()}))

    return replace(inner, about=(*first.about, *second.about), judge=judge)


def _compared(test: Mapping[str, Any], relation: str, first: str, second: str, measure: Measure) -> Criterion:
    factor = {"factor": test["factor"]} if "factor" in test else {}
    order = RELATIONS[relation](first, second, measure, **factor)
    for kind in claims.SIZES:
        if kind in test:
            return claims.sized(order, first, second, measure, kind, test[kind], test["within"])
    return order
