# SPDX-License-Identifier: Apache-2.0
"""FDCC's studies: the queue's laws measured in a lab, what is asked, what is measured, and what the pictures show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.fdcc import (
    figure_3_2,
    figure_4_1,
    figure_6_1,
    figure_6_2,
    figure_6_3,
    figure_6_4,
    n_to_one,
    table_6_1,
    table_6_2,
    unseen,
)
from dc_gym.benchmarks.studies.fdcc.common import CONTESTANTS, DCQCN, FDCC, MB, RLCC, TIMELY, Change, own_share
from dc_gym.methods.fdcc import net as fdcc
from dc_gym.run.plan import nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.spec import Spec
from dc_gym.study import collect
from dc_gym.study.claims import Verdict
from dc_gym.study.evidence import Evidence, Track, VariantEvidence
from dc_gym.study.model import Study, StudyOptions, Variant

STUDIES = [LIBRARY.load(name) for name in LIBRARY.names() if name.startswith("fdcc/")]
OF = {study.name.partition("/")[2]: study for study in STUDIES}


def specs_of(study: Study, folder: Path, *variants: Variant, full: bool = False) -> list[Spec]:
    """Returns the specs of variants with seed 1; of all if none is given."""
    options = StudyOptions(folder, full=full)
    collect.write(collect.folder(study.runs or study.name.rpartition("/")[2], options), study.files_of([1]))
    return [collect.spec_of(study, variant, options, 1) for variant in variants or study.variants]


def evidence_of(study: Study, *measures: str, **tracks: np.ndarray) -> Evidence:
    """Returns evidence in which all variants have the same values."""
    numbers = {measure: {1: 1.0, 2: 2.0} for measure in measures}
    track = Track(np.arange(4.0), tracks)
    variants = [VariantEvidence(variant.name, variant.name, "#000000", numbers, {1: track}) for variant in study.variants]
    return Evidence({variant.name: variant for variant in variants})


# --- figure 3.2


def test_the_law_adds_up_the_differences() -> None:
    at_ms = np.array([0.0, 5, 10, 15, 20, 25, 30, 32])
    assert figure_3_2.law(at_ms).tolist() == [0, 156_250, 312_500, 312_500, 312_500, 156_250, 0, 0]


def test_the_law_is_drawn_beside_the_queue() -> None:
    at_s = np.linspace(0, 0.032, 100)
    track = Track(at_s, {name: at_s for name in ("queue", "ingress_bps", "egress_bps")})
    measured = VariantEvidence(figure_3_2.VARIANT, figure_3_2.VARIANT, "#000000", {}, {1: track})
    evidence = figure_3_2.STUDY.derive(Evidence({measured.name: measured}))
    assert evidence.variants[figure_3_2.LAW].over_time[1].values["queue"].max() == 312_500
    assert figure_3_2.STUDY.draw is not None
    assert [len(ax.get_lines()) for ax in figure_3_2.STUDY.draw(evidence).axes] == [2, 1, 1]


def test_flows_share_the_link_as_the_phases_say(tmp_path: Path) -> None:
    (spec,) = specs_of(OF["figure-3.2"], tmp_path)
    flows = spec.flows(spec.graph())
    for name, (start_ms, stop_ms, counts) in figure_3_2.PHASES.items():
        inside = [flow for flow in flows if start_ms <= flow.start_ns / 1e6 < stop_ms]
        assert [sum(flow.src == f"h{host}" for flow in inside) for host in (1, 2, 3, 4)] == list(counts)
        wire_bps = sum(flow.rate_bps for flow in inside) * 1514 / 1472
        assert wire_bps - 1e9 == pytest.approx(figure_3_2.DIFFERENCE_BPS[name], abs=100)


@pytest.mark.lab
def test_the_queue_grows_at_the_difference_stands_and_drains(tmp_path: Path, lab_kernel: Path) -> None:
    tmp_path.chmod(0o755)
    evidence = collect.SpecRuns()(OF["figure-3.2"], StudyOptions(tmp_path, seeds=1), Quiet()).evidence
    (row,) = evidence.variants.values()
    for name, growth in figure_3_2.GROWTH.items():
        assert row.numbers[growth.name][1] == pytest.approx(figure_3_2.DIFFERENCE_BPS[name], abs=0.01 * 0.25e9)
    assert row.numbers[figure_3_2.LONGEST.name][1] == pytest.approx(312_500, abs=3 * 1514)
    assert {identity.judge(evidence).verdict for identity in figure_3_2.STUDY.identities} == {Verdict.SAME}
    assert len(row.over_time[1].x) == 100


@pytest.mark.parametrize(("growth_bps", "verdict"), [(0.2476e9, Verdict.SAME), (0.2474e9, Verdict.OPPOSITE)])
def test_a_queue_that_grows_otherwise_breaks_an_identity(growth_bps: float, verdict: Verdict) -> None:
    grown = {figure_3_2.GROWTH["above"].name: {1: 0.25e9, 2: growth_bps}}
    evidence = Evidence({figure_3_2.VARIANT: VariantEvidence(figure_3_2.VARIANT, "", "", grown)})
    assert min(criterion.judge(evidence).verdict for criterion in figure_3_2.growing("above")) is min(verdict, Verdict.SAME)


# --- tables 6.1 and 6.2, figure 4.1


@pytest.mark.parametrize("name", ["table-6.1", "table-6.2"])
def test_tables_have_the_thesis_length_with_full(tmp_path: Path, name: str) -> None:
    for short, full in zip(specs_of(OF[name], tmp_path), specs_of(OF[name], tmp_path, full=True), strict=True):
        assert short.nic.inflight_bytes is not None and short.topology.pfc == "classes"
        flows = full.flows(full.graph())
        assert {flow.size_bytes for flow in flows} == {20_000_000} and len({flow.dst for flow in flows}) == 1
        assert sum(flow.size_bytes for flow in short.flows(short.graph())) <= 960 * MB
        line_ns = len(flows) * 20_000_000 * 8 * 1514 / 1440 / 100
        assert full.time.duration_ns > 2 * line_ns, "flows end within the run"


def test_three_racks_send_to_the_fourth(tmp_path: Path) -> None:
    (spec,) = specs_of(OF["table-6.1"], tmp_path, table_6_1.VARIANTS[0])
    leaves = {port.node: cable for cable in spec.graph().cables for port in (cable.a, cable.b)}
    flows = spec.flows(spec.graph())
    racks = {next(end.node for end in (leaves[flow.src].a, leaves[flow.src].b) if end.node != flow.src) for flow in flows}
    assert len(racks) == 3 and {flow.dst for flow in flows} == {"h64"}


@pytest.mark.parametrize(
    ("study", "contestant", "flows", "change"),
    [
        ("table-6.1", TIMELY, 192, table_6_1.FLOOR),
        ("table-6.1", DCQCN, 768, table_6_1.UNTIMED),
        ("table-6.2", DCQCN, 16, table_6_2.WINDOWS),
        ("table-6.2", TIMELY, 1024, table_6_2.TIMES),
        ("table-6.2", RLCC, 256, n_to_one.TOGETHER),
        ("figure-6.3", FDCC, 768, figure_6_3.FIRST),
    ],
)
def test_a_change_is_all_that_its_variant_has_of_its_own(
    study: str, contestant: str, flows: int, change: Change, tmp_path: Path
) -> None:
    by_name = {variant.name: variant for variant in OF[study].variants}
    plain, changed = by_name[n_to_one.name(contestant, flows)], by_name[n_to_one.name(contestant, flows, change)]
    for full in (False, True):
        assert changed.keys(full) == {**plain.keys(full), **change.keys} != plain.keys(full)
    specs_of(OF[study], tmp_path, changed)


def test_the_floor_is_one_percent_of_the_line() -> None:
    assert table_6_1.FLOOR.keys["nic.parameters.rate_min"] == round(0.01 * 2**20)


@pytest.mark.parametrize(
    ("payload_bytes", "telemetry_bytes", "share"), [(1440, 0, 1), (1398, 42, 1398 / 1440), (320, 0, 320 / 394 * 1514 / 1440)]
)
def test_a_contestant_s_own_frames_carry_that_share(payload_bytes: int, telemetry_bytes: int, share: float) -> None:
    telemetry = {"telemetry": {"bytes": telemetry_bytes}} if telemetry_bytes else {}
    result: Any = SimpleNamespace(manifest={"nic": {"settings": {"payload_bytes": payload_bytes}, **telemetry}})
    assert own_share(result) == pytest.approx(share)


def test_the_window_of_one_bdp_is_the_thesis(tmp_path: Path) -> None:
    (spec,) = specs_of(OF["table-6.2"], tmp_path, table_6_2.VARIANTS[0])
    one = Experiment.of(spec)
    table = nics.flow_table(one.schedule, one.graph, one.router, one.spec)
    windows = set(table.records["inflight_bytes"].tolist())
    assert len(windows) == 1 and windows.pop() == pytest.approx(17_000, rel=0.02), "RL-CC's queue a flow in table 6.2"


def test_a_lone_flow_has_slowdown_1_and_the_whole_line() -> None:
    size, links = 1_440_000, 3
    alone_ns = n_to_one.standalone_ns(size, links)
    assert alone_ns == 1000 * 1514 * 8 // 100 + 2 * 1514 * 8 // 100 + 3 * 160
    ended = np.array([(0, alone_ns, size)], [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")])
    numbers = n_to_one._of_all(ended, links, 1)
    assert numbers["slowdown"] == 1 and numbers["unfair"] == 0 and 0.99 < numbers["goodput"] < 1


def test_the_unfair_ratio_is_of_rates() -> None:
    ended = np.array(
        [(0, 100, 10), (0, 300, 10)], [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")]
    )  # rates 1/10 and 1/30, mean 2/30
    assert n_to_one._of_all(ended, 3, 1)["unfair"] == pytest.approx(0.5)


@pytest.mark.lab
def test_the_buffer_fills_without_a_window_and_senders_are_paused(tmp_path: Path, lab_kernel: Path) -> None:
    tmp_path.chmod(0o755)
    evidence = collect.SpecRuns()(OF["figure-4.1"], StudyOptions(tmp_path, seeds=1, duration="100us"), Quiet()).evidence
    without, within = (variant.numbers for variant in evidence.variants.values())
    assert without["longest_bytes"][1] > figure_4_1.FULL_BYTES and without["pauses"][1] > 64
    assert 63 * 16_000 < within["longest_bytes"][1] < 63 * 18_000 and within["pauses"][1] == 0
    assert without["paused_share"][1] > 0.1 and within["paused_share"][1] == 0
    assert without["drops"][1] == within["drops"][1] == 0


# --- figures 6.1 to 6.5, and networks that its training never had


@pytest.mark.parametrize("name", ["figure-6.1", "figure-6.2", "figure-6.3", "figure-6.4", "unseen"])
def test_every_contestant_has_a_window_and_fdcc_a_variant(tmp_path: Path, name: str) -> None:
    specs = specs_of(OF[name], tmp_path)
    assert all(spec.nic.inflight_bytes is not None for spec in specs)
    assert all(spec.topology.pfc == "classes" or name == "unseen" for spec in specs)
    assert {spec.controller.name for spec in specs} == {"dcqcn", "timely", "hpcc", "rlcc-mlp", "fdcc"}


@pytest.mark.parametrize(("full", "starts_ms"), [(False, (0, 5, 10, 15)), (True, (0, 35, 70, 105))])
def test_flows_join_one_after_the_other(tmp_path: Path, full: bool, starts_ms: tuple[int, ...]) -> None:
    spec = specs_of(OF["figure-6.2"], tmp_path, full=full)[0]
    flows = spec.flows(spec.graph())
    assert len({flow.dst for flow in flows}) == 1 and len({flow.src for flow in flows}) == 4
    assert all(0 <= flow.start_ns - start * 10**6 <= 10_000 for flow, start in zip(flows, starts_ms, strict=True))
    assert spec.time.duration_ns == 4 * (starts_ms[1] - starts_ms[0]) * 10**6


def test_a_phase_is_judged_in_its_second_half_by_the_flows_that_have_joined() -> None:
    t_ms = np.arange(0.05, 20, 0.1)
    shares = np.array([np.where(t_ms > 5 * flow, flow + 1.0, 0.0) for flow in range(4)])
    phases = figure_6_2.phases(t_ms, shares)
    assert [phase.shape for phase in phases] == [(1, 25), (2, 25), (3, 25), (4, 25)]
    assert [phase.mean(axis=1).tolist() for phase in phases] == [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4]]


@pytest.mark.parametrize("name", sorted(set(OF) - {"figure-3.2", "figure-3.3", "figure-4.1"}))
def test_pictures_have_a_line_for_each_contestant(name: str) -> None:
    study, drawn = OF[name], [measure.name for measure in figure_6_3.DRAWN] if name == "figure-6.3" else ["0", "1"]
    evidence = evidence_of(study, *(measure.name for measure in study.measures), **dict.fromkeys(drawn, np.arange(4.0)))
    if name == "figure-6.3":
        at = np.array(figure_6_3.PERCENTILES)
        track = Track(at, dict.fromkeys(drawn, at))
        evidence = Evidence({variant.name: replace(variant, over_time={1: track}) for variant in evidence.variants.values()})
    assert study.draw is not None
    axes = study.draw(evidence).axes
    if name in ("figure-6.1", "figure-6.2"):
        assert [ax.get_title(loc="left").partition(":")[0] for ax in axes] == [variant.name for variant in study.variants]
        return
    labels = {str(line.get_label()).partition(",")[0] for line in axes[0].get_lines()}
    assert set(CONTESTANTS) <= labels and len(axes) == (9 if name == "figure-6.3" else 3)


def test_percentiles_are_of_flows_and_of_none_if_one_did_not_end() -> None:
    flows = np.zeros(4, [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")])
    flows["end_ns"], flows["size_bytes"] = 10**6 * np.array([1, 1, 1, 2]), 1_000_000
    result: Any = SimpleNamespace(
        records=lambda _: flows, derived=lambda _: {"paused_share": SimpleNamespace(to_numpy=lambda: np.array([0, 0, 0.5, 0.1]))}
    )
    numbers = figure_6_3.measure(result)
    assert numbers["distance_p50"] == pytest.approx(1 / 7) and numbers["paused_share"] == pytest.approx(0.15)
    assert set(numbers) == {measure.name for measure in figure_6_3.STUDY.measures}
    assert figure_6_3.track(result).values["distance"][[0, -1]] == pytest.approx([1 / 7, 3 / 7], rel=5e-3)
    flows["end_ns"][3] = -1
    assert figure_6_3.measure(result) == {"unfinished": 1.0} and not figure_6_3.track(result).values


def test_a_lossy_fabric_leaves_the_pauses_undefined() -> None:
    flows = np.zeros(2, [("start_ns", "<i8"), ("end_ns", "<i8"), ("size_bytes", "<u8")])
    flows["end_ns"] = (5, -1)
    result: Any = SimpleNamespace(records=lambda _: flows, summary={"drops": 7})
    numbers = n_to_one.measure(result, 3)
    assert np.isnan(numbers.pop("pauses")) and np.isnan(numbers.pop("paused_share"))
    assert numbers == {"drops": 7.0, "unfinished": 1.0}


def test_figure_6_3_has_the_runs_of_table_6_1() -> None:
    table, figure = OF["table-6.1"], OF["figure-6.3"]
    shared = [variant for variant in figure.variants if variant in table.variants]
    assert figure.runs == table.runs and len(shared) == len(CONTESTANTS) * len(table_6_1.COUNTS)
    names = [variant.name for variant in (*table.variants, *(variant for variant in figure.variants if variant not in shared))]
    assert len(names) == len(set(names)), "both studies' runs are in one folder"


def test_lone_flows_take_their_frames_and_their_path() -> None:
    alone_ns = figure_6_4.alone_ns(np.array([1440, 14_400, 14_400], dtype=np.uint64), np.array([False, False, True]))
    frame_ns = 1514 * 8 / 100
    assert alone_ns == pytest.approx([2 * frame_ns + 320, 11 * frame_ns + 320, 11 * frame_ns + 2 * frame_ns / 4 + 640])


def test_the_policy_of_figure_6_4_aims_at_its_load() -> None:
    """It grows below the load and falls above it, whatever the queue says; a flow with a smaller window aims a little higher."""

    def output(rtt: float, sent: float, window: float = 1.0, queue: float = 0.0) -> float:
        observation = np.zeros((1, len(fdcc.OBSERVATIONS)))
        signals = {"rtt": rtt, "switch_rate": sent, "ins_rate": window, "queue": queue}
        observation[0, [fdcc.OBSERVATIONS.index(name) for name in signals]] = list(signals.values())
        return float(network.step(fdcc.to_inputs(observation), np.zeros((1, network.memory)))[0][0])

    network = figure_6_4.aimed().policy
    assert isinstance(network, fdcc.FdccNet)
    assert output(1.0, 1.0) < output(1.0, 0.9) < 0 < output(1.0, 0.8) < output(1.0, 0.5)
    assert output(2.0, 1.0) < output(1.2, 1.0) < output(1.0, 1.0)
    assert output(1.1, 0.9, queue=0.5) == output(1.1, 0.9)
    assert output(1.0, 0.85) == pytest.approx(0, abs=0.02) and output(1.0, 0.85, window=1 / 64) > 0.02


def test_a_lossy_fabric_has_no_pauses_and_the_leaf_spine_is_acc_s(tmp_path: Path) -> None:
    study = OF["unseen"]
    for variant, spec in zip(study.variants, specs_of(study, tmp_path), strict=True):
        lossy = variant.name.startswith(unseen.LOSSY)
        assert (spec.topology.pfc == "classes") is not lossy and len(spec.graph().hosts) == (128 if lossy else 24)
        assert variant.given == ({"links": 3, "scale": 1} if lossy else {"links": 4, "scale": 4})


@pytest.mark.lab
def test_two_flows_share_the_line_and_one_has_it_alone(tmp_path: Path, lab_kernel: Path) -> None:
    tmp_path.chmod(0o755)
    study, options = OF["figure-6.1"], StudyOptions(tmp_path, seeds=1, variants=(DCQCN,))
    evidence = collect.SpecRuns()(study, options, Quiet()).evidence
    numbers = evidence.variants[DCQCN].numbers
    assert numbers[figure_6_1.ALONE.name][1] > 0.9 and numbers[figure_6_1.SHARED.name][1] > 0.9
    assert numbers[figure_6_1.SHORT.name][1] == pytest.approx(0.5, abs=0.05) and numbers["drops"][1] == 0
    assert len(evidence.variants[DCQCN].over_time[1].x) == 100
