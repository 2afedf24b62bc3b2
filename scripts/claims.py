# SPDX-License-Identifier: Apache-2.0
"""Writes the numbers of papers' claims into README.md and the pages, from the stored score docs/score.json.

python scripts/claims.py results/reproduce/score.json   # stores what `dcgym reproduce --score` wrote, and renews the regions
python scripts/claims.py                                # `make lint` runs it: it prints a line for each fault

A figure that the given score has no results of keeps the stored ones: each figure says under which fingerprint it was made.
A region lies between the lines `<!-- claims: NAME -->` and `<!-- end -->`. NAME is a paper, or `all` for one row a paper. Nobody
writes into a region or into docs/score.json by hand.
"""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from dc_gym.pages.markdown import table

ROOT = Path(__file__).resolve().parent.parent
SCORE, README, ALL = "docs/score.json", "README.md", "all"
MOST_NAMED = 3
"""The most variants that the last row of a paper's table names."""
REGION = re.compile(r"(?<=<!-- claims: )([\w-]+)( -->\n)(.*?)(?=<!-- end -->)", re.DOTALL)
STORE = "python scripts/claims.py results/reproduce/score.json"
DIGITS = 8
"""Digits of a fingerprint that a page has; the score has all."""
COUNTS = ("claims judged", "hold", "do not, an experiment shows why", "do not, open", "not judged")


def main(argv: list[str], root: Path = ROOT) -> int:
    """Compares all regions with the stored score, or stores another score and renews them. Returns 1 if there is a fault."""
    parser = ArgumentParser(description="Checks the numbers of claims in README.md and the documentation.")
    parser.add_argument("score", nargs="?", type=Path, help="the score.json to store; without it nothing is written")
    given = parser.parse_args(argv).score
    faults = renew(root, given) if given else check(root)
    print("".join(f"{fault}\n" for fault in faults), end="")
    return 1 if faults else 0


def renew(root: Path, given: Path) -> list[str]:
    """Stores the score and renews the regions. Returns what is wrong with the score; then nothing is written."""
    found = read(given)
    if faults := list(faults_of(found, str(given))):
        return faults
    found = joined(read(root / SCORE), found)
    (root / SCORE).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in pages(root):
        page.write_text(renewed(page.read_text(encoding="utf-8"), found, page, root), encoding="utf-8")
    return []


def joined(stored: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Returns the score `found` with the stored results of figures of which it has none itself."""
    older = (stored or {}).get("papers", {})
    papers = {name: _joined_paper(older.get(name, {}), paper, name) for name, paper in found["papers"].items()}
    complete = not any(each["missing"] or each["stale"] for each in papers.values())
    return {**found, "complete": complete, "all": _sums(papers.values()), "papers": papers}


def _joined_paper(stored: Mapping[str, Any], found: dict[str, Any], name: str) -> dict[str, Any]:
    from dc_gym.reproduce import registry

    kept = {number: each for number, each in stored.get("figures", {}).items() if number in lacking(found)}
    parts = {number: each for number in registry.PAPERS[name].figures if (each := (kept | found["figures"]).get(number))}
    failed = [each for each in stored.get("not_reproduced", ()) if each["figure"] in kept] + found["not_reproduced"]
    return {
        **found,
        **_sums(parts.values()),
        "not_reproduced": [each for number in parts for each in failed if each["figure"] == number],
        "figures": parts,
        "missing": [number for number in found["missing"] if number not in kept],
        "stale": {number: why for number, why in found["stale"].items() if number not in kept},
    }


def _sums(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the counts of several figures or papers together, those of each variant apart."""
    all_parts = list(parts)
    variants = dict.fromkeys(name for each in all_parts for name in each["variants"])
    return {
        "claims": _sum(each["claims"] for each in all_parts),
        "variants": {name: _sum(each["variants"].get(name, {}) for each in all_parts) for name in variants},
        "ours": _sum(each["ours"] for each in all_parts),
    }


def _sum(counted: Iterable[Mapping[str, int]]) -> dict[str, int]:
    from dc_gym.reproduce.score import Counts

    found = list(counted)
    return {each.name: sum(counts.get(each.name, 0) for counts in found) for each in fields(Counts)}


def check(root: Path) -> list[str]:
    """Returns a line for each fault of the stored score and each stale region."""
    found = read(root / SCORE)
    if faults := list(faults_of(found, SCORE)):
        return faults
    faults, written = [], set[str]()
    for page in pages(root):
        text, name = page.read_text(encoding="utf-8"), str(page.relative_to(root))
        names = [each[0] for each in REGION.findall(text)]
        written |= set(names)
        faults += [f"{name}: claims of {each!r}: no such paper" for each in names if each not in (ALL, *found["papers"])]
        if renewed(text, found, page, root) != text:
            faults.append(f"{name}: numbers of claims differ from {SCORE}; run: python scripts/claims.py {SCORE}")
    return faults + [f"no page has the claims of {each}" for each in found["papers"] if each not in written]


def read(path: Path) -> Any:
    """Returns the contents of a score.json; None if there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def faults_of(found: Any, name: str) -> Iterator[str]:
    """Yields the faults of a score: it is none, or of other figures than those that can be reproduced today."""
    from dc_gym.reproduce import registry, score

    try:
        papers = {paper: figures(each) for paper, each in found["papers"].items()}
        counts(found["all"]["claims"])
        mine = found["command"] == score.COMMAND
    except (KeyError, TypeError, AttributeError):
        mine = False
    if not mine:
        yield f"{name}: no score; `{score.COMMAND}` writes one, then run: {STORE}"
        return
    for paper in {**registry.PAPERS, **papers}:
        known = set(registry.PAPERS[paper].figures) if paper in registry.PAPERS else set[str]()
        named = set(papers.get(paper, ()))
        for figure in sorted(known ^ named):
            said = "lacks" if figure in known else "has, which is no figure,"
            yield f"{name}: {said} {paper} {figure}; run `{score.COMMAND}` again, then: {STORE}"


def figures(paper: Mapping[str, Any]) -> list[str]:
    """Returns the numbers of all figures of a paper, also of those without results."""
    return [*paper["figures"], *lacking(paper)]


def lacking(paper: Mapping[str, Any]) -> list[str]:
    """Returns the numbers of a paper's figures without results of today."""
    return [*paper["missing"], *paper["stale"]]


def pages(root: Path) -> list[Path]:
    return [root / README, *sorted((root / "docs").rglob("*.md"))]


def renewed(text: str, found: Mapping[str, Any], page: Path, root: Path) -> str:
    """Returns the page with the regions that the score gives; those of unknown papers stay."""

    def region(part: re.Match[str]) -> str:
        name, mark, old = part.groups()
        if name not in (ALL, *found["papers"]):
            return f"{name}{mark}{old}"
        lines = of_all(found, page, root) if name == ALL else of_paper(found, name)
        return f"{name}{mark}" + "".join(f"{line}\n" for line in lines)

    return REGION.sub(region, text)


def of_all(found: Mapping[str, Any], page: Path, root: Path) -> Iterator[str]:
    """Yields a table with a row per paper, whose name links to the page that has its claims."""
    homes = {name: each for each in pages(root)[1:] for name, _, _ in REGION.findall(each.read_text(encoding="utf-8"))}
    rows = [
        (f"[{name}]({_link(homes[name], page)})" if name in homes else name, *counts(each["claims"]), _without(each))
        for name, each in found["papers"].items()
    ]
    yield from table(("paper", *COUNTS, "figures without results"), [*rows, ("all", *counts(found["all"]["claims"]), "")])
    yield _source(found)


def of_paper(found: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yields a table with a row per figure of a paper, and one of its claims that do not hold, without those counted apart."""
    paper = found["papers"][name]
    rows = [
        (f"`{number}`", *counts(each["claims"]), _beside(each), f"`{each['fingerprint'][:DIGITS]}`")
        for number, each in paper["figures"].items()
    ]
    none = ["-"] * len(COUNTS)
    rows += [(f"`{number}`", *none, "no results", "-") for number in paper["missing"]]
    rows += [(f"`{number}`", *none, "no results of this version", "-") for number in paper["stale"]]
    rows.append(("all", *counts(paper["claims"]), _beside(_shortened(paper)), ""))
    yield from table(("figure", *COUNTS, "counted apart: held of judged", "fingerprint"), rows)
    failed = [each for each in paper["not_reproduced"] if not each["group"]]
    if failed:
        yield ""
        cells = ((f"`{each['figure']}`", each["claim"].replace("|", "\\|"), _why(each["explanation"])) for each in failed)
        yield from table(("figure", "a claim that does not hold", "what shows why"), cells)
    yield _source(found)


def _why(explanation: Any) -> str:
    """Names the experiment that shows why a claim does not hold, or says that it is open."""
    return "**open**" if isinstance(explanation, str) else f"{explanation['experiment']}: {explanation['showed']}"


def counts(told: Mapping[str, int]) -> tuple[str, ...]:
    """Returns the cells below COUNTS."""
    failed = told["contradicted"] + told["not_shown"]
    values = (told["judged"], told["reproduced"], told["explained"], failed - told["explained"], told["not_judged"])
    return tuple(map(str, values))


def _beside(told: Mapping[str, Any]) -> str:
    """Names the claims on set-ups of ours, and those that are ours alone."""
    groups = {**told["variants"], "ours": told["ours"]}
    shown = (f"{name} {each['reproduced']} of {each['judged']}" for name, each in groups.items() if each["judged"])
    return ", ".join(shown)


def _shortened(told: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the counts with all variants but the first few together: a row that names each is too long to read."""
    variants = list(told["variants"].items())
    others = _sum(each for _, each in variants[MOST_NAMED:])
    return {**told, "variants": {**dict(variants[:MOST_NAMED]), f"{len(variants) - MOST_NAMED} other variants": others}}


def _without(paper: Mapping[str, Any]) -> str:
    """Says how many figures have no results; nothing if all have."""
    without = len(lacking(paper))
    return f"{without} of {len(figures(paper))}" if without else ""


def _link(home: Path, page: Path) -> str:
    return home.name if home.parent == page.parent else f"docs/{home.name}"


def _source(found: Mapping[str, Any]) -> str:
    return f"\nBy `{found['command']}`, dc-gym {found['dcgym']}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
