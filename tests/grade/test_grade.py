# SPDX-License-Identifier: Apache-2.0
"""`dcgym grade`: rubrics, a student's seeds, model answers and wrong ones, and submissions that are not what they should be."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from facts import states

from dc_gym.base.errors import UsageError
from dc_gym.base.progress import Quiet
from dc_gym.cli import parser
from dc_gym.cli.main import main
from dc_gym.grade import marking, proof, rubric, submission
from dc_gym.grade.rubric import Question, Rubric
from dc_gym.results.figures.sweep_figure import Curve, CurvePoint
from dc_gym.run.sweep import local, run_grid

ROOT = Path(__file__).resolve().parents[2]
LABS = ROOT / "docs" / "labs"
KEPT: dict[str, Any] = json.loads((LABS / "pictures.json").read_text())
NAMES = sorted(path.stem for path in (ROOT / "examples/labs").glob("*.toml"))
SWEEP = """
name = "tiny"
[base]
seed = 1
topology = { preset = "dumbbell-10m", jitter = "100us" }
controller = { name = "cubic" }
workload = { kind = "pairs", jitter = "10ms" }
time = { duration = "300ms", warmup = "100ms" }
[grid]
"controller.name" = ["cubic", "dctcp"]
seed = "1..2"
"""
RUBRIC = """
sweep = "sweep.toml"
x = "workload.kind"
within = 0.01
[questions]
q1 = { measure = "mean_srtt_us", line = "cubic", x = "pairs", unit = "ms" }
q2 = { measure = "flow_goodput_bps.0", line = "cubic", x = "pairs", unit = "Mbit/s", take = "most" }
q3 = { measure = "mean_queue_bytes", line = "dctcp", x = "pairs", unit = "kB", points = 2 }
"""


def lab(name: str) -> Rubric:
    if not (LABS / "rubrics").is_dir():
        pytest.skip("a teacher withholds the rubrics")
    return rubric.read(LABS / "rubrics" / f"{name}.toml")


def kept_curves(of: Rubric) -> dict[str, list[Curve]]:
    """Returns what the runs of a lab's picture give. That of ECMP has the rubric's lines over the seeds."""
    shows = KEPT[of.lab]["shows"]
    lines = {
        measure: [Curve(line["name"], tuple(point_of(point["x"], point["values"]) for point in line["points"])) for line in lines]
        for measure, lines in shows["panels"].items()
    }
    if shows["axis"]["key"] == of.x:
        return lines
    assert (shows["axis"]["key"], shows["by_key"]) == ("seed", of.x)
    over = {measure: [point_of(line.name, [point.mean for point in line.points]) for line in lines[measure]] for measure in lines}
    return {measure: [Curve("dctcp", tuple(points))] for measure, points in over.items()}


def point_of(x: float | str, values: Sequence[float]) -> CurvePoint:
    return CurvePoint(x, sum(values) / len(values), None, tuple(values))


def answered(question: Question, value: float) -> str:
    return f"{value / question.factor:.5g} {question.unit}".strip()


@pytest.mark.parametrize("name", NAMES)
def test_model_answers_get_all_points_and_wrong_ones_none(name: str) -> None:
    of = lab(name)
    values = marking.values(of, kept_curves(of))
    measured = {key: value for key, value in values.items() if value is not None}
    assert measured.keys() == of.questions.keys() and len(measured) >= 5
    right = {key: answered(of.questions[key], value) for key, value in measured.items()}
    close = {key: answered(of.questions[key], value * (1 + of.questions[key].within / 2)) for key, value in measured.items()}
    far = {key: answered(of.questions[key], value * (1 + of.questions[key].within * 2)) for key, value in measured.items()}
    for answers in (right, close):
        assert all(mark.points == mark.most and not mark.why for mark in marking.marks_of(of, answers, values))
    for answers in (far, {}, dict.fromkeys(right, "?"), {key: f"{text} parsec" for key, text in right.items()}):
        assert all(mark.points == 0 and mark.why for mark in marking.marks_of(of, answers, values))
    assert not any(mark.points for mark in marking.marks_of(of, right, dict.fromkeys(values)))


@pytest.mark.parametrize("name", NAMES)
def test_a_task_has_commands_that_are_taken_and_a_line_for_each_question(name: str) -> None:
    of = lab(name)
    lines = list(of.task("4711"))
    for line in lines[1:3]:
        words = shlex.split(line.removeprefix("#"))
        parser.build(words[1]).parse_args(words[1:])
    asked = set(re.findall(r"^(\d)\. ", (LABS / f"{name}.md").read_text(), re.MULTILINE))
    assert [line.partition(" = ")[0] for line in lines[4:]] == list(of.questions)
    assert {key[1] for key in of.questions} <= asked
    given = [point.values["seed"] for point in of.points_of("4711")]
    assert set(given) == set(of.seeds("4711"))


def test_no_two_students_have_a_seed_in_common() -> None:
    of = lab("ecmp")
    seeds = [seed for number in range(500) for seed in of.seeds(f"s{number}")]
    assert len(set(seeds)) == len(seeds) == 500 * 12
    assert of.seeds("Ada ") == of.seeds("ada") != lab("spraying").seeds("ada")
    for odd in ("", "..", "a/b", "a\nb", "a" * 65):
        with pytest.raises(UsageError, match="--student"):
            of.seeds(odd)


@pytest.mark.parametrize(
    ("answer", "bps"),
    [
        ("19 Mbit/s", 19e6),
        ("0.019Gbit/s", 19e6),
        ("19,000 kbit/s", 19e6),
        ("19", 0),
        ("19 MB", 0),
        ("-1 Mbit/s", 0),
        ("1.9e1 Mbit/s", 19e6),
    ],
)
def test_an_answer_may_have_any_unit_of_its_kind(answer: str, bps: float) -> None:
    question = Question("goodput_bps", "cubic", "pairs", 0.01, "Mbit/s")
    if bps:
        assert question.amount(answer) == pytest.approx(bps)
    else:
        with pytest.raises(ValueError, match=r"1\.5 Mbit/s"):
            question.amount(answer)


@pytest.mark.parametrize(
    ("old", "new", "facts"),
    [
        ("within = 0.01", "", "within: is missing"),
        ("unit = ", "units = ", "q1: key 'units' is unknown; did you mean unit?"),
        ('"ms"', '"Mbit/s"', "q1: unit 'Mbit/s' is unknown; did you mean ms?"),
        ('"most"', '"last"', "q2: take 'last' is unknown"),
        ("points = 2", "points = -2", "points: -2 is not a number"),
        ("[questions]", "[questions", "not valid TOML"),
    ],
)
def test_a_strange_rubric_is_one_line(old: str, new: str, facts: str, tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(RUBRIC.replace(old, new))
    with pytest.raises(UsageError) as error:
        rubric.read(path)
    assert states(str(error.value), f"{path}: not a rubric: ... {facts}") and "\n" not in str(error.value)


Class = tuple[Path, dict[str, Path]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, lab_kernel: Any) -> Class:
    """A lab of four short runs, which two students have made by the commands of their tasks."""
    folder = tmp_path_factory.mktemp("grade")
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "tiny.toml").write_text(RUBRIC)
    made = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for student in ("ada", "bob"):
            words = shlex.split(list(rubric.read(Path("tiny.toml")).task(student))[1].removeprefix("#"))
            assert main([*words[1:], "--quiet"]) == 0
            made[student] = folder / words[-1]
    return folder / "tiny.toml", made


@pytest.fixture
def graded(runs: Class, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Grades a copy of Ada's submission, with model answers, after a change. Returns exit code, and report or error."""
    path, made = runs
    of, folder = rubric.read(path), tmp_path / "handed-in"
    shutil.copytree(made["ada"], folder)

    def grade(change: Callable[[Path, list[Path]], object] = lambda *_: None, sample: int = 0, **answers: str) -> tuple[int, Any]:
        names = [point.name for point in of.points_of("ada")]
        summaries = [json.loads((made["ada"] / name / "summary.json").read_text()) for name in names]
        right = {
            "q1": f"{sum(summary['mean_srtt_us'] for summary in summaries[:2]) / 2e3:.4g} ms",
            "q2": f"{max(summary['flow_goodput_bps'][0] for summary in summaries[:2]) / 1e6:.4g} Mbit/s",
            "q3": f"{sum(summary['mean_queue_bytes'] for summary in summaries[2:]) / 2e3:.4g} kB",
        }
        text = "".join(f"{key} = {json.dumps(answer)}\n" for key, answer in {**right, **answers}.items())
        (folder / rubric.ANSWERS).write_text(text)
        change(folder, [folder / name for name in names])
        capsys.readouterr()
        words = ["--student", "ada", "--submission", str(folder), "--sample", str(sample), "--json", "--quiet"]
        status = main(["grade", str(path), *words])
        out, error = capsys.readouterr()
        return status, json.loads(out) if out else error

    return grade


def edit(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.lab
def test_the_students_own_runs_are_proven_and_right_answers_get_all_points(graded: Callable[..., tuple[int, Any]]) -> None:
    status, report = graded(sample=9)
    assert (status, report["points"], report["most"]) == (0, 4, 4)
    assert (report["findings"], report["notes"], report["proof"]) == ({}, [], "runs made again: 4 equal")


@pytest.mark.lab
def test_a_wrong_answer_costs_its_points_alone(graded: Callable[..., tuple[int, Any]]) -> None:
    status, report = graded(q3="1 MB", q4="1 ms")
    assert (status, report["points"], report["findings"]) == (0, 2, {})
    assert states(report["marks"][2]["why"], "not within 1%") and states(report["notes"][0], "'q4': no such question")


@pytest.mark.lab
def test_the_report_in_words(runs: Class, graded: Callable[..., tuple[int, Any]], capsys: Any, tmp_path: Path) -> None:
    graded(q1="many \x1b[31m")
    words = ["--student", "ada", "--submission", str(tmp_path / "handed-in"), "--sample", "0", "--quiet"]
    assert main(["grade", str(runs[0]), *words]) == 0
    out = capsys.readouterr().out
    assert states(out, "q1 ... many ... 0 of 1 ... write it like '1.5 ms' ... q3 ... 2 of 2")
    assert out.endswith("tiny, student ada: 3 of 4 points; runs made again: none\n") and "\x1b" not in out


def without_a_run(folder: Path, names: list[Path]) -> None:
    shutil.rmtree(names[0])


def with_another_spec(folder: Path, names: list[Path]) -> None:
    path = names[0] / "manifest.json"
    spec = json.loads(path.read_text())["spec"]
    edit(path, spec=spec | {"time": spec["time"] | {"warmup": "50ms"}}, dcgym="0.0.1")


def with_another_number(folder: Path, names: list[Path]) -> None:
    edit(names[0] / "summary.json", mean_srtt_us=1.0)


def with_a_number_that_is_none(folder: Path, names: list[Path]) -> None:
    edit(names[0] / "summary.json", mean_srtt_us=None)


def with_the_table_of_another_run(folder: Path, names: list[Path]) -> None:
    shutil.copy(names[1] / "tcp.parquet", names[0])


def with_a_link_as_a_run(folder: Path, names: list[Path]) -> None:
    names[0].rename(folder.parent / "elsewhere")
    names[0].symlink_to(folder.parent / "elsewhere")


def with_a_link_in_a_run(folder: Path, names: list[Path]) -> None:
    (names[0] / "lab.log").unlink(missing_ok=True)
    (names[0] / "lab.log").symlink_to("/etc/passwd")


def with_a_pipe_in_a_run(folder: Path, names: list[Path]) -> None:
    (names[0] / "summary.json").unlink()
    os.mkfifo(names[0] / "summary.json")


def with_an_unfit_run(folder: Path, names: list[Path]) -> None:
    edit(names[0] / "manifest.json", fit=False, unfit_reasons=["a program died"])


@pytest.mark.lab
@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (without_a_run, "is missing"),
        (with_another_spec, "another spec: time.warmup 50ms instead of 100ms; dcgym 0.0.1 made it"),
        (with_another_number, "summary.json was changed: mean_srtt_us 1.0, its tables give"),
        (with_a_number_that_is_none, "summary.json was changed: mean_srtt_us None"),
        (with_the_table_of_another_run, "the tables have digest ... they were changed"),
        (with_a_link_as_a_run, "is a link"),
        (with_a_link_in_a_run, "lab.log is a link"),
        (with_a_pipe_in_a_run, "summary.json is no plain file"),
        (with_an_unfit_run, "unfit: a program died"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_run_that_does_not_pass_is_named_and_does_not_count(
    change: Callable[..., None], facts: str, graded: Callable[..., tuple[int, Any]]
) -> None:
    status, report = graded(change)
    (finding,) = report["findings"].values()
    assert status == 1 and states(finding, facts) and "\n" not in finding
    assert [mark["points"] for mark in report["marks"]] == [0, 0, 2]
    assert states(report["marks"][0]["why"], "does not count") and report["proof"] == "runs made again: none"


def without_answers(folder: Path, names: list[Path]) -> None:
    (folder / rubric.ANSWERS).unlink()


def with_a_link_as_answers(folder: Path, names: list[Path]) -> None:
    without_answers(folder, names)
    (folder / rubric.ANSWERS).symlink_to("/etc/passwd")


def with_many_answers(folder: Path, names: list[Path]) -> None:
    os.truncate(folder / rubric.ANSWERS, 10**12)


def with_a_letter_as_answers(folder: Path, names: list[Path]) -> None:
    (folder / rubric.ANSWERS).write_text("Dear teacher,")


def without_runs(folder: Path, names: list[Path]) -> None:
    for name in names:
        shutil.rmtree(name)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("change", "facts"),
    [
        (without_answers, "answers.toml: cannot read the answers: No such file ... without --submission"),
        (with_a_link_as_answers, "answers.toml: it is no plain file"),
        (with_many_answers, "answers.toml: states ... at most"),
        (with_a_letter_as_answers, "answers.toml: not valid TOML"),
        (without_runs, "none of the 4 runs of this student, such as cubic-s"),
        (lambda folder, _: shutil.rmtree(folder), "no such folder"),
    ],
)
def test_what_cannot_be_graded_is_one_line(
    change: Callable[..., None], facts: str, graded: Callable[..., tuple[int, Any]]
) -> None:
    status, error = graded(change)
    assert status == 2 and states(error, facts) and error.count("\n") == 1


def as_bob(runs: Class, **manifest: Any) -> Callable[[Path, list[Path]], None]:
    """Returns a change: Bob's runs, with the names and the seeds of Ada's."""

    def change(folder: Path, names: list[Path]) -> None:
        for own, other in zip(names, rubric.read(runs[0]).points_of("bob"), strict=True):
            spec = json.loads((own / "manifest.json").read_text())["spec"]
            shutil.rmtree(own)
            shutil.copytree(runs[1]["bob"] / other.name, own)
            edit(own / "manifest.json", spec=spec, **manifest)

    return change


@pytest.mark.lab
def test_a_neighbours_runs_are_another_students(runs: Class, graded: Callable[..., tuple[int, Any]]) -> None:
    def renamed(folder: Path, names: list[Path]) -> None:
        as_bob(runs)(folder, names)
        for own, other in zip(names, rubric.read(runs[0]).points_of("bob"), strict=True):
            shutil.copy(runs[1]["bob"] / other.name / "manifest.json", own)

    status, report = graded(renamed)
    assert (status, report["points"], len(report["findings"])) == (1, 0, 4)
    assert all(re.search(r"another spec: seed \d+ instead of \d+", finding) for finding in report["findings"].values())


@pytest.mark.lab
def test_a_neighbours_runs_under_the_students_seed_are_found(runs: Class, graded: Callable[..., tuple[int, Any]]) -> None:
    status, report = graded(as_bob(runs), sample=2)
    assert (status, report["points"], report["proof"]) == (1, 0, "runs made again: 2 other")
    told = sorted(report["findings"].values(), key=len)
    assert len(told) == 4 and told[:2] == ["was not made again: does not count"] * 2
    assert all(states(finding, "digest ... when it is made again: it is not what its spec gives") for finding in told[2:])


@pytest.mark.lab
def test_runs_of_another_release_are_no_finding_and_no_proof(runs: Class, graded: Callable[..., tuple[int, Any]]) -> None:
    status, report = graded(as_bob(runs, fingerprint="f00d", environment={"kernel": "6.1"}), sample=1)
    assert (status, report["findings"]) == (1, {})
    assert report["proof"] == "runs made again: 1 of another release, not proven"
    assert states(report["notes"][0], "another release made it (kernel 6.1, here")


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_the_first_and_the_last_run_of_each_lab_pass(name: str, tmp_path: Path, lab_kernel: Any) -> None:
    of, out = lab(name), tmp_path / "made"
    tmp_path.chmod(0o755)
    whole = rubric.grid.load(of.sweep, axes={"seed": list(of.seeds("ada"))})
    points = (whole.points[0], whole.points[-1])
    run_grid(replace(whole, points=points), out, local(1), Quiet())
    (out / rubric.ANSWERS).touch()
    read = submission.read(out, of, points)
    assert (read.findings, list(read.runs)) == ({}, [point.name for point in points])
    assert proof.prove(points, read.runs, 2, 1, tmp_path / "again", Quiet()).text == "runs made again: 2 equal"


@pytest.mark.lab
@pytest.mark.long
def test_a_whole_lab_from_its_task_to_its_points(tmp_path: Path, monkeypatch: Any, capsys: Any, lab_kernel: Any) -> None:
    """Pause storms: the picture's numbers, of seed 1, are a student's own where the seed hardly matters, and only there."""
    path, of = LABS / "rubrics" / "pauses.toml", lab("pauses")
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    words = shlex.split(list(of.task("4711"))[1].removeprefix("#"))[1:]
    assert main([*words, "--quiet"]) == 0
    values = marking.values(of, kept_curves(of))
    text = "".join(f'{key} = "{answered(of.questions[key], value or 0)}"\n' for key, value in values.items())
    (Path(words[-1]) / rubric.ANSWERS).write_text(text)
    capsys.readouterr()
    assert main(["grade", str(path), "--student", "4711", "--submission", words[-1], "--json", "--quiet"]) == 0
    report = json.loads(capsys.readouterr().out)
    wrong = [mark["question"] for mark in report["marks"] if not mark["points"]]
    assert report["proof"] == "runs made again: 3 equal" and wrong == ["q4_victim_500M"]
