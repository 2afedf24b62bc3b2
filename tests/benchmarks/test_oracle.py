# SPDX-License-Identifier: Apache-2.0
"""The FIFO oracle against cases computed by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dc_gym.benchmarks.checks.oracle import OracleFrame, OraclePort, arrivals, run_chain, run_port

GBIT = 10**9
NO_LIMIT = 10**9


def frames(*rows: tuple[int, int], ect: bool = True) -> list[OracleFrame]:
    return [OracleFrame(t_ns, length, ect, seq) for seq, (t_ns, length) in enumerate(rows)]


def times(run):
    return [(passage.depart_ns, passage.end_ns, passage.arrive_ns) for passage in run.passages]


def test_a_lone_frame_takes_its_serialization_and_the_delay():
    run = run_port(OraclePort(GBIT, 1000, NO_LIMIT), frames((100, 1514)))
    assert times(run) == [(100, 12212, 13212)]


def test_a_burst_leaves_back_to_back_and_waits_meanwhile():
    run = run_port(OraclePort(GBIT, 0, NO_LIMIT), frames((0, 1000), (0, 500), (0, 250)))
    assert times(run) == [(0, 8000, 8000), (8000, 12000, 12000), (12000, 14000, 14000)]
    assert [run.backlog(t) for t in (-1, 0, 7999, 8000, 11999, 12000)] == [0, 750, 750, 250, 250, 0]


def test_the_frame_under_transmission_needs_no_room():
    """Limit 1000: the first frame starts at once, two of 500 wait, the fourth is dropped, and so is a small one."""
    run = run_port(OraclePort(GBIT, 0, 1000), frames((0, 500), (0, 500), (0, 500), (0, 500), (3999, 60), (4000, 500)))
    assert [passage.dropped for passage in run.passages] == [False, False, False, True, True, False]
    assert run.drops == 2
    assert run.passages[5].depart_ns == 12000


def test_room_is_counted_in_bytes_not_frames():
    run = run_port(OraclePort(GBIT, 0, 1000), frames((0, 60), (0, 900), (0, 101), (0, 100)))
    assert [passage.dropped for passage in run.passages] == [False, False, True, False]


def test_who_comes_first_in_the_same_nanosecond():
    rows = frames((0, 500), (0, 500), (4000, 600))
    host = run_port(OraclePort(GBIT, 0, 1000), rows)
    switch = run_port(OraclePort(GBIT, 0, 1000, forwards=True), rows)
    assert [passage.dropped for passage in host.passages] == [False, False, False]  # the second has left already
    assert [passage.dropped for passage in switch.passages] == [False, False, True]  # 500 + 600 > 1000


def test_marks_from_k_on():
    """K = 1000: the fourth finds exactly 1000 bytes waiting."""
    run = run_port(OraclePort(GBIT, 0, NO_LIMIT, mark_bytes=1000), frames((0, 500), (0, 500), (0, 500), (0, 500), (0, 500)))
    assert [passage.marked for passage in run.passages] == [False, False, False, True, True]


def test_marks_one_byte_below_k_not():
    run = run_port(OraclePort(GBIT, 0, NO_LIMIT, mark_bytes=1001), frames((0, 500), (0, 500), (0, 500), (0, 500)))
    assert run.marks == 0


def test_a_frame_that_cannot_be_marked_passes_above_k():
    run = run_port(OraclePort(GBIT, 0, NO_LIMIT, mark_bytes=100), frames((0, 500), (0, 500), (0, 500), ect=False))
    assert (run.marks, run.drops) == (0, 0)


def test_a_frame_may_be_marked_and_then_dropped():
    run = run_port(OraclePort(GBIT, 0, 1000, mark_bytes=500), frames((0, 500), (0, 500), (0, 501)))
    assert (run.passages[2].marked, run.passages[2].dropped) == (True, True)


@pytest.mark.parametrize("rate", [100 * GBIT, 40 * GBIT, 25 * GBIT, 7 * GBIT, 30_000_000, 999_999_937])
def test_fractions_do_not_drift(rate):
    """Frame n of a burst leaves at exactly n serialization times, rounded up to the clock once."""
    run = run_port(OraclePort(rate, 0, NO_LIMIT), frames(*[(0, 60)] * 10_000))
    serialization = Fraction(60 * 8 * 10**9, rate)
    expected = [-(-(n * serialization).numerator // (n * serialization).denominator) for n in range(10_000)]
    assert [passage.depart_ns for passage in run.passages] == expected


def test_less_than_a_nanosecond_late_is_back_to_back():
    """60 bytes at 100 Gbit/s are 4.8 ns: frames that come at 5, 10, 15 count from 4.8, 9.6, 14.4."""
    run = run_port(OraclePort(100 * GBIT, 0, NO_LIMIT), frames((0, 60), (5, 60), (10, 60), (15, 60)))
    assert [passage.end_ns for passage in run.passages] == [5, 10, 15, 20]
    late = run_port(OraclePort(100 * GBIT, 0, NO_LIMIT), frames((0, 60), (6, 60)))
    assert late.passages[1].end_ns == 11  # 6 + 4.8


def test_a_chain_of_equal_ports_queues_only_at_the_first():
    chain = run_chain([OraclePort(GBIT, 500, NO_LIMIT), OraclePort(GBIT, 500, NO_LIMIT, forwards=True)], frames(*[(0, 1000)] * 4))
    assert [passage.arrive_ns for passage in chain[1].passages] == [17000, 25000, 33000, 41000]
    assert [chain[1].backlog(t) for t in range(8500, 40000, 100)] == [0] * 315


def test_a_slower_port_queues_what_a_faster_one_delivers():
    chain = run_chain([OraclePort(2 * GBIT, 0, NO_LIMIT), OraclePort(GBIT, 0, 2000, forwards=True)], frames(*[(0, 1000)] * 8))
    second = chain[1]
    assert [passage.frame.t_ns for passage in second.passages] == [4000 * n for n in range(1, 9)]
    # two leave while four come: at 20 us 2000 bytes wait, and so from then on for every other frame
    assert [passage.dropped for passage in second.passages] == [False, False, False, False, True, False, True, False]
    assert [passage.depart_ns for passage in second.passages if not passage.dropped] == [4000, 12000, 20000, 28000, 36000, 44000]


def test_ports_meet_in_order_of_time():
    left = run_port(OraclePort(GBIT, 0, NO_LIMIT), [OracleFrame(0, 1000, False, 0), OracleFrame(0, 1000, False, 1)])
    right = run_port(OraclePort(GBIT, 0, NO_LIMIT), [OracleFrame(3000, 1000, True, 2)])
    assert [(frame.t_ns, frame.seq) for frame in arrivals([left, right])] == [(8000, 0), (11000, 2), (16000, 1)]
