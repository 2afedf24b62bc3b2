# SPDX-License-Identifier: Apache-2.0
"""Tests the networks that a lab runs in an episode of a training."""

import csv
from itertools import groupby, pairwise

from dc_gym.base.units import FRAME_BYTES
from dc_gym.methods.rlcc.offline.lab_network import BASE_PACKETS, BUFFERS, MATRIX, RATES_BPS, LabNetwork, randomised, varied
from dc_gym.methods.rlcc.offline.presets import TrafficPattern
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.nics import base_rtts_ns

CASES = (TrafficPattern("many_to_one", 2, 2), TrafficPattern("all_to_all", 3))
SHORT = LabNetwork(flow_lifetime_rtts=50, flow_gap_rtts=5)


def flows(folder, seed=1, network=SHORT):
    network.spec("rlcc-mlp", CASES, 1000, seed, folder)
    return [tuple(row.values()) for row in csv.DictReader((folder / MATRIX).open())]


def test_cases_lie_side_by_side_and_flows_of_a_place_follow_one_another(tmp_path):
    rows = flows(tmp_path)
    assert {(source, destination) for source, destination, *_ in rows} == {
        *(("h1", "h3"), ("h2", "h3"), ("h4", "h6"), ("h5", "h6")),
        *(("h7", "h8"), ("h7", "h9"), ("h8", "h7"), ("h8", "h9"), ("h9", "h7"), ("h9", "h8")),
    }
    places = [list(group) for _, group in groupby(rows, key=lambda row: row[2])]
    assert len(places) == 10 and sum(map(len, places)) > 100, "of fifty round trips each, in a thousand"
    assert all(float(before[4]) < float(after[3]) for chain in places for before, after in pairwise(chain))


def test_a_seed_is_a_scene(tmp_path):
    assert flows(tmp_path) == flows(tmp_path) != flows(tmp_path, seed=2)


def test_the_base_round_trip_is_that_of_a_probe(tmp_path):
    for network in (SHORT, LabNetwork(rate_bps=10**9), randomised(SHORT, 3)):
        ran = Experiment.of(network.spec("rlcc-mlp", CASES, 100, 1, tmp_path))
        probe_ns = base_rtts_ns(ran.schedule, ran.graph, ran.router, ran.spec)[0]
        assert abs(network.base_rtt_ns / probe_ns - 1) < 0.05


def test_networks_and_numbers_of_flows_are_drawn_from_stated_ranges(tmp_path):
    networks = [randomised(SHORT, seed) for seed in range(40)]
    assert len({network.rate_bps for network in networks}) > 30 and networks[7] == randomised(SHORT, 7)
    for network in networks:
        packets = network.base_rtt_ns * network.rate_bps / 8e9 / FRAME_BYTES
        assert RATES_BPS[0] <= network.rate_bps <= RATES_BPS[1]
        assert BASE_PACKETS[0] * 0.9 <= packets <= BASE_PACKETS[1] * 1.1
        assert BUFFERS[0] * 0.8 <= network.buffer_bytes / FRAME_BYTES / packets <= BUFFERS[1] * 1.2
    counts = {case.flows for seed in range(20) for case in varied((TrafficPattern("many_to_one", 8),), seed)}
    assert min(counts) >= 2 and max(counts) == 8 and len(counts) > 4
