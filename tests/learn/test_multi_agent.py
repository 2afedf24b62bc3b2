# SPDX-License-Identifier: Apache-2.0
"""One agent per host: its observations and rewards on made-up frames; in a lab PettingZoo's and RLlib's own checks, and equality
with the central agent's environment."""

import sys

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, MachineError
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.multi_agent import Agents
from dc_gym.learn.registration import SPECS
from dc_gym.run.agent.agent_observation import HostObserver
from dc_gym.run.agent.reward import WeightedReward
from dc_gym.run.agent.view import View
from tests.run.agent.made import RUNNING, cells, flows, frame, scene

SPEC = SPECS["dcgym/Dumbbell10m-v0"] | {"agent": {"interval": "1ms"}}
HOSTS = ["h1", "h2", "h3", "h4"]


@pytest.fixture
def busy():
    """h1 -> h3 is under way, h2 -> h4 waits; queues at h1, at the middle and towards h4."""
    lab_scene, info = scene()
    queues = {"h1-eth0": 40_000, "s1-eth3": 100_000, "s2-eth3": 200_000, "s1-eth1": 10_000}
    one = {"status": RUNNING, "start_ns": 0, "received_bytes": 12_000, "srtt_us": 7704, "cwnd_packets": 10}
    before = flows(one | {"received_bytes": 2_000}, {})
    return lab_scene, frame(info, cells=cells(backlog_bytes=queues), flows=flows(one, {}), flows_before=before)


def test_an_agent_sees_its_egress_its_flows_and_the_largest_on_its_paths(busy):
    lab_scene, now = busy
    observer = HostObserver(lab_scene, "backlog,srtt", 1, "path")
    assert observer.names == ("own/backlog", "path/backlog", "own/srtt") and observer.space.shape == (3,)
    observations = observer.observe(now)
    assert observations[0] == pytest.approx([0.1, 0.25, 1.0])
    assert not observations[1:].any(), "h2's flow waits; h3 and h4 send nothing"
    own_observer = HostObserver(lab_scene, "backlog,srtt", 1, "own")
    assert own_observer.names == ("own/backlog", "own/srtt") and own_observer.observe(now)[0] == pytest.approx([0.1, 1.0])


def test_rows_of_ports_choose_own_or_path(busy):
    lab_scene, now = busy
    observer = HostObserver(lab_scene, "host:backlog,switch:backlog_change", 1, "path")
    assert observer.names == ("own/backlog", "path/backlog_change")
    named = HostObserver(lab_scene, "s2-*:backlog,enforced", 1, "path")
    assert named.names == ("path/backlog", "own/enforced") and named.observe(now)[0].tolist() == [0, 1]


def test_history_stacks_frames_of_each_host(busy):
    lab_scene, now = busy
    observer = HostObserver(lab_scene, "host:backlog", 2, "own")
    assert observer.names == ("own/backlog@-1", "own/backlog")
    first = frame(now.info, step=0)
    assert observer.observe(first).tolist() == [[0, 0]] * 4
    assert observer.observe(now)[0] == pytest.approx([0, 0.1])
    assert observer.observe(first)[0].tolist() == [0, 0], "a first frame forgets the episode before"


def test_own_rewards_are_those_of_a_network_without_the_others(busy):
    lab_scene, now = busy
    now.wanted_bps[:] = [5e6, 1e7, 1e7, 1e7]
    views = [View.of(lab_scene, now.info, lab_scene.host_row[[index]]) for index in range(4)]
    rewards = {}
    for text in ("thesis", "action", "goodput", "-queueing_delay"):
        mix = WeightedReward.of(text)
        rewards[text] = [mix(view.frame(now), view.scene, view.scene.share(view.frame(now).wanted_bps)) for view in views]
    assert rewards["action"] == [0.5, 1, 1, 1]
    # The longest queues of each: s1-eth3 of h1 and h2, s2-eth1 (h3) has none, nor s2-eth2 (h4).
    assert rewards["thesis"] == pytest.approx([0.5 * (1 - 2 * 0.25), 1 - 2 * 0.25, 1, 1])
    # 10 kB in 10 ms beside what the flow would get alone: 10 Mbit/s of frames of which 1448 of 1514 bytes are payload.
    assert rewards["goodput"] == pytest.approx([8e6 / (1e7 * 1448 / 1514), 0, 0, 0])
    assert rewards["-queueing_delay"] == pytest.approx([-1, 0, 0, 0])


def test_wrong_arguments_are_one_line():
    lab_scene, _ = scene()
    for broken, message in (
        (lambda: HostObserver(lab_scene, "thesis", 1, "own"), 'see = "path"'),
        (lambda: HostObserver(lab_scene, "s1-*:backlog,s2-*:backlog", 1, "path"), "path/backlog twice"),
        (lambda: HostObserver(lab_scene, "backlog", 1, "paths"), "did you mean path"),
        (lambda: Agents(SPEC, reward="mine"), "'mine' is unknown"),
    ):
        with pytest.raises(AgentError, match=message) as refusal:
            broken()
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("module", "library"), [("dc_gym.learn.parallel", "pettingzoo"), ("dc_gym.learn.rllib.multi_agent", "ray")]
)
def test_a_missing_library_is_one_line(monkeypatch, module, library):
    monkeypatch.setitem(sys.modules, library, None)
    for name in [name for name in sys.modules if name == module or name.startswith(library + ".")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MachineError, match=f"{library}.*pip install") as refusal:
        __import__(module)
    assert "\n" not in str(refusal.value)


@pytest.mark.lab
def test_pettingzoos_own_test_passes(tmp_path):
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import parallel_api_test

    from dc_gym.learn.parallel import DataCenterParallelEnv

    env = DataCenterParallelEnv(SPEC, ["time.duration=20ms"], reward="own", folder=tmp_path)
    parallel_api_test(env, num_cycles=50)
    assert env.possible_agents == HOSTS and env.lab.session.boots == 1
    env.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.lab
def test_the_agents_are_those_of_the_central_environment(tmp_path):
    pytest.importorskip("pettingzoo")
    from dc_gym.learn.parallel import DataCenterParallelEnv

    short = ["time.duration=50ms", "agent.observe=host:backlog,host:utilization,srtt,enforced"]
    central, env = DataCenterEnv(SPEC, short, folder=tmp_path), DataCenterParallelEnv(SPEC, short, see="own", folder=tmp_path)
    observations, _ = env.reset(seed=3)
    expected, _ = central.reset(seed=3)
    rng = np.random.default_rng(1)
    for step in range(1, 51):
        expected = np.stack(list(central.unflatten(expected).values()), axis=1)
        assert np.array_equal(np.stack([observations[name] for name in HOSTS]), expected)
        action = rng.uniform(-1, 1, 4).astype(np.float32)
        expected, reward, _, truncated, info = central.step(action)
        observations, rewards, terminated, ends, infos = env.step({name: action[[index]] for index, name in enumerate(HOSTS)})
        assert rewards == dict.fromkeys(HOSTS, reward) and all(infos[name]["network"] == info for name in HOSTS)
        assert terminated == dict.fromkeys(HOSTS, False) and ends == dict.fromkeys(HOSTS, truncated)
        assert truncated == (step == 50)
    assert env.agents == [] and env.step({}) == ({}, {}, {}, {}, {})
    assert sum(infos[name]["goodput_bps"] for name in HOSTS) == pytest.approx(info["goodput_bps"])
    env.close()
    central.close()


@pytest.mark.lab
def test_what_an_agent_may_not_do_is_one_line(tmp_path):
    pytest.importorskip("pettingzoo")
    from dc_gym.learn.parallel import DataCenterParallelEnv

    env = DataCenterParallelEnv(SPEC, ["time.duration=50ms"], folder=tmp_path)
    go = {name: np.ones(1, np.float32) for name in HOSTS}
    with pytest.raises(AgentError, match="reset first"):
        env.step(go)
    env.reset(seed=1)
    for actions, message in (
        ({name: go[name] for name in HOSTS[:3]}, "h4 has none"),
        (go | {"h9": go["h1"]}, "'h9' is not an agent"),
        (go | {"h2": np.ones(2)}, "the action of h2 has shape"),
        ({}, "h1 has none"),
    ):
        with pytest.raises(AgentError, match=message):
            env.step(actions)
    env.step(go)
    env.close()


@pytest.mark.lab
def test_rllib_takes_it_and_its_runner_samples(tmp_path):
    pytest.importorskip("ray.rllib")
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    from dc_gym.learn.rllib.multi_agent import DataCenterMultiAgentEnv

    config = (
        PPOConfig()
        .environment(
            DataCenterMultiAgentEnv, env_config={"spec": SPEC, "overrides": ["time.duration=20ms"], "folder": str(tmp_path)}
        )
        .multi_agent(policies={"host"}, policy_mapping_fn=lambda agent, episode, **_: "host")
        .env_runners(num_env_runners=0)
    )
    runner = MultiAgentEnvRunner(config=config)
    episodes = runner.sample(num_episodes=2)
    assert [len(episode) for episode in episodes] == [20, 20]
    assert all(set(episode.agent_ids) == set(HOSTS) and episode.is_truncated for episode in episodes)
    runner.stop()
    assert not list(tmp_path.iterdir())
