# SPDX-License-Identifier: Apache-2.0
"""A small part of `dcgym bench port-cost` in a lab, its arithmetic, and the counters of work. No test judges a time."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise

import pytest

from dc_gym.base.errors import TestbedError
from dc_gym.benchmarks.checks import port_cost
from dc_gym.benchmarks.checks.port_cost import BASE, CONTROL, LOADS, OFF, SWITCHES, Block, Spent
from dc_gym.benchmarks.perf import work
from dc_gym.benchmarks.perf.work import PerfEvent

QUEUES, NO_QUEUES = LOADS
COUNTERS = {"drops": 0, "marks": 0, "records": 0}
NEVER = PerfEvent(0x7FFFFFFF, 0, "nothing")
TASK_CLOCK = PerfEvent(1, 1, "ns of task clock")


@pytest.mark.lab
def test_each_feature_is_measured_and_does_its_work(lab_kernel):
    """Dropped frames, and marks or records that a variant does not make, raise an error."""
    costs = port_cost.measured(lab_kernel, rounds=2, bursts=1, frames=60)
    assert [(cost.load, cost.variant) for cost in costs] == [(load, variant) for load in LOADS for variant in load.variants]
    assert len({cost.unit for cost in costs}) == 1 and costs[0].unit in (work.INSTRUCTIONS.unit, work.CPU_TIME)
    assert all(cost.ratio.count == 2 and cost.ratio.low <= cost.ratio.median <= cost.ratio.high for cost in costs)
    steps = [cost for cost in costs if cost.variant.marks and "kmax_bytes" not in cost.variant.marking]
    assert len(steps) == 3 and all(0.5 < cost.marks_a_hop <= 1 for cost in steps), "nearly all frames wait at a switch"
    checks = [port_cost.check(cost) for cost in costs]
    assert [check.name for check in checks][:2] == ["bfifo again (queues)", "port, all off (queues)"]
    assert all("of 2 pairs; " in check.measured and costs[0].unit in check.measured for check in checks)
    assert [check.name for check in checks if check.required == "<= 1.02 of bfifo"] == [
        "port, all off (queues)",
        "port, all off (no queues)",
    ]


def spent_of(block: Block, works: dict) -> Spent:
    return Spent(works[block.variant.name if block.variant else None], COUNTERS)


def test_the_cost_is_what_switches_add_over_bfifo_beside_it():
    blocks = [block for _ in range(3) for block in port_cost.turn(NO_QUEUES)]
    works = {None: 1000, BASE.name: 2000, CONTROL.name: 2000, OFF.name: 2100}
    spent = [spent_of(block, works) for block in blocks]
    control, off = port_cost.costs(NO_QUEUES, blocks, spent, hops=100, unit="instructions")
    assert (control.variant, control.work, control.ratio.median) == (CONTROL, 10, 1)
    assert (off.variant, off.work, off.ratio.median, off.ratio.count) == (OFF, 11, pytest.approx(1.1), 3)
    assert not port_cost.check(off).ok and port_cost.check(control).ok
    good = replace(off, ratio=replace(off.ratio, median=1.02))
    assert port_cost.check(good).ok


def test_bfifo_stands_beside_each_variant():
    for load in LOADS:
        names = [block.variant for block in port_cost.turn(load)]
        assert names[0] is None and names[1::2] == [BASE] * (len(load.variants) + 1) and names[2::2] == [*load.variants]


def test_a_block_is_five_switches_behind_one_host():
    port = Block(QUEUES, QUEUES.variants[-2]).job()["ports"]
    assert len(port) == 1 + SWITCHES and port[0]["stock"] and not any(each["stock"] for each in port[1:])
    assert [each["int_rate"] for each in port] == [None, 0, 1, 2, 3, 4]
    assert all(later["rate_bps"] < earlier["rate_bps"] for earlier, later in pairwise(port))
    assert len(Block(QUEUES, None).job()["ports"]) == 1


@pytest.mark.parametrize("change", [{"drops": 1}, {"marks": 1}, {"records": 5}])
def test_frames_that_did_something_else_are_an_error(change):
    port_cost.require_passage(Block(QUEUES, OFF), COUNTERS)
    with pytest.raises(TestbedError, match=r"port-cost: port, all off: asked .*; counted "):
        port_cost.require_passage(Block(QUEUES, OFF), COUNTERS | change)


def test_a_step_that_marks_nothing_is_an_error():
    step = next(variant for variant in QUEUES.variants if variant.marks)
    port_cost.require_passage(Block(QUEUES, step), COUNTERS | {"marks": 1})
    with pytest.raises(TestbedError, match="and marks; counted"):
        port_cost.require_passage(Block(QUEUES, step), COUNTERS)


def test_the_interval_is_of_order_statistics():
    """Ranks 40 and 61 of 100 are the usual ones; we take the next ones outwards."""
    ratio = port_cost.median_of(range(1, 101))
    assert (ratio.median, ratio.low, ratio.high, ratio.count) == (50.5, 40, 61, 100)
    assert port_cost.median_of([3.0]) == port_cost.Ratio(3, 3, 3, 1)


def test_an_event_is_counted_where_it_can_be():
    with work.counted(os.getpid(), NEVER) as counter:
        assert counter.unit == work.CPU_TIME
        before = counter.read()
        sum(range(10**6))
        assert counter.read() > before


def test_a_counter_counts_the_process():
    if not work._counts(TASK_CLOCK):
        pytest.skip("perf_event_open is not permitted here")
    with work.counted(os.getpid(), TASK_CLOCK) as counter:
        assert counter.unit == TASK_CLOCK.unit
        before = counter.read()
        sum(range(10**6))
        assert counter.read() > before
