# SPDX-License-Identifier: Apache-2.0
"""Fixtures: the lab kernel (built or from the cache), and a lab that runs one program."""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import agent_lab
import pytest

from dc_gym.kernel.lab import Lab, LabConfig, LabExit

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell that ignores Ctrl-C, which children inherit: tests of interruption need it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("fabric_rules")  # helpers with assertions

NETWORKS_OF_ROOT = {"pair", "wire"}
"""Fixtures that make networks in the machine's own kernel, which needs root."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if NETWORKS_OF_ROOT & set(getattr(item, "fixturenames", ())):
            item.add_marker("root")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and os.geteuid() != 0:
        pytest.skip("needs root")


PROGRAMS = Path(__file__).resolve().parent.parent / "dc_gym" / "bin"


@dataclass
class Ran:
    """How a program in a lab ended, and the lines that it printed."""

    exit: LabExit
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@pytest.fixture
def registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Removes afterwards what plug-ins registered, so that the next test runs a plug-in of the same content again."""
    from dc_gym.base import usercode
    from dc_gym.ctrl import controllers, policies
    from dc_gym.ctrl.actuators import actuator
    from dc_gym.results.figures import styles
    from dc_gym.run.agent import action, observation, reward
    from dc_gym.run.agent import policies as shipped_policies  # noqa: F401 (registers policies)
    from dc_gym.topologies import marking, presets, qdiscs
    from dc_gym.traffic import workloads

    tables: list[dict[str, Any]] = [
        presets.TOPOLOGIES,
        presets.PRESETS,
        marking.KINDS,
        qdiscs.KINDS,
        workloads.KINDS,
        controllers._registry,
    ]
    tables += [styles._registry, styles._recorded, actuator._registry, actuator.KINDS, policies.KINDS]
    tables += [observation._registry, reward._registry, action._registry]
    copies = [dict(table) for table in tables]
    monkeypatch.setattr(usercode, "_by_digest", {})
    monkeypatch.setattr(usercode, "_names", set())
    yield
    for table, copy in zip(tables, copies, strict=True):
        table.clear()
        table.update(copy)


@pytest.fixture(scope="session", autouse=True)
def list_of_what_ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps the developer's own list of what may run again as it is: tests, and what they start, have another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


@pytest.fixture(scope="session", autouse=True)
def schema_of_specs() -> Iterator[None]:
    """Checks every spec that a test loads against the JSON Schema: what the loader accepts, the schema accepts, too."""
    import jsonschema

    import dc_gym.spec
    from dc_gym.cli.schema import schema

    loader = sys.modules[dc_gym.spec.load.__module__]
    build, validator = vars(loader)["_build"], jsonschema.Draft202012Validator(schema())

    def checked(data: dict[str, Any], *arguments: Any, **named: Any) -> Any:
        loaded_spec = build(data, *arguments, **named)
        for plain in (dict(data), loaded_spec.to_dict()):
            validator.validate(plain)
        return loaded_spec

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader, "_build", checked)
        yield


@pytest.fixture(scope="session")
def lab_kernel() -> Path:
    """The lab kernel; $DCGYM_TEST_KERNEL names another binary, for work on the kernel itself."""
    named = os.environ.get("DCGYM_TEST_KERNEL")
    if named:
        return Path(named)
    from dc_gym.base.progress import Quiet
    from dc_gym.kernel import build

    return build.ensure(Quiet()).path


@pytest.fixture
def lab_config(lab_kernel: Path, tmp_path: Path) -> Callable[..., LabConfig]:
    """A LabConfig for a program, with a run folder of its own."""
    tmp_path.chmod(0o755)

    def make(argv: list[str], **changes: Any) -> LabConfig:
        run_dir = changes.pop("run_dir", tmp_path / "run")
        run_dir.mkdir(exist_ok=True)
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/run", "PYTHONPATH": str(PROGRAMS.parent.parent)}
        return LabConfig(lab_kernel, PROGRAMS, run_dir, argv, env, **{"watchdog_s": 30.0, "memory_bytes": 256 << 20} | changes)

    return make


@pytest.fixture
def in_lab(lab_config: Callable[..., LabConfig]) -> Callable[..., Ran]:
    """Runs argv (or, given a text, that Python program) in a lab to its end."""

    def run(program: str | list[str], **changes: Any) -> Ran:
        argv = [sys.executable, "-c", program] if isinstance(program, str) else program
        lines: list[str] = []
        with Lab(lab_config(argv, **changes), lines.append) as lab:
            return Ran(lab.wait(), lines)

    return run


@pytest.fixture
def agentd(lab_config: Callable[..., LabConfig]) -> Callable[..., list[str]]:
    """Runs a program after agent_lab.PROLOGUE, with a host that decides; returns what the program printed."""

    def run(program: str, host: agent_lab.Host | None = None) -> list[str]:
        config = lab_config([sys.executable, "-c", agent_lab.PROLOGUE + textwrap.dedent(program)])
        config = replace(config, env={**config.env, "RUN": str(config.run_dir), "PROGRAMS": str(PROGRAMS)})
        lines: list[str] = []
        with Lab(config, lines.append, lambda step, now: host.step(lab, step, now) if host else 0) as lab:
            ended = lab.wait()
        assert ended.status == 0, "\n".join(lines)
        return lines

    return run


FABRIC = """
import json, os, socket, sys, time
from pathlib import Path
from dc_gym.topologies.ecmp import Groups, hops_of, path, route, rules as rules_of
from dc_gym.topologies.realize.datapath import DirectSwitches, flow
from dc_gym.topologies.realize.fabric import Fabric, netns_path
from dc_gym.topologies.realize.ovs import OpenVSwitchDaemons, Programs
from dc_gym.topologies.links import LinkSpec, LinkRule
from dc_gym.topologies.presets import TopologySpec, build
from dc_gym.topologies.realize.rtnl import entered
from dc_gym.topologies.telemetry import equipped
graph = equipped(build(TopologySpec.of(**{params})))
router = route(graph, 1)
groups = Groups(hops_of(router), 1)
programs = Programs(Path({folder!r}))
os.environ.update(programs.environment())
switches, rule_form = (DirectSwitches, lambda rule: flow(rule.destination, rule.out_port)) if {direct} else (
    lambda: OpenVSwitchDaemons(programs), lambda rule: rule.flow())
rules = {{switch.name: [] for switch in graph.switches}}
for rule in rules_of(router, groups):
    rules[rule.switch].append(rule_form(rule))
if {direct}:
    rules = {{switch: b"".join(mine) for switch, mine in rules.items()}}
with switches() as ovs, Fabric(graph, rules, ovs, ecn={ecn}, groups=[*groups]) as fabric:
"""


@pytest.fixture
def in_fabric(in_lab: Callable[..., Ran]) -> Callable[..., str]:
    """Runs a program with `graph`, `router`, `fabric`, `ovs` in a lab; returns its output."""
    from dc_gym.kernel import openvswitch

    installation = openvswitch.ensure()

    def run(params: dict[str, Any], body: str, ecn: bool = False, direct: bool = False, **changes: Any) -> str:
        head = f"import sys\nsys.path.insert(0, {str(installation.python)!r})\n"
        head += FABRIC.format(params=params, folder=str(installation.folder), ecn=ecn, direct=direct)
        ran = in_lab(
            head + "".join(f"    {line}\n" for line in body.strip().splitlines()), **{"memory_bytes": 512 << 20} | changes
        )
        assert ran.exit.status == 0, ran.text
        return ran.text

    return run


@pytest.fixture(params=["native", "bpf"])
def in_nics(in_fabric: Callable[..., str], request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Runs a program with `nic`, the NICs of all hosts; returns what it leaves in `out`. Only bad cables may lose frames."""
    native = sorted(PROGRAMS.glob("nic-*.native")) if request.param == "native" else []
    head = f"sys.path.insert(0, {str(Path(__file__).parent)!r})\nfrom nic_guest import *\n"
    head += f"nic = Nics(fabric, {bool(native)})\nnic.warm(ovs)\nout = {{}}\n"
    tail = "\novs.thaw()\nprint(json.dumps([out, fabric.losses(fabric.devices())]))"

    def run(body: str, **topology: Any) -> Any:
        params = {"kind": "single", "rate_bps": 10**10, "delay_ns": 2_500, "buffer_bytes": 4_000_000} | topology
        out, losses = json.loads(in_fabric(params, head + body.strip() + tail, native=native).splitlines()[-1])
        assert set(losses) <= {"cable"}
        return out

    return run
