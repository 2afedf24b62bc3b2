# SPDX-License-Identifier: Apache-2.0
"""Linux' queues of switch ports: each does at one number what its RFC or paper says; what they are refused; how they are counted.

A cable of 10 Mbit/s carries frames of 1250 bytes, one in a millisecond, which programs send at a steady rate whatever happens to
them. So each number follows from the definition alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from typing import Any, cast

import pytest

from dc_gym.base.errors import SpecError
from dc_gym.base.progress import Quiet
from dc_gym.ctrl import controllers
from dc_gym.run import runner
from dc_gym.spec import load
from dc_gym.topologies import qdiscs
from dc_gym.topologies.graph import Queue, QueueKind, to_plain

RATE_BPS, FRAME = 10_000_000, 1250
LINUX = [name for name in qdiscs.KINDS if name not in qdiscs.OURS]
NEW_TCPS = ["bic", "westwood", "htcp", "highspeed", "hybla", "scalable", "lp", "veno", "yeah", "illinois", "cdg"]
PROGRAM = """
import json, os, socket, struct, sys, time
from dc_gym.topologies.graph import Queue, from_plain
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.cables import CableEnd
from dc_gym.topologies.realize.rtnl import NetlinkSocket

case = json.loads(sys.argv[1])
sock = NetlinkSocket()
sock.batch([cables.create(CableEnd("a", "02:00:00:00:00:0a"), CableEnd("b", "02:00:00:00:00:0b"), case["rate"], 0)])
index = cables.devices(sock)["a"].ifindex
queue = from_plain(Queue, case["queue"], "queue")
sock.batch([tc.set_queue(index, queue, "a"), cables.set_up(index, "a"), cables.set_up(cables.devices(sock)["b"].ifindex, "b")])
tc.check_queues(sock, {index: ("a", queue)})
time.sleep(2)

def frame(number, tos):
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, tos, case["bytes"] - 14, 0, 0, 64, 17, 0, bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    udp = struct.pack("!HHHH", 1000 + number, 2000, case["bytes"] - 34, 0)
    return (bytes.fromhex("02000000000b" "02000000000a" "0800") + ip + udp + bytes(case["bytes"]))[: case["bytes"]]

def checksum(head):
    total = sum(struct.unpack("!10H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF

senders = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in case["flows"]]
for sender in senders:
    sender.bind(("a", 0x0800))
    sender.setsockopt(socket.SOL_SOCKET, 32, 1 << 28)
receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
receiver.bind(("b", 0x0800))
receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 28)
receiver.setblocking(False)
frames = [frame(number, flow["tos"]) for number, flow in enumerate(case["flows"])]
sent, got, marked = [0] * len(frames), [0] * len(frames), [0] * len(frames)
backlogs = []

def receive():
    while True:
        try:
            data = receiver.recv(2000)
        except BlockingIOError:
            return
        number = struct.unpack_from("!H", data, 34)[0] - 1000
        got[number] += 1
        marked[number] += data[15] & 3 == 3

def send(number):
    sent[number] += 1
    try:
        senders[number].send(frames[number])
    except OSError as error:
        assert error.errno == 105, error

for number, flow in enumerate(case["flows"]):
    for _ in range(flow.get("burst", 0)):
        send(number)
start = time.monotonic_ns()
events = sorted((int(k * flow["gap_us"] * 1000) + number, number) for number, flow in enumerate(case["flows"]) if flow["gap_us"]
                for k in range(int(case["seconds"] * 1e6 / flow["gap_us"])))
warm = None
look = 0
for at, number in events:
    now = time.monotonic_ns() - start
    if at > now:
        time.sleep((at - now) / 1e9)
    send(number)
    if warm is None and at >= case["warm"] * 1e9:
        receive()
        warm = (list(sent), list(got), list(marked), tc.queue_counters(sock)[index])
    if at >= look:
        look = at + case["look_us"] * 1000
        counters = tc.queue_counters(sock)[index]
        backlogs.append([at, counters.backlog_bytes, counters.drops, counters.tx_bytes])
        receive()
time.sleep(case["settle_s"])
receive()
counters = tc.queue_counters(sock)[index]
if warm:
    for now, was in zip((sent, got, marked), warm):
        now[:] = [a - b for a, b in zip(now, was)]
drops = counters.drops - (warm[3].drops if warm else 0)
found = {"sent": sent, "got": got, "marked": marked, "looks": backlogs, "drops": drops, "marks": tc.marks(sock)[index]}
print(json.dumps(found), flush=True)
os._exit(0)
"""


@pytest.fixture
def port(in_lab: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Sends the flows of a case into a port with one of Linux' qdiscs."""

    def run(qdisc: str, flows: list[dict[str, Any]], seconds: float, limit: int = 10**6, **keys: Any) -> Any:
        """`warm`, `look_us` and `settle_s` are of the program; the rest are keys of the qdisc."""
        of_program = {"warm": 0, "look_us": 1000, "settle_s": 0}
        case = {name: keys.pop(name, default) for name, default in of_program.items()} | {"seconds": seconds, "flows": flows}
        settings = qdiscs.settings(qdisc, tuple(keys.items()), qdiscs.QdiscContext(limit, ecn=False))
        queue = to_plain(Queue(limit, cast(QueueKind, qdisc), settings=settings))
        case |= {"rate": RATE_BPS, "queue": queue, "bytes": FRAME}
        ran = in_lab([sys.executable, "-c", PROGRAM, json.dumps(case)], kernel_args=("ipv6.disable=1",), seed=7)
        assert ran.exit.status == 0, ran.text
        return json.loads(ran.lines[-1])

    return run


def flow(share: float, tos: int = 0, burst: int = 0) -> dict[str, Any]:
    """A flow that sends this share of the link's rate."""
    return {"gap_us": 1000 / share if share else 0, "tos": tos, "burst": burst}


ECT0, ECT1 = 2, 1


@pytest.mark.lab
def test_codel_drops_by_its_control_law(port: Callable[..., Any]) -> None:
    """RFC 8289, section 4.2: after an interval above target one packet, then the next after interval / sqrt(count)."""
    report = port("codel", [flow(1, burst=100)], seconds=1.0)
    drops = [(at, count) for at, _, count, _ in report["looks"]]
    first = next(at for at, count in drops if count) / 1e6
    assert first == pytest.approx(105, abs=6), "target and interval after the first packet that waited too long"
    expected, due = 1, first
    while (due := due + 100 / sqrt(expected)) < 990:
        expected += 1
    assert abs(report["looks"][-1][2] - expected) <= 1


@pytest.mark.lab
def test_pie_holds_its_target(port: Callable[..., Any]) -> None:
    """RFC 8033, section 4.2: the wait is 15 ms on average; so the drops are what is sent too much."""
    report = port("pie", [flow(1.25)], seconds=40, warm=20, look_us=10_000)
    backlogs = [backlog for at, backlog, _, _ in report["looks"] if at > 20e9]
    wait_ms = sum(backlogs) / len(backlogs) * 8 / RATE_BPS * 1e3
    assert wait_ms == pytest.approx(15, rel=0.15)
    assert report["drops"] / report["sent"][0] == pytest.approx(0.2, abs=0.02)


@pytest.mark.lab
def test_dualpi2_couples_its_queues(port: Callable[..., Any]) -> None:
    """RFC 9332, section 2.1: classic packets are dropped with p'^2, L4S packets marked with k p', k = 2."""
    flows = [flow(0.55), flow(0.5, ECT1)]  # with more, p' passes 1/2 at times: then L4S packets are dropped, too
    report = port("dualpi2", flows, seconds=60, warm=30, look_us=10_000, settle_s=3, step_threshold=10**9)
    dropped = 1 - report["got"][0] / report["sent"][0]
    marked = report["marked"][1] / report["got"][1]
    assert dropped == pytest.approx(1 / 11, abs=0.005) and report["got"][1] == pytest.approx(report["sent"][1], abs=2)
    assert marked == pytest.approx(2 * sqrt(dropped), rel=0.05)


@pytest.mark.lab
@pytest.mark.parametrize("qdisc", ["fq_codel", "fq", "sfq", "cake"])
def test_fair_queues_give_a_small_flow_all_that_it_wants(port: Callable[..., Any], qdisc: str) -> None:
    """Max-min fairness: of 1.2 + 0.3 of the link, the small flow gets its 0.3 and the other the rest."""
    report = port(qdisc, [flow(1.2), flow(0.3)], seconds=10, warm=5, limit=300 * 1514)
    large, small = (received / 5000 for received in report["got"])
    assert small == pytest.approx(0.3, abs=0.005) and large == pytest.approx(0.7, abs=0.01)


@pytest.mark.lab
def test_cake_shapes(port: Callable[..., Any]) -> None:
    report = port("cake", [flow(1.0)], seconds=6, warm=3, bandwidth=4_000_000)
    assert report["got"][0] * FRAME * 8 / 3 == pytest.approx(4_000_000, rel=0.01)


@pytest.mark.lab
@pytest.mark.parametrize("qdisc", ["codel", "fq_codel", "pie", "cake", "dualpi2"])
def test_marks_of_packets_with_ecn_are_counted(port: Callable[..., Any], qdisc: str) -> None:
    keys = {"ecn": True} if qdisc in ("codel", "fq_codel", "pie") else {}
    report = port(qdisc, [flow(1.05, ECT0)], seconds=3, **keys)
    assert 0 < report["marked"][0] <= report["marks"] <= report["marked"][0] + 1500


@pytest.mark.lab
@pytest.mark.parametrize("qdisc", ["codel", "fq_codel", "fq"])
def test_a_threshold_marks_what_waited_so_long(port: Callable[..., Any], qdisc: str) -> None:
    keys = {"ce_threshold": 10_000_000} | ({} if qdisc == "fq" else {"target": 10**9})
    report = port(qdisc, [flow(1.0, ECT0, burst=20)], seconds=2, warm=1, **keys)
    assert report["marked"][0] == report["got"][0], "each waits 20 ms"
    report = port(qdisc, [flow(1.0, ECT0, burst=5)], seconds=2, warm=1, **keys)
    assert report["marked"][0] == 0, "each waits 5 ms"


SPEC = """
topology = { kind = "dumbbell", pairs = 2, rate = "10Mbit/s", delay = "1ms", buffer = "100kB" }
controller.name = "cubic"
workload.kind = "pairs"
time.duration = "500ms"
monitor.interval = "5ms"
"""


def spec(folder: Path, *settings: str) -> Any:
    folder.chmod(0o755)
    (folder / "spec.toml").write_text(SPEC)
    return load(folder / "spec.toml", settings)


@pytest.mark.parametrize("qdisc", LINUX)
@pytest.mark.parametrize(
    "settings, message",
    [
        (("topology.marking=secn0",), "topology.qdisc = \"port\", and '{}' marks by rules of its own; leave one out"),
        (("topology.marks_at=departure",), "and '{}' marks by rules of its own; leave one out"),
        (("topology.k_bytes=3000",), "has no effect with qdisc '{}'; remove it"),
        (("topology.shared_buffer=1MB",), "has no classes, no shared buffer and no pauses; leave it out"),
        (("controller.name=hpcc",), 'port s1-eth1 ({}) writes none; give topology.qdisc = "port"'),
    ],
)
def test_what_the_port_alone_can_do_is_refused(tmp_path: Path, qdisc: str, settings: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpecError) as error:
        spec(tmp_path, f"topology.qdisc={qdisc}", *settings).graph()
    assert message.format(qdisc) in str(error.value) and "\n" not in str(error.value)


def test_keys_of_another_qdisc_and_a_buffer_that_is_too_large_are_refused(tmp_path: Path) -> None:
    for settings, message in (
        (("topology.target=1ms",), "topology.target = \"1ms\": has no effect with qdisc 'port'"),
        (("topology.qdisc=pie", "topology.interval=1ms"), "has no effect with qdisc 'pie'"),
        (("topology.qdisc=sfq", "topology.buffer=100MB"), "sfq keeps 127 frames of each of 128 flows"),
    ):
        with pytest.raises(SpecError, match=message.replace("(", r"\(")):
            spec(tmp_path, *settings).graph()


def test_times_follow_the_scale_and_ecn_the_controller(tmp_path: Path) -> None:
    def settings(*overrides: str) -> dict[str, int]:
        graph = spec(tmp_path, "topology.qdisc=codel", *overrides).graph()
        return {setting.name: setting.value for setting in graph.port("s1-eth1").queue.settings}

    assert settings() == {"target": 5000, "limit": 66, "interval": 100_000, "ecn": 0}
    assert settings("topology.scale=10")["target"] == 50_000
    assert settings("controller.name=dctcp")["ecn"] == 1
    assert settings("controller.name=dctcp", "topology.ecn=false")["ecn"] == 0


@pytest.mark.lab
@pytest.mark.parametrize("qdisc", LINUX)
def test_a_run_counts_what_the_queue_did(tmp_path: Path, qdisc: str) -> None:
    result = runner.run(spec(tmp_path, f"topology.qdisc={qdisc}"), tmp_path / "out", Quiet(), plot=False)
    assert result.fit and result.summary["utilization"] > 0.9
    assert {port["qdisc"] for port in result.ports if port["name"].startswith("s")} == {qdisc}
    assert result.records("queues")["backlog_bytes"].max() > 0


@pytest.mark.lab
@pytest.mark.parametrize("name", NEW_TCPS)
def test_each_tcp_of_linux_carries_a_flow(tmp_path: Path, name: str) -> None:
    controller = controllers.find(name)
    assert controller is not None and controller.kernel_name == name
    result = runner.run(spec(tmp_path, f"controller.name={name}"), tmp_path / "out", Quiet(), plot=False)
    assert result.fit and result.summary["utilization"] > 0.5
    assert set(result.arrow("flows").column("controller").to_pylist()) == {name}


@pytest.mark.lab
def test_accecn_tells_how_many_packets_were_marked(tmp_path: Path) -> None:
    settings = ("controller.name=dctcp", "topology.k_bytes=10kB")
    plain = runner.run(spec(tmp_path, *settings), tmp_path / "plain", Quiet(), plot=False)
    accurate = runner.run(spec(tmp_path, *settings, "controller.accecn=true"), tmp_path / "accurate", Quiet(), plot=False)
    assert plain.summary["marks"] > 0 and accurate.summary["marks"] > 0 and plain.digest != accurate.digest


def test_accecn_needs_a_tcp_that_reads_ecn(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"controller\.accecn = true: .*'cubic'.*ECN"):
        spec(tmp_path, "controller.accecn=true")
