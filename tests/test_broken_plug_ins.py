# SPDX-License-Identifier: Apache-2.0
"""A mistake in a user's Python or C is reported as one line with file and line number, in every kind of plug-in and at any time:
when the file is run, when it registers something, at the first call, in the middle of a run. Trainings: tests/learn/rllib."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from facts import states

import dc_gym.learn  # noqa: F401 (registers the environments)
from dc_gym import spec
from dc_gym.base.errors import SpecError
from dc_gym.cli import main
from dc_gym.kernel import build

HEAD = """calls = 0
def act():
    global calls
    calls += 1
    if calls == {at}:
        raise ValueError("broken")
"""
PLACE = "mine.py:6: ValueError: broken"
KINDS = {
    "topology": """
from dc_gym.topologies import kinds as where; from dc_gym.topologies.kinds import single
where.register("mine", lambda wiring, keys: act() or single.build(wiring, keys), single.SingleKeys)
""",
    "marking": """
from dc_gym.topologies import marking as where
from dc_gym.topologies.graph import Marking
where.register("mine", lambda port: act() or Marking("step", k_bytes=port.limit_bytes // 10))
""",
    "workload": """
from dc_gym.traffic import kinds as where
from dc_gym.traffic.flows import FlowRequest
where.register("mine", lambda setting: act() or [FlowRequest("h1", "h2", 5001)])
""",
    "observation": """
from dc_gym.run.agent import observation as where
where.register("mine", "port", 0, 1, "x", lambda frame, scene: act() or frame.column("backlog_bytes") / scene.buffer_bytes)
""",
    "reward": """
from dc_gym.run.agent import reward as where
where.register("mine", (0, 1), "x", lambda frame, scene, share: act() or 0.5)
""",
    "action": """
from dc_gym.run.agent import action as where
where.register("mine", 1, "x", lambda action, floor: act() or (action + 1) / 2, lambda share, floor: 2 * share - 1)
""",
    "policy": """
from dc_gym.run.agent import policies as where
class Mine:
    def __init__(self, setting): self.one = setting.action.from_values(setting.scene.line_bps)
    def act(self, observation, frame): return self.one if act() is None else 0
where.register("mine", Mine)
""",
}
"""Code of each kind: it registers a plug-in, which calls act() when it is called."""
ONLY_REGISTERED = {
    "controller": "from dc_gym.ctrl import controllers as where\n",
    "NIC algorithm": "from dc_gym.ctrl import controllers as where\n",
}
AT_STEPS = ("observation", "reward", "action", "policy")
"""Kinds that are called while traffic runs."""
SPEC = """
plugins = ["mine.py"]
[topology]
{topology}
rate = "10Mbit/s"
delay = "1ms"
buffer = "100p"
[controller]
name = "cubic"
policy = "{policy}"
[agent]
observe = "{observation}"
reward = "{reward}"
action = "{action}"
[workload]
kind = "{workload}"
[time]
duration = "{duration}"
"""
PLAIN = {"policy": "max", "observation": "backlog", "reward": "goodput", "action": "log", "workload": "many_to_one"}


pytestmark = pytest.mark.usefixtures("registries")


def write(folder, kind, code, duration="50ms"):
    """Writes the plug-in and a spec that uses it; returns the path of the spec."""
    (folder / "mine.py").write_text(code)
    shape = 'kind = "{}"\nhosts = 3'.format("mine" if kind == "topology" else "single")
    shape += '\nmarking = "mine"' if kind == "marking" else ""
    used = PLAIN | ({kind: "mine"} if kind in PLAIN else {})
    (folder / "spec.toml").write_text(SPEC.format(topology=shape, duration=duration, **used))
    return folder / "spec.toml"


def run(path, capsys, *more):
    """Runs `dcgym run` without progress; returns its exit code and its lines on stderr."""
    code = main.main(["run", str(path), "--out", str(path.parent / "out"), "--quiet", "--no-plot", *more])
    lines = capsys.readouterr().err.splitlines()
    return code, lines


@pytest.mark.parametrize("kind", [*KINDS, *ONLY_REGISTERED])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("nothing = 1 / 0\n", r"mine\.py:7: ZeroDivisionError: division by zero"),
        ("import nowhere\n", r"mine\.py:7: ModuleNotFoundError: No module named 'nowhere'"),
        ("open('/no/such/file')\n", r"mine\.py:7: FileNotFoundError: .*/no/such/file"),
        ("def act(:\n", r"mine\.py:7: invalid syntax"),
        (None, r"mine\.py:[0-9]+: TypeError: register\(\) missing"),
    ],
    ids=["exception", "import", "file", "syntax", "registration"],
)
def test_at_import_and_at_registration(kind, wrong, words, tmp_path, capsys):
    code = KINDS.get(kind) or ONLY_REGISTERED[kind]
    code = wrong + code if wrong else code.partition("where.register(")[0] + "where.register()\n"
    path = write(tmp_path, kind, HEAD.format(at=0) + code)
    status, lines = run(path, capsys)
    assert status == 2 and len(lines) == 1 and re.search(words, lines[0]), lines


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in AT_STEPS])
@pytest.mark.parametrize("at", [1, 2])
def test_before_anything_boots(kind, at, tmp_path, capsys):
    """Parametrized by the number of the call that fails: the first, or a later one."""
    status, lines = run(write(tmp_path, kind, HEAD.format(at=at) + KINDS[kind]), capsys)
    assert status == 2 and len(lines) == 1 and lines[0].endswith(PLACE), lines


@pytest.mark.lab
@pytest.mark.parametrize("kind", AT_STEPS)
@pytest.mark.parametrize("at", [1, 20])
def test_while_traffic_runs(kind, at, tmp_path, capsys, lab_kernel):
    status, lines = run(write(tmp_path, kind, HEAD.format(at=at) + KINDS[kind]), capsys)
    assert status == 2 and len(lines) == 1 and lines[0].endswith(PLACE), lines
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob("out*"))


TOPOLOGY = "from dc_gym.topologies import kinds as where; from dc_gym.topologies.kinds import single\n"
MARKING = "from dc_gym.topologies import marking as where\n"
WORKLOAD = "from dc_gym.traffic import kinds as where\nfrom dc_gym.traffic.flows import FlowRequest\n"
OBSERVATION = "from dc_gym.run.agent import observation as where\n"
REWARD = "from dc_gym.run.agent import reward as where\n"
ACTION = "from dc_gym.run.agent import action as where\n"
POLICY = "from dc_gym.run.agent import policies as where\n"
NIC = "from dc_gym.ctrl.controllers import Controller\n"
KEYS = (
    "from dataclasses import dataclass\nfrom dc_gym.base.key import COUNT, RATE, SIZE, key\n@dataclass\nclass MyKeys:\n    {}\n"
)
"""Six lines with a class of keys."""


@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (
            "topology",
            TOPOLOGY + "where.register('mine', lambda wiring: None, single.SingleKeys)",
            "mine.py:2: topology.kind 'mine' ... (wiring, keys)",
        ),
        (
            "topology",
            TOPOLOGY + "where.register('mine', single.build, ('hosts',))",
            "mine.py:2: topology.kind 'mine': keys ('hosts',) ... @dataclass",
        ),
        (
            "topology",
            TOPOLOGY + "where.register('mine', single.build, required=('hosts',))",
            "mine.py:2: TypeError: ... 'required'",
        ),
        (
            "topology",
            TOPOLOGY + "where.register('mine', single.build, single)",
            "topology.kind 'mine': keys ... @dataclass",
        ),
        (
            "topology",
            TOPOLOGY + KEYS.format("size: int = 3") + "where.register('mine', single.build, MyKeys)",
            "mine.py:7: topology.kind 'mine': ... 'size' of MyKeys ... key(...)",
        ),
        (
            "topology",
            TOPOLOGY + KEYS.format("rate_bps: int = key(RATE)") + "where.register('mine', single.build, MyKeys)",
            "mine.py:7: topology.kind 'mine': key 'rate' ... another name",
        ),
        (
            "topology",
            TOPOLOGY + KEYS.format("kmin: int = key(COUNT)") + "where.register('mine', single.build, MyKeys)",
            "topology.kind 'mine': key 'kmin' ... 'red-instant'; choose another",
        ),
        (
            "topology",
            TOPOLOGY + KEYS.format("slow: int = key(RATE)") + "where.register('mine', single.build, MyKeys)",
            "topology.kind 'mine': key 'slow': ... slow_bps",
        ),
        (
            "topology",
            TOPOLOGY + KEYS.format("size: int = key(COUNT, 3, low=4)") + "where.register('mine', single.build, MyKeys)",
            "topology.kind 'mine': key 'size': ... 3 ... 4",
        ),
        (
            "topology",
            TOPOLOGY + KEYS.format("size: int = key(COUNT, name='My size')") + "where.register('mine', single.build, MyKeys)",
            "topology.kind 'mine': key 'My size' ... small letters",
        ),
        (
            "topology",
            TOPOLOGY + "where.register('mine', lambda wiring, keys: None, single.SingleKeys)",
            "topology.kind 'mine': ... None ... Graph ... Builder",
        ),
        ("marking", MARKING + "where.register('mine', lambda: None)", "marking 'mine': ... (port)"),
        (
            "marking",
            MARKING + "where.register('mine', lambda at: 7, ('k_bytes',))",
            "mine.py:2: topology.marking 'mine': keys ('k_bytes',) ... @dataclass",
        ),
        (
            "marking",
            MARKING + "where.register('mine', lambda at: 7, takes=('pmax_ppm',))",
            "mine.py:2: TypeError: ... 'takes'",
        ),
        (
            "marking",
            MARKING + KEYS.format("kmin: int = key(COUNT)") + "where.register('mine', lambda port, keys: 7, MyKeys)",
            "topology.marking 'mine': key 'kmin' ... bytes",
        ),
        (
            "marking",
            MARKING + KEYS.format("hosts: int = key(COUNT)") + "where.register('mine', lambda port, keys: 7, MyKeys)",
            "topology.marking 'mine': key 'hosts' ... 'single'; choose another",
        ),
        (
            "marking",
            MARKING + "where.register('mine', lambda at: 7)",
            "marking 'mine': ... 7 ... Marking",
        ),
        (
            "workload",
            WORKLOAD + "where.register('mine', lambda a, b: [])",
            "mine.py:3: workload.kind 'mine': ... called",
        ),
        (
            "workload",
            WORKLOAD + "where.register('mine', list, 'flows')",
            "keys 'flows' ... @dataclass",
        ),
        (
            "workload",
            WORKLOAD + "where.register('mine', list, uses=('flows',))",
            "mine.py:3: TypeError: ... 'uses'",
        ),
        (
            "workload",
            WORKLOAD + KEYS.format("start: int = key(COUNT)") + "where.register('mine', lambda context, keys: [], MyKeys)",
            "workload.kind 'mine': key 'start' ... another name",
        ),
        (
            "workload",
            WORKLOAD
            + KEYS.format("flows: int = key(COUNT, needed=True)")
            + "where.register('mine', lambda context, keys: [], MyKeys)",
            "workload.flows: ... 'mine' ... whole number",
        ),
        ("workload", WORKLOAD + "where.register('mine', lambda setting: None)", "None ... list of FlowRequests"),
        (
            "workload",
            WORKLOAD + "where.register('mine', lambda s: [('h1', 'h2')])",
            "flow 0 ... ('h1', 'h2') ... FlowRequest",
        ),
        (
            "workload",
            WORKLOAD + "where.register('mine', lambda setting: [FlowRequest('h1', 'h99', 80)])",
            "workload.kind 'mine': flow 0: 'h99' ... h1 .. h3 ... context.hosts",
        ),
        (
            "workload",
            WORKLOAD + "where.register('mine', lambda setting: [FlowRequest('h1', 'h2', 80, size_bytes=1e6)])",
            "mine.py:3: flow h1 to h2: size_bytes 1000000.0 ... int",
        ),
        (
            "observation",
            OBSERVATION + "where.register('mine', 'port', 0, 1, 'x', lambda frame: 0)",
            "mine.py:2: feature 'mine'",
        ),
        ("reward", REWARD + "where.register('mine', (0, 1), 'x', lambda frame, scene: 0)", "mine.py:2: reward 'mine'"),
        (
            "reward",
            REWARD + "where.register('mine', lambda: 0, 'x', lambda *seen: 0)",
            "reward 'mine': ... range",
        ),
        (
            "reward",
            REWARD + "where.register('mine', (0, 1), 'x', 0.5)",
            "(frame, scene, share) ... 0.5",
        ),
        (
            "action",
            ACTION + "where.register('mine', 1, 'x', lambda a: a, lambda share, floor: 0)",
            "mine.py:2: action 'mine': to_share",
        ),
        (
            "action",
            ACTION + "where.register('mine', 1, 'x', lambda a, floor: a, lambda a: a)",
            "action 'mine': from_share",
        ),
        (
            "action",
            ACTION + "where.register('mine', 1, 'x', lambda *a: a[0], lambda *a: None)",
            "from_share of 'mine' ... None",
        ),
        (
            "policy",
            POLICY + "where.register('mine', lambda: 0)",
            "mine.py:2: controller.policy 'mine': ... (context)",
        ),
        (
            "policy",
            POLICY + "where.register('mine', lambda setting: None)",
            "policy 'mine' ... None ... method act",
        ),
        (
            "policy",
            POLICY
            + "class Mine:\n    def __init__(self, s): pass\n    def act(self, seen): return 0\nwhere.register('mine', Mine)",
            "controller.policy: 'mine': act: ... (observation, frame)",
        ),
        (
            "NIC algorithm",
            NIC + "Controller('mine', 'mine', 'x', ecn=False, header='mine.h')",
            "mine.py:2: controller 'mine': header 'mine.h' ... nic=True",
        ),
        (
            "controller",
            NIC + "Controller('mine', 'mine', 'x', ecn=False, colour='#000000', marker='o')",
            "argument 'colour'",
        ),
        (
            "controller",
            "from dc_gym.results.figures import styles\nstyles.register('cubic', color='#000000')\n"
            "styles.register('cubic', marker='o')",
            "mine.py:3: style of 'cubic': ... leave one",
        ),
        (
            "controller",
            NIC + "from dc_gym.ctrl.controllers import register\nregister(Controller('cubic', 'cubic', ecn=False))",
            "mine.py:3: controller 'cubic' ... another name",
        ),
    ],
)
def test_what_it_registers_or_returns_before_anything_boots(kind, code, words, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(build, "ensure", lambda *_: pytest.fail("a lab is about to boot"))
    status, lines = run(write(tmp_path, kind, code), capsys)
    assert status == 2 and len(lines) == 1 and states(lines[0], words), lines


@pytest.mark.lab
@pytest.mark.parametrize(
    ("kind", "code", "words"),
    [
        (
            "observation",
            OBSERVATION + "where.register('mine', 'port', 0, 1, 'x', lambda *seen: 0.5)",
            "feature 'mine' ... 0.5",
        ),
        ("reward", REWARD + "where.register('mine', (0, 1), 'x', lambda *seen: None)", "reward 'mine' ... None"),
        (
            "reward",
            REWARD + "where.register('mine', (0, 1), 'x', lambda *seen: float('nan'))",
            "reward 'mine' ... nan",
        ),
        (
            "reward",
            REWARD + "where.register('mine', (0, 1), 'x', lambda *seen: seen[2])",
            "(3,) ... one",
        ),
        (
            "action",
            ACTION + "where.register('mine', 1, 'x', lambda *a: None, lambda share, floor: share)",
            "agent.action: to_share of 'mine' ... None ... (3,) ... host ... mend",
        ),
    ],
)
def test_what_it_returns_while_traffic_runs(kind, code, words, tmp_path, capsys, lab_kernel):
    status, lines = run(write(tmp_path, kind, code, duration="1000s"), capsys)
    assert status == 2 and len(lines) == 1 and states(lines[0], words), lines


@pytest.mark.lab
def test_in_a_sweep(tmp_path, lab_kernel):
    path = write(tmp_path, "reward", HEAD.format(at=20) + KINDS["reward"])
    argv = ["sweep", str(path), "--seeds", "1,2", "--out", str(tmp_path / "sweep"), "--jobs", "1"]
    child = subprocess.run([sys.executable, "-m", "dc_gym.cli.main", *argv], capture_output=True, text=True, timeout=120)
    assert child.returncode == 1 and "Traceback" not in child.stdout + child.stderr
    assert [line.endswith(PLACE) for line in child.stdout.splitlines() if "exit 2" in line] == [True, True], child.stdout


def test_a_mininet_topology(tmp_path, capsys):
    code = HEAD.format(at=1) + "from mininet.topo import Topo\nclass Mine(Topo):\n    def build(self): act()\n"
    path = write(tmp_path, "topology", code)
    path.write_text(
        path.read_text()
        .replace('plugins = ["mine.py"]', "")
        .replace('kind = "mine"\nhosts = 3', 'kind = "mininet"\nfile = "mine.py"')
    )
    status, lines = run(path, capsys)
    assert status == 2 and len(lines) == 1 and lines[0].endswith(PLACE), lines


@pytest.mark.parametrize("named", ["mine.py:Mine", "package.inner:Mine"])
@pytest.mark.parametrize("where", ["import", "construction"])
def test_a_policy_s_class(named, where, tmp_path, capsys, monkeypatch):
    """The class is in a file, or in a module of the user's own package."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    act = "act()\n" if where == "import" else ""
    code = HEAD.format(at=1) + f"{act}class Mine:\n    def __init__(self, setting): act()\n    def act(self, *seen): pass\n"
    path = write(tmp_path, "policy", code)
    path.write_text(path.read_text().replace('plugins = ["mine.py"]', "").replace('"mine"', f'"{named}"'))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "inner.py").write_text(code)
    for name in ("package", "package.inner"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    status, lines = run(path, capsys)
    expected = PLACE if named.startswith("mine") else PLACE.replace("mine.py", "package/inner.py")
    assert status == 2 and len(lines) == 1 and lines[0].endswith(expected), lines


def test_a_header_of_a_nic_algorithm(tmp_path, capsys):
    from dc_gym.ctrl.nic import build

    for name in ("aimd.h", "aimd.py", "aimd.toml"):
        shutil.copy(Path(__file__).parent.parent / "examples" / name, tmp_path)
    header = (tmp_path / "aimd.h").read_text() + "\nint x = ;\n"
    (tmp_path / "aimd.h").write_text(header)
    line = len(header.splitlines())
    build._products.clear()
    status, lines = run(tmp_path / "aimd.toml", capsys)
    assert status == 2 and len(lines) == 1 and f"aimd.h:{line}:" in lines[0] and "error: expected expression" in lines[0], lines


@pytest.mark.parametrize("name", ["flows.csv", "sizes.txt"])
def test_a_table(name, tmp_path, capsys):
    text = {"flows.csv": "source,destination,port,start,stop,size\nh1,h3,80,0,x,1000\n", "sizes.txt": "1000 0.5\n900 x\n"}[name]
    (tmp_path / name).write_text(text)
    key = {"flows.csv": "workload.file", "sizes.txt": "workload.distribution_file"}[name]
    path = write(tmp_path, "none", "")
    more = ["--set", "workload.kind=" + {"flows.csv": "matrix", "sizes.txt": "poisson"}[name], "--set", f"{key}={name}"]
    more += ["--set", "workload.load=0.5"] if name == "sizes.txt" else []
    status, lines = run(path, capsys, *more)
    assert status == 2 and len(lines) == 1 and f"{name}:2: " in lines[0], lines


@pytest.mark.lab
@pytest.mark.parametrize("kind", [kind for kind in AT_STEPS if kind != "policy"])
def test_to_python_an_exception_stays_what_it_is(kind, tmp_path, lab_kernel):
    path = write(tmp_path, kind, HEAD.format(at=20) + KINDS[kind])
    env = gymnasium.make("dcgym/Spec-v0", spec=path, folder=tmp_path)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="broken"):
        for _ in range(40):
            env.step(env.action_space.sample())
    env.close()


def test_to_python_a_spec_s_mistake_has_its_cause(tmp_path):
    path = write(tmp_path, "workload", HEAD.format(at=1) + KINDS["workload"])
    with pytest.raises(SpecError, match=re.escape(PLACE)) as excinfo:
        gymnasium.make("dcgym/Spec-v0", spec=path)
    assert isinstance(excinfo.value.__cause__, ValueError)


def test_the_whole_traceback_on_demand(tmp_path, monkeypatch):
    monkeypatch.setenv(main.TRACEBACK, "1")
    path = write(tmp_path, "workload", HEAD.format(at=1) + KINDS["workload"])
    with pytest.raises(SpecError) as excinfo:
        main.main(["run", str(path), "--quiet"])
    assert isinstance(excinfo.value.__cause__, ValueError)


@pytest.mark.parametrize("kind", ["controller", "topology"])
def test_set_takes_a_plug_in_s_name_for_the_key_that_knows_it(kind, tmp_path):
    code = {
        "controller": NIC + "from dc_gym.ctrl.controllers import register\nregister(Controller('mine', 'cubic', ecn=False))\n",
        "topology": TOPOLOGY + "where.register('mine', single.build, single.SingleKeys)\n",
    }[kind]
    path = write(tmp_path, "none", code)
    read = spec.load(path, [f"{kind}=mine"])
    assert (read.controller.name, read.topology.kind)[kind == "topology"] == "mine"
    assert read.controller.policy == "max", "as with the name of a TCP that comes with dc-gym"
    path.write_text(path.read_text().replace('plugins = ["mine.py"]', ""))
    by_command_line = spec.load(path, [f"{kind}=mine", f'plugins=["{tmp_path}/mine.py"]'])
    assert by_command_line.to_dict() == read.to_dict()


@pytest.mark.parametrize("key", ["topology.kind", "topology.marking", "controller.name", "workload.kind"])
def test_an_unknown_name_without_plug_ins_says_how_to_list_one(key, tmp_path):
    path = write(tmp_path, "none", "")
    hint = '(the name of a plug-in needs plugins = ["FILE.py"])'
    with pytest.raises(SpecError) as listed:
        spec.load(path, [f"{key}=qqqqqq"])
    path.write_text(path.read_text().replace('plugins = ["mine.py"]', ""))
    with pytest.raises(SpecError) as unlisted:
        spec.load(path, [f"{key}=qqqqqq"])
    assert hint not in str(listed.value) and str(unlisted.value) == f"{listed.value} {hint}"


def test_a_header_may_be_a_text():
    from dc_gym.ctrl.controllers import Controller

    controller = Controller("mine", "mine", "x", ecn=False, nic=True, header="/a/mine.h")
    assert controller.header == Path("/a/mine.h")


def test_our_own_words_say_where_they_were_called_from(tmp_path):
    code = "from dc_gym.topologies.kinds import register, single\nregister('single', single.build, single.SingleKeys)\n"
    path = write(tmp_path, "none", code)
    with pytest.raises(SpecError, match=r"mine\.py:2: topology\.kind: .*'single'"):
        spec.load(path)
