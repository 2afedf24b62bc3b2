# SPDX-License-Identifier: Apache-2.0
"""Environments and policies in real time, over a simulated network: the network does not wait, and missed steps are counted.

The real one is in tests/run/grounds/test_vm.py (long).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from dc_gym import spec as specs
from dc_gym.base.errors import AgentError, LabError, SpecError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.kernel import openvswitch
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.session import SCRATCH
from dc_gym.learn.vector import LabVectorEnv
from dc_gym.run.agent.console import InForce
from dc_gym.run.agent.driver import PolicyDriver
from dc_gym.run.agent.pace import AgentTiming
from dc_gym.run.grounds.host import live, state
from dc_gym.run.grounds.host.ground import HostGround
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.writer import write_plan
from dc_gym.spec import AgentSpec
from tests.run.agent.made import scene

ID = "dcgym/Dumbbell10m-v0"
SHORT = ["agent.interval=20ms", "time.duration=400ms"]
FAKE = Path(__file__).resolve().parent.parent / "real_network.py"


@pytest.fixture
def host(monkeypatch, tmp_path):
    """Replaces the host ground's process by one that builds nothing; returns the folder of its records."""
    records = tmp_path / "records"
    monkeypatch.setattr(state, "registered", partial(state.registered, folder=records))
    monkeypatch.setattr(HostGround, "prepare", lambda self, progress: None)
    monkeypatch.setattr(HostGround, "_argv", lambda self, folder, matrix: [sys.executable, str(FAKE), str(folder), str(matrix)])
    yield records
    assert list(records.iterdir()) == []


@pytest.fixture
def env(host, tmp_path):
    env = gymnasium.make(ID, ground="host", overrides=SHORT, folder=tmp_path / "labs").unwrapped
    (tmp_path / "labs").mkdir()
    yield env
    pid = env.session.pid
    env.close()
    assert pid is None or not Path(f"/proc/{pid}").exists()
    assert list((tmp_path / "labs").iterdir()) == []


def let_pass(env: DataCenterEnv, steps: int) -> None:
    """Waits for so many steps of the network, without an action."""
    matrix = env.session._console.matrix
    until_ns = matrix.t_ns + steps * env.session.scene.step_ns
    while matrix.t_ns < until_ns:
        time.sleep(0.005)


def test_an_episode_goes_on_while_the_agent_thinks(env):
    """step() returns the newest step; the episode ends when its time is over, however few steps the agent has seen."""
    env.reset(seed=1)
    _, _, _, _, info = env.step(env.action_space.sample())
    before = env.episode.frame.step
    assert before >= 1 and info["interval_s"] > 0
    let_pass(env, 6)
    _, _, terminated, truncated, info = env.step(env.action_space.sample())
    assert env.episode.frame.step >= before + 6 and info["missed"] == env.episode.frame.step - before - 1 >= 5
    assert env.episode.frame.elapsed_ns == (env.episode.frame.step - before) * 20_000_000
    while not truncated:
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
    totals = info["episode_totals"]
    assert not terminated and env.episode.frame.step == 20
    assert totals["steps"] + totals["missed"] == 20
    assert totals["interval_mean_s"] <= totals["interval_p99_s"] <= totals["interval_max_s"]
    with pytest.raises(AgentError, match="no episode under way"):
        env.step(env.action_space.sample())


def test_what_is_commanded_is_in_force_when_the_kernel_says_so(env):
    env.reset(seed=1)
    lowest = env.action_space.low
    for _ in range(3):
        env.step(lowest)
    frame = env.episode.frame
    assert np.array_equal(frame.in_force_bps, frame.enforced_bps) and np.array_equal(
        frame.enforced_bps, env.session.scene.floor_bps
    )


def test_a_reset_keeps_the_network(env):
    """A reset after an episode, or in the middle of one, keeps the network; `fresh` builds another."""
    pids = []
    for seed, steps in ((1, 2), (2, 30), (3, 1)):
        _, info = env.reset(seed=seed)
        frame = env.episode.frame
        assert (frame.step, info["seed"], info["missed"]) == (0, seed, 0)
        assert frame.enforced_bps.tolist() == env.session.scene.line_bps.tolist()
        over = False
        while not over and steps:
            *_, over, _ = env.step(env.action_space.low)
            steps -= 1
        pids.append(env.session.pid)
    assert len(set(pids)) == 1 and env.session.boots == 1
    env.reset(seed=3, options={"fresh": True})
    assert env.session.boots == 2 and env.session.pid != pids[0]


def test_a_network_that_dies_is_an_error_and_the_next_reset_builds_another(env):
    env.reset(seed=1)
    os.kill(env.session.pid, signal.SIGKILL)
    with pytest.raises(LabError, match="status -9\n  host: the fake network stands"):
        for _ in range(30):
            env.step(env.action_space.sample())
    env.reset(seed=1)
    env.step(env.action_space.sample())


def test_sweeps_that_do_not_come(env, monkeypatch):
    env.reset(seed=1)
    monkeypatch.setattr(live, "SWEEP_LIMIT_S", 0.1)
    os.kill(env.session.pid, signal.SIGSTOP)
    with pytest.raises(LabError, match=r"sweep of step [0-9]+ .*0\.1 s"):
        for _ in range(30):
            env.step(env.action_space.sample())
    assert env.session.pid is None


def test_one_network_at_a_time(env, host):
    env.reset(seed=1)
    with pytest.raises(UsageError, match=rf"\(.*{SCRATCH}.*\); close"):
        gymnasium.make(ID, ground="host", overrides=SHORT).reset()
    with pytest.raises(AgentError, match=r'num_envs: 2 .*ground "host".* 1'):
        gymnasium.make_vec(ID, 2, ground="host")
    env.step(env.action_space.sample())


def test_a_vector_of_one(host):
    env = LabVectorEnv(1, gymnasium.spec(ID).kwargs["spec"], SHORT, ground="host")
    env.reset(seed=1)
    over = [False]
    while not over[0]:
        _, _, _, over, infos = env.step(env.action_space.sample())
        assert infos["interval_s"][0] > 0
    assert infos["episode_totals"]["missed"][0] >= 0
    _, rewards, *_ = env.step(env.action_space.sample())
    assert rewards[0] == 0 and env.sessions[0].boots == 1
    env.close()


def test_a_policy_in_a_run(host, tmp_path):
    """The table has what the policy was given, and when; traffic ends in time."""
    spec = specs.of_preset("dumbbell-10m", ["ground=host", "controller.policy=random", "workload.kind=pairs", *SHORT])
    experiment = Experiment.of(spec)
    (tmp_path / "out" / ".lab").mkdir(parents=True)
    plan = partial(write_plan, experiment, openvswitch.ensure(Quiet()), tmp_path / "out" / ".lab")
    driver, lines = PolicyDriver(experiment), []
    assert HostGround(spec).run(tmp_path / "out", plan, lines.append, Quiet(), driver) == 0
    table, totals = driver.table(), driver.totals()
    steps = table["step"].tolist()
    assert steps[0] == 0 and steps[-1] == 20 and totals["missed"] == 20 - len(steps) + 1
    assert table["interval_ns"][0] == 0 and (table["interval_ns"][1:] > 0).all()
    assert totals["interval_max_s"] == pytest.approx(table["interval_ns"].max() / 1e9)
    assert lines == ["::phase traffic", "the fake network stands"]


def test_the_policy_of_a_run_that_fails_is_not_what_is_blamed(host, tmp_path, monkeypatch):
    spec = specs.of_preset("dumbbell-10m", ["ground=host", "controller.policy=random", "workload.kind=pairs", *SHORT])
    monkeypatch.setattr(HostGround, "_argv", lambda *_: ["/bin/sh", "-c", "echo 'ground: no room'; exit 3"])
    (tmp_path / "out" / ".lab").mkdir(parents=True)
    lines = []
    assert HostGround(spec).run(tmp_path / "out", lambda: None, lines.append, Quiet(), PolicyDriver(Experiment.of(spec))) == 3
    assert lines == ["ground: no room"]


def test_pace():
    pace = AgentTiming()
    assert pace.totals() == {"interval_mean_s": 0, "interval_p99_s": 0, "interval_max_s": 0, "missed": 0}
    for step, now_s in ((0, 10), (1, 11), (4, 14), (5, 14.5)):
        pace.add(step, int(now_s * 1e9))
    assert pace.step() == {"interval_s": 0.5, "missed": 0}
    totals = pace.totals()
    assert (totals["interval_mean_s"], totals["interval_max_s"], totals["missed"]) == (1.5, 3, 2)


def test_on_a_real_clock_it_is_what_the_hosts_say():
    force = InForce(scene()[0], AgentSpec(), "real")
    assert force.over(np.full(4, 1e6), np.full(4, 2e6)).tolist() == [2e6] * 4


def test_what_needs_the_labs_kernel_is_refused():
    def spec(*settings):
        return specs.of_preset("dumbbell-10m", ["controller.policy=max", "workload.kind=pairs", *settings])

    agent = spec("ground=host").agent
    assert (agent.tbf, agent.burst_bytes) == ("stock", 3028) and (spec().agent.tbf, spec().agent.burst_bytes) == ("exact", 1514)
    with pytest.raises(SpecError, match=r'agent\.tbf = "exact": .*ground "host".*"stock"'):
        spec("ground=host", "agent.tbf=exact")
    with pytest.raises(SpecError, match=r'agent.control = "network": .*cables'):
        spec("ground=host", "agent.control=network")
    with pytest.raises(AgentError, match="overrides: a Spec takes none"):
        DataCenterEnv(replace(spec()), ground="host")
