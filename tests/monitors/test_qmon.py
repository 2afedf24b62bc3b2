# SPDX-License-Identifier: Apache-2.0
"""qmon as a program: its mistakes as any user, its numbers against those of tc as root."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from dc_gym.base import record_file
from dc_gym.monitors.state_matrix import HEADER, StateMatrix
from dc_gym.monitors.trace import QueueTrace, read_trace
from dc_gym.run.plan.inputs import PORT

QMON = Path(__file__).resolve().parents[2] / "dc_gym/bin/qmon"
MS = 1_000_000

pytestmark = pytest.mark.skipif(not QMON.exists(), reason="dc_gym/bin/qmon is not built; run `make programs`")


def qmon(*args) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(QMON), *map(str, args)], capture_output=True, text=True, timeout=60)


def write_ports(path: Path, *ports: tuple[str, str, str]) -> Path:
    record_file.write(
        path, PORT.table(dict(zip(("name", "netns", "ifname"), port, strict=True)) | {"class": 0} for port in ports)
    )
    return path


def soon(delay_ms: int = 300) -> int:
    return time.monotonic_ns() + delay_ms * MS


# ---- mistakes ----


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "--ports is missing"),
        (["--ports", "p"], "--interval is missing"),
        (["--ports", "p", "--interval", "10000"], "--t0 is missing"),
        (["--ports", "p", "--interval", "10000", "--t0", "1"], "--count is missing"),
        (["--interval", "9999"], "--interval: '9999' is not a whole number from 10000 "),
        (["--interval", "1e6"], "'1e6'"),
        (["--interval", "-1"], "'-1'"),
        (["--t0", "99999999999999999999999"], "--t0: "),
        (["--count", "0"], "--count: '0'"),
        (["--count", " 7"], "--count: ' 7'"),
        (["--count"], "'--count': its value is missing"),
        (["--colour", "red"], "'--colour': no such option"),
        (["more"], "'more': not an option"),
        (["--ports", "p", "--interval", "3600000000000", "--t0", "1", "--count", "9000000000000"], "give fewer"),
    ],
)
def test_refuses_arguments(args, words):
    process = qmon(*args)
    assert process.returncode == 2
    assert process.stdout == ""
    assert words in process.stderr
    assert process.stderr.startswith("qmon: ")
    assert process.stderr.count("\n") == 1


def test_helps():
    process = qmon("--help")
    assert process.returncode == 0
    assert process.stdout.startswith("usage: qmon --ports FILE")


@pytest.mark.parametrize(
    ("port", "words"),
    [
        (None, "ports': No such file"),
        ("nonsense\n", "ports': table 'port': the file ends before it"),
        ("row,name,netns,ifname\n0,a,-,lo\n", "ports': table 'port': something else is there (magic)"),
        (("a", "-", "sixteencharacter"), "ports': port 0, ifname: no end within its 16 bytes"),
        (("a", "-", "no-such-device"), "interface 'no-such-device' of port 'a'"),
        (("a", "/no/such/netns", "lo"), "'/no/such/netns': No such file"),
    ],
)
def test_refuses_ports_files(tmp_path, port, words):
    path = tmp_path / "ports"
    if isinstance(port, str):
        path.write_text(port)
    elif port is not None:
        write_ports(path, port)
    process = qmon("--ports", path, "--interval", MS, "--t0", soon(), "--count", 1)
    assert (process.returncode, process.stderr.count("\n")) == (2, 1)
    assert words in process.stderr


def test_needs_no_root_in_its_own_namespace(tmp_path):
    """Reading qdiscs is open to all; only entering another namespace is not."""
    t0 = soon(100)
    ports = write_ports(tmp_path / "ports", ("loop", "-", "lo"))
    process = qmon("--ports", ports, "--interval", MS, "--t0", t0, "--count", 20, "--trace", tmp_path / "trace")
    if "has no root qdisc" in process.stderr:
        pytest.skip("lo is down here")
    assert (process.returncode, process.stdout, process.stderr) == (0, "ready\n", "")
    trace = read_trace(tmp_path / "trace")
    assert trace.rows == ("loop",)
    assert trace.t_ns.tolist() == [t0 + k * MS for k in range(20)]


# ---- numbers ----


def run(*argv: str) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


@contextmanager
def netns(name: str) -> Iterator[str]:
    run("ip", "netns", "add", name)
    try:
        yield name
    finally:
        run("ip", "netns", "del", name)


class Wire:
    """Two namespaces joined by a veth pair; the port under test is `left`'s end."""

    def __init__(self, stack: ExitStack) -> None:
        self.left = stack.enter_context(netns(f"qmon-l{os.getpid()}"))
        self.right = stack.enter_context(netns(f"qmon-r{os.getpid()}"))
        run("ip", "-n", self.left, "link", "add", "name", "qm0", "type", "veth", "peer", "name", "qm1", "netns", self.right)
        for ns, device, address in ((self.left, "qm0", "10.213.0.1/24"), (self.right, "qm1", "10.213.0.2/24")):
            run("ip", "netns", "exec", ns, "sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=1")
            run("ip", "-n", ns, "address", "add", address, "dev", device)
            run("ip", "-n", ns, "link", "set", device, "up")
        self.introduce(self.left, "qm0", "10.213.0.2", self.right, "qm1")
        self.introduce(self.right, "qm1", "10.213.0.1", self.left, "qm0")

    @staticmethod
    def introduce(ns: str, device: str, address: str, peer_ns: str, peer: str) -> None:
        """Sets a static neighbour, so that the counts contain no ARP."""
        mac = json.loads(run("ip", "-n", peer_ns, "-j", "link", "show", peer))[0]["address"]
        run("ip", "-n", ns, "neigh", "replace", address, "lladdr", mac, "dev", device)

    def tc(self, *args: str) -> None:
        run("tc", "-n", self.left, "qdisc", *args)

    def stats(self) -> dict[str, dict]:
        """Returns tc's statistics of each qdisc, by handle."""
        return {q["handle"]: q for q in json.loads(run("tc", "-n", self.left, "-s", "-j", "qdisc", "show", "dev", "qm0"))}

    def send(self, count: int, payload: int) -> None:
        """Sends UDP datagrams, all at once."""
        here = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.left}", os.O_RDONLY)
        libc = ctypes.CDLL(None, use_errno=True)
        try:
            assert libc.setns(there, 0x40000000) == 0
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        finally:
            assert libc.setns(here, 0x40000000) == 0
            os.close(here)
            os.close(there)
        with udp:
            udp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
            for _ in range(count):
                udp.sendto(bytes(payload), ("10.213.0.2", 9))

    def ports(self, folder: Path) -> Path:
        return write_ports(
            folder / "ports",
            ("right", f"/run/netns/{self.right}", "qm1"),
            ("left", f"/run/netns/{self.left}", "qm0"),
        )


@pytest.fixture
def wire() -> Iterator[Wire]:
    if not shutil.which("ip") or not shutil.which("tc"):
        pytest.skip("needs ip and tc")
    with ExitStack() as stack:
        try:
            veth_pair = Wire(stack)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no namespaces or veth here: {error.stderr.strip()}")
        yield veth_pair


def sweep_once(wire: Wire, folder: Path) -> QueueTrace:
    """Runs one sweep now."""
    process = qmon("--ports", wire.ports(folder), "--interval", MS, "--t0", soon(100), "--count", 1, "--trace", folder / "trace")
    assert (process.returncode, process.stdout, process.stderr) == (0, "ready\n", "")
    return read_trace(folder / "trace")


def row(trace: QueueTrace, name: str) -> dict[str, int]:
    return dict(zip(trace.columns, map(int, trace.cells[-1, trace.rows.index(name)]), strict=True))


def expected(root: dict) -> dict[str, int]:
    """Returns tc's statistics of a root qdisc under the names of the state matrix."""
    return {
        "backlog_bytes": root["backlog"],
        "backlog_packets": root["qlen"],
        "tx_bytes": root["bytes"],
        "tx_packets": root["packets"],
        "drops": root["drops"],
        "marks": 0,
        "requeues": root["requeues"],
        "active_flows": 0,
        **dict.fromkeys(("ce_bytes", "queue_byte_ns", "busy_ns", "longest_bytes"), 0),  # of the lab's own qdisc
        **dict.fromkeys(("paused_ns", "charged_bytes", "pauses"), 0),  # likewise
    }


STALLED_TBF = ("tbf", "rate", "8bit", "burst", "3000", "limit", "100000")
"""After its burst it sends one byte a second, so that queued frames stay there to be compared."""


def test_counts_a_fifo(wire, tmp_path):
    wire.tc("replace", "dev", "qm0", "root", "handle", "1:", "bfifo", "limit", "100000")
    wire.send(50, 1000)
    root = wire.stats()["1:"]
    assert root["packets"] >= 50
    trace = sweep_once(wire, tmp_path)
    assert row(trace, "left") == expected(root)
    assert row(trace, "right")["tx_packets"] == 0


def test_counts_each_drop_of_a_stack_once(wire, tmp_path):
    """tbf over bfifo: both count the drop of the child; the port lost it once."""
    wire.tc("replace", "dev", "qm0", "root", "handle", "1:", *STALLED_TBF)
    wire.tc("replace", "dev", "qm0", "parent", "1:1", "handle", "10:", "bfifo", "limit", "10420")
    wire.send(40, 1000)
    stats = wire.stats()
    assert stats["10:"]["drops"] > 0
    assert stats["1:"]["drops"] == stats["10:"]["drops"]
    counters = row(sweep_once(wire, tmp_path), "left")
    assert counters == expected(stats["1:"])
    assert counters["backlog_bytes"] > 0
    assert counters["tx_packets"] + counters["backlog_packets"] + counters["drops"] == 40


def test_counts_the_drops_of_the_root_itself(wire, tmp_path):
    """A frame larger than tbf's burst never reaches the child."""
    wire.tc("replace", "dev", "qm0", "root", "handle", "1:", "tbf", "rate", "8mbit", "burst", "1000", "limit", "100000")
    wire.send(7, 1200)
    wire.send(3, 100)
    stats = wire.stats()
    counters = row(sweep_once(wire, tmp_path), "left")
    assert counters["drops"] == stats["1:"]["drops"] == 7
    assert counters["tx_packets"] + counters["backlog_packets"] == 3


def test_counts_htb_with_leaves(wire, tmp_path):
    wire.tc("replace", "dev", "qm0", "root", "handle", "1:", "htb", "default", "1")
    leaf = ["dev", "qm0", "parent", "1:", "classid", "1:1", "htb", "rate", "8bit", "burst", "3000"]
    run("tc", "-n", wire.left, "class", "add", *leaf)
    wire.tc("add", "dev", "qm0", "parent", "1:1", "handle", "10:", "pfifo", "limit", "5")
    wire.send(30, 1000)
    stats = wire.stats()
    assert stats["10:"]["drops"] > 0
    counters = row(sweep_once(wire, tmp_path), "left")
    assert counters == expected(stats["1:"])
    assert counters["tx_packets"] + counters["backlog_packets"] + counters["drops"] == 30


def test_leaves_clsact_out(wire, tmp_path):
    wire.tc("replace", "dev", "qm0", "root", "handle", "1:", "bfifo", "limit", "100000")
    wire.tc("add", "dev", "qm0", "clsact")
    wire.send(5, 100)
    assert row(sweep_once(wire, tmp_path), "left") == expected(wire.stats()["1:"])


@contextmanager
def running(*args) -> Iterator[subprocess.Popen[str]]:
    """Runs qmon; begins when qmon has said that it is ready."""
    with subprocess.Popen([str(QMON), *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def wait_for(condition, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def test_keeps_its_schedule_and_publishes(wire, tmp_path):
    wire.tc("replace", "dev", "qm0", "root", "handle", "1:", *STALLED_TBF)
    t0 = soon()
    args = ["--ports", wire.ports(tmp_path), "--interval", MS, "--t0", t0, "--count", 200]
    with running(*args, "--matrix", tmp_path / "matrix", "--trace", tmp_path / "trace") as process:
        with StateMatrix.attach(tmp_path / "matrix") as matrix:
            assert matrix.rows == ("right", "left")
            assert (matrix.interval_ns, matrix.t0_ns, matrix.writer_pid) == (MS, t0, process.pid)
            wire.send(20, 1000)
            assert process.wait(timeout=60) == 0
            last = matrix.read()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    trace = read_trace(tmp_path / "trace")
    assert np.array_equal(trace.t_ns, t0 + MS * np.arange(200))
    assert (last.generation, last.t_ns) == (200, t0 + MS * 199)
    assert np.array_equal(last.cells, trace.cells[-1])
    assert row(trace, "left") == expected(wire.stats()["1:"])


def test_copies_active_flows(wire, tmp_path):
    path = tmp_path / "matrix"
    args = ["--ports", wire.ports(tmp_path), "--interval", MS, "--t0", soon(), "--count", 10**9, "--matrix", path]
    with running(*args), path.open("r+b") as file, StateMatrix.attach(path) as matrix:
        header = np.frombuffer(path.read_bytes(), HEADER, 1)[0]
        file.seek(int(header["off_activity"]) + 8)  # row 1
        file.write(np.uint64(12).tobytes())
        file.flush()
        wait_for(lambda: matrix.read().cells[1, matrix.columns.index("active_flows")] == 12)
        assert matrix.read().cells[0, matrix.columns.index("active_flows")] == 0


def test_totals_survive_a_new_qdisc(wire, tmp_path):
    wire.tc("replace", "dev", "qm0", "root", "handle", "1:", "bfifo", "limit", "100000")
    wire.send(9, 1000)
    path = tmp_path / "matrix"
    args = ["--ports", wire.ports(tmp_path), "--interval", MS, "--t0", soon(), "--count", 10**9, "--matrix", path]
    with running(*args), StateMatrix.attach(path) as matrix:
        packets = matrix.columns.index("tx_packets")
        wait_for(lambda: matrix.read().cells[1, packets] == 9)
        wire.tc("replace", "dev", "qm0", "root", "handle", "2:", "pfifo", "limit", "100")
        wire.send(4, 1000)
        wait_for(lambda: matrix.read().cells[1, packets] == 13)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_on_a_signal(wire, tmp_path, number):
    path = tmp_path / "trace"
    args = ["--ports", wire.ports(tmp_path), "--interval", MS, "--t0", soon(), "--count", 10**9, "--trace", path]
    with running(*args, "--matrix", tmp_path / "matrix") as process:
        with StateMatrix.attach(tmp_path / "matrix") as matrix:
            wait_for(lambda: matrix.read().generation >= 10)
        process.send_signal(number)
        assert process.wait(timeout=30) == 0
    assert len(read_trace(path).t_ns) >= 10
    assert not path.with_name("trace.partial").exists()


def test_stops_before_t0(wire, tmp_path):
    args = ["--ports", wire.ports(tmp_path), "--interval", MS, "--t0", soon(10**9), "--count", 5, "--trace", tmp_path / "trace"]
    with running(*args) as process:
        time.sleep(0.2)  # asleep until t0 by now
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    assert len(read_trace(tmp_path / "trace").t_ns) == 0


def test_tells_a_port_that_goes_away(wire, tmp_path):
    path = tmp_path / "trace"
    args = ["--ports", wire.ports(tmp_path), "--interval", MS, "--t0", soon(100), "--count", 10**9, "--trace", path]
    with running(*args) as process:
        run("ip", "-n", wire.left, "link", "del", "qm0")
        assert process.wait(timeout=30) == 1
        assert process.stderr is not None
        assert "has no root qdisc" in process.stderr.read()
    assert not path.exists()


def test_tells_a_device_without_a_qdisc(wire, tmp_path):
    run("ip", "-n", wire.left, "link", "add", "name", "down0", "type", "veth", "peer", "name", "down1")
    ports = write_ports(tmp_path / "ports", ("down", f"/run/netns/{wire.left}", "down0"))
    process = qmon("--ports", ports, "--interval", MS, "--t0", soon(), "--count", 1)
    assert process.returncode == 1
    assert "port 'down'" in process.stderr


def test_refuses_the_past(wire, tmp_path):
    process = qmon("--ports", wire.ports(tmp_path), "--interval", MS, "--t0", 1, "--count", 1)
    assert (process.returncode, process.stdout) == (2, "")
    assert "--t0: 1 is past" in process.stderr


def test_tells_a_full_disk(wire, tmp_path):
    """A file system of a few pages holds the trace's header, but not its sweeps."""
    disk = tmp_path / "disk"
    disk.mkdir()
    try:
        run("mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs here: {error.stderr.strip()}")
    try:
        ports, path = wire.ports(tmp_path), disk / "trace"
        process = qmon("--ports", ports, "--interval", 10_000, "--t0", soon(100), "--count", 2000, "--trace", path)
        assert process.returncode == 1
        assert "No space left on device" in process.stderr
        assert not path.exists()
        process = qmon("--ports", ports, "--interval", MS, "--t0", soon(100), "--count", 1, "--matrix", disk / "matrix")
        assert process.returncode == 1
        assert "No space left on device" in process.stderr
    finally:
        run("umount", str(disk))
