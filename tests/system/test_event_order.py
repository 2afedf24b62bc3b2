# SPDX-License-Identifier: Apache-2.0
"""The order of what happens at one nanosecond: what was started first comes first, with the event loop and without it.

Each test sends frames over several cables so that they arrive at the same nanosecond, and looks at the order in which one socket
receives them. docs/kernel.md defines the order.
"""

from __future__ import annotations

import itertools
import textwrap

import pytest

pytestmark = pytest.mark.lab

PROLOGUE = """
import os, socket, struct, time
from dc_gym.base.clock import sleep_until
from dc_gym.topologies.realize import cables
from dc_gym.topologies.realize.cables import CableEnd
from dc_gym.topologies.realize.rtnl import IFINFOMSG, RTM_NEWLINK, NetlinkRequest, NetlinkSocket

HERE, PROTOCOL, LENGTH, RATE_BPS = NetlinkSocket(), 0x88B5, 125, 10**9
BUSY_NS = LENGTH * 8 * 10**9 // RATE_BPS  # a frame's time on the line: 1 us
SO_TIMESTAMPNS = 35
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))

def wire(*delays_ns):
    "Cables a0 to b0, a1 to b1, ... with these delays; a socket for each a, and one that hears every b."
    ends = [[CableEnd(f"{side}{number}", f"02:00:00:00:0{side}:0{number}", None) for side in "ab"]
            for number in range(len(delays_ns))]
    HERE.batch([cables.create(*pair, RATE_BPS, delay_ns) for pair, delay_ns in zip(ends, delays_ns)])
    for pair in ends:
        for end in pair:
            body = IFINFOMSG.pack(0, 0, cables.devices(HERE)[end.ifname].ifindex, 1, 1)
            HERE.batch([NetlinkRequest(RTM_NEWLINK, 0, body, f"{end.ifname} up")])
    time.sleep(2)
    hears = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(PROTOCOL))
    hears.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    says = []
    for number in range(len(delays_ns)):
        says.append(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
        says[-1].bind((f"a{number}", PROTOCOL))
    return says, hears

def say(sender, text):
    sender.send((bytes.fromhex("ffffffffffff" "020000000001" "88b5") + text.encode().ljust(LENGTH))[:LENGTH])

def heard(hears):
    "What arrived, in its order: (text, ns of the clock)."
    time.sleep(1)
    hears.setblocking(False)
    found = []
    while True:
        try:
            data, extra, _, _ = hears.recvmsg(2000, 100)
        except BlockingIOError:
            return found
        seconds, ns = struct.unpack("=qq", extra[0][2])
        found.append((data[14:].decode().strip(), seconds * 10**9 + ns))

def together(found):
    "The texts, if all arrived at one nanosecond."
    assert len({ns for _, ns in found}) == 1, found
    return " ".join(text for text, _ in found)

T = 5 * 10**9
"""


@pytest.fixture(params=[True, False], ids=["loop", "no loop"])
def printed(in_lab, request):
    """Runs a program after the PROLOGUE and returns what it printed."""

    def run(program):
        ran = in_lab(
            PROLOGUE + textwrap.dedent(program),
            event_loop=request.param,
            kernel_args=("ipv6.disable=1", "panic_on_warn=1"),
        )
        assert ran.exit.status == 0, ran.text
        return ran.lines

    return run


def test_frames_sent_at_one_moment_arrive_in_the_order_of_sending(printed):
    lines = printed("""
        import itertools
        says, hears = wire(*[20_000] * 4)
        for number, order in enumerate(itertools.permutations(range(4))):
            sleep_until(T + number * 1_000_000)
            for which in order:
                say(says[which], str(which))
            time.sleep(0.0005)
        texts = heard(hears)
        for begin in range(0, len(texts), 4):
            print(together(texts[begin:begin + 4]))
    """)
    assert lines == [" ".join(order) for order in itertools.permutations("0123")]


def test_who_set_out_first_arrives_first(printed):
    """Frames on ways of different lengths are sent so that all arrive together."""
    lines = printed("""
        delays_ns = (30_000, 90_000, 10_000, 50_000)
        says, hears = wire(*delays_ns)
        for number, delay_ns in sorted(enumerate(delays_ns), key=lambda pair: -pair[1]):
            sleep_until(T - delay_ns)
            say(says[number], str(number))
        print(together(heard(hears)))
    """)
    assert lines == ["1 3 0 2"]


@pytest.mark.parametrize(("ahead_ns", "order"), [(1, "other second"), (0, "second other")])
def test_a_second_frame_is_started_when_the_first_has_arrived(printed, ahead_ns, order):
    """A cable has one event for the frames on their way. It is started again, for the second, when the first has arrived. A frame
    of another cable that arrives with the second comes before it if it set out before that moment."""
    lines = printed(f"""
        says, hears = wire(50_000, {ahead_ns})
        sleep_until(T)
        say(says[0], "first")
        say(says[0], "second")
        sleep_until(T + BUSY_NS + 50_000 - {ahead_ns})  # the first arrives so much later
        say(says[1], "other")
        first, *rest = heard(hears)
        print(first[0])
        print(together(rest))
    """)
    assert lines == ["first", order]
