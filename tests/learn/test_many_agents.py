# SPDX-License-Identifier: Apache-2.0
"""The agents of a network: what each sets, observes and is rewarded for, on made-up scenes and frames; in a lab PettingZoo's and
RLlib's own checks of agents that are switches or ports. test_multi_agent.py has hosts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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


def names_of(made: Scene, agents: str) -> dict[str, list[str]]:
    """Returns by agent the names of the values that it sets."""
    names = np.array(made.value_names)
    return {each.name: names[each.values].tolist() for each in divide(made, agents)}


def marking_of(port: str) -> list[str]:
    return [f"{port}/kmin", f"{port}/kmax", f"{port}/pmax"]


def refused(call: Any) -> str:
    with pytest.raises(AgentError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- who sets what


def test_classes_belong_to_the_agent_of_their_port() -> None:
    made, info = scene(STEP, CLASSES, 'agent.actuators="s1-eth3:marking,s1-*:rdma:marking,s2-eth1:tcp:marking"')
    assert names_of(made, "ports") == {
        "s1-eth3": marking_of("s1-eth3") + marking_of("s1-eth3:rdma"),
        "s1-eth1": marking_of("s1-eth1:rdma"),
        "s1-eth2": marking_of("s1-eth2:rdma"),
        "s2-eth1": marking_of("s2-eth1:tcp"),
    }
    assert {each.name: each.rows.tolist() for each in divide(made, "switches")} == {"s1": [2, 0, 1], "s2": [3]}
    observer = observer_of(divide(made, "ports"), made, "backlog,class:backlog,s1-*:rdma:marks,kmin", 1, "ports")
    assert observer.names_of[0] == ("backlog", "tcp/backlog", "rdma/backlog", "rdma/marks", "kmin", "tcp/kmin", "rdma/kmin")
    now = class_cells(made, backlog_bytes={"s1-eth3:rdma": 50_000, "s2-eth1:tcp": 100_000}, marks={"s2-eth1:rdma": 9})
    seen = frame(info, class_cells=now, class_before=0 * now, wanted=made.start, enforced=made.start)
    s1_eth3, _, _, s2_eth1 = (each.tolist() for each in observer.observe(seen))
    assert s1_eth3 == pytest.approx([0, 0, 0.5, 0, 3028 / 400_000, 0, 0.2])
    assert s2_eth1 == pytest.approx([0, 0.25, 0, 0, 0, 3028 / 400_000, 0]), "marks were asked of s1 alone"
    view = View.of(made, info, divide(made, "ports")[0].rows)
    assert view.frame(seen).class_cells.sum() == 50_000, "classes of other ports are empty"


def test_a_host_observes_classes_of_its_egress_and_of_its_paths() -> None:
    made, info = scene(STEP, CLASSES)
    observer = HostObserver(made, "class:backlog", 1, "path")
    assert observer.names == ("own/tcp/backlog", "path/tcp/backlog", "own/rdma/backlog", "path/rdma/backlog")
    now = class_cells(made, backlog_bytes={"s1-eth3:rdma": 50_000, "h1-eth0:tcp": 100_000, "s1-eth1:tcp": 9})
    run = flows(*[{"status": RUNNING}] * len(info))
    seen = observer.observe(frame(info, class_cells=now, class_before=0 * now, flows=run))
    assert seen[0].tolist() == pytest.approx([0.25, 0, 0, 0.5]) and seen[1].tolist() == pytest.approx([0, 0, 0, 0.5])


def test_a_central_agent_sets_all() -> None:
    made, _ = sets("rate,s2-eth3:marking")
    assert names_of(made, "central") == {NETWORK: [*HOSTS, *marking_of("s2-eth3")]}
    (all_,) = divide(made, "central")
    assert all_.rows.tolist() == [6, 7, 8, 9, 5]


def test_each_host_sets_its_rate() -> None:
    made, _ = sets("rate")
    assert names_of(made, "hosts") == {name: [name] for name in HOSTS}
    assert [each.rows.tolist() for each in divide(made, "hosts")] == [[6], [7], [8], [9]]
    assert names_of(made, "ports") == names_of(made, "hosts")


def test_each_switch_sets_its_ports_that_the_patterns_choose() -> None:
    made, _ = sets("marking")
    assert names_of(made, "switches") == {
        switch: [name for port in (1, 2, 3) for name in marking_of(f"{switch}-eth{port}")] for switch in ("s1", "s2")
    }
    made, _ = sets("s2-eth3:marking,s1-*:marking,s2-eth1:marking")
    assert {each.name: each.rows.tolist() for each in divide(made, "switches")} == {"s2": [5, 3], "s1": [0, 1, 2]}
    assert names_of(made, "switches")["s2"] == marking_of("s2-eth3") + marking_of("s2-eth1")


def test_each_port_sets_what_it_has() -> None:
    made, _ = sets("rate,s1-eth3:marking,s2-eth1:marking")
    found = names_of(made, "ports")
    assert found == {name: [name] for name in HOSTS} | {port: marking_of(port) for port in ("s1-eth3", "s2-eth1")}
    assert list(found) == [*HOSTS, "s1-eth3", "s2-eth1"], "in the order of what they set"


def test_a_host_with_several_ports_is_several_agents() -> None:
    plain = {"name": "x", "topology": NICS, "controller": {"policy": "random"}, "workload": {"kind": "pairs"}}
    made = Scene.of(Experiment.of(spec.from_dict(plain | {"time": {"duration": "20ms"}}, Path())))
    ports = ["h1-eth0", "h1-eth1", "h2-eth0", "h2-eth1"]
    assert names_of(made, "hosts") == names_of(made, "ports") == {name: [name] for name in ports}
    assert [made.ports[row] for each in divide(made, "hosts") for row in each.rows] == ports


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
    made = Scene.of(of_preset, replace(of_preset.spec.agent, actuators=text))
    info = flow_info(of_preset, made)
    second = {port: [f"{port}/weight", f"{port}/depth"] for port in ("s1-eth3", "s2-eth1")}
    first = {port: marking_of(port) for port in SWITCH_PORTS[:3]}
    assert names_of(made, "ports") == first | {"s1-eth3": first["s1-eth3"] + second["s1-eth3"], "s2-eth1": second["s2-eth1"]}
    by_switch = divide(made, "switches")
    assert [each.name for each in by_switch] == ["s1", "s2"]
    assert by_switch[0].rows.tolist() == [0, 1, 2], "a port with two actuators stands once"
    assert names_of(made, "switches")["s1"] == [name for each in first.values() for name in each] + second["s1-eth3"]
    (port,) = (each for each in divide(made, "ports") if each.name == "s1-eth3")
    own = port.scene(made)
    assert [(each.actuator.name, each.rows.tolist(), each.place) for each in own.actuated] == [
        ("marking", [2], slice(0, 3)),
        ("second", [2], slice(3, 5)),
    ]
    assert own.value_names == tuple(first["s1-eth3"] + second["s1-eth3"])
    assert own.start.tolist() == [3028, 3028, 1_000_000, 2, 20]
    assert [len(seen) for seen in PortObserver(by_switch, made, "backlog", 1, "switches").observe(frame(info))] == [3, 1]


@pytest.mark.parametrize("text", ["rate", "marking", "rate,marking", "s2-*:marking,s1-eth3:marking,h2-*:rate", "h3-eth0:rate"])
@pytest.mark.parametrize("agents", AGENTS)
def test_each_value_is_of_one_agent(text: str, agents: str) -> None:
    made, _ = sets(text)
    kinds = {each.actuator.ports for each in made.actuated}
    if (agents == "hosts" and "switch" in kinds) or (agents == "switches" and "host" in kinds):
        assert 'give "ports"' in refused(lambda: divide(made, agents))
        return
    found = divide(made, agents)
    values = np.concatenate([each.values for each in found]).tolist()
    assert sorted(values) == list(range(len(made.value_names)))
    assert len({each.name for each in found}) == len(found)
    for each in found:
        own = each.scene(made)
        assert own.value_names == tuple(made.value_names[place] for place in each.values)
        assert own.start.tolist() == made.start[each.values].tolist()
        whole, one = Action(made, "linear").space, Action(own, "linear").space
        assert one.shape == each.values.shape and (one.low == whole.low[each.values]).all()


def test_hosts_are_those_whose_rates_are_set() -> None:
    """The rates of a frame are in the order of the scene's hosts."""
    made, info = sets("h2-*:rate,h1-*:rate")
    assert made.hosts == ("h2", "h1") and made.host_row.tolist() == [7, 6] and made.rates == slice(0, 2)
    assert info.host.tolist() == [1, 0], "the flows of h1 and h2"
    found = divide(made, "hosts")
    observer = observer_of(found, made, "host:backlog", 1, "hosts", "own")
    seen = observer.observe(frame(info, cells=cells(backlog_bytes={"h1-eth0": 40_000})))
    assert [each.name for each in found] == ["h2", "h1"] and np.array(seen).ravel() == pytest.approx([0, 0.1])
    made, info = sets("h3-*:rate")
    assert made.hosts == ("h3",) and (info.host == -1).all(), "flows that no agent limits"
    made, _ = sets("marking")
    assert made.hosts == tuple(HOSTS), "where no rates are set, all"


# --- what each observes


@pytest.fixture
def busy() -> Any:
    """Agents set the marking of s1, and of s2-eth3; h1 -> h3 is under way."""
    made, info = sets("s1-*:marking,s2-eth3:marking", 'agent.hosts="all"')
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
    return made, now


def test_a_port_observes_itself(busy: Any) -> None:
    """10 Mbit/s carry 12,500 bytes in 10 ms, and a mark counts 1514 of them. Values in force are over the buffer of 400 kB."""
    made, now = busy
    agents = divide(made, "ports")
    observer = observer_of(agents, made, "marking", 1, "ports")
    assert observer.names_of == (("backlog", "utilization", "marks", "kmin", "kmax", "pmax"),) * 4
    seen = dict(zip([each.name for each in agents], observer.observe(now), strict=True))
    assert seen["s1-eth1"] == pytest.approx([0.025, 0.1, 0, 0.005, 0.01, 0.25])
    assert seen["s1-eth2"] == pytest.approx([0, 0, 0, 0.01, 0.02, 0.25])
    assert seen["s1-eth3"] == pytest.approx([0.25, 1, 5 * 1514 / 12_500, 0.015, 0.03, 0.25])
    assert seen["s2-eth3"] == pytest.approx([0.5, 0, 0, 0.02, 0.04, 0.25])


def test_a_switch_observes_its_ports_where_it_sets_something(busy: Any) -> None:
    made, now = busy
    observer = observer_of(divide(made, "switches"), made, "switch:backlog,utilization", 1, "switches")
    one = [f"port{number}/{name}" for number in (1, 2, 3) for name in ("backlog", "utilization")]
    assert observer.names_of == (tuple(one), tuple(one[:2]))
    seen = observer.observe(now)
    assert seen[0] == pytest.approx([0.025, 0.1, 0, 0, 0.25, 1]), "s1"
    assert seen[1] == pytest.approx([0.5, 0]), "s2 sets nothing at s2-eth1, and does not see it"


def test_an_item_of_other_ports_is_zero(busy: Any) -> None:
    """All ports observe alike, whatever the patterns; features of hosts are left out."""
    made, now = busy
    observer = observer_of(divide(made, "ports"), made, "s1-*:backlog,s2-*:utilization,srtt,host:marks", 1, "ports")
    assert observer.names_of == (("backlog", "utilization"),) * 4
    assert np.array(observer.observe(now)) == pytest.approx(np.array([[0.025, 0], [0, 0], [0.25, 0], [0, 0]]))


def test_ports_of_hosts_and_switches_observe_alike() -> None:
    made, info = sets("rate,s1-eth3:marking")
    observer = observer_of(divide(made, "ports"), made, "backlog,kmin", 1, "ports")
    values = np.array([1e7] * 4 + [4000.0, 8000.0, 1e6])
    seen = observer.observe(frame(info, cells=cells(backlog_bytes={"h2-eth0": 20_000, "s1-eth3": 40_000}), enforced=values))
    assert np.array(seen) == pytest.approx(np.array([[0, 0], [0.05, 0], [0, 0], [0, 0], [0.1, 0.01]]))


@pytest.mark.parametrize("agents", ["switches", "ports"])
def test_history_stacks_the_frames_of_each(busy: Any, agents: str) -> None:
    made, now = busy
    found = divide(made, agents)
    observer, single = (observer_of(found, made, "backlog,marks", history, agents) for history in (3, 1))
    for names, one, box, small in zip(observer.names_of, single.names_of, observer.spaces, single.spaces, strict=True):
        assert names == tuple(f"{name}@-2" for name in one) + tuple(f"{name}@-1" for name in one) + one
        assert box.shape == (3 * small.shape[0],) and (box.high == np.tile(small.high, 3)).all()
    first = frame(now.info, step=0, enforced=now.enforced)
    none, some = single.observe(first), single.observe(now)
    assert all((seen == np.tile(zero, 3)).all() for seen, zero in zip(observer.observe(first), none, strict=True))
    for seen, zero, one in zip(observer.observe(now), none, some, strict=True):
        assert (seen == np.concatenate([zero, zero, one])).all()
    assert all(not seen.any() for seen in observer.observe(first)), "a first frame forgets the episode before"


@pytest.mark.parametrize("observe", ["default", "full", "marking,drops", "s1-eth3:backlog,tx_rate,rx_rate"])
@pytest.mark.parametrize("agents", ["switches", "ports"])
def test_any_frame_is_in_the_spaces(observe: str, agents: str) -> None:
    made, info = sets("marking")
    found = divide(made, agents)
    observer = observer_of(found, made, observe, 2, agents)
    rng = np.random.default_rng(3)
    for step in (0, *range(1, 20)):
        seen = observer.observe(random_frame(made, info, rng, step))
        for values, box, names in zip(seen, observer.spaces, observer.names_of, strict=True):
            assert box.contains(values) and len(names) == len(values) == len(set(names))


# --- what each is rewarded for


def test_own_rewards_are_those_of_a_network_of_its_ports(busy: Any) -> None:
    """Only h1 -> h3 is under way, over s1-eth3 and s2-eth1. 10 kB queued take 8 ms at 10 Mbit/s, and a base RTT is 3.852 ms."""
    made, now = busy
    found = {each.name: each for agents in ("ports", "switches") for each in divide(made, agents)}

    def reward(agent: str, text: str) -> float:
        view = View.of(made, now.info, found[agent].rows)
        own = view.frame(now)
        return WeightedReward.of(text)(own, view.scene, view.scene.share(own.in_force_bps))

    assert {name: reward(name, "thesis") for name in found} == pytest.approx(
        {"s1-eth1": 0.95, "s1-eth2": 1, "s1-eth3": 0.5, "s2-eth3": 0, "s1": 0.5, "s2": 0}
    )
    assert {name: reward(name, "queue") for name in found} == pytest.approx(
        {"s1-eth1": -(0.025**2), "s1-eth2": 0, "s1-eth3": -(0.25**2), "s2-eth3": -(0.5**2), "s1": -(0.275**2), "s2": -(0.5**2)}
    )
    assert {name: reward(name, "port_utilization") for name in found} == pytest.approx(
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
    made, now = busy
    flows_of = {each.name: View.of(made, now.info, each.rows).flows.tolist() for each in divide(made, "ports")}
    assert flows_of == {"s1-eth1": [False] * 2, "s1-eth2": [False] * 2, "s1-eth3": [True] * 2, "s2-eth3": [False] * 2}
    for agent in divide(made, "switches"):
        view = View.of(made, now.info, agent.rows)
        kept = view.frame(now).column("backlog_bytes")
        expected = [now.column("backlog_bytes")[row] if row in agent.rows else 0 for row in ROWS.values()]
        assert kept.tolist() == expected


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
    made, _ = sets(text)
    assert refused(lambda: divide(made, agents)) == line


@pytest.mark.parametrize(
    ("observe", "agents", "see", "words"),
    [
        ("srtt,enforced", "ports", None, 'has no feature of the ports where "ports" act; give one, such as backlog'),
        ("host:backlog", "switches", None, 'has no feature of the ports where "switches" act'),
        ("s1-*:backlog,s2-*:backlog", "ports", None, "gives each port backlog twice; take one out"),
        ("backlog", "ports", "path", 'see: "path" is for hosts, and the agents are ports; leave it out'),
        ("backlog", "switches", "pth", "see: value 'pth' is unknown; did you mean path?"),
    ],
)  # fmt: skip
def test_observations_that_cannot_be(observe: str, agents: str, see: str | None, words: str) -> None:
    made, _ = sets("marking")
    assert words in refused(lambda: observer_of(divide(made, agents), made, observe, 1, agents, see))


def test_a_feature_that_is_not_a_number_names_its_port(registries: None) -> None:
    from dc_gym.run.agent import observation

    def odd(frame: Any, scene: Any) -> Any:
        return np.where(np.arange(len(scene.ports)) == 2, np.nan, 0.0)

    observation.register("odd", "port", 0, 1, "x", odd)
    made, info = sets("marking")
    observer = observer_of(divide(made, "switches"), made, "odd", 1, "switches")
    assert refused(lambda: observer.observe(frame(info))) == "agent.observe: odd of s1-eth3 is not a number; mend the feature"
    assert isinstance(observer_of(divide(sets("rate")[0], "hosts"), made, "backlog", 1, "hosts"), HostObserver)


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

    told = {"spec": ECN, "agents": "ports", "reward": "own", "folder": str(tmp_path)}
    config = (
        PPOConfig()
        .environment(DataCenterMultiAgentEnv, env_config=told)
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
        found = many.step({each.name: action[each.values] for each in many.agents})
        one, other = central.episode.frame, many.episode.frame
        assert one.enforced.tolist() == other.enforced.tolist() and (one.enforced != central.session.scene.start).any()
        assert found.rewards == dict.fromkeys(many.names, reward) and found.truncated == truncated
    assert truncated
    central.close()
    many.close()
