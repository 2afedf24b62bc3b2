# SPDX-License-Identifier: Apache-2.0
"""Runs on a Ray cluster. A lab is a task of one CPU, and its result travels back through Ray, so no shared storage is needed.

Every node needs this version of dcgym, its lab kernel and Open vSwitch. Ray is the extra `ray`.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dc_gym import spec as specs
from dc_gym.base import ray_cluster
from dc_gym.base.errors import TestbedError, naming
from dc_gym.base.interpreter import python
from dc_gym.base.progress import Progress
from dc_gym.base.usercode import CODE
from dc_gym.ctrl.controllers import policy_name
from dc_gym.results.folder import finish, writing
from dc_gym.run.sweep.pool import Cell, CellOutcome, Tally
from dc_gym.spec import POLICY_COPY

NODE = "dc_gym.cli.node"
"""The module that a node runs in a process of its own."""
FAREWELL_S = 20.0
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class RunOutput:
    """The output of a run on its node."""

    status: int
    message: str
    files: dict[str, bytes]
    """Contents of the files by path. Empty if there is no result."""


def connect(address: str, jobs: int | None) -> Callable[[list[Cell], Progress, Callable[[CellOutcome], None]], None]:
    """Returns the function that runs cells on the cluster at `address`, `jobs` at a time or as many as it has CPUs."""
    ray = ray_cluster.join(address, "ray")

    def run(cells: list[Cell], progress: Progress, on_end: Callable[[CellOutcome], None]) -> None:
        try:
            _Dispatcher(ray, jobs, Tally(len(cells), progress), on_end).run(cells, progress)
        finally:
            ray.shutdown()

    return run


class _Dispatcher:
    """Keeps the cluster busy and collects the results."""

    def __init__(self, ray: Any, jobs: int | None, tally: Tally, on_end: Callable[[CellOutcome], None]) -> None:
        self._ray, self._jobs, self._tally, self._on_end = ray, jobs, tally, on_end
        self._under_way: dict[Any, Cell] = {}

    def run(self, cells: list[Cell], progress: Progress) -> None:
        remote = self._ray.remote(num_cpus=1)(run_on_node)
        waiting = deque(cells)
        progress.phase(f"{len(cells)} runs on a cluster of {self._room()} CPUs")
        self._tally.show()
        try:
            while waiting or self._under_way:
                while waiting and len(self._under_way) < self._room():
                    cell = waiting.popleft()
                    try:
                        self._under_way[remote.remote(*_load(cell))] = cell
                    except TestbedError as error:
                        self._end(CellOutcome(cell, error.exit_code, str(error)))
                if not self._under_way:
                    continue
                ended, _ = self._ray.wait(list(self._under_way), num_returns=1)
                self._bring(ended[0])
        finally:
            self._cancel()
        progress.phase("done")

    def _room(self) -> int:
        """Returns the number of labs that may run at a time. A cluster may grow."""
        return self._jobs or max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _bring(self, reference: Any) -> None:
        cell = self._under_way.pop(reference)
        try:
            parcel = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            parcel = RunOutput(1, f"the cluster lost it: {(str(error).splitlines() or [type(error).__name__])[-1].strip()}", {})
        status, message = parcel.status, parcel.message
        if parcel.files:
            try:
                with writing(cell.out, "--force" in cell.options) as partial:
                    write_all(partial, parcel.files)
                    finish(partial)
            except (OSError, TestbedError) as error:  # only this cell fails: the others continue
                status, message = getattr(error, "exit_code", 1), f"its result could not be kept: {error}"
        self._end(CellOutcome(cell, status, message))

    def _end(self, outcome: CellOutcome) -> None:
        self._on_end(outcome)
        self._tally.count(outcome)

    def _cancel(self) -> None:
        """Sends Ctrl-C to the runs that are still under way. Each ends its lab and removes its unfinished files."""
        for reference in self._under_way:
            self._ray.cancel(reference)
        if self._under_way:
            self._ray.wait(list(self._under_way), num_returns=len(self._under_way), timeout=FAREWELL_S)


def run_on_node(spec: dict[str, Any], spec_files: dict[str, bytes]) -> RunOutput:
    """Runs one cell as a task, in a process of its own.

    Ray kills a worker with its children, so the process that cleans up must not be one of them.
    """
    argv = python("-m", NODE, str(os.getpid()))
    order = pickle.dumps((spec, spec_files))
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            output, errors = _talk(process, order)
        except BaseException:  # Ray cancels a task by KeyboardInterrupt
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    files = pickle.loads(output) if output else {}
    return RunOutput(process.returncode, errors.decode(errors="replace"), files)


def _talk(process: subprocess.Popen[bytes], order: bytes) -> tuple[bytes, bytes]:
    """Returns a process's output until it ends. Ray's interrupts take effect between two system calls, not within one."""
    rest: bytes | None = order  # a later call continues with the input of the first
    while True:
        try:
            return process.communicate(rest, timeout=POLL_S)
        except subprocess.TimeoutExpired:
            rest = None


def _load(cell: Cell) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Returns the input of a node: the spec, and the files that it names, as a result would keep them."""
    spec = specs.load(cell.spec)
    paths = {f"{CODE}/{path.name}": path for path in spec.code()} | spec.copies()
    plain = spec.to_dict(copied=True)
    if (policy := paths.pop(POLICY_COPY, None)) is not None:  # on the node the policy no longer has its folder's name
        plain["controller"]["policy"] = f"{policy_name(policy)}{policy.suffix}"
        paths[plain["controller"]["policy"]] = policy
    try:
        return plain, {name: path.read_bytes() for name, path in paths.items()}
    except OSError as error:
        raise TestbedError(f"{error.filename}: {error.strerror}; the spec of {cell.name} names it") from None


def read_all(folder: Path) -> dict[str, bytes]:
    """Returns every file below a folder, by its path there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def write_all(folder: Path, files: dict[str, bytes]) -> None:
    """Writes files below a folder, by their paths there. Raises TestbedError for a path that leads outside."""
    for name, content in files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise TestbedError(f"a node sent the file {name!r}, which does not belong into a result")
        path.parent.mkdir(parents=True, exist_ok=True)
        with naming(path):
            path.write_bytes(content)
