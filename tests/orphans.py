# SPDX-License-Identifier: Apache-2.0
"""Kills of processes of a running environment or training, and what is left of what died five seconds later.

The victims are the driver, a lab, a Ray worker or the raylet. Nothing means no process, folder or shared memory. A training that
loses a lab or a worker may continue with another one. Then the driver is killed, too, and nothing at all may be left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.base.interpreter import dcgym, python
from dc_gym.base.processes import Process, descendants

DEADLINE_S = 5.0
START_S = 600.0
PATIENCE_S = 30.0
"""Seconds that a failed case has to clean up after itself."""
UNDER_WAY_S = 1.0
"""Seconds from the victim's appearance to its death."""
SHARED_MEMORY = Path("/dev/shm")
SCRATCH = "dcgym-*"
SPEC = """
spec_version = 1
name = "orphans"
topology.preset = "dumbbell-10m"
controller.name = "cubic"
workload = { kind = "pairs", jitter = "10ms" }
time = { duration = "1s" }
"""
STEPPER = """
import sys
from dc_gym.learn.env import DataCenterEnv
env = DataCenterEnv(sys.argv[1], folder=sys.argv[2])
while True:
    env.reset()
    over = False
    while not over:
        over = any(env.step(env.action_space.sample())[2:4])
"""

Pick = Callable[[Sequence[Process]], Process | None]
"""Selects the victim among the driver and all its descendants, the driver first. Returns None while it does not exist yet."""


@dataclass(frozen=True, slots=True)
class KillCase:
    """A kill."""

    name: str
    argv: Callable[[Path, Path], list[str]]
    """Returns the driver's command, from its spec file and the folder for its files."""
    pick: Pick
    takes_all: bool
    """True: all other processes end with the victim."""
    needs_ray: bool = False


def an_environment(spec: Path, folder: Path) -> list[str]:
    return python("-c", STEPPER, str(spec), str(folder))


def a_training(spec: Path, folder: Path) -> list[str]:
    where = ["--out", str(folder / "training"), "--quiet"]
    return dcgym("train", str(spec), "--runners", "1", "--labs", "2", "--steps", "10000000", *where)


def the_driver(family: Sequence[Process]) -> Process | None:
    """Selects the driver, once it has a lab."""
    return family[0] if a_lab(family) else None


def a_lab(family: Sequence[Process]) -> Process | None:
    """Selects the first process of a lab's kernel. The others are its descendants and share its command line."""
    labs = [process for process in family if "lab_channel=" in command_line(process)]
    return next((lab for lab in labs if not any(lab in descendants(other.pid)[1:] for other in labs)), None)


def a_worker(family: Sequence[Process]) -> Process | None:
    """Selects a process of Ray's that has labs."""
    workers = [process for process in family if command_line(process).startswith("ray::")]
    return next((worker for worker in workers if a_lab(descendants(worker.pid))), None)


def the_raylet(family: Sequence[Process]) -> Process | None:
    raylets = [process for process in family if command_line(process).split(" ")[0].endswith("/raylet")]
    return raylets[0] if raylets and a_worker(family) else None


CASES = (
    KillCase("an environment: the driver", an_environment, the_driver, True),
    KillCase("an environment: its lab", an_environment, a_lab, True),
    KillCase("a training: the driver", a_training, the_driver, True, needs_ray=True),
    KillCase("a training: a lab", a_training, a_lab, False, needs_ray=True),
    KillCase("a training: a Ray worker", a_training, a_worker, False, needs_ray=True),
    KillCase("a training: the raylet", a_training, the_raylet, True, needs_ray=True),
)


def play(case: KillCase, spec: Path, folder: Path) -> tuple[str, list[str]]:
    """Runs a case. Returns what happened, and what was left."""
    log = folder / "log"
    with log.open("w") as output:
        driver = subprocess.Popen(case.argv(spec, folder), stdout=output, stderr=output, start_new_session=True)
    try:
        victim = wait_for(driver, case.pick, log)
        time.sleep(UNDER_WAY_S)
        report, left = kill(driver, victim, doomed(driver, victim, case.takes_all), folder if case.takes_all else None)
        if not case.takes_all:
            again, more = kill(driver, None, descendants(driver.pid), folder)
            report, left = f"{report}; with the driver: {again}", left + more
        return report, left
    finally:
        give_up(driver)


def give_up(driver: subprocess.Popen[bytes]) -> None:
    """Ends the driver first: its janitors are among its descendants and must remove the folders of all others."""
    family = descendants(driver.pid)
    driver.kill()
    driver.wait()
    deadline = time.monotonic() + PATIENCE_S
    while (rest := [process for process in family if process.alive()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in rest:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def wait_for(driver: subprocess.Popen[bytes], pick: Pick, log: Path) -> Process:
    """Waits until the victim exists, and returns it."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and driver.poll() is None:
        if victim := pick(descendants(driver.pid)):
            return victim
        time.sleep(0.1)
    raise TestbedError("\n  ".join(["what was to be killed never began; its last words:", *log.read_text().splitlines()[-8:]]))


def doomed(driver: subprocess.Popen[bytes], victim: Process, takes_all: bool) -> list[Process]:
    return descendants(driver.pid if takes_all else victim.pid)


def kill(
    driver: subprocess.Popen[bytes], victim: Process | None, family: list[Process], folder: Path | None
) -> tuple[str, list[str]]:
    """Kills the victim (None: the driver). Waits until the family, all that belongs to it, and dc-gym's folders in `folder` are
    gone.

    Anything that surviving processes have open, such as the folder of their Ray, does not belong to the family.
    """
    others = [process for process in descendants(driver.pid) if process not in family]
    paths = {path for process in family for path in belongings(process)}
    paths -= {path for process in others for path in belongings(process)}
    begun = time.monotonic()
    with suppress(ProcessLookupError):
        os.kill(victim.pid if victim else driver.pid, signal.SIGKILL)
    while True:
        driver.poll()
        left = [f"process {process.pid} ({command_line(process)[:60]})" for process in family if process.alive()]
        left += sorted(str(path) for path in {*paths, *(scratch_folders(folder) if folder else ())} if path.exists())
        passed_s = time.monotonic() - begun
        if not left:
            return f"{len(family)} processes gone after {passed_s:.1f} s", []
        if passed_s > DEADLINE_S:
            return "", left
        time.sleep(0.05)


def scratch_folders(folder: Path) -> Iterator[Path]:
    """Yields dc-gym's folders below a folder. Some may disappear meanwhile, which os.walk() tolerates."""
    for parent, names, _ in os.walk(folder):
        yield from (Path(parent) / name for name in names if Path(name).match(SCRATCH))


def belongings(process: Process) -> Iterator[Path]:
    """Yields shared memory that a process has open or mapped, and dc-gym's scratch folders in which it has files open.

    Files without a name are left out.
    """
    for path in open_files(process.pid):
        if path.is_relative_to(SHARED_MEMORY):
            yield path
        temporary = Path(tempfile.gettempdir())
        if path.is_relative_to(temporary):
            top = temporary / path.relative_to(temporary).parts[0]
            if top.match(SCRATCH):
                yield top


def open_files(pid: int) -> Iterator[Path]:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            words = line.split(maxsplit=5)
            if len(words) == 6 and words[5].startswith("/") and not words[5].endswith(" (deleted)"):
                yield Path(words[5])
    with suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(link.readlink())
                if target.startswith("/") and not target.endswith(" (deleted)"):
                    yield Path(target)


def command_line(process: Process) -> str:
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
