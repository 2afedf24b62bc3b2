# SPDX-License-Identifier: Apache-2.0
"""Queueing disciplines as netlink requests, and how they are read back: port, bfifo, fq, tbf, RED, and Linux' others.

RED is configured as a step, as a slope on the queue itself, or as tc(8) sets it. All sizes are bytes of the frame as Linux counts
it in a qdisc: L2 header and payload, no FCS.
"""

from __future__ import annotations

import math
import struct
from dataclasses import astuple, dataclass

from dc_gym.base.errors import FabricError
from dc_gym.base.units import PPM
from dc_gym.topologies import qdiscs
from dc_gym.topologies.graph import DSCPS, Marking, MarksAt, Queue, QueueClass, Setting, Telemetry
from dc_gym.topologies.realize.rtnl import (
    NLM_F_CREATE,
    NLM_F_ECHO,
    NLM_F_REPLACE,
    QDISCS,
    RTM_GETQDISC,
    RTM_NEWQDISC,
    TCMSG,
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u32,
    attr_u64,
    attribute,
    attributes,
    each_attribute,
    nested,
)

TC_H_ROOT = 0xFFFFFFFF
HANDLE = 0x1 << 16  # 1:
TCA_KIND, TCA_OPTIONS, TCA_STATS2 = 1, 2, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP, TCA_STATS_PKT64 = 1, 3, 4, 8
STATS_BASIC = struct.Struct("=QI")  # bytes, packets (the low 32 bits)
STATS_QUEUE = struct.Struct("=5I")  # qlen, backlog, drops, requeues, overlimits
TCA_RED_PARMS, TCA_RED_STAB, TCA_RED_MAX_P, TCA_RED_FLAGS = 1, 2, 3, 4
RED_PARMS = struct.Struct("=IIIBBBB")  # limit, qth_min, qth_max, Wlog, Plog, Scell_log, flags
RED_ECN, RED_NODROP = 1, 8
RED_INDEPENDENT = 128  # of kernel/patches/0005: a draw of its own decides whether each packet is marked
NO_AVERAGE = bytes([31] * 256)  # an idle queue's average is 0
TCA_FQ_PLIMIT, TCA_FQ_FLOW_PLIMIT = 1, 2
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST = 1, 4, 6
TBF_PARMS = struct.Struct("=BBHhHI12sIII")  # rate (its last field is bytes/s), peak rate, limit, buffer, mtu
TBF_RATE_OFFSET = 8  # of the rate in bytes/s
LINK_ETHERNET = 1
LARGEST_U32 = 2**32 - 1
TCA_PORT_LIMIT, TCA_PORT_MARKING, TCA_PORT_SEED, TCA_PORT_INT = 2, 3, 4, 5  # kernel/drivers/lab.h
TCA_PORT_CLASS, TCA_PORT_DSCP, TCA_PORT_POOL, TCA_PORT_PFC = 6, 7, 8, 9
TCA_PORT_HISTOGRAM, TCA_PORT_HISTOGRAM_NS, TCA_PORT_TRIM, TCA_PORT_TRIMMED = 10, 11, 12, 13
CLASS_NUMBER, CLASS_LIMIT, CLASS_MARKING, CLASS_QUANTUM, CLASS_RESERVE, CLASS_ALPHA, CLASS_LOSSLESS = range(1, 8)
PORT_POOL = struct.Struct("=IIQ")  # number, nothing, bytes
PORT_PFC = struct.Struct("=8I")  # struct tc_port_pfc
PORT_TRIM = struct.Struct("=4I")  # struct tc_port_trim
PORT_TRIMMED = struct.Struct("=QQ")  # struct tc_port_trimmed
PORT_MARKING = struct.Struct("=4I")  # kmin, kmax, pmax of 2^32, when
PORT_INT = struct.Struct("=4I")  # place of the rate; units of time in ns, of bytes sent, of bytes queued
PORT_MARKS_AT = {"arrival": 0, "departure": 1}
PORT_WINDOW = struct.Struct("=QQ")  # struct tc_port_window
PORT_HISTOGRAM = struct.Struct("=2I")  # struct tc_port_histogram, without the times that follow
PORT_XSTATS = struct.Struct("=16Q2I")  # struct tc_port_xstats
MARKS_IN = {"red": (12,), "codel": (24, 32), "fq_codel": (12, 28), "pie": (36,), "fq": (80,), "dualpi2": (24,)}
"""Where the statistics of Linux' qdiscs count marks (monitors/qdisc.c)."""
TCA_CAKE_STATS_TIN_STATS, TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS = 10, 8
NO_MARKS = LARGEST_U32  # as both thresholds
TICKS_PER_US = 15.625  # psched ticks of 64 ns, in which tc(8) computes RED's idle damping
LONGEST_IDLE_US = 512


@dataclass(frozen=True, slots=True)
class RedSettings:
    """The settings of RED besides its thresholds: logarithms of averaging weight, probability and idle cells."""

    wlog: int
    plog: int
    scell_log: int
    stab: bytes
    max_p: int
    flags: int


def set_queue(ifindex: int, queue: Queue, name: str, parent: int = TC_H_ROOT, handle: int = HANDLE) -> NetlinkRequest:
    """Returns the request that replaces the device's root qdisc (or the qdisc of the class `parent`) by `queue`."""
    kind, options = _options(queue)
    body = TCMSG.pack(0, ifindex, handle, parent, 0) + attr_text(TCA_KIND, kind) + options
    note = " with marking red-instant, which the lab's kernel alone knows" if queue.marking.kind == "red-instant" else ""
    note = ", which comes with the cable" if kind == "port" else note
    return NetlinkRequest(
        RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body, f"{name}: set queue {kind} of {queue.limit_bytes} bytes{note}"
    )


def check_queues(sock: NetlinkSocket, queues: dict[int, tuple[str, Queue]], parent: int = TC_H_ROOT) -> None:
    """Reads all qdiscs of the socket's namespace back. Raises FabricError where a qdisc differs from the request.

    `queues` holds by ifindex the port's name and queue, which is the root or the qdisc of the class `parent`.
    """
    by_ifindex: dict[int, bytes] = {}
    for payload in sock.listed(QDISCS):
        _family, ifindex, _handle, its_parent, _info = TCMSG.unpack_from(payload)
        if its_parent == parent:
            by_ifindex[ifindex] = payload[TCMSG.size :]
    for ifindex, (name, queue) in queues.items():
        if ifindex not in by_ifindex:
            raise FabricError(f"{name}: asked for queue {queue.kind}, read back none")
        _check_queue(name, queue, attributes(by_ifindex[ifindex]))


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A port's root qdisc as the kernel describes it."""

    qdisc: str
    buffer_bytes: int
    k_bytes: int | None
    """Queue length in bytes at which the port begins to mark. None if it does not."""


def queue_settings(sock: NetlinkSocket, parent: int = TC_H_ROOT) -> dict[int, QueueSettings]:
    """Returns the root qdisc (or the qdisc of the class `parent`) of every device in the socket's namespace, by ifindex."""
    settings = {}
    for payload in sock.listed(QDISCS):
        _family, ifindex, _handle, its_parent, _info = TCMSG.unpack_from(payload)
        if its_parent == parent:
            settings[ifindex] = _settings(attributes(payload[TCMSG.size :]))
    return settings


def _settings(qdisc: dict[int, bytes]) -> QueueSettings:
    kind, options = qdisc[TCA_KIND].rstrip(b"\0").decode(), qdisc.get(TCA_OPTIONS, b"")
    if kind == "tbf":
        return QueueSettings(kind, TBF_PARMS.unpack_from(attributes(options)[TCA_TBF_PARMS])[7], None)
    if kind == "bfifo":
        return QueueSettings(kind, struct.unpack_from("=I", options)[0], None)
    inner = attributes(options) if kind in ("port", "red") else {}
    if kind == "port":
        limit_bytes = int.from_bytes(inner[TCA_PORT_LIMIT], "little")
        kmin, *_ = PORT_MARKING.unpack_from(inner[TCA_PORT_MARKING])
        return QueueSettings(kind, limit_bytes, None if kmin == NO_MARKS else kmin)
    if kind == "red":
        limit_bytes, low, *_ = RED_PARMS.unpack_from(inner[TCA_RED_PARMS])
        return QueueSettings(kind, limit_bytes, low)
    room = qdiscs.room_of(kind)
    return QueueSettings(kind, _read(options, room.attribute, room.place) * room.unit_bytes if room else 0, None)


@dataclass(frozen=True, slots=True)
class QueueCounters:
    """A port's root qdisc at one moment: totals since its creation, and its present contents."""

    tx_bytes: int
    tx_packets: int
    backlog_bytes: int
    backlog_packets: int
    drops: int
    trimmed_packets: int = 0
    trimmed_bytes: int = 0
    """Bytes that were cut off."""


def queue_counters(sock: NetlinkSocket) -> dict[int, QueueCounters]:
    """Returns the counters of the root qdisc of every device in the socket's namespace, by ifindex."""
    counters = {}
    for payload in sock.listed(QDISCS):
        _family, ifindex, _handle, parent, _info = TCMSG.unpack_from(payload)
        qdisc = attributes(payload[TCMSG.size :])
        stats = attributes(qdisc.get(TCA_STATS2, b""))
        if parent == TC_H_ROOT and TCA_STATS_BASIC in stats:
            tx_bytes, tx_packets = STATS_BASIC.unpack_from(stats[TCA_STATS_BASIC])
            if TCA_STATS_PKT64 in stats:
                tx_packets = int.from_bytes(stats[TCA_STATS_PKT64], "little")
            qlen, backlog, drops, _requeues, _overlimits = STATS_QUEUE.unpack_from(stats[TCA_STATS_QUEUE])
            counters[ifindex] = QueueCounters(tx_bytes, tx_packets, backlog, qlen, drops, *_trimmed(qdisc))
    return counters


def _trimmed(qdisc: dict[int, bytes]) -> tuple[int, ...]:
    """Returns the frames that a `port` has trimmed, and the bytes that it has cut off; nothing of one that does not trim."""
    options = attributes(qdisc[TCA_OPTIONS]) if qdisc.get(TCA_KIND) == b"port\0" else {}
    return PORT_TRIMMED.unpack(options[TCA_PORT_TRIMMED]) if TCA_PORT_TRIMMED in options else ()


def marks(sock: NetlinkSocket) -> dict[int, int]:
    """Returns the packets that the qdiscs of every device in the socket's namespace have marked, by ifindex."""
    counts: dict[int, int] = {}
    for payload in sock.listed(QDISCS):
        _family, ifindex, *_ = TCMSG.unpack_from(payload)
        qdisc = attributes(payload[TCMSG.size :])
        statistics = attributes(qdisc.get(TCA_STATS2, b"")).get(TCA_STATS_APP, b"")
        counts[ifindex] = counts.get(ifindex, 0) + marks_of(qdisc[TCA_KIND], statistics)
    return counts


def marks_of(kind: bytes, statistics: bytes) -> int:
    """Returns the packets that a qdisc has marked, from its kind and its own statistics. Kinds that mark nothing have 0."""
    if kind == b"port\0":
        return int(PORT_XSTATS.unpack_from(statistics)[0])
    if kind == b"cake\0":
        tins = attributes(attributes(statistics)[TCA_CAKE_STATS_TIN_STATS]).values()
        marked = [attributes(tin)[TCA_CAKE_TIN_STATS_ECN_MARKED_PACKETS] for tin in tins]
        return sum(int.from_bytes(count, "little") for count in marked)
    return sum(int.from_bytes(statistics[at : at + 4], "little") for at in MARKS_IN.get(kind.rstrip(b"\0").decode(), ()))


def step(k_bytes: int) -> RedSettings:
    """Returns RED as DCTCP's step.

    The average is the queue itself, and every ECN-capable frame that finds K bytes or more is marked. nodrop: a frame without ECN
    above K (SYN, ARP, pure ACK) passes unmarked; with RED's default it would be dropped.
    """
    return RedSettings(wlog=0, plog=0, scell_log=0, stab=NO_AVERAGE, max_p=0xFFFFFFFF, flags=RED_ECN | RED_NODROP)


def instant(marking: Marking) -> RedSettings:
    """Returns RED on the queue itself, like the step, but with a slope and independent marks.

    Kernels other than the lab's refuse the flag. RED without the patch draws the gap to the next mark, uniform in 1 .. 1/p, so
    that its share of marks is 2p / (1 + p) instead of p.
    """
    max_p = _of_2_32(marking.probability_ppm)
    return RedSettings(0, 0, 0, stab=NO_AVERAGE, max_p=max_p, flags=RED_ECN | RED_NODROP | RED_INDEPENDENT)


def slope(marking: Marking) -> RedSettings:
    """Returns RED's constants from the parameters of tc-red(8), computed as that program does, with one exception.

    Linux (since 4.15) refuses an averaging weight with which the scaled average might overflow 32 bits. The thesis' burst of 229
    packets at 1 Gbit/s asks for 2^-12 with max = 1 MB, one bit too many, and tc fails. This function takes the next weight
    instead.
    """
    wlog = _ewma_log(marking.min_bytes, marking.burst_packets, marking.avpkt_bytes)
    wlog = min(wlog, 31 - marking.max_bytes.bit_length())
    scell_log, stab = _idle_damping(wlog, marking.avpkt_bytes, marking.bandwidth_bps)
    probability = marking.probability_ppm / 1e6
    plog = _probability_log(marking.min_bytes, marking.max_bytes, probability)
    return RedSettings(wlog, plog, scell_log, stab, max_p=round(probability * 2**32), flags=RED_ECN)


def _options(queue: Queue) -> tuple[str, bytes]:
    if queue.kind == "bfifo":
        return "bfifo", attribute(TCA_OPTIONS, struct.pack("=I", queue.limit_bytes))
    if queue.settings:
        return queue.kind, _with_settings(queue.settings)
    if queue.kind == "fq":
        packets = max(1, queue.limit_bytes // queue.packet_bytes)  # fq limits packets, in total and for one flow
        return "fq", nested(TCA_OPTIONS, attr_u32(TCA_FQ_PLIMIT, packets), attr_u32(TCA_FQ_FLOW_PLIMIT, packets))
    if queue.kind == "tbf":
        return "tbf", tbf_options(queue.rate_bps, queue.burst_bytes, queue.limit_bytes)
    if queue.kind == "port":
        return "port", nested(TCA_OPTIONS, *port_options(queue))
    red, low, high = _red(queue.marking)
    parms = RED_PARMS.pack(queue.limit_bytes, low, high, red.wlog, red.plog, red.scell_log, 0)  # flags: attribute below
    flags = struct.pack("=II", red.flags, red.flags | RED_ECN | RED_NODROP)  # value and selector of a bitfield32
    return "red", nested(
        TCA_OPTIONS,
        attribute(TCA_RED_PARMS, parms),
        attribute(TCA_RED_STAB, red.stab),
        attr_u32(TCA_RED_MAX_P, red.max_p),
        attribute(TCA_RED_FLAGS, flags),
    )


def _with_settings(settings: tuple[Setting, ...]) -> bytes:
    """Returns the options of one of Linux' qdiscs: attributes, or a structure of numbers of 32 bits."""
    if settings[0].attribute == 0:
        return attribute(TCA_OPTIONS, b"".join(field.value.to_bytes(4, "little") for field in settings))
    return nested(TCA_OPTIONS, *(attribute(attr.attribute, attr.value.to_bytes(attr.width_bytes, "little")) for attr in settings))


def _read(options: bytes, kind: int, index: int) -> int:
    """Returns a number of a qdisc's options: an attribute, or the one at `index` of a structure."""
    return int.from_bytes(attributes(options).get(kind, b"") if kind else options[4 * index : 4 * index + 4], "little")


def port_options(queue: Queue) -> list[bytes]:
    """Returns the attributes of a `port`."""
    options = [attribute(TCA_PORT_INT, PORT_INT.pack(*astuple(queue.telemetry)))] if queue.telemetry else []
    if queue.pool:
        options.append(attribute(TCA_PORT_POOL, PORT_POOL.pack(queue.pool.number, 0, queue.pool.bytes)))
    if queue.pause:
        options.append(attribute(TCA_PORT_PFC, PORT_PFC.pack(*astuple(queue.pause))))
    if queue.trim:
        options.append(attribute(TCA_PORT_TRIM, PORT_TRIM.pack(*astuple(queue.trim), 0)))
    if not queue.classes:
        marks = attribute(TCA_PORT_MARKING, port_marking(queue.marking))
        return [attr_u32(TCA_PORT_LIMIT, queue.limit_bytes), marks, *options]
    classes = [_class(number, queue_class) for number, queue_class in enumerate(queue.classes)]
    return [*classes, attribute(TCA_PORT_DSCP, class_of_dscp(queue)), *options]


def class_of_dscp(queue: Queue) -> bytes:
    """Returns the number of the class of each DSCP."""
    return bytes(map(queue.class_of, range(DSCPS)))


def _class(number: int, queue_class: QueueClass) -> bytes:
    return nested(
        TCA_PORT_CLASS,
        attr_u32(CLASS_NUMBER, number),
        attribute(CLASS_MARKING, port_marking(queue_class.marking)),
        *(attr_u32(kind, value) for kind, value in _class_values(queue_class).items()),
    )


def _class_values(queue_class: QueueClass) -> dict[int, int]:
    return {
        CLASS_LIMIT: LARGEST_U32 if queue_class.lossless else queue_class.limit_bytes,
        CLASS_QUANTUM: queue_class.quantum_bytes,
        CLASS_RESERVE: queue_class.reserve_bytes,
        CLASS_ALPHA: queue_class.alpha_2_16,
        CLASS_LOSSLESS: int(queue_class.lossless),
    }


def port_marking(marking: Marking) -> bytes:
    """Returns the payload of TCA_PORT_MARKING."""
    at = PORT_MARKS_AT[marking.at]
    if marking.kind == "none":
        return PORT_MARKING.pack(NO_MARKS, NO_MARKS, 0, at)
    if marking.kind == "step":
        return PORT_MARKING.pack(marking.k_bytes, marking.k_bytes, LARGEST_U32, at)
    return PORT_MARKING.pack(marking.min_bytes, marking.max_bytes, _of_2_32(marking.probability_ppm), at)


def seed_draws(ifindex: int, ifname: str, seed: int) -> NetlinkRequest:
    """Returns the request that gives a `port` the seed of its draws for marks, which it then numbers from 0."""
    options = nested(TCA_OPTIONS, attr_u64(TCA_PORT_SEED, seed))
    body = TCMSG.pack(0, ifindex, HANDLE, TC_H_ROOT, 0) + attr_text(TCA_KIND, "port") + options
    return NetlinkRequest(RTM_NEWQDISC, 0, body, f"{ifname}: seed the draws for marks")


def count_queue(ifindex: int, ifname: str, from_ns: int, until_ns: int) -> NetlinkRequest:
    """Returns the request that has a `port` count anew for how long its queue is how long, between these times of
    CLOCK_MONOTONIC."""
    options = nested(TCA_OPTIONS, attribute(TCA_PORT_HISTOGRAM, PORT_WINDOW.pack(from_ns, until_ns)))
    body = TCMSG.pack(0, ifindex, HANDLE, TC_H_ROOT, 0) + attr_text(TCA_KIND, "port") + options
    return NetlinkRequest(RTM_NEWQDISC, 0, body, f"{ifname}: count the queue by its length")


def queue_times(sock: NetlinkSocket) -> dict[int, tuple[int, list[int]]]:
    """Returns the counters of the ports of the socket's namespace after their windows, by ifindex.

    It is the first bucket that is not empty (results/metrics/queue_times.py), and the time in ns in it and in the following
    buckets.
    """
    times = {}
    for payload in sock.listed(QDISCS):
        _family, ifindex, _handle, parent, _info = TCMSG.unpack_from(payload)
        qdisc = attributes(payload[TCMSG.size :])
        if parent == TC_H_ROOT and qdisc.get(TCA_KIND) == b"port\0":
            counted = attributes(qdisc[TCA_OPTIONS]).get(TCA_PORT_HISTOGRAM_NS)
            if counted is not None:
                first, count = PORT_HISTOGRAM.unpack_from(counted)
                times[ifindex] = first, list(struct.unpack_from(f"={count}Q", counted, PORT_HISTOGRAM.size))
    return times


def change_port(
    ifindex: int,
    ifname: str,
    limit_bytes: int | None = None,
    marking: tuple[int, int, int, MarksAt] | None = None,
    telemetry: Telemetry | None = None,
) -> NetlinkRequest:
    """Returns the request that changes a `port`: its limit, its marking (kmin and kmax in bytes, pmax in ppm, and when), or its
    telemetry: the rate's place in the table, and the units."""
    options = attr_u32(TCA_PORT_LIMIT, limit_bytes) if limit_bytes is not None else b""
    if marking is not None:
        kmin, kmax, pmax_ppm, at = marking
        options += attribute(TCA_PORT_MARKING, PORT_MARKING.pack(kmin, kmax, _of_2_32(pmax_ppm), PORT_MARKS_AT[at]))
    options += attribute(TCA_PORT_INT, PORT_INT.pack(*astuple(telemetry))) if telemetry is not None else b""
    body = TCMSG.pack(0, ifindex, HANDLE, TC_H_ROOT, 0) + attr_text(TCA_KIND, "port") + nested(TCA_OPTIONS, options)
    return NetlinkRequest(RTM_NEWQDISC, 0, body, f"{ifname}: change the queue")


def describe(ifindex: int, ifname: str) -> NetlinkRequest:
    """Returns the request for the kernel's description of a device's root qdisc. The kernel sends it only as an echo."""
    return NetlinkRequest(RTM_GETQDISC, NLM_F_ECHO, TCMSG.pack(0, ifindex, 0, TC_H_ROOT, 0), f"{ifname}: describe the queue")


def port_of(payload: bytes) -> tuple[int, int, int, int]:
    """Returns the settings of a `port` as the kernel describes it: its limit, kmin and kmax in bytes, and pmax in ppm."""
    options = attributes(attributes(payload[TCMSG.size :])[TCA_OPTIONS])
    kmin, kmax, pmax, _at = PORT_MARKING.unpack_from(options[TCA_PORT_MARKING])
    return int.from_bytes(options[TCA_PORT_LIMIT], "little"), kmin, kmax, -(-pmax * PPM >> 32)


def told_by(payload: bytes) -> Telemetry:
    """Returns the telemetry of a `port` as the kernel describes it."""
    return Telemetry(*PORT_INT.unpack(attributes(attributes(payload[TCMSG.size :])[TCA_OPTIONS])[TCA_PORT_INT]))


def _of_2_32(ppm: int) -> int:
    """Returns a probability as the kernel has it, of 2^32; certainty is one below."""
    return min(LARGEST_U32, (ppm << 32) // PPM)


def tbf_options(rate_bps: int, burst_bytes: int, limit_bytes: int) -> bytes:
    """Returns the options of a token bucket. With a limit, the kernel puts a bfifo of that size inside; with 0 nothing yet."""
    return nested(
        TCA_OPTIONS,
        attribute(TCA_TBF_PARMS, tbf_parms(rate_bps, limit_bytes)),
        attr_u64(TCA_TBF_RATE64, rate_bps // 8),
        attribute(TCA_TBF_BURST, struct.pack("=I", burst_bytes)),
    )


def tbf_parms(rate_bps: int, limit_bytes: int) -> bytes:
    """Returns the payload of TCA_TBF_PARMS. A rate that does not fit is given by TCA_TBF_RATE64 alone."""
    return TBF_PARMS.pack(0, LINK_ETHERNET, 0, 0, 0, min(rate_bps // 8, LARGEST_U32), bytes(12), limit_bytes, 0, 0)


def tbf_rate_bps(options: dict[int, bytes]) -> int:
    """Returns the rate in a tbf's options, as the kernel dumps them."""
    if TCA_TBF_RATE64 in options:
        return 8 * int.from_bytes(options[TCA_TBF_RATE64], "little")
    return 8 * int(TBF_PARMS.unpack_from(options[TCA_TBF_PARMS])[5])


def _red(marking: Marking) -> tuple[RedSettings, int, int]:
    if marking.kind == "step":
        return step(marking.k_bytes), marking.k_bytes, marking.k_bytes
    settings = instant(marking) if marking.kind == "red-instant" else slope(marking)
    return settings, marking.min_bytes, marking.max_bytes


def _check_queue(name: str, queue: Queue, qdisc: dict[int, bytes]) -> None:
    kind = qdisc.get(TCA_KIND, b"").rstrip(b"\0").decode()
    if kind != queue.kind:
        raise FabricError(f"{name}: asked for queue {queue.kind}, read back {kind or 'none'}")
    options = qdisc.get(TCA_OPTIONS, b"")
    for index, setting in enumerate(queue.settings):
        read = _read(options, setting.attribute, index)
        _check_value(name, setting.name, setting.value, setting.value if 0 <= setting.value - read <= setting.rounding else read)
    if kind == "bfifo":
        _check_value(name, "limit", queue.limit_bytes, struct.unpack_from("=I", options)[0])
    elif kind == "tbf":
        inner = attributes(options)
        _check_value(name, "limit", queue.limit_bytes, TBF_PARMS.unpack_from(inner[TCA_TBF_PARMS])[7])
        _check_value(name, "rate", queue.rate_bps // 8 * 8, tbf_rate_bps(inner))
    elif kind == "port":
        _check_port(name, queue, attributes(options))
        _check_classes(name, queue, options)
    elif kind == "red":
        _check_red(name, queue, attributes(options))


def _check_port(name: str, queue: Queue, options: dict[int, bytes]) -> None:
    if not queue.classes:
        _check_value(name, "limit", queue.limit_bytes, int.from_bytes(options[TCA_PORT_LIMIT], "little"))
        _check_marking(name, queue.marking, options[TCA_PORT_MARKING])
    tells = PORT_INT.unpack(options[TCA_PORT_INT]) if TCA_PORT_INT in options else ()
    if tells != (astuple(queue.telemetry) if queue.telemetry else ()):
        raise FabricError(f"{name}: asked for telemetry {queue.telemetry}, read back {tells or 'none'}")
    pool = PORT_POOL.unpack(options[TCA_PORT_POOL])[::2] if TCA_PORT_POOL in options else ()
    if pool != (astuple(queue.pool) if queue.pool else ()):
        raise FabricError(f"{name}: asked for {queue.pool}, read back {pool or 'none'}")
    pause = PORT_PFC.unpack(options[TCA_PORT_PFC]) if TCA_PORT_PFC in options else ()
    if pause != (astuple(queue.pause) if queue.pause else ()):
        raise FabricError(f"{name}: asked for {queue.pause}, read back {pause or 'none'}")
    trim = PORT_TRIM.unpack(options[TCA_PORT_TRIM])[:-1] if TCA_PORT_TRIM in options else ()
    if trim != (astuple(queue.trim) if queue.trim else ()):
        raise FabricError(f"{name}: asked for {queue.trim}, read back {trim or 'none'}")


def _check_classes(name: str, queue: Queue, options: bytes) -> None:
    """Raises FabricError unless the port has these classes. Each has an attribute of the same type."""
    classes = [attributes(payload) for kind, payload in each_attribute(options) if kind == TCA_PORT_CLASS]
    if len(classes) != len(queue.classes):
        raise FabricError(f"{name}: asked for {len(queue.classes)} classes, read back {len(classes)}")
    for queue_class, read in zip(queue.classes, classes, strict=True):
        _check_marking(f"{name}, class {queue_class.name}", queue_class.marking, read[CLASS_MARKING])
        for kind, value in _class_values(queue_class).items():
            _check_value(f"{name}, class {queue_class.name}", f"attribute {kind}", value, int.from_bytes(read[kind], "little"))
    if queue.classes and attributes(options)[TCA_PORT_DSCP] != class_of_dscp(queue):
        raise FabricError(f"{name}: asked for other DSCPs of classes than were read back")


def _check_marking(name: str, marking: Marking, payload: bytes) -> None:
    pairs = zip(PORT_MARKING.unpack(port_marking(marking)), PORT_MARKING.unpack(payload), strict=True)
    for quantity, (requested, read) in zip(("kmin", "kmax", "pmax of 2^32", "moment of marks"), pairs, strict=True):
        _check_value(name, quantity, requested, read)


def _check_red(name: str, queue: Queue, options: dict[int, bytes]) -> None:
    red, low, high = _red(queue.marking)
    values = RED_PARMS.unpack_from(options[TCA_RED_PARMS])
    flags = struct.unpack_from("=I", options[TCA_RED_FLAGS])[0]
    for quantity, requested, read in zip(("limit", "min", "max"), (queue.limit_bytes, low, high), values[:3], strict=True):
        _check_value(name, quantity, requested, read)
    _check_value(name, "flags", red.flags, flags)
    _check_value(name, "probability of 2^32", red.max_p, struct.unpack_from("=I", options[TCA_RED_MAX_P])[0])


def _check_value(name: str, quantity: str, requested: int, read: int) -> None:
    if requested != read:
        raise FabricError(f"{name}: asked for {quantity} {requested}, read back {read}")


def _ewma_log(min_bytes: int, burst_packets: int, avpkt_bytes: int) -> int:
    """Returns the smallest Wlog with which a burst from an empty queue stays below min.

    Source: Floyd and Jacobson 1993, section 6, eq. 3.
    """
    allowed = burst_packets + 1 - min_bytes / avpkt_bytes
    for wlog in range(1, 32):
        weight = 0.5**wlog
        if allowed <= (1 - (1 - weight) ** burst_packets) / weight:
            return wlog
    raise FabricError(f"RED: burst {burst_packets} is too small for min {min_bytes}; make it larger")


def _probability_log(min_bytes: int, max_bytes: int, probability: float) -> int:
    """Returns Plog: the probability rises by 2^-Plog for each byte above min."""
    value = probability / (max_bytes - min_bytes)
    for plog in range(32):
        if value > 1:
            return plog
        value *= 2
    raise FabricError(f"RED: probability {probability} is too small for max - min = {max_bytes - min_bytes} bytes")


def _idle_damping(wlog: int, avpkt_bytes: int, bandwidth_bps: int) -> tuple[int, bytes]:
    """Returns Scell_log and the table of shifts by which the average decays over an idle period."""
    ticks = avpkt_bytes * 8 * 1e6 / bandwidth_bps * TICKS_PER_US
    decay = -math.log(1 - 0.5**wlog) / ticks
    longest = 31 / decay
    for scell_log in range(32):
        if longest / 2**scell_log < LONGEST_IDLE_US:
            cells = [0, *(min(31, int((cell << scell_log) * decay)) for cell in range(1, 255)), 31]
            return scell_log, bytes(cells)
    raise FabricError(f"RED: bandwidth {bandwidth_bps} bit/s is too low for packets of {avpkt_bytes} bytes")
