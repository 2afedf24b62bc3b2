# SPDX-License-Identifier: Apache-2.0
"""Between the NIC's transport and its algorithm: what reaches it, when its decisions hold, and when probes go out."""

from itertools import pairwise

import pytest

pytestmark = pytest.mark.lab
LINE = 1 << 20
GBIT = 10**9

LATENCY = """
heard = tap("h1")
for latency in (0, 900, 50_000):
    nic.start("fixed", [Flow("h1", "h2", 100 * 1440, 50 * 1440)], latency_ns=latency, parameter_0=1 << 16)
    nic.post(0)
    nic.wait(0, 1)
    time.sleep(0.01)
    out[latency] = [t for frame, t in drain(heard) if len(frame) == FULL]
    nic.stop()
"""


def test_a_decision_holds_after_its_latency_and_not_before(in_nics):
    """The first packet's event asks for 1/16 of the line: until that decision holds, packets leave at line rate."""
    line_ns, paced_ns = 1514 * 8 / 10, 16 * 1514 * 8 / 10
    for latency, times in in_nics(LATENCY, hosts=2).items():
        fast = sum(after - before < 1.01 * line_ns for before, after in pairwise(times))
        assert abs(fast - int(latency) / line_ns) <= 1
        assert times[-1] - times[-2] == pytest.approx(paced_ns, rel=1e-4)
        assert len(times) == 100


LATE = """
nic.start("timely", [Flow("h1", "h2", 10**9)], trace=True, latency_ns=200_000, parameter_0=20_000, parameter_1=1, parameter_2=2,
          parameter_3=20_000, parameter_4=57344, parameter_5=1049, parameter_6=64, parameter_7=32768, parameter_8=655,
          parameter_9=5, parameter_10=5)
nic.post(0)
time.sleep(0.05)
nic.stop()
out = [[each.t_ns, each.rtt_ns, each.before, each.rate] for each in nic.decisions() if each.event == 6]
"""


def test_a_round_trip_is_as_long_as_it_was_however_late_it_is_told(in_nics):
    """Each round trip cuts by 1 %, which holds 200 us later; the network is idle, and the sender's packets do not count."""
    decisions = in_nics(LATE, hosts=2)
    assert len(decisions) > 100
    assert max(rtt_ns for _, rtt_ns, _, _ in decisions) < 30_000
    for (t_ns, _, before, rate), (later_ns, _, held, _) in pairwise(decisions):
        assert rate < before and held == rate and later_ns - t_ns >= 200_000, "one decision is under way at a time"


IN_TURN = """
for in_turn in (0, 1):
    nic.start("timely", [Flow("h1", "h2", 10**9) for _ in range(4)], trace=True, latency_ns=200_000, in_turn=in_turn,
              parameter_0=20_000, parameter_1=1, parameter_2=2, parameter_3=20_000, parameter_4=57344, parameter_5=1049,
              parameter_6=64, parameter_7=32768, parameter_8=655, parameter_9=5, parameter_10=5)
    for flow in range(4):
        nic.post(flow)
    time.sleep(0.03)
    nic.stop()
    out[in_turn] = [[each.flow, each.t_ns] for each in nic.decisions() if each.event == 6]
"""


def test_flows_of_a_nic_decide_side_by_side_or_in_turn(in_nics):
    """There are four flows. In turn, each waits for the three others once all have begun; its next event comes a little later."""
    for in_turn, decisions in in_nics(IN_TURN, hosts=2).items():
        gaps = []
        for flow in range(4):
            times = [t_ns for number, t_ns in decisions if number == flow]
            gaps += [after - before for before, after in pairwise(times)][2:]
        assert len(gaps) > 80 and min(gaps) > (3.9 if int(in_turn) else 1.0) * 200_000
        assert max(gaps) < (5.0 if int(in_turn) else 2.0) * 200_000


FEWER = """
for loss, coalesce in ((0, 1), (500_000, 1), (1_000_000, 1), (0, 4)):
    nic.start("dcqcn", [Flow("h1", "h3"), Flow("h2", "h3")], trace=True, event_loss_ppm=loss, event_coalesce=coalesce,
              cnp_interval_ns=0, parameter_0=4, parameter_1=10**9, parameter_3=10**9, parameter_5=5, parameter_8=10_000,
              parameter_9=0, parameter_10=1, parameter_14=1 << 20)
    for number in range(2):
        nic.post(number, 3_000)
    time.sleep(0.3)
    counts = [[row.cnps, row.sent_packets, row.decisions] for row in nic.senders]
    nic.stop()
    out[f"{loss} {coalesce}"] = [counts, [[each.event, each.flow, each.before, each.rate] for each in nic.decisions()]]
"""
CNP, TX = 2, 3


def test_events_are_lost_and_summed_up_as_asked_and_what_changed_something_is_traced(in_nics):
    answers = in_nics(FEWER, hosts=3, rate_bps=GBIT, buffer_bytes=4_000_000, marking="step", k_bytes=30_000)
    totals = {}
    for case, (counts, trace) in answers.items():
        cnps, sent, decisions = (sum(column) for column in zip(*counts, strict=True))
        totals[case] = [event for event, *_ in trace].count(CNP), cnps, decisions, sent
        assert cnps > 100
        first = {flow: event for event, flow, *_ in reversed(trace)}
        assert set(first.values()) <= {TX}
        assert sum(event == TX and before == rate for event, _, before, rate in trace) == len(first)
    assert totals["0 1"][0] == totals["0 1"][1]
    assert totals["0 1"][2] == totals["0 1"][1] + totals["0 1"][3]
    assert totals["1000000 1"][::2] == (0, 0)
    assert 0.4 < totals["500000 1"][0] / totals["500000 1"][1] < 0.6
    assert 0.4 < totals["500000 1"][2] / (totals["500000 1"][1] + totals["500000 1"][3]) < 0.6
    assert totals["0 4"][0] == sum(row[0] // 4 for row in answers["0 4"][0])
    assert totals["0 4"][2] == totals["0 4"][0] + totals["0 4"][3]  # bursts are another setting


QUEUE = """
flows = {"one": ["h1"], "two of a NIC": ["h1", "h1"], "two NICs": ["h1", "h2"]}
for case, senders, cost, queue in CASES:
    nic.start("fixed", [Flow(src, "h3", 1000 * 1440, 1000 * 1440) for src in flows[senders]], in_turn=1, event_cost_ns=cost,
              event_queue=queue, parameter_0=(1 << 20) // len(flows[senders]))
    for number in range(len(flows[senders])):
        nic.post(number)
    time.sleep(0.01)
    out[case] = [[row.sent_packets, row.decisions, row.lost_events] for row in nic.senders]
    nic.stop()
"""


def test_a_full_queue_loses_events_and_counts_them(in_nics):
    """A packet leaves each 1211 ns. If its event costs more, the processor never rests, and what it has no time for is lost."""
    packet_ns, cost_ns = 1514 * 8 / 10, 2000
    cases = [
        ("free", "one", 0, 4),
        ("fits", "one", 1100, 4),
        ("no limit", "one", cost_ns, 0),
        ("full", "one", cost_ns, 4),
        ("full, 256", "one", cost_ns, 256),
        ("one processor", "two of a NIC", cost_ns, 4),
        ("two processors", "two NICs", cost_ns, 4),
    ]
    counts = in_nics(f"CASES = {cases}\n" + QUEUE, hosts=3, buffer_bytes=4_000_000)
    for case, _, _, queue in cases:
        sent, decisions, lost = (sum(column) for column in zip(*counts[case], strict=True))
        assert sent == 1000 * len(counts[case])
        assert sent - 4 <= decisions + lost <= sent, "a few are summed up while a flow's first answer is under way"
        if case in ("full", "full, 256", "one processor"):
            assert decisions == pytest.approx(sent * packet_ns / cost_ns + queue, abs=4)
        else:
            assert not lost


COST = """
nic.start("fixed", [Flow("h1", "h2"), Flow("h1", "h2")], in_turn=1, latency_ns=3_000_000, event_cost_ns=2_000_000,
          parameter_0=1 << 16)
for number in range(2):
    nic.post(number)
began = time.monotonic_ns()
out["held"] = [0, 0]
while not all(out["held"]):
    time.sleep(100e-6)
    for number, row in enumerate(nic.senders):
        if row.rate < 1 << 20 and not out["held"][number]:
            out["held"][number] = time.monotonic_ns() - began
nic.stop()
"""


def test_an_answer_holds_when_the_event_and_those_before_it_have_been_dealt_with(in_nics):
    """Each flow's first event changes its rate, which takes 2 and 3 ms; the second flow's waits for the first's."""
    assert in_nics(COST, hosts=2)["held"] == pytest.approx([5e6, 10e6], abs=0.3e6)


PROBES = """
heard = tap("h1")
fabric.impair(3, time.monotonic_ns())
nic.start("timely", [Flow("h1", "h2", 1_440_000, 144_000)], probe_timeout_ns=100_000, parameter_0=20_000, parameter_1=50_000,
          parameter_2=500_000, parameter_3=20_000, parameter_4=57344, parameter_5=1049, parameter_6=64, parameter_7=32768,
          parameter_8=52429, parameter_9=5, parameter_10=5)
nic.post(0)
time.sleep(0.5)
out = {"frames": [[frame[43], t] for frame, t in drain(heard) if frame[36:38] == b"\\x12\\xb7"], "row": plain(nic.senders[0])}
nic.stop()
"""
DATA, PROBE, ANSWER = 1, 5, 6


def test_probes_follow_data_one_at_a_time_and_are_repeated_when_lost(in_nics):
    out = in_nics(PROBES, hosts=2, rate_bps=GBIT, loss_ppb=3 * 10**7)
    kinds = [kind for kind, _ in out["frames"]]
    row = out["row"]
    assert row["probes"] == kinds.count(PROBE) > row["rtts"] == kinds.count(ANSWER) > 50
    assert row["probe_bytes"] == 74 * row["probes"]
    sent = [kind for kind in kinds if kind in (DATA, PROBE)]
    assert all(before == DATA for before, after in pairwise(sent) if after == PROBE)
    under_way = None
    for kind, t_ns in out["frames"]:
        if kind == PROBE:
            assert under_way is None or t_ns - under_way >= 100_000
            under_way = t_ns
        elif kind == ANSWER:
            under_way = None
    # There: 2 x (592 + 2500) ns. The answer likewise; what data adds in front of the probe at the cable is its own queue.
    assert 2 * 2 * (592 + 2_500) <= row["least_rtt_ns"] <= 2 * 2 * (592 + 2_500) + 2 * 12_112


MARKED = """
heard = tap("h1")
nic.start("timely", [Flow("h1", "h2", 1_440_000, 144_000)], cnp_interval_ns=0, parameter_0=20_000, parameter_1=50_000,
          parameter_2=500_000, parameter_3=20_000, parameter_4=57344, parameter_5=1049, parameter_6=64, parameter_7=32768,
          parameter_8=52429, parameter_9=5, parameter_10=5)
nic.post(0)
nic.wait(0, 1)
time.sleep(0.01)
first = {}
for frame, _ in drain(heard):
    if frame[36:38] == b"\\x12\\xb7":
        first.setdefault(frame[43], bytearray(frame))
out = {}
for kind in (5, 1):
    first[kind][15] |= 3
    heard.send(first[kind])
    time.sleep(0.01)
    out[kind] = [frame[43] for frame, _ in drain(heard) if frame[36:38] == b"\\x12\\xb7"]
    out[f"{kind} row"] = [nic.receivers[0].marked_packets, nic.senders[0].cnps]
nic.stop()
"""
CNP_FRAME = 4


def test_a_marked_probe_is_answered_and_no_cnp_is_made_for_it(in_nics):
    """Data with a mark does cause a CNP, by the same way."""
    out = in_nics(MARKED, hosts=2, rate_bps=GBIT)
    assert (out["5"], out["5 row"]) == ([ANSWER], [0, 0])
    assert (out["1"], out["1 row"]) == ([CNP_FRAME], [1, 1])


SILENCE = """
from dc_gym.nets import nic_policy

nic_policy.write_table(nic_policy.load("rlcc-tree").table(), FOLDER / "table")
fabric.impair(3, time.monotonic_ns())
for patience in (0, 4):
    heard = tap("h1")
    nic.start("rlcc-tree", [Flow("h1", "h2")], trace=True, table=FOLDER / "table", probe_timeout_ns=10**6,
              probe_timeout_max_ns=2 * 10**6, parameter_0=2**32 - 1, parameter_1=2**32 - 1, parameter_2=1 << 20,
              parameter_3=patience)
    nic.post(0, 10**9)
    time.sleep(0.01)
    zero = time.time_ns() - time.monotonic_ns()
    nic.stop()
    probes = [t - zero for frame, t in drain(heard) if frame[36:38] == b"\\x12\\xb7" and frame[43] == 5]
    out[patience] = [probes, [[each.t_ns, each.event, each.flags, each.before, each.rate] for each in nic.decisions()]]
"""
BASE_NS = 20_000


def test_a_flow_that_hears_nothing_of_its_probes_is_told_so_and_cuts(in_nics):
    """All packets are lost. Probes are repeated after 1 ms, then every 2 ms, which is the most. Meanwhile the algorithm learns
    with each packet how long a probe has been under way."""
    traces = in_nics(SILENCE, hosts=2, loss_ppb=10**9)
    for patience, (probes, decided) in traces.items():
        gaps = [after - before for before, after in pairwise(probes)]
        assert len(gaps) >= 4 and 10**6 <= gaps[0] < 1.1 * 10**6
        assert all(2 * 10**6 <= gap < 2.5 * 10**6 for gap in gaps[1:])  # each behind a packet
        cuts = [(t, flags) for t, event, flags, before, rate in decided if rate < before]
        if patience == "0":
            assert not cuts and {flags for _, _, flags, *_ in decided} == {1}
            continue
        assert {flags for _, flags in cuts} == {4}
        waits = [(t - max(sent for sent in probes if sent <= t)) / BASE_NS for t, _ in cuts]
        assert waits[:7] == pytest.approx([4 * 1.5**number for number in range(7)], rel=0.05)
        assert max(waits) < 125 and len(cuts) > 20


CUT = """
heard = tap("h1")
nic.start("dcqcn", [Flow("h1", "h3"), Flow("h2", "h3")], trace=True, cnp_interval_ns=1_000_000, parameter_0=4,
          parameter_1=10**6, parameter_3=10**6, parameter_5=5, parameter_6=20_000, parameter_8=64,
          parameter_9=1023, parameter_10=1, parameter_14=1 << 20)
for number in range(2):
    nic.post(number, 10**9)
time.sleep(0.1)
zero = time.time_ns() - time.monotonic_ns()
nic.stop()
out["sent"] = [t - zero for frame, t in drain(heard) if len(frame) == FULL]
out["cuts"] = [[each.t_ns, each.before, each.rate] for each in nic.decisions() if (each.flow, each.event) == (0, 2)]
"""


def test_a_cut_acts_within_a_packet_or_two(in_nics):
    out = in_nics(CUT, hosts=3, rate_bps=GBIT, buffer_bytes=4_000_000, marking="step", k_bytes=30_000)
    assert len(out["cuts"]) > 5
    for t_ns, before, rate in out["cuts"]:
        assert rate < before
        gap_ns = 12_112 * LINE / rate
        assert sum(t_ns < sent < t_ns + gap_ns - 1_000 for sent in out["sent"]) <= 2
