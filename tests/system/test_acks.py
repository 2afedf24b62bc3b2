# SPDX-License-Identifier: Apache-2.0
"""The record of ACKs: complete, timed as the frames are, equal to TCP_INFO, and without an effect on the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import c_layout
import numpy as np
import pcapng_reader
import pytest

from dc_gym.base.errors import AgentError, ProtocolError, SpecError
from dc_gym.base.progress import Quiet
from dc_gym.learn.session import Session
from dc_gym.results import tables
from dc_gym.results.results import Result
from dc_gym.run import runner
from dc_gym.run.grounds import lab
from dc_gym.run.result import ack_log
from dc_gym.run.result.ack_log import ACK_DTYPE, ACKS, END_DTYPE
from dc_gym.spec import Spec, load

ROOT = Path(__file__).parents[2]
SPEC = """
topology = { preset = "dumbbell-10m", buffer = "30kB" }
workload.kind = "pairs"
time.duration = "3s"
metrics.slowdown = "off"
"""
CLEAN = ("controller.name=reno", "topology.buffer=400kB", "time.duration=300ms")
RECOVERY, LOSS, INFINITE = 3, 4, 2**31 - 1
MSS_BYTES = 1448
Run = Callable[..., Result]


def spec(folder: Path, *settings: str, traced: bool = True) -> Spec:
    (folder / "spec.toml").write_text(SPEC)
    return load(folder / "spec.toml", [*settings, *(["monitor.tcp=acks"] if traced else [])])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, lab_kernel: Path) -> Run:
    folder = tmp_path_factory.mktemp("acks")
    folder.parent.chmod(0o755)
    folder.chmod(0o755)

    def once(name: str, *settings: str, traced: bool = True) -> Result:
        return runner.run(spec(folder, *settings, traced=traced), folder / name, Quiet(), plot=False)

    return once


@pytest.fixture(scope="module")
def cubic(run: Run) -> Result:
    return run("cubic", "controller.name=cubic")


def of_flow(result: Result, flow: int) -> tables.Records:
    acks = result.records("acks")
    return acks[acks["flow"] == flow]


# --- what a record says


@pytest.mark.lab
def test_there_is_a_record_for_each_ack_at_the_time_of_its_frame(run: Run) -> None:
    result = run("clean", *CLEAN, 'capture.ports=["h1-eth0"]', "capture.direction=in")
    frames = pcapng_reader.read(result.path / "capture/h1-eth0.pcapng").arrived()
    assert of_flow(result, 0)["t_ns"].tolist() == [frame.t_ns for frame in frames]
    assert len(frames) > 100


@pytest.mark.lab
def test_the_window_grows_by_what_arrives_in_slow_start(run: Run) -> None:
    acks = of_flow(run("slow-start", *CLEAN), 1)[1:]  # without the SYN-ACK
    assert (acks["ssthresh_packets"] == INFINITE).all() and (acks["ca_state"] == 0).all()
    assert (np.diff(acks["cwnd_packets"]) == np.diff(acks["delivered_packets"])).all()
    assert acks["cwnd_packets"][-1] > 100
    assert ((acks["delivered_packets"] - 1) * MSS_BYTES == acks["bytes_acked"]).all(), "1 is the SYN"
    assert (acks["in_flight_packets"] * MSS_BYTES == acks["unacked_bytes"]).all()


@pytest.mark.lab
def test_a_loss_shows_recovery_and_cubics_threshold(cubic: Result) -> None:
    acks = of_flow(cubic, 0)
    begins = np.flatnonzero((acks["ca_state"][1:] == RECOVERY) & (acks["ca_state"][:-1] < RECOVERY)) + 1
    assert len(begins) > 2
    assert (acks["ssthresh_packets"][begins] == acks["cwnd_packets"][begins - 1].astype(int) * 717 // 1024).all(), "0.7"


@pytest.mark.lab
def test_the_last_record_before_a_sample_is_what_tcp_info_says(cubic: Result) -> None:
    for flow in (0, 1):
        acks, samples = of_flow(cubic, flow), cubic.records("tcp")
        samples = samples[(samples["flow"] == flow) & (samples["ca_state"] != LOSS)]  # a timeout shows at the next ACK
        last = acks[np.searchsorted(acks["t_ns"], samples["t_ns"], side="right") - 1]
        assert len(samples) > 200
        for name in ("cwnd_packets", "bytes_acked", "ca_state"):
            assert (last[name] == samples[name]).all(), name
        assert (last["srtt_ns"] // 1000 == samples["srtt_us"]).all() and (last["srtt_ns"] % 1000).any()
        assert acks["bytes_acked"][-1] == cubic.column("flows", "sent_bytes")[flow] > 0


@pytest.mark.lab
def test_a_flow_that_ends_is_recorded_to_its_fin(run: Run) -> None:
    result = run("sized", "controller.name=reno", "workload.kind=many_to_one", "workload.size=100kB", "time.duration=1s")
    for flow, sent in enumerate(result.column("flows", "sent_bytes")):
        acks = of_flow(result, flow)
        assert (acks["bytes_acked"][-1], acks["unacked_bytes"][-1]) == (sent, 0) == (100_000, 0)


@pytest.mark.lab
def test_a_tcp_of_ones_own_and_chosen_flows(run: Run, registries: None) -> None:
    own = ROOT / "examples/tcp_mine.c"
    result = run("own", f"plugins={own}", "controller.name=mine", "monitor.tcp_flows=[1]")
    acks = result.records("acks")
    assert set(acks["flow"]) == {1} and RECOVERY in acks["ca_state"]


# --- what it does not do


@pytest.mark.lab
def test_a_run_is_the_same_with_it_and_it_repeats(run: Run, cubic: Result) -> None:
    without, again = run("without", "controller.name=cubic", traced=False), run("again", "controller.name=cubic")
    for name in tables.REQUIRED:
        assert (without.records(name) == cubic.records(name)).all()
    assert not (without.path / "acks.parquet").exists() and "acks" not in without.manifest
    assert cubic.digest == again.digest != without.digest


@pytest.mark.lab
def test_what_finds_no_room_is_counted(run: Run, cubic: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "MOST_ACKS", 300)
    full = run("full", "controller.name=cubic")
    assert (full.records("acks") == cubic.records("acks")[:300]).all()
    assert full.manifest["acks"] == {"kept": 300, "lost": cubic.manifest["acks"]["kept"] - 300}
    assert cubic.manifest["acks"]["lost"] == 0


# --- what is refused


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (("monitor.tcp=aks",), 'monitor.tcp = "aks": unknown'),
        (("monitor.tcp=acks", "monitor.tcp_flows=[0, 2]"), "there is no flow 2; the workload's are 0 .. 1"),
        (("monitor.tcp=acks", "workload.transport=udp", "workload.rate=1Mbit/s"), "no flow over tcp"),
        (("monitor.tcp=acks", "ground=host"), "needs the kernel of a lab"),
        (("monitor.tcp_flows=[0]",), "has no effect without monitor.tcp"),
    ],
)
def test_a_bad_request_is_one_line(tmp_path: Path, settings: tuple[str, ...], why: str) -> None:
    with pytest.raises(SpecError) as refused:
        spec(tmp_path, "controller.name=cubic", *settings, traced=False)
    assert why in str(refused.value) and "\n" not in str(refused.value)


def test_an_environment_has_none(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"monitor\.tcp"):
        Session(spec(tmp_path, "controller.name=cubic", "controller.policy=max"))


# --- the file


def test_the_layout_is_that_of_the_kernel() -> None:
    assert c_layout.layout("kernel/drivers/lab.h", "lab_ack") == c_layout.layout_of(ACK_DTYPE)
    assert c_layout.layout("kernel/drivers/lab.h", "lab_acks_end") == c_layout.layout_of(END_DTYPE)


def test_pieces_are_sorted_and_end_with_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ack_log, "PIECE_ROWS", 2)
    read = np.zeros(7, ACK_DTYPE)
    read["t_ns"], read["flow"] = [10, 11, 11, 11, 12, 15, 16], [0, 2, 1, 0, 2, 1, 0]
    read["bytes_acked"] = [0, 1, 2, 9, 50, 60, 70]
    end = np.array([(7, 3)], END_DTYPE)
    (tmp_path / ACKS).write_bytes(read.tobytes() + end.tobytes())
    flows = np.zeros(3, tables.TABLES["flows"].dtype)
    flows["sent_bytes"] = 40
    table = np.concatenate(list(ack_log.pieces(tmp_path, 10, 5, flows)))
    assert table["t_ns"].tolist() == [0, 1, 1, 1, 2, 5] and table["flow"].tolist() == [0, 0, 1, 2, 2, 1]
    assert table["bytes_acked"].tolist() == [0, 8, 1, 0, 40, 40]
    assert ack_log.counts(tmp_path) == {"kept": 7, "lost": 3}
    (tmp_path / ACKS).write_bytes(read.tobytes())
    with pytest.raises(ProtocolError, match="not a whole record"):
        ack_log.counts(tmp_path)
