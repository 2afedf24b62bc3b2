# SPDX-License-Identifier: Apache-2.0
"""The congestion control `agent`, whose window a program sets, and the largest window and pacing rate of any TCP.

Two hosts on a cable of 100 Mbit/s with 5 ms each way. The cable's impairments lose what a case asks for.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from dc_gym.base.units import FRAME_BYTES

pytestmark = pytest.mark.lab
MSS = 1448
RATE_BPS, DELAY_NS = 100_000_000, 5_000_000
PROGRAM = """
import ctypes, json, os, socket, struct, subprocess, sys, threading, time
from dc_gym.topologies.graph import Impairment
from dc_gym.topologies.realize import cables
from dc_gym.topologies.realize.cables import CableEnd
from dc_gym.topologies.realize.rtnl import NetlinkSocket, add_namespaces, entered

TCP_SND_CWND, TCP_SND_CWND_CLAMP, SO_MAX_PACING_RATE = 1101, 1102, 47
case = json.loads(sys.argv[1])
os.makedirs("/run/netns", exist_ok=True)
add_namespaces(["/run/netns/a", "/run/netns/b"])
fds = {name: os.open(f"/run/netns/{name}", os.O_RDONLY) for name in "ab"}
sock = NetlinkSocket()
ends = [CableEnd(f"{name}0", f"02:00:00:00:00:0{name}", fds[name]) for name in "ab"]
sock.batch([cables.create(*ends, case["rate"], case["delay"])])

def ip(name, *words):
    subprocess.run(["nsenter", f"--net=/run/netns/{name}", "ip", *words], check=True)

for name, address in (("a", "10.0.0.1/24"), ("b", "10.0.0.2/24")):
    ip(name, "addr", "add", address, "dev", f"{name}0")
    ip(name, "link", "set", f"{name}0", "up")

def lose(loss_ppb):
    with NetlinkSocket("/run/netns/a") as at:
        index = next(end.ifindex for end in cables.devices(at).values())
        at.batch([cables.impair(index, "a0", Impairment(loss_ppb=loss_ppb), 7, 0)])

def make(name):
    with entered(f"/run/netns/{name}"):
        return socket.socket()

server = make("b")
server.bind(("10.0.0.2", 5000))
server.listen()
client = make("a")
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, case["cc"].encode())
client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)

def option(number, value):
    client.setsockopt(socket.IPPROTO_TCP, number, value)

def info():
    raw = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    state = raw[1]
    (unacked,) = struct.unpack_from("=I", raw, 24)
    (cwnd,) = struct.unpack_from("=I", raw, 80)
    (total_retrans,) = struct.unpack_from("=I", raw, 100)
    return {"state": state, "unacked": unacked, "cwnd": cwnd, "total_retrans": total_retrans}

received = 0

def read(peer):
    global received
    while got := len(peer.recv(1 << 20)):
        received += got

client.connect(("10.0.0.2", 5000))
peer = server.accept()[0]
peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
reader = threading.Thread(target=read, args=(peer,), daemon=True)
reader.start()

def write():
    try:
        while True:
            client.send(bytes(1 << 20))
    except OSError:
        pass

writer = threading.Thread(target=write, daemon=True)
samples, errors = [], []

def step(order, *values):
    try:
        if order == "window": option(TCP_SND_CWND, *values)
        elif order == "clamp": option(TCP_SND_CWND_CLAMP, *values)
        elif order == "pace": client.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, *values)
        elif order == "send": writer.start()
        elif order == "link": ip("b", "link", "set", "b0", *values)
        elif order == "lose": lose(*values)
        elif order == "sleep": time.sleep(*values)
        elif order == "sample": samples.append({**info(), "received": received, "at": time.monotonic()})
        elif order == "read": samples.append(client.getsockopt(socket.IPPROTO_TCP, TCP_SND_CWND_CLAMP))
    except OSError as error:
        errors.append(error.errno)

for each in case["steps"]:
    step(*each)
print(json.dumps([samples, errors]), flush=True)
os._exit(0)
"""


@pytest.fixture
def flow(in_lab: Callable[..., Any]) -> Callable[..., tuple[list[Any], list[int]]]:
    """Carries out steps on a connection and returns its samples and the errnos of steps that failed."""

    def run(cc: str, *steps: tuple[Any, ...]) -> tuple[list[Any], list[int]]:
        case = json.dumps({"cc": cc, "steps": steps, "rate": RATE_BPS, "delay": DELAY_NS})
        ran = in_lab([sys.executable, "-c", PROGRAM, case])
        assert ran.exit.status == 0, ran.text
        samples, errors = json.loads(ran.lines[-1])
        return samples, errors

    return run


def throughput_bps(a: dict[str, Any], b: dict[str, Any]) -> float:
    return float((b["received"] - a["received"]) * 8 / (b["at"] - a["at"]))


def rtt_s() -> float:
    """The round trip without a queue: a full frame there, an ACK back."""
    return (2 * DELAY_NS + (FRAME_BYTES + 66) * 8e9 / RATE_BPS) / 1e9


def test_the_window_that_was_set_is_the_window_in_use(flow: Callable[..., Any]) -> None:
    (first, second, third, fourth), errors = flow(
        "agent", ("window", 40), ("send",), ("sleep", 0.5), ("sample",), ("sleep", 2.0), ("sample",),
        ("window", 20), ("sleep", 0.5), ("sample",), ("sleep", 2.0), ("sample",),
    )  # fmt: skip
    assert not errors
    assert (first["cwnd"], second["cwnd"], third["cwnd"], fourth["cwnd"]) == (40, 40, 20, 20)
    assert second["unacked"] in (39, 40) and fourth["unacked"] in (19, 20), "bytes in flight fill it"
    assert throughput_bps(first, second) == pytest.approx(40 * MSS * 8 / rtt_s(), rel=0.02)
    assert throughput_bps(third, fourth) == pytest.approx(20 * MSS * 8 / rtt_s(), rel=0.02)


def test_a_timeout_begins_at_one_packet_and_ends_at_the_window(flow: Callable[..., Any]) -> None:
    (before, during, after), errors = flow(
        "agent", ("window", 50), ("send",), ("sleep", 0.5), ("sample",), ("link", "down"), ("sleep", 1.0), ("sample",),
        ("link", "up"), ("sleep", 3.0), ("sample",),
    )  # fmt: skip
    assert not errors
    loss, opened = 4, 0
    assert (before["state"], before["cwnd"]) == (opened, 50)
    assert during["state"] == loss and during["cwnd"] == 1
    assert (after["state"], after["cwnd"]) == (opened, 50) and after["total_retrans"] > 0
    assert after["received"] > during["received"] + 50 * MSS


def test_a_loss_is_repaired_within_the_window(flow: Callable[..., Any]) -> None:
    """The cable loses 1 % of the frames."""
    steps = [("window", 60), ("lose", 10_000_000), ("send",), ("sleep", 0.1)]
    samples, errors = flow("agent", *steps, *[("sleep", 0.003), ("sample",)] * 300)
    recovery = [sample for sample in samples if sample["state"] == 3]
    assert not errors and recovery and all(sample["cwnd"] <= 60 for sample in samples)
    opened = [sample["cwnd"] for sample in samples if sample["state"] == 0]
    assert opened.count(60) > 0.9 * len(opened), "when the loss is repaired, the window is what was set"
    assert samples[-1]["received"] > samples[0]["received"] + 500 * MSS


def test_an_idle_time_changes_nothing(flow: Callable[..., Any]) -> None:
    (sample,), errors = flow("agent", ("window", 77), ("sleep", 5.0), ("send",), ("sleep", 0.5), ("sample",))
    assert not errors and sample["cwnd"] == 77 and sample["unacked"] in (76, 77)


@pytest.mark.parametrize("cc", ["cubic", "bbr", "agent"])
def test_a_clamp_limits_every_tcp(flow: Callable[..., Any], cc: str) -> None:
    (read, sample), errors = flow(cc, ("clamp", 12), ("read",), ("send",), ("sleep", 1.0), ("sample",))
    assert not errors and read == 12 and 0 < sample["unacked"] <= sample["cwnd"] <= 12


def test_a_pacing_rate_limits_the_agent(flow: Callable[..., Any]) -> None:
    rate_bps = 10_000_000
    (first, second), errors = flow(
        "agent", ("window", 200), ("pace", rate_bps // 8), ("send",), ("sleep", 1.0), ("sample",), ("sleep", 2.0), ("sample",)
    )
    assert not errors and throughput_bps(first, second) == pytest.approx(rate_bps, rel=0.01), "TCP paces payload"


def test_what_is_refused(flow: Callable[..., Any]) -> None:
    _, errors = flow("cubic", ("window", 10), ("clamp", 0), ("clamp", 20))
    assert errors == [95, 22], "EOPNOTSUPP for another TCP, EINVAL for no packet"
    _, errors = flow("agent", ("window", 0), ("window", -3), ("window", 10))
    assert errors == [22, 22]


def test_a_program_may_speak_mptcp(in_lab: Callable[..., Any]) -> None:
    program = """
import socket, subprocess
IPPROTO_MPTCP, SOL_MPTCP, MPTCP_INFO = 262, 284, 1
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
server.bind(("127.0.0.1", 5000))
server.listen()
client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
client.connect(("127.0.0.1", 5000))
peer = server.accept()[0]
client.sendall(b"hello")
print(peer.recv(5).decode(), len(client.getsockopt(SOL_MPTCP, MPTCP_INFO, 64)) > 0)
"""
    ran = in_lab(program)
    assert ran.exit.status == 0 and ran.lines[-1] == "hello True", ran.text
