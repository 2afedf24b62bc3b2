# SPDX-License-Identifier: Apache-2.0
"""Networks in other tools' files: read twice, by the readers and by numpy, and refused in one line with their place."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.errors import SpecError, TopologyError
from dc_gym.base.readers import node_name
from dc_gym.spec import load
from dc_gym.topologies import files
from dc_gym.topologies.presets import TopologySpec, build

HPCC = "6 2 5\n4 5\n0 4 10Gbps 1us 0\n1 4 2.5GB/s 1000ns 0\n2 5 10Gbps 0.001ms 0\n3 5 10Mbps 0.000002s 0.001\n4 5 40Gbps 3us 0\n"
TOPO = """# two pods
Nodes 16
Tiers 3
podsize 8
color 7
Tier 0
Downlink_speed_Gbps 100
Radix_Down 4
Radix_Up 2
Oversubscribed 2
Downlink_Latency_ns 1000
Switch_Latency_ns 30
Queue_Up 100000
Tier 1
Downlink_speed_Gbps 100
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 2000
Switch_Latency_ns 50
Tier 2
Downlink_speed_Gbps 100
Radix_Down 4
Bundle 2
Downlink_Latency_ns 3000
"""
TEXTS = (HPCC, TOPO)


def made(folder, text, **keys):
    path = folder / "net.txt"
    path.write_text(text, newline="")
    return build(TopologySpec.of(kind="file", file=path, **{"buffer_bytes": 10**6} | keys))


def refused(folder, text, **keys):
    with pytest.raises(TopologyError) as excinfo:
        made(folder, text, **keys)
    assert "\n" not in str(excinfo.value) and len(str(excinfo.value)) < 400 + len(str(folder))
    return str(excinfo.value).removeprefix(f"{folder}/")


def links(graph):
    """Returns how many links join each two nodes."""
    nodes = [node.name for node in (*graph.hosts, *graph.switches)]
    matrix = np.zeros((len(nodes), len(nodes)), int)
    for cable in graph.cables:
        a, b = nodes.index(cable.a.node), nodes.index(cable.b.node)
        matrix[a, b] += 1
        matrix[b, a] += 1
    return nodes, matrix


def test_hpcc(tmp_path):
    graph = made(tmp_path, HPCC)
    assert [host.name for host in graph.hosts] == ["h0", "h1", "h2", "h3"]
    assert [(switch.name, switch.layer) for switch in graph.switches] == [("s4", "edge"), ("s5", "edge")]
    first, second, _, fourth, middle = graph.cables
    assert (first.rate_bps, first.delay_ns, second.rate_bps) == (10**10, 1000, 2 * 10**10)
    assert (fourth.rate_bps, fourth.delay_ns, fourth.impairment.loss_ppb) == (10**7, 2000, 10**6)
    assert (middle.rate_bps, middle.delay_ns, middle.impairment.loss_ppb) == (4 * 10**10, 3000, 0)
    assert made(tmp_path, "\ufeff" + HPCC.replace("\n", "\r\n")) == graph


def test_a_thousand_switches_are_what_numpy_reads(tmp_path):
    draw = random.Random(4)
    tors, spines = range(300, 1260), range(1260, 1300)
    pairs = [(host, tors[host]) for host in range(300)] + [(tor, draw.choice(spines)) for tor in tors for _ in range(2)]
    words = "".join(f"{a} {b} {draw.choice((10, 100))}Gbps {draw.randrange(1, 9)}us 0\n" for a, b in pairs)
    graph = made(tmp_path, f"1300 1000 {len(pairs)}\n{' '.join(map(str, (*tors, *spines)))}\n{words}")
    rows = np.loadtxt(tmp_path / "net.txt", dtype=str, skiprows=2)
    assert (len(graph.hosts), len(graph.switches), len(graph.cables)) == (300, 1000, len(rows)) == (300, 1000, 2220)
    mine = [
        (cable.a.node[1:], cable.b.node[1:], f"{cable.rate_bps // 10**9}Gbps", f"{cable.delay_ns // 1000}us")
        for cable in graph.cables
    ]
    assert mine == [tuple(row) for row in rows[:, :4]]


def test_simai_has_nvswitches_which_are_left_out(tmp_path):
    text = "7 2 1 2 7 H100\n4 5 6\n0 4 2880Gbps 0.000025ms 0\n1 4 2880Gbps 0.000025ms 0\n"
    text += "".join(f"{a} {b} 200Gbps 0.0005ms 0\n" for a, b in ((0, 5), (1, 6), (2, 5), (3, 6), (5, 6)))
    graph = made(tmp_path, text)
    assert [node.name for node in (*graph.hosts, *graph.switches)] == ["h0", "h1", "h2", "h3", "s5", "s6"]
    assert len(graph.cables) == 5 and {cable.delay_ns for cable in graph.cables} == {500}
    assert "1 NVSwitches and their links" in files.read(tmp_path / "net.txt").not_used[0]


def test_htsim_is_the_clos_network_of_its_radices(tmp_path):
    """Hosts of a ToR are two links apart, those of a pod four, others six; every switch has the links that the file gives it."""
    graph = made(tmp_path, TOPO)
    nodes, matrix = links(graph)
    assert [len([node for node in nodes if node[0] == letter]) for letter in "hLUC"] == [16, 4, 4, 2]
    expected = {"h": {1}, "L": {4 + 2}, "U": {2 + 2}, "C": {4}}
    assert {letter: {matrix[row].sum() for row, node in enumerate(nodes) if node[0] == letter} for letter in "hLUC"} == expected
    host, reached = np.arange(16), [np.linalg.matrix_power(matrix, length)[:16, :16] > 0 for length in (2, 4, 6)]
    for length, group in zip(reached, (4, 8, 16), strict=True):
        assert (length == (host[:, None] // group == host // group)).all()
    assert {cable.delay_ns for cable in graph.cables} == {1000 + 15, 2000 + 15 + 25, 3000 + 25}
    assert files.read(tmp_path / "net.txt").not_used == ("color", "queue_up")


def test_parallel_links_and_several_links_of_a_host_are_kept(tmp_path):
    """The ports of a host are planes of their own."""
    graph = made(tmp_path, HPCC.replace("6 2 5", "6 2 7") + "4 5 40Gbps 3us 0\n0 4 10Gbps 1us 0\n")
    nodes, matrix = links(graph)
    assert matrix[nodes.index("s4"), nodes.index("s5")] == 2 and len(graph.host("h0").nics) == 2


def test_nodes_without_links_and_words_at_the_end_are_told(tmp_path):
    graph = made(tmp_path, HPCC.replace("6 2 5\n4 5", "8 3 5\n4 5 7") + "and more\n")
    assert [node.name for node in (*graph.hosts, *graph.switches)] == ["h0", "h1", "h2", "h3", "s4", "s5"]
    assert files.read(tmp_path / "net.txt").not_used == ("2 words after the last of the 5 links", "2 nodes without a link: 6, 7")


HUGE = TOPO.replace("Nodes 16", "Nodes 800000").replace("Radix_Down 4\nBundle", "Radix_Down 200000\nBundle")
REFUSED = {
    "too few links": (HPCC.replace("6 2 5", "6 2 6"), "line 7: the file ends where a node of a link"),
    "a host joined to a host": (HPCC.replace("1 4 2.5", "1 0 2.5"), "line 4: hosts '1' and '0' are joined directly"),
    "a link from a node to itself": (HPCC.replace("4 5 40", "4 4 40"), "line 7: node '4' is at both ends"),
    "an island": (HPCC.replace("6 2 5", "6 2 4").replace("4 5 40Gbps 3us 0\n", ""), "cannot be reached from"),
    "no such node": (HPCC.replace("2 5 10", "2 9 10"), "line 5: a node of a link is 9, and nodes are 0 .. 5"),
    "a comment": (HPCC.replace("0 4 10", "# links\n0 4 10"), "line 3: '#' is not a node of a link"),
    "a negative node": (HPCC.replace("0 4 10", "-1 4 10"), "line 3: '-1' is not a node of a link"),
    "a negative rate": (HPCC.replace("4 10Gbps", "4 -10Gbps"), "line 3: '-10Gbps' is not a rate"),
    "no rate": (HPCC.replace("4 10Gbps", "4 0Gbps"), "line 3: the rate of the link is 0"),
    "a delay of years": (HPCC.replace("3us", "99999999999999999999s"), "line 7: delay_ns of cable"),
    "a wrong loss": (HPCC.replace("0.001\n", "1.5\n"), "line 6: '1.5' is not a share"),
    "loss that is no number": (HPCC.replace("0.001\n", "nan\n"), "line 6: 'nan' is not a share"),
    "nothing": ("", "is in no known format"),
    "junk": ("\x00\x01\x02" * 50, "is in no known format"),
    "one tier": (TOPO.replace("Tiers 3", "Tiers 1"), "line 3: tiers 1 is not 2 or 3"),
    "a tier that is missing": (TOPO.partition("Tier 2")[0], "downlink_speed_gbps of tier 2 is missing"),
    "pods that do not fit": (TOPO.replace("podsize 8", "podsize 5"), "line 4: podsize 5 does not divide nodes, 16"),
    "another oversubscription": (TOPO.replace("Oversubscribed 2", "Oversubscribed 1"), "line 10: oversubscribed 1 does not fit"),
    "another radix": (TOPO.replace("Radix_Down 2", "Radix_Down 4"), "line 16: radix_down 4 is not bundle x 2 below"),
    "a radix that leaves a ToR out": (TOPO.replace("podsize 8", "podsize 16"), "line 16: radix_down 2 is not bundle x 4 below"),
    "a number of nodes beyond all": (HPCC.replace("6 2 5", "9999999 2 5"), "line 1: '9999999' is not a number of nodes"),
    "too many links": (HUGE, "line 2: nodes 800000 gives 1600000 links"),
    "no number": (TOPO.replace("Bundle 2", "Bundle two"), "line 23: 'Bundle two' is not a word and a whole number"),
}


@pytest.mark.parametrize("text,words", REFUSED.values(), ids=REFUSED)
def test_a_mistake_is_one_line_with_its_place(tmp_path, text, words):
    assert words in refused(tmp_path, text)


def test_what_is_no_text_and_what_is_no_file_is_one_line(tmp_path):
    folder = tmp_path / ("deep" * 30)  # a long path takes no room from the reason and the remedy
    folder.mkdir()
    (folder / "junk").write_bytes(bytes(range(256)) * 9)
    for path in (folder / "junk", folder / "none", folder):
        with pytest.raises(TopologyError, match=r"cannot read it: [^/]*; give another file$") as excinfo:
            files.read(path)
        assert "\n" not in str(excinfo.value)


def test_keys_of_links_hold_where_a_file_gives_none(tmp_path, monkeypatch):
    topology = files.model.FileTopology(("a-1", "b"), ("tor-number-one",), (link("a-1"), link("b", delay_ns=7)))
    monkeypatch.setattr(files.FORMATS, "_read", lambda *_: topology)
    graph = made(tmp_path, "", rate_bps=10**9, delay_ns=5)
    tor = node_name("tor-number-one", "s")
    assert [node.name for node in (*graph.hosts, *graph.switches)] == ["a1", "b", tor] and len(tor) == 8
    assert [(cable.rate_bps, cable.delay_ns) for cable in graph.cables] == [(10**9, 5), (10**9, 7)]
    assert refused(tmp_path, "", delay_ns=5).startswith("topology.rate is missing")


def link(host, **values):
    return files.model.FileLink(host, "tor-number-one", **values)


def test_a_spec_is_a_spec_and_a_network_a_network(tmp_path):
    """By content: a TOML file with a name of htsim's is still a spec, and a file without an ending may be a network."""
    (tmp_path / "net").write_text(HPCC)
    assert load(tmp_path / "net").topology.kind == "file"
    toml = 'topology = { preset = "dctcp-10g" }\ncontroller.name = "dctcp"\nworkload.kind = "many_to_one"\ntime.duration = "1s"\n'
    (tmp_path / "spec.topo").write_text(toml)
    assert load(tmp_path / "spec.topo").topology.preset == "dctcp-10g"
    told = list[str]()
    (tmp_path / "net").write_text(HPCC.replace("6 2 5", "7 2 5"))
    load(tmp_path / "net", ["controller=dctcp"], say=told.append)
    assert told == ["net: not used: 1 nodes without a link: 6"]


def test_a_result_with_a_network_in_a_file_is_no_way_to_run_code(tmp_path):
    """`topology.file` is code with kind mininet alone, whatever other kinds declare a key of that name."""
    table = {"controller": {"name": "cubic"}, "workload": {"kind": "pairs"}, "time": {"duration": "1s"}}
    (tmp_path / "net.txt").write_text(HPCC)
    plain = {**table, "topology": {"kind": "file", "file": "net.txt", "buffer": "1MB"}}
    assert len(spec.without_code(plain, tmp_path).graph().hosts) == 4
    code = {**table, "topology": {"kind": "mininet", "file": "code/my.py", "buffer": "1MB", "rate": "1Gbit/s"}}
    with pytest.raises(SpecError, match=r"code/my\.py.* is code"):
        spec.without_code(code, tmp_path)
