# SPDX-License-Identifier: Apache-2.0
"""The folder of a sweep (docs/sweeps.md): which runs exist, which failed and why, and which are still to be done.

    DIR/NAME/              the result of a run
    DIR/failed/NAME.json   why it failed; removed when the run is repeated
    DIR/specs/NAME.json    its whole spec, which `dcgym run` accepts
    DIR/sweep.json, summary.csv, summary.parquet    written by summary.py

The files are the state: there is no journal that could be out of date after a kill -9. A result counts if its manifest has the
same spec and the same fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from dc_gym.base import plain_json
from dc_gym.base.bounded import sha256_of
from dc_gym.base.errors import ResultError, UsageError
from dc_gym.base.files import machine_errors, put
from dc_gym.base.usercode import CODE
from dc_gym.results import fingerprint, results
from dc_gym.results.results import FILES, Result
from dc_gym.results.tables import TABLES
from dc_gym.run.sweep.grid import Grid, Point
from dc_gym.run.sweep.known import Known, Record
from dc_gym.run.sweep.known import stamps as known_files
from dc_gym.spec import Spec
from dc_gym.topologies.waits import Waits

SUMMARY = "sweep.json"
SPECS, FAILED = "specs", "failed"


class RunState(StrEnum):
    DONE = "done"
    UNFIT = "unfit"
    FAILED = "failed"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Status:
    """The status of one run."""

    point: Point
    state: RunState
    exit: int | None = None
    """Exit status of `dcgym run`. None: not run yet."""
    message: str = ""
    digest: str | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)


class SweepMismatch(UsageError):
    """A folder with a run's name belongs to another sweep."""


@dataclass(frozen=True, slots=True)
class SweepFolder:
    path: Path
    grid: Grid
    fingerprints: Mapping[str, str]
    """Fingerprint that a result must have to count, by kind of run. Other results would not be comparable."""
    record: Record = field(init=False)
    """The findings about the results that were read."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "record", self.grid.record or Record.read(self.path))

    def make(self) -> None:
        if (self.path / "manifest.json").exists():
            raise UsageError(f"{self.path} is the result of a run; give a sweep another --out")
        with machine_errors("make", self.path):
            (self.path / SPECS).mkdir(parents=True, exist_ok=True)

    def write_specs(self) -> None:
        """Writes the specs. `dcgym run` accepts them, also to examine a run that failed."""
        for point in self.grid.points:
            if point.known is None:  # else it is as it was
                self._write_spec(self.spec_file(point), f"{point.spec.to_json()}\n".encode())

    def _write_spec(self, path: Path, content: bytes) -> None:
        """Writes a spec unless it is there, so that its file keeps its times."""
        with suppress(OSError):
            if path.read_bytes() == content:
                return
        put(path, content)

    def result_of(self, point: Point) -> Path:
        return self.path / point.name

    def spec_file(self, point: Point) -> Path:
        return self.path / SPECS / f"{point.name}.json"

    def status(self, point: Point) -> Status:
        """Returns the status of a run. Raises Mismatch if its result is of another spec or was made in another environment."""
        failure = self._failure(point)
        if failure is not None:  # also if an older result got its name back
            return Status(point, RunState.FAILED, failure["exit"], failure["message"])
        folder = self.result_of(point)
        if not folder.exists():
            return Status(point, RunState.WAITING)
        now = self.fingerprints[point.kind]
        if (known := self.record.of(point.name, point.key)) and known.fingerprint == now:
            return Status(point, **{**known.status, "state": RunState(known.status["state"])})
        stamps = known_files(self._files(folder, point.spec))
        result = self._load(folder, point.spec)
        state = RunState.DONE if result.fit else RunState.UNFIT
        status = Status(point, state, 0 if result.fit else 1, "\n".join(result.faults), result.digest, result.summary)
        stored_status = {name: getattr(status, name) for name in ("state", "exit", "message", "digest", "summary")}
        self.record.entries[point.name] = Known(point.key, point.values, point.kind, point.clock, now, stored_status, stamps)
        return status

    def _files(self, folder: Path, spec: Spec) -> list[Path]:
        """Returns the files by which it shows if a run's spec or result changes."""
        tables = [f"{name}.parquet" for name in TABLES]
        copies = [*(folder / CODE / path.name for path in spec.code()), *(folder / name for name in spec.copies())]
        read = [*spec.code(), *spec.copies().values(), self.path / SPECS / f"{folder.name}.json"]
        return [*(folder / name for name in dict.fromkeys((*FILES, *tables))), *copies, *read]

    def record_failure(self, point: Point, status: int, message: str) -> None:
        record = {"exit": status, "message": message, "spec": plain(point.spec)}
        put(self._failure_file(point), f"{json.dumps(record, indent=1)}\n".encode())

    def forget_failure(self, point: Point) -> None:
        self._failure_file(point).unlink(missing_ok=True)
        with suppress(OSError):  # the folder does not exist, or has failures of other runs
            (self.path / FAILED).rmdir()

    def _load(self, folder: Path, spec: Spec) -> Result:
        try:
            result = results.load_result(folder)
        except ResultError as error:
            raise SweepMismatch(str(error)) from None
        recorded, expected = both_specs(result, spec)
        if recorded != expected or not same_files(folder, spec):
            raise SweepMismatch(f"{folder} has another spec than {self.path / SPECS / folder.name}.json")
        result_fingerprint, now = result.manifest.get("fingerprint"), self.fingerprints[fingerprint.kind_of(spec)]
        if result_fingerprint != now:
            raise SweepMismatch(f"{folder} has the fingerprint {result_fingerprint}, a run would have {now} now")
        if result.manifest.get("disturb"):
            raise SweepMismatch(f"{folder} is of a run that was disturbed on purpose")
        return result

    def _failure_file(self, point: Point) -> Path:
        return self.path / FAILED / f"{point.name}.json"

    def _failure(self, point: Point) -> dict[str, Any] | None:
        """Returns how the run failed, if the failed run had this spec, otherwise None."""
        try:
            failure: dict[str, Any] = plain_json.read(self._failure_file(point))
            return failure if failure["spec"] == plain(point.spec) and {"exit", "message"} <= set(failure) else None
        except (OSError, ValueError, KeyError, TypeError):  # cut off by a full disk or a kill: the run is repeated
            return None


def plain(spec: Spec) -> Any:
    """Returns the spec as in the manifest of its result."""
    return json.loads(json.dumps(spec.as_run().to_dict(copied=True)))


def both_specs(result: Result, spec: Spec) -> tuple[Any, Any]:
    """Returns the spec in the result's manifest, and the one that it should be.

    What a run fills in is no difference between them: its lab's memory where the spec gives none, and a later start.
    """
    recorded, expected = dict(result.manifest.get("spec", {})), plain(spec)
    if spec.lab.memory_bytes is None and isinstance(recorded.get("lab"), dict):
        recorded["lab"] = {key: value for key, value in recorded["lab"].items() if key != "memory"}
    if recorded.get("lab") != expected["lab"]:
        t0_ns = Waits.of(spec.graph()).t0_ns(spec.lab.t0_ns, int(result.summary.get("flows", 0)))
        expected["lab"] = plain(replace(spec, lab=replace(spec.lab, t0_ns=t0_ns)))["lab"]
    return recorded, expected


def same_files(folder: Path, spec: Spec) -> bool:
    """Returns True if the result was made with the files (flow matrix, sizes, Python) that the spec names."""
    pairs = [(folder / CODE / path.name, path) for path in spec.code()]
    pairs += [(folder / name, path) for name, path in spec.copies().items()]
    try:
        return all(sha256_of(copy) == sha256_of(path) for copy, path in pairs)
    except OSError:
        return False
