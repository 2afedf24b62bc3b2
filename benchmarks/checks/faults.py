# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench faults`: one call of a run, a sweep or a training fails as on a full disk or at a spent limit, again and again.

Each distinct call site fails once with each error number that its call can return, and so do calls drawn by number.
Calls fail by a preloaded library (failing_calls.c), in the Python processes of the machine's side. Programs in labs are linked
statically and meet no fault. Memory that the interpreter asks for is always given: it does not survive the want of it.
"""

from __future__ import annotations

import errno
import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dc_gym.base.checks import Check
from dc_gym.base.package import PROGRAMS
from dc_gym.benchmarks.checks.disturbed import JOBS, DisturbedJob, Ended, Job, adopting, tally
from dc_gym.sweep import runs

LIBRARY = PROGRAMS / "libfailing.so"
RANDOM_FAULTS = 300
KINDS: Mapping[str, Sequence[int]] = {
    "write": (errno.ENOSPC, errno.EIO),
    "sync": (errno.ENOSPC, errno.EIO),
    "rename": (errno.ENOSPC, errno.EIO),
    "mkdir": (errno.ENOSPC, errno.EIO),
    "open": (errno.EMFILE, errno.EIO),
    "create": (errno.ENOSPC, errno.EMFILE, errno.EIO),
    "process": (errno.EAGAIN, errno.ENOMEM),
    "map": (errno.EAGAIN, errno.ENOMEM),
}
"""The kinds of calls in the order of failing_calls.c, and the error numbers that each can return."""
COUNTS = struct.Struct(f"={len(KINDS)}II")
"""The beginning of struct calls: calls by kind, and whether one has failed. A text follows: which one."""
STATE_BYTES = 2048


@dataclass(frozen=True, slots=True)
class CallSite:
    kind: str
    site: str
    """Hash of the kind of call and of the Python functions and lines that make it."""
    stack: str
    """Those functions and lines, the innermost first."""

    def rules(self) -> list[str]:
        return [f"{self.site} {number}" for number in KINDS[self.kind]]


def checks(jobs: Sequence[Job] = JOBS, drawn: int = RANDOM_FAULTS, seed: int = 1) -> Iterable[Check]:
    with runs.scratch("faults") as folder, adopting():
        for job in jobs:
            bench = FaultBench(job, folder.absolute() / job.name)
            by_site = [rule for site in bench.sites for rule in site.rules()]
            yield bench.check(f"{len(bench.sites)} call sites", by_site)
            yield bench.check(f"drawn (seed {seed})", bench.draw(random.Random(seed), drawn))


class FaultBench:
    """A job, and the call sites of an undisturbed one."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._state, log = folder.with_name(f"{folder.name}.state"), folder.with_name(f"{folder.name}.calls")
        log.touch()
        self.job = DisturbedJob(job, folder, {**self._preload(""), "DCGYM_CALLS_LOG": str(log)})
        *self.counts, _ = COUNTS.unpack_from(self._state.read_bytes())
        calls = (f"{line} ".split(" ", 2) for line in log.read_text().splitlines())
        sites = {site: CallSite(kind, site, stack.strip()) for kind, site, stack in calls}
        self.sites = sorted(sites.values(), key=lambda each: each.site)

    def draw(self, draw: random.Random, number: int) -> list[str]:
        """Returns rules for calls by number. Each kind is as likely as another, since a run opens files most of the time."""
        counted = [(kind, calls) for kind, calls in zip(KINDS, self.counts, strict=True) if calls]
        chosen = [draw.choice(counted) for _ in range(number)]
        return [f"{kind}#{draw.randint(1, calls)} {draw.choice(KINDS[kind])}" for kind, calls in chosen]

    def check(self, name: str, rules: Sequence[str]) -> Check:
        """Plays all rules. Returns the check on how the jobs ended."""
        played = [(rule, *self.play(rule)) for rule in rules]
        bad = [f"{failed or rule}: {'; '.join(end.faults)}" for rule, end, failed in played if end.faults]
        met = [end for _, end, failed in played if failed or end.faults]
        unmet = f"; {len(played) - len(met)} calls were not reached" if len(met) < len(played) else ""
        said = "\n".join([tally(met, "faults") + unmet, *bad])
        return Check(f"{self.job.job.name}: {name}", "each survived, nothing left", said, bool(met) and not bad)

    def play(self, rule: str) -> tuple[Ended, str]:
        """Runs the job with one fault. Returns how it ended and which call failed, or '' if that call was not reached."""
        end = self.job.play(self._preload(rule))
        state = self._state.read_bytes()
        *_, has_failed = COUNTS.unpack_from(state)
        failed = state[COUNTS.size :].split(b"\0")[0].decode() if has_failed else ""
        if end.exit and not failed:
            end = replace(end, faults=[*end.faults, f"exit {end.exit} without a fault: {end.errors.strip()}"])
        return end, failed

    def _preload(self, rule: str) -> dict[str, str]:
        """Returns the environment of a job whose calls fail by a rule, and forgets the calls of the last job."""
        self._state.write_bytes(bytes(STATE_BYTES))
        return {"LD_PRELOAD": str(LIBRARY), "DCGYM_CALLS_STATE": str(self._state), "DCGYM_CALLS_FAIL": rule}
