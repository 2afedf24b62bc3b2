# SPDX-License-Identifier: Apache-2.0
"""Traffic in a lab, through the `dcgym` command: the wire carries what a workload asks for."""

from __future__ import annotations

import errno
import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exec_spec import spec_text

from dc_gym.results.results import load_result

pytestmark = pytest.mark.lab

EXAMPLES = Path(__file__).parents[2] / "examples"

SENDER = """#!/usr/bin/env python3
import socket, sys
with socket.create_connection((sys.argv[1], 5000)) as s:
    s.sendall(bytes(1000000))
"""
RECEIVER = """#!/usr/bin/env python3
import pathlib, socket
peer, address = socket.create_server(("0.0.0.0", 5000)).accept()
total = 0
while data := peer.recv(65536):
    total += len(data)
print(address[0], total)
pathlib.Path("note").write_text("kept")
"""
PROGRAMS = """
[[workload.exec]]
host = "h3"
command = "./receiver.py"
[[workload.exec]]
host = "h1"
command = "./sender.py {h3}"
start = "500ms"
[[workload.exec]]
host = "h2"
command = "sh -c 'echo up; sleep 1000 & sleep 1000'"
start = "100ms"
stop = "1s"
[[workload.exec]]
host = "h2"
command = "sh -c 'exit 3'"
"""


@pytest.fixture
def run(tmp_path, lab_kernel):
    """Runs the spec with settings; returns its result."""
    tmp_path.chmod(0o755)

    def go(*settings, out="out", code=0, programs=""):
        (tmp_path / "spec.toml").write_text(spec_text(programs, kind="pairs") + '[metrics]\nslowdown = "off"\n')
        words = [word for setting in settings for word in ("--set", setting)]
        argv = ["run", tmp_path / "spec.toml", "--out", tmp_path / out, "--quiet", "--no-plot", *words]
        child = subprocess.run(
            [sys.executable, "-m", "dc_gym.cli.main", *map(str, argv)], capture_output=True, text=True, timeout=300
        )
        assert child.returncode == code, child.stderr
        return load_result(tmp_path / out, check_digest=True) if code == 0 else child

    return go


def test_programs_find_their_hosts_name(run):
    programs = "".join(f'[[workload.exec]]\nhost = "{host}"\ncommand = "hostname"\n' for host in ("h1", "h3", "h3"))
    result = run("workload.kind=none", programs=programs)
    hostnames = {name: (result.path / f"exec/{name}.stdout").read_text() for name in ("h1-0", "h3-0", "h3-1")}
    assert hostnames == {"h1-0": "h1\n", "h3-0": "h3\n", "h3-1": "h3\n"}


def test_a_program_may_set_its_device_down_and_up(run):
    ping = f"{sys.executable} -c 'import socket; print(socket.socket().connect_ex((\"10.0.0.3\", 9)))'"
    flip = "ip link set h1-eth0 down && ip link set h1-eth0 up"
    program = json.dumps(f'sh -c "{flip} && {ping}"'.replace('("10.0.0.3"', '(\\"10.0.0.3\\"'))
    result = run("workload.kind=none", programs=f'[[workload.exec]]\nhost = "h1"\ncommand = {program}\n')
    assert (result.path / "exec/h1-0.stdout").read_text() == f"{errno.ECONNREFUSED}\n"


def test_datagrams_keep_their_rate(run):
    """Below the line rate all arrive, each in a full frame, exactly at the rate; random gaps keep the mean and use the queue."""
    settings = ("workload.transport=udp", "workload.rate=4Mbit/s")
    exact, again = run(*settings), run(*settings, "workload.gaps=exponential", out="random")
    flows = exact.records("flows")
    sent = 2 * 4_000_000 // 8 // 1472 * 1472
    assert flows["sent_bytes"].tolist() == [sent, sent] and np.all(flows["received_bytes"] >= sent - 2 * 1472)
    assert list(exact.column("flows", "transport")) == ["udp", "udp"]
    port = exact.names.port.index("h1-eth0")
    last = [row for row in exact.records("queues") if row["port"] == port][-1]
    assert last["tx_bytes"] == last["tx_packets"] * 1514
    assert exact.summary["drops"] == again.summary["drops"] == 0
    assert again.records("flows")["sent_bytes"] == pytest.approx(sent, rel=0.15)
    assert again.summary["max_queue_bytes"] > exact.summary["max_queue_bytes"]


def test_datagrams_above_the_line_rate_are_dropped_in_the_queue(run):
    result = run("workload.transport=udp", "workload.rate=10Mbit/s", "time.duration=5s")
    assert result.fit and result.summary["drops"] > 0
    flows = result.records("flows")
    assert np.all(flows["sent_bytes"] > flows["received_bytes"])
    assert result.summary["goodput_bps"] == pytest.approx(10e6 * 1472 / 1514, rel=0.01)


def column(result, name):
    return result.column("flows", name)


def test_repetitions_start_when_the_one_before_has_ended(run):
    """Endless repetitions fill the run; none is due before its turn, and those that never started are not in the log."""
    result = run("workload.kind=repeat", "workload.size=100kB", "workload.interval=3ms", "workload.ends=pairs")
    flows = result.records("flows")
    for src in ("h1", "h2"):
        reps = flows[column(result, "src") == src]
        assert reps["rep"].tolist() == list(range(len(reps))) and len(reps) > 5
        assert np.all(reps["start_ns"] >= 0) and np.array_equal(reps["due_ns"][1:], reps["end_ns"][:-1] + 3_000_000)
        assert np.all(np.abs(reps["start_ns"] - reps["due_ns"]) < 10_000)
    assert list(column(result, "status")).count("running") <= 2 and result.fit


def test_incast_rounds_and_their_barrier(run):
    settings = ("workload.kind=incast", "workload.senders=8", "workload.size=20kB", "workload.rounds=3", "workload.interval=5ms")
    result = run(*settings, "topology.rate=100Mbit/s")
    flows = result.records("flows")
    assert list(column(result, "status")) == ["done"] * 24 and set(column(result, "dst")) == {"h4"}
    ends = [flows["end_ns"][flows["rep"] == rep].max() for rep in range(3)]
    for rep in (1, 2):
        assert set(flows["due_ns"][flows["rep"] == rep].tolist()) == {int(ends[rep - 1]) + 5_000_000}
    assert set(column(result, "group")) == {"response"}


def test_answers_follow_their_queries(run):
    settings = ("workload.kind=partition_aggregate", "workload.senders=3", "workload.size=30kB", "workload.interval=100ms")
    result = run(*settings, "topology.rate=100Mbit/s", "workload.last_start=1s", "workload.jitter=0ns")
    flows, group = result.records("flows"), column(result, "group")
    asks, answers = flows[group == "query"], flows[group == "response"]
    assert len(asks) == len(answers) > 10 and np.array_equal(answers["due_ns"], asks["end_ns"])
    assert asks["due_ns"].max() < 1_000_000_000 and set(column(result, "status")) == {"done"}


def test_open_loop_offers_its_load_and_loses_no_flow(run):
    """10 Mbit/s hosts at 20 %: every flow of the schedule is in the log, those before the end of the arrivals are done."""
    settings = ("workload.kind=poisson", "workload.distribution=fb_hadoop", "workload.load=0.2", "workload.truncate=50kB")
    result = run(*settings, "workload.last_start=1500ms", "time.duration=3s")
    flows = result.records("flows")
    assert np.array_equal(flows["flow"], np.arange(len(flows))) and len(flows) > 50
    assert set(column(result, "status")) == {"done"} and flows["size_bytes"].max() <= 50_000
    assert np.array_equal(flows["received_bytes"], flows["size_bytes"])
    assert result.manifest["workload"]["offered_payload_bps"] == pytest.approx(flows["size_bytes"].sum() * 8 / 1.5)


def test_programs_run_in_hosts(run, tmp_path):
    """Without other traffic, programs talk over the network, are stopped with all children, and leave output and exit codes."""
    for name, text in (("sender.py", SENDER), ("receiver.py", RECEIVER)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    results = [run("workload.kind=none", "time.duration=3s", out=out, programs=PROGRAMS) for out in ("one", "two")]
    receiver, sender, sleeper, failing = results[0].manifest["exec"]
    assert (tmp_path / "one/exec/h3-0.stdout").read_text() == "10.0.0.1 1000000\n" and receiver["exit"] == sender["exit"] == 0
    assert (tmp_path / "one/exec/note").read_text() == "kept" and (tmp_path / "one/exec/h1-0.stderr").read_text() == ""
    assert 500_000_000 <= sender["start_ns"] < 500_100_000 and receiver["end_ns"] > sender["start_ns"] + 1_000_000 * 800
    assert sleeper["stopped"] and 1_000_000_000 <= sleeper["end_ns"] < 1_001_000_000 and sleeper["exit"] == -15
    assert (tmp_path / "one/exec/h2-0.stdout").read_text() == "up\n"
    assert (failing["exit"], failing["stopped"]) == (3, False)
    assert all(result.fit for result in results) and len(results[0].records("flows")) == 0
    port = results[0].names.port.index("h1-eth0")
    assert results[0].records("queues")[results[0].records("queues")["port"] == port]["tx_bytes"].max() > 1_000_000
    assert results[0].digest == results[1].digest
    assert results[0].manifest["exec"] == results[1].manifest["exec"]


@pytest.mark.parametrize("name", ["dctcp", "vegas"])
def test_a_program_that_chooses_no_tcp_gets_the_controller(run, tmp_path, name):
    programs = """
[[workload.exec]]
host = "h1"
command = "cat /proc/sys/net/ipv4/tcp_congestion_control"
"""
    run("workload.kind=none", "time.duration=100ms", f"controller.name={name}", programs=programs)
    (output_file,) = tmp_path.rglob("exec/h1-0.stdout")
    assert output_file.read_text() == f"{name}\n"


def test_the_example_of_programs(tmp_path, lab_kernel):
    """Each answer waits behind bulk flows: longer than the 10.8 ms that a request and 10 kB take on the idle path."""
    tmp_path.chmod(0o755)
    argv = ["run", str(EXAMPLES / "programs.toml"), "--out", str(tmp_path / "out"), "--quiet", "--no-plot"]
    child = subprocess.run([sys.executable, "-m", "dc_gym.cli.main", *argv], capture_output=True, text=True, timeout=300)
    assert child.returncode == 0, child.stderr
    times_ms = [float(line.split()[0]) for line in (tmp_path / "out/exec/h2-0.stdout").read_text().splitlines()]
    assert len(times_ms) == 30 and 10.8 < min(times_ms) < max(times_ms) < 40
    server, client = load_result(tmp_path / "out").manifest["exec"]
    assert server["stopped"] and (client["exit"], client["stopped"]) == (0, False)


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
def test_iperf3_sees_the_link_that_was_asked_for(run):
    """The steady-state goodput is 1448 of 1514 bytes, which take 1.2112 ms at 10 Mbit/s."""
    programs = """
[[workload.exec]]
host = "h3"
command = "iperf3 -s -1"
[[workload.exec]]
host = "h1"
command = "iperf3 -c {h3} -J -t 3"
start = "1ms"
"""
    result = run("workload.kind=none", "time.duration=4s", "controller.name=cubic", programs=programs)
    assert [end["exit"] for end in result.manifest["exec"]] == [0, 0]
    report = json.loads((result.path / "exec/h1-0.stdout").read_text())["end"]
    assert report["sum_received"]["bits_per_second"] == pytest.approx(1e7 * 1448 / 1514, rel=2e-3)
    assert report["sum_sent"]["retransmits"] == 0 and report["sender_tcp_congestion"] == "cubic"


def test_programs_beside_flows(run):
    programs = '[[workload.exec]]\nhost = "h1"\ncommand = "echo {h2} {x} {}"\n'
    result = run(programs=programs)
    assert (result.path / "exec" / "h1-0.stdout").read_text() == "10.0.0.2 {x} {}\n"
    assert list(column(result, "status")) and result.summary["goodput_bps"] > 9e6


@pytest.mark.skipif(shutil.which("ping") is None, reason="ping is not installed")
def test_programs_find_hosts_by_name(run):
    programs = """
[[workload.exec]]
host = "h1"
command = "ping -c 1 h4"
[[workload.exec]]
host = "h4"
command = "ping -c 1 h1-eth0"
[[workload.exec]]
host = "h2"
command = "cat /etc/hosts /etc/nsswitch.conf"
"""
    result = run("workload.kind=none", programs=programs)
    assert [end["exit"] for end in result.manifest["exec"]] == [0, 0, 0] and result.fit
    assert "1 received" in (result.path / "exec/h1-0.stdout").read_text()
    output = (result.path / "exec/h2-0.stdout").read_text()
    assert "10.0.0.3 h3 h3-eth0\n" in output and [line for line in output.splitlines() if "hosts:" in line] == ["hosts: files"]


def test_a_program_that_fails_is_told_before_what_comes_of_it(run, tmp_path):
    """A frame that no switch can forward makes the run unfit; the failure of the program that sent it is reported first."""
    (tmp_path / "lost.py").write_text(
        f"#!{sys.executable}\nimport socket, sys\n"
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('10.0.9.9', 9))\n"
        "print('first line', file=sys.stderr)\nsys.exit('nobody there')\n"
    )
    (tmp_path / "lost.py").chmod(0o755)
    child = run("workload.kind=none", code=1, programs='[[workload.exec]]\nhost = "h1"\ncommand = "./lost.py"\n')
    first, second = child.stderr.splitlines()[:2]
    assert first.startswith("dcgym: ") and first.endswith("lost.py in h1 failed: nobody there (exit 1)")
    assert second.startswith("dcgym: unfit: s1: ")


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="tcpdump is not installed")
def test_a_capture_is_kept_and_its_times_are_virtual_and_exact(run):
    """A SYN of 74 bytes over three links of 10 Mbit/s and 10 us: 207.6 us between the two ends."""
    programs = "".join(
        f'[[workload.exec]]\nhost = "{host}"\ncommand = "tcpdump --nano --immediate-mode -i {host}-eth0 -w {host}.pcap"\n'
        for host in ("h1", "h3")
    )
    result = run("workload.size=10kB", "workload.start=1s", programs=programs)
    left, came = (captured(result.path / "exec" / f"{host}.pcap") for host in ("h1", "h3"))
    assert len(left) == len(came) > 8 and all(end["stopped"] for end in result.manifest["exec"])
    boot_ns = 1_577_836_800 * 10**9  # 2020-01-01
    start_ns = boot_ns + result.manifest["t0_ns"] + 10**9
    assert 0 <= left[0][0] - start_ns < 1000
    assert came[0][0] - left[0][0] == 3 * (74 * 800 + 10_000) and left[0][1] == came[0][1] == 74


def captured(path):
    """Returns time in ns and length of each packet in a capture file with nanoseconds."""
    data = path.read_bytes()
    assert struct.unpack_from("<I", data)[0] == 0xA1B23C4D
    packets, offset = [], 24
    while offset < len(data):
        seconds, nanoseconds, included_bytes, length = struct.unpack_from("<IIII", data, offset)
        packets.append((seconds * 10**9 + nanoseconds, length))
        offset += 16 + included_bytes
    return packets
