# SPDX-License-Identifier: Apache-2.0
"""Figures of FDCC and ACC: the queue's laws measured in a lab, the best K, completion times over SECN0's, and what is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies.acc import (
    figure_1,
    figure_2,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_13,
    figure_14,
    figure_15,
    figure_16,
    figure_17,
)
from dc_gym.benchmarks.studies.acc.common import LOSSY, PFC, on
from dc_gym.benchmarks.studies.fdcc import (
    figure_3_2,
    figure_3_3,
    figure_4_1,
    figure_6_1,
    figure_6_2,
    figure_6_3,
    figure_6_4,
    n_to_one,
    over_time,
    table_6_1,
    table_6_2,
    unseen,
)
from dc_gym.grounds import nics
from dc_gym.grounds.experiment import Experiment
from dc_gym.nets import fdcc
from dc_gym.study import registry
from dc_gym.study.claims import ClaimState, judge
from dc_gym.study.evidence import Evidence, Track, VariantEvidence
from dc_gym.study.options import StudyOptions

FIGURES = (
    figure_1,
    figure_2,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    figure_10,
    figure_13,
    figure_14,
    figure_15,
    figure_16,
    figure_17,
    figure_3_2,
    figure_3_3,
    figure_4_1,
    table_6_1,
    table_6_2,
    figure_6_1,
    figure_6_2,
    figure_6_3,
    figure_6_4,
    unseen,
)
NUMBERS = {
    "fdcc": (
        *("figure-3.2", "figure-3.3", "figure-4.1", "table-6.1", "table-6.2"),
        *("figure-6.1", "figure-6.2", "figure-6.3", "figure-6.4", "unseen"),
    ),
    "acc": tuple(f"figure-{number}" for number in (1, 2, 6, 7, 8, 9, 10, 13, 14, 15, 16, 17)),
}


def contender(name: str, **numbers: tuple[float, ...]) -> VariantEvidence:
    return VariantEvidence(name, name, "#000000", {of: dict(enumerate(values, 1)) for of, values in numbers.items()})


def evidence(*variants: VariantEvidence) -> Evidence:
    return Evidence({each.name: each for each in variants})


@pytest.mark.parametrize(("paper", "number"), [(paper, number) for paper, all_of in NUMBERS.items() for number in all_of])
def test_the_figures_are_registered(paper: str, number: str) -> None:
    figure = registry.find(paper).figure(number)
    assert figure.title and callable(figure.run)


@pytest.mark.parametrize("module", FIGURES, ids=lambda module: module.__name__.rpartition(".")[2])
def test_claims_are_about_rows_that_run(module) -> None:
    rows = {row.name for row in module.ROWS} | set(getattr(module, "DESIGNS", ()))
    rows |= {on(incast, setup) for incast in getattr(module, "INCASTS", ()) for setup in figure_1.SETUPS}
    assert len(module.ROWS) == len({row.name for row in module.ROWS})
    assert {name for claim in module.CLAIMS for criterion in claim.criteria for name in criterion.about} <= rows


# --- FDCC, figure 3.2


def test_the_law_adds_up_the_differences() -> None:
    at_ms = np.array([0.0, 5, 10, 15, 20, 25, 30, 32])
    assert figure_3_2.law(at_ms).tolist() == [0, 156_250, 312_500, 312_500, 312_500, 156_250, 0, 0]


def test_flows_share_the_link_as_the_phases_say(tmp_path: Path) -> None:
    (tmp_path / figure_3_2.FILE).write_text(figure_3_2.flows())
    (row,) = figure_3_2.ROWS
    made = spec.vary({"name": "x"}, tmp_path, "test", [], row.values, "test")
    flows = made.flows(made.graph())
    for name, (start_ms, stop_ms, counts) in figure_3_2.PHASES.items():
        inside = [flow for flow in flows if start_ms <= flow.start_ns / 1e6 < stop_ms]
        assert [sum(flow.src == f"h{host}" for flow in inside) for host in (1, 2, 3, 4)] == list(counts)
        wire_bps = sum(flow.rate_bps for flow in inside) * 1514 / 1472
        assert wire_bps - 1e9 == pytest.approx(figure_3_2.DIFFERENCE_BPS[name], abs=100)


@pytest.mark.lab
def test_the_queue_grows_at_the_difference_stands_and_drains(tmp_path: Path, lab_kernel: Path) -> None:
    tmp_path.chmod(0o755)
    found = figure_3_2.run(StudyOptions(tmp_path, seeds=1), Quiet())
    (row,) = found.variants
    for name, growth in figure_3_2.GROWTH.items():
        expected, tolerance = figure_3_2.DIFFERENCE_BPS[name], 0.01 * 0.25e9
        assert row.numbers[growth.name][1] == pytest.approx(expected, abs=tolerance)
    assert row.numbers[figure_3_2.LONGEST.name][1] == pytest.approx(312_500, abs=3 * 1514)
    assert {verdict.state for verdict in found.verdicts} == {ClaimState.TOO_SHORT}, "one seed of five"


# --- FDCC, figure 4.1, tables 6.1 and 6.2


@pytest.mark.parametrize("module", [table_6_1, table_6_2], ids=["6.1", "6.2"])
def test_tables_have_the_thesis_length_with_full(tmp_path: Path, module) -> None:
    for row in module.ROWS:
        short, full = (own_rate._spec("x", row, StudyOptions(tmp_path, full=full), 1) for full in (False, True))
        assert short.nic.inflight_bytes is not None and short.topology.pfc == "classes"
        flows = full.flows(full.graph())
        assert {flow.size_bytes for flow in flows} == {20_000_000} and len({flow.dst for flow in flows}) == 1
        assert sum(flow.size_bytes for flow in short.flows(short.graph())) <= n_to_one.MOST_BYTES
        line_ns = len(flows) * 20_000_000 * 8 * 1514 / 1440 / 100
        assert full.time.duration_ns > 2 * line_ns, "flows end within the run"


def test_three_racks_send_to_the_fourth(tmp_path: Path) -> None:
    made = own_rate._spec("x", table_6_1.ROWS[0], StudyOptions(tmp_path), 1)
    leaves = {port.node: cable for cable in made.graph().cables for port in (cable.a, cable.b)}
    flows = made.flows(made.graph())
    racks = {next(end.node for end in (leaves[flow.src].a, leaves[flow.src].b) if end.node != flow.src) for flow in flows}
    assert len(racks) == 3 and {flow.dst for flow in flows} == {"h64"}


@pytest.mark.parametrize(
    ("rows", "who", "flows", "change"),
    [
        (table_6_1.ROWS, n_to_one.TIMELY, 192, table_6_1.FLOOR),
        (table_6_1.ROWS, n_to_one.DCQCN, 768, table_6_1.UNTIMED),
        (table_6_2.ROWS, n_to_one.DCQCN, 16, table_6_2.WINDOWS),
        (table_6_2.ROWS, n_to_one.TIMELY, 1024, table_6_2.TIMES),
        (table_6_2.ROWS, n_to_one.RLCC, 256, n_to_one.TOGETHER),
        (figure_6_3.ROWS, n_to_one.FDCC, 768, figure_6_3.FIRST),
    ],
)
def test_a_change_is_all_that_its_row_has_of_its_own(
    rows: list[own_rate.Variant], who: str, flows: int, change: n_to_one.Change, tmp_path: Path
) -> None:
    by_name = {row.name: row for row in rows}
    plain, changed = by_name[n_to_one.name(who, flows)], by_name[n_to_one.name(who, flows, change)]
    for full in (False, True):
        assert changed.asked(full) == {**plain.asked(full), **change.keys} != plain.asked(full)
    own_rate._spec("x", changed, StudyOptions(tmp_path), 1)


def test_the_floor_is_one_percent_of_the_line() -> None:
    assert table_6_1.FLOOR.keys["nic.parameters.rate_min"] == round(0.01 * 2**20)


@pytest.mark.parametrize(
    ("payload_bytes", "telemetry_bytes", "share"), [(1440, 0, 1), (1398, 42, 1398 / 1440), (320, 0, 320 / 394 * 1514 / 1440)]
)
def test_a_contestant_s_own_frames_carry_that_share(payload_bytes: int, telemetry_bytes: int, share: float) -> None:
    telemetry = {"telemetry": {"bytes": telemetry_bytes}} if telemetry_bytes else {}
    result = SimpleNamespace(manifest={"nic": {"settings": {"payload_bytes": payload_bytes}, **telemetry}})
    assert n_to_one.own_share(result) == pytest.approx(share)


def test_the_window_of_one_bdp_is_the_thesis(tmp_path: Path) -> None:
    row = table_6_2.ROWS[0]
    made = own_rate._spec("x", row, StudyOptions(tmp_path), 1)
    one = Experiment.of(made)
    table = nics.flow_table(one.schedule, one.graph, one.router, one.spec)
    windows = set(table.records["inflight_bytes"].tolist())
    assert len(windows) == 1 and windows.pop() == pytest.approx(17_000, rel=0.02), "RL-CC's queue a flow in table 6.2"


def test_a_lone_flow_has_slowdown_1_and_the_whole_line() -> None:
    size, links = 1_440_000, 3
    alone_ns = n_to_one.standalone_ns(size, links)
    assert alone_ns == 1000 * 1514 * 8 // 100 + 2 * 1514 * 8 // 100 + 3 * 160
    ended = np.array([(0, alone_ns, size)], [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")])
    found = n_to_one._of_all(ended, links, 1)
    assert found["slowdown"] == 1 and found["unfair"] == 0 and 0.99 < found["goodput"] < 1


def test_the_unfair_ratio_is_of_rates() -> None:
    ended = np.array(
        [(0, 100, 10), (0, 300, 10)], [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")]
    )  # rates 1/10 and 1/30, mean 2/30
    assert n_to_one._of_all(ended, 3, 1)["unfair"] == pytest.approx(0.5)


@pytest.mark.lab
def test_the_buffer_fills_without_a_window_and_senders_are_paused(tmp_path: Path, lab_kernel: Path) -> None:
    tmp_path.chmod(0o755)
    found = figure_4_1.run(StudyOptions(tmp_path, seeds=1, duration="100us"), Quiet())
    without, within = found.variants
    assert without.numbers["longest_bytes"][1] > figure_4_1.FULL_BYTES and without.numbers["pauses"][1] > 64
    assert 63 * 16_000 < within.numbers["longest_bytes"][1] < 63 * 18_000 and within.numbers["pauses"][1] == 0
    assert without.numbers["paused_share"][1] > 0.1 and within.numbers["paused_share"][1] == 0
    assert without.numbers["drops"][1] == within.numbers["drops"][1] == 0


# --- FDCC, figures 6.1 to 6.5, and networks that its training never had


@pytest.mark.parametrize("module", [figure_6_1, figure_6_2, figure_6_3, figure_6_4, unseen], ids=lambda module: module.NAME)
def test_every_contestant_has_a_window_and_fdcc_a_row(tmp_path: Path, module) -> None:
    place = own_rate.folder(module.NAME, StudyOptions(tmp_path))
    place.mkdir(parents=True)
    own_rate.write(place, getattr(module, "FILES", {}))
    specs = [own_rate._spec(module.NAME, row, StudyOptions(tmp_path), 1) for row in module.ROWS]
    assert all(made.nic.inflight_bytes is not None for made in specs)
    assert all(made.topology.pfc == "classes" or module is unseen for made in specs)
    assert {made.controller.name for made in specs} == {"dcqcn", "timely", "hpcc", "rlcc-mlp", "fdcc"}


@pytest.mark.parametrize(("full", "starts_ms"), [(False, (0, 5, 10, 15)), (True, (0, 35, 70, 105))])
def test_flows_join_one_after_the_other(tmp_path: Path, full: bool, starts_ms: tuple[int, ...]) -> None:
    options = StudyOptions(tmp_path, full=full)
    place = own_rate.folder(figure_6_2.NAME, options)
    place.mkdir(parents=True)
    for file, content in figure_6_2.FILES.items():
        (place / file).write_text(content)
    made = own_rate._spec(figure_6_2.NAME, figure_6_2.ROWS[0], options, 1)
    flows = made.flows(made.graph())
    assert len({flow.dst for flow in flows}) == 1 and len({flow.src for flow in flows}) == 4
    assert all(0 <= flow.start_ns - start * 10**6 <= 10_000 for flow, start in zip(flows, starts_ms, strict=True))
    assert made.time.duration_ns == 4 * (starts_ms[1] - starts_ms[0]) * 10**6


def test_a_phase_is_judged_in_its_second_half_by_the_flows_that_have_joined() -> None:
    t_ms = np.arange(0.05, 20, 0.1)
    shares = np.array([np.where(t_ms > 5 * flow, flow + 1.0, 0.0) for flow in range(4)])
    phases = figure_6_2.phases(t_ms, shares)
    assert [phase.shape for phase in phases] == [(1, 25), (2, 25), (3, 25), (4, 25)]
    assert [phase.mean(axis=1).tolist() for phase in phases] == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]


@pytest.mark.parametrize("module", [figure_6_1, figure_6_2, figure_6_3, figure_6_4, unseen], ids=lambda module: module.NAME)
def test_pictures_have_a_line_for_each_contestant(module) -> None:
    x = np.arange(4.0)
    quantities = [column.name for column in module.COLUMNS] + [each.name for each in getattr(module, "DRAWN", ())]
    tracks = {1: Track(x, {each: x for each in (*quantities, "0")})}
    numbers = dict.fromkeys(quantities, (1.0, 2.0))
    rows = {row.name: replace(contender(row.name, **numbers), over_time=tracks) for row in module.ROWS}
    if module in (figure_6_1, figure_6_2):
        canvas = over_time.figure(Evidence(rows), module.TITLE, ("one", "two", "three", "four"))
        assert len(canvas.axes) == len(module.ROWS)
        return
    if module is figure_6_3:
        tracks[1] = Track(figure_6_3.PERCENTILES, {each.name: figure_6_3.PERCENTILES for each in figure_6_3.DRAWN})
    canvas = module._figure(Evidence(rows))
    assert len(canvas.axes) == (9 if module is figure_6_3 else 3)
    assert all(len(ax.lines) >= len(n_to_one.CONTESTANTS) for ax in canvas.axes)


def test_percentiles_are_of_flows_and_of_none_if_one_did_not_end() -> None:
    flows = np.zeros(4, [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")])
    flows["end_ns"], flows["size_bytes"] = 10**6 * np.array([1, 1, 1, 2]), 1_000_000
    result = SimpleNamespace(
        records=lambda _: flows, derived=lambda _: {"paused_share": SimpleNamespace(to_numpy=lambda: np.array([0, 0, 0.5, 0.1]))}
    )
    found = figure_6_3.measure(result)
    assert found["distance_p50"] == pytest.approx(1 / 7) and found["paused_share"] == pytest.approx(0.15)
    assert figure_6_3.track(result).values["distance"][[0, 100]] == pytest.approx([1 / 7, 3 / 7])
    flows["end_ns"][3] = -1
    assert figure_6_3.measure(result) == {"unfinished": 1.0} and not figure_6_3.track(result).values


def test_a_lossy_fabric_leaves_the_pauses_undefined() -> None:
    flows = np.zeros(2, [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")])
    flows["end_ns"] = (5, -1)
    found = n_to_one.measure(SimpleNamespace(records=lambda _: flows, summary={"drops": 7}), 3)
    assert np.isnan(found.pop("pauses")) and np.isnan(found.pop("paused_share"))
    assert found == {"drops": 7.0, "unfinished": 1.0}


def test_figure_6_3_has_the_runs_of_table_6_1() -> None:
    shared = [row for row in figure_6_3.ROWS if row in table_6_1.ROWS]
    assert figure_6_3.NAME == table_6_1.NAME and len(shared) == len(n_to_one.CONTESTANTS) * len(table_6_1.COUNTS)
    names = [row.name for row in (*table_6_1.ROWS, *(row for row in figure_6_3.ROWS if row not in shared))]
    assert len(names) == len(set(names)), "both figures' runs are in one folder"


def test_lone_flows_take_their_frames_and_their_path() -> None:
    found = figure_6_4.alone_ns(np.array([1440, 14_400, 14_400], dtype=np.uint64), np.array([False, False, True]))
    frame_ns = 1514 * 8 / 100
    assert found == pytest.approx([2 * frame_ns + 320, 11 * frame_ns + 320, 11 * frame_ns + 2 * frame_ns / 4 + 640])


def test_the_policy_of_figure_6_4_aims_at_its_load() -> None:
    """It grows below the load and falls above it, whatever the queue says; a flow with a smaller window aims a little higher."""

    def output(rtt: float, sent: float, window: float = 1.0, queue: float = 0.0) -> float:
        seen = np.zeros((1, len(fdcc.OBSERVATIONS)))
        given = {"rtt": rtt, "switch_rate": sent, "ins_rate": window, "queue": queue}
        seen[0, [fdcc.OBSERVATIONS.index(name) for name in given]] = list(given.values())
        return float(network.step(fdcc.to_inputs(seen), np.zeros((1, network.memory)))[0][0])

    network = figure_6_4.aimed().policy
    assert isinstance(network, fdcc.FdccNet)
    assert output(1.0, 1.0) < output(1.0, 0.9) < 0 < output(1.0, 0.8) < output(1.0, 0.5)
    assert output(2.0, 1.0) < output(1.2, 1.0) < output(1.0, 1.0)
    assert output(1.1, 0.9, queue=0.5) == output(1.1, 0.9)
    assert output(1.0, 0.85) == pytest.approx(0, abs=0.02) and output(1.0, 0.85, window=1 / 64) > 0.02


def test_a_lossy_fabric_has_no_pauses_and_the_leaf_spine_is_acc_s(tmp_path: Path) -> None:
    for row in unseen.ROWS:
        made = own_rate._spec(unseen.NAME, row, StudyOptions(tmp_path), 1)
        lossy = row.name.startswith(unseen.LOSSY)
        assert (made.topology.pfc == "classes") is not lossy and len(made.graph().hosts) == (128 if lossy else 24)


@pytest.mark.lab
def test_two_flows_share_the_line_and_one_has_it_alone(tmp_path: Path, lab_kernel: Path) -> None:
    tmp_path.chmod(0o755)
    (row,) = (row for row in figure_6_1.ROWS if row.name == n_to_one.DCQCN)
    options = StudyOptions(tmp_path, seeds=1)
    evidence = own_rate.run(figure_6_1.NAME, [row], options, Quiet(), figure_6_1.measure, None, figure_6_1.FILES)
    found = evidence.variants[row.name].numbers
    assert found[figure_6_1.ALONE.name][1] > 0.9 and found[figure_6_1.SHARED.name][1] > 0.9
    assert found[figure_6_1.SHORT.name][1] == pytest.approx(0.5, abs=0.05) and found["drops"][1] == 0


# --- ACC, figure 1


def goodputs(incast: str, shares: tuple[float, ...]) -> list[VariantEvidence]:
    """Returns the rows of an incast with these goodputs, by K, of three seeds that differ a little, in all set-ups.

    A K of the finer list alone has the goodput of the next lower one.
    """
    found = dict(zip(figure_1.THRESHOLDS_KB, shares, strict=True))
    return [
        contender(figure_1.name(incast, threshold_kb, setup), goodput=(share, share * 1.001, share * 0.999))
        for setup in figure_1.SETUPS
        for threshold_kb in figure_1.thresholds_kb(setup)
        for share in [found[max(each for each in found if each <= threshold_kb)]]
    ]


def test_the_best_k_is_the_smallest_that_leaves_enough() -> None:
    found = evidence(*goodputs("8 x 32", (0.5, 0.7, 0.8, 0.94, 0.95, 0.951)))
    assert figure_1.best(found, "8 x 32").numbers[figure_1.BEST.name] == {1: 500_000, 2: 500_000, 3: 500_000}
    found = evidence(*goodputs("8 x 32", (0.5, 0.7, 0.8, 0.945, 0.95, 0.951)))
    assert set(figure_1.best(found, "8 x 32").numbers[figure_1.BEST.name].values()) == {200_000}


def test_acc_s_claim_is_reproduced_by_what_it_says() -> None:
    rows = [*goodputs("8 x 32", (0.5, 0.7, 0.8, 0.9, 0.95, 0.951)), *goodputs("15 x 8", (0.8, 0.95, 0.951, 0.95, 0.94, 0.9))]
    found = evidence(*rows)
    whole = evidence(*rows, *(figure_1.best(found, incast, setup) for incast in figure_1.INCASTS for setup in figure_1.SETUPS))
    states = [judge(claim, whole).state for claim in figure_1.CLAIMS]
    assert states == [ClaimState.REPRODUCED] * 9
    swapped = {on(one, setup): figure_1.best(found, other, setup) for setup in figure_1.SETUPS for one, other in crossing()}
    crossed = evidence(*rows, *(VariantEvidence(name, "", "", each.numbers) for name, each in swapped.items()))
    assert [judge(claim, crossed).state for claim in figure_1.CLAIMS] == [ClaimState.CONTRADICTED] * 9


def crossing() -> list[tuple[str, str]]:
    one, other = figure_1.INCASTS
    return [(one, other), (other, one)]


def test_a_finer_list_tells_neighbours_apart() -> None:
    shares = {20: 0.8, 50: 0.93, 60: 0.945, 80: 0.945, 100: 0.95, 200: 0.95, 500: 0.95, 1000: 0.95}
    rows = [contender(figure_1.name("15 x 8", each, figure_1.DEPARTING), goodput=(share,)) for each, share in shares.items()]
    assert figure_1.best(evidence(*rows), "15 x 8", figure_1.DEPARTING).numbers[figure_1.BEST.name] == {1: 60_000}


def test_one_set_up_marks_at_departure(tmp_path: Path) -> None:
    moments = {
        setup: own_rate._spec("x", row, StudyOptions(tmp_path), 1).graph().switch_ports()[0].queue.marking.at
        for setup in figure_1.SETUPS
        for row in figure_1.ROWS
        if row.name == figure_1.name("8 x 32", 500, setup)
    }
    assert moments == {LOSSY: "arrival", PFC: "arrival", figure_1.DEPARTING: "departure"}


# --- ACC, figure 2


def test_completion_times_are_divided_seed_by_seed() -> None:
    times = {"SECN0": (1.0, 2.0, 4.0), "SECN1": (0.5, 1.0, 2.0), "SECN2": (2.0, 4.0, 8.0)}
    rows = [
        contender(figure_2.name(workload, marking, fabric), **{each.name: values for each in figure_2.MEASURED})
        for fabric in figure_2.SETUPS
        for workload in figure_2.WORKLOADS
        for marking, values in times.items()
    ]
    found = figure_2.with_ratios(evidence(*rows))
    for marking, ratio in (("SECN0", 1.0), ("SECN1", 0.5), ("SECN2", 2.0)):
        numbers = found.variants[figure_2.name("WebSearch", marking, PFC)].numbers
        assert all(set(numbers[each.name].values()) == {ratio} for each in figure_2.RATIOS.values())
    assert figure_2._figure(found).axes


def test_a_lone_flow_takes_its_frames_and_a_round_trip() -> None:
    found = figure_2.alone_ns(np.array([1, 1440, 1441, 14_400], dtype=np.uint64))
    assert found.tolist() == [7270 + wire * 8 / 25 for wire in (75, 1514, 1589, 15_140)]


@pytest.mark.parametrize("row", [*figure_1.ROWS, *figure_2.ROWS], ids=lambda row: row.name)
def test_every_row_is_a_spec(tmp_path: Path, row: own_rate.Variant) -> None:
    made = own_rate._spec("x", row, StudyOptions(tmp_path), 1)
    assert made.controller.name == "dcqcn" and len(made.graph().hosts) == 24
    assert (made.topology.pfc == "classes") is (PFC in row.name or figure_2.EARLY in row.name)
    shorter = own_rate._spec("x", row, StudyOptions(tmp_path, duration="30ms"), 1)
    assert shorter.time.duration_ns == 30_000_000 and (shorter.metrics.cutoff_ns or 0) <= 30_000_000


def test_queue_pairs_are_drawn_anew_or_stay() -> None:
    kinds = (figure_8.REDRAWN, figure_8.STEADY, figure_8.OFTENER)
    redrawn, steady, oftener = ([row.split(",") for row in figure_8.flows(2, pairs, 1).splitlines()[1:]] for pairs in kinds)
    assert len(steady) == 2 * figure_8.STEADY_PAIRS and {(row[3], row[4]) for row in steady} == {("0", "0.03")}
    for rows, phase_ms in ((redrawn, 3), (oftener, 2)):
        starts_ms = range(0, 30, phase_ms)
        counts = [sum(row[0] == "h1" and round(float(row[3]) * 1e3) == start for row in rows) for start in starts_ms]
        assert min(counts) >= 1 and max(counts) <= figure_8.MOST_PAIRS and len(set(counts)) > 3
        assert {round(float(row[4]) * 1e3) - round(float(row[3]) * 1e3) for row in rows} == {phase_ms}
        assert sum(row[0] == "h1" for row in rows) == sum(counts), "each starts with a draw"
        assert len({tuple(row[:3]) for row in rows}) == len(rows)


@pytest.mark.parametrize("senders", figure_8.SENDERS)
def test_kept_queue_pairs_only_change_by_the_difference_of_two_draws(senders: int) -> None:
    rows = [row.split(",") for row in figure_8.flows(senders, figure_8.KEPT, 1).splitlines()[1:]]
    counts = figure_8.draws(senders, figure_8.KEPT, 1)
    assert len(counts) == 30 and len({tuple(row[:3]) for row in rows}) == len(rows)
    for sender in range(1, senders + 1):
        spans = [tuple(round(float(each) * 1e3) for each in row[3:5]) for row in rows if row[0] == f"h{sender}"]
        wanted = [of_phase[sender - 1] for of_phase in counts]
        assert [sum(start <= 2 * at < stop for start, stop in spans) for at in range(30)] == wanted
        begun = sum(max(now - before, 0) for before, now in zip([0, *wanted], wanted, strict=False))
        assert len(spans) == begun, "none begins anew that could stay"


def test_queue_pairs_follow_the_seed() -> None:
    drawn = [figure_8.flows(2, figure_8.REDRAWN, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert figure_8.flows(2, figure_8.STEADY, 1) == figure_8.flows(2, figure_8.STEADY, 2)
    files = {row.by_seed["workload.file"].format(seed=seed) for row in figure_8.ROWS for seed in (1, 2)}
    assert len(files) == 2 * len({(senders, pairs) for senders, pairs, _, _ in figure_8.CASES})


@pytest.mark.parametrize("case", figure_8.CASES, ids=lambda case: figure_8.name(*case))
def test_rdma_and_tcp_have_classes_of_their_own(tmp_path: Path, case: tuple[int, str, str, str]) -> None:
    senders, pairs, marking, changed = case
    (row,) = (each for each in figure_8.ROWS if each.name == figure_8.name(*case))
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / figure_8.file_of(senders, pairs).format(seed=1)).write_text(figure_8.flows(senders, pairs, 1))
    made = own_rate._spec("x", row, StudyOptions(tmp_path), 1)
    queue = made.graph().switch_ports()[0].queue
    of = {flow.transport: queue.classes[queue.class_of(flow.dscp or 0)] for flow in made.flows(made.graph())}
    assert (of["rdma"].name, of["rdma"].lossless, of["tcp"].name, of["tcp"].lossless) == ("rdma", True, "tcp", False)
    if marking != "SECN0":
        own_ppm = {"SECN1": 10_000, "SECN2": 200_000}[marking]
        found = of["rdma"].marking
        assert found.probability_ppm == (1_000_000 if changed == figure_8.FULL_PMAX else own_ppm)
        assert found.at == "departure", "as HPCC's simulator does"
        if marking == "SECN2":
            factor = 1 if changed == figure_8.OF_25G else 4
            assert (found.min_bytes, found.max_bytes) == (100_000 * factor, 400_000 * factor)
    assert of["rdma"].quantum_bytes * 30 == pytest.approx(of["tcp"].quantum_bytes * 70, rel=0.001)


def test_shorter_runs_are_told(tmp_path: Path) -> None:
    rows = figure_1.ROWS
    assert str(own_rate._shortfall(rows, StudyOptions(tmp_path, duration="30ms"))) == "runs of 30ms instead of 60ms"
    assert str(own_rate._shortfall(rows, StudyOptions(tmp_path, seeds=1))) == "1 seed instead of 5"
    assert not str(own_rate._shortfall(rows, StudyOptions(tmp_path)))
