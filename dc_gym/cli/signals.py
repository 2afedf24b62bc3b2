# SPDX-License-Identifier: Apache-2.0
"""The handling of signals that end a command's process.

Python's import system drops an exception that a signal raises at certain moments of an import ("Exception ignored in ...
_get_module_lock"). The process would go on, and who sent the signal would wait for ever. So a signal is put off while modules are
imported. This module itself imports little: the processes of runs call `tie_to_parent` before they import others.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from dc_gym.base.errors import HUNG_UP, INTERRUPTED, TERMINATED
from dc_gym.cli import early

ENDS = {signal.SIGTERM: ("terminated", TERMINATED), signal.SIGHUP: ("hung up", HUNG_UP)}
"""The signals that end a command as Ctrl-C does, with message and exit code."""
PR_SET_PDEATHSIG = 1
AGAIN_S = 0.05
"""A signal that was put off comes again after this time."""
MOST_PUT_OFF_S = 10.0
"""After this time a signal is not put off any more: a plug-in's module may never end."""


class Terminated(KeyboardInterrupt):
    """One of ENDS came. It causes the same clean-up as Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = signal.Signals(number)


@contextmanager
def terminable() -> Iterator[None]:
    """Makes the first signal of ENDS raise Terminated; later ones do not disturb the clean-up. Ctrl-C raises KeyboardInterrupt.

    A signal that is ignored (as SIGHUP by `nohup`) or handled already stays so. In a thread of another program nothing changes.
    """
    put_off = _Postponement()

    def terminate(number: int, frame: FrameType | None) -> None:
        if put_off(number, frame):
            return
        for signal_number in changed:
            signal.signal(signal_number, signal.SIG_IGN)
        raise Terminated(number)

    in_main_thread = threading.current_thread() is threading.main_thread()
    unheard = in_main_thread and signal.getsignal(signal.SIGINT) is early.stop
    if unheard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    changed = [signal_number for signal_number in ENDS if in_main_thread and signal.getsignal(signal_number) is signal.SIG_DFL]
    for signal_number in changed:
        signal.signal(signal_number, terminate)
    try:
        yield
    finally:
        for signal_number in changed:
            if signal.getsignal(signal_number) is terminate:  # otherwise the process is about to end by its own signal
                signal.signal(signal_number, signal.SIG_DFL)
        if unheard:
            signal.signal(signal.SIGINT, early.stop)


def tie_to_parent(parent: int, *, interruptible: bool = True) -> None:
    """Ends this process together with its parent, and restores Ctrl-C whatever it inherited."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(INTERRUPTED)
    if not interruptible:
        return
    put_off = _Postponement()

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not put_off(number, frame):
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)  # a shell ignores it for processes started in the background
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # Ray's workers block it


class _Postponement:
    """Puts signals off while the main thread imports a module."""

    def __init__(self) -> None:
        self._first_s: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> bool:
        """Returns False if the signal is to be obeyed now, or True: it comes again after AGAIN_S."""
        now_s = time.monotonic()
        self._first_s = now_s if self._first_s is None else self._first_s
        if not _is_importing(frame) or now_s - self._first_s > MOST_PUT_OFF_S:
            return False
        again = threading.Timer(AGAIN_S, signal.pthread_kill, (threading.main_thread().ident, number))
        again.daemon = True
        try:
            again.start()
        except RuntimeError:  # no room for a thread; then numpy's library sends this signal itself
            return False
        return True


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib."):
            return True
        frame = frame.f_back
    return False
