# SPDX-License-Identifier: Apache-2.0
"""Queue metrics: exact figures of ports that count, sampled ones of the others, and null for what nobody knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from dc_gym.base.progress import Quiet
from dc_gym.results import parquet, results
from dc_gym.results.digest import digest_of
from dc_gym.results.metrics import Context, Window, summarize
from dc_gym.results.metrics.queues import port_table
from dc_gym.results.metrics.series import queue_means
from dc_gym.results.stored import StoredTables
from dc_gym.results.tables import TABLES, Tables, TableSource
from dc_gym.run import runner
from dc_gym.spec import load
from tests import synthetic
from tests.synthetic import MS

SWITCH = 0
BURSTS = """
spec_version = 1
name = "bursts"
topology = { preset = "dctcp-10g", buffer = "100kB" }
workload = { kind = "incast", senders = 8, size = "200kB", rounds = 3 }
controller.name = "cubic"
time.duration = "100ms"
"""


def tables(columns: Mapping[str, Sequence[int]], interval_ns: int = 10 * MS, **ports: Any) -> Tables:
    """Returns a run in which the switch port has these values at each sweep, and the host ports have never sent."""
    rows = [
        {"t_ns": number * interval_ns, "port": port_facts["name"]}
        | ({name: values[number] for name, values in columns.items()} if port == SWITCH else {})
        for number in range(len(next(iter(columns.values()))))
        for port, port_facts in enumerate(synthetic.ports())
    ]
    return synthetic.tables(queues=rows, of_ports=[port_facts | ports for port_facts in synthetic.ports()])


def summary_of(run: TableSource, start_ns: int = 0) -> dict[str, Any]:
    return summarize(run, Window(start_ns, 10**12))


def test_mean_and_maximum_are_those_that_the_port_counted() -> None:
    """Bursts of 100 kB between sweeps that meet nothing: 2 ms of 10 with 50 kB on average."""
    byte_ns = [7, 7 + 50_000 * 2 * MS, 7 + 2 * 50_000 * 2 * MS]
    run = tables({"queue_byte_ns": byte_ns, "longest_bytes": [900_000, 99_000, 100_000], "drops": [0, 300, 768]})
    summary = summary_of(run)
    assert (summary["mean_queue_bytes"], summary["max_queue_bytes"], summary["drops"]) == (10_000, 100_000, 768)
    assert (summary["bottleneck_port"], summary["p99_queue_bytes"]) == ("s1-eth3", None)


def test_what_was_before_the_window_does_not_count() -> None:
    """The first sweep of the window tells its backlog; its longest queue was before it."""
    run = tables(
        {"backlog_bytes": [0, 5000, 0], "queue_byte_ns": [0, 10**12, 10**12 + 60_000 * MS], "longest_bytes": [0, 90_000, 6000]}
    )
    summary = summary_of(run, start_ns=10 * MS)
    assert (summary["mean_queue_bytes"], summary["max_queue_bytes"]) == (6000, 6000)


def test_a_counter_that_wraps_still_tells_the_mean() -> None:
    last = (2**64 - 5 + 1000 * 10 * MS) % 2**64
    summary = summary_of(tables({"queue_byte_ns": [2**64 - 5, last], "longest_bytes": [0, 3000]}))
    assert summary["mean_queue_bytes"] == 1000


def test_sweeps_that_never_met_a_frame_do_not_tell_a_queue() -> None:
    """A port that does not count, 12 sweeps of an empty queue, and 9000 frames between them: nothing is known."""
    sent = tables({"backlog_bytes": [0] * 12, "tx_packets": list(range(0, 12_000, 1000))})
    table = port_table(sent, Window(0, 10**12))
    assert np.isnan(table["mean_queue_bytes"][SWITCH]) and np.isnan(table["max_queue_bytes"][SWITCH])
    assert table["max_queue_bytes"][1] == 0, "a port that sent nothing had no queue"
    many = port_table(tables({"backlog_bytes": [0] * 200, "tx_packets": list(range(200))}), Window(0, 10**12))
    assert many["mean_queue_bytes"][SWITCH] == 0


@pytest.mark.parametrize(("longest", "expected_bytes"), [(60_000, None), (98_486, None), (98_487, 98_487), (100_000, 100_000)])
def test_no_maximum_contradicts_drops(longest: int, expected_bytes: int | None) -> None:
    """A queue that dropped had no room for a frame of 1514 bytes in its buffer of 100 kB."""
    backlog = [longest, *[longest // 2] * 150]
    drops = [0] * 150 + [3]
    summary = summary_of(tables({"backlog_bytes": backlog, "drops": drops, "tx_packets": [1] * 151}, buffer_bytes=100_000))
    assert summary["max_queue_bytes"] == expected_bytes and summary["drops"] == 3


@pytest.mark.parametrize(("sweeps", "known"), [(99, False), (100, True)])
def test_percentiles_need_sweeps_beyond_them(sweeps: int, known: bool) -> None:
    backlog = np.arange(sweeps) * 10
    table = port_table(tables({"backlog_bytes": backlog.tolist()}), Window(0, 10**12))
    assert table["p50_queue_bytes"][SWITCH] == pytest.approx(np.percentile(backlog, 50))
    p99 = table["p99_queue_bytes"][SWITCH]
    assert p99 == pytest.approx(np.percentile(backlog, 99)) if known else np.isnan(p99)


def test_percentiles_of_sweeps_that_miss_the_queue_are_not_told() -> None:
    """200 sweeps keep step with bursts and meet each when it is over."""
    empty = {"backlog_bytes": [0] * 200, "longest_bytes": [50_000] * 200}
    table = port_table(tables(empty | {"queue_byte_ns": [n * 9000 * MS for n in range(200)]}), Window(0, 10**12))
    assert np.isnan(table["p50_queue_bytes"][SWITCH]) and table["max_queue_bytes"][SWITCH] == 50_000
    level = {"backlog_bytes": [1000] * 200, "longest_bytes": [1500] * 200}
    table = port_table(tables(level | {"queue_byte_ns": [n * 11_000 * MS for n in range(200)]}), Window(0, 10**12))
    assert (table["mean_queue_bytes"][SWITCH], table["p99_queue_bytes"][SWITCH]) == (1100, 1000)


def test_the_series_of_a_queue_is_that_which_its_port_counted() -> None:
    """Sweeps every 10 ms meet nothing; the port counted 1000 bytes on average, then 5000. After the last sweep it is unknown."""
    byte_ns = [2**64 - 7, 2**64 - 7 + 10_000 * MS - 2**64, 10_000 * MS - 7 + 50_000 * MS]
    run = tables({"queue_byte_ns": byte_ns, "longest_bytes": [0, 2000, 9000]})
    means_bytes = queue_means(run, SWITCH, np.arange(0, 35 * MS, 5 * MS, dtype=np.float64))
    np.testing.assert_allclose(means_bytes, [1000, 1000, 5000, 5000, np.nan, np.nan])
    sampled = queue_means(run, 1, np.array([0.0, 15.0 * MS]))
    assert sampled.tolist() == [0], "h1's port counts nothing: sweeps alone tell its queue"


def test_one_sweep_tells_no_drops() -> None:
    summary = summary_of(tables({"backlog_bytes": [700], "drops": [5]}))
    assert (summary["drops"], summary["utilization"], summary["mean_queue_bytes"]) == (None, None, 700)


def test_unknown_is_null_in_the_file_and_comes_back(tmp_path: Path) -> None:
    run = tables({"queue_byte_ns": [0, 2**63 + 1], "longest_bytes": [0, 42]})
    results.write_result(tmp_path, run, {}, {})
    stored = StoredTables(tmp_path, run.ports)
    assert stored.arrow("queues").column("longest_bytes").to_pylist() == [0, None, None, 42, None, None]
    assert np.array_equal(stored.table("queues"), run.queues)
    pieces = [piece["queue_byte_ns"] for piece in stored.pieces("queues", "t_ns", "queue_byte_ns")]
    assert np.concatenate(pieces).tolist() == run.queues["queue_byte_ns"].tolist()


def test_an_older_result_without_the_columns_is_read_and_keeps_its_digest(tmp_path: Path) -> None:
    run = tables({"backlog_bytes": [1000, 3000]})
    results.write_result(tmp_path, run, {}, {})
    path = tmp_path / "queues.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["queue_byte_ns", "longest_bytes"]), path)
    parquet.check(path, TABLES["queues"])
    stored = StoredTables(tmp_path, run.ports)
    assert digest_of(stored) == digest_of(run) and np.array_equal(stored.table("queues"), run.queues)
    assert summary_of(stored)["mean_queue_bytes"] == 2000


@pytest.mark.lab
def test_an_incast_that_overflows_between_two_sweeps_has_its_full_queue(tmp_path: Path) -> None:
    spec = tmp_path / "bursts.toml"
    spec.write_text(BURSTS)
    result = runner.run(load(spec), tmp_path / "bursts", Quiet(), plot=False)
    summary = result.summary
    assert result.records("queues")["backlog_bytes"].max() == 0 and summary["drops"] > 0
    assert summary["bottleneck_port"] == "s1-eth5" and 100_000 - 1514 < summary["max_queue_bytes"] <= 100_000
    assert 0 < summary["mean_queue_bytes"] < summary["p99_queue_bytes"] < summary["max_queue_bytes"]  # the port counts all three
    assert summary["host_max_queue_bytes"] is None, "hosts' queues are sampled alone, and no sweep met a frame"


def class_rows(counts: Sequence[Sequence[tuple[int, int]]]) -> list[dict[str, int | str]]:
    """Returns two ports with two classes each. `counts`: drops and marks of a class at each sweep, of either port."""
    return [
        {"t_ns": sweep * 10 * MS, "port": port, "class": number, "drops": drops, "marks": marks}
        for sweep, of_class in enumerate(counts)
        for port in ("s1-eth3", "h1-eth0")
        for number, (drops, marks) in enumerate(of_class)
    ]


def test_drops_are_told_by_class(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps = [[(9, 9), (9, 9)], [(10, 0), (20, 5)], [(11, 0), (23, 6)], [(14, 0), (30, 9)]]
    run = synthetic.tables(class_queues=class_rows(sweeps))
    context = Context(Window(10 * MS, 30 * MS), port_classes=("rdma", "tcp"))
    class_drops = [{"class": "rdma", "drops": 8, "marks": 0}, {"class": "tcp", "drops": 20, "marks": 8}]
    assert summarize(run, context)["class_drops"] == class_drops
    for rows in (1, 3, 5):
        monkeypatch.setattr("dc_gym.results.tables.PIECE_ROWS", rows)
        assert summarize(run, context)["class_drops"] == class_drops
    one = Context(Window(30 * MS, 40 * MS), port_classes=("rdma", "tcp"))
    assert summarize(run, one)["class_drops"] is None, "one sweep tells no drops"
    assert summarize(synthetic.tables(), context)["class_drops"] is None


CLASSES = """
spec_version = 1
controller.name = "cubic"
workload = { kind = "many_to_one", dscp = 10, size = "1MB" }
time.duration = "50ms"
[topology]
kind = "single"
hosts = 5
rate = "1Gbit/s"
delay = "1us"
buffer = "50kB"
classes = [{ name = "spare", dscp = [20] }, { name = "bulk", dscp = [10] }]
"""


@pytest.mark.lab
def test_a_run_tells_which_class_dropped(tmp_path: Path) -> None:
    spec = tmp_path / "classes.toml"
    spec.write_text(CLASSES)
    summary = runner.run(load(spec), tmp_path / "out", Quiet(), plot=False).summary
    assert [class_row["class"] for class_row in summary["class_drops"]] == ["spare", "bulk"]
    assert [class_row["drops"] for class_row in summary["class_drops"]] == [0, summary["drops"]] and summary["drops"] > 0
