# SPDX-License-Identifier: Apache-2.0
"""The sections beside network and traffic: `[controller]`, `[time]`, `[monitor]`, `[metrics]`, `[lab]`, `[kernel]`, `[host]`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dc_gym.base import usercode
from dc_gym.base.key import (
    COUNT,
    FLAG,
    KIB,
    MIB,
    MS,
    NUMBERS,
    PATHS,
    POLICY,
    SIZE,
    TEXT,
    TIME,
    US,
    Get,
    KeyFault,
    S,
    check,
    key,
    missing,
    own_keys,
    require_given,
)
from dc_gym.ctrl import controllers, policies
from dc_gym.ctrl.controllers import Controller
from dc_gym.topologies.waits import LAB_T0_NS
from dc_gym.traffic.flows import FlowRequest

SLOWDOWNS = ("auto", "measured", "closed-form", "off")
LINKS = ("auto", "cable", "netem", "tbf")
EVENT_LOOP = ("on", "off")
NODE_BYTES = 256  # of memory for a node of a job beyond the first 2^20; measured: 140
TCP_RECORDS = ("samples", "acks")
ACCECN = "3"
"""net.ipv4.tcp_ecn by which a host asks for accurate ECN and grants it."""
NO_UNREACHABLE = {"net/ipv4/icmp_ratelimit": str(24 * 3600 * 1000)}
"""A host does not answer packets for which it has no socket: the first answer comes after so many ms.

Packets of a NIC still arrive when the NICs have ended. Switches with several paths have no rule for answers, which have no ports,
and a run in which they lose frames is unfit.
"""
UNDER_AGENT = "cubic"
"""The TCP below an agent if the spec names none: Linux' default, as in the thesis."""


def _tcps() -> tuple[str, ...]:
    known = [controller for name in controllers.names() if (controller := controllers.find(name))]
    return tuple(controller.name for controller in known if not controller.nic)


def _policies(get: Get) -> tuple[str, ...]:
    """Returns the policy that a section names."""
    return (str(get("policy") or "none"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSpec:
    """`[controller]`: the congestion control."""

    name: str = key(
        TEXT,
        names=controllers.names,
        help="TCP congestion control; or an algorithm of the hosts' NICs, over RDMA ([`dcgym nic list`](nic.md))",
    )
    policy: str | Path | None = key(
        POLICY,
        otherwise="none",
        help="agents that [set something](environment.md#actuators) on top of that TCP (then `cubic` by default) or NIC: `max` "
        "(changes nothing), `random`, `fair-share` (an oracle), a [policy file](policy-file.md), `module:Class`, "
        "`file.py:Class`, or a [plug-in](extending.md#a-policy)",
    )
    own: tuple[tuple[str, Any], ...] = own_keys(policies.KINDS, _policies)
    tcp: str | None = key(
        TEXT,
        names=_tcps,
        otherwise="none",
        help="the hosts' TCP of flows with transport `tcp`, [beside RDMA](nic.md#tcp-beside-rdma); only with an algorithm of the "
        "NICs as `name`",
    )
    rto_min_ns: int | None = key(
        TIME,
        name="rto_min",
        low=1 * MS,
        high=120 * S,
        otherwise="the kernel's, 200 ms",
        help="TCP's minimum retransmission timeout (net.ipv4.tcp_rto_min_us of every host); the maximum delayed-ACK time "
        "stays 1 ms below it",
    )
    accecn: bool = key(
        FLAG,
        False,
        help="the hosts' TCP tells its peer how many packets and bytes were marked (AccECN, RFC 9768), in place of the flag of"
        " RFC 3168; only with a TCP that reads ECN",
    )

    def __post_init__(self) -> None:
        if missing(self, "name") and self.policy is not None:
            object.__setattr__(self, "name", UNDER_AGENT)
        require_given(self, "controller.", "name")
        check(self, "controller.")
        tcp = self.beside if self.nic else self.controller
        if self.accecn and not (tcp is not None and tcp.ecn):
            tcp_text = "no TCP" if tcp is None else f"{tcp.name!r}, which does not read ECN"
            raise KeyFault("controller.accecn", True, f"cannot go with {tcp_text}; leave it out, or give a TCP such as dctcp")

    @property
    def policy_code(self) -> Path | None:
        """The file of a policy FILE.py:Class; None for other policies."""
        file, colon, _ = str(self.policy).rpartition(":")
        return Path(file) if colon and file.endswith(usercode.SUFFIX) else None

    @property
    def controller(self) -> Controller:
        """Returns the registered controller of that name."""
        controller = controllers.find(self.name)
        assert controller is not None, "checked at construction"
        return controller

    @property
    def kernel_name(self) -> str:
        """The controller's name for TCP_CONGESTION."""
        return self.controller.kernel_name

    @property
    def nic(self) -> bool:
        """True if the controller runs in the hosts' NICs."""
        return self.controller.nic

    @property
    def beside(self) -> Controller | None:
        """The TCP beside RDMA; None if there is none."""
        return None if self.tcp is None else controllers.find(self.tcp)

    @property
    def tcp_sources(self) -> tuple[Path, ...]:
        """The sources of TCPs that the lab kernel does not have."""
        return (*self.controller.tcp, *(self.beside.tcp if self.beside else ()))

    @property
    def ecn(self) -> bool:
        """True if the controller reads ECN, or the TCP beside it."""
        return self.controller.ecn or (self.beside is not None and self.beside.ecn)

    @property
    def telemetry(self) -> bool:
        """True if the controller reads the telemetry that switch ports write into packets."""
        return self.controller.telemetry

    @property
    def sprayed(self) -> bool:
        """True if the controller reads what ACKs tell over transport uec alone."""
        return self.controller.sprayed

    @property
    def sysctls(self) -> dict[str, str]:
        """The settings of every host's kernel, by path below /proc/sys."""
        rto = {} if self.rto_min_ns is None else {"net/ipv4/tcp_rto_min_us": str(self.rto_min_ns // US)}
        accecn = {"net/ipv4/tcp_ecn": ACCECN} if self.accecn else {}
        return rto | accecn | (NO_UNREACHABLE if self.nic else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpec:
    """`[time]`: the time of traffic, counted from t0."""

    duration_ns: int = key(TIME, name="duration", low=1, help="how long traffic runs (virtual time in a lab)")
    warmup_ns: int = key(TIME, 0, name="warmup", low=0, help="start of the run that metrics leave out; less than the duration")

    def __post_init__(self) -> None:
        require_given(self, "time.", "duration")
        check(self, "time.")
        if self.warmup_ns >= self.duration_ns:
            raise KeyFault("time.warmup", self.warmup_ns, "is not below time.duration; nothing would be left to measure")


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorSpec:
    """`[monitor]`: how often queues and TCP are sampled."""

    interval_ns: int = key(
        TIME,
        name="interval",
        low=10 * US,
        otherwise='`"10ms"`, `agent.interval` if shorter',
        help="time between two samples (sweeps) of all queues",
    )
    tcp_interval_ns: int = key(
        TIME, name="tcp_interval", low=10 * US, otherwise="`interval`", help="time between two samples of `TCP_INFO`"
    )
    tcp: str | None = key(
        TEXT,
        names=lambda: TCP_RECORDS,
        otherwise="`samples`",
        help="`acks`: beside the samples, a record of each ACK that a sender gets, in `acks.parquet`; only in a lab",
    )
    tcp_flows: tuple[int, ...] | None = key(
        NUMBERS, otherwise="all", help='with `tcp = "acks"`: the flows whose ACKs are recorded, by their numbers in `flows`'
    )

    def __post_init__(self) -> None:
        if missing(self, "tcp_interval_ns"):
            object.__setattr__(self, "tcp_interval_ns", self.interval_ns)
        check(self, "monitor.")
        if self.tcp_flows is not None and not self.records_acks:
            raise KeyFault("monitor.tcp_flows", list(self.tcp_flows), 'has no effect without monitor.tcp = "acks"; give that')

    @property
    def records_acks(self) -> bool:
        """True if the run records ACKs."""
        return self.tcp == "acks"

    def traced(self, requests: Iterable[FlowRequest]) -> frozenset[int]:
        """Returns the numbers of the flows whose ACKs are recorded. Raises KeyFault for one that is not there, or has no TCP."""
        transports = [request.transport for request in requests] if self.records_acks else []
        over_tcp = frozenset(number for number, transport in enumerate(transports) if transport == "tcp")
        if self.records_acks and not over_tcp:
            raise KeyFault("monitor.tcp", self.tcp, "has no effect: the workload has no flow over tcp; leave it out")
        for number in self.tcp_flows or ():
            if number >= len(transports):
                why = f"there is no flow {number}; the workload's are 0 .. {len(transports) - 1}"
                raise KeyFault("monitor.tcp_flows", list(self.tcp_flows or ()), why)
            if number not in over_tcp:
                why = f"flow {number} goes over {transports[number]}; name flows over tcp"
                raise KeyFault("monitor.tcp_flows", list(self.tcp_flows or ()), why)
        return over_tcp if self.tcp_flows is None else frozenset(self.tcp_flows)

    def every(self, interval_ns: int) -> MonitorSpec:
        """Returns the section with this interval where the spec gives none."""
        tcp_interval_ns = None if missing(self, "tcp_interval_ns") else self.tcp_interval_ns
        return replace(self, interval_ns=interval_ns, tcp_interval_ns=tcp_interval_ns or interval_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSpec:
    """`[metrics]`: how a run's tables become numbers."""

    slowdown: str = key(
        TEXT,
        "auto",
        names=lambda: SLOWDOWNS,
        help="[ideal completion time](results.md#ideal-completion-time) of a flow: `measured` on the idle network, "
        "`closed-form`, or `off`; `auto`: measured on virtual time, closed form on real time",
    )
    cutoff_ns: int | None = key(
        TIME,
        name="cutoff",
        low=1,
        otherwise="duration",
        help="flows that start from then on do not count for completion times and slowdown; the rest of the duration lets "
        "the others finish",
    )
    rate_interval_ns: int | None = key(
        TIME,
        name="rate_interval",
        low=10 * US,
        otherwise="duration / 200",
        help="averaging interval of rates for convergence and reaction times; at least `monitor.tcp_interval`",
    )
    within_percent: int = key(
        COUNT, 20, name="within", low=1, high=99, help="percent of its fair share within which a flow's rate counts as there"
    )

    def __post_init__(self) -> None:
        check(self, "metrics.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabSpec:
    """`[lab]`: the lab kernel."""

    memory_bytes: int | None = key(
        SIZE,
        name="memory",
        low=64 * MIB,
        otherwise="by hosts",
        help="memory of the lab; the default is 512 MiB, plus half a MiB for each host above 256, 8 KiB for each path of "
        "flows above 8192, and 4 KiB for each flow over RDMA above 2048 ([scale](scale.md))",
    )
    clock_read_ns: int = key(
        TIME,
        25,
        name="clock_read",
        low=1,
        high=1 * MS,
        help="virtual time that a process' clock read costs (at 0 a loop that waits for time to pass would never end)",
    )
    event_loop: str = key(
        TEXT,
        "on",
        names=lambda: EVENT_LOOP,
        help="`on`: links' events run in one loop; `off`: each is a timer interrupt, as on a machine, for debugging "
        "([the loop](kernel.md#the-event-loop)). Results are the same",
    )
    watchdog_ns: int = key(
        TIME,
        60 * S,
        name="watchdog",
        low=1 * S,
        help="a lab counts as hung after this much CPU time without progress of virtual time, or ten times as much wall time",
    )
    t0_ns: int = key(
        TIME,
        LAB_T0_NS,
        name="t0",
        low=11 * S,
        help="virtual time at which traffic starts (Open vSwitch counts CPUs only once the clock is past 10 s); later by whole "
        "seconds where the first frames need more than 5 s for the longest path",
    )

    def __post_init__(self) -> None:
        check(self, "lab.")

    def sized(self, hosts: int, nic_flows: int = 0, job_nodes: int = 0) -> LabSpec:
        """Returns the section with the lab's memory filled in where the spec gives none.

        It follows from the number of hosts. `nic_flows` is the number of flows of NICs, which have rows for all, `job_nodes`
        that of the nodes of jobs. Measured (docs/scale.md): 65 MiB for all, and a third of a MiB for each host.
        """
        needed = 512 * MIB + max(0, hosts - 256) * MIB // 2
        needed += max(0, nic_flows - 2048) * 4 * KIB + max(0, job_nodes - 2**20) * NODE_BYTES
        return self if self.memory_bytes is not None else replace(self, memory_bytes=needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """`[kernel]`: changes of the lab kernel itself."""

    patch: tuple[Path, ...] = key(
        PATHS,
        (),
        otherwise="none",
        help="patches (`patch -p1`), relative to the spec, that the [lab kernel](kernel.md) gets after dc-gym's own, in this "
        "order; the run uses a kernel with them, beside the default one, and each result keeps them in `code/`",
    )
    tree: Path | None = None
    """The user's own kernel tree. It is no key: no result could keep it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """`[host]`: the host ground."""

    links: str = key(
        TEXT,
        "auto",
        names=lambda: LINKS,
        help="`cable` (a kernel module, built if kernel headers are installed), `netem` (veth, tbf and netem), `tbf` "
        "(veth and tbf, no delay: Mininet's way, to show what is wrong with it); `auto`: `cable` if possible, else "
        "`netem`",
    )
    lead_ns: int = key(TIME, 5 * S, name="lead", low=1 * S, high=600 * S, help="time for programs to start before traffic does")

    def __post_init__(self) -> None:
        check(self, "host.")


policies.KINDS.belongs_to(ControllerSpec)
