# SPDX-License-Identifier: Apache-2.0
"""Which CPU a lab runs on. A lab is single-threaded in effect, so labs that run at once want a CPU each."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def claimed_cpu() -> Iterator[int]:
    """A CPU that no other lab has claimed, or, where all are taken, the one that this process' id falls on.

    The claim is an abstract UNIX socket: it needs no file and ends with the process.
    """
    allowed = sorted(os.sched_getaffinity(0))
    for cpu in allowed:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0dcgym-cpu-{cpu}")
        except OSError:
            claim.close()
            continue
        with claim:
            yield cpu
        return
    yield allowed[os.getpid() % len(allowed)]
