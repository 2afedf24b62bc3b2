# SPDX-License-Identifier: Apache-2.0
"""Sleeps to the nanosecond, which Python's own sleep does not."""

from __future__ import annotations

import ctypes
import errno
import os
import time

TIMER_ABSTIME = 1
_libc = ctypes.CDLL(None)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def sleep_until(t_ns: int) -> None:
    """Sleeps until a time of CLOCK_MONOTONIC; exactly until then in a real-time process of a lab."""
    until = ctypes.byref(_Timespec(*divmod(t_ns, 10**9)))
    while (error := _libc.clock_nanosleep(time.CLOCK_MONOTONIC, TIMER_ABSTIME, until, None)) == errno.EINTR:
        pass
    if error:
        raise OSError(error, f"sleep until {t_ns} ns: {os.strerror(error)}")
