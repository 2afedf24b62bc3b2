# SPDX-License-Identifier: Apache-2.0
"""`dcgym reproduce --score`: what it counts, what is stale or missing, and what explains a verdict. Nothing is run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dc_gym import reproduce
from dc_gym.base.package import PACKAGE
from dc_gym.base.progress import Quiet
from dc_gym.cli import main
from dc_gym.figures import kit
from dc_gym.study import page, provenance, registry, score
from dc_gym.study.claims import Claim, ClaimState, ClaimVerdict, Explanation
from dc_gym.study.evidence import VariantEvidence, Measure
from dc_gym.study.findings import Findings
from dc_gym.study.options import StudyOptions
from dc_gym.study.identity import Provenance

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = {"kernel": "k", "openvswitch": "o", "programs": "p"}
SHOWN = Explanation("it is the wind", "dcgym reproduce acc figure-1, without wind", "docs/reproduce-acc.md#figure-1", "no wind")
HELD, FAILED, SHORT = ClaimState.REPRODUCED, ClaimState.CONTRADICTED, ClaimState.OPEN


@pytest.fixture(autouse=True)
def papers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two papers with three figures, and an environment that does not depend on the machine."""
    known = registry.PAPERS
    two = {"acc": replace(known["acc"], figures=dict(list(known["acc"].figures.items())[:2])), "fdcc": known["fdcc"]}
    two["fdcc"] = replace(two["fdcc"], figures={"table-6.1": "fdcc.table_6_1"})
    monkeypatch.setattr(registry, "PAPERS", two)
    monkeypatch.setattr(provenance, "environment", lambda: dict(ENVIRONMENT))


def verdict(text: str, state: ClaimState, **claim: Any) -> ClaimVerdict:
    return ClaimVerdict(Claim(text, "page 7", (), **claim), state, (), None)


def made(out: Path, paper: str, number: str, *verdicts: ClaimVerdict, **options: Any) -> Path:
    """Writes a figure's folder as `dcgym reproduce` does, and returns its claims.json."""
    who = VariantEvidence("a", "A", "#000000", {"x": {1: 1.0, 2: 1.5}})
    found = Findings("T", [], [who], [Measure("x", "x")], verdicts, kit.new_figure(1, 1))
    now = provenance.now(registry.PAPERS[paper].module(number), replace(StudyOptions(out), **options))
    page.write(out / paper / f"figure-{number}", paper, number, found, now)
    return out / paper / f"figure-{number}" / page.CLAIMS


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A folder with results of all figures."""
    made(
        tmp_path,
        "acc",
        "figure-1",
        verdict("one", HELD),
        verdict("two", FAILED, explanation=SHOWN),
        verdict("three", FAILED, why="a guess is no experiment"),
        verdict("two", FAILED, variant="shared buffer"),
        verdict("cause", HELD, ours=True),
    )
    made(tmp_path, "acc", "figure-2", verdict("four", ClaimState.TOO_SHORT), verdict("five", ClaimState.NOT_RUN), seeds=2)
    made(tmp_path, "fdcc", "table-6.1", verdict("six", SHORT), verdict("seven", HELD))
    return tmp_path


def scored(out: Path) -> tuple[int, dict[str, Any]]:
    """Returns the exit code, and what score.json says."""
    code = main.main(["reproduce", "--score", "--out", str(out)])
    return code, json.loads((out / score.FILE).read_text())


def counts(**told: int) -> dict[str, int]:
    names = ("judged", "reproduced", "contradicted", "not_shown", "not_judged", "explained")
    return dict.fromkeys(names, 0) | told


def test_claims_are_counted_by_paper_and_variants_and_our_own_apart(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = scored(whole)
    assert code == 0 and found["complete"]
    acc, fdcc = found["papers"]["acc"], found["papers"]["fdcc"]
    assert acc["claims"] == counts(judged=3, reproduced=1, contradicted=2, not_judged=2, explained=1)
    assert acc["variants"] == {"shared buffer": counts(judged=1, contradicted=1)}
    assert acc["ours"] == counts(judged=1, reproduced=1)
    assert fdcc["claims"] == counts(judged=2, reproduced=1, not_shown=1) and fdcc["variants"] == {}
    assert found["all"]["claims"] == counts(judged=5, reproduced=2, contradicted=2, not_shown=1, not_judged=2, explained=1)
    assert acc["figures"]["figure-1"]["claims"] == counts(judged=3, reproduced=1, contradicted=2, explained=1)
    assert acc["figures"]["figure-1"]["ours"]["reproduced"] == 1 and acc["figures"]["figure-2"]["claims"]["not_judged"] == 2
    assert acc["figures"]["figure-2"]["seeds"] == [1, 2] and acc["figures"]["figure-2"]["options"]["seeds"] == 2
    assert found["environment"] == ENVIRONMENT and found["fingerprint"] == Provenance(ENVIRONMENT, "", {}).fingerprint
    said = capsys.readouterr()
    assert re.search(r"^acc +│ +3 │ +1 │ +2 │ +0 │ +2 │ +1", said.out, re.M) and "acc: shared buffer" in said.out
    assert said.err == ""


def test_each_claim_that_does_not_hold_has_an_experiment_or_is_open(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found = scored(whole)
    told = found["papers"]["acc"]["not_reproduced"]
    assert [(each["claim"], each["group"]) for each in told] == [
        ("two", ""),
        ("three", ""),
        ("Shared buffer: two", "shared buffer"),
    ]
    assert told[0]["explanation"] == {
        "hypothesis": "it is the wind",
        "experiment": "dcgym reproduce acc figure-1, without wind",
        "page": "docs/reproduce-acc.md#figure-1",
        "showed": "no wind",
    }
    assert [each["explanation"] for each in told[1:]] == ["open", "open"], "a supposed cause explains nothing"
    assert f"{SHOWN.experiment} ({SHOWN.page})" in capsys.readouterr().out


def test_an_explanation_is_of_one_verdict() -> None:
    why, cause = SHOWN, replace(SHOWN, of_success=True)
    given = {state: verdict("", state, explanation=why).explanation for state in ClaimState}
    assert [state for state, each in given.items() if each] == [FAILED, SHORT]
    given = {state: verdict("", state, explanation=cause).explanation for state in ClaimState}
    assert [state for state, each in given.items() if each] == [HELD]


def test_pages_show_an_explanation_and_take_claims_that_older_versions_wrote(whole: Path) -> None:
    file = whole / "acc" / "figure-figure-1" / page.CLAIMS
    assert f"Shown by {SHOWN.experiment}: {SHOWN.showed}" in file.with_name(page.PAGE).read_text()
    told = json.loads(file.read_text())
    assert told["claims"][1]["explanation"]["hypothesis"] == "it is the wind" and told["claims"][2]["explanation"] is None
    for claim in told["claims"]:
        del claim["explanation"]
    file.write_text(json.dumps(told))
    assert "three" in page.overview(whole, {"ACC": [file.parent]}).read_text()


def test_missing_results_are_named_in_a_line(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in ("figure-1", "figure-2"):
        (whole / "acc" / f"figure-{number}" / page.CLAIMS).unlink()
    code, found = scored(whole)
    assert code == 2 and not found["complete"] and found["papers"]["acc"]["missing"] == ["figure-1", "figure-2"]
    assert found["all"]["claims"]["judged"] == 2, "the others count"
    assert capsys.readouterr().err == "dcgym: missing results: acc figure-1, figure-2\n"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"environment": {**ENVIRONMENT, "programs": "older"}, "fingerprint": "f0"}, "fingerprint f0: other programs"),
        ({"sources": "older"}, "its specs or criteria have changed"),
        ({"figure": "figure-2"}, "of acc figure-2"),
        ({"claims": [{"claim": "x"}]}, "by another version of dc-gym"),
        ({"claims": 3}, "by another version of dc-gym"),
        ({"environment": None}, "by another version of dc-gym"),
    ],
)
def test_stale_results_do_not_count_and_are_named(
    whole: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, Any], why: str
) -> None:
    file = whole / "acc" / "figure-figure-1" / page.CLAIMS
    file.write_text(json.dumps(json.loads(file.read_text()) | changed))
    code, found = scored(whole)
    assert code == 2 and found["papers"]["acc"]["stale"] == {"figure-1": why}
    assert found["papers"]["acc"]["claims"] == counts(not_judged=2)
    assert capsys.readouterr().err == f"dcgym: stale results: acc figure-1 ({why})\n"


@pytest.mark.parametrize("content", ["", "[]", "null", '{"paper": "acc"}', "[" * 100_000])
def test_a_file_that_is_cut_off_or_older_is_stale(whole: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (whole / "acc" / "figure-figure-1" / page.CLAIMS).write_text(content)
    code, found = scored(whole)
    assert code == 2 and list(found["papers"]["acc"]["stale"]) == ["figure-1"]
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"overrides": ("topology.xoff=fdcc", "nic.trace=on")}, "--set topology.xoff=fdcc, --set nic.trace=on"),
        ({"ground": "host"}, "--ground host"),
        ({"preset": "iroko-thesis"}, "--preset iroko-thesis"),
    ],
)
def test_results_of_other_specs_are_stale(whole: Path, options: dict[str, Any], why: str) -> None:
    made(whole, "fdcc", "table-6.1", verdict("seven", HELD), **options)
    code, found = scored(whole)
    assert code == 2 and found["papers"]["fdcc"]["stale"] == {"table-6.1": f"other specs: {why}"}


def test_longer_runs_and_more_seeds_count(whole: Path) -> None:
    made(whole, "fdcc", "table-6.1", verdict("seven", HELD), full=True, seeds=9, duration="9s")
    assert scored(whole)[0] == 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["acc"], "leave acc out"),
        (["all"], "leave all out"),
        (["--list"], "leave --list out"),
        (["--seeds", "3"], "leave --seeds out"),
        (["--set", "topology.alpha=1"], "leave --set out"),
        (["--ground", "host"], "leave --ground out"),
        (["--out", "nowhere"], "nowhere is no folder"),
    ],
)
def test_wrong_arguments_are_one_line(
    argv: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(["reproduce", "--score", *argv]) == 2
    told = capsys.readouterr()
    assert said in told.err and told.err.count("\n") == 1 and told.out == "" and not list(tmp_path.iterdir())


def test_the_folder_of_one_paper_is_refused(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["reproduce", "--score", "--out", str(whole / "acc")]) == 2
    said = capsys.readouterr().err
    assert "has the figures of one paper" in said and said.count("\n") == 1 and not (whole / "acc" / score.FILE).exists()


def test_somebody_elses_score_json_stays(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (whole / score.FILE).write_text("{}")
    assert main.main(["reproduce", "--score", "--out", str(whole)]) == 2 and (whole / score.FILE).read_text() == "{}"
    assert main.main(["reproduce", "--score", "--out", str(whole), "--force"]) == 0
    assert main.main(["reproduce", "--score", "--out", str(whole)]) == 0, "its own is renewed"


def test_what_a_command_writes_counts_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command writes the provenance of the moment before its runs; where they build the kernel first, of that after them."""
    before = iter([{"programs": "p"}, dict(ENVIRONMENT), dict(ENVIRONMENT)])
    monkeypatch.setattr(provenance, "environment", lambda: next(before))
    found = Findings("T", [], [], [], [verdict("seven", HELD)], kit.new_figure(1, 1))
    module = import_module(registry.PAPERS["fdcc"].module("table-6.1"))
    monkeypatch.setattr(module, "run", lambda options, progress: found)
    args = main.parser.build("reproduce").parse_args(["reproduce", "fdcc", "--out", str(tmp_path / "fdcc"), "--quiet"])
    assert reproduce.main(args, Quiet()) == 0
    assert score.read(tmp_path).papers[1].stale == {}


def test_a_figure_s_sources_are_what_makes_and_judges_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("benchmarks/papers/acc", "benchmarks/papers/rlcc/common.py", "reproduce/claims.py", "reproduce/drawing.py")
    module = registry.PAPERS["acc"].module("figure-1")
    files = [path for name in names for path in ((PACKAGE / name).glob("*.py") if "." not in name else (PACKAGE / name,))]
    for name in (*map(str, (path.relative_to(PACKAGE) for path in files)), "benchmarks/papers/own_rate.py"):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((PACKAGE / name).read_bytes())
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path)

    def changed(name: str) -> bool:
        provenance.sources.cache_clear()
        before = provenance.sources(module)
        with (tmp_path / name).open("a") as file:
            file.write("ANOTHER = 1\n")
        provenance.sources.cache_clear()
        return provenance.sources(module) != before

    own = ("benchmarks/papers/acc/figure_1.py", "benchmarks/papers/acc/common.py", "benchmarks/papers/own_rate.py")
    assert all(map(changed, (*own, "benchmarks/papers/rlcc/common.py", "reproduce/claims.py")))
    assert not changed("benchmarks/papers/acc/figure_8.py") and not changed("reproduce/drawing.py")
    provenance.sources.cache_clear()


MODULES = sorted({module for paper in registry.PAPERS.values() for module in paper.figures.values()})
"""Those of all papers, before a test has others."""


def explanations() -> Iterator[Explanation]:
    for name in MODULES:
        claims = getattr(import_module(f"{registry.MODULES}.{name}"), "CLAIMS", ())
        found = [each.explanation for each in claims if each.explanation is not None]
        yield from found


def test_each_explanation_names_a_page_that_has_its_anchor() -> None:
    found = list(explanations())
    assert len(found) > 20
    for each in found:
        name, _, anchor = each.page.partition("#")
        titles = re.findall(r"^#+ (.*)$", (ROOT / name).read_text(), re.M)
        assert anchor in [re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles], each.page
        assert all((each.hypothesis, each.experiment, each.showed))
