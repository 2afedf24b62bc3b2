# SPDX-License-Identifier: Apache-2.0
"""PCC-RL's figure and tables: in what their variants differ, what is measured, and who stands in for whom."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies import LIBRARY
from dc_gym.benchmarks.studies.pcc_rl import figure_1, table_1, table_2
from dc_gym.benchmarks.studies.rl_cc import cluster
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.study import collect
from dc_gym.study.model import StudyOptions
from dc_gym.study.scaled import MS, US, RunLength

OPTIONS = StudyOptions(Path("out"))


def variant(study, name):
    (variant,) = (candidate for candidate in study.variants if candidate.name == name)
    return variant


def spec(study, name):
    return collect.spec_of(study, variant(study, name), OPTIONS, 1)


def test_short_flows_fit_into_the_buffer_but_for_those_of_the_figure_itself():
    for variant in figure_1.STUDY.variants:
        variant_spec = spec(figure_1.STUDY, variant.name)
        fits = (8 - 1) * variant_spec.workload.size_bytes < figure_1.BUFFER_BYTES
        assert fits == variant.name.split(", ")[1].endswith(" each")
    plain = [claim.text for claim in figure_1.STUDY.claims if not claim.setup]
    for size in figure_1.SIZES:
        assert [claim.text for claim in figure_1.STUDY.claims if claim.setup == size] == plain


def test_rows_that_show_a_cause_differ_in_it_alone():
    for controller, setup, parameters in (
        *((controller, rlcc.SLOW, {"rate_initial": rlcc.FIRST_RATE}) for controller in figure_1.BY_RATE),
        ("Swift", figure_1.HALF, {"ai": 1 << 19}),
    ):
        a, b = spec(figure_1.STUDY, f"{controller}, 8 flows"), spec(figure_1.STUDY, f"{controller}, {setup}, 8 flows")
        assert dict(b.nic.parameters) == dict(a.nic.parameters) | parameters
        assert replace(b, name=a.name, nic=a.nic) == a
    a, b = spec(table_2.STUDY, "DC2QCN, 8 hosts"), spec(table_2.STUDY, "DC2QCN, early marks, 8 hosts")
    assert (a.topology.marking, b.topology.marking) == ("secn2", "red-instant")
    assert replace(b, name=a.name, topology=a.topology) == a
    for controller, parameters in (("PCC-RL", {}), ("Swift", table_2.NEAR_TARGET["nic.parameters"])):
        a, b = spec(table_2.STUDY, f"{controller}, 4 hosts"), spec(table_2.STUDY, f"{controller}, bursts, 4 hosts")
        assert dict(b.nic.parameters) == dict(a.nic.parameters) | parameters
        changed = replace(a.nic, parameters=b.nic.parameters, burst_packets=8, ack_packets=8)
        assert replace(b, name=a.name) == replace(a, nic=changed)


@pytest.mark.parametrize(
    ("study", "setup", "controllers"),
    [
        (figure_1.STUDY, rlcc.PCC, ("Swift",)),
        (table_1.STUDY, rlcc.PCC, ("Swift",)),
        (table_2.STUDY, rlcc.PCC, ("Swift",)),
        (figure_1.STUDY, figure_1.HALF, ("Swift",)),
        (table_2.STUDY, table_2.EARLY, ("DC2QCN",)),
        (table_2.STUDY, table_2.BURSTS, ("PCC-RL", "Swift")),
    ],
)
def test_a_set_up_is_judged_apart_and_has_no_printed_values(study, setup, controllers):
    def about(*setups):
        claims = [claim for claim in study.claims if claim.setup in setups]
        return [{name for criterion in claim.criteria for name in criterion.about} for claim in claims]

    prefixes = tuple(f"{controller}, {setup}" for controller in controllers)
    assert all(not name.startswith(prefixes) for names in about(rlcc.OWN) for name in names)
    subjects = about(setup)
    assert subjects and all(any(name.startswith(prefixes) for name in names) for names in subjects)
    assert all(variant.paper == {} for variant in study.variants if variant.name.startswith(prefixes))


def test_the_tracks_that_the_figure_draws_are_kept():
    drawn = {variant.name for variant in figure_1.STUDY.variants if variant.tracks is None}
    assert drawn == {f"{algo}, {flows} flows" for algo in figure_1.DRAWN for flows in (2, 8)} and len(drawn) == 12
    assert {variant.tracks for variant in figure_1.STUDY.variants if variant.name not in drawn} == {0}


def test_most_flows_are_left_to_all_cases():
    few, every = (table_1.STUDY.chosen(options) for options in (OPTIONS, replace(OPTIONS, all_cases=True)))
    assert {name.name.split(", ")[-1] for name in few} == {"128 flows", "1024 flows"} and len(every) == 2 * len(few)


@pytest.mark.parametrize(("measured", "unfinished", "recovery_s"), [(0.1, 0, 0.1), (np.nan, 0, 0.5), (np.nan, 2, np.nan)])
def test_a_long_flow_that_is_not_back_took_at_least_the_rest_of_the_run(measured, unfinished, recovery_s):
    numbers = {figure_1.RECOVERY.name: measured, figure_1.UNFINISHED.name: unfinished}
    assert figure_1.recovery_s(numbers, 0.5) == pytest.approx(recovery_s, nan_ok=True)


def test_rows_say_who_stands_in_for_whom():
    tree, hpcc = (variant(table_1.STUDY, f"{controller}, 128 flows") for controller in ("PCC-RL", "HPCC"))
    assert tree.label == "PCC-RL (RL-CC's tree stands in for it), 128 flows"
    assert hpcc.label == "HPCC (its own paper's form), 128 flows"
    assert hpcc.paper == pytest.approx({"utilization": 0.83, "fairness": 0.96, "queue_s": 5e-6, "drop_bps": 0})
    assert variant(figure_1.STUDY, "Swift, PCC, 2 flows").label == "Swift, PCC, 2 flows"


@pytest.mark.lab
def test_a_long_and_a_short_flow_that_are_known(tmp_path, lab_kernel):
    """Each flow has a quarter of the line: the short one takes four times as long as at line rate."""
    workload = {"kind": "long_short", "long": 1, "short": 1, "size": "1MB", "short_start": 500 * US, "jitter": 0}
    length, quarter = RunLength(1 * MS, 100 * US), {"nic.parameters": {"rate": 1 << 18}}
    known = rlcc.variant("known", "fixed", figure_1.NINE, workload, length=length, full=length, keys=quarter)
    study = replace(LIBRARY.load("pcc-rl/figure-1"), variants=[known], runs="known", seeds=1)
    evidence = collect.SpecRuns()(study, StudyOptions(tmp_path), Quiet()).evidence.variants[known.name]
    value = {name: by_seed[1] for name, by_seed in evidence.numbers.items() if by_seed}
    took_s, base_s = 1e6 * 8 * 1514 / 1440 / 25e9, 6.07e-6
    assert value[cluster.SLOWDOWN.name] == pytest.approx((took_s + base_s / 2) / base_s, rel=0.02)
    assert value[cluster.LONG_SHARE.name] == pytest.approx(0.25 * 1440 / 1514, rel=0.02) and value[cluster.UNFINISHED.name] == 0
    drawn = evidence.over_time[1]
    assert drawn.x[0] + drawn.x[-1] == pytest.approx(1, abs=0.02) and len(drawn.x) == figure_1.DRAWN_BINS
    assert drawn.values[figure_1.BANDWIDTH.name][2:] == pytest.approx(0.25 * 1440 / 1514, rel=0.1)
