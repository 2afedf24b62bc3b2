# SPDX-License-Identifier: Apache-2.0
"""The metrics against numbers worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import synthetic
from synthetic import MS, S, flow_row

from dc_gym.results import metrics
from dc_gym.results.metrics import Context, JobFacts, Window, jain, jobs, names, pauses, series, summarize
from dc_gym.results.metrics.curves import Curves
from dc_gym.results.tables import Tables

PORTS = ("s1-eth3", "h1-eth0", "h2-eth0")


def samples(flow: int, received: dict[int, int], srtt_us: int = 100) -> list[dict[str, Any]]:
    """Returns TCP samples of a flow: payload bytes received at each time."""
    return [{"t_ns": t_ns, "flow": flow, "srtt_us": srtt_us, "bytes_received": count} for t_ns, count in received.items()]


def sweeps(backlog: dict[int, tuple[int, int, int]], **counters: dict[int, tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Returns queue rows: a value for each of the three ports at each time."""
    return [
        {"t_ns": t_ns, "port": name, "backlog_bytes": values[row]} | {key: of[t_ns][row] for key, of in counters.items()}
        for t_ns, values in backlog.items()
        for row, name in enumerate(PORTS)
    ]


def test_goodput_is_payload_received_in_the_window() -> None:
    flows = [flow_row(0, received_bytes=4000), flow_row(1, received_bytes=1000, end_ns=2 * S, status="stopped")]
    tcp = samples(0, {0: 0, 1 * S: 1000, 2 * S: 1500, 3 * S: 2000}) + samples(1, {0: 0, 1 * S: 600})
    of = synthetic.tables(flows=flows, tcp=tcp)
    goodput_bps = metrics.flow_goodput_bps(of, Window(1 * S, 4 * S))
    assert goodput_bps.tolist() == [(4000 - 1000) * 8 / 3, (1000 - 600) * 8 / 3]
    assert summarize(of, Window(1 * S, 4 * S))["goodput_bps"] == pytest.approx(3400 * 8 / 3)


def test_goodput_between_samples_is_a_straight_line() -> None:
    of = synthetic.tables(flows=[flow_row(0, received_bytes=3000)], tcp=samples(0, {0: 0, 1 * S: 1000, 2 * S: 3000}))
    assert metrics.flow_goodput_bps(of, Window(S // 2, 2 * S)).tolist() == [(3000 - 500) * 8 / 1.5]


def test_what_a_stopped_flow_had_under_way_counts_when_it_arrives() -> None:
    """Stopped at 2 s with 500 bytes on their way, which are there by the sample at 3 s: none of them is in [1 s, 2 s)."""
    flow = flow_row(0, received_bytes=2500, end_ns=2 * S, status="stopped")
    of = synthetic.tables(flows=[flow], tcp=samples(0, {0: 0, 1 * S: 1000, 2 * S: 2000}))
    edges = [second * S for second in (0, 1, 2, 3, 4)]
    assert Curves.of(of, 4 * S).rates_bps(np.array([0]), edges)[0].tolist() == [8000, 8000, 4000, 0]
    longer = synthetic.tables(flows=[flow], tcp=samples(0, {0: 0, 1 * S: 1000, 2 * S: 2000, 3 * S: 2250}))
    assert Curves.of(longer, 4 * S).rates_bps(np.array([0]), edges)[0].tolist() == [8000, 8000, 2000, 2000]
    assert Curves.of(of, 2 * S).rates_bps(np.array([0]), edges[1:3])[0].tolist() == [12_000], "a run ends with its duration"


def test_goodput_without_samples_and_of_flows_that_never_were() -> None:
    finished = flow_row(0, start_ns=S, end_ns=2 * S, received_bytes=1000, size_bytes=1000, fct_ns=S, status="done")
    failed = flow_row(1, start_ns=-1, status="failed", error=111)
    of = synthetic.tables(flows=[finished, failed])
    assert metrics.flow_goodput_bps(of, Window(0, 4 * S)).tolist() == [2000.0, 0.0]


def test_utilization_is_of_frame_bytes_and_of_the_busiest_port() -> None:
    """10 Mbit/s for 2 s are 2.5 MB; the host has half the rate, so its 1.25 MB are as much: the switch is first."""
    times = {0: (0, 0, 0), 1 * S: (0, 0, 0), 2 * S: (0, 0, 0), 3 * S: (0, 0, 0)}
    tx = {0: (9, 9, 9), 1 * S: (100, 0, 0), 2 * S: (100, 0, 0), 3 * S: (2_000_100, 999_000, 0)}
    ports = synthetic.ports()
    ports[1]["rate_bps"] //= 2
    of = synthetic.tables(queues=sweeps(times, tx_bytes=tx), of_ports=ports)
    summary = summarize(of, Window(1 * S, 3 * S))  # the sweep at the end counts: a counter can be read there
    assert (summary["utilization"], summary["busiest_port"]) == (0.8, "s1-eth3")
    tx[3 * S] = (2_000_100, 1_125_000, 0)
    summary = summarize(synthetic.tables(queues=sweeps(times, tx_bytes=tx), of_ports=ports), Window(1 * S, 3 * S))
    assert (summary["utilization"], summary["busiest_port"]) == (0.9, "h1-eth0")


def test_queues_are_of_the_port_with_the_largest_mean_backlog_in_the_window() -> None:
    backlog = {0: (0, 10**6, 0), 1 * S: (1000, 4000, 0), 2 * S: (9000, 2000, 0), 3 * S: (0, 10**6, 0)}
    summary = summarize(synthetic.tables(queues=sweeps(backlog)), Window(1 * S, 3 * S))
    assert summary["bottleneck_port"] == "s1-eth3"
    assert (summary["mean_queue_bytes"], summary["max_queue_bytes"]) == (5000, 9000)
    assert summary["p99_queue_bytes"] is None, "two sweeps tell no 99th percentile"
    assert summary["queueing_delay_s"] == pytest.approx(5000 * 8 / 10**7)


def test_drops_and_marks_grow_in_the_window_over_all_ports() -> None:
    times = {t_ns: (0, 0, 0) for t_ns in (0, S, 2 * S)}
    counts = {0: (0, 0, 0), S: (5, 1, 0), 2 * S: (7, 1, 4)}
    summary = summarize(synthetic.tables(queues=sweeps(times, drops=counts, marks=counts)), Window(S, 3 * S))
    assert (summary["drops"], summary["marks"]) == (6, 6)


def test_srtt_is_over_samples_in_the_window_that_have_one() -> None:
    tcp = samples(0, {0: 0}, 900) + samples(0, {S: 0}, 100) + samples(0, {2 * S: 0}, 200) + samples(1, {S: 0}, 0)
    of = synthetic.tables(flows=[flow_row(0), flow_row(1)], tcp=tcp + samples(0, {3 * S: 0}, 900))
    assert summarize(of, Window(S, 3 * S))["mean_srtt_us"] == 150


@pytest.mark.parametrize(
    ("rates", "index"),
    [([5, 5], 1.0), ([1, 0], 0.5), ([3, 1], 0.8), ([7], 1.0), ([], None), ([0, 0], None), ([1, 1, 1, 0], 0.75)],
)
def test_jain(rates: list[float], index: float | None) -> None:
    assert jain(np.array(rates, float)) == (None if index is None else pytest.approx(index))


def test_jain_is_over_flows_active_in_the_whole_window() -> None:
    flows = [
        flow_row(0, start_ns=1000, received_bytes=3000),
        flow_row(1, received_bytes=1000, end_ns=4 * S - 1, status="stopped"),  # to the end but for a nanosecond
        flow_row(2, start_ns=2 * S, received_bytes=9000),
        flow_row(3, received_bytes=9000, end_ns=3 * S, status="stopped"),
        flow_row(4, status="failed", start_ns=0),
    ]
    assert summarize(synthetic.tables(flows=flows), Window(0, 4 * S))["jain"] == pytest.approx(0.8, rel=1e-6)


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_jain_is_null_below_two_flows_and_its_flows_stand_beside_it(count: int) -> None:
    flows = [flow_row(number, received_bytes=1000) for number in range(count)]
    late = flow_row(count, start_ns=S, received_bytes=9000)
    summary = summarize(synthetic.tables(flows=[*flows, late]), Window(0, 4 * S))
    expected_jain = None if count < 2 else pytest.approx(1)
    assert (summary["jain"], summary["jain_flows"]) == (expected_jain, count)


def test_goodput_of_the_active_time_leaves_out_idle_time() -> None:
    """Two flows share 0.5..1.5 s, one has 1..2 s, one 3..3.5 s; 2.5 MB in 2 of 4 s. What failed was never active."""
    spans = [(0.5, 1.5), (1, 2), (3, 3.5)]
    flows = [
        flow_row(number, start_ns=int(start * S), end_ns=int(end * S), received_bytes=10**6, status="done", size_bytes=10**6)
        for number, (start, end) in enumerate(spans)
    ]
    failed = flow_row(3, start_ns=0, status="failed")
    summary = summarize(synthetic.tables(flows=[*flows, failed]), Window(0, 4 * S))
    assert summary["active_s"] == 2 and summary["goodput_bps"] == pytest.approx(6e6)
    assert summary["active_goodput_bps"] == pytest.approx(12e6)
    nobody = summarize(synthetic.tables(), Window(0, S))
    assert (nobody["active_s"], nobody["active_goodput_bps"]) == (0, None)


def test_flows_are_counted_and_unfinished_ones_shown() -> None:
    finished = [
        flow_row(i, status="done", size_bytes=9, fct_ns=fct * S, end_ns=fct * S, retransmits=i) for i, fct in enumerate((1, 2, 4))
    ]
    rest = [flow_row(3), flow_row(4, status="failed"), flow_row(5, status="stopped", end_ns=S)]
    summary = summarize(synthetic.tables(flows=finished + rest), Window(0, 9 * S))
    assert [summary[f"flows{name}"] for name in ("", "_done", "_stopped", "_running", "_failed")] == [6, 3, 1, 1, 1]
    assert (summary["fct_mean_s"], summary["fct_p50_s"], summary["fct_p99_s"]) == (
        pytest.approx(7 / 3),
        2.0,
        pytest.approx(2 + 0.98 * 2),
    )
    assert summary["retransmits"] == 3


def test_nothing_measured_is_none_and_valid_json() -> None:
    summary = summarize(synthetic.tables(), Window(0, S))
    assert summary["goodput_bps"] == 0 and summary["flow_goodput_bps"] == [] and summary["flows"] == 0
    nothing = {key for key, value in summary.items() if value is None}
    counts = {
        key for key in summary if key.startswith(("flows", "fct_bins", "fct_groups")) or key.endswith(("_flows", "unfinished"))
    }
    assert nothing == set(summary) - {"goodput_bps", "active_s", "flow_goodput_bps", "retransmits"} - counts
    json.dumps(summary, allow_nan=False)


def test_every_metric_has_a_formula() -> None:
    summary = summarize(synthetic.run(), Window(0, S))
    assert sorted(names.NAMES) == sorted({*summary, *pauses.NAMES, *jobs.NAMES, "jobs", names.RETURN})
    assert not summary.keys() & set(pauses.NAMES), "the ports have no classes"


def test_iterations_of_jobs() -> None:
    """Two ranks, two iterations of 10 s and 20 s; the second job has not ended its one."""
    spent = [(0, 10, 4, 5, 1), (0, 10, 2, 8, 0), (10, 30, 5, 10, 5), (10, 30, 4, 16, 0)]
    ranks = [
        {"host": "h1", "rep": row // 2, "rank": row % 2, "start_ns": start * S, "end_ns": end * S}
        | {"calc_ns": calc * S, "transfer_ns": transfer * S, "wait_ns": wait * S}
        for row, (start, end, calc, transfer, wait) in enumerate(spent)
    ]
    context = Context(Window(0, 40 * S), jobs={0: JobFacts(2, 1000.0), 1: JobFacts(1, 0.0)})
    summary = summarize(synthetic.tables(ranks=ranks), context)
    first, second = summary["jobs"]
    assert first == {"job": 0} | {name: summary[name] for name in jobs.NAMES}
    assert [first[name] for name in jobs.NAMES[:4]] == [30, 2, 15, 20]
    assert first["bus_bandwidth_bps"] == pytest.approx(2 * 1000 * 8 / (30 - 4 - 5))
    assert first["exposed_share"] == pytest.approx(45 / 60)
    assert second == dict.fromkeys(jobs.NAMES) | {"job": 1, "job_iterations": 0}
    more = summarize(synthetic.tables(ranks=ranks), Context(Window(0, 40 * S), jobs={0: JobFacts(3, 0.0)}))
    assert (more["job_s"], more["job_iterations"], more["bus_bandwidth_bps"]) == (None, 2, None)


def test_series_means_and_gaps() -> None:
    flows = [flow_row(0, received_bytes=4000), flow_row(1, start_ns=2 * S, received_bytes=1000)]
    tcp = samples(0, {0: 0, S: 1000, 2 * S: 2000, 3 * S: 3000}) + samples(1, {2 * S: 0, 3 * S: 500}, srtt_us=300)
    backlog = {S // 4: (10, 0, 0), S // 2: (30, 0, 0), S: (50, 0, 0), 3 * S: (70, 0, 0)}
    run_series = series(synthetic.tables(flows=flows, tcp=tcp, queues=sweeps(backlog)), 4 * S, Window(0, 4 * S), intervals=4)
    assert run_series.t_s.tolist() == [0.5, 1.5, 2.5, 3.5]
    np.testing.assert_array_equal(run_series.queue_bytes, [20, 50, np.nan, 70])
    np.testing.assert_array_equal(run_series.goodput_bps, [[8000] * 4, [0, 0, 4000, 4000]])
    np.testing.assert_array_equal(run_series.srtt_us, [[100] * 4, [np.nan, np.nan, 300, 300]])
    np.testing.assert_allclose(run_series.jain, [np.nan, np.nan, 0.9, 0.9])
    assert (run_series.queue_port, run_series.k_bytes) == ("s1-eth3", 3028)


def test_series_of_nothing() -> None:
    empty = series(synthetic.tables(), S, Window(0, S), intervals=5)
    assert empty.goodput_bps.shape == empty.srtt_us.shape == (0, 5) and empty.queue_port is None and empty.k_bytes is None
    assert np.isnan(empty.queue_bytes).all() and np.isnan(empty.jain).all()


def test_series_and_summary_agree() -> None:
    of: Tables = synthetic.run(interval_ns=MS, duration_ns=S)
    window = Window(0, S)
    mean = series(of, S, window, intervals=50).goodput_bps.mean(axis=1)
    np.testing.assert_allclose(mean, metrics.flow_goodput_bps(of, window))


def test_what_nics_did_is_summed_up_and_null_without_them() -> None:
    flows = [flow_row(0, transport="rdma", start_ns=S, end_ns=2 * S, status="done"), flow_row(1, transport="rdma")]
    nics = [
        {"flow": 0, "decisions": 30, "sent_bytes": 900, "sent_packets": 8, "resent_packets": 2, "cnps": 1},
        {"flow": 1, "decisions": 20, "sent_bytes": 100, "sent_packets": 2, "probe_bytes": 50, "nacks": 4, "timeouts": 3},
    ]
    summary = summarize(synthetic.tables(flows, nic_flows=nics), Window(0, 4 * S))
    assert summary["nic_decision_rate"] == pytest.approx(50 / (1 + 4))
    assert (summary["nic_probe_share"], summary["nic_resent_share"]) == pytest.approx((0.05, 0.2))
    assert [summary[f"nic_{name}"] for name in ("cnps", "nacks", "timeouts", "broken_messages")] == [1, 4, 3, 0]
    assert summary["nic_lost_events"] is None
    lost = [{"flow": 0, "lost_events": 5}, {"flow": 1, "lost_events": 2}]
    summary = summarize(synthetic.tables(flows, nic_flows=nics, nic_events=lost), Window(0, 4 * S))
    assert summary["nic_lost_events"] == 7
    without = summarize(synthetic.tables(flows), Window(0, 4 * S))
    assert {value for name, value in without.items() if name.startswith("nic_")} == {None}
