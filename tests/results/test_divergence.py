# SPDX-License-Identifier: Apache-2.0
"""Where two results diverge: at the earliest record that differs, in virtual time, over all tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import synthetic
from synthetic import MS

from dc_gym.results.divergence import Difference, Inequality, first_difference, history, values_of
from dc_gym.results.tables import Tables


def changed(tables: Tables, name: str, row: int, column: str, add: int) -> Tables:
    records = tables.table(name).copy()
    records[column][row] = int(records[column][row]) + add
    return dataclasses.replace(tables, **{name: records})


def without(tables: Tables, name: str, row: int) -> Tables:
    return dataclasses.replace(tables, **{name: np.delete(tables.table(name), row)})


def first(a: Tables, b: Tables) -> Difference:
    difference = first_difference(a, b)
    assert difference is not None
    return difference


def small(**flow: Any) -> Tables:
    """Two flows, three sweeps, four samples."""
    ended = {"start_ns": 1 * MS, "established_ns": 2 * MS, "end_ns": 20 * MS, "status": "done"} | flow
    queues = [{"t_ns": t * MS, "port": port} for t in (0, 10, 30) for port in ("s1-eth3", "h1-eth0", "h2-eth0")]
    tcp = [{"t_ns": t * MS, "flow": number} for t in (5, 15) for number in (0, 1)]
    return synthetic.tables([synthetic.flow_row(0, **ended), synthetic.flow_row(1)], queues, tcp)


def test_equal_results_do_not_differ() -> None:
    assert first_difference(synthetic.run(), synthetic.run()) is None


def test_the_earliest_in_time_over_all_tables() -> None:
    a = synthetic.run()
    b = changed(changed(changed(a, "queues", 900, "marks", 3), "tcp", 500, "srtt_us", 1), "flows", 0, "received_bytes", 1)
    difference = first(a, b)
    value = int(a.tcp["srtt_us"][500])
    assert (difference.table, difference.row, difference.only, difference.t_ns) == ("tcp", 500, "", int(a.tcp["t_ns"][500]))
    assert difference.columns == (Inequality("srtt_us", value, value + 1),)
    assert difference.where == "flow 0 (h1 to h2)"
    assert f"at t = {difference.t_ns} ns: srtt_us {value} and {value + 1} (record 500)" in str(difference)


def test_a_queue_earlier_than_a_sample() -> None:
    a = synthetic.run()
    difference = first(a, changed(changed(a, "queues", 300, "marks", 3), "tcp", 500, "srtt_us", 1))
    assert (difference.table, difference.where) == ("queues", "port s1-eth3 of s1")


def test_what_else_differs_at_the_same_instant() -> None:
    a = synthetic.run()
    b = changed(changed(changed(a, "queues", 300, "marks", 3), "queues", 302, "marks", 1), "queues", 303, "marks", 1)
    assert first(a, b).also == ("port h2-eth0 of h2",)


def test_each_column_of_the_flow_log_has_its_time() -> None:
    a = small()
    times = {"start_ns": 1 * MS, "src_port": 1 * MS, "established_ns": 2 * MS, "retransmits": 20 * MS, "status": 20 * MS}
    for column, t_ns in times.items():
        difference = first(a, changed(a, "flows", 0, column, 1))
        assert (difference.table, difference.row, difference.t_ns) == ("flows", 0, t_ns), column
    never = first(a, changed(a, "flows", 1, "received_bytes", 1))
    assert never.t_ns == 30 * MS, "a flow that never ended is known at the end of the run"


def test_the_flow_that_was_settled_first() -> None:
    a = small()
    b = changed(changed(a, "flows", 0, "retransmits", 1), "flows", 1, "established_ns", 7)
    difference = first(a, b)
    assert (difference.row, difference.t_ns, difference.columns[0].column) == (1, 0, "established_ns")
    assert first(a, changed(b, "queues", 0, "drops", 1)).table == "flows", "at the same instant the cause goes first"


def test_an_ended_flow_against_one_that_did_not_end() -> None:
    difference = first(small(), small(end_ns=-1, status="running"))
    assert (difference.t_ns, [inequality.column for inequality in difference.columns]) == (20 * MS, ["end_ns", "status"])


def test_a_record_that_only_one_has() -> None:
    a = small()
    for one, other, only in ((a, without(a, "tcp", 1), "a"), (without(a, "tcp", 1), a, "b")):
        delta = first(one, other)
        assert (delta.table, delta.row, delta.only, delta.t_ns, delta.where) == ("tcp", 1, only, 5 * MS, "flow 1 (h1 to h2)")
        assert f"only {only.upper()} has this record" in str(delta)
    last = first(a, without(a, "tcp", 3))
    assert (last.row, last.only, last.t_ns) == (3, "a", 15 * MS)
    flow = first(without(a, "flows", 1), a)
    assert (flow.table, flow.row, flow.only) == ("flows", 1, "b")


def test_other_ports_cannot_be_compared() -> None:
    a = synthetic.run()
    difference = first(a, dataclasses.replace(a, ports=a.ports[:-1]))
    assert (difference.table, difference.row, difference.only, difference.t_ns) == ("ports", 2, "a", None)
    renamed = ({**a.ports[0], "name": "s1-eth9"}, *a.ports[1:])
    assert first(a, dataclasses.replace(a, ports=renamed)).columns == (Inequality("name", "s1-eth3", "s1-eth9"),)


def test_history_is_of_the_same_port() -> None:
    a = synthetic.run()
    difference = first(a, changed(a, "queues", 300, "marks", 3))
    rows = history(a, a, difference, 10)
    assert rows == list(range(270, 300, 3))
    assert {values_of(a, "queues", row)["port"] for row in rows} == {"s1-eth3"}
    assert history(a, a, first(a, changed(a, "queues", 3, "marks", 3)), 10) == [0]
    assert history(small(), small(), first(small(), changed(small(), "flows", 1, "error", 1)), 10) == [0]
