# SPDX-License-Identifier: Apache-2.0
"""Classes, shared buffers and pauses as plain data: keys that do not go together, headroom, quanta, and what each port gets."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dc_gym.base import record_file
from dc_gym.base.errors import ProtocolError, SpecError
from dc_gym.base.progress import Quiet
from dc_gym.monitors.state_matrix import COLUMNS, HEADER, NAME_LEN
from dc_gym.run import runner
from dc_gym.run.plan import inputs, nics
from dc_gym.run.result.read_back import class_pieces, queue_pieces
from dc_gym.spec import from_dict
from dc_gym.topologies.buffers import ClassRule, pausing_ports, quanta_of_weights
from dc_gym.topologies.graph import DSCPS, Graph, Queue
from dc_gym.topologies.presets import build
from dc_gym.topologies.realize import tc
from dc_gym.topologies.topology_spec import TopologySpec
from dc_gym.traffic.flows import FlowRequest

GBPS, FRAME = 10**9, 1514
SHARED = {"shared_buffer": "1MB"}
OWN = {"buffer": "1MB"}
PFC = {**SHARED, "pfc": "classes"}
TCP, RDMA = {"name": "tcp", "dscp": [0]}, {"name": "rdma", "dscp": [26]}


def read(topology: dict[str, Any], **changes: Any) -> Graph:
    """Returns the network of a spec."""
    network = {"kind": "single", "hosts": 4, "rate": "10Gbit/s", "delay": "1us"}
    data = {"name": "buffers", "topology": network | topology, "controller": {"name": "cubic"}, "workload": {"kind": "pairs"}}
    return from_dict({**data, "time": {"duration": "1ms"}, **changes}, Path()).graph()


def network(**changes: Any) -> Graph:
    fields = {"kind": "single", "hosts": 3, "rate_bps": 10 * GBPS, "delay_ns": 1000, "shared_buffer_bytes": 10**6}
    return build(TopologySpec.of(**(fields | changes)))


def rules(*pairs: tuple[str, int | None]) -> tuple[ClassRule, ...]:
    return tuple(ClassRule(name=name, dscp=(number,), weight=weight) for number, (name, weight) in enumerate(pairs))


def of_class(topology: dict[str, Any], **key: Any) -> dict[str, Any]:
    return {**topology, "classes": [{**TCP, **key}]}


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a DSCP twice": ({**OWN, "classes": [RDMA, {**TCP, "dscp": [26]}]}, "classes[1].dscp = [26]: is of class 'rdma', too"),
    "weights": ({**OWN, "classes": [{**TCP, "weight": 60}, {**RDMA, "weight": 30}]}, "their weights sum to 90; make it 100"),
    "no weight": (of_class(OWN, weight=0), "topology.classes[0].weight = 0: is below 1"),
    "too much weight": (of_class(OWN, weight=101), "topology.classes[0].weight = 101: is above 100"),
    "nine classes": (
        {**OWN, "classes": [{"name": f"c{n}", "dscp": [n]} for n in range(9)]}, "9 classes are above 8, which a port has",
    ),
    "a name twice": ({**OWN, "classes": [TCP, {**RDMA, "name": "tcp"}]}, "two classes have the name 'tcp'; rename one"),
    "a bad name": (of_class(OWN, name="A b"), "'A b' is not up to 15 small letters, digits and dashes; rename it"),
    "the mark of rows": (of_class(OWN, name="a:b"), "'a:b' is not up to 15 small letters"),
    "no name": ({**OWN, "classes": [{"dscp": [1]}]}, "topology.classes[0].name: is missing; write a name"),
    "no DSCPs": ({**OWN, "classes": [{"name": "a"}]}, "topology.classes[0].dscp: is missing; write a list such as [26, 34]"),
    "too large a DSCP": (of_class(OWN, dscp=[64]), "topology.classes[0].dscp = [64]: is not understood; write a list"),
    "a negative DSCP": (of_class(OWN, dscp=[-1]), "topology.classes[0].dscp = [-1]: is not understood"),
    "a bare DSCP": (of_class(OWN, dscp=5), "topology.classes[0].dscp = 5: is a bare number; write a list such as [26, 34]"),
    "no such marking": (of_class(OWN, marking="secn9"), 'topology.classes[0].marking = "secn9": unknown; did you mean secn0'),
    "too small a pool": (
        {**SHARED, "shared_buffer": "20kB", "pfc": "classes"},
        "topology.shared_buffer: 20000 bytes are too few, for s1 reserves 0 bytes for classes and 28408 for headroom; enlarge it",
    ),
    "too large reserves": (
        {**SHARED, "reserve": "250kB"}, "s1 reserves 1000000 bytes for classes and 0 for headroom; enlarge it",
    ),
    "pfc alone": ({**OWN, "pfc": "classes"}, 'topology.pfc = "classes": charges frames to a shared buffer; give topology.shared'),
    "no headroom": ({**PFC, "headroom": "0B"}, 'topology.headroom = "0B": leaves no room for frames on their way'),
    "a frame does not fit": ({**PFC, "headroom": "1.5kB"}, 'topology.headroom = "1.5kB": leaves no room for frames on their way'),
    "no xoff": ({**PFC, "xoff": "0B"}, 'topology.xoff = "0B": pauses the peer for every frame; give a share of the free room'),
    "no rule of xoff": (
        {**PFC, "xoff": "fdc"}, 'xoff = "fdc": is not understood; write a share of the free room such as "1/16", "fdcc", "acc",',
    ),
    "a bare xoff": ({**PFC, "xoff": "100"}, 'topology.xoff = "100": is not understood; write a share of the free room such as'),
    "an ambiguous xoff": ({**PFC, "xoff": "9KB"}, """topology.xoff = "9KB": may be decimal or binary; write '9kB'"""),
    "no class": ({**OWN, "classes": []}, "topology.classes = []: has no class; leave it out for ports with one queue"),
    "less than a frame": ({"shared_buffer": "1kB"}, 'topology.shared_buffer = "1kB": is below 1514B; give that or more'),
    "too large a buffer": ({"shared_buffer": "5GB"}, 'topology.shared_buffer = "5GB": is above 2147483647B; give that or less'),
    "lossless alone": (of_class(OWN, lossless=True), 'needs pauses; give topology.pfc = "classes"'),
    "nothing to pause": (of_class(PFC), "has no class to pause; give one of topology.classes lossless = true"),
    "no such pfc": ({**SHARED, "pfc": "on"}, 'topology.pfc = "on": unknown; one of: off, classes, port'),
    "stock and a pool": ({**SHARED, "qdisc": "stock"}, 'qdisc = "stock": has no classes, no shared buffer and no pauses'),
    "stock and classes": (of_class({**OWN, "qdisc": "stock"}), 'topology.qdisc = "stock": has no classes'),
    "fq and classes": (of_class({**OWN, "host_qdisc": "fq"}), 'topology.host_qdisc = "fq": has no classes; leave it out'),
    "a share above 1": ({**PFC, "xoff": "3/2"}, 'topology.xoff = "3/2": '),
    "no quanta": ({**PFC, "pfc_quanta": 0}, "topology.pfc_quanta = 0: is below 1"),
    "too many quanta": ({**PFC, "pfc_quanta": 65536}, "topology.pfc_quanta = 65536: is above 65535"),
    "no alpha": ({**SHARED, "alpha": 0.0}, "topology.alpha = 0.0: is below"),
    "alpha alone": ({**OWN, "alpha": 2.0}, "topology.alpha = 2.0: has no effect without topology.shared_buffer; give it"),
    "reserve alone": ({**OWN, "reserve": "1kB"}, 'topology.reserve = "1kB": has no effect without topology.shared_buffer'),
    "xoff alone": ({**SHARED, "xoff": "1/16"}, 'topology.xoff = "1/16": has no effect without topology.pfc; give it'),
    "xon alone": ({**SHARED, "xon_below": "1kB"}, 'topology.xon_below = "1kB": has no effect without topology.pfc'),
    "headroom alone": ({**SHARED, "headroom": "9kB"}, 'topology.headroom = "9kB": has no effect without topology.pfc'),
    "quanta alone": ({**SHARED, "pfc_quanta": 9}, "topology.pfc_quanta = 9: has no effect without topology.pfc"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_in_one_line(name: str) -> None:
    topology, words = MISTAKES[name]
    with pytest.raises(SpecError) as excinfo:
        read(topology)
    assert words in str(excinfo.value) and "\n" not in str(excinfo.value)


@pytest.mark.parametrize("topology", [SHARED, of_class(OWN)], ids=["shared_buffer", "classes"])
def test_the_host_ground_has_none_of_it(topology: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match='ground = "lab"'):
        read(topology, ground="host")


# --- amounts


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, 2 * 1250 + 60 + 3 * FRAME),
        ({"rate_bps": 100 * GBPS, "delay_ns": 600}, 2 * 7500 + 60 + 3 * FRAME),
        ({"jitter_ns": 1000, "rate_bps": GBPS}, 2 * 250 + 60 + 3 * FRAME),
        ({"pfc": "port"}, 2 * 1250 + 60 + 3 * FRAME),
        ({"headroom_bytes": 20_000}, 20_000),
    ],
    ids=str,
)
def test_headroom_is_that_of_the_document(changes: dict[str, Any], expected: int) -> None:
    graph = network(**({"pfc": "classes"} | changes))
    assert {port.queue.pause.headroom_bytes for port in pausing_ports(graph)} == {expected}
    assert {port.queue.pool.bytes for port in graph.switch_ports()} == {10**6 - 3 * expected}


def test_a_run_warns_of_less_headroom_than_a_pause_needs(capsys: pytest.CaptureFixture[str]) -> None:
    for changes in ({}, {"headroom_bytes": 2 * 1250 + 60 + 3 * FRAME}):
        runner.warn_of_headroom(network(pfc="classes", **changes), Quiet())
    assert capsys.readouterr().err == ""
    runner.warn_of_headroom(network(pfc="classes", headroom_bytes=5000), Quiet())
    warning = "dcgym: warning: topology.headroom may lose frames: s1-eth1 needs 7102 bytes; leave it out\n"
    assert capsys.readouterr().err == warning


def test_each_lossless_class_has_headroom_and_waits_for_the_pauses_of_the_others() -> None:
    two = (ClassRule(name="a", dscp=(1,), lossless=True), ClassRule(name="b", dscp=(2,), lossless=True))
    graph = network(pfc="classes", classes=(*two, ClassRule(name="c", dscp=(0,))), reserve_bytes=3000)
    headroom = 2 * 1250 + 2 * 60 + 3 * FRAME
    pools = {port.queue.pool.bytes for port in graph.switch_ports()}
    assert pools == {10**6 - 3 * (2 * headroom + 3 * 3000)}


@pytest.mark.parametrize(("dscps", "stops"), [((1,), 0b001), ((2,), 0b010), ((1, 2), 0b011), ((0, 9), 0)])
def test_a_ring_stops_for_the_lossless_classes_of_its_flows(dscps: tuple[int, ...], stops: int) -> None:
    """DSCP 0 has a lossy class, and DSCP 9 is in none, so it is of the first, which is lossy here."""
    rules = (
        ClassRule(name="c", dscp=(0,)),
        ClassRule(name="a", dscp=(1,), lossless=True),
        ClassRule(name="b", dscp=(2,), lossless=True),
    )
    graph = network(pfc="classes", classes=rules)
    requests = [FlowRequest("h1", "h2", 5001, transport="rdma", dscp=dscp) for dscp in dscps]
    tcp = FlowRequest("h1", "h2", 5001, transport="tcp", dscp=1)
    flows = [SimpleNamespace(request=request) for request in (*requests, tcp)]
    experiment: Any = SimpleNamespace(graph=graph, schedule=SimpleNamespace(flows=flows))
    assert nics.ring_classes(experiment) == stops << 1


@pytest.mark.parametrize(
    ("weights", "quanta"),
    [
        ([("a", 30), ("b", 70)], [FRAME, 3533]),
        ([("a", None), ("b", 1), ("c", 99)], [0, FRAME, 99 * FRAME]),
        ([("a", None), ("b", None)], [0, 0]),
        ([("a", 100)], [FRAME]),
    ],
)
def test_the_smallest_weight_has_a_full_frame(weights: list[tuple[str, int | None]], quanta: list[int]) -> None:
    assert list(quanta_of_weights(rules(*weights), 1514).values()) == quanta


@pytest.mark.parametrize(
    ("xoff", "expected"),
    [
        (None, (0, 1, 16)),
        ("fdcc", (0, 1, 16)),
        ("acc", (0, 1, 9)),
        ("2/6", (0, 1, 3)),
        ("1/1", (0, 1, 1)),
        ("100kB", (100_000, 0, 0)),
    ],
)
def test_xoff_is_a_share_or_bytes(xoff: str | None, expected: tuple[int, int, int]) -> None:
    graph = read(PFC if xoff is None else {**PFC, "xoff": xoff})
    pause = next(pausing_ports(graph)).queue.pause
    assert (pause.xoff_bytes, pause.share, pause.share_of) == expected
    assert (pause.xon_below_bytes, pause.quanta, pause.whole_port) == (3000, 65535, False)
    assert not expected[2] or Fraction(pause.share, pause.share_of) <= 1


# --- networks


def test_each_switch_has_a_pool_and_each_of_its_ports_takes_from_it() -> None:
    graph = build(TopologySpec.of(preset="dumbbell-1g", shared_buffer_bytes=500_000))
    pools = {switch.name: {port.queue.pool for port in graph.ports_of(switch.name)} for switch in graph.switches}
    assert [len(switch_pools) for switch_pools in pools.values()] == [1, 1]
    assert [pool.number for switch_pools in pools.values() for pool in switch_pools] == [1, 2]
    assert all(port.queue.pool is None and port.queue.pause is None for host in graph.hosts for port in graph.ports_of(host.name))
    assert type(graph).from_json(graph.to_json()) == graph


def test_a_network_without_classes_has_one_of_all_packets() -> None:
    lossy, lossless = network(), network(pfc="port", alpha=0.5)
    assert [rule.name for rule in lossy.ports_of("s1")[0].queue.classes] == ["all"]
    assert not lossy.ports_of("h1")[0].queue.classes and not list(pausing_ports(lossy))
    only = lossless.ports_of("s1")[0].queue.classes[0]
    assert (only.lossless, only.alpha_2_16, lossless.ports_of("s1")[0].queue.pause.whole_port) == (True, 2**15, True)
    assert [rule.name for rule in lossless.ports_of("h1")[0].queue.classes] == ["all"], "hosts tell how long they were paused"
    plain = network(pfc="classes", host_qdisc="fq").ports_of("h1")[0].queue
    assert (plain.kind, plain.classes) == ("fq", ()), "a pause stops it as a whole"


def test_hosts_have_the_classes_of_switches_without_marking() -> None:
    class_rules = (ClassRule(name="tcp", dscp=(0,), weight=30, marking="secn1"), ClassRule(name="rdma", dscp=(26, 46), weight=70))
    graph = network(classes=class_rules)
    switch, host = graph.ports_of("s1")[0].queue, graph.ports_of("h1")[0].queue
    for queue in (switch, host):
        assert [(rule.name, rule.dscps, rule.quantum_bytes) for rule in queue.classes] == [
            ("tcp", (0,), FRAME),
            ("rdma", (26, 46), 3533),
        ]
    assert [rule.marking.kind for rule in switch.classes] == ["red-instant", "none"]
    assert {rule.marking.kind for rule in host.classes} == {"none"}
    assert switch.marking == switch.classes[0].marking, "the actuator marking sets the first class"


def test_packets_of_no_class_belong_to_the_first() -> None:
    queue: Queue = network(classes=rules(("a", None), ("b", None), ("c", None))).ports_of("s1")[0].queue
    numbers = tc.class_of_dscp(queue)
    assert len(numbers) == DSCPS and list(numbers[:3]) == [0, 1, 2] and not any(numbers[3:])


# --- rows of the state matrix, and what a result has of them


def test_classes_are_rows_behind_all_ports(tmp_path: Path) -> None:
    graph = network(classes=rules(("a", None), ("b", None)))
    inputs.write_rows(tmp_path / "ports", graph)
    rows = _records(tmp_path / "ports")
    ports = [port.ifname for port in graph.ports()]
    assert [name.decode() for name in rows["name"]] == ports + [f"{port}:{name}" for port in ports for name in "ab"]
    assert rows["class"].tolist() == [0] * len(ports) + [1, 2] * len(ports)
    inputs.write_ports(tmp_path / "plain", graph)
    assert [name.decode() for name in _records(tmp_path / "plain")["name"]] == ports


def _records(path: Path) -> Any:
    return np.frombuffer(path.read_bytes(), inputs.PORT.dtype, offset=record_file.HEADER.itemsize)


def trace(path: Path, rows: tuple[str, ...], sweeps: int) -> Path:
    """Writes a trace whose cells are 1000 x sweep + 100 x row + column."""
    end = HEADER.itemsize + (len(rows) + len(COLUMNS)) * NAME_LEN
    head = np.zeros(1, HEADER)
    values = {"magic": b"DCGYMSM1", "version_major": 2, "header_len": 256, "rows": len(rows), "cols": len(COLUMNS)}
    values |= {"off_row_names": 256, "off_col_names": 256 + len(rows) * NAME_LEN, "off_cells": end, "total_len": end}
    for name, value in values.items():
        head[name] = value
    names = b"".join(label.encode().ljust(NAME_LEN, b"\0") for label in (*rows, *COLUMNS))
    cells = np.add.outer(100 * np.arange(len(rows)), np.arange(len(COLUMNS))).astype("<u8")
    body = b"".join(np.uint64(50 + k).tobytes() + (cells + np.uint64(1000 * k)).tobytes() for k in range(sweeps))
    path.write_bytes(head.tobytes() + names + body)
    return path


def test_a_trace_is_read_as_ports_and_classes(tmp_path: Path) -> None:
    graph = network(classes=rules(("a", None), ("b", None)))
    ports = len(graph.ports())
    path = trace(tmp_path / "trace", tuple(row.name for row in graph.rows()), 2)
    (queues,), (classes,) = list(queue_pieces(path, 50, graph)), list(class_pieces(path, 50, graph))
    assert queues["port"].tolist() == [*range(ports)] * 2
    places = [(port, number) for port in range(ports) for number in (0, 1)]
    assert classes[["t_ns", "port", "class"]].tolist() == [(t, *port_class) for t in (0, 1) for port_class in places]
    charged, paused, rows = COLUMNS.index("charged_bytes"), classes["paused_ns"], range(ports, 3 * ports)
    assert paused.tolist() == [0] * 2 * ports + [1000] * 2 * ports, "counters begin at t0"
    assert classes["charged_bytes"].tolist() == [1000 * k + 100 * row + charged for k in (0, 1) for row in rows], "a level"
    other = trace(tmp_path / "other", tuple(port.ifname for port in graph.ports()), 2)
    with pytest.raises(ProtocolError, match=r"rows.*ports and classes"):
        list(queue_pieces(other, 50, graph))


def test_a_trace_without_classes_has_no_such_table(tmp_path: Path) -> None:
    graph = read(OWN)
    path = trace(tmp_path / "trace", tuple(port.ifname for port in graph.ports()), 3)
    assert list(class_pieces(path, 50, graph)) == []
    assert len(next(queue_pieces(path, 50, graph))) == 3 * len(graph.ports())
