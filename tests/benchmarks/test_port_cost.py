# SPDX-License-Identifier: Apache-2.0
"""A small part of `dcgym bench port-cost` in a lab, its arithmetic, and the counters of work. No test judges a time."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import accumulate, pairwise
from types import SimpleNamespace

import pytest

from dc_gym.base.errors import TestbedError
from dc_gym.benchmarks.checks import port_cost
from dc_gym.benchmarks.checks.port_cost import CONTROL, LOADS, OFF, SWITCHES, Trial, TrialWork
from dc_gym.benchmarks.perf import work
from dc_gym.benchmarks.perf.work import PerfEvent

QUEUES, NO_QUEUES = LOADS
COUNTERS = {"drops": 0, "marks": 0, "records": 0, "hops": 100}
NEVER = PerfEvent(0x7FFFFFFF, 0, "nothing")
TASK_CLOCK = PerfEvent(1, 1, "ns of task clock")


@pytest.mark.lab
def test_each_feature_is_measured_and_does_its_work(lab_kernel):
    """Dropped frames, and marks or records that a variant does not make, raise an error."""
    costs = port_cost.measured(lab_kernel, rounds=1, turns=2, bursts=1, frames=60)
    assert [(cost.load, cost.variant) for cost in costs] == [(load, variant) for load in LOADS for variant in load.variants]
    assert len({cost.unit for cost in costs}) == 1 and costs[0].unit in (work.INSTRUCTIONS.unit, work.CPU_TIME)
    assert all(cost.ratio.count == 1 for cost in costs)
    steps = [cost for cost in costs if cost.variant.marks and "kmax_bytes" not in cost.variant.marking]
    assert len(steps) == 3 and all(0.5 < cost.marks_a_hop <= 1 for cost in steps), "nearly all frames wait at a switch"
    checks = [port_cost.check(cost) for cost in costs]
    assert [check.name for check in checks][:2] == ["bfifo again (queues)", "port, all off (queues)"]
    assert all("1 pairs of trials; " in check.measured and costs[0].unit in check.measured for check in checks)
    bounded = [check.name for check in checks if check.required == "<= 1.02 of bfifo"]
    assert bounded == ["port, all off (queues)", "port, all off (no queues)"]


def work_of(trial: Trial, feature: int, base: int) -> TrialWork:
    """Returns the work of a trial whose turns without a switch take 1000 each."""
    return TrialWork([feature] * 4, [base] * 4, [1000], [COUNTERS] * 3)


def test_the_cost_is_what_switches_add_over_bfifo_in_swapped_chains():
    """The first chain is slower by a quarter, whatever its queues."""
    trials = [Trial(NO_QUEUES, OFF, swapped) for swapped in (False, True)] * 3
    measurements = [(trial, work_of(trial, 2100, 2250) if trial.swapped else work_of(trial, 2375, 2000)) for trial in trials]
    off = port_cost.hop_cost(NO_QUEUES, OFF, measurements, frames=20, unit="instructions")
    assert (off.work, off.base, off.ratio.count) == (12.375, 11.25, 3)
    assert off.ratio.median == off.ratio.low == off.ratio.high == pytest.approx(1.1)
    assert not port_cost.check(off).ok
    assert port_cost.check(replace(off, ratio=replace(off.ratio, median=1.02))).ok
    assert port_cost.check(replace(off, variant=CONTROL)).ok


def test_noise_that_is_larger_than_the_work_is_seen_in_the_ratio():
    trials = [Trial(NO_QUEUES, OFF, swapped) for swapped in (False, True)]
    measurements = [(trial, work_of(trial, 900 if trial.swapped else 1400, 1100)) for trial in trials]
    off = port_cost.hop_cost(NO_QUEUES, OFF, measurements, frames=20, unit="instructions")
    assert off.ratio.median == pytest.approx(-2)


def test_turns_are_sorted_by_what_passed():
    turns = 18
    order = port_cost.order(turns)
    assert (order.count(0), order.count(1), order.count(2)) == (turns, turns, 2) and order[:9] == [2, 0, 1, 1, 0, 0, 1, 1, 0]
    totals = accumulate(order, lambda total, side: total + 10**side, initial=5)
    lab, counter = SimpleNamespace(until_step=lambda: None, answer=lambda _: None), SimpleNamespace(read=lambda: next(totals))
    assert port_cost._turns(lab, counter, order) == [[1] * turns, [10] * turns, [100] * 2]


def test_a_chain_is_five_switches_behind_one_host():
    tells = next(variant for variant in QUEUES.variants if variant.tells)
    ports = port_cost.ports(QUEUES, tells)
    assert len(ports) == 1 + SWITCHES and ports[0]["stock"] and not any(port["stock"] for port in ports[1:])
    assert [port["int_rate"] for port in ports] == [None, 0, 1, 2, 3, 4]
    assert all(later["rate_bps"] < earlier["rate_bps"] for earlier, later in pairwise(ports))
    assert len(port_cost.ports(QUEUES, None)) == 1


@pytest.mark.parametrize("change", [{"drops": 1}, {"marks": 1}, {"records": 5}])
def test_frames_that_did_something_else_are_an_error(change):
    port_cost.require_passage(Trial(QUEUES, OFF, False), [COUNTERS] * 3)
    with pytest.raises(TestbedError, match=r"port-cost: port, all off: asked .*; counted "):
        port_cost.require_passage(Trial(QUEUES, OFF, False), [COUNTERS | change, COUNTERS, COUNTERS])


def test_a_step_that_marks_nothing_is_an_error():
    step = next(variant for variant in QUEUES.variants if variant.marks)
    port_cost.require_passage(Trial(QUEUES, step, True), [COUNTERS, COUNTERS | {"marks": 1}, COUNTERS])
    with pytest.raises(TestbedError, match="and marks; counted"):
        port_cost.require_passage(Trial(QUEUES, step, True), [COUNTERS] * 3)


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
