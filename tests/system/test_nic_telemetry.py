# SPDX-License-Identifier: Apache-2.0
"""Telemetry in the NIC's frames: what ports write into packets comes back in answers, and reaches the algorithm."""

import base64
import json
import zlib
from itertools import pairwise

import numpy as np
import pytest

from dc_gym import spec
from dc_gym.base.progress import Quiet
from dc_gym.results.tables import NIC_EVENTS
from dc_gym.run import runner

pytestmark = pytest.mark.lab
GBIT = 10**9
DATA, ACK, NACK, CNP = 1, 2, 3, 4
FULL, ANSWER, BARE = 1514, 116, 74

SENT = """
import base64, zlib
hpcc = dict(parameter_0=996147, parameter_1=5, parameter_2=100, parameter_4=64)
flow = Flow("{src}", "h3", 300 * 1398 + 7, 100 * 1398, telemetry_bytes=42)
at_sender, at_receiver = tap("{src}"), tap("h3")
nic.start("hpcc", [flow, *{more}], trace=True, ack_packets={ack}, **hpcc, **{settings})
for number in range(len(nic.flows)):
    nic.post(number)
time.sleep({seconds})
rows = [plain(row) for row in nic.senders]
out["rows"], out["received"] = rows, [plain(row) for row in nic.receivers]
out["kept"] = [list(nic.senders[0].int_hop), nic.senders[0].int_hops]
for name, heard in (("sender", at_sender), ("receiver", at_receiver)):
    out[name] = [[frame[:116].hex(), len(frame), t] for frame, t in drain(heard) if frame[36:38] == b"\\x12\\xb7"]
nic.stop()
out["events"] = [each.event for each in nic.decisions() if each.flow == 0]
out = base64.b64encode(zlib.compress(json.dumps(out).encode())).decode()
"""


def sent(in_nics, *, src="h1", ack=1, more=(), settings=None, seconds=0.02, **topology):
    flows = "[" + ", ".join(f'Flow("{host}", "h3", 10**6, telemetry_bytes=42)' for host in more) + "]"
    body = SENT.format(src=src, ack=ack, more=flows, settings=settings or {}, seconds=seconds)
    return json.loads(zlib.decompress(base64.b64decode(in_nics(body, hosts=3, qdisc="port", **topology))))


class Frame:
    """The fields of a NIC's frame."""

    def __init__(self, head, size, t_ns):
        data = bytes.fromhex(head)
        self.size, self.t_ns, self.version, self.opcode, self.flags = size, t_ns, *data[42:45]
        self.flow, self.psn = (int.from_bytes(data[at : at + 4], "big") for at in (46, 50))
        self.hops, self.records = int.from_bytes(data[74:76], "big"), data[76:116]
        self.sum = sum(int.from_bytes(data[at : at + 2], "big") for at in range(14, 34, 2)) % 65535
        self.ip_bytes, self.udp_bytes = (int.from_bytes(data[at : at + 2], "big") for at in (16, 38))

    @property
    def record(self):
        return int.from_bytes(self.records[:8], "big")


def frames(rows, *opcodes, flow=0):
    return [frame for frame in (Frame(*row) for row in rows) if frame.opcode in opcodes and frame.flow == flow]


def test_a_packet_brings_the_port_s_record_and_its_ack_brings_it_back(in_nics):
    out = sent(in_nics)
    left, arrived = frames(out["sender"], DATA), frames(out["receiver"], DATA)
    answers = frames(out["receiver"], ACK)
    assert len(left) == len(arrived) == len(answers) == 301
    for frame in (*left, *arrived, *answers):
        assert (frame.version, frame.flags & 8, frame.sum) == (2, 8, 0)
        assert (frame.ip_bytes, frame.udp_bytes) == (frame.size - 14, frame.size - 34)
    assert {frame.size for frame in left} == {FULL, ANSWER + 7} and {frame.size for frame in answers} == {ANSWER}
    assert all(frame.hops == 0 and not any(frame.records) for frame in left)
    assert all(frame.hops == 1 and not any(frame.records[8:]) for frame in arrived)
    for packet, answer in zip(arrived, answers, strict=True):
        assert (answer.psn, answer.hops, answer.records) == (packet.psn + 1, packet.hops, packet.records)


def test_a_record_tells_when_a_packet_left_what_left_before_it_and_what_it_left_behind(in_nics):
    """A lone flow's packets leave no queue. At 10 Gbit/s the units are 3 ns, 128 and 80 bytes."""
    packets = frames(sent(in_nics)["receiver"], DATA)
    for before, after in pairwise(packets):
        time_ns = ((after.record >> 37) - (before.record >> 37)) % 2**24 * 3
        bytes_sent = ((after.record >> 17) - (before.record >> 17)) % 2**20 * 128
        assert after.record >> 61 == 0 and after.record % 2**17 == 0
        serialized_ns = (after.size - before.size) * 8 / 10
        assert abs(time_ns - (after.t_ns - before.t_ns - serialized_ns)) <= 6
        assert abs(bytes_sent - before.size) <= 128


def test_marks_are_told_beside_records_and_a_gap_s_nack_has_them_too(in_nics):
    """Two flows at line rate into one port that marks, on bad cables."""
    marked = sent(in_nics, more=["h2"], settings={"cnp_interval_ns": 0}, marking="step", k_bytes=100, rate_bps=GBIT)
    cnps = frames(marked["receiver"], CNP)
    assert cnps and all((frame.size, frame.flags) == (BARE, 0) for frame in cnps)
    assert all(frame.hops == 1 for frame in frames(marked["receiver"], ACK))
    assert marked["received"][0]["messages"] == 4
    lossy = sent(in_nics, settings={"timeout_ns": 2_000_000}, loss_ppb=3 * 10**7, seconds=0.3)
    nacks = frames(lossy["receiver"], NACK)
    assert all((frame.size, frame.flags & 8, frame.hops) == (ANSWER, 8, 1) for frame in nacks)
    assert (lossy["received"][0]["messages"], lossy["received"][0]["broken_messages"]) == (4, 0)


@pytest.mark.parametrize("ack", [1, 4])
def test_the_newest_record_counts_and_a_lost_event_s_does_not(in_nics, ack):
    for coalesce, loss in ((1, 0), (3, 0), (1, 10**6)):
        out = sent(in_nics, ack=ack, settings={"event_coalesce": coalesce, "event_loss_ppm": loss})
        records, hops = out["kept"]
        last = frames(out["receiver"], ACK)[-1]
        newest = [int.from_bytes(last.records[at : at + 8], "little") for at in range(0, 40, 8)]
        assert (records, hops) == ([0] * 5, 0) if loss else (newest, 256)
        assert bool(out["rows"][0]["decisions"]) != bool(loss)


def test_an_algorithm_that_wants_a_flow_s_first_packet_alone_is_told_of_no_other(in_nics):
    out = sent(in_nics)
    assert out["events"][0] == 3 and out["events"].count(3) == 1
    assert out["rows"][0]["decisions"] == 1 + len(frames(out["receiver"], ACK))


LIMITED = """
heard = tap("h1")
nic.start("fixed", [Flow("h1", "h2", 200 * 1440, 100 * 1440, inflight_bytes={inflight})], trace=True, parameter_0=1 << 20)
nic.post(0)
nic.wait(0, 1)
time.sleep(0.01)
out["kinds"] = [frame[43] for frame, _ in drain(heard) if frame[36:38] == b"\\x12\\xb7"]
nic.stop()
out["windows"] = sorted({{each.window_bytes for each in nic.decisions()}})
"""


@pytest.mark.parametrize(("inflight", "packets"), [(1514, 1), (3 * 1514 + 1513, 3), (0, 17)])
def test_inflight_limits_what_is_under_way_whatever_the_algorithm_says(in_nics, inflight, packets):
    """The round trip is 33 packets long; without a limit an ACK comes for each 16."""
    out = in_nics(LIMITED.format(inflight=inflight), hosts=2, delay_ns=10_000)
    under_way = most = 0
    for kind in out["kinds"]:
        under_way = under_way + 1 if kind == DATA else 0
        most = max(most, under_way)
    assert out["kinds"].count(DATA) == 200
    assert most == packets if inflight else most > packets
    assert out["windows"] == [inflight]


INCAST = """
controller.name = "{algorithm}"
nic = {{ trace = "all", inflight = "{inflight}" }}
workload = {{ kind = "matrix", file = "flows.csv" }}
time.duration = "2ms"
monitor = {{ interval = "10us", tcp_interval = "1ms" }}
metrics.slowdown = "off"
topology = {{ kind = "single", hosts = 9, rate = "25Gbit/s", delay = "2us", buffer = "4MB", host_buffer = "4MB" }}
"""
LINE_BPS, BASE_NS, BDP = 25 * GBIT, 9_100, 28_437


def incast(folder, algorithm, inflight="2bdp"):
    """One flow runs, and seven begin at once after 1 ms."""
    folder.chmod(0o755)
    lines = [f"h{n},h9,{5000 + n},{0.001 if n > 1 else 0},0,{'inf' if n < 8 else '100000'}" for n in range(1, 9)]
    (folder / "flows.csv").write_text("\n".join(["source,destination,port,start,stop,size", *lines]) + "\n")
    (folder / "spec.toml").write_text(INCAST.format(algorithm=algorithm, inflight=inflight))
    return runner.run(spec.load(folder / "spec.toml"), folder / algorithm, Quiet(), plot=False)


def sum_of_rates(rows, at_ns):
    """Returns the rates in force of all flows, over the line's."""
    newest = {int(row["flow"]): int(row["rate_bps"]) for row in rows[rows["t_ns"] <= at_ns]}
    return sum(newest.values()) / LINE_BPS


def test_hpcc_answers_an_incast_within_two_round_trips_of_its_first_acks(tmp_path, lab_kernel):
    result = incast(tmp_path, "hpcc")
    rows = result.records("decisions")
    answers = rows[(rows["flow"] > 0) & (rows["event"] == NIC_EVENTS.index("ack"))]
    first_ns = int(answers["t_ns"].min())
    assert first_ns - 1_000_000 >= BASE_NS
    assert sum_of_rates(rows, first_ns) > 7
    assert sum_of_rates(rows, first_ns + 2 * BASE_NS) < 2
    queues = result.records("queues")
    at_port = np.array([str(port) == "s1-eth9" for port in result.column("queues", "port")])
    bottleneck = queues[at_port & (queues["t_ns"] > 1_000_000)]
    longest = bottleneck["backlog_bytes"].max()
    assert 5 * BDP < longest <= 8 * BDP
    assert bottleneck["backlog_bytes"][bottleneck["t_ns"] > 1_300_000].max() < BDP
    assert result.summary["drops"] == 0 and result.column("flows", "status")[-1] == "done"


@pytest.mark.parametrize("algorithm", ["hpcc", "powertcp"])
def test_a_result_says_how_records_count_and_what_may_be_under_way(tmp_path, lab_kernel, algorithm):
    result = incast(tmp_path, algorithm, "0.5bdp")
    nic = result.manifest["nic"]
    rate = {"rate_bps": LINE_BPS, "time_ns": 1, "sent_bytes": 128, "queue_bytes": 80}
    assert nic["telemetry"] == {"bytes": 42, "rates": [rate]}
    (limit,) = nic["inflight_bytes"]
    assert limit == pytest.approx(BDP / 2, rel=0.01) and nic["settings"]["payload_bytes"] == 1398
    assert result.records("decisions")["window_bytes"].max() == limit
    assert result.manifest["spec"]["nic"]["inflight"] == "0.5bdp"
