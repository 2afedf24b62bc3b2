# SPDX-License-Identifier: Apache-2.0
"""The agents of a network: what each sets, observes and is rewarded for, on made-up scenes and frames; in a lab PettingZoo's and
RLlib's own checks of agents that are switches or ports. test_multi_agent.py has hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from facts import states

from dc_gym import spec
from dc_gym.base.errors import AgentError
from dc_gym.ctrl import actuators
from dc_gym.ctrl.actuators import Actuator, Attribute, Bounds, Place, Quantity
from dc_gym.learn.multi_agent import Agents
from dc_gym.run.agent.action import Action
from dc_gym.run.agent.agent_observation import HostObserver, PortObserver, observer_of
from dc_gym.run.agent.agents import AGENTS, NETWORK, divide
from dc_gym.run.agent.reward import WeightedReward
from dc_gym.run.agent.scene import Scene, flow_info
from dc_gym.run.agent.view import View
from dc_gym.run.plan.experiment import Experiment
from tests.run.agent.made import CLASSES, ROWS, RUNNING, STEP, cells, class_cells, experiment, flows, frame, random_frame, scene

SWITCH_PORTS = [f"s{switch}-eth{port}" for switch in (1, 2) for port in (1, 2, 3)]
HOSTS = ["h1", "h2", "h3", "h4"]
NICS = {"kind": "leafspine", "leaves": 2, "hosts_per_leaf": 2, "spines": 1, "nics": 2}
NICS |= {"rate": "100Mbit/s", "delay": "10us", "buffer": "400kB", "marking": "step", "k_bytes": "2p"}
ECN = {
    "topology": {"preset": "dumbbell-10m", "marking": "step"},
    "controller": {"name": "dctcp"},
    "agent": {"actuators": "marking", "interval": "1ms", "observe": "marking", "reward": "goodput - 0.2*switch_delay"},
    "workload": {"kind": "pairs"},
    "time": {"duration": "20ms"},
}


def sets(text: str, *more: str) -> Any:
    """Returns the scene of the dumbbell where agents set this, and its flows."""
    return scene(STEP, f'agent.actuators="{text}"', *more)


def names_of(lab_scene: Scene, agents: str) -> dict[str, list[str]]:
    """Returns by agent the names of the values that it sets."""
    names = np.array(lab_scene.value_names)
    return {agent.name: names[agent.values].tolist() for agent in divide(lab_scene, agents)}


def marking_of(port: str) -> list[str]:
    return [f"{port}/kmin", f"{port}/kmax", f"{port}/pmax"]


def refused(call: Any) -> str:
    with pytest.raises(AgentError) as refusal:
        call()
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


# --- who sets what


def test_classes_belong_to_the_agent_of_their_port() -> None:
    lab_scene, info = scene(STEP, CLASSES, 'agent.actuators="s1-eth3:marking,s1-*:rdma:marking,s2-eth1:tcp:marking"')
    assert names_of(lab_scene, "ports") == {
        "s1-eth3": marking_of("s1-eth3") + marking_of("s1-eth3:rdma"),
        "s1-eth1": marking_of("s1-eth1:rdma"),
        "s1-eth2": marking_of("s1-eth2:rdma"),
        "s2-eth1": marking_of("s2-eth1:tcp"),
    }
    assert {agent.name: agent.rows.tolist() for agent in divide(lab_scene, "switches")} == {"s1": [2, 0, 1], "s2": [3]}
    observer = observer_of(divide(lab_scene, "ports"), lab_scene, "backlog,class:backlog,s1-*:rdma:marks,kmin", 1, "ports")
    assert observer.names_of[0] == ("backlog", "tcp/backlog", "rdma/backlog", "rdma/marks", "kmin", "tcp/kmin", "rdma/kmin")
    now = class_cells(lab_scene, backlog_bytes={"s1-eth3:rdma": 50_000, "s2-eth1:tcp": 100_000}, marks={"s2-eth1:rdma": 9})
    snapshot = frame(info, class_cells=now, class_before=0 * now, wanted=lab_scene.start, enforced=lab_scene.start)
    s1_eth3, _, _, s2_eth1 = (observation.tolist() for observation in observer.observe(snapshot))
    assert s1_eth3 == pytest.approx([0, 0, 0.5, 0, 3028 / 400_000, 0, 0.2])
    assert s2_eth1 == pytest.approx([0, 0.25, 0, 0, 0, 3028 / 400_000, 0]), "marks were asked of s1 alone"
    view = View.of(lab_scene, info, divide(lab_scene, "ports")[0].rows)
    assert view.frame(snapshot).class_cells.sum() == 50_000, "classes of other ports are empty"


def test_a_host_observes_classes_of_its_egress_and_of_its_paths() -> None:
    lab_scene, info = scene(STEP, CLASSES)
    observer = HostObserver(lab_scene, "class:backlog", 1, "path")
    assert observer.names == ("own/tcp/backlog", "path/tcp/backlog", "own/rdma/backlog", "path/rdma/backlog")
    now = class_cells(lab_scene, backlog_bytes={"s1-eth3:rdma": 50_000, "h1-eth0:tcp": 100_000, "s1-eth1:tcp": 9})
    run = flows(*[{"status": RUNNING}] * len(info))
    by_host = observer.observe(frame(info, class_cells=now, class_before=0 * now, flows=run))
    assert by_host[0].tolist() == pytest.approx([0.25, 0, 0, 0.5]) and by_host[1].tolist() == pytest.approx([0, 0, 0, 0.5])


def test_a_central_agent_sets_all() -> None:
    lab_scene, _ = sets("rate,s2-eth3:marking")
    assert names_of(lab_scene, "central") == {NETWORK: [*HOSTS, *marking_of("s2-eth3")]}
    (all_,) = divide(lab_scene, "central")
    assert all_.rows.tolist() == [6, 7, 8, 9, 5]


def test_each_host_sets_its_rate() -> None:
    lab_scene, _ = sets("rate")
    assert names_of(lab_scene, "hosts") == {name: [name] for name in HOSTS}
    assert [agent.rows.tolist() for agent in divide(lab_scene, "hosts")] == [[6], [7], [8], [9]]
    assert names_of(lab_scene, "ports") == names_of(lab_scene, "hosts")


def test_each_switch_sets_its_ports_that_the_patterns_choose() -> None:
    lab_scene, _ = sets("marking")
    assert names_of(lab_scene, "switches") == {
        switch: [name for port in (1, 2, 3) for name in marking_of(f"{switch}-eth{port}")] for switch in ("s1", "s2")
    }
    lab_scene, _ = sets("s2-eth3:marking,s1-*:marking,s2-eth1:marking")
    assert {agent.name: agent.rows.tolist() for agent in divide(lab_scene, "switches")} == {"s2": [5, 3], "s1": [0, 1, 2]}
    assert names_of(lab_scene, "switches")["s2"] == marking_of("s2-eth3") + marking_of("s2-eth1")


def test_each_port_sets_what_it_has() -> None:
    lab_scene, _ = sets("rate,s1-eth3:marking,s2-eth1:marking")
    names = names_of(lab_scene, "ports")
    assert names == {name: [name] for name in HOSTS} | {port: marking_of(port) for port in ("s1-eth3", "s2-eth1")}
    assert list(names) == [*HOSTS, "s1-eth3", "s2-eth1"], "in the order of what they set"


def test_a_host_with_several_ports_is_several_agents() -> None:
    plain = {"name": "x", "topology": NICS, "controller": {"policy": "random"}, "workload": {"kind": "pairs"}}
    lab_scene = Scene.of(Experiment.of(spec.from_dict(plain | {"time": {"duration": "20ms"}}, Path())))
    ports = ["h1-eth0", "h1-eth1", "h2-eth0", "h2-eth1"]
    assert names_of(lab_scene, "hosts") == names_of(lab_scene, "ports") == {name: [name] for name in ports}
    assert [lab_scene.ports[row] for agent in divide(lab_scene, "hosts") for row in agent.rows] == ports


@pytest.fixture
def second(registries: None) -> None:
    """Another actuator of switch ports, beside their marking."""
    actuators.register(
        Actuator(
            name="second",
            help="something",
            ports="switch",
            qdiscs=("red",),
            quantities=(Quantity("weight", "ppm", "one"), Quantity("depth", "packets", "another")),
            bounds=lambda graph, port, keys: (Bounds(1, 9, 2), Bounds(10, 90, 20)),
            attributes=lambda graph, port, keys: (Attribute(1, bytes(8), (Place("weight", 0, 4), Place("depth", 4, 4))),),
        )
    )


@pytest.mark.usefixtures("second")
def test_two_actuators_of_one_port_are_one_agent_s() -> None:
    of_preset = experiment(STEP)
    text = "s1-*:marking,s1-eth3:second,s2-eth1:second"
    lab_scene = Scene.of(of_preset, replace(of_preset.spec.agent, actuators=text))
    info = flow_info(of_preset, lab_scene)
    second = {port: [f"{port}/weight", f"{port}/depth"] for port in ("s1-eth3", "s2-eth1")}
    first = {port: marking_of(port) for port in SWITCH_PORTS[:3]}
    assert names_of(lab_scene, "ports") == first | {"s1-eth3": first["s1-eth3"] + second["s1-eth3"], "s2-eth1": second["s2-eth1"]}
    by_switch = divide(lab_scene, "switches")
    assert [agent.name for agent in by_switch] == ["s1", "s2"]
    assert by_switch[0].rows.tolist() == [0, 1, 2], "a port with two actuators stands once"
    assert names_of(lab_scene, "switches")["s1"] == [name for names in first.values() for name in names] + second["s1-eth3"]
    (port,) = (agent for agent in divide(lab_scene, "ports") if agent.name == "s1-eth3")
    port_scene = port.scene(lab_scene)
    assert [(actuated.actuator.name, actuated.rows.tolist(), actuated.place) for actuated in port_scene.actuated] == [
        ("marking", [2], slice(0, 3)),
        ("second", [2], slice(3, 5)),
    ]
    assert port_scene.value_names == tuple(first["s1-eth3"] + second["s1-eth3"])
    assert port_scene.start.tolist() == [3028, 3028, 1_000_000, 2, 20]
    assert [len(values) for values in PortObserver(by_switch, lab_scene, "backlog", 1, "switches").observe(frame(info))] == [3, 1]


@pytest.mark.parametrize("text", ["rate", "marking", "rate,marking", "s2-*:marking,s1-eth3:marking,h2-*:rate", "h3-eth0:rate"])
@pytest.mark.parametrize("agents", AGENTS)
def test_each_value_is_of_one_agent(text: str, agents: str) -> None:
    lab_scene, _ = sets(text)
    kinds = {actuated.actuator.ports for actuated in lab_scene.actuated}
    if agents == "flows" or (agents == "hosts" and "switch" in kinds) or (agents == "switches" and "host" in kinds):
        assert 'give "ports"' in refused(lambda: divide(lab_scene, agents))
        return
    members = divide(lab_scene, agents)
    values = np.concatenate([agent.values for agent in members]).tolist()
    assert sorted(values) == list(range(len(lab_scene.value_names)))
    assert len({agent.name for agent in members}) == len(members)
    for agent in members:
        agent_scene = agent.scene(lab_scene)
        assert agent_scene.value_names == tuple(lab_scene.value_names[index] for index in agent.values)
        assert agent_scene.start.tolist() == lab_scene.start[agent.values].tolist()
        whole, one = Action(lab_scene, "linear").space, Action(agent_scene, "linear").space
        assert one.shape == agent.values.shape and (one.low == whole.low[agent.values]).all()


def test_hosts_are_those_whose_rates_are_set() -> None:
    """The rates of a frame are in the order of the scene's hosts."""
    lab_scene, info = sets("h2-*:rate,h1-*:rate")
    assert lab_scene.hosts == ("h2", "h1") and lab_scene.host_row.tolist() == [7, 6] and lab_scene.rates == slice(0, 2)
    assert info.host.tolist() == [1, 0], "the flows of h1 and h2"
    agents = divide(lab_scene, "hosts")
    observer = observer_of(agents, lab_scene, "host:backlog", 1, "hosts", "own")
    observations = observer.observe(frame(info, cells=cells(backlog_bytes={"h1-eth0": 40_000})))
    assert [agent.name for agent in agents] == ["h2", "h1"] and np.array(observations).ravel() == pytest.approx([0, 0.1])
    lab_scene, info = sets("h3-*:rate")
    assert lab_scene.hosts == ("h3",) and (info.host == -1).all(), "flows that no agent limits"
    lab_scene, _ = sets("marking")
    assert lab_scene.hosts == tuple(HOSTS), "where no rates are set, all"


# --- what each observes


@pytest.fixture
def busy() -> Any:
    """Agents set the marking of s1, and of s2-eth3; h1 -> h3 is under way."""
    lab_scene, info = sets("s1-*:marking,s2-eth3:marking", 'agent.hosts="all"')
    queues = {"h1-eth0": 40_000, "s1-eth1": 10_000, "s1-eth3": 100_000, "s2-eth3": 200_000, "s2-eth1": 300_000}
    sent = {"s1-eth3": 12_500, "s2-eth1": 6_250, "s1-eth1": 1_250}
    enforced = np.concatenate([[2000.0 * (1 + port), 4000.0 * (1 + port), 250_000.0] for port in range(4)])
    one = {"status": RUNNING, "start_ns": 0, "received_bytes": 6_000}
    now = frame(
        info,
        cells=cells(backlog_bytes=queues, tx_bytes=sent, marks={"s1-eth3": 5}),
        flows=flows(one, {}),
        flows_before=flows(one | {"received_bytes": 1_000}, {}),
        enforced=enforced,
    )
    return lab_scene, now


def test_a_port_observes_itself(busy: Any) -> None:
    """10 Mbit/s carry 12,500 bytes in 10 ms, and a mark counts 1514 of them. Values in force are over the buffer of 400 kB."""
    lab_scene, now = busy
    agents = divide(lab_scene, "ports")
    observer = observer_of(agents, lab_scene, "marking", 1, "ports")
    assert observer.names_of == (("backlog", "utilization", "marks", "kmin", "kmax", "pmax"),) * 4
    observations = dict(zip([agent.name for agent in agents], observer.observe(now), strict=True))
    assert observations["s1-eth1"] == pytest.approx([0.025, 0.1, 0, 0.005, 0.01, 0.25])
    assert observations["s1-eth2"] == pytest.approx([0, 0, 0, 0.01, 0.02, 0.25])
    assert observations["s1-eth3"] == pytest.approx([0.25, 1, 5 * 1514 / 12_500, 0.015, 0.03, 0.25])
    assert observations["s2-eth3"] == pytest.approx([0.5, 0, 0, 0.02, 0.04, 0.25])


def test_a_switch_observes_its_ports_where_it_sets_something(busy: Any) -> None:
    lab_scene, now = busy
    observer = observer_of(divide(lab_scene, "switches"), lab_scene, "switch:backlog,utilization", 1, "switches")
    one = [f"port{number}/{name}" for number in (1, 2, 3) for name in ("backlog", "utilization")]
    assert observer.names_of == (tuple(one), tuple(one[:2]))
    observations = observer.observe(now)
    assert observations[0] == pytest.approx([0.025, 0.1, 0, 0, 0.25, 1]), "s1"
    assert observations[1] == pytest.approx([0.5, 0]), "s2 sets nothing at s2-eth1, and does not see it"


def test_an_item_of_other_ports_is_zero(busy: Any) -> None:
    """All ports observe alike, whatever the patterns; features of hosts are left out."""
    lab_scene, now = busy
    observer = observer_of(divide(lab_scene, "ports"), lab_scene, "s1-*:backlog,s2-*:utilization,srtt,host:marks", 1, "ports")
    assert observer.names_of == (("backlog", "utilization"),) * 4
    assert np.array(observer.observe(now)) == pytest.approx(np.array([[0.025, 0], [0, 0], [0.25, 0], [0, 0]]))


def test_ports_of_hosts_and_switches_observe_alike() -> None:
    lab_scene, info = sets("rate,s1-eth3:marking")
    observer = observer_of(divide(lab_scene, "ports"), lab_scene, "backlog,kmin", 1, "ports")
    values = np.array([1e7] * 4 + [4000.0, 8000.0, 1e6])
    vectors = observer.observe(frame(info, cells=cells(backlog_bytes={"h2-eth0": 20_000, "s1-eth3": 40_000}), enforced=values))
    assert np.array(vectors) == pytest.approx(np.array([[0, 0], [0.05, 0], [0, 0], [0, 0], [0.1, 0.01]]))


@pytest.mark.parametrize("agents", ["switches", "ports"])
def test_history_stacks_the_frames_of_each(busy: Any, agents: str) -> None:
    lab_scene, now = busy
    members = divide(lab_scene, agents)
    observer, single = (observer_of(members, lab_scene, "backlog,marks", history, agents) for history in (3, 1))
    for names, one, box, small in zip(observer.names_of, single.names_of, observer.spaces, single.spaces, strict=True):
        assert names == tuple(f"{name}@-2" for name in one) + tuple(f"{name}@-1" for name in one) + one
        assert box.shape == (3 * small.shape[0],) and (box.high == np.tile(small.high, 3)).all()
    first = frame(now.info, step=0, enforced=now.enforced)
    none, some = single.observe(first), single.observe(now)
    assert all((observation == np.tile(zero, 3)).all() for observation, zero in zip(observer.observe(first), none, strict=True))
    for observation, zero, one in zip(observer.observe(now), none, some, strict=True):
        assert (observation == np.concatenate([zero, zero, one])).all()
    assert all(not observation.any() for observation in observer.observe(first)), "a first frame forgets the episode before"


@pytest.mark.parametrize("observe", ["default", "full", "marking,drops", "s1-eth3:backlog,tx_rate,rx_rate"])
@pytest.mark.parametrize("agents", ["switches", "ports"])
def test_any_frame_is_in_the_spaces(observe: str, agents: str) -> None:
    lab_scene, info = sets("marking")
    members = divide(lab_scene, agents)
    observer = observer_of(members, lab_scene, observe, 2, agents)
    rng = np.random.default_rng(3)
    for step in (0, *range(1, 20)):
        observations = observer.observe(random_frame(lab_scene, info, rng, step))
        for values, box, names in zip(observations, observer.spaces, observer.names_of, strict=True):
            assert box.contains(values) and len(names) == len(values) == len(set(names))


# --- what each is rewarded for


def test_own_rewards_are_those_of_a_network_of_its_ports(busy: Any) -> None:
    """Only h1 -> h3 is under way, over s1-eth3 and s2-eth1. 10 kB queued take 8 ms at 10 Mbit/s, and a base RTT is 3.852 ms."""
    lab_scene, now = busy
    members = {agent.name: agent for agents in ("ports", "switches") for agent in divide(lab_scene, agents)}

    def reward(agent: str, text: str) -> float:
        view = View.of(lab_scene, now.info, members[agent].rows)
        own_frame = view.frame(now)
        return WeightedReward.of(text)(own_frame, view.scene, view.scene.share(own_frame.in_force_bps))

    assert {name: reward(name, "thesis") for name in members} == pytest.approx(
        {"s1-eth1": 0.95, "s1-eth2": 1, "s1-eth3": 0.5, "s2-eth3": 0, "s1": 0.5, "s2": 0}
    )
    assert {name: reward(name, "queue") for name in members} == pytest.approx(
        {"s1-eth1": -(0.025**2), "s1-eth2": 0, "s1-eth3": -(0.25**2), "s2-eth3": -(0.5**2), "s1": -(0.275**2), "s2": -(0.5**2)}
    )
    assert {name: reward(name, "port_utilization") for name in members} == pytest.approx(
        {"s1-eth1": 0.1, "s1-eth2": 0, "s1-eth3": 1, "s2-eth3": 0, "s1": 0.55, "s2": 0}
    )
    delay = {"s1-eth1": 8 / 3.852, "s1-eth3": 80 / 3.852}
    assert reward("s1-eth1", "-port_delay") == pytest.approx(-delay["s1-eth1"])
    assert reward("s1", "-port_delay") == pytest.approx(-(delay["s1-eth1"] + delay["s1-eth3"]) / 2)
    assert reward("s1-eth3", "-switch_delay") == pytest.approx(-delay["s1-eth3"]), "that of s2-eth1 is another's"
    assert reward("s1-eth1", "-switch_delay") == 0, "no flow crosses it"
    payload = 1e7 * 1448 / 1514
    assert reward("s1-eth3", "goodput") == reward("s1", "goodput") == pytest.approx(4e6 / payload)
    assert reward("s2-eth3", "goodput") == 0


def test_a_view_has_the_flows_that_cross_its_ports(busy: Any) -> None:
    lab_scene, now = busy
    flows_of = {member.name: View.of(lab_scene, now.info, member.rows).flows.tolist() for member in divide(lab_scene, "ports")}
    assert flows_of == {"s1-eth1": [False] * 2, "s1-eth2": [False] * 2, "s1-eth3": [True] * 2, "s2-eth3": [False] * 2}
    for agent in divide(lab_scene, "switches"):
        view = View.of(lab_scene, now.info, agent.rows)
        backlogs = view.frame(now).column("backlog_bytes")
        expected = [now.column("backlog_bytes")[row] if row in agent.rows else 0 for row in ROWS.values()]
        assert backlogs.tolist() == expected


# --- what cannot be


NO_HOST = 'agent.agents = "hosts": marking of s1-eth1 is set by no host; give "ports", or other agent.actuators'
NO_SWITCH = 'agent.agents = "switches": rate of h1-eth0 is set by no switch; give "ports", or other agent.actuators'


@pytest.mark.parametrize(
    ("text", "agents", "line"),
    [
        ("rate", "switch", "agent.agents: value 'switch' is unknown; did you mean switches?"),
        ("marking", "hosts", NO_HOST),
        ("rate", "switches", NO_SWITCH),
        ("marking,rate", "switches", NO_SWITCH),
    ],
)
def test_agents_that_do_not_fit(text: str, agents: str, line: str) -> None:
    lab_scene, _ = sets(text)
    assert refused(lambda: divide(lab_scene, agents)) == line


@pytest.mark.parametrize(
    ("observe", "agents", "see", "words"),
    [
        ("srtt,enforced", "ports", None, 'feature of the ports ... "ports" ... such as backlog'),
        ("host:backlog", "switches", None, 'feature of the ports ... "switches"'),
        ("s1-*:backlog,s2-*:backlog", "ports", None, "backlog twice; take one"),
        ("backlog", "ports", "path", 'see: "path" ... hosts ... ports; leave it out'),
        ("backlog", "switches", "pth", "see: ... 'pth' ... path?"),
    ],
)  # fmt: skip
def test_observations_that_cannot_be(observe: str, agents: str, see: str | None, words: str) -> None:
    lab_scene, _ = sets("marking")
    assert states(refused(lambda: observer_of(divide(lab_scene, agents), lab_scene, observe, 1, agents, see)), words)


def test_a_feature_that_is_not_a_number_names_its_port(registries: None) -> None:
    from dc_gym.run.agent import observation

    def odd(frame: Any, scene: Any) -> Any:
        return np.where(np.arange(len(scene.ports)) == 2, np.nan, 0.0)

    observation.register("odd", "port", 0, 1, "x", odd)
    lab_scene, info = sets("marking")
    observer = observer_of(divide(lab_scene, "switches"), lab_scene, "odd", 1, "switches")
    assert refused(lambda: observer.observe(frame(info))) == "agent.observe: odd of s1-eth3 is not a number; mend the feature"
    assert isinstance(observer_of(divide(sets("rate")[0], "hosts"), lab_scene, "backlog", 1, "hosts"), HostObserver)


# --- in a lab


@pytest.mark.lab
@pytest.mark.parametrize(
    ("actuators_", "agents", "names"),
    [
        ("h2-*:rate,h1-*:rate", "hosts", ["h2", "h1"]),
        ("marking", "switches", ["s1", "s2"]),
        ("s1-eth3:marking,rate", "ports", ["s1-eth3", *HOSTS]),
    ],
)
def test_pettingzoos_own_test_passes(tmp_path: Path, actuators_: str, agents: str, names: list[str]) -> None:
    pytest.importorskip("pettingzoo")
    from pettingzoo.test import parallel_api_test

    from dc_gym.learn.parallel import DataCenterParallelEnv

    settings = [f'agent.actuators="{actuators_}"', f"agent.agents={agents}", "agent.observe=backlog,utilization"]
    env = DataCenterParallelEnv(ECN, settings, reward="own", folder=tmp_path)
    parallel_api_test(env, num_cycles=50)
    assert env.possible_agents == names and env.lab.session.boots == 1
    env.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.lab
@pytest.mark.parametrize("policies", ["shared", "own"])
def test_rllib_s_runner_samples_ports(tmp_path: Path, policies: str) -> None:
    pytest.importorskip("ray.rllib")
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    from dc_gym.learn.rllib.multi_agent import DataCenterMultiAgentEnv

    def policy_of(agent: str, episode: Any, **_: Any) -> str:
        return "port" if policies == "shared" else agent

    env_config = {"spec": ECN, "agents": "ports", "reward": "own", "folder": str(tmp_path)}
    config = (
        PPOConfig()
        .environment(DataCenterMultiAgentEnv, env_config=env_config)
        .multi_agent(policies={"port"} if policies == "shared" else set(SWITCH_PORTS), policy_mapping_fn=policy_of)
        .env_runners(num_env_runners=0)
    )
    runner = MultiAgentEnvRunner(config=config)
    episodes = runner.sample(num_episodes=2)
    assert [len(episode) for episode in episodes] == [20, 20]
    for episode in episodes:
        assert set(episode.agent_ids) == set(SWITCH_PORTS) and episode.is_truncated
        assert {episode.module_for(agent) for agent in SWITCH_PORTS} == ({"port"} if policies == "shared" else set(SWITCH_PORTS))
        actions = episode.get_actions(0)
        assert set(actions) == set(SWITCH_PORTS) and all(np.shape(action) == (3,) for action in actions.values())
    runner.stop()
    assert not list(tmp_path.iterdir())


@pytest.mark.lab
@pytest.mark.parametrize("agents", ["switches", "ports"])
def test_many_agents_set_what_a_central_one_does(tmp_path: Path, agents: str) -> None:
    """The same actions, divided, give the same network: what is in force, and its reward."""
    from dc_gym.learn.env import DataCenterEnv

    central, many = DataCenterEnv(ECN, folder=tmp_path), Agents(ECN, agents=agents, folder=tmp_path)
    central.reset(seed=2)
    many.begin(2)
    rng = np.random.default_rng(1)
    for _ in range(20):
        action = rng.uniform(-1, 1, central.action_space.shape).astype(np.float32)
        _, reward, _, truncated, _ = central.step(action)
        results = many.step({agent.name: action[agent.values] for agent in many.agents})
        one, other = central.episode.frame, many.episode.frame
        assert one.enforced.tolist() == other.enforced.tolist() and (one.enforced != central.session.scene.start).any()
        assert results.rewards == dict.fromkeys(many.names, reward) and results.truncated == truncated
    assert truncated
    central.close()
    many.close()
