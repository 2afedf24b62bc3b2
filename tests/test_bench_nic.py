# SPDX-License-Identifier: Apache-2.0
"""Tests the computations of the NIC benches on hand-made data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic

from dc_gym.benchmarks.checks import nic_loop, nic_pacing
from dc_gym.nets import fdcc_scripted
from dc_gym.records.results import Result
from dc_gym.sweep import Cell


def sent(folder: Path, times_ns: list[int], **conservation: Any) -> Result:
    decided = [{"t_ns": t, "flow": 0, "event": "tx"} for t in times_ns]
    flows = [synthetic.flow_row(0, transport="rdma")]
    made = synthetic.tables(flows, nic_flows=[{"flow": 0}], decisions=[*decided, {"t_ns": 5, "flow": 1, "event": "tx"}])
    return synthetic.result(folder, made, **conservation)


def test_rates_are_parts_of_the_line() -> None:
    assert nic_pacing.part_of(10**10) == 1 << 20 and nic_pacing.part_of(10**6) == 105
    assert nic_pacing.gap_ns(1 << 20) == pytest.approx(1211.2) and nic_pacing.gap_ns(1 << 10) == pytest.approx(1211.2 * 1024)


def test_a_lone_flow_s_rate_and_gaps_can_be_short(tmp_path: Path) -> None:
    part, gap = 1 << 17, 9690
    even = [number * gap for number in range(100)]
    assert [check.ok for check in nic_pacing._lone_checks("even", part, sent(tmp_path / "a", even))] == [True, True]
    uneven = [*even[:50], even[50] + 1300, *even[51:]]
    assert [check.ok for check in nic_pacing._lone_checks("uneven", part, sent(tmp_path / "b", uneven))] == [True, False]
    slow = [number * (gap + 60) for number in range(100)]
    assert [check.ok for check in nic_pacing._lone_checks("slow", part, sent(tmp_path / "c", slow))] == [False, True]


def test_flows_that_share_a_link_fairly_and_drop_none(tmp_path: Path) -> None:
    result = sent(tmp_path / "a", [0], conservation={"dropped_by_hosts": 1})
    result.summary = {"jain": 0.999, "goodput_bps": 9e9, "host_max_queue_bytes": 1514.0}  # type: ignore[assignment]
    assert not nic_pacing._shared_check("dropped", result).ok
    result.manifest["conservation"]["dropped_by_hosts"] = 0
    assert nic_pacing._shared_check("fair", result).ok
    result.summary["jain"] = 0.98
    assert not nic_pacing._shared_check("unfair", result).ok


def test_swift_s_target_grows_with_hops_and_with_flows() -> None:
    values = {"fs_max": 100 << 20, "fs_min": 1 << 20, "fs_range": 900, "base_target": 1000, "hop": 10, "reference_rtt": 500}
    target = nic_loop.swift_target_ns(np.array([1000.0, 100.0, 4.0, 1.0, 0.5]), 1000, 3, values)
    assert target.tolist() == pytest.approx([2060, 2060, 2 * (1030 + 900 * 0.4 / 0.9), 2 * 1930, 2 * 1930])


def test_goodput_and_shares_can_be_short(tmp_path: Path) -> None:
    result = sent(tmp_path / "a", [0])
    good = 9.2e9
    for rates, ok in ([good / 2] * 2, True), ([good * 0.56, good * 0.44], False), ([4e9, 4e9], False):
        result.summary["flow_goodput_bps"] = rates  # type: ignore[index]
        assert nic_loop._shares("two", result).ok == ok


@pytest.mark.parametrize("flows", [1, 8, 64, 1024])
def test_the_queue_where_fdcc_s_policy_by_hand_rests_solves_its_law(flows: int) -> None:
    queue = nic_loop.resting_queue(flows)
    assert queue * ((1 + queue) / flows) ** 0.5 == pytest.approx(fdcc_scripted.TARGET, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "ok"), [({}, True), ({"jain": 0.9}, False), ({"mean_queue_bytes": 90e3}, False), ({"drops": 1}, False)]
)
def test_fdcc_s_queue_shares_and_drops_are_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: dict[str, float], ok: bool
) -> None:
    monkeypatch.setattr(nic_loop, "_bdp_bytes", lambda cell: 128e3)
    result = sent(tmp_path / "a", [0])
    at_rest = {"mean_queue_bytes": 128e3 * nic_loop.resting_queue(8), "utilization": 0.99, "jain": 1.0, "drops": 0}
    result.summary = {**at_rest, **change}  # type: ignore[assignment]
    (check,) = nic_loop._fdcc_checks("fdcc", 8, Cell("a", tmp_path, tmp_path), result)
    assert check.ok == ok
