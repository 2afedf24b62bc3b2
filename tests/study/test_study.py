# SPDX-License-Identifier: Apache-2.0
"""Studies: verdicts, evidence as text, what it depends on, what carries it over, and a study of one's own from labs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from facts import states
from pyarrow import parquet

from dc_gym.base.errors import UsageError
from dc_gym.base.stats import estimate
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.cli import main
from dc_gym.study import claims, collect, findings, identity, measured, page, score, table
from dc_gym.study.claims import Claim, Verdict
from dc_gym.study.evidence import Evidence, Measure, Sample, Shortfall, Track, VariantEvidence
from dc_gym.study.model import Study, StudyOptions, Variant
from dc_gym.study.page import report

QUEUE = Measure("queue", "queue (kB)", 1e-3)
OPTIONS = StudyOptions(Path("out"))
OWN_STUDY = '''
from dc_gym.study.claims import Claim, below
from dc_gym.study.evidence import Measure
from dc_gym.study.model import Study, Variant

MBIT = 1e6
GOODPUT = Measure("goodput_bps", "goodput (Mbit/s)", 1e-6)


def measure(result):
    """Returns the goodput."""
    return {GOODPUT.name: float(result.summary["goodput_bps"]) / MBIT * 1e6}  # a comment


STUDY = Study(
    title="Slow and fast",
    base={
        "topology.preset": "dumbbell-10m",
        "controller.name": "dctcp",
        "workload.kind": "pairs",
        "workload.jitter": "1ms",
        "time.duration": "100ms",
        "time.warmup": "20ms",
    },
    variants=[Variant("slow", {"topology.rate": "5Mbit/s"}), Variant("fast")],
    measures=[GOODPUT],
    measure=measure,
    claims=[Claim("The slow one is slower", "page 7", (below("slow", "fast", GOODPUT, 0.6),))],
    seeds=3,
)
'''


def variant(name: str, values: list[float], **more: object) -> VariantEvidence:
    return VariantEvidence(name, name.upper(), "#000000", {"queue": dict(enumerate(values, 1))}, **more)  # type: ignore[arg-type]


def verdict(criterion: claims.Criterion, *variants: VariantEvidence, **more: object) -> Verdict:
    evidence = Evidence({variant.name: variant for variant in variants}, **more)  # type: ignore[arg-type]
    return claims.judge(Claim("c", "page 7", (criterion,)), evidence).verdict


def test_order_size_tie_and_the_opposite_are_told_apart() -> None:
    short, long = variant("a", [10, 11, 12]), variant("b", [20, 21, 22.5])
    assert verdict(claims.below("a", "b", QUEUE), short, long) is Verdict.SAME
    assert verdict(claims.above("a", "b", QUEUE), short, long) is Verdict.OPPOSITE
    assert verdict(claims.below("a", "b", QUEUE, 0.1), short, long) is Verdict.OTHER_SIZE
    assert verdict(claims.above("b", "a", QUEUE, 1.5), short, long) is Verdict.SAME
    assert verdict(claims.above("b", "a", QUEUE, 3), short, long) is Verdict.OTHER_SIZE
    assert verdict(claims.above("a", "b", QUEUE, 3), short, long) is Verdict.OPPOSITE


def test_differences_are_taken_seed_by_seed() -> None:
    """Seeds differ far more than the variants."""
    a, b = variant("a", [10, 1000, 100_000]), variant("b", [11, 1100, 109_000])
    assert verdict(claims.below("a", "b", QUEUE), a, b) is Verdict.NO_DIFFERENCE, "by 1, 100 and 9000"
    a, b = variant("a", [10, 1000, 100_000]), variant("b", [14_000, 15_000, 114_000])
    assert verdict(claims.below("a", "b", QUEUE), a, b) is Verdict.SAME


def test_bounds_hold_for_every_seed() -> None:
    assert verdict(claims.less_than("a", QUEUE, 10), variant("a", [1, 2, 9])) is Verdict.SAME
    assert verdict(claims.less_than("a", QUEUE, 10), variant("a", [1, 2, 10])) is Verdict.OPPOSITE
    assert verdict(claims.more_than("a", QUEUE, 0), variant("a", [1, 2, 0])) is Verdict.OPPOSITE
    assert verdict(claims.more_than("a", QUEUE, 0), variant("a", [])) is Verdict.NOT_TESTED
    few = Shortfall(seeds="2 seeds instead of 3")
    assert verdict(claims.less_than("a", QUEUE, 15), variant("a", [10, 11]), shortfall=few) is Verdict.NOT_TESTED
    assert verdict(claims.less_than("a", QUEUE, 10), variant("a", [9, 11]), shortfall=few) is Verdict.OPPOSITE


def test_criteria_on_training_curves() -> None:
    falls = claims.learned("a", "it falls", QUEUE, lambda x, y: bool(y[-1] < y[0]))
    x, nan = np.array([1.0, 2.0]), np.nan
    for values, expected in (([9, 1], Verdict.SAME), ([1, 9], Verdict.OPPOSITE), ([nan, nan], Verdict.NOT_TESTED)):
        assert verdict(falls, variant("a", [1], learning={1: Track(x, {"queue": np.array(values, float)})})) is expected


@pytest.mark.parametrize(
    ("values", "text"),
    [([0, 100, 200], "100 \u00b1 248"), ([1, 1, 1 - 4e-6], "1 \u00b1 0"), ([9.5], "9.5"), ([-0.25, -0.75], "-0.25, -0.75")],
)
def test_numbers_of_a_page_have_no_exponent(values: list[float], text: str) -> None:
    assert claims.text(estimate(values), Measure("x", "x")) == text


def test_a_tie_is_no_contradiction() -> None:
    """Nor is it a difference, even where the interval excludes 0: 2 % are below the 3 % of a tie."""
    one, more, noisy = variant("a", [100, 100, 100]), variant("b", [102, 102, 102.1]), variant("c", [90, 100, 115])
    for other in (more, noisy):
        assert verdict(claims.below("a", other.name, QUEUE), one, other) is Verdict.NO_DIFFERENCE
        assert verdict(claims.above("a", other.name, QUEUE), one, other) is Verdict.NO_DIFFERENCE
    (equal,) = claims.alike("a", "b", QUEUE, 0.03)
    assert verdict(equal, one, more) is Verdict.SAME
    (equal,) = claims.alike("a", "b", QUEUE, 0.01)
    assert verdict(equal, one, more) is Verdict.OPPOSITE


def test_a_claim_has_the_verdict_of_its_worst_criterion() -> None:
    low, mid, high = variant("a", [1, 1.1, 1.2]), variant("b", [5, 5.1, 5.2]), variant("c", [5, 5.1, 5.15])
    evidence = Evidence({variant_evidence.name: variant_evidence for variant_evidence in (low, mid, high)})
    both = (claims.below("a", "b", QUEUE), claims.below("b", "c", QUEUE))
    assert claims.judge(Claim("c", "page 7", both), evidence).verdict is Verdict.NO_DIFFERENCE


@pytest.mark.parametrize(
    "short", [Shortfall(runs="runs of 1ms instead of 5ms"), Shortfall(trainings="trainings of 5 steps instead of 10")]
)
def test_what_is_too_short_is_not_tested(short: Shortfall) -> None:
    curve = {1: Track(np.array([1.0, 5.0]), {"queue": np.array([1.0, 2.0])})}
    a, b = variant("a", [10, 11, 12], learning=curve), variant("b", [20, 21, 22])
    assert verdict(claims.below("a", "b", QUEUE), a, b, shortfall=short) is Verdict.NOT_TESTED
    untrained = verdict(claims.below("a", "b", QUEUE), replace(a, learning={}), b, shortfall=short)
    assert untrained is (Verdict.NOT_TESTED if short.runs else Verdict.SAME)


def test_fewer_seeds_decide_only_where_intervals_leave_no_doubt() -> None:
    few = Shortfall(seeds="3 seeds instead of 5")
    a, b, near = variant("a", [10, 11, 12]), variant("b", [20, 21, 22]), variant("n", [10, 12, 11.5])
    assert verdict(claims.below("a", "b", QUEUE), a, b, shortfall=few) is Verdict.SAME
    assert verdict(claims.below("a", "n", QUEUE), a, near, shortfall=few) is Verdict.NOT_TESTED


def test_a_training_shorter_than_the_sources_refutes_nothing() -> None:
    curve = {seed: Track(np.array([1.0, 500.0]), {"queue": np.array([1.0, 2.0])}) for seed in (1, 2, 3)}
    learner, other = variant("a", [10, 11, 12], learning=curve), variant("b", [20, 21, 22])
    assert verdict(claims.above("a", "b", QUEUE), learner, other, paper_steps=1000) is Verdict.NOT_TESTED
    assert verdict(claims.below("a", "b", QUEUE), learner, other, paper_steps=1000) is Verdict.SAME
    assert verdict(claims.above("a", "b", QUEUE), learner, other, paper_steps=500) is Verdict.OPPOSITE


def made(evidence: Evidence, **more: object) -> table.Table:
    fields = {"study": "own/x", "fingerprint": "f1", "runs": "r", "measures": "m", "environment": {"kernel": "k"}, "options": {}}
    fields |= {"shortfall": evidence.shortfall, "paper_steps": evidence.paper_steps, "sample": Sample("a", 1, "d1")}
    return table.Table(**{**fields, **more}, rows=table.cells(evidence))  # type: ignore[arg-type]


def test_evidence_survives_its_text(tmp_path: Path) -> None:
    """Numbers, tracks, bounds and learning curves; integers are exact, others have six digits."""
    track = Track(np.array([0.5, 1.5]), {"queue": np.array([3.0, np.nan])}, {"queue": 7.25})
    curve = Track(np.array([100.0, 123456.0]), {"reward": np.array([-1 / 3, 1234567.8])})
    a = variant("a", [12345678901.0, 1 / 3], over_time={1: track}, learning={2: curve})
    evidence = Evidence({"a": a, "b": variant("b", [1.5])}, 1000, Shortfall(seeds="2 seeds instead of 5"))
    path = table.write(tmp_path, made(evidence), full=False)
    assert path == tmp_path / "own" / "x.tsv"
    stored = table.read(path)
    assert stored == replace(made(evidence), rows=stored.rows)
    back = table.evidence_of(Study("T", [QUEUE], [Variant("b"), Variant("a", color="#123456", paper={"queue": 2})]), stored)
    assert list(back.variants) == ["b", "a"] and back.paper_steps == 1000 and back.shortfall == evidence.shortfall
    again = back.variants["a"]
    assert again.numbers == {"queue": {1: 12345678901.0, 2: 0.333333}}
    assert (again.color, again.paper, again.steps) == ("#123456", {"queue": 2}, 123456)
    assert again.over_time[1].most == {"queue": 7.25} and np.isnan(again.over_time[1].values["queue"][1])
    assert again.learning[2].values["reward"].tolist() == [-0.3333, 1_235_000], "curves have four digits"
    assert path.read_text() == table.write(tmp_path / "again", replace(stored), full=False).read_text()


def test_a_study_of_others_keeps_how_long_they_should_have_trained() -> None:
    one, other = (made(Evidence({name: variant(name, [1, 2])}, steps)) for name, steps in (("a", 1000), ("b", 0)))
    merged_evidence = table.merged([(Study("T", [QUEUE]), one), (Study("T", [QUEUE]), other)])
    assert merged_evidence.paper_steps == 1000 and list(merged_evidence.variants) == ["b", "a"]


def test_a_page_tells_how_its_own_runs_were_made() -> None:
    options = StudyOptions(
        Path(), seeds=2, steps=70, duration="2s", algorithms=(), overrides=("a=1",), variants=("x",), full=True
    )
    assert identity.asked(identity.told(options)) == options
    study = Study("T", [QUEUE], facts=lambda study_options: [("Measured", str(study_options.duration))])
    page_report = report(study, made(Evidence({"a": variant("a", [1])}), options=identity.told(options)), {})
    assert ("Measured", "2s") in page_report.facts


@pytest.mark.parametrize("text", ["", "study\tx\n\nvariant\tmeasure\n", "study\tx\n\nvariant\tmeasure\t1\na\tb\t1\t2\n"])
def test_a_file_that_is_no_evidence_is_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"x\.tsv: not a file of evidence"):
        table.read(file)


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    """A study's file of a user's own."""
    file = tmp_path / "rates.py"
    file.write_text(OWN_STUDY)
    return file


def loaded(file: Path, *changes: tuple[str, str]) -> Study:
    text = file.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    changed_file = file.with_name("changed.py")
    changed_file.write_text(text)
    return LIBRARY.chosen([str(changed_file)])[0]


def test_comments_docstrings_claims_and_styles_change_no_identity(study_file: Path) -> None:
    plain = loaded(study_file)
    for change in (
        ("  # a comment", ""),
        ('"""Returns the goodput."""', '"""Returns how much arrived."""'),
        ("GOODPUT, 0.6", "GOODPUT, 0.7"),
        ('Variant("fast")', 'Variant("fast", color="#ff0000")'),
        ('title="Slow and fast"', 'title="Other words"'),
        ('"goodput (Mbit/s)"', '"goodput (of all flows, Mbit/s)"'),
        ("MBIT = 1e6", "MBIT = 1e6\nsummary = 1"),  # the name of an attribute that the measure reads
    ):
        changed = loaded(study_file, change)
        assert identity.of_runs(changed) == identity.of_runs(plain), change
        assert identity.of_measures(changed) == identity.of_measures(plain), change


def test_specs_and_what_measures_change_identities(study_file: Path) -> None:
    plain = loaded(study_file)
    specs = loaded(study_file, ('"5Mbit/s"', '"4Mbit/s"'))
    assert identity.of_runs(specs) != identity.of_runs(plain) and identity.of_measures(specs) == identity.of_measures(plain)
    for change in (("MBIT = 1e6", "MBIT = 1e5"), ("MBIT * 1e6", "MBIT * 2e6")):
        measures = loaded(study_file, change)
        assert identity.of_measures(measures) != identity.of_measures(plain), change
        assert identity.of_runs(measures) == identity.of_runs(plain)


def test_the_shipped_policy_that_a_spec_names_is_part_of_an_identity(study_file: Path, tmp_path: Path, monkeypatch) -> None:
    study = loaded(study_file, ('Variant("fast")', 'Variant("fast", {"nic.policy": "small"})'))
    folder = tmp_path / "methods" / "rlcc"
    folder.mkdir(parents=True)
    monkeypatch.setattr(identity, "PACKAGE", tmp_path)

    def with_policy(weight: int, source: str) -> str:
        np.savez(folder / "small.npz", manifest=np.array(source), W0=np.array([weight]))
        return identity.of_runs(study)

    first = with_policy(1, "trained here")
    assert with_policy(1, "trained there") == first, "where it is from changes no run"
    assert with_policy(2, "trained here") != first


def test_a_table_with_tuples_as_keys_is_part_of_an_identity(study_file: Path) -> None:
    read = ("/ MBIT", "/ UNITS[1, 2]")
    one, other = (loaded(study_file, read, ("MBIT = 1e6", f"UNITS = {{(1, 2): {unit}}}")) for unit in ("1e6", "1e5"))
    same = loaded(study_file, read, ("MBIT = 1e6", "UNITS = {(1, 2): 1_000_000.0}"))
    assert identity.of_measures(one) == identity.of_measures(same) != identity.of_measures(other)


def test_a_file_that_a_function_reads_counts_by_what_it_does_wherever_it_lies(tmp_path: Path) -> None:
    identities = []
    for name, content in (("one", "int a;\n"), ("two", "int a; // a comment\n"), ("three", "int b;\n")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "cost.c").write_text(content)
        identities.append(identity._digest({"source": folder / "cost.c"}))
    assert identities[0] == identities[1] != identities[2]
    assert identity._digest(tmp_path / "one") == identity._digest(Path("/nowhere/one")) != identity._digest(tmp_path / "two")


def test_a_study_file_outside_gives_only_its_own_code() -> None:
    """A constant and a function that a measure of the tree reads are part of its identity."""
    from dc_gym.benchmarks.studies.meta import queue_pairs

    before = identity.of_measures(LIBRARY.load("meta/queue-pairs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queue_pairs, "SIZE_BYTES", 1)
        assert identity.of_measures(LIBRARY.load("meta/queue-pairs")) != before
    assert identity.of_measures(LIBRARY.load("meta/queue-pairs")) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('below("slow", "fast"', 'below("slwo", "fast"'), "variant 'slwo' ... slow?"),
        (("measures=[GOODPUT]", 'measures=[Measure("goodput", "g")]'), "measure 'goodput_bps' ... goodput?"),
        (('"page 7"', '""'), "source ... where"),
        (('Variant("fast")', 'Variant("slow")'), "variants ... 'slow'"),
        (("STUDY = Study", "OTHER = Study"), "STUDY = Study"),
        (('"topology.preset"', '"topology.presett"'), "did you mean"),
        (
            ("    seeds=3", '    identities=[below("slwo", "fast", GOODPUT)],\n    seeds=3'),
            "identities: variant 'slwo'",
        ),
    ],
)
def test_mistakes_in_a_study_are_one_line(
    change: tuple[str, str], message: str, study_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study_file.write_text(OWN_STUDY.replace(*change))
    assert main.main(["study", "run", str(study_file), "--out", str(tmp_path / "out"), "--quiet"]) != 0
    error = capsys.readouterr().err
    assert states(error, message) and error.count("\n") == 1 and "Traceback" not in error


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["run", "acc/figure-99"], "study 'acc/figure-99' is unknown"),
        (["run", "nowhere.py"], "study nowhere.py: no such file"),
        (["run", "meta/queue-pairs", "--variant", "none"], "variant 'none' is unknown"),
        (["run", "meta/queue-pairs", "--steps", "5"], "--steps 5: nothing is trained for meta/queue-pairs"),
        (["run", "meta/queue-pairs", "--seeds", "0"], "--seeds"),
        (["report", "meta/queue-pairs", "--evidence", "empty"], "no evidence of meta/queue-pairs in"),
    ],
)
def test_mistakes_of_a_command_are_one_line(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        code = main.main(["study", *argv])
    except SystemExit as error:
        code = int(error.code or 0)
    assert code == 2 and message in capsys.readouterr().err and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("tracks", "kept_seeds"), [(None, [1, 2, 3]), (1, [1]), (0, [])])
def test_as_many_tracks_are_kept_as_a_variant_says(tracks: int | None, kept_seeds: list[int]) -> None:
    track = Track(np.array([1.0]), {"queue": np.array([2.0])})
    study = Study("T", [QUEUE], measure=lambda result: {"queue": 3.0}, track=lambda result: track)
    results: dict[int, Any] = dict.fromkeys((3, 1, 2))
    evidence = collect.measured(study, Variant("a", tracks=tracks), results)
    assert list(evidence.over_time) == kept_seeds and evidence.numbers == {"queue": dict.fromkeys((1, 2, 3), 3.0)}


def test_findings_name_known_studies_claims_and_keys(tmp_path: Path) -> None:
    file = tmp_path / findings.FILE
    finding = '[[finding]]\nstudy = "x"\nclaims = ["c"]\nhypothesis = "wind"\nexperiment = "no wind"\nshowed = "it stands"\n'
    file.write_text(finding)
    causes = findings.read(file, ["x"])["x"]
    assert causes["c"].shown and causes["c"].showed == "it stands"
    findings.require_claims(file, "x", causes, [Claim("c", "page 7", ())])
    with pytest.raises(UsageError, match="claim 'c' is unknown"):
        findings.require_claims(file, "x", causes, [Claim("d", "page 7", ())])
    for text, message in (
        (finding.replace('"x"', '"y"'), "study 'y'"),
        (finding + 'whoever = "me"\n', "key 'whoever'"),
        ("[[", "Invalid"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=message):
            findings.read(file, ["x"])


def test_a_cause_is_told_with_the_verdict_that_it_explains() -> None:
    same, other = (claims.Judged(Claim("c", "p", ()), outcome, ()) for outcome in (Verdict.SAME, Verdict.OPPOSITE))
    why = findings.Cause("wind", "no wind", "it stands")
    assert findings.finding(other, {"c": why}).cause == why and findings.finding(same, {"c": why}).cause is None
    assert findings.finding(same, {"c": replace(why, of_success=True)}).cause is not None


def test_the_score_counts_printed_numbers_by_how_far_they_are_off() -> None:
    study = Study("T", [QUEUE], [Variant("a", paper={"queue": 100}), Variant("b", paper={"queue": 10})], name="own/x")
    evidence = Evidence({"a": variant("a", [105, 105]), "b": variant("b", [25, 25])})
    study_report = report(study, made(evidence), {})
    numbers = list(score.printed([study_report]))
    assert [round(number.factor, 3) for number in numbers] == [1.05, 2.5]
    assert score.shares(numbers) == ["50%", "50%", "100%"]


def test_claims_of_ours_and_on_set_ups_of_ours_are_not_counted() -> None:
    short = (claims.below("a", "b", QUEUE),)
    sample_claims = [
        Claim("c", "page 7", short),
        Claim("c", "page 7", short, setup="shared buffer"),
        Claim("d", "ours: so", short),
    ]
    study = Study("T", [QUEUE], claims=sample_claims, name="own/x")
    study_report = report(study, made(Evidence({"a": variant("a", [1, 2, 3]), "b": variant("b", [8, 9, 9.5])})), {})
    assert [page.as_dict(finding)["claim"] for finding in study_report.findings] == ["c", "Shared buffer: c", "d"]
    assert study_report.summary == "1 same"


def test_the_folder_of_a_study(tmp_path: Path) -> None:
    curve = {seed: Track(np.array([1.0, 300.0]), {"queue": np.array([1.0, 2.0])}) for seed in (1, 2, 3)}
    learner, alone = variant("a", [1, 2, 3], learning=curve), variant("b", [5, 5, 5])
    claim = Claim("a is <short>", "page 7", (claims.below("a", "b", QUEUE),))
    study = Study("T", [QUEUE], claims=[claim], notes=["A note."], name="own/x")
    path = page.write(tmp_path, report(study, made(Evidence({"a": learner, "b": alone})), {}))
    text = path.read_text()
    assert "a is &lt;short&gt;" in text and "A note." in text and "300 steps" in text
    (claim_row,) = json.loads((tmp_path / "claims.json").read_text())["claims"]
    measured = "a 0.001, 0.002, 0.003, b 0.005 \u00b1 0"
    assert claim_row["verdict"] == "same"
    assert claim_row["criteria"] == [{"criterion": "queue (kB) of a below that of b", "measured": measured}]
    assert (tmp_path / "table.csv").read_text().splitlines()[1] == "a,1,300,1.0"
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_a_chain_of_equal_digests_reaches_today() -> None:
    lineage = identity.Lineage().with_pair("own/x", "f1", "f2", "d").with_pair("own/x", "f2", "f3", "d")
    assert lineage.reaches("own/x", "f1", "f3") and not lineage.reaches("own/x", "f3", "f1")
    assert not lineage.reaches("own/y", "f1", "f3")


@pytest.mark.lab
def test_a_study_of_ones_own_runs_resumes_reports_and_is_carried_over(
    study_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, evidence = tmp_path / "out", tmp_path / "evidence"
    places = ["--out", str(out), "--evidence", str(evidence), "--quiet"]
    assert main.main(["study", "run", str(study_file), *places]) == 0
    assert "1 same" in capsys.readouterr().out
    file = evidence / "own" / "rates.tsv"
    first = file.read_text()
    runs = sorted((out / "own" / "rates" / "runs").glob("*-s*"))
    assert len(runs) == 6
    times = [run.stat().st_mtime_ns for run in runs]
    assert main.main(["study", "run", str(study_file), *places]) == 0
    assert [run.stat().st_mtime_ns for run in runs] == times and file.read_text() == first

    sample = table.read(file)
    assert sample.sample is not None and sample.sample.variant == "slow"
    shutil.rmtree(out)  # pages need the table alone
    assert main.main(["study", "report", str(study_file), *places]) == 0
    assert main.main(["study", "report", str(study_file), *places, "--parquet", str(tmp_path / "all.parquet"), "--force"]) == 0
    assert len(parquet.read_table(tmp_path / "all.parquet")) == 6
    for name in ("index.html", "figure.png", "table.csv", "claims.json"):
        assert (out / "own" / "rates" / name).is_file()
    capsys.readouterr()

    file.write_text(first.replace(sample.fingerprint, "0" * 16))  # as if another version had made it
    assert main.main(["study", "score", str(study_file), *places]) == 0
    assert f"evidence of fingerprint {'0' * 16}" in capsys.readouterr().out
    assert main.main(["study", "carry", str(study_file), *places]) == 0
    assert "carried over" in capsys.readouterr().out
    assert main.main(["study", "score", str(study_file), *places]) == 0
    assert "old  " not in capsys.readouterr().out

    (evidence / identity.LINEAGE).unlink()
    file.write_text(first.replace(sample.fingerprint, "0" * 16).replace(sample.sample.digest, "1" * 64))
    assert main.main(["study", "carry", str(study_file), *places]) == 0
    assert "before" in capsys.readouterr().out
    assert not (evidence / identity.LINEAGE).exists()


def test_every_study_loads_and_its_findings_name_its_claims() -> None:
    names = LIBRARY.names()
    assert names
    for name in names:
        study = LIBRARY.load(name)
        assert study.title and study.measures, name
        LIBRARY.causes(study)
        assert identity.of_runs(study) and identity.of_measures(study)


def test_a_variant_may_be_short_alone_and_have_another_file_of_a_seed_at_full_length(tmp_path: Path) -> None:
    keys = {"topology.preset": "dumbbell-10m", "controller.name": "dctcp", "workload.kind": "matrix", "time.duration": "1s"}
    files = {"workload.file": "usual-{seed}.csv"}
    both = Variant("both", by_seed=files, full={"workload.file": "full-{seed}.csv"})
    study = Study("t", [QUEUE], [both, Variant("brief", by_seed=files, short=True)], "own/t", base=keys)
    flow, file_names = "source,destination,port,start,stop,size\nh1,h3,5001,0,1,0\n", []
    for full in (False, True):
        options = StudyOptions(tmp_path, full=full)
        collect.write(collect.folder("t", options), {"usual-2.csv": flow, "full-2.csv": flow})
        specs = {variant.name: collect.spec_of(study, variant, options, 2) for variant in study.chosen(options)}
        file_names.append({name: Path(dict(spec.workload.own)["file"]).name for name, spec in specs.items()})
    assert file_names == [{"both": "usual-2.csv", "brief": "usual-2.csv"}, {"both": "full-2.csv"}]


def test_what_makes_a_track_has_an_identity() -> None:
    """A track's class has methods without a text of their own, which its decorator generated."""
    sources: dict[str, Any] = {}
    identity._of_code(measured.track, sources)
    assert "class Track" in sources["dc_gym.study.evidence.Track"] and "dc_gym.study.measured.longest_queues" in sources


def broken(study: Study, evidence: Evidence) -> list[str]:
    """Returns the identities that evidence breaks; those about variants that did not run count as kept."""
    ran = [criterion for criterion in study.identities if set(criterion.about) <= set(evidence.variants)]
    return [criterion.words for criterion in ran if criterion.judge(evidence).verdict is not Verdict.SAME]


def test_stored_evidence_keeps_the_identities_of_its_study() -> None:
    places = Path(__file__).parents[2] / "results/evidence"
    for name in LIBRARY.names():
        study = LIBRARY.load(name)
        if (file := table.path_of(places, name, full=False)).is_file() and not study.of:
            assert broken(study, study.derive(table.evidence_of(study, table.read(file)))) == [], name


def test_an_identity_that_is_broken_is_told() -> None:
    study = Study("T", [QUEUE], identities=[claims.less_than("a", QUEUE, 11), claims.less_than("absent", QUEUE, 11)])
    sound, spoilt = (Evidence({"a": variant("a", values)}) for values in ([10, 10.5], [10, 12]))
    assert broken(study, sound) == [] and broken(study, spoilt) == ["queue (kB) of a below 0.011 for every seed"]
