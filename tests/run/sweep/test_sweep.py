# SPDX-License-Identifier: Apache-2.0
"""Sweeps: the cells of a grid, which count as done, what is reported; and whole sweeps of labs, also interrupted ones."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic
from facts import states

from dc_gym.base.errors import SpecError, UsageError
from dc_gym.base.progress import Quiet
from dc_gym.base.units import format_time
from dc_gym.benchmarks.studies import demo
from dc_gym.cli import parser
from dc_gym.results import results
from dc_gym.run import sweep
from dc_gym.run.sweep import cluster, command, grid, known, pool, state, summary
from dc_gym.spec import load
from dc_gym.topologies.waits import Waits

EXAMPLES = Path(__file__).parents[3] / "examples"
SPEC = """
name = "base"
topology.preset = "dumbbell-10m"
controller.name = "dctcp"
workload.kind = "pairs"
time.duration = "600ms"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path


NIC_GRID = 'base = "spec.toml"\n[grid]\n"controller.name" = ["dctcp", "dcqcn"]\n'


def names(folder: Path, text: str, **axes: Any) -> list[str]:
    (folder / "grid.toml").write_text(text)
    return [point.name for point in grid.load(folder / "grid.toml", (), axes).points]


def test_a_grid_is_every_value_with_every_other(folder: Path) -> None:
    rates = '"topology.rate" = ["10Mbit/s", "1Gbit/s"]'
    cell_names = names(folder, f'base = "spec.toml"\n[grid]\n"controller.name" = ["dctcp", "cubic"]\n{rates}\nseed = "2..3"')
    assert cell_names[:3] == ["dctcp-rate-10Mbits-s2", "dctcp-rate-10Mbits-s3", "dctcp-rate-1Gbits-s2"] and len(cell_names) == 8
    last = grid.load(folder / "grid.toml").points[-1]
    assert (last.spec.controller.name, last.spec.topology.rate_bps, last.spec.seed) == ("cubic", 10**9, 3)
    assert last.values == {"controller.name": "cubic", "topology.rate": "1Gbit/s", "seed": 3}
    assert last.spec.name == "base"


def test_the_example_is_one() -> None:
    example = grid.load(EXAMPLES / "sweep.toml")
    assert len(example.points) == 12 and example.points[0].name == "dctcp-rate-10Mbits-s1"


def test_further_blocks_and_an_inline_base(folder: Path) -> None:
    text = f"[base]{SPEC}[grid]\nseed = [1, 2]\n[[cells]]\ncontroller.name = 'bbr'\nseed = 5\n[[cells]]\ntime.duration = '1s'"
    assert names(folder, text) == ["s1", "s2", "bbr-s5", "duration-1s"]
    assert grid.load(folder / "grid.toml").points[3].values == {"seed": 1, "controller.name": "dctcp", "time.duration": "1s"}
    assert names(folder, f"[base]{SPEC}[[cells]]\nseed = [3, 4]") == ["s3", "s4"]


def test_a_plain_spec_with_seeds_and_controllers(folder: Path) -> None:
    axes = {"controller.name": ["dctcp", "nv"], "seed": [1, 2]}
    assert [point.name for point in grid.load(folder / "spec.toml", (), axes).points] == [
        "dctcp-s1",
        "dctcp-s2",
        "nv-s1",
        "nv-s2",
    ]
    assert [point.name for point in grid.load(folder / "spec.toml").points] == ["run"]
    (point,) = grid.load(folder / "spec.toml", ["time.duration=1s"]).points
    assert point.spec.time.duration_ns == 10**9


def test_names_that_would_be_the_same_get_a_number(folder: Path) -> None:
    assert names(folder, 'base = "spec.toml"\n[grid]\nname = ["a b", "a-b", "a/b"]') == ["name-a-b", "name-a-b-n1", "name-ab"]
    long = ["x" * 200, "x" * 200 + "y"]
    assert all(len(name) <= 80 for name in names(folder, f'base = "spec.toml"\n[grid]\nname = {long}'))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[grid]\nseed = [1]", "base: is missing"),
        ('base = "none.toml"', "none.toml: "),
        ('base = "spec.toml"\nsweep_version = 2', "sweep_version = 2: ... 1"),
        ('base = "spec.toml"\n[gird]\nseed = 1', "gird: ... grid?"),
        ('base = "spec.toml"\n[grid]\nseed = []', "[grid] seed: "),
        ('base = "spec.toml"\n[grid]\nseed = [1, 1]', "[grid] seed: 1 ... twice"),
        ('base = "spec.toml"\n[grid]\nseed = "5..1"', "[grid] seed: "),
        ('base = "spec.toml"\n[grid]\nseed = "1..99999"', "at most 10000"),
        ('base = "spec.toml"\n[grid]\nseeds = [1]', "seeds: ... seed?"),
        ('base = "spec.toml"\n[grid]\n"topology.rate" = ["10Mbit/s", "fast"]', '"fast": ... unit'),
        ('base = "spec.toml"\n[grid]\n"topology.rate" = ["10Mbit/s", "fast"]', "(in the run rate-fast)"),
        ('base = "spec.toml"\n[nic]\npreset = "peper"', "nic: unknown key"),
        (NIC_GRID + '"nic.preset" = ["paper", "peper"]', "grid.toml: nic.preset = \"peper\": dcqcn ... preset 'peper'"),
        (NIC_GRID + '"nic.preset" = ["paper", "peper"]', "(in the run dcqcn-preset-peper)"),
        (NIC_GRID + '"nic.parameters.g" = [4, 0]', "grid.toml: nic.parameters.g = 0: ... 1..1023"),
        ('base = "spec.toml"\n[grid]\nseed = [1]\n[[cells]]\nseed = 1', "s1 ... twice"),
        ('base = "spec.toml"\ncells = 3', "cells: ... list of tables"),
        ('base = "spec.toml"\ngrid = 3', "grid: ... table"),
        ('base = "spec.toml"\nname = 3', "name: ... string"),
        ("base = ", "not valid TOML"),
    ],
)
def test_a_wrong_grid_is_one_line(folder: Path, text: str, words: str) -> None:
    with pytest.raises(SpecError) as excinfo:
        names(folder, text)
    assert states(str(excinfo.value), words) and "\n" not in str(excinfo.value)


# Sweeps with a stand-in for the runs themselves.

FINGERPRINT = "f00d"


@pytest.fixture
def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs `dcgym sweep` on seeds 1..3 with cells that take no time; `bad` says for a cell's name how it ends."""
    monkeypatch.setattr(command, "_fingerprints", lambda specs, progress: {"lab": FINGERPRINT})
    ran: list[str] = []
    bad: dict[str, str] = {}

    def run_cells(cells: list[pool.Cell], jobs: int, progress: Any, on_end: Any = lambda outcome: None) -> None:
        for cell in cells:
            ran.append(cell.name)
            how = bad.get(cell.name, "")
            if how == "Ctrl-C":
                raise KeyboardInterrupt
            if how.startswith("dies"):
                on_end(pool.CellOutcome(cell, 1, f"dcgym: {how}\n"))
                continue
            with results.writing(cell.out, "--force" in cell.options) as partial:
                reasons = [how] if how else []
                facts = {
                    "spec": json.loads(cell.spec.read_text()),
                    "fingerprint": FINGERPRINT,
                    "fit": not how,
                    "unfit_reasons": reasons,
                }
                tables = synthetic.run(int(cell.name[1:]), duration_ns=synthetic.S)
                results.write_result(partial, tables, facts, {"goodput_bps": 1e6, "drops": 3, "jain": None, "all": [1, 2]})
                results.finish(partial)
            on_end(pool.CellOutcome(cell, 1 if how else 0, f"dcgym: unfit: {how}\n" if how else ""))

    monkeypatch.setattr(pool, "run_cells", run_cells)

    def run(spec: str = "spec.toml", seeds: Any = (1, 2, 3), **options: Any) -> tuple[int, list[str]]:
        ran.clear()
        settings = {"controllers": None, "overrides": [], "jobs": 1, "address": None, "retry": False, "force": False} | options
        args = Namespace(
            **{"plot": False, "trust": False} | {"spec": folder / spec, "seeds": list(seeds), "out": folder / "out"} | settings
        )
        return sweep.main(args, Quiet()), list(ran)

    run.bad = bad  # type: ignore[attr-defined]
    return run


def test_what_is_there_is_kept(pretend: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert pretend() == (0, ["s1", "s2", "s3"])
    assert pretend() == (0, [])
    assert pretend(seeds=(2, 3, 4)) == (0, ["s4"])
    assert "goodput Mbit/s" in capsys.readouterr().out
    overview = json.loads((folder / "out" / state.SUMMARY).read_text())
    assert (overview["sweep_version"], overview["keys"], overview["fingerprints"]) == (1, ["seed"], {"lab": FINGERPRINT})
    first = overview["cells"][0]
    assert (first["name"], first["values"], first["state"]) == ("s2", {"seed": 2}, "done")
    assert first["digest"] == results.load_result(folder / "out" / "s2").digest
    assert {entry.name for entry in (folder / "out").iterdir()} == {
        *("s1", "s2", "s3", "s4", "specs", state.SUMMARY, summary.CSV, summary.PARQUET, known.NAME)
    }


def test_runs_draw_their_plots_on_request(pretend: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells_run: list[Any] = []
    inner = pool.run_cells
    monkeypatch.setattr(pool, "run_cells", lambda cells, *rest: cells_run.extend(cells) or inner(cells, *rest))
    assert pretend(seeds=(1,)) == (0, ["s1"]) and cells_run.pop().options == ["--no-plot"]
    assert pretend(seeds=(1, 2), plot=True) == (0, ["s2"]) and cells_run.pop().options == ["--plot"], "only new runs draw"
    edit_manifest(folder / "out" / "s2", fingerprint="beef")
    assert pretend(seeds=(2,), force=True) == (0, ["s2"]) and cells_run.pop().options == ["--no-plot", "--force"]
    parsed = parser.build().parse_args(["sweep", "x.toml"]), parser.build().parse_args(["sweep", "x.toml", "--plot"])
    assert [args.plot for args in parsed] == [False, True]


def test_the_summary_has_a_row_a_run(pretend: Any, folder: Path) -> None:
    pretend.bad["s2"] = "dies of age"
    assert pretend()[0] == 1
    rows = list(csv.DictReader((folder / "out" / summary.CSV).open()))
    assert [(row["name"], row["seed"], row["state"], row["goodput_bps"]) for row in rows] == [
        ("s1", "1", "done", "1000000"), ("s2", "2", "failed", ""), ("s3", "3", "done", "1000000"),
    ]  # fmt: skip
    assert "all" not in rows[0], "a list is no cell of a table"
    assert pq.read_table(folder / "out" / summary.PARQUET).column("drops").to_pylist() == [3, None, 3]


def test_a_failed_run_is_told_and_retried_on_request(pretend: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pretend.bad |= {"s2": "dies of age", "s3": "lost a frame"}
    assert pretend() == (1, ["s1", "s2", "s3"])
    stdout = capsys.readouterr().out
    assert "s2: exit 1: dcgym: dies of age" in stdout and "s3: exit 1: unfit: lost a frame" in stdout and "--retry" in stdout
    assert pretend() == (1, []), "it is not run again unasked"
    assert "dies of age" in capsys.readouterr().out, "and told again"
    pretend.bad.pop("s2")
    assert pretend(retry=True) == (1, ["s2", "s3"])
    pretend.bad.clear()
    assert pretend(retry=True) == (0, ["s3"])
    assert not (folder / "out" / "failed").exists()


def test_a_failed_run_does_not_show_the_numbers_of_an_older_one(pretend: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pretend.bad["s2"] = "lost a frame"
    pretend()
    pretend.bad["s2"] = "dies of age"
    capsys.readouterr()
    assert pretend(retry=True) == (1, ["s2"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("s2 ")]
    assert line.replace("│", " ").split() == ["s2", "failed", "-", "-"]


def test_an_interrupted_sweep_goes_on(pretend: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pretend.bad["s2"] = "Ctrl-C"
    with pytest.raises(KeyboardInterrupt):
        pretend()
    assert "1 done, 2 waiting; the same command goes on" in capsys.readouterr().err
    overview = json.loads((folder / "out" / state.SUMMARY).read_text())
    assert [cell["state"] for cell in overview["cells"]] == ["done", "waiting", "waiting"]
    pretend.bad.clear()
    assert pretend() == (0, ["s2", "s3"])


def edit_manifest(path: Path, **changes: Any) -> None:
    manifest = path / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | changes))


def test_results_of_another_spec_or_environment_are_refused(pretend: Any, folder: Path) -> None:
    pretend()
    with pytest.raises(UsageError, match=r"another spec than .*\(and 2 more\); --force"):
        pretend(overrides=["time.duration=700ms"])
    edit_manifest(folder / "out" / "s2", fingerprint="beef")
    with pytest.raises(UsageError, match=r"s2 .*beef.*f00d.*--force"):
        pretend()
    assert pretend(force=True) == (0, ["s2"]), "only what does not fit"
    edit_manifest(folder / "out" / "s3", disturb="sleep 1")
    with pytest.raises(UsageError, match="disturbed on purpose"):
        pretend()
    (folder / "out" / "s1" / "manifest.json").unlink()
    with pytest.raises(UsageError, match=r"s1: not a result: manifest\.json missing"):
        pretend()


def test_a_lab_that_began_later_for_its_many_flows_is_of_the_same_spec(pretend: Any, folder: Path) -> None:
    pretend(seeds=[1])
    inner = folder / "out" / "s1"
    spec = json.loads((inner / "manifest.json").read_text())["spec"]
    (inner / "summary.json").write_text(json.dumps(json.loads((inner / "summary.json").read_text()) | {"flows": 10**6}))
    t0_ns = Waits.of(load(folder / "spec.toml").graph()).t0_ns(20 * 10**9, 10**6)
    assert t0_ns > 20 * 10**9
    for recorded_ns, fits in ((t0_ns, True), (t0_ns + 10**9, False)):
        edit_manifest(inner, spec=spec | {"lab": spec["lab"] | {"t0": format_time(recorded_ns)}})
        with nullcontext() if fits else pytest.raises(UsageError, match="another spec than"):
            assert pretend(seeds=[1]) == (0, [])


@pytest.fixture
def counted(pretend: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str], int, int]]:
    """Runs a sweep as `pretend` does, and returns also how many specs it read and how many results."""
    monkeypatch.setattr(known, "SETTLED_NS", -(10**15))  # files of this moment count as old

    def run(**options: Any) -> tuple[int, list[str], int, int]:
        with pytest.MonkeyPatch.context() as patched:
            read: list[str] = []
            vary, load = grid.specs.vary, results.load_result
            patched.setattr(grid.specs, "vary", lambda *args: read.append("spec") or vary(*args))
            patched.setattr(results, "load_result", lambda *args: read.append("result") or load(*args))
            return (*pretend(**options), read.count("spec"), read.count("result"))

    return run


def test_a_repeat_reads_and_checks_only_what_changed(counted: Any, folder: Path) -> None:
    assert counted() == (0, ["s1", "s2", "s3"], 3, 3)
    files = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("*") if path.is_file()}
    assert counted() == (0, [], 0, 0)
    assert {path: path.stat().st_mtime_ns for path in files} == files, "and writes nothing"
    assert counted(seeds=(2, 3, 4)) == (0, ["s4"], 1, 1)
    assert counted() == (0, [], 0, 0), "what another grid named stays known"
    overview = json.loads((folder / "out" / state.SUMMARY).read_text())
    assert [(cell["name"], cell["values"], cell["summary"]["drops"]) for cell in overview["cells"]] == [
        ("s1", {"seed": 1}, 3), ("s2", {"seed": 2}, 3), ("s3", {"seed": 3}, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["manifest.json", "summary.json", "ports.json", "flows.parquet"])
def test_a_result_that_was_changed_is_read_again(counted: Any, folder: Path, name: str) -> None:
    counted()
    path = folder / "out" / "s2" / name
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))  # the same times: only the inode's change tells
    assert counted() == (0, [], 1, 1)
    path.write_bytes(b"{" if name.endswith("json") else b"PAR0")
    with pytest.raises(UsageError, match=f"s2/{name}: .*; --force"):
        counted()


def test_a_known_result_of_another_fingerprint_spec_or_program_is_found(
    counted: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted()
    with pytest.raises(UsageError, match="another spec than"):
        counted(overrides=["time.duration=700ms"])
    (folder / "spec.toml").write_text(SPEC.replace("600ms", "800ms"))
    with pytest.raises(UsageError, match="another spec than"):
        counted()
    (folder / "spec.toml").write_text(SPEC)
    monkeypatch.setattr(grid.fingerprint, "programs", lambda: "other")
    assert counted()[2:] == (3, 3), "other programs may read a spec otherwise"
    monkeypatch.setattr(command, "_fingerprints", lambda specs, progress: {"lab": "beef"})
    with pytest.raises(UsageError, match=f"{FINGERPRINT}.*beef"):
        counted()
    assert counted(force=True)[1] == ["s1", "s2", "s3"]


def test_a_spec_that_a_sweep_knows_is_checked_again_with_its_files(counted: Any, folder: Path) -> None:
    (folder / "flows.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0.1,0,50000\n")
    changed = ["workload.kind=matrix", "workload.file=flows.csv"]
    inner = (folder / "out" / "s1", folder / "flows.csv")

    def keep_copies() -> None:
        for seed in (1, 2, 3):
            copy = folder / "out" / f"s{seed}" / "matrix.csv"
            copy.write_bytes(inner[1].read_bytes())
            spec = json.loads((folder / "out" / "specs" / f"s{seed}.json").read_text())
            spec["workload"]["file"] = "matrix.csv"
            edit_manifest(copy.parent, spec=spec)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(command, "_status", lambda folder, point: state.Status(point, state.RunState.DONE))
        patched.setattr(command.SweepFolder, "status", lambda folder, point: state.Status(point, state.RunState.WAITING))
        counted(overrides=changed)
    keep_copies()
    assert counted(overrides=changed)[1:] == ([], 3, 3)
    assert counted(overrides=changed)[1:] == ([], 0, 0)
    inner[1].write_text("source,destination,port,start,stop,size\nh1,h3,80,0.1,0,60000\n")
    with pytest.raises(UsageError, match="another spec than"):
        counted(overrides=changed)
    inner[1].write_text("nonsense")
    with pytest.raises(SpecError, match=r"flows\.csv"):
        counted(overrides=changed)


def test_what_the_sweep_wrote_is_written_again_if_it_changed(counted: Any, folder: Path) -> None:
    counted()
    out = folder / "out"
    csv_text, spec_text = (out / summary.CSV).read_text(), (out / "specs" / "s1.json").read_text()
    (out / summary.CSV).write_text("mine")
    (out / "specs" / "s1.json").unlink()
    assert counted() == (0, [], 1, 1)
    assert (out / summary.CSV).read_text() == csv_text and (out / "specs" / "s1.json").read_text() == spec_text


@pytest.mark.parametrize(
    "change", [lambda text: b"", lambda text: text[:-1], lambda text: text.replace(b'"drops":3', b'"drops":4')]
)
def test_a_damaged_record_of_what_is_known_is_no_record(counted: Any, folder: Path, change: Any) -> None:
    counted()
    path = folder / "out" / known.NAME
    path.write_bytes(change(path.read_bytes()))
    assert counted() == (0, [], 3, 3)
    assert counted() == (0, [], 0, 0)


def test_files_of_this_moment_are_not_trusted(pretend: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their times may not tell a change that comes next. Here a moment is an hour, so that no machine is too slow for it."""
    monkeypatch.setattr(known, "SETTLED_NS", 3600 * 10**9)
    pretend()
    assert known.Record.read(folder / "out").entries == {}


def test_the_failure_of_a_known_run_is_told(counted: Any, pretend: Any, folder: Path) -> None:
    counted()
    pretend.bad["s2"] = "dies of age"
    edit_manifest(folder / "out" / "s2", fingerprint="beef")
    assert counted(force=True)[:2] == (1, ["s2"])
    assert counted()[:2] == (1, []) and counted(retry=True)[:2] == (1, ["s2"])


def test_a_sweep_keeps_to_its_own_folder(pretend: Any, folder: Path) -> None:
    with pytest.raises(SpecError, match="cannot read the spec"):
        pretend(spec="none.toml")
    assert not (folder / "out").exists(), "specs are read before anything is made"
    (folder / "out").touch()
    with pytest.raises(UsageError, match=r"cannot make .*out"):
        pretend()
    (folder / "out").unlink()
    synthetic.result(folder / "out")
    with pytest.raises(UsageError, match="is the result of a run"):
        pretend()


def test_a_file_that_is_called_like_a_module_does_not_stand_for_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is in the working directory, from which `dcgym` itself imports nothing."""
    (folder / "json.py").write_text("raise SystemExit('the wrong json')\n")
    monkeypatch.chdir(folder)
    ended: list[pool.CellOutcome] = []
    pool.run_cells([pool.Cell("one", folder / "absent.toml", folder / "out")], 1, Quiet(), ended.append)
    assert ended[0].status == 2 and "absent.toml" in ended[0].message and "wrong json" not in ended[0].message


def test_a_tally_tells_how_long_the_rest_takes() -> None:
    lines: list[str] = []
    now_s = [0.0]

    class Heard(Quiet):
        def advance(self, done: int, total: int, state: str = "") -> None:
            lines.append(state)

        def note(self, line: str) -> None:
            lines.append(line)

    tally = pool.Tally(4, Heard(), lambda: now_s[0])
    cell = pool.Cell("one", Path("spec"), Path("out"))
    tally.show()
    now_s[0] = 10.0
    tally.count(pool.CellOutcome(cell, 0, ""))
    tally.count(pool.CellOutcome(cell, 1, "dcgym: no\nlab: x"))
    assert lines == ["0 of 4 runs", "1 of 4 runs, about 30 s to go", "one: dcgym: no", "2 of 4 runs, 1 failed, about 10 s to go"]


# Whole sweeps.


def dcgym(*words: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "dc_gym.cli.main", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=300, **options)


def digests(out: Path) -> dict[str, str]:
    return {cell["name"]: cell["digest"] for cell in json.loads((out / state.SUMMARY).read_text())["cells"]}


@pytest.mark.lab
def test_a_killed_sweep_goes_on_and_ends_as_an_undisturbed_one(folder: Path, lab_kernel: Path) -> None:
    whole, killed = folder / "whole", folder / "killed"
    words = ("sweep", folder / "spec.toml", "--seeds", "1..4", "--jobs", "2", "--quiet", "--out")
    sweep_run = dcgym(*words, whole)
    assert sweep_run.returncode == 0, sweep_run.stderr
    process = subprocess.Popen([sys.executable, "-m", "dc_gym.cli.main", *map(str, words), str(killed)], start_new_session=True)
    deadline = time.monotonic() + 240
    while not any((killed / name).is_dir() for name in ("s1", "s2")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    while any(path.name.endswith(".partial") for path in killed.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    inodes = {path.name: path.stat().st_ino for path in killed.iterdir() if (path / "manifest.json").exists()}
    assert 1 <= len(inodes) <= 3
    sweep_run = dcgym(*words, killed)
    assert sweep_run.returncode == 0, sweep_run.stderr
    assert digests(killed) == digests(whole)
    assert all((killed / name).stat().st_ino == number for name, number in inodes.items()), "what was done was not done again"


@pytest.mark.lab
@pytest.mark.parametrize(
    ("end", "code"), [(lambda sweep: os.killpg(sweep.pid, signal.SIGINT), 130), (lambda sweep: sweep.terminate(), 143)]
)
def test_a_signal_reaches_each_run_once_and_the_sweep_can_go_on(folder: Path, lab_kernel: Path, end: Any, code: int) -> None:
    words = ["sweep", str(folder / "spec.toml"), "--seeds", "1..2", "--out", str(folder / "out"), "--set", "time.duration=3600s"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dc_gym.cli.main", *words], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 240
    try:
        while not list(folder.glob("out/*.partial/.lab/share")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        end(process)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == code
    assert "2 waiting; the same command goes on from here" in errors and "Traceback" not in errors
    assert {path.name for path in (folder / "out").iterdir()} == {
        "specs",
        "sweep.json",
        "summary.csv",
        "summary.parquet",
        known.NAME,
    }


@pytest.mark.lab
def test_a_run_that_cannot_be_is_listed_with_its_reason(folder: Path, lab_kernel: Path) -> None:
    (folder / "big.toml").write_text(SPEC.replace("dumbbell-10m", "fattree-k8").replace("600ms", "1ms"))
    text = 'base = "big.toml"\n[grid]\n"lab.memory" = ["512MiB", "64MiB"]'
    (folder / "grid.toml").write_text(text)
    run = dcgym("sweep", folder / "grid.toml", "--quiet", "--out", folder / "out")
    assert run.returncode == 1
    assert "memory-512MiB" in run.stdout and "memory-64MiB: exit 1: dcgym: " in run.stdout and "raise lab.memory" in run.stdout
    run = dcgym("run", folder / "out" / "specs" / "memory-64MiB.json", "--quiet", "--out", folder / "again")
    assert run.returncode == 1 and "raise lab.memory" in run.stderr


@pytest.mark.lab
@pytest.mark.long
def test_on_a_ray_cluster_the_results_are_the_same(folder: Path, lab_kernel: Path) -> None:
    """Where Ray is installed (the extra `ray`)."""
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    (folder / "flows.csv").write_text("source,destination,port,start,stop,size\nh1,h3,80,0.1,0,50000\n")
    text = 'base = "spec.toml"\n[grid]\nseed = "1..2"\n[[cells]]\nworkload.kind = "matrix"\nworkload.file = "flows.csv"\n'
    (folder / "grid.toml").write_text(text + '[[cells]]\nlab.t0 = "11s"\n')
    plugin = (
        "sweep",
        EXAMPLES / "ring.toml",
        "--set",
        "time.duration=100ms",
        "--set",
        "time.warmup=0s",
        "--out",
        folder / "ring",
    )
    words = ("sweep", folder / "grid.toml", "--quiet", "--out")
    here = dcgym(*words, folder / "here")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        there = dcgym(*words, folder / "there", "--address", cluster.address)
        ring = dcgym(*plugin, "--address", cluster.address)
    finally:
        cluster.shutdown()
    assert (here.returncode, there.returncode) == (1, 1), there.stderr
    assert digests(folder / "there") == digests(folder / "here")
    assert "t0-11s: exit 1: dcgym: " in there.stdout
    assert ring.returncode == 0 and list((folder / "ring" / "run" / "code").iterdir()), ring.stderr + ring.stdout
    assert sorted(path.name for path in (folder / "there").iterdir()) == sorted(path.name for path in (folder / "here").iterdir())
    repeat = dcgym(*words, folder / "there")
    assert repeat.returncode == 1 and digests(folder / "there") == digests(folder / "here"), "and it can go on here"


def test_without_ray_or_without_a_cluster_it_is_one_line(pretend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="Ray is not installed"):
        pretend(address="auto")


def test_runs_in_real_time_go_one_at_a_time_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "run_cells", lambda cells, jobs, progress, on_end: jobs)
    monkeypatch.setattr(pool, "cpus", lambda: 8)
    for jobs, real_time, expected_jobs in ((None, True, 1), (None, False, 8), (3, True, 3)):
        runs = command._where(Namespace(address=None, jobs=jobs), real_time)
        assert runs([], Quiet(), lambda outcome: None) == expected_jobs


def test_a_result_that_cannot_be_kept_fails_its_cell_alone(tmp_path: Path) -> None:
    parcels = {
        "deep": cluster.RunOutput(0, "", {"exec/a/b/c": b"x"}),
        "outside": cluster.RunOutput(0, "", {"../x": b"x"}),
    }
    (tmp_path / "taken").mkdir()
    parcels["taken"] = cluster.RunOutput(0, "", {"x": b""})
    ray = SimpleNamespace(get=parcels.__getitem__, exceptions=SimpleNamespace(RayError=KeyError))
    ended: list[sweep.CellOutcome] = []
    dispatcher = cluster._Dispatcher(ray, 1, pool.Tally(3, Quiet()), ended.append)
    for name in parcels:
        dispatcher._under_way[name] = sweep.Cell(name, tmp_path / "spec.toml", tmp_path / name)
        dispatcher._bring(name)
    assert [outcome.status for outcome in ended] == [2, 1, 2]
    words = ("manifest.json is missing", "does not belong into a result", "exists; replace it with --force")
    assert all(reason in outcome.message for outcome, reason in zip(ended, words, strict=True))


def test_runs_that_fail_alike_are_told_once(tmp_path):
    """A folder that no lab can use is refused once, not once a run."""
    notes: list[str] = []
    outcomes = [
        pool.CellOutcome(pool.Cell(name, tmp_path / "x.toml", tmp_path / name), 2, f"dcgym: {tmp_path / name}.partial: no room")
        for name in ("s1", "s2", "s3")
    ]
    assert pool.failures(outcomes) == [f"s1: exit 2: dcgym: {tmp_path}/s1.partial: no room (2 more like it)"]
    tally = pool.Tally(3, SimpleNamespace(note=notes.append, advance=lambda *_: None))  # type: ignore[arg-type]
    for outcome in outcomes:
        tally.count(outcome)
    assert notes == [f"s1: dcgym: {tmp_path}/s1.partial: no room"]


def test_a_demo_below_a_labs_own_folders_is_refused_before_anything_is_made():
    with pytest.raises(UsageError, match=r"/run/dcgym-demo: .*another --out"):
        demo.main(SimpleNamespace(out=Path("/run/dcgym-demo"), jobs=1), Quiet())
    assert not Path("/run/dcgym-demo").exists()


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None, 2], pa.int64(), [1, None, 2]),
        ([True, None, False], pa.bool_(), [True, None, False]),
        ([1.5, 2, None], pa.float64(), [1.5, 2.0, None]),
        (["a", None, "é"], pa.string(), ["a", None, "é"]),
        ([[1], {"a": None}, None], pa.string(), ["[1]", '{"a": null}', None]),
        ([1, "x", None], pa.string(), ["1", "x", None]),
        ([None, None], pa.null(), [None, None]),
    ],
)
def test_a_column_has_one_type(values: list[object], kind: pa.DataType, expected: list[object]) -> None:
    column = summary._column(values)
    assert (column.type, column.to_pylist()) == (kind, expected)
