# SPDX-License-Identifier: Apache-2.0
"""ACC's queues and agents on made-up frames: samples, rewards, idle queues and settings by hand; what learns, and what is
refused. In labs a run with a constant action, and runs that learn and go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dc_gym import spec
from dc_gym.base.errors import AgentError, UsageError
from dc_gym.base.npz import load_arrays, write_arrays
from dc_gym.base.progress import Quiet
from dc_gym.methods.acc.agent import AccAgent
from dc_gym.methods.acc.groups import groups_of, node_heights
from dc_gym.methods.acc.keys import AccKeys
from dc_gym.methods.acc.policy import SHIPPED, AccPolicy
from dc_gym.methods.acc.q_network import QNetwork
from dc_gym.methods.acc.queues import AccQueues, Slot
from dc_gym.methods.acc.template import DEPLOYED, TEMPLATES, Template
from dc_gym.run.agent.action import Action
from dc_gym.run.agent.actors import Actors
from dc_gym.run.agent.observation import Observer
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.agent.scene import Scene
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.runner import run
from tests.run.agent.made import CLASSES, MS, STEP, cells, class_cells, experiment, frame, scene

EXAMPLE = Path(__file__).parents[3] / "examples/acc.toml"
MARKING = (STEP, "agent.actuators=s1-*:marking")
TEMPLATE = Template("mine", 10 * MS, 2, ((3028, 3028, 10**6), (20_000, 80_000, 200_000), (40_000, 160_000, 10_000)))
LINE_BYTES = 12_500
"""Bytes that 10 Mbit/s carry in a step of 10 ms."""


def queues(*overrides: str, template: Template = TEMPLATE, **changes: Any) -> tuple[AccQueues, Any]:
    lab_scene, info = scene(*(overrides or MARKING))
    return AccQueues(lab_scene, template, **changes), info


def moment(info: Any, step: int, **columns: dict[str, int]) -> Any:
    """Returns the frame of a step in which the counters rose from 0 to these values."""
    return frame(info, step=step, t_ns=step * 10 * MS, elapsed_ns=10 * MS if step else 0, cells=cells(**columns))


# --- samples, rewards and settings


def test_a_sample_is_mean_queue_rate_marked_rate_and_setting() -> None:
    acc_queues, info = queues()
    assert acc_queues.names == ("s1-eth1", "s1-eth2", "s1-eth3") and acc_queues.settings.tolist() == [0, 0, 0]
    first = acc_queues.observe(moment(info, 0))
    assert first.states.tolist() == [[0] * 8] * 3, "copies of the first sample"
    acc_queues.settings = np.array([0, 1, 2])
    columns = {
        "queue_byte_ns": {"s1-eth3": 30_000 * 10 * MS},
        "tx_bytes": {"s1-eth3": LINE_BYTES // 2, "s1-eth1": 3 * LINE_BYTES},
        "ce_bytes": {"s1-eth3": LINE_BYTES // 4},
        "longest_bytes": {"s1-eth3": 50_000},
        "backlog_bytes": {"s1-eth3": 1},
    }
    slot = acc_queues.observe(moment(info, 1, **columns))
    assert slot.states[2] == pytest.approx([0, 0, 0, 0, 0.15, 0.5, 0.25, 1]), "oldest first; 30 kB are halfway from E(0) to E(1)"
    assert slot.states[0] == pytest.approx([0, 0, 0, 0, 0, 2, 0, 0]) and slot.states[1] == pytest.approx([0] * 7 + [0.5])
    assert slot.rewards == pytest.approx([0.7 * 3 + 0.3, 0.3, 0.7 * 0.5 + 0.3 * 0.9])


def test_the_reward_s_weights_and_design_are_keys() -> None:
    acc_queues, info = queues(worth="linear", throughput_weight=0.4)
    columns = {"queue_byte_ns": {"s1-eth3": 5_120_000 * 10 * MS}, "tx_bytes": {"s1-eth3": LINE_BYTES}}
    acc_queues.observe(moment(info, 0))
    assert acc_queues.observe(moment(info, 1, **columns)).rewards[2] == pytest.approx(0.4 + 0.6 * 0.5)


def test_the_queue_of_a_class_has_its_own_counters_and_its_port_s_line() -> None:
    acc_queues, info = queues(CLASSES, "agent.actuators=s1-eth3:rdma:marking")
    lab_scene, _ = scene(CLASSES)
    assert acc_queues.names == ("s1-eth3:rdma",)
    now = class_cells(lab_scene, tx_bytes={"s1-eth3:rdma": LINE_BYTES // 5}, queue_byte_ns={"s1-eth3:rdma": 20_000 * 10 * MS})
    acc_queues.observe(frame(info, step=0, elapsed_ns=0, class_cells=class_cells(lab_scene), class_before=class_cells(lab_scene)))
    slot = acc_queues.observe(frame(info, class_cells=now, class_before=class_cells(lab_scene)))
    assert slot.states[0] == pytest.approx([0, 0, 0, 0, 0.1, 0.2, 0, 0]), "its step at 20 kB is nearest to action 0, a step"
    assert slot.rewards == pytest.approx([0.7 * 0.2 + 0.3])


def test_settings_are_exact_and_within_the_bounds_of_a_queue() -> None:
    """The limit of a queue is 400 kB: 2.56 MB become 400 kB."""
    lab_scene, _ = scene(*MARKING)
    acc_queues = AccQueues(lab_scene, Template("deep", 10 * MS, 1, (*DEPLOYED.actions, (123_457, 234_567, 123_457))))
    for head in ("linear", "log"):
        action = Action(lab_scene, head)
        for number, (kmin, kmax, pmax) in enumerate([*DEPLOYED.actions, (123_457, 234_567, 123_457)]):
            values = acc_queues.values(np.full(3, number))
            assert values.tolist() == [min(kmin, 400_000), min(kmax, 400_000), pmax] * 3
            assert action.to_values(action.exactly(values)).tolist() == values.tolist()


# --- queues that have one setting


def test_queues_of_a_direction_have_one_sample_one_reward_and_one_setting() -> None:
    """s1-eth1 and s1-eth2 lead to hosts, s1-eth3 to the other switch."""
    acc_queues, info = queues(groups="direction")
    assert len(acc_queues) == 2 and acc_queues.settings.tolist() == [0, 0]
    acc_queues.observe(moment(info, 0))
    acc_queues.settings = np.array([2, 1])
    columns = {
        "queue_byte_ns": {"s1-eth1": 60_000 * 10 * MS, "s1-eth3": 20_000 * 10 * MS},
        "tx_bytes": {"s1-eth1": LINE_BYTES, "s1-eth2": LINE_BYTES // 2},
        "ce_bytes": {"s1-eth2": LINE_BYTES // 2},
        "longest_bytes": {"s1-eth1": 70_000},
    }
    slot = acc_queues.observe(moment(info, 1, **columns))
    assert slot.states[:, 4:] == pytest.approx(np.array([[0.15, 0.75, 0.25, 1], [0.1, 0, 0, 0.5]])), "30 kB on average"
    worth = [(0.7 * 1 + 0.3 * 0.8 + 0.7 * 0.5 + 0.3 * 1) / 2, 0.3 * 1]
    assert slot.rewards == pytest.approx(worth), "the mean of rewards, not that of the mean queue"
    assert slot.idle.tolist() == [False, True], "a direction is busy if one of its queues is"
    down, up = TEMPLATE.actions[2], TEMPLATE.actions[1]
    assert acc_queues.values(np.array([2, 1])).reshape(3, 3).tolist() == [list(down), list(down), list(up)]


def test_ports_of_a_leaf_spine_lead_up_or_down() -> None:
    acc96 = spec.of_preset("acc96", ['workload.kind="pairs"', "topology.hosts_per_leaf=2", "topology.uplinks=1"])
    lab_scene = Scene.of(Experiment.of(acc96))
    heights = node_heights(lab_scene)
    leaves = {node for node, height in heights.items() if height == 1}
    spines = {node for node, height in heights.items() if height == 2}
    assert (len(leaves), len(spines), set(heights.values())) == (4, 2, {0, 1, 2})
    ports = np.flatnonzero(lab_scene.is_switch).tolist()
    up = {port for port, group in zip(ports, groups_of(lab_scene, ports, "direction"), strict=True) if group}
    assert up == {port for port in ports if lab_scene.nodes[lab_scene.peer_row[port]] in spines} and len(up) == 8
    assert groups_of(lab_scene, ports, "queue").tolist() == [*range(len(ports))]


# --- idle queues


@pytest.mark.parametrize(
    ("rule", "idle"),
    [("off", [False, False, False]), ("queue", [True, True, False]), ("paper", [True, True, False])],
)
def test_a_queue_below_the_lowest_kmin_is_idle(rule: str, idle: list[bool]) -> None:
    acc_queues, info = queues(idle=rule)
    longest = {"longest_bytes": {"s1-eth2": 3027, "s1-eth3": 3028}}
    assert acc_queues.observe(moment(info, 0, **longest)).idle.tolist() == idle


@pytest.mark.parametrize(("rule", "idle"), [("queue", [False] * 4), ("paper", [False, False, True, False])])
def test_a_queue_whose_reward_stays_for_three_slots_is_idle(rule: str, idle: list[bool]) -> None:
    acc_queues, info = queues(idle=rule)
    idle_slots, sent = [], 0
    for step, more in enumerate((1000, 1000, 1005, 2000), start=1):
        busy = {"longest_bytes": {"s1-eth3": 50_000}}
        before = cells(tx_bytes={"s1-eth3": sent}, **busy)
        sent += more
        now = frame(info, step=step, cells=cells(tx_bytes={"s1-eth3": sent}, **busy), before=before)
        idle_slots.append(bool(acc_queues.observe(now).idle[2]))
    assert idle_slots == idle, "0.7 x 5 of 12,500 bytes are less than a thousandth"


# --- what is refused


def keys(**changes: Any) -> AccKeys:
    return AccKeys(**changes)


def context(*overrides: str, seed: int = 7) -> PolicyContext:
    lab_scene, _ = scene(*(overrides or MARKING))
    return PolicyContext(lab_scene, Observer(lab_scene, "switch:backlog"), Action(lab_scene, "linear"), seed, "switches", "s1")


@pytest.mark.parametrize(
    ("overrides", "changes", "why"),
    [
        (("agent.actuators=rate",), {}, 'acc sets marking, and agent.actuators is rate; give "marking"'),
        ((*MARKING, "topology.qdisc=stock"), {}, 's1-eth1 has a stock one; give topology.qdisc = "port"'),
        (MARKING, {"template": "acc-deployed"}, "agent.interval is 10000 us, and template acc-deployed decides each 500 us"),
        (MARKING, {"constant": 3}, "controller.constant = 3: template mine.toml has actions 0 to 2; give one"),
        (MARKING, {"constant": 1, "learn": True}, "an agent that keeps one action learns none"),
        (
            MARKING,
            {"start": "trained"},
            "controller.start: 'trained' is unknown; give a policy file .* or untrained, acc-deployed",
        ),
    ],
)
def test_what_does_not_go_together_is_told_in_one_line(
    overrides: tuple[str, ...], changes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(AgentError, match=why) as refusal:
        AccAgent(context(*overrides), keys(**{"template": written(tmp_path), **changes}))
    assert "\n" not in str(refusal.value)


def written(folder: Path, interval: str = "10ms") -> Path:
    """Writes TEMPLATE into a file."""
    path = folder / "mine.toml"
    path.write_text(
        f'interval = "{interval}"\nhistory = 2\n'
        'actions = [["3028B", "3028B", "100%"], ["20kB", "80kB", "20%"], ["40kB", "160kB", "1%"]]\n'
    )
    return path


def test_the_interval_of_a_slowed_network_is_longer(tmp_path: Path) -> None:
    AccAgent(context(*MARKING, "topology.scale=10"), keys(template=written(tmp_path, "1ms"), constant=0))
    with pytest.raises(AgentError, match=r"mine\.toml.*10000 us.*topology\.scale 10; give 100000us"):
        AccAgent(context(*MARKING, "topology.scale=10"), keys(template=written(tmp_path)))


def test_a_policy_of_another_template_or_interval_is_refused(tmp_path: Path) -> None:
    path, template = tmp_path / "acc.npz", written(tmp_path)
    for history, interval_ns, why in ((1, 10 * MS, "sees 1 samples, not 2"), (2, 5 * MS, "decides each 5ms, not 10ms")):
        other = Template("other", interval_ns, history, TEMPLATE.actions)
        AccPolicy(QNetwork.random((other.inputs, 3, 3), np.random.default_rng(1)), other).write(path)
        with pytest.raises(AgentError, match=f"another template.*{why}"):
            AccAgent(context(), keys(template=template, start=path))
    (tmp_path / "text.npz").write_text("no arrays")
    with pytest.raises(AgentError, match=r"\.npz file.*give a policy file"):
        AccAgent(context(), keys(template=template, start=tmp_path / "text.npz"))


def test_the_policy_that_comes_with_dc_gym_is_of_its_template(tmp_path: Path) -> None:
    for name, path in SHIPPED.items():
        assert not AccPolicy.read(path).template.difference(TEMPLATES[name])
        with pytest.raises(AgentError, match="another template"):
            AccAgent(context(), keys(template=written(tmp_path), start=name))


# --- agents


def busy(info: Any, step: int, sent: int = 6250) -> Any:
    """Returns a frame in which the middle link has a queue of 50 kB; that of s1-eth1 has 25 kB."""
    longest = {"s1-eth3": 50_000, "s1-eth1": 25_000}
    columns = {"longest_bytes": longest, "queue_byte_ns": {name: backlog * 10 * MS for name, backlog in longest.items()}}
    return moment(info, step, tx_bytes={"s1-eth3": sent + step}, **columns)


def test_a_net_sets_busy_queues_and_leaves_the_others(tmp_path: Path) -> None:
    path, sizes = tmp_path / "acc.npz", (8, 3)
    net = QNetwork((np.zeros(sizes[::-1]),), (np.array([0.0, 1.0, 2.0]),))
    AccPolicy(net, TEMPLATE).write(path)
    agent_context, (_, info) = context(), scene(*MARKING)
    agent = AccAgent(agent_context, keys(template=written(tmp_path), start=path))
    set_now = agent_context.action.to_values(agent.act(np.zeros(0, np.float32), busy(info, 0))).reshape(3, 3).tolist()
    assert set_now == [[40_000, 160_000, 10_000], [3028, 3028, 10**6], [40_000, 160_000, 10_000]]
    assert agent.state() == {"inferences": 2, "skipped": 1}


def test_a_constant_agent_sets_its_action_everywhere(tmp_path: Path) -> None:
    agent_context, (_, info) = context(), scene(*MARKING)
    agent = AccAgent(agent_context, keys(template=written(tmp_path), constant=1))
    values = agent_context.action.to_values(agent.act(np.zeros(0, np.float32), moment(info, 0)))
    assert values.tolist() == [20_000, 80_000, 200_000] * 3 and agent.state() == {}


def learning(tmp_path: Path, **changes: Any) -> tuple[Actors, Any, dict[str, Any]]:
    """Returns the agents of both switches of the dumbbell, its flows, and the keys."""
    overrides = (STEP, "agent.actuators=marking", "agent.agents=switches", "agent.observe=switch:backlog")
    lab_scene, info = scene(*overrides)
    keys = {"template": written(tmp_path), "learn": True, "batch": 4, "target_every": 3, "idle": "queue"} | changes
    agent_context = PolicyContext(lab_scene, Observer(lab_scene, "switch:backlog"), Action(lab_scene, "linear"), 7, given=keys)
    return Actors("acc", agent_context, experiment(*overrides).spec.agent), info, keys


def led(actors: Actors, info: Any, steps: int) -> list[list[float]]:
    actions = []
    for step in range(steps):
        now = busy(info, step, 6250 * (1 + step % 2))
        actors.observe(now, np.zeros(6, np.float32), 0.0)
        actions.append(actors.act(now).tolist())
    return actions


def test_every_switch_learns_by_itself_and_repeats(tmp_path: Path) -> None:
    (first, info, _), (second, _, _) = learning(tmp_path), learning(tmp_path)
    assert led(first, info, 20) == led(second, info, 20)
    state, again = first.state(), second.state()
    assert all((state[name] == again[name]).all() for name in state) and set(state) == set(again)
    assert {name.partition(".")[0] for name in state} == {"s1", "s2"}
    assert (state["s1.inferences"], state["s1.skipped"]) == (40, 20) and state["s2.inferences"] == 0
    assert len(state["s1.replay_rewards"]) == 38 and state["s1.updates"] == 18, "the last decision has led nowhere yet"
    assert set(state["s1.replay_actions"].tolist()) > {0} or len(set(state["s1.replay_actions"].tolist())) > 1, "it explores"
    assert state["s1.replay_rewards"].max() > state["s1.replay_rewards"].min()
    assert state["s2.updates"] == 0, "nothing happened at its queues"


def test_switches_exchange_what_they_have_seen(tmp_path: Path) -> None:
    """Each ten steps: s2, which has seen nothing, gets a draw of what s1 gave to the global replay."""
    actors, info, _ = learning(tmp_path, exchange=100 * MS)
    led(actors, info, 11)
    state = actors.state()
    assert len(state["s1.replay_rewards"]) == 20 + 10, "a half of its own again"
    assert len(state["s2.replay_rewards"]) == 1
    assert state["s2.replay_rewards"][0] in state["s1.replay_rewards"]
    alone, info, _ = learning(tmp_path, exchange=100 * MS + 10 * MS)
    led(alone, info, 11)
    assert len(alone.state()["s2.replay_rewards"]) == 0


def test_what_was_learned_goes_on_in_another_run(tmp_path: Path) -> None:
    actors, info, _ = learning(tmp_path)
    led(actors, info, 12)
    path = tmp_path / "learned.npz"
    write_arrays(path, actors.state())
    again, _, _ = learning(tmp_path, start=path)
    before, after = actors.state(), again.state()
    for name in ("W0", "target_b1", "mean2", "updates", "explored"):
        assert (before[f"s1.{name}"] == after[f"s1.{name}"]).all()
    alone = {name: array for name, array in load_arrays(path, "").items() if name.startswith("s1.")}
    write_arrays(tmp_path / "one.npz", alone)
    with pytest.raises(AgentError, match=r"one\.npz: .*s2.*s1; give a policy file"):
        learning(tmp_path, start=tmp_path / "one.npz")
    write_arrays(tmp_path / "other.npz", alone | {"s1.history": np.int64(5)})
    with pytest.raises(AgentError, match=r"another template.* 5 .* 2"):
        learning(tmp_path, start=tmp_path / "other.npz")
    write_arrays(tmp_path / "bad.npz", alone | {"s1.left": np.float64(1)})
    with pytest.raises(AgentError, match=r"bad\.npz: agent s1: "):
        learning(tmp_path, start=tmp_path / "bad.npz")


def test_exploration_falls_by_half(tmp_path: Path) -> None:
    agent = AccAgent(context(), keys(template=written(tmp_path), learn=True, explore=0.8, half_life=10, explore_least=0.15))
    shares = []
    for _ in range(31):
        shares.append(agent._share_at_random())
        agent._choose(Slot(np.zeros((3, 8)), np.zeros(3), np.ones(3, bool)))
    assert [shares[step] for step in (0, 10, 20, 30)] == pytest.approx([0.8, 0.4, 0.2, 0.15])


# --- in a lab


def ran(out: Path, *overrides: str) -> Any:
    short = ("time.duration=10ms", "topology.hosts=3", "workload.senders=2", "workload.flows=8", *overrides)
    return run(spec.load(EXAMPLE, short), out, Quiet(), plot=False)


@pytest.mark.lab
def test_a_constant_action_is_in_force_from_the_first_decision_on(tmp_path: Path) -> None:
    ran(tmp_path / "run", "controller.learn=false", "controller.constant=4", "controller.template=acc-deployed")
    table = pq.read_table(tmp_path / "run/agent.parquet")
    kmin, kmax, pmax = DEPLOYED.actions[4]
    for port in ("s1-eth1", "s1-eth2", "s1-eth3"):
        for name, value, first in (("kmin_bytes", kmin, 5000), ("kmax_bytes", kmax, 200_000), ("pmax_ppm", pmax, 10_000)):
            for prefix in ("wanted", "enforced"):
                assert table[f"{prefix}_{name}_{port}"].to_pylist() == [first] + [value] * 20
    assert not (tmp_path / "run/learned.npz").exists()


@pytest.mark.lab
def test_a_central_agent_sets_one_marking_for_all_ports_down(tmp_path: Path) -> None:
    """C-ACC on one switch: no port leads up. Its answers are in force four decisions later."""
    central = ("agent.agents=central", "agent.latency=2ms", "controller.groups=direction", "controller.explore=1")
    ran(tmp_path / "run", *central, "controller.idle=off", "controller.batch=2")
    table = pq.read_table(tmp_path / "run/agent.parquet")
    wanted, enforced = (
        [table[f"{prefix}_kmin_bytes_s1-eth{port}"].to_pylist() for port in (1, 2, 3)] for prefix in ("wanted", "enforced")
    )
    assert wanted[0] == wanted[1] == wanted[2] and len(set(wanted[0])) > 3
    assert enforced[0] == enforced[1] == enforced[2] and enforced[0][5:] == wanted[0][1:-4]
    state = load_arrays(tmp_path / "run/learned.npz", "")
    assert (state["inferences"], state["skipped"], state["updates"]) == (20, 0, 18), "one sample a decision, and batches of two"


@pytest.mark.lab
def test_a_run_learns_the_same_bits_again_and_goes_on(tmp_path: Path) -> None:
    learn = ("controller.batch=2", "controller.explore=1", "controller.idle=off")
    first, again = (ran(tmp_path / name, *learn) for name in ("first", "again"))
    learned_file = tmp_path / "first/learned.npz"
    assert first.manifest["digest"] == again.manifest["digest"]
    assert learned_file.read_bytes() == (tmp_path / "again/learned.npz").read_bytes()
    state = load_arrays(learned_file, "")
    assert (state["s1.inferences"], state["s1.skipped"], state["s1.updates"]) == (60, 0, 19)
    on = ran(tmp_path / "on", *learn, f"controller.start={learned_file}")
    after = load_arrays(tmp_path / "on/learned.npz", "")
    assert after["s1.updates"] == 38 and after["s1.explored"] == 40 and on.manifest["digest"] != first.manifest["digest"]
    assert (tmp_path / "on/acc-start.npz").read_bytes() == learned_file.read_bytes(), "a result keeps what it started from"


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (
            ('ground="host"', 'topology.qdisc="stock"', 'controller.name="dctcp"'),
            "'marking' cannot be enforced on ground \"host\"",
        ),
        (("controller.learn=false", "controller.constant=20"), "template acc-deployed has actions 0 to 19"),
        (
            ("agent.agents=central", "agent.interval=1ms"),
            "agent.interval is 1000 us, and template acc-deployed decides each 500 us",
        ),
        (("controller.worth=steep",), 'controller.worth = "steep": unknown'),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_it_boots(overrides: tuple[str, ...], why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        ran(tmp_path / "run", *overrides)
    assert why in str(refusal.value) and "\n" not in str(refusal.value) and not (tmp_path / "run").exists()
