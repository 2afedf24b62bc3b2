# SPDX-License-Identifier: Apache-2.0
"""Runs over RDMA: every message arrives once and whole, on every workload and over bad links; what a result says of the NICs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rdma_lab import BAD_LINKS, load, run

from dc_gym import spec
from dc_gym.base import record_file
from dc_gym.base.errors import SpecError, TestbedError
from dc_gym.base.progress import Quiet
from dc_gym.ctrl.nic import algorithms
from dc_gym.results.results import Result
from dc_gym.results.tables import TABLES
from dc_gym.run import runner
from dc_gym.run.plan import inputs, nics
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.plan.plan import NICS
from dc_gym.run.result import nic_log

MS = 1_000_000
NOT_OF_RDMA = ("classes", "class_queues", "nic_events", "acks", "messages", "ranks", "nexthops", "reordering")


@pytest.fixture
def folder(tmp_path: Path, lab_kernel: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def statuses(result: Result) -> list[str]:
    return [str(status) for status in result.column("flows", "status")]


# --- messages


@pytest.mark.lab
@pytest.mark.parametrize(("number", "name"), list(enumerate(algorithms.names())))
def test_every_message_arrives_once_and_whole_over_bad_links(folder: Path, number: int, name: str) -> None:
    """Packets are lost, overtaken and, by go-back-N, repeated; algorithms alternate between go-back-N and selective repeat."""
    way = ("go-back-n", "selective")[number % 2 or name == "nscc"]
    incast = ("workload.kind=incast", "workload.senders=3", "workload.size=60kB", "workload.rounds=2", "time.duration=2s")
    quick = ("nic.nack_interval=500us", "nic.timeout=5ms", "nic.timeout_max=20ms", "nic.trace=off")
    result = run(
        folder, "out", *BAD_LINKS, *incast, *quick, f"controller.name={name}", f"nic.retransmit={way}", "monitor.interval=50ms"
    )
    flows, counted = result.records("flows"), result.records("nic_flows")
    assert statuses(result) == ["done"] * 6
    assert result.fit, result.manifest["unfit_reasons"]
    assert np.array_equal(flows["received_bytes"], flows["size_bytes"]) and np.array_equal(
        flows["sent_bytes"], flows["size_bytes"]
    )
    assert counted["messages"].tolist() == [1] * 6 and not counted["broken_messages"].any()
    assert counted["resent_packets"].sum() > 0, "nothing was lost: the test tests nothing"
    payload = result.manifest["nic"]["settings"]["payload_bytes"]
    assert counted["received_packets"].tolist() == [-(-60_000 // payload)] * 6, "each was taken once"


@pytest.mark.lab
def test_runs_repeat_bit_for_bit_and_conserve_frames(folder: Path) -> None:
    """Links are bad, events are lost, decisions have a latency: all random numbers follow from the seed."""
    settings = ("controller.name=dcqcn", *BAD_LINKS, "nic.event_loss=5%", "nic.latency=17us")
    results = [run(folder, name, *settings) for name in ("a", "b")]
    assert results[0].digest == results[1].digest
    assert all(len(results[0].records(name)) for name in TABLES if name not in NOT_OF_RDMA)
    conservation = results[0].manifest["conservation"]
    ends = ("received_by_hosts", "dropped_by_switches", "under_way", "lost_on_links", "lost_elsewhere")
    assert conservation["sent_by_hosts"] == sum(conservation[name] for name in ends) and conservation["lost_on_links"] > 0
    other = run(folder, "c", *settings, "seed=2")
    assert other.digest != results[0].digest
    results[0].check_digest()


# --- what flows do


@pytest.mark.lab
def test_a_fixed_rate_is_kept_and_packets_come_evenly(folder: Path) -> None:
    result = run(folder, "out", text="nic = { parameters = { rate = 262144 } }\n")
    share = 1440 / 1514
    assert result.summary["goodput_bps"] == pytest.approx(2 * 250e6 * share, rel=0.005)
    decided = result.records("decisions")
    assert decided["rate_bps"].tolist() == [250_000_000] * 2, "a flow's first packet, then nothing changes"
    samples = result.records("tcp")
    assert set(samples["delivery_rate_bps"][samples["t_ns"] > 0].tolist()) == {250_000_000}
    assert result.summary["maxmin_least"] == pytest.approx(0.5, rel=0.01), "fair shares count the headers of RDMA"


@pytest.mark.lab
def test_a_whole_trace_has_every_packet(folder: Path) -> None:
    result = run(folder, "out", "nic.trace=all", "time.duration=5ms", text="nic.parameters = { rate = 131072 }\n")
    decided = result.records("decisions")
    assert len(decided) == result.records("nic_flows")["sent_packets"].sum() > 60
    assert set(result.column("decisions", "event").tolist()) == {"tx"}


@pytest.mark.lab
def test_a_lone_flow_takes_its_ideal_time_and_its_probes_the_base_round_trip(folder: Path) -> None:
    result = run(
        folder,
        "out",
        "controller.name=swift",
        "workload.size=300kB",
        "topology.pairs=1",
        "metrics.slowdown=measured",
        "nic.trace=off",
    )
    table = result.derived("flow_metrics")
    assert table is not None
    assert table.column("slowdown").to_pylist() == pytest.approx([1], abs=1e-6)
    assert table.column("ideal_ns").to_numpy()[0] == pytest.approx(table.column("closed_form_ns").to_numpy()[0], rel=0.05)
    experiment = Experiment.of(load(folder, "topology.pairs=1"))
    flow = experiment.schedule.flows[0]
    back = nics.way_back(flow, experiment.graph, experiment.router)
    base = nics.probe_rtt_ns(experiment.graph, flow.ports, back, 1514)
    assert int(result.records("nic_flows")["least_rtt_ns"][0]) == base == 98_704


MATRIX = """source,destination,port,start,stop,size
h1,h3,80,0.001,0,100000
h1,h3,81,0.002,0.005,inf
h2,h4,82,0.003,0,1
"""


@pytest.mark.lab
def test_sizes_stops_and_starts_are_those_of_the_matrix(folder: Path) -> None:
    (folder / "flows.csv").write_text(MATRIX)
    result = run(
        folder, "out", "workload.kind=matrix", "workload.file=flows.csv", text="nic = { parameters = { rate = 524288 } }\n"
    )
    flows = result.records("flows")
    assert statuses(result) == ["done", "stopped", "done"]
    assert flows["start_ns"].tolist() == pytest.approx([MS, 2 * MS, 3 * MS], abs=100)
    assert flows["received_bytes"][[0, 2]].tolist() == [100_000, 1]
    assert flows["end_ns"][1] == 5 * MS and flows["received_bytes"][1] == flows["sent_bytes"][1] > 0
    at_half = 3 * MS * 0.5e9 / 8e9 * 1440 / 1514
    assert int(flows["received_bytes"][1]) == pytest.approx(at_half, abs=2 * 1440)


@pytest.mark.lab
def test_rounds_follow_one_another_at_once(folder: Path) -> None:
    """A flow that waits for others starts at the instant at which the last of them has arrived."""
    settings = (
        "workload.kind=ring_allreduce",
        "workload.size=40kB",
        "workload.rounds=1",
        "topology.pairs=2",
        "time.duration=50ms",
    )
    result = run(folder, "out", *settings)
    flows = result.records("flows")
    assert set(statuses(result)) == {"done"}
    ends = set(flows["end_ns"].tolist())
    later = [int(start) for start in flows["due_ns"] if start > 0]
    assert later and all(start in ends for start in later)
    assert (flows["start_ns"] - flows["due_ns"]).max() < 2_000


KEPT = """
source,destination,port,start,stop,size
h1,h3,80,0,0.008,inf
h2,h4,81,0,0.008,inf
h1,h3,82,0.01,0,20000
"""


@pytest.mark.lab
@pytest.mark.parametrize("pairs", ["flow", "hosts"])
def test_a_queue_pair_that_lasts_keeps_its_rate(folder: Path, pairs: str) -> None:
    """Two flows have shared a link; a third between the hosts of the first begins with that one's rate, or with the line's."""
    (folder / "flows.csv").write_text(KEPT.lstrip())
    settings = ("controller.name=rlcc-tree", "workload.kind=matrix", "workload.file=flows.csv", f"nic.queue_pairs={pairs}")
    result = run(folder, "out", *settings)
    decisions = result.records("decisions")
    first, third = (decisions[decisions["flow"] == flow] for flow in (0, 2))
    assert first["rate_bps"][-1] < 0.9e9 and statuses(result)[2] == "done"
    assert third["rate_before_bps"][0] == (first["rate_bps"][-1] if pairs == "hosts" else 10**9)
    ports = result.records("flows")["src_port"]
    assert ports[0] != ports[2]


@pytest.mark.lab
def test_an_application_s_rate_limits_its_flow(folder: Path) -> None:
    result = run(folder, "out", "workload.rate=100Mbit/s", "workload.gaps=exponential", "time.duration=40ms", "time.warmup=5ms")
    assert result.summary["goodput_bps"] == pytest.approx(200e6, rel=0.2)
    assert result.summary["max_queue_bytes"] < 40_000


@pytest.mark.lab
def test_packets_that_outlast_the_nics_are_answered_by_nobody(folder: Path) -> None:
    """Hosts would answer them by ICMP, which switches with several paths have no rule for."""
    racks = ("controller.name=dcqcn", "topology.preset=acc24a", "workload.kind=stride", "workload.stride=12", "time.duration=1ms")
    result = run(folder, "out", *racks, "nic.trace=off")
    assert result.fit, result.manifest["unfit_reasons"]
    assert result.manifest["conservation"]["sent_by_hosts"] > 1000


@pytest.mark.lab
def test_loaders_that_fail_end_the_run_in_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = nics.write

    def broken(*args: object) -> nics.NicPlan:
        return replace(write(*args), object="/nowhere.bpf.o")  # type: ignore[arg-type]

    monkeypatch.setattr(nics, "write", broken)
    with pytest.raises(TestbedError, match=r"nicd ended with status") as excinfo:
        run(folder, "out")
    assert "/nowhere.bpf.o" in str(excinfo.value)
    assert not (folder / "out").exists()


# --- before anything boots


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (("workload.transport=tcp",), "workload.transport = \"tcp\": needs controller.tcp beside 'fixed'"),
        (("workload.transport=udp", "workload.rate=1Mbit/s"), 'controller.name = "fixed": is run by the NICs, and no flow goes'),
        (("controller.name=cubic", "workload.transport=rdma"), "needs an algorithm of the NICs"),
        (("nic.timeout=5ms", "nic.timeout_max=4ms"), "is below nic.timeout"),
        (("nic.probe_timeout=5ms", "nic.probe_timeout_max=4ms"), "is below nic.probe_timeout"),
        (("nic.payload=2kB",), 'nic.payload = "2kB": is above 1440 B'),
        (("nic.retransmit=maybe",), "one of: go-back-n, selective"),
        (("nic.trace=some",), "one of: off, changes, all"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, settings: tuple[str, ...], words: str) -> None:
    with pytest.raises(SpecError) as excinfo:
        load(tmp_path, *settings)
    assert words in str(excinfo.value) and "\n" not in str(excinfo.value)


def test_programs_and_datagrams_to_the_nics_port_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"workload\.exec"):
        load(tmp_path, text='[[workload.exec]]\nhost = "h1"\ncommand = "true"\n')
    header = "source,destination,port,start,stop,size,transport\n"
    (tmp_path / "flows.csv").write_text(f"{header}h1,h3,80,0,0,0,\nh2,h3,4791,0,0,0,udp\n")
    with pytest.raises(SpecError, match=r"flow 1, h2 to h3.*port 4791.*another"):
        load(tmp_path, "workload.kind=matrix", f"workload.file={tmp_path}/flows.csv")


def written(tmp_path: Path, *settings: str, text: str = "") -> tuple[nics.NicPlan, Experiment, np.void]:
    """Returns the plan, and the settings of its NICs."""
    experiment = Experiment.of(load(tmp_path, *settings, text=text))
    plan = nics.write(experiment, tmp_path)
    return plan, experiment, tables_of(tmp_path)[2][0]


def tables_of(folder: Path) -> list[np.ndarray]:
    """Returns the NICs, their flows and their settings."""
    tables = record_file.read(folder / NICS, inputs.KINDS)
    assert [table.kind for table in tables] == [inputs.NIC, inputs.NIC_FLOW, inputs.NIC_SETTINGS]
    return [table.records for table in tables]


def test_a_section_without_nics_is_left_out_of_manifests(tmp_path: Path) -> None:
    assert "nic" not in load(tmp_path, "controller.name=cubic").to_dict()
    section = load(tmp_path, text="nic = { latency = '2us', parameters = { rate = 99 } }\n").to_dict()["nic"]
    assert section["latency"] == "2us" and section["parameters"] == {"rate": 99} and "timeout" not in section
    json.dumps(section)


def test_times_follow_from_the_network_where_the_spec_gives_none(tmp_path: Path) -> None:
    plan, experiment, settings = written(tmp_path)
    drain = 4_000_000 * 8
    base = nics.round_trip_ns(experiment.graph) - drain
    assert 0 < base < 200_000
    assert settings["nack_interval_ns"] == base + drain and settings["timeout_ns"] == 2 * (base + drain)
    assert settings["cnp_interval_ns"] == 5_000_000 and settings["parameter"].tolist() == [1 << 20, *[0] * 43]
    assert plan.facts["settings"]["timeout_ns"] == settings["timeout_ns"]
    _, _, explicit = written(tmp_path, "nic.timeout=3ms", "nic.cnp_interval=4us", "nic.retransmit=selective")
    assert (explicit["timeout_ns"], explicit["cnp_interval_ns"], explicit["selective"]) == (3_000_000, 4000, 1)
    assert explicit["timeout_max_ns"] == 64 * 3_000_000
    assert (explicit["probe_timeout_ns"], explicit["probe_timeout_max_ns"]) == (3_000_000, 12_000_000)
    _, _, explicit = written(tmp_path, "nic.probe_timeout=2ms", "nic.probe_timeout_max=5ms")
    assert (explicit["probe_timeout_ns"], explicit["probe_timeout_max_ns"]) == (2_000_000, 5_000_000)
    firmware = "controller.name=dcqcn", "nic.preset=firmware"
    assert written(tmp_path, *firmware)[2]["cnp_interval_ns"] == 200_000
    assert written(tmp_path, *firmware, "nic.cnp_interval=4us")[2]["cnp_interval_ns"] == 4000


def test_pacing_is_the_preset_s_where_the_spec_gives_none(tmp_path: Path) -> None:
    simulator = "controller.name=hpcc", "nic.preset=ns3"
    assert written(tmp_path)[2]["spaced"] == written(tmp_path, "controller.name=hpcc")[2]["spaced"] == 0
    assert written(tmp_path, *simulator)[2]["spaced"] == written(tmp_path, "nic.pacing=spaced")[2]["spaced"] == 1
    assert written(tmp_path, *simulator, "nic.pacing=token")[2]["spaced"] == 0


@pytest.mark.parametrize("rate", ["2Mbit/s", "100kbit/s"])
def test_times_of_slow_links_end_where_nicd_takes_them(tmp_path: Path, rate: str) -> None:
    """A buffer that drains in 16 s gave a longest timeout above nicd's 100 s, and the run failed."""
    _, _, settings = written(tmp_path, f"topology.rate={rate}")
    times = [int(settings[name]) for name in settings.dtype.names if name.endswith("_ns")]
    assert max(times) == settings["timeout_max_ns"] == nics.LONGEST_NS and settings["timeout_ns"] <= nics.LONGEST_NS


def test_flows_are_told_as_they_are_scheduled(tmp_path: Path) -> None:
    _, experiment, _ = written(tmp_path, "workload.size=5kB", "workload.kind=all_to_all", "topology.preset=acc24")
    nic_table, flows, _ = tables_of(tmp_path)
    for row, flow in zip(flows, experiment.schedule.flows, strict=True):
        back = nics.way_back(flow, experiment.graph, experiment.router)
        assert nic_table["wire"][row["src_nic"]].decode() == flow.ports[0]
        assert experiment.graph.peer(experiment.graph.port(back[-1])).node == flow.src
        assert (row["message_bytes"], row["total_bytes"], row["hops"]) == (5000, 5000, len(flow.ports))
        assert row["base_rtt_ns"] == nics.probe_rtt_ns(experiment.graph, flow.ports, back, 1514)
    _, _, _ = written(tmp_path)
    endless = tables_of(tmp_path)[1][0]
    assert (endless["message_bytes"], endless["total_bytes"]) == (64000, 2**64 - 1)
    assert (endless["tcp_src_port"], endless["tcp_dst_port"]) == (0, 0)


def test_a_policy_goes_with_the_algorithm_that_reads_it(tmp_path: Path) -> None:
    plan, _, _ = written(tmp_path, "controller.name=rlcc-tree")
    assert plan.table and len(plan.facts["policy"]["sha256"]) == 64
    assert (tmp_path / "nic_table").stat().st_size == 4 * 8192
    (tmp_path / "some.npz").write_bytes(b"")
    with pytest.raises(SpecError, match="reads no policy"):
        written(tmp_path, "nic.policy=some.npz")
    with pytest.raises(SpecError, match=r"nic\.parameters\.rat = 5: fixed"):
        written(tmp_path, text="nic = { parameters = { rat = 5 } }\n")


def test_a_trace_becomes_rates_of_the_line(tmp_path: Path) -> None:
    decisions = np.zeros(2, nics.DECISION_DTYPE)
    decisions["t_ns"], decisions["event"], decisions["flow"] = [1500, 1600], [2, 6], [0, 1]
    decisions["rate_before"], decisions["rate"] = 1 << 20, [1 << 19, 3]
    decisions.tofile(tmp_path / "decisions.bin")
    read = nic_log.read_trace(tmp_path, 1000, {0: 10**11, 1: 10**13})
    assert read["t_ns"].tolist() == [500, 600] and read["event"].tolist() == [2, 6]
    assert read["rate_bps"].tolist() == [5 * 10**10, 3 * 10**13 >> 20] and read["rate_before_bps"].tolist() == [10**11, 10**13]
    (tmp_path / "decisions.bin").write_bytes(b"x" * 33)
    with pytest.raises(TestbedError, match="not a whole number of decisions"):
        nic_log.read_trace(tmp_path, 1000, {})


CLASSES = """
controller.name = "{controller}"
workload.kind = "many_to_one"
time.duration = "4ms"
monitor.interval = "1ms"
metrics.slowdown = "off"
nic = {{ ack_dscp = 46, cnp_dscp = 48 }}
[topology]
kind = "single"
hosts = 5
rate = "10Gbit/s"
delay = "1us"
shared_buffer = "1MB"
k_bytes = "20p"
pfc = "classes"
[[topology.classes]]
name = "data"
dscp = [0]
weight = 100
lossless = true
marking = "secn1"
[[topology.classes]]
name = "acks"
dscp = [46]
[[topology.classes]]
name = "cnps"
dscp = [48]
"""


def in_classes(tmp_path: Path, controller: str) -> tuple[Result, list[int]]:
    """Returns the result, and the packets that the receiver's host sent in each class."""
    tmp_path.chmod(0o755)
    (tmp_path / "spec.toml").write_text(CLASSES.format(controller=controller))
    result = runner.run(spec.load(tmp_path / "spec.toml"), tmp_path / "out", Quiet(), plot=False)
    assert result.fit, result.faults
    rows = pq.read_table(tmp_path / "out" / "class_queues.parquet").to_pylist()
    host_rows = [row for row in rows if row["port"] == "h5-eth0"]
    return result, [max(row["tx_packets"] for row in host_rows if row["class"] == number) for number in range(3)]


@pytest.mark.lab
def test_acks_and_cnps_have_classes_of_their_own(tmp_path: Path, lab_kernel: Path) -> None:
    result, (data, acks, cnps) = in_classes(tmp_path, "dcqcn")
    flows = pq.read_table(result.path / "nic_flows.parquet").to_pandas()
    assert data == 0 and acks > 100
    assert 0 <= cnps - flows["cnps"].sum() <= 4 < cnps


@pytest.mark.lab
def test_without_control_pauses_alone_hold_the_line(tmp_path: Path, lab_kernel: Path) -> None:
    """Flows send at the line rate, of which one decision a flow tells. Nothing is lost, and the receiver's line is full."""
    result, (_, acks, _) = in_classes(tmp_path, "none")
    decisions = pq.read_table(result.path / "decisions.parquet").to_pandas()
    assert decisions["rate_bps"].tolist() == [10**10] * 4
    assert acks > 1000
    assert result.summary["drops"] == 0 and result.summary["utilization"] > 0.99 and result.summary["pauses"] > 100
