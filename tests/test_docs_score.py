# SPDX-License-Identifier: Apache-2.0
"""scripts/claims.py: README.md and the pages have the numbers of the stored score, and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dc_gym.study import registry, score
from dc_gym.study.claims import ClaimState
from dc_gym.study.score import PaperScore, Score, ScoredClaim, ScoredFigure
from scripts import claims

ROOT = Path(__file__).resolve().parent.parent
HELD, FAILED, SHORT = ClaimState.REPRODUCED, ClaimState.CONTRADICTED, ClaimState.OPEN
FINGERPRINT = "0123456789abcdef"
WHY = dict.fromkeys(score.SHOWN, "x")
PAGE = "# Page\n<!-- claims: acc -->\nold\n<!-- end -->\nafter\n"


@pytest.fixture(autouse=True)
def papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One paper with three figures."""
    acc = registry.PAPERS["acc"]
    three = {number: acc.figures[number] for number in ("figure-1", "figure-2", "figure-8")}
    monkeypatch.setattr(registry, "PAPERS", {"acc": replace(acc, figures=three)})


def claim(state: ClaimState, group: str = "", explanation: dict[str, str] | None = None) -> ScoredClaim:
    return ScoredClaim("figure-1", "a claim", group, state, explanation)


def found(*of: ScoredClaim, **changed: Any) -> dict[str, Any]:
    """Returns a score in which one of the paper's figures has results."""
    paper = PaperScore(
        registry.PAPERS["acc"], (ScoredFigure("figure-1", FINGERPRINT, (1,), {}, of),), ("figure-2",), {"figure-8": "older"}
    )
    return score.as_dict(Score({"kernel": "k"}, (replace(paper, **changed),)))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout whose pages have no numbers yet, and a score to store."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("<!-- claims: all -->\n<!-- end -->\n")
    (tmp_path / "docs" / "acc.md").write_text(PAGE)
    told = (claim(HELD), claim(FAILED), claim(FAILED, explanation=WHY), claim(SHORT), claim(ClaimState.NOT_RUN))
    (tmp_path / "new.json").write_text(
        json.dumps(found(*told, claim(HELD, "PFC"), claim(FAILED, "PFC"), claim(HELD, score.OURS)))
    )
    return tmp_path


def run(tree: Path, *argv: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = claims.main([*argv], tree)
    return code, capsys.readouterr().out


def test_the_pages_have_the_numbers_of_the_stored_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # all papers
    assert claims.check(ROOT) == []


def test_a_score_is_stored_and_fills_the_regions(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tree, str(tree / "new.json"), capsys=capsys) == (0, "")
    page, readme = ((tree / name).read_text() for name in ("docs/acc.md", "README.md"))
    assert (
        "| `figure-1` | 4 | 1 | 1 | 2 | 1 | PFC 1 of 2, ours 1 of 1 | `01234567` |" in page
        and "| all | 4 | 1 | 1 | 2 | 1 | PFC" in page
    )
    assert "| `figure-2` | - | - | - | - | - | no results | - |" in page and "no results of this version" in page
    assert page.count("| `figure-1` | a claim | **open** |") == 2 and page.count("| `figure-1` | a claim | x: x |") == 1
    assert page.startswith("# Page\n") and page.endswith("<!-- end -->\nafter\n") and "\nold\n" not in page
    assert "| [acc](docs/acc.md) | 4 | 1 | 1 | 2 | 1 | 2 of 3 |" in readme
    assert json.loads((tree / claims.SCORE).read_text()) == json.loads((tree / "new.json").read_text())
    assert run(tree, capsys=capsys) == (0, "")


def test_a_figure_without_results_of_today_keeps_the_stored_ones(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tree, str(tree / "new.json"), capsys=capsys)
    other = ScoredFigure("figure-2", "f" * 16, (1,), {}, (replace(claim(FAILED), figure="figure-2"),))
    (tree / "other.json").write_text(json.dumps(found(figures=(other,), missing=("figure-8",), stale={"figure-1": "older"})))
    assert run(tree, str(tree / "other.json"), capsys=capsys) == (0, "")
    stored = json.loads((tree / claims.SCORE).read_text())
    acc = stored["papers"]["acc"]
    assert {number: each["fingerprint"] for number, each in acc["figures"].items()} == {
        "figure-1": FINGERPRINT,
        "figure-2": "f" * 16,
    }
    assert list(acc["figures"]) == ["figure-1", "figure-2"] and acc["missing"] == ["figure-8"] and acc["stale"] == {}
    assert acc["claims"]["judged"] == stored["all"]["claims"]["judged"] == 5 and not stored["complete"]
    assert [each["figure"] for each in acc["not_reproduced"] if not each["group"]] == ["figure-1"] * 3 + ["figure-2"]
    assert acc["variants"]["PFC"]["judged"] == 2 and acc["ours"]["judged"] == 1
    page = (tree / "docs" / "acc.md").read_text()
    assert "| `01234567` |" in page and "| `ffffffff` |" in page


def test_a_number_that_differs_is_a_fault(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tree, str(tree / "new.json"), capsys=capsys)
    page = tree / "docs" / "acc.md"
    page.write_text(page.read_text().replace("`figure-1` | 4 |", "`figure-1` | 5 |"))
    code, said = run(tree, capsys=capsys)
    assert code == 1 and said.count("\n") == 1 and said.startswith("docs/acc.md: numbers of claims differ")


def test_a_region_without_a_paper_and_a_paper_without_a_region_are_faults(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tree, str(tree / "new.json"), capsys=capsys)
    (tree / "docs" / "acc.md").write_text(PAGE.replace("acc", "bbr"))
    code, said = run(tree, capsys=capsys)
    assert code == 1 and "no such paper" in said and "no page has the claims of acc" in said


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "no score"),
        ("[]", "no score"),
        ('{"command": "dcgym sweep"}', "no score"),
        (json.dumps({**found(), "papers": {}}), "lacks acc figure-1"),
        (json.dumps({"command": score.COMMAND, "papers": {"acc": {}}}), "no score"),
    ],
)
def test_what_is_no_score_of_these_figures_is_not_stored(
    tree: Path, capsys: pytest.CaptureFixture[str], content: str, why: str
) -> None:
    (tree / "new.json").write_text(content)
    code, said = run(tree, str(tree / "new.json"), capsys=capsys)
    assert code == 1 and why in said
    assert not (tree / claims.SCORE).exists() and (tree / "docs" / "acc.md").read_text() == PAGE


def test_a_figure_that_is_new_or_gone_makes_the_stored_score_a_fault(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / claims.SCORE).write_text(json.dumps(found(missing=("figure-3",))))
    code, said = run(tree, capsys=capsys)
    assert code == 1 and "has, which is no figure, acc figure-3" in said and "lacks acc figure-2" in said
