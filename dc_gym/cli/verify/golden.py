# SPDX-License-Identifier: Apache-2.0
"""`dcgym golden`: keeps digests of a few short scenarios in golden.json and compares them with present runs' digests.

A digest is kept for an *outside*: Linux source, Open vSwitch, libc and Python. dc-gym's own parts (programs, kernel patches,
drivers and configuration) are not part of it on purpose: golden digests shall detect a change of dc-gym that alters a result.
The author of an intended change renews the digests and gives the reason (a habit of OMNeT++/INET); the file keeps the history. An
outside that is not in the file is reported as unknown, and its digests are written to a file for a maintainer to add.
"""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from dc_gym.base import plain_json
from dc_gym.base.errors import UsageError, with_remedy
from dc_gym.base.files import in_full, put, scratch
from dc_gym.base.outputs import free_place, is_json_of
from dc_gym.base.progress import Progress
from dc_gym.base.spelling import hint
from dc_gym.base.terminal import say
from dc_gym.kernel import build, openvswitch
from dc_gym.kernel.lab import check_place
from dc_gym.results import fingerprint
from dc_gym.results.digest import DIGEST_VERSION
from dc_gym.results.results import load_result
from dc_gym.run import sweep

__all__ = [
    "CONTROLLERS", "FILE", "SCENARIOS", "Book", "GoldenEntry", "GoldenFinding", "cell", "main", "outside", "run", "scenarios",
]  # fmt: skip

FILE = Path(__file__).with_name("golden.json")
SHORT = 16
"""Number of hexadecimal digits of a digest in the history."""
CONTROLLERS = ("dctcp", "cubic", "nv")
SCENARIOS = {
    "single": """
topology = { preset = "dctcp-10g", rate = "1Gbit/s" }
workload = { kind = "many_to_one", senders = 4, jitter = "2ms" }
time.duration = "50ms"
""",
    "dumbbell": """
topology.preset = "dumbbell-10m"
workload = { kind = "pairs", jitter = "100ms" }
time.duration = "3s"
""",
    "fattree": """
topology = { preset = "fattree-k4", rate = "100Mbit/s" }
workload = { kind = "hotspot", jitter = "20ms" }
time.duration = "100ms"
""",
    "leafspine": """
topology.kind = "leafspine"
topology.leaves = 2
topology.hosts_per_leaf = 4
topology.spines = 2
topology.rate = "100Mbit/s"
topology.uplink_rate = "200Mbit/s"
topology.delay = "5us"
topology.buffer = "200kB"
topology.k_bytes = "30kB"
workload = { kind = "pairs", jitter = "20ms" }
time.duration = "150ms"
""",
}
"""Specs by name. Each runs with every controller."""


@dataclass(slots=True)
class GoldenEntry:
    """The entry for one outside."""

    outside: dict[str, str]
    made_by: dict[str, str]
    """Identities of dc-gym's own parts when the digests were made."""
    digests: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Book:
    """The contents of golden.json."""

    digest_version: int = DIGEST_VERSION
    entries: dict[str, GoldenEntry] = field(default_factory=dict)
    """Entries by the fingerprint of the outside."""
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Book:
        """Reads the file. Raises UsageError when it is damaged."""
        try:
            data = plain_json.read(path)
            entries = {key: GoldenEntry(**entry) for key, entry in data["entries"].items()}
            return cls(int(data["digest_version"]), entries, list(data["history"]))
        except OSError as error:
            raise UsageError(f"{path}: {with_remedy(error)}") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise UsageError(f"{path}: not a file of golden digests ({type(error).__name__}: {error})") from None

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def renew(self, key: str, entry: GoldenEntry, because: str, today: str) -> list[str]:
        """Stores the digests of `entry` for its outside, and adds a line of history. Returns the names that changed."""
        old = self.entries.get(key)
        before = old.digests if old is not None and self.digest_version == DIGEST_VERSION else {}
        changed = {
            name: [before.get(name, "")[:SHORT], digest[:SHORT]]
            for name, digest in entry.digests.items()
            if before.get(name) != digest
        }
        if not changed:
            return []
        if self.digest_version != DIGEST_VERSION:
            self.digest_version, self.entries = DIGEST_VERSION, {}
        self.entries[key] = GoldenEntry(entry.outside, entry.made_by, {**before, **entry.digests})
        self.history.append({"date": today, "because": because, "outside": key, **entry.made_by, "changed": changed})
        return list(changed)


@dataclass(frozen=True, slots=True)
class GoldenFinding:
    """One scenario compared with the book. `kept` is None if the book lacks this outside or this scenario."""

    name: str
    digest: str
    kept: str | None

    @property
    def status(self) -> str:
        return "unknown" if self.kept is None else "equal" if self.kept == self.digest else "DIFFERENT"


def main(args: Namespace, progress: Progress) -> int:
    """Runs the command with `args`: only, out, jobs, renew, because, add, record, file. Returns 0 when nothing differs."""
    path = args.file or FILE
    if args.renew or args.add:
        _require_reason(args.because)
    book = Book.read(path) if path.exists() else Book()
    if args.add:
        return _renew(book, path, GoldenEntry(**_recorded(args.add)), args.because)
    names = [name for name in scenarios() if not args.only or any(fnmatch(name, glob) for glob in args.only)]
    if not names:
        raise UsageError(f"--only {args.only[0]}: no scenario matches it; {hint(args.only[0], scenarios())}")
    entry = run(names, args.out, args.jobs or sweep.cpus(), progress)
    if args.renew:
        return _renew(book, path, entry, args.because)
    findings = compare(book, entry)
    say("\n".join(report(findings, book, entry)))
    if any(finding.kept is None for finding in findings):
        digest_file = record(entry, args.record)
        say(f"recorded in {digest_file}; a maintainer adds it with: dcgym golden --add {digest_file} --because WHY")
    return 1 if any(finding.status == "DIFFERENT" for finding in findings) else 0


def scenarios() -> dict[str, tuple[str, str]]:
    """Returns every run: its name, scenario and controller."""
    return {f"{name}-{controller}": (name, controller) for name in SCENARIOS for controller in CONTROLLERS}


def outside(kernel: build.KernelBuild, ovs: openvswitch.OpenVSwitch) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the identities of the parts of a lab that others made, and of the parts that dc-gym made."""
    parts = fingerprint.environment(kernel, ovs)
    made_by = {name: parts.pop(name) for name in ("kernel", "programs")}
    return {"linux": str(kernel.manifest["source"]["identity"]), **parts}, made_by


def run(names: Sequence[str], out: Path | None, jobs: int, progress: Progress) -> GoldenEntry:
    """Runs scenarios. Their results stay in `out` if it is given."""
    if out is not None:
        check_place(in_full(out), "a run's folder", "give another --out")
    environment, made_by = outside(build.ensure(progress), openvswitch.ensure())
    with ExitStack() as stack:
        folder = in_full(out) if out else stack.enter_context(scratch(Path(tempfile.gettempdir()), "dcgym-golden-"))
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        cells = [cell(folder, name) for name in names]
        sweep.require_all(sweep.run_cells(cells, jobs, progress))
        return GoldenEntry(environment, made_by, {job.name: load_result(job.out, check_digest=True).digest for job in cells})


def compare(book: Book, entry: GoldenEntry) -> list[GoldenFinding]:
    """Returns each digest with the one kept for its outside."""
    kept = book.entries.get(fingerprint.fingerprint(entry.outside)) if book.digest_version == DIGEST_VERSION else None
    return [GoldenFinding(name, digest, kept.digests.get(name) if kept else None) for name, digest in entry.digests.items()]


def report(findings: Sequence[GoldenFinding], book: Book, entry: GoldenEntry) -> Iterator[str]:
    """Yields a line for each scenario, and advice about scenarios that differ or are unknown."""
    key = fingerprint.fingerprint(entry.outside)
    for finding in findings:
        yield f"{finding.name:18} {finding.status:10} {finding.digest}" + (
            f", kept is {finding.kept}" if finding.status == "DIFFERENT" else ""
        )
    differing = [finding.name for finding in findings if finding.status == "DIFFERENT"]
    if differing:
        yield from _advice(differing, book.entries[key], entry)
    if any(finding.kept is None for finding in findings):
        yield f"WARNING: this environment is UNKNOWN: {json.dumps(entry.outside)} ({key}, digest version {DIGEST_VERSION})"
        for other in book.entries.values():
            same = all(other.digests.get(finding.name) == finding.digest for finding in findings)
            yield f"  known, with {'the same' if same else 'other'} digests: {json.dumps(other.outside)}"


def _advice(names: Sequence[str], kept: GoldenEntry, entry: GoldenEntry) -> Iterator[str]:
    """Yields advice on how to find the first divergence."""
    parts = [name for name in ("programs", "kernel") if kept.made_by.get(name) != entry.made_by.get(name)]
    changed = " and ".join(f"{name} ({kept.made_by.get(name)} then, {entry.made_by.get(name)} now)" for name in parts)
    yield f"{len(names)} results are not what they were. Changed since: {changed or 'nothing that the fingerprint knows of'}"
    yield "to see where the first one parts:"
    yield "  git worktree add /tmp/then $(git log -1 --format=%h -- dc_gym/cli/verify/golden.json) && make -C /tmp/then setup"
    yield f"  (cd /tmp/then && .venv/bin/dcgym golden --only {names[0]} --out /tmp/golden-then)"
    yield f"  dcgym golden --only {names[0]} --out /tmp/golden-now"
    yield f"  dcgym verify /tmp/golden-then/{names[0]} --against /tmp/golden-now/{names[0]}"
    yield "if the change is meant: dcgym golden --renew --because WHY"


def record(entry: GoldenEntry, path: Path) -> Path:
    """Writes the digests of an unknown outside beside those recorded for other outsides, and returns the path."""
    free_path = free_place(path, is_json_of(outside=entry.outside))
    return put(free_path, (json.dumps(asdict(entry), indent=1) + "\n").encode())


def _renew(book: Book, path: Path, entry: GoldenEntry, because: str) -> int:
    changed = book.renew(fingerprint.fingerprint(entry.outside), entry, because, datetime.now(UTC).date().isoformat())
    if not changed:
        say("nothing to renew: all digests are as they were")
        return 0
    book.write(path)
    say(f"{path}: {len(changed)} digests renewed: {', '.join(changed)}")
    return 0


def _require_reason(because: str | None) -> None:
    if not because or len(because.split()) < 2:
        raise UsageError('--because: give the reason why results change, such as --because "tgen binds ports in another order"')


def _recorded(path: Path) -> Mapping[str, Any]:
    try:
        data = plain_json.read(path)
        return {name: dict(data[name]) for name in ("outside", "made_by", "digests")}
    except OSError as error:
        raise UsageError(f"--add {path}: {with_remedy(error)}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--add {path}: not a record of `dcgym golden` ({type(error).__name__}: {error})") from None


def cell(folder: Path, name: str) -> sweep.Cell:
    """Returns the run of this name, with its spec in the folder."""
    scenario, controller = scenarios()[name]
    spec = folder / f"{scenario}.toml"
    spec.write_text(f'spec_version = 1\nname = "golden-{scenario}"\ncontroller.name = "dctcp"\n{SCENARIOS[scenario]}')
    return sweep.Cell(name, spec, folder / name, (f'controller.name="{controller}"',), ("--no-plot", "--force"))
