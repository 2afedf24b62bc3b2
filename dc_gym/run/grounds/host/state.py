# SPDX-License-Identifier: Apache-2.0
"""The host ground's property on this machine outside its namespaces, and its removal. All of it is listed below /run/dcgym.

  /run/dcgym/PID.run    a run: the process that runs it, and the process whose namespaces hold its network
  /run/dcgym/cable      the build of the module cable that dc-gym loads: a loaded module of another build is not dc-gym's

A run is recorded before it touches the module, so no `dcgym clean` removes the module in between. A process that records, loads
or removes holds a lock on the folder meanwhile. Files appear whole, by a rename. A run removes its own files; `dcgym clean`
removes the files of dead runs. A process is identified by its number and its start time, so a number that was reused is never
mistaken.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from dc_gym.base.errors import KernelError, TestbedError, UsageError
from dc_gym.base.files import whole
from dc_gym.base.process_bound import Owner, this_process
from dc_gym.base.processes import Process
from dc_gym.base.unfinished import PARTIAL, remove_left_over
from dc_gym.kernel import cable_module

STATE = Path("/run/dcgym")
MARK = "cable"
NOBODY = Process(0, 0)


@dataclass(frozen=True, slots=True)
class Run:
    """One run on the host ground."""

    runner: Process
    ground: Process
    out: str

    def write(self, folder: Path) -> Path:
        path = folder / f"{self.runner.pid}.run"
        _put(path, json.dumps(asdict(self)) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> Run:
        plain = json.loads(path.read_text())
        return cls(Process(**plain["runner"]), Process(**plain["ground"]), str(plain["out"]))


@contextmanager
def registered(out: Path, folder: Path = STATE) -> Iterator[Callable[[int], None]]:
    """Records the run of this process while the context is open.

    The ground's process number is added later: it does not exist yet. Raises UsageError for a second run: networks in real time
    would compete for the CPU. If nobody closes the context, the record is removed when the process ends, unless it is killed.
    """
    run = Run(Process.of(os.getpid()), NOBODY, str(out))
    path = folder / f"{os.getpid()}.run"
    with _alone(folder):
        if path.exists() and (other := _read(path)) is not None and other.runner == run.runner:
            why = f"this process has a network there ({other.out}); close that first, real time has one"
            raise UsageError(f'ground "host": {why}')
        run.write(folder)
    withdraw = partial(_withdraw, this_process(), path)
    atexit.register(withdraw)

    def in_ground(pid: int) -> None:
        replace(run, ground=Process.of(pid)).write(folder)

    try:
        yield in_ground
    finally:
        withdraw()
        atexit.unregister(withdraw)


def _withdraw(owner: Owner, path: Path) -> None:
    if owner.is_here():
        path.unlink(missing_ok=True)


def use_cable(module: Path, folder: Path = STATE) -> None:
    """Loads this build of the module if it is not loaded. Raises KernelError if it cannot be loaded."""
    with _alone(folder):
        _use_cable(module, folder)


def _use_cable(module: Path, folder: Path) -> None:
    build_id, loaded = cable_module.build_id(module), cable_module.LOADED.is_dir()
    if loaded and cable_module.loaded_build_id() == build_id:
        return
    if loaded and not _is_ours(folder / MARK):
        raise KernelError("a module 'cable' that is not ours is loaded: unload it (rmmod cable), or set host.links=netem")
    if loaded and not cable_module.unload():
        raise KernelError("another build of the module cable is in use by another run: wait for it, or set host.links=netem")
    _put(folder / MARK, build_id + "\n")
    cable_module.load(module)


def clean(folder: Path = STATE) -> list[str]:
    """Removes the files of dead runs, and the module. Returns a line for each removed thing. Files of live runs stay."""
    if not folder.is_dir():
        return []
    if not os.access(folder, os.W_OK):
        return [f"left    {folder}: it is root's: sudo dcgym clean"]
    with _alone(folder):
        return _clean(folder)


def _clean(folder: Path) -> list[str]:
    messages, living = [], 0
    for path in sorted(folder.glob("*.run")):
        run = _read(path)
        if run is not None and run.runner.alive():
            living += 1
            messages.append(f"left    {path}: process {run.runner.pid} is running {run.out}")
            continue
        if run is not None:
            messages += _end(run.ground)
        path.unlink()
        messages.append(f"removed {path}")
    for path in folder.glob(f"*{PARTIAL}"):
        remove_left_over(path)
    if (folder / MARK).exists() and not living:
        messages += _unload(folder / MARK)
    if not any(folder.iterdir()):
        folder.rmdir()
    return messages


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Makes the folder if it does not exist, and keeps other processes from changing its contents."""
    while True:
        folder.mkdir(mode=0o755, exist_ok=True)
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # `dcgym clean` removed it just now
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if folder.is_dir() and os.path.samestat(os.fstat(fd), folder.stat()):
                yield
                return
        finally:
            os.close(fd)


def _put(path: Path, text: str) -> None:
    """Writes the whole file, or leaves it as it was."""
    with whole(path) as work:
        work.write_text(text)


def _is_ours(mark: Path) -> bool:
    """Returns True if the loaded module is the build that is marked as dc-gym's."""
    return mark.exists() and mark.read_text().strip() == cable_module.loaded_build_id()


def _read(path: Path) -> Run | None:
    """Returns None if the file is not a record."""
    try:
        return Run.read(path)
    except (ValueError, KeyError, TypeError):
        return None


def _end(ground: Process) -> list[str]:
    """Kills a ground that has survived its run. The kernel removes its namespaces and all that is in them."""
    if not ground.alive():
        return []
    os.kill(ground.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while ground.alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    return [f"killed process {ground.pid}, which held the network of a dead run"]


def _unload(mark: Path) -> list[str]:
    """Removes the mark, and also the module if it is dc-gym's. The marked load may have failed or never begun."""
    is_own = cable_module.LOADED.is_dir() and _is_ours(mark)
    if is_own:
        for _ in range(100):  # namespaces are taken apart some time after their last process ends
            if cable_module.unload():
                break
            time.sleep(0.1)
        else:
            raise TestbedError("the module cable is still in use: by a network that is not ours?")
    mark.unlink()
    return ["unloaded the module cable"] if is_own else []
