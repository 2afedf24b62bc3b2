# SPDX-License-Identifier: Apache-2.0
"""JSON-RPC over a UNIX socket, as the daemons of Open vSwitch speak it (RFC 7047, section 4; ovs-appctl(8)).

Starting a program such as ovs-appctl in a lab takes 35 ms of CPU time, most of it for its libraries; a call takes less than one.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

from dc_gym.base.errors import FabricError

CHUNK_BYTES = 1 << 16
REFUSALS, REFUSAL_S = 200, 0.01
"""Refused attempts to connect to a daemon that starts, and seconds between them."""


def call(path: Path, method: str, params: list[Any], deadline_s: float) -> Any:
    """Calls a method of the daemon that listens at `path` and returns its result. Raises FabricError if the daemon refuses."""
    request = json.dumps({"id": 0, "method": method, "params": params})
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(deadline_s)
            connect(sock, path)
            sock.sendall(request.encode())
            reply = _receive(sock)
    except OSError as error:
        raise FabricError(f"{path}: call {method}: {error.strerror or error}; the daemon did not answer") from error
    if reply is None:
        raise FabricError(f"{path}: call {method}: the daemon closed the connection; its log says why")
    if reply.get("error") is not None:
        raise FabricError(f"{path}: call {method} {json.dumps(params)[:200]}: {_told(reply['error'])}")
    return reply["result"]


def connect(sock: socket.socket, path: Path) -> None:
    """Connects to the daemon at `path`, which may have its socket already and not listen yet. Raises OSError if nobody does."""
    for _ in range(REFUSALS):
        try:
            return sock.connect(str(path))
        except ConnectionRefusedError:
            time.sleep(REFUSAL_S)
    return sock.connect(str(path))


def _receive(sock: socket.socket) -> dict[str, Any] | None:
    """Returns the first whole JSON object that arrives, or None at the end of the stream."""
    text = b""
    while data := sock.recv(CHUNK_BYTES):
        text += data
        if text.rstrip().endswith(b"}"):
            try:
                message: dict[str, Any] = json.loads(text)
                return message
            except ValueError:  # more is to come
                continue
    return None


def _told(error: object) -> str:
    return error.strip() if isinstance(error, str) else json.dumps(error)
