# SPDX-License-Identifier: Apache-2.0
"""RL-CC's cluster figures: which variants run, in what they differ, what is measured, and how claims of set-ups are judged."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.errors import SpecError
from dc_gym.base.units import format_size
from dc_gym.benchmarks.studies.rl_cc import (
    at_rest,
    bring_up,
    cluster,
    common,
    figure_3,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    osu,
    relative,
    table_2,
    table_4,
    table_5,
)
from dc_gym.benchmarks.studies.rl_cc.cluster import ALL_TO_ALL, LONG_SHORT, MANY_TO_ONE
from dc_gym.run.plan.experiment import Experiment
from dc_gym.study import collect
from dc_gym.study.claims import Claim, Verdict, judge, less_than
from dc_gym.study.evidence import Evidence, VariantEvidence
from dc_gym.study.model import StudyOptions
from dc_gym.study.scaled import MS, US

OPTIONS = StudyOptions(Path("out"))
CLUSTER = {MANY_TO_ONE: figure_6.STUDY, ALL_TO_ALL: figure_7.STUDY, LONG_SHORT: figure_10.STUDY}
STUDIES = (*CLUSTER.values(), figure_8.STUDY)
JUDGED = (*STUDIES, table_4.STUDY)


def spec(study, name, options=OPTIONS):
    (variant,) = (candidate for candidate in study.variants if candidate.name == name)
    return collect.spec_of(study, variant, options, 1)


def run_name(contestant, size):
    return f"{contestant}, {format_size(size)}"


def of_setup(setup, studies=STUDIES):
    """Returns each variant of a set-up as its name, its own spec and that of the plain variant."""
    triples = []
    for study in studies:
        for name in (variant.name for variant in study.variants if f", {setup}" in variant.name):
            triples.append((name, spec(study, name), spec(study, name.replace(f", {setup}", "", 1))))
    return triples


def changed(one, other, *names):
    """Returns whether two specs differ in their name and the given parts, and in nothing else."""
    return all(getattr(one, field) != getattr(other, field) for field in names) and one == replace(
        other, name=one.name, **{field: getattr(one, field) for field in names}
    )


def about(claim):
    return {name for criterion in claim.criteria for name in criterion.about}


def claims_of(study, setup):
    return [claim for claim in study.claims if claim.setup == setup and not claim.source.startswith("ours")]


def sizes_of(claim):
    """Returns the sizes at which a statement of a set-up compares the rows of that set-up."""
    own = [criterion for criterion in claim.criteria[:-1] if all(claim.setup in name for name in criterion.about)]
    return {
        size for size, measure in figure_9.LATENCIES.items() if measure.name in {name for one in own for name in one.measures}
    }


def evidence(*variants):
    return Evidence({variant.name: variant for variant in variants})


def found(name, **numbers):
    return VariantEvidence(name, name, "#000000", {measure: dict(enumerate(values, 1)) for measure, values in numbers.items()})


@pytest.mark.parametrize("scenario", CLUSTER)
def test_the_default_leaves_out_what_it_cannot_afford(scenario):
    study, contestants = CLUSTER[scenario], cluster.contestants(scenario)
    some = [contestant for contestant in contestants if cluster.SETUP_OF.get(contestant) in cluster.SOME_COUNTS]
    for options, counts in ((OPTIONS, cluster.DEFAULT), (StudyOptions(Path("out"), all_cases=True), cluster.COUNTS)):
        chosen = [variant.name for variant in study.chosen(options) if "alone" not in variant.name]
        assert chosen[: len(counts[scenario])] == [cluster.name("DCQCN", scenario, count) for count in counts[scenario]]
        assert len(chosen) == (len(contestants) - len(some)) * len(counts[scenario]) + len(some)


def test_the_small_fabric_is_oversubscribed_as_the_large_one():
    name = cluster.name("RL-CC", MANY_TO_ONE, 32)
    small, large = (spec(figure_6.STUDY, name, StudyOptions(Path("out"), full=full)) for full in (False, True))
    assert (small.topology.scale, large.topology.scale) == (100, 1)
    assert [net.to_dict()["topology"].get("uplinks") for net in (small, large)] == [1, None], "the preset's on the large one"
    for graph, hosts in ((small.graph(), 16), (large.graph(), 64)):
        assert len(graph.hosts) == hosts
        tor = graph.peer(graph.ports_of("h1")[0]).node
        up = [port for port in graph.ports_of(tor) if graph.peer(port).node in {switch.name for switch in graph.switches}]
        assert len(graph.ports_of(tor)) - len(up) == 2 * len(up)


def test_a_shared_buffer_is_all_that_its_variants_change():
    keys = {"shared_buffer_bytes": 42_000_000, "alpha": 8, "host_buffer_bytes": 5_000_000, "buffer_bytes": None}
    pairs = of_setup(common.SHARED)
    assert len(pairs) == 3 * (sum(map(len, cluster.COUNTS.values())) + 1)
    for _, shared, plain in pairs:
        assert {name: getattr(shared.topology, name) for name in keys} == keys
        assert shared.topology.pfc is None and plain.topology.shared_buffer_bytes is None
        same = replace(shared.topology, **{name: getattr(plain.topology, name) for name in keys})
        assert replace(shared, name=plain.name, topology=same) == plain


@pytest.mark.parametrize("scenario", [MANY_TO_ONE, LONG_SHORT])
def test_one_queue_may_fill_nearly_all_of_a_shared_buffer(scenario):
    count = cluster.COUNTS[scenario][0]
    graph = spec(CLUSTER[scenario], cluster.name(cluster.on("RL-CC", common.SHARED), scenario, count)).graph()
    for port in (end for cable in graph.cables for end in (cable.a, cable.b)):
        if port.node in {switch.name for switch in graph.switches}:
            (only,) = port.queue.classes
            assert (port.queue.pool.bytes, only.limit_bytes, only.alpha_2_16) == (42_000_000, 42_000_000, 8 << 16)
            assert not only.lossless and port.queue.pause is None
        else:
            assert (port.queue.limit_bytes, port.queue.pool) == (5_000_000, None)


def test_the_commands_keys_of_buffers_apply_to_the_variants_that_have_them():
    overrides = ("topology.alpha=0.5", "topology.shared_buffer=20MB", "topology.buffer=2MB", "nic.latency=5us")
    for variant in figure_6.STUDY.chosen(OPTIONS):
        variant_spec = spec(figure_6.STUDY, variant.name, replace(OPTIONS, overrides=overrides))
        buffers = (variant_spec.topology.alpha, variant_spec.topology.shared_buffer_bytes, variant_spec.topology.buffer_bytes)
        assert buffers == ((0.5, 20_000_000, None) if common.shares(variant) else (None, None, 2_000_000))
        assert variant_spec.nic.latency_ns == 5_000
    with pytest.raises(SpecError, match=r"without topology\.shared_buffer"):
        spec(figure_3.STUDY, "RL-CC, 2 flows", replace(OPTIONS, overrides=overrides[:1]))


@pytest.mark.parametrize("study", JUDGED, ids=lambda study: study.title)
def test_claims_with_a_shared_buffer_are_the_same_and_apart(study):
    plain, shared = claims_of(study, common.OWN), claims_of(study, common.SHARED)
    assert [claim.text for claim in plain] == [claim.text for claim in shared]
    for claims, apart in ((plain, False), (shared, True)):
        names = {name for claim in claims for name in about(claim)}
        assert names and all((common.SHARED in name) == apart for name in names)


@pytest.mark.parametrize("study", JUDGED, ids=lambda study: study.title)
@pytest.mark.parametrize(("setup", "algo"), [(common.WINDOW, "Swift"), (common.NO_PATIENCE, "RL-CC"), (common.FIRMWARE, "DCQCN")])
def test_claims_of_a_setup_are_those_about_the_contestant_that_it_changes(study, setup, algo):
    """All others are the study's own, about the same variants; nothing else is judged again."""
    plain_claims = {claim.text: about(claim) for claim in claims_of(study, common.OWN)}
    concerned = [text for text, names in plain_claims.items() if any(name.partition(",")[0] == algo for name in names)]
    claims, other = claims_of(study, setup), cluster.on(algo, setup)
    assert [claim.text for claim in claims] == concerned
    for claim in claims:
        assert {name.replace(other, algo) for name in about(claim)} == plain_claims[claim.text] != about(claim)


@pytest.mark.parametrize(
    ("study", "setup", "contestant"),
    [
        (figure_3.STUDY, common.WINDOW, "Swift"),
        (figure_9.STUDY, common.WINDOW, "Swift"),
        (figure_9.STUDY, common.NO_PATIENCE, "RL-CC"),
    ],
)
def test_other_studies_judge_a_setup_apart(study, setup, contestant):
    claims = claims_of(study, setup)
    assert claims and all(any(name.startswith(f"{contestant}, {setup}") for name in about(claim)) for claim in claims)
    assert not any(f", {setup}" in name for claim in claims_of(study, common.OWN) for name in about(claim))
    assert all(variant.paper == {} for variant in study.variants if f", {setup}" in variant.name)


def test_all_of_table_2_is_there_without_patience():
    pairs = of_setup(common.NO_PATIENCE, (table_2.STUDY,))
    assert len(pairs) == len(table_2.WHO) * 3 + len(table_2.NETS) * 3 + len(table_2.BETWEEN_US)
    for _, without, plain in pairs:
        assert dict(without.nic.parameters) == dict(plain.nic.parameters) | {"patience": 0}
        assert replace(without, name=plain.name, nic=plain.nic) == plain
    plain_claims, setup_claims = (claims_of(table_2.STUDY, setup) for setup in (common.OWN, common.NO_PATIENCE))
    assert [claim.text for claim in plain_claims] == [claim.text for claim in setup_claims]


def test_short_flows_are_one_write_but_for_those_of_their_own_set_up():
    for variant in cluster.VARIANTS[LONG_SHORT]:
        large = f", {common.LARGE}," in variant.name
        assert spec(figure_10.STUDY, variant.name).workload.size_bytes == (500_000 if large else 64_000)
    assert common.SEVEN.topology["buffer"] == "5MB" and 50 * 64_000 < 5_000_000 < min(100 * 64_000, 50 * 500_000)
    assert len(claims_of(table_4.STUDY, common.LARGE)) == 4, "Swift's, RL-CC's, and DCQCN's with 50 and 100"
    assert len(claims_of(figure_10.STUDY, common.LARGE)) == 4 and not claims_of(figure_6.STUDY, common.LARGE)


def test_set_ups_of_a_nic_change_its_settings_alone():
    for _, other, plain in of_setup(common.WINDOW):
        assert (plain.nic.preset, other.nic.preset) == ("pcc", None) and changed(plain, other, "nic")
    for _, other, plain in of_setup(common.NO_PATIENCE):
        assert dict(other.nic.parameters) == {"patience": 0} and changed(plain, other, "nic")
    slow = of_setup(common.SLOW)
    assert {other.controller.name for _, other, _ in slow} == set(cluster.WHO.values())
    for _, other, plain in slow:
        assert dict(other.nic.parameters) == {"rate_initial": 2**20 // 256} and changed(plain, other, "nic")
    for _, other, plain in of_setup(common.FIRMWARE):
        assert (plain.nic.preset, other.nic.preset, plain.controller.name) == ("paper", common.FIRMWARE_PRESET, "dcqcn")
        assert other.time.duration_ns >= 100 * MS * 100 and changed(plain, other, "nic", "time")


def test_spread_starts_lengthen_a_run_by_the_time_of_its_starts():
    spread_ns = common.SPREAD_NS * 100
    for _, other, plain in of_setup(common.SPREAD):
        assert (other.workload.jitter_ns, plain.workload.jitter_ns) == (spread_ns, 100 * US * 100)
        assert other.time.duration_ns - plain.time.duration_ns == spread_ns == other.time.warmup_ns - plain.time.warmup_ns
        assert changed(plain, other, "workload", "time")


def test_a_permutation_has_one_sender_for_each_receiver_and_8_x_8_has_8_tors():
    for _, other, plain in of_setup(common.PERMUTATION):
        flows = Experiment.of(other).schedule.flows
        assert len({flow.dst for flow in flows}) == len({flow.src for flow in flows}) == len(flows) == 16
        assert changed(plain, other, "workload")
    for _, other, plain in of_setup(common.TORS):
        graph = other.graph()
        tors = {graph.peer(graph.ports_of(host.name)[0]).node for host in graph.hosts}
        assert (len(graph.hosts), len(tors)) == (64, 8) and len(Experiment.of(other).schedule.flows) == 64
        assert {len(graph.ports_of(tor)) for tor in tors} == {8 + 4} and changed(plain, other, "topology")


@pytest.mark.parametrize("setup", cluster.WHOSE)
def test_losses_count_from_the_first_packet_on_where_the_start_is_what_varies(setup):
    whole = setup in (common.SLOW, common.SPREAD)
    for criterion in (criterion for claim in claims_of(table_4.STUDY, setup) for criterion in claim.criteria):
        plain = not any(f", {setup}," in name for name in criterion.about)
        assert criterion.measures == ((common.DROPS if whole and not plain else common.LATE_DROPS).name,)


def test_table_4_has_the_cases_of_the_figures_with_the_papers_numbers():
    titles = [cluster.name("DCQCN", MANY_TO_ONE, 128), cluster.name("DCQCN, firmware", MANY_TO_ONE, 128), "short flows, alone"]
    table = table_4.derive(evidence(*(found(title, drops_per_flow=[1]) for title in titles)))
    assert {name: row.paper for name, row in table.variants.items()} == {titles[0]: {"drops_per_flow": 886.4}, titles[1]: {}}


def test_only_claims_about_a_set_up_are_repeated_for_it():
    def claims(setup):
        yield Claim("c", "here", (less_than(common.of_setup("row", setup), common.DROPS, 1),))
        yield Claim("d", "here", (less_than("row", common.DROPS, 1),))

    all_claims = common.with_setups((common.SHARED,), claims)
    assert [(claim.text, claim.setup) for claim in all_claims] == [("c", ""), ("d", ""), ("c", common.SHARED)]


def test_a_run_of_one_size_counts_all_iterations_but_the_first():
    names = [run_name(f"Swift, {common.ITERATIONS}", size) for size in figure_9.APART[common.ITERATIONS][0]]
    keys = [dict(spec(figure_9.STUDY, name).workload.own) for name in names]
    assert [row["largest"] for row in keys] == [1 << 17, 1 << 18, 1 << 19, 1 << 20] and {row["rounds"] for row in keys} == {21}
    (whole,) = claims_of(figure_9.STUDY, common.ITERATIONS)
    assert sizes_of(whole) == set(figure_9.APART[common.ITERATIONS][0])
    flows = np.zeros(3, [("src", "u4"), ("dst", "u4"), ("start_ns", "i8"), ("end_ns", "i8"), ("rep", "u4")])
    flows["dst"], flows["rep"] = 1, [0, 1, 2]
    flows["start_ns"], flows["end_ns"] = [0, 10_000, 20_000], [9_000, 11_000, 23_000]
    run_spec = {"topology": {"scale": 100}, "workload": {"size": "64B", "largest": "64B", "rounds": 3}}
    result = SimpleNamespace(manifest={"spec": run_spec}, records=lambda table: flows)
    assert figure_9.latencies(result) == {figure_9.LATENCIES[64].name: pytest.approx(2e-6 / 100)}


@pytest.mark.parametrize("setup", [common.FRESH, common.PAIRS])
def test_messages_afresh_and_in_pairs_differ_from_plain_ones_of_their_size_in_that_alone(setup):
    (whole,) = claims_of(figure_9.STUDY, setup)
    assert sizes_of(whole) == {1 << 18, 1 << 19, 1 << 20}
    for controller in figure_9.CONTROLLERS:
        for size in (1 << 18, 1 << 19, 1 << 20):
            other = spec(figure_9.STUDY, run_name(f"{controller}, {setup}", size))
            plain = figure_9.variant(other.name, controller, common.OWN, size, size, figure_9.ROUNDS)
            base = collect.spec_of(figure_9.STUDY, plain, OPTIONS, 1)
            if setup == common.PAIRS:
                assert dict(other.workload.own) == {**dict(base.workload.own), "schedule": "pairwise"}
                assert changed(base, other, "workload")
            else:
                assert (base.nic.queue_pairs, other.nic.queue_pairs) == ("hosts", "flow") and changed(
                    base, other, "nic", "topology"
                )
                assert replace(other.nic, queue_pairs="hosts") == base.nic and other.topology.shared_buffer_bytes == 42_000_000


def test_the_variant_that_shows_a_cause_at_1_mib_differs_in_beta_alone():
    names = (run_name(f"RL-CC, {setup}", figure_9.MOST) for setup in (common.FRESH, figure_9.TOLERANT))
    fresh, tolerant = (spec(figure_9.STUDY, name) for name in names)
    assert (dict(fresh.nic.parameters), dict(tolerant.nic.parameters)) == ({}, {"beta": 6 << 16})
    assert changed(fresh, tolerant, "nic") and replace(tolerant.nic, parameters=fresh.nic.parameters) == fresh.nic


def test_runs_of_one_size_each_are_one_contestant():
    name, columns = figure_9.on("Swift", common.ITERATIONS), figure_9.LATENCIES
    runs = [found(run_name(name, size), **{column.name: [float(size)] for column in columns.values()}) for size in figure_9.SIZES]
    joined = figure_9.joined(evidence(*runs, found("DCQCN", alltoall_32_s=[1.0])))
    assert list(joined.variants) == ["DCQCN", name]
    sizes = figure_9.APART[common.ITERATIONS][0]
    assert joined.variants[name].numbers == {columns[size].name: {1: size} for size in sizes}


def test_an_iteration_takes_the_mean_over_processes():
    flows = np.zeros(3, [("src", "u4"), ("dst", "u4"), ("start_ns", "i8"), ("end_ns", "i8"), ("rep", "u4")])
    flows["src"], flows["dst"] = [0, 1, 2], [1, 2, 0]
    flows["start_ns"], flows["end_ns"] = [1000, 1000, 1500], [2000, 4000, 3000]
    assert figure_9._iteration_s(flows) == pytest.approx((2000 + 3000 + 3000) / 3 / 1e9)  # 0: 3000, 1: 4000, 2: 4000, less 1000
    flows["end_ns"][0] = -1
    assert np.isnan(figure_9._iteration_s(flows)) and np.isnan(figure_9._iteration_s(flows[:0]))


def test_bars_are_over_the_best_of_their_size():
    column = figure_9.LATENCIES[32].name
    runs = evidence(*(found(algo, **{column: [value]}) for algo, value in zip(cluster.WHO, (3e-6, 2e-6, 4e-6), strict=True)))
    best = figure_9._best(runs)
    assert best[32] == 2e-6 and np.isnan(best[64])
    assert len(figure_9.STUDY.draw(runs).axes[0].patches) == 3 * len(figure_9.SIZES)


def tasks(**values):
    """Returns goodput and latency in all cases of all-to-all, by controller."""
    names = {cluster.name(algo, ALL_TO_ALL, count): algo for algo in values for count in cluster.DEFAULT[ALL_TO_ALL]}
    return evidence(*(found(name, goodput=[values[algo][0]], latency_s=[values[algo][1]]) for name, algo in names.items()))


def test_a_task_is_mastered_near_the_best_in_bandwidth_and_in_time():
    runs = tasks(**{"DCQCN": (0.95, 50e-6), "Swift": (0.5, 10e-6), "RL-CC": (0.9, 12e-6)})
    ratios = {controller: table_5.ratios(runs, ALL_TO_ALL, controller, 1) for controller in cluster.WHO}
    assert [ratios[controller]["mastered"] for controller in ("DCQCN", "Swift", "RL-CC")] == [0, 0, 1]
    assert ratios["DCQCN"]["longest"] == pytest.approx(5) and ratios["Swift"]["share"] == pytest.approx(0.5 / 0.95)
    assert table_5.ratios(runs, ALL_TO_ALL, "RL-CC", 2) == {}, "that seed did not run"


def test_a_task_is_mastered_beside_swift_with_a_window_apart():
    """The better Swift in Swift's place changes what the others are compared with, in rows of their own only."""
    values = {"DCQCN": 0.9, "Swift": 0.5, "RL-CC": 0.9, cluster.on("Swift", common.WINDOW): 1.5}
    table = table_5.derive(tasks(**{controller: (value, 1e-5) for controller, value in values.items()}))
    names = [[table_5.name(controller, ALL_TO_ALL, setup) for controller in cluster.WHO] for setup in (common.OWN, common.WINDOW)]
    assert [[table.variants[name].numbers["mastered"][1] for name in row] for row in names] == [[1, 0, 1], [0, 1, 0]]
    assert table.variants[names[0][0]].paper == {"mastered": 0.0} and table.variants[names[1][0]].paper == {}
    verdicts = {claim.title: judge(claim, table).verdict for claim in table_5.STUDY.claims}
    assert verdicts["RL-CC: all-to-all is mastered"] is Verdict.SAME
    assert verdicts["Swift: all-to-all is mastered"] is verdicts["Window: RL-CC: all-to-all is mastered"] is Verdict.OPPOSITE
    assert verdicts["Swift: OSU is not mastered"] is Verdict.NOT_TESTED, "nothing has run"


def test_verdicts_of_other_criteria_stand_beside_the_fixed_one():
    numbers = {"DCQCN": (0.86, 1.2), "Swift": (1.0, 3.5), "RL-CC": (0.95, 1.0)}
    rows = [
        found(table_5.name(controller, task), share=[share, share], longest=[time, time])
        for controller, (share, time) in numbers.items()
        for task in table_5.PAPER[controller]
    ]
    table = evidence(*rows)
    fixed = table_5.otherwise(table, table_5.BANDWIDTH, table_5.TIME)
    assert fixed == ["DCQCN's many-to-one", "DCQCN's OSU", "Swift's all-to-all", "Swift's long-short"]
    assert table_5.otherwise(table, 0.85, 2) == ["DCQCN's all-to-all", "DCQCN's long-short", *fixed[2:]]
    assert table_5.otherwise(table, 0.9, 4) == [*fixed[:2], "Swift's many-to-one", "Swift's OSU"]
    notes = table_5.sensitivity(table)
    assert sum(note.count("%") for note in notes[1:]) == len(table_5.BANDWIDTHS) * len(table_5.TIMES)
    assert "At most 2 times the best one's time, at least 90%, 95% of its bandwidth: 8 of 12 as in the paper" in "".join(notes)
    by_seed = replace(rows[0], numbers={"share": {1: 0.86, 2: 0.95}, "longest": {1: 1.2, 2: 1.2}})
    assert table_5.otherwise(evidence(by_seed), 0.9, 2)[0] == "DCQCN's many-to-one (by seed)"


@pytest.mark.parametrize(
    ("kind", "who", "lost"),
    [
        ("random", "dcqcn", 10 - 4 + 4 / 2e-3 * (60 - 2e-3)),
        ("long_short", "swift", 10 - 4 + 4 / 2e-3 * (30 - 2e-3)),
        ("many_to_one", "dcqcn", 10),
    ],
)
def test_losses_of_bring_up_count_once_and_later_ones_for_the_papers_test(kind, who, lost, monkeypatch):
    monkeypatch.setattr(common, "numbers", lambda result: {common.DROPS.name: 10.0, common.LATE_DROPS.name: 4.0})
    spec = {"workload": {"kind": kind}, "controller": {"name": who}, "topology": {"scale": 100}}
    result = SimpleNamespace(manifest={"spec": spec | {"time": {"duration": "400ms", "warmup": "200ms"}}})
    assert bring_up.lost(result) == {bring_up.LOST.name: pytest.approx(lost)}


def test_the_studies_of_the_whole_cluster_have_its_hosts_and_line_rate():
    scenarios = [
        (bring_up.STUDY, bring_up.name(who, task, cluster.COUNTS[task][0])) for who in cluster.WHO for task in cluster.COUNTS
    ]
    for study, name in (*scenarios, *((osu.STUDY, who) for who in cluster.WHO)):
        cluster_spec = spec(study, name)
        assert len(cluster_spec.graph().hosts) == (7 if LONG_SHORT in name else 64)
        assert "rate_initial" not in dict(cluster_spec.nic.parameters)
        assert (cluster_spec.nic.preset == common.FIRMWARE_PRESET) == (cluster_spec.controller.name == "dcqcn")


def test_the_worst_of_each_measure_is_named():
    def rows(factor, who):
        """All values of a contestant: `factor` times the best, in bandwidth, times and losses."""
        values = {"goodput": 0.9 / factor, "long_goodput": 0.9 / factor, "latency_s": 1e-5 * factor, "slowdown": 9 * factor}
        rest = {key: [one] * 3 for key, one in values.items()}
        for task, counts in at_rest.COUNTS.items():
            yield from (found(at_rest.name(who, task, count), **rest) for count in counts)
            lost = [factor - 1] * 3
            yield from (found(bring_up.name(who, task, count), lost_per_flow=lost) for count in cluster.COUNTS[task])
        yield found(who, **{figure_9.LATENCIES[size].name: [1e-4 * factor] * 3 for size in osu.SIZES})

    def verdicts(**factors):
        measured = evidence(*(row for who, factor in factors.items() for row in rows(factor, who.replace("_", "-"))))
        derived = relative.derive(measured)
        return derived, [judge(claim, derived).verdict for claim in relative.STUDY.claims]

    derived, judged = verdicts(RL_CC=1, DCQCN=2, Swift=3)
    assert judged == [Verdict.SAME, Verdict.OPPOSITE, Verdict.SAME]
    swift = derived.variants["Swift"].numbers
    assert [swift[name][2] for name in ("many_to_one_goodput", "long_short_time", "alltoall")] == pytest.approx([3, 3, 3])
    assert swift["all_to_all_lost"][1] == 2 * len(cluster.A_HOST)
    assert verdicts(RL_CC=2, DCQCN=1, Swift=1.02)[1][0] is Verdict.OPPOSITE
    assert verdicts(RL_CC=1.02, DCQCN=1, Swift=1)[1][1:] == [Verdict.NO_DIFFERENCE] * 2
