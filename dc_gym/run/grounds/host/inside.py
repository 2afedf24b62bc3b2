# SPDX-License-Identifier: Apache-2.0
"""The first process of a host ground: process 1 of its PID namespace, in a network and a mount namespace of its own.

  unshare --net --mount --pid --fork --kill-child --mount-proc --
      python -m dc_gym.run.grounds.host.inside RUN_FOLDER FD LINKS LEAD_NS

FD is the memory of the state matrix. Standard input is a pipe from the runner. Each line on it asks for another episode, and its
end ends everything in the ground.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from dc_gym.base.errors import FabricError
from dc_gym.run.grounds.guest.main import main as run_plan
from dc_gym.run.grounds.guest.report import count, phase
from dc_gym.run.grounds.guest.shell_memory import SIZE, ShellMemory
from dc_gym.run.grounds.guest.site import InnerSite, S
from dc_gym.run.grounds.host import calibration, fidelity, one_cpu
from dc_gym.run.plan.plan import END_OF_RUN, NEXT_EPISODE, Plan
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.realize import etc
from dc_gym.topologies.realize.fabric import GROUND_SYSCTLS, Fabric
from dc_gym.topologies.realize.ovs import Switches
from dc_gym.topologies.realize.qdisc_fabric import QdiscFabric
from dc_gym.topologies.waits import Waits

OWN_SYSCTLS: Mapping[str, str] = {
    name: value
    for name, value in GROUND_SYSCTLS.items()
    if name.startswith(("net/ipv6/", "net/ipv4/tcp_rmem", "net/ipv4/tcp_wmem"))
}
"""Those of the ground's settings that each network namespace has for itself. Settings of the whole machine stay unchanged."""
SETTLE_LIMIT_S, SETTLE_STEP_S = 20.0, 0.1
"""The limit is for the machine. The time in which the network drains is added to it."""
MOST_FAULTS = 5
MOST_QUIET_NS, REST_STEP_S = 60 * S, 0.02
"""The same limit between two episodes."""
NO_TIME_WAIT = {"net/ipv4/tcp_max_tw_buckets": "0"}
"""Settings of hosts that have episodes without a minute's wait between them: a closed connection is forgotten at once."""
SHARED_COUNTS = ("TCP sockets orphan",)
"""Counters of sockstat that cover the whole machine. A host's own sockets of these kinds are included in its sockets in use."""
LEAST_LEAD_NS, LEAD_FACTOR = S // 2, 4
NO_CHANGE = ("queue_backlog_packets", "flight_packets")
MS_NOSUID, MS_NODEV = 2, 4
OWN_ETC = Path("/run/etc")


class HostFabric(Fabric):
    """A Fabric with cables in this machine's kernel."""

    SYSCTLS = OWN_SYSCTLS


class HostQdiscFabric(QdiscFabric):
    SYSCTLS = OWN_SYSCTLS


class HostSite(InnerSite):
    """A `guest.site.Site`."""

    virtual = False
    qmon_options: tuple[str, ...] = ("--check-late",)

    def __init__(
        self,
        matrix: str,
        links: str,
        lead_ns: int,
        orders: threading.Semaphore,
        cpu: int | None,
        answers: SimpleQueue[int] | None = None,
    ) -> None:
        """`orders` is raised by one for each requested episode. `answers` gets the runner's answers to `ask`.

        `cpu` is the CPU of the hosts' NICs; None means that they have none.
        """
        self._answers = answers
        self._t0_ns = 0
        self.matrix = matrix
        self._links = links
        self._lead_ns = self._next_lead_ns = lead_ns
        self._orders = orders
        self._cpu = cpu
        self._judged = True
        self._links_found: list[calibration.Measured] = []
        self._duration_ns = 0
        self._waits: Waits
        self._late_limit_ns = fidelity.LATE_NS
        self._watch: fidelity.FidelityWatch | None = None
        self._fidelity: fidelity.Fidelity | None = None

    def fabric(self, plan: Plan, ovs: Switches, rules: Mapping[str, Any]) -> Fabric:
        self._duration_ns, self._waits = plan.duration_ns, plan.waits
        self._late_limit_ns = fidelity.late_limit_ns(plan.graph)
        self._judged = plan.shell is None and (plan.agent is None or bool(plan.agent["keeps"]))
        sysctls = plan.sysctls if self._judged else {**plan.sysctls, **NO_TIME_WAIT}
        if self._links == "cable":
            return HostFabric(plan.graph, rules, ovs, plan.ecn, plan.peers, sysctls)
        return HostQdiscFabric(plan.graph, rules, ovs, plan.ecn, plan.peers, sysctls, self._links)

    def name_hosts(self, graph: Graph, folder: Path) -> None:
        """Names the hosts in this mount namespace only."""
        etc.cover(etc.names(graph), OWN_ETC)

    def agree_t0(self, plan: Plan, fabric: Fabric) -> int:
        """Calibrates the links, then returns t0."""
        phase("calibration")
        self._links_found = calibration.measure(fabric)
        phase("programs")
        if self._cpu is not None:
            one_cpu.steer(fabric, self._cpu)
        self._lead_ns = self._next_lead_ns = self._lead_ns + plan.waits.warm_settle_ns
        return time.monotonic_ns() + self._lead_ns

    def arm(self, t0_ns: int, seed: int | None = None) -> None:
        if (left_ns := t0_ns - time.monotonic_ns()) <= 0:
            raise FabricError(f"set-up was late: programs were not ready within {self._next_lead_ns / S:g} s; raise host.lead")
        self._t0_ns = t0_ns
        taken_ns = self._next_lead_ns - left_ns
        self._next_lead_ns = min(self._lead_ns, max(LEAST_LEAD_NS, LEAD_FACTOR * taken_ns))
        print(f"::t0 {t0_ns}", flush=True)
        if not self._judged:
            return
        self._watch = fidelity.FidelityWatch(t0_ns, t0_ns + self._duration_ns, self._late_limit_ns)
        self._watch.start()

    def verdict(self, code: int, keeps: bool) -> int:
        """Returns the step after an episode: the end for a run, which has one episode, otherwise the next episode.

        An episode ends by the clock, whatever the agent is doing.
        """
        return END_OF_RUN if keeps else NEXT_EPISODE

    def rest(self, drain_ns: int, left: Callable[[], dict[str, int]]) -> dict[str, int]:
        """Waits until nothing is left and nothing is under way."""
        deadline_ns = time.monotonic_ns() + MOST_QUIET_NS + drain_ns
        while True:
            remaining = {name: count for name, count in left().items() if name not in SHARED_COUNTS}
            if not remaining or time.monotonic_ns() > deadline_ns:
                return remaining
            time.sleep(REST_STEP_S)

    def next_t0(self, warm_ns: int) -> int:
        """Waits for the request of an episode, then returns a time soon after now.

        Programs now need a fraction of the time that the first ones were given.
        """
        self._orders.acquire()
        return time.monotonic_ns() + self._next_lead_ns

    def settle(self, fabric: Fabric, late_sweeps: int) -> None:
        """Waits while real packets drain in real time. Those of closed connections are few."""
        assert self._watch is not None
        self._fidelity = self._watch.result(late_sweeps)
        deadline = time.monotonic() + SETTLE_LIMIT_S + self._waits.drain_ns / S
        last: Any = None
        while time.monotonic() < deadline:
            now = count(fabric)
            if now == last and not any(port[name] for port in now.values() for name in NO_CHANGE):
                return
            last = now
            time.sleep(SETTLE_STEP_S)

    def findings(self) -> dict[str, Any]:
        assert self._fidelity is not None
        links = [fault for measured in self._links_found for fault in measured.faults()]
        if len(links) > MOST_FAULTS:
            links[MOST_FAULTS:] = [
                f"and {len(links) - MOST_FAULTS} more ports are not what was asked for (manifest: calibration)"
            ]
        return {
            "calibration": [measured.row() for measured in self._links_found],
            "fidelity": self._fidelity.to_dict(),
            "unfit": links + self._fidelity.faults(),
        }

    def shell_memory(self, stack: ExitStack) -> ShellMemory:
        with Path(self.matrix).open("r+b", buffering=0) as memory:
            os.ftruncate(memory.fileno(), SIZE)
            return ShellMemory(stack.enter_context(mmap.mmap(memory.fileno(), SIZE)))

    def ask(self, step: int) -> int:
        """Asks by a line on standard output. Real time goes on meanwhile."""
        assert self._answers is not None, "the ground of a shell has them"
        print(f"::ask {step}", flush=True)
        return self._answers.get()

    def clock_ns(self) -> int:
        """Returns the time since t0."""
        return time.monotonic_ns() - self._t0_ns


def main(argv: Sequence[str] = sys.argv) -> int:
    folder, matrix, links, lead_ns = argv[1:5]
    orders, answers = threading.Semaphore(0), SimpleQueue[int]()
    _die_with_the_runner(orders, answers)
    _own_run_folder()
    cpu = one_cpu.pin() if Plan.read(Path(folder) / ".lab" / "plan.json").nic is not None else None
    site = HostSite(f"/proc/{os.getpid()}/fd/{matrix}", links, int(lead_ns), orders, cpu, answers)
    return run_plan(["ground", folder], site)


def _die_with_the_runner(orders: threading.Semaphore, answers: SimpleQueue[int] | None = None) -> None:
    """Ends process 1, and with it everything in its namespaces, when the runner's end of the pipe is closed.

    A line on the pipe with a number is an answer. Any other line requests an episode.
    """

    def wait() -> None:
        rest = b""
        while data := os.read(0, 64):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if answers is not None and line.isdigit():
                    answers.put(int(line))
                else:
                    orders.release()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _own_run_folder() -> None:
    """Gives this ground its own /run, for its namespaces' names and the sockets of its Open vSwitch."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"dcgym", b"/run", b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=755"):
        raise FabricError(f"mount a tmpfs at /run: {os.strerror(ctypes.get_errno())}")
    Path("/run/netns").mkdir()


if __name__ == "__main__":
    sys.exit(main())
