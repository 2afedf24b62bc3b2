# SPDX-License-Identifier: Apache-2.0
"""Group ports as netlink requests, and how they are read back. kernel/drivers/lab.h defines the attributes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from dc_gym.base.errors import FabricError
from dc_gym.topologies.balance import ECMP
from dc_gym.topologies.ecmp import Group
from dc_gym.topologies.realize import cables
from dc_gym.topologies.realize.rtnl import (
    IFINFOMSG,
    NLM_F_CREATE,
    NLM_F_EXCL,
    RTM_NEWLINK,
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u64,
    attribute,
    nested,
)

KIND = "lab_group"
COUNT = struct.Struct("=4Q")
IFLA_LAB_GROUP_SEED, IFLA_LAB_GROUP_MEMBERS, IFLA_LAB_GROUP_BALANCE, IFLA_LAB_GROUP_COUNTS = 2, 3, 4, 5
TX_DROPPED = 7  # of STATS64


def create(group: Group, ifindex_of: Mapping[str, int]) -> NetlinkRequest:
    """Returns the request for a group port that is up. `ifindex_of` has the ports of its switch by name."""
    members = [ifindex_of[f"{group.switch}-eth{number}"] for number in group.members]
    values = [attr_u64(IFLA_LAB_GROUP_SEED, group.seed), attribute(IFLA_LAB_GROUP_MEMBERS, _pack(members))]
    if group.balance != ECMP:
        values.append(_balance(group))
    data = nested(cables.IFLA_INFO_DATA, *values)
    body = IFINFOMSG.pack(0, 0, 0, cables.IFF_UP, cables.IFF_UP) + attr_text(cables.IFLA_IFNAME, group.ifname)
    body += nested(cables.IFLA_LINKINFO, attr_text(cables.IFLA_INFO_KIND, KIND), data)
    purpose = f"create group port {group.ifname} of {len(members)} ports"
    return NetlinkRequest(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, purpose)


def begin(group: Group) -> NetlinkRequest:
    """Returns the request by which a group port that balances forgets what it has sent."""
    info = nested(cables.IFLA_LINKINFO, attr_text(cables.IFLA_INFO_KIND, KIND), nested(cables.IFLA_INFO_DATA, _balance(group)))
    body = IFINFOMSG.pack(0, 0, 0, 0, 0) + attr_text(cables.IFLA_IFNAME, group.ifname) + info
    return NetlinkRequest(RTM_NEWLINK, 0, body, f"{group.ifname}: count from 0")


def check(sock: NetlinkSocket, groups: Iterable[Group], ifindex_of: Mapping[str, int]) -> None:
    """Raises FabricError unless the kernel has every group port as it was asked for."""
    data_of = {described.ifname: described.data for described in cables.all_of_kind(sock, KIND)}
    for group in groups:
        members = [ifindex_of[f"{group.switch}-eth{number}"] for number in group.members]
        requested = {IFLA_LAB_GROUP_SEED: struct.pack("=Q", group.seed), IFLA_LAB_GROUP_MEMBERS: _pack(members)}
        if group.balance != ECMP:
            requested[IFLA_LAB_GROUP_BALANCE] = group.balance.pack()
        if {attr: data_of.get(group.ifname, {}).get(attr) for attr in requested} != requested:
            raise FabricError(f"group port {group.ifname}: the kernel has other members or another seed or balance than {group}")


def dropped(sock: NetlinkSocket) -> int:
    """Returns the frames that group ports have dropped, because the chosen port was down."""
    stats = (cables.STATS64.unpack_from(described.link[cables.IFLA_STATS64]) for described in cables.all_of_kind(sock, KIND))
    return sum(counters[TX_DROPPED] for counters in stats)


def counts(sock: NetlinkSocket) -> dict[str, list[tuple[int, ...]]]:
    """Returns by group port that balances the fields of struct lab_group_count of each member."""
    data_of = {described.ifname: described.data for described in cables.all_of_kind(sock, KIND)}
    return {
        name: list(COUNT.iter_unpack(data[IFLA_LAB_GROUP_COUNTS]))
        for name, data in data_of.items()
        if IFLA_LAB_GROUP_COUNTS in data
    }


def _balance(group: Group) -> bytes:
    return attribute(IFLA_LAB_GROUP_BALANCE, group.balance.pack())


def _pack(ifindexes: list[int]) -> bytes:
    return struct.pack(f"={len(ifindexes)}I", *ifindexes)
