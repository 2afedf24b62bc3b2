# SPDX-License-Identifier: Apache-2.0
"""The agent's console on a made-up state matrix: which clock a frame has, and which command was in force in it."""

from types import SimpleNamespace

import numpy as np
import pytest

from dc_gym.base.errors import AgentError
from dc_gym.monitors.state_matrix import COMMAND_ROW, COMMANDS, FLOW, Commands
from dc_gym.run.agent.console import Console, InForce
from dc_gym.spec import AgentSpec
from tests.run.agent.made import MS, STEP, cells, experiment, scene

POLICY = 'controller.policy="external"'


def matrix_of(network):
    """A state matrix as agentd makes it of an experiment's actuators: everything is as at the start."""
    rows = np.zeros(len(network.actuated), COMMAND_ROW)
    for row, slot in zip(rows, network.actuated, strict=True):
        row["row"], row["actuator"], row["n_values"] = slot.row, slot.actuator.name.encode(), len(slot.bounds)
        row["wanted"][: len(slot.bounds)] = row["in_force"][: len(slot.bounds)] = [bounds.start for bounds in slot.bounds]
    commands = Commands(np.zeros(1, COMMANDS), rows)
    flows = np.zeros(len(network.schedule.flows), FLOW)
    return SimpleNamespace(t0_ns=5 * MS, t_ns=5 * MS, cells=cells(), flows=flows, commands=commands)


def test_the_time_of_a_frame_is_that_of_its_sweep():
    """On a real clock a sweep may be late: its actual time counts, not the time at which it was due."""
    dumbbell, info = scene()
    matrix = matrix_of(experiment(POLICY))
    console = Console(dumbbell, info, AgentSpec())
    console._take(matrix)
    times = []
    for step, t_ms in enumerate((0, 10, 23, 30)):
        matrix.t_ns = (5 + t_ms) * MS
        frame = console.frame(step)
        times.append((frame.t_ns // MS, frame.elapsed_ns // MS))
    assert times == [(0, 0), (10, 10), (23, 13), (30, 7)]


BOTH = 'agent.actuators="s1-eth3:marking,rate,s1-eth1:marking"'


def console_of(*overrides, hosts="all"):
    """Returns the console of a scene, and its matrix."""
    dumbbell, info = scene(STEP, POLICY, *overrides, hosts=hosts)
    matrix = matrix_of(experiment(STEP, POLICY, *overrides))
    console = Console(dumbbell, info, AgentSpec())
    console._take(matrix)
    return console, matrix


def test_values_go_to_the_rows_of_their_actuators():
    """The scene has them by actuator, and the matrix in the order of agent.actuators: s1-eth3, h1 to h4, s1-eth1."""
    console, matrix = console_of(BOTH)
    console.frame(0)
    rates = [1e6, 2e6, 3e6, 4e6]
    console.send(np.array([2000, 3000, 20_000, 4000, 5000, 40_000, *rates]))
    assert matrix.commands.wanted.tolist() == [2000, 3000, 20_000, *rates, 4000, 5000, 40_000]
    matrix.commands.rows["in_force"][:, :3] = np.arange(18).reshape(6, 3)
    frame = console.frame(1)
    assert frame.wanted.tolist() == [2000, 3000, 20_000, 4000, 5000, 40_000, *rates]
    assert frame.enforced.tolist() == [0, 1, 2, 15, 16, 17, 3, 6, 9, 12]
    assert frame.wanted_bps.tolist() == rates and frame.enforced_bps.tolist() == [3, 6, 9, 12]


def test_what_no_agent_sets_stays_as_at_the_start():
    console, matrix = console_of(BOTH, hosts="senders")
    console.frame(0)
    console.send(np.array([2000, 3000, 20_000, 4000, 5000, 40_000, 1e6, 2e6]))
    assert matrix.commands.wanted.tolist() == [2000, 3000, 20_000, 1e6, 2e6, 1e7, 1e7, 4000, 5000, 40_000]
    matrix.commands.rows["wanted"][:, 0] = matrix.commands.rows["in_force"][:, 0] = 5000  # agentd begins an episode
    console.frame(0)
    console.send(np.array([2000, 3000, 20_000, 4000, 5000, 40_000, 1e6, 2e6]))
    assert matrix.commands.wanted.tolist()[5:7] == [5000, 5000]


def test_without_rates_a_frame_has_line_rates():
    console, matrix = console_of('agent.actuators="s1-eth3:marking"')
    first = console.frame(0)
    assert first.wanted.tolist() == first.enforced.tolist() == [3028, 3028, 1_000_000]
    console.send(np.array([2000, 3000, 20_000]))
    frame = console.frame(1)
    for rates in (frame.wanted_bps, frame.in_force_bps, frame.enforced_bps):
        assert rates.tolist() == [1e7] * 4
    assert frame.wanted.tolist() == [2000, 3000, 20_000] and matrix.commands.seq == 2


def test_values_in_the_wrong_order_are_not_sent():
    console, matrix = console_of('agent.actuators="s1-eth3:marking"')
    console.frame(0)
    with pytest.raises(AgentError, match=r"s1-eth3: kmax 2999.*kmin 3000"):
        console.send(np.array([3000, 2999, 20_000]))
    assert matrix.commands.seq == 0 and matrix.commands.wanted.tolist() == [3028, 3028, 1_000_000]


@pytest.mark.parametrize(
    ("latency_ms", "expected"),
    [(0, [1, 2, 3, 4]), (10, [9, 1, 2, 3]), (2.5, [3, 1.75, 2.75, 3.75]), (24, [9, 9, 4.2, 1.6])],
)
def test_commands_are_in_force_from_their_latency_on(latency_ms, expected):
    """Steps take 10 ms; the commands are 1, 2, 3 and 4 on lines of 9."""
    dumbbell, _ = scene()
    two_lines = SimpleNamespace(line_bps=np.full(2, 9.0), step_ns=dumbbell.step_ns)
    force = InForce(two_lines, AgentSpec(latency_ns=int(latency_ms * MS)))
    for _ in range(2):
        force.clear()
        rates = [force.over(np.full(2, float(rate)), np.zeros(2))[0] for rate in (1, 2, 3, 4)]
        assert rates == pytest.approx(expected)


def test_by_control_packets_it_is_what_the_hosts_say():
    force = InForce(scene()[0], AgentSpec(control="network", control_delay_ns=MS))
    assert force.over(np.full(4, 1e6), np.full(4, 2e6)).tolist() == [2e6] * 4
