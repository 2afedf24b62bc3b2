# SPDX-License-Identifier: Apache-2.0
"""The figures of RL-CC on one switch: their settings, their measures, and a figure from labs."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies.rl_cc import cluster, common, figure_3, figure_8, table_1, table_2, table_3, table_6
from dc_gym.cli import main
from dc_gym.methods.rlcc import fluid
from dc_gym.methods.rlcc.offline import theory
from dc_gym.nets import nic_policy
from dc_gym.nets.nic_policy import TablePolicy
from dc_gym.study import collect, page, scaled, series, table
from dc_gym.study.claims import Claim, Verdict, below, judge
from dc_gym.study.evidence import Evidence, VariantEvidence
from dc_gym.study.model import StudyOptions
from dc_gym.study.scaled import MS, US, RunLength, ScaledNetwork
from dc_gym.study.series import VariantLine

OPTIONS = StudyOptions(Path("out"))
SHORT = RunLength(2 * MS, 400 * US)


def spec(study, name, options=OPTIONS, seed=1):
    (variant,) = (candidate for candidate in study.variants if candidate.name == name)
    return collect.spec_of(study, variant, options, seed)


def of(*variants):
    measures = (common.GOODPUT, common.LATENCY, common.INFLATION, common.DROPS)
    return common.study("T", "S", variants, measures, no_claims, None, networks=())


def no_claims(setup):
    return ()


def found(name, **numbers):
    return VariantEvidence(name, name, "#000000", {measure: dict(enumerate(values, 1)) for measure, values in numbers.items()})


def evidence(*variants):
    return Evidence({variant.name: variant for variant in variants})


def verdict(claim, evidence):
    return judge(claim, evidence).verdict


def test_times_are_scaled_and_nothing_else():
    keys = {"kind": "long_short", "long": 2, "short_start": 5 * MS, "size": "1MB", "nic.latency": 900, "nic.timeout": "1ms"}
    assert scaled.scaled(keys, 100) == keys | {"short_start": "500ms", "nic.latency": "90us"}


def test_the_sources_length_has_its_own_rate_times_and_network():
    large = ScaledNetwork("x", "x", {**common.SINGLE, "buffer": "9MB"}, 6)
    variant = common.many_to_one("x", "rlcc-tree", common.SEVEN, 16, keys={"nic.latency": 900}, full_network=large)
    default, full = variant.keys(False), variant.keys(True)
    for key, values in {
        "topology.scale": (100, 1),
        "topology.buffer": ("5MB", "9MB"),
        "topology.hosts": (7, None),
        "workload.jitter": ("10ms", "100us"),
        "time.duration": ("3s", "60s"),
        "nic.latency": ("90us", "900ns"),
    }.items():
        assert (default[key], full.get(key)) == values
    assert "controller.name" not in variant.full


def test_the_base_round_trip_is_that_of_table_3():
    full_spec = spec(of(common.many_to_one("x", "rlcc-tree", common.FOUR, 4)), "x", StudyOptions(Path("out"), full=True))
    assert 4 * full_spec.graph().cables[0].delay_ns + 2 * 1514 * 8 / 100 == pytest.approx(6050, rel=0.01)


def test_the_command_line_has_the_last_word():
    study = of(common.many_to_one("x", "rlcc-tree", common.SEVEN, 16, keys={"nic.latency": 900}))
    x_spec = spec(study, "x", replace(OPTIONS, duration="400ms", overrides=("nic.latency=5us",)), 3)
    assert (x_spec.nic.latency_ns, x_spec.time.duration_ns, x_spec.time.warmup_ns, x_spec.seed) == (5000, 400 * MS, 100 * MS, 3)
    other = spec(study, "x")
    assert other.nic.latency_ns == 90_000 and other.time.duration_ns == common.DEFAULT.duration_ns * 100


def test_what_nothing_is_trained_for_is_refused(capsys, tmp_path):
    assert main.main(["study", "run", "rl-cc/table-2", "--steps", "5", "--out", str(tmp_path)]) == 2
    assert "--steps 5: nothing is trained for rl-cc/table-2" in capsys.readouterr().err


def test_a_page_says_what_its_set_ups_and_patience_are():
    facts = dict(cluster.study(cluster.LONG_SHORT, "T", "S", no_claims, "x").facts_of(OPTIONS))
    assert "footnote 1" in facts[f"Rows named {common.WINDOW}"] and "alpha 8" in facts[f"Rows named {common.SHARED}"]
    assert "ours" in facts["Patience"] and facts["Measured"].startswith("40ms, from 5ms on")
    plain = of(common.many_to_one("x", "swift", common.FOUR, 4))
    assert dict(plain.facts_of(OPTIONS)).keys() == {"Network", "Scale", "Traffic", "Measured"}


@pytest.mark.lab
def test_variants_from_labs_and_their_figure(tmp_path, lab_kernel):
    """Two flows get a quarter of the line each, so that all measured values are known."""
    rate = {"nic.parameters": {"rate": 1 << 18}}
    lines = [VariantLine("fixed", "#000000", {2: "quarter", 4: "half"})]
    study = replace(
        of(
            common.many_to_one("quarter", "fixed", common.FOUR, 2, length=SHORT, keys=rate, paper={common.GOODPUT.name: 0.45}),
            common.many_to_one("half", "fixed", common.FOUR, 4, length=SHORT, keys={"nic.parameters": {"rate": 1 << 19}}),
        ),
        name="rl-cc/tiny",
        track=figure_8.track,
        claims=(Claim("less", "here", (below("quarter", "half", common.LATENCY),)),),
        draw=lambda evidence: series.figure(evidence, lines, [common.GOODPUT], "flows", "T"),
    )
    study = replace(study, variants=[replace(variant, given={"lines": 1}) for variant in study.variants], seeds=2)
    results = collect.SpecRuns()(study, StudyOptions(tmp_path), Quiet()).evidence
    quarter, half = results.variants["quarter"], results.variants["half"]
    for seed in (1, 2):
        assert quarter.numbers["goodput"][seed] == pytest.approx(0.5 * 1440 / 1514, rel=0.02)
        assert quarter.numbers["latency_s"][seed] == pytest.approx(6.06e-6, rel=0.02)
        assert quarter.numbers["inflation"][seed] == pytest.approx(1, abs=0.02) and quarter.numbers["drops_per_flow"][seed] == 0
        assert half.numbers["goodput"][seed] < 1440 / 1514 and half.numbers["drops_per_flow"][seed] > 0
        assert half.numbers["latency_s"][seed] > 300e-6, "a buffer of 5 MB is full"
        drawn = quarter.over_time[seed]
        assert drawn.x[0] + drawn.x[-1] == pytest.approx(2, abs=0.02) and not drawn.values[figure_8.LOST.name].any()
        assert drawn.values[figure_8.ARRIVED.name][-2] == pytest.approx(0.5 * 1440 / 1514, rel=0.1)
        assert half.over_time[seed].values[figure_8.LOST.name].max() > 0.5, "twice the line arrives"
    assert verdict(study.claims[0], results) is Verdict.SAME
    stored = table.Table("rl-cc/tiny", "f", "r", "m", {}, {}, results.shortfall, 0, None, table.cells(results))
    report = page.report(study, stored, {})
    assert page.cells(report)[0][2] == "0.45" and page.cells(report)[1][2] == "-"
    page.write(tmp_path / "page", report)
    assert (tmp_path / "page" / "table.csv").read_text().splitlines()[0].endswith("drops_per_flow,paper_goodput")


@pytest.mark.lab
def test_short_flows_beside_a_long_one_and_alone_that_are_known(tmp_path, lab_kernel):
    """Each flow has a quarter of the line: a short one takes four times as long as at line rate."""
    settings = {"length": RunLength(1 * MS, 100 * US), "keys": {"nic.parameters": {"rate": 1 << 18}}}
    joined = {"kind": "long_short", "long": 1, "short": 1, "size": "1MB", "short_start": 500 * US, "jitter": 0}
    alone = {"kind": "many_to_one", "flows": 1, "size": "1MB", "jitter": 0}
    variants = [common.variant(workload["kind"], "fixed", common.SEVEN, workload, **settings) for workload in (joined, alone)]
    study = replace(of(*variants), name="rl-cc/known", seeds=1, measure=cluster.long_short)
    both, single = (
        variant.numbers for variant in collect.SpecRuns()(study, StudyOptions(tmp_path), Quiet()).evidence.variants.values()
    )
    took_s, base_s = 1e6 * 8 * 1514 / 1440 / 25e9, 6.07e-6
    for numbers in (both, single):
        assert numbers[cluster.SLOWDOWN.name][1] == pytest.approx((took_s + base_s / 2) / base_s, rel=0.02)
        assert numbers[cluster.UNFINISHED.name][1] == 0
    assert both[cluster.LONG_SHARE.name][1] == pytest.approx(0.25 * 1440 / 1514, rel=0.02)
    assert single.keys() == {cluster.SLOWDOWN.name, cluster.UNFINISHED.name}


def test_a_legend_of_long_names_stays_within_its_figure():
    names = [f"8 x 32 flows, lossy (the paper's best K: {k} kB)" for k in (20, 50, 100, 200)]
    lines = [VariantLine(name, "#000000", {2: name}) for name in names]
    rows = evidence(*(found(name, goodput=[0.5]) for name in names))
    figure = series.figure(rows, lines, [common.GOODPUT, common.LATENCY], "flows", "T")
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.bbox
    assert whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0


def test_the_best_curve_of_its_kind_and_what_leaves_it():
    exact = {flows: theory.EQ_2(flows) for flows in (2, 8, 32, 128, 512, 2048)}
    fit = theory.best_fit(exact)
    assert (fit.a, fit.b) == pytest.approx((1.5, 0.064)) and exact[512] == pytest.approx(2.948, abs=1e-3)
    assert max(map(abs, theory.departures(exact, fit).values())) < 1e-9
    bent = exact | {2048: 2 * exact[2048]}
    assert max(map(abs, theory.departures(bent, theory.best_fit(bent)).values())) > 0.1
    assert theory.departures(exact, theory.law(0.1))[2048] == pytest.approx(4.396 / 4.686 - 1, abs=1e-3)


def test_a_queue_that_swings_lets_the_network_rest_higher():
    file = nic_policy.load("rlcc-mlp")
    settled = fluid.settle(TablePolicy(file.table()), fluid.Bottleneck(64), file.scaling)
    assert table_3.inflation_at("rlcc-mlp", 64, 0.0) == pytest.approx(settled.inflation, abs=0.01)
    still, swinging = (table_3.inflation_at("rlcc-mlp", 2048, swing) for swing in (0.0, 0.56))
    assert (still, swinging) == (pytest.approx(4.69, abs=0.02), pytest.approx(5.06, abs=0.02))


def test_the_swing_is_that_of_the_receiver_s_port_in_the_window(monkeypatch):
    samples = [(t, port, 5000 * (t % 2) * (port == 1)) for t in range(8) for port in range(3)]
    queues = np.array(samples, [("t_ns", "<i8"), ("port", "<u4"), ("backlog_bytes", "<u4")])
    queues["backlog_bytes"][:9] = 10**6
    run_spec = {"time": {"warmup": "3ns"}, "workload": {"flows": 64}, "controller": {"name": "rlcc-tree"}}
    ports = [{"side": "host"}, {"side": "switch"}, {"side": "host"}]
    monkeypatch.setattr(table_3, "inflation_at", lambda *arguments: arguments)
    numbers = table_3.swing(SimpleNamespace(manifest={"spec": run_spec}, records=lambda _: queues, ports=ports))
    share = float(np.std([1, 0, 1, 0, 1])) * 5000 * 8e9 / 1e11 / 6050
    assert numbers["swing"] == pytest.approx(share, abs=1e-4)
    assert numbers["inflation_at_swing"] == ("rlcc-tree", 64, numbers["swing"])


def inflations(contestant, curve):
    return [found(figure_3.name(contestant, flows), inflation=[curve(flows), curve(flows) * 1.001]) for flows in figure_3.FLOWS]


def test_swift_s_own_law_is_where_its_target_is_the_round_trip_and_bends_below_a_root():
    law = {flows: figure_3.swift_law(flows) for flows in figure_3.FLOWS}
    assert [round(inflation, 2) for inflation in law.values()] == [3.15, 3.48, 4.08, 5.1, 6.79, 9.55]
    few = theory.best_fit({flows: value for flows, value in law.items() if flows <= figure_3.MANY})
    assert theory.departures(law, few)[2048] == pytest.approx(-0.19, abs=0.01)
    most = (25 + 2 * 3.05 + 100) / 10
    assert figure_3.swift_law(10**6) == pytest.approx(most), "what flow scaling adds is bounded"


def test_swift_above_its_law_by_its_step_is_told_from_other_curves():
    def judged(*shares):
        curves = [lambda flows, share=share: share * figure_3.swift_law(flows) for share in shares]
        rows = [inflations(contestant, curve) for contestant, curve in zip(figure_3.BY_STEP, curves, strict=True)]
        return verdict(figure_3.STUDY.claims[-1], evidence(*(one for row in rows for one in row)))

    assert judged(1.0, 1.2, 1.5) is Verdict.SAME
    assert judged(1.3, 1.2, 1.5) is judged(0.5, 0.9, 1.5) is Verdict.OPPOSITE


@pytest.mark.parametrize(
    ("swift", "expected"),
    [
        (lambda flows: 2 + 0.1 * flows**0.5 + 4e-3 * flows, Verdict.SAME),
        (lambda flows: 2 + 0.1 * flows**0.5, Verdict.OPPOSITE),
    ],
)
def test_figure_3_tells_a_curve_that_leaves_its_law_from_one_that_does_not(swift, expected):
    rows = evidence(*inflations("RL-CC", lambda flows: 1.02 * theory.EQ_2(flows)), *inflations("Swift", swift))
    plain = [claim for claim in figure_3.STUDY.claims[:-2] if not claim.setup]
    states = [verdict(claim, rows) for claim in plain]
    assert states[0] is Verdict.SAME and states[2:] == [expected, expected]
    apart = evidence(*rows.variants.values(), *inflations(figure_3.SWIFT_WINDOW, swift))
    assert [verdict(claim, apart) for claim in figure_3.STUDY.claims if claim.setup == common.WINDOW] == [expected, expected]
    far = evidence(*inflations("RL-CC", lambda flows: 1.2 * theory.EQ_2(flows)), *inflations("Swift", swift))
    assert verdict(figure_3.STUDY.claims[0], far) is Verdict.OPPOSITE
    unmeasured = evidence(*(found(figure_3.name("RL-CC", flows)) for flows in figure_3.FLOWS))
    assert verdict(figure_3.STUDY.claims[0], unmeasured) is Verdict.NOT_TESTED


def test_flows_in_turn_run_as_long_as_their_decisions_take():
    """64 flows are at most 11 per NIC; with 450 us each, that is 4.95 ms."""
    run_spec = spec(table_2.STUDY, "LSTM in turn, 64 flows")
    assert run_spec.nic.decisions == "in-turn" and run_spec.time.duration_ns >= 24 * 11 * 450 * US * 100
    assert dict(run_spec.nic.parameters)["rate_initial"] == 2**20 // 64


def test_a_full_queue_has_fewer_places_than_flows_only_where_there_are_many():
    for contestant, (_, cost_ns, _) in table_2.WHO.items():
        for flows in table_2.FLOWS:
            nic = spec(table_2.STUDY, f"{contestant}, full queue, {flows} flows").nic
            assert (nic.event_cost_ns, nic.latency_ns, nic.decisions) == (100 * cost_ns, 0, "in-turn")
            assert (nic.event_queue > flows / common.SEVEN.senders) == (flows == 16)
            assert dict(nic.parameters) == {"patience": 0}


def test_bounded_flows_have_two_writes_under_way_and_a_saturated_nic():
    for contestant, (_, cost_ns, _) in table_2.WHO.items():
        nic = spec(table_2.STUDY, f"{contestant}, bounded, 128 flows").nic
        assert (nic.event_cost_ns, nic.latency_ns, nic.event_queue, nic.burst_packets) == (100 * cost_ns, 0, 2, 16)
        assert nic.inflight_bytes == 2 * nic.message_bytes == 128_000


def test_flows_with_verbs_timeouts_begin_at_their_share_and_probe_as_others_do():
    nic = spec(table_2.STUDY, "MLP, 16.8 ms, 64 flows").nic
    assert nic.timeout_ns == nic.timeout_max_ns == nic.nack_interval_ns == 100 * 4096 * 2**12
    assert nic.probe_timeout_ns == 80 * 10**6 and nic.latency_ns == 100 * 17_000
    assert dict(nic.parameters) == {"rate_initial": 2**20 // 64}


def test_everybody_begins_at_the_share_in_figure_3():
    parameters = {"calibrated": {"target": figure_3.calibrated_target()}, "step / 4": {"ai": 2**18}, "step x 4": {"ai": 2**22}}
    for contestant, (controller, _, setup) in figure_3.CONTESTANTS.items():
        for flows in (2, 2048):
            nic = spec(figure_3.STUDY, figure_3.name(contestant, flows)).nic
            assert dict(nic.parameters) == {"rate_initial": 2**20 // flows, **parameters.get(setup, {})}
            assert nic.preset == ("pcc" if controller == "swift" and setup != common.WINDOW else None)


def test_table_6_has_the_policies_actions_and_the_papers():
    rows = collect.FunctionRows(table_6.rows)(table_6.STUDY, StudyOptions(Path("out")), Quiet()).evidence
    assert len(rows.variants) == 9 and all(rows.variants[variant.name].paper == variant.paper for variant in table_6.VARIANTS)
    cut = rows.variants[table_6.name("under-utilized", "congested")]
    assert cut.paper == {"rlcc-mlp": 0.89} and cut.numbers["rlcc-tree"] == {1: pytest.approx(0.883, abs=1e-3)}
    assert all(verdict(claim, rows) is Verdict.SAME for claim in table_6.CLAIMS)
    raised = {name: replace(row, numbers={key: {1: 1.1} for key in row.numbers}) for name, row in rows.variants.items()}
    assert [verdict(claim, Evidence(raised)) for claim in table_6.CLAIMS] == [Verdict.OPPOSITE] * 4 + [Verdict.SAME]


def test_table_1_counts_a_flop_for_each_weight_and_the_trees_comparisons():
    cost = SimpleNamespace(instructions=7, algorithm=SimpleNamespace(state_words=6))
    net, trees = (table_1._fixed(name, cost) for name in ("rlcc-mlp", "rlcc-tree"))
    assert (net["flops"], net["comparisons"], net["operations"], net["state_bytes"]) == (4 * 12 + 12 * 12 + 12, 0, 204, 24)
    assert (trees["flops"], trees["comparisons"], trees["operations"]) == (0, 40, 50)
