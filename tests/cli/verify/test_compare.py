# SPDX-License-Identifier: Apache-2.0
"""Two results side by side."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path

import pytest
import synthetic
from rich.console import Console

from dc_gym.base.errors import ResultError
from dc_gym.cli.verify import compare
from dc_gym.results.results import Result


@pytest.fixture
def a(tmp_path: Path) -> Result:
    return synthetic.result(tmp_path / "a")


def again(a: Result, name: str, change: int = 0, **manifest: object) -> Result:
    """Returns the same run under another name, with its 100th srtt changed."""
    tables = synthetic.run()
    tcp = tables.tcp.copy()
    tcp["srtt_us"][100] += change
    spec = a.manifest["spec"]
    return synthetic.result(a.path.parent / name, dataclasses.replace(tables, tcp=tcp), **({"spec": spec} | manifest))


def shown(comparison: compare.Comparison) -> str:
    stream = io.StringIO()
    compare._show(comparison, Console(file=stream, width=120))
    return stream.getvalue()


def test_the_same_run(a: Result) -> None:
    comparison = compare.compare(a, again(a, "b"))
    assert comparison.same_spec and comparison.same_digest and comparison.same_fingerprint and comparison.first_difference is None
    assert all(row.difference in (0, None) and row.ratio in (1, None) for row in comparison.rows)
    assert "spec equal, fingerprint equal, digest equal" in shown(comparison)


def test_it_says_what_acted(a: Result) -> None:
    spec = dict(a.manifest["spec"], controller={"name": "cubic", "policy": "fair-share"})
    comparison = compare.compare(a, again(a, "b", spec=spec))
    assert comparison.controllers == ("DCTCP", "fair-share over CUBIC")
    assert f"B  {comparison.b} (fair-share over CUBIC)\n" in shown(comparison)


def test_the_same_experiment_with_another_outcome_names_the_record(a: Result) -> None:
    comparison = compare.compare(a, again(a, "b", change=800, fingerprint="beef"))
    assert comparison.same_spec and not comparison.same_digest and not comparison.same_fingerprint
    assert comparison.first_difference is not None and comparison.first_difference.row == 100
    assert "first difference, A and B: tcp, flow 0 (h1 to h2) at t = 500000000 ns: srtt_us " in shown(comparison)
    row = next(row for row in comparison.rows if row.name == "mean_srtt_us")
    assert row.unit == "us" and row.difference == 0 and row.ratio == 1  # record 100 lies in the warm-up


def test_other_experiments_are_compared_without_a_search(a: Result) -> None:
    b = synthetic.result(a.path.parent / "b", synthetic.run(queue_bytes=12000))
    comparison = compare.compare(a, b)
    assert not comparison.same_spec and comparison.first_difference is None
    row = next(row for row in comparison.rows if row.name == "mean_queue_bytes")
    assert row.ratio == pytest.approx(2, rel=0.01) and row.difference == pytest.approx(row.b - row.a)
    assert "spec different" in shown(comparison)


def test_one_spec_with_other_files_is_another_experiment(a: Result) -> None:
    one, other = (again(a, name, change, inputs={"matrix.csv": name * 64}) for change, name in enumerate("bc"))
    comparison = compare.compare(one, other)
    assert comparison.same_spec and not comparison.same_inputs and comparison.first_difference is None
    assert "spec equal, files that it reads different, fingerprint equal, digest different" in shown(comparison)
    assert compare.compare(one, again(a, "d", inputs={"matrix.csv": "b" * 64})).same_inputs


def test_metrics_that_one_lacks(a: Result) -> None:
    rows = {
        row.name: row for row in compare._rows({"x": 1, "n": None, "z": 0}, {"y_s": 2.5, "n": 3, "z": 4, "flow_goodput_bps": [1]})
    }
    assert set(rows) == {"x", "y_s", "n", "z"}
    assert (rows["x"].b, rows["y_s"].a, rows["n"].difference, rows["z"].ratio, rows["z"].difference) == (
        None,
        None,
        None,
        None,
        4,
    )
    assert rows["y_s"].unit == "s"


def test_versions_that_do_not_fit(a: Result) -> None:
    path = again(a, "b").path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"digest_version": 1}))
    with pytest.raises(ResultError, match="digest of version 2"):
        compare.show(a.path, path.parent)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"result_version": 2}))
    with pytest.raises(ResultError, match="later than 1"):
        compare.show(a.path, path.parent)


def test_json(a: Result, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.show(a.path, again(a, "b", change=1).path, as_json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["same_digest"] is False and report["first_difference"]["columns"][0]["column"] == "srtt_us"
    assert {"name", "unit", "a", "b", "difference", "ratio"} == set(report["rows"][0])


def test_the_table_has_units_that_people_read(a: Result) -> None:
    lines = [
        line
        for name, one, other in (("mean_srtt_us", 272_300.0, 7991.0), ("goodput_bps", 7.34e10, 6e10), ("drops", 12345, None))
        for line in (" ".join(compare._cells(compare._row(name, one, other))),)
    ]
    assert lines == [
        "mean_srtt_us 272.3 7.991 -264.3 0.02935 ms",
        "goodput_bps 73.4 60 -13.4 0.8174 Gbit/s",
        "drops 12,345 -   ",
    ]
    assert "nic_cnps" not in shown(compare.compare(a, again(a, "b"))), "null in both"
