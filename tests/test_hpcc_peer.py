# SPDX-License-Identifier: Apache-2.0
"""Tests what HPCC's authors' simulator is told, how its trace is read, and the bench that compares, without the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.benchmarks.checks import hpcc_peer
from dc_gym.benchmarks.peers import hpcc_ns3
from dc_gym.benchmarks.peers.hpcc_ns3 import PeerCase, PeerRow

CASE = PeerCase("hpcc", "single", 2, 100, 1000, 500, 0, 1)


def event(t_ns: int, kind: int, queue: int, sender: int) -> tuple[int, ...]:
    return t_ns, 3, 3, queue, 0x0B000001 + (sender << 8), 1000, hpcc_ns3.UDP, kind


def test_a_port_s_means() -> None:
    rows = [event(100, 1, 0, 0), event(100, 2, 0, 0), event(200, 1, 0, 1), event(300, 2, 0, 1)]
    found = hpcc_ns3.measure(CASE, np.array(rows, hpcc_ns3.RECORD))
    assert found.queue_bytes == 100 and found.utilization == pytest.approx(0.16) and found.jain == 1


def test_what_the_simulator_is_told(tmp_path: Path) -> None:
    text = hpcc_ns3.write_inputs(CASE, tmp_path).read_text()
    assert "CC_MODE 3\n" in text and "RATE_AI 40Mb/s\n" in text and "INT_MULTI 4\n" in text
    assert (tmp_path / "topology.txt").read_text().splitlines()[:2] == ["4 1 3", "3"]
    assert (tmp_path / "flows.txt").read_text().splitlines()[2] == "1 2 3 100 4000000000 0.000000500"


def test_stored_rows_can_be_run_here(tmp_path: Path) -> None:
    data = hpcc_ns3.stored()
    assert {case.flows for case in data.rows if case.algorithm == "hpcc"} >= {2, 8, 64}
    for case in data.rows:
        assert case.algorithm in hpcc_ns3.ALGORITHMS
        loaded = spec.load(hpcc_peer.cell("one", case, tmp_path).spec)
        assert loaded.time.duration_ns == case.until_us * 1000


def test_medians_over_gaps_are_compared() -> None:
    rows = [PeerRow(queue, 0.9, 0.9) for queue in (1000.0, 1100.0, 9000.0)]
    queue, *others = hpcc_peer.compared("g", rows, [PeerRow(1250.0, 0.9, 0.5)] * 2 + [PeerRow(10.0, 0.9, 0.9)])
    assert queue.ok and queue.required.startswith("1.10 (1.00..9.00)") and queue.measured == "1.25 (0.01..1.25), +13.6%"
    assert [each.ok for each in others] == [True, False]


def test_cases_of_one_group_differ_by_their_gap_alone() -> None:
    cases = list(hpcc_ns3.stored().rows)
    names, groups = {hpcc_peer.name_of(case) for case in cases}, {hpcc_peer.group_of(case) for case in cases}
    assert len(names) == len(cases) == 21 and len(groups) == 3
