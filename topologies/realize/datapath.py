# SPDX-License-Identifier: Apache-2.0
"""Flows of Open vSwitch's datapath as generic netlink requests (include/uapi/linux/openvswitch.h).

A reaction to a cut link replaces all flows at one instant, while the daemons stand still (topologies/rerouting.py).
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address

from dc_gym.base.errors import FabricError
from dc_gym.topologies.graph import PORT_MASK
from dc_gym.topologies.realize.rtnl import (
    NetlinkRequest,
    NetlinkSocket,
    attr_text,
    attr_u32,
    attribute,
    attributes,
    nested,
)
from dc_gym.topologies.rerouting import Entry

NETLINK_GENERIC, GENL_ID_CTRL, CTRL_CMD_GETFAMILY = 16, 16, 3
CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 1, 2
GENLMSG = struct.Struct("=BBxx")  # command, version
OVS_HEADER = struct.Struct("=i")  # index of the datapath's device
DATAPATH, FAMILY = "ovs-system", "ovs_flow"
CMD_NEW, CMD_DEL = 1, 2
ATTR_KEY, ATTR_ACTIONS, ATTR_MASK = 1, 2, 7
KEY_IN_PORT, KEY_ETHERNET, KEY_ETHERTYPE, KEY_IPV4, KEY_TCP, KEY_UDP, KEY_TCP_FLAGS = 3, 4, 6, 7, 9, 10, 18
PROTOCOLS = {"tcp": (6, KEY_TCP), "udp": (17, KEY_UDP)}
ACTION_OUTPUT = 1
NO_MAC = bytes(12)
ETH_IP, WHOLE = 0x0800, 0xFFFFFFFF


class Datapath:
    """Makes requests for the kernel's datapath. The daemons must run while it is made."""

    def __init__(self, shown: str) -> None:
        """`shown`: what `dpctl/show` prints, for the numbers of the ports."""
        with NetlinkSocket(protocol=NETLINK_GENERIC) as sock:
            body = GENLMSG.pack(CTRL_CMD_GETFAMILY, 1) + attr_text(CTRL_ATTR_FAMILY_NAME, FAMILY)
            (answer,) = sock.dump(GENL_ID_CTRL, body, flags=0)
        self._family = int.from_bytes(attributes(answer[GENLMSG.size :])[CTRL_ATTR_FAMILY_ID], "little")
        self._head = OVS_HEADER.pack(socket.if_nametoindex(DATAPATH))
        self._numbers = _numbers(shown)

    def replace(self, entries: Sequence[Sequence[str | int]]) -> Iterator[bytes]:
        """Yields the requests that remove all flows and add these (the values of Entry)."""
        yield self._request(CMD_DEL, b"")
        for entry in entries:
            yield self._request(CMD_NEW, self._flow(Entry(*entry)))  # type: ignore[arg-type]

    def _request(self, command: int, body: bytes) -> bytes:
        whole = GENLMSG.pack(command, 1) + self._head + body
        return NetlinkRequest(self._family, 0, whole, "change the datapath's flows").message()

    def _flow(self, entry: Entry) -> bytes:
        number, ports = PROTOCOLS[entry.protocol]
        destination = IPv4Address(entry.destination).packed
        bits = struct.pack("!HH", entry.source_bits, entry.destination_bits)
        key = _match(self._numbers[entry.in_port], ETH_IP, destination, number, ports, bits, 0)
        mask = _match(WHOLE, 0xFFFF, b"\xff" * 4, 0xFF, ports, struct.pack("!HH", PORT_MASK, PORT_MASK), 0xFF)
        actions = nested(ATTR_ACTIONS, attr_u32(ACTION_OUTPUT, self._numbers[entry.out_port]))
        return nested(ATTR_KEY, key) + nested(ATTR_MASK, mask) + actions


def _match(in_port: int, ethertype: int, destination: bytes, protocol: int, ports: int, bits: bytes, fragment: int) -> bytes:
    """Returns the fields of a key, or of the mask that says which of their bits count."""
    return (
        attr_u32(KEY_IN_PORT, in_port)
        + attribute(KEY_ETHERNET, NO_MAC)
        + attribute(KEY_ETHERTYPE, struct.pack("!H", ethertype))
        + attribute(KEY_IPV4, bytes(4) + destination + bytes([protocol, 0, 0, fragment]))
        + attribute(ports, bits)
        + (attribute(KEY_TCP_FLAGS, bytes(2)) if ports == KEY_TCP else b"")
    )


def _numbers(shown: str) -> Mapping[str, int]:
    """Returns the datapath's number of each port, by name."""
    found = {}
    for line in shown.splitlines():
        words = line.split()
        if len(words) >= 3 and words[0] == "port" and words[1].rstrip(":").isdigit():
            found[words[2]] = int(words[1].rstrip(":"))
    if not found:
        raise FabricError("dpctl/show: no line 'port N: NAME' in its output")
    return found
