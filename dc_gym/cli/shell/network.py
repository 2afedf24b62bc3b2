# SPDX-License-Identifier: Apache-2.0
"""Boots the network of a spec for a shell, and ends it with the shell.

The spec's hosts, links, queues and TCP are as in a run. Its traffic, programs, events, agents and NICs' algorithms do not run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from dc_gym.base import process_room
from dc_gym.base.errors import MachineError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.progress import DONE, Progress, Quiet
from dc_gym.base.terminal import say
from dc_gym.cli.shell import commands
from dc_gym.cli.shell.conversation import Conversation
from dc_gym.cli.shell.keeping import Keeping
from dc_gym.cli.shell.sources import open_source
from dc_gym.cli.shell.visitors import Visitors
from dc_gym.kernel import cache, openvswitch
from dc_gym.run.execution import Clock, execute
from dc_gym.run.grounds.ground import check_programs, make_folders
from dc_gym.run.grounds.selection import ground_of
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import Plan
from dc_gym.spec import Spec
from dc_gym.spec.capture import CaptureSpec
from dc_gym.spec.settings import MetricsSpec, MonitorSpec, TimeSpec
from dc_gym.topologies.graph import Graph
from dc_gym.traffic.workload_spec import WorkloadSpec

SCRATCH = "dcgym-shell-"
LONGEST_NS = 10 * 365 * 86400 * 10**9
"""Time after which a shell counts as forgotten."""
MOST_HOSTS = 320
"""Up to this many hosts, each has the routes to all others (topologies/realize/fabric.py)."""


def alone(spec: Spec) -> Spec:
    """Returns the spec of the same network without anything that happens in it."""
    return replace(
        spec,
        controller=replace(spec.controller, policy=None, own=()),
        events=(),
        workload=WorkloadSpec(kind="none"),
        time=TimeSpec(duration_ns=LONGEST_NS),
        monitor=MonitorSpec(),
        capture=CaptureSpec(),
        metrics=MetricsSpec(),
    )


def run(spec: Spec, host: str | None, progress: Progress, keep: Path | None = None) -> int:
    """Runs a shell on the spec's network and returns the exit status of its last command.

    `keep` is a folder for all files that commands write; None: they end with the lab.

    Raises UsageError, before anything boots, for a host that the network does not have, and for no command at all.
    """
    experiment = Experiment.of(alone(spec))
    if host is not None:
        commands.require_node(host, experiment.graph)
    if len(experiment.graph.hosts) > MOST_HOSTS:
        raise UsageError(f"a shell is for networks of at most {MOST_HOSTS} hosts (got {len(experiment.graph.hosts)})")
    if keep is not None and spec.ground != "lab":
        raise UsageError(f"--keep {keep}: files that commands write on the host ground are this machine's own; leave it out")
    check_programs()
    if why := process_room.too_few():
        raise MachineError(why)
    with cache.in_use():
        return _run(experiment, host, progress, keep)


def _run(experiment: Experiment, host: str | None, progress: Progress, keep: Path | None) -> int:
    from dc_gym.run.plan import writer  # imports numpy

    spec, folder = experiment.spec, Path.cwd()
    source = open_source(lambda before, word: conversation.complete(before, word))

    def greet() -> None:
        progress.phase(DONE)
        if source.is_terminal:
            say(_greeting(experiment.graph, spec.ground))

    keeping = None if spec.lab.memory_bytes is None or spec.ground != "lab" else Keeping(spec.lab.memory_bytes, keep)
    ovs = openvswitch.ensure(progress)
    conversation = Conversation(experiment.graph, source, host, ovs.folder / "bin", greet, spec.topology.scale or 1, keeping)
    ground = ground_of(spec, folder)
    ground.prepare(progress)
    progress.phase("boot")
    try:
        with scratch(Path(tempfile.gettempdir()), SCRATCH, mode=0o700) as work, ExitStack() as stack:
            private = make_folders(work, spec)
            if spec.ground == "lab":
                _receive(conversation, work, stack, progress)

            def write_plan() -> Plan:
                return writer.write_plan(experiment, ovs, private, shell_folder=folder)[0]

            reporter = Watching(progress, lambda now_ns: conversation.look(now_ns, ground.end_computation))
            execute(ground, spec.ground, work, write_plan, Clock(), reporter, conversation)
    finally:
        conversation.close()
        source.close()
    return conversation.status


def _receive(conversation: Conversation, work: Path, stack: ExitStack, progress: Progress) -> None:
    """Lets `dcgym attach` come, unless the file system has no sockets (9p)."""
    try:
        conversation.receive(stack.enter_context(Visitors(work)))
    except OSError as error:
        progress.note(f"{work}: no socket can be made here ({error.strerror}): dcgym attach will not find this shell")


class Watching(Quiet):
    """Passes on the phases of the boot, and reports the virtual time."""

    def __init__(self, progress: Progress, on_time: Callable[[int], None]) -> None:
        self._shown, self._on_time = progress, on_time

    def phase(self, name: str) -> None:
        self._shown.phase(name)

    def virtual(self, now_ns: int, total_ns: int) -> None:
        self._on_time(now_ns)

    def note(self, line: str) -> None:
        self._shown.note(line)

    def announce(self, line: str) -> None:
        self._shown.announce(line)


def _greeting(graph: Graph, ground: str) -> str:
    hosts, switches = len(graph.hosts), len(graph.switches)
    clock = "time stands still at the prompt" if ground == "lab" else "time is real"
    return f"{hosts} hosts, {switches} switches; {clock}. `help` lists commands, Ctrl-D ends the network."
