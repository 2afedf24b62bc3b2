# SPDX-License-Identifier: Apache-2.0
"""Chooses the CPU on which a lab runs.

A lab is in effect single-threaded, so labs that run at the same time should each have a CPU.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from dc_gym.base.errors import MachineError
from dc_gym.base.process_bound import unshared


@contextmanager
def claimed_cpu() -> Iterator[int]:
    """Yields one of the CPUs that the fewest labs have claimed. The labs of all processes count.

    A claim is an abstract UNIX socket whose name contains the CPU and a place number. It needs no file and ends with the process.
    """
    allowed = sorted(os.sched_getaffinity(0))
    with unshared() as keep:
        claim = keep(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    with claim:
        yield next(cpu for place_number in count() for cpu in allowed if _is_free(claim, cpu, place_number))


def _is_free(claim: socket.socket, cpu: int, place_number: int) -> bool:
    """Tries to claim this place on the CPU. Returns False if another process holds it."""
    try:
        claim.bind(f"\0dcgym-cpu-{cpu}-{place_number}")
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise MachineError(
                f"a CPU for the lab: bind a UNIX socket: {error.strerror}; are labs kept from having one?"
            ) from error
        return False
    return True
