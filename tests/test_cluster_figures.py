# SPDX-License-Identifier: Apache-2.0
"""RL-CC's cluster figures and PCC-RL's tables: which rows run, what is measured, what a page says of rows that did not run."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.errors import SpecError
from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies.pcc_rl import common as pccrl
from dc_gym.benchmarks.studies.pcc_rl import figure_1, table_1
from dc_gym.benchmarks.studies.pcc_rl import table_2 as pccrl_table_2
from dc_gym.benchmarks.studies.rl_cc import (
    cluster,
    figure_3,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    table_2,
    table_4,
    table_5,
)
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.grounds.experiment import Experiment
from dc_gym.study import page
from dc_gym.study.claims import Claim, Explanation, less_than
from dc_gym.study.evidence import VariantEvidence, Evidence, Track
from dc_gym.study.options import StudyOptions
from dc_gym.study.identity import Provenance
from dc_gym.study.scaled import MS, US, RunLength

QUARTER = {"nic.parameters": {"rate": 1 << 18}}


def test_the_default_leaves_out_what_it_cannot_afford(tmp_path):
    for scenario, counts in cluster.DEFAULT.items():
        few = [row.name for row in cluster.chosen(scenario, StudyOptions(tmp_path))]
        who = cluster.contestants(scenario)
        own = [each for each in who if each in cluster.WHO]
        assert few[: len(own) * len(counts)] == [cluster.name(each, scenario, count) for each in own for count in counts]
        some = [each for each in who if cluster.VARIANT_OF.get(each) in cluster.SOME_COUNTS]
        assert len(few) == len(who) * len(counts) - len(some) and bool(some) == (scenario == cluster.ALL_TO_ALL)
        every = cluster.chosen(scenario, StudyOptions(tmp_path, full=True))
        assert len(every) == (len(who) - len(some)) * len(table_4.COUNTS[scenario]) + len(some)


def test_the_small_fabric_is_oversubscribed_as_the_large_one(tmp_path):
    row = cluster.ROWS[cluster.MANY_TO_ONE][0]
    small, large = (rlcc.spec(row, StudyOptions(tmp_path, full=full), 1).graph() for full in (False, True))
    assert (len(small.hosts), len(large.hosts)) == (16, 64)
    for graph in (small, large):
        tor = graph.peer(graph.ports_of("h1")[0]).node
        up = [port for port in graph.ports_of(tor) if graph.peer(port).node in {switch.name for switch in graph.switches}]
        assert len(graph.ports_of(tor)) - len(up) == 2 * len(up)


PAIRS = [
    (rows[shared.name.replace(f", {cluster.SHARED}", "")], shared)
    for every in (*cluster.ROWS.values(), figure_8.ROWS)
    for rows in [{row.name: row for row in every}]
    for shared in every
    if shared.shares
]
"""Each row with a shared buffer, behind the same row with a buffer for each port."""


@pytest.mark.parametrize("full", [False, True])
def test_a_row_with_a_shared_buffer_differs_in_the_buffer_only(tmp_path, full):
    assert len(PAIRS) == 3 * (sum(map(len, cluster.COUNTS.values())) + 1)
    for own, shared in PAIRS:
        one, other = (rlcc.spec(row, StudyOptions(tmp_path, full=full), 1) for row in (own, shared))
        keys = {"shared_buffer_bytes": 42_000_000, "alpha": 8, "host_buffer_bytes": 5_000_000, "buffer_bytes": None}
        assert {name: getattr(other.topology, name) for name in keys} == keys
        assert other.topology.pfc is None and one.topology.shared_buffer_bytes is None
        same = replace(other.topology, **{name: getattr(one.topology, name) for name in keys})
        assert replace(other, name=one.name, topology=same) == one


@pytest.mark.parametrize(
    "row", [next(row for row in cluster.ROWS[each] if row.shares) for each in (cluster.MANY_TO_ONE, cluster.LONG_SHORT)]
)
def test_one_queue_may_fill_nearly_all_of_a_shared_buffer(tmp_path, row):
    graph = rlcc.spec(row, StudyOptions(tmp_path), 1).graph()
    for port in (end for cable in graph.cables for end in (cable.a, cable.b)):
        if port.node in {switch.name for switch in graph.switches}:
            (only,) = port.queue.classes
            assert (port.queue.pool.bytes, only.limit_bytes, only.alpha_2_16) == (42_000_000, 42_000_000, 8 << 16)
            assert not only.lossless and port.queue.pause is None
        else:
            assert (port.queue.limit_bytes, port.queue.pool) == (5_000_000, None)


def test_the_commands_keys_of_buffers_apply_to_the_rows_that_have_them(tmp_path):
    rows = cluster.chosen(cluster.MANY_TO_ONE, StudyOptions(tmp_path))
    told = ("topology.alpha=0.5", "topology.shared_buffer=20MB", "topology.buffer=2MB", "nic.latency=5us")
    options = StudyOptions(tmp_path, overrides=told)
    for row in rows:
        made = rlcc.spec_among(row, rows, options, 1)
        buffers = (made.topology.alpha, made.topology.shared_buffer_bytes, made.topology.buffer_bytes)
        assert buffers == ((0.5, 20_000_000, None) if row.shares else (None, None, 2_000_000))
        assert made.nic.latency_ns == 5_000
    assert "20MB a switch, alpha 0.5" in dict(rlcc.facts(rows, options))["Shared buffer"]
    alone = [row for row in rows if not row.shares]
    assert "Shared buffer" not in dict(rlcc.facts(alone, StudyOptions(tmp_path)))
    with pytest.raises(SpecError, match=r"without topology\.shared_buffer"):
        rlcc.spec_among(alone[0], alone, StudyOptions(tmp_path, overrides=told[:1]), 1)


def about(claim):
    return {name for each in claim.criteria for name in each.about}


def of_variant(module, variant):
    return [claim for claim in module.CLAIMS if claim.variant == variant and not claim.ours]


@pytest.mark.parametrize("module", [figure_6, figure_7, figure_8, figure_10, table_4])
def test_claims_with_a_shared_buffer_are_the_same_and_apart(module):
    own, shared = of_variant(module, cluster.OWN), of_variant(module, cluster.SHARED)
    assert [claim.text for claim in own] == [claim.text for claim in shared]
    for claims, apart in ((own, False), (shared, True)):
        names = {name for claim in claims for name in about(claim)}
        assert names and all((cluster.SHARED in name) == apart for name in names)


@pytest.mark.parametrize("module", [figure_6, figure_7, figure_8, figure_10, table_4])
@pytest.mark.parametrize(
    ("variant", "who"), [(cluster.WINDOW, "Swift"), (cluster.NO_PATIENCE, "RL-CC"), (cluster.FIRMWARE, "DCQCN")]
)
def test_claims_of_a_variant_are_those_about_the_contestant_that_it_changes(module, variant, who):
    """All others are the figure's own, about the same rows; nothing else is judged again."""
    own = {claim.text: about(claim) for claim in of_variant(module, cluster.OWN)}
    changed = cluster.on(who, variant)
    concerned = [text for text, names in own.items() if any(name.partition(",")[0] == who for name in names)]
    found = of_variant(module, variant)
    assert [claim.text for claim in found] == concerned
    for claim in found:
        assert {name.replace(changed, who) for name in about(claim)} == own[claim.text] and about(claim) != own[claim.text]


@pytest.mark.parametrize(
    ("module", "variant", "who"),
    [
        (figure_3, cluster.WINDOW, ("Swift",)),
        (figure_9, cluster.WINDOW, ("Swift",)),
        (figure_9, cluster.NO_PATIENCE, ("RL-CC",)),
        (figure_1, rlcc.PCC, ("Swift",)),
        (table_1, rlcc.PCC, ("Swift",)),
        (pccrl_table_2, rlcc.PCC, ("Swift",)),
        (figure_1, figure_1.HALF, ("Swift",)),
        (pccrl_table_2, pccrl_table_2.EARLY, ("DC2QCN",)),
        (pccrl_table_2, pccrl_table_2.BURSTS, ("PCC-RL", "Swift")),
    ],
)
def test_other_figures_judge_a_variant_apart(module, variant, who):
    names = {name for claim in of_variant(module, cluster.OWN) for name in about(claim)}
    rows = {row.name for row in module.ROWS if row.variant == cluster.OWN}
    assert names <= {*rows, *(row.name for row in getattr(module, "FULL_ROWS", ()))}
    found = of_variant(module, variant)
    own = tuple(f"{each}, {variant}" for each in who)
    assert found and all(any(name.startswith(own) for name in about(claim)) for claim in found)
    assert all(row.paper == {} for row in module.ROWS if row.variant == variant)


def test_every_row_of_table_2_is_there_without_patience(tmp_path):
    rows = [row for row in table_2.ROWS if row not in table_2.LATER_ROWS]
    own, without = ([row for row in rows if row.variant == each] for each in (cluster.OWN, cluster.NO_PATIENCE))
    for one, other in zip(own, without, strict=True):
        a, b = (rlcc.spec(each, StudyOptions(tmp_path), 1) for each in (one, other))
        assert dict(b.nic.parameters) == dict(a.nic.parameters) | {"patience": 0}
        assert replace(b, name=a.name, nic=a.nic) == a
    mine, theirs = of_variant(table_2, cluster.OWN), of_variant(table_2, cluster.NO_PATIENCE)
    assert [claim.text for claim in mine] == [claim.text for claim in theirs]


def test_a_task_is_mastered_beside_swift_with_a_window_apart():
    """The better Swift in Swift's place changes what the others are compared with, in rows of their own only."""
    values = {"DCQCN": 0.9, "Swift": 0.5, "RL-CC": 0.9, cluster.on("Swift", cluster.WINDOW): 1.5}
    names = {
        cluster.name(who, cluster.ALL_TO_ALL, count): {"goodput": {1: value}, "latency_s": {1: 1e-5}}
        for who, value in values.items()
        for count in cluster.DEFAULT[cluster.ALL_TO_ALL]
    }
    found = Evidence({name: VariantEvidence(name, name, "#000000", numbers) for name, numbers in names.items()})
    mastered = [
        [table_5.ratios(found, cluster.ALL_TO_ALL, who, 1, variant)["mastered"] for who in cluster.WHO]
        for variant in (cluster.OWN, cluster.WINDOW)
    ]
    assert mastered == [[1, 0, 1], [0, 1, 0]]
    own, apart = (of_variant(table_5, each) for each in (cluster.OWN, cluster.WINDOW))
    assert [claim.text for claim in own] == [claim.text for claim in apart] and len(own) == 12
    assert {name for claim in apart for name in about(claim)}.isdisjoint(name for claim in own for name in about(claim))


def test_short_flows_of_pcc_rl_fit_into_the_buffer_but_for_those_of_its_own_rows(tmp_path):
    for row in figure_1.ROWS:
        spec = rlcc.spec(row, StudyOptions(tmp_path), 1)
        fits = (8 - 1) * spec.workload.size_bytes < figure_1.BUFFER_BYTES
        assert fits == (row.variant in figure_1.SIZES) and fits == row.name.split(", ")[1].endswith(" each")
    for size in figure_1.SIZES:
        assert [each.text for each in of_variant(figure_1, size)] == [each.text for each in of_variant(figure_1, cluster.OWN)]


def test_pages_say_what_variants_and_patience_are(tmp_path):
    options = StudyOptions(tmp_path)
    facts = dict(rlcc.facts(cluster.chosen(cluster.LONG_SHORT, options), options))
    assert "footnote 1" in facts[cluster.WINDOW] and "Table IV" in facts[cluster.LARGE] and "ours" in facts["Patience"]
    alone = dict(
        rlcc.facts([row for row in cluster.ROWS[cluster.LONG_SHORT] if row.controller == "swift" and not row.variant], options)
    )
    assert alone.keys().isdisjoint({cluster.WINDOW, cluster.LARGE, "Patience"})


def test_short_flows_are_one_write_but_for_those_of_their_own_rows(tmp_path):
    rows = [row for every in cluster.ROWS.values() for row in every if row.variant == cluster.LARGE]
    assert {row.name.partition(",")[0] for row in rows} == set(cluster.WHO) and len(rows) == len(cluster.WHO) * len(cluster.SHORT)
    buffer = rlcc.SEVEN.topology["buffer"]
    for row in cluster.ROWS[cluster.LONG_SHORT]:
        spec = rlcc.spec(row, StudyOptions(tmp_path), 1)
        assert spec.workload.size_bytes == (500_000 if row in rows else 64_000)
    assert buffer == "5MB" and 50 * 64_000 < 5_000_000 < min(100 * 64_000, 50 * 500_000)
    assert len(of_variant(table_4, cluster.LARGE)) == 4, "Swift's, RL-CC's, and DCQCN's with 50 and 100"
    assert len(of_variant(figure_10, cluster.LARGE)) == 4 and not of_variant(figure_6, cluster.LARGE)


def test_swift_with_a_window_and_no_patience_change_one_setting(tmp_path):
    rows = {row.name: row for every in (*cluster.ROWS.values(), figure_8.ROWS) for row in every}
    for row in rows.values():
        if row.variant not in (cluster.WINDOW, cluster.NO_PATIENCE):
            continue
        own, other = (
            rlcc.spec(each, StudyOptions(tmp_path), 1) for each in (rows[row.name.replace(f", {row.variant}", "", 1)], row)
        )
        if row.variant == cluster.WINDOW:
            assert (own.nic.preset, other.nic.preset) == ("pcc", None)
        else:
            assert (dict(own.nic.parameters), dict(other.nic.parameters)) == ({}, {"patience": 0})
        assert replace(other, name=own.name, nic=own.nic) == own


def rows_and_their_own(variant):
    """Returns each row of a variant behind the row that has none, from the cluster's scenarios and figure 8."""
    rows = {row.name: row for every in (*cluster.ROWS.values(), figure_8.ROWS) for row in every}
    return [(rows[row.name.replace(f", {variant}", "", 1)], row) for row in rows.values() if row.variant == variant]


def changed(one, other, *names):
    """Returns whether two specs differ in their name and the given parts, and in nothing else."""
    return all(getattr(one, each) != getattr(other, each) for each in names) and one == replace(
        other, name=one.name, **{each: getattr(one, each) for each in names}
    )


def test_dcqcn_of_the_firmware_runs_longer_and_changes_its_parameters_only(tmp_path):
    found = rows_and_their_own(cluster.FIRMWARE)
    assert {row.controller for _, row in found} == {"dcqcn"}
    for own, row in found:
        one, other = (rlcc.spec(each, StudyOptions(tmp_path), 1) for each in (own, row))
        assert (one.nic.preset, other.nic.preset) == ("paper", rlcc.FIRMWARE_PRESET)
        assert other.time.duration_ns >= 100 * MS * 100 and changed(one, other, "nic", "time")


def test_a_slow_start_changes_the_first_rate_of_all_contestants(tmp_path):
    found = rows_and_their_own(cluster.SLOW)
    assert {row.controller for _, row in found} == set(cluster.WHO.values())
    for own, row in found:
        one, other = (rlcc.spec(each, StudyOptions(tmp_path), 1) for each in (own, row))
        assert dict(other.nic.parameters) == {"rate_initial": 2**20 // 256} and changed(one, other, "nic")


def test_spread_starts_lengthen_a_run_by_the_time_of_its_starts(tmp_path):
    spread_ns = rlcc.SPREAD_NS * 100
    for own, row in rows_and_their_own(cluster.SPREAD):
        one, other = (rlcc.spec(each, StudyOptions(tmp_path), 1) for each in (own, row))
        assert (other.workload.jitter_ns, one.workload.jitter_ns) == (spread_ns, 100 * US * 100)
        assert other.time.duration_ns - one.time.duration_ns == spread_ns == other.time.warmup_ns - one.time.warmup_ns
        assert changed(one, other, "workload", "time")


def test_a_permutation_has_one_sender_for_each_receiver_and_8_x_8_has_8_tors(tmp_path):
    for own, row in rows_and_their_own(cluster.PERMUTATION):
        one, other = (rlcc.spec(each, StudyOptions(tmp_path), 1) for each in (own, row))
        flows = Experiment.of(other).schedule.flows
        assert len({flow.dst for flow in flows}) == len({flow.src for flow in flows}) == len(flows) == 16
        assert changed(one, other, "workload")
    for own, row in rows_and_their_own(cluster.TORS):
        one, other = (rlcc.spec(each, StudyOptions(tmp_path), 1) for each in (own, row))
        graph = other.graph()
        tors = {graph.peer(graph.ports_of(host.name)[0]).node for host in graph.hosts}
        assert (len(graph.hosts), len(tors)) == (64, 8) and len(Experiment.of(other).schedule.flows) == 64
        assert {len(graph.ports_of(tor)) for tor in tors} == {8 + 4} and changed(one, other, "topology")


@pytest.mark.parametrize("variant", [cluster.OWN, *cluster.WHOSE])
def test_losses_count_from_the_first_packet_on_where_the_start_is_what_varies(variant):
    whole = variant in (cluster.SLOW, cluster.SPREAD)
    for each in (each for claim in of_variant(table_4, variant) for each in claim.criteria):
        own = not any(f", {variant}," in name for name in each.about)
        column = rlcc.DROPS if whole and not own else rlcc.LATE_DROPS
        assert each.words.startswith(f"{column.title} of ")


def test_an_explanation_of_one_variant_is_not_another_s():
    def explained(showed):
        return Explanation("h", "e", "docs/reproduce-rl-cc.md#set-up", showed)

    def claims(variant):
        name = rlcc.of_variant("row", variant)
        shown = explained("of shared" if variant == rlcc.SHARED else "of own")
        yield Claim("c", "here", (less_than(name, rlcc.DROPS, 1),), explanation=shown)

    found = {claim.variant: claim.explanation for claim in rlcc.with_variants((rlcc.SHARED, rlcc.PCC), claims)}
    assert found == {rlcc.OWN: explained("of own"), rlcc.SHARED: explained("of shared"), rlcc.PCC: None}


def test_a_run_of_one_size_counts_all_iterations_but_the_first(tmp_path):
    rows = [row for row in figure_9.SIZE_ROWS if row.name.startswith("Swift") and row.variant == rlcc.ITERATIONS]
    assert [row.workload["size"] for row in rows] == ["131072B", "262144B", "524288B", "1048576B"]
    spec = rlcc.spec(rows[0], StudyOptions(tmp_path), 1)
    own = dict(spec.workload.own)
    assert (own["rounds"], own["largest"]) == (21, 131_072)
    assert [claim.text.split()[-1] for claim in of_variant(figure_9, rlcc.ITERATIONS)] == ["128KiB", "256KiB", "512KiB", "1MiB"]
    flows = np.zeros(3, [("src", "u4"), ("dst", "u4"), ("start_ns", "i8"), ("end_ns", "i8"), ("rep", "u4")])
    flows["dst"], flows["rep"] = 1, [0, 1, 2]
    flows["start_ns"], flows["end_ns"] = [0, 10_000, 20_000], [9_000, 11_000, 23_000]
    told = {"topology": {"scale": 100}, "workload": {"size": "64B", "largest": "64B", "rounds": 3}}
    result = SimpleNamespace(manifest={"spec": told}, records=lambda table: flows)
    assert figure_9.latencies(result) == {figure_9.LATENCIES[64].name: pytest.approx(2e-6 / 100)}


def beside_plain_rows(variant, folder):
    """Checks the sizes and claims of a variant from 256 KiB on. Returns each of its rows with a plain one of that size, and the
    specs of both."""
    rows = [row for row in figure_9.SIZE_ROWS if row.variant == variant]
    assert {row.workload["size"] for row in rows} == {"262144B", "524288B", "1048576B"} and len(rows) == 4 * 3
    assert [claim.text.split()[-1] for claim in of_variant(figure_9, variant)] == ["256KiB", "512KiB", "1MiB"]
    found = []
    for row in rows:
        size = int(row.workload["size"].removesuffix("B"))
        plain = figure_9._row(row.name, row.name.split(", ")[0], rlcc.OWN, size, size, figure_9.ROUNDS)
        found.append((plain, row, *(rlcc.spec(each, StudyOptions(folder), 1) for each in (plain, row))))
    return found


def test_messages_that_begin_afresh_differ_in_their_queue_pairs_and_the_buffer_alone(tmp_path):
    for plain, row, a, b in beside_plain_rows(figure_9.FRESH, tmp_path):
        assert (a.nic.queue_pairs, b.nic.queue_pairs, plain.shares, row.shares) == ("hosts", "flow", False, True)
        assert replace(b, topology=a.topology, nic=replace(b.nic, queue_pairs="hosts")) == a


def test_rows_in_pairs_differ_in_the_schedule_alone(tmp_path):
    for _, _, a, b in beside_plain_rows(figure_9.PAIRS, tmp_path):
        assert dict(b.workload.own) == {**dict(a.workload.own), "schedule": "pairwise"} != dict(a.workload.own)
        assert replace(b, workload=a.workload) == a


def test_the_row_that_shows_a_cause_at_1_mib_differs_in_beta_alone(tmp_path):
    fresh, tolerant = (
        rlcc.spec(row, StudyOptions(tmp_path), 1)
        for name in (f"RL-CC, {figure_9.FRESH}", f"RL-CC, {figure_9.TOLERANT}")
        for row in figure_9.SIZE_ROWS
        if row.name == figure_9.run_name(name, figure_9.MOST)
    )
    assert (dict(fresh.nic.parameters), dict(tolerant.nic.parameters)) == ({}, {"beta": 6 << 16})
    assert (
        replace(tolerant, name=fresh.name, nic=fresh.nic) == fresh
        and replace(tolerant.nic, parameters=fresh.nic.parameters) == fresh.nic
    )


def test_rows_that_show_a_cause_in_pcc_rl_differ_in_it_alone(tmp_path):
    def spec(module, name):
        (row,) = (row for row in module.ROWS if row.name == name)
        return rlcc.spec(row, StudyOptions(tmp_path), 1)

    for who, variant, own in (
        *((who, rlcc.SLOW, {"rate_initial": rlcc.FIRST_RATE}) for who in figure_1.BY_RATE),
        ("Swift", figure_1.HALF, {"ai": 1 << 19}),
    ):
        a, b = spec(figure_1, f"{who}, 8 flows"), spec(figure_1, f"{who}, {variant}, 8 flows")
        assert dict(b.nic.parameters) == dict(a.nic.parameters) | own
        assert replace(b, name=a.name, nic=a.nic) == a
    a, b = spec(pccrl_table_2, "DC2QCN, 8 hosts"), spec(pccrl_table_2, "DC2QCN, early marks, 8 hosts")
    assert (a.topology.marking, b.topology.marking) == ("secn2", "red-instant")
    assert replace(b, name=a.name, topology=a.topology) == a
    for who, own in (("PCC-RL", {}), ("Swift", pccrl_table_2.NEAR_TARGET["nic.parameters"])):
        a, b = spec(pccrl_table_2, f"{who}, 4 hosts"), spec(pccrl_table_2, f"{who}, bursts, 4 hosts")
        assert dict(b.nic.parameters) == dict(a.nic.parameters) | own
        changed = replace(a.nic, parameters=b.nic.parameters, burst_packets=8, ack_packets=8)
        assert replace(b, name=a.name) == replace(a, nic=changed)


@pytest.mark.parametrize(("measured", "unfinished", "found"), [(0.1, 0, 0.1), (np.nan, 0, 0.5), (np.nan, 2, np.nan)])
def test_a_long_flow_that_is_not_back_took_at_least_the_rest_of_the_run(measured, unfinished, found):
    numbers = {figure_1.RECOVERY.name: measured, figure_1.UNFINISHED.name: unfinished}
    assert figure_1.recovery_s(numbers, 0.5) == pytest.approx(found, nan_ok=True)


def test_runs_of_one_size_each_are_one_contestant():
    name, column = figure_9.on("Swift", rlcc.ITERATIONS), figure_9.LATENCIES
    runs = {
        title: VariantEvidence(title, title, "#000000", {each.name: {1: float(size)} for each in column.values()})
        for size in figure_9.SIZES
        for title in (figure_9.run_name(name, size),)
    }
    found = figure_9.joined(name, Evidence(runs))
    assert found.numbers == {column[size].name: {1: size} for size in figure_9.ITERATED}


def test_verdicts_of_other_criteria_stand_beside_the_fixed_one():
    numbers = {"DCQCN": (0.86, 1.2), "Swift": (1.0, 3.5), "RL-CC": (0.95, 1.0)}
    rows = [
        VariantEvidence(title, title, "#000000", {"share": {1: share, 2: share}, "longest": {1: time, 2: time}})
        for who, (share, time) in numbers.items()
        for task in table_5.PAPER[who]
        for title in (table_5.name(who, task),)
    ]
    found = Evidence({row.name: row for row in rows})
    fixed = table_5.otherwise(found, table_5.BANDWIDTH, table_5.TIME)
    assert fixed == ["DCQCN's many-to-one", "DCQCN's OSU", "Swift's all-to-all", "Swift's long-short"]
    assert table_5.otherwise(found, 0.85, 2) == ["DCQCN's all-to-all", "DCQCN's long-short", *fixed[2:]]
    assert table_5.otherwise(found, 0.9, 4) == [*fixed[:2], "Swift's many-to-one", "Swift's OSU"]
    notes = table_5.sensitivity(found)
    assert sum(note.count("%") for note in notes[1:]) == len(table_5.BANDWIDTHS) * len(table_5.TIMES)
    assert "At most 2 times the best one's time, at least 90%, 95% of its bandwidth: 8 of 12 as in the paper" in "".join(notes)
    by_seed = replace(rows[0], numbers={"share": {1: 0.86, 2: 0.95}, "longest": {1: 1.2, 2: 1.2}})
    assert table_5.otherwise(Evidence({by_seed.name: by_seed}), 0.9, 2)[0] == "DCQCN's many-to-one (by seed)"


def test_an_iteration_takes_the_mean_over_processes():
    flows = np.zeros(3, [("src", "u4"), ("dst", "u4"), ("start_ns", "i8"), ("end_ns", "i8"), ("rep", "u4")])
    flows["src"], flows["dst"] = [0, 1, 2], [1, 2, 0]
    flows["start_ns"], flows["end_ns"] = [1000, 1000, 1500], [2000, 4000, 3000]
    assert figure_9._iteration_s(flows) == pytest.approx((2000 + 3000 + 3000) / 3 / 1e9)  # 0: 3000, 1: 4000, 2: 4000, less 1000
    flows["end_ns"][0] = -1
    assert np.isnan(figure_9._iteration_s(flows)) and np.isnan(figure_9._iteration_s(flows[:0]))


def test_bars_are_over_the_best_of_their_size():
    column = figure_9.LATENCIES[32].name
    made = {
        who: VariantEvidence(who, who, "#000000", {column: {1: value}})
        for who, value in zip(cluster.WHO, (3e-6, 2e-6, 4e-6), strict=True)
    }
    best = figure_9._best(Evidence(made))
    assert best[32] == 2e-6 and np.isnan(best[64])
    assert len(figure_9._figure(Evidence(made)).axes[0].patches) == 3 * len(figure_9.SIZES)


def test_rows_say_who_stands_in_for_whom(tmp_path):
    rows = [row for row in table_1.ROWS if row.name in ("PCC-RL, 128 flows", "HPCC, 128 flows")]
    evidence = Evidence({row.name: VariantEvidence(row.name, row.name, row.color, {}, paper=row.paper) for row in rows})
    figure = figure_9._figure(Evidence({who: VariantEvidence(who, who, "#000000", {}) for who in cluster.WHO}))
    found = pccrl.completed(rlcc.findings("T", rows, StudyOptions(tmp_path), evidence, pccrl.QUANTITIES, (), figure))
    tree, hpcc = page.cells(found)
    assert tree[0] == "PCC-RL (RL-CC's tree stands in for it), 128 flows" and hpcc[0].startswith("HPCC (its own paper's form)")
    assert hpcc[1:] == ["-", "83", "-", "96", "-", "5", "-", "0"]


@pytest.mark.lab
def test_a_long_and_a_short_flow_that_are_known(tmp_path, lab_kernel):
    """Each flow has a quarter of the line: the short one takes four times as long as at line rate."""
    row = replace(
        figure_1.ROWS[0],
        controller="fixed",
        workload=figure_1.ROWS[0].workload | {"size": "1MB", "short_start": 500 * US, "jitter": 0},
        length=RunLength(1 * MS, 100 * US),
        values=QUARTER,
    )
    found = rlcc.run("known", [row], StudyOptions(tmp_path, seeds=1), Quiet(), cluster.long_short, figure_8.track).variants[
        row.name
    ]
    value = {name: each[1] for name, each in found.numbers.items() if each}
    took_s, base_s = 1e6 * 8 * 1514 / 1440 / 25e9, 6.07e-6
    assert value[cluster.SLOWDOWN.name] == pytest.approx((took_s + base_s / 2) / base_s, rel=0.02)
    assert value[cluster.LONG_SHARE.name] == pytest.approx(0.25 * 1440 / 1514, rel=0.02) and value[cluster.UNFINISHED.name] == 0
    drawn = found.over_time[1]
    assert drawn.x[0] + drawn.x[-1] == pytest.approx(1, abs=0.02) and not drawn.values[figure_8.LOST.name].any()
    assert drawn.values[figure_8.ARRIVED.name][2] * 9 == pytest.approx(0.25 * 1440 / 1514, rel=0.1)


def made_up(name, rows, options, progress, more=None, track=None):
    """Returns evidence of two seeds in which every quantity of every row is a number, and every curve a line."""
    columns = {column.name for module in EVERY for column in module.COLUMNS} | {column.name for column in pccrl.QUANTITIES}
    curve = Track(np.arange(1.0, 4.0), {panel.name: np.ones(3) for module in (figure_1, figure_8) for panel in module.PANELS})
    return Evidence(
        {
            row.name: VariantEvidence(
                row.name,
                row.name,
                row.color,
                {column: {seed: 1.0 + seed + place / 100 for seed in (1, 2)} for column in columns},
                over_time={1: curve, 2: curve} if track else {},
                paper=row.paper,
            )
            for place, row in enumerate(rows)
        }
    )


EVERY = (figure_3, figure_6, figure_7, figure_8, figure_9, figure_10, table_2, table_4, table_5, figure_1, pccrl_table_2)


@pytest.mark.parametrize("module", [*EVERY, table_1])
def test_pages_have_every_row_and_judge_every_claim(module, monkeypatch, tmp_path):
    monkeypatch.setattr(rlcc, "run", made_up)
    found = module.run(StudyOptions(tmp_path, seeds=2), Quiet())
    names = {each.name for each in found.variants}
    assert any(f", {variant}" in name for name in names for variant in (rlcc.PCC, rlcc.WINDOW, rlcc.NO_PATIENCE))
    assert [each.claim for each in found.verdicts] == list(module.CLAIMS) and len(page.cells(found)) == len(names)
    for verdict in found.verdicts:
        about_others = about(verdict.claim) - names
        assert (str(verdict.state) == "did not run") == bool(about_others)
    page.write(tmp_path / "page", "rl-cc", "x", found, Provenance({}, "", {}))
