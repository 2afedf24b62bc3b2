# SPDX-License-Identifier: Apache-2.0
"""Marking on the queue itself, in a lab: its probability against closed forms, packet by packet and in its scatter.

A port of 1 bit/s is filled to q bytes, up to its limit: every further frame finds just that, is marked or not, and dropped.
"""

from __future__ import annotations

import json
import sys
from math import sqrt

import pytest

pytestmark = pytest.mark.lab

KMIN, KMAX, PMAX_PPM = 10_000, 30_000, 400_000
BATCHES, FRAMES = 200, 100
PROGRAM = """
import json, socket, struct, sys, time
from dc_gym.topologies.realize import cables, tc
from dc_gym.topologies.realize.cables import CableEnd
from dc_gym.topologies.graph import Marking, Queue
from dc_gym.topologies.realize.rtnl import NetlinkSocket

kmin, kmax, pmax_ppm, batches, frames, fills, own_draws = json.loads(sys.argv[1])
sock = NetlinkSocket()
sock.batch([cables.create(CableEnd("a", "02:00:00:00:00:0a"), CableEnd("b", "02:00:00:00:00:0b"), 1, 0)])
index = cables.devices(sock)["a"].ifindex
sock.batch([cables.set_up(index, "a"), cables.set_up(cables.devices(sock)["b"].ifindex, "b")])
time.sleep(2)
if not own_draws:
    tc.RED_INDEPENDENT = 0
LENGTH = 100
head = bytes.fromhex("02000000000b" "02000000000a" "0800" "4502") + struct.pack("!H", LENGTH - 14)
frame = (head + bytes.fromhex("000000004011" "0000" "0a000001" "0a000002") + bytes(LENGTH))[:LENGTH]
sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
sender.bind(("a", 0x0800))
sender.setsockopt(socket.SOL_SOCKET, 32, 1 << 28)

def send(count):
    for _ in range(count):
        try:
            sender.send(frame)
        except OSError as error:
            assert error.errno == 105, error

def marks():
    return tc.marks(sock)[index]

send(1)  # it is under way for 800 s
found = []
for fill in fills:
    marking = Marking("red-instant", min_bytes=kmin, max_bytes=kmax, probability_ppm=pmax_ppm)
    queue = Queue(kmax, "red", marking)
    object.__setattr__(queue, "limit_bytes", fill)  # below kmax, which a spec would be refused
    sock.batch([tc.set_queue(index, queue, "a")])
    send(fill // LENGTH)
    assert tc.queue_counters(sock)[index].backlog_bytes == fill
    found.append([])
    for _ in range(batches):
        was = marks()
        send(frames)
        found[-1].append(marks() - was)
print(json.dumps(found))
"""


@pytest.fixture
def marks(in_lab):
    """Returns for each queue length how many frames of each batch are marked."""

    def run(*fills, own_draws=True):
        arguments = json.dumps([KMIN, KMAX, PMAX_PPM, BATCHES, FRAMES, fills, own_draws])
        ran = in_lab([sys.executable, "-c", PROGRAM, arguments], kernel_args=("ipv6.disable=1",), seed=7)
        assert ran.exit.status == 0, ran.text
        return dict(zip(fills, json.loads(ran.lines[-1]), strict=True))

    return run


def probability(fill):
    return PMAX_PPM / 10**6 * (fill - KMIN) / (KMAX - KMIN)


def test_each_frame_is_marked_with_the_slopes_probability_by_a_draw_of_its_own(marks):
    """So a batch's marks are binomial: in the mean, and in the scatter, which is what shows that draws are independent."""
    marks_by_fill = marks(KMIN - 100, 12_000, 20_000, 29_900, KMAX)
    assert set(marks_by_fill.pop(KMIN - 100)) == {0} and set(marks_by_fill.pop(KMAX)) == {FRAMES}
    for fill, counts in marks_by_fill.items():
        p, n = probability(fill), BATCHES * FRAMES
        assert abs(sum(counts) - n * p) < 4 * sqrt(n * p * (1 - p)), (fill, sum(counts) / n, p)
        assert abs(variance(counts) / (FRAMES * p * (1 - p)) - 1) < 4 * sqrt(2 / BATCHES), (fill, variance(counts))


def test_reds_own_marks_come_twice_as_often_and_evenly(marks):
    """Without the patch RED draws the gap to the next mark: uniform in 1 .. 1/p, with the mean (1/p + 1) / 2.

    A renewal process with gaps of mean m and variance v has n / m marks in n frames, with the variance n v / m^3.
    """
    for fill, counts in marks(12_500, 20_000, own_draws=False).items():
        longest, n = 1 / probability(fill), BATCHES * FRAMES
        assert longest == pytest.approx(round(longest))
        mean, spread = (longest + 1) / 2, (longest**2 - 1) / 12
        assert abs(sum(counts) - n / mean) < 4 * sqrt(n * spread / mean**3), (fill, sum(counts) / n, 1 / mean)
        assert 1 / mean == pytest.approx(2 * probability(fill) / (1 + probability(fill)))


def variance(counts):
    mean = sum(counts) / len(counts)
    return sum((count - mean) ** 2 for count in counts) / (len(counts) - 1)
