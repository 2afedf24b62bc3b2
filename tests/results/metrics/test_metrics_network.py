# SPDX-License-Identifier: Apache-2.0
"""Metrics that need more than a flow's own numbers: bins of sizes, fair shares on a network, convergence, tables of ports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import synthetic
from synthetic import MS, S, flow_row
from test_metrics import samples, sweeps

from dc_gym.results.metrics import Context, Routes, Sized, Window, flow_table, max_min, port_table, series, summarize
from dc_gym.results.metrics.convergence import epochs
from dc_gym.results.metrics.summary import FLOW_COLUMNS
from dc_gym.results.tables import TABLES, Tables


def sized(sizes: list[int], fct_ns: list[int], starts: list[int] | None = None) -> Tables:
    """Returns flows with a size; an FCT of -1 stands for a flow that did not finish."""
    rows = [
        flow_row(row, size_bytes=size, fct_ns=fct, start_ns=start, status="done" if fct >= 0 else "running")
        for row, (size, fct, start) in enumerate(zip(sizes, fct_ns, starts or [0] * len(sizes), strict=True))
    ]
    return synthetic.tables(flows=rows)


def test_slowdown_is_over_the_ideal_and_not_clamped() -> None:
    of = sized([1000, 1000, 2000], [50, 200, 900])
    stats = summarize(of, Context(Window(0, S), ideal_ns=np.array([100.0, 100.0, 300.0]), ideal_error=0.002))
    assert (stats["slowdown_mean"], stats["slowdown_p50"], stats["slowdown_flows"]) == (pytest.approx((0.5 + 2 + 3) / 3), 2.0, 3)
    assert stats["slowdown_p999"] == pytest.approx(2 + 0.998)
    assert stats["ideal_error"] == 0.002


def test_a_flow_without_an_ideal_counts_for_fct_alone() -> None:
    stats = summarize(sized([1000, 1000], [100, 300]), Context(Window(0, S), ideal_ns=np.array([100.0, np.nan])))
    assert (stats["fct_flows"], stats["slowdown_flows"], stats["slowdown_mean"], stats["fct_mean_s"]) == (2, 1, 1.0, 200e-9)


def test_flows_that_start_before_the_warm_up_or_after_the_cut_off_do_not_count() -> None:
    of = sized([10, 10, 10, 10], [100, 200, 300, -1], starts=[0, 1 * S, 3 * S - 1, 3 * S])
    summary = summarize(of, Context(Window(1 * S, 5 * S), cutoff_ns=3 * S))
    assert (summary["fct_flows"], summary["fct_unfinished"], summary["fct_mean_s"]) == (2, 0, 250e-9)
    summary = summarize(of, Context(Window(1 * S, 5 * S)))
    assert (summary["fct_flows"], summary["fct_unfinished"]) == (3, 1)
    table = flow_table(of, Context(Window(1 * S, 5 * S), cutoff_ns=3 * S))
    assert table["counted"].tolist() == [False, True, True, False] and list(table) == list(FLOW_COLUMNS)


def test_a_udp_flow_with_a_size_is_not_unfinished() -> None:
    """It has no completion time, done or not; neither has a flow whose turn did not come, which is counted as waiting."""
    flows = [
        flow_row(0, size_bytes=10, fct_ns=100, end_ns=100, status="done"),
        flow_row(1, size_bytes=10, end_ns=50, status="done", transport="udp"),
        flow_row(2, size_bytes=10, status="running", transport="udp"),
        flow_row(3, size_bytes=10, start_ns=-1, status="waiting"),
        flow_row(4, size_bytes=10, status="running"),
        flow_row(5, size_bytes=10, end_ns=90, status="failed"),
    ]
    summary = summarize(synthetic.tables(flows=flows), Window(0, S))
    assert (summary["fct_flows"], summary["fct_unfinished"], summary["flows_waiting"]) == (3, 2, 1)
    assert sum(size_bin["unfinished"] for size_bin in summary["fct_bins_homa"]) == 2
    counted = flow_table(synthetic.tables(flows=flows), Context(Window(0, S)))["counted"]
    assert counted.tolist() == [True, False, False, False, True, True]


def test_equal_bins_have_equally_many_flows_and_show_what_did_not_finish() -> None:
    sizes = list(range(1, 101))
    bins = summarize(sized(sizes, [-1 if size > 98 else size * 10 for size in sizes]), Window(0, S))["fct_bins_hpcc"]
    assert [size_bin["flows"] for size_bin in bins] == [5] * 20
    assert (bins[0]["from_bytes"], bins[0]["to_bytes"], bins[0]["fct_p50_s"]) == (1, 5, pytest.approx(30e-9))
    assert [size_bin["unfinished"] for size_bin in bins] == [0] * 19 + [2]
    assert bins[-1]["fct_p50_s"] == pytest.approx(970e-9), "percentiles are over the finished ones"


def test_flows_are_told_apart_by_what_they_are_for() -> None:
    flows = [
        flow_row(0, size_bytes=10, fct_ns=100, end_ns=100, status="done", group="response"),
        flow_row(1, size_bytes=30, fct_ns=300, end_ns=300, status="done", group="response"),
        flow_row(2, size_bytes=20, status="running", group="response"),
        flow_row(3, size_bytes=5, fct_ns=50, end_ns=50, status="done", group="query"),
        flow_row(4, status="running", group="background"),  # without a size
    ]
    context = Context(Window(0, S), ideal_ns=np.array([50.0, 100, 10, 50, np.nan]))
    query, response = summarize(synthetic.tables(flows=flows), context)["fct_groups"]
    assert (query["group"], query["flows"], query["unfinished"], query["slowdown_p99"]) == ("query", 1, 0, 1)
    assert (response["group"], response["flows"], response["unfinished"]) == ("response", 3, 1)
    assert (response["fct_mean_s"], response["slowdown_mean"]) == (pytest.approx(200e-9), 2.5)
    assert (response["from_bytes"], response["to_bytes"]) == (10, 30)


def test_few_flows_fill_few_bins() -> None:
    summary = summarize(sized([7, 5], [1, 1]), Window(0, S))
    assert [size_bin["from_bytes"] for size_bin in summary["fct_bins_hpcc"]] == [5, 7]


def test_pias_bins_have_fixed_edges() -> None:
    bins = Sized.of(sized([1, 100_000, 100_001, 10_000_001], [1, 1, 1, 1]).flows, Window(0, S)).bins("pias")
    assert [(size_bin["from_bytes"], size_bin["to_bytes"]) for size_bin in bins] == [
        (1, 100_000),
        (100_001, 100_001),
        (10_000_001, 10_000_001),
    ]


def test_max_min_of_a_parking_lot() -> None:
    """Bertsekas and Gallager, example 6.3 in kind: one long flow over both links, one short one a link."""
    shares = max_min([(0, 1), (0,), (1,)], np.array([10.0, 4.0]))
    assert shares.tolist() == [2.0, 8.0, 2.0]


def test_max_min_with_a_demand_gives_the_rest_to_others() -> None:
    assert max_min([(0,), (0,), (0,)], np.array([9.0]), np.array([1.0, np.inf, np.inf])).tolist() == [1.0, 4.0, 4.0]
    assert max_min([(0,)], np.array([9.0]), np.array([2.0])).tolist() == [2.0]


def test_no_flow_can_gain_but_at_the_cost_of_a_poorer_one() -> None:
    """The definition, on random networks: every flow crosses a full link on which no flow has more."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        capacity = rng.integers(1, 100, 12).astype(float)
        paths = [tuple(rng.choice(12, size=rng.integers(1, 5), replace=False)) for _ in range(30)]
        shares = max_min(paths, capacity)
        load = np.zeros(12)
        for path, share in zip(paths, shares, strict=True):
            load[list(path)] += share
        assert (load <= capacity * (1 + 1e-9)).all()
        for path, share in zip(paths, shares, strict=True):
            full = [port for port in path if load[port] >= capacity[port] * (1 - 1e-9)]
            richest = [max(s for p, s in zip(paths, shares, strict=True) if port in p) for port in full]
            assert any(share >= most * (1 - 1e-9) for most in richest)


def steady(rates_bps: list[tuple[float, float]], step_ns: int, second_from: int = 0) -> Tables:
    """Two flows through s1-eth3 whose rates in successive steps are given; the second starts with step `second_from`."""
    received = np.cumsum(np.array([(0.0, 0.0), *rates_bps]) * step_ns / 8e9, axis=0)
    stop = len(rates_bps) * step_ns
    flows = [flow_row(0, received_bytes=int(received[-1, 0]))]
    flows += [flow_row(1, start_ns=second_from * step_ns, received_bytes=int(received[-1, 1]))]
    tcp = samples(0, {t * step_ns: int(received[t, 0]) for t in range(len(rates_bps))})
    tcp += samples(1, {t * step_ns: int(received[t, 1]) for t in range(second_from, len(rates_bps))})
    assert stop % step_ns == 0
    return synthetic.tables(flows=flows, tcp=sorted(tcp, key=lambda row: (row["t_ns"], row["flow"])))


ROUTES = Routes([(0,), (0,)], np.array([np.inf, np.inf]))
FULL = 10e6 * 1448 / 1514


def test_convergence_and_reaction_after_a_join() -> None:
    """Alone for 30 steps; then 10 steps of 4:1, 4 of nearly equal, and equal from there on."""
    rates = [(FULL, 0.0)] * 30 + [(0.8 * FULL, 0.2 * FULL)] * 10 + [(0.65 * FULL, 0.35 * FULL)] * 4 + [(FULL / 2, FULL / 2)] * 30
    of = steady(rates, 10 * MS, second_from=30)
    flow_epochs = epochs(of, 740 * MS, ROUTES, 10 * MS, within=0.2)
    assert [(epoch.start_ns, epoch.flows, epoch.joined) for epoch in flow_epochs] == [(0, 1, 1), (300 * MS, 2, 1)]
    assert flow_epochs[0].reactions_ns == (0,) and flow_epochs[0].convergence_ns is None, "one flow converges to nothing"
    assert flow_epochs[1].reactions_ns == (140 * MS, 140 * MS)
    assert flow_epochs[1].convergence_ns == 140 * MS, "Jain's index of 0.65 and 0.35 is 0.917"
    summary = summarize(of, Context(Window(0, 740 * MS), routes=ROUTES, rate_interval_ns=10 * MS))
    assert (summary["epochs"], summary["convergence_mean_s"], summary["convergence_never"]) == (2, 0.14, 0)
    assert (summary["reaction_p50_s"], summary["reaction_never"]) == (0.14, 0)


def test_what_never_converges_is_counted() -> None:
    of = steady([(0.9 * FULL, 0.1 * FULL)] * 60, 10 * MS)
    summary = summarize(of, Context(Window(0, 600 * MS), routes=ROUTES, rate_interval_ns=10 * MS))
    assert (summary["convergence_mean_s"], summary["convergence_never"], summary["reaction_never"]) == (None, 1, 2)
    assert summary["maxmin_least"] == pytest.approx(0.2, rel=1e-3) and summary["maxmin_total"] == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("most", ["MOST_EPOCHS", "MOST_FLOWS"])
def test_too_many_epochs_or_flows_to_look_at_are_null_and_not_0(most: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = steady([(FULL, 0.0)] * 30 + [(FULL / 2, FULL / 2)] * 30, 10 * MS, second_from=30)
    context = Context(Window(0, 600 * MS), routes=ROUTES, rate_interval_ns=10 * MS)
    names = [name for name in summarize(of, context) if name.startswith(("epochs", "convergence_", "reaction_"))]
    assert summarize(of, context)["epochs"] == 2 and len(names) == 7
    monkeypatch.setattr(f"dc_gym.results.metrics.convergence.{most}", 1)
    limited = summarize(of, context)
    assert [limited[name] for name in names] == [None] * 7
    nobody = summarize(synthetic.tables(), context)
    assert nobody["epochs"] == 0, "none of them is a number"


def test_changes_that_follow_fast_are_one() -> None:
    of = steady([(FULL / 2, FULL / 2)] * 60, 10 * MS, second_from=3)
    flow_epochs = epochs(of, 600 * MS, ROUTES, 10 * MS, within=0.2)
    assert [(epoch.start_ns, epoch.joined, epoch.flows) for epoch in flow_epochs] == [(30 * MS, 2, 2)]


def test_ports_have_their_queues_delays_and_utilization() -> None:
    backlog = {0: (9, 9, 9), 1 * S: (1000, 4000, 0), 2 * S: (9000, 2000, 0)}
    tx = {0: (0, 0, 0), 1 * S: (100, 0, 0), 2 * S: (625_100, 0, 0)}
    ports = port_table(synthetic.tables(queues=sweeps(backlog, tx_bytes=tx, drops=tx)), Window(1 * S, 3 * S))
    assert ports["port"].tolist() == ["s1-eth3", "h1-eth0", "h2-eth0"] and ports["side"].tolist() == ["switch", "host", "host"]
    assert ports["mean_queue_bytes"].tolist() == [5000, 3000, 0] and ports["max_queue_bytes"][1:].tolist() == [4000, 0]
    assert np.isnan(ports["max_queue_bytes"][0]), "it dropped, so its queue was longer than 9000 bytes"
    assert ports["mean_delay_s"].tolist() == [0.004, 0.0024, 0]
    assert ports["utilization"].tolist() == [0.5, 0, 0] and ports["drops"].tolist() == [625_000, 0, 0]


def test_a_host_s_queue_is_told_from_a_switch_s() -> None:
    backlog = {0: (1000, 4000, 0), 1 * S: (3000, 4000, 0)}
    summary = summarize(synthetic.tables(queues=sweeps(backlog)), Window(0, 2 * S))
    assert (summary["bottleneck_port"], summary["switch_port"], summary["host_port"]) == ("h1-eth0", "s1-eth3", "h1-eth0")
    assert (summary["switch_mean_queue_bytes"], summary["host_mean_queue_bytes"]) == (2000, 4000)


def test_drops_and_marks_are_set_against_what_hosts_sent() -> None:
    times = {0: (0, 0, 0), 1 * S: (0, 0, 0)}
    counts: dict[str, Any] = {
        "tx_packets": {0: (0, 0, 0), 1 * S: (80, 60, 30)},
        "drops": {0: (0, 0, 0), 1 * S: (10, 10, 0)},
        "marks": {0: (0, 0, 0), 1 * S: (25, 0, 0)},
    }
    summary = summarize(synthetic.tables(queues=sweeps(times, **counts)), Window(0, 2 * S))
    assert (summary["drop_ratio"], summary["mark_ratio"]) == (0.2, 0.25)


def test_many_flows_are_summed_up() -> None:
    """With 100,000 flows the summary has no list of flows, and its sums agree with what the flows received."""
    count = 100_000
    flows = np.zeros(count, TABLES["flows"].dtype)
    flows["flow"], flows["size_bytes"], flows["received_bytes"] = np.arange(count), 1000, 1000
    flows["start_ns"] = np.arange(count) * (S // count)
    flows["fct_ns"], flows["end_ns"] = 10_000, flows["start_ns"] + 10_000
    flows["src"], flows["dst"] = 1, 2
    of = Tables.build(flows=flows, queues=synthetic.array("queues", []), tcp=synthetic.array("tcp", []), ports=synthetic.ports())
    summary = summarize(of, Context(Window(0, 2 * S), ideal_ns=np.full(count, 5_000.0)))
    assert summary["flow_goodput_bps"] is None and summary["goodput_bps"] == pytest.approx(count * 1000 * 8 / 2)
    assert [size_bin["flows"] for size_bin in summary["fct_bins_hpcc"]] == [5000] * 20 and summary["slowdown_p99"] == 2
    drawn = series(of, 2 * S, Window(0, 2 * S), 50)
    assert drawn.goodput_bps.shape == (0, 50) and drawn.flows == count
    assert drawn.total_bps.sum() / 50 == pytest.approx(summary["goodput_bps"])
