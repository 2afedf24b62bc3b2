# SPDX-License-Identifier: Apache-2.0
"""Tests the content of a result's folder: types, round trip, refusals. How the folder is made: test_folder.py."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import synthetic

from dc_gym.base.errors import MachineError, ResultError, UsageError
from dc_gym.ctrl.controllers import policy_name
from dc_gym.results import parquet, results, tables
from dc_gym.results.digest import digest_of
from dc_gym.results.tables import TABLES
from dc_gym.run.result.read_back import queue_records
from dc_gym.topologies.presets import TopologySpec, build


@pytest.fixture
def good(tmp_path: Path) -> results.Result:
    return synthetic.result(tmp_path / "run")


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refusal(path: Path, check_digest: bool = False) -> str:
    with pytest.raises(ResultError) as excinfo:
        results.load_result(path, check_digest)
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


def test_round_trip(good: results.Result) -> None:
    written = synthetic.run()
    for name in TABLES:
        np.testing.assert_array_equal(good.records(name), written.table(name))
    assert good.digest == digest_of(written)
    good.check_digest()
    assert good.manifest["result_version"] == 1 and good.fit
    assert set(good.column("queues", "port")) == {"s1-eth3", "h1-eth0", "h2-eth0"}
    assert list(good.column("flows", "status")) == ["running", "running"]
    assert names_in(good.path) == sorted(results.FILES)


def test_reading_starts_no_thread(good: results.Result) -> None:
    """Arrow's threads abort a process that ends while one of them has a Python object."""
    program = (
        "import os, sys, pathlib; from dc_gym.results import results\n"
        "threads = lambda: len(os.listdir('/proc/self/task'))\n"
        "result = results.load_result(pathlib.Path(sys.argv[1])); before = threads()\n"
        "result.check_digest(); print(threads() - before)"
    )
    argv = [sys.executable, "-c", program, str(good.path)]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "0\n"


def test_empty_tables_round_trip(tmp_path: Path) -> None:
    empty = synthetic.result(tmp_path / "empty", synthetic.tables())
    assert [len(empty.records(name)) for name in TABLES] == [0] * len(TABLES)
    empty.check_digest()


def test_tables_of_nics_are_kept_where_there_are_some(tmp_path: Path) -> None:
    decided = [{"t_ns": 5, "flow": 0, "event": "rtt", "rtt_ns": 9, "rate_bps": 7}]
    written = synthetic.tables([synthetic.flow_row(0, transport="rdma")], nic_flows=[{"flow": 0, "cnps": 2}], decisions=decided)
    read = synthetic.result(tmp_path / "rdma", written)
    assert names_in(read.path) == sorted([*results.FILES, "decisions.parquet", "nic_flows.parquet"])
    assert read.column("decisions", "event").tolist() == ["rtt"] and read.records("nic_flows")["cnps"].tolist() == [2]
    read.check_digest()
    (read.path / "decisions.parquet").unlink()
    assert "they were changed" in refusal(read.path, check_digest=True)


def test_several_row_groups_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PIECE_ROWS", 100)
    many = synthetic.result(tmp_path / "many")
    assert pq.ParquetFile(many.path / "queues.parquet").num_row_groups == 30
    many.check_digest()


def test_parquet_types_are_the_documents(good: results.Result) -> None:
    schema = pq.read_schema(good.path / "flows.parquet")
    expected = {
        "flow": pa.uint32(),
        "src_port": pa.uint16(),
        "start_ns": pa.int64(),
        "size_bytes": pa.uint64(),
        "error": pa.int32(),
    }
    assert {name: schema.field(name).type for name in expected} == expected
    assert schema.field("status").type == pa.dictionary(pa.int32(), pa.string())
    assert pq.read_schema(good.path / "tcp.parquet").field("srtt_us").type == pa.uint32()
    assert good.arrow("queues").column("port").slice(0, 2).to_pylist() == ["s1-eth3", "h1-eth0"]


def test_the_same_tables_give_the_same_digest_from_other_files(good: results.Result) -> None:
    """The digest is over records: rewriting a Parquet file with other options changes nothing."""
    path = good.path / "tcp.parquet"
    pq.write_table(pq.read_table(path), path, compression="none", row_group_size=7)
    results.load_result(good.path, check_digest=True)


def test_a_changed_number_is_found(good: results.Result) -> None:
    path = good.path / "tcp.parquet"
    table = pq.read_table(path)
    values = table.column("srtt_us").to_numpy().copy()
    values[7] += 1
    field = parquet.schema(TABLES["tcp"]).field("srtt_us")
    pq.write_table(table.set_column(table.schema.get_field_index("srtt_us"), field, pa.array(values, pa.uint32())), path)
    results.load_result(good.path)
    assert "they were changed" in refusal(good.path, check_digest=True)


@pytest.mark.parametrize("name", results.FILES)
def test_every_file_is_needed(good: results.Result, name: str) -> None:
    (good.path / name).unlink()
    assert f"{name} missing" in refusal(good.path)


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_versions(good: results.Result) -> None:
    manifest = good.path / "manifest.json"
    edit(manifest, result_version=2)
    assert "result_version 2 is later than 1" in refusal(good.path)
    for version in (None, "1", True, 0):
        edit(manifest, result_version=version)
        assert "result_version" in refusal(good.path)
    edit(manifest, result_version=1, digest=None)
    assert "digest" in refusal(good.path)


@pytest.mark.parametrize("name", results.FILES)
@pytest.mark.parametrize("content", [b"", b"[3]", b"\xff\xfe", b"PAR1PAR1"])
def test_damaged_files(good: results.Result, name: str, content: bytes) -> None:
    (good.path / name).write_bytes(content)
    assert name in refusal(good.path)


def test_wrong_columns(good: results.Result) -> None:
    path = good.path / "tcp.parquet"
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["srtt_us"]), path)
    assert "column srtt_us is missing" in refusal(good.path)
    pq.write_table(table.set_column(2, "srtt_us", table.column("srtt_us").cast(pa.float64())), path)
    assert "column srtt_us is double, not uint32" in refusal(good.path)
    pq.write_table(table.append_column("later", table.column("flow")), path)
    results.load_result(good.path, check_digest=True)


def test_what_is_no_result(tmp_path: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "none")
    assert "not a result" in refusal(tmp_path)
    (tmp_path / "x.partial").mkdir()
    assert "under way or was interrupted" in refusal(tmp_path / "x.partial")


@pytest.mark.parametrize("name", results.FILES)
def test_a_full_disk_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(MachineError) as excinfo, results.writing(tmp_path / "run", force=False) as partial:
        (partial / name).symlink_to("/dev/full")
        results.write_result(partial, synthetic.run(duration_ns=synthetic.S), {}, {})
    assert f"cannot write {partial / name}: No space left on device; free some room" in str(excinfo.value)
    assert excinfo.value.exit_code == 2 and "\n" not in str(excinfo.value)
    assert names_in(tmp_path) == []


def test_matrix_is_kept(tmp_path: Path) -> None:
    (tmp_path / "flows.csv").write_text("source,destination\n")
    with results.writing(tmp_path / "run", force=False) as partial:
        digests = results.copy_inputs(partial, {"matrix.csv": tmp_path / "flows.csv"})
        results.write_result(partial, synthetic.tables(), {}, {})
        assert (results.finish(partial) / "matrix.csv").read_text() == "source,destination\n"
    assert digests == {"matrix.csv": hashlib.sha256(b"source,destination\n").hexdigest()}
    assert results.load_result(tmp_path / "run").inputs == digests, "of an older result: from the copy"


def test_pandas_is_optional(good: results.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(UsageError, match="pandas is not installed"):
        good.to_pandas("flows")


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, -2, 3], np.int64),
        np.arange(6, dtype=np.uint16)[::2],
        np.array([0.5, np.nan]),
        np.array([True, False, False, True, True, False, True, True, True]),
        np.array(["h1", "", "µ"]),
        np.array(["h1", "s1-eth2"], dtype=object),
        np.array(["h1", None], dtype=object),
        np.array([], dtype=object),
        np.array([], np.float64),
    ],
    ids=lambda values: f"{values.dtype}-{len(values)}",
)
def test_arrow_columns_are_what_arrow_itself_makes(values: Any) -> None:
    converted = parquet.to_arrow(values)
    converted.validate(full=True)
    expected = pa.array(values.tolist(), pa.string() if values.dtype.kind in "UO" else pa.from_numpy_dtype(values.dtype))
    assert converted.type == expected.type and str(converted.to_pylist()) == str(expected.to_pylist())


def test_a_run_imports_neither_pandas_nor_mininet(tmp_path: Path) -> None:
    """Each takes as long as booting a lab. The runner's modules and the writing of a result do without, installed or not."""
    program = (
        "import sys, pathlib, synthetic\n"
        "from dc_gym.results import results; from dc_gym.run import runner\n"
        "made = synthetic.result(pathlib.Path(sys.argv[1]))\n"
        "synthetic.summarize(made.stored, synthetic.Window(0, synthetic.S))\n"
        "print([name for name in ('pandas', 'mininet', 'matplotlib') if name in sys.modules])\n"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "r")]
    child = subprocess.run(argv, capture_output=True, text=True, cwd=Path(__file__).parents[1])
    assert (child.stdout.strip(), child.returncode) == ("[]", 0), child.stderr


def test_port_rows_are_the_graphs() -> None:
    rows = results.port_rows(build(TopologySpec.of(preset="dumbbell-10m"), ecn=True))
    assert len(rows) == 10 and list(rows[0]) == list(results.PORT_KEYS)
    assert rows[0] | {"name": "", "owner": "", "peer": ""} == {
        "name": "",
        "owner": "",
        "side": "switch",
        "rate_bps": 10**7,
        "delay_ns": 10_000,
        "buffer_bytes": 400_000,
        "qdisc": "port",
        "marking": "step",
        "k_bytes": 3028,
        "kmin_bytes": None,
        "kmax_bytes": None,
        "pmax": None,
        "loss": 0.0,
        "jitter_ns": 0,
        "reorder": 0.0,
        "reorder_delay_ns": 0,
        "peer": "",
        "mtu_bytes": 1500,
    }
    assert rows[-1]["marking"] == "none" and rows[-1]["k_bytes"] is None


def test_queue_records_count_from_the_first_sweep() -> None:
    backlog = np.array([[5, 6], [7, 8]], np.uint64)
    sent = np.array([[100, 200], [150, 290]], np.uint64)
    records = queue_records(np.array([0, 10]), {"backlog_bytes": backlog, "tx_bytes": sent})
    assert records["backlog_bytes"].tolist() == [5, 6, 7, 8]
    assert records["tx_bytes"].tolist() == [0, 0, 50, 90]
    assert records[["t_ns", "port"]].tolist() == [(0, 0), (0, 1), (10, 0), (10, 1)]
    assert len(queue_records(np.zeros(0, np.int64), {"drops": np.zeros((0, 2), np.uint64)})) == 0
    later = queue_records(np.array([20]), {"tx_bytes": sent[1:]}, {"tx_bytes": sent[0]})
    assert later["tx_bytes"].tolist() == records["tx_bytes"][2:].tolist()


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        ("fair-share", "fair-share"),
        ("examples/mine.py:Fast", "mine.py:Fast"),
        ("lab.policies:Fast", "lab.policies:Fast"),
        (Path("/results/ppo/policy.npz"), "ppo"),
        (Path("/results/ppo/best.npz"), "best"),
    ],
)
def test_what_a_policy_is_called(policy: str | Path, name: str) -> None:
    assert policy_name(policy) == name


def test_a_policy_keeps_its_name_where_its_result_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "ppo").mkdir()
    first = {"policy.npz": tmp_path / "ppo" / "policy.npz", "matrix.csv": tmp_path / "flows.csv"}
    assert results.policies(first) == {"policy.npz": "ppo"}
    run = synthetic.result(tmp_path / "run-1", policies=results.policies(first))
    assert results.policies({"policy.npz": run.path / "policy.npz"}) == {"policy.npz": "ppo"}
    (run.path / "manifest.json").write_text(json.dumps(run.manifest | {"spec": {"controller": {"policy": "policy.npz"}}}))
    assert results.load_result(run.path).controller == {"policy": "ppo"}
