# SPDX-License-Identifier: Apache-2.0
"""The control network: a star of cables from a namespace of its own to every host, separate from the data network.

As in Iroko, decisions never queue behind data. Each host has one more interface, `ctl0`. Neighbours are static, and these cables
lose packets by random draws of their own. The controller (agentd --control-netns) and the agents in the hosts (hostd) communicate
over it (docs/protocols.md).
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from ipaddress import IPv4Address
from typing import Self

from dc_gym.topologies.graph import NETNS_FOLDER, Impairment
from dc_gym.topologies.realize import cables
from dc_gym.topologies.realize.rtnl import (
    IFADDRMSG,
    NDMSG,
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    RTM_NEWADDR,
    RTM_NEWNEIGH,
    NetlinkRequest,
    NetlinkSocket,
    attribute,
)
from dc_gym.topologies.realize.system import HERE, System

NETNS = f"{NETNS_FOLDER}/dcgym-control"
IFNAME = "ctl0"
PORT = 20130  # Iroko's port; a host with more egresses uses the next ones
RATE_BPS = 10**9
FIRST_ADDRESS = IPv4Address("172.16.0.0")  # each host has a pair of addresses: the controller's end and its own
PAIR_BITS = 31  # RFC 3021
CONTROLLER, HOST = 0, 1  # the ends of a pair
IFA_LOCAL, IFA_ADDRESS, NDA_DST, NDA_LLADDR, NUD_PERMANENT = 2, 1, 1, 2, 0x80


class ControlNetwork:
    """The star while the context is open. Its namespaces and cables end with the ground."""

    def __init__(self, hosts: Sequence[str], delay_ns: int = 0, loss_ppb: int = 0, system: System = HERE) -> None:
        """`hosts` are the names of namespaces of `system` that exist.

        `loss_ppb` is the number of packets lost in each direction, per 10^9.
        """
        self.hosts = tuple(hosts)
        self._delay_ns, self._system = delay_ns, system
        self._impairment = Impairment(loss_ppb=loss_ppb)
        self._stack = ExitStack()
        self._sockets: dict[str, NetlinkSocket] = {}
        self._control: NetlinkSocket

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def impair(self, seed: int, from_ns: int) -> None:
        """Makes the cables lose packets from that time of CLOCK_MONOTONIC on. Each direction has a seed of its own."""
        for host, (near, far) in self.ends().items():
            number = self.hosts.index(host)
            for sock, end, name in ((self._control, near, f"{host}-out"), (self._sockets[host], far, f"{host}-back")):
                cable_seed = cables.seed_of(seed, f"control-{number}-{name}")
                sock.batch([cables.impair(end.ifindex, end.ifname, self._impairment, cable_seed, from_ns)])

    def ends(self) -> dict[str, tuple[cables.Device, cables.Device]]:
        """Returns for each host the controller's end of its cable and its own end, as the kernel has them now."""
        ends = cables.devices(self._control)
        return {
            host: (ends[_ifname(number)], cables.devices(self._sockets[host])[IFNAME]) for number, host in enumerate(self.hosts)
        }

    def _build(self) -> None:
        self._system.add_namespaces([NETNS])
        paths = {host: f"{NETNS_FOLDER}/{host}" for host in self.hosts}
        opened = [self._stack.enter_context(sock) for sock in self._system.netlinks([NETNS, *paths.values()])]
        self._control, self._sockets = opened[0], dict(zip(paths, opened[1:], strict=True))
        self._make_cables(paths)
        for number, (host, (near, far)) in enumerate(self.ends().items()):
            _configure(self._control, near, number, CONTROLLER)
            _configure(self._sockets[host], far, number, HOST)
        for host, (near, far) in self.ends().items():
            cables.settle(self._control, [near.ifindex])
            cables.settle(self._sockets[host], [far.ifindex])

    def _make_cables(self, paths: Mapping[str, str]) -> None:
        requests = []
        with self._system.namespaces(paths) as fds:
            for number, fd in enumerate(fds.values()):
                ends = cables.CableEnd(_ifname(number), _mac(number, CONTROLLER)), cables.CableEnd(IFNAME, _mac(number, HOST), fd)
                requests.append(cables.create(*ends, RATE_BPS, self._delay_ns))
            self._control.batch(requests)


def agent_address(host: int, egress: int) -> tuple[IPv4Address, int]:
    """Returns the address and port where the agent of an egress listens. Hosts, and egresses of a host, count from 0."""
    return _address(host, HOST), PORT + egress


def _ifname(number: int) -> str:
    return f"ctl-{number}"


def _address(number: int, end: int) -> IPv4Address:
    return FIRST_ADDRESS + 2 * number + end


def _mac(number: int, end: int) -> str:
    digits = f"06{number:08x}{end:02x}"  # locally administered, and unlike any host's in the data network
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def _configure(sock: NetlinkSocket, device: cables.Device, number: int, end: int) -> None:
    """Sets the address, the link and the neighbour at the other end."""
    local, other = _address(number, end), _address(number, 1 - end)
    address = IFADDRMSG.pack(socket.AF_INET, PAIR_BITS, 0, 0, device.ifindex)
    address += attribute(IFA_LOCAL, local.packed) + attribute(IFA_ADDRESS, local.packed)
    neighbour = NDMSG.pack(socket.AF_INET, device.ifindex, NUD_PERMANENT, 0, 0)
    neighbour += attribute(NDA_DST, other.packed)
    neighbour += attribute(NDA_LLADDR, bytes.fromhex(_mac(number, 1 - end).replace(":", "")))
    sock.batch(
        [
            NetlinkRequest(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, address, f"{device.ifname}: add address {local}"),
            cables.set_up(device.ifindex, device.ifname),
            NetlinkRequest(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, neighbour, f"{device.ifname}: add neighbour {other}"),
        ]
    )
