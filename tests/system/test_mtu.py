# SPDX-License-Identifier: Apache-2.0
"""topology.mtu: what follows a full frame follows it everywhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from dc_gym.base.errors import SpecError
from dc_gym.base.progress import Quiet
from dc_gym.run import runner
from dc_gym.spec.load import from_dict
from dc_gym.topologies.buffers import headroom_bytes
from dc_gym.topologies.paths import base_rtt_ns, transfer_ns

DUMBBELL = {"kind": "dumbbell", "pairs": 1, "rate": "1Gbit/s", "delay": "10us", "buffer": "100p", "k_bytes": "20p"}


def asked(mtu: object, **sections: object) -> object:
    fields = {
        "spec_version": 1, "time": {"duration": "20ms"}, "controller": {"name": "dctcp"},
        "workload": {"kind": "pairs", "size": "1MB"}, **sections,
    }  # fmt: skip
    topology = DUMBBELL | {} if mtu is None else DUMBBELL | {"mtu": mtu}
    return from_dict(fields | {"topology": topology | dict(sections.get("topology", {}))}, Path())


@pytest.mark.parametrize(("mtu", "frame"), [(None, 1514), ("1500B", 1514), ("9000B", 9014), ("576B", 590)])
def test_amounts_and_round_trips_follow_the_frame(mtu, frame):
    graph = asked(mtu).graph()
    port = graph.port("s1-eth1")
    assert (port.queue.limit_bytes, port.queue.marking.k_bytes, graph.frame_bytes) == (100 * frame, 20 * frame, frame)
    cable = graph.cable_of(port)
    assert base_rtt_ns(graph) == 3 * (transfer_ns(cable, frame) + transfer_ns(cable, 66))
    assert headroom_bytes(cable, 1, graph.frame_bytes) - headroom_bytes(cable, 1, 1514) == 3 * (frame - 1514)


@pytest.mark.parametrize("mtu", ["575B", "9001B", "0B"])
def test_an_mtu_out_of_range_is_refused(mtu):
    with pytest.raises(SpecError, match=r"topology\.mtu"):
        asked(mtu)


def test_what_has_no_room_for_a_frame_is_refused():
    with pytest.raises(SpecError, match=r"topology\.buffer.*is not in 9014"):
        asked("9000B", topology={"buffer": "8kB", "k_bytes": "1kB"}).graph()
    with pytest.raises(SpecError, match=r"nic\.payload.*above 1440 B"):
        asked(None, controller={"name": "dcqcn"}, nic={"payload": "4096B"})
    with pytest.raises(SpecError, match=r"topology\.mtu"):
        asked("9000B", ground="host")


@pytest.mark.parametrize(("mtu", "payload"), [(None, 1440), ("4200B", 4140)])
def test_a_nic_s_packet_fills_the_frame(mtu, payload):
    assert asked(mtu, controller={"name": "dcqcn"}).payload_bytes == payload
    assert asked("4200B", controller={"name": "dcqcn"}, nic={"payload": "4096B"}).payload_bytes == 4096


@pytest.mark.parametrize("mtu", ["9000B", "576B"])
@pytest.mark.parametrize(("controller", "transport"), [("dctcp", "tcp"), ("dctcp", "udp"), ("dcqcn", "rdma")])
def test_frames_on_the_cables_are_as_long(tmp_path, mtu, controller, transport):
    """A lone flow over idle links takes the time of its full frames."""
    workload = {"kind": "pairs", "size": "1MB", "transport": transport} | ({"rate": "500Mbit/s"} if transport == "udp" else {})
    spec = asked(mtu, controller={"name": controller}, workload=workload)
    result = runner.run(spec, tmp_path / "out", Quiet(), plot=False)
    assert result.manifest["fit"] and {port["mtu_bytes"] for port in result.ports} == {int(mtu[:-1])}
    frames = result.manifest["conservation"]["received_by_hosts"]
    headers = {"tcp": 52, "udp": 28, "rdma": 60}[transport]
    needed = -(-(10**6) // (int(mtu[:-1]) - headers))
    assert needed <= frames <= 2.2 * needed + 60, "data, answers and what opens and ends the flow"
    if transport != "udp":
        (flow,) = pq.read_table(tmp_path / "out" / "flow_metrics.parquet").to_pylist()
        assert flow["slowdown"] * flow["ideal_ns"] == pytest.approx(flow["closed_form_ns"], rel=0.05)
