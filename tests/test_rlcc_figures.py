# SPDX-License-Identifier: Apache-2.0
"""The figures of RL-CC and PCC-RL: what each asks for, what runs come to, and a figure from labs."""

import json

import pytest

from dc_gym import cli, results
from dc_gym.benchmarks import rlcc, rlcc_cluster, rlcc_table_5
from dc_gym.progress import Quiet
from dc_gym.reproduce import page, registry, scaled, series
from dc_gym.reproduce.claims import Claim, below, judge
from dc_gym.reproduce.findings import Contender, Evidence
from dc_gym.reproduce.order import Order
from dc_gym.reproduce.scaled import MS, US, Length
from dc_gym.reproduce.series import Series

FIGURES = [(paper.name, number) for paper in registry.PAPERS.values() if paper.name != "iroko" for number in paper.figures]
SHORT = Length(1 * MS, 400 * US)


def module_of(paper, number):
    return __import__(f"{registry.MODULES}.{registry.PAPERS[paper].figures[number]}", fromlist=["TITLE"])


@pytest.mark.parametrize(("paper", "number"), FIGURES)
def test_every_row_has_a_spec_and_claims_are_about_rows(paper, number, tmp_path):
    module = module_of(paper, number)
    rows = getattr(module, "ROWS", ())
    names = [row.name for row in rows]
    assert module.TITLE and callable(module.run) and len(set(names)) == len(names)
    for row in rows:
        for full in (False, True):
            spec = rlcc.spec(row, Order(tmp_path, full=full), 1)
            assert spec.controller.name == row.controller and spec.topology.scale == (1 if full else 100)
            assert spec.time.duration_ns > spec.time.warmup_ns > 0
    for claim in getattr(module, "CLAIMS", ()):
        assert claim.text and claim.source and claim.criteria
        if rows:
            assert {name for each in claim.criteria for name in each.about} <= set(names)


def test_times_are_scaled_and_nothing_else():
    asked = {"kind": "long_short", "long": 2, "short_start": 5 * MS, "size": "1MB", "nic.latency": 900, "nic.timeout": "1ms"}
    found = scaled.scaled(asked, 100)
    assert found == asked | {"short_start": "500000000ns", "nic.latency": "90000ns"}


def test_the_base_round_trip_is_that_of_table_3(tmp_path):
    row = rlcc.many_to_one("x", "rlcc-tree", rlcc.FOUR, 4)
    cable = rlcc.spec(row, Order(tmp_path, full=True), 1).graph().cables[0]
    assert 4 * cable.delay_ns + 2 * 1514 * 8 / 100 == pytest.approx(6050, rel=0.01)


def test_the_command_line_has_the_last_word(tmp_path):
    row = rlcc.many_to_one("x", "rlcc-tree", rlcc.SEVEN, 16, values={"nic.latency": 900})
    spec = rlcc.spec(row, Order(tmp_path, duration="400ms", overrides=("nic.latency=5us",)), 3)
    assert (spec.nic.latency_ns, spec.time.duration_ns, spec.time.warmup_ns, spec.seed) == (5000, 400 * MS, 100 * MS, 3)
    other = rlcc.spec(row, Order(tmp_path), 3)
    assert other.nic.latency_ns == 90_000 and other.time.duration_ns == rlcc.DEFAULT.duration_ns * 100


def test_what_nothing_is_trained_for_is_refused(capsys, tmp_path):
    assert cli.main(["reproduce", "rl-cc", "table-2", "--steps", "5", "--out", str(tmp_path)]) == 2
    assert "--steps 5: nothing is trained" in capsys.readouterr().err


@pytest.mark.lab
def test_rows_from_labs_their_figure_and_the_page_of_all_claims(tmp_path, lab_kernel):
    """Two flows that get a quarter of the line each: everything that is measured is known."""
    rate = {"nic.parameters": {"rate": 1 << 18}}
    paper = {rlcc.GOODPUT.name: 0.45}
    rows = [
        rlcc.many_to_one("quarter", "fixed", rlcc.FOUR, 2, length=SHORT, values=rate, paper=paper),
        rlcc.many_to_one("half", "fixed", rlcc.FOUR, 4, length=SHORT, values={"nic.parameters": {"rate": 1 << 19}}),
    ]
    order = Order(tmp_path, seeds=2)
    evidence = rlcc.run("tiny", rows, order, Quiet())
    quarter, half = evidence.contenders["quarter"], evidence.contenders["half"]
    for seed in (1, 2):
        assert quarter.numbers["goodput"][seed] == pytest.approx(0.5 * 1440 / 1514, rel=0.02)
        assert quarter.numbers["latency_s"][seed] == pytest.approx(6.06e-6, rel=0.02)
        assert quarter.numbers["inflation"][seed] == pytest.approx(1, abs=0.02) and quarter.numbers["drops_per_flow"][seed] == 0
        assert half.numbers["goodput"][seed] < 1440 / 1514 and half.numbers["drops_per_flow"][seed] > 0
        assert half.numbers["latency_s"][seed] > 300e-6, "a buffer of 5 MB is full"
    claim = Claim("less", "here", (below("quarter", "half", rlcc.LATENCY),), why="unknown")
    assert judge(claim, evidence).why == ""
    figure = series.figure(evidence, [Series("fixed", "#000000", {2: "quarter", 4: "half"})], [rlcc.GOODPUT], "flows", "T")
    found = rlcc.findings("T", rows, order, evidence, [rlcc.GOODPUT, rlcc.LATENCY], [claim], figure)
    assert page.header(found) == ["", rlcc.GOODPUT.title, "paper", rlcc.LATENCY.title]
    assert page.cells(found)[0][2] == "0.45" and page.cells(found)[1][2] == "-"
    page.write(tmp_path / "figure-x", "rl-cc", "x", found)
    assert (tmp_path / "figure-x" / "table.csv").read_text().splitlines()[0].endswith("latency_s,paper_goodput")
    text = page.overview(tmp_path, {"A paper": [tmp_path / "figure-x"]}).read_text()
    assert 'href="figure-x/index.html"' in text and "reproduced" in text and "A paper" in text
    assert json.loads((tmp_path / "figure-x" / "claims.json").read_text())["claims"][0]["why"] == ""
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "tiny" / "runs").glob("*/manifest.json")}
    rlcc.run("tiny", rows, order, Quiet())
    assert len(stamps) == 4 and all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert results.load_result(next(iter(stamps)).parent).manifest["fit"]


def tasks(**values):
    """All cases of all-to-all, by controller: goodput and latency."""
    rows = []
    for who, (goodput, latency_s) in values.items():
        for count in rlcc_cluster.DEFAULT[rlcc_cluster.ALL_TO_ALL]:
            title = rlcc_cluster.name(who, rlcc_cluster.ALL_TO_ALL, count)
            numbers = {"goodput": {1: goodput}, "latency_s": {1: latency_s}}
            rows.append(Contender(title, title, "#000000", numbers))
    return Evidence({each.name: each for each in rows})


def test_a_task_is_mastered_near_the_best_in_bandwidth_and_in_time():
    found = tasks(**{"DCQCN": (0.95, 50e-6), "Swift": (0.5, 10e-6), "RL-CC": (0.9, 12e-6)})
    told = {who: rlcc_table_5.ratios(found, rlcc_cluster.ALL_TO_ALL, who, 1) for who in rlcc_cluster.WHO}
    assert [told[who]["mastered"] for who in ("DCQCN", "Swift", "RL-CC")] == [0, 0, 1]
    assert told["DCQCN"]["longest"] == pytest.approx(5) and told["Swift"]["share"] == pytest.approx(0.5 / 0.95)
    assert rlcc_table_5.ratios(found, rlcc_cluster.ALL_TO_ALL, "RL-CC", 2) == {}, "that seed did not run"
