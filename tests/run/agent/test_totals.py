# SPDX-License-Identifier: Apache-2.0
"""Tests the metrics in info, of one step and of a whole episode, against values worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from dc_gym.run.agent.frame import stacked
from dc_gym.run.agent.metrics import BLANK, BLOCK_STEPS, columns, metrics
from dc_gym.run.agent.totals import EpisodeTotals
from tests.run.agent.made import DONE, MS, RUNNING, STOPPED, cells, flows, frame, random_frame, scene

UDP = 'workload.transport="udp"', 'workload.rate="1Mbit/s"'


def test_of_a_step():
    dumbbell, info = scene()
    now = frame(
        info,
        before=cells(marks={"s1-eth3": 1}),
        cells=cells(
            backlog_bytes={"s1-eth3": 6000, "s2-eth1": 3000, "h1-eth0": 8000, "h2-eth0": 4000},
            tx_bytes={"s1-eth3": 12_500, "h1-eth0": 2500, "h2-eth0": 5000},
            drops={"s1-eth3": 2, "h2-eth0": 1},
            marks={"s1-eth3": 5},
        ),
        flows_before=flows({"status": RUNNING}, {"status": RUNNING, "retransmits": 1}),
        flows=flows(
            {"status": RUNNING, "received_bytes": 3000, "srtt_us": 2 * 3852},
            {"status": RUNNING, "received_bytes": 1000, "srtt_us": 4 * 3852, "retransmits": 3},
        ),
        wanted_bps=np.array([1e7, 1e7, 5e6, 5e6]),
        enforced_bps=np.array([1e7, 1e7, 1e7, 0.0]),
    )
    assert metrics(now, dumbbell) == pytest.approx(
        {
            "goodput_bps": 4000 * 8 / 0.01,
            "sent_bps": 7500 * 8 / 0.01,
            "utilization": 1,
            "queueing_delay_s": 2 * 3852e-6,  # srtt 2 and 4 base round trips
            "switch_delay_s": (9000 + 6000) / 2 * 800e-9,
            "host_delay_s": (8000 + 4000) / 2 * 800e-9,
            "rtt_s": 3 * 3852e-6,
            "switch_queue_bytes_max": 6000,
            "switch_queue_bytes_mean": 9000 / 6,
            "host_queue_bytes_max": 8000,
            "host_queue_bytes_mean": 12_000 / 4,
            "drops": 3,
            "marks": 4,
            "retransmits": 2,
            "flows": 2,
            "rtt_flows": 2,
            "flows_ended": 0,
            "jain": 16e6 / (2 * 10e6),
            "wanted": 0.75,
            "enforced": 0.75,
        }
    )


def test_of_an_episode():
    dumbbell, info = scene('workload.size="1448B"')
    ideal = int(info.ideal_ns[0])
    totals = EpisodeTotals(dumbbell)
    first = frame(
        info,
        cells=cells(backlog_bytes={"s1-eth3": 4000}, drops={"s1-eth3": 1}),
        flows=flows({"status": RUNNING, "start_ns": 0, "received_bytes": 500, "srtt_us": 3 * 3852}, {}),
    )
    second = frame(
        info,
        step=2,
        t_ns=20 * MS,
        before=first.cells,
        cells=cells(backlog_bytes={"s1-eth3": 8000, "h1-eth0": 3000}, drops={"s1-eth3": 3}),
        flows_before=first.flows,
        flows=flows(
            {"status": RUNNING, "start_ns": 0, "received_bytes": 1000, "srtt_us": 3852, "retransmits": 2},
            {"status": RUNNING, "start_ns": 15 * MS, "received_bytes": 250, "srtt_us": 3852},
        ),
    )
    third = frame(
        info,
        step=3,
        t_ns=30 * MS,
        before=second.cells,
        cells=second.cells,
        flows_before=second.flows,
        flows=flows(
            {"status": DONE, "start_ns": 0, "end_ns": 3 * ideal, "received_bytes": 1448, "retransmits": 2},
            {"status": DONE, "start_ns": 15 * MS, "end_ns": 15 * MS + ideal, "received_bytes": 1448},
        ),
    )
    for reward, step_frame in zip((1, 0.5, -3), (first, second, third), strict=True):
        totals.add(step_frame, reward)
    result = totals.result()
    lives = 1448 / (3 * ideal), 1448 / ideal
    assert result == pytest.approx(
        {
            "return": -1.5,
            "steps": 3,
            "elapsed_s": 0.03,
            "goodput_bps": 2 * 1448 * 8 / 0.03,
            "lost_goodput_bps": 2 * 1448 * 8 / 0.03,  # two segments that were sent again
            "sent_bps": 0,
            "utilization": 0,
            "wanted": 1,
            "enforced": 1,
            "switch_queue_bytes_mean": (4000 + 8000 + 8000) / 6 / 3,
            "switch_queue_bytes_longest": (4000 + 8000 + 8000) / 3,
            "switch_queue_bytes_max": 8000,
            "host_queue_bytes_mean": 2 * 3000 / 4 / 3,
            "host_queue_bytes_longest": 2 * 3000 / 3,
            "host_queue_bytes_max": 3000,
            "drops": 3,
            "marks": 0,
            "retransmits": 2,
            "flows_ended": 2,
            "jain": sum(lives) ** 2 / (2 * sum(rate**2 for rate in lives)),
            "jain_flows": 2,
            # over flows and steps: one flow waits 2 base round trips, then two of them none
            "queueing_delay_s": 2 * 3852e-6 / 3,
            "queueing_delay_p99_s": np.percentile([2 * 3852e-6, 0], 99),
            "switch_delay_s": (4000 + 8000 + 8000) * 800e-9 / 3,
            "host_delay_s": 3000 * 800e-9 / 3,
            "rtt_s": (3 + 1 + 1) * 3852e-6 / 3,
            "fct_mean_s": 2 * ideal / 1e9,
            "slowdown_mean": 2,
            "slowdown_p50": 2,
            "slowdown_p99": 2.98,
        },
        rel=1e-6,
    )


def test_what_udp_loses_is_lost_goodput():
    """100,000 bytes were handed to the kernel: 60,000 arrived, the rest was dropped in the host or on its way."""
    dumbbell, info = scene(*UDP)
    now = frame(info, flows=flows({"status": RUNNING, "acked_bytes": 100_000, "received_bytes": 60_000}, {}))
    totals = EpisodeTotals(dumbbell)
    totals.add(now, 0)
    assert totals.result()["lost_goodput_bps"] == 40_000 * 8 / 0.01


def test_what_no_flow_tells_is_left_out():
    dumbbell, info = scene()
    totals = EpisodeTotals(dumbbell)
    totals.add(frame(info), 0)
    result = totals.result()
    assert result["goodput_bps"] == result["jain_flows"] == 0
    assert not [name for name in result if name in ("jain",) or name.startswith(("queueing", "rtt", "slowdown", "fct"))]


def test_a_flow_that_was_stopped_has_a_rate_and_no_completion():
    dumbbell, info = scene()
    now = frame(
        info,
        flows=flows(
            {"status": STOPPED, "start_ns": 0, "end_ns": 5 * MS, "received_bytes": 10},
            {"status": RUNNING, "start_ns": 5 * MS, "received_bytes": 10},
        ),
    )
    totals = EpisodeTotals(dumbbell)
    totals.add(now, 0)
    assert (totals.result()["jain"], totals.result()["jain_flows"]) == (1, 2) and totals.result()["flows_ended"] == 0


def test_the_round_trip_of_an_episode_is_that_of_the_flows_that_have_one():
    """The first step samples one flow; in the second step one of two flows has a round trip five times as long."""
    dumbbell, info = scene()
    totals = EpisodeTotals(dumbbell)
    for srtt_us, other in ((1000, {}), (5000, {"status": RUNNING})):
        totals.add(frame(info, flows=flows({"status": RUNNING, "srtt_us": srtt_us}, other)), 0)
    assert totals.result()["rtt_s"] == pytest.approx(3e-3)


def test_an_episode_without_a_round_trip_has_none():
    dumbbell, info = scene(*UDP)
    totals = EpisodeTotals(dumbbell)
    totals.add(frame(info, flows=flows({"status": RUNNING}, {"status": RUNNING})), 0)
    assert "rtt_s" not in totals.result() and totals.result()["queueing_delay_s"] == 0


def test_the_first_frame_counts_nothing():
    dumbbell, info = scene()
    first = metrics(frame(info, step=0, t_ns=0, elapsed_ns=0), dumbbell)
    assert {name: value for name, value in first.items() if value} == {"wanted": 1, "enforced": 1}


def steps_of(network, info, count, elapsed_ns=MS):
    rng = np.random.default_rng(5)
    return [replace(random_frame(network, info, rng, step), elapsed_ns=elapsed_ns) for step in range(1, count + 1)]


@pytest.mark.parametrize("overrides", [(), UDP, ('workload.kind="all_to_all"',), ('workload.kind="none"',)])
def test_a_step_among_others_measures_what_it_does_alone(overrides):
    """Equal to the last bit: looking at a step early must not change the totals."""
    dumbbell, info = scene(*overrides)
    frames = steps_of(dumbbell, info, 70)
    together = columns(stacked(frames), dumbbell)
    assert list(together) == list(BLANK)
    for row, step_frame in enumerate(frames):
        assert metrics(step_frame, dumbbell) == {name: float(values[row]) for name, values in together.items()}


def test_totals_are_the_same_whoever_looks_when():
    dumbbell, info = scene()
    frames = steps_of(dumbbell, info, 2 * BLOCK_STEPS + 9) + steps_of(dumbbell, info, 5, 2 * MS)
    calm, curious = EpisodeTotals(dumbbell), EpisodeTotals(dumbbell)
    unread = [calm.add(step_frame, 0.25) for step_frame in frames]
    for step, step_frame in enumerate(frames):
        fill = curious.add(step_frame, 0.25)
        if step % 3 == 0:
            assert fill() == metrics(step_frame, dumbbell)
        if step % 50 == 0:
            curious.result()
    assert calm.result() == curious.result()
    assert [fill() for fill in unread] == [metrics(step_frame, dumbbell) for step_frame in frames]
