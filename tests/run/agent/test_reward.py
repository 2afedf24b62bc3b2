# SPDX-License-Identifier: Apache-2.0
"""Every reward by hand, and the sums that may be written of them."""

import math

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.run.agent.measures import fair_rates_bps, gini
from dc_gym.run.agent.reward import WeightedReward, register
from tests.run.agent.made import DONE, MS, RUNNING, cells, flows, frame, scene

FULL = 400_000
HALF_AND_TENTH = cells(backlog_bytes={"s1-eth3": FULL // 2, "s2-eth1": FULL // 10, "h1-eth0": 3 * FULL // 4})
SHARES = np.array([1.0, 0.5, 0.25, 0.25])  # mean 0.5, std 0.306, Jain 4 / 5.5, Gini 0.3125
FIFTH = cells(backlog_bytes={"s1-eth3": FULL // 5})
STD = math.sqrt((0.25 + 0 + 0.0625 + 0.0625) / 4)


def value(text, shares=SHARES, *overrides, **changes):
    dumbbell, info = scene(*overrides)
    return WeightedReward.of(text)(frame(info, **changes), dumbbell, np.asarray(shares))


@pytest.mark.parametrize(
    ("name", "cells_now", "expected"),
    [
        ("thesis", HALF_AND_TENTH, 0.5 - 2 * 0.5 * 0.5),  # equation 4.3; h1's queue is not a switch's
        ("thesis", FIFTH, 0.5 * (1 - 2 * 0.2)),
        ("thesis_all", HALF_AND_TENTH, 0.5 * (1 - 2 * 0.75)),
        ("joint_queue", FIFTH, 0.3),
        ("action", HALF_AND_TENTH, 0.5),
        ("fairness", HALF_AND_TENTH, 4 / (4 * 1.375)),
        ("-gini", HALF_AND_TENTH, -0.3125),
        ("std_dev", HALF_AND_TENTH, -STD),
        ("queue", HALF_AND_TENTH, -(0.6**2)),  # the square of the sum, as in the code
        ("fair_queue", FIFTH, 0.5 * 0.8 + 1 / (3 * 0.375) * 0.8),  # of those below 1: (0.5, 0.25, 0.25)
        ("step", HALF_AND_TENTH, -0.5 - 0.5),
        ("step", FIFTH, 0.5 * (2 - 0.3125) - 0.2),
        ("workshop", HALF_AND_TENTH, -6 / 2 * (0.25 + 0.01) - STD),
    ],
)
def test_iroko_s_rewards(name, cells_now, expected):
    assert value(name, cells=cells_now) == pytest.approx(expected)


def test_the_thesis_reward_at_its_corners():
    full = cells(backlog_bytes={"s2-eth3": FULL})
    assert value("thesis", [1] * 4) == 1
    assert value("thesis", [1] * 4, cells=full) == -1
    assert value("thesis", [0] * 4, cells=full) == 0
    half = cells(backlog_bytes={"s2-eth3": FULL // 2})
    assert value("thesis", [0.7] * 4, cells=half) == pytest.approx(0), "it changes its sign at Q = 0.5"


def test_the_step_reward_turns_at_30_percent():
    below, above = (cells(backlog_bytes={"s1-eth3": round(FULL * share)}) for share in (0.30, 0.3001))
    assert value("step", [1] * 4, cells=below) == pytest.approx(2 - 0.3)
    assert value("step", [1] * 4, cells=above) == pytest.approx(-1.3001)


def test_fair_queue_when_all_have_the_line():
    assert value("fair_queue", [1] * 4) == 2, "no share below 1 counts as fair"


def test_the_workshop_reward_counts_what_hosts_send():
    """The 'rx' of the workshop's reward was that of the switch ports that face hosts, which is what hosts send."""
    sent = cells(tx_bytes={"h1-eth0": 12_500, "h2-eth0": 6250, "s1-eth1": 12_500})
    assert value("workshop", [1] * 4, cells=sent) == 1.5


def test_gini():
    assert gini(np.array([1.0, 1, 1, 1])) == 0 and gini(np.zeros(4)) == 0
    assert gini(np.array([0.0, 0, 0, 1])) == 0.75
    mean_difference = np.abs(SHARES[:, None] - SHARES[None, :]).mean()
    assert gini(SHARES) == pytest.approx(mean_difference / (2 * SHARES.mean()))


def running(**changes):
    return {"status": RUNNING, "srtt_us": 3852} | changes


def test_goodput_is_over_the_fair_total():
    """Two flows over one link of 10 Mbit/s: 10 Mbit/s of frames, 1448 / 1514 of it payload."""
    fair_bytes = 1e7 * 1448 / 1514 * 0.01 / 8
    before = flows(running(received_bytes=100), running())
    now = flows(running(received_bytes=100 + 3000), running(received_bytes=2000))
    assert value("goodput", flows_before=before, flows=now) == pytest.approx(5000 / fair_bytes)
    assert value("goodput") == 0, "no flow, nothing to deliver"


def test_goodput_of_one_flow_that_ended_in_the_step():
    """The other flow has not begun: this one could have had the whole link."""
    now = flows(running(received_bytes=5000, status=DONE, start_ns=0, end_ns=5 * MS), {})
    fair_bytes = 1e7 * 1448 / 1514 * 0.01 / 8
    assert value("goodput", flows_before=flows(running(), {}), flows=now) == pytest.approx(5000 / fair_bytes)


def test_fair_shares_respect_demands():
    dumbbell, info = scene('workload.rate="2Mbit/s"')
    assert fair_rates_bps(info, dumbbell, np.array([True, True])) == pytest.approx([2e6 * 1514 / 1448] * 2)
    dumbbell, info = scene('workload.rate="2Mbit/s"', 'workload.transport="udp"')
    assert fair_rates_bps(info, dumbbell, np.array([True, True])) == pytest.approx([2e6 * 1514 / 1472] * 2)
    dumbbell, info = scene()
    assert fair_rates_bps(info, dumbbell, np.array([True, True])).tolist() == [5e6, 5e6]
    assert fair_rates_bps(info, dumbbell, np.array([True, False])).tolist() == [1e7, 0]
    assert fair_rates_bps(info, dumbbell, np.array([False, False])).tolist() == [0, 0]


def test_the_delay_of_tcp_is_above_its_base_round_trip():
    # srtt 3 and 1 base round trips: (2 + 0) / 2
    now = flows(running(srtt_us=3 * 3852), running(srtt_us=3852))
    assert value("-queueing_delay", flows=now) == pytest.approx(-1)
    assert value("-switch_delay", flows=now) == 0
    assert value("-queueing_delay", flows=flows(running(srtt_us=3 * 3852), {})) == pytest.approx(-2)
    assert value("-queueing_delay") == 0, "no flow waits"


def test_the_delay_of_udp_is_in_the_queues_on_its_path():
    """h1 -> s1-eth3 -> s2-eth1: 1000, 2000 and 4000 bytes; h1 is held at 1 Mbit/s."""
    queues = cells(backlog_bytes={"h1-eth0": 1000, "s1-eth3": 2000, "s2-eth1": 4000, "s2-eth2": 400_000, "s1-eth1": 400_000})
    enforced = np.array([1e6, 1e7, 1e7, 1e7])
    udp = 'workload.transport="udp"', 'workload.rate="1Mbit/s"'
    one = flows({"status": RUNNING}, {})
    host_ns, switch_ns = 1000 * 8000, 6000 * 800
    delay = value("-queueing_delay", SHARES, *udp, cells=queues, enforced_bps=enforced, flows=one)
    assert delay == pytest.approx(-(host_ns + switch_ns) / 3_852_000)
    assert value("-switch_delay", SHARES, *udp, cells=queues, enforced_bps=enforced, flows=one) == pytest.approx(
        -switch_ns / 3_852_000
    )


def test_tcp_without_a_sample_counts_its_queues():
    queues = cells(backlog_bytes={"h1-eth0": 4815})  # 3,852,000 ns at 10 Mbit/s
    assert value("-queueing_delay", cells=queues, flows=flows({"status": RUNNING}, {})) == pytest.approx(-1)


def test_slowdown_is_of_flows_that_ended_in_this_step():
    size = 'workload.size="1448B"'
    _, info = scene(size)
    ideal = info.ideal_ns[0]
    ended = {"status": DONE, "start_ns": 1000, "end_ns": 1000 + int(3 * ideal)}
    assert value("-slowdown", SHARES, size, flows_before=flows({}, {}), flows=flows(ended, {})) == pytest.approx(-3, rel=1e-6)
    assert value("-slowdown", SHARES, size, flows_before=flows(ended, {}), flows=flows(ended, {})) == 0, "it ended before"
    twice = ended | {"end_ns": 1000 + int(5 * ideal)}
    assert value("-slowdown", SHARES, size, flows_before=flows({}, {}), flows=flows(ended, twice)) == pytest.approx(-4, rel=1e-6)
    assert value("-slowdown", SHARES, flows_before=flows({}, {}), flows=flows(ended, {})) == 0, "one without a size has no ideal"


def test_jain_is_of_what_was_delivered():
    before = flows(running(), running())
    assert value("jain", flows_before=before, flows=flows(running(received_bytes=3), running(received_bytes=1))) == 16 / 20
    assert value("jain", flows_before=before, flows=flows(running(received_bytes=3), running())) == 0.5
    assert value("jain", flows_before=before, flows=before) == 0


def test_drops_count_at_hosts_too():
    lost = cells(drops={"h1-eth0": 3, "s1-eth3": 2})
    assert value("-drops", before=cells(drops={"s1-eth3": 1}), cells=lost) == pytest.approx(-4 * 1514 / (4 * 12_500))


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("thesis", [(1, "thesis")]),
        ("0.5*goodput - 2*queueing_delay", [(0.5, "goodput"), (-2, "queueing_delay")]),
        ("0.5*goodput-2*queueing_delay", [(0.5, "goodput"), (-2, "queueing_delay")]),
        (" - drops + .5 * jain ", [(-1, "drops"), (0.5, "jain")]),
        ("1e-3*action + 2.*fairness", [(0.001, "action"), (2, "fairness")]),
        ("-3*std_dev", [(-3, "std_dev")]),
    ],
)
def test_sums(text, terms):
    assert [(weight, term.name) for weight, term in WeightedReward.of(text).terms] == terms


def test_a_sum_is_what_its_parts_are():
    dumbbell, info = scene()
    now = frame(info, cells=FIFTH)
    total, parts = WeightedReward.of("0.5*thesis - 2*gini + action").score(now, dumbbell, SHARES)
    assert parts == pytest.approx({"thesis": 0.3, "gini": 0.3125, "action": 0.5})
    assert total == pytest.approx(0.15 - 0.625 + 0.5) == WeightedReward.of("0.5*thesis - 2*gini + action")(now, dumbbell, SHARES)
    assert WeightedReward.of("0.5*thesis - 2*gini + action").range(dumbbell) == (-0.5 - 2, 0.5 + 1)
    assert WeightedReward.of("goodput - queueing_delay").range(dumbbell) == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "'' makes no sense at its end"),
        ("  ", "makes no sense at its end"),
        ("thesys", "reward 'thesys' is unknown; did you mean thesis?"),
        ("gooodput - drops", "did you mean goodput?"),
        ("latency", "reward 'latency' is unknown; one of: thesis, "),
        ("2 goodput", "makes no sense at '2 goodput'"),
        ("goodput jain", "makes no sense at 'jain'"),
        ("goodput +", "makes no sense at '+'"),
        ("goodput * 2", "makes no sense at '* 2'"),
        ("__import__('os')", "makes no sense at \"__import__('os')\""),
        ("goodput - 2*(drops)", "makes no sense at '- 2*(drops)'"),
        ("queueing_delay", "adds queueing_delay, which is better when smaller; write -queueing_delay"),
        ("goodput + 0.1*drops", "adds drops, which is better when smaller"),
        ("0*goodput", "weighs goodput by 0; leave it out"),
        ("1e999*goodput", "weighs goodput by inf"),
    ],
)
def test_a_wrong_sum_is_one_line(text, line):
    with pytest.raises(AgentError) as excinfo:
        WeightedReward.of(text)
    assert line in str(excinfo.value) and "\n" not in str(excinfo.value)


@pytest.mark.parametrize(
    ("value_given", "text"),
    [
        (None, "None"),
        (math.nan, "nan"),
        (np.float32("inf"), "np.float32(inf)"),
        ("0.5", "'0.5'"),
        ([0.5, [1]], "[0.5, [1]]"),
        (np.zeros(4), "an array of shape (4,)"),
        (np.array(math.nan), "array(nan)"),
    ],
)
def test_a_reward_that_is_not_one_finite_number_is_one_line(value_given, text, registries):
    register("mine", (0, 1), "x", lambda frame, scene, share: value_given)
    with pytest.raises(AgentError) as excinfo:
        value("goodput - 2*mine")
    assert str(excinfo.value) == f"agent.reward: reward 'mine' gives {text} instead of one finite number; mend the reward"


@pytest.mark.parametrize("number", [0.5, np.float64(0.5), np.float32(0.5), np.array(0.5), np.array(True), np.uint8(1), 1, True])
def test_any_one_number_is_a_reward(number, registries):
    register("mine", (0, 1), "x", lambda frame, scene, share: number)
    assert value("2*mine") == 2 * float(number)


def test_a_reward_of_the_user_s(registries):
    register("marks", (0, math.inf), "CE marks", lambda frame, scene, share: float(frame.change("marks").sum()), cost=True)
    assert value("action - 0.01*marks", cells=cells(marks={"s1-eth3": 30})) == pytest.approx(0.2)
    with pytest.raises(AgentError, match="registered already"):
        register("marks", (0, 1), "", lambda frame, scene, share: 0.0)
    with pytest.raises(AgentError, match="'my-own' is not a valid name"):
        register("my-own", (0, 1), "", lambda frame, scene, share: 0.0)
