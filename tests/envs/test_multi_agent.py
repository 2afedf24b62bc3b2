# SPDX-License-Identifier: Apache-2.0
"""One agent a host: what each sees, one action of many, PettingZoo's own test, and the same lab as the central agent's."""

import warnings

import numpy as np
import pytest

from dc_gym.envs.action import Action
from dc_gym.envs.env import DataCenterEnv
from dc_gym.envs.multi_agent import HostsEnv
from dc_gym.envs.observation import Observer
from dc_gym.envs.registration import SPECS
from dc_gym.envs.scene import flow_info
from dc_gym.envs.session import Session
from dc_gym.envs.views import HostViews
from dc_gym.errors import AgentError
from tests.envs.made import RUNNING, cells, frame, random_frame, scene

SPEC = SPECS["dcgym/Dumbbell10m-v0"]
SHORT = ["time.duration=20ms"]


@pytest.fixture
def no_lab(monkeypatch):
    """Frames of whatever instead of a lab."""

    def made(session, step):
        info = flow_info(session.experiment, session.scene)
        made = random_frame(session.scene, info, np.random.default_rng(step), step)
        made.flows["status"] = RUNNING
        return made

    def begin(session, seed, *, fresh=False):
        session.at = 0
        return made(session, 0)

    def step(session, rates_bps):
        session.at += 1
        return made(session, session.at)

    monkeypatch.setattr(Session, "begin", begin)
    monkeypatch.setattr(Session, "step", step)


def views(observe="default", history=1, view="local", hosts="all"):
    found, info = scene(hosts=hosts)
    observer = Observer(found, observe, history)
    return HostViews(observer, Action(found), view), observer, info


def test_a_host_sees_its_own_and_the_port_that_faces_it():
    made, observer, info = views("backlog,srtt")
    assert made.agents == ("h1", "h2", "h3", "h4")
    assert made.names[1] == ("s1-eth2/backlog", "h2-eth0/backlog", "h2/srtt")
    queues = cells(backlog_bytes={"s1-eth2": 100_000, "h2-eth0": 200_000, "s1-eth3": 400_000})
    seen = made.split(observer.observe(frame(info, cells=queues)))
    assert {agent: values.tolist() for agent, values in seen.items()} == {
        "h1": [0, 0, 0],
        "h2": [0.25, 0.5, 0],
        "h3": [0, 0, 0],
        "h4": [0, 0, 0],
    }


def test_the_global_view_has_everything_behind_its_own():
    made, observer, info = views("backlog", view="global")
    observation = observer.observe(frame(info, cells=cells(backlog_bytes={"s2-eth2": 100_000})))
    assert made.names[3] == ("s2-eth2/backlog", "h4-eth0/backlog", *observer.names)
    seen = made.split(observation)
    assert seen["h4"][:2].tolist() == [0.25, 0] and (seen["h4"][2:] == observation).all()
    assert made.observation_space.shape == (12,)


def test_history_and_bounds_are_those_of_the_parts():
    made, observer, info = views("backlog_change,enforced", history=2)
    assert made.names[0] == tuple(
        f"{name}{age}" for age in ("@-1", "") for name in ("s1-eth1/backlog_change", "h1-eth0/backlog_change", "h1/enforced")
    )
    assert made.observation_space.low.tolist() == [-1, -1, 0] * 2
    assert made.observation_space.contains(made.split(observer.observe(frame(info)))["h1"])


def test_only_those_who_act_are_agents():
    made, _, _ = views(hosts="senders")
    assert made.agents == ("h1", "h2") and made.join({"h2": [0.5], "h1": np.float32([-1])}).tolist() == [-1, 0.5]


@pytest.mark.parametrize(
    ("observe", "view", "line"),
    [
        ("default", "lokal", "view 'lokal' is unknown; did you mean local?"),
        ("s1-*:backlog", "local", "h3 sees 0 values (), and h1 1; choose features that every host has, such as 'default'"),
        ("s1-eth1:backlog,h2-eth0:backlog,s2-eth?:backlog", "local", "h2 sees 1 values (egress/backlog), and h1 1"),
        ("s1-eth3:backlog", "local", "h1 sees 0 values"),
    ],
)
def test_a_view_that_is_not_the_same_for_all_is_one_line(observe, view, line):
    with pytest.raises(AgentError) as caught:
        views(observe, view=view)
    assert line in str(caught.value)


def test_every_host_acts_in_every_step():
    made, _, _ = views()
    with pytest.raises(AgentError, match="no action for h3"):
        made.join(dict.fromkeys(("h1", "h2", "h4"), 0.0))


@pytest.mark.usefixtures("no_lab")
@pytest.mark.parametrize("view", ["local", "global"])
def test_pettingzoos_own_test(view):
    from pettingzoo.test import parallel_api_test

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(HostsEnv(SPEC, SHORT, view=view), num_cycles=60)


@pytest.mark.usefixtures("no_lab")
def test_an_episode_ends_for_all_at_once():
    env = HostsEnv(SPEC, SHORT)
    observations, infos = env.reset(seed=3)
    assert set(observations) == set(infos) == {"h1", "h2", "h3", "h4"} and infos["h1"]["seed"] == 3
    for step in range(1, 21):
        assert env.agents == env.possible_agents
        _, rewards, terminated, truncated, infos = env.step({agent: env.action_space(agent).sample() for agent in env.agents})
        assert len(set(rewards.values())) == 1 and not any(terminated.values())
        assert set(truncated.values()) == {step == 20}
    assert env.agents == [] and "episode_totals" in infos["h4"]
    assert env.step({}) == ({}, {}, {}, {}, {})


@pytest.mark.lab
def test_it_is_the_central_agents_lab(tmp_path):
    """The same actions, the same rewards and the same state, bit for bit."""
    many, one = HostsEnv(SPEC, SHORT, folder=tmp_path), DataCenterEnv(SPEC, SHORT, folder=tmp_path)
    rng = np.random.default_rng(1)
    many.reset(seed=5)
    assert (many.state() == one.reset(seed=5)[0]).all()
    for _ in range(20):
        action = rng.uniform(-1, 1, 4).astype(np.float32)
        observation, reward, _, _, info = one.step(action)
        _, rewards, _, _, infos = many.step({f"h{i + 1}": action[i : i + 1] for i in range(4)})
        assert rewards["h2"] == reward and infos["h3"] == info and (many.state() == observation).all()
    many.close()
    one.close()
    assert not list(tmp_path.iterdir())
