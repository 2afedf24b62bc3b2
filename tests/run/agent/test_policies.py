# SPDX-License-Identifier: Apache-2.0
"""Tests policies: TCP alone, random actions, the oracle by hand, files and classes, and policies that do not fit."""

import itertools
import random
import sys

import numpy as np
import pytest

from dc_gym.base.errors import AgentError, UsageError
from dc_gym.benchmarks.studies.iroko.cuts import StepCuts
from dc_gym.benchmarks.studies.iroko.disjoint import most_disjoint
from dc_gym.benchmarks.studies.iroko.figure_5_5 import DISJOINT
from dc_gym.learn.dense_policy import policy_of as policy_of_net
from dc_gym.learn.env import DataCenterEnv
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.run.agent import policies
from dc_gym.run.agent.action import Action
from dc_gym.run.agent.file_policy import circumstances, differences
from dc_gym.run.agent.observation import Observer
from dc_gym.run.agent.policies import FAIR_SHARE, PolicyContext, register
from dc_gym.run.agent.policy_selection import policy_of
from tests.run.agent.made import DONE, MS, RUNNING, cells, experiment, flows, frame, scene

GATED = ['workload.kind="partition_aggregate"', "workload.senders=2", 'workload.size="10kB"', 'workload.interval="100ms"']


def setting(network, observe="default", head="linear", **changes):
    return PolicyContext(network, Observer(network, observe), Action(network, head), **changes)


def rates(policy, network, now):
    return Action(network, "linear").to_values(policy.act(Observer(network).observe(now), now)).tolist()


def test_max_never_limits():
    dumbbell, info = scene()
    for head, least in (("linear", 1e7), ("log", 1e7), ("thesis", 0.9999e7), ("rates", 0.88e7)):
        context = setting(dumbbell, head=head)
        action = policy_of("max", context).act(context.observer.observe(frame(info)), frame(info))
        assert (context.action.to_values(action) >= least).all()


def test_random_follows_its_seed():
    dumbbell, info = scene()
    now = frame(info)
    drawn = [[policy_of("random", setting(dumbbell, seed=seed)).act(None, now).tolist() for _ in range(3)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    one = policy_of("random", setting(dumbbell, seed=1))
    assert one.act(None, now).tolist() != one.act(None, now).tolist()


def test_the_oracle_gives_each_host_its_fair_share():
    """h1 and h2 share one link; hosts that do not send are not limited."""
    dumbbell, info = scene()
    policy = policy_of("fair-share", setting(dumbbell))
    line, half = 1e7, FAIR_SHARE * 5e6
    both = frame(info, flows=flows({"status": RUNNING}, {"status": RUNNING}))
    assert rates(policy, dumbbell, both) == pytest.approx([half, half, line, line])
    one = frame(info, flows=flows({"status": DONE}, {"status": RUNNING}))
    assert rates(policy, dumbbell, one) == pytest.approx([line, FAIR_SHARE * line, line, line])
    assert rates(policy, dumbbell, frame(info)) == [line] * 4


def test_the_oracle_of_disjoint_flows_stops_all_others():
    """h1 and h2 share one link, so one of them has it, and the other the least rate; hosts that do not send are not limited."""
    dumbbell, info = scene()
    policy = policy_of(DISJOINT.values["controller.policy"], setting(dumbbell))
    line, least = 1e7, 1e4  # agent.floor
    both = frame(info, flows=flows({"status": RUNNING}, {"status": RUNNING}))
    assert rates(policy, dumbbell, both) == pytest.approx([FAIR_SHARE * line, least, line, line])
    one = frame(info, flows=flows({"status": DONE}, {"status": RUNNING}))
    assert rates(policy, dumbbell, one) == pytest.approx([line, FAIR_SHARE * line, line, line])


def test_one_step_in_128_is_cut():
    dumbbell, info = scene()
    policy = StepCuts(setting(dumbbell))
    commanded = [rates(policy, dumbbell, frame(info, step=step)) for step in range(256)]
    assert [step for step, values in enumerate(commanded) if values != [1e7] * 4] == [127, 255]
    assert commanded[127] == [1e4] * 4, "agent.floor"


def test_no_larger_set_of_paths_is_disjoint():
    random_paths = random.Random(1)
    for _ in range(50):
        paths = [frozenset(random_paths.sample(range(12), random_paths.randint(1, 4))) for _ in range(9)]
        sets = [subset for size in range(10) for subset in itertools.combinations(range(9), size)]
        disjoint = [subset for subset in sets if not any(paths[a] & paths[b] for a, b in itertools.combinations(subset, 2))]
        largest = most_disjoint(paths)
        assert tuple(largest) in disjoint and len(largest) == max(map(len, disjoint))


def test_the_oracle_adds_up_the_flows_of_a_host():
    """All to all: each host has two flows over the middle link, which carries four each way, so 2.5 Mbit/s each. The third flow,
    to the neighbour, gets the rest of the host's line: 5 Mbit/s."""
    dumbbell, info = scene('workload.kind="all_to_all"')
    now = frame(info, flows=flows(*[{"status": RUNNING}] * len(info)))
    assert rates(policy_of("fair-share", setting(dumbbell)), dumbbell, now) == pytest.approx([FAIR_SHARE * 1e7] * 4)


def test_the_oracle_that_looks_ahead_sees_a_start():
    dumbbell, info = scene('workload.start="30ms"')
    plain, ahead = (policy_of(name, setting(dumbbell)) for name in ("fair-share", "fair-share-ahead"))
    for t_ms, knows in ((10, False), (20, True)):
        now = frame(info, t_ns=t_ms * MS)
        assert rates(plain, dumbbell, now) == [1e7] * 4
        assert (rates(ahead, dumbbell, now)[:2] == pytest.approx([FAIR_SHARE * 5e6] * 2)) is knows


def test_the_oracle_that_looks_ahead_sees_a_gate_open():
    """While requests are under way, their answers count. Before they begin, nothing counts."""
    dumbbell, info = scene(*GATED)
    ahead = policy_of("fair-share-ahead", setting(dumbbell))
    answers = [flow for flow in range(len(info)) if info.awaits[flow] and info.src[flow] != info.src[info.awaits[flow][0]]]
    first, request = answers[0], info.awaits[answers[0]][0]
    states = [{} for _ in range(len(info))]
    replier = int(info.src[first])
    quiet = 10**9  # no flow starts at a time of its own any more

    def gated_rate(state):
        states[request] = state
        return rates(ahead, dumbbell, frame(info, t_ns=-quiet, flows=flows(*states)))[replier]

    assert gated_rate({}) == 1e7
    assert gated_rate({"status": RUNNING}) == pytest.approx(FAIR_SHARE * 1e7)


def test_a_flow_that_takes_over_is_not_counted_twice():
    """A repetition waits for the flow before it, which is of the same host: h1 does not get two shares."""
    dumbbell, info = scene('workload.kind="repeat"', 'workload.size="100kB"')
    states = [{} for _ in range(len(info))]
    followed = [flow for flow in range(len(info)) if info.awaits[flow]]
    assert followed
    current = [info.awaits[flow][0] for flow in followed if not info.awaits[info.awaits[flow][0]]]
    for flow in current:
        states[flow] = {"status": RUNNING}
    now = frame(info, flows=flows(*states))
    plain, ahead = (policy_of(name, setting(dumbbell)) for name in ("fair-share", "fair-share-ahead"))
    assert rates(ahead, dumbbell, now) == rates(plain, dumbbell, now)


def net(network, observer, **changes):
    """Returns a net whose weights are 0, so that every action is 0.5."""
    count, hosts = len(observer.names), len(network.hosts)
    values = {
        "weights": (np.zeros((hosts, count), np.float32),),
        "biases": (np.full(hosts, 0.5, np.float32),),
        "low": np.full(hosts, -1, np.float32),
        "high": np.ones(hosts, np.float32),
        "observation": observer.names,
        "hosts": network.hosts,
        "settings": {"action": "linear"},
    }
    return AgentPolicy(**values | changes)


def test_a_file_acts(tmp_path):
    dumbbell, info = scene()
    context = setting(dumbbell)
    net(dumbbell, context.observer).write(tmp_path / "p.npz")
    for path in (tmp_path / "p.npz", str(tmp_path / "p.npz")):
        action = policy_of(path, context).act(context.observer.observe(frame(info)), frame(info))
        assert context.action.to_values(action) == pytest.approx([0.75 * 0.999e7 + 0.001e7] * 4)


@pytest.mark.parametrize(
    ("changes", "settings", "line"),
    [
        ({"hosts": ("h1", "h2", "h3", "h9")}, {}, "acts on 'h9' as value 3, and the network has 'h4'"),
        ({}, {"hosts": "senders"}, "acts on 4 values (h1, h2, h3, h4), and the network has 2 (h1, h2)"),
        (
            {},
            {"observe": "thesis"},
            "observes 44 values (s1-eth1/backlog, s1-eth2/backlog, .. h4/enforced), and the network has 12",
        ),
        (
            {},
            {"observe": "backlog_change,backlog,marks,utilization,enforced"},
            "observes 's1-eth1/backlog' as value 0, and the network has 's1-eth1/backlog_change'",
        ),
        ({}, {"head": "log"}, "was trained with action 'linear', and the network has 'log'"),
        ({"settings": {"floor": "20kbit/s"}}, {}, "was trained with floor 20kbit/s, and the network has 10kbit/s"),
        ({"settings": {}}, {"head": "thesis"}, "actions are -1..1, and those of the network -5..5"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line(changes, settings, line, tmp_path):
    dumbbell, _ = scene()
    net(dumbbell, Observer(dumbbell), **changes).write(tmp_path / "p.npz")
    other, _ = scene(hosts=settings.pop("hosts", "all"))
    with pytest.raises(AgentError) as excinfo:
        policy_of(tmp_path / "p.npz", setting(other, **settings))
    assert line in str(excinfo.value) and str(excinfo.value).startswith(f"{tmp_path}/p.npz: the policy")
    assert str(excinfo.value).endswith("; give the topology and the [agent] keys that it was trained with")


def test_one_file_for_each_host_acts_on_any_network(tmp_path):
    """A host sees its own queue alone: a net of weight 1 returns it as the action."""
    dumbbell, info = scene()
    context = setting(dumbbell, "host:backlog")
    one = {
        "weights": (np.ones((1, 1), np.float32),),
        "biases": (np.zeros(1, np.float32),),
        "low": -np.ones(1),
        "high": np.ones(1),
    }
    of_each = one | {"agents": "hosts", "observation": ("own/backlog",), "hosts": ("h7", "h8")}
    net(dumbbell, context.observer, **of_each).write(tmp_path / "p.npz")
    now = frame(info, cells=cells(backlog_bytes={"h1-eth0": 40_000, "h3-eth0": 80_000}))
    assert policy_of(tmp_path / "p.npz", context).act(None, now) == pytest.approx([0.1, 0, 0.2, 0])
    for observe, line in (
        ("srtt", "observes 'own/backlog' as value 0, and the network has 'own/srtt'"),
        ("host:backlog,srtt", "observes 1 values (own/backlog), and the network has 2 (own/backlog, own/srtt)"),
        ("s1-*:backlog,s2-*:backlog", "the policy is for each of the hosts, and agent.observe: "),
    ):
        with pytest.raises(AgentError) as excinfo:
            policy_of(tmp_path / "p.npz", setting(dumbbell, observe))
        assert line in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_what_differs_from_the_training_is_told():
    trained = {"interval": "10ms", "latency": "0s", "tbf": "exact", "reward": "thesis", "limit": None}
    assert differences(trained, trained | {"reward": "goodput"}) == ""
    here = trained | {"interval": "1ms", "limit": "1MB"}
    assert differences(trained, here) == "agent.interval = 10ms (here 1ms), agent.limit = its default (here 1MB)"


def test_a_class_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "my_policies.py").write_text(
        "import numpy as np\n\n\nclass Half:\n"
        "    def __init__(self, setting):\n        self._hosts = len(setting.scene.hosts)\n\n"
        "    def act(self, observation, frame):\n        return np.zeros(self._hosts)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    dumbbell, info = scene()
    assert policy_of("my_policies:Half", setting(dumbbell)).act(None, frame(info)).tolist() == [0] * 4
    with pytest.raises(AgentError, match="my_policies has no Full"):
        policy_of("my_policies:Full", setting(dumbbell))
    with pytest.raises(AgentError, match=r"No module named .your_policies.; is it installed"):
        policy_of("your_policies:Half", setting(dumbbell))


GOOD = "def __init__(self, setting): pass"


@pytest.mark.parametrize(
    ("body", "policy", "line"),
    [
        (None, ":X", "controller.policy: ':X': '' is not a module; give module:Class"),
        (None, ".x:Y", "controller.policy: '.x:Y': '.x' is not a module; give"),
        (None, "json:dumps", "dumps is not a class with a method act"),
        (None, "{file}:P", "cannot read it: No such file"),
        ("def act(:", "broken:P", "broken.py:2: invalid syntax"),
        ("def act(:", "{file}:P", "broken.py:2: invalid syntax"),
        (f"{GOOD}\n  def act(self, *a): return 0\n1 / 0", "broken:P", "broken.py:4: ZeroDivisionError: division by zero"),
        ("def __init__(self): pass\n  def act(self, *a): return 0", "{file}:P", "positional argument"),
        ("def __init__(self, setting): self.x = setting.no\n  def act(self): pass", "broken:P", "broken.py:2: AttributeError"),
        (f"{GOOD}\n  def act(self, *a): return {{}}['key']", "broken:P", "broken.py:3: KeyError: 'key'"),
        (f"{GOOD}\n  def act(self, *a): return 'fast'", "{file}:P", "ValueError: could not convert string to float"),
    ],
)
def test_what_goes_wrong_in_a_users_policy_is_one_line(body, policy, line, tmp_path, monkeypatch):
    file = tmp_path / "broken.py"
    if body is not None:
        file.write_text(f"class P:\n  {body}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    dumbbell, info = scene()
    with pytest.raises(UsageError) as excinfo:
        policy_of(policy.format(file=file), setting(dumbbell)).act(None, frame(info))
    assert line in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_another_tcp_and_other_rates_than_in_the_training_are_told(tmp_path):
    """The file records them, whoever writes it. One of an earlier version says nothing of them."""
    learned = experiment("controller.name=cubic", "agent.interval=10ms")
    here = experiment("controller.name=dctcp", "topology.rate=20Mbit/s", "agent.interval=5ms")
    env = DataCenterEnv(learned.spec)
    layers = [(np.zeros((4, len(env.observation_names))), np.zeros(4))]
    policy_of_net(env, layers).write(tmp_path / "p.npz")
    trained = AgentPolicy.read(tmp_path / "p.npz").settings
    assert differences(trained, circumstances(learned)) == ""
    message = "agent.interval = 10ms (here 5ms), controller.name = cubic (here dctcp), rates of links = 10Mbit/s (here 20Mbit/s)"
    assert differences(trained, circumstances(here)) == message
    assert differences({"interval": "10ms"}, circumstances(here)) == "agent.interval = 10ms (here 5ms)"


def test_a_class_of_a_file(tmp_path):
    (tmp_path / "half.py").write_text(f"class Half:\n  {GOOD}\n  def act(self, *a): return [0, 0, 0, 0]\n")
    dumbbell, info = scene()
    policy = policy_of(f"{tmp_path}/half.py:Half", setting(dumbbell))
    assert policy.act(None, frame(info)).tolist() == [0] * 4 and policy.code == (tmp_path / "half.py",)


def test_unknown_policies_and_names_that_cannot_be(registries):
    dumbbell, _ = scene()
    with pytest.raises(AgentError, match=r"'maxx'.*did you mean max"):
        policy_of("maxx", setting(dumbbell))
    with pytest.raises(AgentError, match=r"'cubik'.*controller\.name=cubic$"):
        policy_of("cubik", setting(dumbbell))
    for name in ("max", "a:b", "a.npz"):
        with pytest.raises(AgentError, match="registered already"):
            register(name, policies.MaxPolicy)
    register("mine", policies.MaxPolicy)
    assert policies.names()[-5:] == ("max", "random", "fair-share", "fair-share-ahead", "mine")
