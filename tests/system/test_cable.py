# SPDX-License-Identifier: Apache-2.0
"""The cable driver from user space: attributes, namespaces, carrier, counters, and deletion at bad moments.

Each test is a program in a lab of its own whose kernel panics at its first warning. PROLOGUE has the words that
the programs are made of; a program that fails an assertion prints it.
"""

from __future__ import annotations

import textwrap

import pytest

pytestmark = pytest.mark.lab

PROLOGUE = """
import os, socket, struct, time
from pathlib import Path
from dc_gym.base.errors import FabricError
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.cables import CableEnd
from dc_gym.topologies.graph import Impairment, Queue
from dc_gym.topologies.realize.rtnl import *

HERE = NetlinkSocket()
RTM_DELLINK = 17

def open_ns(*names):
    add_namespaces([f"/run/netns/{name}" for name in names])
    return [NetlinkSocket(f"/run/netns/{name}") for name in names]

def fd_of(name):
    return os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC)

def delete_ns(name):
    import ctypes
    assert ctypes.CDLL(None).umount2(f"/run/netns/{name}".encode(), 2) == 0
    os.unlink(f"/run/netns/{name}")

def pair(rate_bps=10**9, delay_ns=1000, a=None, b=None):
    fds = [None if name is None else fd_of(name) for name in (a, b)]
    ends = CableEnd("a", "02:00:00:00:00:0a", fds[0]), CableEnd("b", "02:00:00:00:00:0b", fds[1])
    HERE.batch([cables.create(*ends, rate_bps, delay_ns)])
    for fd in fds:
        if fd is not None:
            os.close(fd)

def device(name, sock=HERE):
    return cables.devices(sock)[name]

def change(name, sock=HERE, **values):
    sock.batch([cables.change(device(name, sock).ifindex, name, **values)])

def flags(name, up, sock=HERE):
    body = IFINFOMSG.pack(0, 0, device(name, sock).ifindex, int(up), 1)
    sock.batch([NetlinkRequest(RTM_NEWLINK, 0, body, f"{name} up {up}")])

def connect(left=HERE, right=HERE):
    "Both ends up; the queues of a device work a little after its carrier is there (linkwatch)."
    flags("a", True, left)
    flags("b", True, right)
    time.sleep(2)
    assert device("a", left).up and device("b", right).up

def delete(name, sock=HERE):
    sock.batch([NetlinkRequest(RTM_DELLINK, 0, IFINFOMSG.pack(0, 0, device(name, sock).ifindex, 0, 0), f"delete {name}")])

def queue(name, limit_bytes, sock=HERE):
    sock.batch([tc.set_queue(device(name, sock).ifindex, Queue(limit_bytes=limit_bytes), name)])

def send(name, *lengths, netns=None):
    "Frames to the other end, so many as are not dropped: that number."
    with entered(netns and f"/run/netns/{netns}"):
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind((name, 0x88B5))
    sender.setsockopt(socket.SOL_SOCKET, 32, 1 << 28)
    sent = 0
    for length in lengths:
        try:
            sender.send((bytes.fromhex("02000000000b" "02000000000a" "88b5") + bytes(length))[:length])
            sent += 1
        except OSError as error:
            assert error.errno == 105, error  # ENOBUFS: the queue is full
    return sent

def refused(words, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except FabricError as error:
        assert words in str(error), str(error)
    else:
        raise AssertionError(f"not refused, where '{words}' was expected")

def splitmix(seed, frame, draw):
    "Number 3 frame + draw of splitmix64: 0 loss, 1 jitter, 2 reordering."
    z = (seed + (3 * frame + draw + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)

def impair(name, seed=1, from_ns=0, **values):
    HERE.batch([cables.impair(device(name).ifindex, name, Impairment(**values), seed, from_ns)])

SO_TIMESTAMPNS = 35

def arrivals(gaps_ns, length=125):
    "Frames sent at those distances over a to b: what arrived, as (number, ns from sending), in order of arrival."
    receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
    receiver.bind(("b", 0x88B5))
    receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 30)
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sender.bind(("a", 0x88B5))
    sender.setsockopt(socket.SOL_SOCKET, 32, 1 << 28)
    sent = []
    for number, gap_ns in enumerate(gaps_ns):
        if gap_ns:
            time.sleep(gap_ns / 1e9)
        sent.append(time.clock_gettime_ns(time.CLOCK_REALTIME))
        head = bytes.fromhex("02000000000b" "02000000000a" "88b5")
        sender.send((head + struct.pack("=I", number) + bytes(length))[:length])
    time.sleep(1)
    receiver.setblocking(False)
    found = []
    while True:
        try:
            data, extra, _, _ = receiver.recvmsg(2000, 100)
        except BlockingIOError:
            break
        seconds, nanoseconds = struct.unpack("=qq", extra[0][2])
        number = struct.unpack_from("=I", data, 14)[0]
        found.append((number, seconds * 10**9 + nanoseconds - sent[number]))
    receiver.close(); sender.close()
    return found

def eventually(condition, seconds=30):
    for _ in range(seconds * 100):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come about")
"""


@pytest.fixture
def cable(in_lab):
    """Runs a program after the PROLOGUE in a lab without IPv6; it must succeed, and the kernel must print nothing."""

    def run(program):
        ran = in_lab(PROLOGUE + textwrap.dedent(program), kernel_args=("ipv6.disable=1", "panic_on_warn=1", "loglevel=5"))
        assert ran.exit.status == 0, ran.text
        for bad in ("waiting for", "WARNING", "BUG", "Call Trace", "refcount", "asks to queue"):
            assert bad not in ran.text, ran.text

    return run


def test_attributes_are_set_at_creation_for_both_directions(cable):
    cable("""
        pair(25 * 10**9, 12_345)
        for name in "ab":
            found = device(name)
            assert (found.rate_bps, found.delay_ns) == (25 * 10**9, 12_345), found
            assert (found.gso_max_segs, found.mtu, found.flight_packets, found.lost_packets) == (1, 1500, 0, 0), found
    """)


def test_attributes_change_for_one_direction(cable):
    cable("""
        pair(10**9, 1000)
        change("a", rate_bps=10**7)
        change("b", delay_ns=5)
        a, b = device("a"), device("b")
        assert (a.rate_bps, a.delay_ns, b.rate_bps, b.delay_ns) == (10**7, 1000, 10**9, 5), (a, b)
    """)


def test_without_attributes_a_cable_has_defaults_and_names_of_the_kernel(cable):
    cable("""
        info = nested(cables.IFLA_LINKINFO, attr_text(cables.IFLA_INFO_KIND, "cable"))
        body = IFINFOMSG.pack(0, 0, 0, 0, 0) + info
        HERE.batch([NetlinkRequest(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body, "create a bare cable")])
        found = cables.devices(HERE)
        assert sorted(found) == ["cable0", "cable1"], found
        assert {(each.rate_bps, each.delay_ns) for each in found.values()} == {(10**10, 0)}, found
    """)


def test_a_cut_loses_what_is_on_its_way_and_what_is_sent_and_counts_it(cable):
    cable("""
        pair(10**9, 10**8)
        connect()
        before = device("a").tx_packets
        assert send("a", 1000, 1000, 1000) == 3
        time.sleep(0.01)
        assert device("a").flight_packets == 3
        change("a", cut=1)
        cut = device("a")
        assert (cut.cut, cut.cut_packets, cut.cut_bytes, cut.flight_packets, cut.flight_bytes) == (1, 3, 3000, 0, 0), cut
        assert send("a", 500, 500) == 2 and send("b", 60) == 1
        time.sleep(0.5)
        a, b = device("a"), device("b")
        assert (a.tx_packets - before, a.cut_packets, a.cut_bytes, a.lost_packets) == (5, 5, 4000, 0), a
        assert a.rx_packets >= 1 and b.cut_packets == 0, "the other direction is whole"
        change("a", cut=0)
        arrived = b.rx_packets
        assert send("a", 1000) == 1
        time.sleep(0.5)
        assert device("b").rx_packets == arrived + 1 and device("a").cut_packets == 5
    """)


def test_a_delay_that_shrinks_keeps_the_order(cable):
    cable("""
        pair(10**9, 10**8)
        connect()
        receiver = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
        receiver.bind(("b", 0x88B5))
        send("a", 1000)
        time.sleep(0.001)
        change("a", delay_ns=1000)
        assert device("a").flight_packets == 1
        send("a", 100)
        time.sleep(0.5)
        assert [len(receiver.recv(2000)) for _ in range(2)] == [1000, 100]
        assert device("a").delay_ns == 1000
    """)


def test_the_widest_values_are_taken(cable):
    cable("""
        pair(1, 10**10)
        change("b", rate_bps=10**13, delay_ns=0)
        a, b = device("a"), device("b")
        assert (a.rate_bps, a.delay_ns, b.rate_bps, b.delay_ns) == (1, 10**10, 10**13, 0), (a, b)
    """)


@pytest.mark.parametrize(
    ("rate_bps", "delay_ns", "words"),
    [
        (0, 0, "rate is not in 1 .. 10^13 bit/s"),
        (10**13 + 1, 0, "rate is not in 1 .. 10^13 bit/s"),
        (2**64 - 1, 0, "rate is not in 1 .. 10^13 bit/s"),
        (1, 10**10 + 1, "delay is not in 0 .. 10^10 ns"),
        (1, 2**64 - 1, "delay is not in 0 .. 10^10 ns"),
    ],
)
def test_values_out_of_range_are_refused_and_change_nothing(cable, rate_bps, delay_ns, words):
    cable(f"""
        refused("{words}", pair, {rate_bps}, {delay_ns})
        assert cables.devices(HERE) == {{}}
        pair()
        before = cables.devices(HERE)
        refused("{words}", change, "a", rate_bps={rate_bps}, delay_ns={delay_ns})
        assert cables.devices(HERE) == before
    """)


def test_what_cannot_be_set_is_refused(cable):
    cable("""
        pair()
        def set_data(*data):
            info = nested(cables.IFLA_LINKINFO, attr_text(cables.IFLA_INFO_KIND, "cable"), nested(cables.IFLA_INFO_DATA, *data))
            HERE.batch([NetlinkRequest(RTM_NEWLINK, 0, IFINFOMSG.pack(0, 0, device("a").ifindex, 0, 0) + info, "change a")])

        before = cables.devices(HERE)
        peer = attribute(cables.IFLA_CABLE_PEER | NLA_F_NESTED, IFINFOMSG.pack(0, 0, 0, 0, 0))
        refused("peer cannot be changed", set_data, peer)
        for kind in (cables.IFLA_CABLE_FLIGHT_PACKETS, cables.IFLA_CABLE_FLIGHT_BYTES, cables.IFLA_CABLE_LOST_PACKETS, 8):
            refused("", set_data, attr_u64(kind, 0))
        for short in (b"", b"1234"):
            refused("", set_data, attribute(cables.IFLA_CABLE_RATE, short))
        assert cables.devices(HERE) == before
    """)


def test_a_cable_that_cannot_be_made_leaves_no_half(cable):
    cable("""
        pair()
        before = cables.devices(HERE)
        for a, b in (("a", "new"), ("new", "b"), ("twice", "twice")):
            refused("File exists", HERE.batch, [cables.create(CableEnd(a), CableEnd(b), 10**9, 0)])
        for mac in ("01:00:00:00:00:01", "00:00:00:00:00:00"):
            refused("not an Ethernet address", HERE.batch, [cables.create(CableEnd("x", mac), CableEnd("y"), 10**9, 0)])
            refused("not an Ethernet address", HERE.batch, [cables.create(CableEnd("x"), CableEnd("y", mac), 10**9, 0)])
        assert cables.devices(HERE) == before
    """)


def test_frames_bytes_and_where_they_are_count_exactly(cable):
    """At 10 Mbit/s a frame of 1250 bytes takes 1 ms; the delay is 2.5 ms, the limit 4 frames."""
    cable("""
        open_ns("left", "right")
        left, right = NetlinkSocket("/run/netns/left"), NetlinkSocket("/run/netns/right")
        pair(10**7, 2_500_000, "left", "right")
        connect(left, right)
        queue("a", 5000, left)
        assert send("a", *[1250] * 8, netns="left") == 5
        time.sleep(0.0035)  # four have started, and one has arrived
        a, b, q = device("a", left), device("b", right), tc.queue_counters(left)[device("a", left).ifindex]
        assert (a.tx_packets, a.tx_bytes) == (4, 5000), a
        assert (b.rx_packets, a.flight_packets, a.flight_bytes) == (1, 3, 3750), (a, b)
        assert (q.backlog_packets, q.backlog_bytes, q.drops, q.tx_packets, q.tx_bytes) == (1, 1250, 3, 4, 5000), q
        time.sleep(0.1)
        a, b = device("a", left), device("b", right)
        assert (a.tx_packets, a.tx_bytes, a.flight_packets, a.flight_bytes) == (5, 6250, 0, 0), a
        assert (b.rx_packets, b.rx_bytes) == (5, 6250), b
        assert (a.lost_packets, a.tx_dropped, a.rx_packets, b.tx_packets) == (0, 0, 0, 0), (a, b)
    """)


def test_frames_are_lost_by_seed_and_counted(cable):
    """The seed's draws decide which frames are lost; their number lies within four standard deviations of the binomial."""
    cable("""
        n, ppb = 20_000, 20_000_000
        pair(10**10, 1000)
        connect()
        queue("a", 10**8)
        before = device("a")
        for seed in (1, 2**63 + 5):
            impair("a", seed=seed, loss_ppb=ppb)
            numbers = [number for number, _ in arrivals([0] * n)]
            lost = [number for number in range(n) if splitmix(seed, number, 0) * 10**9 >> 64 < ppb]
            assert numbers == sorted(set(range(n)) - set(lost))
            assert abs(len(lost) - n * 0.02) < 4 * (n * 0.02 * 0.98) ** 0.5, len(lost)
            now = device("a")
            assert now.dropped_packets - before.dropped_packets == len(lost)
            assert now.dropped_bytes - before.dropped_bytes == 125 * len(lost)
            assert now.tx_packets - before.tx_packets == n and (now.lost_packets, now.flight_packets) == (0, 0)
            before = now
    """)


def test_jitter_is_uniform_by_seed_and_keeps_the_order(cable):
    """Frames far apart have independent draws; frames that follow closely do not overtake each other."""
    cable("""
        jitter_ns, n, seed = 10_000, 3000, 3
        pair(10**10, 1000)  # 125 bytes: 100 ns
        connect()
        queue("a", 10**8)
        impair("a", seed=seed, jitter_ns=jitter_ns)
        found = arrivals([20_000] * n)
        extra = [delay_ns - found[0][1] for _, delay_ns in found]
        draws = [splitmix(seed, number, 1) * (jitter_ns + 1) >> 64 for number in range(n)]
        assert [number for number, _ in found] == list(range(n))
        assert extra == [draw - draws[0] for draw in draws]
        mean = sum(draws) / n
        assert abs(mean - jitter_ns / 2) < 4 * jitter_ns / 12**0.5 / n**0.5, mean
        assert 0 <= min(draws) and max(draws) <= jitter_ns
        impair("a", seed=seed, jitter_ns=jitter_ns)
        assert [number for number, _ in arrivals([0] * n)] == list(range(n))
    """)


def test_a_reordered_frame_is_overtaken_by_those_of_its_delay(cable):
    cable("""
        n, ppb, extra_ns, seed = 20_000, 10_000_000, 10_000, 4
        pair(10**10, 1000)
        connect()
        queue("a", 10**8)
        impair("a", seed=seed, reorder_ppb=ppb, reorder_delay_ns=extra_ns)
        found = [number for number, _ in arrivals([0] * n)]
        late = {number for number in range(n) if splitmix(seed, number, 2) * 10**9 >> 64 < ppb}
        # Sent 100 ns apart, or a little more: sorting by time of arrival gives the order; a tie, to who was there first.
        assert sorted(found) == list(range(n))
        assert [number for number in found if number not in late] == sorted(set(range(n)) - late)
        places = {number: place for place, number in enumerate(found)}
        moved = [places[number] - number for number in sorted(late)]
        assert all(move > 0 for move in moved) and max(moved) <= extra_ns // 100 + 1, (min(moved), max(moved))
        assert abs(len(late) - n * 0.01) < 4 * (n * 0.01 * 0.99) ** 0.5
        assert device("a").reordered_packets == len(late) and device("a").dropped_packets == 0
    """)


def test_a_reordered_frame_arrives_so_much_later_and_delays_no_other(cable):
    """Frames far apart have the wire's delay, and reordered ones the extra delay on top; with jitter, the sum."""
    cable("""
        n, ppb, extra_ns, seed = 1000, 200_000_000, 5_000, 9
        pair(10**10, 1000)
        connect()
        impair("a", seed=seed, reorder_ppb=ppb, reorder_delay_ns=extra_ns)
        found = dict(arrivals([20_000] * n))
        late = {number for number in range(n) if splitmix(seed, number, 2) * 10**9 >> 64 < ppb}
        usual = min(found.values())
        assert {number for number in found if found[number] == usual + extra_ns} == late
        assert {number for number in found if found[number] == usual} == set(range(n)) - late
    """)


def test_nothing_is_impaired_before_its_time(cable):
    cable("""
        pair(10**10, 1000)
        connect()
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        impair("a", seed=1, from_ns=now + 10**9, loss_ppb=10**9)
        assert len(arrivals([0] * 100)) == 100  # and a second passes
        assert len(arrivals([0] * 100)) == 0
        assert device("a").dropped_packets == 100
        assert send("b", 100) == 1  # the other direction has its own
        time.sleep(0.01)
        assert device("a").rx_packets == 1
        impair("a")
        assert len(arrivals([0] * 100)) == 100
    """)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("loss_ppb=10**9 + 1", "share is not in 0 .. 10^9 ppb"),
        ("reorder_ppb=10**9 + 1, reorder_delay_ns=1", "share is not in 0 .. 10^9 ppb"),
        ("jitter_ns=10**10 + 1", "delay is not in 0 .. 10^10 ns"),
        ("reorder_ppb=1, reorder_delay_ns=10**10 + 1", "delay is not in 0 .. 10^10 ns"),
    ],
)
def test_impairments_out_of_range_are_refused_and_change_nothing(cable, values, words):
    cable(f"""
        pair()
        before = cables.devices(HERE)
        Impairment.__post_init__ = lambda self: None  # the graph would refuse them first
        refused("{words}", impair, "a", seed=7, **dict({values}))
        assert cables.devices(HERE) == before
    """)


@pytest.mark.parametrize("kind", ["bfifo", "pfifo", "pfifo_fast", "fq", "fq_codel"])
def test_a_frame_that_waits_is_not_counted_as_sent(cable, kind):
    """A qdisc that can be bypassed would count the second frame at once both as sent and as waiting."""
    cable(f"""
        import subprocess
        pair(10**7, 1000)
        connect()
        if "{kind}" != "pfifo_fast":  # that one is there already
            subprocess.run(["tc", "qdisc", "replace", "dev", "a", "root", "{kind}"], check=True)
        for frames in (1, 2, 3):
            before = device("a").tx_packets
            assert send("a", *[1250] * frames) == frames
            for _ in range(2 * frames + 1):
                queued = tc.queue_counters(HERE)[device("a").ifindex]
                assert device("a").tx_packets == queued.tx_packets, (device("a"), queued)
                assert queued.tx_packets + queued.backlog_packets == before + frames, queued
                time.sleep(0.0005)
            time.sleep(0.1)
    """)


def test_a_short_frame_is_padded_to_60_bytes(cable):
    cable("""
        pair()
        connect()
        assert send("a", 14, 59, 60, 61) == 4
        time.sleep(0.01)
        assert device("a").tx_bytes == device("b").rx_bytes == 3 * 60 + 61
    """)


def test_carrier_needs_both_ends_up(cable):
    cable("""
        pair(40 * 10**9)
        def carrier():
            return tuple(Path(f"/sys/class/net/{name}/operstate").read_text().strip() for name in "ab")

        flags("a", True)
        eventually(lambda: carrier() == ("down", "down") or carrier() == ("lowerlayerdown", "down"))
        assert not device("a").up
        flags("b", True)
        eventually(lambda: carrier() == ("up", "up"))
        flags("a", False)
        eventually(lambda: carrier()[0] == "down" and carrier()[1] != "up")
        assert not device("b").up
        flags("a", True)
        eventually(lambda: carrier() == ("up", "up"))
        assert send("a", 100) == 1
        time.sleep(0.01)
        assert device("b").rx_packets == 1
    """)


@pytest.mark.parametrize(("rate_bps", "mbit"), [(10**10, 10_000), (25 * 10**9, 25_000), (10**7, 10), (1, 1), (10**13, 10**7)])
def test_speed_and_duplex_are_those_of_the_cable(cable, rate_bps, mbit):
    cable(f"""
        pair({rate_bps})
        connect()
        assert int(Path("/sys/class/net/a/speed").read_text()) == {mbit}
        assert Path("/sys/class/net/a/duplex").read_text() == "full\\n"
    """)


def test_segmentation_cannot_be_switched_on(cable):
    cable("""
        import ctypes, fcntl
        pair()
        def ethtool(command, value=0):
            data = ctypes.create_string_buffer(struct.pack("=II", command, value))
            request = struct.pack("16sP", b"a", ctypes.addressof(data))
            with socket.socket() as sock:
                fcntl.ioctl(sock, 0x8946, request)  # SIOCETHTOOL
            return struct.unpack("=II", data[:8])[1]

        for get, set_to in ((0x1E, 0x1F), (0x23, 0x24), (0x2B, 0x2C)):  # TSO, GSO, GRO
            assert ethtool(get) == 0
            try:
                ethtool(set_to, 1)
            except OSError:
                pass
            assert ethtool(get) == 0, hex(get)
    """)


@pytest.mark.parametrize("end", ["receiver", "sender"])
def test_an_end_that_goes_down_loses_what_is_under_way_and_says_so(cable, end):
    cable(f"""
        open_ns("left", "right")
        left, right = NetlinkSocket("/run/netns/left"), NetlinkSocket("/run/netns/right")
        pair(10**9, 10**9, "left", "right")
        connect(left, right)
        assert send("a", 1514, 60, 590, netns="left") == 3
        time.sleep(0.1)
        assert device("a", left).flight_packets == 3
        if "{end}" == "sender":
            flags("a", False, left)
        else:
            flags("b", False, right)
            time.sleep(1)
        a, b = device("a", left), device("b", right)
        assert (a.tx_packets, a.tx_bytes, a.flight_packets, a.flight_bytes) == (3, 2164, 0, 0), a
        assert (a.lost_packets, a.lost_bytes, a.tx_dropped, b.rx_packets) == (3, 2164, 3, 0), (a, b)
        connect(left, right)
        assert send("a", 100, netns="left") == 1
        time.sleep(2)
        a, b = device("a", left), device("b", right)
        assert (a.tx_packets, a.flight_packets, a.lost_packets, b.rx_packets, b.rx_bytes) == (4, 0, 3, 1, 100), (a, b)
    """)


def test_ends_may_live_in_two_namespaces_and_move(cable):
    cable("""
        left, right, other = open_ns("left", "right", "other")
        pair(10**9, 1000, "left", "right")
        assert sorted(cables.devices(left)) == ["a"] and sorted(cables.devices(right)) == ["b"] and not cables.devices(HERE)
        fd = fd_of("other")
        body = IFINFOMSG.pack(0, 0, device("b", right).ifindex, 0, 0) + attr_u32(cables.IFLA_NET_NS_FD, fd)
        right.batch([NetlinkRequest(RTM_NEWLINK, 0, body, "move b")])
        os.close(fd)
        assert not cables.devices(right) and sorted(cables.devices(other)) == ["b"]
        connect(left, other)
        assert send("a", 100, netns="left") == 1
        time.sleep(0.01)
        assert device("b", other).rx_packets == 1
        delete("b", other)
        assert not cables.devices(left) and not cables.devices(other)
    """)


GONE = {
    "the sender's device": 'delete("a", left)',
    "the receiver's device": 'delete("b", right)',
    "the sender's namespace": 'left.close(); delete_ns("left")',
    "the receiver's namespace": 'right.close(); delete_ns("right")',
    "both namespaces": 'left.close(); right.close(); delete_ns("left"); delete_ns("right")',
}

WHEN = {"idle": (10**9, 0), "under way": (10**9, 20), "full queue": (10**6, 50)}  # bit/s, frames


@pytest.mark.parametrize("deletion", GONE)
@pytest.mark.parametrize("when", WHEN)
def test_deletion_takes_both_ends_at_any_moment(cable, deletion, when):
    """Twenty times each, so that a device that leaks would keep its name or its namespace."""
    cable(f"""
        before = os.listdir("/sys/class/net")
        rate_bps, frames = {WHEN[when]}
        gone = {GONE[deletion]!r}
        for round in range(20):
            left, right = open_ns("left", "right")
            pair(rate_bps, 10**7, "left", "right")
            connect(left, right)
            queue("a", 30_000, left)
            if frames:
                send("a", *[1514] * frames, netns="left")
                time.sleep(0.0005)
                assert device("a", left).flight_packets > 0
                if "{when}" == "full queue":
                    assert tc.queue_counters(left)[device("a", left).ifindex].drops > 0
            exec(gone)
            for name in ("left", "right"):
                path = Path(f"/run/netns/{{name}}")
                if path.exists():
                    with NetlinkSocket(str(path)) as sock:
                        eventually(lambda: not cables.devices(sock))
                    delete_ns(name)
            left.close(); right.close()
        time.sleep(5)
        assert not cables.devices(HERE)
        assert os.listdir("/sys/class/net") == before
    """)
