# SPDX-License-Identifier: Apache-2.0
"""Made-up runs for the tests of results, metrics and figures: a dumbbell's tables without a lab. Nothing here was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dc_gym.results import results
from dc_gym.results.metrics import Window, summarize
from dc_gym.results.tables import STATUSES, TABLES, Names, Tables
from dc_gym.run.result.read_back import queue_records

MS, S = 10**6, 10**9
RATE_BPS = 10 * 10**6


def ports(rate_bps: int = RATE_BPS, k_bytes: int | None = 3028) -> list[dict[str, Any]]:
    """Returns the rows of ports.json for a bottleneck and two hosts."""
    common = {"rate_bps": rate_bps, "delay_ns": 10_000, "buffer_bytes": 400_000}
    switch = {"name": "s1-eth3", "owner": "s1", **common, "qdisc": "red", "marking": "step", "k_bytes": k_bytes}
    hosts = [
        {"name": f"h{i}-eth0", "owner": f"h{i}", **common, "qdisc": "bfifo", "marking": "none", "k_bytes": None} for i in (1, 2)
    ]
    return [switch, *hosts]


def flow_row(flow: int, **values: Any) -> dict[str, Any]:
    """Returns a flow that runs to the end, unless told otherwise."""
    row = dict.fromkeys(name for name, _ in TABLES["flows"].columns)
    row |= dict.fromkeys(
        ("start_ns", "size_bytes", "sent_bytes", "received_bytes", "retransmits", "error", "established_ns", "rep", "due_ns"), 0
    )
    row |= {"flow": flow, "src": "h1", "dst": "h2", "src_port": 40000 + flow, "dst_port": 5001, "controller": "dctcp"}
    row |= {"transport": "tcp", "group": "flow"}
    return row | {"end_ns": -1, "fct_ns": -1, "status": "running"} | values


def array(table: str, rows: list[dict[str, Any]]) -> np.ndarray[Any, np.dtype[np.void]]:
    """Returns a structured array with the table's columns; strings stay strings; fields that a row does not set are 0."""
    dtype = np.dtype([(name, kind if kind.startswith("<") else "U16") for name, kind in TABLES[table].columns])
    unknown = TABLES[table].unknown
    filled = [tuple(row.get(name, unknown.get(name, 0)) for name, _ in TABLES[table].columns) for row in rows]
    return np.array(filled, dtype)


def tables(
    flows: list[dict[str, Any]] | None = None,
    queues: list[dict[str, Any]] | None = None,
    tcp: list[dict[str, Any]] | None = None,
    of_ports: list[dict[str, Any]] | None = None,
    nic_flows: list[dict[str, Any]] | None = None,
    decisions: list[dict[str, Any]] | None = None,
    classes: list[dict[str, Any]] | None = None,
    class_queues: list[dict[str, Any]] | None = None,
    nic_events: list[dict[str, Any]] | None = None,
    acks: list[dict[str, Any]] | None = None,
    messages: list[dict[str, Any]] | None = None,
    ranks: list[dict[str, Any]] | None = None,
    nexthops: list[dict[str, Any]] | None = None,
    reordering: list[dict[str, Any]] | None = None,
) -> Tables:
    """Returns tables from rows given as dicts."""
    return Tables.build(
        flows=array("flows", flows or []),
        queues=array("queues", queues or []),
        tcp=array("tcp", tcp or []),
        nic_flows=array("nic_flows", nic_flows or []),
        decisions=array("decisions", decisions or []),
        classes=array("classes", classes or []),
        class_queues=array("class_queues", class_queues or []),
        nic_events=array("nic_events", nic_events or []),
        acks=array("acks", acks or []),
        messages=array("messages", messages or []),
        ranks=array("ranks", ranks or []),
        nexthops=array("nexthops", nexthops or []),
        reordering=array("reordering", reordering or []),
        ports=of_ports or ports(),
    )


def run(
    seed: int = 1,
    controller: str = "dctcp",
    duration_ns: int = 10 * S,
    interval_ns: int = 10 * MS,
    flows: int = 2,
    rate_bps: int = RATE_BPS,
    queue_bytes: float = 6000,
    noise: float = 0.15,
) -> Tables:
    """Returns a plausible run: `flows` flows that converge to a fair share, and a queue around `queue_bytes`."""
    rng = np.random.default_rng(seed)
    t_ns = np.arange(0, duration_ns, interval_ns, dtype=np.int64)
    backlog = np.abs(queue_bytes * (1 + noise * rng.standard_normal(len(t_ns)))) * np.minimum(1, t_ns / (0.05 * duration_ns))
    tcp = _run_tcp(rng, t_ns, backlog, flows, rate_bps, noise)
    return Tables.build(
        flows=_run_flows(flows, controller, duration_ns / (duration_ns - interval_ns) * tcp["bytes_received"][-flows:]),
        queues=_run_queues(t_ns, backlog, rate_bps),
        tcp=tcp,
        ports=ports(rate_bps),
    )


def _run_flows(flows: int, controller: str, totals: Any) -> Any:
    rows = [flow_row(flow, controller=controller, received_bytes=int(total)) for flow, total in enumerate(totals)]
    return array("flows", rows)


def _run_queues(t_ns: Any, backlog: Any, rate_bps: int) -> Any:
    columns = {name: np.zeros((len(t_ns), 3), np.uint64) for name, _ in TABLES["queues"].digested[2:]}
    columns["backlog_bytes"][:, 0] = backlog
    columns["tx_bytes"][:, 0] = 0.99 * t_ns * rate_bps / 8 / S
    columns["marks"][:, 0] = t_ns // (20 * MS)
    return queue_records(t_ns, columns)


def _run_tcp(rng: Any, t_ns: Any, backlog: Any, flows: int, rate_bps: int, noise: float) -> Any:
    samples = np.zeros(len(t_ns) * flows, TABLES["tcp"].dtype)
    for name, unknown in TABLES["tcp"].unknown.items():
        samples[name] = unknown
    samples["t_ns"] = np.repeat(t_ns, flows)
    samples["flow"] = np.tile(np.arange(flows), len(t_ns))
    unfair = np.exp(-t_ns / (t_ns[-1] / 6))[:, None] * np.linspace(0.8, -0.8, flows)[None, :]
    busy = 1 - 0.2 * noise * np.abs(rng.standard_normal((len(t_ns), 1)))
    swing = 1 + unfair + 0.5 * noise * np.cumsum(rng.standard_normal((len(t_ns), flows)), axis=0) / np.sqrt(len(t_ns))
    rates = np.maximum(swing, 0) / np.maximum(swing, 0).sum(axis=1, keepdims=True) * rate_bps * 0.95 * busy
    step_s = (t_ns[1] - t_ns[0]) / S
    samples["bytes_received"] = ((np.cumsum(rates, axis=0) - rates) * step_s / 8).astype(np.uint64).reshape(-1)
    samples["srtt_us"] = np.repeat(80 + backlog * 8 / rate_bps * 1e6, flows)
    return samples


def result(folder: Path, of: Tables | None = None, duration_ns: int = 10 * S, **manifest: Any) -> results.Result:
    """A run on disk, finished."""
    of = run() if of is None else of
    summary = summarize(of, Window(duration_ns // 5, duration_ns))
    spec = {
        "name": folder.name,
        "seed": 1,
        "topology": {"preset": "dumbbell-10m"},
        "controller": {"name": "dctcp"},
        "workload": {"kind": "pairs"},
        "time": {"duration": f"{duration_ns}ns", "warmup": f"{duration_ns // 5}ns"},
    }
    with results.writing(folder, force=False) as partial:
        results.write_result(partial, of, {"spec": spec, "fit": True, "fingerprint": "f00d"} | manifest, summary)
        results.finish(partial)
    return results.load_result(folder)


def names() -> Names:
    """The names of the synthetic ports."""
    return Names.of(ports())


assert STATUSES == ("done", "stopped", "running", "failed", "waiting"), "the digest depends on this order"
