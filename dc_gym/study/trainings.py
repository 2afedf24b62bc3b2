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
        settings = {"algo": self.algorithm, "preset": self.preset, "seed": self.seed, "steps": self.steps, "labs": LABS}
        options = [f"--{name}={value}" for name, value in settings.items()]
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
    subfolder = folder / FOLDER
    with machine_errors("make", subfolder):
        subfolder.mkdir(parents=True, exist_ok=True)
        file = subfolder / f"{name}.spec.json"
        put(file, f"{spec.to_json()}\n".encode())
        new_training = Training(name, file, subfolder / name, **settings)
        if changes := new_training.changes():
            put(new_training.config, changes.encode())
    return new_training


def run_all(requested: Sequence[Training], jobs: int, progress: Progress, force: bool = False) -> None:
    """Makes missing trainings. Raises TestbedError or UsageError if a training fails, after the others have ended."""
    for training in requested:
        _require_same(training, force)
    todo = [_begun(training) for training in requested if training.trained() < training.steps]
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
        last_line = (failed[0].message.splitlines() or [f"exit {failed[0].status}"])[-1]
        kind = UsageError if failed[0].status == UsageError.exit_code else TestbedError
        name, why = failed[0].cell.name, last_line.removeprefix("dcgym: ")
        raise kind(f"training {name}, a `dcgym train` of its own, said: {why}; the same command goes on with it")


def _require_same(training: Training, force: bool) -> None:
    """Raises UsageError if the training's folder holds another training, or removes the folder with `force`."""
    record = training.out.with_name(f"{training.out.name}.json")
    if not training.out.exists():
        put(record, f"{json.dumps(training.order(), indent=1)}\n".encode())
        return
    try:
        recorded = plain_json.read(record)
    except (OSError, ValueError):
        recorded = None
    if recorded == training.order():
        return
    if not isinstance(recorded, dict) or not training.order().keys() - recorded.keys() <= {"levels"}:
        raise UsageError(
            f"{training.out}: {record.name} beside it does not say that it is a training; move it, or give another --out"
        )
    if not force:
        raise UsageError(f"{training.out}: another spec, preset or version; --force trains it anew, or give another --out")
    shutil.rmtree(training.out)
    put(record, f"{json.dumps(training.order(), indent=1)}\n".encode())


def _begun(training: Training) -> Training:
    """Prepares a training to resume from its last checkpoint, or to start again if it has none."""
    if any((training.out / "checkpoints").glob("iteration-*[0-9]")):
        return replace(training, resumes=True)
    if training.out.exists():
        shutil.rmtree(training.out)
    return training


@contextmanager
def _watched(todo: Sequence[Training], jobs: int, progress: Progress) -> Iterator[None]:
    """Reports the progress of the trainings, from their own files."""
    progress.phase(f"{len(todo)} trainings, {min(jobs, len(todo))} at a time")
    over = threading.Event()
    begun_s, first = time.monotonic(), sum(training.steps_so_far() for training in todo)
    total = sum(training.steps for training in todo)

    def look() -> None:
        while not over.wait(LOOK_EVERY_S):
            steps_done = sum(min(training.steps_so_far(), training.steps) for training in todo)
            words = f"trainings: {steps_done:,} of {total:,} steps"
            if steps_done > first:
                words += f", about {short_time((time.monotonic() - begun_s) / (steps_done - first) * (total - steps_done))} to go"
            progress.advance(steps_done, total, words)

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

    values = {name: column(heading) for name, heading in TRACKED.items()} | {"reward": column("return_mean") / steps_of_episode}
    return Track(column("steps"), {name: curve for name, curve in values.items() if name in names})


def _rows(folder: Path) -> list[dict[str, str]]:
    """Returns the rows of progress.csv, except one that is still being written."""
    try:
        with (folder / "progress.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError:
        return []
    return [row for row in rows if (row.get("steps") or "").isdecimal()]
