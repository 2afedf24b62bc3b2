# SPDX-License-Identifier: Apache-2.0
"""The figures of RL-CC and PCC-RL: their settings, their quantities, and a figure from labs."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies.rl_cc import cluster, common, figure_3, table_2, table_3, table_5
from dc_gym.cli import main
from dc_gym.nets import fluid, nic_policy
from dc_gym.nets.nic_policy import TablePolicy
from dc_gym.records import results
from dc_gym.study import page, registry, scaled, series, theory
from dc_gym.study.claims import Claim, below, judge
from dc_gym.study.evidence import VariantEvidence, Evidence
from dc_gym.study.options import StudyOptions
from dc_gym.study.identity import Provenance
from dc_gym.study.scaled import MS, US, RunLength
from dc_gym.study.series import VariantLine

FIGURES = [(name, number) for name in ("rl-cc", "pcc-rl") for number in registry.PAPERS[name].figures]
SHORT = RunLength(2 * MS, 400 * US)


def module_of(paper, number):
    return __import__(f"{registry.MODULES}.{registry.PAPERS[paper].figures[number]}", fromlist=["TITLE"])


@pytest.mark.parametrize(("paper", "number"), FIGURES)
def test_every_row_has_a_spec_and_claims_are_about_rows(paper, number, tmp_path):
    module = module_of(paper, number)
    rows = getattr(module, "ROWS", ())
    names = [row.name for row in rows]
    assert module.TITLE and callable(module.run) and len(set(names)) == len(names)
    for row in rows:
        for full in (False, *[True] * (row in (rows[0], rows[-1]))):
            spec = common.spec(row, StudyOptions(tmp_path, full=full), 1)
            assert spec.controller.name == row.controller and spec.topology.scale == (1 if full else 100)
            assert spec.time.duration_ns > spec.time.warmup_ns > 0
    for claim in getattr(module, "CLAIMS", ()):
        assert claim.text and claim.source and claim.criteria
        if rows:
            shown = {*names, *getattr(module, "BASE", ())}  # a figure may join several rows' quantities into one
            assert {name for each in claim.criteria for name in each.about} <= shown


def test_times_are_scaled_and_nothing_else():
    asked = {"kind": "long_short", "long": 2, "short_start": 5 * MS, "size": "1MB", "nic.latency": 900, "nic.timeout": "1ms"}
    found = scaled.scaled(asked, 100)
    assert found == asked | {"short_start": "500ms", "nic.latency": "90us"}


def test_the_base_round_trip_is_that_of_table_3(tmp_path):
    row = common.many_to_one("x", "rlcc-tree", common.FOUR, 4)
    cable = common.spec(row, StudyOptions(tmp_path, full=True), 1).graph().cables[0]
    assert 4 * cable.delay_ns + 2 * 1514 * 8 / 100 == pytest.approx(6050, rel=0.01)


def test_the_command_line_has_the_last_word(tmp_path):
    row = common.many_to_one("x", "rlcc-tree", common.SEVEN, 16, values={"nic.latency": 900})
    spec = common.spec(row, StudyOptions(tmp_path, duration="400ms", overrides=("nic.latency=5us",)), 3)
    assert (spec.nic.latency_ns, spec.time.duration_ns, spec.time.warmup_ns, spec.seed) == (5000, 400 * MS, 100 * MS, 3)
    other = common.spec(row, StudyOptions(tmp_path), 3)
    assert other.nic.latency_ns == 90_000 and other.time.duration_ns == common.DEFAULT.duration_ns * 100


@pytest.mark.parametrize(("paper", "figure"), [("rl-cc", "table-2"), ("pcc-rl", "table-1")])
def test_what_nothing_is_trained_for_is_refused(capsys, tmp_path, paper, figure):
    assert main.main(["reproduce", paper, figure, "--steps", "5", "--out", str(tmp_path)]) == 2
    assert f"--steps 5: nothing is trained for {figure} of {paper}" in capsys.readouterr().err
    assert main.main(["reproduce", "rl-cc", "--steps", "5", "--out", str(tmp_path)]) == 2
    assert "--steps 5: nothing is trained for the figures of rl-cc" in capsys.readouterr().err


@pytest.mark.lab
def test_rows_from_labs_their_figure_and_the_page_of_all_claims(tmp_path, lab_kernel):
    """Two flows get a quarter of the line each, so that all measured values are known."""
    rate = {"nic.parameters": {"rate": 1 << 18}}
    paper = {common.GOODPUT.name: 0.45}
    rows = [
        common.many_to_one("quarter", "fixed", common.FOUR, 2, length=SHORT, values=rate, paper=paper),
        common.many_to_one("half", "fixed", common.FOUR, 4, length=SHORT, values={"nic.parameters": {"rate": 1 << 19}}),
    ]
    options = StudyOptions(tmp_path, seeds=2)
    evidence = common.run("tiny", rows, options, Quiet())
    quarter, half = evidence.variants["quarter"], evidence.variants["half"]
    for seed in (1, 2):
        assert quarter.numbers["goodput"][seed] == pytest.approx(0.5 * 1440 / 1514, rel=0.02)
        assert quarter.numbers["latency_s"][seed] == pytest.approx(6.06e-6, rel=0.02)
        assert quarter.numbers["inflation"][seed] == pytest.approx(1, abs=0.02) and quarter.numbers["drops_per_flow"][seed] == 0
        assert half.numbers["goodput"][seed] < 1440 / 1514 and half.numbers["drops_per_flow"][seed] > 0
        assert half.numbers["latency_s"][seed] > 300e-6, "a buffer of 5 MB is full"
    claim = Claim("less", "here", (below("quarter", "half", common.LATENCY),), why="unknown")
    assert judge(claim, evidence).why == ""
    figure = series.figure(
        evidence, [VariantLine("fixed", "#000000", {2: "quarter", 4: "half"})], [common.GOODPUT], "flows", "T"
    )
    found = common.findings("T", rows, options, evidence, [common.GOODPUT, common.LATENCY], [claim], figure)
    assert page.header(found) == ["", common.GOODPUT.title, "paper", common.LATENCY.title]
    assert page.cells(found)[0][2] == "0.45" and page.cells(found)[1][2] == "-"
    page.write(tmp_path / "figure-x", "rl-cc", "x", found, Provenance({}, "", {}))
    assert (tmp_path / "figure-x" / "table.csv").read_text().splitlines()[0].endswith("latency_s,paper_goodput")
    text = page.overview(tmp_path, {"A paper": [tmp_path / "figure-x"]}).read_text()
    assert 'href="figure-x/index.html"' in text and "reproduced" in text and "A paper" in text
    assert json.loads((tmp_path / "figure-x" / "claims.json").read_text())["claims"][0]["why"] == ""
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "tiny" / "runs").glob("*/manifest.json")}
    common.run("tiny", rows, options, Quiet())
    assert len(stamps) == 4 and all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert results.load_result(next(iter(stamps)).parent).manifest["fit"]


def test_a_legend_of_long_names_stays_within_its_figure():
    names = [f"8 x 32 flows, lossy (the paper's best K: {k} kB)" for k in (20, 50, 100, 200)]
    rows = [VariantEvidence(each, each, "#000000", {"goodput": {1: 0.5}}) for each in names]
    lines = [VariantLine(each, "#000000", {2: each}) for each in names]
    evidence = Evidence({each.name: each for each in rows})
    figure = series.figure(evidence, lines, [common.GOODPUT, common.LATENCY], "flows", "T")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0


def tasks(**values):
    """Returns goodput and latency in all cases of all-to-all, by controller."""
    rows = []
    for who, (goodput, latency_s) in values.items():
        for count in cluster.DEFAULT[cluster.ALL_TO_ALL]:
            title = cluster.name(who, cluster.ALL_TO_ALL, count)
            numbers = {"goodput": {1: goodput}, "latency_s": {1: latency_s}}
            rows.append(VariantEvidence(title, title, "#000000", numbers))
    return Evidence({each.name: each for each in rows})


def test_a_task_is_mastered_near_the_best_in_bandwidth_and_in_time():
    found = tasks(**{"DCQCN": (0.95, 50e-6), "Swift": (0.5, 10e-6), "RL-CC": (0.9, 12e-6)})
    told = {who: table_5.ratios(found, cluster.ALL_TO_ALL, who, 1) for who in cluster.WHO}
    assert [told[who]["mastered"] for who in ("DCQCN", "Swift", "RL-CC")] == [0, 0, 1]
    assert told["DCQCN"]["longest"] == pytest.approx(5) and told["Swift"]["share"] == pytest.approx(0.5 / 0.95)
    assert table_5.ratios(found, cluster.ALL_TO_ALL, "RL-CC", 2) == {}, "that seed did not run"


def contender(name, **numbers):
    return VariantEvidence(name, name, "#000000", {quantity: dict(enumerate(values, 1)) for quantity, values in numbers.items()})


def evidence(*variants):
    return Evidence({each.name: each for each in variants})


def test_the_best_curve_of_its_kind_and_what_leaves_it():
    exact = {flows: theory.EQ_2(flows) for flows in (2, 8, 32, 128, 512, 2048)}
    fit = theory.best_fit(exact)
    assert (fit.a, fit.b) == pytest.approx((1.5, 0.064)) and exact[512] == pytest.approx(2.948, abs=1e-3)
    assert max(map(abs, theory.departures(exact, fit).values())) < 1e-9
    bent = exact | {2048: 2 * exact[2048]}
    assert max(map(abs, theory.departures(bent, theory.best_fit(bent)).values())) > 0.1
    assert theory.departures(exact, theory.at_offset(0.1))[2048] == pytest.approx(4.396 / 4.686 - 1, abs=1e-3)


def test_a_queue_that_swings_lets_the_network_rest_higher():
    file = nic_policy.load("rlcc-mlp")
    settled = fluid.settle(TablePolicy(file.table()), fluid.Bottleneck(64), file.scaling)
    assert table_3.inflation_at("rlcc-mlp", 64, 0.0) == pytest.approx(settled.inflation, abs=0.01)
    still, swinging = (table_3.inflation_at("rlcc-mlp", 2048, each) for each in (0.0, 0.56))
    assert (still, swinging) == (pytest.approx(4.69, abs=0.02), pytest.approx(5.06, abs=0.02))


def test_the_swing_is_that_of_the_receiver_s_port_in_the_window(monkeypatch):
    samples = [(t, port, 5000 * (t % 2) * (port == 1)) for t in range(8) for port in range(3)]
    queues = np.array(samples, [("t_ns", "<i8"), ("port", "<u4"), ("backlog_bytes", "<u4")])
    queues["backlog_bytes"][:9] = 10**6
    spec = {"time": {"warmup": "3ns"}, "workload": {"flows": 64}, "controller": {"name": "rlcc-tree"}}
    ports = [{"side": "host"}, {"side": "switch"}, {"side": "host"}]
    monkeypatch.setattr(table_3, "inflation_at", lambda *asked: asked)
    found = table_3.swing(SimpleNamespace(manifest={"spec": spec}, records=lambda _: queues, ports=ports))
    share = float(np.std([1, 0, 1, 0, 1])) * 5000 * 8e9 / 1e11 / 6050
    assert found["swing"] == pytest.approx(share, abs=1e-4)
    assert found["inflation_at_swing"] == ("rlcc-tree", 64, found["swing"])


def inflations(who, curve):
    return [contender(figure_3.name(who, flows), inflation=[curve(flows), curve(flows) * 1.001]) for flows in figure_3.FLOWS]


def test_swift_s_own_law_is_where_its_target_is_the_round_trip_and_bends_below_a_root():
    found = {flows: figure_3.swift_law(flows) for flows in figure_3.FLOWS}
    assert [round(each, 2) for each in found.values()] == [3.15, 3.48, 4.08, 5.1, 6.79, 9.55]
    few = theory.best_fit({flows: value for flows, value in found.items() if flows <= figure_3.MANY})
    assert theory.departures(found, few)[2048] == pytest.approx(-0.19, abs=0.01)
    most = (25 + 2 * 3.05 + 100) / 10
    assert figure_3.swift_law(10**6) == pytest.approx(most), "what flow scaling adds is bounded"


def test_swift_above_its_law_by_its_step_is_told_from_other_curves():
    claim = figure_3.CLAIMS[-1]

    def judged(*shares):
        curves = [lambda flows, each=each: each * figure_3.swift_law(flows) for each in shares]
        found = [inflations(who, curve) for who, curve in zip(figure_3.BY_STEP, curves, strict=True)]
        return str(judge(claim, evidence(*(one for each in found for one in each))).state)

    assert judged(1.0, 1.2, 1.5) == "reproduced"
    assert {judged(1.3, 1.2, 1.5), judged(0.5, 0.9, 1.5)} == {"not reproduced"}


@pytest.mark.parametrize(
    ("swift", "expected"),
    [
        (lambda flows: 2 + 0.1 * flows**0.5 + 4e-3 * flows, ["reproduced", "reproduced"]),
        (lambda flows: 2 + 0.1 * flows**0.5, ["not reproduced", "not reproduced"]),
    ],
)
def test_figure_3_tells_a_curve_that_leaves_its_law_from_one_that_does_not(swift, expected):
    found = evidence(*inflations("RL-CC", lambda flows: 1.02 * theory.EQ_2(flows)), *inflations("Swift", swift))
    states = [
        str(judge(claim, found).state) for claim in figure_3.CLAIMS if not claim.variant and claim not in figure_3.CLAIMS[-1:]
    ]
    assert states[0] == "reproduced" and states[2:] == expected
    apart = evidence(*found.variants.values(), *inflations(figure_3.SWIFT_WINDOW, swift))
    assert [str(judge(claim, apart).state) for claim in figure_3.CLAIMS if claim.variant == common.WINDOW] == expected
    far = evidence(*inflations("RL-CC", lambda flows: 1.2 * theory.EQ_2(flows)), *inflations("Swift", swift))
    assert str(judge(figure_3.CLAIMS[0], far).state) == "not reproduced"


def test_the_crossover_of_table_2_is_where_goodput_halves():
    def row(name, goodput, drops):
        return contender(name, goodput=[goodput, goodput], late_drops_per_flow=[drops, drops])

    titles = {us: table_2.name(table_2.in_turn(f"{us} us"), 64) for us in (50, 150)}
    fast, slow = (table_2.name(table_2.in_turn(net), 64) for net in ("MLP", "LSTM"))
    tree = row(table_2.name("tree", 64), 0.9, 0)
    found = evidence(tree, row(fast, 0.9, 0), row(titles[50], 0.9, 0), row(titles[150], 0.7, 30), row(slow, 0.3, 900))
    said = table_2.crossover(found)
    assert "drops begin between 50 and 150 us" in said and "goodput between 150 and 450 us" in said
    calm = evidence(tree, row(fast, 0.9, 0), row(titles[50], 0.9, 0), row(titles[150], 0.9, 0), row(slow, 0.9, 0))
    assert table_2.crossover(calm).count("beyond 450 us") == 2


def test_rows_in_turn_are_as_long_as_their_decisions_take(tmp_path):
    """64 flows are at most 11 per NIC; with 450 us each, that is 4.95 ms."""
    row = next(each for each in table_2.ROWS if each.name == "LSTM in turn, 64 flows")
    spec = common.spec(row, StudyOptions(tmp_path), 1)
    assert spec.nic.decisions == "in-turn" and spec.time.duration_ns >= 24 * 11 * 450 * US * 100
    assert dict(spec.nic.parameters)["rate_initial"] == 2**20 // 64


def test_rows_with_a_full_queue_have_fewer_places_than_flows_only_where_there_are_many(tmp_path):
    rows = {row.name: row for row in table_2.ROWS if row.variant == common.FULL_QUEUE}
    assert len(rows) == len(table_2.WHO) * len(table_2.FLOWS)
    for who, (_, cost_ns, _) in table_2.WHO.items():
        for flows in table_2.FLOWS:
            row = rows[table_2.name(table_2.on(who, common.FULL_QUEUE), flows)]
            nic = common.spec(row, StudyOptions(tmp_path), 1).nic
            assert (nic.event_cost_ns, nic.latency_ns, nic.decisions) == (100 * cost_ns, 0, "in-turn")
            assert (nic.event_queue > flows / row.network.senders) == (flows == 16)
            assert dict(nic.parameters) == {"patience": 0} and not row.paper


def test_rows_with_verbs_timeouts_begin_at_their_share_and_probe_as_others_do(tmp_path):
    row = next(row for row in table_2.ROWS if row.name == "MLP, 16.8 ms, 64 flows")
    nic = common.spec(row, StudyOptions(tmp_path), 1).nic
    assert nic.timeout_ns == nic.timeout_max_ns == nic.nack_interval_ns == 100 * 4096 * 2**12
    assert nic.probe_timeout_ns == 80 * 10**6 and nic.latency_ns == 100 * 17_000
    assert dict(nic.parameters) == {"rate_initial": 2**20 // 64}


def test_everybody_begins_at_the_share_in_figure_3(tmp_path):
    for row in figure_3.ROWS:
        nic = common.spec(row, StudyOptions(tmp_path), 1).nic
        own = {"target": figure_3.calibrated_target()} if row.variant == figure_3.CALIBRATED else {}
        own |= {"ai": round(2**20 * figure_3.STEPS[row.variant])} if row.variant in figure_3.STEPS else {}
        assert dict(nic.parameters) == {"rate_initial": max(64, 2**20 // row.workload["flows"]), **own}
        assert nic.preset == ("pcc" if row.controller == "swift" and row.variant != common.WINDOW else None)
