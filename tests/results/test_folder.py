# SPDX-License-Identifier: Apache-2.0
"""The life of a result's folder: no partial result looks complete, folders of others stay, a kill at any step can be repaired."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import synthetic

from dc_gym.base import files, folder_lock, janitor
from dc_gym.base.errors import MachineError, ResultError, TestbedError, UsageError
from dc_gym.results import folder, results


@pytest.fixture
def good(tmp_path: Path) -> results.Result:
    return synthetic.result(tmp_path / "run")


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def write(partial: Path, seed: int = 1) -> None:
    results.write_result(partial, synthetic.run(seed, duration_ns=synthetic.S), {}, {})


def claimed_before(path: Path) -> None:
    """Leaves a folder as a run does that is killed together with its janitor."""
    held = folder_lock.take(path)
    assert held is not None
    held.close()


# Folders of other people in which lies something that a result has, too.
FAMILIAR = ("manifest.json", "exec/notes", "plot.png", ".lab/notes", ".lock")


def strangers(path: Path, familiar: str) -> Path:
    """Makes a folder that no run made; returns the file in it that must survive."""
    for name in (familiar, "thesis.tex"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text("years of work")
    return path / "thesis.tex"


def wait_for(path: Path, *names: str) -> None:
    deadline = time.monotonic() + 20
    while names_in(path) != sorted(names):
        assert time.monotonic() < deadline, names_in(path)
        time.sleep(0.02)


def wait_until_gone(*words: str) -> None:
    """Waits until no process has all these words in its command."""
    deadline = time.monotonic() + 20
    while any(all(word.encode() in command(path) for word in words) for path in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


HOLDER = """
import sys, time
from pathlib import Path
from dc_gym.results import folder, results
sys.path.insert(0, {tests!r})
import synthetic
def stop():
    print("stopped", flush=True)
    time.sleep(600)
remove = folder.remove
{patch}
with folder.writing(Path(sys.argv[1]), force=True) as partial:
    results.write_result(partial, synthetic.run(7, duration_ns=synthetic.S), {{}}, {{}})
    if "wait" in sys.argv:
        print("writing", flush=True)
        time.sleep(600)
    folder.finish(partial)
"""


class Holder:
    """Another process that writes a result; it executes `patch` first."""

    def __init__(self, out: Path, *words: str, patch: str = "") -> None:
        program = HOLDER.format(tests=str(Path(__file__).parents[1]), patch=patch)
        self.process = subprocess.Popen([sys.executable, "-c", program, str(out), *words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.word = self.process.stdout.readline().strip()

    def kill(self, how: int = signal.SIGKILL) -> None:
        self.process.send_signal(how)
        self.process.wait()


@pytest.fixture
def holder() -> Iterator[Any]:
    holders: list[Holder] = []

    def start(*words: Any, **options: Any) -> Holder:
        holders.append(Holder(*words, **options))
        return holders[-1]

    yield start
    for started in holders:
        started.process.kill()
        started.process.wait()
        assert started.process.stdout is not None
        started.process.stdout.close()


def test_a_name_that_is_taken_is_refused(good: results.Result, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--force"), folder.writing(good.path, force=False):
        pytest.fail("entered")
    out = tmp_path / "deep" / "er" / "v0.5"
    with folder.writing(out, force=False) as partial:
        assert partial.name == "v0.5.partial"
        write(partial)
        out.mkdir()
        with pytest.raises(UsageError, match="--force"):
            folder.finish(partial)
        out.rmdir()
        assert folder.finish(partial).name == "v0.5"
    assert names_in(out.parent) == ["v0.5"] and sorted(results.FILES) == names_in(out)


def test_an_unfinished_folder_is_not_renamed(tmp_path: Path) -> None:
    with folder.writing(tmp_path / "run", force=False) as partial, pytest.raises(ResultError, match=r"manifest\.json is missing"):
        folder.finish(partial)
    with pytest.raises(ValueError, match="does not end"):
        folder.finish(tmp_path)
    assert names_in(tmp_path) == []


def test_everything_is_synced_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with folder.writing(tmp_path / "run", force=False) as partial:
        write(partial)
        calls: list[str] = []
        for module in (files, folder):
            monkeypatch.setattr(module, "sync", lambda path: calls.append(f"{path}"))
        rename = Path.rename
        monkeypatch.setattr(Path, "rename", lambda self, to: (calls.append("rename"), rename(self, to))[1])
        folder.finish(partial)
    before, after = calls[: calls.index("rename")], calls[calls.index("rename") + 1 :]
    assert {*(f"{partial / name}" for name in names_in(tmp_path / "run")), f"{partial}"} <= set(before)
    assert before[-1] == f"{partial}"
    assert after == [f"{tmp_path}"]


def test_no_permission_is_one_line_and_the_users_to_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    words = r"cannot make .*run\.partial: Permission denied; give another --out"
    with pytest.raises(MachineError, match=words) as excinfo, folder.writing(tmp_path / "run", force=False):
        pytest.fail("entered")
    assert excinfo.value.exit_code == 2


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is not even room for the lock's mark."""

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder_lock.os, "write", full)
    message = r"cannot lock .*No space left.*free some room, or give another --out"
    with pytest.raises(MachineError, match=message), folder.writing(tmp_path / "run", force=False):
        pass
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())


def test_an_older_result_stays_until_there_is_a_new_one(good: results.Result) -> None:
    with pytest.raises(RuntimeError), folder.writing(good.path, force=True):
        assert names_in(good.path.parent) == ["run.partial", "run.replaced"]
        raise RuntimeError
    assert results.load_result(good.path).digest == good.digest
    with folder.writing(good.path, force=True) as partial:
        write(partial, seed=2)
        folder.finish(partial)
    assert results.load_result(good.path).digest != good.digest
    assert names_in(good.path.parent) == ["run"]


def fail_after_the_traffic(out: Path, error: BaseException) -> None:
    with folder.writing(out, force=True) as partial, folder.kept_on_failure(partial):
        (partial / ".lab").mkdir()
        (partial / ".lab" / "queues.trace").write_text("records")
        raise error


def test_an_error_after_the_traffic_keeps_what_was_recorded(good: results.Result) -> None:
    for error in (KeyError("tx_bytes"), MachineError("no room")):
        with pytest.raises(TestbedError) as excinfo:
            fail_after_the_traffic(good.path, error)
        assert "\n" not in str(excinfo.value) and f"kept in {good.path}.failed" in str(excinfo.value)
        assert excinfo.value.exit_code == (2 if isinstance(error, MachineError) else 1)
    failed = good.path.with_suffix(".failed")
    assert names_in(good.path.parent) == ["run", "run.failed"] and names_in(failed) == [".lab", "failure.txt"]
    assert (failed / ".lab" / "queues.trace").read_text() == "records"
    assert "no room" in (failed / "failure.txt").read_text(), "of the last failure"
    assert results.load_result(good.path).digest == good.digest, "the older result got its name back"
    with pytest.raises(ResultError, match="the run failed after its traffic"):
        results.load_result(failed)


def test_what_is_called_failed_and_is_no_runs_stays(tmp_path: Path) -> None:
    stranger_file = strangers(tmp_path / "run.failed", "manifest.json")
    with pytest.raises(KeyError):
        fail_after_the_traffic(tmp_path / "run", KeyError("tx_bytes"))
    assert stranger_file.is_file() and names_in(tmp_path) == ["run.failed"]


def test_an_interrupted_run_keeps_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fail_after_the_traffic(tmp_path / "run", KeyboardInterrupt())
    assert not list(tmp_path.iterdir())


def test_a_finished_result_is_held_until_its_plot_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "PATIENCE_S", 0)
    with folder.writing(tmp_path / "run", force=False) as partial:
        write(partial)
        out = folder.finish(partial)
        with pytest.raises(UsageError, match="another run is finishing it"), folder.writing(out, force=True):
            pytest.fail("entered")
    assert ".lock" not in names_in(out)
    with folder.writing(out, force=True):
        pass


def test_only_results_are_replaced(good: results.Result, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="not a result"), folder.writing(tmp_path / "home", force=True):
        pytest.fail("entered")
    (tmp_path / "home").rename(tmp_path / "home.partial")
    with pytest.raises(UsageError, match="no run made it"), folder.writing(tmp_path / "home", force=True):
        pytest.fail("entered")
    assert names_in(tmp_path / "home.partial") == ["thesis.tex"]
    for name in (".", "/"):
        with pytest.raises(UsageError), folder.writing(Path(name), force=True):
            pytest.fail("entered")


@pytest.mark.parametrize("familiar", FAMILIAR)
def test_a_strangers_folder_with_a_familiar_name_in_it_is_never_touched(tmp_path: Path, familiar: str) -> None:
    stranger_files = [strangers(tmp_path / name, familiar) for name in ("a", "b.partial", "c.replaced")]
    words = ("not a result", "no run made it", "in the way and not a result")
    for name, reason in zip("abc", words, strict=True):
        with pytest.raises(UsageError, match=reason), folder.writing(tmp_path / name, force=True):
            pytest.fail("entered")
    folder.recover(tmp_path / "c")
    assert all(path.exists() for path in stranger_files) and not (tmp_path / "c").exists()


@pytest.mark.parametrize("familiar", FAMILIAR)
def test_a_kill_before_the_claim_costs_a_stranger_nothing(tmp_path: Path, holder: Any, familiar: str) -> None:
    """The janitor watches already, and the run has not yet looked whose folder it is."""
    stranger_file = strangers(tmp_path / "run.partial", familiar)
    other = holder(tmp_path / "run", patch="folder._claim = lambda partial: stop()")
    assert other.word == "stopped"
    other.kill()
    wait_until_gone("dcgym-janitor", str(tmp_path / "run.partial"))
    assert stranger_file.exists() and names_in(tmp_path) == ["run.partial"]


def test_the_lock_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that could not be removed is still recognised as a run's own."""
    (tmp_path / "half").mkdir()
    claimed_before(tmp_path / "half")
    (tmp_path / "half" / "stays").touch()
    monkeypatch.setattr(files, "remove", lambda path: (_ for _ in ()).throw(MachineError("cannot")))
    files.discard(tmp_path / "half")
    assert names_in(tmp_path / "half") == [".lock", "stays"] and folder.is_unfinished(tmp_path / "half")
    monkeypatch.undo()
    files.discard(tmp_path / "half")
    assert names_in(tmp_path) == []


def test_two_runs_on_one_folder_do_not_destroy_each_other(good: results.Result, holder: Any) -> None:
    other = holder(good.path, "wait")
    assert other.word == "writing"
    begun = time.monotonic()
    with pytest.raises(UsageError, match="a run is under way here"), folder.writing(good.path, force=True):
        pytest.fail("entered")
    assert time.monotonic() - begun < 5, "it did not wait for the other"
    assert names_in(good.path.parent) == ["run.partial", "run.replaced"], "the other's are there still"
    other.kill()
    wait_for(good.path.parent, "run")
    assert results.load_result(good.path, check_digest=True).digest == good.digest


def test_what_a_killed_run_left_is_taken_over(good: results.Result, holder: Any) -> None:
    """This holds also when the run's janitor was killed with it."""
    patch = "from dc_gym.base import janitor; janitor._SCRIPT = 'read -r word'"
    holder(good.path, "wait", patch=patch).kill()
    assert names_in(good.path.parent) == ["run.partial", "run.replaced"]
    with folder.writing(good.path, force=True) as partial:
        assert names_in(partial) == [".lock"], "the other's files are gone"
        write(partial, seed=3)
        folder.finish(partial)
    assert names_in(good.path.parent) == ["run"]
    assert results.load_result(good.path, check_digest=True).digest != good.digest


# Every step at which the writer can die: what is patched to stop there, and whether the new result counts already.
STEPS = {
    "made the folder": ("folder.folder_lock.take = lambda path: stop()", False),
    "moved the older one": ("results.write_result = lambda *rest: stop()", False),
    "before the rename": ("folder.sync_tree = lambda path: stop()", False),
    "after the rename": ("folder.remove = lambda path: stop() if path.suffix == '.replaced' else remove(path)", True),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_is_put_right(good: results.Result, holder: Any, step: str) -> None:
    patch, newer = STEPS[step]
    other = holder(good.path, patch=patch)
    assert other.word == "stopped"
    other.kill()
    wait_for(good.path.parent, "run")
    deadline = time.monotonic() + 10
    while ".lock" in names_in(good.path):
        assert time.monotonic() < deadline
    assert (results.load_result(good.path, check_digest=True).digest != good.digest) is newer


def test_an_older_result_that_waits_for_a_killed_janitor_comes_back(good: results.Result) -> None:
    good.path.rename(good.path.with_name("run.replaced"))
    folder.recover(good.path)
    assert names_in(good.path.parent) == ["run"]
    synthetic.result(good.path.with_name("run.replaced"))
    folder.recover(good.path)
    assert names_in(good.path.parent) == ["run"]


def test_a_scratch_folder_is_gone_after_a_kill(tmp_path: Path) -> None:
    program = "import sys, time; from pathlib import Path; from dc_gym.base import files\n"
    program += "with files.scratch(Path(sys.argv[1]), 'dcgym-verify-') as path:\n"
    program += " (path / 'file').touch(); print('there', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert len(names_in(tmp_path)) == 1
        process.kill()
    wait_for(tmp_path)
    with files.scratch(tmp_path, "dcgym-verify-") as path:
        assert path.parent == tmp_path and path.stat().st_mode & 0o755 == 0o755
        assert folder_lock.take(path) is None
    assert names_in(tmp_path) == []


def test_a_janitor_is_told_done_only_if_nothing_is_left(tmp_path: Path) -> None:
    partial = tmp_path / "run.partial"
    with janitor.watching(partial):
        partial.mkdir()
        claimed_before(partial)
        (partial / "late").touch()
    assert names_in(tmp_path) == [], "it was not told, so it tidied up"
    with janitor.watching(partial) as watch:
        partial.mkdir()
        watch.done = True
    assert names_in(tmp_path) == ["run.partial"]


def test_who_only_looks_whether_a_folder_is_held_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looker = os.open(tmp_path / folder_lock.LOCK, os.O_RDONLY | os.O_CREAT)
    fcntl.flock(looker, fcntl.LOCK_SH)  # as is_held() of `dcgym watch`, for a moment

    def look_ends(fd: int) -> bool:
        os.close(looker)
        return is_locked(fd)

    is_locked = folder_lock._is_locked
    with monkeypatch.context() as patched:
        patched.setattr(folder_lock, "_is_locked", look_ends)
        fd = folder_lock.take(tmp_path)
    assert fd is not None and folder_lock.is_held(tmp_path)
    folder_lock.release(tmp_path, fd)
    assert not folder_lock.is_held(tmp_path)


def test_a_claim_knows_its_own_file(tmp_path: Path) -> None:
    fd = folder_lock.take(tmp_path)
    assert fd is not None and folder_lock.take(tmp_path) is None
    folder_lock.release(tmp_path, fd)
    assert names_in(tmp_path) == []
    with folder_lock.held(tmp_path, "a sweep"):
        with pytest.raises(UsageError, match="a sweep is under way here"), folder_lock.held(tmp_path, "a sweep"):
            pytest.fail("entered")
        assert names_in(tmp_path) == [".lock"]
