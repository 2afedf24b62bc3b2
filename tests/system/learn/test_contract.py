# SPDX-License-Identifier: Apache-2.0
"""The contract of every environment, tested on all registered networks, traffic, features, rewards and actions.

The features and rewards of one frame are functions of it, so each lab here tries all of them at each step.
"""

from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest

from dc_gym.base.errors import TestbedError
from dc_gym.learn.env import DataCenterEnv
from dc_gym.learn.registration import SPECS
from dc_gym.run.agent import action, observation, reward
from dc_gym.run.agent.action import Action
from dc_gym.run.agent.frame import DONE
from dc_gym.run.agent.observation import Observer
from dc_gym.topologies.presets import PRESETS
from dc_gym.traffic.workloads import KINDS
from tests.run.agent.test_docs_environment import PAGE, names

pytestmark = pytest.mark.lab

LARGE = {"fattree-k8", "rlcc64", "fdcc64", "acc24", "acc96", "acc288"}
"""Networks that take long to boot."""
KEYS = {
    "matrix": {"file": "m.csv"},
    "file": {"file": "log.csv"},
    "iroko": {"pattern": "random0"},
    "stride": {"stride": 1, "size": "20kB"},
    "staggered": {"p_edge": 0.3, "p_pod": 0.3},
    "long_short": {"short": 5, "size": "10kB"},
    "on_off": {"on": "2ms", "off": "2ms"},
    "joins": {"flows": 3, "interval": "1ms"},
    "repeat": {"size": "10kB", "rounds": 3},
    "incast": {"senders": 3, "size": "10kB", "rounds": 3},
    "partition_aggregate": {"size": "20kB", "interval": "2ms"},
    "poisson": {"load": 0.5, "size": "20kB"},
    "closed_loop": {"size": "20kB"},
    "parameter_server": {"size": "50kB", "compute": "1ms"},
    "ring_allreduce": {"size": "50kB", "compute": "1ms"},
    "alltoall": {"size": "1kB", "largest": "20kB"},
    "storage": {"mix": "olap"},
    "job": {"collective": "all_reduce_ring", "size": "50kB", "rounds": 2, "compute": "1ms"},
}
"""The required keys of each workload kind."""
SLOPE = ("topology.kmin=5kB", "topology.kmax=200kB", "topology.pmax=1%")
SIXTEEN = {"hotspot", "iroko"}
"""Workload kinds that need 16 hosts."""
TOLD = PAGE.split("\n## What info holds\n")[1].split("\n## ")[0].splitlines()
STEP_METRICS = {name for line in TOLD if line.startswith("- ") and not line.startswith("- In totals") for name in names(line)}


def spec(topology, workload, duration="10ms", **sections):
    keys = {"topology": topology, "controller": {"name": "dctcp"}, "workload": workload, "time": {"duration": duration}}
    return keys | {"agent": {"observe": "full", "reward": "goodput"}} | sections


@dataclass
class Contract:
    """Checks one environment against the contract; `steps` is the length of an episode."""

    env: DataCenterEnv
    steps: int

    def __post_init__(self):
        scene = self.env.session.scene
        self.scene = scene
        self.mixes = [reward.WeightedReward.of(f"-{term.name}" if term.cost else term.name) for term in reward.rewards()]
        settings = [value.name for rows in scene.actuated if rows.actuator.name != "rate" for value in rows.actuator.quantities]
        presets = [name for name in observation.PRESETS if name != "marking" or "kmin" in settings]
        texts = (*presets, *settings, *(feature.name for feature in observation.features()))
        if not len(scene.flow_row):
            texts = tuple(text for text in texts if text not in ("tcp_info", "aurora") and not text.startswith("flow:"))
        self.observers = [Observer(scene, text) for text in texts]
        self.low, self.high = (
            np.concatenate([getattr(rows, bound).ravel() for rows in scene.actuated]) for bound in ("low", "high")
        )

    def observed(self, vector):
        space = self.env.observation_space
        assert vector.dtype == np.float32 and vector in space, "the observation is in its space"
        assert len(self.env.observation_names) == len(vector)
        assert sum(value.size for value in self.env.unflatten(vector).values()) == len(vector)

    def measured(self, info):
        frame, scene = self.env.episode.frame, self.scene
        assert set(info) >= STEP_METRICS and all(np.isfinite(info[name]) for name in STEP_METRICS)
        assert ((frame.enforced_bps >= scene.floor_bps * (1 - 1e-6)) & (frame.enforced_bps <= scene.line_bps)).all()
        assert (frame.cells[:, observation_columns()] >= frame.before[:, observation_columns()]).all(), "counters never fall"
        assert ((frame.enforced >= self.low - 8) & (frame.enforced <= self.high)).all(), "a rate is a whole number of bytes"
        scene.check(frame.enforced)
        share = scene.share(frame.wanted_bps)
        for mix in self.mixes if frame.step else ():
            low, high = mix.range(scene)
            value = mix(frame, scene, share)
            assert np.isfinite(value) and low - 1e-9 <= value <= high + 1e-9, (mix.text, value)
        for observer in self.observers:
            assert observer.observe(frame) in observer.space, observer.names

    def episode(self, seed, head=None, steps=None):
        env = self.env
        choose = Action(self.scene, head or self.env.episode.action.name)
        choose.space.seed(seed)
        vector, info = env.reset(seed=seed)
        self.observed(vector)
        self.measured(info)
        assert set(info) == STEP_METRICS | {"seed"} and info["seed"] == seed
        assert env.episode.frame.step == 0 and (env.episode.frame.enforced_bps == self.scene.line_bps).all()
        assert np.array_equal(env.episode.frame.enforced, self.scene.start)
        for step in range(1, self.steps + 1):
            drawn = choose.space.sample()
            values = choose.to_values(drawn)
            assert ((values >= self.low) & (values <= self.high)).all()
            vector, reward_value, terminated, truncated, info = env.step(env.episode.action.from_values(values))
            frame = env.episode.frame
            self.observed(vector)
            self.measured(info)
            assert isinstance(reward_value, float) and frame.step == step and frame.elapsed_ns == self.scene.step_ns
            assert frame.enforced == pytest.approx(values, rel=1e-3, abs=8)
            all_done = bool(len(frame.flows)) and bool((frame.flows["status"] >= DONE).all())
            assert truncated == (step == self.steps) and terminated == (all_done and not truncated)
            assert ("episode_totals" in info) == (terminated or truncated)
            if terminated or truncated:
                totals = info["episode_totals"]
                assert totals["steps"] == step and all(np.isfinite(value) for value in totals.values())
                return
            if step == steps:
                return


def observation_columns():
    """Returns the columns of cells that are counters."""
    from dc_gym.run.agent.frame import PLACES

    return [PLACES[name] for name in ("tx_bytes", "tx_packets", "drops", "marks")]


def keep(env, folder, episodes=((1, None), (2, None)), steps=10):
    """Runs two episodes in one lab; nothing may be left when it is closed."""
    contract = Contract(env, steps)
    for seed, head in episodes:
        contract.episode(seed, head)
    assert env.session.boots == 1
    env.close()
    env.close()
    assert env.session.pid is None and not list(folder.iterdir())


@pytest.mark.parametrize("name", SPECS)
def test_every_id(name, tmp_path):
    env = gymnasium.make(name, overrides=["time.duration=40ms", "workload.jitter=5ms"], folder=tmp_path)
    assert env.observation_space == env.unwrapped.observation_space and env.spec.id == name
    keep(env.unwrapped, tmp_path, steps=40_000_000 // env.unwrapped.session.scene.step_ns)


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in LARGE else ()) for name in PRESETS])
def test_every_topology(name, tmp_path):
    room = {"memory": "2GiB"} if name in LARGE else {}
    keep(DataCenterEnv(spec({"preset": name}, {"kind": "random"}, "3ms", lab=room), folder=tmp_path), tmp_path, steps=3)


@pytest.mark.parametrize(
    "kind", [pytest.param(name, marks=pytest.mark.long if name == "iroko" else ()) for name in sorted(KINDS)]
)
def test_every_workload(kind, tmp_path, monkeypatch):
    folder = tmp_path / "labs"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0,0,0\nh2,h4,80,0,0,700\n")
    (tmp_path / "log.csv").write_text("start_ms,source,destination,bytes\n1,h1,h3,7000\n2,h2,h4,700\n")
    topology = {"preset": "fattree-k4" if kind in SIXTEEN else "dumbbell-1g"}
    keep(DataCenterEnv(spec(topology, {"kind": kind} | KEYS.get(kind, {})), folder=folder), folder)


def test_every_action(tmp_path):
    """For each head, its space covers the whole range of rates, and the inverse of an action's rate has the same rate."""
    env = DataCenterEnv(spec({"preset": "dumbbell-10m"}, {"kind": "pairs"}), ["agent.action=linear"], folder=tmp_path)
    for kind in action.heads():
        head = Action(env.session.scene, kind.name)
        ends = head.to_values(head.space.low), head.to_values(head.space.high)
        assert (ends[0] < ends[1]).all() and head.from_values(ends[1]) in head.space
        drawn = head.space.sample()
        assert head.to_values(head.from_values(head.to_values(drawn))) == pytest.approx(head.to_values(drawn), rel=1e-5)
    keep(env, tmp_path, [(seed, kind.name) for seed, kind in enumerate(action.heads())])


@pytest.mark.parametrize(
    "settings",
    [
        ["agent.hosts=senders", "agent.history=3"],
        ["agent.tbf=stock", "agent.floor=1Mbit/s"],
        ["agent.control=network", "workload.transport=udp", "workload.rate=20Mbit/s"],
        ["agent.interval=100us", "agent.publish=50us", "time.duration=1ms"],
        ["agent.actuators=rate,marking", "agent.action=log,linear", "agent.hosts=senders"],
        ["agent.actuators=s2-eth1:marking,s1-*:marking", "topology.marking=red-instant", *SLOPE],
    ],
    ids=lambda settings: settings[0],
)
def test_other_settings(settings, tmp_path):
    keep(DataCenterEnv(spec({"preset": "dumbbell-1g"}, {"kind": "pairs"}), settings, folder=tmp_path), tmp_path)


def test_a_seed_without_a_flow_is_an_episode_too(tmp_path):
    """With few arrivals in a short time a seed may have no flow: a training must not end because of it."""
    keys = spec({"preset": "dumbbell-10m"}, {"kind": "poisson", "load": 0.2, "size": "20kB"})
    env = DataCenterEnv(keys, folder=tmp_path)
    idle = next(seed for seed in range(100) if not env.session.experiment.episode(seed).schedule.flows)
    keep(env, tmp_path, [(idle, None), (1, None), (idle, None)])


@pytest.mark.long
@pytest.mark.parametrize("topology", sorted(set(PRESETS) - LARGE))
def test_the_product_of_topologies_and_workloads(topology, tmp_path, monkeypatch):
    """Each network runs with each traffic, or one line says why it cannot."""
    folder = tmp_path / "labs"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0,0,0\nh2,h4,80,0,0,700\n")
    for number, kind in enumerate(sorted(KINDS)):
        head = action.heads()[number % len(action.heads())].name
        keys = spec({"preset": topology}, {"kind": kind} | KEYS.get(kind, {}), "5ms")
        try:
            env = DataCenterEnv(keys, [f"agent.action={head}"], folder=folder)
        except TestbedError as refusal:
            assert "\n" not in str(refusal) and "; " in str(refusal)
            continue
        keep(env, folder, steps=5)
