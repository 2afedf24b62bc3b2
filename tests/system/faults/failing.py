# SPDX-License-Identifier: Apache-2.0
"""One call of a run, a sweep or a training fails as on a full disk or at a spent limit.

Calls fail by a preloaded library (failing_calls.c), in the Python processes of the machine's side. Programs in labs are linked
statically and meet no fault. An import looks for its files undisturbed: Python takes one that it cannot look at for one that is
not there. Memory that the interpreter asks for is always given: it does not survive the want of it.
"""

from __future__ import annotations

import errno
import random
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from disturbed import DisturbedJob, Ended, Job

from dc_gym.base.package import PACKAGE

KINDS: Mapping[str, Sequence[int]] = {
    "write": (errno.ENOSPC, errno.EIO),
    "read": (errno.EIO,),
    "close": (errno.EIO, errno.ENOSPC),
    "sync": (errno.ENOSPC, errno.EIO),
    "rename": (errno.ENOSPC, errno.EIO),
    "remove": (errno.EIO, errno.EACCES),
    "mkdir": (errno.ENOSPC, errno.EIO),
    "mode": (errno.EPERM, errno.EIO),
    "lock": (errno.ENOLCK, errno.EINTR),
    "open": (errno.EMFILE, errno.EIO, errno.EACCES),
    "create": (errno.ENOSPC, errno.EMFILE, errno.EIO, errno.EACCES),
    "status": (errno.EIO, errno.EACCES),
    "descriptor": (errno.EMFILE, errno.ENFILE),
    "process": (errno.EAGAIN, errno.ENOMEM),
    "exec": (errno.ENOMEM, errno.EACCES),
    "map": (errno.ENOMEM, errno.ENFILE),
    "message": (errno.ENOBUFS, errno.ENOMEM),
    "wait": (errno.EINTR, errno.ENOMEM),
}
"""The kinds of calls in the order of failing_calls.h, and the error numbers that each can return."""
COUNTS = struct.Struct(f"={len(KINDS)}II")
"""The beginning of struct calls: calls by kind, and whether one has failed. A text follows: which one."""
STATE_BYTES = 2048
PROBE = "_get_default_tempdir"
"""Python's function that writes a file to find out whether a temporary folder can be written. Nobody else knows its name."""


@dataclass(frozen=True, slots=True)
class CallSite:
    kind: str
    site: str
    """Hash of the kind of call and of the product's own Python functions and lines that make it."""
    stack: str
    """All Python functions and lines of its first call, the innermost first."""

    def rule(self, seed: int) -> str:
        """Returns the rule by which its first call fails, with one of the error numbers of its kind."""
        return f"{self.site} {random.Random(f'{seed} {self.site}').choice(KINDS[self.kind])}"


def built(folder: Path) -> Path:
    """Returns the library, built in a folder."""
    sources = Path(__file__).resolve().parent
    library = folder / "libfailing.so"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-fPIC", "-shared", "-nostdlib", "-fno-stack-protector"]
    subprocess.run(["cc", *flags, "-o", library, sources / "failing_calls.c", sources / "wrapped_calls.c"], check=True)
    return library


class FailingJob:
    """A job, and the call sites of an undisturbed one."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._library = built(folder.parent)
        self._state, log = folder.with_name(f"{folder.name}.state"), folder.with_name(f"{folder.name}.calls")
        log.touch()
        self.job = DisturbedJob(job, folder, {**self._preload(""), "DCGYM_CALLS_LOG": str(log)})
        *self.counts, _ = COUNTS.unpack_from(self._state.read_bytes())
        calls = [f"{line} ".split(" ", 2) for line in log.read_text().splitlines()]
        sites = {site: CallSite(kind, site, stack.strip()) for kind, site, stack in reversed(calls) if PROBE not in stack}
        self.sites = sorted(sites.values(), key=lambda call_site: call_site.site)

    def draw(self, draw: random.Random) -> Iterator[str]:
        """Yields rules for calls by number. Each kind is as likely as another, since a run opens files most of the time."""
        counted = [(kind, calls) for kind, calls in zip(KINDS, self.counts, strict=True) if calls]
        while True:
            kind, calls = draw.choice(counted)
            yield f"{kind}#{draw.randint(1, calls)} {draw.choice(KINDS[kind])}"

    def play(self, rule: str) -> tuple[Ended, str]:
        """Runs the job with one fault. Returns how it ended and which call failed, or '' if that call was not reached."""
        end = self.job.play(self._preload(rule))
        state = self._state.read_bytes()
        *_, has_failed = COUNTS.unpack_from(state)
        failed = state[COUNTS.size :].split(b"\0")[0].decode() if has_failed else ""
        if not end.faults and failed and rule.endswith(f" {errno.EINTR}") and (end.exit or not end.digest):
            end = replace(end, faults=[f"not tried again after a signal: exit {end.exit}: {end.errors.strip()}"])
        if end.exit and not failed:
            end = replace(end, faults=[*end.faults, f"exit {end.exit} without a fault: {end.errors.strip()}"])
        return end, failed

    def _preload(self, rule: str) -> dict[str, str]:
        """Returns the environment of a job whose calls fail by a rule, and forgets the calls of the last job."""
        self._state.write_bytes(bytes(STATE_BYTES))
        state, root = str(self._state), str(PACKAGE)
        return {"LD_PRELOAD": str(self._library), "DCGYM_CALLS_STATE": state, "DCGYM_CALLS_OWN": root, "DCGYM_CALLS_FAIL": rule}
