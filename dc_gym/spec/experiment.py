# SPDX-License-Identifier: Apache-2.0
"""The whole experiment: the keys at the top of the file, and the sections below them."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.errors import WorkloadError
from dc_gym.base.key import (
    CODE_PATH,
    COUNT,
    MS,
    PATHS,
    TEXT,
    KeyFault,
    all_fields,
    check,
    declared_by,
    field_of,
    key,
    missing,
    to_plain,
    values_of,
)
from dc_gym.base.units import FRAME_BYTES, format_size
from dc_gym.ctrl import controllers
from dc_gym.ctrl.actuators import selection
from dc_gym.ctrl.actuators.selection import ActuatedPort
from dc_gym.spec.agent import AgentSpec
from dc_gym.spec.capture import CaptureSpec
from dc_gym.spec.episodes import EpisodesSpec, check_draws, drawn, with_values
from dc_gym.spec.events import EVENTS, EventSpec, changes, scaled_rate, sections
from dc_gym.spec.nic import FRAME_HEADERS_BYTES, RETRANSMITS, NicSpec
from dc_gym.spec.settings import ControllerSpec, HostSpec, KernelSpec, LabSpec, MetricsSpec, MonitorSpec, TimeSpec
from dc_gym.topologies import presets, telemetry
from dc_gym.topologies.balance import Balance, switches_of
from dc_gym.topologies.changes import RATE, Change, with_telemetry
from dc_gym.topologies.ecmp import hops_of, route
from dc_gym.topologies.graph import Graph
from dc_gym.topologies.telemetry import TELEMETRY_BYTES
from dc_gym.topologies.topology_spec import TopologySpec
from dc_gym.traffic import workloads
from dc_gym.traffic.execs import ExecRequest
from dc_gym.traffic.flows import NIC_TRANSPORTS, RDMA_PORT, FlowRequest
from dc_gym.traffic.sections import Section
from dc_gym.traffic.workload_spec import TrafficSpec, WorkloadSpec

SPEC_VERSION = 1
POLICY_COPY, NIC_POLICY_COPY = "policy.npz", "nic-policy.npz"
COPIES = {"controller.policy": POLICY_COPY, "nic.policy": NIC_POLICY_COPY}
"""The names of the copies that a result keeps of files whose keys are not declared as paths alone."""
DEFAULT_INTERVAL_NS = 10 * MS  # interval of the monitor
LARGEST_SEED = 2**63 - 1
CLOCKS = {"lab": "virtual", "host": "real"}
"""The grounds, and the clock of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The experiment: topology x workload x controller x ground and clock x seed."""

    spec_version: int = key(COUNT, SPEC_VERSION, help="major version of this format")
    name: str = key(TEXT, "experiment", otherwise="the file's name", help="title in plots and reports")
    seed: int = key(COUNT, 1, low=0, high=LARGEST_SEED, help="seed of all randomness")
    ground: str = key(
        TEXT,
        "lab",
        names=lambda: CLOCKS,
        help="where the network runs: `lab` (a kernel of its own, no root) or `host` (this machine's kernel, root: [the "
        "host ground](host.md))",
    )
    clock: str = key(TEXT, names=lambda: CLOCKS.values(), otherwise="the ground's", help="`virtual` in a lab, `real` on the host")
    plugins: tuple[Path, ...] = key(
        PATHS,
        (),
        otherwise="none",
        help="Python files, relative to the spec, that [register topologies, markings, workloads or "
        "controllers](extending.md), or [C sources of a TCP](own-cc.md); they run before the spec is read, and each "
        "result keeps them in `code/`",
    )
    events: tuple[EventSpec, ...] = key(
        EVENTS,
        (),
        otherwise="none",
        help="[failures and changes](events.md) while the run goes on: write `[[events]]`; in a lab only, but for those of the "
        "workload",
    )
    topology: TopologySpec
    controller: ControllerSpec
    agent: AgentSpec = field(default_factory=AgentSpec)
    nic: NicSpec = field(default_factory=NicSpec)
    workload: WorkloadSpec
    episodes: EpisodesSpec = field(default_factory=EpisodesSpec)
    time: TimeSpec
    monitor: MonitorSpec = field(default_factory=MonitorSpec)
    capture: CaptureSpec = field(default_factory=CaptureSpec)
    metrics: MetricsSpec = field(default_factory=MetricsSpec)
    lab: LabSpec = field(default_factory=LabSpec)
    kernel: KernelSpec = field(default_factory=KernelSpec)
    host: HostSpec = field(default_factory=HostSpec)

    def __post_init__(self) -> None:
        if missing(self, "clock"):
            object.__setattr__(self, "clock", CLOCKS.get(self.ground))
        if missing(self.monitor, "interval_ns"):
            object.__setattr__(self, "monitor", self.monitor.every(self._default_interval_ns()))
        object.__setattr__(self, "agent", self.agent.on(self.clock, self.topology.frame_bytes))
        object.__setattr__(self, "workload", self._with_transports())
        if self.controller.nic and missing(self.nic, "retransmit"):
            object.__setattr__(self, "nic", replace(self.nic, retransmit=RETRANSMITS[self.sprays]))
        check(self, "")
        if self.clock != CLOCKS[self.ground]:
            raise KeyFault("clock", self.clock, f'is not that of ground "{self.ground}"; give "{CLOCKS[self.ground]}"')
        check_version(self.spec_version)
        for section, traffic in self.workloads():
            if traffic.start_ns >= self.time.duration_ns:
                raise KeyFault(f"{section}.start", traffic.start_ns, "is not before time.duration; no flow would start")
        if self.monitor.interval_ns > self.time.duration_ns:
            raise KeyFault("monitor.interval", self.monitor.interval_ns, "is above time.duration; give a shorter one")
        if self.ground == "host" and self.topology.qdisc == "port" and self.host.links in ("netem", "tbf"):
            why = f'comes with the cable, and host.links is "{self.host.links}"; give "cable", or topology.qdisc = "stock"'
            raise KeyFault("topology.qdisc", "port", why)
        if self.ground == "host" and self.controller.tcp_sources:
            why = "is a TCP of your own, which is compiled for the lab's kernel; on ground \"host\" name one of this machine's"
            raise KeyFault("controller.name", self.controller.name, why)
        if self.ground == "host" and (known := controllers.find(self.controller.name)) and known.lab_only:
            raise KeyFault("controller.name", known.name, 'is a TCP of the lab\'s kernel alone; on ground "host" name another')
        if self.ground == "host" and self.kernel != KernelSpec():
            raise KeyFault("kernel", None, 'is about the kernel of a lab; give ground = "lab", or leave it out')
        if self.ground == "host" and self.controller.accecn:
            raise KeyFault("controller.accecn", True, 'needs the kernel of a lab; give ground = "lab", or leave it out')
        if self.ground == "host" and self.monitor.records_acks:
            raise KeyFault("monitor.tcp", "acks", 'needs the kernel of a lab; give ground = "lab", or leave it out')
        self._check_fabric()
        self._check_agent()
        self._check_nic()
        self._check_metrics()
        self._check_events()

    def _check_fabric(self) -> None:
        """Raises KeyFault for classes, shared buffers and another MTU on the host ground, where they were never run."""
        shared = {
            "classes": self.topology.classes,
            "shared_buffer": self.topology.shared_buffer_bytes,
            "mtu": self.topology.frame_bytes != FRAME_BYTES,
            "balance": self.topology.balances,
            "balance_weights": self.topology.weighs_rates,
            "trim": self.topology.trim_bytes,
        }
        fabric_key = next((name for name, value in shared.items() if value), None)
        if self.ground == "host" and fabric_key:
            raise KeyFault(f"topology.{fabric_key}", None, 'is for switch ports of a lab; give ground = "lab", or leave it out')
        self._check_one_path()
        self._check_trim()

    def _check_trim(self) -> None:
        """Raises KeyFault where frames that ports trim would not be sent again at once."""
        size = self.topology.trim_bytes
        if size is None:
            return
        if not self.rdma:
            why = "cuts frames of RDMA, and no flow goes over it; name an algorithm of the NICs such as dcqcn, or leave it out"
            raise KeyFault("topology.trim", format_size(size), why)
        if self.nic.retransmit != "selective":
            why = 'cannot go with topology.trim, whose frames are sent again one by one; give "selective"'
            raise KeyFault("nic.retransmit", self.nic.retransmit, why)
        if size < self.frame_headers_bytes:
            why = f"is below {self.frame_headers_bytes} B, the headers of a frame with telemetry; give that or more"
            raise KeyFault("topology.trim", format_size(size), why)

    def _check_one_path(self) -> None:
        """Raises KeyFault where switches balance or NICs spray, and something needs all frames of a flow to take one path."""
        if not self.topology.balances and not self.sprays:
            return
        name, value = ("topology.balance", self.topology.balance) if self.topology.balances else ("workload.transport", "uec")
        if self.controller.telemetry:
            why = f"cannot go with {self.controller.name!r}, which reads the telemetry of one path; give another controller"
            raise KeyFault(name, value, why)
        if self.metrics.slowdown == "closed-form":
            why = f"is the time over one path, and {name} takes several; give measured, or off"
            raise KeyFault("metrics.slowdown", self.metrics.slowdown, why)

    def _check_agent(self) -> None:
        interval_ns, agent = self.monitor.interval_ns, self.agent
        if self.controller.policy is None:
            return
        if self.ground == "host":
            agent.check_real()
        if agent.interval_ns % interval_ns:
            raise KeyFault("agent.interval", agent.interval_ns, "is not a multiple of monitor.interval; give one")
        if self.time.duration_ns % agent.interval_ns:
            raise KeyFault("agent.interval", agent.interval_ns, "does not divide time.duration; change one of them")

    def _with_transports(self) -> WorkloadSpec:
        """Returns the workload, and those beside it, with the transports that the file leaves out."""
        of_nic = "uec" if self.controller.sprayed else "rdma"
        transport = of_nic if self.rdma else "tcp"

        def named(traffic: Any) -> Any:
            return replace(traffic, transport=transport) if missing(traffic, "transport") else traffic

        beside = self.workload.beside
        workload: WorkloadSpec = named(self.workload)
        return replace(workload, beside=None if beside is None else tuple(map(named, beside)))

    def workloads(self) -> Iterator[tuple[str, TrafficSpec]]:
        """Yields all workloads in the order of their numbers, each with its section in the file."""
        for number, traffic in enumerate(self.workload.all):
            yield f"workload.beside[{number - 1}]" if number else "workload", traffic

    def _check_nic(self) -> None:
        name = self.controller.name
        for section, traffic in self.workloads():
            if why := self._why_no_transport(str(traffic.transport)):
                raise KeyFault(f"{section}.transport", traffic.transport, why)
        self._check_sprayed()
        if not self.controller.nic:
            for key, tcp in (("nic.tcp", self.nic.tcp), ("controller.tcp", self.controller.tcp)):
                if tcp is not None:
                    raise KeyFault(key, tcp, f"needs an algorithm of the NICs, and controller.name is {name!r}; leave it out")
            return
        if self.workload.exec:
            raise KeyFault("workload.exec", None, f"programs cannot go with {name!r}, which the NICs run; leave out one")
        payload, room = self.nic.payload_bytes, self.topology.frame_bytes - self.frame_headers_bytes
        if payload is not None and payload > room and payload != room + self.telemetry_bytes:
            beside = f" beside the telemetry of {name!r}" if self.telemetry_bytes else ""
            why = f"is above {room} B, for which a frame has room{beside}; give that or less, or a larger topology.mtu"
            raise KeyFault("nic.payload", payload, why)
        if self.nic.tcp is not None:
            self._check_capped(self.nic.tcp)

    def _why_no_transport(self, transport: str) -> str:
        """Returns why no flow of the run can use a transport, and the remedy; '' if flows can."""
        name = self.controller.name
        if not self.controller.nic and transport in NIC_TRANSPORTS:
            return f"needs an algorithm of the NICs, and controller.name is {name!r}; give one such as dcqcn, or leave it out"
        if self.nic.tcp is not None and transport in NIC_TRANSPORTS:
            return f"cannot go with nic.tcp = {self.nic.tcp!r}, whose flows are TCP; leave out one"
        if self.rdma and self.controller.tcp is None and transport == "tcp":
            return f"needs controller.tcp beside {name!r}, which the NICs run; give one such as cubic, or leave it out"
        if transport == "uec" and not self.sprays:
            return "is chosen for all flows of the NICs by workload.transport; give it there"
        return ""

    def _check_sprayed(self) -> None:
        """Raises KeyFault where keys do not go with transport uec, or have no effect without it."""
        name = self.controller.name
        if not self.sprays:
            for key_name, value in (("balancer", self.nic.balancer), ("entropies", self.nic.entropies)):
                if value is not None:
                    raise KeyFault(f"nic.{key_name}", value, 'needs workload.transport = "uec"; give that, or leave it out')
            if self.controller.sprayed and self.nic.tcp is None:
                why = 'reads what ACKs tell over uec alone; give workload.transport = "uec", or another algorithm'
                raise KeyFault("controller.name", name, why)
            return
        if self.ground == "host":
            raise KeyFault("workload.transport", "uec", 'was never run in this machine\'s kernel; give ground = "lab"')
        if self.nic.retransmit != "selective":
            why = 'cannot go with uec, whose packets come in any order; give "selective"'
            raise KeyFault("nic.retransmit", self.nic.retransmit, why)

    def _check_capped(self, tcp: str) -> None:
        qdisc = self.topology.host_qdisc
        if self.controller.tcp is not None:
            raise KeyFault(
                "controller.tcp", self.controller.tcp, "cannot go with nic.tcp, which names the flows' TCP; leave out one"
            )
        if self.nic.inflight_bytes is not None:
            raise KeyFault("nic.inflight", None, "cannot go with nic.tcp, whose windows are TCP's; leave out one")
        if self.ground == "host":
            raise KeyFault("nic.tcp", tcp, 'cannot go with ground "host", whose hosts have queues of their own; give "lab"')
        if qdisc not in (None, "fq"):
            raise KeyFault(
                "topology.host_qdisc", qdisc, 'keeps no departure times, which nic.tcp needs; leave it out, or give "fq"'
            )

    def _default_interval_ns(self) -> int:
        longest = DEFAULT_INTERVAL_NS if self.controller.policy is None else self.agent.interval_ns
        return min(longest, DEFAULT_INTERVAL_NS, self.time.duration_ns)

    @property
    def rdma(self) -> bool:
        """True if flows go over RDMA: all, or the flows that name no other transport."""
        return self.controller.nic and self.nic.tcp is None

    @property
    def sprays(self) -> bool:
        """True if the NICs' flows go over uec, each by many paths."""
        return any(traffic.transport == "uec" for _, traffic in self.workloads())

    @property
    def telemetry_bytes(self) -> int:
        """The bytes of telemetry in each packet of a NIC's flow."""
        return TELEMETRY_BYTES if self.controller.telemetry else 0

    @property
    def frame_headers_bytes(self) -> int:
        """The bytes of a packet over RDMA that are no payload."""
        return FRAME_HEADERS_BYTES + self.telemetry_bytes

    @property
    def payload_bytes(self) -> int:
        """The payload of a full packet over RDMA: `nic.payload`, or the room of a full frame."""
        room = self.topology.frame_bytes - self.frame_headers_bytes
        return room if self.nic.payload_bytes is None else min(self.nic.payload_bytes, room)

    @property
    def tcp_name(self) -> str:
        """The value of TCP_CONGESTION."""
        known = controllers.find(self.nic.tcp) if self.nic.tcp else self.controller.beside
        return known.kernel_name if known else self.controller.kernel_name

    @property
    def tcp_ecn(self) -> bool:
        """True if the hosts' TCP uses ECN. TCP under a NIC does not: the NIC reads the marks."""
        if self.controller.beside is not None:
            return self.controller.beside.ecn
        return self.controller.controller.ecn and self.nic.tcp is None

    @property
    def steps(self) -> int:
        """The number of the agent's steps in the whole of time.duration."""
        return self.time.duration_ns // self.agent.interval_ns

    def drawn(self, seed: int) -> dict[str, Any]:
        """Returns the values that an episode of that seed draws, by their keys, as a file would give them."""
        return drawn(self, seed)

    def episode(self, seed: int) -> Spec:
        """Returns the spec with the values that an episode of that seed draws. Nothing else changes, also not its own seed."""
        return with_values(self, self.drawn(seed)) if self.episodes.draw else self

    def as_run(self) -> Spec:
        """Returns the spec of a run: the episode of its own seed. Of such a spec it returns an equal one."""
        seed = self.episodes.seed_of(self.seed)
        return self.episode(seed) if seed == self.seed else replace(self, seed=seed).episode(seed)

    def check_episodes(self, graph: Graph) -> None:
        """Raises KeyFault if an episode could not be drawn on the network, which is as `graph()` returns it."""
        if self.episodes.draw:  # all keys are those of all kinds, which no other spec loads
            check_draws(self, graph, keys())

    def _check_metrics(self) -> None:
        cutoff, interval, time = self.metrics.cutoff_ns, self.metrics.rate_interval_ns, self.time
        if cutoff is not None and not time.warmup_ns < cutoff <= time.duration_ns:
            raise KeyFault("metrics.cutoff", cutoff, "is not after time.warmup and up to time.duration; give a time between them")
        if interval is not None and interval > time.duration_ns:
            raise KeyFault("metrics.rate_interval", interval, "is above time.duration; give a shorter one")

    def _check_events(self) -> None:
        for number, event in enumerate(self.events):
            section = f"events[{number}]"
            if event.at_ns >= self.time.duration_ns:
                raise KeyFault(f"{section}.at", event.at_ns, "is not before time.duration; it would never happen")
            if event.reroute_ns is not None:
                self._check_reroute(section, event.at_ns + event.reroute_ns, event.reroute_ns)
            if event.workload is None and self.ground != "lab":
                target = "link" if event.link else "port"
                raise KeyFault(f"{section}.{target}", None, f'cannot change on ground "{self.ground}"; give ground = "lab"')

    def _check_reroute(self, section: str, at_ns: int, reroute_ns: int) -> None:
        why = ""
        if at_ns >= self.time.duration_ns:
            why = "ends after time.duration; give a shorter one"
        elif self.controller.policy is not None:
            why = "cannot go with a controller.policy, whose episodes share the switches' rules; leave out one"
        elif self.workload.exec:
            why = "cannot go with programs, whose flows nobody knows in advance; leave out one"
        if why:
            raise KeyFault(f"{section}.reroute", reroute_ns, why)

    def changes(self, graph: Graph) -> tuple[Change, ...]:
        """Returns the changes of the network that the events make, in the order of their times."""
        network_changes = changes(self.events, graph, self.topology.scale or 1)
        if self.controller.telemetry:
            network_changes = tuple(with_telemetry(network_changes, graph))
        hosts = {host.name for host in graph.hosts}
        for edit in network_changes:
            if not any(name == RATE for name, _ in edit.values) or not self.controller.nic:
                continue
            if graph.port(edit.port).node in hosts:
                why = (
                    f"the NIC at {edit.port} sends at its line rate, which is fixed; name another link, or the port of the switch"
                )
                raise KeyFault(f"events[{edit.event}].rate", None, why)
        return network_changes

    @property
    def later_rates_bps(self) -> frozenset[int]:
        """The rates that links get by events."""
        rates = (event.rate_bps for event in self.events)
        return frozenset(scaled_rate(rate_bps, self.topology.scale or 1) for rate_bps in rates if rate_bps is not None)

    def graph(self) -> Graph:
        """Returns the network. Under an agent it has the qdiscs that the actuators need."""
        topology = self.topology
        if self.nic.tcp is not None:
            topology = replace(topology, host_qdisc="fq")  # fq keeps departure times
        if topology.qdisc is None:
            topology = replace(topology, qdisc="port" if self.ground == "lab" else "stock")
        graph = presets.build(topology, self.controller.ecn)
        graph = telemetry.equipped(graph, self.later_rates_bps) if self.controller.telemetry else graph
        return graph if self.controller.policy is None else selection.equipped(self.agent.sets, graph, self.agent)

    def balance(self, graph: Graph) -> dict[str, Balance]:
        """Returns the switches that balance, and how."""
        if not self.topology.balances:
            return {}
        named = switches_of(graph, self.topology.balance_at)
        able = {switch for switch, numbers in hops_of(route(graph, self.seed)) if len(numbers) > 1}
        if not named & able:
            why = "has no effect: none of its switches has equal next hops; leave it out, or add paths"
            raise KeyFault("topology.balance", self.topology.balance, why)
        return dict.fromkeys(sorted(named & able), self.topology.balancing)

    def actuated(self, graph: Graph) -> tuple[ActuatedPort, ...]:
        """Returns the rows that an agent may set, in the order of its commands; none without an agent."""
        if self.controller.policy is None:
            return ()
        ports = selection.select(self.agent.sets, graph, self.agent, self.ground, lambda: self.tcp_flows(graph))
        for port in ports:
            if port.actuator.tcp not in ("", self.tcp_name):
                why = f"has a window of its own, and agents set {port.actuator.name}"
                raise KeyFault("controller.name", self.controller.name, f'{why}; give "{port.actuator.tcp}", or set clamp')
        if self.nic.tcp is not None and any(port.port.queue.kind != "fq" for port in ports if port.actuator.ports == "host"):
            why = "needs fq at the hosts, which agent.actuators replaces; set ports of switches alone, or leave it out"
            raise KeyFault("nic.tcp", self.nic.tcp, why)
        if self.controller.tcp is not None and any(port.actuator.ports == "host" for port in ports):
            why = "cannot go with agents that set hosts' ports, whose queues the NICs do not know; set ports of switches alone"
            raise KeyFault("controller.tcp", self.controller.tcp, why)
        if self.agent.control == "network":
            for port in ports:
                if port.actuator.ports != "host" or len(port.bounds) != 1:
                    why = f"control packets go to hosts and carry one value, and {port.actuator.name!r} has other ports or more"
                    raise KeyFault("agent.control", "network", f"{why}; leave it out")
        return ports

    def tcp_flows(self, graph: Graph) -> int:
        """Returns the number of all flows; 0 if none is of TCP."""
        flows = self.flows(graph)
        return len(flows) if any(flow.transport == "tcp" for flow in flows) else 0

    def flows(self, graph: Graph) -> list[FlowRequest]:
        """Returns the flows in the order of their numbers."""
        return self.flows_with_notes(graph)[0]

    def code(self) -> tuple[Path, ...]:
        """The user's files of code that belong to this spec."""
        known = controllers.find(self.controller.name)
        header = known.header if known else None
        tcp = [path for path in self.controller.tcp_sources if path not in self.plugins]
        files = [path for section, name, path in self.paths() if self._field(section, name).metadata["kind"] is CODE_PATH]
        others = [Path(path) for path in (header, self.controller.policy_code) if path is not None]
        return (*self.plugins, *files, *others, *tcp, *self.kernel.patch)

    def flows_with_notes(
        self, graph: Graph, seed: int | None = None, *, may_be_idle: bool = False
    ) -> tuple[list[FlowRequest], dict[str, Any]]:
        """Returns the flows, and the workload's notes about itself.

        Args:
            graph: The network, as `graph()` returns it.
            seed: The seed of the flows; None: the spec's own.
            may_be_idle: It is no error if the seed gives no flow at all.

        Raises:
            WorkloadError: The workload cannot run on this network.
        """
        seed = self.seed if seed is None else seed
        phases, beside, duration_ns = self.sections(), self.workload.all[1:], self.time.duration_ns
        flows, notes = workloads.generate_side_by_side(graph, phases, beside, duration_ns, seed, may_be_idle=may_be_idle)
        for number, flow in enumerate(flows):
            if why := self._why_no_transport(str(flow.transport)) or self._why_no_port(flow):
                raise WorkloadError(f"flow {number}, {flow.src} to {flow.dst}, over {flow.transport}: {why}")
        if self.rdma and flows and not may_be_idle:
            self._check_used({str(flow.transport) for flow in flows})
        return [flow.over_nic() if flow.by_nic else flow for flow in flows], notes

    def sections(self) -> tuple[Section, ...]:
        """Returns the phases of the workload, in the order of their times."""
        return sections(self.events, self.workload)

    def _why_no_port(self, flow: FlowRequest) -> str:
        """Returns why a flow cannot go to its port, and the remedy; '' if it can."""
        if self.rdma and flow.transport == "udp" and flow.dst_port == RDMA_PORT:
            return f"port {RDMA_PORT} is that of the NICs; give another one"
        return ""

    def _check_used(self, transports: set[str]) -> None:
        """Raises KeyFault if no flow uses a controller that the spec names."""
        name, tcp = self.controller.name, self.controller.tcp
        if set(NIC_TRANSPORTS) <= transports:
            why = "cannot go beside rdma: the NICs use one transport; give one of them"
            raise KeyFault("workload.transport", "uec", why)
        if transports.isdisjoint(NIC_TRANSPORTS):
            raise KeyFault(
                "controller.name", name, "is run by the NICs, and no flow goes over rdma; name a TCP, or add such flows"
            )
        if tcp is not None and "tcp" not in transports:
            raise KeyFault("controller.tcp", tcp, "has no effect: no flow goes over tcp; leave it out, or add such flows")

    def execs(self, graph: Graph) -> list[ExecRequest]:
        """Returns the programs to run in hosts."""
        return [program.request(graph, self.time.duration_ns) for program in self.workload.exec or ()]

    def copies(self) -> dict[str, Path]:
        """The files that this spec reads, by the names of their copies in a result."""
        paths = ((self._copy(section, name, path), path) for section, name, path in self.paths())
        return {copy: path for copy, path in paths if not copy.startswith(f"{usercode.CODE}/")}

    def foreign_files(self, kinds: Container[str] = ("file", "job")) -> Iterator[tuple[str, Path]]:
        """Yields the files of other tools that the spec reads, each with its section, for sections of these kinds."""
        sections = {"topology": self.topology} | dict(self.workloads())
        for section, name, path in self.paths():
            if name == "file" and section in sections and sections[section].kind in kinds:
                yield section, path

    def paths(self) -> Iterator[tuple[str, str, Path]]:
        """Yields the keys whose value is a file: section, name, and path. The plug-ins are not among them."""
        sections = {section: getattr(self, section) for section in filter(None, SECTIONS)} | dict(self.workloads())
        for section, values in sections.items():
            for name, value in values_of(values).items():
                if isinstance(value, Path):
                    yield section, name, value

    def _field(self, section: str, name: str) -> Any:
        beside = dict(self.workloads()).get(section)
        return field_of(getattr(self, section) if beside is None else beside, name)

    def _copy(self, section: str, name: str, path: Path) -> str:
        """Returns the name of the copy that a result keeps of the file of a key."""
        metadata = self._field(section, name).metadata
        if metadata["kind"] is CODE_PATH:
            return f"{usercode.CODE}/{path.name}"
        copy = str(metadata["copy"] or COPIES.get(f"{section}.{name}") or f"{section.partition('.')[0]}-{name}{path.suffix}")
        return f"beside-{number}-{copy}" if (number := section.partition("[")[2].rstrip("]")) else copy

    def to_dict(self, *, copied: bool = False) -> dict[str, Any]:
        """Returns the keys as a file would give them. `from_dict` reads them back.

        Defaults are filled in, and keys without a value are left out. With `copied`, paths lead to the copies that a result
        keeps.
        """
        plain: dict[str, Any] = {}
        for section, cls in SECTIONS.items():
            if (
                section == "agent"
                and self.controller.policy is None
                and self.agent == AgentSpec().on(self.clock, self.topology.frame_bytes)
            ):
                continue  # the key has no value
            if section == "nic" and not self.controller.nic and self.nic == NicSpec():
                continue
            if (section == "capture" and not self.capture.ports) or (section == "kernel" and not self.kernel.patch):
                continue
            if section == "episodes" and self.episodes == EpisodesSpec():
                continue
            values = to_plain(getattr(self, section) if section else self, cls)
            plain |= {section: values} if section else values
        if copied:
            tables = plain | {
                f"workload.beside[{number}]": table for number, table in enumerate(plain["workload"].get("beside", ()))
            }
            for section, name, path in self.paths():
                if section in tables:
                    tables[section][name] = self._copy(section, name, path)
            plain["plugins"] = [f"{usercode.CODE}/{path.name}" for path in self.plugins]
            if self.kernel.patch:
                plain["kernel"]["patch"] = [f"{usercode.CODE}/{path.name}" for path in self.kernel.patch]
            if file := self.controller.policy_code:
                plain["controller"]["policy"] = f"{usercode.CODE}/{file.name}:{str(self.controller.policy).rpartition(':')[2]}"
        if not self.plugins:
            del plain["plugins"]
        if not self.events:
            del plain["events"]
        return plain

    def to_json(self) -> str:
        """Returns the one canonical text of this spec: sorted keys, no spaces."""
        return json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)


SECTIONS: dict[str, type] = {
    "": Spec,
    "topology": TopologySpec,
    "controller": ControllerSpec,
    "agent": AgentSpec,
    "nic": NicSpec,
    "workload": WorkloadSpec,
    "episodes": EpisodesSpec,
    "time": TimeSpec,
    "monitor": MonitorSpec,
    "capture": CaptureSpec,
    "metrics": MetricsSpec,
    "lab": LabSpec,
    "kernel": KernelSpec,
    "host": HostSpec,
}


def keys() -> tuple[str, ...]:
    """Returns every key, dotted, including keys of registered kinds, in the order of declaration."""
    return tuple(f"{section}.{name}" if section else name for section, cls in SECTIONS.items() for name in all_fields(cls))


def unit_of(key: str) -> str:
    """Returns the end of the internal name of a key's quantity, such as '_bps', or '' for a key without unit."""
    key_field = field_of_key(key)
    return "" if key_field is None else str(key_field.metadata["kind"].unit)


def field_of_key(key: str, table: Mapping[str, Any] | None = None) -> Any:
    """Returns the field that declares a dotted key; None: no such key.

    Args:
        key: The key.
        table: Its section. Of several kinds that declare the key, the one that it chooses counts, otherwise the first.
    """
    section, _, name = key.rpartition(".")
    return declared_by(SECTIONS[section], name, table or {}) if section in SECTIONS else None


def check_version(version: Any) -> None:
    """Raises SpecError unless a spec has the version that this dc-gym reads."""
    if type(version) is not int or version != SPEC_VERSION:
        remedy = "upgrade dc-gym" if type(version) is int and version > SPEC_VERSION else f"write spec_version = {SPEC_VERSION}"
        raise KeyFault("spec_version", version, f"this version reads {SPEC_VERSION}; {remedy}")
