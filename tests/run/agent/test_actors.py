# SPDX-License-Identifier: Apache-2.0
"""The policies of a run's agents: what each is told and when, what it learns, and what the result keeps. In a lab a run whose
ports learn, and DCQCN under agents that set rates, marking, and both."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import episodes
import numpy as np
import pyarrow.parquet as pq
import pytest
from facts import states

from dc_gym.base.errors import AgentError
from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.learn.env import DataCenterEnv, as_spec
from dc_gym.results.results import Result
from dc_gym.run.agent import policies
from dc_gym.run.agent.action import Action
from dc_gym.run.agent.actors import Actors
from dc_gym.run.agent.observation import Observer
from dc_gym.run.agent.policies import PolicyContext
from dc_gym.run.runner import run
from tests.run.agent.made import RUNNING, STEP, cells, experiment, flows, frame, scene

EXAMPLES = Path(__file__).parents[3] / "examples"
BANDIT = EXAMPLES / "bandit.toml"
OWN = ("agent.agents=ports", "agent.reward_scope=own", 'agent.reward="port_utilization"')
DCQCN = {
    "name": "dcqcn and agents",
    "topology": {"preset": "dumbbell-1g", "buffer": "400kB"},
    "controller": {"name": "dcqcn"},
    "agent": {"interval": "1ms", "observe": "switch:backlog"},
    "workload": {"kind": "pairs"},
    "time": {"duration": "20ms"},
}


class Learner:
    """A policy that writes down what happens to it. Its action counts its calls."""

    made: list[Learner]

    def __init__(self, context: PolicyContext) -> None:
        self.context, self.told = context, list[tuple[str, Any]]()
        Learner.made.append(self)

    def act(self, observation: Any, frame: Any) -> Any:
        self.told.append(("act", observation.tolist()))
        return np.full(self.context.action.space.shape, len(self.told) / 100)

    def observe(self, reward: float, observation: Any) -> None:
        self.told.append(("observe", (reward, observation.tolist())))

    def state(self) -> Any:
        return {"calls": len(self.told)}


@pytest.fixture
def learner(registries: None) -> type[Learner]:
    Learner.made = []
    policies.register("learner", Learner)
    return Learner


def actors(policy: str, *overrides: str) -> tuple[Actors, Any]:
    """Returns the actors of the dumbbell, where agents set marking, and its flows."""
    settings = (STEP, "agent.actuators=s1-eth3:marking,s2-eth3:marking", "agent.observe=switch:backlog", *overrides)
    dumbbell, info = scene(*settings)
    agent = experiment(*settings).spec.agent
    return Actors(policy, PolicyContext(dumbbell, Observer(dumbbell, agent.observe), Action(dumbbell, "linear"), 7), agent), info


def moments(info: Any) -> tuple[Any, Any, Any]:
    """Returns three frames: in each step one port more sends, and has a longer queue."""
    one = {"status": RUNNING, "start_ns": 0}
    sent = [{}, {"s1-eth3": 6_250}, {"s1-eth3": 12_500, "s2-eth3": 2_500}]
    frames = []
    for step, now in enumerate(sent):
        queues = {"s1-eth3": 40_000 * step, "s2-eth3": 80_000 * step}
        before = sent[max(step - 1, 0)]
        frames.append(
            frame(
                info,
                step=step,
                cells=cells(tx_bytes=now, backlog_bytes=queues),
                before=cells(tx_bytes=before),
                flows=flows(one, {}),
                flows_before=flows(one, {}),
            )
        )
    return frames[0], frames[1], frames[2]


def follow(acting: Actors, info: Any) -> list[Any]:
    """Leads the actors through an episode of two steps, as a run does. Returns the actions."""
    first, second, last = moments(info)
    observer = Observer(scene(STEP)[0], "switch:backlog")
    acts = []
    for now, reward in ((first, 0.0), (second, 5.0)):
        acting.observe(now, observer.observe(now), reward)
        acts.append(acting.act(now))
    acting.observe(last, observer.observe(last), 6.0)
    return acts


# --- a policy that learns


def test_a_central_agent_is_told_once_a_step_what_its_action_led_to(learner: type[Learner]) -> None:
    acting, info = actors("learner")
    acts = follow(acting, info)
    (one,) = learner.made
    observations = [[0, 0, backlog, 0, 0, 2 * backlog] for backlog in (0, 0.1, 0.2)]
    assert [call for call, _ in one.told] == ["act", "observe", "act", "observe"], "not before the first action, and at the end"
    assert one.told[0][1] == observations[0] and one.told[2][1] == pytest.approx(observations[1])
    assert [args[0] for call, args in one.told if call == "observe"] == [5.0, 6.0]
    assert [args[1] for call, args in one.told if call == "observe"] == [pytest.approx(values) for values in observations[1:]]
    assert [action.tolist() for action in acts] == [[0.01] * 6, [0.03] * 6]
    assert (one.context.name, one.context.agents, one.context.seed) == ("network", "central", 7)
    assert one.context.observation == tuple(f"s{switch}-eth{port}/backlog" for switch in (1, 2) for port in (1, 2, 3))
    assert acting.state() == {"calls": 4}


@pytest.mark.parametrize(
    ("settings", "rewards"),
    [(OWN[:1], [[5, 6], [5, 6]]), (OWN, [[0.5, 0.5], [0, 0.2]])],
    ids=["the network's rewards", "rewards of their own"],
)
def test_each_of_many_agents_is_told_its_own(learner: type[Learner], settings: tuple[str, ...], rewards: list[Any]) -> None:
    """10 Mbit/s carry 12,500 bytes in a step: s1-eth3 sends half of that in each, s2-eth3 a fifth in the last."""
    acting, info = actors("learner", *settings)
    acts = follow(acting, info)
    assert [agent.context.name for agent in learner.made] == ["s1-eth3", "s2-eth3"]
    for agent, own_rewards, queue in zip(learner.made, rewards, (0.1, 0.2), strict=True):
        assert [call for call, _ in agent.told] == ["act", "observe", "act", "observe"]
        assert [args[0] for call, args in agent.told if call == "observe"] == pytest.approx(own_rewards)
        assert [args[1] for call, args in agent.told if call == "observe"] == [pytest.approx([queue]), pytest.approx([2 * queue])]
        assert [args for call, args in agent.told if call == "act"] == [[0], pytest.approx([queue])]
        context = agent.context
        assert context.observation == ("backlog",) and context.action.space.shape == (3,)
        assert context.scene.value_names == tuple(f"{context.name}/{name}" for name in ("kmin", "kmax", "pmax"))
    assert len({agent.context.seed for agent in learner.made}) == 2
    assert [action.tolist() for action in acts] == [[0.01] * 6, [0.03] * 6]
    assert acting.state() == {"s1-eth3.calls": 4, "s2-eth3.calls": 4}


def test_seeds_of_agents_follow_from_the_run_s(learner: type[Learner]) -> None:
    for _ in range(2):
        actors("learner", *OWN)
    seeds = [agent.context.seed for agent in learner.made]
    assert seeds[:2] == seeds[2:]


def test_each_agent_has_its_part_of_the_action(registries: None) -> None:
    class Numbered:
        def __init__(self, context: PolicyContext) -> None:
            self.first = {"s1-eth3": 0.1, "s2-eth3": 0.4}[context.name]

        def act(self, observation: Any, frame: Any) -> Any:
            return [self.first, self.first + 0.1, self.first + 0.2]

    policies.register("numbered", Numbered)
    acting, info = actors("numbered", *OWN[:1])
    assert follow(acting, info)[0] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    assert acting.state() == {}, "a policy without state has learned nothing"


# --- what goes wrong in one


def one_line(call: Callable[[], Any]) -> str:
    with pytest.raises(AgentError) as excinfo:
        call()
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ([1, 2], "controller.policy: state gives [1, 2] instead of arrays by name; mend the method"),
        (None, "controller.policy: state gives None instead of arrays by name; mend the method"),
        ({"value": ["a"]}, "controller.policy: state gives 'value' of <U1, which is no array of numbers; mend it"),
        ({"value": object()}, "controller.policy: state gives 'value' of object, which is no array of numbers; mend it"),
    ],
)
@pytest.mark.parametrize("agents", ["central", "ports"])
def test_a_wrong_state(registries: None, state: Any, words: str, agents: str) -> None:
    class Odd:
        def __init__(self, context: PolicyContext) -> None: ...

        def act(self, observation: Any, frame: Any) -> Any: ...

        def state(self) -> Any:
            return state

    policies.register("odd", Odd)
    acting, _ = actors("odd", f"agent.agents={agents}")
    assert one_line(acting.state) == words


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ([0.5], "action: that of s1-eth3 has 1 numbers, and it sets 3 values; give one for each"),
        (np.zeros(6), "action: that of s1-eth3 has 6 numbers, and it sets 3 values; give one for each"),
        ("all", "action: that of s1-eth3 is 'all'; give 3 numbers"),
        (None, "action: that of s1-eth3 "),
    ],
)
def test_a_wrong_action(registries: None, action: Any, words: str) -> None:
    class Odd:
        def __init__(self, context: PolicyContext) -> None: ...

        def act(self, observation: Any, frame: Any) -> Any:
            return action

    policies.register("odd", Odd)
    acting, info = actors("odd", "agent.agents=ports")
    assert one_line(lambda: follow(acting, info)).startswith(words)


# --- a run that learns


def learned(result: Result) -> dict[str, list[Any]]:
    with np.load(result.path / "learned.npz") as arrays:
        return {name: arrays[name].tolist() for name in arrays.files}


@pytest.mark.lab
def test_a_run_that_learns_repeats_bit_for_bit(tmp_path: Path, registries: None) -> None:
    def bandit(name: str, seed: int) -> Result:
        return run(as_spec(BANDIT, ["time.duration=40ms", f"seed={seed}"]), tmp_path / name, Quiet(), plot=False)

    first, again, other = bandit("a", 1), bandit("b", 1), bandit("c", 2)
    assert first.manifest["digest"] == again.manifest["digest"] != other.manifest["digest"]
    files = [(result.path / "learned.npz").read_bytes() for result in (first, again, other)]
    assert files[0] == files[1] != files[2]
    assert (first.path / "agent.parquet").read_bytes() == (again.path / "agent.parquet").read_bytes()
    ports = [f"s{switch}-eth{port}" for switch in (1, 2) for port in range(1, 10)]
    arrays = learned(first)
    assert list(arrays) == [f"{port}.{name}" for port in ports for name in ("value", "tries")]
    assert {sum(arrays[f"{port}.tries"]) for port in ports} == {40}, "each port is told once a step, and at the end"
    assert any(any(arrays[f"{port}.value"]) for port in ports)
    table = first.derived("agent").to_pydict()
    sizes = {kmin for port in ports for kmin in table[f"wanted_kmin_bytes_{port}"][1:]}
    assert len(sizes) == 6, "the thresholds of the bandit"
    assert all(table[f"wanted_{name}_{port}"][1:] == table[f"enforced_{name}_{port}"][1:]
               for port in ports for name in ("kmin_bytes", "kmax_bytes"))  # fmt: skip


@pytest.mark.lab
@pytest.mark.parametrize("target", [0.05, 0.1])
def test_a_controller_in_a_switch_port_holds_its_queue(target: float, tmp_path: Path, registries: None) -> None:
    """examples/pi.py begins at 200 kB. Half a run later the queue is what it wants, within 10 %, and Kmin is below it."""
    result = run(as_spec(EXAMPLES / "pi.toml", [f"controller.target={target}"]), tmp_path / "run", Quiet(), plot=False)
    column = [port["name"] for port in result.ports].index("s1-eth9")
    backlog = result.records("queues")["backlog_bytes"].reshape(-1, len(result.ports))[:, column]
    assert backlog[len(backlog) // 2 :].mean() == pytest.approx(target * 500_000, rel=0.1)
    kmin_bytes = result.derived("agent").to_pydict()["wanted_kmin_bytes_s1-eth9"]
    assert kmin_bytes[0] == 200_000 and max(kmin_bytes[len(kmin_bytes) // 2 :]) < target * 500_000 * 1.2


@pytest.mark.lab
def test_a_learner_is_told_of_every_step_of_a_run(tmp_path: Path, learner: type[Learner]) -> None:
    """The rewards that it is told are those of agent.parquet, the last one too."""
    settings = ["agent.interval=5ms", "controller.policy=learner"]
    plain = {"name": "told", "topology": {"preset": "dumbbell-10m"}, "controller": {"name": "cubic"}}
    spec = as_spec(plain | {"workload": {"kind": "pairs"}, "time": {"duration": "20ms"}}, settings)
    result = run(spec, tmp_path / "out", Quiet(), plot=False)
    (one,) = learner.made
    assert [call for call, _ in one.told] == ["act", "observe"] * 4
    rewards = [args[0] for call, args in one.told if call == "observe"]
    assert rewards == result.derived("agent")["reward"].to_pylist()[1:]
    assert learned(result) == {"calls": 8}


# --- DCQCN in the hosts' NICs, and agents beside it

BESIDE = ["marking", "rate", "rate,marking"]


def beside(actuators: str, **nic: Any) -> dict[str, Any]:
    more = {"agent": DCQCN["agent"] | {"actuators": actuators}}
    return DCQCN | more | ({"nic": nic} if nic else {})


@pytest.mark.lab
@pytest.mark.parametrize("actuators", BESIDE)
def test_a_run_of_dcqcn_under_agents_is_recorded_and_repeats(tmp_path: Path, actuators: str) -> None:
    spec = as_spec(beside(actuators), ["controller.policy=random", "agent.floor=200Mbit/s", "nic.trace=all"])
    first, again = (run(spec, tmp_path / name, Quiet(), plot=False) for name in ("a", "b"))
    assert first.manifest["digest"] == again.manifest["digest"]
    assert (first.path / "agent.parquet").read_bytes() == (again.path / "agent.parquet").read_bytes()
    assert pq.read_table(first.path / "decisions.parquet").num_rows > 0
    table = first.derived("agent").to_pydict()
    names = {name for name in table if name.startswith("wanted_")}
    kinds = {"rate": {"bps"}, "marking": {"kmin", "kmax", "pmax"}}
    assert {name.split("_")[1] for name in names} == set().union(*(kinds[actuator] for actuator in actuators.split(",")))
    assert table["step"] == list(range(21)) and all(len(set(table[name])) > 10 for name in names)
    for name in names:
        commanded, enforced = np.array(table[name][1:]), np.array(table[name.replace("wanted", "enforced")][1:])
        assert enforced == pytest.approx(commanded, abs=8), "the kernel counts whole bytes"


@pytest.mark.lab
def test_rates_limit_what_nics_send(tmp_path: Path) -> None:
    spec = beside("rate") | {"agent": DCQCN["agent"] | {"actuators": "rate", "action": "linear", "floor": "10Mbit/s"}}
    sent = []
    with closing(DataCenterEnv(spec, folder=tmp_path)) as env:
        for level in (1.0, -0.8):
            env.reset(seed=1)
            for _ in range(20):
                *_, info = env.step(np.full(env.action_space.shape, level, np.float32))
            sent.append(info["episode_totals"]["sent_bps"])
    allowed_bps = 1e7 + 0.1 * (1e9 - 1e7)
    assert sent[1] < 4 * allowed_bps * 1.05 and sent[1] < sent[0] / 2


@pytest.mark.lab
@pytest.mark.parametrize(
    ("actuators", "nic"),
    [*((actuators, {}) for actuators in BESIDE), ("rate,marking", {"queue_pairs": "hosts"}), ("marking", {"tcp": "cubic"})],
)
def test_an_episode_of_dcqcn_after_resets_is_that_of_a_fresh_lab(tmp_path: Path, actuators: str, nic: dict[str, Any]) -> None:
    difference, session, steps = episodes.compare(beside(actuators, **nic), tmp_path)
    assert difference is None
    assert session.boots == 2 and steps == 20
    assert [rows.actuator.name for rows in session.scene.actuated] == actuators.split(",")


# --- bad input, each one line through the command line

SPEC = """\
topology.preset = "dumbbell-10m"
topology.marking = "step"
controller.name = "dctcp"
controller.policy = "random"
workload.kind = "pairs"
time.duration = "20ms"
"""


def said(tmp_path: Path, capsys: pytest.CaptureFixture[str], *settings: str) -> str:
    """Runs a spec with these settings, which must fail in one line, with nothing made."""
    (tmp_path / "bad.toml").write_text(SPEC)
    arguments = [word for setting in settings for word in ("--set", setting)]
    status = main(["run", str(tmp_path / "bad.toml"), *arguments, "--out", str(tmp_path / "out"), "--quiet", "--no-plot"])
    stderr = capsys.readouterr().err.strip()
    assert status != 0 and stderr.count("\n") == 0, stderr
    assert not (tmp_path / "out").exists()
    return stderr


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("agent.actuators=marking,s1-eth1:marking",), "the marking of s1-eth1; take one"),
        (("agent.actuators=h1-*:rate,rate",), "'h1-*:rate' ... 'rate' ... the rate of h1-eth0; take one"),
        (("agent.actuators=markings",), "agent.actuators: ... 'markings' ... did you mean marking?"),
        (("agent.actuators=marking,",), "agent.actuators: 'marking,' ... empty"),
        (("agent.actuators=h1-eth0:marking",), "h1-eth0 ... marking ... switches ... leave it out"),
        (("agent.actuators=s1-eth1:rate",), "s1-eth1 ... rate ... hosts ... leave it out"),
        (("agent.actuators=s9-*:marking",), "agent.actuators: 's9-*:marking': ... s1-eth1 .. h4-eth0"),
        (("agent.actuators=marking", "topology.marking=none"), "no marking ... give a topology."),
        (("agent.actuators=marking", "topology.marking=iroko-thesis"), "average ... give a topology.marking"),
        (("agent.actuators=marking", "ground=host"), 'ground "host" ... ground = "lab"'),
        (("agent.see=own",), 'agent.see = "own": ... agent.agents'),
        (("agent.reward_scope=own",), 'agent.reward_scope = "own": ... agent.agents'),
        (("agent.agents=central", "agent.see=own"), 'agent.see = "own": '),
        (("agent.agents=ports", "agent.see=path"), 'see: "path" ... hosts ... ports; leave it out'),
        (("agent.agents=switches",), 'agent.agents = "switches": rate of h1-eth0 ... give "ports"'),
        (("agent.agents=hosts", "agent.actuators=marking"), 'agent.agents = "hosts": marking of s1-eth1'),
        (("agent.agents=port",), 'agent.agents = "port": ... ports?'),
        (("agent.agents=hosts", "agent.see=paths"), 'agent.see = "paths": ... path?'),
        (("agent.observe=kmin",), "agent.observe: 'kmin': ... marking ... agent.actuators"),
        (("controller.name=dcqcn", "topology.preset=dumbbell-1g", "nic.tcp=cubic"), 'nic.tcp = "cubic": ... fq'),
        (("controller.explore=0.5",), "controller.explore = 0.5: ... 'random'; remove"),
        (("controller.explores=0.5",), "controller.explores: "),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(settings: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert states(said(tmp_path, capsys, *settings), words)


def test_thresholds_that_cross_are_refused_before_they_are_sent() -> None:
    dumbbell, _ = scene(STEP, "agent.actuators=s1-eth3:marking")
    dumbbell.check(np.array([20_000.0, 20_000.0, 1e6]))
    message = one_line(lambda: dumbbell.check(np.array([40_000.0, 20_000.0, 1e6])))
    assert message == "step: s1-eth3: kmax 20000 is below kmin 40000; give at least that"


@pytest.mark.lab
def test_a_policy_that_asks_for_kmax_below_kmin_gets_the_nearest(tmp_path: Path, registries: None) -> None:
    """Its action has no numbers for that: kmax's range begins at kmin."""

    class Crossed:
        def __init__(self, context: PolicyContext) -> None:
            values = context.scene.start.reshape(-1, 3).copy()
            values[:, :2] = 40_000, 20_000
            self.asked = context.action.from_values(values.ravel())

        def act(self, observation: Any, frame: Any) -> Any:
            return self.asked

    policies.register("crossed", Crossed)
    (tmp_path / "crossed.toml").write_text(SPEC)
    settings = ["agent.actuators=marking", "controller.policy=crossed", "agent.action=linear"]
    table = run(as_spec(tmp_path / "crossed.toml", settings), tmp_path / "out", Quiet(), plot=False).derived("agent").to_pydict()
    for prefix in ("wanted", "enforced"):
        low, high = (np.array(table[f"{prefix}_{name}_bytes_s1-eth3"][1:]) for name in ("kmin", "kmax"))
        assert (high >= low).all() and low == pytest.approx(40_000, abs=1) and high == pytest.approx(40_000, abs=1)


def test_kmin_above_kmax_in_a_spec_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ("topology.marking=red-instant", "topology.kmin=100kB", "topology.kmax=20kB", "topology.pmax=10%")
    stderr = said(tmp_path, capsys, "agent.actuators=marking", *settings)
    words = "topology.kmin: 100000 bytes are not below topology.kmax, 20000; lower it, raise kmax, or give marking = step"
    assert stderr.endswith(words)
