# SPDX-License-Identifier: Apache-2.0
"""Stock qdiscs that stand in for a cable, as netlink requests, and how they are read back.

They are tbf, netem and a redirection between devices. Rates are bytes/s where the kernel takes bytes, times are ns. Nothing is
rounded to the ticks of tc(8).
"""

from __future__ import annotations

import socket
import struct

from dc_gym.base.errors import FabricError
from dc_gym.topologies.graph import Queue
from dc_gym.topologies.realize import tc
from dc_gym.topologies.realize.rtnl import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    QDISCS,
    RTM_NEWQDISC,
    TCMSG,
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u32,
    attr_u64,
    attribute,
    attributes,
    nested,
)
from dc_gym.topologies.realize.tc import LARGEST_U32, TC_H_ROOT, TCA_KIND, TCA_OPTIONS, tbf_rate_bps

RTM_NEWTFILTER = 44
TBF_HANDLE, QUEUE_HANDLE, TBF_CLASS = 0x1 << 16, 0x2 << 16, 0x1 << 16 | 1
INGRESS_PARENT, INGRESS_HANDLE = 0xFFFFFFF1, 0xFFFF0000
ALL_PROTOCOLS = socket.htons(3)  # ETH_P_ALL
TCA_NETEM_RATE, TCA_NETEM_RATE64, TCA_NETEM_LATENCY64 = 6, 8, 10
NETEM_PARMS, NETEM_RATE = struct.Struct("=6I"), struct.Struct("=IiIi")
NETEM_LIMIT = 10**6  # frames on the way; high enough never to limit
TCA_BPF_FD, TCA_BPF_NAME = 6, 7
TCA_MATCHALL_ACT, TCA_ACT_KIND, TCA_ACT_OPTIONS, TCA_MIRRED_PARMS = 2, 1, 2, 2
MIRRED = struct.Struct("=IIiiiiI")
TC_ACT_STOLEN, EGRESS_REDIRECT = 4, 1


def set_limited_queue(ifindex: int, queue: Queue, rate_bps: int, burst_bytes: int, name: str) -> list[NetlinkRequest]:
    """Returns the requests for a tbf as the device's root and the queue inside it."""
    options = tc.tbf_options(rate_bps, burst_bytes, limit_bytes=0)
    body = TCMSG.pack(0, ifindex, TBF_HANDLE, TC_H_ROOT, 0) + attr_text(TCA_KIND, "tbf") + options
    tbf = NetlinkRequest(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body, f"{name}: limit to {rate_bps} bit/s by tbf")
    return [tbf, tc.set_queue(ifindex, queue, name, parent=TBF_CLASS, handle=QUEUE_HANDLE)]


def set_netem(ifindex: int, rate_bps: int, delay_ns: int, name: str) -> NetlinkRequest:
    """Returns the request for a netem as the device's root. It serializes at the rate, then delays."""
    rate = rate_bps // 8
    options = attribute(
        TCA_OPTIONS,
        NETEM_PARMS.pack(0, NETEM_LIMIT, 0, 0, 0, 0)
        + attr_u64(TCA_NETEM_LATENCY64, delay_ns)
        + attr_u64(TCA_NETEM_RATE64, rate)
        + attribute(TCA_NETEM_RATE, NETEM_RATE.pack(min(rate, LARGEST_U32), 0, 0, 0)),
    )
    body = TCMSG.pack(0, ifindex, TBF_HANDLE, TC_H_ROOT, 0) + attr_text(TCA_KIND, "netem") + options
    purpose = f"{name}: delay by {delay_ns} ns at {rate_bps} bit/s by netem"
    return NetlinkRequest(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body, purpose)


def redirect(ifindex: int, to_ifindex: int, name: str) -> list[NetlinkRequest]:
    """Returns the requests that send whatever comes in at the device out at the other."""
    parms = MIRRED.pack(0, 0, TC_ACT_STOLEN, 0, 0, EGRESS_REDIRECT, to_ifindex)
    action = nested(1, attr_text(TCA_ACT_KIND, "mirred"), nested(TCA_ACT_OPTIONS, attribute(TCA_MIRRED_PARMS, parms)))
    return [_ingress(ifindex, name), match_all(ifindex, name, nested(TCA_MATCHALL_ACT, action))]


def classify(ifindex: int, program: int, name: str) -> list[NetlinkRequest]:
    """Returns the requests that pass whatever comes in at the device through a BPF program, given by its file descriptor."""
    body = TCMSG.pack(0, ifindex, 0, INGRESS_HANDLE, 1 << 16 | ALL_PROTOCOLS) + attr_text(TCA_KIND, "bpf")
    body += nested(TCA_OPTIONS, attr_u32(TCA_BPF_FD, program), attr_text(TCA_BPF_NAME, name))
    flags = NLM_F_CREATE | NLM_F_EXCL
    return [_ingress(ifindex, name), NetlinkRequest(RTM_NEWTFILTER, flags, body, f"{name}: classify what comes in by BPF")]


def _ingress(ifindex: int, name: str) -> NetlinkRequest:
    body = TCMSG.pack(0, ifindex, INGRESS_HANDLE, INGRESS_PARENT, 0) + attr_text(TCA_KIND, "ingress")
    return NetlinkRequest(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_EXCL, body, f"{name}: add an ingress")


def match_all(ifindex: int, name: str, *options: bytes, priority: int = 1) -> NetlinkRequest:
    """Returns the request for a filter on the device's incoming frames. The device must have an ingress qdisc."""
    body = TCMSG.pack(0, ifindex, 0, INGRESS_HANDLE, priority << 16 | ALL_PROTOCOLS) + attr_text(TCA_KIND, "matchall")
    body += nested(TCA_OPTIONS, *options)
    return NetlinkRequest(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL, body, f"{name}: redirect what comes in (matchall, mirred)")


def check_rates(sock: NetlinkSocket, rates_bps: dict[int, tuple[str, int]]) -> None:
    """Raises FabricError unless each device's root is a tbf of its rate.

    `rates_bps` holds the port's name and its rate by ifindex.
    """
    roots = {}
    for payload in sock.listed(QDISCS):
        _family, ifindex, _handle, parent, _info = TCMSG.unpack_from(payload)
        if parent == TC_H_ROOT:
            roots[ifindex] = attributes(payload[TCMSG.size :])
    for ifindex, (name, rate_bps) in rates_bps.items():
        root = roots.get(ifindex, {})
        read = tbf_rate_bps(attributes(root[TCA_OPTIONS])) if root.get(TCA_KIND, b"").rstrip(b"\0") == b"tbf" else 0
        if read != rate_bps // 8 * 8:
            raise FabricError(f"{name}: asked for {rate_bps} bit/s, read back {read}")
