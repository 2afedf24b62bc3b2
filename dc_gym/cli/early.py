# SPDX-License-Identifier: Apache-2.0
"""The first steps of a command's process, before it imports anything that takes time: Ctrl-C without a traceback, and standard
streams that are there.

All that it imports is built into Python or loaded already: until it has run, Ctrl-C shows a traceback."""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 128 + signal.SIGINT
"""As in base/errors.py."""


def stop(number: int, frame: FrameType | None) -> None:
    """Ends the process at Ctrl-C while there is nothing to clean up: an exception would be shown as a traceback."""
    try:
        os.write(2, b"dcgym: interrupted\n")
    except OSError:  # the terminal may be gone
        pass
    os._exit(INTERRUPTED)


def stop_at_interrupts() -> None:
    """Lets Ctrl-C end the process, unless its caller wants it to be ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)


def open_streams() -> None:
    """Opens those standard streams that the caller has closed, with nothing behind them.

    Otherwise the next opened file would get their number, and printed text would go into it.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
