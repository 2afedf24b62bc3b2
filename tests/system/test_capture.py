# SPDX-License-Identifier: Apache-2.0
"""Captures: nothing is missing or moved, frames are those on the cable at their time, and bad requests are one line."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pcapng_reader
import pytest
import rdma_lab
from pcapng_reader import Capture, Frame

from dc_gym import spec
from dc_gym.base.errors import AgentError, SpecError
from dc_gym.base.progress import Quiet
from dc_gym.cli.main import main
from dc_gym.ctrl.nic import algorithms
from dc_gym.learn.session import Session
from dc_gym.results.results import Result
from dc_gym.run import room
from dc_gym.run.plan.experiment import Experiment
from dc_gym.run.result.outcome import DISSECTOR

MS = 10**6
TCP = ("controller.name=dctcp", "time.duration=100ms")
NIC = ("controller.name=dcqcn",)
AGENT = ("controller.name=dctcp", "controller.policy=max", "agent.interval=10ms", "time.duration=60ms")
ETHERNET, NANOSECONDS = 1, 9
LINE_BPS, DELAY_NS = 10**9, 10_000
NIC_PORT, DATA = 4791, 1
TELEMETRY_AT, TELEMETRY_FLAG = 74, 8


def run(folder: Path, name: str, settings: tuple[str, ...], ports: list[str]) -> Result:
    overrides = [f"capture.ports={json.dumps(ports)}"] if ports else []
    return rdma_lab.run(folder, name, *settings, *overrides)


def captured(result: Result, port: str) -> Capture:
    return pcapng_reader.read(result.path / "capture" / f"{port}.pcapng")


def rows(result: Result) -> dict[str, dict[str, Any]]:
    return {row["port"]: row for row in result.manifest["capture"]}


def wire_ns(frame: Frame) -> float:
    return frame.length * 8 * 10**9 / LINE_BPS


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    folder.parent.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def tcp(shared: Path, lab_kernel: Path) -> Result:
    return run(shared, "tcp", (*TCP, "capture.snap_length=2kB"), ["s1-eth3", "s2-eth3", "h1-eth0"])


# --- nothing moves, nothing is missing


@pytest.mark.lab
@pytest.mark.parametrize(
    ("settings", "ports"), [(TCP, ["s1-eth3", "h3-eth0"]), (NIC, ["s1-eth3", "h1-eth0"]), (AGENT, ["s1-eth3"])]
)
def test_a_capture_changes_no_result_and_repeats_to_the_byte(
    tmp_path: Path, lab_kernel: Path, settings: tuple[str, ...], ports: list[str]
) -> None:
    without = run(tmp_path, "without", settings, [])
    one, other = (run(tmp_path, name, settings, ports) for name in ("one", "other"))
    assert without.digest == one.digest == other.digest
    assert one.fit and not (without.path / "capture").exists()
    for port in ports:
        files = [(result.path / "capture" / f"{port}.pcapng").read_bytes() for result in (one, other)]
        assert files[0] == files[1] and len(files[0]) > 10_000


@pytest.mark.lab
def test_no_frame_is_missing(tcp: Result) -> None:
    for port, row in rows(tcp).items():
        capture = captured(tcp, port)
        assert (len(capture.sent()), len(capture.arrived())) == (row["sent"], row["received"])
        assert row["sent"] + row["sent_later"] == row["port_sent"] > 1000
        assert row["received"] + row["received_later"] == row["port_received"] > 100
        assert (row["lost"], capture.lost, capture.received) == (0, 0, len(capture.frames))


@pytest.mark.lab
def test_pauses_are_in_the_file_of_the_port_that_sends_them(tmp_path: Path, lab_kernel: Path) -> None:
    """A PAUSE frame has its address, its type and the classes of 802.1Qbb, and is 60 bytes long."""
    settings = ("topology.shared_buffer=100kB", "topology.pfc=classes", "controller.name=cubic", "time.duration=50ms")
    result = run(tmp_path, "pauses", settings, ["s1-eth1", "h1-eth0"])
    of_port = {port: [pfc for pfc in captured(result, port).frames if is_pause(pfc)] for port in ("s1-eth1", "h1-eth0")}
    assert len(of_port["s1-eth1"]) > 10 and not of_port["h1-eth0"]
    assert {pfc.length for pfc in of_port["s1-eth1"]} == {60} and all(pfc.direction == "out" for pfc in of_port["s1-eth1"])
    row = rows(result)["s1-eth1"]
    assert row["sent"] + row["sent_later"] == row["port_sent"]
    assert result.digest == run(tmp_path, "without", settings, []).digest


def is_pause(frame: Frame) -> bool:
    return frame.data[:6] == bytes.fromhex("0180c2000001") and frame.data[12:16] == bytes.fromhex("88080101")


@pytest.mark.lab
def test_all_ports_of_a_fat_tree_at_once(tmp_path: Path, lab_kernel: Path) -> None:
    """On each cable, what one end has sent is what the other has received, but for the few frames under way at the end."""
    settings = ("topology.preset=fattree-k4", "workload.kind=hotspot", "controller.name=dctcp", "time.duration=10ms")
    graph = rdma_lab.load(tmp_path, *settings).graph()
    result = run(tmp_path, "all", settings, [port.ifname for port in graph.ports()])
    counts = rows(result)
    assert len(counts) == 96 and sum(row["sent"] for row in counts.values()) > 1000
    for port in graph.ports():
        sent, received = counts[port.ifname], counts[graph.peer(port).ifname]
        assert sent["sent"] + sent["sent_later"] == sent["port_sent"] and sent["lost"] == 0
        assert 0 <= sent["sent"] - received["received"] <= 4, "as many of the shortest frames fit onto a link of 1 us"


# --- what is in a file


@pytest.mark.lab
def test_the_header_names_port_link_and_unit(tcp: Result) -> None:
    capture = captured(tcp, "s1-eth3")
    assert (capture.interface, capture.link, capture.resolution, capture.snap) == ("s1-eth3", ETHERNET, NANOSECONDS, 2000)


@pytest.mark.lab
def test_a_frame_is_taken_when_its_transmission_starts_and_when_it_arrives(tcp: Result) -> None:
    """A frame that s1 sends to s2 arrives there, byte for byte, after its length at the line rate and the propagation."""
    sent, arrived = captured(tcp, "s1-eth3").sent(), captured(tcp, "s2-eth3").arrived()
    assert sent[0].t_ns >= 0 and sent[-1].t_ns <= 100 * MS and len(sent) > 1000
    assert 0 <= len(sent) - len(arrived) <= 2, "the last ones are under way at the end"
    for one, other in zip(sent, arrived, strict=False):
        assert one.data == other.data and len(one.data) == one.length
        assert 0 <= other.t_ns - (one.t_ns + DELAY_NS + wire_ns(one)) <= 1
    for frames in (sent, arrived):
        assert all(one.t_ns <= other.t_ns for one, other in pairwise(frames))
    assert all(other.t_ns - one.t_ns >= wire_ns(one) - 1 for one, other in pairwise(sent)), "a link carries one at a time"


@pytest.mark.lab
def test_every_frame_is_at_least_60_bytes(tmp_path: Path, lab_kernel: Path) -> None:
    """A UDP datagram of TCP's or the NICs' least size is padded on the cable, behind the place where it is captured."""
    udp = ("controller.name=cubic", "workload.transport=udp", "workload.rate=100Mbit/s", "workload.size=1473B")
    result = run(tmp_path, "udp", udp, ["h1-eth0", "s1-eth1"])
    sent, arrived = captured(result, "h1-eth0").sent(), captured(result, "s1-eth1").arrived()
    assert [frame.length for frame in sent] == [1514, 60]
    assert [frame.data for frame in sent] == [frame.data for frame in arrived]
    assert len(sent[1].data) == 60 and not any(sent[1].data[43:])


@pytest.mark.lab
def test_direction_and_snap_length(tmp_path: Path, lab_kernel: Path) -> None:
    both = run(tmp_path, "both", TCP[:1], ["s1-eth3"])
    short = {way: (*TCP[:1], f"capture.direction={way}", "capture.snap_length=64B") for way in ("in", "out")}
    some = {way: run(tmp_path, way, settings, ["s1-eth3"]) for way, settings in short.items()}
    whole = captured(both, "s1-eth3")
    assert whole.snap == 128 and max(len(frame.data) for frame in whole.frames) == 128
    for way, result in some.items():
        capture = captured(result, "s1-eth3")
        assert capture.snap == 64
        expected = [(frame.t_ns, frame.length, frame.data[:64]) for frame in whole.frames if frame.direction == way]
        assert [(frame.t_ns, frame.length, frame.data) for frame in capture.frames] == expected
        assert {frame.direction for frame in capture.frames} == {way}


# --- NICs


@pytest.fixture(scope="module")
def nics(shared: Path, lab_kernel: Path) -> Result:
    return run(shared, "nics", NIC, ["h1-eth0"])


@pytest.mark.lab
def test_the_nics_header_is_in_the_file(nics: Result) -> None:
    """The packets of h1's one flow are numbered without a gap: nothing is lost here."""
    numbers = []
    for frame in captured(nics, "h1-eth0").sent():
        (port,) = struct.unpack_from(">H", frame.data, 36)
        assert port == NIC_PORT
        opcode, (flow, psn) = frame.data[43], struct.unpack_from(">II", frame.data, 46)
        if opcode == DATA:
            assert flow == 0
            numbers.append(psn)
    assert numbers == list(range(len(numbers))) and len(numbers) > 500


def tshark(path: Path, *fields: str) -> list[list[str]]:
    argv = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(path), "-T", "fields"]
    argv += [word for name in fields for word in ("-e", name)]
    child = subprocess.run(argv, capture_output=True, text=True)
    assert child.returncode == 0 and "Lua" not in child.stderr, child.stderr
    return [line.split("\t") for line in child.stdout.splitlines()]


needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed: apt-get install tshark")


@needs_tshark
@pytest.mark.lab
def test_wireshark_opens_it_and_shows_the_nics_header(nics: Result) -> None:
    names = (
        "frame.time_epoch",
        "frame.interface_name",
        "frame.packet_flags_direction",
        "dcgym.opcode",
        "dcgym.flow",
        "dcgym.psn",
    )
    frames, dissected = captured(nics, "h1-eth0").frames, tshark(nics.path / "capture" / "h1-eth0.pcapng", *names)
    assert len(dissected) == len(frames) and (nics.path / "capture" / DISSECTOR.name).read_bytes() == DISSECTOR.read_bytes()
    for frame, (time, interface, direction, opcode, flow, psn) in zip(frames, dissected, strict=True):
        seconds, _, parts = time.partition(".")
        assert int(seconds) * 10**9 + int(parts) == frame.t_ns
        assert (interface, int(direction, 0)) == ("h1-eth0", {"in": 1, "out": 2}[frame.direction])
        assert (int(opcode), int(flow), int(psn)) == (frame.data[43], *struct.unpack_from(">II", frame.data, 46))


@needs_tshark
def test_wireshark_shows_telemetry(tmp_path: Path) -> None:
    """A frame as version 2 of the NIC's header has it: 42 bytes behind the header, two records of five filled in."""
    hops = [(1, 0xABCDEF, 0x54321, 0x1FFFF), (7, 3, 2, 1)]
    records = [rate << 61 | time << 37 | sent << 17 | queue for rate, time, sent, queue in hops]
    telemetry = struct.pack(">H5Q", len(hops), *records, 0, 0, 0)
    header = struct.pack(">BBBB7I", 2, DATA, 8, 0, 5, 6, 0, 0, 0, 0, 0)
    udp = struct.pack(">HHHH", 1000, NIC_PORT, 8 + len(header) + len(telemetry), 0) + header + telemetry
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b"\n\0\0\1", b"\n\0\0\2")
    frame = b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + ip + udp
    path = tmp_path / "one.pcap"
    path.write_bytes(
        struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, ETHERNET) + struct.pack("<4I", 0, 0, *2 * [len(frame)]) + frame
    )
    fields = ("hops", "rate", "time", "sent", "queue")
    ((flow, *values),) = tshark(path, "dcgym.flow", *(f"dcgym.int.{name}" for name in fields))
    expected = ["2", *(",".join(str(hop[index]) for hop in hops) for index in range(4))]
    assert flow == "5" and values == expected


@pytest.mark.lab
@pytest.mark.skipif("hpcc" not in algorithms.names(), reason="no algorithm here reads telemetry")
def test_each_port_s_record_is_in_the_frame_that_it_sends(tmp_path: Path, lab_kernel: Path) -> None:
    """Across two racks a frame has no record at its host, one behind the leaf, and three behind the last leaf."""
    settings = ("controller.name=hpcc", "topology.preset=acc24a", "workload.kind=many_to_one", "workload.senders=4")
    places = {"h1-eth0": 0, "s1-eth13": 1, "s2-eth12": 3}
    result = run(tmp_path, "int", (*settings, "time.duration=2ms", "nic.trace=off"), list(places))
    for port, hops in places.items():
        data = [frame.data for frame in captured(result, port).sent() if frame.data[43] == DATA]
        assert len(data) > 500
        for frame in data:
            count, *records = struct.unpack_from(">H5Q", frame, TELEMETRY_AT)
            assert (frame[42], frame[44] & TELEMETRY_FLAG, count) == (2, TELEMETRY_FLAG, hops)
            assert not any(records[hops:])


# --- requests


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('capture.ports=["s1-et3"]', "the network has no port 's1-et3'; did you mean s1-eth3?"),
        ('capture.ports=["x"]', "the network has no port 'x'; the ports are s1-eth1 .. h4-eth0"),
        ('capture.ports=["s1-eth3", "s1-eth3"]', "names 's1-eth3' twice; remove one"),
        ('capture.ports=[""]', "not understood"),
        ("capture.ports=s1-eth3", "write a list such as"),
        ("capture.direction=up", "unknown; one of: both, out, in"),
        ("capture.snap_length=63B", "is below 64B"),
        ("capture.snap_length=65536B", "is above 65535B"),
        ("capture.prots=[]", "did you mean capture.ports?"),
    ],
)
def test_a_wrong_request_is_one_line(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        rdma_lab.load(tmp_path, *TCP, setting)
    assert message in str(raised.value) and "\n" not in str(raised.value)


def test_the_option_is_short_for_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rdma_lab.load(tmp_path)
    assert main(["run", str(tmp_path / "spec.toml"), "--pcap", "s1-eth3", "--pcap", "s1-eth9"]) == 2
    assert "capture.ports" in (stderr := capsys.readouterr().err) and "no port 's1-eth9'; did you mean" in stderr


def test_a_spec_without_captures_has_no_section(tmp_path: Path) -> None:
    plain = rdma_lab.load(tmp_path, *TCP)
    assert "capture" not in plain.to_dict()
    with_capture = rdma_lab.load(tmp_path, *TCP, 'capture.ports=["h1-eth0"]')
    assert with_capture.to_dict()["capture"]["ports"] == ["h1-eth0"]
    assert spec.from_dict(with_capture.to_dict(), tmp_path).capture == with_capture.capture


def test_an_environment_keeps_no_frames(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"capture\.ports: an environment keeps no frames"):
        Session(rdma_lab.load(tmp_path, *AGENT, 'capture.ports=["h1-eth0"]'))


@pytest.mark.parametrize(("settings", "ways"), [([], 2), (["capture.direction=in"], 1)])
def test_captures_that_may_fill_the_disk_are_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], settings: list[str], ways: int
) -> None:
    hour = ["time.duration=3600s", "monitor.interval=100ms", 'capture.ports=["h1-eth0"]', *settings]
    experiment = Experiment.of(rdma_lab.load(tmp_path, *TCP, *hour))
    assert room.RoomNeeded.of(experiment).captures == ways * (3600 * LINE_BPS // (1514 * 8)) * (128 + 44)
    monkeypatch.setattr(room, "free_bytes", lambda _: 10**10)
    room.check(experiment, tmp_path, Quiet())
    assert "captured ports may write" in capsys.readouterr().err


@pytest.mark.lab
@pytest.mark.parametrize("direction", ["h1-eth0", "h2-eth0", "s1-eth2"])
def test_a_captured_run_whose_datagrams_are_under_way_at_its_end_is_fit(direction, tmp_path, lab_kernel):
    """Sockets stay open until all is counted: a closed one answers datagrams, which the switches would not know."""
    (tmp_path / "spec.toml").write_text(FULL)
    words = ["run", tmp_path / "spec.toml", "--out", tmp_path / "out", "--quiet", "--pcap", direction]
    argv = [sys.executable, "-m", "dc_gym.cli.main", *map(str, words)]
    child = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["unfit_reasons"] == [] and manifest["conservation"]["under_way"] > 0
    (captured,) = manifest["capture"]
    for way in ("sent", "received"):
        assert captured[way] + captured[f"{way}_later"] + captured["lost"] == captured[f"port_{way}"]


FULL = """
name = "full"
topology = { kind = "single", hosts = 2, rate = "10Gbit/s", delay = "1us", buffer = "1MB" }
controller.name = "cubic"
workload = { kind = "pairs", transport = "udp", rate = "9Gbit/s" }
time.duration = "1ms"
"""
