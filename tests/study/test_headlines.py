# SPDX-License-Identifier: Apache-2.0
"""Headline statements: each rule of their verdicts on made-up evidence, mistakes in headlines.toml, and the papers' list."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from facts import states

from dc_gym.base.errors import UsageError
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.cli import main
from dc_gym.study import headlines, page
from dc_gym.study.claims import Claim, Verdict, any_of, below, less_than
from dc_gym.study.evidence import Evidence, Measure, Shortfall, VariantEvidence
from dc_gym.study.headlines import JudgedHeadline
from dc_gym.study.model import Study, Variant

QUEUE = Measure("queue", "queue (kB)", 1e-3)
ONCE = Claim("once", "page 7", (any_of([[below("b", "a", QUEUE)], [below("b, 2", "a, 2", QUEUE)]]),))
CLAIMS = (ONCE, Claim("a is short", "page 7", (less_than("a", QUEUE, 1000),)))
STUDY = Study("T", (QUEUE,), [Variant(name) for name in ("a", "b", "c", "a, 2", "b, 2")], name="own/x", claims=CLAIMS)
HEAD = '[[headline]]\nid = "X1"\nsource = "page 7"\nsays = "a is better"\n'
FAR = {"a": [10, 11, 12], "b": [20, 21, 22.5], "c": [30, 31, 33], "a, 2": [40, 41, 42], "b, 2": [10, 11, 12]}
SHORTER = '{ measure = "queue", of = "a", below = "b" }'
SAME, OTHER_SIZE, OPPOSITE, NO_DIFFERENCE = Verdict.SAME, Verdict.OTHER_SIZE, Verdict.OPPOSITE, Verdict.NO_DIFFERENCE
Numbers = Mapping[str, list[float]]


def part(tests: str, name: str = "a", more: str = "") -> str:
    return f'[[headline.part]]\nname = "{name}"\nsays = "so"\nstudy = "x"\ntests = [{tests}]\n{more}\n'


def read(folder: Path, text: str) -> list[headlines.Headline]:
    file = folder / headlines.FILE
    file.write_text(text)
    return headlines.read(file, [STUDY.name], lambda name: STUDY)


def judged(folder: Path, text: str, numbers: Numbers = FAR, full: bool = False, **more: object) -> JudgedHeadline:
    rows = {name: {"queue": dict(enumerate(values, 1))} for name, values in numbers.items()}
    evidence = Evidence({name: VariantEvidence(name, name, "", row) for name, row in rows.items()}, **more)  # type: ignore[arg-type]
    (headline,) = read(folder, HEAD + text)
    return headlines.judge(headline, {(STUDY.name, full): (evidence, False)})


def verdict(folder: Path, test: str, numbers: Numbers = FAR, more: str = "") -> Verdict:
    (one,) = judged(folder, part(f'{{ measure = "queue", {test} }}' if test else "", more=more), numbers).parts
    return one.judged.verdict


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ('of = "a", below = "b"', SAME),
        ('of = "b", above = ["a", "c"]', OPPOSITE),
        ('of = "a", above = 5', SAME),
        ('of = "b", above = "c", factor = 0.5', SAME),
        ('of = "b", above = "c", factor = 0.9', OPPOSITE),
        ('of = "b", equal = { mean = ["a", "c"] }', SAME),
        ('of = "b", equal = { geomean = ["a", "c"] }', OPPOSITE),
        ('of = { min = ["a", "c"] }, equal = "a"', SAME),
        ('of = { max = ["a", "c"] }, equal = "c"', SAME),
        ('of = "b", above = "a", ratio = 3.5, within = 2', SAME),
        ('of = "b", above = "a", ratio = 4, within = 2', OTHER_SIZE),
        ('of = "b", above = "a", ratio = [4, 9], within = 2.2', SAME),
        ('of = "b", below = "a", ratio = 0.5, within = 9', OPPOSITE),
        ('of = "a", below = "b", change = -0.9, within = 2', SAME),
        ('of = "a", below = "b", change = -0.2, within = 2', OTHER_SIZE),
        ('of = "a", below = "b", points = -20, within = 2', SAME),
        ('of = "a", above = 0, points = 30, within = 2', OTHER_SIZE),
    ],
)
def test_order_then_size(test: str, expected: Verdict, tmp_path: Path) -> None:
    assert verdict(tmp_path, test) is expected


@pytest.mark.parametrize(
    ("numbers", "below", "at_most", "at_least", "equal"),
    [
        ({"a": [100, 100, 100.1], "b": [102, 102, 102]}, NO_DIFFERENCE, SAME, SAME, SAME),
        ({"a": [0, 0, 0], "b": [0, 0, 0]}, NO_DIFFERENCE, SAME, SAME, SAME),
        ({"a": [100, 100, 100.1, 900], "b": [101, 101, 101, float("nan")]}, NO_DIFFERENCE, SAME, SAME, SAME),
        ({"a": [90, 100, 115], "b": [100, 110, 106]}, *[NO_DIFFERENCE] * 4),
        ({"a": [100, 100, 100.1], "b": [104, 104, 104]}, SAME, SAME, OPPOSITE, OPPOSITE),
    ],
)
def test_a_tie_is_no_difference_unless_it_is_enough(
    numbers: Numbers, below: Verdict, at_most: Verdict, at_least: Verdict, equal: Verdict, tmp_path: Path
) -> None:
    """Means are over the seeds that both sides have."""
    for relation, expected in {"below": below, "at_most": at_most, "at_least": at_least, "equal": equal}.items():
        assert verdict(tmp_path, f'of = "a", {relation} = "b"', numbers) is expected, relation


def test_a_part_holds_in_all_cases_and_a_claim_of_the_study_may_decide(tmp_path: Path) -> None:
    assert verdict(tmp_path, 'of = "a{}", below = "b{}"', more='cases = ["", ", 2"]') is OPPOSITE
    assert verdict(tmp_path, "", more='claim = "once"') is SAME
    assert verdict(tmp_path, "", {**FAR, "b, 2": [50, 51, 52]}, 'claim = "once"') is OPPOSITE


def test_a_row_holds_if_all_parts_do_and_is_otherwise_k_of_n(tmp_path: Path) -> None:
    other = part(SHORTER.replace(" }", ", ratio = 9, within = 2 }"), "c")
    untested = part("", "d", 'short = "16 hosts, not 64"\ntakes = "64 hosts"')
    row = judged(tmp_path, part(SHORTER) + part(SHORTER.replace("below", "above"), "b") + other + untested)
    assert row.verdict == "1 of 4, 1 not tested" and row.tested
    assert row.lines[-1] == ("(d) not tested", "16 hosts, not 64; it takes 64 hosts")
    assert judged(tmp_path, part(SHORTER) + part(SHORTER, "b")).verdict == "holds"
    assert judged(tmp_path, part(SHORTER) + other).verdict == "1 of 2 (same order, other size)"
    alone = judged(tmp_path, untested)
    assert alone.verdict == "not tested" and not alone.tested
    assert headlines.summary([row, alone]).startswith("2 headline statements: 1 tested, 0 of them hold; 5 parts: 1 same")


def test_what_falls_short_is_not_tested(tmp_path: Path) -> None:
    short = 'short = "16 hosts, not 64"\n'
    assert not judged(tmp_path, short + part(SHORTER)).tested
    assert judged(tmp_path, short + part(SHORTER, more='short = ""')).tested, "a part may fit where others do not"
    assert not judged(tmp_path, part(SHORTER, more="full = true")).tested, "there is no evidence of --length full"
    assert judged(tmp_path, part(SHORTER, more="full = true"), full=True).tested
    assert not judged(tmp_path, part(SHORTER), {"a": [1, 2, 3]}).tested, "b did not run"
    assert not judged(tmp_path, part(SHORTER), {"a": [1], "b": [5]}).tested, "one seed has no interval"
    assert not judged(tmp_path, part(SHORTER), shortfall=Shortfall(runs="runs of 1ms instead of 5ms")).tested


def test_seeds_that_found_a_setting_do_not_confirm_it(tmp_path: Path) -> None:
    numbers = {"a": [1, 1, 9, 10, 11], "b": [90, 90, 9, 10, 11]}
    assert verdict(tmp_path, 'of = "a", below = "b"', numbers, "found_on = [3, 4, 5]") is SAME
    assert verdict(tmp_path, 'of = "a", below = "b"', numbers, "found_on = [1, 2]") is NO_DIFFERENCE


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('study = "x"', 'study = "y"', "headline X1 (a): study 'y' is unknown"),
        ('below = "b"', 'below = "bb"', "headline X1 (a): variant 'bb' is unknown"),
        ('measure = "queue"', 'measure = "queues"', "measure 'queues' is unknown; did you mean queue?"),
        ('source = "page 7"\n', "", "headline X1: no source"),
        ("tests = [", 'claim = "d"\ntests = [', "claim 'd' is unknown"),
        ("of =", "off =", "key 'off' is unknown"),
        ('says = "so"', 'say = "so"', "key 'say' is unknown"),
        (', below = "b"', "", "a test has one of above, below"),
        ('below = "b"', 'below = "b", ratio = 2', "lacks a value"),
        ('below = "b"', 'below = "b", within = 2', "lacks a value"),
        ('below = "b"', 'below = "b", ratio = 2, within = "3"', "of another kind"),
        ('below = "b"', 'equal = "b", factor = 2', "unexpected keyword argument 'factor'"),
        ('below = "b"', 'below = { median = ["b", "c"] }', "'median' is unknown"),
        (SHORTER, "", "nothing decides it"),
        ("[[headline]]", "[[headline]", "Expected"),
        ("[[headline]]", HEAD + part(SHORTER) + "[[headline]]", "headline X1: there are two of this id"),
    ],
)
def test_mistakes_are_one_line(before: str, after: str, message: str, tmp_path: Path) -> None:
    good = HEAD + part(SHORTER)
    assert before in good and read(tmp_path, good)
    with pytest.raises(UsageError) as error:
        read(tmp_path, good.replace(before, after, 1))
    assert states(str(error.value), message) and headlines.FILE in str(error.value) and "\n" not in str(error.value)


def test_the_papers_headlines_are_complete() -> None:
    rows = LIBRARY.headlines(("rl-cc", "pcc-rl", "acc", "iroko", "fdcc"))
    ids = {
        f"{letter}{number}"
        for letter, count in {"R": 10, "P": 4, "A": 8, "I": 4, "F": 4}.items()
        for number in range(1, count + 1)
    }
    assert {row.id for row in rows} == ids and len(rows) == len(ids)
    assert all(part.claim.criteria or part.short for row in rows for part in row.parts)


def test_the_score_and_a_groups_page_begin_with_headlines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["study", "score", "pcc-rl", "--out", str(tmp_path), "--evidence", str(tmp_path / "none")]) == 0
    shown = capsys.readouterr().out
    assert 0 < shown.index("P4") < shown.index("4 headline statements: 0 tested") < shown.index("\ngroup")
    text = page.overview(tmp_path / "own", "own", "Mine", [], [judged(tmp_path, part(SHORTER))]).read_text()
    assert text.index("X1 (a)") < text.index("All claims") and "own/x" in text
    assert "Headline" not in page.overview(tmp_path / "other", "other", "Others", []).read_text()
