# SPDX-License-Identifier: Apache-2.0
"""The C library of steps: it answers many labs, waits for them, and works out observations and rewards (steps.h).

It is loaded by ctypes and needs neither Python's headers nor a certain libc. `make programs` builds it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum, IntFlag
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.errors import MachineError
from dc_gym.base.package import PROGRAMS

__all__ = [
    *("ELEMENT", "LAB", "MASK_WORDS", "NETWORK", "NO_RATES", "TEAM", "WORKER"),
    *("Element", "Flags", "LabState", "Library", "RewardKind", "address", "load"),
]

LIBRARY = PROGRAMS / "libsteps.so"
VERSION = 1
NO_RATES = 2**32 - 1
"""`rate_place` of a network where nobody sets rates."""


class LabState(IntEnum):
    """`state` of a lab."""

    IDLE = 0
    ANSWERS = 1
    RUNS = 2
    STANDS = 3
    SAID = 4
    ENDED = 5


class Element(IntEnum):
    """`kind` of an element of the observation."""

    NONE = 0
    LEVEL = 1
    CHANGE = 2
    SHARE = 3
    FORCE = 4
    MEAN = 5
    ONE = 6
    SRTT = 7
    RTT_MIN = 8
    CWND = 9
    RETRANSMITS = 10
    GOODPUT = 11


class RewardKind(IntEnum):
    """The rewards that the library computes."""

    NONE = 0
    GOODPUT = 1
    QUEUEING_DELAY = 2
    SWITCH_DELAY = 3
    THESIS = 4
    THESIS_ALL = 5
    ACTION = 6
    PORT_UTILIZATION = 7
    PORT_DELAY = 8
    DROPS = 9


class Flags(IntFlag):
    """Reasons to look at the labs after an exchange."""

    RUN = 1
    DIED = 2
    OVER = 4
    CHANGED = 8


_POINTER = "<u8"

ELEMENT = np.dtype(
    [
        ("kind", "<u4"),
        ("place", "<u4"),
        ("scale", "<f8"),
        ("divisor", "<f8"),
        ("rate_bps", "<f8"),
        ("low", "<f4"),
        ("high", "<f4"),
    ],
    align=True,
)
"""`struct element`; a test compares the offsets of this and the next structures with C's."""

NETWORK = np.dtype(
    [
        ("rows", "<u4"),
        ("switch_rows", "<u4"),
        ("values", "<u4"),
        ("hosts", "<u4"),
        ("elements", "<u4"),
        ("history", "<u4"),
        ("rewards", "<u4"),
        ("rate_place", "<u4"),
        ("ports", "<u4"),
        ("frame_bytes", "<u4"),
        ("base_rtt_ns", "<u8"),
        ("element", _POINTER),
        ("reward", _POINTER),
        ("weight", _POINTER),
        ("rate_bps", _POINTER),
        ("buffer_bytes", _POINTER),
        ("line_bps", _POINTER),
        ("floor_bps", _POINTER),
        ("host_row", _POINTER),
        ("command", _POINTER),
    ],
    align=True,
)

LAB = np.dtype(
    [
        ("fd", "<i4"),
        ("cpu", "<i4"),
        ("state", "<u4"),
        ("said", "<u4"),
        ("step", "<u8"),
        ("virtual_ns", "<u8"),
        ("code", "<i4"),
        ("slot", "<u4"),
        ("flows", "<u4"),
        ("path_ports", "<u4"),
        ("ended", "<u4"),
        ("work_changed", "<u4"),
        ("steps", "<u8"),
        ("fair_bps", "<f8"),
        ("network", _POINTER),
        ("header", _POINTER),
        ("commands", _POINTER),
        ("live_cells", _POINTER),
        ("live_flows", _POINTER),
        ("base_rtt_ns", _POINTER),
        ("payload_share", _POINTER),
        ("host", _POINTER),
        ("first_row", _POINTER),
        ("path_row", _POINTER),
        ("path_flow", _POINTER),
        ("cells", _POINTER),
        ("recorded", _POINTER),
        ("t_ns", _POINTER),
        ("numbers", _POINTER),
        ("wanted", _POINTER),
        ("enforced", _POINTER),
        ("in_force", _POINTER),
        ("force_stride", "<u8"),
        ("values", _POINTER),
        ("seen", _POINTER),
        ("rewards", _POINTER),
        ("reward", _POINTER),
        ("at_work", _POINTER),
        ("scratch", _POINTER),
        ("message", _POINTER),
    ],
    align=True,
)


WORKER = np.dtype(
    [("cpu", "<i4"), ("go", "<u4"), ("done", "<u4"), ("asleep", "<u4"), ("stop", "<u4"), ("reserved", "<u4", 11)], align=True
)

MASK_WORDS = 16

TEAM = np.dtype(
    [
        ("labs", _POINTER),
        ("workers", _POINTER),
        ("count", "<u4"),
        ("worker_count", "<u4"),
        ("waits", "<u4"),
        ("reserved", "<u4"),
        ("mask", "<u8", MASK_WORDS),
    ],
    align=True,
)


def address(array: npt.NDArray[Any]) -> int:
    """Returns the address of an array's first element. The caller keeps the array as long as the address is in use."""
    return int(array.__array_interface__["data"][0])


class Library:
    """The functions of the library. `measure` and `reward` take the address of a LAB record, the others the address of a TEAM."""

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL(str(LIBRARY), use_errno=False)
        except OSError as error:
            raise MachineError(f"{LIBRARY}: {error}; run `make programs`") from None
        expected = VERSION << 24 | NETWORK.itemsize << 12 | LAB.itemsize
        if (version := library.steps_version()) != expected:
            raise MachineError(f"{LIBRARY}: version {version:#x} is not {expected:#x} of this Python code; run `make programs`")
        pointer = ctypes.c_void_p
        library.steps_exchange.argtypes, library.steps_exchange.restype = (pointer,), ctypes.c_uint32
        library.steps_work.argtypes, library.steps_work.restype = (pointer, pointer), None
        for function in (library.steps_settle, library.steps_stop, library.steps_measure, library.steps_reward):
            function.argtypes, function.restype = (pointer,), None
        self.exchange: Callable[[int], int] = library.steps_exchange
        self.work: Callable[[int, int], None] = library.steps_work
        self.settle: Callable[[int], None] = library.steps_settle
        self.stop: Callable[[int], None] = library.steps_stop
        self.measure: Callable[[int], None] = library.steps_measure
        self.reward: Callable[[int], None] = library.steps_reward


@cache
def load() -> Library:
    """Returns the library. Raises MachineError if it is missing, or of another version than this code."""
    return Library()
