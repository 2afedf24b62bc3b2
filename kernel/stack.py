# SPDX-License-Identifier: Apache-2.0
"""Where a lab's kernel is, a process of this one: by ptrace(2), for the report of a hang."""

from __future__ import annotations

import array
import ctypes
import os
import struct
from contextlib import suppress

__all__ = ["addresses"]

ATTACH, DETACH, GET_REGISTERS = 16, 17, 12
REGISTERS, INSTRUCTION, STACK = 27, 16, 19
"""The number of registers in struct user_regs_struct of x86_64, and the places of two."""
STACK_BYTES = 16 << 10
"""The size of a stack of the lab's kernel, which begins at a multiple of it."""


def addresses(pid: int) -> list[int]:
    """Returns the address at which a child of this process is, and those on its stack from which calls may have come.

    The innermost comes first. Returns none if the machine does not allow it, or another process traces the child.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(ATTACH, pid, None, None):
        return []
    try:
        with suppress(OSError):
            os.waitid(os.P_PID, pid, os.WSTOPPED)
            registers = array.array("L", bytes(8 * REGISTERS))
            if libc.ptrace(GET_REGISTERS, pid, None, registers.buffer_info()[0]):
                return []
            top = registers[STACK]
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
                words = os.pread(memory.fileno(), STACK_BYTES - top % STACK_BYTES, top)
            return [registers[INSTRUCTION], *(word - 1 for (word,) in struct.iter_unpack("=Q", words[: len(words) & ~7]) if word)]
    finally:
        libc.ptrace(DETACH, pid, None, None)
    return []
