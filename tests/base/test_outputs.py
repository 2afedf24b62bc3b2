# SPDX-License-Identifier: Apache-2.0
"""Where commands write: they replace their own output for the same inputs; anything else stays unless the user gives it up."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import synthetic

from dc_gym.base.errors import UsageError
from dc_gym.base.outputs import free_place, is_json_of, is_marked, is_table_of, mark_of, require_place
from dc_gym.cli import main
from dc_gym.results.pages import report
from dc_gym.run.sweep import runs

CAT = b"a picture of my cat"


def test_a_mark_knows_the_command_and_its_sources(tmp_path: Path) -> None:
    output = tmp_path / "x.html"
    mark = mark_of("report", [tmp_path / "a", tmp_path / "b"], output)
    assert mark == mark_of("report", [tmp_path / "b", tmp_path / "." / "a"], output), "in any order, however they are written"
    others = [mark_of("plot", [tmp_path / "a", tmp_path / "b"], output), mark_of("report", [tmp_path / "a"], output)]
    assert mark not in others and str(tmp_path) not in mark
    moved = tmp_path / "elsewhere"
    assert mark == mark_of("report", [moved / "a", moved / "b"], moved / "x.html"), "a tree may move as a whole"


def test_what_would_be_lost_is_refused(tmp_path: Path) -> None:
    has_mark, output = is_marked("dcgym report 12"), tmp_path / "x.html"
    require_place(output, has_mark)
    for content in (CAT, b""):
        output.write_bytes(content)
        with pytest.raises(UsageError, match=r"x.html exists, .*--force"):
            require_place(output, has_mark)
        require_place(output, has_mark, force=True)
    output.write_bytes(b"<meta content='dcgym report 12'>")
    require_place(output, has_mark)
    with pytest.raises(UsageError, match="is a folder"):
        require_place(tmp_path, has_mark, force=True)
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "none")
    with pytest.raises(UsageError, match="exists"):
        require_place(dangling, has_mark)


def test_tables_and_json_are_known_by_what_they_say(tmp_path: Path) -> None:
    output = tmp_path / "x"
    output.write_text("a,b\n1,2\n")
    assert is_table_of(["a", "b"])(output) and not is_table_of(["a"])(output) and not is_json_of(bench="links")(output)
    output.write_text(json.dumps({"bench": "links", "bars": []}))
    assert is_json_of(bench="links")(output) and not is_json_of(bench="speed")(output) and not is_table_of(["a", "b"])(output)
    output.write_bytes(b"\xff\xfe\x00")
    assert not is_table_of(["a"])(output) and not is_json_of(bench="links")(output) and not is_marked("x")(tmp_path / "none")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # to read it would take for ever, as with some devices
    assert not is_table_of(["a"])(pipe) and not is_json_of(bench="links")(pipe) and not is_marked("x")(pipe)


def test_a_file_that_nobody_named_finds_a_place_of_its_own(tmp_path: Path) -> None:
    output = tmp_path / "results" / "incast.png"
    assert runs.figure_place(output, "incast") == output
    output.write_bytes(CAT)
    second = runs.figure_place(output, "incast")
    assert second == output.with_name("incast-2.png")
    second.write_bytes(runs.mark_of("incast").encode())
    assert runs.figure_place(output, "incast") == second, "its own it renews"
    assert free_place(second, is_marked("other")) == output.with_name("incast-2-2.png")


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a", "b"):
        synthetic.result(tmp_path / "results" / "sweep" / name)
    monkeypatch.chdir(tmp_path)
    return Path("results/sweep")


def test_a_report_lies_beside_its_results(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = sweep / "a", sweep / "b"
    assert report.default_place([sweep]) == sweep / "report.html"
    assert report.default_place([one, two]) == Path("results/sweep/report-a-b.html")
    assert report.default_place([sweep, one]) == Path("results/report-sweep-a.html")
    assert report.default_place([Path(name) for name in "pqrst"]) == Path("report-p-q-r-and-2-more.html")
    apart = report.default_place([Path("/one/a"), Path("/two/b")])
    assert apart == Path("report-a-b.html"), "they have nothing in common but the machine"
    assert main.main(["report", str(sweep), "--quiet"]) == 0
    assert capsys.readouterr().out == f"{sweep / 'report.html'}\n" and not (tmp_path / "report.html").exists()


def test_reports_replace_nothing_but_themselves(sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, words = sweep / "report.html", ["report", str(sweep), "--quiet"]
    page.write_bytes(CAT)
    assert main.main(words) == 2 and page.read_bytes() == CAT
    assert "--force" in capsys.readouterr().err
    assert main.main([*words, "--force"]) == 0 and page.read_bytes() != CAT
    assert main.main([*words, "--count-unfit"]) == 0, "a report of the same folder is renewed"
    assert main.main(["report", str(sweep / "a"), "--out", str(page), "--quiet"]) == 2, "one of others is not"
    figures = tmp_path / "figures"
    assert main.main([*words, "--figures", str(figures)]) == 0
    assert main.main([*words, "--figures", str(figures)]) == 0
    chosen = sorted(figures.iterdir())[0]
    chosen.write_bytes(CAT)
    before = page.read_bytes()
    page.write_bytes(before + b"<!-- -->")
    assert main.main([*words, "--figures", str(figures)]) == 2 and chosen.read_bytes() == CAT
    assert page.read_bytes() == before + b"<!-- -->", "nothing was written at all"


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_a_drawn_network_replaces_nothing_but_itself(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = Path(f"net.{suffix}")
    words = ["topology", "dumbbell-10m", "--png", str(output)]
    output.write_bytes(CAT)
    assert main.main(words) == 2 and output.read_bytes() == CAT
    assert main.main([*words, "--force"]) == 0 == main.main(words)
    assert main.main(["topology", "dumbbell-1g", "--png", str(output)]) == 2


def test_a_bench_s_json_replaces_nothing_but_itself(tmp_path: Path) -> None:
    output = tmp_path / "x.json"
    output.write_bytes(CAT)
    assert main.main(["bench", "links", "--json", str(output)]) == 2, "before minutes of measuring"
    assert output.read_bytes() == CAT


def test_a_record_of_golden_digests_leaves_that_of_another_environment(tmp_path: Path) -> None:
    from dc_gym.cli.verify import golden

    golden_file = tmp_path / "unknown.json"
    here, there = (golden.GoldenEntry({"linux": name}, {"kernel": "k"}, {"a": "1"}) for name in ("here", "there"))
    assert golden.record(here, golden_file) == golden_file == golden.record(here, golden_file)
    assert golden.record(there, golden_file) == tmp_path / "unknown-2.json"
    assert json.loads(golden_file.read_text())["outside"] == {"linux": "here"}
