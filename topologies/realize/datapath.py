# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's kernel datapath without its daemons, over generic netlink (include/uapi/linux/openvswitch.h).

Each switch is a datapath of its own, with a flow for each destination: one mask, so one look-up a packet. A flow depends on the
destination alone, since group ports choose among equal next hops. So all flows are known before any packet. The host writes them
as whole messages (`flow`); in the ground only the numbers that the kernel has given are filled in. A packet without a flow is
lost and counted.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Self

from dc_gym.topologies.ecmp import number_of
from dc_gym.topologies.realize.rtnl import (
    NLMSG_HDR,
    NetlinkRequest,
    attr_text,
    attr_u32,
    attribute,
    attributes,
    nested,
)
from dc_gym.topologies.realize.system import HERE, System

if TYPE_CHECKING:
    from dc_gym.topologies.realize.ovsdb import Bridge

NETLINK_GENERIC, GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 1, 2
GENLMSG = struct.Struct("=BBxx")  # command, version
OVS_HEADER = struct.Struct("=i")  # index of the datapath's device
FAMILIES = ("ovs_datapath", "ovs_vport", "ovs_flow")
CMD_NEW, CMD_GET = 1, 3
DP_ATTR_NAME, DP_ATTR_UPCALL_PID, DP_ATTR_STATS = 1, 2, 3
DP_STATS = struct.Struct("=3Q")  # hit, missed, lost
VPORT_ATTR_PORT_NO, VPORT_ATTR_TYPE, VPORT_ATTR_NAME, VPORT_ATTR_UPCALL_PID = 1, 2, 3, 5
VPORT_NETDEV = 1
NOBODY = 0
"""The netlink port for packets without a flow: nobody receives them."""
ATTR_KEY, ATTR_ACTIONS, ATTR_MASK = 1, 2, 7
KEY_ETHERNET, KEY_ETHERTYPE, KEY_IPV4 = 4, 6, 7
ACTION_OUTPUT = 1
NO_MAC, ALL_16, ALL_32 = bytes(12), b"\xff" * 2, b"\xff" * 4
ETH_IP = struct.pack("!H", 0x0800)
AT_FAMILY, AT_DATAPATH = 4, NLMSG_HDR.size + GENLMSG.size
"""The places in a message of the numbers that only the kernel gives."""


def flow(address: str, out_port: int) -> bytes:
    """Returns the message that sends packets for an IPv4 address to a port, whatever flow the address had before.

    All flow messages have the length FLOW_BYTES.
    """
    return FLOW_START + number_of(address).to_bytes(4, "big") + FLOW_MIDDLE + struct.pack("=I", out_port)


def addressed(flows: bytes, family: int, datapath: int) -> bytearray:
    """Returns messages of `flow` with the family of flows, and the datapath for which they are."""
    messages, count = bytearray(flows), len(flows) // FLOW_BYTES
    for at, value in ((AT_FAMILY, struct.pack("=H", family)), (AT_DATAPATH, OVS_HEADER.pack(datapath))):
        for offset, byte in enumerate(value):
            messages[at + offset :: FLOW_BYTES] = bytes([byte]) * count
    return messages


def _template() -> tuple[bytes, bytes, int]:
    """Returns the parts of a flow's message around the destination and the port at its end, and its length."""
    mark = b"\xa5\x5a\xa5\x5a"
    key = attribute(KEY_ETHERNET, NO_MAC) + attribute(KEY_ETHERTYPE, ETH_IP) + _ipv4(mark)
    mask = attribute(KEY_ETHERNET, NO_MAC) + attribute(KEY_ETHERTYPE, ALL_16) + _ipv4(ALL_32)
    body = nested(ATTR_KEY, key) + nested(ATTR_MASK, mask) + nested(ATTR_ACTIONS, attr_u32(ACTION_OUTPUT, 0))
    whole = NetlinkRequest(0, 0, GENLMSG.pack(CMD_NEW, 1) + OVS_HEADER.pack(0) + body, "").message()
    start, middle = whole.split(mark)
    return start, middle[:-4], len(whole)


def _ipv4(destination: bytes) -> bytes:
    """Returns the field of IPv4 in a key or mask: source, destination, and four bytes that no flow reads."""
    return attribute(KEY_IPV4, bytes(4) + destination + bytes(4))


FLOW_START, FLOW_MIDDLE, FLOW_BYTES = _template()


class DirectSwitches:
    """The datapaths of all switches. They take the place of ovs.OpenVSwitchDaemons."""

    def __init__(self, system: System = HERE) -> None:
        self._system = system
        self._datapaths: dict[str, int] = {}

    def __enter__(self) -> Self:
        (self._sock,) = self._system.netlinks([None], NETLINK_GENERIC)
        self._families = {name: self._family(name) for name in FAMILIES}
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def add_bridges(self, bridges: Sequence[Bridge]) -> None:
        """Makes all switches with their ports. The devices exist already."""
        bodies = {bridge.name: attr_text(DP_ATTR_NAME, bridge.name) + attr_u32(DP_ATTR_UPCALL_PID, NOBODY) for bridge in bridges}
        self._sock.batch([self._request("ovs_datapath", CMD_NEW, 0, body, f"make {name}") for name, body in bodies.items()])
        self._datapaths = {
            attributes(answer[GENLMSG.size + OVS_HEADER.size :])[DP_ATTR_NAME].rstrip(b"\0").decode(): index
            for index, answer in self._list()
        }
        self._sock.batch(
            [
                self._request("ovs_vport", CMD_NEW, self._datapaths[bridge.name], _vport(name, number), f"add port {name}")
                for bridge in bridges
                for name, number in bridge.ports.items()
            ]
        )

    def add_flows(self, flows: Mapping[str, bytes]) -> None:
        """Installs the flows of each switch, messages of `flow`."""
        self._sock.batch([request for switch, messages in flows.items() for request in self._flows(switch, messages)])

    def change(self, switch: str, address: str, out_port: int) -> bytes:
        """Returns the message, complete, that gives a switch another port for an address."""
        return bytes(addressed(flow(address, out_port), self._families["ovs_flow"], self._datapaths[switch]))

    def misses(self) -> tuple[int, int]:
        """Returns the packets since the start that found no flow, and those that were lost for that reason."""
        missed = lost = 0
        for _, answer in self._list():
            stats = attributes(answer[GENLMSG.size + OVS_HEADER.size :])[DP_ATTR_STATS]
            _, more_missed, more_lost = DP_STATS.unpack_from(stats)
            missed, lost = missed + more_missed, lost + more_lost
        return missed, lost

    def lift_flow_limit(self) -> None:
        """Does nothing: the kernel has no limit."""

    def freeze(self) -> None:
        """Does nothing: there is nobody to stop."""

    def thaw(self) -> None:
        """Does nothing."""

    def _family(self, name: str) -> int:
        body = GENLMSG.pack(CTRL_CMD_GETFAMILY, 1) + attr_text(CTRL_ATTR_FAMILY_NAME, name)
        (answer,) = self._sock.dump(GENL_ID_CTRL, body, flags=0)
        return int.from_bytes(attributes(answer[GENLMSG.size :])[CTRL_ATTR_FAMILY_ID], "little")

    def _request(self, family: str, command: int, datapath: int, body: bytes, purpose: str) -> NetlinkRequest:
        whole = GENLMSG.pack(command, 1) + OVS_HEADER.pack(datapath) + body
        return NetlinkRequest(self._families[family], 0, whole, purpose)

    def _list(self) -> list[tuple[int, bytes]]:
        """Returns each datapath's device index, and the kernel's description of it."""
        answers = self._sock.dump(self._families["ovs_datapath"], GENLMSG.pack(CMD_GET, 1) + OVS_HEADER.pack(0))
        return [(OVS_HEADER.unpack_from(answer, GENLMSG.size)[0], answer) for answer in answers]

    def _flows(self, switch: str, flows: bytes) -> list[NetlinkRequest]:
        whole, family = addressed(flows, 0, self._datapaths[switch]), self._families["ovs_flow"]
        bodies = (bytes(whole[at + NLMSG_HDR.size : at + FLOW_BYTES]) for at in range(0, len(whole), FLOW_BYTES))
        return [NetlinkRequest(family, 0, body, f"{switch}: add a flow") for body in bodies]


def _vport(name: str, number: int) -> bytes:
    return (
        attr_u32(VPORT_ATTR_PORT_NO, number)
        + attr_u32(VPORT_ATTR_TYPE, VPORT_NETDEV)
        + attr_text(VPORT_ATTR_NAME, name)
        + attr_u32(VPORT_ATTR_UPCALL_PID, NOBODY)
    )
