# SPDX-License-Identifier: Apache-2.0
"""Figures of ACC: the best K, completion times over SECN0's, and what is asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.progress import Quiet
from dc_gym.study import collect
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
from dc_gym.study import registry
from dc_gym.study.claims import ClaimState, judge
from dc_gym.study.evidence import VariantEvidence, Evidence, Track
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
)
NUMBERS = {
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
