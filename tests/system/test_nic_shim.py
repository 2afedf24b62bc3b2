# SPDX-License-Identifier: Apache-2.0
"""The NIC's data path in a lab: pacing is exact to the nanosecond; each message arrives whole and once over any cable."""

import pytest

from dc_gym.ctrl.nic import algorithms

pytestmark = pytest.mark.lab
LINE = 1 << 20
GBIT = 10**9


PACING = """
heard = tap("h1")
for rate in (105, 1049, 10486, 104858, 1 << 20):  # 1 Mbit/s .. 10 Gbit/s
    nic.start("fixed", [Flow("h1", "h2", total_bytes=60 * 1440, message_bytes=30 * 1440)], parameter_0=rate)
    nic.post(0)
    nic.wait(0, 10)
    time.sleep(0.01)
    frames = [t for frame, t in drain(heard) if len(frame) == FULL]
    row = plain(nic.receivers[0]) | plain(nic.senders[0])
    out[rate] = {"times": frames, "bells": nic.bells(), "row": row}
    nic.stop()
"""


def test_a_lone_flow_is_paced_to_the_nanosecond_and_heard_of_once(in_nics):
    out = in_nics(PACING, hosts=2)
    assert len(out) == 5
    for rate, trace in out.items():
        gaps = [after - before for before, after in zip(trace["times"], trace["times"][1:], strict=False)]
        asked_ns = 1514 * 8e9 / (10 * GBIT * int(rate) / LINE)
        assert len(gaps) == 59
        assert gaps[1:] == pytest.approx([asked_ns] * 58, rel=1e-5, abs=1)
        assert trace["bells"] == []  # the one was waited for
        row = trace["row"]
        assert (row["expected"], row["received_packets"], row["sent_packets"], row["resent_packets"]) == (60, 60, 60, 0)
        assert (row["messages"], row["broken_messages"], row["dropped_packets"]) == (2, 0, 0)
        assert (row["parked"], row["acked"]) == (1, 60)


LATE = """
heard = tap("h1")
nic.start("fixed", [Flow("h1", "h2")], parameter_0=1 << 10, spaced={spaced})
nic.post(0, 1)
time.sleep({late_s})
nic.post(0, 2)
time.sleep(0.01)
out["times"] = [t for frame, t in drain(heard) if len(frame) == FULL]
nic.stop()
"""


@pytest.mark.parametrize(("spaced", "packets"), [(0, 0.5), (1, 1)])
def test_the_packet_after_a_late_one_is_early_unless_packets_keep_their_distance(in_nics, spaced, packets):
    """The second packet is posted half a packet's time after it was due."""
    packet_ns = 1514 * 8e9 / (10 * GBIT) * 1024
    first, second, third = in_nics(LATE.format(spaced=spaced, late_s=1.5 * packet_ns / 1e9), hosts=2)["times"]
    assert second - first == pytest.approx(1.5 * packet_ns, rel=0.1)
    assert third - second == pytest.approx(packets * packet_ns, rel=0.1)


MANY = """
from dc_gym.topologies.realize import tc
nic.start("fixed", [Flow("h1", "h2") for _ in range(512)], parameter_0={rate})
for number in range(512):
    nic.post(number, 10**9)
time.sleep(0.02)
queued = [counters.backlog_packets for counters in tc.queue_counters(fabric.socket_of("h1")).values()]
drops = [counters.drops for counters in tc.queue_counters(fabric.socket_of("h1")).values()]
out = {{"received": [row.received_packets for row in nic.receivers], "dropped": [port.dropped_packets for port in nic.ports]}}
out |= {{"queued": queued, "drops": drops, "resent": sum(row.resent_packets for row in nic.senders)}}
nic.stop()
"""


@pytest.mark.parametrize("rate", [LINE // 512, LINE // 64, LINE])
def test_512_flows_of_a_host_share_its_line_and_wait_in_the_nic(in_nics, rate):
    """The flows ask for their share of the line, for eight times as much, and for all of it each."""
    out = in_nics(MANY.format(rate=rate), hosts=2)
    received = out["received"]
    assert sum(received) * 1514 * 8 / 0.02 == pytest.approx(10 * GBIT, rel=0.01)
    assert sum(received) ** 2 / (512 * sum(count**2 for count in received)) > 0.99
    assert (sum(out["dropped"]), sum(out["drops"]), out["resent"]) == (0, 0, 0)
    *_, wire, ring = sorted(out["queued"])
    assert (wire <= 3, ring) == (True, 512)


LOSSY = """
flows = [Flow("h1", "h3", 3_000_000, 64_000), Flow("h2", "h3", 2_000_001, 1_000), Flow("h2", "h1", 200_000, 200_000)]
fabric.impair(7, time.monotonic_ns())
nic.start("{algorithm}", flows, selective={selective}, ack_packets={ack}, parameter_0=300_000, timeout_ns=2_000_000, **{more})
for number in range(3):
    nic.post(number)
time.sleep(3)
out = {{"bells": nic.bells(), "rows": [plain(a) | plain(b) for a, b in zip(nic.senders, nic.receivers)]}}
nic.stop()
"""


@pytest.mark.parametrize(
    "cable", [{"loss_ppb": 10**7}, {"reorder_ppb": 10**7, "reorder_delay_ns": 30_000}], ids=["loss", "reordering"]
)
@pytest.mark.parametrize("selective", [0, 1], ids=["go-back-n", "selective"])
def test_every_message_arrives_once_and_whole_over_a_bad_cable(in_nics, cable, selective):
    out = in_nics(LOSSY.format(algorithm="fixed", selective=selective, ack=16, more={}), hosts=3, rate_bps=GBIT, **cable)
    assert sorted(out["bells"]) == [0, 1, 2]
    for row, messages in zip(out["rows"], (47, 2001, 1), strict=True):
        assert (row["received_bytes"], row["messages"], row["broken_messages"]) == (row["total_bytes"], messages, 0)
        assert (row["acked"], row["parked"], row["beyond"]) == (row["total_packets"], 1, 0)
    assert sum(row["resent_packets"] for row in out["rows"]) > 0


MISSING = """
fabric.impair(3, time.monotonic_ns())
nic.start("fixed", [Flow("h1", "h2", 20_000_000, 1_000_000)], selective=1, ack_packets=16, parameter_0=1 << 20,
          timeout_ns=1_000_000, nack_interval_ns=900_000)
nic.post(0)
time.sleep(6)
out = plain(nic.senders[0]) | {"receiver": plain(nic.receivers[0])}
nic.stop()
"""


@pytest.mark.parametrize("loss", [0.01, 0.05])
def test_selective_repeat_sends_again_what_is_missing_after_a_timeout_too(in_nics, loss):
    """A timeout asks with one packet. Nothing else arrives twice. The sender does not run ahead of what the receiver keeps."""
    row = in_nics(MISSING, hosts=2, rate_bps=10 * GBIT, delay_ns=25_000, loss_ppb=int(loss * 1e9))
    arrived, twice = row["receiver"]["received_packets"], row["receiver"]["dropped_packets"]
    lost = row["sent_packets"] - arrived - twice
    assert row["acked"] == row["total_packets"] == arrived
    assert row["timeouts"] > 0 and lost > 0.9 * loss * arrived
    assert twice <= row["timeouts"] and row["resent_packets"] == lost + twice


WRAP = """
fabric.impair(5, time.monotonic_ns())
nic.start("fixed", [Flow("h1", "h2")], selective={selective}, parameter_0=500_000, timeout_ns=2_000_000)
start = 2**32 - 500
s, r = nic.senders[0], nic.receivers[0]
s.next = s.acked = s.high = s.end = r.expected = start
nic.post(0, 2000)
time.sleep(2)
out = {{"sender": plain(s), "receiver": plain(r)}}
nic.stop()
"""


@pytest.mark.parametrize("selective", [0, 1], ids=["go-back-n", "selective"])
def test_numbers_of_packets_go_on_beyond_32_bits(in_nics, selective):
    out = in_nics(WRAP.format(selective=selective), hosts=2, rate_bps=GBIT, loss_ppb=10**7)
    assert out["sender"]["acked"] == out["receiver"]["expected"] == 2**32 + 1500
    assert (out["receiver"]["received_packets"], out["receiver"]["broken_messages"]) == (2000, 0)
    assert out["sender"]["resent_packets"] > 0


TWICE = """
wire = tap("h1")
nic.start("fixed", [Flow("h1", "h2", 300 * 1440, 10 * 1440)], selective={selective}, parameter_0=10_486)
nic.post(0)
for copies in range(200):
    frame = wire.recv(2048)
    while len(frame) != FULL:
        frame = wire.recv(2048)
    for _ in range(1 + copies % 3):
        wire.send(frame)
wire.close()
time.sleep(1)
out = {{"bells": nic.bells(), "row": plain(nic.senders[0]) | plain(nic.receivers[0])}}
nic.stop()
"""


@pytest.mark.parametrize("selective", [0, 1], ids=["go-back-n", "selective"])
def test_what_comes_twice_counts_once(in_nics, selective):
    out = in_nics(TWICE.format(selective=selective), hosts=2, rate_bps=GBIT)
    row = out["row"]
    assert out["bells"] == [0]
    assert row["dropped_packets"] == sum(1 + copies % 3 for copies in range(200))
    assert (row["received_packets"], row["messages"], row["broken_messages"], row["acked"]) == (300, 30, 0, 300)


SLOW = """
nic.start("fixed", [Flow("h1", "h2")], parameter_0=64, burst_packets=64)
nic.post(0, 65)
time.sleep(2)
out = plain(nic.senders[0])
nic.stop()
"""


def test_a_burst_on_a_slow_line_is_not_followed_too_early(in_nics):
    """64 packets at 2^-14 of 600 kbit/s are 5.9 hours, which in Q20 and ns have 65 bits."""
    row = in_nics(SLOW, hosts=2, rate_bps=600_000)
    assert (row["sent_packets"], row["rate"], row["left_bytes"]) == (64, 64, 64 * 1514)
    assert row["due_ns"] - row["left_ns"] == pytest.approx(64 * 1514 * 8 / 600e3 * 2**14 * 1e9, rel=1e-9)


WINDOW = """
parameters = {f"parameter_{number}": value for number, value in enumerate(VALUES)}
nic.start("swift", [Flow("h1", "h3"), Flow("h2", "h3")], ack_packets=1, **parameters)
for number in range(2):
    nic.post(number, 10**9)
out["flight"] = []
for _ in range(500):
    time.sleep(100e-6)
    out["flight"] += [[(row.next - row.acked) * FULL, row.window_bytes, row.parked] for row in nic.senders]
nic.stop()
"""


def test_a_window_holds_what_is_under_way(in_nics, tmp_path):
    """A window that has shrunk empties packet by packet, so a sample may be over it; a flow that waits is never much below."""
    swift = algorithms.load("swift", tmp_path)
    values = list(algorithms.resolve_parameters(swift, "", {}, GBIT).values.values())
    flight = in_nics(WINDOW.replace("VALUES", repr(values)), hosts=3, rate_bps=GBIT)["flight"][100:]
    limited = [(under_way, window) for under_way, window, parked in flight if window and parked]
    assert len(limited) > 100
    assert all(under_way <= max(2 * window, window + 1514) and under_way + 1514 > window for under_way, window in limited)
    over = sum(under_way > max(window, 1514) for under_way, window, _ in flight if window)
    assert over < len(flight) / 4


STOPPED = """
fabric.impair(7, time.monotonic_ns())
times = dict(timeout_ns=2_000_000, timeout_max_ns=2_000_000)
nic.start("fixed", [Flow("h1", "h2", message_bytes=10**9)], parameter_0=1 << 20, ack_packets=64, **times)
nic.post(0)
time.sleep(0.002)
nic.senders[0].end = nic.senders[0].high  # as the traffic generator stops a flow without an end
time.sleep(1)
out = plain(nic.receivers[0]) | plain(nic.senders[0])
nic.stop()
"""


@pytest.mark.parametrize("lost", [0, 10**8], ids=["whole", "loss"])
def test_what_a_stopped_flow_has_sent_arrives_and_is_acknowledged(in_nics, lost):
    """The flow's last packet did not ask for an ACK, since more was to follow when it left."""
    row = in_nics(STOPPED, hosts=2, loss_ppb=lost)
    assert row["high"] > 100
    assert row["expected"] == row["acked"] == row["end"]
    assert row["parked"] == 1


SHRINKS = """
nic.start("fixed", [Flow("h1", "h2", message_bytes=10**9)], parameter_0=1 << 20, ack_packets=64)
nic.post(0)
time.sleep(0.002)
nic.senders[0].window_bytes = 2 * FULL
before = nic.senders[0].acked
time.sleep(0.01)
out = plain(nic.senders[0]) | {"before": before}
nic.stop()
"""


def test_a_window_that_shrinks_below_what_shares_an_ack_stops_nobody(in_nics):
    out = in_nics(SHRINKS, hosts=2)
    assert out["acked"] - out["before"] > 500
    assert out["timeouts"] == 0


SHORT = """
flows = [Flow("h1", "h2", 30 * 1440, 30 * 1440) for _ in range(100)]
fabric.impair(7, time.monotonic_ns())
nic.start("fixed", flows, selective=1, ack_packets=64, parameter_0=1 << 20, timeout_ns=10**7, timeout_max_ns=10**7)
for number in range(100):
    nic.post(number)
time.sleep(1)
out = [row.acked for row in nic.senders]
nic.stop()
"""


def test_a_last_packet_is_repeated_whatever_else_was(in_nics):
    """The ACK of a repeated packet must not end the wait for the ACK of the last packet, which was lost, too."""
    assert in_nics(SHORT, hosts=2, delay_ns=2_000_000, loss_ppb=10**8) == [30] * 100
