# SPDX-License-Identifier: Apache-2.0
"""A small file that becomes large when it is read is refused in one line, before it takes memory."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic

from dc_gym.base.errors import AgentError, ResultError, UsageError
from dc_gym.base.npz import load_arrays, write_arrays
from dc_gym.cli import main
from dc_gym.results import parquet, results
from dc_gym.results.tables import TABLES

ROOM_BYTES = 200_000_000
"""The most that a command may take beside what this process has."""
STATED = 300_000_000
REFUSAL = r"states (\d+(\.\d+)? [MG]B).*at most (\d+(\.\d+)? [MG]B)"


def with_little_room(call: Callable[[], int]) -> tuple[int, str]:
    """Calls a function in a process with ROOM_BYTES more than this one has, and returns its exit status and what it said."""
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if not child:
            status = 99
            try:
                os.dup2(errors.fileno(), 2)
                sys.stderr = os.fdopen(2, "w", closefd=False)
                pages = int(Path("/proc/self/statm").read_text().split()[0])
                most = pages * resource.getpagesize() + ROOM_BYTES
                resource.setrlimit(resource.RLIMIT_AS, (most, most))
                status = call()
            except BaseException as error:
                sys.stderr.write(repr(error))
            finally:
                sys.stderr.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        errors.seek(0)
        return status, errors.read().decode()


def command(*words: str | Path) -> tuple[int, str]:
    return with_little_room(lambda: main.main([str(word) for word in words]))


def reading(path: Path) -> tuple[int, str]:
    def read() -> int:
        try:
            parquet.read(path)
        except ResultError as error:
            print(error, file=sys.stderr)
            return error.exit_code
        return 0

    return with_little_room(read)


def is_refused(outcome: tuple[int, str], path: Path) -> None:
    status, text = outcome
    assert status == 2 and text.count("\n") == 1, text
    assert str(path) in text and re.search(REFUSAL, text) and ";" in text, text


def npz_bomb(path: Path, kind: int = zipfile.ZIP_DEFLATED, stated: int = STATED) -> Path:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|i1", "fortran_order": False, "shape": (stated,)})
    with zipfile.ZipFile(path, "w", kind) as archive, archive.open("table.npy", "w") as file:
        file.write(head.getvalue())
        for _ in range(stated // 1_000_000):
            file.write(bytes(1_000_000))
    assert path.stat().st_size < 1_000_000
    return path


def sparse(path: Path, begin: str = "") -> Path:
    """Makes a file that says it has 5 GB, and takes no room on disk."""
    path.write_text(begin)
    os.truncate(path, 5_000_000_000)
    return path


@pytest.fixture
def result(tmp_path: Path) -> results.Result:
    return synthetic.result(tmp_path / "result")


def test_a_policy_that_states_too_much(tmp_path: Path) -> None:
    bomb = npz_bomb(tmp_path / "policy.npz")
    is_refused(command("method", "rlcc", "explain", bomb, "--out", tmp_path / "shown"), bomb)


def test_a_policy_with_another_compression_than_numpys_is_none(tmp_path: Path) -> None:
    """Python reads such a member without a limit."""
    with pytest.raises(AgentError, match=r"\.npz file.*guide"):
        load_arrays(npz_bomb(tmp_path / "policy.npz", zipfile.ZIP_LZMA, 5_000_000), "guide")


def test_an_array_larger_than_its_place_in_the_archive_is_none(tmp_path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": False, "shape": (1 << 36,)})
    with zipfile.ZipFile(tmp_path / "policy.npz", "w") as archive:
        archive.writestr("table.npy", head.getvalue() + bytes(80))
    status, stderr = command("method", "rlcc", "explain", tmp_path / "policy.npz", "--out", tmp_path / "shown")
    assert status == 2 and stderr.count("\n") == 1 and "is not an .npz file" in stderr


def test_a_large_file_of_ones_own_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dc-gym does not compress arrays, so a checkpoint states no more than it has."""
    write_arrays(tmp_path / "checkpoint.npz", {"replay": np.arange(1000)})
    monkeypatch.setattr("dc_gym.base.npz.MOST_BYTES", 100)
    assert load_arrays(tmp_path / "checkpoint.npz", "")["replay"][-1] == 999


def bomb_of_rows(path: Path, table: str) -> None:
    """Writes a table whose only row group takes STATED bytes in memory."""
    kind = parquet.schema(TABLES[table])
    rows = STATED // TABLES[table].dtype.itemsize + 1
    names = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["cubic"]))
    numbers = {field.type: pa.array(np.zeros(rows, field.type.to_pandas_dtype())) for field in kind if field.type != names.type}
    columns = [numbers.get(field.type, names) for field in kind]
    pq.write_table(pa.Table.from_arrays(columns, schema=kind), path, row_group_size=rows, compression="zstd")
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("table", ["queues", "flows"])
@pytest.mark.parametrize("words", [["compare"], ["plot"]], ids=lambda words: words[0])
def test_a_table_whose_rows_take_too_much_at_a_time(result: results.Result, tmp_path: Path, table: str, words: list[str]) -> None:
    bomb = result.path / f"{table}.parquet"
    bomb_of_rows(bomb, table)
    is_refused(command(*words, result.path, *([result.path] if words == ["compare"] else [])), bomb)


def test_a_table_that_is_too_large_to_be_read_whole(result: results.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(result.records("queues")) > 100
    monkeypatch.setattr(parquet, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(parquet, "WHOLE_RATIO", 0)
    fresh = results.load_result(result.path, check_digest=True)
    with pytest.raises(ResultError, match=r"queues\.parquet: states .* kB.*at most 1 kB.*pieces"):
        fresh.records("queues")


def test_a_page_that_is_larger_than_its_file_states(tmp_path: Path) -> None:
    """The footer of a harmless file stands behind a page of 300 MB."""
    bomb, harmless = tmp_path / "bomb.parquet", tmp_path / "harmless.parquet"
    one_page = {"row_group_size": STATED, "data_page_size": STATED, "max_rows_per_page": STATED, "write_batch_size": STATED}
    plain = {"use_dictionary": False, "compression": "zstd", "write_statistics": False, **one_page}
    pq.write_table(pa.table({"a": np.zeros(STATED // 8, np.int64)}), bomb, **plain)
    noise = np.random.default_rng(1).integers(0, 1 << 62, 20_000)
    pq.write_table(pa.table({"a": noise}), harmless, **plain)
    data = harmless.read_bytes()
    footer = struct.unpack("<I", data[-8:-4])[0] + 8
    page = bomb.read_bytes()[: pq.read_metadata(bomb).row_group(0).column(0).total_compressed_size + 4]
    assert len(page) < len(data) - footer
    bomb.write_bytes(page + bytes(len(data) - footer - len(page)) + data[-footer:])
    assert parquet.read(harmless).column("a").to_pylist() == noise.tolist()
    status, stderr = reading(bomb)
    assert status == 2 and stderr.count("\n") == 1 and f"{bomb}: a page of column a states 300 MB" in stderr


def test_a_text_repeated_in_a_derived_table(tmp_path: Path) -> None:
    """Its file has it once: 100 kB a row become 100 GB."""
    path = tmp_path / "port_metrics.parquet"
    repeated = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int32)), pa.array(["x" * 100_000]))
    pq.write_table(pa.table({"port": repeated}), path, store_schema=False)
    assert path.stat().st_size < 1_000_000
    is_refused(reading(path), path)


def test_what_dc_gym_writes_is_read_as_before(result: results.Result) -> None:
    for name in results.DERIVED:
        path = result.path / f"{name}.parquet"
        if path.is_file():
            assert parquet.read(path).equals(pq.read_table(path))
    for name in ("flows", "queues", "tcp"):
        assert result.arrow(name).equals(pq.read_table(result.path / f"{name}.parquet"))


@pytest.mark.parametrize("name", ["manifest.json", "summary.json", "ports.json", "graph.json"])
def test_a_results_json_of_5_gb(result: results.Result, name: str) -> None:
    path = sparse(result.path / name)
    is_refused(command("topology" if name == "graph.json" else "plot", result.path), path)


SPEC = """
spec_version = 1
name = "bomb"
{top}
topology.preset = "dumbbell-10m"
controller.name = "dctcp"
time.duration = "1s"
{workload}
"""
TEXTS: dict[str, Callable[[Path], list[str | Path]]] = {
    "spec.toml": lambda path: ["run", path, "--out", path.parent / "out"],
    "matrix.csv": lambda path: ["topology", spec_with(path, f'workload = {{ kind = "matrix", file = "{path}" }}')],
    "sizes.txt": lambda path: [
        "topology",
        spec_with(path, f'workload = {{ kind = "poisson", load = 0.5, distribution_file = "{path}" }}'),
    ],
    "plugin.py": lambda path: ["topology", spec_with(path, "", f'plugins = ["{path}"]')],
    "template.toml": lambda path: ["method", "acc", "train", "--template", path, "--out", path.parent / "out"],
}


def spec_with(path: Path, workload: str, top: str = "") -> Path:
    spec = path.with_name("the-spec.toml")
    spec.write_text(SPEC.format(top=top, workload=workload))
    return spec


@pytest.mark.parametrize("name", TEXTS)
def test_an_input_of_5_gb(tmp_path: Path, name: str) -> None:
    path = sparse(tmp_path / name)
    is_refused(command(*TEXTS[name](path)), path)


def test_a_learning_curve_of_5_gb(tmp_path: Path) -> None:
    path = sparse(tmp_path / "curve.csv", "episode,mean_reward\n1,2\n")
    is_refused(command("plot", tmp_path), path)


def test_a_large_run_can_still_be_read(result: results.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups alone bound what is read in pieces, however many there are."""
    rows = len(result.records("queues"))
    monkeypatch.setattr(parquet, "WHOLE_BYTES", 0)
    monkeypatch.setattr(parquet, "WHOLE_RATIO", 0)
    loaded = results.load_result(result.path, check_digest=True)
    assert sum(len(piece["t_ns"]) for piece in loaded.stored.pieces("queues", "t_ns")) == rows
    assert json.loads((result.path / "manifest.json").read_text())["digest"] == loaded.digest


def test_a_pipe_of_text_has_an_end(tmp_path: Path) -> None:
    """Its size is not known before it is read."""
    from dc_gym.base import bounded

    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["/bin/sh", "-c", 'head -c 5000 /dev/zero > "$1"', "sh", str(tmp_path / "pipe")])
    with pytest.raises(UsageError, match="at most 1 kB"):
        bounded.read_bytes(tmp_path / "pipe", 1000)
    writer.wait()
