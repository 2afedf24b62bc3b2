# SPDX-License-Identifier: Apache-2.0
"""The fabric oracle against cases computed by hand, and against the FIFO oracle where that is enough."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise, takewhile

import pytest
from fabric_nets import NETS, FabricPort
from fabric_oracle import PORT_VALUES, FabricFrame, run_fabric

from dc_gym.benchmarks.checks.oracle import OracleFrame, OraclePort, run_chain
from dc_gym.topologies.graph import Marking, Pause, Pool, Queue, QueueClass, Trim

GBIT = 10**9
AMPLE = 10**7
FULL = 1514
OUT = 2
"""The switch's port to the receiver in chain2."""


def frames(*rows: tuple[int, int, int]) -> list[FabricFrame]:
    """Returns frames of h0 to h1 from (time, length, DSCP)."""
    return [FabricFrame(t_ns, 0, 1, length, dscp, True, seq) for seq, (t_ns, length, dscp) in enumerate(rows)]


def chain2(queue: Queue, host: Queue | None = None, rate_bps: int = GBIT, delay_ns: int = 1_000) -> list[FabricPort]:
    """Returns the ports of a chain whose host sends ten times as fast as its switch."""
    plain = FabricPort(rate_bps, delay_ns, Queue(AMPLE, "port"))
    host_port = replace(plain, rate_bps=10 * rate_bps, queue=host or plain.queue)
    return [host_port, replace(host_port, queue=replace(queue, pause=queue.pause)), replace(plain, queue=queue), plain]


def classes(*rules: QueueClass) -> Queue:
    return Queue(AMPLE, "port", classes=rules)


def order(queue: Queue, rows: list[tuple[int, int, int]]) -> list[int]:
    """Returns the numbers of the frames in the order in which they arrive."""
    run = run_fabric(NETS["chain2"], chain2(queue), frames(*rows))
    return sorted(run.arrivals, key=lambda seq: run.arrivals[seq].t_ns)


def test_strict_classes_go_first_and_the_last_of_them_before_all():
    queue = classes(*(QueueClass(f"c{number}", (number,), AMPLE) for number in range(3)))
    assert order(queue, [(0, FULL, dscp) for dscp in (0, 0, 1, 2, 1)]) == [0, 3, 2, 4, 1]


def test_a_dscp_that_no_class_names_is_of_the_first():
    queue = classes(QueueClass("first", (7,), AMPLE), QueueClass("second", (8,), AMPLE))
    assert order(queue, [(0, FULL, dscp) for dscp in (63, 63, 63, 8)]) == [0, 3, 1, 2]


def test_deficit_round_robin_by_hand():
    """Quanta of 1,000 and 2,000 bytes, frames of 1,000: frame 0 finds an idle port. Then class 1 sends two and class 0 one.

    Frame 0 has left class 0 empty, so the turn is still there without deficit, and goes on to class 1.
    """
    queue = classes(QueueClass("one", (0,), AMPLE, quantum_bytes=1_000), QueueClass("two", (1,), AMPLE, quantum_bytes=2_000))
    rows = [(0, 1_000, 0)] * 4 + [(0, 1_000, 1)] * 6
    assert order(queue, rows) == [0, 4, 5, 1, 6, 7, 2, 8, 9, 3]


def test_a_lossy_class_is_full_at_alpha_times_the_free_pool():
    """Pool 10,000, alpha 1: a queue of q takes a frame while q < 10,000 - q, so until 5,000.

    Frame 0 leaves at once and takes 8 us; 1 .. 5 wait, and 6 .. 10 come before the next one leaves.
    """
    pool = Queue(AMPLE, "port", classes=(QueueClass("c", (0,), AMPLE, alpha_2_16=1 << 16),), pool=Pool(1, 10_000))
    run = run_fabric(NETS["chain2"], chain2(pool), frames(*[(0, 1_000, 0)] * 20), samples=[20_000])
    dropped = [seq for seq in range(20) if seq not in run.arrivals]
    assert dropped[:4] == [6, 7, 8, 9]
    assert max(row[7] for row in run.samples if row[1] == OUT) == 5_000


PAUSE = Pause(
    xoff_bytes=3_000, share=0, share_of=0, xon_below_bytes=0, reserve_bytes=0, headroom_bytes=50_000, quanta=100, whole_port=False
)


def lossless(pause: Pause = PAUSE) -> Queue:
    return Queue(
        AMPLE,
        "port",
        classes=(QueueClass("other", (9,), AMPLE), QueueClass("rdma", (0,), AMPLE, lossless=True)),
        pool=Pool(1, 100_000),
        pause=pause,
    )


HOST = classes(QueueClass("other", (9,), AMPLE), QueueClass("rdma", (0,), AMPLE))


def test_a_pause_by_hand():
    """Frames of 1,500 bytes take 1.2 us to the switch and 12 us from it.

    Frame 0 comes at 2.2 us and leaves at once; 1 and 2 wait from 3.4 and 4.6 us on: 3,000 bytes are Xoff. The pause takes 48 ns
    and 1 us, so the host hears it at 5.648 us, in frame 4. Frames 1 .. 4 wait then, 6,000 bytes, two of them in headroom. Frame 1
    leaves at 14.2 us, and frame 2 at 26.2 us, which leaves 3,000 bytes behind.
    """
    run = run_fabric(NETS["chain2"], chain2(lossless(), HOST), frames(*[(0, 1_500, 0)] * 6))
    first = run.pause_times[0]
    assert first == (5_648, 0, 0b10)
    assert [run.departures[seq] for seq in range(5)] == [0, 1_200, 2_400, 3_600, 4_800]
    resumed = next(t_ns for t_ns, _, paused in run.pause_times if not paused)
    assert resumed == 26_200 + 48 + 1_000, "Xon: at most 3,000 bytes wait"
    assert run.departures[5] == resumed


def test_a_pause_is_repeated_after_half_of_its_quanta():
    """100 quanta of 512 bits at 10 Gbit/s are 5,120 ns."""
    run = run_fabric(NETS["chain2"], chain2(lossless(), HOST), frames(*[(0, 1_500, 0)] * 6))
    heard = [t_ns for t_ns, _, _ in takewhile(lambda pause: pause[2], run.pause_times)]
    assert len(heard) > 5
    assert {later - sooner for sooner, later in pairwise(heard)} == {2_560}


def test_a_pause_that_nobody_repeats_in_time_ends_by_itself():
    """With 3 quanta the repetition, 76 ns later, would be in time; behind a frame of the reverse direction it is not."""
    back = FabricFrame(5_000, 1, 0, FULL, 9, True, 100)
    ports = chain2(lossless(replace(PAUSE, quanta=3)), HOST)
    rows = [*frames(*[(0, 1_500, 0)] * 12), back]
    run = run_fabric(NETS["chain2"], ports, sorted(rows, key=lambda frame: frame.t_ns), samples=[400_000])
    held = next(row for row in run.samples if row[1] == 0)
    repeated = [later - sooner for (sooner, *_), (later, *_) in pairwise(run.pause_times)]
    assert max(repeated) > 3 * 512 / 10, "a repetition came too late"
    assert 0 < held[10] < run.pause_times[-1][0] - run.pause_times[0][0], "the host was not held all the time"


def test_no_frame_is_lost_with_room_and_some_are_without():
    rows = frames(*[(0, 1_500, 0)] * 60)
    assert len(run_fabric(NETS["chain2"], chain2(lossless(), HOST), rows).arrivals) == 60
    tight = lossless(replace(PAUSE, headroom_bytes=1_000))
    assert len(run_fabric(NETS["chain2"], chain2(tight, HOST), rows).arrivals) < 60


def test_a_class_that_holds_nothing_is_not_paused():
    """Other frames fill the pool, so Xoff, a share of its free room, is 0. A frame that is refused then begins no pause, which
    nothing would end: the run ends."""
    rules = (QueueClass("other", (9,), AMPLE, alpha_2_16=2**32 - 1), QueueClass("rdma", (0,), AMPLE, lossless=True))
    pause = replace(PAUSE, xoff_bytes=0, share=1, share_of=16, headroom_bytes=0)
    queue = Queue(AMPLE, "port", classes=rules, pool=Pool(1, 3_000), pause=pause)
    run = run_fabric(NETS["chain2"], chain2(queue, HOST), frames(*[(0, 1_500, 9)] * 4, (0, 1_500, 0)), samples=[400_000])
    assert 4 not in run.arrivals
    assert not run.pause_times


def test_a_stock_queue_is_stopped_by_any_pause():
    """A frame of the other class waits in the host as long as the paused one; in a queue with classes it goes on."""
    rows = frames(*[(0, 1_500, 0)] * 6, (6_500, 60, 9))
    with_classes = run_fabric(NETS["chain2"], chain2(lossless(), HOST), rows)
    stock = run_fabric(NETS["chain2"], chain2(lossless(), Queue(AMPLE)), rows)
    assert with_classes.departures[6] == 6_500
    assert stock.departures[6] > 26_000


def test_a_frame_without_room_is_cut_and_overtakes_those_that_wait():
    """Frame 0 leaves at once; 1 and 2 wait, and fill the queue. 3 and 4 are trimmed: their class has room for two of 200 bytes,
    and 5 finds none. 6 is no data. 7, of 150 bytes, is cut to its headers of 116 when the trimmed ones have left."""
    trim = Trim(200, 1, 63)
    queue = replace(classes(QueueClass("c", (0,), 3_000), QueueClass("trimmed", (63,), 400)), trim=trim)
    rows = [*frames(*[(0, 1_500, 0)] * 7), *frames((15_000, 150, 0))]
    data = [replace(frame, seq=seq, data=seq != 6) for seq, frame in enumerate(rows)]
    run = run_fabric(NETS["chain2"], chain2(queue), data, samples=[9_000, 40_000])
    assert [seq for seq in run.arrivals] == [0, 1, 2]
    assert run.trimmed_arrivals == 3
    assert run.trims[OUT] == (3, 2 * 1_300 + 34)
    assert run.arrivals[1].t_ns - run.arrivals[0].t_ns == (1_500 + 2 * 200 + 116) * 8, "they left before it"
    first, last = (next(row for row in run.samples if row[0] == t_ns and row[1] == OUT) for t_ns in (9_000, 40_000))
    assert first[2 + PORT_VALUES] == 3_000 and last[2 + PORT_VALUES + 4] == 2, "whole frames that waited, and that were dropped"


def test_a_trimmed_frame_is_not_trimmed_again():
    """Behind the first switch the line is ten times as slow, and its class of trimmed frames has room for one."""
    trim = Trim(200, 1, 63)
    first = replace(classes(QueueClass("c", (0,), 1_500), QueueClass("trimmed", (63,), 2_000)), trim=trim)
    second = replace(classes(QueueClass("c", (0,), 10_000), QueueClass("trimmed", (63,), 200)), trim=trim)
    ports = [FabricPort(10 * GBIT, 1_000, Queue(AMPLE, "port")) for _ in range(8)]
    ports[2], ports[4] = FabricPort(GBIT, 1_000, first), FabricPort(GBIT // 10, 1_000, second)
    ports[6] = FabricPort(GBIT // 10, 1_000, second)
    data = [replace(frame, data=True) for frame in frames(*[(0, 1_500, 0)] * 6)]
    run = run_fabric(NETS["chain4"], ports, data, samples=[10**6])
    assert run.trims[2][0] == 4 and not run.trims[4][0] and not run.trims[6][0]
    dropped = [row[2 + PORT_VALUES + 14 + 4] for row in run.samples if row[1] in (4, 6)]
    assert run.trimmed_arrivals == 4 - sum(dropped) and sum(dropped) > 0
    assert len(run.arrivals) == 2


@pytest.mark.parametrize("number", range(6))
def test_with_one_class_it_is_the_fifo_oracle(number):
    """The same frames through the same ports: every time, drop and mark."""
    chance = random.Random(number)
    rate = chance.choice((10**8, 10**9, 7 * 10**9, 10**11))
    slope = Marking("red-instant", min_bytes=3_000, max_bytes=9_000, probability_ppm=400_000, at="arrival")
    fifo = OraclePort(rate, 1_000, 12_000, 3_000, 9_000, 400_000, seed=5, forwards=True)
    ports = chain2(Queue(12_000, "port", slope), rate_bps=rate)
    ports[OUT] = replace(ports[OUT], seed=5)
    t_ns, rows = 0, []
    for seq in range(200):
        rows.append(FabricFrame(t_ns, 0, 1, chance.randrange(60, 1515), 0, chance.random() < 0.8, seq))
        t_ns += chance.randrange(1 + 12 * 790 * 10**9 // rate)
    run = run_fabric(NETS["chain2"], ports, rows)
    host = OraclePort(10 * rate, 1_000, AMPLE)
    first, second = run_chain([host, fifo], [OracleFrame(frame.t_ns, frame.length, frame.ect, frame.seq) for frame in rows])
    assert run.departures == {passage.frame.seq: passage.depart_ns for passage in first.passages}
    passed = {passage.frame.seq: (passage.arrive_ns, passage.ce) for passage in second.passages if not passage.dropped}
    assert {seq: (arrival.t_ns, arrival.ce) for seq, arrival in run.arrivals.items()} == passed
    assert second.drops and second.marks
