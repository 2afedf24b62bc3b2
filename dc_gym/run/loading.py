# SPDX-License-Identifier: Apache-2.0
"""Loads the libraries of results and plots in a thread, while a lab runs on another CPU."""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

AFTERWARDS = ("dc_gym.run.result.outcome",)
"""Modules that a run needs when its traffic is over, with all that they import."""
PLOT = ("dc_gym.results.figures.timeline", "matplotlib.figure", "matplotlib.backends.backend_agg")


@contextmanager
def collection_paused() -> Iterator[None]:
    """Stops the collector of cycles: libraries that are being loaded have nothing for it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Loading:
    """A context manager. `begin` starts the thread, `finish` waits for its end.

    The thread ends before the context does: a C++ library that is being loaded while the process ends aborts it. An error in the
    thread is left to the import that needs the module.
    """

    def __init__(self, plot: bool) -> None:
        self._modules = AFTERWARDS + (PLOT if plot else ())
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loading")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._unwanted.set()
        self.finish()

    def begin(self) -> None:
        with suppress(RuntimeError):  # no further thread can be started: the run imports the modules itself
            self._thread.start()

    def finish(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with collection_paused():
            for name in self._modules:
                if self._unwanted.is_set():
                    return
                with suppress(Exception):
                    importlib.import_module(name)
