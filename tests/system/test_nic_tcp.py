# SPDX-License-Identifier: Apache-2.0
"""A NIC that caps the hosts' TCP: the rate holds, marks reach the algorithm, probes take the segments' path."""

from __future__ import annotations

from pathlib import Path

import pytest
import rdma_lab

from dc_gym import spec
from dc_gym.base import record_file
from dc_gym.base.errors import SpecError
from dc_gym.results.results import Result
from dc_gym.run.plan import inputs, nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import NICS
from dc_gym.topologies.ecmp import path
from dc_gym.traffic.schedule import Flow

LONGER = ("time.duration=150ms", "time.warmup=75ms")
OVER_CUBIC = (*LONGER, "controller.name=dcqcn", "nic.tcp=cubic")


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    return tmp_path


def load(folder: Path, *settings: str) -> spec.Spec:
    return rdma_lab.load(folder, *OVER_CUBIC, *settings)


def run(folder: Path, name: str, *settings: str, text: str = "") -> Result:
    return rdma_lab.run(folder, name, *OVER_CUBIC, *settings, text=text)


def switch_queue(result: Result) -> tuple[float, int]:
    """Returns mean and maximum bytes of the fullest switch port after the warm-up."""
    records, ports = result.records("queues"), result.column("queues", "port")
    late = records["t_ns"] >= 75_000_000
    backlogs = []
    for port in sorted(set(ports.tolist())):
        if port.startswith("s"):
            backlog = records["backlog_bytes"][late & (ports == port)]
            backlogs.append((float(backlog.mean()), int(backlog.max())))
    return max(backlogs)


@pytest.mark.lab
def test_cubic_keeps_the_rate_that_it_is_given(folder: Path) -> None:
    result = run(folder, "out", "controller.name=fixed", text="nic.parameters = { rate = 262144 }\n")
    assert result.fit, result.manifest["unfit_reasons"]
    assert set(result.column("flows", "transport").tolist()) == {"tcp"}
    assert result.summary["goodput_bps"] == pytest.approx(2 * 250e6 * 1448 / 1514, rel=0.01)
    counted = result.records("nic_flows")
    assert counted["rate_bps"].tolist() == [250_000_000] * 2
    assert counted["sent_packets"].tolist() == pytest.approx([0.15 * 250e6 / 8 / 1514] * 2, rel=0.01)
    assert switch_queue(result)[1] <= 2 * 1514, "segments come evenly"


@pytest.mark.lab
def test_dcqcn_over_cubic_keeps_the_queue_short_that_cubic_alone_fills(folder: Path) -> None:
    alone = switch_queue(rdma_lab.run(folder, "cubic", *LONGER, "controller.name=cubic"))
    results = [run(folder, name, f"topology.pairs={pairs}") for name, pairs in (("a", 2), ("b", 2), ("c", 8))]
    assert results[0].digest == results[1].digest
    for result in results[1:]:
        counted = result.records("nic_flows")
        assert counted["marked_packets"].all() and counted["cnps"].all(), "marks reach every sender's NIC"
        assert result.summary["utilization"] > 0.6
        assert switch_queue(result)[0] < alone[0] / 10
        assert not result.records("flows")["retransmits"].any()


@pytest.mark.lab
def test_probes_leave_right_behind_a_segment_and_find_the_idle_path_as_it_is(folder: Path) -> None:
    """All probes come back; the shortest round trip contains the wait for one full frame at each link."""
    result = run(folder, "out", "controller.name=timely", "topology.pairs=1", "time.duration=80ms", "workload.rate=100Mbit/s")
    counted = result.records("nic_flows")[0]
    assert counted["probes"] > 20 and counted["probes"] - counted["rtts"] <= 1
    experiment = Experiment.of(load(folder, "topology.pairs=1"))
    assert (
        63_000
        < counted["least_rtt_ns"]
        <= nics.base_rtts_ns(experiment.schedule, experiment.graph, experiment.router, experiment.spec)[0]
    )
    assert {"rtt", "tx"} >= set(result.column("decisions", "event").tolist()) >= {"rtt"}


# --- before anything boots


def test_frames_of_the_nic_take_the_path_of_the_segments(tmp_path: Path) -> None:
    experiment = Experiment.of(load(tmp_path, "topology.preset=acc24", "workload.kind=all_to_all", "workload.size=5kB"))
    assert nics.write(experiment, tmp_path).caps
    _, caps, _ = record_file.read(tmp_path / NICS, inputs.KINDS)
    flows = experiment.schedule.flows
    capped = caps.records[["flow", "tcp_src_port", "tcp_dst_port"]].tolist()
    assert capped == [(flow.flow, flow.src_port, flow.dst_port) for flow in flows]
    graph, router = experiment.graph, experiment.router

    def follows(flow: Flow, src_port: int) -> bool:
        plane = nics.plane_of(flow, graph)
        return tuple(path(graph, router, flow.src, flow.dst, src_port, 4791, "udp", plane)) == flow.ports

    on_path = [follows(flow, port) for port, flow in zip(caps.records["src_port"].tolist(), flows, strict=True)]
    assert sum(on_path) > 0.9 * len(flows), "16 ports of 4 paths: one in 100 flows has none"
    stayed = [follows(flow, flow.src_port) for flow in flows]
    assert sum(stayed) < 0.6 * len(flows), "the segments' own port leads there, too: the test tests nothing"


def test_tcp_below_a_nic_uses_no_ecn_and_hosts_keep_departure_times(tmp_path: Path) -> None:
    tcp_spec = load(tmp_path)
    assert (tcp_spec.tcp_name, tcp_spec.tcp_ecn, tcp_spec.rdma, tcp_spec.controller.ecn) == ("cubic", False, False, True)
    graph = tcp_spec.graph()
    assert {port.queue.kind for host in graph.hosts for port in graph.ports_of(host.name)} == {"fq"}
    assert "none" not in {port.queue.marking.kind for port in graph.switch_ports()}, "switches mark for the NIC"
    assert tcp_spec.to_dict()["nic"]["tcp"] == "cubic"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("controller.name=bbr",), 'nic.tcp = "cubic": needs an algorithm of the NICs'),
        (("nic.tcp=dctcp",), "nic.tcp"),
        (("nic.tcp=fixed",), "nic.tcp"),
        (("workload.transport=rdma",), "workload.transport = \"rdma\": cannot go with nic.tcp = 'cubic'"),
        (("topology.host_qdisc=bfifo",), "keeps no departure times"),
        (("ground=host",), 'cannot go with ground "host"'),
    ],
)
def test_what_does_not_go_with_it_is_refused(tmp_path: Path, settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(SpecError) as excinfo:
        load(tmp_path, *settings)
    assert words in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_an_algorithm_that_lives_by_acknowledgements_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r'nic\.tcp = "cubic": swift'):
        load(tmp_path, "controller.name=swift")
