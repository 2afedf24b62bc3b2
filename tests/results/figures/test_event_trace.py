# SPDX-License-Identifier: Apache-2.0
"""A run as a trace for Perfetto: what it holds equals the tables, and a viewer finds the fields that it needs."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from synthetic import MS, S, flow_row

from dc_gym.cli import main
from dc_gym.results.figures import event_trace
from dc_gym.results.figures.event_trace import AGENTS, FLOWS, JOBS, PAUSES, QUEUES, RUN
from dc_gym.results.results import Result, write_derived

ENDED = {"start_ns": 1_234_567, "end_ns": 5_000_000_001, "fct_ns": 4_998_765_434, "size_bytes": 9000, "retransmits": 3}
FIELDS = {"M": {"args"}, "X": {"ts", "dur", "args"}, "B": {"ts", "args"}, "C": {"ts", "args"}, "i": {"ts", "s"}}
FIELDS |= {"b": {"ts", "cat", "id", "args"}, "e": {"ts", "cat", "id"}}
MESSAGES = ((4, 2_005), (6, -1))
"""Numbers of two messages, and when they arrived."""


@pytest.fixture
def result(tmp_path: Path) -> Result:
    """A run with something in every table."""
    flows = [flow_row(0, **ENDED, status="done"), flow_row(1), flow_row(2, start_ns=-1, status="waiting")]
    paused = [(0, 0, 0), (10 * MS, 0, 400), (20 * MS, 0, 400), (30 * MS, 0, 900), (30 * MS, 1, 7)]
    tables = synthetic.tables(
        flows=flows,
        queues=[{"t_ns": t * MS, "port": "s1-eth3", "backlog_bytes": 100 * t} for t in range(5)],
        decisions=[{"t_ns": 1_500, "flow": 1, "event": "rtt", "rtt_ns": 7, "rate_bps": 80}],
        ranks=[{"rank": 1, "host": "h2", "start_ns": 5, "end_ns": 2_005, "calc_ns": 1_500, "transfer_ns": 500}],
        messages=[
            {"message": number, "src_rank": 1, "src": "h2", "dst": "h1", "posted_ns": 1_505, "last_ns": last}
            for number, last in MESSAGES
        ],
        class_queues=[{"t_ns": t, "port": "s1-eth3", "class": number, "paused_ns": ns} for t, number, ns in paused],
    )
    result = synthetic.result(tmp_path / "run", tables, 10 * S, events=[{"t_ns": 2 * S + 1, "label": "s1 loses a link"}])
    steps = {"step": np.arange(2), "t_ns": np.array([0, 7_000]), "reward": np.array([np.nan, 0.5])}
    write_derived(result.path, "agent", steps)
    return result


def of(events: list[dict[str, Any]], phase: str, process: int) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == phase and event["pid"] == process]


def test_the_trace_has_what_the_tables_have(result: Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plot", str(result.path), "--trace", str(tmp_path / "new/run.json")]) == 0
    trace = json.loads((tmp_path / "new/run.json").read_text())
    events = trace["traceEvents"]
    assert trace["displayTimeUnit"] == "ns" and trace["otherData"]["digest"] == result.digest
    for event in events:
        assert {"name", "ph", "pid", "tid"} | FIELDS[event["ph"]] <= event.keys()
    assert Counter((event["ph"], event["pid"]) for event in events if event["ph"] != "M") == {
        ("i", RUN): 1,
        ("X", FLOWS): 1,
        ("B", FLOWS): 1,
        ("i", FLOWS): len(result.records("decisions")),
        ("C", QUEUES): len(result.records("queues")),
        ("X", PAUSES): 3,
        ("i", AGENTS): 2,
        ("X", JOBS): 1,
        ("b", JOBS): 2,
        ("e", JOBS): 1,
    }
    [iteration], [arrived] = of(events, "X", JOBS), of(events, "e", JOBS)
    assert (iteration["ts"], iteration["dur"], iteration["args"]["calc_ns"]) == (0.005, 2, 1_500)
    assert [message["id"] for message in of(events, "b", JOBS)] == ["0/4", "0/6"]
    assert (arrived["id"], arrived["ts"], arrived["tid"]) == ("0/4", 2.005, iteration["tid"])
    [ended], [cut] = of(events, "X", FLOWS), of(events, "B", FLOWS)
    assert (round(ended["ts"] * 1000), round(ended["dur"] * 1000)) == (ENDED["start_ns"], ENDED["fct_ns"])
    assert {key: ended["args"][key] for key in ("size_bytes", "fct_ns", "retransmits")} == {
        key: ENDED[key] for key in ("size_bytes", "fct_ns", "retransmits")
    }
    assert cut["ts"] == 0 and cut["args"]["status"] == "running" and "dur" not in cut
    assert [(slot["ts"], slot["dur"], slot["args"]["paused_ns"]) for slot in of(events, "X", PAUSES)] == [
        (0, 10_000, 400),
        (20_000, 10_000, 500),
        (0, 30_000, 7),
    ]
    assert [event["args"]["backlog_bytes"] for event in of(events, "C", QUEUES)] == [0, 100, 200, 300, 400]
    assert [event["args"] for event in of(events, "i", AGENTS)] == [{"step": 0}, {"step": 1, "reward": 0.5}]
    [decision], [change] = of(events, "i", FLOWS), of(events, "i", RUN)
    assert (decision["ts"], decision["tid"], decision["name"]) == (1.5, cut["tid"], "rtt")
    assert decision["args"]["rate_bps"] == 80
    assert (change["ts"], change["name"]) == (2_000_000.001, "s1 loses a link")


def test_a_long_trace_is_not_held_in_memory(tmp_path: Path) -> None:
    result = synthetic.result(tmp_path / "run", synthetic.run(duration_ns=100 * S))
    event_trace.write(result, tmp_path / "warm.json")
    tracemalloc.start()
    try:
        written_bytes = event_trace.write(result, tmp_path / "run.json").stat().st_size
        assert tracemalloc.get_traced_memory()[1] < written_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("other", [["--each"], ["--x", "seed"], ["--y", "jain"], ["--out", "a.png"]])
def test_a_trace_is_of_one_result(result: Result, other: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["plot", str(result.path), "--trace", "t.json", *other]) != 0
    assert "leave out" in capsys.readouterr().err and not Path("t.json").exists()


def test_another_file_is_not_replaced(result: Result, tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("mine")
    argv = ["plot", str(result.path), "--trace", str(tmp_path / "mine.json")]
    assert main.main(argv) != 0 and (tmp_path / "mine.json").read_text() == "mine"
    assert [main.main([*argv, "--force"]), main.main(argv)] == [0, 0]
