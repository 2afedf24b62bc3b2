# SPDX-License-Identifier: Apache-2.0
"""A job whose calls fail, or whose processes are killed or stopped, ends with a whole result or none, and leaves nothing."""

from __future__ import annotations

import errno
import random
import re
import signal
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import disturbed
import failing as faults
import pytest
from disturbed import DisturbedJob, Job, play_signal
from failing import FailingJob

from dc_gym.cli import main

pytestmark = pytest.mark.lab

RUN, SWEEP, TRAINING = disturbed.JOBS
DRAWN = 40
FOLDERS_OWN = {"plan.py", "lab.py", "manifest.py", "run.py"}
"""Modules that write plain files of a run, and to standard output."""
SEED = 7


@pytest.fixture(scope="module")
def adopting() -> Iterator[None]:
    with disturbed.adopting():
        yield


@pytest.fixture(scope="module")
def failing(adopting: None, tmp_path_factory: pytest.TempPathFactory) -> FailingJob:
    return FailingJob(RUN, tmp_path_factory.mktemp("faults") / "run")


@pytest.fixture(scope="module")
def disturbed_run(adopting: None, tmp_path_factory: pytest.TempPathFactory) -> DisturbedJob:
    return DisturbedJob(RUN, tmp_path_factory.mktemp("signals") / "run")


def test_every_kind_of_call_is_seen(failing: FailingJob) -> None:
    assert all(failing.counts) and {site.kind for site in failing.sites} == set(faults.KINDS)
    assert len(failing.sites) > 100


@pytest.mark.parametrize("number", range(DRAWN))
def test_a_run_survives_a_failing_call(failing: FailingJob, number: int) -> None:
    rule = next(islice(failing.draw(random.Random(SEED)), number, None))
    end, failed = failing.play(rule)
    assert not end.faults, f"{rule}: {failed}: {end}"


def test_the_call_that_was_chosen_fails(failing: FailingJob) -> None:
    (site,) = [site for site in failing.sites if site.kind == "rename" and "folder.py" in site.stack]
    end, failed = failing.play(f"{site.site} {errno.ENOSPC}")
    assert failed.startswith(f"rename {site.site}") and end.exit == 2 and not end.digest
    assert "No space left on device" in end.errors and ".failed" in end.errors


def test_a_full_disk_is_told_with_the_name_of_the_file(failing: FailingJob) -> None:
    """The error of write() has no name, other than that of open(). `_judge_words` looks for one."""
    sites = [site for site in failing.sites if site.kind == "write" and FOLDERS_OWN & set(re.findall(r"\w+\.py", site.stack))]
    assert len(sites) > 4
    for site in sites:
        end, failed = failing.play(f"{site.site} {errno.ENOSPC}")
        assert failed and not end.faults and "No space left on device" in end.errors, f"{site}: {end}"


@pytest.mark.parametrize(
    ("kind", "stack", "number", "code", "message"),
    [
        ("open", r"^\S+:iterdir (\S+:empty )?folder\.py:\d+:_claim ", errno.EACCES, 2, "out.partial: Permission denied"),
        pytest.param(  # root alone compares the programs with their list
            *("open", r"contents\.py:\d+:digest_of_file ", errno.EMFILE, 2, "Too many open files; raise the limit on open files"),
            marks=pytest.mark.root,
        ),
        ("read", r"import run\.py:\d+:main ", errno.EIO, 2, r"/.*\.py: Input/output error; its disk or network failed"),
        ("lock", r"cache\.py:\d+:in_use ", errno.ENOLCK, 0, ""),
        ("lock", r"folder_lock\.py:\d+:take ", errno.ENOLCK, 2, "cannot lock .*No locks available; its file system has no locks"),
        ("status", r"taken\.py:\d+:_taken ", errno.EACCES, 2, "/out.partial/.*: Permission denied$"),
        ("status", r"folder_lock\.py:\d+:_is .*_claim ", errno.EACCES, 2, "cannot lock .*Permission denied; give another --out"),
        (
            "create",
            r"folder_lock\.py:\d+:take ",
            errno.EMFILE,
            2,
            r"cannot lock .*; raise the limit on open files \(ulimit -n\)$",
        ),
        ("descriptor", r"cpu\.py:\d+:claimed_cpu ", errno.EMFILE, 2, "dcgym: Too many open files; raise the limit"),
        ("descriptor", r"subprocess\.py\S* .*lab\.py:\d+:_start ", errno.EMFILE, 2, "could not be started: .*; raise the limit"),
        ("map", r"channel\.py:\d+:_map ", errno.ENOMEM, 2, "dcgym: Cannot allocate memory; end other programs"),
        ("message", r"channel\.py:\d+:reply_step ", errno.ENOBUFS, 2, "dcgym: No buffer space available; end other programs"),
        (
            "descriptor",
            r"tgen_log\.py:\d+:_pieces ",
            errno.EMFILE,
            2,
            "the traffic ended, .*: Too many open files; raise the limit",
        ),
        ("map", r"trace\.py:\d+:_map ", errno.ENOMEM, 2, "the traffic ended, .*: Cannot allocate memory; end other programs"),
        (
            "open",
            r"^\S+ trace\.py:\d+:_map ",
            errno.EMFILE,
            2,
            "the traffic ended, .*queues.trace: Too many open files; raise",
        ),
        (
            "open",
            r"^(?!import ).*read_text load\.py:\d+:_read ",
            errno.EMFILE,
            2,
            "cannot read the spec: Too many open files; raise the limit",
        ),
        ("read", r"fingerprint\.py:\d+:_digest ", errno.EIO, 2, r"the traffic ended, .*: /.*: Input/output error; its disk"),
    ],
)
def test_a_call_that_was_not_survived_once(
    failing: FailingJob,
    kind: str,
    stack: str,
    number: int,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if stack.startswith("import "):  # a compiled module that cannot be read is compiled again; its source is needed
        monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    site = next(candidate for candidate in failing.sites if candidate.kind == kind and re.search(stack, candidate.stack))
    end, failed = failing.play(f"{site.site} {number}")
    assert failed and not end.faults and end.exit == code, end
    assert re.search(message, end.errors, re.MULTILINE), end


@pytest.mark.parametrize("stack", [r"selectors\.py:\d+:__init__ .*pool\.py", r"socket\.py:\d+:socketpair .*pool\.py"])
def test_a_sweep_without_a_descriptor_for_its_pool_says_so(adopting: None, tmp_path: Path, stack: str) -> None:
    bench = FailingJob(SWEEP, tmp_path / "job")
    rules = [f"descriptor#{number} {errno.EMFILE}" for number in range(1, 4)]
    played = [bench.play(rule) for rule in rules]
    (end,) = [end for end, failed in played if re.search(stack, failed)]
    assert not end.faults and end.exit == 2 and "raise the limit on open files" in end.errors, end


def test_a_module_of_the_command_line_that_cannot_be_read_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(_: str) -> None:
        raise OSError(errno.EIO, "Input/output error", "/x/rlcc.pyc")

    monkeypatch.setattr(main.parser, "build", build)
    assert main.main(["method", "rlcc", "train"]) == 2
    assert capsys.readouterr().err == "dcgym: /x/rlcc.pyc: Input/output error; its disk or network failed; try again\n"


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=lambda sent: sent.name)
def test_a_run_survives_a_signal(disturbed_run: DisturbedJob, sent: signal.Signals, number: int) -> None:
    end, victim = play_signal(disturbed_run, sent, random.Random(SEED + number))
    assert not end.faults, f"{victim}: {end}"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("job", disturbed.JOBS, ids=lambda job: job.name)
def test_each_call_site_is_survived(job: Job, adopting: None, tmp_path: Path) -> None:
    """Sites of a run are sites of a sweep's runs, too. Each fails once; then calls drawn by number do."""
    bench = FailingJob(job, tmp_path / "job")
    known = {site.site for site in FailingJob(RUN, tmp_path / "run").sites} if job is SWEEP else set()
    rules = [site.rule(SEED) for site in bench.sites if site.site not in known]
    bad = []
    for rule in [*rules, *islice(bench.draw(random.Random(SEED)), 10)]:
        end, failed = bench.play(rule)
        bad += [f"{rule}: {failed}: {end}"] if end.faults else []
    assert len(rules) > 100 and not bad, "\n".join(bad)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP], ids=lambda sent: sent.name)
@pytest.mark.parametrize("job", disturbed.JOBS, ids=lambda job: job.name)
def test_a_hundred_signals_are_survived(job: Job, sent: signal.Signals, adopting: None, tmp_path: Path) -> None:
    disturbed_job, draw, met = DisturbedJob(job, tmp_path / "job"), random.Random(SEED), 0
    while met < 100:
        end, victim = play_signal(disturbed_job, sent, draw)
        assert not end.faults, f"{victim}: {end}"
        met += bool(victim)  # otherwise the job ended sooner than the drawn instant


def test_what_is_not_survived_is_told(disturbed_run: DisturbedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result in another place is one that is left over, and its own is missing."""

    def beside(spec: Path, out: Path) -> list[str]:
        return RUN.argv(spec, out.with_name("beside"))

    monkeypatch.setattr(disturbed_run, "job", replace(RUN, argv=beside))
    assert disturbed_run.play().faults == ["exit 0 without a result", "left beside"]


@pytest.mark.parametrize(
    ("code", "errors", "digest", "expected"),
    [
        (0, "", "abc", []),
        (2, "dcgym: cannot write x\n", "", []),
        (0, "", "", ["exit 0 without a result"]),
        (-11, "", "", ["killed by signal 11"]),
        (1, "Traceback (most recent call last):\n  File\nOSError: x\n", "", ["a traceback: OSError: x"]),
        (1, "x: something\n", "", ["not a line for users: x: something"]),
        (2, "dcgym: /x/y: No space left on device\n", "", []),
        (2, "dcgym: standard output: No space left on device\n", "", []),
        (2, "dcgym: No space left on device\n", "", ["names no file: dcgym: No space left on device"]),
        (2, "dcgym: Input/output error\n", "", ["names no file: dcgym: Input/output error"]),
        (2, "dcgym: /x/y: Too many open files\n", "", ["says no remedy: dcgym: /x/y: Too many open files"]),
    ],
)
def test_words_are_judged(code: int, errors: str, digest: str, expected: list[str]) -> None:
    assert disturbed._judge_words(code, errors, digest, killed=False) == expected
