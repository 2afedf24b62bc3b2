# SPDX-License-Identifier: Apache-2.0
"""Classes of flows: how they are told apart, and what summary.json, comparisons and figures say of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import synthetic

from dc_gym.results.figures import timeline
from dc_gym.results.metrics import Window, series, summarize
from dc_gym.results.metrics.classes import classes_of, flat, label
from dc_gym.results.tables import Tables

S = 10**9


def flow(number: int, transport: str, controller: str, received: int, **more: Any) -> dict[str, Any]:
    return synthetic.flow_row(number, transport=transport, controller=controller, received_bytes=received, **more)


def three_classes(dscps: tuple[int, ...] = (26, 26, 10, 0)) -> Tables:
    """Returns two flows over RDMA, of 1 and 3 MB, and two over TCP of 4 MB each, which differ in DSCP."""
    completion = {"size_bytes": 4_000_000, "status": "done", "end_ns": S // 2, "fct_ns": S // 2, "retransmits": 3}
    flows = [
        flow(0, "rdma", "dcqcn", 1_000_000),
        flow(1, "rdma", "dcqcn", 3_000_000),
        flow(2, "tcp", "cubic", 4_000_000, **completion),
        flow(3, "tcp", "cubic", 4_000_000),
    ]
    samples = [
        {"t_ns": t, "flow": n, "srtt_us": (n == 2) * 100 + (n == 3) * 300, "bytes_received": t * n // S}
        for t in (0, S // 2)
        for n in range(4)
    ]
    rows = [{"flow": n, "dscp": dscp} for n, dscp in enumerate(dscps)]
    return synthetic.tables(flows, tcp=samples, classes=rows if any(dscps) else [])


def test_transport_controller_and_dscp_make_a_class() -> None:
    classes = classes_of(three_classes())
    assert [traffic_class.label for traffic_class in classes] == ["rdma dcqcn, DSCP 26", "tcp cubic, DSCP 10", "tcp cubic"]
    assert [traffic_class.mask.tolist() for traffic_class in classes] == [
        [True, True, False, False],
        [False, False, True, False],
        [False] * 3 + [True],
    ]
    assert [traffic_class.label for traffic_class in classes_of(three_classes((0, 0, 0, 0)))] == ["rdma dcqcn", "tcp cubic"]
    assert label({"transport": "udp", "controller": "dcqcn", "dscp": 46}) == "udp, DSCP 46"


def test_each_class_has_its_numbers() -> None:
    rdma, tcp, other = summarize(three_classes(), Window(0, S))["classes"]
    assert (rdma["flows"], tcp["flows"], other["flows"]) == (2, 1, 1)
    assert (rdma["goodput_bps"], tcp["goodput_bps"]) == pytest.approx((32e6, 32e6))
    assert sum(numbers["goodput_share"] for numbers in (rdma, tcp, other)) == pytest.approx(1)
    assert [(numbers["jain_flows"], numbers["jain"]) for numbers in (tcp, other)] == [(0, None), (1, None)]
    assert rdma["jain"] == pytest.approx(16 / 20) and rdma["jain_flows"] == 2 and rdma["mean_srtt_us"] is None
    assert (tcp["mean_srtt_us"], other["mean_srtt_us"]) == (100, 300)
    assert (tcp["flows_done"], tcp["retransmits"], tcp["fct_flows"], tcp["fct_p50_s"]) == (1, 3, 1, 0.5)
    assert rdma["fct_flows"] == 0 and rdma["fct_mean_s"] is None


def test_alike_flows_have_no_classes() -> None:
    alike = synthetic.tables([synthetic.flow_row(0), synthetic.flow_row(1)])
    assert summarize(alike, Window(0, S))["classes"] is None and flat({"classes": None}) == {}
    assert series(alike, S, Window(0, S), 2).classes == ()


def test_a_comparison_names_classes_without_their_controllers() -> None:
    metrics = flat(summarize(three_classes(), Window(0, S)))
    assert metrics["rdma, DSCP 26: flows"] == 2 and metrics["tcp, DSCP 10: fct_p50_s"] == 0.5 and "tcp: jain" in metrics
    assert not any("cubic" in name or name.endswith("controller") for name in metrics)


def test_a_figure_shows_goodput_by_class() -> None:
    run = series(three_classes(), S, Window(0, S), 2)
    assert run.class_bps.shape == (3, 2)
    np.testing.assert_allclose(run.class_bps.sum(axis=0), run.total_bps)
    axes = timeline.run_figure(run, "t", ["a", "b", "c", "d"]).axes
    assert [ax.get_title(loc="left") for ax in axes][1:3] == ["Goodput by class", "Goodput of each flow"]
    legend = axes[1].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [traffic_class.label for traffic_class in run.classes]
    colors = [line.get_color() for line in axes[2].lines]
    assert colors[0] == colors[1] and len(set(colors)) == 3
