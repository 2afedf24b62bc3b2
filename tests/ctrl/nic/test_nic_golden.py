# SPDX-License-Identifier: Apache-2.0
"""The NIC's algorithms against their float references, and the same decisions from BPF in a lab."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import nic_golden
import pytest

from dc_gym.base.errors import TestbedError, UsageError
from dc_gym.base.package import PROGRAMS
from dc_gym.ctrl.nic import algorithms, golden, kernels
from dc_gym.ctrl.nic.algorithms.dcqcn.reference import Dcqcn, short_alpha
from dc_gym.ctrl.nic.events import ACK, CNP, RTT, TX, NicEvent, NicFlow, Telemetry
from dc_gym.ctrl.nic.reference_telemetry import RATES
from dc_gym.nets import nic_kind

REFERENCED = [name for name in algorithms.names() if algorithms.reference_of(name)]
FLOW = NicFlow(20_000, 100_000, 1514, 2)


def loaded(name):
    return algorithms.load(name, PROGRAMS)


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Returns a function that returns an algorithm's cases."""
    folder = tmp_path_factory.mktemp("tables")
    folder.chmod(0o755)  # a lab that root starts runs as another user
    return cache(lambda name: tuple(nic_golden.of(loaded(name), 1, folder)))


def event(kind, now_ns, flags=0, **changes):
    return replace(NicEvent(kind, flags, now_ns, now_ns, 1, 0, 0, now_ns, 0, 0), **changes)


def decided(algorithm, events, **parameters):
    """Returns an algorithm's decisions on some events of one flow."""
    values = golden.values_of(algorithm, "") | parameters
    first = replace(events[0], flags=events[0].flags | golden.NEW_FLOW)
    return golden.decisions(golden.runner_argv(algorithm, values), [(event, FLOW) for event in (first, *events[1:])])


@pytest.mark.parametrize("name", REFERENCED)
def test_decisions_are_those_of_the_float_reference_and_alpha_is_the_recursion(name, cases):
    held_to_the_reference([case for case in cases(name) if not takes_long(case)])


@pytest.mark.long
def test_and_so_are_dcqcn_s_where_its_reference_takes_long(cases):
    held_to_the_reference([case for case in cases("dcqcn") if takes_long(case)])


def takes_long(case):
    """DCQCN's reference counts every timer of a silence. A flow that begins at a share has the shorter traces besides."""
    return case.algorithm.name == "dcqcn" and "from" in case.preset and case.kind in ("silent", "hostile")


def held_to_the_reference(held):
    assert held
    for case in held:
        comparison, wrong_alphas = nic_golden.against_reference(case)
        assert not comparison.broken and wrong_alphas == [], case.name
        assert comparison.decisions > 1000


def test_traces_reach_what_they_are_for():
    """Traces contain zeros, wraps of the clock, silences and losses; equal arguments make equal traces."""
    algorithm = loaded("swift")
    silent = golden.trace("silent", algorithm, 1)
    assert silent == golden.trace("silent", algorithm, 1) != golden.trace("silent", algorithm, 2)
    clocks = [event.now_ns for event, _ in silent]
    gaps = [(b - a) % 2**32 for a, b in pairwise(clocks)]
    assert max(gaps) > 2**31 and any(b < a for a, b in pairwise(clocks))
    lossy = golden.trace("lossy", algorithm, 1)
    assert len(lossy) < len(silent) and any(event.coalesced == 40 for event, _ in lossy)
    hostile = [flow for _, flow in golden.trace("hostile", algorithm, 1)]
    assert any(flow.base_rtt_ns == 0 for flow in hostile) or any(flow.hops == 0 for flow in hostile)


def test_a_wrong_decision_is_found(cases):
    (case, *_) = cases("timely")
    wrong = list(case.made)
    wrong[7] = replace(wrong[7], rate=wrong[7].rate - 100)
    assert golden.compare_with_reference("timely", case.steps, wrong, case.values).broken.startswith("line 8, NicEvent(")


def test_a_wrong_alpha_is_found(cases):
    (case, *_) = cases("dcqcn")
    wrong = [replace(row, state=(*row.state[:2], row.state[2] ^ 1 << 12, *row.state[3:])) for row in case.made]
    assert len(nic_golden.against_reference(replace(case, made=wrong))[1]) == len(wrong)


def test_alpha_of_ten_bits_ends_at_0_and_below_1():
    """Truncation has a cost: under marks alone, alpha stops rising at 769, where its next step is truncated to 0."""
    alpha, periods = 1023 / 1024, 0
    while alpha:
        alpha, periods = short_alpha(alpha, 4, False), periods + 1
    assert periods == 533
    for _ in range(5000):
        alpha = short_alpha(alpha, 4, True)
    assert alpha == 769 / 1024  # not 1023


@pytest.mark.parametrize(("hai_below", "steps"), [(0, [1] * 7), (1, [1] * 5 + [5] * 2)])
def test_timely_s_raises_below_its_thresholds_count_if_asked(hai_below, steps):
    """With the rules of HPCC's simulator the sixth raise in a row is the first of five steps, wherever the round trip is."""
    trips = [1_000_000] + [10_000] * 7
    events = [event(RTT, 2_000_000 * number, sent_ns=2_000_000 * number - trip) for number, trip in enumerate(trips, 1)]
    decisions = decided(loaded("timely"), events, reference_rtt=0, delta=1024, hai_after=6, hai_below=hai_below)
    assert [after.rate - before.rate for before, after in pairwise(decisions)] == [step * 1024 for step in steps]


def test_dcqcn_cuts_recovers_adds_and_adds_more():
    """The paper's stages, by the clock alone: five recoveries, one step of R_AI, then R_HAI."""
    period = 55_000
    ticks = [event(TX, 1 + number * period) for number in range(10)]
    decisions = decided(loaded("dcqcn"), [event(CNP, 1), event(CNP, 1), *ticks[1:]], byte_counter=0)
    line = 1 << 20
    assert decisions[0].rate == line / 2
    target = decisions[0].rate
    assert decisions[1].rate == target / 2
    assert [row.state[1] for row in decisions[2:7]] == [target] * 5
    gaps = [target - row.rate for row in decisions[1:7]]
    assert gaps[1:] == pytest.approx([gap / 2 for gap in gaps[:-1]], abs=1)
    steps = [after.state[1] - before.state[1] for before, after in pairwise(decisions[6:])]
    assert steps == [1049, 5243, 2 * 5243, 3 * 5243]


def test_dcqcn_catches_up_however_long_nothing_was_heard():
    """One long silence and the same silence in steps of a timer have the same result."""
    algorithm = loaded("dcqcn")
    start = [event(CNP, 0), event(CNP, 10_000), event(CNP, 20_000)]
    end_ns = 20_000 + 400 * 55_000
    steps = [event(TX, now) for now in range(75_000, end_ns + 1, 55_000)]
    slow, fast = decided(algorithm, start + steps)[-1], decided(algorithm, [*start, event(TX, end_ns)])[-1]
    assert (fast.state[1], *fast.state[3:]) == (slow.state[1], *slow.state[3:])
    assert fast.state[2] == pytest.approx(slow.state[2], rel=1e-5)  # alpha
    assert abs(fast.rate - slow.rate) <= 2


def test_swift_s_window_follows_its_target():
    algorithm = loaded("swift")
    calm = [event(RTT, 10**6 * number, sent_ns=10**6 * number - 20_000) for number in range(1, 4)]
    slow = [event(RTT, 10**7 + 10**6 * number, sent_ns=10**7 + 10**6 * number - 400_000) for number in range(20)]
    decisions = decided(algorithm, calm + slow)
    packets = 100_000 * 20_000 / 8000 / 1514  # one round trip at line rate
    assert decisions[2].window_bytes == pytest.approx(packets * 1514, rel=1e-4)
    assert decisions[3].window_bytes / decisions[2].window_bytes == pytest.approx(0.5, abs=1e-5)
    assert all(row.probe for row in decisions)
    assert decisions[-1].window_bytes == 1514 and decisions[-1].rate < 2**20 / 20


def test_swift_on_pcc_has_a_rate_alone_which_probes_raise():
    """The rate is the window over the round trip. ACKs change nothing, each probe below target adds a packet."""
    algorithm = loaded("swift")
    values = golden.values_of(algorithm, "pcc")
    assert {name: value for name, value in values.items() if value != golden.values_of(algorithm, "paper")[name]} == {
        "rate_only": 1
    }
    probes = [event(RTT, 10**6 * number, sent_ns=10**6 * number - 30_000) for number in range(1, 5)]
    acks = [event(ACK, 4 * 10**6 + number, packets=16, bytes=16 * 1514) for number in range(5)]
    decisions = decided(algorithm, probes + acks, **values)
    packets = 100_000 * 20_000 / 8000 / 1514
    for number, row in enumerate(decisions[:4], 1):
        assert row.rate / 2**20 == pytest.approx((packets + number) * 1514 / (FLOW.line_mbps * 30_000 / 8000), rel=1e-4)
    assert {(row.rate, row.window_bytes) for row in decisions[3:]} == {(decisions[3].rate, 0)}
    assert all(row.window_bytes == 0 and row.probe for row in decisions)
    late = event(RTT, 10**7, sent_ns=10**7 - 400_000)
    assert decided(algorithm, [*probes, late], **values)[-1].state[0] == pytest.approx((packets + 4) / 2 * 2**20, rel=1e-4)


def test_a_held_swift_rate_follows_its_window_alone():
    """The round trip does not change it, each probe below target adds a packet a base round trip, and the line is its end."""
    algorithm = loaded("swift")
    values = golden.values_of(algorithm, "held") | {"rate_initial": 2**18}
    rtts_ns = (20_000, 40_000, 30_000)
    decisions = decided(algorithm, [event(RTT, 10**6 * n, sent_ns=10**6 * n - rtt) for n, rtt in enumerate(rtts_ns, 1)], **values)
    packets = 100_000 * 20_000 / 8000 / 1514
    for number, row in enumerate(decisions, 1):
        assert row.rate / 2**20 == pytest.approx((packets / 4 + number) / packets, rel=1e-3) and row.window_bytes == 0
    many = [event(RTT, 10**6 * number, sent_ns=10**6 * number - 20_000) for number in range(1, 200)]
    slow = event(RTT, 10**9, sent_ns=10**9 - 400_000)
    full, cut = decided(algorithm, [*many, slow], **values)[-2:]
    assert full.rate == pytest.approx(2**20, abs=1) and cut.rate == pytest.approx(2**19, rel=0.01)


def test_a_swift_flow_may_begin_at_its_share():
    """Its first window is a share of the usual one; below a packet, and with preset pcc, that is a rate."""
    algorithm = loaded("swift")
    line, packets = 100_000 * 20_000 / 8000, 100_000 * 20_000 / 8000 / 1514
    first = [event(TX, 0, packets=1, bytes=1514)]
    (half,) = decided(algorithm, first, rate_initial=2**19)
    assert (half.rate, half.window_bytes) == (2**20, pytest.approx(line / 2, rel=1e-4))
    (little,) = decided(algorithm, first, rate_initial=2**10)
    assert little.window_bytes == 1514 and little.rate == pytest.approx(2**10, rel=0.01)
    assert packets / 2**10 < 1
    (paced,) = decided(algorithm, first, **golden.values_of(algorithm, "pcc") | {"rate_initial": 2**18})
    assert paced.window_bytes == 0 and paced.rate == pytest.approx(2**18, rel=1e-4)


@pytest.mark.parametrize("preset", ["paper", "firmware"])
def test_a_dcqcn_flow_that_begins_at_its_share_rises_before_its_first_mark(preset):
    """Timers run from its first event on, alpha counts from its first mark on; from the line nothing moves before a mark."""
    algorithm = loaded("dcqcn")
    values = golden.values_of(algorithm, preset)
    sent = [event(TX, 10**6 * number, packets=1, bytes=1514) for number in range(40)]
    assert {row.rate for row in decided(algorithm, sent, **values)} == {2**20}
    rates = [row.rate for row in decided(algorithm, sent, **values | {"rate_initial": 2**14})]
    assert rates[0] == 2**14 and rates == sorted(rates) and rates[-1] > 1.05 * 2**14
    marked = [*sent[:2], *(event(CNP, 10**6 + number, packets=0) for number in (0, 10_000)), event(TX, 10**6 + 20_000, packets=1)]
    before, *_, after = decided(algorithm, marked, **values | {"rate_initial": 2**14})
    alpha = values["alpha_initial"] / 1024
    assert after.rate <= before.rate * (1 - alpha / 2) * 1.05


@pytest.mark.parametrize("name", ["timely", "timely-patched"])
def test_timely_s_times_scale_with_the_flow_s_base_round_trip(name):
    """The same inflation at ten times the round trip gives the same decision."""
    algorithm = loaded(name)
    rtts = [25_000, 60_000, 80_000, 75_000, 70_000, 65_000, 300_000, 700_000, 40_000]
    values = golden.values_of(algorithm, "")
    runs = []
    for factor in (1, 10):
        flow = replace(FLOW, base_rtt_ns=20_000 * factor)
        events = [event(RTT, 10**7 * n, sent_ns=10**7 * n - rtt * factor) for n, rtt in enumerate(rtts, 1)]
        steps = [(replace(rtt_event, flags=int(n == 0)), flow) for n, rtt_event in enumerate(events)]
        runs.append([row.rate for row in golden.decisions(golden.runner_argv(algorithm, values), steps)])
    assert runs[0] == pytest.approx(runs[1], abs=1)
    assert len(set(runs[0])) > 4


def test_a_runner_says_what_is_wrong_with_its_input():
    argv = golden.runner_argv(loaded("fixed"), {"rate": 63})
    with pytest.raises(TestbedError, match=r"ccrun-fixed: rate: 63.*64\.\.1048576"):
        golden.decisions(argv, [])
    argv = golden.runner_argv(loaded("timely"), {"reference_rtt": 1})
    with pytest.raises(TestbedError, match="12 numbers"):
        golden.decisions(argv, [])


@pytest.mark.lab
def test_a_lab_s_bpf_decides_as_userspace_does(cases):
    first = {name: cases(name)[:4] for name in REFERENCED}  # one preset, all kinds
    short = [replace(case, steps=case.steps[:300], made=case.made[:300]) for some in first.values() for case in some]
    assert list(nic_golden.differing(kernels.run_in_lab, short)) == []
    wrong = replace(short[0], made=[replace(row, rate=row.rate + 1) for row in short[0].made])
    assert len(list(nic_golden.differing(kernels.run_in_lab, [wrong]))) == 1


@pytest.mark.lab
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", algorithms.names())
def test_three_seeds_in_every_machine(tmp_path, name):
    """Machine code of a lab's kernel, a lab's BPF and, where permitted, this machine's decide as userspace, bit for bit."""
    tmp_path.chmod(0o755)
    algorithm = loaded(name)
    traces = list(nic_golden.of(algorithm, 3, tmp_path))
    if name in REFERENCED:
        held_to_the_reference(traces)
    assert list(nic_golden.differing(kernels.run_in_lab, traces)) == []
    if algorithm.native:
        assert list(nic_golden.differing(kernels.run_in_lab, traces, native=True)) == []
    if not kernels.reason_not_here():
        assert list(nic_golden.differing(kernels.run_here, traces)) == []
    if (reference := nic_kind.reference_of(name)) is not None:
        count, most, wrong = nic_golden.kind_distances(traces)
        assert count > 2000 and most < reference.output_bound and not wrong


@pytest.mark.lab
def test_a_program_that_the_verifier_refuses_is_shown_with_its_words():
    none = PROGRAMS / "none.bpf.o"
    with pytest.raises(UsageError, match="No such file"):
        kernels.load(kernels.run_in_lab, [kernels.arguments(none)])
    (programs,) = kernels.load(kernels.run_in_lab, [kernels.arguments(PROGRAMS / "cctest-dcqcn.bpf.o")])
    test, null = programs
    assert test.name == "nic_test" and null.instructions < test.instructions < 1000
    assert 0 < null.verified < test.verified < 1_000_000


def test_the_reference_of_alpha_is_not_the_header_s():
    """The reference expires one period at a time; if it were the header's code, the comparison could not fail."""
    reference = Dcqcn(golden.values_of(loaded("dcqcn"), "firmware") | {"g": 4, "alpha_timer": 10, "monitor_period": 0})
    reference.on_event(event(CNP, 0), FLOW)
    for period in range(1, 20):
        before = reference.alpha
        reference.on_event(event(TX, 10 * period), FLOW)
        assert reference.alpha == short_alpha(before, 4, False)


# --- telemetry


GBPS = 10**9
PLACE = {rate.rate_bps: index for index, rate in enumerate(RATES)}
BASE_NS, LINE_BPS = 20_000, 100 * GBPS


def ack(number, *ports, now_ns=None, acked=None, sent=None):
    """Returns an ACK with records of ports: (rate in bit/s, time in ns, bytes sent, queue in bytes)."""
    records = [RATES[PLACE[rate]].record(PLACE[rate], *rest) for rate, *rest in ports]
    acked = number if acked is None else acked
    telemetry = Telemetry(acked, acked if sent is None else sent, len(records), (*records, *[0] * (5 - len(records))))
    return event(ACK, BASE_NS * number if now_ns is None else now_ns, telemetry=telemetry)


def steady(count, share=1.0, queue=0, time_ns=0, sent=0, step_ns=BASE_NS, **rest):
    """Returns ACKs a base round trip apart, of a port of 100 Gbit/s that sends a share of its line and has a constant queue."""
    rate = int(LINE_BPS / 8e9 * step_ns * share)
    return [
        ack(n, (LINE_BPS, time_ns + n * step_ns, sent + n * rate, queue), now_ns=n * step_ns, **rest) for n in range(1, count + 1)
    ]


def hpcc(events, **parameters):
    return decided(loaded("hpcc"), events, **parameters)


@pytest.mark.parametrize("name", ["hpcc", "powertcp"])
def test_wraps_of_a_port_s_clock_and_counter_change_no_decision(name):
    plain = decided(loaded(name), steady(20, 1.0, 64_000))
    unit = RATES[PLACE[LINE_BPS]].sent_bytes
    for time_ns, sent in ((2**24 - 10**5, 0), (0, (2**20 - 2000) * unit), (2**24 * 7 - 50_000, (3 * 2**20 - 4000) * unit)):
        turned = decided(loaded(name), steady(20, 1.0, 64_000, time_ns, sent))
        assert [row.rate for row in turned] == [row.rate for row in plain]
    assert len({row.rate for row in plain}) > 3


def test_hpcc_s_window_is_the_law_s():
    """One port, once a round trip: U is the share of the line plus the queue over line rate x T."""
    line, eta, step = 2**20, 0.95, 0.05 / 100
    first, second, *_ = hpcc(steady(3, 1.0, LINE_BPS // 8 * BASE_NS // 10**9))
    assert (first.rate, first.window_bytes) == (line, LINE_BPS // 8 * BASE_NS // 10**9 + 1513)
    assert second.rate / line == pytest.approx(eta / 2 + step, abs=5e-4)
    assert second.window_bytes == pytest.approx(second.rate / line * 250_000 + 1513, abs=3)


def test_hpcc_raises_max_stage_times_and_then_multiplies():
    idle = steady(8, 0.5)
    rates = [row.rate / 2**20 for row in hpcc([*steady(2, 1.0, 500_000), *[ack_after(step, 2) for step in idle]], eta=996147)]
    raises = [after - before for before, after in pairwise(rates[1:])]
    assert raises[:5] == pytest.approx([0.0005] * 5, abs=1e-5)
    assert raises[5] > 0.1
    always = [row.rate for row in hpcc(steady(4, 0.5), max_stage=0)]
    assert always[-1] == 2**20


def ack_after(ack, number):
    """Returns an ACK as if `number` base round trips had been before it."""
    header, units = ack.telemetry, RATES[PLACE[LINE_BPS]]
    time_ns, sent = (ack.now_ns + number * BASE_NS), (header.records[0] >> 17) % 2**20 * units.sent_bytes + number * 250_000
    record = units.record(PLACE[LINE_BPS], time_ns, sent, 0)
    header = replace(header, acked_psn=header.acked_psn + number, sent_psn=header.sent_psn + number, records=(record, 0, 0, 0, 0))
    return replace(ack, now_ns=time_ns, first_ns=time_ns, telemetry=header)


def test_hpcc_s_reference_window_changes_once_a_round_trip():
    """ACKs of packets that were sent before W_c changed start from W_c: they do not cut again."""
    quick = steady(40, 1.0, 250_000, step_ns=BASE_NS // 20, acked=1, sent=100)
    rates = [row.rate for row in hpcc(quick)]
    assert rates[-1] / 2**20 == pytest.approx(0.95 / 2, abs=0.05) and rates[-1] < rates[1]
    windows = {row.state[0] for row in hpcc(quick)}
    assert len(windows) <= 2


@pytest.mark.parametrize("name", ["hpcc", "powertcp"])
def test_what_cannot_be_compared_decides_nothing(name):
    """Records after a silence of half a turn, of another number of ports, of another rate, or none."""
    before = steady(5, 1.0, 250_000)
    base = decided(loaded(name), before)[-1]
    at = 6 * BASE_NS
    others = [
        ack(6, (LINE_BPS, 2**24, 10**7, 0), now_ns=5 * BASE_NS + 2**23),
        ack(6, (LINE_BPS, at, 10**7, 0), (LINE_BPS, at, 10**7, 0)),
        ack(6, (25 * GBPS, at, 10**7, 0)),
        ack(6),
    ]
    for other in others:
        last = decided(loaded(name), [*before, other])[-1]
        assert (last.rate, last.window_bytes) == (base.rate, base.window_bytes)
    assert decided(loaded(name), [*before, ack(6, (LINE_BPS, at, 6 * 250_000, 0))])[-1].rate != base.rate


def test_a_port_s_busiest_hop_decides():
    calm, busy = ((LINE_BPS, BASE_NS, 125_000, 0), (25 * GBPS, BASE_NS, 62_500, 62_500))
    start = ((LINE_BPS, 0, 0, 0), (25 * GBPS, 0, 0, 62_500))
    rate = hpcc([ack(1, *start, now_ns=0), ack(2, calm, busy, now_ns=BASE_NS)])[-1].rate
    assert rate / 2**20 == pytest.approx(0.95 / 2 + 0.0005, abs=5e-4)


def test_powertcp_s_window_is_the_law_s():
    """Power is the current, what is sent and what the queue grows by, times the voltage."""
    bdp = 250_000
    steps = [ack(1, (LINE_BPS, 0, 0, 0), now_ns=0), ack(2, (LINE_BPS, BASE_NS, bdp, bdp // 2), now_ns=BASE_NS)]
    power = 1.5 * 1.5
    decision = decided(loaded("powertcp"), steps)[-1]
    assert decision.rate / 2**20 == pytest.approx(0.9 * (1 / power + 0.01) + 0.1, abs=1e-3)


def test_the_next_flow_of_a_queue_pair_goes_on_with_its_own_packet_numbers():
    """W_c changes again with the first ACK, however far the flow before had come."""
    before = steady(5, 1.0, 250_000, acked=10**6, sent=10**6 + 100)
    after = ack(6, (LINE_BPS, 6 * BASE_NS, 6 * 250_000, 0), acked=1, sent=20)
    decisions = hpcc([*before, after])
    assert decisions[-1].state[3] == 20 and decisions[-1].state[0] != decisions[-2].state[0]
