# SPDX-License-Identifier: Apache-2.0
"""The threads that serve labs: one for each CPU that has labs, but for the caller's own (steps.h)."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from dc_gym.base.process_bound import Owner, this_process
from dc_gym.learn.native import MASK_WORDS, TEAM, WORKER, Library, address


class Team:
    """The struct team of an array of labs, and its threads, which are inside the library all their life."""

    def __init__(self, library: Library, labs: npt.NDArray[np.void]) -> None:
        self._library, self._labs = library, labs
        self._record = np.zeros(1, TEAM)
        self.address = address(self._record)
        fields: Any = self._record[0]
        fields["labs"], fields["count"] = address(labs), len(labs)
        self._cpus: tuple[int, ...] = ()
        self._owner = this_process()
        self._end: weakref.finalize[Any, Any] | None = None

    def use(self, cpus: Iterable[int]) -> None:
        """Serves labs on these CPUs from now on, and takes note of where the caller may run."""
        fields: Any = self._record[0]
        mask = np.zeros(MASK_WORDS * 64, bool)
        mask[[cpu for cpu in os.sched_getaffinity(0) if cpu < len(mask)]] = True
        fields["mask"] = np.packbits(mask, bitorder="little").view("<u8")
        chosen_cpus = tuple(sorted(set(cpus)))
        if chosen_cpus == self._cpus:
            return
        self.close()
        self._owner, self._cpus = this_process(), chosen_cpus
        if len(chosen_cpus) < 2:
            return
        workers = np.zeros(len(chosen_cpus), WORKER)
        workers["cpu"] = chosen_cpus
        record = self._record.copy()  # the threads' own, so that they may end later than this object
        self._record, self.address = record, address(record)
        fields = record[0]
        fields["workers"], fields["worker_count"] = address(workers), len(workers)
        self._end = weakref.finalize(self, _stop, self._owner, self._library, record, workers)
        for number in range(len(workers)):
            arguments = self._library, record, workers, number, self._labs
            threading.Thread(target=_work, args=arguments, name=f"labs of CPU {chosen_cpus[number]}", daemon=True).start()

    def settle(self) -> None:
        """Waits until no thread is at work. A forked child has no threads."""
        if self._owner.is_here():
            self._library.settle(self.address)

    def close(self) -> None:
        """Ends the threads. It may be called twice."""
        if self._end is not None:
            self._end()
        self._end, self._cpus = None, ()
        fields: Any = self._record[0]
        fields["worker_count"] = 0


def _work(library: Library, record: npt.NDArray[np.void], workers: npt.NDArray[np.void], number: int, labs: Any) -> None:
    """Runs a worker. The arguments stay alive as long as it does."""
    library.work(address(record), address(workers) + number * WORKER.itemsize)


def _stop(owner: Owner, library: Library, record: npt.NDArray[np.void], workers: npt.NDArray[np.void]) -> None:
    if owner.is_here():
        library.settle(address(record))
        library.stop(address(record))
