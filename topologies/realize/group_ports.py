# SPDX-License-Identifier: Apache-2.0
"""Group ports as netlink requests, and how they are read back. kernel/drivers/lab.h defines the attributes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from dc_gym.base.errors import FabricError
from dc_gym.topologies.ecmp import Group
from dc_gym.topologies.realize.cables import (
    IFLA_EXT_MASK,
    IFLA_IFNAME,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_LINKINFO,
    IFLA_STATS64,
    STATS64,
)
from dc_gym.topologies.realize.rtnl import (
    IFINFOMSG,
    NLM_F_CREATE,
    NLM_F_EXCL,
    RTM_GETLINK,
    RTM_NEWLINK,
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u32,
    attr_u64,
    attribute,
    attributes,
    nested,
)

KIND = "lab_group"
IFLA_LAB_GROUP_SEED, IFLA_LAB_GROUP_MEMBERS = 2, 3
IFF_UP = 1
TX_DROPPED = 7  # of STATS64


def create(group: Group, ifindex_of: Mapping[str, int]) -> NetlinkRequest:
    """Returns the request for a group port that is up. `ifindex_of` has the ports of its switch by name."""
    members = [ifindex_of[f"{group.switch}-eth{number}"] for number in group.members]
    data = nested(IFLA_INFO_DATA, attr_u64(IFLA_LAB_GROUP_SEED, group.seed), attribute(IFLA_LAB_GROUP_MEMBERS, _pack(members)))
    body = IFINFOMSG.pack(0, 0, 0, IFF_UP, IFF_UP) + attr_text(IFLA_IFNAME, group.ifname)
    body += nested(IFLA_LINKINFO, attr_text(IFLA_INFO_KIND, KIND), data)
    what = f"create group port {group.ifname} of {len(members)} ports"
    return NetlinkRequest(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, what)


def check(sock: NetlinkSocket, groups: Iterable[Group], ifindex_of: Mapping[str, int]) -> None:
    """Raises FabricError unless the kernel has every group port as it was asked for."""
    found = {name: attributes(data) for name, data, _ in _read(sock)}
    for group in groups:
        members = [ifindex_of[f"{group.switch}-eth{number}"] for number in group.members]
        wanted = {IFLA_LAB_GROUP_SEED: struct.pack("=Q", group.seed), IFLA_LAB_GROUP_MEMBERS: _pack(members)}
        if {kind: found.get(group.ifname, {}).get(kind) for kind in wanted} != wanted:
            raise FabricError(f"group port {group.ifname}: the kernel has other members or another seed than {group}")


def dropped(sock: NetlinkSocket) -> int:
    """Returns the frames that group ports have dropped, because the chosen port was down."""
    return sum(drops for _, _, drops in _read(sock))


def _read(sock: NetlinkSocket) -> Iterable[tuple[str, bytes, int]]:
    """Yields each group port's name, its attributes, and the frames that it has dropped."""
    for payload in sock.dump(RTM_GETLINK, IFINFOMSG.pack(0, 0, 0, 0, 0) + attr_u32(IFLA_EXT_MASK, 0)):
        link = attributes(payload[IFINFOMSG.size :])
        info = attributes(link.get(IFLA_LINKINFO, b""))
        if info.get(IFLA_INFO_KIND, b"").rstrip(b"\0") == KIND.encode():
            drops = STATS64.unpack_from(link[IFLA_STATS64])[TX_DROPPED]
            yield link[IFLA_IFNAME].rstrip(b"\0").decode(), info[IFLA_INFO_DATA], drops


def _pack(ifindexes: list[int]) -> bytes:
    return struct.pack(f"={len(ifindexes)}I", *ifindexes)
