# SPDX-License-Identifier: Apache-2.0
"""Installs rules over OpenFlow 1.4, a bridge's in one bundle, as `ovs-ofctl -O OpenFlow14 --bundle add-flows` does.

It parses the rules of topologies/ecmp.py, and refuses any other text. Sections refer to the OpenFlow Switch Specification 1.4.0.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

from dc_gym.base.errors import FabricError
from dc_gym.topologies.realize import jsonrpc

VERSION = 5
HEADER = struct.Struct("!BBHI")  # version, type, length, transaction id (7.1)
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FLOW_MOD = 0, 1, 2, 3, 14
BARRIER, BARRIER_REPLY, BUNDLE_CONTROL, BUNDLE_ADD = 20, 21, 33, 34
CONTROL = struct.Struct("!IHH")  # bundle id, type, flags (7.3.9.2)
OPEN_REQUEST, COMMIT_REQUEST, COMMIT_REPLY = 0, 4, 5
ATOMIC, ORDERED = 1, 2
ADD = struct.Struct("!IHH")  # bundle id, padding, flags (7.3.9.6)
BUNDLE = 1
FLOW = struct.Struct("!QQBBHHHIIIHH")  # cookie .. importance (7.3.4.1)
NO_BUFFER, ANY = 0xFFFFFFFF, 0xFFFFFFFF
OXM_BASIC, IS_OXM = 0x8000, 1
METADATA, ETH_TYPE, IP_PROTO, IPV4_SRC, IPV4_DST, TCP_SRC, UDP_SRC = 2, 5, 10, 11, 12, 13, 15  # (7.2.3.7)
PROTOCOLS = {"ip": (None, 0), "tcp": (6, TCP_SRC), "udp": (17, UDP_SRC)}
"""By name: the number of the protocol, and the OXM field of its source port. That of the destination port is one more."""
ETH_TYPE_IP = 0x0800
GOTO_TABLE, WRITE_METADATA, APPLY_ACTIONS = 1, 2, 4  # (7.2.4)
ALL_64 = (1 << 64) - 1


def add_flows(paths: Mapping[Path, Sequence[str]], deadline_s: float) -> None:
    """Installs rules in many bridges, each named by its management socket. Raises FabricError for a bridge that refuses one.

    A bridge has all of its rules or none. All bridges get their rules before any answer is read: vswitchd looks at every bridge
    in each of its rounds and takes at most 50 messages from each.
    """
    with ExitStack() as stack:
        bundles = [stack.enter_context(_Bundle(path, deadline_s)) for path in paths]
        for stage in (_Bundle.open, _Bundle.add, _Bundle.expect_all, _Bundle.commit, _Bundle.expect_commit):
            for bundle, flows in zip(bundles, paths.values(), strict=True):
                try:
                    stage(bundle, flows)
                except OSError as error:
                    fault = f"{bundle.path}: install {len(flows)} rules: {error.strerror or error}"
                    raise FabricError(f"{fault}; the switch did not answer") from error


class _Bundle:
    """A connection to a bridge, on which one bundle is made. Its methods are the stages, in their order."""

    def __init__(self, path: Path, deadline_s: float) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(deadline_s)
        self._messages = _messages(self._socket, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def open(self, flows: Sequence[str]) -> None:
        jsonrpc.connect(self._socket, self.path)
        self._socket.sendall(_message(HELLO) + _control(OPEN_REQUEST))

    def add(self, flows: Sequence[str]) -> None:
        self._socket.sendall(b"".join(map(bundle_add, flows)) + _message(BARRIER))

    def expect_all(self, flows: Sequence[str]) -> None:
        """Waits until the bridge has taken all rules. A refusal comes before; a commit would leave out that rule alone."""
        next(kind for kind, _ in self._messages if kind == BARRIER_REPLY)

    def commit(self, flows: Sequence[str]) -> None:
        self._socket.sendall(_control(COMMIT_REQUEST))

    def expect_commit(self, flows: Sequence[str]) -> None:
        next(body for kind, body in self._messages if kind == BUNDLE_CONTROL and CONTROL.unpack_from(body)[1] == COMMIT_REPLY)


def _messages(sock: socket.socket, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields type and body of the messages that arrive. Answers echo requests; raises FabricError for an error or the end."""
    data = b""
    while True:
        while len(data) >= HEADER.size and len(data) >= (length := HEADER.unpack_from(data)[2]):
            _, kind, _, transaction = HEADER.unpack_from(data)
            body, data = data[HEADER.size : length], data[length:]
            if kind == ERROR:
                error_type, code = struct.unpack_from("!HH", body)
                raise FabricError(f"{path}: the switch refused a rule: OpenFlow error {error_type}, code {code} (ovs-fields(7))")
            if kind == ECHO_REQUEST:
                sock.sendall(HEADER.pack(VERSION, ECHO_REPLY, HEADER.size + len(body), transaction) + body)
            else:
                yield kind, body
        received = sock.recv(1 << 16)
        if not received:
            raise FabricError(f"{path}: the switch closed the connection; the log of ovs-vswitchd says why")
        data += received


def _message(kind: int, body: bytes = b"") -> bytes:
    return HEADER.pack(VERSION, kind, HEADER.size + len(body), 0) + body


def _control(request: int) -> bytes:
    return _message(BUNDLE_CONTROL, CONTROL.pack(BUNDLE, request, ATOMIC | ORDERED))


@lru_cache(maxsize=4096)
def bundle_add(flow: str) -> bytes:
    """Returns the message that adds one rule to the bundle. Many switches have the same bucket rules."""
    return _message(BUNDLE_ADD, ADD.pack(BUNDLE, 0, ATOMIC | ORDERED) + flow_mod(flow))


def flow_mod(flow: str) -> bytes:
    """Returns the message that adds a rule, given as a line for ovs-ofctl."""
    match, separator, actions = flow.partition("actions=")
    words = dict(word.partition("=")[::2] for word in match.rstrip(",").split(","))
    try:
        if not separator:
            raise ValueError("no actions")
        table, priority = int(words.pop("table", "0")), int(words.pop("priority"))
        head = FLOW.pack(0, 0, table, 0, 0, 0, priority, NO_BUFFER, ANY, ANY, 0, 0)
        return _message(FLOW_MOD, head + _match(words) + _instructions(actions))
    except (ValueError, KeyError) as error:
        raise FabricError(f"rule {flow!r}: {error}; write it as topologies/ecmp.py does") from error


def _match(words: dict[str, str]) -> bytes:
    """Returns the match (7.2.3.1), padded to whole 8 bytes. Its length does not count the padding."""
    protocol = next((name for name in words if name in PROTOCOLS), None)
    if protocol is None:
        raise ValueError(f"none of {', '.join(PROTOCOLS)} in the match")
    del words[protocol]
    number, source_port = PROTOCOLS[protocol]
    fields = _field(ETH_TYPE, ETH_TYPE_IP.to_bytes(2))
    if number is not None:
        fields += _field(IP_PROTO, bytes([number]))
    for name, text in words.items():
        value, _, mask = text.partition("/")
        if name == "metadata":
            fields += _field(METADATA, int(value, 0).to_bytes(8))
        elif name in ("nw_src", "nw_dst"):
            fields += _field(IPV4_SRC + (name == "nw_dst"), _packed(value), _packed(mask))
        elif name in ("tp_src", "tp_dst") and number is not None:
            port = [int(word, 0).to_bytes(2) for word in (value, mask) if word]
            fields += _field(source_port + (name == "tp_dst"), *port)
        else:
            raise ValueError(f"unknown field {name}")
    length = 4 + len(fields)
    return struct.pack("!HH", IS_OXM, length) + fields + bytes(-length % 8)


def _packed(address: str) -> bytes:
    return IPv4Address(address).packed if address else b""


def _field(number: int, value: bytes, mask: bytes = b"") -> bytes:
    """Returns one field of a match (7.2.3.2)."""
    return struct.pack("!HBB", OXM_BASIC, number << 1 | bool(mask), len(value) + len(mask)) + value + mask


def _instructions(actions: str) -> bytes:
    instructions = b""
    for action in actions.split(","):
        name, _, value = action.partition(":")
        if name == "output":
            output = struct.pack("!HHIHxxxxxx", 0, 16, int(value), 0)  # (7.2.5)
            instructions += struct.pack("!HHxxxx", APPLY_ACTIONS, 8 + len(output)) + output
        elif name == "write_metadata":
            instructions += struct.pack("!HHxxxxQQ", WRITE_METADATA, 24, int(value, 0), ALL_64)
        elif name == "goto_table":
            instructions += struct.pack("!HHBxxx", GOTO_TABLE, 8, int(value))
        else:
            raise ValueError(f"unknown action {name}")
    return instructions
