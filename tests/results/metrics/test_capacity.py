# SPDX-License-Identifier: Apache-2.0
"""Tests what links can carry of a run's flows, and how bursts in what programs read are moved to when they can have arrived."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import synthetic
from synthetic import S

from dc_gym.results.metrics import Window, series
from dc_gym.results.metrics.capacity import Capacity, arrived
from dc_gym.results.metrics.fairness import PAYLOAD_SHARE

SECONDS = np.arange(6) * 1e9


def network(*links: tuple[str, str, float]) -> list[dict[str, Any]]:
    """Returns the rows of ports.json for links between nodes, hosts' ports first."""
    rows, counts = [], dict[str, int]()
    for a, b, mbps in links:
        names = []
        for node in (a, b):
            counts[node] = counts.get(node, -1 if node.startswith("h") else 0) + 1
            names.append(f"{node}-eth{counts[node]}")
        common = {"rate_bps": round(mbps * 1e6), "delay_ns": 0, "buffer_bytes": 10**6, "k_bytes": None}
        rows += [{"name": names[end], "owner": (a, b)[end], "peer": names[1 - end], **common} for end in (0, 1)]
    return rows


DUMBBELL = network(("h1", "s1", 100), ("h2", "s1", 100), ("s1", "s2", 10), ("s2", "h3", 100), ("s2", "h4", 100))


def flows(*pairs: tuple[str, str], transport: str = "tcp") -> list[dict[str, Any]]:
    return [synthetic.flow_row(n, src=src, dst=dst, transport=transport) for n, (src, dst) in enumerate(pairs)]


def capacity(ports: list[dict[str, Any]], *pairs: tuple[str, str], **kind: Any) -> Capacity:
    return Capacity.of(synthetic.tables(flows=flows(*pairs, **kind), of_ports=ports))


def test_the_link_that_all_cross_bounds_them_together() -> None:
    limit = capacity(DUMBBELL, ("h1", "h3"), ("h2", "h4"))
    assert limit.total_bps == pytest.approx(10e6 * PAYLOAD_SHARE) and limit.flow_bps == pytest.approx([10e6 * PAYLOAD_SHARE] * 2)
    local = capacity(DUMBBELL, ("h1", "h3"), ("h1", "h2"))
    assert local.total_bps == pytest.approx(100e6 * PAYLOAD_SHARE), "their sender's: one of them does not cross the middle"
    assert local.flow_bps == pytest.approx([10e6 * PAYLOAD_SHARE, 100e6 * PAYLOAD_SHARE])


def test_two_ways_are_not_one_link() -> None:
    ring = network(("h1", "s1", 100), ("s1", "s2", 10), ("s1", "s3", 20), ("s3", "s2", 20), ("s2", "h2", 40))
    bounds = capacity(ring, ("h1", "h2"))
    assert bounds.flow_bps[0] == pytest.approx(20e6 * PAYLOAD_SHARE), "the wider of both ways"
    assert bounds.total_bps == pytest.approx(40e6 * PAYLOAD_SHARE), "the receiver's link; both ways together are not looked at"


def test_udp_has_shorter_headers() -> None:
    assert capacity(DUMBBELL, ("h1", "h3"), transport="udp").total_bps > 10e6 * PAYLOAD_SHARE


def test_without_peers_nothing_is_bounded() -> None:
    bounds = Capacity.of(synthetic.run())
    assert np.isinf(bounds.flow_bps).all() and np.isinf(bounds.total_bps)


def test_a_burst_arrives_as_late_as_the_link_allows() -> None:
    """The link carries 1 MB/s; nothing is read in the third second, and the fourth second reads what waited as well."""
    read = np.array([[0.0, 1, 2, 2, 4, 5]]) * 1e6
    curve = arrived(read, SECONDS, np.array([8e6]))
    assert curve[0] / 1e6 == pytest.approx([0, 1, 2, 3, 4, 5])
    assert arrived(read, SECONDS, np.array([16e6]))[0] / 1e6 == pytest.approx([0, 1, 2, 2, 4, 5]), "a link that can"
    assert arrived(read, SECONDS, np.array([np.inf]))[0] == pytest.approx(read[0])


def test_flows_that_burst_together_share_the_link() -> None:
    """Each flow alone could have the whole link; together they share it."""
    read = np.array([[0.0, 1, 1, 1, 4, 5], [0.0, 1, 1, 1, 4, 5]]) * 1e6
    alone = arrived(read, SECONDS, np.array([16e6, 16e6]))
    assert np.diff(alone[0]) / 1e6 == pytest.approx([1, 0, 1, 2, 1])
    together = arrived(read, SECONDS, np.array([16e6, 16e6]), 16e6)
    assert np.diff(together[0]) / 1e6 == pytest.approx([1, 1, 1, 1, 1])
    assert np.diff(together.sum(axis=0)).max() <= 2e6 * (1 + 1e-9)


def test_nothing_is_lost_and_nothing_too_fast() -> None:
    rng = np.random.default_rng(1)
    read = np.cumsum(rng.exponential(1e6, (20, 200)) * (rng.random((20, 200)) < 0.3), axis=1)
    read[:, 0] = 0
    edges = np.arange(200) * 1e8
    most = read[:, -1] / (edges[-1] / 1e9) * 8 * 1.5
    curve = arrived(read, edges, most)
    assert curve[:, -1] == pytest.approx(read[:, -1]) and (np.diff(curve, axis=1) >= -1e-6).all() and (curve >= read - 1e-6).all()
    rates = np.diff(curve[:, 1:], axis=1) * 8 / 0.1
    assert (rates <= most[:, None] * (1 + 1e-9)).all()


def test_the_series_of_a_figure_stays_below_the_link() -> None:
    samples = [
        {"t_ns": t * S, "flow": n, "bytes_received": read * 125_000, "srtt_us": 1}
        for t, read in enumerate((0, 4, 8, 8, 16, 20))
        for n in (0, 1)
    ]
    rows = [row | {"received_bytes": 20 * 125_000} for row in flows(("h1", "h3"), ("h2", "h4"))]
    tables = synthetic.tables(rows, tcp=samples, of_ports=DUMBBELL)
    as_read = series(tables, 5 * S, Window(0, 5 * S), 5)
    assert as_read.total_bps / 1e6 == pytest.approx([8, 8, 0, 16, 8]) and np.isinf(as_read.most_bps)
    drawn = series(tables, 5 * S, Window(0, 5 * S), 5, as_arrived=True)
    assert drawn.total_bps.max() <= drawn.most_bps == pytest.approx(10e6 * PAYLOAD_SHARE)
    assert drawn.total_bps.sum() == pytest.approx(as_read.total_bps.sum()), "what was read is all there"
    assert drawn.goodput_bps.sum(axis=0) == pytest.approx(drawn.total_bps)
    assert drawn.jain == pytest.approx(np.ones(5)), "and both have the same all the time"
