# SPDX-License-Identifier: Apache-2.0
"""PCC-RL's figure and tables: in what their variants differ, what is measured, and who stands in for whom."""

from dataclasses import replace

import numpy as np
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.benchmarks.studies.pcc_rl import common as pccrl
from dc_gym.benchmarks.studies.pcc_rl import figure_1, table_1
from dc_gym.benchmarks.studies.pcc_rl import table_2 as pccrl_table_2
from dc_gym.benchmarks.studies.rl_cc import cluster, figure_8, figure_9
from dc_gym.benchmarks.studies.rl_cc import common as rlcc
from dc_gym.study import page
from dc_gym.study.evidence import Evidence, VariantEvidence
from dc_gym.study.options import StudyOptions
from dc_gym.study.scaled import MS, US, RunLength

QUARTER = {"nic.parameters": {"rate": 1 << 18}}


def of_variant(module, variant):
    return [claim for claim in module.CLAIMS if claim.variant == variant and not claim.ours]


def test_short_flows_of_pcc_rl_fit_into_the_buffer_but_for_those_of_its_own_rows(tmp_path):
    for row in figure_1.ROWS:
        spec = rlcc.spec(row, StudyOptions(tmp_path), 1)
        fits = (8 - 1) * spec.workload.size_bytes < figure_1.BUFFER_BYTES
        assert fits == (row.variant in figure_1.SIZES) and fits == row.name.split(", ")[1].endswith(" each")
    for size in figure_1.SIZES:
        assert [each.text for each in of_variant(figure_1, size)] == [each.text for each in of_variant(figure_1, cluster.OWN)]


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
