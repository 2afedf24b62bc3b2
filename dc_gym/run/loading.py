# SPDX-License-Identifier: Apache-2.0
"""Loads the libraries of results and plots in a thread, while a lab runs on another CPU."""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Self

OUTCOME = "dc_gym.run.outcome"
FIGURE = "dc_gym.figures.timeline"


@contextmanager
def collection_paused() -> Iterator[None]:
    """Stops the collector of cycles: it takes a quarter of the time in which libraries are loaded, and finds nothing."""
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
        self._stages: Sequence[Callable[[], object]] = [lambda: importlib.import_module(OUTCOME)]
        if plot:
            self._stages = [*self._stages, lambda: importlib.import_module(FIGURE), _load_matplotlib]
        self._unwanted = threading.Event()
        self._thread = threading.Thread(target=self._run, name="loading")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._unwanted.set()
        self.finish()

    def begin(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        with collection_paused():
            for stage in self._stages:
                if self._unwanted.is_set():
                    return
                with suppress(Exception):
                    stage()


def _load_matplotlib() -> None:
    from dc_gym.figures import kit

    kit.load()
