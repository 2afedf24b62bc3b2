# SPDX-License-Identifier: Apache-2.0
"""A lab's NICs, stepped from barrier to barrier."""

import os
import signal

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, UsageError
from dc_gym.methods.rlcc.mlp import SHAPES, Mlp
from dc_gym.methods.rlcc.offline.data_path import DataPath
from dc_gym.nets import nic_policy
from dc_gym.nets.fixed_point import Q16
from dc_gym.nets.nic_policy import NicPolicy, TablePolicy
from dc_gym.spec import load

SPEC = """
spec_version = 1
name = "two"
controller.name = "{controller}"
nic = {{ message = "72kB" }}
workload = {{ kind = "many_to_one", senders = 2, flows = 2, jitter = "100us" }}
time = {{ duration = "{duration}" }}
monitor = {{ interval = "1ms" }}
[topology]
kind = "single"
hosts = 3
rate = "1Gbit/s"
delay = "25us"
buffer = "400kB"
"""
STEP_NS = 1_000_000
RTT = 6
"""CC_RTT."""
NEW_FLOW = 1
"""CC_NEW_FLOW."""


def spec_of(folder, controller="rlcc-mlp", duration="10ms"):
    path = folder / "spec.toml"
    path.write_text(SPEC.format(controller=controller, duration=duration))
    return load(path)


def standstill():
    """A policy that keeps every rate."""
    return NicPolicy(Mlp(tuple(np.zeros(shape) for shape in SHAPES))).table()


def episode(folder, table, kill_at=None, other_at=None):
    with DataPath(spec_of(folder), folder, STEP_NS) as path:
        path.begin(1, table)
        decisions = []
        for number in range(path.steps):
            if number == kill_at:
                os.kill(path.pid, signal.SIGKILL)
            if number == other_at:
                path.set_table(standstill())
            decisions.append(path.advance())
        return decisions, path.boots


def test_decisions_come_with_what_the_policy_saw_and_a_dead_lab_is_not_noticed(tmp_path):
    table = nic_policy.load("rlcc-mlp").table()
    whole, _ = episode(tmp_path, table, other_at=4)
    again, boots = episode(tmp_path, table, other_at=4, kill_at=6)
    assert boots == 2
    assert [rows.tobytes() for rows in whole] == [rows.tobytes() for rows in again]
    assert all((rows["t_ns"] // STEP_NS == number).all() for number, rows in enumerate(whole)) and len(whole) == 9
    rows = np.concatenate(whole)
    assert set(rows["flow"]) == {0, 1} and (rows["flags"] & NEW_FLOW).sum() == 2
    rtts = rows[rows["event"] == RTT]
    inputs = rtts["state"][:, :4].view("<i4").astype(np.int64) + np.array([Q16, 0, Q16, 0])
    acted = rtts["state"][:, 4].view("<i4").astype(np.int64) + Q16
    before = rtts["t_ns"] < 4 * STEP_NS
    assert before.sum() > 5 and (~before).sum() > 5
    decided, _ = TablePolicy(table).integers(inputs[before], np.zeros((before.sum(), 0), np.int64))
    assert (decided == acted[before]).all(), "the policy that it was begun with"
    assert (acted[~before] == Q16).all() and (acted[before] != Q16).any(), "and another from the fourth barrier on"


def test_an_episode_ends_and_another_begins(tmp_path):
    table = nic_policy.load("rlcc-mlp").table()
    with DataPath(spec_of(tmp_path, duration="3ms"), tmp_path, STEP_NS) as path:
        with pytest.raises(AgentError, match="begin first"):
            path.advance()
        path.begin(1, table)
        first = [path.advance(), path.advance()]
        with pytest.raises(AgentError, match="2 barriers, and they are over"):
            path.advance()
        path.begin(2, table)
        assert path.advance().tobytes() != first[0].tobytes(), "another seed's flows start at other times"
        folder = next(tmp_path.glob("dcgym-env-*"))
    assert not folder.exists()


@pytest.mark.parametrize(
    ("controller", "duration", "message"),
    [("cubic", "10ms", "reads no policy"), ("swift", "10ms", "reads no policy"), ("rlcc-mlp", "1ms", "have no barrier")],
)
def test_what_cannot_be_stepped_is_refused(tmp_path, controller, duration, message):
    with pytest.raises((AgentError, UsageError), match=message):
        DataPath(spec_of(tmp_path, controller, duration), tmp_path, STEP_NS)
