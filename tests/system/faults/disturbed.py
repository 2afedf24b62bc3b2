# SPDX-License-Identifier: Apache-2.0
"""A run, a sweep and a training that something disturbs, and the judgement on how each ended.

A job is survived if it ends with its whole result (the digest is that of an undisturbed job), or with none and words that say
why; no process and no file may be left. What a sweep or a training leaves unfinished must go on to the same result.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dc_gym.base.errors import TestbedError
from dc_gym.base.files import FAILED, PARTIAL
from dc_gym.base.interpreter import dcgym
from dc_gym.base.processes import Process, children, descendants
from dc_gym.base.terminal import STANDARD_OUTPUT
from dc_gym.base.unfinished import is_left_over
from dc_gym.methods.checkpoint import NAME as CHECKPOINT
from dc_gym.nets.nic_policy import NicPolicy
from dc_gym.results.folder import ASIDE
from dc_gym.results.results import load_result
from dc_gym.run.sweep import runs
from dc_gym.run.sweep.state import SUMMARY

LIMIT_S = 120.0
"""Wall seconds after which a job counts as one that hangs."""
QUIET_S = 10.0
"""Wall seconds that a job's processes have to end after it."""
WORDS = ("dcgym: ", "  ", "<jemalloc>: ", "OpenBLAS ")
"""Beginnings of lines for users. Arrow's allocator and numpy's library say so themselves if they can have no thread."""
OF_A_FILE = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EPERM))
"""Errors of a file, whose line names it."""
OF_A_LIMIT = tuple(os.strerror(number) for number in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS))
"""Errors of something that is used up, whose line says what to do."""
PAUSE_S = 0.5
"""Longest time in wall seconds that a process is stopped."""
PR_SET_CHILD_SUBREAPER = 36
SPEC = runs.plain_spec("faults", "dumbbell-10m", "200ms")

Disturb = Callable[[subprocess.Popen[bytes]], None]
"""Disturbs a job under way."""


@dataclass(frozen=True, slots=True)
class Job:
    """A command that is disturbed."""

    name: str
    argv: Callable[[Path, Path], list[str]]
    """Returns the words after `dcgym`, from the spec and the folder that the command makes."""
    digest: Callable[[Path], str]
    """Returns the digest of the folder's whole result, or '' where the job may go on. Raises an error for what is broken."""
    resume: Callable[[Path, Path], list[str]] | None = None
    """Returns the words after `dcgym` that complete the folder. None: an unfinished folder is not left."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended."""

    exit: int
    errors: str
    digest: str
    """Digest of the whole result, or empty."""
    faults: Sequence[str]
    """The ways in which the job misbehaved."""


def _run_argv(spec: Path, out: Path) -> list[str]:
    return ["run", str(spec), "--out", str(out), "--quiet", "--no-plot"]


def _run_digest(out: Path) -> str:
    return load_result(out, check_digest=True).digest


def _sweep_argv(spec: Path, out: Path) -> list[str]:
    return ["sweep", str(spec), "--seeds", "1..2", "--jobs", "1", "--out", str(out), "--quiet"]


def _sweep_again(spec: Path, out: Path) -> list[str]:
    return [*_sweep_argv(spec, out), "--retry"]


def _sweep_digest(out: Path) -> str:
    digests = [_run_digest(run_folder) for run_folder in sorted(out.glob("s[12]"))]
    table = json.loads((out / SUMMARY).read_text()) if (out / SUMMARY).exists() else {"cells": []}
    done_digests = [cell["digest"] for cell in table["cells"] if cell["state"] == "done"]
    return " ".join(digests) if len(done_digests) == 2 and done_digests == digests else ""


def _train_argv(_: Path, out: Path) -> list[str]:
    size = ["--updates", "2", "--updates-per-episode", "1", "--labs", "1"]
    return ["method", "rlcc", "train", *size, "--out", str(out), "--quiet"]


def _train_again(spec: Path, out: Path) -> list[str]:
    return [*_train_argv(spec, out), *(["--resume"] if (out / CHECKPOINT).exists() else [])]


def _train_digest(out: Path) -> str:
    policy, manifest = out / "policy.npz", out / "manifest.json"
    return NicPolicy.read(policy).sha256() if policy.exists() and manifest.exists() else ""


JOBS = (
    Job("run", _run_argv, _run_digest),
    Job("sweep", _sweep_argv, _sweep_digest, _sweep_again),
    Job("training", _train_argv, _train_digest, _train_again),
)


class DisturbedJob:
    """A job, a folder for its files, and the digest and length of an undisturbed one."""

    def __init__(self, job: Job, folder: Path, env: Mapping[str, str] | None = None) -> None:
        """`env`: additions to the environment of the undisturbed job."""
        self.job, self.folder = job, folder
        folder.mkdir()
        self.spec = runs.write_spec(folder, "disturbed", SPEC)
        self._played, self._digest = 0, ""
        begun_s = time.monotonic()
        whole = self.play(env)
        self.length_s = time.monotonic() - begun_s
        if whole.faults or whole.exit:
            raise TestbedError(f"{job.name}: fails undisturbed: {whole.errors.strip() or whole.faults}")
        self._digest = whole.digest

    def play(self, env: Mapping[str, str] | None = None, disturb: Disturb | None = None, *, killed: bool = False) -> Ended:
        """Runs the job, and judges how it ended. `killed`: it may have ended by SIGKILL, without a word."""
        self._played += 1
        workspace, scratch = self.folder / f"n{self._played}", self.folder / "tmp"
        for directory in (workspace, scratch):
            directory.mkdir()
        out = workspace / "out"
        environment = {**os.environ, "TMPDIR": str(scratch), **(env or {})}
        code, errors, faults = _watched(self.job.argv(self.spec, out), environment, disturb)
        digest, broken = self._judge_result(out)
        faults += [*broken, *_judge_words(code, errors, digest, killed=killed)]
        faults += [f"left {path.name}" for path in _leftovers(scratch, out, killed=killed)]
        if not digest and not faults and out.exists():
            faults += self._resume(out)
        if not faults:
            shutil.rmtree(workspace)
        shutil.rmtree(scratch)
        return Ended(code, errors, digest, faults)

    def _judge_result(self, out: Path) -> tuple[str, list[str]]:
        """Returns the digest of a whole result, and what is wrong with it."""
        if not out.exists():
            return "", []
        try:
            digest = self.job.digest(out)
        except Exception as error:
            return "", [f"a broken result: {error}"]
        if self._digest and digest not in ("", self._digest):
            return digest, [f"another digest: {digest}"]
        return digest, []

    def _resume(self, out: Path) -> list[str]:
        """Completes what the job has left. Returns what is wrong with that."""
        if self.job.resume is None:
            return ["an unfinished folder"]
        code, errors, faults = _watched(self.job.resume(self.spec, out), os.environ)
        digest, broken = self._judge_result(out)
        failed = [] if digest else [f"cannot go on: exit {code}: {errors.strip()}"]
        return [*faults, *broken, *failed]


def play_signal(job: DisturbedJob, number: signal.Signals, draw: random.Random) -> tuple[Ended, str]:
    """Runs a job and sends one of its processes a signal at a random instant.

    After SIGKILL the job may end with its whole result or without one, and a sweep or a training goes on when it is started
    again. After SIGSTOP and SIGCONT it must end with its whole result.

    Returns how it ended, and which process got the signal, or ''.
    """
    victims: list[str] = []
    kill = number == signal.SIGKILL
    end = job.play(disturb=_sender(number, draw, job.length_s, victims), killed=kill)
    if not kill and victims and not end.faults and (end.exit or not end.digest):
        end = replace(end, faults=[f"exit {end.exit}: {end.errors.strip()}"])
    return end, "".join(victims)


def _sender(number: signal.Signals, draw: random.Random, length_s: float, victims: list[str]) -> Disturb:
    """Returns what sends a signal at a random instant, and adds the victim's name."""
    after_s, pause_s, choice = draw.uniform(0, length_s), draw.uniform(0, PAUSE_S), draw.random()

    def send(driver: subprocess.Popen[bytes]) -> None:
        time.sleep(after_s)
        family = descendants(driver.pid)
        if not family:
            return
        victim = family[int(choice * len(family))]
        name = f"{victim.name} (one of {len(family)} processes, {after_s:.2f} s after the start)"
        with suppress(ProcessLookupError):
            os.kill(victim.pid, number)
            victims.append(name)
            if number == signal.SIGSTOP:
                time.sleep(pause_s)
                os.kill(victim.pid, signal.SIGCONT)

    return send


def _leftovers(scratch: Path, out: Path, *, killed: bool) -> Iterator[Path]:
    """Yields files and folders that belong to no result. OUT.failed may stay.

    So may a single file that a process was writing when it was killed; `dcgym clean` removes it.
    """
    yield from scratch.iterdir()
    yield from (path for path in out.parent.iterdir() if path not in (out, out.with_name(f"{out.name}{FAILED}")))
    left = (path for ending in (PARTIAL, ASIDE) for path in out.rglob(f"*{ending}"))
    yield from (path for path in left if not (killed and is_left_over(path)))


def _judge_words(code: int, errors: str, digest: str, *, killed: bool) -> list[str]:
    """Describes the faults of the exit status and of standard error."""
    faults = []
    if code < 0 and not (killed and code == -signal.SIGKILL):
        faults.append(f"killed by signal {-code}")
    if code == 0 and not digest:
        faults.append("exit 0 without a result")
    if "Traceback" in errors or "Exception ignored" in errors:
        faults.append(f"a traceback: {errors.strip().splitlines()[-1]}")
    unsaid = [line for line in errors.splitlines() if not line.startswith(WORDS)]
    if unsaid and not faults:
        faults.append(f"not a line for users: {unsaid[0]}")
    lines = [line for line in errors.splitlines() if line.startswith(WORDS[0])]
    faults += [f"names no file: {line}" for line in lines if any(phrase in line for phrase in OF_A_FILE) and _is_nameless(line)]
    faults += [f"says no remedy: {line}" for line in lines if any(phrase in line for phrase in OF_A_LIMIT) and ";" not in line]
    return faults


def _is_nameless(line: str) -> bool:
    return "/" not in line.replace(os.strerror(errno.EIO), "") and STANDARD_OUTPUT not in line


def _watched(words: Sequence[str], env: Mapping[str, str], disturb: Disturb | None = None) -> tuple[int, str, list[str]]:
    """Runs `dcgym WORDS`. Returns its exit status, its standard error, and what is wrong: it hangs, or processes are left."""
    before = {process.pid for process in descendants(os.getpid())}
    argv = dcgym(*words)
    faults = []
    pipe = subprocess.PIPE
    driver = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, env=env, start_new_session=True)
    try:
        if disturb is not None:
            disturb(driver)
        output, errors = driver.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        faults.append(f"hangs after {LIMIT_S:g} s")
        driver.kill()
        output, errors = driver.communicate()
    faults += [f"left process {process.pid} ({process.name})" for process in _remaining(before)]
    if driver.returncode > 0 and not output + errors:  # a sweep names on standard output the runs that failed
        faults.append(f"exit {driver.returncode} without a word")
    return driver.returncode, errors.decode(errors="replace"), faults


def _remaining(before: set[int]) -> list[Process]:
    """Waits until all processes but those of before have ended. Ends and returns those that do not."""
    deadline = time.monotonic() + QUIET_S
    while (left := [child for child in descendants(os.getpid()) if child.pid not in before]) and time.monotonic() < deadline:
        time.sleep(0.02)
    for child in left:
        with suppress(ProcessLookupError):
            os.kill(child.pid, signal.SIGKILL)
    for pid in children(os.getpid()).keys() - before:  # adopted, and ended
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return left


@contextmanager
def adopting() -> Iterator[None]:
    """Makes this process the parent of all orphans among its descendants, so that it sees them."""
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
