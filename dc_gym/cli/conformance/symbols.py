# SPDX-License-Identifier: Apache-2.0
"""The numbers behind the names in scripts, and the layout of tcp_info.

tcp_info grows from kernel to kernel, so its layout is read from the header of the kernel under test. Numbers that Python's
modules lack are taken from the kernel's uapi headers.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import select
import socket
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from dc_gym.base.errors import ProtocolError

__all__ = ["SYMBOLS", "TcpInfo", "code_symbols"]

_FROM = (
    (socket, ("AF_", "SOCK_", "IPPROTO_", "SOL_", "SO_", "TCP_", "IP_", "IPV6_", "MSG_", "SHUT_")),
    (select, ("EPOLL", "POLL")),
    (os, ("O_", "EFD_", "SPLICE_")),
    (fcntl, ("F_",)),
    (errno, ("E",)),
)
_MORE = {
    "NULL": 0,
    "AF_UNSPEC": 0,
    # linux/tcp.h
    "TCP_FASTOPEN": 23, "TCP_TIMESTAMP": 24, "TCP_CC_INFO": 26, "TCP_FASTOPEN_CONNECT": 30, "TCP_ULP": 31,
    "TCP_FASTOPEN_KEY": 33, "TCP_FASTOPEN_NO_COOKIE": 34, "TCP_ZEROCOPY_RECEIVE": 35, "TCP_INQ": 36, "TCP_CM_INQ": 36,
    "TCP_TX_DELAY": 37, "TCP_RTO_MAX_MS": 44, "TCP_NOTSENT_LOWAT": 25, "TCP_CORK": 3, "TCP_USER_TIMEOUT": 18,
    # asm-generic/socket.h
    "SO_ZEROCOPY": 60, "SO_TIMESTAMPING": 37, "SCM_TIMESTAMPING": 37, "SO_MARK": 36, "SO_MAX_PACING_RATE": 47,
    "SO_BUSY_POLL": 46, "SO_TXTIME": 61,
    # linux/socket.h
    "MSG_FASTOPEN": 0x20000000, "MSG_ZEROCOPY": 0x4000000, "MSG_MORE": 0x8000, "MSG_EOR": 0x80, "MSG_ERRQUEUE": 0x2000,
    # linux/in.h, linux/in6.h
    "IP_TOS": 1, "IP_MTU_DISCOVER": 10, "IP_RECVERR": 11, "IP_FREEBIND": 15, "IP_PMTUDISC_DONT": 0, "IP_PMTUDISC_WANT": 1,
    "IP_PMTUDISC_DO": 2, "IPV6_RECVERR": 25, "SOL_IPV6": 41, "IPV6_TCLASS": 67,
    # linux/errqueue.h
    "SO_EE_ORIGIN_NONE": 0, "SO_EE_ORIGIN_LOCAL": 1, "SO_EE_ORIGIN_ICMP": 2, "SO_EE_ORIGIN_ICMP6": 3,
    "SO_EE_ORIGIN_TIMESTAMPING": 4, "SO_EE_ORIGIN_ZEROCOPY": 5, "SO_EE_CODE_ZEROCOPY_COPIED": 1,
    "SCM_TSTAMP_SND": 0, "SCM_TSTAMP_SCHED": 1, "SCM_TSTAMP_ACK": 2,
    # linux/net_tstamp.h
    "SOF_TIMESTAMPING_TX_HARDWARE": 1, "SOF_TIMESTAMPING_TX_SOFTWARE": 2, "SOF_TIMESTAMPING_RX_HARDWARE": 4,
    "SOF_TIMESTAMPING_RX_SOFTWARE": 8, "SOF_TIMESTAMPING_SOFTWARE": 16, "SOF_TIMESTAMPING_OPT_ID": 128,
    "SOF_TIMESTAMPING_TX_SCHED": 256, "SOF_TIMESTAMPING_TX_ACK": 512, "SOF_TIMESTAMPING_OPT_TSONLY": 2048,
    # linux/eventpoll.h
    "EPOLL_CTL_ADD": 1, "EPOLL_CTL_DEL": 2, "EPOLL_CTL_MOD": 3,
    # asm-generic/ioctls.h
    "SIOCINQ": 0x541B, "SIOCOUTQ": 0x5411, "FIONREAD": 0x541B,
}  # fmt: skip
# net/tcp_states.h; enum tcp_ca_state and TCPI_OPT_* of linux/tcp.h
_STATES = (
    "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT", "LAST_ACK", "LISTEN",
    "CLOSING", "NEW_SYN_RECV",
)  # fmt: skip
_CA_STATES = ("Open", "Disorder", "CWR", "Recovery", "Loss")
_OPTIONS = ("TIMESTAMPS", "SACK", "WSCALE", "ECN", "ECN_SEEN", "SYN_DATA", "USEC_TS", "TFO_CHILD")
_MEMORY = (
    "RMEM_ALLOC", "RCVBUF", "WMEM_ALLOC", "SNDBUF", "FWD_ALLOC", "WMEM_QUEUED", "OPTMEM", "BACKLOG", "DROPS",
)  # fmt: skip
"""Names of SK_MEMINFO_* in linux/sock_diag.h."""
SO_MEMINFO = 55
_TYPES = {"8": ctypes.c_uint8, "16": ctypes.c_uint16, "32": ctypes.c_uint32, "64": ctypes.c_uint64}


def _collect() -> dict[str, int]:
    names: dict[str, int] = {}
    for module, prefixes in _FROM:
        names |= dict(_ints(module, prefixes))
    return names | _MORE


def _ints(module: ModuleType, prefixes: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    for name, value in vars(module).items():
        if name.startswith(prefixes) and isinstance(value, int):
            yield name, int(value)


SYMBOLS = _collect()


def code_symbols() -> dict[str, int]:
    """Returns the names that Python in a script may use besides the fields of tcp_info."""
    states = {f"TCP_{name}": number for number, name in enumerate(_STATES, 1)}
    ca_states = {f"TCP_CA_{name}": number for number, name in enumerate(_CA_STATES)}
    options = {f"TCPI_OPT_{name}": 1 << bit for bit, name in enumerate(_OPTIONS)}
    return states | ca_states | options


class TcpInfo:
    """struct tcp_info as a kernel's linux/tcp.h declares it."""

    def __init__(self, header: str) -> None:
        body = re.search(r"struct tcp_info \{(.*?)\n\};", header, re.DOTALL)
        if body is None:
            raise ProtocolError("linux/tcp.h of the kernel's source declares no struct tcp_info")
        plain = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
        fields = [field for statement in plain.split(";") for field in _declared(statement)]
        self.struct: Any = type("tcp_info", (ctypes.Structure,), {"_fields_": fields})
        self.names = tuple(str(field[0]) for field in fields)

    def read(self, fd: int) -> dict[str, int]:
        """Returns the state of a live socket: the fields of tcp_info, and its memory."""
        with socket.socket(fileno=os.dup(fd)) as copy:
            data = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, ctypes.sizeof(self.struct))
            memory = copy.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * len(_MEMORY))
        info = self.struct.from_buffer_copy(data.ljust(ctypes.sizeof(self.struct), b"\0"))
        values = struct.unpack(f"={len(memory) // 4}I", memory)
        return {name: int(getattr(info, name)) for name in self.names} | {
            f"SK_MEMINFO_{name}": value for name, value in zip(_MEMORY, values, strict=False)
        }


def _declared(statement: str) -> Iterator[tuple[Any, ...]]:
    """Yields (name, type) or (name, type, bits) for each name of a declaration."""
    match = re.match(r"\s*__u(8|16|32|64)\s+(.+)", statement, re.DOTALL)
    for declarator in match[2].split(",") if match else ():
        name, _, bits = (part.strip() for part in declarator.partition(":"))
        kind = _TYPES[match[1]] if match else None
        yield (name, kind, int(bits)) if bits else (name, kind)
