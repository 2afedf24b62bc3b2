# SPDX-License-Identifier: Apache-2.0
"""Runs inside a ground: builds the network of a plan, runs the traffic and the monitor, and counts what was lost.

  python -m dc_gym.grounds.guest.main RUN_FOLDER

The plan is RUN_FOLDER/.lab/plan.json, written by the runner on the host. tgen's flows and qmon's ports lie beside it. The ground
writes flows.bin, samples.bin, queues.trace and ground.json there. A line '::phase NAME' on standard output marks each phase.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from dc_gym.base.errors import FabricError, LabError, TestbedError
from dc_gym.topologies.ecmp import PORT_MASK
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.realize import etc, nics, tc
from dc_gym.topologies.realize.ovs import OpenVSwitchDaemons, Programs
from dc_gym.traffic import execs
from dc_gym.traffic.execs import Execs

if TYPE_CHECKING:  # imports Mininet, which a runner on the host never needs and which takes long to import
    from dc_gym.topologies.realize.fabric import Fabric

PLAN_VERSION = 1
S = 10**9
QUIET_NS = 70 * S
"""Virtual time, in ns, between two episodes in a lab."""
FLOWS, PORTS, HOSTS = "flows.records", "ports.records", "hosts.records"
"""Record files (dc_gym/grounds/inputs.py). FLOWS are the flows of a run, or of the first episode."""
NICS, NIC_TABLE = "nics.records", "nic_table"
"""The files that the NICs' loader reads."""
DECISIONS = "decisions.bin"
"""The file that the NICs' loader writes."""
LAB_DEVICE = "/dev/lab"
LAB_IOC_AT_T0 = 0x40084C02  # _IOW('L', 2, __u64) of kernel/drivers/lab.h
LAB_IOC_SEED = 0x40084C05  # _IOW('L', 5, __u64): the seed of the next t0, if it is not the lab's own
NICD_PRIORITY, TGEN_PRIORITY, QMON_PRIORITY = 5, 10, 20  # SCHED_FIFO: measuring programs go first, and nothing else delays either


@dataclass(frozen=True, slots=True)
class Plan:
    """All facts about a run that a ground needs. Times are ns of CLOCK_MONOTONIC, or durations."""

    graph: Graph
    rules: dict[str, list[str]]
    peers: dict[str, list[str]]
    ecn: bool
    sysctls: dict[str, str]
    seed: int
    t0_ns: int
    duration_ns: int
    interval_ns: int
    tcp_interval_ns: int
    programs: str
    openvswitch: str
    """Folder of Open vSwitch's programs."""
    disturb: str
    """A command run during set-up, to test whether set-up affects results. Empty: none."""
    execs: list[dict[str, Any]]
    """Programs to run in hosts (traffic/execs.py)."""
    agent: dict[str, Any] | None = None
    """A central agent's settings (episodes.AgentPlan). None: there is no agent."""
    nic: dict[str, Any] | None = None
    """The settings of the hosts' NICs (nics.NicPlan). None: the run has no NICs."""
    flow_rows: int = 0
    """Number of flows in the state matrix, for watchers. Under an agent the agent's settings give the number."""

    def write(self, path: Path) -> None:
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "graph"}
        path.write_text(json.dumps({"plan_version": PLAN_VERSION, "graph": self.graph.to_json(), **plain}))

    @classmethod
    def read(cls, path: Path) -> Plan:
        plain: dict[str, Any] = json.loads(path.read_text())
        if plain.pop("plan_version") != PLAN_VERSION:
            raise LabError(f"{path}: not a plan of version {PLAN_VERSION}")
        return cls(graph=Graph.from_json(plain.pop("graph")), **plain)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic that tgen runs."""

    flows: str
    """Name of the file with the flows, in the plan's folder."""
    seed: int
    duration_ns: int
    sample_ns: int
    """Time between samples that are kept, in ns. 0: none are kept."""
    publish_ns: int = 0
    """Time between updates of the flows in the state matrix, in ns. 0: updates only at their starts and ends."""
    nic: str = ""
    """Ids of the tables that the NICs share, as their loader prints them. Empty: there are none."""
    keep_pairs: bool = False
    """True if a flow keeps the state of the NICs' queue pair."""


class Site(Protocol):
    """The parts in which grounds differ. Everything else in this module is the same in each ground."""

    matrix: str
    """Path of the file or device that holds the state matrix."""

    virtual: bool
    """True if its clock is virtual. The network then waits for an agent."""

    quiet_ns: int
    """Time, in ns, that a network gets to come to rest after an episode."""

    qmon_options: tuple[str, ...]

    def fabric(self, plan: Plan, ovs: OpenVSwitchDaemons) -> Fabric:
        """Returns the network, not yet entered."""

    def name_hosts(self, graph: Graph, folder: Path) -> None:
        """Lets programs find the hosts by name.

        `folder` is the run's folder. It belongs to the user who may write there.
        """

    def agree_t0(self, plan: Plan, fabric: Fabric) -> int:
        """Returns the time at which traffic starts. It is called when the network stands and before programs are told."""

    def arm(self, t0_ns: int, seed: int | None = None) -> None:
        """Is called last before traffic. Raises an error if t0 is past.

        `seed` is the seed of randomness from then on; None means the run's.
        """

    def verdict(self, code: int, keeps: bool) -> int:
        """Returns what follows an episode that ended with this code of agentd's. `keeps` is True for a run."""

    def rest(self, fabric: Fabric, left: Callable[[], dict[str, int]]) -> dict[str, int]:
        """Lets at most quiet_ns pass after an episode's traffic was aborted. Returns what is then left of it."""

    def next_t0(self) -> int:
        """Returns the time at which the next episode's traffic starts.

        On a real clock it returns after the agent has asked for the episode.
        """

    def settle(self, fabric: Fabric, late_sweeps: int) -> None:
        """Is called when the traffic is over. Returns when the counters of all ports stand still, or will not."""

    def findings(self) -> dict[str, Any]:
        """Returns further findings for the run: `calibration` and `fidelity` for the manifest, `unfit` with reasons."""


class LabSite:
    """The site of a lab kernel: t0 is fixed, and time stands still while programs start."""

    matrix = LAB_DEVICE
    virtual = True
    quiet_ns = QUIET_NS
    qmon_options: tuple[str, ...] = ()

    def fabric(self, plan: Plan, ovs: OpenVSwitchDaemons) -> Fabric:
        from dc_gym.topologies.realize.fabric import Fabric

        return Fabric(plan.graph, plan.rules, ovs, plan.ecn, plan.peers, plan.sysctls)

    def name_hosts(self, graph: Graph, folder: Path) -> None:
        owner = folder.stat()
        etc.write(etc.names(graph) | etc.accounts(owner.st_uid, owner.st_gid))

    def agree_t0(self, plan: Plan, fabric: Fabric) -> int:
        return plan.t0_ns

    def arm(self, t0_ns: int, seed: int | None = None) -> None:
        """Lets the driver make the kernel's randomness at t0 a function of the seed alone."""
        with Path(LAB_DEVICE).open("wb", buffering=0) as device:
            if seed is not None:
                fcntl.ioctl(device, LAB_IOC_SEED, struct.pack("<Q", seed))
            try:
                fcntl.ioctl(device, LAB_IOC_AT_T0, struct.pack("<Q", t0_ns))
            except OSError as error:
                raise LabError(f"set-up was late: t0 = {t0_ns / 1e9:g} s is past ({error.strerror}); raise lab.t0") from error

    def verdict(self, code: int, keeps: bool) -> int:
        """Returns the agent's own answer."""
        return code

    def rest(self, fabric: Fabric, left: Callable[[], dict[str, int]]) -> dict[str, int]:
        time.sleep(self.quiet_ns / S)
        return left()

    def next_t0(self) -> int:
        """Returns a whole second."""
        return (time.monotonic_ns() // S + 2) * S

    def settle(self, fabric: Fabric, late_sweeps: int) -> None:
        """Does nothing: no counter moves, since computing takes no virtual time."""

    def findings(self) -> dict[str, Any]:
        return {}


def main(argv: Sequence[str] = sys.argv, site: Site | None = None) -> int:
    try:
        run(Path(argv[1]) / ".lab", site or LabSite())
    except TestbedError as error:
        print(f"ground: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


def run(folder: Path, site: Site) -> None:
    plan = Plan.read(folder / "plan.json")
    programs = Programs(Path(plan.openvswitch))
    os.environ.update(programs.environment())
    with ExitStack() as stack:
        phase("switches")
        ovs = stack.enter_context(OpenVSwitchDaemons(programs))
        phase("fabric")
        fabric = stack.enter_context(site.fabric(plan, ovs))
        site.name_hosts(plan.graph, folder.parent)
        phase("programs")
        t0_ns = site.agree_t0(plan, fabric)
        programs_in_hosts = stack.enter_context(Execs(execs.from_json(plan.execs), folder.parent, t0_ns))
        if plan.disturb:
            subprocess.run(plan.disturb, shell=True, check=True)
        if plan.agent is None:
            before, late_sweeps = _undirected(plan, folder, site, fabric, ovs, t0_ns)
        else:
            from dc_gym.grounds.guest import episodes

            before, late_sweeps = episodes.run(plan, folder, site, fabric, ovs, t0_ns)
        ends = programs_in_hosts.finish()
        site.settle(fabric, int(late_sweeps.removeprefix("late ") or 0))
        after = count(fabric)
        phase("counting")
        ovs.thaw()
        counts = {"t0_ns": t0_ns, "read_back": fabric.read_back(), "before": before, "after": after}
        counts |= {"losses": fabric.losses(), "exec": ends, **site.findings()}
        (folder / "ground.json").write_text(json.dumps(counts))


def _undirected(
    plan: Plan, folder: Path, site: Site, fabric: Fabric, ovs: OpenVSwitchDaemons, t0_ns: int
) -> tuple[dict[str, dict[str, int]], str]:
    """Runs the traffic of a run without an agent. Returns the counters before it, and qmon's last line."""
    with ExitStack() as stack:
        qmon = stack.enter_context(Program([*_qmon(plan, folder, site.matrix, t0_ns), *site.qmon_options], QMON_PRIORITY))
        qmon.expect_ready()  # tgen reads its matrix
        nicd = None if plan.nic is None else stack.enter_context(_nics(plan, folder, fabric, site, t0_ns))
        ids = "" if nicd is None else nicd.hear().removeprefix("ready ").replace(" ", ",")
        keep = plan.nic is not None and plan.nic["keep_pairs"]
        traffic = Traffic(FLOWS, plan.seed, plan.duration_ns, plan.tcp_interval_ns, plan.tcp_interval_ns, ids, keep)
        tgen = stack.enter_context(Program(tgen_argv(plan, folder, site.matrix, t0_ns, traffic), TGEN_PRIORITY))
        tgen.expect_ready()
        before = count(fabric)
        if not plan.execs:  # nobody knows in advance which flows a program will have: the switches must learn them
            ovs.freeze()
        fabric.impair(plan.seed, t0_ns)
        site.arm(t0_ns)
        phase("traffic")
        tgen.tell("go\n")
        tgen.expect_end()
        if nicd is not None:
            nicd.hang_up()
            nicd.expect_end()
        return before, qmon.expect_end()


def count(fabric: Fabric) -> dict[str, dict[str, int]]:
    """Returns every counter of every port at one instant of virtual time, by port name: the cable's and its queue's."""
    queues = {}
    for node in ("", *(host.name for host in fabric.graph.hosts)):
        queues[node] = tc.queue_counters(fabric.socket_of(node))
    hosts = {host.name for host in fabric.graph.hosts}
    ports = {}
    devices = fabric.devices()
    for port in fabric.graph.ports():
        device = devices[port.ifname]
        queue = queues[port.node if port.node in hosts else ""][device.ifindex]
        ports[port.ifname] = {
            **{name: getattr(device, name) for name in device.__slots__ if isinstance(getattr(device, name), int)},
            **{f"queue_{name}": value for name, value in asdict(queue).items()},
        }
    return ports


class Program:
    """tgen, qmon or another daemon as a child process: started, its output read, and always ended."""

    def __init__(self, argv: Sequence[str], priority: int) -> None:
        self._name = Path(argv[0]).name
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            os.sched_setscheduler(self._process.pid, os.SCHED_FIFO, os.sched_param(priority))
        except PermissionError as error:
            self.__exit__()
            raise FabricError(f"{self._name}: make it a real-time process: {error.strerror}; give CAP_SYS_NICE") from error

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def expect_ready(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line != b"ready\n":
            self.expect_end()
            raise FabricError(f"{self._name} said {line!r} where 'ready' was expected")

    def hear(self) -> str:
        """Returns the next line of its standard output, without the line end. Raises FabricError when it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self.expect_end()
            raise FabricError(f"{self._name} ended too early")
        return line.decode().strip()

    def stop(self, status: int) -> None:
        """Ends it by SIGTERM. `status` is the exit status that it then returns."""
        self._process.terminate()
        if (ended := self._process.wait()) != status:
            raise FabricError(f"{self._name} ended with status {ended} when it was stopped")

    def tell(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    def hang_up(self) -> None:
        """Closes its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def expect_end(self) -> str:
        """Waits for its end and returns its last line.

        If its status is not 0, its own line on standard error gives the reason.
        """
        assert self._process.stdout is not None
        said = self._process.stdout.read().decode().strip()
        status = self._process.wait()
        if status:
            raise FabricError(f"{self._name} ended with status {status}")
        return said


def tgen_argv(plan: Plan, folder: Path, matrix: str, t0_ns: int, traffic: Traffic) -> list[str]:
    """Returns the command that runs `traffic` from t0 on."""
    return [
        f"{plan.programs}/tgen", "--flows", str(folder / traffic.flows), "--out", str(folder),
        "--t0", str(t0_ns), "--duration", str(traffic.duration_ns), "--sample", str(traffic.sample_ns),
        "--publish", str(traffic.publish_ns), "--seed", str(traffic.seed), "--matrix", matrix,
        "--warm", "--warm-mask", str(PORT_MASK), *(("--nic", traffic.nic) if traffic.nic else ()),
        *(("--keep-pairs",) if traffic.keep_pairs else ()),
    ]  # fmt: skip


def _qmon(plan: Plan, folder: Path, matrix: str, t0_ns: int) -> list[str]:
    sweeps = plan.duration_ns // plan.interval_ns + 1
    return [
        f"{plan.programs}/qmon", "--ports", str(folder / PORTS), "--interval", str(plan.interval_ns),
        "--t0", str(t0_ns), "--count", str(sweeps), "--matrix", matrix, "--flow-rows", str(plan.flow_rows),
        "--trace", str(folder / "queues.trace"),
    ]  # fmt: skip


def _nics(plan: Plan, folder: Path, fabric: Fabric, site: Site, t0_ns: int) -> Program:
    """Makes every host's NIC and starts their loader."""
    assert plan.nic is not None
    nics.make(fabric, plan.nic["caps"])
    argv = [f"{plan.programs}/nicd", "--object", plan.nic["object"], "--nics", str(folder / NICS)]
    argv += ["--table", str(folder / NIC_TABLE)] if plan.nic["table"] else []
    if step_ns := plan.nic["step_ns"]:
        argv += ["--channel", site.matrix, "--t0", str(t0_ns), "--step", str(step_ns)]
    elif plan.nic["trace"]:
        argv += ["--trace", str(folder / DECISIONS), "--t0", str(t0_ns)]
    return Program(argv, NICD_PRIORITY)


def phase(name: str) -> None:
    print(f"::phase {name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
