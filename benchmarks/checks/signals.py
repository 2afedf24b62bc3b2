# SPDX-License-Identifier: Apache-2.0
"""`dcgym bench signals`: processes of a run, a sweep and a training are killed or stopped for a while, at random instants.

After SIGKILL a job may end with its whole result or without one, and a sweep or a training goes on when it is started again.
After SIGSTOP and SIGCONT it must end with its whole result.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from dc_gym.base.checks import Check
from dc_gym.base.processes import descendants
from dc_gym.benchmarks.checks.disturbed import JOBS, Disturb, DisturbedJob, Ended, Job, adopting, tally
from dc_gym.sweep import runs

SIGNALS = 100
"""Jobs of each kind that meet each signal."""
PAUSE_S = 0.5
"""Longest time in wall seconds that a process is stopped."""


def checks(jobs: Sequence[Job] = JOBS, signals: int = SIGNALS, seed: int = 1) -> Iterable[Check]:
    draw = random.Random(seed)
    with runs.scratch("signals") as folder, adopting():
        for job in jobs:
            disturbed = DisturbedJob(job, folder.absolute() / job.name)
            for number in (signal.SIGKILL, signal.SIGSTOP):
                yield check(disturbed, number, signals, draw)


def check(job: DisturbedJob, number: signal.Signals, times: int, draw: random.Random) -> Check:
    """Sends the signal to one process of each of so many jobs. Returns the check on how they ended."""
    ends: list[Ended] = []
    bad: list[str] = []
    while len(ends) < times:
        end, victim = play(job, number, draw)
        if victim:  # otherwise the job ended sooner than the drawn instant
            ends.append(end)
            bad += [f"{victim}: {'; '.join(end.faults)}"] if end.faults else []
    required = "each survived, nothing left" if number == signal.SIGKILL else "all results whole"
    return Check(f"{job.job.name}: {number.name}", required, "\n".join([tally(ends, "signals"), *bad]), not bad)


def play(job: DisturbedJob, number: signal.Signals, draw: random.Random) -> tuple[Ended, str]:
    """Runs a job and disturbs it once. Returns how it ended, and which process got the signal, or ''."""
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
