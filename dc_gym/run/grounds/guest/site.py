# SPDX-License-Identifier: Apache-2.0
"""A site: the parts in which grounds differ once they run, and the site of a lab."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dc_gym.base.errors import LabError
from dc_gym.run.grounds.guest import report
from dc_gym.run.grounds.guest.shell_memory import SIZE, ShellMemory
from dc_gym.run.plan.plan import OUT, PLAN_STEP, Plan
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.realize import etc
from dc_gym.topologies.realize.ovs import Switches
from dc_gym.topologies.realize.system import HERE, System

if TYPE_CHECKING:
    from dc_gym.topologies.realize.fabric import Fabric

S = 10**9
QUIET_NS, QUIET_STEP_NS, MOST_QUIET_NS = 70 * S, 10 * S, 600 * S
"""Virtual time, in ns, between two episodes in a lab: TIME_WAIT's 60 s and 10 s more. While something is left, steps follow until
the last time is over, and the network could have drained."""
LAB_DEVICE = "/dev/lab"
NAME = "lab"
"""The name that `hostname` prints at the switches, which share the lab's own namespaces."""
LAB_IOC_STEP = 0x40084C01  # _IOW('L', 1, __u64) of kernel/drivers/lab.h
LAB_IOC_AT_T0 = 0x40084C02  # _IOW('L', 2, __u64)
LAB_IOC_SEED = 0x40084C05  # _IOW('L', 5, __u64): the seed of the next t0, if it is not the lab's own


class Site(Protocol):
    """The parts in which grounds differ. Everything else in this folder is the same in each ground."""

    matrix: str
    """Path of the file or device that holds the state matrix."""

    virtual: bool
    """True if its clock is virtual. The network then waits for an agent."""

    qmon_options: tuple[str, ...]

    system: System
    """That in which the network is."""

    def phase(self, name: str) -> None:
        """Notifies the runner that a phase begins."""

    def hand_over(self, folder: Path, name: str, content: bytes) -> Path:
        """Writes a file that programs of the ground read, for the plan in `folder`, and returns its path."""

    def fabric(self, plan: Plan, ovs: Switches, rules: Mapping[str, Any]) -> Fabric:
        """Returns the network, not yet entered. `rules` are each switch's rules, in the form that `ovs` takes."""

    def name_hosts(self, graph: Graph, folder: Path) -> None:
        """Lets programs find the hosts by name.

        `folder` is one that the ground writes to. It belongs to the user who may write there.
        """

    def agree_t0(self, plan: Plan, fabric: Fabric) -> int:
        """Returns the time at which traffic starts. It is called when the network stands and before programs get it."""

    def arm(self, t0_ns: int, seed: int | None = None) -> None:
        """Is called last before traffic. Raises an error if t0 is past.

        `seed` is the seed of randomness from then on; None means the run's.
        """

    def verdict(self, code: int, keeps: bool) -> int:
        """Returns the step after an episode that ended with this code of agentd's. `keeps` is True for a run."""

    def rest(self, drain_ns: int, left: Callable[[], dict[str, int]]) -> dict[str, int]:
        """Lets time pass after an episode's traffic was aborted. Returns the counts of frames and sockets left then.

        `drain_ns` is the time in which the network's queues drain and all frames arrive.
        """

    def next_t0(self, warm_ns: int) -> int:
        """Returns the time at which the next episode's traffic starts. Warming takes `warm_ns` before it.

        On a real clock it returns after the agent has asked for the episode.
        """

    def settle(self, fabric: Fabric, late_sweeps: int) -> None:
        """Is called when the traffic is over. Returns when the counters of all ports stand still, or will not."""

    def findings(self) -> dict[str, Any]:
        """Returns further findings for the run: `calibration` and `fidelity` for the manifest, `unfit` with reasons."""

    def shell_memory(self, stack: ExitStack) -> ShellMemory:
        """Returns the memory shared with a shell's prompt, mapped as long as `stack` is open."""

    def ask(self, step: int) -> int:
        """Asks the runner for a step, waits for its answer, and returns it. A virtual clock stands still meanwhile."""

    def clock_ns(self) -> int:
        """Returns the time that a shell shows, in ns."""


def await_plan() -> None:
    """Returns when the host has written the plan: it answers this step of the lab's channel then."""
    LabSite().ask(PLAN_STEP)


class InnerSite:
    """The part of a site that is the same wherever the plan is carried out inside the ground."""

    system: System = HERE

    def phase(self, name: str) -> None:
        report.phase(name)

    def hand_over(self, folder: Path, name: str, content: bytes) -> Path:
        (path := folder / OUT / name).write_bytes(content)
        return path


class LabSite(InnerSite):
    """The site of a lab kernel: t0 is fixed, and time stands still while programs start."""

    matrix = LAB_DEVICE
    virtual = True
    qmon_options: tuple[str, ...] = ()

    def fabric(self, plan: Plan, ovs: Switches, rules: Mapping[str, Any]) -> Fabric:
        from dc_gym.topologies.balance import Balance
        from dc_gym.topologies.ecmp import Group
        from dc_gym.topologies.realize.fabric import Fabric

        groups = [Group(switch, number, tuple(ports), seed, Balance(*way)) for switch, number, ports, seed, way in plan.groups]
        return Fabric(plan.graph, rules, ovs, plan.ecn, plan.peers, plan.sysctls, groups, self.system)

    def name_hosts(self, graph: Graph, folder: Path) -> None:
        socket.sethostname(NAME)  # hosts have names of their own
        owner = folder.stat()
        etc.write(etc.names(graph) | etc.accounts(owner.st_uid, owner.st_gid))

    def agree_t0(self, plan: Plan, fabric: Fabric) -> int:
        return plan.t0_ns

    def arm(self, t0_ns: int, seed: int | None = None) -> None:
        """Lets the driver make the kernel's randomness at t0 a function of the seed alone."""
        if seed is not None:
            self._tell(LAB_IOC_SEED, seed)
        if why := self._tell(LAB_IOC_AT_T0, t0_ns):
            raise LabError(f"set-up was late: t0 = {t0_ns / 1e9:g} s is past ({os.strerror(why)}); raise lab.t0")

    def _tell(self, request: int, value: int) -> int:
        """Passes a number to the lab's driver. Returns 0 or an errno."""
        with Path(LAB_DEVICE).open("wb", buffering=0) as device:
            try:
                fcntl.ioctl(device, request, struct.pack("<Q", value))
            except OSError as error:
                return error.errno or errno.EIO
        return 0

    def verdict(self, code: int, keeps: bool) -> int:
        """Returns the agent's own answer."""
        return code

    def rest(self, drain_ns: int, left: Callable[[], dict[str, int]]) -> dict[str, int]:
        self.system.sleep(QUIET_NS)
        waited_ns = QUIET_NS
        while (remaining := left()) and waited_ns < MOST_QUIET_NS + drain_ns:
            self.system.sleep(QUIET_STEP_NS)
            waited_ns += QUIET_STEP_NS
        return remaining

    def next_t0(self, warm_ns: int) -> int:
        """Returns a whole second, at least one after now."""
        return ((self.system.clock_ns() + max(0, warm_ns - S)) // S + 2) * S

    def settle(self, fabric: Fabric, late_sweeps: int) -> None:
        """Does nothing: no counter moves, since computing takes no virtual time."""

    def findings(self) -> dict[str, Any]:
        return {}

    def shell_memory(self, stack: ExitStack) -> ShellMemory:
        with Path(LAB_DEVICE).open("r+b", buffering=0) as device:
            return ShellMemory(stack.enter_context(mmap.mmap(device.fileno(), SIZE)))

    def ask(self, step: int) -> int:
        with Path(LAB_DEVICE).open("wb", buffering=0) as device:
            code: int = fcntl.ioctl(device, LAB_IOC_STEP, bytearray(struct.pack("<Q", step)))  # with bytes it would return those
        return code

    def clock_ns(self) -> int:
        return time.monotonic_ns()
