# SPDX-License-Identifier: Apache-2.0
"""The host's half: selects the scripts, the IP versions and the number of labs, and collects the verdicts."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from fnmatch import fnmatch
from ipaddress import ip_address
from pathlib import Path

from dc_gym.base import bounded
from dc_gym.base.errors import LabError, UsageError
from dc_gym.base.files import scratch
from dc_gym.base.interpreter import python
from dc_gym.base.package import PACKAGE, PROGRAMS
from dc_gym.base.progress import Progress
from dc_gym.base.spelling import unknown
from dc_gym.base.taken import take_over
from dc_gym.cli.conformance.guest import ScriptOutcome, ScriptPlan, ScriptRun
from dc_gym.cli.conformance.interpreter import DEFAULT_TCP, unsupported
from dc_gym.cli.conformance.script import Script, ScriptError, parse
from dc_gym.cli.conformance.tun import FAMILIES
from dc_gym.kernel.lab import Lab, LabConfig
from dc_gym.run.plan.plan import OUT

__all__ = ["check_programs", "default_jobs", "families", "run", "select"]

SEARCH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROGRAMS_OF_SCRIPTS = {
    "ip": "iproute2", "tc": "iproute2", "nstat": "iproute2", "sysctl": "procps", "ethtool": "ethtool", "bash": "bash",
}  # fmt: skip
MEMORY_BYTES = 512 << 20
WATCHDOG_S = 60.0
POLL_S = 0.2


def check_programs(kernels_own: bool) -> None:
    """Raises UsageError when a program is missing that scripts call. They would fail or, worse, pass without their set-up."""
    needed = PROGRAMS_OF_SCRIPTS if kernels_own else {"ip": "iproute2"}
    missing = {name: package for name, package in needed.items() if shutil.which(name, path=SEARCH) is None}
    if missing:
        packages = " ".join(dict.fromkeys(missing.values()))
        raise UsageError(f"the scripts call {', '.join(missing)}, which this machine lacks: apt install {packages}")


def select(
    paths: Sequence[Path], globs: Sequence[str], families: Sequence[str], must_parse: bool = False
) -> tuple[list[ScriptRun], list[ScriptOutcome]]:
    """Returns the cases to run, and verdicts on scripts that cannot be run. Raises UsageError when nothing is left to do.

    With `must_parse`, a script that is named and cannot be parsed is the user's own, and an error.
    """
    cases: list[ScriptRun] = []
    refused: list[ScriptOutcome] = []
    for path, name in _named(_files(paths)).items():
        if globs and not any(fnmatch(text, glob) for text in (name, path.stem) for glob in globs):
            continue
        try:
            script = parse(bounded.read_text(path, errors="replace"), name)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
        except ScriptError as error:
            if must_parse and path in paths:
                raise
            refused += [ScriptOutcome(name, family, "unsupported", str(error)) for family in families]
            continue
        ip_version = script.option("ip_version")
        case_families = [family for family in families if ip_version in (None, family) and _has_addresses(script, family)]
        reasons = unsupported(script)
        if reasons:
            refused += [ScriptOutcome(name, family, "unsupported", ", ".join(reasons)) for family in case_families]
        else:
            cases += [ScriptRun(script, str(path.resolve().parent), family) for family in case_families]
    if not cases and not refused:
        raise UsageError(f"no script is called {' or '.join(globs) or 'anything'}; `dcgym conformance --list` names them")
    return cases, refused


def _files(paths: Sequence[Path]) -> list[Path]:
    """Returns the scripts, each once. A folder stands for the scripts in it and below."""
    scripts: list[Path] = []
    for path in paths:
        below = sorted(path.rglob("*.pkt")) if path.is_dir() else [path]
        if not below:
            raise UsageError(f"{path}: no script (*.pkt) is in this folder; give another, or a script")
        scripts += below
    return list({path.resolve(): path for path in scripts}.values())


def _named(paths: Sequence[Path]) -> dict[Path, str]:
    """Returns the names of scripts: the files' names, with their folders where several files have one name."""
    names = {path: path.stem for path in paths}
    for depth in range(2, max((len(path.resolve().parts) for path in paths), default=0)):
        counts = Counter(names.values())
        if max(counts.values(), default=1) == 1:
            break
        alike = [path for path, name in names.items() if counts[name] > 1]
        names |= {path: "/".join(path.resolve().with_suffix("").parts[-depth:]) for path in alike}
    return names


def _has_addresses(script: Script, family: str) -> bool:
    """Returns whether the addresses that a script gives, if any, are of this IP version."""
    addresses = [script.option(name) for name in ("local_ip", "remote_ip")]
    try:
        versions = {ip_address(text).version for text in addresses if text is not None}
    except ValueError as error:
        raise UsageError(f"{script.name}: {error}; give --local_ip and --remote_ip an address") from None
    return versions <= {ip_address(FAMILIES[family].local).version}


def run(
    cases: Sequence[ScriptRun],
    tcp_header: str,
    kernel: Path,
    jobs: int,
    progress: Progress,
    *,
    event_loop: bool = True,
    tcp: str = DEFAULT_TCP,
    object: Path | None = None,
) -> list[ScriptOutcome]:
    """Returns verdicts in the order of the cases. `event_loop`, `object`: as in a LabConfig. `tcp`: as in a ScriptPlan."""
    jobs = max(1, min(jobs, len(cases)))
    progress.phase(f"conformance: {len(cases)} cases, {jobs} labs at a time")
    labs = _Labs(ScriptPlan(tcp_header, tcp), kernel, object, len(cases), progress, event_loop)
    with ThreadPoolExecutor(jobs) as pool:
        parts = [pool.submit(labs.run, cases[first::jobs]) for first in range(jobs)]
        try:
            # Waits in short steps: a signal may reach another thread, and Python handles it when this one wakes up.
            while wait(parts, timeout=POLL_S).not_done:
                pass
            outcomes = {(v.script, v.family): v for part in parts for v in part.result()}
        except BaseException:
            labs.stop()
            raise
    progress.phase("done")
    return [outcomes[case.script.name, case.family] for case in cases]


class _Labs:
    """Runs cases in labs, any number of labs at a time, and counts how many cases are done."""

    def __init__(
        self, plan: ScriptPlan, kernel: Path, object: Path | None, total: int, progress: Progress, event_loop: bool
    ) -> None:
        """`plan` has no cases yet."""
        self._plan, self._kernel, self._object, self._total, self._progress = plan, kernel, object, total, progress
        self._event_loop = event_loop
        self._done = 0
        self._stopped = False
        self._running: list[Lab] = []

    def stop(self) -> None:
        """Ends all labs. A thread that waits for one gets an error."""
        self._stopped = True
        for lab in list(self._running):
            lab.close()

    def run(self, cases: Sequence[ScriptRun]) -> list[ScriptOutcome]:
        """Runs one lab after another. A case that kills its lab fails, and the next lab continues after it."""
        verdicts: list[ScriptOutcome] = []
        while len(verdicts) < len(cases):
            todo = cases[len(verdicts) :]
            outcomes, death = self._run_lab(todo)
            verdicts += outcomes
            if self._stopped:
                raise LabError("stopped")
            if len(outcomes) < len(todo):
                case = todo[len(outcomes)]
                verdicts.append(ScriptOutcome(case.script.name, case.family, "failed", death or "the lab ended early"))
        return verdicts

    def _run_lab(self, cases: Sequence[ScriptRun]) -> tuple[list[ScriptOutcome], str]:
        """Returns verdicts of the cases that ended, and the error that ended the lab before the others."""
        with scratch(Path(tempfile.gettempdir()), "dcgym-conformance-") as folder:
            private = folder / ".lab"
            (private / OUT).mkdir(parents=True)
            (private / "cases.pickle").write_bytes(pickle.dumps(replace(self._plan, cases=tuple(cases))))
            results = private / OUT / "results.jsonl"
            death = ""
            lab = Lab(self._config(folder, cases), self._on_log)
            try:
                self._running.append(lab)
                with lab:
                    ended = lab.wait()
                if ended.status:
                    death = f"what ran in the lab ended with status {ended.status}"
            except LabError as error:
                death = str(error).splitlines()[0]
            finally:
                self._running.remove(lab)
            take_over(private / OUT)
            lines = results.read_text().splitlines() if results.exists() else []
            return [_verdict(line) for line in lines], death

    def _config(self, folder: Path, cases: Sequence[ScriptRun]) -> LabConfig:
        return LabConfig(
            kernel=self._kernel,
            programs=PROGRAMS,
            run_dir=folder,
            writable=[folder / ".lab" / OUT],
            object=self._object,
            reads=[*({} if self._object is None else {self._object.parent}), *map(Path, {case.folder for case in cases})],
            argv=python("-m", "dc_gym.cli.conformance.guest", str(folder)),
            env={
                "PATH": SEARCH,
                "PYTHONPATH": str(PACKAGE.parent),
                "PYTHONHASHSEED": "0",
                "PYTHONDONTWRITEBYTECODE": "1",
                "LC_ALL": "C.UTF-8",
                "HOME": "/run",
                "TMPDIR": "/tmp",
            },
            memory_bytes=MEMORY_BYTES,
            watchdog_s=WATCHDOG_S,
            event_loop=self._event_loop,
        )

    def _on_log(self, line: str) -> None:
        if line.startswith("::done "):
            self._done += 1
            self._progress.advance(self._done, self._total)


def _verdict(line: str) -> ScriptOutcome:
    verdict = ScriptOutcome(**json.loads(line))
    return replace(verdict, said=tuple(verdict.said))


def default_jobs() -> int:
    """Returns one lab for each CPU that this process may use."""
    return len(os.sched_getaffinity(0))


def families(text: str) -> list[str]:
    """Returns the IP versions of a comma-separated list."""
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in FAMILIES:
            raise UsageError("--ip: " + unknown("IP version", name, FAMILIES))
    return list(dict.fromkeys(names))
