# SPDX-License-Identifier: Apache-2.0
"""Switches that choose among equal next hops by something else than a hash: what each way sends where, and what is recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rdma_lab

from dc_gym.results.results import Result
from dc_gym.run.plan import forwarding

pytestmark = pytest.mark.lab
SPEC = """
controller.name = "cubic"
time = { duration = "5ms", warmup = "0s" }
monitor.interval = "1ms"
metrics.slowdown = "off"
[topology]
kind = "leafspine"
leaves = 2
hosts_per_leaf = 4
spines = 4
rate = "10Gbit/s"
delay = "1us"
buffer = "300kB"
k_bytes = 30000
[workload]
kind = "pairs"
jitter = "10us"
"""
TRANSPORTS = {
    "cubic": (),
    "dctcp": ("controller.name=dctcp",),
    "rdma": ("controller.name=dcqcn", "nic.retransmit=selective", "nic.trace=off"),
    "udp": ("workload.transport=udp", "workload.rate=2Gbit/s"),
}
WAYS = {
    "random": (),
    "round_robin": (),
    "flowlet": ("topology.balance_gap=20us",),
    "drill": (),
    "adaptive": ("topology.balance_gap=5us",),
}
MEASURED = ("flows", "queues", "tcp")


def run(folder: Path, name: str, way: str, *settings: str) -> Result:
    result = rdma_lab.run(folder, name, f"topology.balance={way}", *settings, base=SPEC)
    assert result.fit, result.manifest["unfit_reasons"]
    return result


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    return tmp_path


def frames_of(result: Result) -> dict[str, int]:
    """Returns the frames that each port got as a next hop."""
    rows = result.records("nexthops")
    return dict(zip(result.column("nexthops", "port").tolist(), rows["frames"].tolist(), strict=True))


def same(a: Result, b: Result, *tables: str) -> bool:
    return all(a.records(table).tobytes() == b.records(table).tobytes() for table in tables)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("way", WAYS)
def test_each_transport_crosses_each_way_and_every_byte_is_accounted(folder: Path, way: str, transport: str) -> None:
    """When the flows have ended, what a group has sent to an uplink has left it, or was dropped."""
    result = run(folder, "run", way, "workload.size=300kB", *WAYS[way], *TRANSPORTS[transport])
    assert (result.records("flows")["received_bytes"] > 0).all()
    rows, last = result.records("nexthops"), result.records("queues")[-len(result.ports) :]
    assert len(rows) == 2 * 4, "two leaves have four uplinks each"
    uplinks = last[rows["port"]]
    assert ((rows["bytes"] == uplinks["tx_bytes"]) | (uplinks["drops"] > 0)).all() and not uplinks["backlog_bytes"].any()
    assert (rows["moves"] <= rows["flowlets"]).all() and (rows["flowlets"] <= rows["frames"]).all()
    assert rows["moves"].sum() > 0 or way not in ("random", "round_robin")


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_in_turn_the_frames_of_a_group_differ_by_at_most_one(folder: Path, transport: str) -> None:
    frames = frames_of(run(folder, "run", "round_robin", *TRANSPORTS[transport]))
    for leaf in ("s1", "s2"):
        counts = [count for port, count in frames.items() if port.startswith(leaf)]
        assert max(counts) - min(counts) <= 1
        assert min(counts) > 100 or (leaf, transport) == ("s2", "udp"), "datagrams go one way"


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_flowlets_without_a_gap_are_frames_and_with_an_endless_one_flows(folder: Path, transport: str) -> None:
    settings = TRANSPORTS[transport]
    every = run(folder, "0", "flowlet", "topology.balance_gap=0s", *settings)
    assert same(every, run(folder, "random", "random", *settings), *MEASURED, "nexthops", "reordering")
    never = run(folder, "5ms", "flowlet", "topology.balance_gap=5ms", *settings)
    hashed = run(folder, "ecmp", "ecmp", *settings)
    assert same(never, hashed, *MEASURED)
    assert not same(every, hashed, *MEASURED)
    ways = 1 if transport == "udp" else 2
    assert not never.records("nexthops")["moves"].any() and never.records("nexthops")["flowlets"].sum() == ways * 4
    assert not (hashed.path / "nexthops.parquet").exists() and not (hashed.path / "reordering.parquet").exists()


def test_a_slower_uplink_gets_its_share(folder: Path) -> None:
    slower = "\n[[topology.links]]\nbetween = ['s1', 's3']\nrate = '5Gbit/s'\n"
    settings = "topology.balance=round_robin", "topology.balance_weights=rate", *TRANSPORTS["udp"]
    frames = frames_of(rdma_lab.run(folder, "run", *settings, base=SPEC, text=slower))
    slow, *fast = [count for port, count in frames.items() if port.startswith("s1")]
    assert slow > 100 and len(fast) == 3 and all(abs(count - 2 * slow) <= 2 for count in fast)


def test_random_is_even_within_chance_and_follows_the_seed(folder: Path) -> None:
    results = [run(folder, name, "random", f"seed={seed}", *TRANSPORTS["udp"]) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    assert results[0].digest == results[1].digest and frames_of(results[0]) != frames_of(results[2])
    counts = np.array([count for port, count in frames_of(results[0]).items() if port.startswith("s1")])
    total = int(counts.sum())
    assert total > 2000 and (abs(counts - total / 4) < 5 * np.sqrt(total * 0.25 * 0.75)).all()


def test_tcp_tells_what_reordering_does_to_it(folder: Path) -> None:
    sprayed = run(folder, "random", "random").records("reordering")
    kept = run(folder, "flowlet", "flowlet", "topology.balance_gap=5ms").records("reordering")
    assert len(sprayed) == len(kept) == 8
    assert sprayed["out_of_order_packets"].sum() > 100 and sprayed["reorderings"].sum() > 0
    assert kept["reorderings"].sum() == 0 and kept["dsacks"].sum() == 0


def test_only_the_switches_that_are_named_balance(folder: Path) -> None:
    result = run(folder, "run", "random", "topology.uplinks=2", "topology.balance_at=['core']")
    assert {port[:2] for port in result.column("nexthops", "port").tolist()} == {"s3", "s4", "s5", "s6"}


def test_a_large_network_has_the_flows_of_all_ways(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(folder, "whole", "round_robin")
    monkeypatch.setattr(forwarding, "MOST_FOR_ALL", 0)
    assert run(folder, "needed", "round_robin").digest == whole.digest


SENDER = """
[[workload.exec]]
host = "h1"
command = '''PYTHON -c "import socket, time
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(400):
    sock.sendto(bytes(500), ('10.0.0.8', 9))
    time.sleep(1e-4)"'''
"""


def test_programs_in_hosts_are_balanced_by_the_daemons_switches(folder: Path) -> None:
    settings = "topology.balance=round_robin", "workload.kind=none", "workload.jitter=0s", "time.duration=1s"
    result = rdma_lab.run(folder, "run", *settings, base=SPEC, text=SENDER.replace("PYTHON", sys.executable))
    assert result.fit, result.manifest["unfit_reasons"]
    counts = [count for port, count in frames_of(result).items() if port.startswith("s1")]
    assert sum(counts) == 400 and max(counts) - min(counts) <= 1


def test_routing_reacts_to_a_cut_for_all_ways(folder: Path) -> None:
    cut = "\n[[events]]\nat = '1ms'\nlink = ['s1', 's3']\nstate = 'down'\nreroute = '100us'\n"
    result = rdma_lab.run(folder, "run", "topology.balance=round_robin", *TRANSPORTS["udp"], base=SPEC, text=cut)
    assert result.fit, result.manifest["unfit_reasons"]
    rows, ports = result.records("nexthops"), result.column("nexthops", "port").tolist()
    at_s1 = [row for row, port in zip(rows, ports, strict=True) if port.startswith("s1")]
    before, after = ([int(row["frames"]) for row in at_s1 if row["group"] == number] for number in (0, 1))
    assert len(before) == 4 and len(after) == 3 and min(after) > max(before) > 0


def test_slowdowns_are_of_lone_flows_that_are_balanced_alike(folder: Path) -> None:
    keys = ("metrics.slowdown=measured", "workload.size=30kB")
    result = run(folder, "run", "round_robin", *keys)
    flows = result.derived("flow_metrics")
    assert (np.asarray(flows["slowdown"]) >= 1).all() and np.isnan(np.asarray(flows["closed_form_ns"])).all()


PAIR: dict[str, Any] = {
    "kind": "leafspine", "leaves": 2, "hosts_per_leaf": 1, "spines": 2,
    "rate_bps": 10**9, "delay_ns": 1000, "buffer_bytes": 10**6,
}  # fmt: skip
LOADED = """
from dataclasses import replace
from dc_gym.topologies.balance import Balance
from dc_gym.topologies.realize import cables, group_ports
root = fabric.socket_of("")
(group,) = [group for group in groups if group.switch == "s1"]
slow = f"s1-eth{group.members[0]}"
root.batch([cables.change(fabric.ifindexes[slow], slow, rate_bps=100)])
with entered(netns_path("h1")):
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(200)]
def send(balance, flows):
    root.batch([group_ports.begin(replace(group, balance=balance))])
    for number in range(200):
        socks[number % flows].sendto(b"x", (graph.host("h2").address, 9))
        time.sleep(0.001)
    frames = [count[0] for count in group_ports.counts(root)[group.ifname]]
    time.sleep(3600)
    return frames
print(json.dumps([send(Balance(*way), flows) for way, flows in WAYS]))
"""


def test_frames_go_to_the_emptier_port(in_fabric: Callable[..., str]) -> None:
    """One uplink takes seconds for a frame: it sends one, another waits, and from then on the other uplink is the emptier."""
    ways: list[tuple[tuple[Any, ...], int]] = [
        (("adaptive", 0, 0, 0), 200),
        (("drill", 2, 0, 0), 200),
        (("drill", 1, 1, 0), 200),
        (("drill", 1, 0, 0), 200),
        (("adaptive", 0, 0, 10**9), 1),
    ]
    program = LOADED.replace("WAYS", repr(ways))
    adaptive, both, remembered, drawn, sticky = json.loads(in_fabric(PAIR, program, direct=True).splitlines()[-1])
    assert adaptive == [2, 198] and both == [2, 198]
    assert remembered[0] <= 2
    assert 60 < drawn[0] < 140, "one sample and no memory is a draw"
    assert sorted(sticky) == [0, 200], "a flow without a pause stays"
