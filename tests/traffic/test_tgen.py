# SPDX-License-Identifier: Apache-2.0
"""tgen end to end: bad input as any user, flows over a veth pair as root. No test looks at the wall clock's speed."""

from __future__ import annotations

import errno
import itertools
import os
import re
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_layout import layout, layout_of

from dc_gym.base import record_file
from dc_gym.base.errors import ProtocolError
from dc_gym.results.tables import STATUSES, Records
from dc_gym.run.plan import inputs
from dc_gym.run.result import tgen_log
from dc_gym.traffic.flows import NO_GATE, FlowRequest
from dc_gym.traffic.schedule import Flow, Schedule

ROOT = Path(__file__).parents[2]
TGEN = ROOT / "dc_gym" / "bin" / "tgen"
MS = 1_000_000
pytestmark = pytest.mark.skipif(not TGEN.exists(), reason="dc_gym/bin/tgen is not built")


def run_tgen(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(TGEN), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def arguments(flows: Path, out: Path, t0_ns: int = 1, duration_ns: int = 1000, sample_ns: int = 100) -> list[str]:
    pairs = {"flows": flows, "out": out, "t0": t0_ns, "duration": duration_ns, "sample": sample_ns}
    return [word for name, value in pairs.items() for word in (f"--{name}", str(value))]


# --- bad input: exit code 2 and one line, without any rights


def refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("tgen: ") and result.stderr.count("\n") == 1
    assert result.stdout == ""
    for word in words:
        assert word in result.stderr


def row(
    flow: int,
    cc: str = "cubic",
    start: int = 0,
    stop: int = 0,
    size: int = 0,
    rate: int = 0,
    port: int = 5001,
    *,
    hosts: tuple[str, str] = ("a", "b"),
    src: str = "10.77.0.1",
    dst: str = "10.77.0.2",
    src_port: int | None = None,
    transport: str = "tcp",
    gate: int = NO_GATE,
    opens: tuple[int, ...] = (),
    length: int = 0,
    gaps: str = "exact",
    path: tuple[int, ...] = (),
) -> Flow:
    request = FlowRequest(*hosts, port, start, stop, size, rate, length, gaps, transport, gate=gate, opens=opens)
    return Flow(flow, request, src, dst, 20000 + flow % 40000 if src_port is None else src_port, cc, (), path)


def write(path: Path, *rows: Flow) -> Path:
    record_file.write(path, *inputs.flow_tables(Schedule(rows)))
    return path


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"src_port": 0}, "flow 1, src_port: 0 is not from 1 to 65535"),
        ({"start_ns": 9, "stop_ns": 3}, "flow 1, stop_ns: not after start_ns"),
        ({"path_len": 1}, "flow 1, path_len: 1 is not from 0 to 0"),
        ({"src_port": 20000}, "flow 1, src_port: 20000 is that of flow 0, too"),
    ],
)
def test_bad_flows(tmp_path: Path, changes: dict[str, int], words: str) -> None:
    tables = inputs.flow_tables(Schedule((row(0), row(1))))
    for name, value in changes.items():
        tables[1].records[name][1] = value
    record_file.write(tmp_path / "flows", *tables)
    refused(run_tgen(*arguments(tmp_path / "flows", tmp_path)), "--flows: ", words)


def test_bad_files(tmp_path: Path) -> None:
    path = tmp_path / "flows"
    path.write_bytes(b"")
    refused(run_tgen(*arguments(path, tmp_path)), f"--flows: '{path}': table 'namespace': the file ends before it")
    record_file.write(path, *inputs.flow_tables(Schedule(()))[:2])
    refused(run_tgen(*arguments(path, tmp_path)), f"'{path}': table 'gate that opens': the file ends before it")
    path.write_bytes(path.read_bytes().replace(b"DCGFLOWS", b"DCGFLOWZ"))
    refused(run_tgen(*arguments(path, tmp_path)), f"'{path}': table 'flow': something else is there")


def test_bad_options(tmp_path: Path) -> None:
    flows = write(tmp_path / "flows")
    argv = arguments(flows, tmp_path)
    refused(run_tgen(), "--flows is missing", "see tgen --help")
    refused(run_tgen(*argv, "--nonsense"), "'--nonsense': no such option")
    refused(run_tgen(*argv, "more"), "'more'")
    refused(run_tgen(*argv, "--t0", "-5"), "--t0", "'-5'")
    refused(run_tgen(*argv, "--sample", "-1"), "--sample", "'-1'")
    refused(run_tgen(*argv, "--publish", "1ms"), "--publish", "'1ms'")
    refused(run_tgen(*argv, "--publish", "5"), "--publish", "--matrix")
    refused(run_tgen(*argv, "--seed", "x"), "--seed", "'x'")
    for ids in ("1,2", "1,2,x", "1,2,3,4", "0,1,2", "1,2,99999999999"):
        refused(run_tgen(*argv, "--nic", ids), "--nic", f"'{ids}'", "three ids")
    for option in ("--flows: read", "--out:"):
        name = option.partition(":")[0]
        refused(run_tgen(*argv, name, str(tmp_path / "none")), f"{option} '{tmp_path / 'none'}': No such file")


def test_a_matrix_that_is_none(tmp_path: Path) -> None:
    flows, matrix = write(tmp_path / "flows"), tmp_path / "matrix"
    matrix.write_bytes(b"x" * 256)
    refused(run_tgen(*arguments(flows, tmp_path), "--matrix", str(matrix)), str(matrix), "qmon")


def test_a_namespace_that_is_none(tmp_path: Path) -> None:
    result = run_tgen(*arguments(write(tmp_path / "flows", row(0, hosts=("no-such", "b"))), tmp_path))
    assert result.returncode == 1
    assert "open network namespace /run/netns/no-such" in result.stderr


def test_a_flow_over_rdma_without_nics(tmp_path: Path) -> None:
    netns, *others = inputs.flow_tables(Schedule((row(0, transport="rdma"),)))
    netns.records["path"] = b"/proc/self/ns/net"
    record_file.write(tmp_path / "flows", netns, *others)
    result = run_tgen(*arguments(tmp_path / "flows", tmp_path))
    assert result.returncode == 1
    assert "flow 0: transport rdma needs --nic" in result.stderr


# --- without flows: the protocol with the parent process


def start_tgen(*args: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([str(TGEN), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_go(tmp_path: Path, number: signal.Signals) -> None:
    flows = write(tmp_path / "flows")
    t0_ns = time.monotonic_ns() + 20_000 * MS
    process = start_tgen(*arguments(flows, tmp_path, t0_ns), "--seed", "42")
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    assert (tmp_path / "flows.bin.partial").exists()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (128 + number, b"")
    assert not list(tmp_path.glob("*.bin*"))


def test_go_after_t0(tmp_path: Path) -> None:
    flows = write(tmp_path / "flows")
    process = start_tgen(*arguments(flows, tmp_path, t0_ns=1))
    _, stderr = process.communicate(b"go\n", timeout=60)
    assert process.returncode == 1
    assert b"--t0: '1': already past" in stderr


@pytest.mark.parametrize("stdin", [b"", b"no\n"])
def test_no_go(tmp_path: Path, stdin: bytes) -> None:
    flows = write(tmp_path / "flows")
    process = start_tgen(*arguments(flows, tmp_path))
    _, stderr = process.communicate(stdin, timeout=60)
    assert process.returncode == 1
    assert b"'go'" in stderr


# --- the logs


@pytest.mark.parametrize(
    ("record", "dtype"),
    [
        ("tgen_log_header", tgen_log.HEADER_DTYPE),
        ("tgen_flow_record", tgen_log.FLOW_DTYPE),
        ("tgen_sample_record", tgen_log.SAMPLE_DTYPE),
        ("tgen_nic_record", tgen_log.NIC_DTYPE),
    ],
)
def test_layouts_of_c_and_python_agree(record: str, dtype: np.dtype[np.void]) -> None:
    assert layout_of(dtype) == layout("traffic/tgen/tgen_log.h", record)


def sample_file(
    path: Path, magic: bytes = b"DCGYMSA2", version: int = 1, size: int = 72, count: int = 1, tail: bytes = b""
) -> Path:
    header = struct.pack("<8sIIQqqqQQ", magic, version, size, count, 0, 1000, 100, 0, 0)
    path.write_bytes(header + struct.pack("<qQQQQIIIIIIII", 100, *[0] * 12) + tail)
    return path


def test_reader_is_strict(tmp_path: Path) -> None:
    path = tmp_path / "samples.bin"
    assert len(tgen_log.read_samples(sample_file(path))) == 1
    for broken in ({"magic": b"DCGYMFL1"}, {"version": 2}, {"size": 57}, {"count": 2}, {"tail": b"x"}):
        with pytest.raises(ProtocolError, match=re.escape(str(path))):
            tgen_log.read_samples(sample_file(path, **broken))  # type: ignore[arg-type]
    path.write_bytes(b"")
    with pytest.raises(ProtocolError, match="too few"):
        tgen_log.read_samples(path)


# --- flows over a veth pair


@dataclass(frozen=True)
class Pair:
    """Two namespaces, 10.77.0.1 and 10.77.0.2, joined by a veth pair with static neighbours."""

    a: str
    b: str

    def row(self, flow: int, *args: Any, **values: Any) -> Flow:
        return row(flow, *args, hosts=(self.a, self.b), **values)


def ip(*args: str) -> str:
    return subprocess.run(["ip", *args], capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture
def pair() -> Iterator[Pair]:
    if shutil.which("ip") is None:
        pytest.skip("needs ip(8) for network namespaces")
    names = [f"tgt{os.getpid()}{end}" for end in "ab"]
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "e0", "netns", names[0], "type", "veth", "peer", "name", "e0", "netns", names[1])
            ip("-n", names[0], "link", "show", "e0")  # entering one needs more than making one: a chroot is not enough
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr.strip()}")
        for number, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "e0")
            ip("-n", name, "link", "set", "e0", "address", f"02:00:00:00:00:0{number + 1}", "up")
            ip("-n", name, "neigh", "add", f"10.77.0.{2 - number}", "lladdr", f"02:00:00:00:00:0{2 - number}",
               "dev", "e0", "nud", "permanent")  # fmt: skip
        yield Pair(*names)
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=60, check=False)


def run_flows(
    tmp_path: Path,
    rows: list[Flow],
    *more: str,
    duration_ns: int = 400 * MS,
    sample_ns: int = 20 * MS,
    errors: str = "",
) -> tuple[Records, Records]:
    flows = write(tmp_path / "flows", *rows)
    t0_ns = time.monotonic_ns() + 1500 * MS
    process = start_tgen(*arguments(flows, tmp_path, t0_ns, duration_ns, sample_ns), *more)
    _, stderr = process.communicate(b"go\n", timeout=120)
    assert (process.returncode, stderr.decode()) == (0, errors)
    assert time.monotonic_ns() >= t0_ns + duration_ns
    assert not list(tmp_path.glob("*.partial"))
    for name in ("flows.bin", "samples.bin"):
        assert tgen_log.read_header(tmp_path / name) == tgen_log.TgenHeader(t0_ns, duration_ns, sample_ns, 0)
    return tgen_log.read_flows(tmp_path / "flows.bin"), tgen_log.read_samples(tmp_path / "samples.bin")


def statuses(log: Records) -> list[str]:
    return [STATUSES[status] for status in log["status"]]


def test_sized_flows_are_counted_to_the_byte(tmp_path: Path, pair: Pair) -> None:
    sizes = [1, 1447, 1448, 1449, 65536, 262143, 262144, 262145, 5_000_001]
    rows = [pair.row(i, cc=("cubic", "reno")[i % 2], size=size, port=5001 + i % 2) for i, size in enumerate(sizes)]
    records, _ = run_flows(tmp_path, rows, duration_ns=3000 * MS)
    assert statuses(records) == ["done"] * len(sizes)
    assert records["size_bytes"].tolist() == sizes
    assert records["sent_bytes"].tolist() == sizes
    assert records["received_bytes"].tolist() == sizes
    assert records["src_port"].tolist() == [20000 + i for i in range(len(sizes))]
    assert np.all(records["start_ns"] >= 0)
    assert np.all(records["established_ns"] >= records["start_ns"])
    assert np.all(records["end_ns"] > records["established_ns"])
    assert np.array_equal(records["fct_ns"], records["end_ns"] - records["start_ns"])


def test_flows_by_time_and_by_rate(tmp_path: Path, pair: Pair) -> None:
    rows = [
        pair.row(0, start=100 * MS, stop=200 * MS),
        pair.row(1),
        pair.row(2, rate=80_000_000),
        pair.row(3, rate=8_000_000, size=10_000),
        pair.row(4, rate=80_000_000, stop=100 * MS, size=1 << 40),
    ]
    records, samples = run_flows(tmp_path, rows, sample_ns=10 * MS)
    assert statuses(records) == ["stopped", "running", "running", "done", "stopped"]
    assert records["start_ns"][0] >= 100 * MS
    assert records["end_ns"].tolist()[:3] == [200 * MS, -1, -1]
    assert np.all(records["fct_ns"][[0, 1, 2, 4]] == -1)
    assert records["received_bytes"][0] == records["sent_bytes"][0] > 0  # what was on its way at the stop arrived
    of_first = samples[samples["flow"] == 0]
    last = of_first[of_first["t_ns"] <= 200 * MS][-1]["bytes_received"]
    after = of_first[of_first["t_ns"] > 200 * MS]["bytes_received"]
    assert np.all(np.diff(after.astype(np.int64)) >= 0) and np.all(after >= last)
    assert 0 < records["received_bytes"][2] <= 400 * MS * 80_000_000 // 8 // 1_000_000_000
    assert records["received_bytes"][4] <= 100 * MS * 80_000_000 // 8 // 1_000_000_000
    assert records["fct_ns"][3] >= 10_000 * 8 * 1_000_000_000 // 8_000_000
    first = samples[samples["flow"] == 0]
    assert first["t_ns"].min() > 100 * MS and first["t_ns"].max() <= 200 * MS
    running = samples[samples["flow"] == 1]
    assert np.all(np.diff(running["bytes_received"].astype(np.int64)) >= 0)
    assert running["bytes_received"][-1] <= records["received_bytes"][1]
    assert np.all(samples["cwnd_packets"] > 0)


def test_datagrams(tmp_path: Path, pair: Pair) -> None:
    """Two flows send full datagrams at a rate to one port; a size ends a flow, and the flow has no completion time."""
    rows = [
        pair.row(0, transport="udp", rate=11_776_000),  # 1472 bytes a millisecond
        pair.row(1, transport="udp", rate=11_776_000, size=100_000, gaps="uniform"),
        pair.row(2, transport="udp", rate=11_776_000, start=50 * MS, stop=150 * MS, port=5002, gaps="exponential"),
        pair.row(3, size=1000),  # TCP has its own port 5001
    ]
    log, samples = run_flows(tmp_path, rows, "--warm", duration_ns=1000 * MS)
    assert statuses(log) == ["running", "done", "stopped", "done"]
    assert log["sent_bytes"].tolist() == log["received_bytes"].tolist()
    assert log["sent_bytes"][0] % 1472 == 0 and 0 < log["sent_bytes"][0] <= 1_472_000
    assert log["sent_bytes"][1] == 100_000
    assert log["fct_ns"].tolist()[:3] == [-1, -1, -1] and log["end_ns"][1] > log["start_ns"][1]
    assert np.array_equal(log["established_ns"][:3], log["start_ns"][:3])
    sampled = samples[samples["flow"] == 0]
    assert np.all(np.diff(sampled["bytes_received"].astype(np.int64)) >= 0) and np.all(sampled["cwnd_packets"] == 0)
    assert np.all(sampled["bytes_received"] <= sampled["bytes_acked"]) and sampled["bytes_received"].max() > 0


def test_gates(tmp_path: Path, pair: Pair) -> None:
    """A flow starts a given time after the last of the flows that it waits for has ended, in whatever way."""
    rows = [
        pair.row(0, size=100_000, opens=(0, 1)),
        pair.row(1, stop=100 * MS, opens=(0,)),
        pair.row(2, size=1000, gate=0, start=20 * MS, opens=(2,)),
        pair.row(3, size=1000, gate=1),
        pair.row(4, size=1000, gate=2, stop=50 * MS, opens=(3,)),  # its time is up before it is due
        pair.row(5, size=1000, gate=3),
        pair.row(6, transport="udp", rate=10**7, size=50_000, opens=(4,), port=5003),
        pair.row(7, gate=4, start=5 * MS, length=10 * MS),
        pair.row(8, size=1000, start=500 * MS),  # after the end of the run
    ]
    log, _ = run_flows(tmp_path, rows)
    assert statuses(log) == ["done", "stopped", "done", "done", "waiting", "waiting", "done", "stopped", "waiting"]
    assert (log["due_ns"][8], log["start_ns"][8]) == (500 * MS, -1)
    assert log["due_ns"][2] == 120 * MS and log["due_ns"][3] == log["end_ns"][0]
    assert log["due_ns"][4] == log["end_ns"][2] and log["due_ns"][5] == -1
    assert log["due_ns"][7] == log["end_ns"][6] + 5 * MS and log["end_ns"][7] == log["due_ns"][7] + 10 * MS
    assert log["start_ns"].tolist()[4:6] == [-1, -1] and np.all(log["start_ns"][[2, 3, 7]] >= log["due_ns"][[2, 3, 7]])


def test_one_source_port_to_two_ports(tmp_path: Path, pair: Pair) -> None:
    """A source port is unique only together with its destination; connections in TIME_WAIT do not block it."""
    rows = [pair.row(i, size=1000, port=5001 + i, src_port=20000) for i in range(50)]
    log, _ = run_flows(tmp_path, rows, duration_ns=2000 * MS)
    assert statuses(log) == ["done"] * 50 and set(log["src_port"].tolist()) == {20000}


def test_a_flow_that_cannot_connect_fails_alone(tmp_path: Path, pair: Pair) -> None:
    ip("-n", pair.b, "route", "add", "blackhole", "10.77.0.1/32")  # SYN-ACKs find no way back
    ip("-n", pair.a, "route", "add", "prohibit", "10.77.0.3/32")
    ip("-n", pair.b, "addr", "add", "10.77.0.3/24", "dev", "e0")
    lost = pair.row(0, size=1)
    refused_flow = pair.row(1, size=1, dst="10.77.0.3")
    stopped = pair.row(2, stop=100 * MS)
    errors = "tgen: 1 of 3 flows failed; the first is flow 1: connect: Permission denied\n"
    log, samples = run_flows(tmp_path, [lost, refused_flow, stopped], errors=errors)
    assert statuses(log) == ["running", "failed", "stopped"]
    assert log["error"].tolist() == [0, errno.EACCES, 0]
    assert log["established_ns"].tolist() == [-1, -1, -1]
    assert log["received_bytes"].tolist() == [0, 0, 0]
    assert len(samples) == 0


def test_a_flow_whose_socket_cannot_be_opened_fails_alone_and_names_the_call(tmp_path: Path, pair: Pair) -> None:
    rows = [pair.row(0, size=1000), pair.row(1, size=1000, src="10.77.0.9"), pair.row(2, size=1000, start=10 * MS)]
    errors = "tgen: 1 of 3 flows failed; the first is flow 1: bind: Cannot assign requested address\n"
    log, _ = run_flows(tmp_path, rows, errors=errors)
    assert statuses(log) == ["done", "failed", "done"]
    assert log["error"].tolist() == [0, errno.EADDRNOTAVAIL, 0]


def test_many_flows(tmp_path: Path, pair: Pair) -> None:
    rows = [pair.row(i, size=20_000, start=i * 10_000) for i in range(2000)]
    log, _ = run_flows(tmp_path, rows, duration_ns=8000 * MS, sample_ns=1000 * MS)
    assert statuses(log) == ["done"] * 2000
    assert set(log["received_bytes"].tolist()) == {20_000}


def test_warm_frames_reach_both_hosts_and_are_dropped_there(tmp_path: Path, pair: Pair) -> None:
    run_flows(tmp_path, [pair.row(i, size=1) for i in range(40)], "--warm")
    for name in (pair.a, pair.b):
        snmp = subprocess.run(["ip", "netns", "exec", name, "cat", "/proc/net/snmp"], capture_output=True, text=True, check=True)
        names, values = (line.split() for line in snmp.stdout.splitlines() if line.startswith("Tcp:"))
        assert dict(zip(names, values, strict=True))["InCsumErrors"] == "40"


def test_warm_without_a_neighbour(tmp_path: Path, pair: Pair) -> None:
    ip("-n", pair.a, "neigh", "del", "10.77.0.2", "dev", "e0")
    flows = write(tmp_path / "flows", pair.row(0))
    result = run_tgen(*arguments(flows, tmp_path), "--warm")
    assert result.returncode == 1
    assert "flow 0: --warm forward" in result.stderr and "ip neigh add" in result.stderr


def test_unknown_congestion_control(tmp_path: Path, pair: Pair) -> None:
    flows = write(tmp_path / "flows", pair.row(0, cc="nonsense"))
    result = run_tgen(*arguments(flows, tmp_path))
    assert result.returncode == 1
    assert "flow 0: congestion control 'nonsense' is not available" in result.stderr


def test_address_of_nobody(tmp_path: Path, pair: Pair) -> None:
    flows = write(tmp_path / "flows", pair.row(0, src="10.77.0.9"))
    result = run_tgen(*arguments(flows, tmp_path))
    assert result.returncode == 1
    assert "flow 0: sender: bind: Cannot assign requested address" in result.stderr


FLOW_ROW = np.dtype(
    [
        ("received_bytes", "<u8"), ("acked_bytes", "<u8"), ("start_ns", "<i8"), ("end_ns", "<i8"),
        ("srtt_us", "<u4"), ("min_rtt_us", "<u4"), ("cwnd_packets", "<u4"), ("retransmits", "<u4"),
        ("status", "<u4"), ("cnps", "<u4"), ("rate_bps", "<u8"),
    ]
)  # fmt: skip
ROW_STATUS = ("waiting", "running", "done", "stopped", "failed")  # enum sm_flow_status
HEADER_FLOWS = 112  # offset of off_flows, off_commands, flow_rows, command_rows


def matrix_file(path: Path, rows: int, flow_rows: int = 0) -> Path:
    """Writes a header, the activity cells and rows of flows (with garbage in them)."""
    flows = 256 + 8 * rows
    total = flows + FLOW_ROW.itemsize * flow_rows
    header = struct.pack("<8sHHIIIQQQQQ", b"DCGYMSM1", 2, 0, 256, rows, 8, 256, 256, 256, 256, total)
    header = header.ljust(HEADER_FLOWS, b"\0") + struct.pack("<QQII", flows, total, flow_rows, 0)
    path.write_bytes(header.ljust(256, b"\0") + bytes(8 * rows) + b"\xa5" * (total - flows))
    return path


def activity(path: Path) -> list[int]:
    return np.frombuffer(path.read_bytes()[256:], "<u8").tolist()


def flow_rows(path: Path) -> Records:
    data = path.read_bytes()
    offset, _, count, _ = struct.unpack_from("<QQII", data, HEADER_FLOWS)
    return np.frombuffer(data, FLOW_ROW, count, offset)


def row_statuses(rows: Records) -> list[str]:
    return [ROW_STATUS[status] for status in rows["status"]]


@contextmanager
def flows_under_way(tmp_path: Path, rows: list[Flow], *more: str, duration_ns: int) -> Iterator[subprocess.Popen[bytes]]:
    """Starts tgen and its flows; stops it at the end unless it has ended."""
    command = arguments(write(tmp_path / "flows", *rows), tmp_path, time.monotonic_ns() + 1000 * MS, duration_ns, 0)
    process = start_tgen(*command, *more)
    try:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(b"go\n")
        process.stdin.flush()
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def wait_until(process: subprocess.Popen[bytes], holds: Callable[[], bool]) -> None:
    while not holds():
        assert process.poll() is None
        time.sleep(0.01)


def test_activity_cells(tmp_path: Path, pair: Pair) -> None:
    matrix = matrix_file(tmp_path / "matrix", 3)
    rows = [pair.row(0, path=(0, 2)), pair.row(1, path=(2,)), pair.row(2, size=1, path=(1,))]
    with flows_under_way(tmp_path, rows, "--matrix", str(matrix), duration_ns=20_000 * MS) as process:
        wait_until(process, lambda: activity(matrix) == [1, 0, 2])
    assert process.returncode == 128 + signal.SIGTERM
    assert activity(matrix) == [0, 0, 0]


# --- the rows of flows


def test_rows_end_as_the_log(tmp_path: Path, pair: Pair) -> None:
    """Rows have every flow's start, end and last counts; rows that belong to no flow are those of a waiting one."""
    ip("-n", pair.a, "route", "add", "prohibit", "10.77.0.3/32")
    ip("-n", pair.b, "addr", "add", "10.77.0.3/24", "dev", "e0")
    matrix = matrix_file(tmp_path / "matrix", 0, 10)
    rows = [
        pair.row(0),
        pair.row(1, size=300_001),
        pair.row(2, start=50 * MS, stop=200 * MS),
        pair.row(3, size=1, gate=7),
        pair.row(4, size=1, opens=(7,), dst="10.77.0.3"),
        pair.row(5, rate=8_000_000),
        pair.row(6, transport="udp", rate=11_776_000, size=100_000),
        pair.row(7, transport="udp", rate=11_776_000, stop=100 * MS, port=5002),
    ]
    errors = "tgen: 1 of 8 flows failed; the first is flow 4: connect: Permission denied\n"
    log, samples = run_flows(tmp_path, rows, "--matrix", str(matrix), "--publish", str(7 * MS), errors=errors)
    published = flow_rows(matrix)
    assert statuses(log) == ["running", "done", "stopped", "done", "failed", "running", "done", "stopped"]
    assert row_statuses(published) == statuses(log) + ["waiting"] * 2
    for column in ("received_bytes", "start_ns", "end_ns", "retransmits"):
        assert published[column].tolist()[:8] == log[column].astype("<i8").tolist(), column
    assert published["acked_bytes"].tolist()[:8] == log["sent_bytes"].tolist()
    assert np.all(published["start_ns"][8:] == -1) and np.all(published["end_ns"][8:] == -1)
    assert np.all(published["received_bytes"][8:] == 0)
    assert np.all(published["srtt_us"][[0, 1, 2, 3, 5]] >= published["min_rtt_us"][[0, 1, 2, 3, 5]])
    assert np.all(published["min_rtt_us"][[0, 1, 2, 3, 5]] > 0) and np.all(published["cwnd_packets"][[0, 1, 2, 3, 5]] > 0)
    for column in ("srtt_us", "min_rtt_us", "cwnd_packets"):
        assert published[column][[6, 7]].tolist() == [0, 0]
    assert set(samples["t_ns"].tolist()) <= set(range(0, 400 * MS, 20 * MS))  # only the logs' own instants


def test_rows_of_flows_under_way(tmp_path: Path, pair: Pair) -> None:
    """With --publish counts rise while a flow runs; without it they change at its end."""
    matrix = matrix_file(tmp_path / "matrix", 0, 2)
    rows = [pair.row(0), pair.row(1, transport="udp", rate=11_776_000)]
    with flows_under_way(tmp_path, rows, "--matrix", str(matrix), "--publish", str(MS), duration_ns=20_000 * MS) as process:
        snapshots = []
        wait_until(process, lambda: row_statuses(flow_rows(matrix)) == ["running"] * 2)
        for _ in range(5):
            least = snapshots[-1]["received_bytes"] if snapshots else np.zeros(2, np.uint64)
            wait_until(process, lambda least=least: bool(np.all(flow_rows(matrix)["received_bytes"] > least)))
            snapshots.append(flow_rows(matrix))
    assert process.returncode == 128 + signal.SIGTERM
    assert all(np.all(rows["acked_bytes"] <= later["acked_bytes"]) for rows, later in itertools.pairwise(snapshots))
    assert all(rows["end_ns"].tolist() == [-1, -1] for rows in snapshots)


def test_rows_without_an_interval(tmp_path: Path, pair: Pair) -> None:
    matrix = matrix_file(tmp_path / "matrix", 0, 3)
    rows = [pair.row(0), pair.row(1, size=5000, opens=(1,)), pair.row(2, gate=1, start=200 * MS)]
    with flows_under_way(tmp_path, rows, "--matrix", str(matrix), duration_ns=20_000 * MS) as process:
        wait_until(process, lambda: row_statuses(flow_rows(matrix)) == ["running", "done", "running"])
        published = flow_rows(matrix)
    assert published["received_bytes"].tolist() == [0, 5000, 0]
    assert published["start_ns"][2] >= published["end_ns"][1] + 200 * MS


def test_what_stays_keeps_its_sockets_and_its_cells_until_it_is_told(tmp_path: Path, pair: Pair) -> None:
    """The counts are those at the end; a stop time at that instant does not stop a flow."""
    matrix = matrix_file(tmp_path / "matrix", 1, 2)
    rows = [pair.row(0, path=(0,)), pair.row(1, stop=200 * MS, path=(0,))]
    with flows_under_way(tmp_path, rows, "--matrix", str(matrix), "--stay", duration_ns=200 * MS) as process:
        wait_until(process, lambda: bool(np.all(flow_rows(matrix)["cwnd_packets"] > 0)))
        ended = flow_rows(matrix)
        assert row_statuses(ended) == ["running"] * 2 and activity(matrix)[0] == 2
        assert len(sockets(pair.a)) == 2 and not list(tmp_path.glob("*.bin"))
        assert process.stdin is not None
        process.stdin.write(b"end\n")
        process.stdin.flush()
        assert process.wait(timeout=60) == 0
    log = tgen_log.read_flows(tmp_path / "flows.bin")
    assert statuses(log) == ["running"] * 2 and activity(matrix)[0] == 0
    assert log["received_bytes"][0] == ended["received_bytes"][0]


def test_what_stays_can_be_given_up(tmp_path: Path, pair: Pair) -> None:
    matrix = matrix_file(tmp_path / "matrix", 1, 1)
    with flows_under_way(tmp_path, [pair.row(0, path=(0,))], "--matrix", str(matrix), "--stay", duration_ns=100 * MS) as process:
        wait_until(process, lambda: flow_rows(matrix)["cwnd_packets"][0] > 0)
    assert process.returncode == 128 + signal.SIGTERM
    assert sockets(pair.a) == [] and activity(matrix)[0] == 0 and not list(tmp_path.glob("*.bin*"))


def test_no_samples(tmp_path: Path, pair: Pair) -> None:
    _, samples = run_flows(tmp_path, [pair.row(0, size=100_000)], sample_ns=0)
    assert len(samples) == 0


def test_too_few_rows(tmp_path: Path, pair: Pair) -> None:
    matrix = matrix_file(tmp_path / "matrix", 0, 1)
    flows = write(tmp_path / "flows", pair.row(0), pair.row(1))
    command = arguments(flows, tmp_path)
    refused(run_tgen(*command, "--matrix", str(matrix)), "rows for 1 flows", "has 2", "--flow-rows 2")


def test_the_matrix_may_have_no_rows_of_flows(tmp_path: Path, pair: Pair) -> None:
    matrix = matrix_file(tmp_path / "matrix", 1)
    before = matrix.read_bytes()
    run_flows(tmp_path, [pair.row(0, size=1)], "--matrix", str(matrix), "--publish", str(MS))
    assert matrix.read_bytes() == before


def sockets(name: str) -> list[str]:
    command = ["ip", "netns", "exec", name, "cat", "/proc/net/tcp"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]


def test_a_signal_leaves_nothing_to_send(tmp_path: Path, pair: Pair) -> None:
    """No peer receives the resets here: a socket that was merely closed would go on sending for minutes."""
    matrix = matrix_file(tmp_path / "matrix", 0, 2)
    rows = [pair.row(0), pair.row(1)]
    with flows_under_way(tmp_path, rows, "--matrix", str(matrix), "--publish", str(MS), duration_ns=20_000 * MS) as process:
        wait_until(process, lambda: bool(np.all(flow_rows(matrix)["received_bytes"] > 0)))
        ip("-n", pair.a, "route", "add", "blackhole", "10.77.0.2/32")
        ip("-n", pair.b, "route", "add", "blackhole", "10.77.0.1/32")
        assert len(sockets(pair.a)) == 2 and len(sockets(pair.b)) == 3  # one listens
    assert process.returncode == 128 + signal.SIGTERM
    assert sockets(pair.a) == sockets(pair.b) == []
    assert not list(tmp_path.glob("*.bin*"))


def test_a_path_past_the_matrix(tmp_path: Path, pair: Pair) -> None:
    matrix = matrix_file(tmp_path / "matrix", 3)
    flows = write(tmp_path / "flows", pair.row(0, path=(3,)))
    refused(run_tgen(*arguments(flows, tmp_path), "--matrix", str(matrix)), "3 rows", "row 3")
