# SPDX-License-Identifier: Apache-2.0
"""`dcgym clean`: leftovers that no process holds are removed; what a process holds and what no run made stays."""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic

from dc_gym.base import files, folder_lock, unfinished
from dc_gym.base.errors import UsageError
from dc_gym.cli import clean
from dc_gym.kernel import cache
from dc_gym.results import folder


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A temporary folder that is the test's own."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def names_in(path: Path) -> list[str]:
    return sorted(child.name for child in path.iterdir())


def claimed_before(path: Path) -> None:
    """Leaves a folder as a run does that is killed together with its janitor."""
    held = folder_lock.take(path)
    assert held is not None
    held.close()


def run(*folders: Path, cache: bool = False) -> int:
    return clean.main(Namespace(folders=list(folders), cache=cache))


def test_what_killed_runs_left_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "results"
    whole = synthetic.result(results / "whole").digest
    for name in ("half.partial", "sweep/half.partial", "dcgym-verify-1", "dcgym-bench-clean1", "old.partial"):
        (results / name).mkdir(parents=True)
    for name in ("dcgym-bench-clean1", "old.partial"):
        claimed_before(results / name)
        (results / name / ".lab").mkdir()
    synthetic.result(results / "sweep" / "one").path.rename(results / "sweep" / "one.replaced")
    synthetic.result(results / "whole.replaced", synthetic.run(seed=2))
    assert run(tmp_path) == 0
    assert names_in(results) == ["sweep", "whole"] and names_in(results / "sweep") == ["one"]
    assert synthetic.results.load_result(results / "whole").digest == whole
    assert len(capsys.readouterr().out.splitlines()) == 7


def test_scratch_folders_among_temporary_files_go(tmp_path: Path, temporary: Path) -> None:
    for name in ("dcgym-conformance-1", "dcgym-links-2", "dcgym-other-3", "somebody", "dcgym-vm-4"):
        (temporary / name / ".lab").mkdir(parents=True)
    for name in ("dcgym-conformance-1", "dcgym-links-2", "somebody"):
        claimed_before(temporary / name)
    with files.scratch(temporary, "dcgym-vm-") as held:
        assert run(tmp_path) == 0
        assert names_in(temporary) == sorted(["dcgym-other-3", "dcgym-vm-4", held.name, "somebody"])


def test_a_run_under_way_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    synthetic.result(tmp_path / "run")
    with folder.writing(tmp_path / "run", force=True) as partial, files.scratch(tmp_path, "dcgym-doctor-") as scratch:
        assert run(tmp_path) == 0
        assert names_in(tmp_path) == sorted([scratch.name, "run.partial", "run.replaced"]) and partial.is_dir()
    assert capsys.readouterr().out.count("in use") == 2
    assert names_in(tmp_path) == ["run"]


def test_single_files_that_were_being_written_go(tmp_path: Path) -> None:
    synthetic.result(tmp_path / "results" / "whole")
    for name in ("sweep.json", "results/whole/manifest.json"):
        with unfinished.created(tmp_path / name):
            pass
    for name in ("thesis.partial", "thesis.v2.partial"):
        (tmp_path / name).touch()
    with unfinished.created(tmp_path / "mine") as (partial, _):
        assert run(tmp_path) == 0
    assert names_in(tmp_path) == sorted(["results", partial.name, "thesis.partial", "thesis.v2.partial"])
    assert not list((tmp_path / "results" / "whole").glob("*.partial"))


def make_result(path: Path) -> None:
    with folder.writing(path / "run", force=False) as partial:
        assert folder_lock.is_held(partial)


def make_scratch(path: Path) -> None:
    with files.scratch(path, "dcgym-links-") as held:
        assert folder_lock.is_held(held)


@pytest.mark.parametrize("begin", [make_result, make_scratch])
def test_a_run_that_is_just_beginning_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], begin: Callable[[Path], None]
) -> None:
    """Between making its folder and taking it, a run looks like one that was killed."""
    take = folder_lock.take

    def take_after_a_clean(path: Path) -> int | None:
        monkeypatch.setattr(folder_lock, "take", take)
        assert run(tmp_path) == 0 and path.is_dir()
        return take(path)

    monkeypatch.setattr(folder_lock, "PATIENCE_S", 0)
    monkeypatch.setattr(folder_lock, "take", take_after_a_clean)
    begin(tmp_path)
    assert "in use" in capsys.readouterr().out and not names_in(tmp_path)


def test_a_run_waits_for_a_clean_that_removes_its_predecessor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.partial").mkdir()
    claimed_before(tmp_path / "run.partial")
    failures: list[BaseException] = []

    def try_to_begin() -> None:
        try:
            make_result(tmp_path)
        except BaseException as error:
            failures.append(error)

    beginner = threading.Thread(target=try_to_begin)

    def discard_beside_a_beginner(path: Path) -> None:
        beginner.start()
        beginner.join(0.3)
        files.discard(path)

    monkeypatch.setattr(clean, "discard", discard_beside_a_beginner)
    run(tmp_path)
    beginner.join()
    assert not failures and not names_in(tmp_path)


def test_a_lock_that_somebody_holds_for_ever_keeps_no_run_from_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "PATIENCE_S", 0)
    with folder_lock.removing(tmp_path) as alone:
        assert alone
        make_result(tmp_path)


def test_what_no_run_made_stays(tmp_path: Path) -> None:
    for name in ("thesis.partial", "thesis.replaced", "deep/er/and/x.partial"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("thesis.partial", "thesis.replaced"):
        (tmp_path / name / "thesis.tex").touch()
    familiar = ("manifest.json", "plot.png", ".lab", ".lock")
    for number, name in enumerate(familiar):
        for path in (f"{number}.partial", f"{number}.replaced", f"dcgym-bench-{number}", f".bench-{number}"):
            (tmp_path / path / "own").mkdir(parents=True)
            (tmp_path / path / name).write_text("{}")
    synthetic.result(tmp_path / "paper.replaced")
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "thesis.tex").touch()
    (tmp_path / "link.partial").symlink_to(tmp_path / "deep" / "er" / "and" / "x.partial")
    assert run(tmp_path) == 0
    assert (tmp_path / "thesis.partial/thesis.tex").exists() and (tmp_path / "thesis.replaced/thesis.tex").exists()
    assert len(list(tmp_path.glob("*/own"))) == 4 * len(familiar)
    assert names_in(tmp_path / "paper") == ["thesis.tex"] and folder.is_result(tmp_path / "paper.replaced")
    assert (tmp_path / "deep/er/and/x.partial").exists() and (tmp_path / "link.partial").is_symlink()
    with pytest.raises(UsageError, match="no such folder"):
        run(tmp_path / "none")


def test_the_cache_is_removed_unless_it_is_used_or_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = tmp_path / "cache"
    monkeypatch.setenv("DCGYM_CACHE", str(base))
    for part in ("kernel/key", "openvswitch/3.1", "apt/system", "mine"):
        (base / part).mkdir(parents=True)
    with cache.in_use(), cache.in_use(), pytest.raises(UsageError, match="a run uses it"):
        run(cache=True)
    for lock in (base / "kernel" / "key.lock", base / "apt" / "system" / "lock"):
        with cache.locked(lock), pytest.raises(UsageError, match=f"another process holds {lock}"):
            run(cache=True)
    assert {"kernel", "openvswitch", "apt", "mine"} <= set(names_in(base))
    run(cache=True)
    assert names_in(base) == [cache.IN_USE, "mine"]
    run(cache=True)


def test_a_lock_is_that_of_the_file_that_bears_the_name(tmp_path: Path) -> None:
    """A process that waited for a lock file which `clean --cache` removed must not hold the lock beside another process."""
    lock = tmp_path / "kernel" / "key.lock"
    with cache.locked(lock):
        lock.unlink()
        with cache.locked(lock) as fd:
            assert os.path.samestat(os.fstat(fd), lock.stat())


def test_what_needs_no_cache_runs_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel has its kernel inside."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("DCGYM_CACHE", str(tmp_path / "file" / "cache"))
    with cache.in_use():
        assert names_in(tmp_path) == ["file"]


def test_nothing_is_left_of_a_file_that_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, fd: int) -> bool:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(unfinished, "_is_same", refuse)
    with pytest.raises(OSError, match="Input/output error"), unfinished.created(tmp_path / "table.csv"):
        pass
    assert names_in(tmp_path) == []
