# SPDX-License-Identifier: Apache-2.0
"""Runs a shell's orders in a ground (dc_gym/cli/shell is the user's side).

The network stands, no traffic of the spec runs. At each prompt this process asks for an order and waits: in a lab everything
waits with it, the clock included. While a command runs, this process passes its output on and looks, every POLL_S, whether the
user has interrupted.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dc_gym.base.errors import FabricError
from dc_gym.base.readable import quantity
from dc_gym.run.grounds.guest import bulk, echo, jobs, queues, written
from dc_gym.run.grounds.guest.jobs import Job
from dc_gym.run.grounds.guest.report import phase
from dc_gym.run.grounds.guest.shell_memory import (
    DATA,
    ENDED,
    ERR,
    FILES,
    INPUT,
    INTERRUPT,
    MOST_BYTES,
    NOTHING,
    OUT,
    PROMPT,
    VISIT,
    VISITOR_BIT,
    Order,
    Report,
    ShellMemory,
)
from dc_gym.run.grounds.guest.site import Site
from dc_gym.run.plan.plan import GO_ON, Plan
from dc_gym.topologies.realize.fabric import at_host, name_hosts
from dc_gym.topologies.realize.ovs import Programs
from dc_gym.traffic import execs

if TYPE_CHECKING:  # imports Mininet, which takes long to import
    from dc_gym.topologies.realize.fabric import Fabric

POLL_S = 0.02
START_S = 0.05
"""The time that a command in the background gets before the next prompt: a server then listens."""
RAREST_LOOK = 512
"""The longest interval, in POLL_S, between two looks whether a command waits for input."""
PATIENCE_S = 1.0
"""The time that pingall waits for each reply, as Mininet's does."""
INTERRUPTED = 128 + signal.SIGINT
KILLED_AT = 3
"""The number of Ctrl-C by which a command that ignores the first is killed."""
TMP, TMP_UPPER = "/tmp", Path("/run/tmp-upper")


def run(plan: Plan, site: Site, fabric: Fabric, t0_ns: int) -> None:
    """Serves the prompt until the user ends it. The first prompt comes at t0."""
    name_hosts(host.name for host in plan.graph.hosts)
    fabric.keep_neighbours(host.name for host in plan.graph.hosts)
    fabric.seed_draws(plan.seed)
    fabric.impair(plan.seed, t0_ns, [cable.a.ifname for cable in plan.graph.cables] if fabric.CHANGES else [])
    site.arm(t0_ns)
    phase("shell")
    time.sleep(max(0, t0_ns - time.monotonic_ns()) / 1e9)
    assert plan.shell is not None, "the caller knows"
    folder, upper = _enter(plan.shell["folder"]) if site.virtual else (plan.shell["folder"], None)
    with ExitStack() as stack:
        Shell(plan, site, fabric, site.shell_memory(stack), folder, upper).serve()


def _enter(folder: str) -> tuple[str, Path]:
    """Lays the lab's memory over the user's folder, so that commands can write there. Returns the folder, and the memory laid
    over it.

    Their files end with the lab. A folder that root's labs cannot read is not entered: commands then work in /tmp.
    """
    upper, work = Path("/run/shell-upper"), Path("/run/shell-work")
    try:
        os.chdir(folder)
        next(Path().iterdir(), None)
    except OSError:
        return TMP, TMP_UPPER
    if os.access(folder, os.W_OK):  # below /tmp it lies over it already
        return folder, TMP_UPPER / Path(folder).relative_to(TMP) if Path(folder).is_relative_to(TMP) else upper
    upper.mkdir()
    work.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"lowerdir=.,upperdir={upper},workdir={work}".encode()
    if libc.mount(b"overlay", b".", b"overlay", 0, options):
        raise FabricError(f"{folder}: lay the lab's memory over it: {os.strerror(ctypes.get_errno())}")
    return folder, upper


class Shell:
    """The commands of one user."""

    def __init__(self, plan: Plan, site: Site, fabric: Fabric, memory: ShellMemory, folder: str, upper: Path | None) -> None:
        """`upper` has the files that commands write in `folder`; None: that is the machine's."""
        self._plan, self._site, self._fabric, self._memory, self._folder = plan, site, fabric, memory, folder
        self._upper = upper
        self._hosts = {host.name: host for host in plan.graph.hosts}
        self._environment = _environment(plan)
        self._selector = selectors.DefaultSelector()
        self._background: dict[int, Job] = {}
        self._count = 0
        self._seen = 0
        self._visits: dict[int, Job] = {}
        """The command that runs for each visitor."""
        self._reader, self._news = 0, 0
        self._passed_on = False
        """True if a command in the foreground has written something."""

    def serve(self) -> None:
        """Asks for orders and executes them until the user ends the shell."""
        status = 0
        while True:
            self._memory.tell(Report(status, self._site.clock_ns()))
            answer = self._site.ask(PROMPT)
            if answer == NOTHING:
                self._attend_visitors()
                continue
            if answer != GO_ON:
                return
            order = self._memory.order()
            if order.visitor:
                self._visit(order)
                continue
            self._seen = self._memory.interrupts
            status = self._execute(order)

    def _visit(self, order: Order) -> None:
        """Begins a command of a visitor, or interrupts the one that runs."""
        if order.kind == INTERRUPT:
            if (job := self._visits.get(order.visitor)) is not None:
                job.signal(signal.SIGKILL if order.words else signal.SIGINT)
            return
        self._reader = order.visitor
        if order.kind == "run" and not order.background:
            with self._at(order.node):
                job = jobs.start(order, self._folder, self._environment, self._memory.window)
            job.visitor = order.visitor
            self._watch(job)
            self._visits[order.visitor] = job
        else:
            self._end_visit(order.visitor, self._execute(order))
        self._reader = 0

    def _attend_visitors(self) -> None:
        """Lets visitors' commands go on until one has ended, or there is news."""
        running = len(self._visits)
        while len(self._visits) == running > 0 and self._memory.news == self._news:
            self._attend(POLL_S)
        self._news = self._memory.news

    def _end_visit(self, visitor: int, status: int) -> None:
        self._memory.tell(Report(status, self._site.clock_ns()))
        self._site.ask(ENDED | visitor << VISITOR_BIT)

    def _receive_visitors(self) -> None:
        """Begins the commands that visitors have sent while another one runs."""
        if self._memory.news != self._news:
            self._news = self._memory.news
            while self._site.ask(VISIT) == GO_ON:
                self._visit(self._memory.order())

    def _execute(self, order: Order) -> int:
        if order.kind != "run":
            return self._own(order)
        with self._at(order.node):
            job = jobs.start(order, self._folder, self._environment, self._memory.window)
        self._watch(job)
        if order.background:
            self._send_to_background(job)
            self._attend_until(time.monotonic() + START_S)
            return 0
        return self._finish(job)

    def _own(self, order: Order) -> int:
        """Executes a command of the shell's own."""
        does: Mapping[str, Callable[[], int]] = {
            "pingall": self._ping_all,
            "jobs": self._jobs,
            "queues": lambda: self._say(queues.table(self._fabric, order.words)),
            "iperf": lambda: self._iperf(order),
            "written": self._tell_files,
            "get": lambda: self._give(order.words[0]),
            "link": lambda: self._link(order.changes),
        }
        return does[order.kind]()

    def _say(self, text: str) -> int:
        self._show(OUT, f"{text}\n".encode())
        return 0

    def _jobs(self) -> int:
        for job in self._background.values():
            self._say(f"[{job.number}] {job.order.node} {job.order.line}")
        return 0

    def _tell_files(self) -> int:
        self._memory.write(written.listing(self._upper, MOST_BYTES))
        self._site.ask(FILES)
        return 0

    def _give(self, name: str) -> int:
        """Gives the user a file."""
        try:
            for piece in written.pieces(Path(self._folder, name), MOST_BYTES):
                self._memory.write(piece)
                if self._site.ask(DATA) != GO_ON:
                    return 1
        except OSError as error:
            self._show(ERR, f"dcgym: get {name}: {error.strerror}\n".encode())
            return 1
        return 0

    def _link(self, changes: Iterable[tuple[str, Mapping[str, int]]]) -> int:
        if not self._fabric.CHANGES:
            self._show(ERR, b"dcgym: links of netem and tbf cannot change; take the lab, or build the cable (docs/host.md)\n")
            return 1
        self._fabric.change(dict(changes))
        return 0

    def _iperf(self, order: Order) -> int:
        """Sends by TCP, and prints as Mininet does at which rate it arrived."""
        (source, destination), duration_s = order.words, order.duration_s
        self._say(f"*** Iperf: testing TCP bandwidth between {source} and {destination}")
        address = self._hosts[destination].address
        places = (partial(self._at, source), partial(self._at, destination))
        rate_bps = bulk.received_bps(*places, address, duration_s, self._is_interrupted)
        if self._memory.interrupts != self._seen:
            return INTERRUPTED
        if rate_bps is None:
            self._show(ERR, f"dcgym: iperf: {destination} does not answer {source}\n".encode())
            return 1
        return self._say(f"*** Results: {quantity(rate_bps, 'bps')} in {duration_s:g} s")

    def _is_interrupted(self) -> bool:
        """Begins visitors' commands while a command of the shell's own runs. Returns whether the user has interrupted it."""
        reader = self._reader
        self._receive_visitors()
        self._reader = reader
        if self._visits:
            self._attend(0)
        return self._memory.interrupts != self._seen

    def _at(self, node: str) -> AbstractContextManager[None]:
        """Returns a context at a node. All switches share the ground's own namespaces."""
        return at_host(node) if node in self._hosts else nullcontext()

    def _watch(self, job: Job) -> None:
        for fd in (*job.outputs, job.pidfd):
            self._selector.register(fd, selectors.EVENT_READ, job)

    def _send_to_background(self, job: Job) -> None:
        self._count += 1
        job.number = self._count
        self._background[job.number] = job
        self._show(ERR, f"[{job.number}] {job.order.node} {job.order.line}\n".encode())

    def _finish(self, job: Job) -> int:
        """Attends until a command in the foreground has ended, and returns its status."""
        presses, looks = 0, Looks()
        while job.process.poll() is None:
            self._attend(POLL_S)
            self._receive_visitors()
            if interrupted := self._memory.interrupts != self._seen:
                looks.begin()
            if job.terminal and self._listen(job.terminal, looks):
                presses = 0  # it reads, so Ctrl-C reaches it as any key does
            if interrupted:
                self._seen, presses = self._memory.interrupts, presses + 1
                job.interrupt() if presses < KILLED_AT else job.signal(signal.SIGKILL)
                looks.begin()
        self._end(job)
        self._attend(0)
        return job.status

    def _listen(self, terminal: jobs.Terminal, looks: Looks) -> bool:
        """Passes on the user's typing if the command waits for it. Returns whether it waits."""
        terminal.resize(self._memory.window)
        if self._passed_on:  # a command that has just written may read next
            self._passed_on = False
            looks.begin()
        if not terminal.type(b"") or not looks.due() or not terminal.awaits_input():
            return False
        looks.begin()
        self._memory.write(b"")
        self._site.ask(INPUT)
        terminal.resize(self._memory.window)
        terminal.type(self._memory.read())
        return True

    def _attend_until(self, deadline: float) -> None:
        while (left_s := deadline - time.monotonic()) > 0:
            self._attend(left_s)

    def _attend(self, timeout_s: float) -> None:
        """Waits at most that long for output, and passes it on. Reports commands in the background that have ended."""
        for key, _ in self._selector.select(timeout_s):
            job, fd = key.data, key.fd
            if fd == job.pidfd:
                if job.visitor and job.process.poll() is not None:
                    self._end(job)
                    del self._visits[job.visitor]
                    self._end_visit(job.visitor, job.status)
                if job.number and job.process.poll() is not None:
                    self._end(job)
                    del self._background[job.number]
                    ended = f"[{job.number}] {job.order.node} {job.order.line}: ended with status {job.status}\n"
                    self._show(ERR, ended.encode())
                return  # other ready files may have been closed
            data = job.read(fd)
            if data is None:
                self._selector.unregister(fd)
                os.close(fd)
                del job.outputs[fd]
                job.terminal = None
            else:
                self._pass_on(job, key.data.outputs[fd], data)

    def _end(self, job: Job) -> None:
        """Passes on the last output of a command that has ended. Processes that it left running have no output any more."""
        for fd in (*job.outputs, job.pidfd):
            self._selector.unregister(fd)
        for step, data in job.drain():
            self._pass_on(job, step, data)
        for step, line in job.lines.items():
            if line:
                self._show(step, _labelled(job, line))
        job.close()

    def _pass_on(self, job: Job, step: int, data: bytes) -> None:
        """Shows output: of a command in the background whole lines, each after its number and node."""
        if job.visitor:
            self._show(step, data, job.visitor)
            return
        if not job.number:
            self._passed_on = True
            self._show(step, data)
            return
        *lines, job.lines[step] = (job.lines.get(step, b"") + data).split(b"\n")
        self._show(step, b"".join(_labelled(job, line) for line in lines))

    def _show(self, step: int, data: bytes, reader: int = 0) -> None:
        """Shows output to the user, or to a visitor: `reader`, or the one whose command is executed now."""
        for start in range(0, len(data), MOST_BYTES):
            self._memory.write(data[start : start + MOST_BYTES])
            self._site.ask(step | (reader or self._reader) << VISITOR_BIT)

    def _ping_all(self) -> int:
        """Sends an echo request from each host to each other one, and prints as Mininet does who answers."""
        sent = received = 0
        for name in self._hosts:
            self._show(OUT, f"{name} ->".encode())
            for other, host in self._hosts.items():
                if other == name:
                    continue
                if self._memory.interrupts != self._seen:
                    self._show(OUT, b"\n")
                    return INTERRUPTED
                sent += 1
                with self._at(name):
                    reached = echo.answers(host.address, sent, PATIENCE_S)
                received += reached
                self._show(OUT, f" {other if reached else 'X'}".encode())
            self._show(OUT, b"\n")
        dropped = 100 * (sent - received) / sent if sent else 0
        self._show(OUT, f"*** Results: {dropped:.0f}% dropped ({received}/{sent} received)\n".encode())
        return 0 if received == sent else 1


class Looks:
    """Says when to look whether a command waits for input: looking costs time, and most commands never read."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Looks at once, then at intervals that grow."""
        self._every, self._left = 1, 1

    def due(self) -> bool:
        """Is asked every POLL_S."""
        self._left -= 1
        if self._left > 0:
            return False
        self._every = min(2 * self._every, RAREST_LOOK)
        self._left = self._every
        return True


def _labelled(job: Job, line: bytes) -> bytes:
    return f"[{job.number}] {job.order.node}: ".encode() + line + b"\n"


def _environment(plan: Plan) -> Mapping[str, str]:
    """Returns the environment of commands: the environment of programs in hosts, with the tools of Open vSwitch."""
    of_switches = Programs(Path(plan.openvswitch)).environment()
    tools = f"{plan.openvswitch}/bin"
    return {
        **of_switches,
        "PATH": f"{execs.PATH}:{tools}",
        "HOME": TMP,
        "TMPDIR": TMP,
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
    }
