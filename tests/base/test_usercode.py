# SPDX-License-Identifier: Apache-2.0
"""Plug-ins: what they register can be named, their errors are one line, and results keep their files."""

from __future__ import annotations

import hashlib
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dc_gym import spec
from dc_gym.base import usercode
from dc_gym.base.errors import SpecError
from dc_gym.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
SPEC = """
plugins = ["mine.py"]
[topology]
kind = "single"
hosts = 3
rate = "1Gbit/s"
delay = "1us"
buffer = "100p"
[controller]
name = "cubic"
[workload]
kind = "many_to_one"
[time]
duration = "1s"
"""


pytestmark = pytest.mark.usefixtures("registries")


def load(folder, code, text=SPEC, overrides=()):
    (folder / "mine.py").write_text(code)
    (folder / "spec.toml").write_text(text)
    return spec.load(folder / "spec.toml", overrides)


def test_every_registry_takes_a_plug_in(tmp_path):
    code = """
from dataclasses import dataclass
from dc_gym.base.key import COUNT, key
from dc_gym.ctrl import controllers
from dc_gym.ctrl.controllers import Controller
from dc_gym.topologies import marking, presets
from dc_gym.topologies.kinds import single
from dc_gym.topologies.graph import Marking
from dc_gym.traffic import kinds
from dc_gym.traffic.flows import FlowRequest

@dataclass(frozen=True, kw_only=True)
class MineKeys:
    hosts: int = key(COUNT, needed=True)
    more: int = key(COUNT, 1)

@dataclass(frozen=True, kw_only=True)
class PartKeys:
    parts: int = key(COUNT, 10)

def build(wiring, keys):
    return single.build(wiring, single.SingleKeys(hosts=keys.hosts + keys.more))

presets.register("mine", build, MineKeys)
marking.register("part", lambda port, keys: Marking("step", k_bytes=port.limit_bytes // keys.parts), PartKeys)
kinds.register("one", lambda setting: [FlowRequest("h1", "h2", 5001)])
controllers.register(Controller("cubic-too", "cubic", "CUBIC, too", ecn=False))
"""
    text = SPEC.replace('"single"', '"mine"\nmarking = "part"\nmore = 2').replace('"many_to_one"', '"one"')
    read = load(tmp_path, code, text.replace('"cubic"', '"cubic-too"'))
    graph = read.graph()
    assert len(graph.hosts) == 5 and {port.queue.marking.k_bytes for port in graph.switch_ports()} == {15_140}
    assert [(flow.src, flow.dst) for flow in read.flows(graph)] == [("h1", "h2")]
    assert read.controller.kernel_name == "cubic"
    assert load(tmp_path, code) == load(tmp_path, code)  # once for one content


FILES = """
from dataclasses import dataclass
from pathlib import Path
from dc_gym.base.key import CODE_PATH, PATH, TEXT, key
from dc_gym.topologies import presets; from dc_gym.topologies.kinds import single
from dc_gym.traffic import kinds
from dc_gym.traffic.flows import FlowRequest

@dataclass(frozen=True, kw_only=True)
class NetKeys:
    pairs: str = key(TEXT, needed=True, help="another form than that of kind dumbbell")
    script: Path = key(CODE_PATH, needed=True)

@dataclass(frozen=True, kw_only=True)
class TraceKeys:
    trace: Path = key(PATH, needed=True)

def build(wiring, keys):
    return single.build(wiring, single.SingleKeys(hosts=len(keys.pairs)))

def pattern(context, keys):
    return [FlowRequest("h1", "h2", int(line)) for line in keys.trace.read_text().split()]

presets.register("net", build, NetKeys)
kinds.register("trace", pattern, TraceKeys)
"""


def test_files_that_keys_of_a_plug_in_name_are_kept(tmp_path):
    """Relative to the spec; a result has copies, under names that follow from the keys, and code in its own folder."""
    (tmp_path / "ports.txt").write_text("80 81")
    (tmp_path / "net.py").write_text("")
    text = SPEC.replace('"single"', '"net"\nscript = "net.py"').replace("hosts = 3", 'pairs = "abc"')
    read = load(tmp_path, FILES, text.replace('"many_to_one"', '"trace"\ntrace = "ports.txt"'))
    assert len(read.graph().hosts) == 3 and [flow.dst_port for flow in read.flows(read.graph())] == [80, 81]
    assert read.copies() == {"workload-trace.txt": tmp_path / "ports.txt"}
    assert read.code() == (tmp_path / "mine.py", tmp_path / "net.py")
    plain = read.to_dict(copied=True)
    assert (plain["topology"]["script"], plain["workload"]["trace"]) == ("code/net.py", "workload-trace.txt")
    with pytest.raises(SpecError, match=r'workload\.trace = "none\.txt".*relative to the spec'):
        spec.load(tmp_path / "spec.toml", ["workload.trace=none.txt"])


def test_two_kinds_may_use_a_name_for_different_things(tmp_path):
    """The kind of the spec says what the name is, that of a preset included."""
    (tmp_path / "net.py").write_text("")
    text = SPEC.replace('"single"', '"net"\nscript = "net.py"').replace("hosts = 3", 'pairs = "abc"')
    assert dict(load(tmp_path, FILES, text).topology.shape)["pairs"] == "abc"
    with pytest.raises(SpecError, match=r"topology\.pairs = 3: .*text such as"):
        spec.load(tmp_path / "spec.toml", ["topology.pairs=3"])
    for network in ('kind = "dumbbell"', 'preset = "dumbbell-10m"'):
        spec_text = SPEC.replace('kind = "single"', network).replace("hosts = 3", "pairs = 3")
        assert len(load(tmp_path, FILES, spec_text).graph().hosts) == 6
        with pytest.raises(SpecError, match=r'topology\.pairs = "abc": .*whole number such as 4'):
            spec.load(tmp_path / "spec.toml", ["topology.pairs=abc"])


def test_a_copy_is_the_same_plug_in(tmp_path):
    read = load(tmp_path, (EXAMPLES / "ring.py").read_text(), SPEC.replace("single", "ring").replace("hosts", "size"))
    rows = usercode.keep(read.code(), tmp_path)
    assert rows == [{"file": "code/mine.py", "sha256": hashlib.sha256((EXAMPLES / "ring.py").read_bytes()).hexdigest()}]
    again = spec.from_dict(read.to_dict(copied=True), tmp_path)
    assert again.plugins == (tmp_path / "code" / "mine.py",) and again.graph() == read.graph()


def test_what_is_kept_is_what_was_run(tmp_path):
    read = load(tmp_path, "before = 1\n")
    (tmp_path / "mine.py").write_text("after = 1\n")
    usercode.keep(read.code(), tmp_path)
    assert (tmp_path / "code" / "mine.py").read_text() == "before = 1\n"


BAD = {
    "syntax": ("x = 1\ny = (\n", "mine.py:2: "),
    "exception": ("x = 1\n\nx / 0\n", "mine.py:3: ZeroDivisionError: division by zero"),
    "in a library": ("import json\njson.loads('{')\n", "mine.py:2: JSONDecodeError: Expecting property name"),
    "import": ("import nowhere\n", "mine.py:1: ModuleNotFoundError: No module named 'nowhere'"),
    "exit": ("raise SystemExit(7)\n", "mine.py:1: SystemExit: 7"),
    "several lines": ("raise ValueError('one\\ntwo')\n", "mine.py:1: ValueError: one"),
    "taken name": (
        "from dc_gym.topologies.kinds import register, single\nregister('single', single.build, single.SingleKeys)\n",
        "topology.kind: value 'single' is registered already",
    ),
    "names of keys": (
        "from dc_gym.topologies.kinds import register, single\nregister('x', single.build, ('size',))\n",
        "keys ('size',) is no dataclass; write @dataclass above the class of the keys",
    ),
}


@pytest.mark.parametrize(("code", "words"), BAD.values(), ids=BAD.keys())
def test_mistakes_are_one_line_with_their_place(tmp_path, code, words):
    with pytest.raises(SpecError) as refusal:
        load(tmp_path, code)
    assert words in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("part", ["build", "pattern"])
def test_mistakes_in_what_is_registered_too(tmp_path, part):
    code = """
from dc_gym.topologies import presets; from dc_gym.topologies.kinds import single
from dc_gym.traffic import kinds

def build(wiring, keys):
    return keys.hosts["x"]

def pattern(setting):
    return setting.nothing

presets.register("mine", build, single.SingleKeys)
kinds.register("one", pattern)
"""
    text = SPEC.replace("single", "mine") if part == "build" else SPEC.replace("many_to_one", "one")
    with pytest.raises(SpecError, match=r"mine.py:6: TypeError" if part == "build" else r"mine.py:9: AttributeError"):
        load(tmp_path, code, text)


def test_keys_that_check_themselves(tmp_path):
    """A KeyFault names the key, and the loader its place; any other exception is one line with its place in the plug-in."""
    code = """
from dataclasses import dataclass
from dc_gym.base.key import COUNT, KeyFault, key
from dc_gym.traffic import kinds

@dataclass(frozen=True, kw_only=True)
class OneKeys:
    even: int = key(COUNT, 2)

    def __post_init__(self):
        if self.even % 2:
            raise KeyFault("workload.even", self.even, "is odd; give an even number")
        1 / (self.even - 4)

kinds.register("one", lambda context, keys: [], OneKeys)
"""
    text = SPEC.replace("many_to_one", "one")
    for value, message in (
        ("3", r"^--set: workload\.even = 3: is odd; give an even number$"),
        ("4", r"mine\.py:13: ZeroDivisionError: "),
    ):
        with pytest.raises(SpecError, match=message):
            load(tmp_path, code, text, [f"workload.even={value}"])


@pytest.mark.parametrize(
    ("plugins", "words"),
    [
        ('"mine.py"', 'plugins = "mine.py": is a text; write a list such as ["ring.py"]'),
        ("[1]", "is not understood; write a list"),
        ('["other.py"]', "no such file; paths are relative to the spec"),
        ('["mine.py", "sub/mine.py"]', "is the name of two files"),
    ],
)
def test_the_key(tmp_path, capsys, plugins, words):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mine.py").write_text("second = 2\n")
    (tmp_path / "mine.py").write_text("x = 1\n")
    (tmp_path / "spec.toml").write_text(SPEC.replace('["mine.py"]', plugins))
    assert main.main(["topology", str(tmp_path / "spec.toml")]) == 2
    assert words in capsys.readouterr().err


def test_a_call_into_a_users_file_that_does_not_return_is_told_and_named_when_interrupted(tmp_path):
    (tmp_path / "endless.py").write_text("def dig():\n    while True:\n        pass\n\n\ndig()\n")
    (tmp_path / "spec.toml").write_text('plugins = ["endless.py"]\n')
    argv = [sys.executable, "-m", "dc_gym.cli.main", "run", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    location = rf"{re.escape(str(tmp_path))}/endless\.py:[23] in dig"
    assert re.match(rf"dcgym: {location} has not returned for 5 s; Ctrl-C ends it$", process.stderr.readline())
    process.send_signal(signal.SIGINT)
    assert re.match(rf"dcgym: interrupted in {location}$", process.stderr.read())
    assert process.wait() == 130
