# SPDX-License-Identifier: Apache-2.0
"""One TCP flow between two hosts, so that the shell's `iperf` needs no program. Linux only; needs root in the ground."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

BLOCK = bytes(1 << 18)
READ_BYTES = 1 << 20
PATIENCE_S = 5.0
"""The longest time that a connection may take."""
Place = Callable[[], AbstractContextManager[None]]
"""Returns a context in a host's network namespace."""


def received_bps(source: Place, destination: Place, address: str, duration_s: float, stop: Callable[[], bool]) -> float | None:
    """Sends for a time from one host to another, and returns the rate of the bytes that arrive in that time.

    Returns None if there is no connection, or if `stop` returns True because the user has interrupted.
    """
    with destination(), socket.create_server(("", 0)) as listener:
        with source():
            sender = socket.socket()
        with sender:
            sender.settimeout(PATIENCE_S)
            try:
                sender.connect((address, listener.getsockname()[1]))
            except OSError:
                return None
            receiver, _ = listener.accept()
            with receiver:
                return _rate_bps(sender, receiver, duration_s, stop)


def _rate_bps(sender: socket.socket, receiver: socket.socket, duration_s: float, stop: Callable[[], bool]) -> float | None:
    total, began = 0, time.monotonic()
    with selectors.DefaultSelector() as selector:
        for sock, event in ((sender, selectors.EVENT_WRITE), (receiver, selectors.EVENT_READ)):
            sock.setblocking(False)
            selector.register(sock, event)
        while (left_s := began + duration_s - time.monotonic()) > 0:
            if stop():
                return None
            for _, event in selector.select(left_s):
                with suppress(BlockingIOError):
                    if event == selectors.EVENT_WRITE:
                        sender.send(BLOCK)
                    else:
                        total += len(receiver.recv(READ_BYTES))
    return 8 * total / duration_s
