# SPDX-License-Identifier: Apache-2.0
"""Cables as netlink requests, and how they are read back. kernel/drivers/lab.h defines the attributes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dc_gym.base.errors import FabricError
from dc_gym.base.units import MTU_BYTES
from dc_gym.topologies.changes import CUT, DELAY, LOSS, RATE
from dc_gym.topologies.graph import NO_IMPAIRMENT, Cable, Impairment
from dc_gym.topologies.realize.rtnl import (
    IFINFOMSG,
    LINKS,
    NLA_F_NESTED,
    NLM_F_CREATE,
    NLM_F_EXCL,
    RTM_GETLINK,
    RTM_NEWLINK,
    Listing,
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u32,
    attr_u64,
    attribute,
    attributes,
    nested,
)

KIND = "cable"
IFF_UP = 1
IFF_LOWER_UP = 1 << 16
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINKINFO, IFLA_STATS64 = 1, 3, 4, 18, 23
IFLA_NET_NS_FD, IFLA_EXT_MASK, IFLA_GSO_MAX_SEGS = 28, 29, 40
RTEXT_FILTER_SKIP_STATS = 8
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2
IFLA_CABLE_PEER, IFLA_CABLE_RATE, IFLA_CABLE_DELAY = 2, 3, 4
IFLA_CABLE_FLIGHT_PACKETS, IFLA_CABLE_FLIGHT_BYTES = 5, 6
IFLA_CABLE_LOST_PACKETS, IFLA_CABLE_LOST_BYTES = 7, 8
IFLA_CABLE_LOSS, IFLA_CABLE_JITTER, IFLA_CABLE_REORDER, IFLA_CABLE_REORDER_DELAY = 9, 10, 11, 12
IFLA_CABLE_SEED, IFLA_CABLE_IMPAIRED_FROM = 13, 14
IFLA_CABLE_DROPPED_PACKETS, IFLA_CABLE_DROPPED_BYTES, IFLA_CABLE_REORDERED_PACKETS = 15, 16, 17
IFLA_CABLE_RING, IFLA_CABLE_RING_CLASSES = 18, 19
IFLA_CABLE_PAUSES_SENT, IFLA_CABLE_PAUSES_RECEIVED, IFLA_CABLE_PAUSES_IN_FLIGHT = 20, 21, 22
IFLA_CABLE_PAUSED_NS, IFLA_CABLE_PAUSED_CLASSES = 23, 24
IFLA_CABLE_CUT, IFLA_CABLE_CUT_PACKETS, IFLA_CABLE_CUT_BYTES = 25, 26, 27
IFLA_CABLE_PAUSES_LOST = 28
STATS64 = struct.Struct("=10Q")  # rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped, ...


ARGUMENTS = {RATE: "rate_bps", DELAY: "delay_ns", LOSS: "loss_ppb", CUT: "cut"}
"""The argument of `change` for each quantity of a cable."""


@dataclass(frozen=True, slots=True)
class CableEnd:
    """One end of a cable to be made: device name, MAC (None: the kernel chooses) and namespace (None: the socket's)."""

    ifname: str
    mac: str | None = None
    netns_fd: int | None = None


@dataclass(frozen=True, slots=True)
class Device:
    """The kernel's description of one end of a cable. The counters run from its creation, in frames and frame bytes."""

    ifindex: int
    ifname: str
    up: bool
    rate_bps: int
    delay_ns: int
    gso_max_segs: int
    mtu: int
    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_dropped: int
    tx_dropped: int
    flight_packets: int
    flight_bytes: int
    lost_packets: int
    lost_bytes: int
    impairment: Impairment = NO_IMPAIRMENT
    seed: int = 0
    impaired_from_ns: int = 0
    dropped_packets: int = 0
    dropped_bytes: int = 0
    reordered_packets: int = 0
    pauses_sent: int = 0
    """PAUSE frames. They are in no other counter."""
    pauses_received: int = 0
    pauses_in_flight: int = 0
    pauses_lost: int = 0
    paused_ns: int = 0
    """As of the last change."""
    paused_classes: int = 0
    """The classes that are paused now, a bit each."""
    cut: int = 0
    cut_packets: int = 0
    cut_bytes: int = 0


def create(a: CableEnd, b: CableEnd, rate_bps: int, delay_ns: int, mtu_bytes: int = MTU_BYTES) -> NetlinkRequest:
    """Returns the request for a cable between two new devices, with the same rate and delay in both directions."""
    peer = attribute(IFLA_CABLE_PEER | NLA_F_NESTED, IFINFOMSG.pack(0, 0, 0, 0, 0) + _end(b, mtu_bytes))
    data = nested(IFLA_INFO_DATA, peer, attr_u64(IFLA_CABLE_RATE, rate_bps), attr_u64(IFLA_CABLE_DELAY, delay_ns))
    body = IFINFOMSG.pack(0, 0, 0, 0, 0) + _end(a, mtu_bytes) + nested(IFLA_LINKINFO, attr_text(IFLA_INFO_KIND, KIND), data)
    purpose = f"create cable {a.ifname} to {b.ifname} of {rate_bps} bit/s and {delay_ns} ns"
    return NetlinkRequest(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, purpose)


def change(
    ifindex: int,
    ifname: str,
    rate_bps: int | None = None,
    delay_ns: int | None = None,
    loss_ppb: int | None = None,
    cut: int | None = None,
) -> NetlinkRequest:
    """Returns the request that changes the rate, delay or loss of this end's direction, or cuts it (1) or makes it whole (0)."""
    values = [attr_u64(IFLA_CABLE_RATE, rate_bps)] if rate_bps is not None else []
    values += [attr_u64(IFLA_CABLE_DELAY, delay_ns)] if delay_ns is not None else []
    values += [attr_u32(IFLA_CABLE_LOSS, loss_ppb)] if loss_ppb is not None else []
    values += [attr_u32(IFLA_CABLE_CUT, cut)] if cut is not None else []
    return _change(ifindex, values, f"{ifname}: change the cable")


def stop_ring(ifindex: int, ifname: str, ring: int, classes: int) -> NetlinkRequest:
    """Returns the request that stops the queue of device `ring` while this end is paused in one of `classes`, a bit each."""
    values = [attr_u32(IFLA_CABLE_RING, ring), attr_u32(IFLA_CABLE_RING_CLASSES, classes)]
    return _change(ifindex, values, f"{ifname}: let pauses stop the NIC's ring")


def impair(ifindex: int, ifname: str, impairment: Impairment, seed: int, from_ns: int) -> NetlinkRequest:
    """Returns the request that impairs the frames which this end sends from that time of CLOCK_MONOTONIC on.

    Frames count from 0.
    """
    values = [
        attr_u32(IFLA_CABLE_LOSS, impairment.loss_ppb),
        attr_u64(IFLA_CABLE_JITTER, impairment.jitter_ns),
        attr_u32(IFLA_CABLE_REORDER, impairment.reorder_ppb),
        attr_u64(IFLA_CABLE_REORDER_DELAY, impairment.reorder_delay_ns),
        attr_u64(IFLA_CABLE_SEED, seed),
        attr_u64(IFLA_CABLE_IMPAIRED_FROM, from_ns),
    ]
    return _change(ifindex, values, f"{ifname}: impair the cable")


def _change(ifindex: int, values: Sequence[bytes], purpose: str) -> NetlinkRequest:
    """Returns the request that gives this end these attributes of a cable."""
    info = nested(IFLA_LINKINFO, attr_text(IFLA_INFO_KIND, KIND), nested(IFLA_INFO_DATA, *values))
    return NetlinkRequest(RTM_NEWLINK, 0, IFINFOMSG.pack(0, 0, ifindex, 0, 0) + info, purpose)


def describe(ifindex: int, ifname: str) -> NetlinkRequest:
    """Returns the request for the kernel's description of one end."""
    return NetlinkRequest(RTM_GETLINK, 0, IFINFOMSG.pack(0, 0, ifindex, 0, 0), f"{ifname}: describe the cable")


def device_of(payload: bytes) -> Device | None:
    """Returns the end of a cable that the kernel describes, or None if it describes another device."""
    described = of_kind(payload, KIND)
    return None if described is None else _device(described)


class Described(NamedTuple):
    """A device as the kernel describes it."""

    ifindex: int
    flags: int
    link: dict[int, bytes]
    """Its attributes."""
    data: dict[int, bytes]
    """Those of its kind."""

    @property
    def ifname(self) -> str:
        return self.link[IFLA_IFNAME].rstrip(b"\0").decode()


def of_kind(payload: bytes, kind: str) -> Described | None:
    """Returns the device that the kernel describes, or None if it is of another kind."""
    _family, _type, ifindex, flags, _change = IFINFOMSG.unpack_from(payload)
    link = attributes(payload[IFINFOMSG.size :])
    info = attributes(link.get(IFLA_LINKINFO, b""))
    if info.get(IFLA_INFO_KIND, b"").rstrip(b"\0") != kind.encode():
        return None
    return Described(ifindex, flags, link, attributes(info.get(IFLA_INFO_DATA, b"")))


def listing(kind: str) -> Listing:
    """Returns the request for all devices of a kind."""
    return LINKS._replace(body=LINKS.body + nested(IFLA_LINKINFO, attr_text(IFLA_INFO_KIND, kind)))


def all_of_kind(sock: NetlinkSocket, kind: str) -> list[Described]:
    """Returns all devices of a kind in the socket's namespace."""
    return [described for payload in sock.listed(listing(kind)) if (described := of_kind(payload, kind)) is not None]


def seed_of(seed: int, ifname: str) -> int:
    """Returns the seed of one direction, that is, of the frames that one port sends."""
    from dc_gym.topologies.ecmp import draw  # few networks have impaired links

    return draw(seed, "cable", ifname)


def set_up(ifindex: int, ifname: str) -> NetlinkRequest:
    return NetlinkRequest(RTM_NEWLINK, 0, IFINFOMSG.pack(0, 0, ifindex, IFF_UP, IFF_UP), f"{ifname}: set up")


def settle(sock: NetlinkSocket, ifindexes: Iterable[int]) -> None:
    """Sees to it that each device has a stable carrier and its queue lets frames through, by `sock.finish()` at the latest.

    The kernel's own worker handles two hundred new carriers at once and a hundred in each second after that. A request for one
    device, unlike a dump, makes the kernel handle that device immediately (rtnl_getlink() in net/core/rtnetlink.c).
    """
    filters = attr_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    bodies = (IFINFOMSG.pack(0, 0, ifindex, 0, 0) + filters for ifindex in ifindexes)
    sock.each([NetlinkRequest(RTM_GETLINK, 0, body, "describe a device that was just set up") for body in bodies])


def devices(sock: NetlinkSocket) -> dict[str, Device]:
    """Returns all cable ends in the socket's namespace, by name."""
    return {described.ifname: _device(described) for described in all_of_kind(sock, KIND)}


def check_cable(cable: Cable, ends: dict[str, Device], mtu_bytes: int) -> None:
    """Raises FabricError unless both ends are up, have a carrier, and have the requested rate, delay, MTU and offloads."""
    for ifname in (cable.a.ifname, cable.b.ifname):
        device = ends.get(ifname)
        if device is None:
            raise FabricError(f"{ifname}: asked for a cable, read back none")
        pairs = (
            ("rate", cable.sent_by(ifname).rate_bps, device.rate_bps),
            ("delay", cable.sent_by(ifname).delay_ns, device.delay_ns),
            ("MTU", mtu_bytes, device.mtu),
            ("frames a packet (gso_max_segs)", 1, device.gso_max_segs),
            ("carrier", True, device.up),
        )
        for quantity, requested, read in pairs:
            if requested != read:
                raise FabricError(f"{ifname}: asked for {quantity} {requested}, read back {read}")


def check_impairment(cable: Cable, ends: dict[str, Device]) -> None:
    """Raises FabricError unless both ends are impaired as requested."""
    for ifname in (cable.a.ifname, cable.b.ifname):
        requested, read = cable.sent_by(ifname).impairment, ends[ifname].impairment
        if read != requested:
            raise FabricError(f"{ifname}: asked for {requested}, read back {read}")


def _end(end: CableEnd, mtu_bytes: int) -> bytes:
    body = attr_text(IFLA_IFNAME, end.ifname) + attr_u32(IFLA_MTU, mtu_bytes)
    if end.mac is not None:
        body += attribute(IFLA_ADDRESS, bytes.fromhex(end.mac.replace(":", "")))
    if end.netns_fd is not None:
        body += attr_u32(IFLA_NET_NS_FD, end.netns_fd)
    return body


def _device(described: Described) -> Device:
    link, data = described.link, described.data
    rx_packets, tx_packets, rx_bytes, tx_bytes, _, _, rx_dropped, tx_dropped, _, _ = STATS64.unpack_from(link[IFLA_STATS64])

    def u64(kind: int) -> int:  # or u32
        return int.from_bytes(data[kind], "little")

    return Device(
        ifindex=described.ifindex,
        ifname=described.ifname,
        up=described.flags & (IFF_UP | IFF_LOWER_UP) == IFF_UP | IFF_LOWER_UP,
        rate_bps=u64(IFLA_CABLE_RATE),
        delay_ns=u64(IFLA_CABLE_DELAY),
        gso_max_segs=int.from_bytes(link[IFLA_GSO_MAX_SEGS], "little"),
        mtu=int.from_bytes(link[IFLA_MTU], "little"),
        rx_packets=rx_packets,
        tx_packets=tx_packets,
        rx_bytes=rx_bytes,
        tx_bytes=tx_bytes,
        rx_dropped=rx_dropped,
        tx_dropped=tx_dropped,
        flight_packets=u64(IFLA_CABLE_FLIGHT_PACKETS),
        flight_bytes=u64(IFLA_CABLE_FLIGHT_BYTES),
        lost_packets=u64(IFLA_CABLE_LOST_PACKETS),
        lost_bytes=u64(IFLA_CABLE_LOST_BYTES),
        impairment=Impairment(*(u64(kind) for kind in range(IFLA_CABLE_LOSS, IFLA_CABLE_REORDER_DELAY + 1))),
        seed=u64(IFLA_CABLE_SEED),
        impaired_from_ns=u64(IFLA_CABLE_IMPAIRED_FROM),
        dropped_packets=u64(IFLA_CABLE_DROPPED_PACKETS),
        dropped_bytes=u64(IFLA_CABLE_DROPPED_BYTES),
        reordered_packets=u64(IFLA_CABLE_REORDERED_PACKETS),
        pauses_sent=u64(IFLA_CABLE_PAUSES_SENT),
        pauses_received=u64(IFLA_CABLE_PAUSES_RECEIVED),
        pauses_in_flight=u64(IFLA_CABLE_PAUSES_IN_FLIGHT),
        pauses_lost=u64(IFLA_CABLE_PAUSES_LOST),
        paused_ns=u64(IFLA_CABLE_PAUSED_NS),
        paused_classes=u64(IFLA_CABLE_PAUSED_CLASSES),
        cut=u64(IFLA_CABLE_CUT),
        cut_packets=u64(IFLA_CABLE_CUT_PACKETS),
        cut_bytes=u64(IFLA_CABLE_CUT_BYTES),
    )
