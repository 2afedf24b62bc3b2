# SPDX-License-Identifier: Apache-2.0
"""A network as plain data: hosts, switches, and the cables between their ports. Nothing here touches a kernel.

Names are Mininet's: h1..hN, s1..sM, ports h1-eth0, s1-eth1, ... For a switch port the number after 'eth' is its OpenFlow number.
A host's port ethP belongs to plane P. A plane is a network with addresses of its own, which no flow leaves.
Rates are bit/s, delays ns, sizes bytes. Queue sizes and thresholds are L2 frame bytes, as Linux counts a packet in a qdisc:
without FCS (IEEE 802.3 counts it), preamble and gap.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from dc_gym.base.errors import TopologyError
from dc_gym.base.units import ETHERNET_BYTES, FRAME_BYTES, MTU_BYTES, PPB, PPM, TCP_HEADERS_BYTES

LARGEST_QUEUE_BYTES = 2**31 - 1  # RED's thresholds are 31-bit numbers
LEAST_MTU_BYTES, LARGEST_MTU_BYTES = 576, 9000  # a host must accept the former (RFC 791); the latter is a jumbo frame
LONGEST_IFNAME = 15  # IFNAMSIZ without the terminating zero
NETNS_FOLDER = "/run/netns"  # where a named network namespace has its file
PREFIX_BITS = 8  # all hosts share 10.0.0.0/8, in plane P (10 + P).0.0.0/8
CLASSES, DSCPS = 8, 64  # of a port (kernel/drivers/lab.h)
TELEMETRY_RATES = 8  # records have three bits for a rate (kernel/drivers/lab_int.h)
FASTEST_BPS = 10**13  # the cable driver's limits
LONGEST_DELAY_NS = 10**10

T = TypeVar("T")
Layer = Literal["edge", "agg", "core"]
MarkingKind = Literal["none", "step", "red-instant", "iroko-thesis"]
MarksAt = Literal["arrival", "departure"]
QueueKind = Literal["bfifo", "cake", "codel", "dualpi2", "fq", "fq_codel", "pie", "port", "red", "sfq", "tbf"]

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "none": (),
    "step": ("k_bytes",),
    "red-instant": ("min_bytes", "max_bytes", "probability_ppm"),
    "iroko-thesis": ("min_bytes", "max_bytes", "limit_bytes", "avpkt_bytes", "burst_packets", "probability_ppm", "bandwidth_bps"),
}


QUEUE_MARKINGS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(get_args(QueueKind), ("none",)),
    "port": ("none", "step", "red-instant"),
    "red": ("step", "red-instant", "iroko-thesis"),
}
"""The markings that each kind of queue can do."""
IF_GIVEN: Mapping[str, bool] = {"if_given": True}
"""Metadata of a field that plain data have only if it is not its default."""


def _that_mark(marking: str) -> str:
    return " and ".join(f"'{kind}'" for kind, markings in QUEUE_MARKINGS.items() if marking in markings) + " can"


def _require(holds: bool, subject: str, value: object, remedy: str) -> None:
    if not holds:
        raise TopologyError(f"{subject}: value {value!r} {remedy}")


def require_queue_size(subject: str, limit_bytes: int, frame_bytes: int) -> None:
    """Checks that a queue can have a size.

    Args:
        subject: Names the queue, for errors.
        limit_bytes: The size.
        frame_bytes: The longest frame.

    Raises:
        TopologyError: No frame fits, or Linux cannot count so many bytes.
    """
    fits = frame_bytes <= limit_bytes <= LARGEST_QUEUE_BYTES
    _require(fits, subject, limit_bytes, f"is not in {frame_bytes}..{LARGEST_QUEUE_BYTES} bytes; give room for a frame")


@dataclass(frozen=True, slots=True)
class Nic:
    """The addresses of one port of a host."""

    address: str  # IPv4
    mac: str

    def __post_init__(self) -> None:
        try:
            IPv4Address(self.address)
        except AddressValueError:
            raise TopologyError(f"address {self.address!r} of a host is not IPv4; write it like 10.0.0.1") from None
        unicast = re.fullmatch(r"[0-9a-f][02468ace](:[0-9a-f]{2}){5}", self.mac) is not None
        _require(unicast, "mac of a host", self.mac, "is not a unicast MAC; write it like 02:00:00:00:00:01")


@dataclass(frozen=True, slots=True)
class Host:
    """A host: the addresses of its first port and of its further ports, if it has any."""

    name: str
    address: str
    mac: str
    more: tuple[Nic, ...] = ()

    def __post_init__(self) -> None:
        _require_name("host", self.name)
        Nic(self.address, self.mac)

    @property
    def nics(self) -> tuple[Nic, ...]:
        """Returns the addresses of each port in order: nics[P] is the address of ethP, in plane P."""
        return (_nic(self.address, self.mac), *self.more)


@lru_cache(maxsize=1 << 14)
def _nic(address: str, mac: str) -> Nic:
    return Nic(address, mac)  # its checks take longer than a path


@dataclass(frozen=True, slots=True)
class Switch:
    """An output-queued switch."""

    name: str
    layer: Layer

    def __post_init__(self) -> None:
        _require_name("switch", self.name)
        _require(self.layer in get_args(Layer), f"layer of switch {self.name}", self.layer, f"is not one of {get_args(Layer)}")


@dataclass(frozen=True, slots=True)
class Marking:
    """The way in which a switch port marks ECN.

    'step' marks every packet that finds K bytes or more queued (DCTCP, SIGCOMM 2010, section 3.1, says more than K; RED compares
    so).
    'red-instant' marks each packet that finds q bytes by a draw of its own, with probability x (q - min) / (max - min) from min
    on, and every packet from max on (DCQCN, SIGCOMM 2015, section 3.1).
    'iroko-thesis' is RED's slope on an average, with the parameters of the thesis' table 1.

    A packet is marked as it arrives, by the queue that it finds, or as it departs, by the queue that it leaves behind.
    """

    kind: MarkingKind = "none"
    k_bytes: int = 0  # step: frame bytes
    min_bytes: int = 0  # the other kinds: RED's parameters as tc-red(8) names them
    max_bytes: int = 0
    limit_bytes: int = 0
    avpkt_bytes: int = 0
    burst_packets: int = 0
    probability_ppm: int = 0  # 100000 = 0.1
    bandwidth_bps: int = 0
    at: MarksAt = "arrival"

    def __post_init__(self) -> None:
        _require(self.kind in _PARAMETERS, "marking", self.kind, f"is unknown; one of: {', '.join(_PARAMETERS)}")
        _require(self.at in get_args(MarksAt), "marks at", self.at, f"is unknown; one of: {', '.join(get_args(MarksAt))}")
        for parameter in fields(self)[1:-1]:
            value = getattr(self, parameter.name)
            if parameter.name in _PARAMETERS[self.kind]:
                _require(value > 0, f"{parameter.name} of marking {self.kind}", value, "is not positive; give one above 0")
            else:
                _require(value == 0, f"{parameter.name} of marking {self.kind}", value, "has no effect here; leave it out")
        if self.max_bytes:
            low, high = self.min_bytes, self.max_bytes
            _require(low < high, "min_bytes of RED", low, f"is not below max_bytes {high}; lower it, or enlarge the buffer")
            _require(self.probability_ppm <= PPM, "probability_ppm of RED", self.probability_ppm, "is above 1000000; lower it")
        if self.limit_bytes:
            fits = self.max_bytes <= self.limit_bytes
            _require(fits, "max_bytes of RED", self.max_bytes, f"is above limit_bytes {self.limit_bytes}; lower it")


NO_MARKING = Marking()


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The in-band telemetry of a port (kernel/drivers/lab_int.h).

    It has the line rate's place in the network's table, and that rate's units.
    """

    rate: int
    time_ns: int
    sent_bytes: int
    queue_bytes: int

    def __post_init__(self) -> None:
        _require(0 <= self.rate < TELEMETRY_RATES, "place of a rate", self.rate, f"is not below {TELEMETRY_RATES}")
        for unit in fields(self)[1:]:
            _require(getattr(self, unit.name) >= 1, f"unit {unit.name} of telemetry", getattr(self, unit.name), "is below 1")


@dataclass(frozen=True, slots=True)
class QueueClass:
    """A class of a port: the packets of some DSCPs, which have a queue of their own."""

    name: str
    dscps: tuple[int, ...]
    """DSCPs that no class names belong to the first class."""
    limit_bytes: int
    marking: Marking = NO_MARKING
    quantum_bytes: int = 0
    """Bytes in a round of deficit round robin; 0: strict priority over the classes that have a quantum."""
    reserve_bytes: int = 0
    """Bytes of a lossy class's queue that take no room in the pool."""
    alpha_2_16: int = 0
    """A lossy class is full at alpha times the pool's free room; of 2^16."""
    lossless: bool = False

    def __post_init__(self) -> None:
        fits = re.fullmatch(r"[a-z][a-z0-9-]{0,14}", self.name) is not None
        _require(fits, "name of a class", self.name, "is not up to 15 small letters, digits and dashes; rename it")
        for dscp in self.dscps:
            _require(0 <= dscp < DSCPS, f"dscp of class {self.name}", dscp, f"is not in 0..{DSCPS - 1}; change it")


@dataclass(frozen=True, slots=True)
class Pool:
    """The buffer that the ports of a switch share, less all reserves and headrooms."""

    number: int
    bytes: int

    def __post_init__(self) -> None:
        _require(self.bytes > 0, "bytes of a pool", self.bytes, "is not above 0; enlarge topology.shared_buffer")


@dataclass(frozen=True, slots=True)
class Pause:
    """The settings by which a port pauses its peer's lossless classes: struct tc_port_pfc of kernel/drivers/lab.h."""

    xoff_bytes: int
    """The threshold; 0: a share of the pool's free room."""
    share: int
    share_of: int
    xon_below_bytes: int
    reserve_bytes: int
    headroom_bytes: int
    quanta: int
    whole_port: bool


@dataclass(frozen=True, slots=True)
class Trim:
    """The way in which a port trims frames that it would drop: struct tc_port_trim of kernel/drivers/lab.h."""

    bytes: int
    number: int
    """The class of trimmed frames."""
    dscp: int


@dataclass(frozen=True, slots=True)
class Setting:
    """A parameter of one of Linux' qdiscs, as the kernel takes it below TCA_OPTIONS (topologies/qdiscs.py)."""

    name: str
    attribute: int
    """The type of its attribute; 0: the next 32 bits of the structure that a qdisc without attributes has."""
    value: int
    width_bytes: int = 4
    rounding: int = 0
    """The kernel keeps up to that much less, because it counts in other units."""

    def __post_init__(self) -> None:
        fits = 0 <= self.value < 1 << 8 * self.width_bytes
        _require(fits, f"{self.name} of a queue", self.value, f"does not fit {8 * self.width_bytes} bits; give a smaller one")


@dataclass(frozen=True, slots=True)
class Queue:
    """The one queue of a port.

    'port' is the lab's own queueing discipline for switch ports (kernel/drivers/sch_port.c); it marks or does not. 'tbf' is a
    token bucket over a bfifo; an agent changes its rate.
    """

    limit_bytes: int
    kind: QueueKind = "bfifo"
    marking: Marking = NO_MARKING
    rate_bps: int = 0  # tbf: rate of frame bytes until an agent changes it, bit/s
    burst_bytes: int = 0  # tbf
    telemetry: Telemetry | None = None  # port
    classes: tuple[QueueClass, ...] = ()
    """The classes of a `port`; the first has this queue's limit and marking. A port with one and no pool gives none."""
    pool: Pool | None = None  # port
    pause: Pause | None = None  # port
    packet_bytes: int = field(default=FRAME_BYTES, metadata=IF_GIVEN)  # fq: its limit is in packets of so many bytes
    trim: Trim | None = field(default=None, metadata=IF_GIVEN)  # port
    settings: tuple[Setting, ...] = field(default=(), metadata=IF_GIVEN)
    """The parameters of a qdisc of Linux'."""

    def __post_init__(self) -> None:
        limit, marking, kinds = self.limit_bytes, self.marking, get_args(QueueKind)
        _require(self.kind in kinds, "queue kind", self.kind, f"is unknown; one of: {', '.join(kinds)}")
        require_queue_size("queue limit_bytes", limit, LEAST_MTU_BYTES + ETHERNET_BYTES)
        for quantity, value in (("rate_bps", self.rate_bps), ("burst_bytes", self.burst_bytes)):
            _require((value > 0) == (self.kind == "tbf"), f"{quantity} of a queue", value, "does not fit its kind; 'tbf' has one")
        fits = marking.kind in QUEUE_MARKINGS[self.kind]
        _require(fits, "queue kind", self.kind, f"does not fit marking {marking.kind}; {_that_mark(marking.kind)}")
        at_departure = marking.at == "departure" and self.kind != "port"
        _require(not at_departure, "queue kind", self.kind, "cannot mark departures; 'port' can")
        tells = self.telemetry is not None and self.kind != "port"
        _require(not tells, "queue kind", self.kind, "cannot write telemetry; 'port' can")
        shares = bool(self.classes or self.pool or self.pause) and self.kind != "port"
        _require(not shares, "queue kind", self.kind, "has no classes, no pool and no pauses; 'port' has")
        _require(len(self.classes) <= CLASSES, "classes of a port", len(self.classes), f"is above {CLASSES}; give fewer")
        _require(marking.k_bytes < limit, "topology.k", marking.k_bytes, f"is not below the buffer, {limit} bytes; change one")
        _require(marking.max_bytes <= limit, "topology.max", marking.max_bytes, f"is above the buffer, {limit} bytes; change one")
        if marking.kind == "iroko-thesis":
            same = marking.limit_bytes == limit
            _require(same, "limit_bytes of RED", marking.limit_bytes, f"is not the queue's {limit}; give both the same")

    def class_of(self, dscp: int) -> int:
        """Returns the number of the class of packets with that DSCP."""
        return next((number for number, queue_class in enumerate(self.classes) if dscp in queue_class.dscps), 0)


@dataclass(frozen=True, slots=True)
class Port:
    """One end of a cable, with the queue of its egress."""

    node: str
    ifname: str
    queue: Queue

    def __post_init__(self) -> None:
        named = re.fullmatch(re.escape(self.node) + r"-eth(0|[1-9][0-9]*)", self.ifname) is not None
        _require(named, f"ifname of a port of {self.node}", self.ifname, f"is not a Mininet name; write it like {self.node}-eth1")
        short = len(self.ifname) <= LONGEST_IFNAME
        _require(short, "ifname", self.ifname, f"is above {LONGEST_IFNAME} characters; shorten the node's name")

    @property
    def number(self) -> int:
        """Returns the number in the name. For a switch port it is the OpenFlow number."""
        return int(self.ifname.rpartition("-eth")[2])

    def alone(self, number: int) -> Port:
        """Returns the port as if this class of it were its only queue."""
        queue_class = self.queue.classes[number]
        return replace(self, queue=Queue(queue_class.limit_bytes, self.queue.kind, queue_class.marking))


CLASS_MARK = ":"
"""Stands between port and class in the name of a row."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the state matrix: a port, or a class of one."""

    port: Port
    number: int | None = None
    """The number of the class; None: the whole port."""

    @property
    def name(self) -> str:
        """s1-eth3, or s1-eth3:rdma."""
        return self.port.ifname if self.number is None else f"{self.port.ifname}{CLASS_MARK}{self.class_name}"

    @property
    def class_name(self) -> str:
        """The name of the class; empty: the whole port."""
        return "" if self.number is None else self.port.queue.classes[self.number].name


@dataclass(frozen=True, slots=True)
class Impairment:
    """The impairments of a frame on its way. Each direction has a seed of its own (kernel/drivers/cable.c).

    A frame is lost with a probability. It is delayed by a uniform draw from 0 .. jitter_ns, without a change of order. With
    another probability it is delayed by reorder_delay_ns, so that the frames behind it overtake it. This happens only while
    traffic runs: set-up is not impaired.
    """

    loss_ppb: int = 0  # 10^9: all frames
    jitter_ns: int = 0
    reorder_ppb: int = 0
    reorder_delay_ns: int = 0

    def __post_init__(self) -> None:
        for name, most in (("loss_ppb", PPB), ("reorder_ppb", PPB), ("jitter_ns", LONGEST_DELAY_NS)):
            value = getattr(self, name)
            _require(0 <= value <= most, f"{name} of a link", value, f"is not in 0..{most}; change it")
        value = self.reorder_delay_ns
        _require(
            0 <= value <= LONGEST_DELAY_NS, "reorder_delay_ns of a link", value, f"is not in 0..{LONGEST_DELAY_NS}; change it"
        )
        both = (self.reorder_ppb > 0) == (value > 0)
        _require(
            both, "reorder_delay_ns of a link", value, f"and reorder_ppb {self.reorder_ppb} belong together; give both or none"
        )


NO_IMPAIRMENT = Impairment()


@dataclass(frozen=True, slots=True)
class Way:
    """One direction of a cable: the values of its sending end."""

    rate_bps: int
    delay_ns: int
    impairment: Impairment = NO_IMPAIRMENT


@dataclass(frozen=True, slots=True)
class Cable:
    """A full-duplex link. Each end serializes at the rate; then the frame travels for the delay."""

    a: Port
    b: Port
    rate_bps: int
    delay_ns: int
    impairment: Impairment = NO_IMPAIRMENT
    back: Way | None = None
    """The direction from b to a; None: as that from a to b, which the values above are."""

    def __post_init__(self) -> None:
        _require(self.a.node != self.b.node, f"cable {self.name}", self.a.node, "is on both ends; join two nodes")
        for way in (self, self.back or self):
            rate, delay = way.rate_bps, way.delay_ns
            _require(0 < rate <= FASTEST_BPS, f"rate_bps of cable {self.name}", rate, f"is not in 1..{FASTEST_BPS}; change it")
            fits = 0 <= delay <= LONGEST_DELAY_NS
            _require(fits, f"delay_ns of cable {self.name}", delay, f"is not in 0..{LONGEST_DELAY_NS}; change it")

    def sent_by(self, ifname: str) -> Cable:
        """Returns the cable with the values of this end's direction. This end becomes the end `a` if the directions differ."""
        if self.back is None or ifname == self.a.ifname:
            return self
        here = Way(self.rate_bps, self.delay_ns, self.impairment)
        return Cable(self.b, self.a, self.back.rate_bps, self.back.delay_ns, self.back.impairment, here)

    def directions(self) -> tuple[Cable, Cable]:
        """Returns the cable as its ends a and b send into it."""
        return self, self.sent_by(self.b.ifname)

    def with_ports(self, change: Callable[[Port, Cable], Port]) -> Cable:
        """Returns the cable with other ports, each made of the old one and of the cable as that port sends into it."""
        there, back = self.directions()
        return replace(self, a=change(self.a, there), b=change(self.b, back))

    @property
    def name(self) -> str:
        """The name: both ports."""
        return f"{self.a.ifname}--{self.b.ifname}"

    def peer(self, ifname: str) -> Port:
        """Returns the other end."""
        return self.b if ifname == self.a.ifname else self.a


@dataclass(frozen=True, slots=True)
class Graph:
    """A whole network. It is connected, its names are unique, and every port of a host is on a cable to a switch."""

    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    cables: tuple[Cable, ...]
    mtu_bytes: int = field(default=MTU_BYTES, metadata=IF_GIVEN)
    """The largest IP packet of every port."""
    _hosts: dict[str, Host] = field(init=False, repr=False, compare=False)
    _switches: dict[str, Switch] = field(init=False, repr=False, compare=False)
    _cables: dict[str, Cable] = field(init=False, repr=False, compare=False)
    _ports: dict[str, tuple[Port, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ends = [port for cable in self.cables for port in (cable.a, cable.b)]
        _require_unique("name", [host.name for host in self.hosts] + [switch.name for switch in self.switches])
        _require_unique("address", [nic.address for host in self.hosts for nic in host.nics])
        _require_unique("mac", [nic.mac for host in self.hosts for nic in host.nics])
        _require_unique("ifname", [port.ifname for port in ends])
        object.__setattr__(self, "_hosts", {host.name: host for host in self.hosts})
        object.__setattr__(self, "_switches", {switch.name: switch for switch in self.switches})
        object.__setattr__(
            self, "_cables", {port.ifname: cable.sent_by(port.ifname) for cable in self.cables for port in (cable.a, cable.b)}
        )
        object.__setattr__(self, "_ports", self._ports_by_node(ends))
        self._check_frames()
        self._check_hosts()
        self._check_connected()

    @property
    def frame_bytes(self) -> int:
        """A full frame: Ethernet's header and the largest IP packet."""
        return self.mtu_bytes + ETHERNET_BYTES

    @property
    def segment_bytes(self) -> int:
        """The payload of a full TCP segment."""
        return self.mtu_bytes - TCP_HEADERS_BYTES

    def _check_frames(self) -> None:
        fits, frame = LEAST_MTU_BYTES <= self.mtu_bytes <= LARGEST_MTU_BYTES, self.frame_bytes
        _require(fits, "topology.mtu", self.mtu_bytes, f"is not in {LEAST_MTU_BYTES}..{LARGEST_MTU_BYTES} bytes; change it")
        for port in self.ports():
            queue = port.queue
            require_queue_size(f"queue limit_bytes of {port.ifname}", queue.limit_bytes, frame)
            whole = queue.kind != "tbf" or queue.burst_bytes >= frame
            _require(
                whole, "burst_bytes of tbf", queue.burst_bytes, f"is below a frame of {frame} bytes, which could never leave"
            )

    def _ports_by_node(self, ends: Iterable[Port]) -> dict[str, tuple[Port, ...]]:
        nodes: dict[str, list[Port]] = {name: [] for name in (*self._switches, *self._hosts)}
        for port in ends:
            _require(port.node in nodes, f"node of port {port.ifname}", port.node, "is not a host or switch of the graph; add it")
            nodes[port.node].append(port)
        return {node: tuple(sorted(ports, key=lambda port: port.number)) for node, ports in nodes.items()}

    def _check_hosts(self) -> None:
        for host in self.hosts:
            ports, planes = self._ports[host.name], len(host.nics)
            remedy = f"is not {planes}; give a host as many cables as addresses"
            _require(len(ports) == planes, f"cables of host {host.name}", len(ports), remedy)
            numbers = [port.number for port in ports]
            _require(numbers == list(range(planes)), f"ports of host {host.name}", numbers, "do not count from eth0; rename them")
            for port in ports:
                peer, marking = self.peer(port).node, port.queue.marking.kind
                _require(peer in self._switches, f"peer of host {host.name}", peer, "is a host; put a switch between them")
                _require(marking == "none", f"marking of {port.ifname}", marking, "is at a host; only switches mark")

    def _check_connected(self) -> None:
        first = next(iter(self._ports), None)
        if first is None:
            raise TopologyError("graph: it has 0 nodes; give it hosts and switches")
        seen, todo = {first}, deque([first])
        while todo:
            new = [node for node in self.neighbours(todo.popleft()) if node not in seen]
            seen.update(new)
            todo.extend(new)
        for node in self._ports:
            _require(node in seen, "node", node, f"cannot be reached from {first}; connect it")

    def ports(self) -> tuple[Port, ...]:
        """Returns every port: the switches' ports in order, by number, then the hosts' ports."""
        return tuple(port for ports in self._ports.values() for port in ports)

    def rows(self) -> tuple[Row, ...]:
        """Returns the rows of the state matrix: every port, then the classes of ports that have some."""
        ports = self.ports()
        class_rows = (Row(port, class_number) for port in ports for class_number in range(len(port.queue.classes)))
        return (*map(Row, ports), *class_rows)

    def switch_ports(self) -> tuple[Port, ...]:
        """Returns the ports of the switches, in the same order."""
        return tuple(port for switch in self.switches for port in self._ports[switch.name])

    def ports_of(self, node: str) -> tuple[Port, ...]:
        """Returns the ports of a node by number."""
        return _find(self._ports, "node", node)

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Returns the nodes at the other ends of a node's ports, by port number."""
        return tuple(self.peer(port).node for port in self.ports_of(node))

    def host(self, name: str) -> Host:
        """Returns the host of that name."""
        return _find(self._hosts, "host", name)

    def switch(self, name: str) -> Switch:
        """Returns the switch of that name."""
        return _find(self._switches, "switch", name)

    def cable_of(self, port: Port | str) -> Cable:
        """Returns the cable that ends at a port or at a port's ifname, with the values of the direction from that port."""
        return _find(self._cables, "port", port if isinstance(port, str) else port.ifname)

    def port(self, ifname: str) -> Port:
        """Returns the port of that name."""
        cable = self.cable_of(ifname)
        return cable.a if cable.a.ifname == ifname else cable.b

    def peer(self, port: Port | str) -> Port:
        """Returns the port at the other end of the cable."""
        return self.cable_of(port).peer(port if isinstance(port, str) else port.ifname)

    def unimpaired(self) -> Graph:
        """Returns the same network with perfect links."""

        def perfect(cable: Cable) -> Cable:
            back = None if cable.back is None else replace(cable.back, impairment=NO_IMPAIRMENT)
            return replace(cable, impairment=NO_IMPAIRMENT, back=back)

        return replace(self, cables=tuple(map(perfect, self.cables)))

    def limited(self, burst_bytes: int, limit_bytes: int | None) -> Graph:
        """Returns the same network with a token bucket at every host, at line rate.

        Args:
            burst_bytes: The size of the bucket.
            limit_bytes: The limit of the bucket's queue; None leaves it as it was.
        """

        def limited(port: Port, cable: Cable) -> Port:
            if port.node not in self._hosts:
                return port
            queue = Queue(limit_bytes or port.queue.limit_bytes, "tbf", rate_bps=cable.rate_bps, burst_bytes=burst_bytes)
            return replace(port, queue=queue)

        return replace(self, cables=tuple(cable.with_ports(limited) for cable in self.cables))

    def to_json(self) -> dict[str, Any]:
        """Returns the graph as plain lists, dicts, strings and integers."""
        plain: dict[str, Any] = to_plain(self)
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Graph:
        """Returns the graph that to_json described and validates it again."""
        graph: Graph = from_plain(cls, plain, "graph")
        return graph


def _require_name(kind: str, name: str) -> None:
    named = re.fullmatch(r"[A-Za-z][A-Za-z0-9]*", name) is not None
    _require(named, f"name of a {kind}", name, "is not a letter followed by letters and digits; rename it")


def _require_unique(subject: str, values: list[str]) -> None:
    seen: set[str] = set()
    for value in values:
        _require(value not in seen, subject, value, "occurs twice in the graph; rename one")
        seen.add(value)


def _find(table: Mapping[str, T], subject: str, name: str) -> T:
    """Returns the entry of that name. The error for an unknown name shows some of the known names."""
    if name not in table:
        known = list(table)
        some = known if len(known) <= 8 else [*known[:3], "...", known[-1]]
        raise TopologyError(f"{subject}: value {name!r} is not in the graph; one of: {', '.join(some)}")
    return table[name]


def to_plain(value: Any) -> Any:
    """Converts dataclasses to JSON's types. Fields that __init__ does not take are derived and left out."""
    if is_dataclass(value):
        values = {attr.name: getattr(value, attr.name) for attr in fields(value) if attr.init and not _left_out(value, attr)}
        return {name: to_plain(part) for name, part in values.items()}
    return [to_plain(part) for part in value] if isinstance(value, tuple) else value


def _left_out(value: Any, attr: Any) -> bool:
    return "if_given" in attr.metadata and getattr(value, attr.name) == attr.default


def from_plain(kind: Any, value: Any, where: str) -> Any:
    """Converts JSON's types to a value of the annotated type.

    Args:
        kind: The annotation.
        value: The value.
        where: Names the value in errors.
    """
    if get_origin(kind) is tuple:
        _require(isinstance(value, list), where, value, "is not a list; write it with to_json")
        return tuple(from_plain(get_args(kind)[0], part, f"{where}[{index}]") for index, part in enumerate(value))
    if get_origin(kind) is UnionType:  # something or None
        return None if value is None else from_plain(get_args(kind)[0], value, where)
    if is_dataclass(kind):
        return _record_from_plain(kind, value, where)
    expected = str if get_origin(kind) is Literal else kind
    _require(type(value) is expected, where, value, f"is not of type {expected.__name__}; write it with to_json")
    return value


def _record_from_plain(kind: Any, value: Any, where: str) -> Any:
    hints = get_type_hints(kind)
    field_hints = {attr.name: hints[attr.name] for attr in fields(kind) if attr.init}
    optional = {attr.name for attr in fields(kind) if "if_given" in attr.metadata}
    same = isinstance(value, Mapping) and set(value) | optional == set(field_hints)
    _require(same, where, value, f"has not exactly the keys {', '.join(field_hints)}; write it with to_json")
    return kind(**{name: from_plain(hint, value[name], f"{where}.{name}") for name, hint in field_hints.items() if name in value})
