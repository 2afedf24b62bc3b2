# SPDX-License-Identifier: Apache-2.0
"""Drawings of networks: every node in its layer, every link in two halves whose colours are those of its ports."""

from __future__ import annotations

import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from dc_gym.results.figures.kit import new_figure
from dc_gym.results.figures.topology import IDLE_TO_FULL, PLAIN, draw_topology, lay_out
from dc_gym.topologies.presets import PRESETS, TopologySpec, build


def drawn(graph, utilization=None):
    axes = new_figure(6, 4).add_subplot()
    colours = draw_topology(graph, axes, utilization)
    lines = next(collection for collection in axes.collections if isinstance(collection, LineCollection))
    return axes, lines, colours


@pytest.mark.parametrize("name", PRESETS)
def test_layers_lie_above_each_other_and_no_two_nodes_in_one_place(name):
    graph = build(TopologySpec.of(preset=name))
    layout = lay_out(graph)
    assert set(layout.at) == {node.name for node in (*graph.hosts, *graph.switches)}
    assert len(set(layout.at.values())) == len(layout.at)
    assert all(0 < x < 1 for x, _ in layout.at.values())
    order = ["host", "edge", "agg", "core"]
    for cable in graph.cables:
        low, high = sorted((cable.a.node, cable.b.node), key=lambda node: order.index(layout.layer[node]))
        assert layout.layer[low] == layout.layer[high] or layout.at[low][1] < layout.at[high][1]


def test_hosts_stand_below_their_switch():
    layout = lay_out(build(TopologySpec.of(preset="parkinglot-1g")))
    left_to_right = sorted(layout.of_layer("host"), key=lambda node: layout.at[node][0])
    assert left_to_right == ["h1", "h2", "h3", "h6", "h4", "h7", "h5", "h8"]


def test_each_half_of_a_link_has_its_ports_colour():
    graph = build(TopologySpec.of(preset="acc24"))
    _, lines, colours = drawn(graph, {"h1-eth1": 1.0, "s5-eth2": 0.5})
    assert colours is not None and len(lines.get_segments()) == 2 * len(graph.cables)
    shades = [tuple(shade) for shade in lines.get_colors()]
    assert shades.count(IDLE_TO_FULL(1.0)) == shades.count(IDLE_TO_FULL(0.5)) == 1
    assert shades.count(IDLE_TO_FULL(0.0)) == len(shades) - 2
    x, y = lay_out(graph).at["h1"]
    near = lines.get_segments()[shades.index(IDLE_TO_FULL(1.0))][0]
    assert tuple(near) == pytest.approx((x, y))  # the half beside the host that sends


def test_without_utilization_all_is_plain():
    graph = build(TopologySpec.of(preset="dumbbell-10m"))
    axes, lines, colours = drawn(graph)
    assert colours is None and {tuple(shade) for shade in lines.get_colors()} == {to_rgba(PLAIN)}
    assert [text.get_text() for text in axes.texts] == ["h1", "h2", "h3", "h4", "s1", "s2"]


def test_parallel_links_lie_apart():
    graph = build(TopologySpec.of(preset="rlcc64"))
    starts = [tuple(segment[0]) for segment in drawn(graph)[1].get_segments()]
    assert len(set(starts)) == len(starts) - (len(graph.hosts) - 4)  # those of hosts begin together at their switch
