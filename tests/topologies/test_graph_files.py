# SPDX-License-Identifier: Apache-2.0
"""Networks of containerlab, in GML and in GraphML: read twice, the second time by PyYAML or networkx, and refused in one line."""

from __future__ import annotations

import sys

import networkx as nx
import pytest
import yaml
from readers import CLAB, ZOO

from dc_gym.base.errors import TopologyError
from dc_gym.topologies import files
from dc_gym.topologies.presets import TopologySpec, build

NODES = "topology:\n  nodes: {a: {kind: linux}, s: {kind: bridge}}\n  links:\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


def read(folder, text):
    (folder / "net").write_text(text, newline="")
    return files.read(folder / "net")


def refused(folder, text):
    with pytest.raises(TopologyError) as excinfo:
        read(folder, text)
    assert "\n" not in str(excinfo.value) and len(str(excinfo.value)) < 400 + len(str(folder))
    return str(excinfo.value).removeprefix(f"{folder}/net: ")


def test_containerlab(tmp_path):
    network = read(tmp_path, CLAB)
    assert network.hosts == ("c1", "c2", "two") and network.switches == ("leaf-1", "leaf-2", "spine", "br", "edge")
    plain = yaml.safe_load(CLAB)["topology"]
    between = [link for link in plain["links"] if "endpoints" in link and "mgmt-net" not in str(link)]
    ends = [[end["node"] if isinstance(end, dict) else end.split(":")[0] for end in link["endpoints"]] for link in between]
    assert [[link.a, link.b] for link in network.links] == ends
    assert [(link.rate_bps, link.delay_ns, link.loss_ppb) for link in network.links[:3]] == [
        *((None, None, 0), (100_000, 5_000_000, 10**7), (10**9, None, 0))
    ]
    assert network.links[1].line == 17
    told = ["links with jitter", "links to the outside: mgmt-net", "links to the outside: host", "nodes without a link: gnmic"]
    assert list(network.not_used) == [f"1 {line}" for line in told]
    assert read(tmp_path, CLAB.replace("\n", "\r\n")) == network
    alone = read(tmp_path, CLAB.replace("kind: linux", "kind: sonic-vs").replace("frrouting/frr", "x"))
    assert len(alone.hosts) == len(alone.switches) == 8 and "host of its own" in alone.assumed[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NODES + '    - endpoints: ["a:eth1", "b:eth1"]\n', "line 4: endpoint 'b:eth1'"),
        (NODES + '    - endpoints: ["a:e1", "s:e1"]\n    - endpoints: ["a:e1", "s:e2"]\n', "line 5: interface 'a:e1'"),
        (NODES + '    - endpoints: ["a:eth1"]\n', "line 4: it has not two endpoints"),
        (NODES + '    - {endpoints: ["a:e1", "s:e1"], vars: {delay: -1ms}}\n', "line 4: delay: value '-1ms'"),
        (NODES + "    - 7\n", "is no table"),
        (NODES, "joins 0 pairs"),
        ("topology: [\n", "line 2: it is not YAML"),
        ("topology:\n  nodes: {a: {}}\n", "line 2: node 'a' has no kind"),
        ("topology: &t {nodes: *t}\n", "anchors"),
        (BOMB + "topology: *h\n", "anchors"),
    ],
)
def test_containerlab_is_refused_with_its_line(text, said, tmp_path):
    assert said in refused(tmp_path, text)


def test_hosts_that_are_joined_directly_are_refused_with_the_line(tmp_path):
    (tmp_path / "net").write_text(NODES.replace("bridge", "linux") + '    - endpoints: ["a:eth1", "s:eth1"]\n')
    with pytest.raises(TopologyError, match=r"line 4: hosts 'a' and 's'"):
        build(TopologySpec.of(kind="file", file=tmp_path / "net", rate_bps=10**9, delay_ns=0, buffer_bytes=10**5))


@pytest.mark.parametrize("roles", [True, False])
def test_networkx_reads_the_same_graph(roles, tmp_path):
    """A tree: its leaves are its hosts, or what their type says."""
    graph = nx.balanced_tree(3, 3)
    hosts = {node for node in graph if graph.degree(node) == 1}
    nx.set_node_attributes(graph, {node: {"type": "host" if node in hosts else "switch"} for node in graph} if roles else {})
    nx.set_edge_attributes(graph, "10 Gbps", "bandwidth")
    nx.write_gml(graph, tmp_path / "gml")
    nx.write_graphml(graph, tmp_path / "graphml")
    for name in ("gml", "graphml"):
        network = files.read(tmp_path / name)
        assert {int(host) for host in network.hosts} == hosts and len(network.switches) == len(graph) - len(hosts)
        assert {(int(link.a), int(link.b)) for link in network.links} == set(graph.edges)
        assert {link.rate_bps for link in network.links} == {10**10} and bool(network.assumed) != roles
        made = build(TopologySpec.of(kind="file", file=tmp_path / name, delay_ns=0, buffer_bytes=10**5))
        assert (len(made.hosts), len(made.cables)) == (len(hosts), graph.number_of_edges())


def test_a_map_has_a_host_at_each_place(tmp_path):
    network = read(tmp_path, ZOO)
    assert network.switches == ("New York", "? 1", "? 2") and network.hosts == ("h New York", "h ? 1", "h ? 2")
    assert [(link.rate_bps, link.delay_ns, link.loss_ppb) for link in network.links[:3]] == [
        *((2_500_000_000, None, 0), (10**10, 2_000_000, 0), (155_000_000, None, 250_000_000))
    ]
    assert list(network.not_used) == ["delay, a number without a unit, of 1 edges", "1 edges from a node to itself"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("graph [ node [ id 0 ] node [ id 0 ] ]", "duplicated"),
        ("graph [\n node [ id 0 ]\n $ ]", "(3, 2)"),
        (ZOO.replace("0.25", "-0.5"), "loss"),
        (ZOO.replace("155", "-1"), "capacity_mbps -1"),
        ("graph [ node [ id 0 ] ]", "0 links"),
        ('<!DOCTYPE x [<!ENTITY a "aa">]><graphml>&a;</graphml>', "document type"),
        ("<graphml", "networkx does not read it"),
    ],
)
def test_a_graph_is_refused(text, said, tmp_path):
    assert said in refused(tmp_path, text)


@pytest.mark.parametrize(("library", "text"), [("yaml", CLAB), ("networkx", ZOO)])
def test_without_its_library_a_file_is_refused_with_the_extra(library, text, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    assert "pip install 'dc-gym[files]'" in refused(tmp_path, text)
