# SPDX-License-Identifier: Apache-2.0
"""The share of a flow's life in which its path was paused, on made-up tables whose shares are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dc_gym.results import tables as records
from dc_gym.results.metrics import Context, Routes, Window, flow_table, summarize
from dc_gym.results.metrics.pauses import find_pauses
from dc_gym.results.tables import TABLES, Tables
from tests.synthetic import flow_row, tables

STEP_NS, SWEEPS = 100, 10
S1, H1, H2 = 0, 1, 2
NAMES = ("s1-eth3", "h1-eth0", "h2-eth0")
Growth = dict[tuple[int, int], dict[int, int]]


def run(
    flows: list[dict[str, Any]], growth: Growth, pauses: dict[tuple[int, int], int] | None = None, classes: int = 1
) -> Tables:
    """Returns a run of 1000 ns. `growth`: paused time in the step that ends at a sweep, by port and class."""
    rows = []
    for sweep in range(1, SWEEPS + 1):
        for port in range(len(NAMES)):
            for number in range(classes):
                held = sum(ns for at, ns in growth.get((port, number), {}).items() if at <= sweep)
                count = (pauses or {}).get((port, number), 0) if sweep == SWEEPS else 0
                rows.append({"t_ns": sweep * STEP_NS, "port": NAMES[port], "class": number, "paused_ns": held, "pauses": count})
    return tables(flows=[flow_row(number, **fields) for number, fields in enumerate(flows)], class_queues=rows)


def shares(run_tables: Tables, *paths: tuple[int, ...], classes: tuple[int, ...] | None = None) -> list[float]:
    flow_pauses = find_pauses(run_tables, paths, classes or (0,) * len(paths), 1000)
    assert flow_pauses is not None
    return flow_pauses.shares.tolist()


def test_pauses_within_a_flow_s_life_are_its_own() -> None:
    growth = {(H1, 0): {3: 100, 4: 50}}
    trace = run([{"start_ns": 0, "end_ns": 1000}, {"start_ns": 200, "end_ns": 400}, {"start_ns": 500, "end_ns": 900}], growth)
    assert shares(trace, (H1, S1), (H1, S1), (H1, S1)) == [0.15, 0.75, 0]


def test_a_step_counts_the_port_that_was_held_longest() -> None:
    run_tables = run([{"end_ns": 1000}], {(H1, 0): {2: 60, 5: 10}, (S1, 0): {2: 40, 5: 30}})
    assert shares(run_tables, (H1, S1)) == [pytest.approx(0.09)]


def test_other_paths_and_other_classes_do_not_count() -> None:
    growth = {(H2, 0): {2: 100}, (H1, 1): {2: 100}}
    run_tables = run([{"end_ns": 1000}, {"end_ns": 1000}], growth, classes=2)
    assert shares(run_tables, (H1, S1), (H1, S1), classes=(0, 1)) == [0, 0.1]


def test_a_step_is_divided_where_a_flow_starts_or_ends_within_it() -> None:
    run_tables = run([{"start_ns": 125, "end_ns": 225}], {(H1, 0): {2: 80, 3: 40}})
    assert shares(run_tables, (H1,)) == [pytest.approx((0.75 * 80 + 0.25 * 40) / 100)]


def test_pauses_before_the_first_sweep_count() -> None:
    assert shares(run([{"end_ns": 50}], {(H1, 0): {1: 100}}), (H1,)) == [1]


def test_a_flow_that_did_not_end_lives_until_the_run_ends_and_one_that_did_not_start_has_no_share() -> None:
    run_tables = run([{"start_ns": 500, "end_ns": -1}, {"start_ns": -1}], {(H1, 0): {10: 100}})
    paused_shares = shares(run_tables, (H1,), (H1,))
    assert paused_shares[0] == 0.2 and np.isnan(paused_shares[1])


def test_the_summary_has_mean_and_sum() -> None:
    run_tables = run([{"end_ns": 1000}, {"end_ns": 500}], {(H1, 0): {2: 100}}, {(S1, 0): 3, (H2, 0): 4})
    context = Context(Window(0, 1000), routes=Routes([(H1,), (H1,)], np.full(2, np.inf)))
    summary = summarize(run_tables, context)
    assert summary["paused_share"] == pytest.approx(0.15) and summary["pauses"] == 7
    assert flow_table(run_tables, context)["paused_share"].tolist() == [0.1, 0.2]


def test_a_flow_is_of_the_class_of_its_dscp() -> None:
    run_tables = run([{"end_ns": 1000}, {"end_ns": 1000}, {"end_ns": 1000}], {(H1, 1): {2: 100}}, classes=2)
    dscps = np.zeros(3, TABLES["classes"].dtype)
    dscps["flow"], dscps["dscp"] = np.arange(3), [26, 0, 10]
    context = Context(Window(0, 1000), routes=Routes([(H1,)] * 3, np.full(3, np.inf)), class_of_dscp={26: 1, 0: 0})
    assert flow_table(replace(run_tables, classes=dscps), context)["paused_share"].tolist() == [0.1, 0, 0]


def test_ports_without_classes_have_no_such_metrics() -> None:
    run_tables = tables(flows=[flow_row(0, end_ns=1000)])
    context = Context(Window(0, 1000), routes=Routes([(H1,)], np.full(1, np.inf)))
    assert not {"paused_share", "pauses"} & summarize(run_tables, context).keys()
    assert "paused_share" not in flow_table(run_tables, context)


def test_pieces_may_divide_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    run_tables = run([{"end_ns": 1000}], {(H1, 0): {2: 60, 9: 10}, (S1, 0): {5: 30}}, {(S1, 0): 3, (H1, 0): 2})
    whole = shares(run_tables, (H1, S1))
    monkeypatch.setattr(records, "PIECE_ROWS", 4)
    assert shares(run_tables, (H1, S1)) == whole == [pytest.approx(0.1)]
    context = Context(Window(0, 1000), routes=Routes([(H1,)], np.full(1, np.inf)))
    assert summarize(run_tables, context)["pauses"] == 5
