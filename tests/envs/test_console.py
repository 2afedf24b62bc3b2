# SPDX-License-Identifier: Apache-2.0
"""The agent's console on a made-up state matrix: which clock a frame has, and which command was in force in it."""

from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.envs.console import Console, InForce
from dc_gym.monitors.state_matrix import COMMANDS, FLOW, RATE, Commands
from dc_gym.spec import AgentSpec
from tests.envs.made import MS, cells, scene


def test_the_time_of_a_frame_is_that_of_its_sweep():
    """On a real clock a sweep may be late: its actual time counts, not the time at which it was due."""
    found, info = scene()
    rates = np.zeros(4, RATE)
    rates["row"] = found.host_row
    matrix = SimpleNamespace(t0_ns=5 * MS, t_ns=5 * MS, cells=cells(), flows=np.zeros(len(info), FLOW))
    matrix.commands = Commands(np.zeros(1, COMMANDS), rates)
    console = Console(found, info, AgentSpec())
    console._take(matrix)
    times = []
    for step, t_ms in enumerate((0, 10, 23, 30)):
        matrix.t_ns = (5 + t_ms) * MS
        frame = console.frame(step)
        times.append((frame.t_ns // MS, frame.elapsed_ns // MS))
    assert times == [(0, 0), (10, 10), (23, 13), (30, 7)]


@pytest.mark.parametrize(
    ("latency_ms", "expected"),
    [(0, [1, 2, 3, 4]), (10, [9, 1, 2, 3]), (2.5, [3, 1.75, 2.75, 3.75]), (24, [9, 9, 4.2, 1.6])],
)
def test_commands_are_in_force_from_their_latency_on(latency_ms, expected):
    """Steps take 10 ms; the commands are 1, 2, 3 and 4 on lines of 9."""
    found, _ = scene()
    made = SimpleNamespace(line_bps=np.full(2, 9.0), step_ns=found.step_ns)
    force = InForce(made, AgentSpec(latency_ns=int(latency_ms * MS)))
    for _ in range(2):
        force.clear()
        seen = [force.over(np.full(2, float(rate)), np.zeros(2))[0] for rate in (1, 2, 3, 4)]
        assert seen == pytest.approx(expected)


def test_by_control_packets_it_is_what_the_hosts_say():
    force = InForce(scene()[0], AgentSpec(control="network", control_delay_ns=MS))
    assert force.over(np.full(4, 1e6), np.full(4, 2e6)).tolist() == [2e6] * 4
