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
from dc_gym.study import headlines, page, score
from dc_gym.study.claims import Claim, Verdict, less_than
from dc_gym.study.evidence import Evidence, Measure, Shortfall, VariantEvidence
from dc_gym.study.headlines import JudgedHeadline
from dc_gym.study.model import Study, Variant

QUEUE, RATE = Measure("queue", "queue (kB)", 1e-3), Measure("rate", "rate")
STUDY = Study(
    "T",
    (QUEUE, RATE),
    [Variant(name) for name in ("a", "b", "c", "a, 2", "b, 2")],
    name="own/x",
    claims=[Claim("a is short", "page 7", (less_than("a", QUEUE, 1000),))],
)
HEAD = '[[headline]]\nid = "X1"\nsource = "page 7"\nsays = "a is better"\n'
FAR = {"a": [10, 11, 12], "b": [20, 21, 22.5], "c": [30, 31, 33], "a, 2": [40, 41, 42], "b, 2": [10, 11, 12]}
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


def verdict(folder: Path, test: str, numbers: Numbers = FAR, **more: object) -> Verdict:
    (one,) = judged(folder, part(f'{{ measure = "queue", {test} }}'), numbers, **more).parts
    return one.judged.verdict


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ('of = "a", below = "b"', Verdict.SAME),
        ('of = "a", above = "b"', Verdict.OPPOSITE),
        ('of = "b", above = ["a", "c"]', Verdict.OPPOSITE),
        ('of = "a", above = 5', Verdict.SAME),
        ('of = "b", above = "c", factor = 0.5', Verdict.SAME),
        ('of = "b", above = "c", factor = 0.9', Verdict.OPPOSITE),
        ('of = "b", equal = { mean = ["a", "c"] }', Verdict.SAME),
        ('of = "b", equal = { geomean = ["a", "c"] }', Verdict.OPPOSITE),
        ('of = { min = ["a", "c"] }, equal = "a"', Verdict.SAME),
        ('of = { max = ["a", "c"] }, equal = "c"', Verdict.SAME),
        ('of = "b", above = "a", ratio = 3.5, within = 2', Verdict.SAME),
        ('of = "b", above = "a", ratio = 4, within = 2', Verdict.OTHER_SIZE),
        ('of = "b", above = "a", ratio = [4, 9], within = 2.2', Verdict.SAME),
        ('of = "b", below = "a", ratio = 0.5, within = 9', Verdict.OPPOSITE),
        ('of = "a", below = "b", change = -0.9, within = 2', Verdict.SAME),
        ('of = "a", below = "b", change = -0.2, within = 2', Verdict.OTHER_SIZE),
        ('of = "a", below = "b", points = -20, within = 2', Verdict.SAME),
        ('of = "a", above = 0, points = 30, within = 2', Verdict.OTHER_SIZE),
    ],
)
def test_order_then_size(test: str, expected: Verdict, tmp_path: Path) -> None:
    assert verdict(tmp_path, test) is expected


@pytest.mark.parametrize(
    ("numbers", "by_relation"),
    [
        ({"a": [100, 100, 100.1], "b": [102, 102, 102]}, "tie"),
        ({"a": [0, 0, 0], "b": [0, 0, 0]}, "tie"),
        ({"a": [90, 100, 115], "b": [100, 110, 106]}, "doubt"),
        ({"a": [100, 100, 100.1], "b": [104, 104, 104]}, "less"),
    ],
)
def test_a_tie_is_no_difference_unless_it_is_enough(numbers: Numbers, by_relation: str, tmp_path: Path) -> None:
    expected = {
        "tie": {"below": Verdict.NO_DIFFERENCE, "at_most": Verdict.SAME, "at_least": Verdict.SAME, "equal": Verdict.SAME},
        "doubt": dict.fromkeys(("below", "at_most", "at_least", "equal"), Verdict.NO_DIFFERENCE),
        "less": {"below": Verdict.SAME, "at_most": Verdict.SAME, "at_least": Verdict.OPPOSITE, "equal": Verdict.OPPOSITE},
    }[by_relation]
    assert {name: verdict(tmp_path, f'of = "a", {name} = "b"', numbers) for name in expected} == expected


def test_means_are_over_the_seeds_that_both_sides_have(tmp_path: Path) -> None:
    numbers = {"a": [100, 100, 100.1, 900], "b": [101, 101, 101, float("nan")]}
    assert verdict(tmp_path, 'of = "a", equal = "b"', numbers) is Verdict.SAME


def test_a_part_holds_in_all_cases_or_where_it_says_so_in_one(tmp_path: Path) -> None:
    for more, expected in (("", Verdict.OPPOSITE), (", once = true", Verdict.SAME)):
        test = f'{{ measure = "queue", of = "a{{}}", below = "b{{}}"{more} }}'
        (one,) = judged(tmp_path, part(test, more='cases = ["", ", 2"]')).parts
        assert one.judged.verdict is expected, more


def test_a_row_holds_if_all_parts_do_and_is_otherwise_k_of_n(tmp_path: Path) -> None:
    holds, fails, other = (
        f'{{ measure = "queue", of = "a", {how} }}'
        for how in ('below = "b"', 'above = "b"', 'below = "b", ratio = 9, within = 2')
    )
    untested = part("", "d", 'short = "16 hosts, not 64"\ntakes = "64 hosts"')
    row = judged(tmp_path, part(holds) + part(fails, "b") + part(other, "c") + untested)
    assert row.verdict == "1 of 4, 1 not tested" and row.tested
    assert row.lines[-1] == ("(d) not tested", "16 hosts, not 64; it takes 64 hosts")
    assert judged(tmp_path, part(holds) + part(holds, "b")).verdict == "holds"
    assert judged(tmp_path, part(holds) + part(other, "b")).verdict == "1 of 2 (same order, other size)"
    alone = judged(tmp_path, untested)
    assert alone.verdict == "not tested" and not alone.tested
    assert headlines.summary([row, alone]).startswith("2 headline statements: 1 tested, 0 of them hold; 5 parts: 1 same")


def test_what_falls_short_is_not_tested(tmp_path: Path) -> None:
    test = '{ measure = "queue", of = "a", below = "b" }'
    short = 'short = "16 hosts, not 64"\n'
    assert not judged(tmp_path, short + part(test)).tested
    assert judged(tmp_path, short + part(test, more='short = ""')).tested, "a part may fit where others do not"
    assert not judged(tmp_path, part(test, more="full = true")).tested, "there is no evidence of --length full"
    assert judged(tmp_path, part(test, more="full = true"), full=True).tested
    assert not judged(tmp_path, part(test), {"a": [1, 2, 3]}).tested, "b did not run"
    assert not judged(tmp_path, part(test), {"a": [1], "b": [5]}).tested, "one seed has no interval"
    assert not judged(tmp_path, part(test), shortfall=Shortfall(runs="runs of 1ms instead of 5ms")).tested


def test_seeds_that_found_a_setting_do_not_confirm_it(tmp_path: Path) -> None:
    numbers = {"a": [1, 1, 9, 10, 11], "b": [90, 90, 9, 10, 11]}
    for found_on, expected in (
        ("[3, 4, 5]", Verdict.SAME),
        ("[1, 2]", Verdict.NO_DIFFERENCE),
        ("[]", Verdict.NO_DIFFERENCE),
    ):
        (one,) = judged(
            tmp_path, part('{ measure = "queue", of = "a", below = "b" }', more=f"found_on = {found_on}"), numbers
        ).parts
        assert one.judged.verdict is expected, found_on


def test_a_claim_of_the_study_may_decide(tmp_path: Path) -> None:
    (one,) = judged(tmp_path, part("", more='claim = "a is short"')).parts
    assert one.judged.verdict is Verdict.SAME and one.judged.claim.id == "X1 (a)"


GOOD = HEAD + part('{ measure = "queue", of = "a", below = "b" }')


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('study = "x"', 'study = "y"'), "headline X1 (a): study 'y' is unknown"),
        (('below = "b"', 'below = "bb"'), "headline X1 (a): variant 'bb' is unknown"),
        (('measure = "queue"', 'measure = "queues"'), "measure 'queues' is unknown; did you mean queue?"),
        (('source = "page 7"\n', ""), "headline X1: no source"),
        (("tests = [", 'claim = "d"\ntests = ['), "claim 'd' is unknown"),
        (("of =", "off ="), "key 'off' is unknown"),
        (('says = "so"', 'say = "so"'), "key 'say' is unknown"),
        ((', below = "b"', ""), "a test has one of above, below"),
        (('below = "b"', 'below = "b", ratio = 2'), "a size"),
        (('below = "b"', 'below = "b", ratio = 2, within = "3"'), "another kind"),
        (('below = "b"', 'equal = "b", factor = 2'), "equal has no factor"),
        (('below = "b"', 'below = { median = ["b", "c"] }'), "'median' is unknown"),
        (('{ measure = "queue", of = "a", below = "b" }', ""), "nothing decides it"),
        (("[[headline]]", "[[headline]"), "Expected"),
    ],
)
def test_mistakes_are_one_line(change: tuple[str, str], message: str, tmp_path: Path) -> None:
    assert change[0] in GOOD and read(tmp_path, GOOD)
    with pytest.raises(UsageError) as error:
        read(tmp_path, GOOD.replace(*change, 1))
    assert states(str(error.value), message) and headlines.FILE in str(error.value) and "\n" not in str(error.value)


def test_an_id_stands_for_one_headline(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="headline X1: there are two"):
        read(tmp_path, GOOD + GOOD)
    (tmp_path / headlines.FILE).write_text(GOOD)
    with pytest.raises(UsageError, match="headline X1: there are two"):
        headlines.read(tmp_path / headlines.FILE, [STUDY.name], lambda name: STUDY, taken=["X1"])
    assert headlines.read(tmp_path / "nowhere.toml", [], lambda name: STUDY) == []


def test_the_table_has_a_row_for_each_headline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score.show_headlines([judged(tmp_path, part('{ measure = "queue", of = "a", below = "b" }'))])
    shown = capsys.readouterr().out
    assert "X1" in shown and "holds" in shown and "a 0.01" in shown


def test_the_papers_headlines_are_complete(tmp_path: Path) -> None:
    groups = ("rl-cc", "pcc-rl", "acc", "iroko", "fdcc")
    rows = LIBRARY.headlines(groups)
    counts = {letter: sum(row.id.startswith(letter) for row in rows) for letter in "RPAIF"}
    assert counts == {"R": 10, "P": 4, "A": 8, "I": 4, "F": 4}
    assert all(part.claim.criteria or part.short for row in rows for part in row.parts)


def test_the_score_prints_headlines_before_all_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["study", "score", "pcc-rl", "--out", str(tmp_path), "--evidence", str(tmp_path / "none")]) == 0
    lines = capsys.readouterr().out.splitlines()
    (summary,) = (number for number, line in enumerate(lines) if line.startswith("4 headline statements: 0 tested"))
    assert summary < next(number for number, line in enumerate(lines) if line.startswith("group"))


def test_the_page_of_a_group_begins_with_its_headlines(tmp_path: Path) -> None:
    (row,) = [judged(tmp_path, part('{ measure = "queue", of = "a", below = "b" }'))]
    text = page.overview(tmp_path / "own", "own", "Mine", [], [row]).read_text()
    assert "X1 (a)" in text and "own/x" in text and text.index("X1 (a)") < text.index("All claims")
    assert "Headline" not in page.overview(tmp_path / "other", "other", "Others", []).read_text()
