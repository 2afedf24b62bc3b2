# SPDX-License-Identifier: Apache-2.0
"""Runs the trainings of a set of runs. Each is a `dcgym train` in its own process, which resumes where it was stopped.

FOLDER/trainings/PPO-s1/         the output of `dcgym train`: checkpoints, progress.csv, policy.npz
FOLDER/trainings/PPO-s1.json     its settings
FOLDER/trainings/PPO-s1.spec.json
"""

from __future__ import annotations

import csv
import json
import math
import shutil
import threading
import time
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.base import plain_json
from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.files import machine_errors, put
from dc_gym.base.progress import Progress, Quiet, short_time
from dc_gym.nets.agent_policy import AgentPolicy
from dc_gym.results import fingerprint
from dc_gym.run.sweep.pool import Cell, CellOutcome, run_cells
from dc_gym.spec import Spec
from dc_gym.study.evidence import Track

FOLDER = "trainings"
LABS = 4
"""Number of labs of a training. It affects the result, so it does not depend on the machine."""
LOOK_EVERY_S = 3.0
TRACKED = {
    "goodput_bps": "goodput_bps",
    "switch_queue_bytes": "switch_queue_bytes_longest",
    "host_queue_bytes": "host_queue_bytes_longest",
    "queueing_delay_s": "queueing_delay_s",
    "rtt_s": "rtt_s",
}
"""Columns of a training's progress, by the names of a run's quantities."""


@dataclass(frozen=True, slots=True)
class Training(Cell):
    """One training; `out` is its folder."""

    algorithm: str = "PPO"
    preset: str = "default"
    seed: int = 1
    steps: int = 1
    batch: int | None = None
    """Batch in steps; None: the preset's."""
    levels: int = 0
    """Number of discrete actions; 0: continuous ones."""
    evaluated: bool = True
    """False leaves out the evaluations, where runs measure the policy anyway."""
    resumes: bool = False

    @property
    def config(self) -> Path:
        """The file with settings that differ from the preset."""
        return self.out.with_name(f"{self.name}.toml")

    def argv(self) -> list[str]:
        told = {"algo": self.algorithm, "preset": self.preset, "seed": self.seed, "steps": self.steps, "labs": LABS}
        options = [f"--{name}={value}" for name, value in told.items()]
        options += ["--config", str(self.config)] if self.changes() else []
        options += [f"--levels={self.levels}"] if self.levels else []
        return ["train", str(self.spec), "--out", str(self.out), "--quiet", *options, *(["--resume"] if self.resumes else [])]

    def changes(self) -> str:
        """Returns the contents of `config`; empty if nothing differs."""
        run = "" if self.evaluated else "[run]\nevaluate_episodes = 0\n"
        return run + (f"[training]\ntrain_batch_size_per_learner = {self.batch}\n" if self.batch else "")

    @property
    def policy(self) -> Path:
        return self.out / "policy.npz"

    def trained(self) -> int:
        """Returns the number of steps that its policy was trained for; 0 if there is no policy."""
        return int(AgentPolicy.read(self.policy).provenance.get("steps", 0)) if self.policy.is_file() else 0

    def steps_so_far(self) -> int:
        """Returns the number of steps that its folder records."""
        rows = _rows(self.out)
        return int(rows[-1]["steps"]) if rows else 0

    def order(self) -> dict[str, object]:
        """Returns the identity of this training, whatever its length."""
        return {
            "spec": json.loads(self.spec.read_text()),
            "algorithm": self.algorithm,
            "preset": self.preset,
            "seed": self.seed,
            "labs": LABS,
            "batch": self.batch,
            "programs": fingerprint.programs(),
            **({"levels": self.levels} if self.levels else {}),
        }


def training(folder: Path, spec: Spec, name: str, **settings: Any) -> Training:
    """Returns a training of a set of runs, after writing the files that it reads. `settings`: fields of Training."""
    place = folder / FOLDER
    with machine_errors("make", place):
        place.mkdir(parents=True, exist_ok=True)
        file = place / f"{name}.spec.json"
        put(file, f"{spec.to_json()}\n".encode())
        made = Training(name, file, place / name, **settings)
        if changes := made.changes():
            put(made.config, changes.encode())
    return made


def run_all(asked: Sequence[Training], jobs: int, progress: Progress, force: bool = False) -> None:
    """Makes missing trainings. Raises TestbedError or UsageError if a training fails, after the others have ended."""
    for each in asked:
        _require_same(each, force)
    todo = [_begun(each) for each in asked if each.trained() < each.steps]
    if not todo:
        return
    failed: list[CellOutcome] = []

    def on_end(outcome: CellOutcome) -> None:
        if outcome.status:
            failed.append(outcome)
            progress.note(f"{outcome.cell.name}: {(outcome.message.splitlines() or ['no word'])[-1]}")

    with _watched(todo, jobs, progress):
        run_cells(todo, jobs, Quiet(), on_end)
    if failed:
        said = (failed[0].message.splitlines() or [f"exit {failed[0].status}"])[-1]
        kind = UsageError if failed[0].status == UsageError.exit_code else TestbedError
        name, why = failed[0].cell.name, said.removeprefix("dcgym: ")
        raise kind(f"training {name}, a `dcgym train` of its own, said: {why}; the same command goes on with it")


def _require_same(asked: Training, force: bool) -> None:
    """Raises UsageError if the training's folder holds another training, or removes the folder with `force`."""
    record = asked.out.with_name(f"{asked.out.name}.json")
    if not asked.out.exists():
        put(record, f"{json.dumps(asked.order(), indent=1)}\n".encode())
        return
    try:
        found = plain_json.read(record)
    except (OSError, ValueError):
        found = None
    if found == asked.order():
        return
    if not isinstance(found, dict) or not asked.order().keys() - found.keys() <= {"levels"}:
        raise UsageError(
            f"{asked.out}: {record.name} beside it does not say that it is a training; move it, or give another --out"
        )
    if not force:
        raise UsageError(f"{asked.out}: another spec, preset or version; --force trains it anew, or give another --out")
    shutil.rmtree(asked.out)
    put(record, f"{json.dumps(asked.order(), indent=1)}\n".encode())


def _begun(asked: Training) -> Training:
    """Prepares a training to resume from its last checkpoint, or to start again if it has none."""
    if any((asked.out / "checkpoints").glob("iteration-*[0-9]")):
        return replace(asked, resumes=True)
    if asked.out.exists():
        shutil.rmtree(asked.out)
    return asked


@contextmanager
def _watched(todo: Sequence[Training], jobs: int, progress: Progress) -> Iterator[None]:
    """Reports the progress of the trainings, from their own files."""
    progress.phase(f"{len(todo)} trainings, {min(jobs, len(todo))} at a time")
    over = threading.Event()
    begun_s, first = time.monotonic(), sum(each.steps_so_far() for each in todo)
    total = sum(each.steps for each in todo)

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            done = sum(min(each.steps_so_far(), each.steps) for each in todo)
            words = f"trainings: {done:,} of {total:,} steps"
            if done > first:
                words += f", about {short_time((time.monotonic() - begun_s) / (done - first) * (total - done))} to go"
            progress.advance(done, total, words)

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        progress.phase("done")


def learning_curve(folder: Path, steps_of_episode: int, names: Container[str] = ("reward", *TRACKED)) -> Track:
    """Returns the learning curve of a training's folder: means over the episodes of each iteration, exploration included.

    `steps_of_episode` divides an episode's reward. `names`: the quantities that the curve has, if the training has them.
    """
    rows = _rows(folder)

    def column(name: str) -> np.ndarray:
        return np.array([float(row.get(name) or math.nan) for row in rows])

    values = {name: column(own) for name, own in TRACKED.items()} | {"reward": column("return_mean") / steps_of_episode}
    return Track(column("steps"), {name: each for name, each in values.items() if name in names})


def _rows(folder: Path) -> list[dict[str, str]]:
    """Returns the rows of progress.csv, except one that is still being written."""
    try:
        with (folder / "progress.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError:
        return []
    return [row for row in rows if (row.get("steps") or "").isdecimal()]
