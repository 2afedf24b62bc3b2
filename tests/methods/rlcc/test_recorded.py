# SPDX-License-Identifier: Apache-2.0
"""Replays the decisions of a run: they equal those of the C code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dc_gym.ctrl.nic import algorithms, golden
from dc_gym.ctrl.nic.events import RTT
from dc_gym.methods.rlcc.offline import recorded
from dc_gym.methods.rlcc.offline.recorded import FROM_POLICY, RoundTrips
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Q16
from dc_gym.results.tables import NIC_EVENTS, TABLES


@pytest.mark.parametrize("kind", golden.KINDS)
@pytest.mark.parametrize(("name", "target", "beta"), [("rlcc-mlp", FROM_POLICY, FROM_POLICY), ("rlcc-tree", 8000, 2 * Q16)])
def test_a_replay_is_what_c_decides(tmp_path: Path, name: str, kind: str, target: int, beta: int) -> None:
    algorithm = algorithms.load(name, tmp_path)
    steps = golden.trace(kind, algorithm, 5)
    table = golden.table_of(algorithm, tmp_path)
    values = {**golden.values_of(algorithm, ""), "target": target, "beta": beta}
    decisions = golden.decisions(golden.runner_argv(algorithm, values, table), steps)
    round_trips, rates, decided = _told(steps, decisions)
    replayed = recorded.replay(round_trips, nic_policy.load(name).table(), target, beta)
    assert len(rates) > 100 and replayed.rates.tolist() == rates
    inputs = np.array([decisions[number].state[:4] for number in decided], np.uint32)
    assert (replayed.inputs_q16 - [Q16, 0, Q16, 0] == inputs.view(np.int32)).all()


def _told(steps: list[golden.Step], decisions: list[golden.RunnerDecision]) -> tuple[RoundTrips, list[int], list[int]]:
    """Returns a trace's answers, and silences that cut, as a result has them (one flow per life); their rates and steps."""
    rows, base, flow, rate = [], [], -1, 0
    for number, ((event, facts), decided) in enumerate(zip(steps, decisions, strict=True)):
        if event.flags & golden.NEW_FLOW:
            flow, rate = flow + 1, golden.Q20
            base.append(facts.base_rtt_ns)
        since_ns = (event.now_ns - event.sent_ns) % golden.CLOCK_TURN_NS
        if event.type == RTT:
            inside = (event.answered_ns - event.received_ns) % golden.CLOCK_TURN_NS
            since_ns = ((event.first_ns - event.sent_ns) % golden.CLOCK_TURN_NS) - inside
        if event.type == RTT or decided.rate < rate:
            rows.append((number, flow, max(since_ns, 0), rate, decided.rate))
        rate = decided.rate
    numbers, *columns, rates = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return RoundTrips(numbers, *columns, np.array(base, np.int64)), rates.tolist(), numbers.tolist()


def test_rates_in_bits_a_second_are_the_parts_that_they_were() -> None:
    parts = np.arange(64, 1 << 20, 997)
    for line in (10**7, 10**10, 10**11):
        assert (recorded._part(line * parts >> 20, np.full(len(parts), line)) == parts).all()


def test_a_first_packet_below_the_line_is_no_overdue_probe() -> None:
    rows = np.zeros(4, TABLES["decisions"].dtype)
    rows["event"] = NIC_EVENTS.index("tx")
    rows["flags"] = [golden.NEW_FLOW, 4, 4, 0]
    rows["rate_before_bps"], rows["rate_bps"] = 10**9, [10**6, 10**6, 10**9, 10**9]
    assert recorded._overdue(rows).tolist() == [False, True, False, False]
