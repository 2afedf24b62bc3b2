# SPDX-License-Identifier: Apache-2.0
"""Tests what HPCC's authors' simulator is told, and how its trace is read, without the simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dc_gym.benchmarks.peers import cases, hpcc_ns3
from dc_gym.benchmarks.peers.cases import PeerCase

CASE = PeerCase("hpcc", "single", 2, 100, 1000, 500, 0, 1)
PORT = 3 << 8 | 3


def event(t_ns: int, kind: int, queue: int, sender: int, port: int = 3) -> tuple[int, ...]:
    return t_ns, 3, port, queue, 0x0B000001 + (sender << 8), 1000, hpcc_ns3.UDP, kind


def test_a_port_s_means() -> None:
    rows = [event(100, 1, 0, 0), event(100, 2, 0, 0), event(150, 1, 500, 1, port=9), event(200, 1, 0, 1), event(300, 2, 0, 1)]
    ports = hpcc_ns3.Ports([PORT], [PORT, PORT])
    measurement = hpcc_ns3.measure(CASE, ports, np.array(rows, hpcc_ns3.RECORD))
    assert measurement.queue_bytes == 100 and measurement.utilization == pytest.approx(0.16) and measurement.jain == 1


def test_what_the_simulator_is_told(tmp_path: Path) -> None:
    case = replace(CASE, until_us=100)
    experiment = cases.experiment(case, tmp_path)
    text = hpcc_ns3.write_inputs(case, experiment, tmp_path).read_text()
    assert "CC_MODE 3\n" in text and "RATE_AI 40Mb/s\n" in text and "INT_MULTI 4\n" in text
    assert (tmp_path / "topology.txt").read_text().splitlines()[:3] == ["4 1 3", "3", "0 3 100Gbps 1000ns 0"]
    assert (tmp_path / "flows.txt").read_text().splitlines()[2] == "1 2 3 100 4000000000 0.000000500"
    assert (tmp_path / "traced.txt").read_text() == "1\n3\n"
    assert hpcc_ns3.Ports.of(case, experiment) == hpcc_ns3.Ports([PORT], [PORT, PORT])


def test_frames_that_let_a_port_go_on_are_no_pauses() -> None:
    assert hpcc_ns3.count_pauses("100 1 0 1 1\n150 1 0 1 0\n170 2 0 1 1\n") == 2


def test_a_leaf_spine_s_ports_are_numbered_as_the_simulator_does(tmp_path: Path) -> None:
    case = replace(CASE, topology="leafspine", flows=16, until_us=100)
    experiment = cases.experiment(case, tmp_path)
    hpcc_ns3.write_inputs(case, experiment, tmp_path)
    lines = (tmp_path / "topology.txt").read_text().splitlines()
    switches, links = set(map(int, lines[1].split())), [tuple(map(int, line.split()[:2])) for line in lines[2:]]
    ports = hpcc_ns3.Ports.of(case, experiment)
    used: dict[int, int] = {}
    peer = {}
    for a, b in links:
        for end, other in ((a, b), (b, a)):
            used[end] = used.get(end, 0) + 1
            peer[end << 8 | used[end]] = other
    assert all(port >> 8 in switches and peer[port] in switches for port in ports.shared)
    assert [peer[port] for port in ports.last] == [(n + cases.SHIFT) % 16 for n in range(16)]
