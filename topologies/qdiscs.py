# SPDX-License-Identifier: Apache-2.0
"""The queueing disciplines of switch ports: values of topology.qdisc. To add one of Linux', write a `register` call at the end.

`port` is the lab's own. `stock` is Linux' bfifo, or RED where a port marks. The others are Linux' AQMs and schedulers, which drop
and mark by rules of their own: `topology.marking` is not theirs, and keys that `port` alone has are refused (`refuse`).

A qdisc's parameters are attributes of its options (include/uapi/linux/pkt_sched.h); `dcgym list` and the documentation name them
by the keys that are declared here. Times follow topology.scale, as links do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dc_gym.base.errors import TopologyError
from dc_gym.base.key import COUNT, FLAG, MS, RATE, SIZE, TEXT, TIME, US, S, key
from dc_gym.base.registry import Registry
from dc_gym.base.units import FRAME_BYTES
from dc_gym.topologies.graph import FASTEST_BPS, Setting

__all__ = ["KINDS", "OURS", "QdiscContext", "Room", "register", "room_of", "settings"]

LONGEST_NS = 100 * S
CODEL_ROUNDING_US = 2
"""CoDel counts in units of 1024 ns, which the kernel reports in whole microseconds."""
TCA_CODEL_TARGET, TCA_CODEL_LIMIT, TCA_CODEL_INTERVAL, TCA_CODEL_ECN, TCA_CODEL_CE_THRESHOLD = range(1, 6)
TCA_FQ_CODEL_TARGET, TCA_FQ_CODEL_LIMIT, TCA_FQ_CODEL_INTERVAL, TCA_FQ_CODEL_ECN = range(1, 5)
TCA_FQ_CODEL_FLOWS, TCA_FQ_CODEL_QUANTUM, TCA_FQ_CODEL_CE_THRESHOLD = range(5, 8)
TCA_FQ_CODEL_MEMORY_LIMIT = 9
NO_MEMORY_LIMIT = 1 << 31
"""So that topology.buffer alone limits a queue."""
TCA_PIE_TARGET, TCA_PIE_LIMIT, TCA_PIE_TUPDATE, TCA_PIE_ECN = 1, 2, 3, 6
TCA_CAKE_BASE_RATE64, TCA_CAKE_DIFFSERV_MODE, TCA_CAKE_FLOW_MODE, TCA_CAKE_RTT, TCA_CAKE_MEMORY = 2, 3, 5, 7, 10
CAKE_DIFFSERV = {"diffserv3": 0, "diffserv4": 1, "diffserv8": 2, "besteffort": 3, "precedence": 4}
CAKE_FLOWS = {
    "flowblind": 0, "srchost": 1, "dsthost": 2, "hosts": 3, "flows": 4, "dual-srchost": 5, "dual-dsthost": 6, "triple-isolate": 7,
}  # fmt: skip
TCA_FQ_PLIMIT, TCA_FQ_FLOW_PLIMIT, TCA_FQ_QUANTUM, TCA_FQ_CE_THRESHOLD = 1, 2, 3, 12
TCA_DUALPI2_LIMIT, TCA_DUALPI2_MEMORY_LIMIT, TCA_DUALPI2_TARGET, TCA_DUALPI2_TUPDATE = range(1, 5)
TCA_DUALPI2_STEP_THRESH_US, TCA_DUALPI2_COUPLING, TCA_DUALPI2_ECN_MASK = 8, 10, 14
L4S = {"ect1": 1, "ect": 3}
SFQ_LIMIT_AT = 2
"""Place of the limit in struct tc_sfq_qopt, in numbers of 32 bits."""
SFQ_DEPTH, SFQ_DIVISOR = 127, 1024
"""Packets that sfq keeps of a flow, and the entries of its hash table."""


@dataclass(frozen=True, slots=True)
class QdiscContext:
    """The port whose queue it is."""

    limit_bytes: int
    ecn: bool
    """True if the controller reads ECN."""
    scale: int = 1
    frame_bytes: int = FRAME_BYTES

    @property
    def packets(self) -> int:
        """The limit in full frames, for a qdisc that counts packets."""
        return max(1, self.limit_bytes // self.frame_bytes)

    def marks(self, flag: bool | None) -> int:
        """Returns the value of a flag by which a qdisc marks packets with ECN."""
        return int(self.ecn if flag is None else flag)

    def us(self, time_ns: int) -> int:
        """Returns a time as Linux' qdiscs take it."""
        return time_ns * self.scale // US


@dataclass(frozen=True, slots=True)
class Room:
    """The place where the kernel reports a qdisc's limit, and the bytes of the limit's unit."""

    attribute: int
    """The type of its attribute; 0: the number of 32 bits at `place` of a structure."""
    unit_bytes: int = FRAME_BYTES
    place: int = 0


KINDS = Registry("topology.qdisc", TopologyError, ("port",), together=True)
_rooms: dict[str, Room] = {}
OURS = ("port", "stock")
"""Those whose ports mark by topology.marking."""


def register(
    name: str, make: Callable[..., tuple[Setting, ...]], keys: Any = None, help: str = "", room: Room | None = None
) -> None:
    """Registers a qdisc as a value of topology.qdisc.

    Args:
        name: The value, which is the kernel's name of the qdisc.
        make: `make(port, keys)`, or `make(port)` without keys. Returns its parameters.
        keys: The dataclass of its keys.
        help: Its description in Markdown.
        room: Where its limit is.
    """
    KINDS.add(name, make, keys, help=help)
    if room is not None:
        _rooms[name] = room


def room_of(name: str) -> Room | None:
    """Returns the place where the kernel reports the limit of one of Linux' qdiscs; None for others."""
    return _rooms.get(name)


def settings(name: str, keys: tuple[tuple[str, Any], ...], port: QdiscContext) -> tuple[Setting, ...]:
    """Returns the parameters of a qdisc at a port. `keys` holds the keys of the spec."""
    entry = KINDS[name]
    parameters: tuple[Setting, ...] = entry.call(port, *entry.arguments(dict(keys), "topology."))
    return parameters


def _target(default_ns: int) -> Any:
    help_text = "time in the queue that the AQM holds: CoDel as a minimum over `interval`, the others on average"
    return key(TIME, default_ns, name="target", low=US, high=LONGEST_NS, help=help_text)


def _ecn() -> Any:
    return key(FLAG, name="ecn", otherwise="as the controller reads ECN", help="marks a packet with ECN where it would drop it")


def _ce_threshold() -> Any:
    return key(
        TIME,
        name="ce_threshold",
        low=US,
        high=LONGEST_NS,
        otherwise="none",
        help="time in the queue from which each packet with ECN is marked, as a DCTCP step",
    )


def _quantum(default_bytes: int) -> Any:
    return key(SIZE, default_bytes, name="quantum", low=FRAME_BYTES, high=1 << 20, help="bytes of a flow in a round")


def _flows(default: int, high: int) -> Any:
    return key(COUNT, default, name="flows", low=1, high=high, help="queues; flows are hashed to them")


def _tupdate(default_ns: int) -> Any:
    return key(TIME, default_ns, name="tupdate", low=MS, high=S, help="time from one probability to the next")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodelKeys:
    """Keys of qdisc codel."""

    target_ns: int = _target(5 * MS)
    interval_ns: int = key(
        TIME, 100 * MS, name="interval", low=US, high=LONGEST_NS, help="time over which CoDel takes the minimum"
    )
    ecn: bool | None = _ecn()
    ce_threshold_ns: int | None = _ce_threshold()


@dataclass(frozen=True, slots=True, kw_only=True)
class FqCodelKeys(CodelKeys):
    """Keys of qdisc fq_codel."""

    flows: int = _flows(1024, 65536)
    quantum_bytes: int = _quantum(FRAME_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PieKeys:
    """Keys of qdisc pie."""

    target_ns: int = _target(15 * MS)
    tupdate_ns: int = _tupdate(15 * MS)
    ecn: bool | None = _ecn()


@dataclass(frozen=True, slots=True, kw_only=True)
class CakeKeys:
    """Keys of qdisc cake."""

    bandwidth_bps: int | None = key(
        RATE,
        name="bandwidth",
        low=8,
        high=FASTEST_BPS,
        otherwise="none: the link's rate alone limits",
        help="rate to which cake shapes",
    )
    rtt_ns: int = key(TIME, 100 * MS, name="rtt", low=US, high=LONGEST_NS, help="round trip for which cake's AQM is tuned")
    isolation: str = key(TEXT, "triple-isolate", names=lambda: CAKE_FLOWS, help="what has a fair share, in tc's words")
    tins: str = key(TEXT, "diffserv3", names=lambda: CAKE_DIFFSERV, help="priorities by DSCP, in tc's words")


@dataclass(frozen=True, slots=True, kw_only=True)
class FqKeys:
    """Keys of qdisc fq."""

    flow_limit: int = key(
        COUNT,
        100,
        name="flow_limit",
        low=1,
        high=10**6,
        help="frames of a flow that wait at most; fq takes none from a longer queue",
    )
    quantum_bytes: int = _quantum(2 * FRAME_BYTES)
    ce_threshold_ns: int | None = _ce_threshold()


@dataclass(frozen=True, slots=True, kw_only=True)
class SfqKeys:
    """Keys of qdisc sfq."""

    flows: int = _flows(128, SFQ_DIVISOR)
    quantum_bytes: int = _quantum(FRAME_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dualpi2Keys:
    """Keys of qdisc dualpi2."""

    target_ns: int = _target(15 * MS)
    tupdate_ns: int = _tupdate(16 * MS)
    coupling: int = key(
        COUNT, 2, name="coupling", low=1, high=255, help="k: L4S packets are marked with k times the probability p"
    )
    step_threshold_ns: int = key(
        TIME, MS, name="step_threshold", low=US, high=S, help="time in the L4S queue from which each of its packets is marked"
    )
    l4s: str = key(
        TEXT,
        "ect1",
        names=lambda: L4S,
        help="the packets of the L4S queue: ECT(1), as RFC 9331 has it, or any with ECN, such as those of Linux' DCTCP",
    )


def _codel(port: QdiscContext, keys: CodelKeys) -> tuple[Setting, ...]:
    return (
        Setting("target", TCA_CODEL_TARGET, port.us(keys.target_ns), rounding=CODEL_ROUNDING_US),
        Setting("limit", TCA_CODEL_LIMIT, port.packets),
        Setting("interval", TCA_CODEL_INTERVAL, port.us(keys.interval_ns), rounding=CODEL_ROUNDING_US),
        Setting("ecn", TCA_CODEL_ECN, port.marks(keys.ecn)),
        *_step_at(TCA_CODEL_CE_THRESHOLD, port, keys.ce_threshold_ns, CODEL_ROUNDING_US),
    )


def _fq_codel(port: QdiscContext, keys: FqCodelKeys) -> tuple[Setting, ...]:
    return (
        Setting("target", TCA_FQ_CODEL_TARGET, port.us(keys.target_ns), rounding=CODEL_ROUNDING_US),
        Setting("limit", TCA_FQ_CODEL_LIMIT, port.packets),
        Setting("interval", TCA_FQ_CODEL_INTERVAL, port.us(keys.interval_ns), rounding=CODEL_ROUNDING_US),
        Setting("ecn", TCA_FQ_CODEL_ECN, port.marks(keys.ecn)),
        Setting("flows", TCA_FQ_CODEL_FLOWS, keys.flows),
        Setting("quantum", TCA_FQ_CODEL_QUANTUM, keys.quantum_bytes),
        Setting("memory_limit", TCA_FQ_CODEL_MEMORY_LIMIT, NO_MEMORY_LIMIT),
        *_step_at(TCA_FQ_CODEL_CE_THRESHOLD, port, keys.ce_threshold_ns, CODEL_ROUNDING_US),
    )


def _pie(port: QdiscContext, keys: PieKeys) -> tuple[Setting, ...]:
    return (
        Setting("target", TCA_PIE_TARGET, port.us(keys.target_ns), rounding=1),
        Setting("limit", TCA_PIE_LIMIT, port.packets),
        Setting("tupdate", TCA_PIE_TUPDATE, _whole_ms(port.us(keys.tupdate_ns))),
        Setting("ecn", TCA_PIE_ECN, port.marks(keys.ecn)),
    )


def _cake(port: QdiscContext, keys: CakeKeys) -> tuple[Setting, ...]:
    return (
        Setting("bandwidth", TCA_CAKE_BASE_RATE64, (keys.bandwidth_bps or 0) // port.scale // 8, width_bytes=8),
        Setting("diffserv", TCA_CAKE_DIFFSERV_MODE, CAKE_DIFFSERV[keys.tins]),
        Setting("flow_mode", TCA_CAKE_FLOW_MODE, CAKE_FLOWS[keys.isolation]),
        Setting("rtt", TCA_CAKE_RTT, port.us(keys.rtt_ns)),
        Setting("memlimit", TCA_CAKE_MEMORY, port.limit_bytes),
    )


def _fq(port: QdiscContext, keys: FqKeys) -> tuple[Setting, ...]:
    return (
        Setting("limit", TCA_FQ_PLIMIT, port.packets),
        Setting("flow_limit", TCA_FQ_FLOW_PLIMIT, min(keys.flow_limit, port.packets)),
        Setting("quantum", TCA_FQ_QUANTUM, keys.quantum_bytes),
        *_step_at(TCA_FQ_CE_THRESHOLD, port, keys.ce_threshold_ns, 1),
    )


def _sfq(port: QdiscContext, keys: SfqKeys) -> tuple[Setting, ...]:
    packets = max(2, port.packets)
    if packets > SFQ_DEPTH * keys.flows:
        room = f"sfq keeps {SFQ_DEPTH} frames of each of {keys.flows} flows"
        raise TopologyError(f"topology.buffer: {port.limit_bytes} bytes are above what {room}; lower it, or raise topology.flows")
    perturb, attribute = 0, 0
    values = {
        "quantum": keys.quantum_bytes,
        "perturb": perturb,
        "limit": packets,
        "divisor": SFQ_DIVISOR,
        "flows": min(keys.flows, packets),
    }
    return tuple(Setting(name, attribute, value) for name, value in values.items())


def _dualpi2(port: QdiscContext, keys: Dualpi2Keys) -> tuple[Setting, ...]:
    return (
        Setting("limit", TCA_DUALPI2_LIMIT, port.packets),
        Setting("memory_limit", TCA_DUALPI2_MEMORY_LIMIT, NO_MEMORY_LIMIT),
        Setting("target", TCA_DUALPI2_TARGET, port.us(keys.target_ns)),
        Setting("tupdate", TCA_DUALPI2_TUPDATE, port.us(keys.tupdate_ns)),
        Setting("step_thresh", TCA_DUALPI2_STEP_THRESH_US, port.us(keys.step_threshold_ns)),
        Setting("coupling", TCA_DUALPI2_COUPLING, keys.coupling, width_bytes=1),
        Setting("ecn_mask", TCA_DUALPI2_ECN_MASK, L4S[keys.l4s], width_bytes=1),
    )


def _step_at(attribute: int, port: QdiscContext, time_ns: int | None, rounding: int) -> tuple[Setting, ...]:
    return () if time_ns is None else (Setting("ce_threshold", attribute, port.us(time_ns), rounding=rounding),)


def _whole_ms(time_us: int) -> int:
    """Returns a time of the kernel's ticks, of which a second has 1000."""
    return -(-time_us // 1000) * 1000


register("port", lambda port: (), help="the lab's own: any `marking`, which may change while it works, telemetry, exact counts")
register("stock", lambda port: (), help="Linux' bfifo, or RED where a port marks")
register("fq_codel", _fq_codel, FqCodelKeys, "a CoDel queue for each flow, in turn: RFC 8290", Room(TCA_FQ_CODEL_LIMIT))
register(
    "codel",
    _codel,
    CodelKeys,
    "drops, or marks, while the shortest wait of an interval is above `target`: RFC 8289",
    Room(TCA_CODEL_LIMIT),
)
register(
    "pie", _pie, PieKeys, "drops, or marks, with a probability that holds the wait at `target`: RFC 8033", Room(TCA_PIE_LIMIT)
)
register(
    "cake",
    _cake,
    CakeKeys,
    "shaper, fair queues of hosts and flows, and an AQM that marks where ECN allows (Piece of CAKE, LANMAN 2018); `buffer` counts"
    " the memory of frames",
    Room(TCA_CAKE_MEMORY, unit_bytes=1),
)
register("fq", _fq, FqKeys, "a queue for each flow, in turn", Room(TCA_FQ_PLIMIT))
register(
    "sfq",
    _sfq,
    SfqKeys,
    "stochastic fair queueing (McKenney, INFOCOM 1990): flows are hashed to queues, in turn",
    Room(0, place=SFQ_LIMIT_AT),
)
register(
    "dualpi2",
    _dualpi2,
    Dualpi2Keys,
    "a queue for L4S (ECT(1)) and one for the rest, coupled, so that flows of both get equal rates: RFC 9332",
    Room(TCA_DUALPI2_LIMIT),
)
