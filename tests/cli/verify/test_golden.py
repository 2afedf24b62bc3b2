# SPDX-License-Identifier: Apache-2.0
"""Golden digests: what is kept, what is compared, and that a change is detected."""

from __future__ import annotations

import argparse
import json
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from dc_gym.base import folder_lock
from dc_gym.base.progress import Quiet
from dc_gym.cli import main
from dc_gym.cli.verify import golden
from dc_gym.cli.verify.golden import Book, GoldenEntry
from dc_gym.results.digest import DIGEST_VERSION
from dc_gym.results.fingerprint import fingerprint
from dc_gym.results.folder import is_unfinished

HERE = {"linux": "debian 7.2.12", "libc": "glibc 2.36"}
OURS = {"kernel": "k1", "programs": "p1"}
RECORD = Path(__file__).resolve().parents[3] / "results" / "golden-unknown.json"


def entry(**digests: str) -> GoldenEntry:
    return GoldenEntry(dict(HERE), dict(OURS), {name.replace("_", "-"): digest for name, digest in digests.items()})


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on a file of its own, with made-up runs: command(entry, *words) -> (code, output, errors)."""
    file = tmp_path / "golden.json"

    def call(of: GoldenEntry | None, *words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(golden, "run", lambda names, *rest: of)
        code = main.main(["golden", "--quiet", "--file", str(file), "--record", str(tmp_path / "unknown.json"), *words])
        return code, *capsys.readouterr()

    return call


def test_what_differs_fails_and_says_how_to_find_out(command: Any) -> None:
    assert command(entry(single_nv="a", single_cubic="b"), "--renew", "--because", "the first ones")[0] == 0
    code, out, _ = command(entry(single_nv="a", single_cubic="b"))
    assert code == 0 and "DIFFERENT" not in out
    changed = entry(single_nv="a", single_cubic="c")
    changed.made_by["programs"] = "p2"
    code, out, _ = command(changed)
    assert code == 1
    assert re.search(r"single-cubic +DIFFERENT +c, kept is b", out) and re.search(r"single-nv +equal +a\n", out)
    assert "programs (p1 then, p2 now)" in out and "git worktree add /tmp/then $(git log" in out
    assert "dcgym verify /tmp/golden-then/single-cubic --against /tmp/golden-now/single-cubic" in out


def test_what_is_unknown_is_said_loudly_and_recorded_and_can_be_added(command: Any, tmp_path: Path) -> None:
    command(entry(single_nv="a"), "--renew", "--because", "the first ones")
    other = entry(single_nv="a")
    other.outside["libc"] = "musl"
    code, out, _ = command(other)
    assert code == 0 and "UNKNOWN" in out and "musl" in out and "with the same digests" in out
    recorded = tmp_path / "unknown.json"
    assert json.loads(recorded.read_text())["digests"] == {"single-nv": "a"}
    assert command(None, "--add", str(recorded), "--because", "a machine with musl")[0] == 0
    code, out, _ = command(other)
    assert code == 0 and "UNKNOWN" not in out


def test_a_scenario_that_is_not_in_the_file_is_unknown(command: Any) -> None:
    command(entry(single_nv="a"), "--renew", "--because", "the first ones")
    code, out, _ = command(entry(single_nv="a", fattree_nv="b"))
    assert code == 0 and re.search(r"fattree-nv +unknown", out)


def test_renewing_needs_a_reason_and_keeps_the_history(command: Any, tmp_path: Path) -> None:
    for words in ((), ("--because", ""), ("--because", "because")):
        code, _, err = command(entry(single_nv="a"), "--renew", *words)
        assert code == 2 and "--because" in err and len(err.splitlines()) == 1
    command(entry(single_nv="a", single_cubic="b"), "--renew", "--because", "the first ones")
    command(entry(single_nv="c"), "--renew", "--because", "another order of ports")
    book = Book.read(tmp_path / "golden.json")
    assert book.entries[fingerprint(HERE)].digests == {"single-nv": "c", "single-cubic": "b"}
    assert [row["because"] for row in book.history] == ["the first ones", "another order of ports"]
    assert book.history[1]["changed"] == {"single-nv": ["a", "c"]} and book.history[1]["programs"] == "p1"
    before = (tmp_path / "golden.json").read_bytes()
    assert "nothing to renew" in command(entry(single_nv="c"), "--renew", "--because", "no reason at all")[1]
    assert (tmp_path / "golden.json").read_bytes() == before


def test_another_version_of_the_digest_starts_anew(command: Any, tmp_path: Path) -> None:
    command(entry(single_nv="a"), "--renew", "--because", "the first ones")
    file = tmp_path / "golden.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"digest_version": DIGEST_VERSION + 1}))
    assert "unknown" in command(entry(single_nv="a"))[1]
    command(entry(single_nv="a"), "--renew", "--because", "the digest has a new version")
    book = Book.read(file)
    assert book.digest_version == DIGEST_VERSION and len(book.history) == 2


@pytest.mark.parametrize(
    "text", ["", "[]", '{"digest_version": 1}', '{"digest_version": 1, "entries": {"x": {}}, "history": []}']
)
def test_damaged_files_are_one_line(command: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "golden.json").write_text(text)
    (tmp_path / "record.json").write_text(text)
    for words in ((), ("--add", str(tmp_path / "record.json"), "--because", "two words")):
        code, _, err = command(entry(single_nv="a"), *words)
        assert code == 2 and len(err.splitlines()) == 1 and "golden" in err


def test_an_unknown_scenario(command: Any) -> None:
    code, _, err = command(entry(), "--only", "torus-*")
    assert code == 2 and "single-dctcp" in err


def test_the_file_has_every_scenario() -> None:
    book = Book.read(golden.FILE)
    assert book.digest_version == DIGEST_VERSION, "renew: dcgym golden --renew --because WHY"
    assert book.entries and book.history
    for entry in book.entries.values():
        assert set(entry.digests) == set(golden.scenarios())
        assert set(entry.made_by) == {"kernel", "programs"} and "kernel" not in entry.outside
    assert all(len(row["because"].split()) > 1 for row in book.history)


@pytest.mark.lab
def test_results_are_what_they_were(capsys: pytest.CaptureFixture[str], lab_kernel: Path) -> None:
    """If this fails after an intended change, run dcgym golden --renew --because WHY."""
    fields = {"only": [], "out": None, "jobs": None, "renew": False, "add": None, "because": None, "file": None}
    code = golden.main(argparse.Namespace(**fields, record=RECORD), Quiet())
    output = capsys.readouterr().out
    assert code == 0, output
    if "UNKNOWN" in output:
        warnings.warn(f"golden digests are not checked here:\n{output}", stacklevel=1)


def test_the_runs_folder_is_one_that_a_janitor_watches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """That a kill -9 then leaves nothing is tested in test_folder.py."""
    folders: list[Path] = []

    def stop(cells: Any, *rest: Any) -> None:
        folders.append(cells[0].out.parent)
        assert is_unfinished(folders[0]) and folder_lock.take(folders[0]) is None
        raise RuntimeError

    monkeypatch.setattr(golden.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(golden.build, "ensure", lambda progress: None)
    monkeypatch.setattr(golden.openvswitch, "ensure", lambda: None)
    monkeypatch.setattr(golden, "outside", lambda kernel, ovs: ({}, {}))
    monkeypatch.setattr(golden.sweep, "run_cells", stop)
    with pytest.raises(RuntimeError):
        golden.run(["single-nv"], None, 1, Quiet())
    assert len(folders) == 1 and list(tmp_path.iterdir()) == []
