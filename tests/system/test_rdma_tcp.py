# SPDX-License-Identifier: Apache-2.0
"""RDMA and the hosts' own TCP in one run: over the same links, and at the same hosts' line; DSCPs in the frames of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pcapng_reader
import pytest
from rdma_lab import load, run

from dc_gym.results.results import Result
from dc_gym.run.plan import inputs, nics
from dc_gym.run.plan.experiment import Experiment

pytestmark = pytest.mark.lab
TCP, UDP = 6, 17
NIC_PORT = 4791
MIXED = """
[[workload.beside]]
kind = "pairs"
transport = "tcp"
dscp = 10

[[workload.beside]]
kind = "pairs"
transport = "udp"
rate = "50Mbit/s"
dscp = 46
"""
ONE_LINE = """
name = "one line"
controller = { name = "fixed", tcp = "cubic" }
topology = { kind = "single", hosts = 3, rate = "1Gbit/s", delay = "10us", buffer = "1MB" }
workload = { kind = "matrix", file = "flows.csv" }
time = { duration = "60ms", warmup = "20ms" }
metrics.slowdown = "off"
"""


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def mixed(folder: Path, name: str, *settings: str) -> Result:
    return run(folder, name, "controller.name=dcqcn", "controller.tcp=dctcp", "workload.dscp=26", *settings, text=MIXED)


def classes(result: Result) -> dict[str, dict[str, float]]:
    return {entry["transport"]: entry for entry in result.summary["classes"]}


def test_both_share_the_links_and_repeat_bit_for_bit(folder: Path) -> None:
    results = [mixed(folder, name, *more) for name, more in (("a", ()), ("b", ()), ("bpf", ("nic.engine=bpf",)))]
    first = results[0]
    assert len({result.digest for result in results}) == 1 and first.fit, first.manifest["unfit_reasons"]
    flows = first.records("flows")
    assert first.column("flows", "transport").tolist() == ["rdma"] * 2 + ["tcp"] * 2 + ["udp"] * 2
    assert first.column("flows", "controller").tolist()[:4] == ["dcqcn"] * 2 + ["dctcp"] * 2
    assert (flows["received_bytes"] > 0).all()
    assert first.records("classes")[["workload", "dscp"]].tolist() == [(0, 26)] * 2 + [(1, 10)] * 2 + [(2, 46)] * 2
    assert first.records("nic_flows")["flow"].tolist() == [0, 1], "the NICs count RDMA alone"
    conservation = first.manifest["conservation"]
    ends = ("received_by_hosts", "dropped_by_switches", "under_way", "lost_on_links", "lost_elsewhere")
    assert conservation["sent_by_hosts"] == sum(conservation[name] for name in ends) and not conservation["dropped_by_hosts"]
    by_class = classes(first)
    assert sum(metrics["goodput_bps"] for metrics in by_class.values()) == pytest.approx(first.summary["goodput_bps"])
    assert by_class["tcp"]["mean_srtt_us"] > 0 and by_class["udp"]["goodput_bps"] == pytest.approx(100e6, rel=0.05)
    first.check_digest()


def headers(path: Path) -> list[tuple[int, int, int, int]]:
    """Returns of each frame with IPv4: protocol, DSCP, ECN, and the destination port."""
    frames = [frame.data for frame in pcapng_reader.read(path).frames]
    return [
        (data[23], data[15] >> 2, data[15] & 3, int.from_bytes(data[36:38], "big")) for data in frames if data[12:14] == b"\x08\0"
    ]


def test_all_frames_of_a_flow_have_its_dscp_and_ecn_is_the_kernels(folder: Path) -> None:
    """Both directions: data, ACKs and CNPs of NICs, and TCP from SYN and SYN-ACK on. Only the senders' packets are ECT."""
    result = mixed(folder, "out", 'capture.ports=["h3-eth0"]', "capture.snap_length=64B")
    packets = headers(result.path / "capture" / "h3-eth0.pcapng")
    assert {(protocol, dscp) for protocol, dscp, _, _ in packets} == {(TCP, 10), (UDP, 26), (UDP, 46)}
    assert {dscp for protocol, dscp, _, port in packets if protocol == UDP and port == NIC_PORT} == {26}
    assert {ecn for protocol, dscp, ecn, _ in packets if dscp == 46} == {0}
    assert {ecn for protocol, dscp, ecn, _ in packets if dscp == 26} == {0, 2, 3}, "answers, data, marked data"
    assert {ecn for protocol, dscp, ecn, _ in packets if dscp == 10} >= {2, 3}, "DCTCP's own"
    assert result.records("nic_flows")["cnps"].sum() > 0


def test_without_a_dscp_nothing_is_written_and_there_is_no_table_of_classes(folder: Path) -> None:
    result = run(folder, "out", 'capture.ports=["h3-eth0"]', "capture.snap_length=64B")
    assert {dscp for _, dscp, _, _ in headers(result.path / "capture" / "h3-eth0.pcapng")} == {0}
    assert not len(result.records("classes")) and result.summary["classes"] is None


@pytest.mark.parametrize("qdisc", ["bfifo", "fq"])
def test_nic_and_host_take_turns_at_one_line(folder: Path, qdisc: str) -> None:
    """A NIC that always wants the whole line leaves half of it to TCP, and nobody drops anything. Alone, each has all."""
    rows = {"rdma": "h1,h3,5001,0,0,0,", "tcp": "h1,h2,5001,0,0,0,tcp"}
    (folder / "flows.csv").write_text("\n".join(["source,destination,port,start,stop,size,transport", *rows.values()]) + "\n")
    result = run(folder, "both", f"topology.host_qdisc={qdisc}", text="", base=ONE_LINE)
    by_class, share = classes(result), result.summary["goodput_bps"]
    assert by_class["rdma"]["goodput_bps"] == pytest.approx(share / 2, rel=0.03)
    assert by_class["tcp"]["goodput_bps"] == pytest.approx(share / 2, rel=0.03)
    assert share == pytest.approx(1e9 * 1444 / 1514, rel=0.01)
    assert result.fit and not result.summary["drops"] and not result.records("flows")["retransmits"].any()


def test_lone_flows_of_both_are_measured_for_the_ideal_times(folder: Path) -> None:
    result = mixed(folder, "out", "workload.size=100kB", "metrics.slowdown=measured", "time.duration=30ms")
    measured = {(row["controller"], row["flows"]) for row in result.manifest["ideal"]["classes"]}
    assert measured == {("dcqcn", 2)}, "TCP's flows have no size"
    times = result.derived("flow_metrics").column("slowdown").to_numpy()
    assert (times[:2] >= 0.99).all() and np.isnan(times[2:]).all()


def test_frames_of_tcp_and_udp_have_no_rows_at_the_nics(folder: Path) -> None:
    mixed_spec = load(folder, "controller.name=dcqcn", "controller.tcp=cubic", text=MIXED)
    experiment = Experiment.of(mixed_spec)
    table = nics.flow_table(experiment.schedule, experiment.graph, experiment.router, mixed_spec)
    assert table.records[["flow", "dscp", "tcp_src_port"]].tolist() == [(0, 0, 0), (1, 0, 0)]
    assert inputs.flow_tables(experiment.schedule)[1].records["dscp"].tolist() == [0, 0, 10, 10, 46, 46]
