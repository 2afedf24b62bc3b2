# SPDX-License-Identifier: Apache-2.0
"""The network of one script: a namespace of its own with tun0 in it. The script plays the peer on the other side of tun0.

Offloads are on, as on a usual network card: a script sees the large segments that TCP passes down.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import time
from collections import deque
from dataclasses import dataclass, replace
from ipaddress import ip_address

from dc_gym.base.clock import sleep_until

__all__ = ["FAMILIES", "Captured", "Family", "Tun"]

IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
OFFLOADS = 0x01 | 0x02 | 0x04 | 0x08  # checksum, TSO4, TSO6, TSO with ECN
HEADER = struct.Struct("=BBHHHH")  # struct virtio_net_hdr
GSO_TCPV4, GSO_TCPV6 = 1, 4
MOST_BYTES = 1 << 17
SLEPT_NS = 3000


@dataclass(frozen=True, slots=True)
class Family:
    """The addresses of one IP version, as in the kernel's ksft_runner.sh."""

    name: str
    local: str
    remote: str
    gateway: str
    prefix: int
    mtu: int
    mapped: bool = False
    """True for IPv4 on the wire with IPv6 sockets."""

    @property
    def wire_local(self) -> bytes:
        return ip_address(self.local).packed

    @property
    def wire_remote(self) -> bytes:
        return ip_address(self.remote).packed

    def at(self, local: str | None, remote: str | None) -> Family:
        """Returns the family with other addresses, where they are given."""
        return replace(self, local=local or self.local, remote=remote or self.remote)

    def socket_address(self, address: str) -> bytes:
        """Returns an address in the form that a socket of this family takes."""
        return ip_address(f"::ffff:{address}" if self.mapped else address).packed


FAMILIES = {
    family.name: family
    for family in (
        Family("ipv4", "192.168.0.1", "192.0.2.1", "192.168.0.1", 16, 1500),
        Family("ipv6", "fd3d:0a0b:17d6::1", "fd3d:fa7b:d17d::1", "fd3d:0a0b:17d6:8888::1", 48, 1520),
        Family("ipv4-mapped-ipv6", "192.168.0.1", "192.0.2.1", "192.168.0.1", 16, 1500, mapped=True),
    )
}


@dataclass(frozen=True, slots=True)
class Captured:
    """A packet that left the kernel, and its time (CLOCK_MONOTONIC)."""

    t_ns: int
    data: bytes


class Tun:
    """tun0 in the namespace of the caller. It captures packets while a caller waits here."""

    def __init__(self, family: Family) -> None:
        self._fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(self._fd, TUNSETIFF, struct.pack("16sH22x", b"tun0", IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
        fcntl.ioctl(self._fd, TUNSETOFFLOAD, OFFLOADS)
        self._captured: deque[Captured] = deque()
        self._gso = GSO_TCPV6 if family.mtu > 1500 else GSO_TCPV4
        _configure(family)

    def send(self, packet: bytes, gso_bytes: int = 0) -> None:
        """Sends a packet into the kernel. With `gso_bytes` it counts as merged by the network card from segments of that size."""
        kind = self._gso if gso_bytes else 0
        os.write(self._fd, HEADER.pack(0, kind, 0, gso_bytes, 0, 0) + packet)

    def wait_until(self, t_ns: int) -> None:
        """Captures until that time, to the nanosecond. select() counts in microseconds, so it sleeps for the last few."""
        while (left_ns := t_ns - time.monotonic_ns()) > SLEPT_NS:
            self._capture(left_ns - SLEPT_NS)
        sleep_until(t_ns)
        self._capture(0)

    def receive(self, deadline_ns: int) -> Captured | None:
        """Returns the next packet that left the kernel, or None if there is none by then."""
        self._capture(0)
        while not self._captured and (left_ns := deadline_ns - time.monotonic_ns()) > 0:
            self._capture(left_ns)
        return self._captured.popleft() if self._captured else None

    def _capture(self, at_most_ns: int) -> None:
        ready, _, _ = select.select([self._fd], [], [], at_most_ns / 1e9)
        while ready:
            try:
                data = os.read(self._fd, MOST_BYTES)
            except BlockingIOError:
                return
            self._captured.append(Captured(time.monotonic_ns(), data[HEADER.size :]))


def _configure(family: Family) -> None:
    """Sets addresses and the route to the peer.

    Duplicate address detection and router solicitation are off: nobody would answer.
    """
    version = "-6" if ":" in family.local else "-4"
    for name in ("accept_dad", "router_solicitations"):
        with open(f"/proc/sys/net/ipv6/conf/tun0/{name}", "w") as file:  # noqa: PTH123
            file.write("0")
    for words in (
        f"link set lo up mtu {65536}",
        f"link set tun0 up mtu {family.mtu}",
        f"{version} address add {family.local}/{family.prefix} dev tun0",
        f"{version} route add {family.remote} dev tun0" + ("" if version == "-4" else f" via {family.gateway}"),
    ):
        subprocess.run(["ip", *words.split()], check=True)
