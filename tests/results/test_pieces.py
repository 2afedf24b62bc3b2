# SPDX-License-Identifier: Apache-2.0
"""Tables larger than memory: written, digested and measured in pieces, with the numbers of the whole tables."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import synthetic
from synthetic import MS, S

from dc_gym.base.tally import Tally, percentile
from dc_gym.results import parquet, results, tables
from dc_gym.results.digest import digest_of
from dc_gym.results.metrics import Context, Window, flow_table, port_table, series, summarize
from dc_gym.results.metrics.curves import Curves
from dc_gym.results.stored import StoredTables
from dc_gym.results.tables import TABLES, Records, TableSource
from dc_gym.run.result.read_back import queue_records

WINDOW = Window(2 * S, 10 * S)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (tables, parquet):
        monkeypatch.setattr(module, "PIECE_ROWS", 77)  # divides neither sweeps nor samples evenly


def numbers_of(of: TableSource) -> dict[str, object]:
    drawn = series(of, 10 * S, WINDOW, 50, as_arrived=True)
    series_numbers = {name: getattr(drawn, name) for name in type(drawn).__slots__}
    return series_numbers | summarize(of, WINDOW) | port_table(of, WINDOW) | flow_table(of, Context(WINDOW))


def test_numbers_in_pieces_are_those_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of = synthetic.run(flows=5, noise=0.5)
    whole = numbers_of(of)
    for module in (tables, parquet):
        monkeypatch.setattr(module, "PIECE_ROWS", 77)
    written = synthetic.result(tmp_path / "run", of).stored
    assert sum(1 for _ in written.pieces("queues", "t_ns")) > 30
    for source in (written, of):
        for name, values in numbers_of(source).items():
            np.testing.assert_array_equal(values, whole[name], err_msg=name)
    assert digest_of(written) == digest_of(of)


@pytest.mark.usefixtures("small_pieces")
def test_curves_need_only_the_samples_around_the_times_at_which_they_are_read() -> None:
    of, rows = synthetic.run(flows=3, interval_ns=MS), np.arange(3)
    for times in ([2 * S, 10 * S], np.linspace(0, 10 * S, 37), [S, S + 1, S + MS], [5 * S + 0.5]):
        some, every = Curves.of(of, 10 * S, times), Curves.of(of, 10 * S)
        np.testing.assert_array_equal(some.at(rows, times), every.at(rows, times))
        assert len(some.t_ns) <= 3 * (2 * len(times) + 4) < len(every.t_ns) / 5


@pytest.mark.parametrize("percent", [0, 1, 50, 99, 99.9, 100])
def test_a_percentile_of_counted_values_is_numpys(percent: float) -> None:
    random = np.random.default_rng(1)
    for size in (1, 2, 3, 100, 1001):
        values = random.integers(0, 60, size)
        tally = Tally()
        for part in np.array_split(values, 7):
            tally.add(part)
        keys, counts, _ = tally.result()
        assert percentile(keys, counts, percent) == np.percentile(values, percent)


def test_a_tally_merges_what_is_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dc_gym.base.tally.PENDING_KEYS", 5)
    tally = Tally()
    for value in range(100):
        tally.add(np.array([value % 4, 9]), np.array([value, 1]))
    keys, counts, sums = tally.result()
    assert keys.tolist() == [0, 1, 2, 3, 9] and counts.tolist() == [25, 25, 25, 25, 100]
    assert sums.tolist() == [sum(range(first, 100, 4)) for first in range(4)] + [100]


def sweeps(count: int, at_once: int) -> Iterator[Records]:
    """Yields the queues of three ports, as a run's trace would give them."""
    for begin in range(0, count, at_once):
        t_ns = np.arange(begin, min(begin + at_once, count), dtype=np.int64) * 10 * MS
        backlog = np.tile(t_ns[:, None] // MS % 1514, (1, 3)).astype(np.uint64)
        columns = {"backlog_bytes": backlog, "tx_bytes": backlog}
        yield queue_records(t_ns, columns, dict.fromkeys(columns, np.zeros(3, np.uint64)))


def test_a_long_run_needs_no_more_memory_than_a_few_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, piece_rows = 300_000, 1 << 12
    for module in (tables, parquet):
        monkeypatch.setattr(module, "PIECE_ROWS", piece_rows)
    monkeypatch.setattr("dc_gym.base.tally.PENDING_KEYS", piece_rows)
    pieces_by_table = {name: iter(()) for name in TABLES} | {"queues": sweeps(rows // 3, piece_rows // 3)}
    tracemalloc.start()
    try:
        results.write_tables(tmp_path, synthetic.names(), pieces_by_table)
        summary = summarize(StoredTables(tmp_path, synthetic.ports()), Window(0, rows * 10 * MS))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert summary["max_queue_bytes"] == 1512 and math.isfinite(summary["p99_queue_bytes"])
    assert peak < rows * TABLES["queues"].dtype.itemsize / 4
