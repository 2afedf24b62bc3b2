# SPDX-License-Identifier: Apache-2.0
"""The conservation check against hand-made counters: balanced ones pass, and every kind of imbalance is named."""

import copy

import pytest

from dc_gym.run.grounds.conservation import account, lost_on_links, violations
from dc_gym.topologies.presets import TopologySpec, build

GRAPH = build(TopologySpec.of(kind="single", hosts=2, rate_bps=10**9, delay_ns=1000, buffer_bytes=100_000))
NAMES = (
    *("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "flight_packets", "flight_bytes", "lost_packets", "lost_bytes"),
    *("dropped_packets", "dropped_bytes", "cut_packets", "cut_bytes", "pauses_sent", "pauses_received"),
    *("pauses_in_flight", "pauses_lost"),
    *("queue_tx_packets", "queue_tx_bytes", "queue_backlog_packets", "queue_backlog_bytes", "queue_drops"),
    *("queue_trimmed_packets", "queue_trimmed_bytes"),
)
ZERO = {name: 0 for name in NAMES}


def counters(**changes):
    return ZERO | changes


def balanced():
    """h1 sent 10 frames of 1000 B to h2: the switch dropped 2, holds 1, sent 7, of which one is on its way."""
    before = {port.ifname: dict(ZERO) for port in GRAPH.ports()}
    after = {
        "h1-eth0": counters(tx_packets=10, tx_bytes=10_000, queue_tx_packets=10, queue_tx_bytes=10_000),
        "s1-eth1": counters(rx_packets=10, rx_bytes=10_000),
        "s1-eth2": counters(
            tx_packets=7,
            tx_bytes=7000,
            queue_tx_packets=7,
            queue_tx_bytes=7000,
            queue_backlog_packets=1,
            queue_backlog_bytes=1000,
            queue_drops=2,
            flight_packets=1,
            flight_bytes=1000,
        ),
        "h2-eth0": counters(rx_packets=6, rx_bytes=6000),
    }
    return before, after


def test_balanced_counters_pass():
    before, after = balanced()
    assert violations(GRAPH, before, after, {}) == []


def test_frames_lost_in_a_cut_are_accounted_for():
    before, after = balanced()
    end = after["s1-eth2"]
    end["flight_packets"], end["flight_bytes"], end["cut_packets"], end["cut_bytes"] = 0, 0, 1, 1000
    assert violations(GRAPH, before, after, {}) == []
    assert account(GRAPH, before, after, {})["lost_in_cuts"] == 1 and lost_on_links(GRAPH, before, after).count(1) == 1
    end["cut_packets"] = 0
    assert violations(GRAPH, before, after, {}) == ["s1-eth2: sent 7 packets, but 6 arrived, are on their way or were lost"]


def test_counts_before_the_run_do_not_matter():
    before, after = balanced()
    for port in before:
        for name in ("rx_packets", "rx_bytes"):
            before[port][name] += 5
            after[port][name] += 5
    assert violations(GRAPH, before, after, {}) == []


@pytest.mark.parametrize(
    ("port", "name", "words"),
    [
        ("h2-eth0", "rx_packets", "s1-eth2: sent 7 packets, but"),
        ("s1-eth1", "rx_bytes", "h1-eth0: sent 10000 bytes, but"),
        ("h1-eth0", "queue_tx_packets", "h1-eth0: its queue let 11 packets go"),
        ("s1-eth2", "queue_drops", "s1: received 10 packets and sent, dropped or holds 11"),
        ("s1-eth2", "lost_packets", "s1-eth2: sent 7 packets, but 8 arrived"),
    ],
)
def test_one_frame_too_many_is_named(port, name, words):
    before, after = balanced()
    after = copy.deepcopy(after)
    after[port][name] += 1
    assert any(words in line for line in violations(GRAPH, before, after, {}))


def test_missing_bytes_must_fit_the_dropped_frames():
    before, after = balanced()
    after["s1-eth2"]["queue_backlog_bytes"] += 2000 - 2 * 60 + 1
    assert any("bytes are missing for 2 dropped packets" in line for line in violations(GRAPH, before, after, {}))


def test_what_trimming_cut_off_is_accounted_for():
    before, after = balanced()
    end = after["s1-eth2"]
    end |= {"queue_drops": 1, "queue_backlog_packets": 2, "queue_backlog_bytes": 1128}
    assert violations(GRAPH, before, after, {}) == ["s1: 1872 bytes are missing for 1 dropped packets"]
    end |= {"queue_trimmed_packets": 1, "queue_trimmed_bytes": 872}
    assert violations(GRAPH, before, after, {}) == []
    assert "trimmed" not in account(GRAPH, before, after, {})
    trimming = build(TopologySpec.of(kind="single", hosts=2, rate_bps=10**9, delay_ns=1000, buffer_bytes=100_000, trim_bytes=128))
    assert account(trimming, before, after, {})["trimmed"] == 1


def test_losses_outside_queues_are_unfit():
    before, after = balanced()
    assert violations(GRAPH, before, after, {"softnet": 3}) == [
        "3 packets lost: softnet backlog full (net.core.netdev_max_backlog)"
    ]
